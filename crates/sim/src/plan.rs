//! What the simulator is told: plain structs in base units.
//!
//! The scenario language (Python) lowers to this; the simulator knows no units, names or defaults
//! beyond it. Indices refer to the lists of the same plan. [`Plan::check`] states what must hold.

pub use narrows_qdisc::AnyConfig as Queue;
use narrows_units::{Bytes, Rate, Span, Time};

use crate::application::Settings;
pub use crate::application::connection::{Connection, Opener};
pub use crate::application::streams::Stream;
pub use crate::application::{
    Draw, Kind, bulk, dns, flood, incast, on_off, page, ping, responder, trace, transfer, udp, voip,
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
    /// Every random stream is derived from this and the component's name.
    pub seed: u64,
    /// The run ends here at the latest.
    pub end: Time,
    /// Ends the run as soon as every resolver worker is done.
    pub end_with_dns: bool,
    /// The run stops, as partial, after this many events.
    pub event_limit: u64,
    /// Hosts and routers, by name.
    pub nodes: Vec<String>,
    /// Directed links: a two-way link is two of them.
    pub links: Vec<Link>,
    /// TCP settings that connections refer to.
    pub tcp: Vec<tcp::Config>,
    /// Ways through the network that applications refer to; none needs to be there twice.
    pub paths: Vec<Path>,
    /// What uses the network, in the order in which flows are numbered.
    pub applications: Vec<Application>,
    /// Queues to sample.
    pub queue_monitors: Vec<Monitor>,
    /// Links to sample.
    pub link_monitors: Vec<Monitor>,
    /// Links whose packets are kept for a capture file.
    pub captures: Vec<usize>,
    /// Rates, and delays, that change during the run, in any order.
    #[cfg_attr(feature = "serde", serde(default))]
    pub changes: Vec<LinkChange>,
    /// Routers that resolve each other's link-layer addresses by ARP; elsewhere all addresses are known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub neighbours: Vec<NeighbourPair>,
    /// Computes what can be computed at once instead of scheduling it; results are the same.
    pub collapse: bool,
}

/// A directed link: queue, then the card's ring, then the wire.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// Its name, unique, such as `bottleneck:BN2->BN1`; its random streams are derived from it.
    pub name: String,
    /// Where it starts: an index into `nodes`.
    pub from: usize,
    /// Where it ends: an index into `nodes`.
    pub to: usize,
    /// Transmission rate.
    pub rate: Rate,
    /// Milliseconds at which 1500 bytes may leave, not falling; after the last, which is above
    /// zero, the list begins again. `rate` is its mean. `None`: the link sends all the time.
    #[cfg_attr(feature = "serde", serde(default))]
    pub opportunities_ms: Option<Vec<u32>>,
    /// Propagation delay.
    pub delay: Span,
    /// Delay variation, after transmission.
    pub jitter: Option<Jitter>,
    /// Probability that a packet is lost on the wire, 0 to 1.
    pub loss: f64,
    /// DNS packets see no `delay`, `jitter` and `loss` (the first paper's classful queue).
    pub dns_exempt: bool,
    /// Bytes that framing adds to every IP packet on the wire and in queues.
    pub framing: Framing,
    /// The queue discipline at the link's head.
    pub queue: Queue,
    /// An event for each departure from the queue even where the discipline needs none: results
    /// are the same. For tests and measurements.
    #[cfg_attr(feature = "serde", serde(default))]
    pub scheduled: bool,
    /// The network card's ring buffer below the queue; `None`: the card takes one packet at a time.
    pub ring: Option<Ring>,
    /// Longest IP packet that the link takes, 576 to 65535 bytes.
    ///
    /// Datagrams that are longer than some link on their path takes leave their host in fragments. TCP
    /// keeps to its own first link, and learns of a shorter one further on from that one's router.
    #[cfg_attr(feature = "serde", serde(default = "ethernet_mtu"))]
    pub mtu: u16,
    /// A middlebox at the link's head.
    #[cfg_attr(feature = "serde", serde(default))]
    pub middlebox: Option<Middlebox>,
}

/// Two routers at the ends of a link, which resolve each other's addresses.
///
/// Neither may be an end of other paths: it is TCP above that confirms a host's neighbours.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NeighbourPair {
    /// A path of one link, from one to the other: an index into `paths`.
    pub there: usize,
    /// The path of one link back: an index into `paths`.
    pub back: usize,
}

/// Ethernet's MTU.
pub const ETHERNET_MTU: u16 = 1500;

#[cfg(feature = "serde")]
const fn ethernet_mtu() -> u16 {
    ETHERNET_MTU
}

