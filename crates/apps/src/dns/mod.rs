//! DNS: clients, and the servers that they ask.
//!
//! A query's message tells the server what to answer and what fits, encoded in its notes by
//! `exchange::Wanted`, or by `transfer` for zone transfers. A reply's second note says whether it
//! is truncated. Tags are rows of the table `attempts`.

pub mod client;
mod connections;
pub mod exchange;
pub mod http3;
pub mod https;
pub mod server;
pub(super) mod slab;

use crate::Message;

/// The server's port (RFC 1035, 4.2).
pub const PORT: u16 = 53;

/// The server's port for TLS (RFC 7858, 3.1).
pub const TLS_PORT: u16 = 853;

/// The server's port for HTTPS, over TCP (RFC 9110, 4.2.2) or QUIC (RFC 9114, 3.1).
pub const HTTPS_PORT: u16 = 443;

/// The length of a DNS message without its question (RFC 1035, 4.1.1).
pub const HEADER: u32 = 12;

/// The length field that precedes a message over TCP, in bytes (RFC 1035, 4.2.2).
pub const LENGTH: u32 = 2;

/// The longest reply that a client without EDNS accepts over UDP (RFC 1035, 2.3.4).
pub const WITHOUT_EDNS: u16 = 512;

/// In a reply's second note: TC is set. In a query's: the shorter reply over UDP would have TC set.
pub const TRUNCATED: u32 = 1 << 16;

/// In a query's second note over TCP: it asks for a zone.
pub(crate) const TRANSFER: u32 = 1 << 31;

/// In a query's second note over TCP: it is padded, so the reply may be padded too (RFC 7830,
/// section 4).
pub const PADDED: u32 = 1 << 30;

/// In a query's second note over TLS: it came in an HTTP request, and its reply goes in a response.
pub(crate) const HTTPS: u32 = 1 << 29;

/// Returns the length of a message with the padding option, a multiple of `block` (RFC 8467,
/// section 4.1).
pub(crate) fn padded(message: u32, block: u32) -> u32 {
    const OPTION: u32 = 4;
    (message + OPTION).next_multiple_of(block.max(1)).min(u32::from(u16::MAX))
}

/// Returns whether a query over TCP asks for a zone.
pub fn is_transfer(query: &Message) -> bool {
    query.notes[1] & TRANSFER != 0
}

/// Returns whether a query has padding (RFC 7830).
pub fn is_padded(query: &Message) -> bool {
    query.notes[1] & PADDED != 0
}

/// Returns whether a reply is truncated.
pub fn is_truncated(reply: &Message) -> bool {
    reply.notes[1] & TRUNCATED != 0
}
