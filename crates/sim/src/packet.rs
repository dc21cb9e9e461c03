//! Packets, 32 bytes each.
//!
//! A [`Packet`] is a compact form of a TCP segment or a datagram. SACK blocks and the AccECN option
//! are kept in the [`OptionPool`] instead: a packet with room for them would be twice as long, and
//! almost every packet has none.

mod datagrams;
mod segments;
#[cfg(test)]
mod tests;

use narrows_qdisc::{Ack, Ecn, mix};
use narrows_transport::tcp::Flags;

use crate::ports;
pub(crate) use segments::OptionPool;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Its flow and direction: twice the flow's number, plus one for the direction back.
    pub(crate) direction: u32,
    /// TCP: the sequence number. UDP: the socket at the flow's first end.
    a: u32,
    /// TCP: the acknowledgement number. UDP: the message's tag.
    b: u32,
    /// TCP: the timestamp. UDP: the message's first note.
    tsval: u32,
    /// TCP: the timestamp that it echoes. UDP: the message's second note.
    tsecr: u32,
    /// TCP: the handle of SACK blocks and the AccECN option, or packed SYN options. Fragment: its
    /// datagram's number. Of any packet under way, a [ticket](crate::network::OneWay) instead if
    /// one-way delays are measured.
    pub(crate) extra: u32,
    /// The length of the IP packet.
    pub(crate) bytes: u16,
    /// TCP: the window. Fragment: its offset in units of 8 bytes.
    window: u16,
    /// The number of links of its path that it has passed.
    pub(crate) hop: u8,
    flags: u8,
    meta: u8,
    /// Tells apart the flows that had the same number, one after the other.
    pub(crate) generation: u8,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// A TCP segment.
    Tcp,
    /// A whole datagram.
    Datagram,
    /// A part of a datagram; [`datagram_number`](Packet::datagram_number) tells which datagram.
    Fragment,
    /// A router's ICMP message; [`mtu`](Packet::mtu) and [`quoted`](Packet::quoted) return its
    /// content.
    TooBig,
    /// ARP, below IP.
    Arp(Arp),
}

/// The fields that all packets of a direction share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Twice the flow's number, plus one for the direction back.
    pub(crate) direction: u32,
    pub(crate) label: Label,
}

/// The fields that all packets of a flow share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) generation: u8,
    /// Bits of `meta`.
    class: u8,
}

impl Label {
    pub(crate) const fn new(generation: u8, foreground: bool) -> Self {
        Self { generation, class: if foreground { FOREGROUND } else { 0 } }
    }

    /// Lets the flow's datagrams have this ECN field.
    pub(crate) const fn with_ecn(self, ecn: Ecn) -> Self {
        Self { class: self.class & !ECN | ecn as u8, ..self }
    }

    #[inline(always)]
    pub(crate) const fn in_direction(self, direction: u32) -> Stamp {
        Stamp { direction, label: self }
    }
}

impl Stamp {
    #[cfg(test)]
    pub(crate) const fn new(direction: u32, generation: u8, foreground: bool) -> Self {
        Label::new(generation, foreground).in_direction(direction)
    }
}

/// Bits of `meta`.
const ECN: u8 = 0b11;
/// Foreground traffic.
const FOREGROUND: u8 = 1 << 2;
/// Set for everything except TCP: a datagram, unless one of the bits below says otherwise.
const NOT_TCP: u8 = 1 << 5;
const TIMESTAMPS: u8 = 1 << 3;
const HAS_OPTIONS: u8 = 1 << 4;
/// With `NOT_TCP`: a router's message.
const TOO_BIG: u8 = 1 << 6;
/// With `NOT_TCP`: ARP, below IP.
const ARP: u8 = TIMESTAMPS;
/// With `NOT_TCP`: a part of a datagram.
const FRAGMENT: u8 = 1 << 7;
/// A queue has set the code point to 0 (tc-cake(8), `wash`): of TCP, and of other packets.
const WASHED_TCP: u8 = FRAGMENT;
const WASHED_OTHER: u8 = HAS_OPTIONS;
/// In the `flags` of a fragment: more follow (RFC 791, 3.1).
const MORE: u8 = 1;
/// In the `flags` of a datagram: it is QUIC's, and the message's tag is its number.
const QUIC: u8 = 2;

/// The message of an ARP packet (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arp {
    /// Asks who has this address: everybody, or only the router that had it last.
    Request {
        /// Whether everybody is asked.
        broadcast: bool,
    },
    /// Says that the sender has it.
    Reply,
}

/// The length of an ARP packet for Ethernet and IPv4 (RFC 826).
pub(crate) const ARP_BYTES: u16 = 28;

pub(crate) use narrows_apps::{IP_HEADER, SHORTEST_FRAGMENT, UDP_HEADER};
impl Packet {
    #[inline]
    pub(crate) const fn kind(&self) -> PacketKind {
        if self.is_tcp() {
            PacketKind::Tcp
        } else if self.meta & ARP != 0 {
            PacketKind::Arp(match self.b {
                0 => Arp::Request { broadcast: false },
                1 => Arp::Request { broadcast: true },
                _ => Arp::Reply,
            })
        } else if self.meta & TOO_BIG != 0 {
            PacketKind::TooBig
        } else if self.meta & FRAGMENT != 0 {
            PacketKind::Fragment
        } else {
            PacketKind::Datagram
        }
    }

