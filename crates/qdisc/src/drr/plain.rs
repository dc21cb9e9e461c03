//! DRR: each flow gets its share of the line, and the longest queue pays for a full buffer.
//!
//! Source: Shreedhar and Varghese 1995; for the drop McKenney 1991. What is common to the family,
//! and differs from the sources, is in [the module above](super).
//!
//! What the sources leave open, each a setting: whether a queue's length is its bytes or its
//! packets, which of several equally long ones is taken, and which end of it loses a packet.

use narrows_units::Bytes;

use super::flows::{Flow, Flows};
use super::length::Lengths;
use super::scheduler::{Scheduler, Settings, Victim};
use super::{By, End, Ties, check};
use crate::{ConfigError, Packet};

/// Settings of [`Drr`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Config {
    /// Packets that may wait, of all flows together; above zero.
    pub limit: u32,
    /// Bytes that a flow may send in its turn; above zero and below 2^32. The paper wants it no
    /// smaller than a packet.
    pub quantum: Bytes,
    /// Queues that all flows share, by a hash; `None`: a queue for each flow.
    pub buckets: Option<u32>,
    /// What the length of a queue is counted in.
    pub longest_by: By,
    /// Which of several longest queues loses a packet.
    pub ties: Ties,
    /// Which end of the longest queue loses a packet.
    pub drop_from: End,
}

impl Config {
    /// Whether a queue can have these settings.
    pub fn check(&self) -> Result<(), ConfigError> {
        check(self.limit, self.quantum, self.buckets)
    }
}

impl Default for Config {
    /// A thousand packets, and a quantum of one full Ethernet packet.
    fn default() -> Self {
        Self {
            limit: 1000,
            quantum: Bytes::new(1500),
            buckets: None,
            longest_by: By::default(),
            ties: Ties::default(),
            drop_from: End::default(),
        }
    }
}

/// DRR with drops from the longest queue.
#[derive(Clone, Debug)]
pub struct Drr<P> {
    config: Config,
    scheduler: Scheduler<P, Longest>,
}

impl<P: Packet> Drr<P> {
    /// An empty queue, whose hash of flows follows from `seed`.
    ///
    /// # Panics
    ///
    /// Where [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        if let Err(error) = config.check() {
            panic!("settings that check() refuses: {error}");
        }
        let Config { limit, quantum, buckets, longest_by, ties, drop_from } = config;
        let settings = Settings { limit, quantum: quantum.get(), buckets, drop_from, seed };
        let victim = Longest(Lengths::new(longest_by, ties));
        Self { scheduler: Scheduler::new(settings, victim), config }
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Flows, or buckets, that have packets.
    pub const fn active(&self) -> u32 {
        self.scheduler.active()
    }
}

scheduled!(Drr);

/// The longest queue.
#[derive(Clone, Debug)]
struct Longest(Lengths);

impl Victim for Longest {
    #[inline]
    fn on_length(&mut self, index: u32, flow: &Flow) {
        self.0.set(index, flow);
    }

    fn choose<P: Packet>(&mut self, _flows: &Flows<P>) -> u32 {
        self.0.longest().expect("packets wait")
    }
}
