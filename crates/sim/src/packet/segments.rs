//! TCP segments as packets, and the store of their SACK blocks and AccECN options.

use narrows_transport::tcp::{
    AccurateEcn, FastOpenOption, Flags, Header, SackBlocks, Segment, Seq, SynOptions,
};

use super::{FOREGROUND, HAS_OPTIONS, IP_HEADER, Label, Packet, Stamp, TIMESTAMPS};

/// The IPv4 and TCP headers without options.
const PLAIN_HEADERS: u16 = IP_HEADER + 20;
/// The timestamps option with its padding, as [`Segment::header_bytes`] counts it.
const TIMESTAMPS_OPTION: u16 = 12;

impl Packet {
    /// Converts a TCP segment. Its SACK blocks and AccECN option, if any, go to `pool`.
    #[inline]
    pub(crate) fn from_segment(stamp: Stamp, segment: &Segment, pool: &mut OptionPool) -> Self {
        let mut meta = segment.ecn as u8 | stamp.label.class;
        let (tsval, tsecr) = match segment.timestamps {
            Some(timestamps) => {
                meta |= TIMESTAMPS;
                timestamps
            }
            None => (0, 0),
        };
        let extra = if let Some(syn) = segment.syn {
            pack_syn(syn, segment.accurate.is_some())
        } else if segment.sack.is_empty() && segment.accurate.is_none() {
            0
        } else {
            meta |= HAS_OPTIONS;
            pool.put(Options { sack: segment.sack, accurate: segment.accurate })
        };
        Self {
            direction: stamp.direction,
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

    /// Converts a TCP segment that has no SACK blocks, no AccECN option and is no SYN.
    #[inline]
    pub(crate) fn from_header(stamp: Stamp, header: &Header) -> Self {
        let stamped = header.timestamps.is_some();
        let (tsval, tsecr) = header.timestamps.unwrap_or_default();
        Self {
            direction: stamp.direction,
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

    /// Adds the SACK and AccECN options to a segment that has neither. They go to `pool`.
    #[cold]
    pub(crate) fn add_options(
        &mut self,
        (sack, accurate): (SackBlocks, Option<AccurateEcn>),
        pool: &mut OptionPool,
    ) {
        let blocks = sack.len() as u16;
        self.bytes += if blocks == 0 { 0 } else { 4 + 8 * blocks };
        self.bytes += accurate.map_or(0, |option| option.padded_bytes());
        if blocks > 0 || accurate.is_some() {
            self.meta |= HAS_OPTIONS;
            self.extra = pool.put(Options { sack, accurate });
        }
    }

    /// Returns whether [`header`](Self::header) tells everything: the segment has no SACK blocks,
    /// no AccECN option and is no SYN.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.meta & HAS_OPTIONS == 0 && !Flags(self.flags).contains(Flags::SYN)
    }

    /// Returns whether it is a SYN that asks for a connection.
    pub(crate) fn is_syn(&self) -> bool {
        self.is_tcp() && self.flags & (Flags::SYN.0 | Flags::ACK.0) == Flags::SYN.0
    }

    /// Returns the header of a plain segment.
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

    /// Converts back to the segment, and takes its options out of `pool`.
    #[inline]
    pub(crate) fn into_segment(self, pool: &mut OptionPool) -> Segment {
        let mut segment = self.segment(pool);
        if self.meta & HAS_OPTIONS != 0 {
            pool.release(self.extra);
        }
        // `header_bytes` needs the options, so the length is set last.
        segment.len = self.bytes - IP_HEADER - segment.header_bytes();
        segment
    }

    /// Returns the segment for inspection; the packet keeps its options.
    pub(crate) fn peek_segment(&self, pool: &OptionPool) -> Segment {
        let mut segment = self.segment(pool);
        segment.len = self.bytes - IP_HEADER - segment.header_bytes();
        segment
    }

    #[inline]
    fn segment(&self, pool: &OptionPool) -> Segment {
        let flags = Flags(self.flags);
        let Options { sack, accurate } =
            if self.meta & HAS_OPTIONS != 0 { pool.look(self.extra) } else { Options::default() };
        let syn = flags.contains(Flags::SYN);
        Segment {
            seq: Seq(self.a),
            ack: Seq(self.b),
            window: self.window,
            len: 0,
            flags,
            ecn: self.ecn(),
            timestamps: (self.meta & TIMESTAMPS != 0).then_some((self.tsval, self.tsecr)),
            sack,
            accurate: if syn && self.extra & SYN_ACCURATE != 0 {
                Some(AccurateEcn::INITIAL)
            } else {
                accurate
            },
            syn: syn.then(|| unpack_syn(self.extra)),
        }
    }

    /// Returns a middlebox's reset, as if the other end did not listen (RFC 9293, 3.10.7.1).
    /// Returns `None` if the packet is itself a reset.
    pub(crate) fn rejection(&self, pool: &OptionPool) -> Option<Self> {
        let segment = self.peek_segment(pool);
        if segment.flags.contains(Flags::RST) {
            return None;
        }
        let label = Label { generation: self.generation, class: self.meta & FOREGROUND };
        Some(Self::from_segment(
            label.in_direction(self.direction ^ 1),
            &segment.reset(),
            &mut OptionPool::default(),
        ))
    }

    /// Returns whether it is a SYN that carries data (RFC 7413).
    pub(crate) fn is_syn_with_data(&self) -> bool {
        if !self.is_tcp() || !Flags(self.flags).contains(Flags::SYN) {
            return false;
        }
        // A SYN's options are in the packet, so it uses no pool.
        self.peek_segment(&OptionPool::default()).len > 0
    }

    /// Frees what a packet that goes no further holds in the pool.
    pub(crate) fn discard(self, pool: &mut OptionPool) {
        if self.is_tcp() && self.meta & HAS_OPTIONS != 0 {
            pool.release(self.extra);
        }
    }
}

/// Packs SYN options: the MSS in the upper half; window scale plus one, the AccECN option with its
/// initial counters, Fast Open and the SACK-permitted bit in the lower.
fn pack_syn(syn: SynOptions, accurate: bool) -> u32 {
    let scale = syn.window_scale.map_or(0, |scale| u32::from(scale) + 1);
    let fast_open = match syn.fast_open {
        None => 0,
        Some(FastOpenOption::Request) => 1,
        Some(FastOpenOption::Cookie) => 2,
    };
    let accurate = if accurate { SYN_ACCURATE } else { 0 };
    u32::from(syn.mss) << 16
        | scale << 8
        | accurate
        | fast_open << 1
        | u32::from(syn.sack_permitted)
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

/// The bit of packed SYN options for the AccECN option.
const SYN_ACCURATE: u32 = 1 << 3;

/// The options of a segment that a packet has no room for.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    sack: SackBlocks,
    accurate: Option<AccurateEcn>,
}

/// The SACK blocks and AccECN options of the packets on their way.
#[derive(Debug, Default)]
pub(crate) struct OptionPool {
    options: Vec<Options>,
    free: Vec<u32>,
}

impl OptionPool {
    fn put(&mut self, options: Options) -> u32 {
        match self.free.pop() {
            Some(handle) => {
                self.options[handle as usize] = options;
                handle
            }
            None => {
                self.options.push(options);
                (self.options.len() - 1) as u32
            }
        }
    }

    fn look(&self, handle: u32) -> Options {
        self.options[handle as usize]
    }

    fn release(&mut self, handle: u32) {
        self.free.push(handle);
    }

    /// Returns the number of entries in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.options.len() - self.free.len()
    }
}
