//! What a discipline needs to know about a packet, and its verdicts.

use alloc::vec::Vec;

use narrows_units::{Ecn, Time};

use crate::settings::Words;

/// A packet, as far as a queue discipline is concerned.
pub trait Packet {
    /// Returns the length that counts against byte limits and thresholds (for Linux:
    /// `qdisc_pkt_len`, with the overhead that a size table adds). It must not change while the
    /// packet waits.
    fn bytes(&self) -> u32;

    /// Returns the ECN field of the IP header.
    fn ecn(&self) -> Ecn;

    /// Sets Congestion Experienced. Called only if [`Packet::ecn`] allows it.
    fn mark(&mut self);

    /// Returns a hash of the flow's addresses and ports, for disciplines that tell flows apart.
    fn flow_hash(&self) -> u64 {
        0
    }

    /// Returns the transport protocol, for filters.
    fn protocol(&self) -> Protocol {
        Protocol::Other
    }

    /// Returns the source and the destination port, for filters; zero if they are unknown.
    fn ports(&self) -> (u16, u16) {
        (0, 0)
    }

    /// Returns the time before which a discipline that paces should not let the packet leave, or
    /// `None` if its sender gave none (for Linux: `skb->tstamp`).
    fn departure_at(&self) -> Option<Time> {
        None
    }
}

/// The transport protocol of a packet, as far as filters distinguish it.
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
    /// Another one, or unknown.
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

/// What became of the packet that was passed to `enqueue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits.
    Queued,
    /// It waits, and was marked on arrival.
    Marked,
    /// It was dropped; it is the last entry of the list of drops.
    Dropped,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The queue was at its limit (Linux RED counts it as `pdrop`).
    Overflow,
    /// An AQM decided so before the queue was full: RED between its thresholds (Linux: `early`),
    /// Blue, CoDel, PIE.
    Early,
    /// An AQM decided so above its upper threshold (Linux RED: also `early`, as `forced_drop`).
    Forced,
}

impl DropReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Overflow, Self::Early, Self::Forced];

    /// Returns the reason's name in tables: `overflow`, `early`, `forced`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Early => "early",
            Self::Forced => "forced",
        }
    }
}

/// The packets that a call dropped, each with its reason. The caller drains the list.
pub type Dropped<P> = Vec<(P, DropReason)>;
