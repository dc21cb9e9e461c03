//! A TCP segment as the state machine sees it: values, not bytes.

use narrows_units::Ecn;

use super::{AccurateEcn, Seq};

/// A segment. Its payload is only a length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The sequence number of the first byte (or of SYN, FIN).
    pub seq: Seq,
    /// The next byte expected; meaningful with [`Flags::ACK`].
    pub ack: Seq,
    /// The window field as carried. Shift it left by the sender's scale unless SYN is set.
    pub window: u16,
    /// Payload bytes.
    pub len: u16,
    /// Control flags.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The timestamps option (RFC 7323): TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// The SACK option (RFC 2018); empty if absent.
    pub sack: SackBlocks,
    /// The AccECN option (RFC 9768).
    pub accurate: Option<AccurateEcn>,
    /// The options of SYN segments; `None` on all others.
    pub syn: Option<SynOptions>,
}

/// The fields that every segment has: its header without SACK blocks, without the AccECN option
/// and without the options of a SYN.
///
/// Almost all segments have nothing else, so this is what the two halves work on.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// As in [`Segment`].
    pub seq: Seq,
    /// As in [`Segment`].
    pub ack: Seq,
    /// As in [`Segment`].
    pub window: u16,
    /// As in [`Segment`].
    pub len: u16,
    /// As in [`Segment`].
    pub flags: Flags,
    /// As in [`Segment`].
    pub ecn: Ecn,
    /// As in [`Segment`].
    pub timestamps: Option<(u32, u32)>,
}

impl Header {
    /// Returns the sequence number after the segment: payload, SYN and FIN count.
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq + (u32::from(self.len) + self.flags.sequence_numbers())
    }
}

impl From<Header> for Segment {
    fn from(header: Header) -> Self {
        Self {
            seq: header.seq,
            ack: header.ack,
            window: header.window,
            len: header.len,
            flags: header.flags,
            ecn: header.ecn,
            timestamps: header.timestamps,
            ..Self::default()
        }
    }
}

impl Segment {
    /// Returns the segment without its SACK blocks, AccECN option and SYN options.
    #[inline]
    pub fn header(&self) -> Header {
        Header {
            seq: self.seq,
            ack: self.ack,
            window: self.window,
            len: self.len,
            flags: self.flags,
            ecn: self.ecn,
            timestamps: self.timestamps,
        }
    }

    /// Returns the sequence number after this segment: payload, SYN and FIN count.
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq + (u32::from(self.len) + self.flags.sequence_numbers())
    }

    /// Returns the answer to this segment from a host without the connection (RFC 9293, 3.10.7.1).
    pub fn reset(&self) -> Self {
        if self.flags.contains(Flags::ACK) {
            Self { seq: self.ack, flags: Flags::RST, ..Self::default() }
        } else {
            Self { ack: self.end(), flags: Flags::RST.with(Flags::ACK), ..Self::default() }
        }
    }

    /// Returns the length of the TCP header with options in bytes, padded as in Linux: 12 for
    /// timestamps, 4 + 8n for SACK, 12 for a whole AccECN option.
    #[inline]
    pub fn header_bytes(&self) -> u16 {
        let options = match self.syn {
            // MSS takes 4; SACK-permitted 2 and timestamps 10 fill 12 with padding; window scale
            // takes 3 + 1.
            Some(syn) => {
                let sack_and_timestamps = match (syn.sack_permitted, self.timestamps.is_some()) {
                    (_, true) => 12,
                    (true, false) => 4,
                    (false, false) => 0,
                };
                // Kind and length, a cookie of 8 bytes like Linux's, padding (RFC 7413, 4.1.1).
                let fast_open = match syn.fast_open {
                    None => 0,
                    Some(FastOpenOption::Request) => 4,
                    Some(FastOpenOption::Cookie) => 12,
                };
                let scale = if syn.window_scale.is_some() { 4 } else { 0 };
                4 + sack_and_timestamps + scale + fast_open
            }
            None => {
                let sack = self.sack.len() as u16;
                (if self.timestamps.is_some() { 12 } else { 0 })
                    + (if sack == 0 { 0 } else { 4 + 8 * sack })
            }
        };
        20 + options + self.accurate.map_or(0, |option| option.padded_bytes())
    }
}

