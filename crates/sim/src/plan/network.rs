//! The network of a plan: links, what happens to them, and what is watched.

use narrows_apps::Path;
use narrows_transport::tcp;
use narrows_units::{Bytes, Rate, Span, Time};

pub use narrows_qdisc::AnyConfig as Queue;

/// What the network knows of a plan: everything but its applications. The fields are the plan's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topology<'a> {
    pub(crate) seed: u64,
    pub(crate) nodes: &'a [String],
    pub(crate) links: &'a [Link],
    pub(crate) paths: &'a [Path],
    pub(crate) tcp: &'a [tcp::Config],
    /// The longest UDP payload of the applications' QUIC packets in bytes; 0: none uses QUIC.
    pub(crate) quic_payload: u16,
    pub(crate) queue_monitors: &'a [Monitor],
    pub(crate) link_monitors: &'a [Monitor],
    pub(crate) captures: &'a [Capture],
    pub(crate) changes: &'a [LinkChange],
    pub(crate) neighbours: &'a [NeighbourPair],
    pub(crate) collapse: bool,
}

/// Packets kept for a capture file.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capture {
    /// The name of what is captured.
    pub name: String,
    /// The link whose packets are seen when it has transmitted them: an index into `links`.
    pub link: usize,
    /// The link in the other direction, whose packets are seen where they arrive; `None`: they are
    /// not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub back: Option<usize>,
    /// The bytes kept of each frame; `None`: all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub snaplen: Option<u32>,
}

impl Capture {
    /// Creates a capture of what one link transmits.
    pub fn of(link: usize, name: &str) -> Self {
        Self { name: name.to_owned(), link, back: None, snaplen: None }
    }

    /// Returns the captured links.
    pub(crate) fn links(&self) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(self.link).chain(self.back)
    }
}

/// A directed link: a queue, then the network card's ring, then the wire.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// Its unique name, such as `bottleneck:BN2->BN1`. Its random streams are derived from it.
    pub name: String,
    /// Where it starts: an index into `nodes`.
    pub from: usize,
    /// Where it ends: an index into `nodes`.
    pub to: usize,
    /// The transmission rate.
    pub rate: Rate,
    /// Milliseconds at which 1500 bytes may leave, never decreasing. The list starts again after
    /// its last entry, which must be above zero. `rate` is then its mean. `None`: the link can
    /// always send.
    #[cfg_attr(feature = "serde", serde(default))]
    pub opportunities_ms: Option<Vec<u32>>,
    /// The propagation delay.
    pub delay: Span,
    /// Delay variation, applied after transmission.
    pub jitter: Option<Jitter>,
    /// The probability that a packet is lost on the wire, 0 to 1.
    pub loss: f64,
    /// Whether DNS packets are exempt from `delay`, `jitter` and `loss` (as in the classful queue
    /// of Harhalakis et al., 2011).
    pub dns_exempt: bool,
    /// The bytes that framing adds to every IP packet on the wire and in queues.
    pub framing: Framing,
    /// The queue discipline at the link's head.
    pub queue: Queue,
    /// Whether every departure from the queue gets an event, even if the discipline needs none. The
    /// results are the same; this is for tests and measurements.
    #[cfg_attr(feature = "serde", serde(default))]
    pub scheduled: bool,
    /// The network card's ring buffer below the queue. `None`: the card takes one packet at a time.
    pub ring: Option<Ring>,
    /// The longest IP packet that the link takes, 576 to 65535 bytes.
    ///
    /// A host sends a datagram in fragments if some link on its path is too short for it. TCP
    /// starts from the MTU of its own first link, and learns of a smaller one further on from the
    /// router there.
    #[cfg_attr(feature = "serde", serde(default = "ethernet_mtu"))]
    pub mtu: u16,
    /// A middlebox at the link's head.
    #[cfg_attr(feature = "serde", serde(default))]
    pub middlebox: Option<Middlebox>,
}

/// Two routers, at the ends of a link, that resolve each other's addresses.
///
/// Neither may be an end of another path, because the entries that a host has for its neighbours
/// are also confirmed by its TCP, which is not modelled.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NeighbourPair {
    /// The path from one to the other, of a single link: an index into `paths`.
    pub there: usize,
    /// The path back, of a single link: an index into `paths`.
    pub back: usize,
}

/// Ethernet's MTU.
pub const ETHERNET_MTU: u16 = 1500;

#[cfg(feature = "serde")]
const fn ethernet_mtu() -> u16 {
    ETHERNET_MTU
}

