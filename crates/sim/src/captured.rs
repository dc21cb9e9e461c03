//! Packets kept for a capture file: what passed a link, and when.
//!
//! The simulator hands out meanings, not bytes; the crate `narrows-capture` turns them into bytes.

use narrows_units::Time;

use crate::tcp;

/// A packet that a captured link has transmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When its last bit left: the end of its transmission.
    pub at: Time,
    /// The link: an index into [`Plan::links`](crate::plan::Plan::links).
    pub link: u32,
    /// What it was.
    pub frame: Frame,
}

/// What a captured packet carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A TCP segment.
    Tcp {
        /// An index into [`Plan::connections`](crate::plan::Plan::connections).
        connection: u32,
        /// Whether the data's sender sent it; otherwise the data's receiver did.
        from_sender: bool,
        /// The segment.
        segment: tcp::Segment,
    },
    /// A DNS message.
    Dns {
        /// An index into [`Plan::resolvers`](crate::plan::Plan::resolvers).
        resolvers: u32,
        /// The worker, counted within its group.
        worker: u32,
        /// The query's number in the whole run.
        query: u32,
        /// Which attempt at the query, from 1.
        attempt: u8,
        /// Whether this is the server's reply; otherwise the client's query.
        reply: bool,
        /// IP packet length.
        ip_bytes: u16,
        /// Whether a queue on the way set Congestion Experienced.
        ce: bool,
    },
}
