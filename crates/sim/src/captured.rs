//! Packets kept for a capture file: what passed a link or a place, and when.
//!
//! The simulator returns values, not bytes; the crate `narrows-capture` turns them into bytes.

pub use narrows_apps::record::Content;
use narrows_transport::tcp;
use narrows_units::Time;

/// A packet that a captured link has transmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When its transmission ended: the time at which its last bit left. If it is inbound, when it
    /// arrived.
    pub at: Time,
    /// Whether it is seen where its link ends. Otherwise it is seen where its link begins.
    pub inbound: bool,
    /// The link: an index into [`Plan::links`](crate::plan::Plan::links).
    pub link: u32,
    /// The host that sent it: an index into [`Plan::nodes`](crate::plan::Plan::nodes).
    pub from: u32,
    /// The host that it is addressed to: an index into [`Plan::nodes`](crate::plan::Plan::nodes).
    pub to: u32,
    /// The source and the destination port. A router's message has those of its connection.
    pub ports: (u16, u16),
    /// Its Differentiated Services code point (RFC 2474, section 3).
    pub dscp: u8,
    /// The number of routers that it has passed.
    pub routers: u8,
    /// Its content.
    pub frame: Frame,
    /// For a TCP segment: the messages of which it carries a part, in order.
    pub said: Vec<Said>,
}

/// The content of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// A datagram.
    Udp {
        /// The length of the IP packet; for a fragment, that of the whole datagram.
        ip_bytes: u16,
        /// The ECN field (RFC 3168, section 5).
        ecn: u8,
        /// The message in it, if it is a query or a reply.
        content: Option<Content>,
        /// Which part of the datagram it is; `None`: the whole.
        part: Option<Part>,
    },
    /// ARP between two routers (RFC 826).
    Arp {
        /// Whether it is a reply. Otherwise it is a request.
        reply: bool,
        /// Whether it is broadcast. Only requests are.
        broadcast: bool,
    },
    /// A router's message that a TCP segment was too long for a link (RFC 1191, section 4).
    TooBig {
        /// The length of the IP packet.
        ip_bytes: u16,
        /// The node that sent it: an index into [`Plan::nodes`](crate::plan::Plan::nodes).
        router: u32,
        /// The link's MTU.
        mtu: u16,
        /// The part of the segment that it quotes.
        quoted: Quoted,
    },
}

/// The part of a segment that a router's message quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// The length of the IP packet.
    pub ip_bytes: u16,
    /// Sequence number.
    pub seq: tcp::Seq,
    /// Acknowledgement number.
    pub ack: tcp::Seq,
    /// Control flags.
    pub flags: tcp::Flags,
    /// The window as it stands in the header.
    pub window: u16,
    /// Whether it has the timestamps option (RFC 7323).
    pub has_timestamps: bool,
}

/// A fragment (RFC 791, 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The datagram's identification: it tells apart the fragments of datagrams under way at the
    /// same time.
    pub number: u16,
    /// The length of the IP packet.
    pub ip_bytes: u16,
    /// Where its payload begins in the datagram's payload, in bytes.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
}

/// A message over TCP of which a segment carries a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The message.
    pub content: Content,
    /// Where the two bytes of length that precede it (RFC 1035, 4.2.2) begin in the segment's
    /// payload. Negative: in an earlier segment.
    pub at: i64,
    /// The length of the whole message in bytes, including these two.
    pub bytes: u32,
}