/// A middlebox at the head of a link, which drops certain packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Middlebox {
    /// Drops DNS datagrams whose message is longer than this many bytes. `None`: drops none.
    pub drop_dns_above: Option<u16>,
    /// Drops every fragment.
    pub drop_fragments: bool,
    /// Drops routers' messages that a packet was too big. Senders that rely on these messages then
    /// face a black hole.
    pub drop_too_big: bool,
    /// Blocks TCP to port 53. `None`: lets it pass.
    pub block_tcp_53: Option<Block>,
    /// Drops SYNs that carry data (RFC 7413, 7.1).
    pub drop_syn_data: bool,
}

/// What a middlebox does with packets that it blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Block {
    /// It drops them silently.
    Drop,
    /// It answers them with a reset.
    Reject,
}

/// A change of a link's rate, delay or state during the run.
///
/// The new rate holds for packets whose transmission starts at that moment or later. A packet in
/// transmission finishes at the old rate; packets waiting in the queue or in the ring leave at the
/// new one. Queue disciplines are not told, as in Linux: one with a `bandwidth` of its own (RED
/// uses it for the decay of its average in idle times) keeps it.
///
/// While a link is down, no packet leaves its queue, and no transmission starts. The packet that is
/// in transmission when the link goes down is lost at that moment; it counts as sent, and as lost
/// on the wire. Packets sent before arrive. This is how a modem waits for its line. A Linux host
/// whose device loses its carrier drops what waits there, and whatever comes until the carrier is
/// back (net/sched/sch_generic.c, `dev_deactivate_many`, Linux 6.1).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkChange {
    /// The time of the change. If a link changes twice at the same time, the later entry counts.
    pub at: Time,
    /// An index into `links`.
    pub link: usize,
    /// The new rate.
    pub rate: Rate,
    /// The new propagation delay. `None`: the delay stays. If it falls, packets may overtake
    /// earlier ones.
    #[cfg_attr(feature = "serde", serde(default))]
    pub delay: Option<Span>,
    /// Whether the link sends from then on. `None`: as before; at the start of the run it does.
    #[cfg_attr(feature = "serde", serde(default))]
    pub state: Option<LinkState>,
}

/// Whether a link sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LinkState {
    /// It sends.
    Up,
    /// It does not.
    Down,
}

/// Link-layer framing.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Framing {
    /// Bytes added to the IP packet's length on the wire (Ethernet: 14 for the header, 4 for the
    /// checksum, 20 for preamble and gap).
    pub overhead: u32,
    /// The shortest frame on the wire in bytes, overhead included (Ethernet: 84).
    pub min: u32,
    /// Bytes added to the IP packet's length where queues count bytes. Linux counts the 14 bytes of
    /// the Ethernet header, but not what tc-tbf(8)'s `overhead` adds.
    pub queue_overhead: u32,
}

/// A network card's ring buffer. It holds packets that have left the queue discipline, out of reach
/// of any AQM.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ring {
    /// Holds this many packets, including the one in transmission.
    Packets(u32),
    /// A driver that refills in bursts: it stops the queue when the ring holds `stop` packets,
    /// including the one in transmission, and wakes it when no more than `wake` are left (e1000's
    /// `e1000_maybe_stop_tx` and `TX_WAKE_THRESHOLD`). With `wake` = `stop` - 1, it is
    /// [`Ring::Packets`].
    Thresholds {
        /// The most packets in the ring.
        stop: u32,
        /// Below `stop`.
        wake: u32,
    },
    /// Holds this many bytes, framing included. Each transmitted byte makes room at once.
    Bytes(Bytes),
}

/// Delay variation as netem computes it (`net/sched/sch_netem.c`, Linux 6.1, `tabledist`).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jitter {
    /// The half-width of the uniform distribution, or the standard deviation of the normal one.
    pub deviation: Span,
    /// The correlation of successive values, 0 to 1.
    pub correlation: f64,
    /// The shape of the distribution.
    pub distribution: Distribution,
    /// Whether a packet may overtake another.
    pub reorder: bool,
}

/// The shape of delay variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Distribution {
    /// Uniform.
    Uniform,
    /// Normal, from a table of quantiles like netem's.
    Normal,
}

/// What a monitor samples, and how often.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Monitor {
    /// An index into `links`.
    pub link: usize,
    /// The time between samples. The first sample is taken at `interval`.
    pub interval: Span,
}
