//! A TCP segment, as the state machine sees it: the meaning, not the bytes.

use narrows_qdisc::Ecn;

use super::Seq;

/// A segment. Payload is a length: the simulator carries no data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte (or of SYN, FIN).
    pub seq: Seq,
    /// Next byte expected; meaningful with [`Flags::ACK`].
    pub ack: Seq,
    /// The window field as carried: to be shifted left by the sender's scale unless SYN is set.
    pub window: u16,
    /// Payload bytes.
    pub len: u16,
    /// Control flags.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// Timestamps option (RFC 7323): TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// SACK option (RFC 2018); empty where absent.
    pub sack: SackBlocks,
    /// The options of SYN segments; `None` on all others.
    pub syn: Option<SynOptions>,
}

/// What every segment has: the meaning of its header without SACK blocks and the options of a SYN.
///
/// Almost all segments are nothing else, so this is what the two halves look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) window: u16,
    pub(crate) len: u16,
    pub(crate) flags: Flags,
    pub(crate) ecn: Ecn,
    pub(crate) timestamps: Option<(u32, u32)>,
}

impl Header {
    /// The sequence number after the segment: payload, SYN and FIN count.
    #[inline]
    pub(crate) fn end(&self) -> Seq {
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
    /// The segment without its SACK blocks and SYN options.
    #[inline]
    pub(crate) fn header(&self) -> Header {
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

    /// The sequence number after this segment: payload, SYN and FIN count.
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq + (u32::from(self.len) + self.flags.sequence_numbers())
    }

    /// The answer to this segment where no connection is (RFC 9293, 3.10.7.1).
    pub(crate) fn reset(&self) -> Self {
        if self.flags.contains(Flags::ACK) {
            Self { seq: self.ack, flags: Flags::RST, ..Self::default() }
        } else {
            Self { ack: self.end(), flags: Flags::RST.with(Flags::ACK), ..Self::default() }
        }
    }

    /// TCP header with options, in bytes, as Linux pads them: 12 for timestamps, 4 + 8n for SACK.
    #[inline]
    pub fn header_bytes(&self) -> u16 {
        let options = match self.syn {
            // MSS 4; SACK-permitted 2 and timestamps 10 share 12 with padding; window scale 3 + 1.
            Some(syn) => {
                let sack_and_timestamps = match (syn.sack_permitted, self.timestamps.is_some()) {
                    (_, true) => 12,
                    (true, false) => 4,
                    (false, false) => 0,
                };
                // Kind and length, a cookie of 8 bytes as Linux's, padding (RFC 7413, 4.1.1).
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
        20 + options
    }
}

/// Options that only SYN segments carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Maximum segment size (RFC 9293, section 3.7.1): payload bytes without options.
    pub mss: u16,
    /// Window scale (RFC 7323); `None` where not offered.
    pub window_scale: Option<u8>,
    /// SACK-permitted (RFC 2018).
    pub sack_permitted: bool,
    /// TCP Fast Open (RFC 7413, 4.1.1).
    pub fast_open: Option<FastOpenOption>,
}

/// The Fast Open option. A cookie is the right one: nobody makes any up, and keys do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastOpenOption {
    /// Without a cookie: the sender of a SYN asks for one.
    Request,
    /// With a cookie, given in a SYN-ACK or shown in a SYN.
    Cookie,
}

/// TCP control flags, as in the header's low byte (RFC 9293; CWR and ECE: RFC 3168), but for AE.
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
    /// Accurate ECN (RFC 9768, 3.1), which has a place in the header's reserved bits; here it has that of
    /// URG, which nobody sets.
    pub const AE: Self = Self(0x20);
    /// ECN echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is set.
    #[inline]
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These less `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The sequence numbers that SYN and FIN take.
    #[inline]
    fn sequence_numbers(self) -> u32 {
        u32::from(self.contains(Self::SYN)) + u32::from(self.contains(Self::FIN))
    }

    /// These and `other`.
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Up to three SACK blocks, each `[start, end)`; the first may be a D-SACK (RFC 2883).
///
/// With the timestamps option there is room for three (RFC 2018, section 3); without it Linux
/// would send a fourth, which we leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 3],
    len: u8,
}

impl SackBlocks {
    /// The most that fit.
    pub const CAPACITY: usize = 3;

    /// Appends a block; `false` where there is no room left.
    pub fn push(&mut self, start: Seq, end: Seq) -> bool {
        let at = usize::from(self.len);
        if at == Self::CAPACITY {
            return false;
        }
        self.blocks[at] = (start, end);
        self.len += 1;
        true
    }

    /// The number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks, in the order of the option.
    #[inline]
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }
}
