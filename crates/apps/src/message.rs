//! What applications exchange, and what they learn about losses.

use crate::socket::Association;

/// A message of an application: a number of bytes, and what both ends know about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The payload in bytes.
    pub bytes: u32,
    /// The sender's number for it.
    pub tag: u32,
    /// Further content. The applications define what it means.
    pub notes: [u32; 2],
}

/// A datagram that has arrived or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The association it belongs to.
    pub association: Association,
    /// The socket at the first end that sent the datagram or should receive it.
    pub socket: u32,
    /// Whether it goes from the second end to the first, as a server's answer does.
    pub goes_back: bool,
    /// What it carries.
    pub message: Message,
}

/// Where and why a datagram was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The link: an index into the plan's links.
    pub link: u32,
    /// Why.
    pub reason: LossReason,
}

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// A queue dropped it.
    Queue(narrows_qdisc::DropReason),
    /// The wire lost it.
    Wire,
    /// A middlebox dropped it.
    Middlebox(Objection),
    /// It was longer than a link's MTU.
    TooLong,
    /// Its fragments arrived too far apart.
    Reassembly,
    /// The next router's address could not be resolved.
    NoNeighbour,
}

impl LossReason {
    /// Returns the reason's name in tables: the queue's own, or `wire`, or the obstacle's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue(reason) => reason.name(),
            Self::Wire => "wire",
            Self::Middlebox(objection) => objection.name(),
            Self::TooLong => "mtu",
            Self::Reassembly => "reassembly",
            Self::NoNeighbour => "no-neighbour",
        }
    }
}

/// Why a middlebox drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objection {
    /// It is a DNS datagram that is too long.
    DnsLength,
    /// It is a fragment.
    Fragment,
    /// It is a router's message that a packet was too big.
    TooBig,
    /// It is TCP to port 53.
    Tcp53,
    /// It is a SYN with data.
    SynData,
}

impl Objection {
    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DnsLength => "middlebox-dns-length",
            Self::Fragment => "middlebox-fragment",
            Self::TooBig => "middlebox-too-big",
            Self::Tcp53 => "middlebox-tcp-53",
            Self::SynData => "middlebox-syn-data",
        }
    }
}

/// IP packets that a host has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Their number.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u32,
}