    /// Returns the same as `kind() == PacketKind::Tcp`, in one step.
    #[inline]
    pub(crate) const fn is_tcp(&self) -> bool {
        self.meta & NOT_TCP == 0
    }

    /// Returns whether it is foreground traffic: that of applications whose messages the run
    /// records one by one. Links count its drops apart, and can exempt it from what they do.
    #[inline]
    pub(crate) fn is_foreground(&self) -> bool {
        self.meta & FOREGROUND != 0
    }

    /// Returns whether a host sent it, and not a router.
    #[inline]
    pub(crate) const fn is_of_host(&self) -> bool {
        self.is_tcp() || self.meta & (ARP | TOO_BIG) == 0
    }

    /// Returns the flow that it belongs to.
    #[inline]
    pub(crate) fn flow(&self) -> u32 {
        self.direction / 2
    }

    /// Returns whether it goes from the flow's second end to its first.
    #[inline]
    pub(crate) fn goes_back(&self) -> bool {
        !self.direction.is_multiple_of(2)
    }

    /// Returns a number that tells flows apart: each connection's data and acknowledgements, each
    /// socket's datagrams and their answers. No two share a value, and its bits are well mixed.
    #[inline]
    pub(crate) fn flow_hash(&self) -> u64 {
        let part = if self.is_tcp() { u32::from(self.generation) } else { self.hashed_part() };
        mix(u64::from(self.direction) << 32 | u64::from(part), 0)
    }

    /// Returns the part of `flow_hash` for packets other than TCP. Linux's flow dissector reads no
    /// ports from any fragment (`__skb_flow_dissect`, without `FLOW_DISSECTOR_F_PARSE_1ST_FRAG`).
    fn hashed_part(&self) -> u32 {
        match self.kind() {
            // A new connection that uses a number again has a new port.
            PacketKind::Datagram if self.flags & QUIC != 0 => u32::from(self.generation),
            PacketKind::Tcp | PacketKind::Datagram | PacketKind::Arp(_) => self.a,
            PacketKind::Fragment => u32::MAX,
            PacketKind::TooBig => u32::MAX - 1,
        }
    }

    /// Returns the source and the destination port, zero if it has none. `of_flow`: the ports of
    /// the flow's ends.
    pub(crate) fn ports(&self, of_flow: [u16; 2]) -> (u16, u16) {
        let [mut first, second] = of_flow;
        if !self.is_tcp() {
            if !self.begins_datagram() {
                return (0, 0);
            }
            first = ports::socket(self.a);
        }
        self.turned([first, second])
    }

    /// Returns, for a router's message, the ports of its connection, in the order of packets that
    /// travel in its direction.
    pub(crate) fn quoted_ports(&self, of_flow: [u16; 2]) -> (u16, u16) {
        self.turned(of_flow)
    }

    #[inline]
    fn turned(&self, [first, second]: [u16; 2]) -> (u16, u16) {
        if self.goes_back() { (second, first) } else { (first, second) }
    }

    #[inline]
    pub(crate) fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.meta)
    }

    #[inline]
    pub(crate) fn set_ce(&mut self) {
        self.meta |= Ecn::Ce as u8;
    }

    /// Returns whether a queue has washed it: its code point is 0 from there on.
    pub(crate) const fn is_washed(&self) -> bool {
        self.meta & self.washed() != 0
    }

    /// Notes that a queue has washed it.
    pub(crate) const fn wash(&mut self) {
        self.meta |= self.washed();
    }

    const fn washed(&self) -> u8 {
        if self.is_tcp() { WASHED_TCP } else { WASHED_OTHER }
    }

    /// Returns what a TCP segment with ACK and without SYN acknowledges, for a filter of
    /// acknowledgements; `None` for other packets.
    pub(crate) fn ack(&self, pool: &OptionPool) -> Option<Ack> {
        let flags = Flags(self.flags);
        if !self.is_tcp() || !flags.contains(Flags::ACK) || flags.contains(Flags::SYN) {
            return None;
        }
        let segment = self.peek_segment(pool);
        let beside = Flags::ACK.with(Flags::ECE).with(Flags::CWR);
        let mut sack = [(0, 0); 4];
        for (edges, block) in sack.iter_mut().zip(segment.sack.as_slice()) {
            *edges = (block.0.0, block.1.0);
        }
        Some(Ack {
            connection: self.flow_hash(),
            number: self.b,
            is_pure: segment.len == 0
                && segment.accurate.is_none()
                && flags.without(beside) == Flags::default(),
            ecn_flags: (flags.contains(Flags::ECE), flags.contains(Flags::CWR)),
            timestamps: segment.timestamps,
            sack,
        })
    }
}
