//! What travels: 32 bytes a packet.
//!
//! A [`Packet`] is a compact form of a TCP segment or a DNS message. Acknowledgements with SACK
//! blocks keep them in the [`SackPool`], because a packet with room for three blocks would be
//! twice as long, and almost every packet has none.

use narrows_qdisc::Ecn;

use crate::application::Message;
use crate::captured::Quoted;
use crate::ports;
use crate::transport::tcp::{FastOpenOption, Flags, Header, SackBlocks, Segment, Seq, SynOptions};

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Its flow and direction: twice the flow's number, plus one on the way back.
    pub(crate) way: u32,
    /// TCP: sequence number. UDP: socket of the flow's first end.
    a: u32,
    /// TCP: acknowledgement number. UDP: the message's tag.
    b: u32,
    /// UDP: the message's first note.
    tsval: u32,
    /// UDP: the message's second note.
    tsecr: u32,
    /// TCP: handle of SACK blocks plus one, or packed SYN options. A fragment: its datagram's number.
    extra: u32,
    /// Length of the IP packet.
    pub(crate) bytes: u16,
    /// TCP: the window. A fragment: its offset in units of 8 bytes.
    window: u16,
    /// Links of the path that lie behind it.
    pub(crate) hop: u8,
    flags: u8,
    meta: u8,
    /// Tells apart the flows that had the same number, one after the other.
    pub(crate) generation: u8,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// What kind a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// A TCP segment.
    Tcp,
    /// A whole datagram.
    Datagram,
    /// A part of a datagram; [`datagram_number`](Packet::datagram_number) says of which.
    Fragment,
    /// A router's message (ICMP); [`mtu`](Packet::mtu) and [`quoted`](Packet::quoted) say more.
    TooBig,
    /// Below IP.
    Arp(Arp),
}

/// What all packets of a way have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Twice the flow's number, plus one on the way back.
    pub(crate) way: u32,
    pub(crate) label: Label,
}

/// What all packets of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) generation: u8,
    /// Bits of `meta`.
    class: u8,
}

impl Label {
    pub(crate) const fn new(generation: u8, dns: bool) -> Self {
        Self { generation, class: if dns { DNS } else { 0 } }
    }

    #[inline(always)]
    pub(crate) const fn on_way(self, way: u32) -> Stamp {
        Stamp { way, label: self }
    }
}

impl Stamp {
    #[cfg(test)]
    pub(crate) const fn new(way: u32, generation: u8, dns: bool) -> Self {
        Label::new(generation, dns).on_way(way)
    }
}

/// Bits of `meta`.
const ECN: u8 = 0b11;
const DNS: u8 = 1 << 2;
/// Anything but TCP: a datagram, unless one of the bits below says something else.
const NOT_TCP: u8 = 1 << 5;
const TIMESTAMPS: u8 = 1 << 3;
const HAS_SACK: u8 = 1 << 4;
/// With `NOT_TCP`: a router's message.
const TOO_BIG: u8 = 1 << 6;
/// With `NOT_TCP`: ARP, below IP.
const ARP: u8 = TIMESTAMPS;
/// With `NOT_TCP`: a part of a datagram.
const FRAGMENT: u8 = 1 << 7;
/// In `flags` of a fragment: others follow (RFC 791, 3.1).
const MORE: u8 = 1;
/// In `flags` of a datagram: the message's tag is the number of a datagram of QUIC.
const QUIC: u8 = 2;

/// What an ARP packet says (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arp {
    /// Who has this address? To all, or to the one who had it.
    Request {
        /// To all.
        broadcast: bool,
    },
    /// The sender has it.
    Reply,
}

/// RFC 826 for Ethernet and IPv4.
pub(crate) const ARP_BYTES: u16 = 28;

/// IPv4 without options (RFC 791, section 3.1).
pub(crate) const IP_HEADER: u16 = 20;
/// RFC 768.
pub(crate) const UDP_HEADER: u16 = 8;
/// The shortest fragment: a header and a byte.
pub(crate) const SHORTEST_FRAGMENT: u16 = IP_HEADER + 1;
/// RFC 1812, 4.3.2.3: a router's message quotes as much of a packet as fits this.
const LONGEST_MESSAGE: u16 = 576;
/// The router's own IPv4 and ICMP headers (RFC 792).
const ICMP_HEADERS: u16 = IP_HEADER + 8;

