//! The simulator's input: plain structs in base units.
//!
//! The scenario language (Python) lowers to this. The simulator knows no units, names or defaults
//! beyond it. Indices refer to lists of the same plan. [`Plan::check`] states the rules that a plan
//! must meet.

pub use narrows_qdisc::AnyConfig as Queue;
use narrows_units::{Bytes, Rate, Span, Time};

use crate::application::Settings;
pub use crate::application::connection::{Connection, Opener};
pub use crate::application::streams::Stream;
pub use crate::application::{
    Draw, Kind, bulk, dns, flood, incast, on_off, page, ping, responder, secure, trace, transfer,
    udp, voip,
};
use crate::link::MOST_IN_A_MS;
use crate::network::check_neighbours;
use crate::transport::tcp;

/// A whole run.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The seed. Every random stream is derived from it and from the component's name.
    pub seed: u64,
    /// The time at which the run ends at the latest.
    pub end: Time,
    /// Whether the run ends as soon as every resolver worker is done.
    pub end_with_dns: bool,
    /// The number of events after which the run stops and counts as partial.
    pub event_limit: u64,
    /// Hosts and routers, by name.
    pub nodes: Vec<String>,
    /// Directed links: a two-way link is two of them.
    pub links: Vec<Link>,
    /// TCP settings that connections refer to.
    pub tcp: Vec<tcp::Config>,
    /// Paths through the network that applications refer to. Duplicates are not needed.
    pub paths: Vec<Path>,
    /// Everything that uses the network. Flows are numbered in this order.
    pub applications: Vec<Application>,
    /// Queues to sample.
    pub queue_monitors: Vec<Monitor>,
    /// Links to sample.
    pub link_monitors: Vec<Monitor>,
    /// Whose packets are kept for capture files.
    pub captures: Vec<Capture>,
    /// Changes of links' rates and delays during the run, in any order.
    #[cfg_attr(feature = "serde", serde(default))]
    pub changes: Vec<LinkChange>,
    /// Pairs of routers that resolve each other's link-layer addresses by ARP. All other addresses
    /// are known from the start.
    #[cfg_attr(feature = "serde", serde(default))]
    pub neighbours: Vec<NeighbourPair>,
    /// Whether to compute what can be computed at once instead of scheduling an event for it. The
    /// results are the same.
    pub collapse: bool,
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

/// A change of a link's rate or delay during the run.
///
/// The new rate holds for packets whose transmission starts at that moment or later. A packet in
/// transmission finishes at the old rate; packets waiting in the queue or in the ring leave at the
/// new one. Queue disciplines are not told, as in Linux: one with a `bandwidth` of its own (RED
/// uses it for the decay of its average in idle times) keeps it.
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

/// A path through the network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// Where it starts: an index into `nodes`.
    pub from: usize,
    /// Where it ends: an index into `nodes`.
    pub to: usize,
    /// Its links in order: indices into `links`.
    pub links: Vec<usize>,
}

/// One application: a traffic group, or the clients or the server of a service.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Application {
    /// Its name, which appears in the tables. Random streams are derived from it.
    pub name: String,
    /// What it does.
    pub kind: Kind,
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

/// Why a plan cannot be run, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PlanError {}

impl Plan {
    /// Checks everything that the simulator relies on: valid indices, connected paths, settings in
    /// range, and counts that its tables can hold.
    ///
    /// # Errors
    ///
    /// Returns the first violation.
    pub fn check(&self) -> Result<(), PlanError> {
        /// Half the largest index of an event, because connections have two ends.
        const MOST: usize = (crate::agenda::Event::MAX_INDEX / 2) as usize;
        ensure(self.end > Time::ZERO && self.end < Time::MAX, || "end: must be above zero".into())?;
        ensure(self.event_limit > 0, || "event_limit: must be above zero".into())?;
        let counts = [
            ("links", self.links.len()),
            ("paths", self.paths.len()),
            ("queue_monitors", self.queue_monitors.len()),
            ("link_monitors", self.link_monitors.len()),
        ];
        for (name, count) in counts {
            ensure(count <= MOST, || format!("{name}: {count} are more than the limit of {MOST}"))?;
        }
        for link in &self.links {
            link.check(self.nodes.len()).map_err(|why| why.inside(&link.name))?;
        }
        ensure(self.tcp.len() <= usize::from(u16::MAX), || "tcp: too many settings".into())?;
        for (index, config) in self.tcp.iter().enumerate() {
            config.check().map_err(|why| PlanError(format!("tcp {index}: {why}")))?;
        }
        for path in &self.paths {
            self.check_route(path.from, path.to, &path.links)?;
        }
        check_neighbours(self).map_err(PlanError)?;
        let mut flows = self.neighbours.len();
        for application in &self.applications {
            let uses = application
                .kind
                .check(self)
                .map_err(|why| PlanError(why).inside(&application.name))?;
            flows = flows.saturating_add(uses);
        }
        ensure(flows <= MOST, || format!("{flows} flows are more than the limit of {MOST}"))?;
        for monitor in self.queue_monitors.iter().chain(&self.link_monitors) {
            ensure(monitor.link < self.links.len(), || "monitor: no such link".into())?;
            ensure(monitor.interval > Span::ZERO, || {
                "monitor: interval must be above zero".into()
            })?;
        }
        for change in &self.changes {
            ensure(change.link < self.links.len(), || "changes: no such link".into())?;
            let link = &self.links[change.link];
            ensure(link.opportunities_ms.is_none(), || {
                format!("changes: {} follows a trace", link.name)
            })?;
        }
        for capture in &self.captures {
            for link in capture.links() {
                ensure(link < self.links.len(), || "captures: no such link".into())?;
            }
            let there = &self.links[capture.link];
            ensure(
                capture
                    .back
                    .map(|back| &self.links[back])
                    .is_none_or(|back| (back.from, back.to) == (there.to, there.from)),
                || "captures: back: does not lead back".into(),
            )?;
        }
        Ok(())
    }

