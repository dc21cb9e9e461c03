//! Packets kept for a capture file: what passed a link, and when.
//!
//! The simulator hands out meanings, not bytes; the crate `narrows-capture` turns them into bytes.

use narrows_units::Time;

use crate::transport::tcp;

/// A packet that a captured link has transmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When its last bit left: the end of its transmission.
    pub at: Time,
    /// The link: an index into [`Plan::links`](crate::plan::Plan::links).
    pub link: u32,
    /// The host that sent it: an index into [`Plan::nodes`](crate::plan::Plan::nodes).
    pub from: u32,
    /// The host that is to get it: an index into [`Plan::nodes`](crate::plan::Plan::nodes).
    pub to: u32,
    /// Source and destination port; of a router's message, those of its connection.
    pub ports: (u16, u16),
    /// Routers that it has passed.
    pub routers: u8,
    /// What it was.
    pub frame: Frame,
    /// Of a TCP segment: the DNS messages of which it carries something, in their order.
    pub said: Vec<Said>,
}

/// What a captured packet carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// A datagram.
    Udp {
        /// IP packet length; of a fragment, that of its whole datagram.
        ip_bytes: u16,
        /// The ECN field (RFC 3168, section 5).
        ecn: u8,
        /// The DNS message in it.
        dns: Option<Dns>,
        /// Which part of the datagram it is; `None`: all of it.
        part: Option<Part>,
    },
    /// ARP between two routers (RFC 826).
    Arp {
        /// A reply; otherwise a request.
        reply: bool,
        /// A request to all.
        broadcast: bool,
    },
    /// A router's message that a TCP segment was longer than a link takes (RFC 1191, section 4).
    TooBig {
        /// IP packet length.
        ip_bytes: u16,
        /// The node that sends it: an index into [`Plan::nodes`](crate::plan::Plan::nodes).
        router: u32,
        /// What the link takes.
        mtu: u16,
        /// The segment, as far as it is quoted.
        quoted: Quoted,
    },
}

/// What a router's message quotes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// IP packet length.
    pub ip_bytes: u16,
    /// Sequence number.
    pub seq: tcp::Seq,
    /// Acknowledgement number.
    pub ack: tcp::Seq,
    /// Control flags.
    pub flags: tcp::Flags,
    /// The window as in the header.
    pub window: u16,
    /// Whether it has the timestamps option (RFC 7323).
    pub has_timestamps: bool,
}

/// A fragment (RFC 791, 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Tells the fragments of datagrams apart that are under way at the same time.
    pub number: u16,
    /// IP packet length.
    pub ip_bytes: u16,
    /// Where its payload begins in the datagram's, in bytes.
    pub offset: u16,
    /// Whether others follow.
    pub more: bool,
}

/// A DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dns {
    /// The query's number in the whole run.
    pub query: u32,
    /// Which attempt at the query, from 1.
    pub attempt: u8,
    /// Whether this is the server's reply; otherwise the client's query.
    pub reply: bool,
    /// Whether the reply is truncated.
    pub truncated: bool,
    /// IP packet length of the query over UDP.
    pub query_bytes: u16,
}

/// A DNS message over TCP, as far as a segment carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The message.
    pub dns: Dns,
    /// Where the two bytes of length before it (RFC 1035, 4.2.2) begin in the segment's payload;
    /// below zero: in an earlier segment.
    pub at: i64,
    /// Bytes of the whole message, with these two.
    pub bytes: u32,
}