/// Options that only SYN segments carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// The maximum segment size (RFC 9293, section 3.7.1): payload bytes without options; 0: none
    /// was given.
    pub mss: u16,
    /// The window scale (RFC 7323); `None`: not offered.
    pub window_scale: Option<u8>,
    /// Whether SACK is permitted (RFC 2018).
    pub sack_permitted: bool,
    /// TCP Fast Open (RFC 7413, 4.1.1).
    pub fast_open: Option<FastOpenOption>,
}

impl SynOptions {
    /// Returns the MSS that a SYN with these options offers: without the option, 536 bytes (RFC
    /// 9293, 3.7.1).
    pub fn offered_mss(&self) -> u16 {
        if self.mss == 0 { 536 } else { self.mss }
    }
}

/// The Fast Open option. Every cookie is valid: nobody forges any, and keys do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastOpenOption {
    /// Without a cookie: the sender of a SYN asks for one.
    Request,
    /// With a cookie, given in a SYN-ACK or shown in a SYN.
    Cookie,
}

/// TCP control flags as in the header's low byte (RFC 9293; CWR and ECE: RFC 3168), except AE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field is meaningful.
    pub const ACK: Self = Self(0x10);
    /// Accurate ECN (RFC 9768, 3.1). The header has it among the reserved bits; here it takes the
    /// bit of URG, which nobody sets.
    pub const AE: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Returns whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether any of `other` is set.
    #[inline]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns these flags without `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns how many sequence numbers SYN and FIN take.
    #[inline]
    fn sequence_numbers(self) -> u32 {
        u32::from(self.contains(Self::SYN)) + u32::from(self.contains(Self::FIN))
    }

    /// Returns these flags and `other`.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Up to three SACK blocks, each `[start, end)`; the first may be a D-SACK (RFC 2883).
///
/// With the timestamps option there is room for three (RFC 2018, section 3). Without it Linux would
/// send a fourth, which we omit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 3],
    len: u8,
}

impl SackBlocks {
    /// The largest number of blocks.
    pub const CAPACITY: usize = 3;

    /// Appends a block. Returns false if there is no room left.
    pub fn push(&mut self, start: Seq, end: Seq) -> bool {
        let at = usize::from(self.len);
        if at == Self::CAPACITY {
            return false;
        }
        self.blocks[at] = (start, end);
        self.len += 1;
        true
    }