/// A middlebox at the head of a link: which packets it drops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Middlebox {
    /// Drops DNS datagrams whose message is longer than so many bytes; `None`: none.
    pub drop_dns_above: Option<u16>,
    /// Drops every fragment.
    pub drop_fragments: bool,
    /// Drops routers' messages that a packet was too big: a black hole for senders that rely on them.
    pub drop_too_big: bool,
    /// Lets no TCP to port 53 through; `None`: it passes.
    pub block_tcp_53: Option<Block>,
    /// Drops SYNs that carry data (RFC 7413, 7.1).
    pub drop_syn_data: bool,
}

/// What a middlebox does with packets that it does not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Block {
    /// It drops it in silence.
    Drop,
    /// It answers with a reset.
    Reject,
}

/// A change of a link's rate at a moment of the run.
///
/// It holds for packets whose transmission starts then or later: one in transmission is sent to its
/// end as before, and whatever waits, in the queue or in the ring, meets the new rate. No
/// discipline is told, as none is in Linux: what has a `bandwidth` of its own (RED, for the decay
/// of its average in idle times) keeps it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkChange {
    /// When; of two changes of a link at the same time the later in the list counts.
    pub at: Time,
    /// An index into `links`.
    pub link: usize,
    /// The rate from then on.
    pub rate: Rate,
    /// The propagation delay from then on; `None`: as it was. Where it falls, packets may overtake
    /// others.
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
    /// Added to the IP packet's length on the wire (Ethernet: 14 header, 4 checksum, 20 preamble
    /// and gap).
    pub overhead: u32,
    /// Shortest frame on the wire, overhead included (Ethernet: 84).
    pub min: u32,
    /// Added to the IP packet's length where queues count bytes (Linux counts the 14 bytes of the
    /// Ethernet header, and not what tc-tbf(8)'s `overhead` adds).
    pub queue_overhead: u32,
}

/// A network card's ring buffer: packets that the queue discipline has let go and that no AQM sees.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Ring {
    /// Holds this many packets, the one in transmission among them.
    Packets(u32),
    /// Holds this many bytes, framing included; room comes back with every byte transmitted.
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
    /// Half-width of the uniform, standard deviation of the normal distribution.
    pub deviation: Span,
    /// Correlation of successive values, 0 to 1.
    pub correlation: f64,
    /// Its shape.
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
    /// Normal, from a table of quantiles as netem has it.
    Normal,
}

/// A way through the network.
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
    /// The links on it, in order: indices into `links`.
    pub links: Vec<usize>,
}

/// One application: a traffic group, the clients or the server of a service.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Application {
    /// Its name, which the tables repeat; random streams are derived from it.
    pub name: String,
    /// What it does.
    pub kind: Kind,
}

/// What to sample, and how often.
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
    /// Time between samples; the first is taken at `interval`.
    pub interval: Span,
}

/// Why a plan cannot be run: what contradicts what, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PlanError {}

impl Plan {
    /// Checks what the simulator relies on: indices, routes that hang together, settings in range,
    /// and counts that its tables can hold.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        /// As many as an event's index can tell apart, halved for connections' two ends.
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
        for &link in &self.captures {
            ensure(link < self.links.len(), || "captures: no such link".into())?;
        }
        Ok(())
    }

    /// DNS queries that may be asked, in all.
    pub fn queries(&self) -> u64 {
        let of_each = self.applications.iter().map(|application| application.kind.queries());
        of_each.fold(0, u64::saturating_add)
    }

    /// Checks that `there` and `back` are paths that lead from a node to another and back.
    pub(crate) fn check_round_trip(&self, there: usize, back: usize) -> Result<(), String> {
        let path = |index: usize| self.paths.get(index).ok_or("path: no such path");
        let (there, back) = (path(there)?, path(back)?);
        if (there.from, there.to) != (back.to, back.from) {
            return Err("path: the way back does not lead back".into());
        }
        Ok(())
    }

    /// Checks that an application is there to answer: `answers` says whether its kind does.
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

/// What every IPv4 host has to take (RFC 791, 3.1).
const SMALLEST_MTU: u16 = 576;

fn check_opportunities(ms: &[u32], has_ring: bool) -> Result<(), PlanError> {
    let at = |why: &str| format!("opportunities_ms: {why}");
    ensure(ms.last().is_some_and(|&last| last > 0), || at("must last for some time"))?;
    ensure(ms.is_sorted(), || at("must not fall"))?;
    // The last of a pass and the first of the next may fall on the same moment.
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
