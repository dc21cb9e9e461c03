//! QUIC (RFC 9000): a state machine for each end, which does no I/O.
//!
//! ```text
//!   client                                              server
//!   Initial: hello, padding             ----------->
//!   (0-RTT: queries)
//!                                       <-----------    Initial: hello
//!                                                       Handshake: certificate, finished
//!   Handshake: finished                 ----------->
//!   1-RTT: queries                      <-----------    1-RTT: done, tickets, replies
//! ```
//!
//! Sources: RFC 9000 (packets, frames, streams, the amplification limit, timeouts), RFC 9001
//! (which keys an end has when), RFC 9002 (round trips, losses, probes, NewReno, pacing), RFC 9438
//! (CUBIC), RFC 9250 (a stream for each query), RFC 8899 (the search for longer datagrams).
//!
//! Differences: nothing is encrypted, so nothing fails, and a packet is a list of frames with the
//! length that it would have. A server drops 0-RTT packets that arrive before any Initial packet; RFC
//! 9000, 5.2.2, lets it keep some. There is no Retry, no address token, no version negotiation, no
//! migration, no key update, and no flow control: the windows and the stream limits of both ends
//! are wide. A closed end answers what still arrives until the other end has ended too.

mod config;
mod congestion;
mod endpoint;
mod frames;
mod path_mtu;
mod ranges;
mod recovery;
mod space;
mod streams;
#[cfg(test)]
mod tests;

pub use crate::congestion::SlowStart;
pub use config::{Config, Congestion, LEAST_PAYLOAD, Probes};
pub use endpoint::{End, Endpoint};
pub use frames::{Datagram, varint};
