//! What a discipline has to know of a packet, and what it says of its fate.

use crate::settings::Words;

/// A packet, as far as a queue discipline is concerned.
pub trait Packet {
    /// The length that counts against byte limits and thresholds (for Linux: `qdisc_pkt_len`,
    /// with the overhead that a size table adds). It stays the same while the packet waits.
    fn bytes(&self) -> u32;

    /// The ECN field of the IP header.
    fn ecn(&self) -> Ecn;

    /// Sets Congestion Experienced. Called only where [`Packet::ecn`] says it may be.
    fn mark(&mut self);

    /// A hash of the flow's addresses and ports, for disciplines that tell flows apart.
    fn flow_hash(&self) -> u64 {
        0
    }

    /// The transport protocol, for filters.
    fn protocol(&self) -> Protocol {
        Protocol::Other
    }

    /// Source and destination port, for filters; zero where they are not known.
    fn ports(&self) -> (u16, u16) {
        (0, 0)
    }
}

/// The transport protocol of a packet, as far as filters tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Protocol {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// Any other, or not known.
    #[default]
    Other,
}

impl Words for Protocol {
    const WORDS: &'static [&'static str] = &["udp", "tcp", "other"];

    fn word(&self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Other => "other",
        }
    }
}

/// The ECN field (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: `00`.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1): `01`.
    Ect1 = 1,
    /// ECN-capable, ECT(0): `10`.
    Ect0 = 2,
    /// Congestion experienced: `11`.
    Ce = 3,
}

impl Ecn {
    /// Whether a queue may mark the packet instead of dropping it; true also where it is marked.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// What became of the packet that was handed to `enqueue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits.
    Queued,
    /// It waits, and was marked on the way in.
    Marked,
    /// It was dropped; it is the last entry of the list of drops.
    Dropped,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The queue's limit (Linux RED counts it as `pdrop`).
    Overflow,
    /// An AQM's decision before the queue is full: RED's between its thresholds (Linux: `early`),
    /// Blue's, CoDel's, PIE's.
    Early,
    /// An AQM's decision above its upper threshold (Linux RED: `early` too, as `forced_drop`).
    Forced,
}

impl DropReason {
    /// Every reason, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Overflow, Self::Early, Self::Forced];

    /// The reason in tables: `overflow`, `early`, `forced`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Early => "early",
            Self::Forced => "forced",
        }
    }
}

/// Packets that a call dropped, each with its reason; the caller drains it.
pub type Dropped<P> = Vec<(P, DropReason)>;
