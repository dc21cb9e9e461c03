//! The user-space data path for kernels without XDP: Huston's proxy (Hayes, Rossi, Armitage 2010,
//! section II), with the protocol of this gateway.
//!
//! ```text
//! client --TCP--> link --packets--> core --queries--> UDP socket --> server
//!                                   core <--answers-- UDP socket
//!                 link <--packets-- core
//!                 link <----------- stream <--bytes--> TCP socket   (what is unusual)
//! ```
//!
//! The core ([`crate::core`]) makes the decisions; this module provides its surroundings. Packets
//! for a service address, which must not belong to the kernel, come from a TUN device or a packet
//! socket ([`link`]). Queries go to the server over ordinary UDP sockets, so the server sees the
//! gateway's address. Where the in-kernel path leaves a connection to the server's own listener,
//! this path continues it with a TCP endpoint of its own ([`stream`]) and relays its bytes to a
//! connection to the server.
//!
//! One thread waits for all of it with epoll. A packet takes it a few microseconds, and nothing
//! blocks.

pub mod batch;
mod fragments;
pub mod link;
mod path;
pub mod peer;
mod poller;
pub mod proxied;
pub mod publish;
mod random;
mod relay;
pub mod stream;
mod upstream;

pub use path::{DataPath, PathCounters, Source};
