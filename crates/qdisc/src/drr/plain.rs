//! DRR: each flow gets its share of the line, and the longest queue pays for a full buffer.
//!
//! Source: Shreedhar and Varghese 1995; for the drop McKenney 1991. [The module above](super)
//! describes what the family shares, and how it differs from the sources.
//!
//! The sources leave three things open, which are settings here: whether a queue's length is its
//! bytes or its packets, which of several equally long queues is chosen, and which end of it loses
//! a packet.

use narrows_units::Bytes;

use super::flows::{Flow, Flows};
use super::length::Lengths;
use super::scheduler::{Scheduler, Shares, Victim};
use super::{By, End, Ties};
use crate::settings::{MOST_BYTES, MOST_PACKETS, any, keys, size, whole};
use crate::{Discipline, Levels, Packet, assert_possible};

keys! {
    /// Deficit round robin that drops from the longest queue.
    pub struct Config {
        /// Packets that may wait, of all flows together.
        limit: u32 = 1000, whole(1, MOST_PACKETS);
        /// Bytes that a flow may send in its turn. The paper wants it no smaller than a packet.
        quantum: Bytes = Bytes::new(1500), size(1, MOST_BYTES);
        /// Number of queues that the flows share by a hash; by default each flow has its own.
        buckets: Option<u32> = None, whole(1, 1_000_000);
        /// What the length of a flow's queue is counted in (ns-2: bytes; Linux's SFQ: packets).
        longest_by: By = By::Bytes, any();
        /// Which of several longest queues loses a packet: the one that reached this length first,
        /// or the one that reached it last.
        ties: Ties = Ties::Oldest, any();
        /// Which end of the queue loses packets.
        drop_from: End = End::Front, any();
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "DRR";
    type Queue<P> = Drr<P>;

    fn build<P: Packet>(&self, seed: u64) -> Drr<P> {
        Drr::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        Levels::packets(self.limit).in_several_lines()
    }
}

/// DRR with drops from the longest queue.
#[derive(Clone, Debug)]
pub struct Drr<P> {
    config: Config,
    scheduler: Scheduler<P, Longest>,
}

impl<P: Packet> Drr<P> {
    /// Creates an empty queue. Its hash of flows follows from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        let Config { limit, quantum, buckets, longest_by, ties, drop_from } = config;
        let settings = Shares { limit, quantum: quantum.get(), buckets, drop_from, seed };
        let victim = Longest(Lengths::new(longest_by, ties));
        Self { scheduler: Scheduler::new(settings, victim), config }
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of flows, or buckets, that have packets.
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