    /// Returns the number of DNS queries, all applications together.
    pub fn queries(&self) -> u64 {
        let of_each = self.applications.iter().map(|application| application.kind.queries());
        of_each.fold(0, u64::saturating_add)
    }

    /// Checks that `there` and `back` are paths between the same two nodes, in opposite directions.
    pub(crate) fn check_round_trip(&self, there: usize, back: usize) -> Result<(), String> {
        let path = |index: usize| self.paths.get(index).ok_or("path: no such path");
        let (there, back) = (path(there)?, path(back)?);
        if (there.from, there.to) != (back.to, back.from) {
            return Err("path: the way back does not lead back".into());
        }
        Ok(())
    }

    /// Checks that `server` is an application that answers; `answers` tells this from its kind.
    pub(crate) fn check_server(
        &self,
        server: usize,
        answers: impl FnOnce(&Kind) -> bool,
    ) -> Result<(), String> {
        match self.applications.get(server) {
            None => Err("server: no such application".into()),
            Some(application) if !answers(&application.kind) => {
                Err(format!("server: {:?} answers nothing like this", application.name))
            }
            Some(_) => Ok(()),
        }
    }

    fn check_route(&self, from: usize, to: usize, route: &[usize]) -> Result<(), PlanError> {
        ensure(from < self.nodes.len() && to < self.nodes.len(), || "no such node".into())?;
        ensure(!route.is_empty() && route.len() <= 255, || {
            format!("route from {} to {}: needs 1 to 255 links", self.nodes[from], self.nodes[to])
        })?;
        let mut at = from;
        for &index in route {
            let link = self.links.get(index);
            let link = link.ok_or_else(|| PlanError("route: no such link".into()))?;
            ensure(link.from == at, || {
                format!("route: {} does not start where it should", link.name)
            })?;
            at = link.to;
        }
        ensure(at == to, || format!("route does not end at {}", self.nodes[to]))
    }
}

impl Link {
    fn check(&self, nodes: usize) -> Result<(), PlanError> {
        ensure(self.from < nodes && self.to < nodes, || "no such node".into())?;
        ensure((0.0..=1.0).contains(&self.loss), || "loss: must be from 0 to 1".into())?;
        ensure(self.framing.overhead <= 1000 && self.framing.min <= 65_535, || {
            "framing: overhead is at most 1000 bytes, min at most 65535".into()
        })?;
        ensure(self.framing.queue_overhead <= 1000, || {
            "framing: queue_overhead is at most 1000 bytes".into()
        })?;
        if let Some(jitter) = &self.jitter {
            ensure((0.0..=1.0).contains(&jitter.correlation), || {
                "jitter: correlation must be from 0 to 1".into()
            })?;
            ensure(jitter.deviation <= Span::from_ms(2147), || {
                "jitter: deviation is at most 2.147 s (netem's own limit)".into()
            })?;
        }
        let ring_fits = match self.ring {
            None => true,
            Some(Ring::Packets(packets)) => packets > 0,
            Some(Ring::Bytes(bytes)) => bytes > Bytes::ZERO,
        };
        ensure(ring_fits, || "ring: must hold something".into())?;
        ensure(self.mtu >= SMALLEST_MTU, || {
            format!("mtu: must be {SMALLEST_MTU} to 65535 bytes (every host takes {SMALLEST_MTU})")
        })?;
        if let Some(ms) = &self.opportunities_ms {
            check_opportunities(ms, self.ring.is_some())?;
        }
        let queue = self.queue.clone().settled(self.rate);
        queue.check().map_err(|why| PlanError(format!("queue: {why}")))
    }
}

/// The MTU that every IPv4 host must accept (RFC 791, 3.1).
const SMALLEST_MTU: u16 = 576;

fn check_opportunities(ms: &[u32], has_ring: bool) -> Result<(), PlanError> {
    let at = |why: &str| format!("opportunities_ms: {why}");
    ensure(ms.last().is_some_and(|&last| last > 0), || at("must last for some time"))?;
    ensure(ms.is_sorted(), || at("must not fall"))?;
    // The end of one pass and the start of the next may fall on the same moment.
    let fits = ms.len() / 2 < MOST_IN_A_MS
        || ms.chunk_by(|one, other| one == other).all(|same| same.len() <= MOST_IN_A_MS / 2);
    ensure(fits, || at("has too many in one millisecond"))?;
    ensure(!has_ring, || at("a link that follows a trace has no ring"))
}

impl PlanError {
    fn inside(self, name: &str) -> Self {
        Self(format!("{name}: {}", self.0))
    }
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), PlanError> {
    if holds { Ok(()) } else { Err(PlanError(why())) }
}
