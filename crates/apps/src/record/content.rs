//! What a captured message says.

use super::Records;
use crate::{Message, dns};

/// A message of a query or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The query's number in the whole run.
    pub query: u32,
    /// Which attempt at the query, from 1.
    pub attempt: u8,
    /// Whether this is the server's reply. Otherwise it is the client's query.
    pub reply: bool,
    /// Whether the reply is truncated.
    pub truncated: bool,
    /// The length of the query as an IP packet over UDP.
    pub query_bytes: u16,
}

impl Records {
    /// Returns what a message with this tag says, or `None` if no attempt has it.
    pub fn content(&self, tag: u32, reply: bool) -> Option<Content> {
        let attempt = self.attempts.get(tag as usize)?;
        let (query, query_bytes) = (attempt.query, attempt.query_bytes);
        Some(Content { query, attempt: attempt.attempt, reply, truncated: false, query_bytes })
    }

    /// Returns what a datagram's message says.
    pub fn content_of(&self, message: &Message, reply: bool) -> Option<Content> {
        let truncated = reply && dns::is_truncated(message);
        Some(Content { truncated, ..self.content(message.tag, reply)? })
    }
}
