//! The network of a plan: links, what happens to them, and what is watched.

use narrows_apps::Path;
use narrows_transport::tcp;
use narrows_units::settings::{Settings, any, codepoint, positive, share, size};
use narrows_units::{ConfigError, Rate, Span, Time, keys, settings, words};

pub use narrows_link::{Distribution, Framing, GilbertElliott, Jitter, LinkState, Loss, Ring};
pub use narrows_qdisc::AnyConfig as Queue;
use narrows_qdisc::fifo::PfifoConfig;

use super::{Application, Modes};

/// What the network knows of a plan: everything but what its applications do. The fields are the plan's.
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
    pub(crate) delay_monitors: &'a [DelayMonitor],
    pub(crate) one_way_monitor: Option<&'a OneWayMonitor>,
    /// Whose names the monitor may have.
    pub(crate) applications: &'a [Application],
    pub(crate) captures: &'a [Capture],
    pub(crate) changes: &'a [LinkChange],
    pub(crate) codepoints: &'a [Codepoint],
    pub(crate) neighbours: &'a [NeighbourPair],
    pub(crate) modes: &'a Modes,
}

keys! {
    /// Packets kept for a capture file.
    pub struct Capture {
        /// The name of what is captured.
        name: String = String::new(), any();
        /// The link whose packets are seen when it has transmitted them: an index into `links`.
        link: usize = 0, any();
        /// The link in the other direction, whose packets are seen where they arrive; `None`: they
        /// are not.
        back: Option<usize> = None, any();
        /// Bytes kept of each frame; all by default.
        snaplen: Option<u32> = None, size(14, 65_535);
    }
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

keys! {
    /// A directed link: a queue, then the network card's ring, then the wire.
    pub struct Link {
        /// Its unique name, such as `bottleneck:BN2->BN1`. Its random streams are derived from it.
        name: String = String::new(), any().required();
        /// Where it starts: an index into `nodes`.
        from: usize = 0, any().required();
        /// Where it ends: an index into `nodes`.
        to: usize = 0, any().required();
        /// Transmission rate; each direction must have one, or `rate_trace`.
        rate: Rate = const { Rate::from_bps(10_000_000).expect("not zero") }, any().required();
        /// Milliseconds at which 1500 bytes may leave, never decreasing. The list starts again
        /// after its last entry, which must be above zero. `rate` is then its mean. `None`: the
        /// link can always send.
        opportunities_ms: Option<Vec<u32>> = None, any();
        /// Propagation delay; none by default.
        delay: Span = Span::ZERO, any();
        /// What the link layer adds to IP packets: a table, or `"ethernet"`; nothing by default.
        framing: Framing = Framing::default(), any();
        /// The queue discipline at the link's head; by default a pfifo of 1000 packets, as in
        /// Linux.
        queue: Queue = Queue::Pfifo(PfifoConfig::default()), any();
        /// The network card's ring buffer below the queue; by default the card takes one packet at
        /// a time.
        ring: Option<Ring> = None, any();
        /// Delay variation after transmission; none by default.
        jitter: Option<Jitter> = None, any();
        /// Losses on the wire: the probability that a packet is lost, or a table for losses in
        /// bursts; 0 by default.
        loss: Loss = Loss::Each(0.0), share();
        /// The longest IP packet that the link takes, 576 B to 65535 B; 1500 B by default. Hosts
        /// send longer datagrams in fragments. TCP uses the MTU of its host's own link, and what
        /// routers report.
        // Every host takes 576 bytes (RFC 791, 3.1).
        mtu: u16 = ETHERNET_MTU, size(576, 65_535);
        /// A middlebox at the link's head that drops some packets; none by default.
        middlebox: Option<Middlebox> = None, any();
        /// Exempts DNS packets from `delay`, `jitter` and `loss`; false by default.
        // As in the classful queue of Harhalakis et al., 2011.
        dns_exempt: bool = false, any();
    }
}

impl From<&Link> for narrows_link::Config {
    fn from(link: &Link) -> Self {
        Self {
            rate: link.rate,
            opportunities_ms: link.opportunities_ms.clone(),
            delay: link.delay,
            framing: link.framing,
            queue: link.queue.clone(),
            ring: link.ring,
            jitter: link.jitter,
            loss: link.loss,
            longest: link.mtu,
            exempt_foreground: link.dns_exempt,
            ..Self::default()
        }
    }
}

keys! {
    #[derive(Copy)]
    /// The Differentiated Services code point of what an application sends (RFC 2474, section 3).
    pub struct Codepoint {
        /// An index into `applications`.
        application: usize = 0, any();
        /// The code point; 0, the default forwarding, by default.
        dscp: u8 = 0, codepoint();
    }
}

keys! {
    #[derive(Copy)]
    /// Two routers, at the ends of a link, that resolve each other's addresses.
    ///
    /// Neither may be an end of another path, because the entries that a host has for its
    /// neighbours are also confirmed by its TCP, which is not modelled.
    pub struct NeighbourPair {
        /// The path from one to the other, of a single link: an index into `paths`.
        there: usize = 0, any();
        /// The path back, of a single link: an index into `paths`.
        back: usize = 0, any();
    }
}

/// Ethernet's MTU.
pub const ETHERNET_MTU: u16 = 1500;

settings! {
    #[derive(Eq)]
    /// A middlebox at the head of a link, before the queue, and what it drops.
    pub struct Middlebox {
        /// Drops DNS datagrams with a longer message. Old firewalls have 512 B.
        drop_dns_above: Option<u16> = None, size(1, 65_507);
        /// Drops every IP fragment.
        drop_fragments: bool = false, any();
        /// Drops the ICMP messages with which routers report that a packet was too big. Senders
        /// that rely on them stall.
        drop_too_big: bool = false, any();
        /// Blocks TCP to port 53: drops it silently, or answers with a reset.
        block_tcp_53: Option<Block> = None, any();
        /// Drops SYNs that carry data, as TCP Fast Open's do.
        drop_syn_data: bool = false, any();
    }
}

impl Settings for Middlebox {
    fn check_together(&self) -> Result<(), ConfigError> {
        if *self != Self::default() {
            return Ok(());
        }
        let why = ConfigError::new("", "lets everything pass");
        Err(why.or("such as { drop_fragments = true }"))
    }
}

words! {
    /// What a middlebox does with packets that it blocks.
    pub enum Block {
        /// It drops them silently.
        Drop = "drop",
        /// It answers them with a reset.
        Reject = "reject",
    }
}

keys! {
    /// A change of a link during the run.
    ///
    /// The new rate, delay, jitter and loss hold for packets whose transmission starts at that
    /// moment or later. A packet in transmission finishes at the old rate; packets waiting in the
    /// queue or in the ring leave at the new one. Queue disciplines are not told, as in Linux: one
    /// with a `bandwidth` of its own (RED uses it for the decay of its average in idle times) keeps
    /// it.
    ///
    /// A new queue is empty, and the old one's packets are dropped, as `tc qdisc replace` with
    /// another kind does. Only a FIFO, CoDel or PIE that stays of its kind keeps them, as with
    /// `tc qdisc change` ([`narrows_qdisc::AnyQdisc::change`]).
    ///
    /// While a link is down, no packet leaves its queue, and no transmission starts. The packet
    /// that is in transmission when the link goes down is lost at that moment; it counts as sent,
    /// and as lost on the wire. Packets sent before arrive. This is how a modem waits for its line.
    /// A Linux host whose device loses its carrier drops what waits there, and whatever comes until
    /// the carrier is back (net/sched/sch_generic.c, `dev_deactivate_many`, Linux 6.1).
    pub struct LinkChange {
        /// The time of the change. If a link changes twice at the same time, the later entry
        /// counts.
        at: Time = Time::ZERO, any();
        /// An index into `links`.
        link: usize = 0, any();
        /// The new rate.
        rate: Rate = const { Rate::from_bps(1).expect("not zero") }, any();
        /// The new propagation delay. `None`: the delay stays. If it falls, packets may overtake
        /// earlier ones.
        delay: Option<Span> = None, any();
        /// The new delay variation, with a deviation of zero for none. `None`: as before.
        jitter: Option<Jitter> = None, any();
        /// The new losses on the wire; a line whose losses come in bursts starts good. `None`: as
        /// before.
        loss: Option<Loss> = None, share();
        /// The new queue discipline. `None`: as before.
        queue: Option<Queue> = None, any();
        /// Whether the link sends from then on. `None`: as before; at the start of the run it does.
        state: Option<LinkState> = None, any();
    }
}

impl From<LinkChange> for narrows_link::Change {
    fn from(change: LinkChange) -> Self {
        let LinkChange { at, link: _, rate, delay, jitter, loss, queue, state } = change;
        Self { at, rate: Some(rate), delay, jitter, loss, queue, state }
    }
}

keys! {
    #[derive(Copy)]
    /// A queue whose packets' waiting times are measured, and when.
    pub struct DelayMonitor {
        /// An index into `links`.
        link: usize = 0, any();
        /// When measuring begins.
        from: Time = Time::ZERO, any();
        /// When it ends.
        to: Time = Time::MAX, any();
    }
}

/// Applications whose packets' one-way delays are measured, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OneWayMonitor {
    /// The names of the applications: of those at a flow's first end, which is the client, or the
    /// sender if data go one way. Each name once.
    pub groups: Vec<String>,
    /// Whether each flow has rows of its own.
    pub flows: bool,
    /// Whether each packet has a row.
    pub packets: bool,
    /// Packets count that are sent from this time on.
    pub from: Time,
    /// The time from which on they do not count.
    pub to: Time,
}

keys! {
    #[derive(Copy)]
    /// What a monitor samples, and how often.
    pub struct Monitor {
        /// An index into `links`.
        link: usize = 0, any();
        /// The time between samples. The first sample is taken at `interval`.
        interval: Span = Span::from_ms(100), positive();
    }
}