/// IPv4 and TCP without options.
const PLAIN_HEADERS: u16 = IP_HEADER + 20;
/// The timestamps option with its padding, as [`Segment::header_bytes`] has it.
const TIMESTAMPS_OPTION: u16 = 12;

impl Packet {
    /// A TCP segment; its SACK blocks, if any, go to `pool`.
    #[inline]
    pub(crate) fn from_segment(stamp: Stamp, segment: &Segment, pool: &mut SackPool) -> Self {
        let mut meta = segment.ecn as u8 | stamp.label.class;
        let (tsval, tsecr) = match segment.timestamps {
            Some(timestamps) => {
                meta |= TIMESTAMPS;
                timestamps
            }
            None => (0, 0),
        };
        let extra = if let Some(syn) = segment.syn {
            pack_syn(syn)
        } else if segment.sack.is_empty() {
            0
        } else {
            meta |= HAS_SACK;
            pool.put(segment.sack)
        };
        Self {
            way: stamp.way,
            a: segment.seq.0,
            b: segment.ack.0,
            tsval,
            tsecr,
            extra,
            bytes: IP_HEADER + segment.header_bytes() + segment.len,
            window: segment.window,
            hop: 0,
            flags: segment.flags.0,
            meta,
            generation: stamp.label.generation,
        }
    }

    /// A TCP segment without SACK blocks and SYN.
    #[inline]
    pub(crate) fn from_header(stamp: Stamp, header: &Header) -> Self {
        let stamped = header.timestamps.is_some();
        let (tsval, tsecr) = header.timestamps.unwrap_or_default();
        Self {
            way: stamp.way,
            a: header.seq.0,
            b: header.ack.0,
            tsval,
            tsecr,
            extra: 0,
            bytes: PLAIN_HEADERS + if stamped { TIMESTAMPS_OPTION } else { 0 } + header.len,
            window: header.window,
            hop: 0,
            flags: header.flags.0,
            meta: header.ecn as u8 | if stamped { TIMESTAMPS } else { 0 } | stamp.label.class,
            generation: stamp.label.generation,
        }
    }

    /// Adds the SACK option to an acknowledgement; the blocks go to `pool`.
    #[cold]
    pub(crate) fn add_sack_blocks(&mut self, sack: SackBlocks, pool: &mut SackPool) {
        self.bytes += 4 + 8 * sack.len() as u16;
        self.meta |= HAS_SACK;
        self.extra = pool.put(sack);
    }

