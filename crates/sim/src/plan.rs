//! What the simulator is told: plain structs in base units.
//!
//! The scenario language (Python) lowers to this; the simulator knows no units, names or defaults
//! beyond it. Indices refer to the lists of the same plan. [`Plan::check`] states what must hold.

use narrows_qdisc::{fifo, red};
use narrows_units::{Bytes, Rate, Span, Time};

use crate::tcp;

/// A whole run.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
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
    /// TCP connections.
    pub connections: Vec<Connection>,
    /// Groups of resolver workers.
    pub resolvers: Vec<Resolvers>,
    /// Queues to sample.
    pub queue_monitors: Vec<Monitor>,
    /// Links to sample.
    pub link_monitors: Vec<Monitor>,
    /// Links whose packets are kept for a capture file.
    pub captures: Vec<usize>,
    /// Computes what can be computed at once instead of scheduling it; results are the same.
    pub collapse: bool,
}

/// A directed link: queue, then the card's ring, then the wire.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Link {
    /// Its name, unique, such as `bottleneck:BN2->BN1`; its random streams are derived from it.
    pub name: String,
    /// Where it starts: an index into `nodes`.
    pub from: usize,
    /// Where it ends: an index into `nodes`.
    pub to: usize,
    /// Transmission rate.
    pub rate: Rate,
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
    /// The network card's ring buffer below the queue; `None`: the card takes one packet at a time.
    pub ring: Option<Ring>,
}

/// Link-layer framing.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
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

/// The queue at a link's head.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Queue {
    /// Tail drop counted in packets.
    Pfifo(fifo::PfifoConfig),
    /// Tail drop counted in bytes.
    Bfifo(fifo::BfifoConfig),
    /// RED as in the Linux kernel.
    Red(red::linux::Config),
    /// RED as in the 1993 paper.
    Red1993(red::classic::Config),
}

/// A network card's ring buffer: packets that the queue discipline has let go and that no AQM sees.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Ring {
    /// Holds this many packets, the one in transmission among them.
    Packets(u32),
    /// Holds packets of this many bytes together, framing included.
    Bytes(Bytes),
}

/// Delay variation as netem computes it (`net/sched/sch_netem.c`, Linux 6.1, `tabledist`).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Distribution {
    /// Uniform.
    Uniform,
    /// Normal, from a table of quantiles as netem has it.
    Normal,
}

/// A TCP connection.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Connection {
    /// Its name, unique; its random streams are derived from it.
    pub name: String,
    /// The traffic group it belongs to.
    pub group: String,
    /// The data's sender: an index into `nodes`.
    pub sender: usize,
    /// The data's receiver: an index into `nodes`.
    pub receiver: usize,
    /// Links from sender to receiver: indices into `links`.
    pub forward: Vec<usize>,
    /// Links from receiver to sender.
    pub backward: Vec<usize>,
    /// Settings of both ends: an index into `tcp`.
    pub tcp: usize,
    /// When the connection is opened.
    pub start: Time,
    /// What the application does.
    pub source: Source,
}

/// What an application sends.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Source {
    /// Data without end.
    Bulk,
    /// A number of bytes, then close.
    Once(Bytes),
    /// Bursts with idle times between the acknowledgement of one burst and the start of the next.
    OnOff {
        /// Bytes of a burst.
        burst: Bytes,
        /// Mean of the exponentially distributed idle time.
        idle_mean: Span,
    },
}

/// Resolver workers in a closed loop: each asks, waits, retries, and asks the next.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Resolvers {
    /// The group's name, unique.
    pub name: String,
    /// Where the workers are: an index into `nodes`.
    pub client: usize,
    /// Where the DNS server is: an index into `nodes`.
    pub server: usize,
    /// Links from client to server.
    pub forward: Vec<usize>,
    /// Links from server to client.
    pub backward: Vec<usize>,
    /// Number of workers.
    pub workers: u32,
    /// When the first worker starts.
    pub start: Time,
    /// Workers start at random times within this span after `start`.
    pub spread: Span,
    /// Queries before measurement starts, for each worker.
    pub warm_up: u32,
    /// Measured queries, for each worker.
    pub queries: u32,
    /// Pause between the end of a query and the next: mean of an exponential distribution.
    pub think_mean: Span,
    /// Time-outs of successive attempts; its length is the number of attempts.
    pub timeouts: Vec<Span>,
    /// Time from a query's arrival at the server to its reply: a constant part.
    pub service: Span,
    /// Mean of an exponentially distributed part, added to it.
    pub service_jitter_mean: Span,
    /// IP packet length of queries.
    pub query_bytes: u16,
    /// IP packet length of replies.
    pub reply_bytes: u16,
}

/// What to sample, and how often.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Monitor {
    /// An index into `links`.
    pub link: usize,
    /// Time between samples; the first is taken at `interval`.
    pub interval: Span,
}
