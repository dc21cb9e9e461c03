//! The simulator's input: plain structs in base units.
//!
//! The scenario language (Python) lowers to this. The simulator knows no units, names or defaults
//! beyond it. Indices refer to lists of the same plan. [`Plan::check`] states the rules that a plan
//! must meet.

mod check;
mod network;

use narrows_apps::{Environment, Settings};
use narrows_transport::{quic, tcp};
use narrows_units::settings::{Declared, Table};
use narrows_units::{Span, Time};

pub(crate) use self::network::Topology;
pub use self::network::{
    Block, Capture, Codepoint, DelayMonitor, Distribution, ETHERNET_MTU, Framing, GilbertElliott,
    Jitter, Link, LinkChange, LinkState, Loss, Middlebox, Monitor, NeighbourPair, OneWayMonitor,
    Queue, Ring,
};
pub use narrows_apps::connection::{Connection, Opener};
pub use narrows_apps::flow_states::FlowMonitor;
pub use narrows_apps::streams::Stream;
pub use narrows_apps::{
    Draw, Kind, Path, bulk, dns, flood, incast, on_off, page, ping, responder, secure, trace,
    transfer, udp, voip,
};

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
    /// Whether the run ends as soon as every application is done. Those without an end count as done.
    pub end_when_done: bool,
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
    /// Applications whose packets have a code point other than 0, each at most once. The ends of a
    /// connection may belong to two applications; each end sends with its own.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub codepoints: Vec<Codepoint>,
    /// Queues to sample.
    pub queue_monitors: Vec<Monitor>,
    /// Links to sample.
    pub link_monitors: Vec<Monitor>,
    /// Queues whose packets' waiting times are measured, each at most once.
    #[cfg_attr(feature = "serde", serde(default))]
    pub delay_monitors: Vec<DelayMonitor>,
    /// The time between samples of what groups of TCP connections have delivered. The first sample
    /// is taken at this time. `None`: there are no samples.
    #[cfg_attr(feature = "serde", serde(default))]
    pub goodput_interval: Option<Span>,
    /// When to sample what each connection of the table `flows` has done. The run's end stands for
    /// times after it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub flow_samples: Vec<Time>,
    /// Connections whose windows, round trips and states are sampled; `None`: there are no samples.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub flow_monitor: Option<FlowMonitor>,
    /// Applications whose packets' one-way delays are measured; `None`: there are none.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub one_way_monitor: Option<OneWayMonitor>,
    /// Whose packets are kept for capture files.
    pub captures: Vec<Capture>,
    /// Changes of links during the run, in any order.
    #[cfg_attr(feature = "serde", serde(default))]
    pub changes: Vec<LinkChange>,
    /// Pairs of routers that resolve each other's link-layer addresses by ARP. All other addresses
    /// are known from the start.
    #[cfg_attr(feature = "serde", serde(default))]
    pub neighbours: Vec<NeighbourPair>,
    /// How to compute it. A plan in JSON cannot choose.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub modes: Modes,
}

/// How to compute a plan. The results are the same in all modes, and tests compare them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Whether to compute what can be computed at once instead of scheduling an event for it; true
    /// by default.
    pub collapse: bool,
    /// The links whose queue gets an event for every departure, even if its discipline needs none:
    /// indices into `links`; none by default.
    pub scheduled: Vec<usize>,
}

impl Default for Modes {
    fn default() -> Self {
        Self { collapse: true, scheduled: Vec::new() }
    }
}

impl Plan {
    /// Returns the number of queries, all applications together.
    pub fn queries(&self) -> u64 {
        let of_each = self.applications.iter().map(|application| application.kind.queries());
        of_each.fold(0, u64::saturating_add)
    }

    /// Returns what applications know of it.
    pub fn environment(&self) -> Environment<'_> {
        Environment {
            end: self.end,
            nodes: &self.nodes,
            links: self.links.iter().map(|link| (&*link.name, link.mtu)).collect(),
            paths: &self.paths,
            tcp: &self.tcp,
            applications: self
                .applications
                .iter()
                .map(|application| (&*application.name, application.kind.service()))
                .collect(),
        }
    }

    /// Returns what the network knows of it.
    pub(crate) fn topology(&self) -> Topology<'_> {
        let quic = self.applications.iter().filter_map(|application| application.kind.quic());
        Topology {
            seed: self.seed,
            nodes: &self.nodes,
            links: &self.links,
            paths: &self.paths,
            tcp: &self.tcp,
            quic_payload: quic.map(|quic| quic.payload).max().unwrap_or(0),
            queue_monitors: &self.queue_monitors,
            link_monitors: &self.link_monitors,
            delay_monitors: &self.delay_monitors,
            one_way_monitor: self.one_way_monitor.as_ref(),
            applications: &self.applications,
            captures: &self.captures,
            changes: &self.changes,
            codepoints: &self.codepoints,
            neighbours: &self.neighbours,
            modes: &self.modes,
        }
    }
}

/// Returns the tables of settings that plans have. They contain further ones.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    const { &[Link::TABLE, Codepoint::TABLE, Capture::TABLE, tcp::Config::TABLE, quic::Config::TABLE] }
        .iter()
        .chain(Kind::TABLES)
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

/// Why a plan cannot be run, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PlanError {}