    /// Whether [`header`](Self::header) says all: neither SACK blocks nor SYN.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.meta & HAS_SACK == 0 && !Flags(self.flags).contains(Flags::SYN)
    }

    /// Whether it asks for a connection.
    pub(crate) fn is_syn(&self) -> bool {
        self.is_tcp() && self.flags & (Flags::SYN.0 | Flags::ACK.0) == Flags::SYN.0
    }

    /// The header of a plain segment.
    #[inline]
    pub(crate) fn header(&self) -> Header {
        let stamped = self.meta & TIMESTAMPS != 0;
        Header {
            seq: Seq(self.a),
            ack: Seq(self.b),
            window: self.window,
            len: self.bytes - PLAIN_HEADERS - if stamped { TIMESTAMPS_OPTION } else { 0 },
            flags: Flags(self.flags),
            ecn: self.ecn(),
            timestamps: stamped.then_some((self.tsval, self.tsecr)),
        }
    }

    /// The segment again; takes its SACK blocks out of `pool`.
    #[inline]
    pub(crate) fn into_segment(self, pool: &mut SackPool) -> Segment {
        let mut segment = self.segment(pool);
        if self.meta & HAS_SACK != 0 {
            pool.release(self.extra);
        }
        // `header_bytes` needs the options, so the length comes last.
        segment.len = self.bytes - IP_HEADER - segment.header_bytes();
        segment
    }

    /// The segment, for looking at; the packet keeps its SACK blocks.
    pub(crate) fn peek_segment(&self, pool: &SackPool) -> Segment {
        let mut segment = self.segment(pool);
        segment.len = self.bytes - IP_HEADER - segment.header_bytes();
        segment
    }

    #[inline]
    fn segment(&self, pool: &SackPool) -> Segment {
        let flags = Flags(self.flags);
        let sack =
            if self.meta & HAS_SACK != 0 { pool.look(self.extra) } else { SackBlocks::default() };
        Segment {
            seq: Seq(self.a),
            ack: Seq(self.b),
            window: self.window,
            len: 0,
            flags,
            ecn: self.ecn(),
            timestamps: (self.meta & TIMESTAMPS != 0).then_some((self.tsval, self.tsecr)),
            sack,
            syn: flags.contains(Flags::SYN).then(|| unpack_syn(self.extra)),
        }
    }

    /// A datagram with a message, from a socket of the flow's first end or to it.
    ///
    /// # Panics
    ///
    /// If it is longer than an IP packet may be.
    pub(crate) fn datagram(stamp: Stamp, socket: u32, message: &Message) -> Self {
        let bytes = u32::from(IP_HEADER + UDP_HEADER) + message.bytes;
        Self {
            way: stamp.way,
            a: socket,
            b: message.tag,
            tsval: message.notes[0],
            tsecr: message.notes[1],
            extra: 0,
            bytes: u16::try_from(bytes).expect("the application keeps to the limit"),
            window: 0,
            hop: 0,
            flags: 0,
            meta: NOT_TCP | stamp.label.class,
            generation: stamp.label.generation,
        }
    }

    /// A datagram of QUIC: the message's tag is its number.
    pub(crate) fn quic(stamp: Stamp, message: &Message, ect: bool) -> Self {
        let ecn = if ect { Ecn::Ect0 as u8 } else { 0 };
        let packet = Self::datagram(stamp, stamp.way / 2, message);
        Self { flags: QUIC, meta: packet.meta | ecn, ..packet }
    }

    /// Whether it is a datagram of QUIC.
    pub(crate) const fn is_quic(&self) -> bool {
        matches!(self.kind(), PacketKind::Datagram) && self.flags & QUIC != 0
    }

    /// A DNS datagram in an IP packet of `bytes`, for tests of links.
    #[cfg(test)]
    pub(crate) fn of_bytes(socket: u32, bytes: u16) -> Self {
        let payload = u32::from(bytes - IP_HEADER - UDP_HEADER);
        let message = Message { bytes: payload, ..Message::default() };
        Self::datagram(Stamp::new(0, 0, true), socket, &message)
    }

    /// A router's message to the sender of a TCP segment, which was longer than a link's `mtu`
    /// (RFC 792, RFC 1191, section 4). `router`: the node that sends it.
    pub(crate) fn too_big(dropped: &Self, mtu: u16, router: u32) -> Self {
        Self {
            way: dropped.way ^ 1,
            a: dropped.a,
            b: dropped.b,
            tsval: router,
            tsecr: u32::from(mtu) << 16 | u32::from(dropped.bytes),
            extra: u32::from(dropped.meta & TIMESTAMPS),
            bytes: dropped.bytes.saturating_add(ICMP_HEADERS).min(LONGEST_MESSAGE),
            window: dropped.window,
            hop: 0,
            flags: dropped.flags,
            meta: NOT_TCP | TOO_BIG,
            generation: dropped.generation,
        }
    }

    /// An ARP packet from a neighbour with this entry.
    pub(crate) const fn arp_message(way: u32, entry: u32, arp: Arp) -> Self {
        let operation = match arp {
            Arp::Request { broadcast: false } => 0,
            Arp::Request { broadcast: true } => 1,
            Arp::Reply => 2,
        };
        Self {
            way,
            a: entry,
            b: operation,
            tsval: 0,
            tsecr: 0,
            extra: 0,
            bytes: ARP_BYTES,
            window: 0,
            hop: 0,
            flags: 0,
            meta: NOT_TCP | ARP,
            generation: 0,
        }
    }

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

    /// The same as `kind() == PacketKind::Tcp`, in one step.
    #[inline]
    pub(crate) const fn is_tcp(&self) -> bool {
        self.meta & NOT_TCP == 0
    }

    /// Of an ARP packet: the entry that its sender has for its receiver.
    pub(crate) const fn arp_entry(&self) -> u32 {
        self.a
    }

    /// A middlebox's reset, as if the other end did not listen (RFC 9293, 3.10.7.1); `None` for a
    /// packet that is a reset itself.
    pub(crate) fn rejection(&self, pool: &SackPool) -> Option<Self> {
        let segment = self.peek_segment(pool);
        if segment.flags.contains(Flags::RST) {
            return None;
        }
        let label = Label { generation: self.generation, class: self.meta & DNS };
        Some(Self::from_segment(
            label.on_way(self.way ^ 1),
            &segment.reset(),
            &mut SackPool::default(),
        ))
    }

    /// The fragments of a datagram with this number (RFC 791, 3.2): all but the last are as long as
    /// `mtu` allows, and a whole number of units of 8 bytes.
    pub(crate) fn fragments(self, mtu: u16, number: u32) -> impl Iterator<Item = Self> {
        let units = (mtu - IP_HEADER) / 8;
        let payload = self.bytes - IP_HEADER;
        (0..payload.div_ceil(8 * units)).map(move |index| {
            let offset = index * units;
            let left = payload - 8 * offset;
            let more = left > 8 * units;
            Self {
                extra: number,
                bytes: IP_HEADER + left.min(8 * units),
                window: offset,
                flags: if more { MORE } else { 0 },
                // Who looks for ports finds them in the first fragment alone.
                meta: (if offset == 0 { self.meta } else { self.meta & !DNS }) | FRAGMENT,
                ..self
            }
        })
    }

    /// Whether it is a SYN that carries data (RFC 7413).
    pub(crate) fn is_syn_with_data(&self) -> bool {
        if !self.is_tcp() || !Flags(self.flags).contains(Flags::SYN) {
            return false;
        }
        // A SYN has no SACK blocks, and so nothing in the pool.
        self.peek_segment(&SackPool::default()).len > 0
    }

    /// Of a router's message: what the link takes.
    pub(crate) fn mtu(&self) -> u16 {
        (self.tsecr >> 16) as u16
    }

    /// Of a router's message: what it says of the segment that was dropped.
    pub(crate) fn quoted(&self) -> Quoted {
        Quoted {
            ip_bytes: self.tsecr as u16,
            seq: Seq(self.a),
            ack: Seq(self.b),
            flags: Flags(self.flags),
            window: self.window,
            has_timestamps: self.extra != 0,
        }
    }

    /// Of a router's message: the node that sent it.
    pub(crate) fn router(&self) -> u32 {
        self.tsval
    }

    /// Of a fragment: the number of its datagram.
    pub(crate) fn datagram_number(&self) -> u32 {
        self.extra
    }

    /// Of a fragment: where its payload lies in the datagram's, and whether others follow.
    pub(crate) fn offset(&self) -> (u16, bool) {
        (8 * self.window, self.flags & MORE != 0)
    }

    /// Whether it is a datagram whose UDP header a middlebox can read: a whole one, or its beginning.
    pub(crate) fn begins_datagram(&self) -> bool {
        match self.kind() {
            PacketKind::Datagram => true,
            PacketKind::Fragment => self.window == 0,
            PacketKind::Tcp | PacketKind::TooBig | PacketKind::Arp(_) => false,
        }
    }

    #[inline]
    pub(crate) fn is_dns(&self) -> bool {
        self.meta & DNS != 0
    }

    /// The flow that it belongs to.
    #[inline]
    pub(crate) fn flow(&self) -> u32 {
        self.way / 2
    }

    /// Whether it goes from the flow's second end to its first.
    #[inline]
    pub(crate) fn goes_back(&self) -> bool {
        !self.way.is_multiple_of(2)
    }

    /// The socket that a datagram comes from, or goes to, at the flow's first end.
    pub(crate) fn socket(&self) -> u32 {
        self.a
    }

    /// The message in a datagram.
    pub(crate) fn message(&self) -> Message {
        Message {
            bytes: u32::from(self.bytes - IP_HEADER - UDP_HEADER),
            tag: self.b,
            notes: [self.tsval, self.tsecr],
        }
    }

    /// Tells flows apart: each connection's data and acknowledgements, each socket's datagrams and
    /// their answers. No two have the same value, and its bits are well mixed.
    #[inline]
    pub(crate) fn flow_hash(&self) -> u64 {
        let part = if self.is_tcp() { u32::from(self.generation) } else { self.hashed_part() };
        mix(u64::from(self.way) << 32 | u64::from(part))
    }

    /// For packets other than TCP: Linux's flow dissector reads no ports of any fragment (`__skb_flow_dissect`,
    /// without `FLOW_DISSECTOR_F_PARSE_1ST_FRAG`).
    fn hashed_part(&self) -> u32 {
        match self.kind() {
            PacketKind::Tcp | PacketKind::Datagram | PacketKind::Arp(_) => self.a,
            PacketKind::Fragment => u32::MAX,
            PacketKind::TooBig => u32::MAX - 1,
        }
    }

    /// Source and destination port, zero where it has none; `of_flow`: those of the flow's ends.
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

    /// Of a router's message: the ports of its connection, as packets have them that go its way.
    pub(crate) fn quoted_ports(&self, of_flow: [u16; 2]) -> (u16, u16) {
        self.turned(of_flow)
    }

    #[inline]
    fn turned(&self, [first, second]: [u16; 2]) -> (u16, u16) {
        if self.goes_back() { (second, first) } else { (first, second) }
    }

    #[inline]
    pub(crate) fn ecn(&self) -> Ecn {
        match self.meta & ECN {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    #[inline]
    pub(crate) fn set_ce(&mut self) {
        self.meta |= Ecn::Ce as u8;
    }

    /// Gives back what a packet that goes no further holds in the pool.
    pub(crate) fn discard(self, pool: &mut SackPool) {
        if self.meta & HAS_SACK != 0 {
            pool.release(self.extra);
        }
    }
}

/// A one-to-one function whose every bit depends on all (the last step of SplitMix64: Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants: variant 13
/// of D. Stafford).
#[inline]
const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// MSS in the upper half, window scale plus one, Fast Open, and the SACK-permitted bit below.
fn pack_syn(syn: SynOptions) -> u32 {
    let scale = syn.window_scale.map_or(0, |scale| u32::from(scale) + 1);
    let fast_open = match syn.fast_open {
        None => 0,
        Some(FastOpenOption::Request) => 1,
        Some(FastOpenOption::Cookie) => 2,
    };
    u32::from(syn.mss) << 16 | scale << 8 | fast_open << 1 | u32::from(syn.sack_permitted)
}

fn unpack_syn(packed: u32) -> SynOptions {
    let scale = (packed >> 8) as u8;
    SynOptions {
        mss: (packed >> 16) as u16,
        window_scale: scale.checked_sub(1),
        sack_permitted: packed & 1 != 0,
        fast_open: match packed >> 1 & 3 {
            1 => Some(FastOpenOption::Request),
            2 => Some(FastOpenOption::Cookie),
            _ => None,
        },
    }
}

/// SACK blocks of the packets on their way.
#[derive(Debug, Default)]
pub(crate) struct SackPool {
    blocks: Vec<SackBlocks>,
    free: Vec<u32>,
}

impl SackPool {
    fn put(&mut self, sack: SackBlocks) -> u32 {
        match self.free.pop() {
            Some(handle) => {
                self.blocks[handle as usize] = sack;
                handle
            }
            None => {
                self.blocks.push(sack);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    fn look(&self, handle: u32) -> SackBlocks {
        self.blocks[handle as usize]
    }

    fn release(&mut self, handle: u32) {
        self.free.push(handle);
    }

    /// Blocks that packets hold now.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.blocks.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_survive_the_compact_form() {
        let mut pool = SackPool::default();
        let mut sack = SackBlocks::default();
        assert!(sack.push(Seq(5), Seq(9)));
        let segments = [
            Segment {
                seq: Seq(u32::MAX),
                flags: Flags::SYN.with(Flags::ECE).with(Flags::CWR),
                window: 65_535,
                timestamps: Some((1, 0)),
                syn: Some(SynOptions {
                    mss: 1460,
                    window_scale: Some(0),
                    sack_permitted: true,
                    fast_open: None,
                }),
                ..Segment::default()
            },
            Segment {
                flags: Flags::SYN,
                len: 36,
                syn: Some(SynOptions {
                    fast_open: Some(FastOpenOption::Cookie),
                    ..SynOptions::default()
                }),
                ..Segment::default()
            },
            Segment {
                seq: Seq(1),
                ack: Seq(2),
                flags: Flags::ACK,
                timestamps: Some((3, 4)),
                sack,
                ..Segment::default()
            },
            Segment {
                seq: Seq(9),
                ack: Seq(2),
                flags: Flags::ACK,
                len: 1448,
                ecn: Ecn::Ect0,
                timestamps: Some((3, 4)),
                ..Segment::default()
            },
            Segment { seq: Seq(9), flags: Flags::ACK, len: 1460, ..Segment::default() },
        ];
        for segment in segments {
            let packet = Packet::from_segment(Stamp::new(7, 1, true), &segment, &mut pool);
            assert_eq!(packet.peek_segment(&pool), segment);
            if packet.is_plain() {
                assert_eq!(Segment::from(packet.header()), segment);
                let again = Packet::from_header(Stamp::new(7, 1, true), &packet.header());
                assert_eq!(again.peek_segment(&pool), segment);
            }
            assert_eq!(packet.into_segment(&mut pool), segment);
        }
        assert_eq!(pool.in_use(), 0);
    }

    fn datagram(way: u32, socket: u32, tag: u32) -> Packet {
        let message = Message { bytes: 32, tag, notes: [1, 2] };
        Packet::datagram(Stamp::new(way, 0, true), socket, &message)
    }

    #[test]
    fn messages_survive_the_compact_form() {
        let message = Message { bytes: 65_507, tag: u32::MAX, notes: [7, u32::MAX] };
        let packet = Packet::datagram(Stamp::new(5, 0, false), 9, &message);
        assert_eq!((packet.message(), packet.socket(), packet.bytes), (message, 9, 65_535));
        assert!(packet.kind() == PacketKind::Datagram && !packet.is_dns() && packet.goes_back());
    }

    #[test]
    fn flows_have_hashes_and_ports_of_their_own() {
        let mut pool = SackPool::default();
        // Flows 0 and 1 are connections, flow 2 has the datagrams of many sockets.
        let tcp = |way, generation, pool: &mut SackPool| {
            Packet::from_segment(Stamp::new(way, generation, false), &Segment::default(), pool)
        };
        let mut packets: Vec<Packet> = (0..4).map(|way| tcp(way, 0, &mut pool)).collect();
        packets.push(tcp(2, 1, &mut pool));
        packets.extend((4..6).flat_map(|way| (0..9).map(move |socket| datagram(way, socket, 7))));
        let hashes: std::collections::BTreeSet<u64> =
            packets.iter().map(Packet::flow_hash).collect();
        assert_eq!(hashes.len(), packets.len());
        assert_eq!(datagram(4, 3, 8).flow_hash(), datagram(4, 3, 9).flow_hash());
        assert_eq!(packets[0].ports([5001, 35_000]), (5001, 35_000));
        assert_eq!(packets[3].ports([5001, 35_001]), (35_001, 5001));
        assert_eq!(datagram(4, 2, 0).ports([0, 53]), (49_154, 53));
        assert_eq!(datagram(5, 2, 0).ports([0, 53]), (53, 49_154));
    }

    #[test]
    fn hashes_spread_over_buckets() {
        // 4096 flows in 64 buckets: 64 each on average, with a standard deviation of 8.
        let mut buckets = [0; 64];
        for socket in 0..4096 {
            buckets[datagram(0, socket, 0).flow_hash() as usize % 64] += 1;
        }
        assert!(buckets.iter().all(|count| (24..=104).contains(count)), "{buckets:?}");
    }

    #[test]
    fn a_full_segment_with_timestamps_is_an_ip_packet_of_1500_bytes() {
        let segment = Segment {
            len: 1448,
            flags: Flags::ACK,
            timestamps: Some((1, 1)),
            ..Segment::default()
        };
        assert_eq!(
            Packet::from_segment(Stamp::new(0, 0, false), &segment, &mut SackPool::default()).bytes,
            1500
        );
    }
}
