//! What a server that keeps no state of connections makes of messages on a stream: it asks its
//! application by datagram, as the gateway does (gateway/PROTOCOL.md).

use crate::{Message, dns};

/// Returns the query to ask by datagram for a query on a stream that takes `whole` bytes with its
/// length prefix. Returns `None` for what only a connection can carry: zone transfers, and queries
/// longer than a kilobyte.
pub fn by_datagram(query: &Message, whole: u64) -> Option<Message> {
    let whole = u32::try_from(whole).ok().filter(|&whole| whole <= u32::from(LONGEST))?;
    (!dns::is_transfer(query)).then(|| Message {
        bytes: whole - dns::LENGTH,
        notes: dns::exchange::Wanted::of(query).taking(ASKED_SIZE).notes(),
        ..*query
    })
}

/// Returns the reply with its length prefix, as it goes over the stream. Returns `None` if it is
/// truncated, so that only a connection can carry the whole.
pub fn on_stream(reply: &Message) -> Option<Message> {
    (!dns::is_truncated(reply)).then(|| Message { bytes: dns::LENGTH + reply.bytes, ..*reply })
}

/// The longest query that is kept, with its prefix.
pub const LONGEST: u16 = 1024;
/// `edns_size`: the reply size that the server is told.
const ASKED_SIZE: u16 = 65_500;
