//! What travels: 32 bytes a packet.
//!
//! A [`Packet`] is a compact form of a TCP segment or a DNS message. Acknowledgements with SACK
//! blocks keep them in the [`SackPool`], because a packet with room for three blocks would be
//! twice as long, and almost every packet has none.

use narrows_qdisc::Ecn;

use crate::ports;
use crate::tcp::{Flags, Header, SackBlocks, Segment, Seq, SynOptions};

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Index of its route.
    pub(crate) route: u32,
    /// TCP: sequence number. DNS: worker.
    a: u32,
    /// TCP: acknowledgement number. DNS: row of the attempt.
    b: u32,
    tsval: u32,
    tsecr: u32,
    /// TCP: handle of SACK blocks plus one, or packed SYN options.
    extra: u32,
    /// Length of the IP packet.
    pub(crate) bytes: u16,
    window: u16,
    /// Links of the route that lie behind it.
    pub(crate) hop: u8,
    flags: u8,
    meta: u8,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// Bits of `meta`.
const ECN: u8 = 0b11;
const DNS: u8 = 1 << 2;
const TIMESTAMPS: u8 = 1 << 3;
const HAS_SACK: u8 = 1 << 4;

/// IPv4 without options (RFC 791, section 3.1).
pub(crate) const IP_HEADER: u16 = 20;

/// IPv4 and TCP without options.
const PLAIN_HEADERS: u16 = IP_HEADER + 20;
/// The timestamps option with its padding, as [`Segment::header_bytes`] has it.
const TIMESTAMPS_OPTION: u16 = 12;

impl Packet {
    /// A TCP segment; its SACK blocks, if any, go to `pool`.
    #[inline]
    pub(crate) fn from_segment(route: u32, segment: &Segment, pool: &mut SackPool) -> Self {
        let mut meta = segment.ecn as u8;
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
            route,
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
        }
    }

    /// A TCP segment without SACK blocks and SYN.
    #[inline]
    pub(crate) fn from_header(route: u32, header: &Header) -> Self {
        let stamped = header.timestamps.is_some();
        let (tsval, tsecr) = header.timestamps.unwrap_or_default();
        Self {
            route,
            a: header.seq.0,
            b: header.ack.0,
            tsval,
            tsecr,
            extra: 0,
            bytes: PLAIN_HEADERS + if stamped { TIMESTAMPS_OPTION } else { 0 } + header.len,
            window: header.window,
            hop: 0,
            flags: header.flags.0,
            meta: header.ecn as u8 | if stamped { TIMESTAMPS } else { 0 },
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

    /// A DNS query, or its reply.
    pub(crate) fn dns(route: u32, worker: u32, attempt_row: u32, bytes: u16) -> Self {
        Self {
            route,
            a: worker,
            b: attempt_row,
            tsval: 0,
            tsecr: 0,
            extra: 0,
            bytes,
            window: 0,
            hop: 0,
            flags: 0,
            meta: DNS,
        }
    }

    #[inline]
    pub(crate) fn is_dns(&self) -> bool {
        self.meta & DNS != 0
    }

    /// The resolver worker that a DNS packet belongs to.
    pub(crate) fn worker(&self) -> u32 {
        self.a
    }

    /// The row of the attempt that a DNS packet belongs to.
    pub(crate) fn attempt_row(&self) -> u32 {
        self.b
    }

    /// Tells flows apart: each connection's data and acknowledgements, each worker's queries and
    /// replies. No two have the same value, and its bits are well mixed.
    #[inline]
    pub(crate) fn flow_hash(&self) -> u64 {
        let worker = if self.is_dns() { self.a } else { 0 };
        mix(u64::from(self.route) << 32 | u64::from(worker))
    }

    /// Source and destination port.
    pub(crate) fn ports(&self) -> (u16, u16) {
        let (there, back) = if self.is_dns() {
            (ports::worker(self.a), ports::DNS)
        } else {
            ports::tcp(self.route / 2)
        };
        // Each pair of routes begins with an even one.
        if self.route.is_multiple_of(2) { (there, back) } else { (back, there) }
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

/// MSS in the upper half, window scale plus one and the SACK-permitted bit below.
fn pack_syn(syn: SynOptions) -> u32 {
    let scale = syn.window_scale.map_or(0, |scale| u32::from(scale) + 1);
    u32::from(syn.mss) << 16 | scale << 8 | u32::from(syn.sack_permitted)
}

fn unpack_syn(packed: u32) -> SynOptions {
    let scale = (packed >> 8) as u8;
    SynOptions {
        mss: (packed >> 16) as u16,
        window_scale: scale.checked_sub(1),
        sack_permitted: packed & 1 != 0,
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
                syn: Some(SynOptions { mss: 1460, window_scale: Some(0), sack_permitted: true }),
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
            let packet = Packet::from_segment(7, &segment, &mut pool);
            assert_eq!(packet.peek_segment(&pool), segment);
            if packet.is_plain() {
                assert_eq!(Segment::from(packet.header()), segment);
                let again = Packet::from_header(7, &packet.header());
                assert_eq!(again.peek_segment(&pool), segment);
            }
            assert_eq!(packet.into_segment(&mut pool), segment);
        }
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn flows_have_hashes_and_ports_of_their_own() {
        let segment = Segment::default();
        let mut pool = SackPool::default();
        // Routes 0 to 3 are those of two connections, 4 and 5 of a group of resolvers.
        let mut packets: Vec<Packet> =
            (0..4).map(|route| Packet::from_segment(route, &segment, &mut pool)).collect();
        packets.extend((4..6).flat_map(|route| (0..9).map(move |w| Packet::dns(route, w, 7, 60))));
        let hashes: std::collections::BTreeSet<u64> =
            packets.iter().map(Packet::flow_hash).collect();
        assert_eq!(hashes.len(), packets.len());
        let attempt = Packet::dns(4, 3, 8, 100);
        assert_eq!(attempt.flow_hash(), Packet::dns(4, 3, 9, 60).flow_hash());
        assert_eq!(packets[0].ports(), (5001, 35_000));
        assert_eq!(packets[3].ports(), (35_001, 5001));
        assert_eq!(Packet::dns(4, 2, 0, 60).ports(), (49_154, 53));
        assert_eq!(Packet::dns(5, 2, 0, 60).ports(), (53, 49_154));
    }

    #[test]
    fn hashes_spread_over_buckets() {
        // 4096 flows in 64 buckets: 64 each on average, with a standard deviation of 8.
        let mut buckets = [0; 64];
        for worker in 0..4096 {
            buckets[Packet::dns(0, worker, 0, 60).flow_hash() as usize % 64] += 1;
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
        assert_eq!(Packet::from_segment(0, &segment, &mut SackPool::default()).bytes, 1500);
    }
}
