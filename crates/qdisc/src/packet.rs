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

    /// Returns how many of these bytes are the link's header, before the IP packet (for Linux:
    /// `skb_network_offset`).
    fn header_bytes(&self) -> u32 {
        0
    }

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

    /// Returns the Differentiated Services code point, 0 to 63 (RFC 2474, section 3); 0 if it is
    /// unknown. ARP has none and counts as CS7, 56, as in Linux' `sch_cake.c`.
    fn dscp(&self) -> u8 {
        0
    }

    /// Sets the code point. Only disciplines that wash packets call it (tc-cake(8), `wash`).
    fn set_dscp(&mut self, _dscp: u8) {}

    /// Returns numbers of the source and the destination host, for disciplines that isolate hosts
    /// and for filters: the addresses, or whatever is the same for the packets of a host. Zero if
    /// they are unknown. Callers may leave them out if [`AnyConfig::reads_hosts`] is false.
    ///
    /// [`AnyConfig::reads_hosts`]: crate::AnyConfig::reads_hosts
    fn hosts(&self) -> (u32, u32) {
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
#[repr(u8)]
pub enum Protocol {
    /// UDP.
    Udp = 1,
    /// TCP.
    Tcp = 2,
    /// Another one, or unknown.
    #[default]
    Other = 0,
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

/// What a TCP segment acknowledges, for a filter of acknowledgements ([`Qdisc::announce`]).
///
/// [`Qdisc::announce`]: crate::Qdisc::announce
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The connection and direction: the same for segments with the same addresses and ports.
    pub connection: u64,
    /// The acknowledgement number.
    pub number: u32,
    /// Whether it is a pure acknowledgement: it has no data, no flags except ACK, ECE and CWR, and
    /// no options except timestamps and SACK. (AE is such a flag and AccECN such an option, so
    /// segments that have them are not pure.)
    pub is_pure: bool,
    /// Whether its flags ECE and CWR are set (RFC 3168, section 6.1).
    pub ecn_flags: (bool, bool),
    /// Its timestamps, TSval and TSecr (RFC 7323, section 3.2).
    pub timestamps: Option<(u32, u32)>,
    /// The left and right edges of its SACK blocks (RFC 2018, section 3). Empty ones, with equal
    /// edges, do not count.
    pub sack: [(u32, u32); 4],
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