    /// Takes the last block away.
    pub(super) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        self.blocks[usize::from(self.len)] = Default::default();
    }

    /// Returns the number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns whether there is no block.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the blocks in the order of the option.
    #[inline]
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: SynOptions =
        SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, fast_open: None };

    fn stamped(stamps: bool, syn: Option<SynOptions>) -> Segment {
        Segment { timestamps: stamps.then_some((1, 0)), syn, ..Segment::default() }
    }

    /// The headers that Linux sends: 40 bytes for its SYN, 32 for its data, 52 for two SACK blocks.
    #[test]
    fn headers_are_as_long_as_linuxs() {
        for (stamps, scale, sack, fast_open, bytes) in [
            (true, true, true, None, 40),
            (true, true, false, None, 40),
            (true, false, true, None, 36),
            (false, true, true, None, 32),
            (false, true, false, None, 28),
            (false, false, false, None, 24),
            (true, true, true, Some(FastOpenOption::Request), 44),
            (true, true, true, Some(FastOpenOption::Cookie), 52),
        ] {
            let options = SynOptions {
                window_scale: scale.then_some(7),
                sack_permitted: sack,
                fast_open,
                ..OPTIONS
            };
            assert_eq!(stamped(stamps, Some(options)).header_bytes(), bytes, "{options:?}");
        }
        for (stamps, blocks, bytes) in [
            (false, 0, 20),
            (true, 0, 32),
            (false, 1, 32),
            (false, 3, 48),
            (true, 1, 44),
            (true, 2, 52),
            (true, 3, 60),
        ] {
            let mut segment = stamped(stamps, None);
            (0..blocks).for_each(|n| assert!(segment.sack.push(Seq(n), Seq(n + 1))));
            assert_eq!(segment.header_bytes(), bytes, "{stamps} {blocks}");
        }
    }

    #[test]
    fn three_blocks_fit() {
        let mut sack = SackBlocks::default();
        assert!(sack.is_empty());
        for n in 0..5 {
            assert_eq!(sack.push(Seq(n), Seq(n + 1)), n < 3);
            assert_eq!((sack.len(), sack.is_empty()), (3.min(n as usize + 1), false));
        }
        let blocks = [(Seq(0), Seq(1)), (Seq(1), Seq(2)), (Seq(2), Seq(3))];
        assert_eq!(sack.as_slice(), blocks);
    }

    /// RFC 9293, 3.4 and 3.10.7.1: SYN and FIN take a sequence number each; a reset of a segment
    /// without ACK acknowledges all of it.
    #[test]
    fn a_segment_ends_after_its_payload_syn_and_fin() {
        let (syn, fin, ack) = (Flags::SYN, Flags::FIN, Flags::ACK);
        for (flags, len, end) in [
            (ack, 0, 100),
            (ack, 36, 136),
            (syn, 0, 101),
            (syn, 36, 137),
            (ack.with(fin), 36, 137),
            (syn.with(fin), 36, 138),
        ] {
            let segment = Segment { seq: Seq(100), ack: Seq(7), len, flags, ..Segment::default() };
            assert_eq!((segment.end(), segment.header().end()), (Seq(end), Seq(end)));
            let reset = segment.reset();
            if flags.contains(ack) {
                assert_eq!((reset.seq, reset.ack, reset.flags), (Seq(7), Seq(0), Flags::RST));
            } else {
                assert_eq!((reset.seq, reset.ack), (Seq(0), Seq(end)));
                assert_eq!(reset.flags, Flags::RST.with(ack));
            }
        }
        assert_eq!(OPTIONS.offered_mss(), 1460);
        assert_eq!(SynOptions { mss: 0, ..OPTIONS }.offered_mss(), 536);
        assert_eq!(SynOptions { mss: 1, ..OPTIONS }.offered_mss(), 1);
    }

    /// A header keeps every field that it has, and a segment made of it has nothing else.
    #[test]
    fn a_header_is_a_segment_without_options_of_syns() {
        let header = Header {
            seq: Seq(1),
            ack: Seq(2),
            window: 3,
            len: 4,
            flags: Flags::PSH,
            ecn: Ecn::Ce,
            timestamps: Some((5, 6)),
        };
        let segment = Segment::from(header);
        assert_eq!((segment.seq, segment.ack, segment.window), (Seq(1), Seq(2), 3));
        assert_eq!((segment.len, segment.flags, segment.ecn), (4, Flags::PSH, Ecn::Ce));
        assert_eq!(segment.timestamps, Some((5, 6)));
        assert_eq!((segment.sack.len(), segment.syn), (0, None));
        assert_eq!(Segment::from(segment.header()), segment);
    }

    /// RFC 9293, 3.1, and RFC 3168, 6.1: the bits of the header.
    #[test]
    fn flags_are_bits() {
        let all = [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::AE];
        let all = [&all[..], &[Flags::ECE, Flags::CWR]].concat();
        for (bit, &flag) in all.iter().enumerate() {
            assert_eq!(flag.0, 1 << bit);
            for &other in &all {
                let both = flag.with(other);
                assert!(both.contains(flag) && both.contains(other) && both.intersects(flag));
                assert_eq!(flag.contains(other), flag == other);
                assert_eq!(flag.contains(both), flag == other);
                assert_eq!(both.without(other), if flag == other { Flags(0) } else { flag });
                assert_eq!(flag.without(other).intersects(flag), flag != other);
            }
        }
    }
}
