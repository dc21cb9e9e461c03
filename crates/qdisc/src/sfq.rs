//! SFQ, stochastic fairness queueing: flows are hashed to buckets, which are served in turn.
//!
//! Source: Linux 6.1, `net/sched/sch_sfq.c`; tc-sfq(8); P. McKenney, "Stochastic Fairness
//! Queueing", IEEE INFOCOM 1990.
//!
//! Differences from the source:
//!
//! - `redflowlimit` and the settings of its RED are not modelled.
//! - The hash is a different one, of the packet's own flow hash. It depends on `seed`, where the
//!   kernel draws a random number.
//! - `perturb` changes the hash at multiples of its length, when the first packet arrives or leaves
//!   after that; in the kernel a timer does. Waiting packets are rehashed in the order of the
//!   round; in the kernel, in the order of the slots.
//! - A packet larger than 64 quanta raises the quantum to a 64th of its length, so that it delays
//!   nobody by more than 64 rounds. In the kernel, packets have at most 64 KiB.
//! - Settings that the kernel clamps silently are refused. But as in the kernel, `limit` is at most
//!   `depth` times `flows`, and `flows` at most `divisor` and `limit`.
//!
//! The quantum is used up in units of eight bytes, rounded up. As in the kernel, a packet may
//! overdraw it, and the next rounds pay for that.

use alloc::format;
use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::drr::{By, Flows, Lengths, Ties};
use crate::settings::{MOST_PACKETS, Settings, any, settings, size, whole};
use crate::{
    Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc,
    Verdict, assert_possible, mix,
};

settings! {
    /// Stochastic fairness queueing: tc-sfq(8).
    pub struct Config {
        /// Packets that may wait, of all flows together.
        limit: u32 = 127, whole(1, MOST_PACKETS);
        /// Packets that may wait in a bucket.
        depth: u32 = 127, whole(1, MOST_DEPTH);
        /// Buckets; a power of two.
        divisor: u32 = 1024, whole(1, MOST_DIVISOR);
        /// The most buckets that may have packets at the same time.
        flows: u32 = 128, whole(1, MOST_FLOWS);
        /// Bytes that a bucket may send in its turn; at most 262136 B.
        quantum: Bytes = Bytes::new(1514), size(1, MOST_QUANTUM);
        /// How often the hash changes; never by default.
        perturb: Span = Span::ZERO, any();
        /// Drops the packet that has waited longest in its bucket, instead of the one that came
        /// last.
        headdrop: bool = false, any();
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        if self.divisor.is_power_of_two() {
            return Ok(());
        }
        let below = 1 << self.divisor.ilog2();
        let hint = format!("{below} or {}", 2 * below);
        Err(ConfigError::new("divisor", "is no power of two").or(hint))
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "SFQ";
    type Queue<P> = Sfq<P>;

    fn build<P: Packet>(&self, seed: u64) -> Sfq<P> {
        Sfq::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        Levels::packets(self.limit).in_several_lines()
    }

    fn held(&self) -> u64 {
        self.divisor.into()
    }
}

/// `SFQ_MAX_DEPTH`.
const MOST_DEPTH: u64 = 127;
/// The largest value that `sfq_change` accepts.
const MOST_DIVISOR: u64 = 65_536;
/// `SFQ_MAX_FLOWS`.
const MOST_FLOWS: u64 = 65_536 - MOST_DEPTH - 1;
/// A slot's `allot` is a 16-bit integer of units of eight bytes.
const MOST_QUANTUM: u64 = 32_767 * UNIT;
/// The quantum is used up in units of this many bytes (`SFQ_ALLOT_SIZE`).
const UNIT: u64 = 8;
/// The most rounds that a packet takes. The quantum is at least the largest packet divided by this.
const MOST_ROUNDS: u32 = 64;

/// Linux's SFQ.
#[derive(Clone, Debug)]
pub struct Sfq<P> {
    config: Config,
    flows: Flows<P>,
    lengths: Lengths,
    /// The value that determines the hash.
    perturbation: u64,
    /// How many periods of `perturb` have passed.
    periods: u64,
    /// The largest packet so far.
    largest: u32,
    random: Pcg32,
    counters: Counters,
}

impl<P: Packet> Sfq<P> {
    /// Creates an empty queue. Its hashes follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(mut config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        config.flows = config.flows.min(config.divisor);
        config.limit = config.limit.min(config.depth * config.flows);
        config.flows = config.flows.min(config.limit);
        let mut random = Pcg32::seed_from_u64(seed);
        Self {
            config,
            flows: Flows::new(None, random.next_u64()),
            // `sfq_link` puts the slot whose length changed last in front of its equals.
            lengths: Lengths::new(By::Packets, Ties::Newest),
            perturbation: random.next_u64(),
            periods: 0,
            largest: 0,
            random,
            counters: Counters::ZERO,
        }
    }

    /// Returns the number of buckets that have packets.
    pub const fn active(&self) -> u32 {
        self.flows.active()
    }

    /// Returns the bucket of a flow: `sfq_hash`.
    #[inline]
    fn hash(&self, flow_hash: u64) -> u64 {
        mix(flow_hash, self.perturbation) & u64::from(self.config.divisor - 1)
    }

    /// Returns a bucket's quantum in units of eight bytes.
    #[inline]
    fn scaled_quantum(&self) -> i64 {
        units(self.largest / MOST_ROUNDS).max(units(self.config.quantum.get() as u32))
    }

    /// Adds a packet to its bucket. Returns `None` if there is no room for another bucket with
    /// packets.
    #[inline]
    fn link(&mut self, key: u64, packet: P) -> Option<u32> {
        let index = match self.flows.find(key) {
            Some(index) => index,
            None if self.flows.active() >= self.config.flows => return None,
            None => self.flows.find_or_add(key),
        };
        self.flows.push(index, packet);
        if self.flows.flow(index).packets() == 1 {
            self.flows.flow_mut(index).deficit = self.scaled_quantum();
        }
        self.lengths.set(index, self.flows.flow(index));
        Some(index)
    }

    /// Removes a packet from a bucket.
    #[inline]
    fn take(&mut self, index: u32, front: bool) -> P {
        let packet = if front { self.flows.pop_front(index) } else { self.flows.pop_back(index) };
        self.lengths.set(index, self.flows.flow(index));
        if self.flows.flow(index).packets() == 0 {
            self.flows.forget(index);
        }
        packet.expect("a bucket with a turn or a length has packets")
    }

    #[inline]
    fn drop(&mut self, packet: P, dropped: &mut Dropped<P>) {
        self.counters.on_drop(packet.bytes(), DropReason::Overflow);
        dropped.push((packet, DropReason::Overflow));
    }

    /// Drops a packet of the longest bucket, and returns that bucket: `sfq_drop`.
    fn drop_longest(&mut self, dropped: &mut Dropped<P>) -> u32 {
        // It has at least two packets, because more packets wait than there are buckets.
        let index = self.lengths.longest().expect("packets wait");
        let packet = self.take(index, self.config.headdrop);
        self.drop(packet, dropped);
        index
    }

    /// Changes the hash if it is time: `sfq_perturbation`.
    #[inline]
    fn perturb(&mut self, now: Time, dropped: &mut Dropped<P>) {
        if self.config.perturb == Span::ZERO {
            return;
        }
        let periods = now.as_ps() / self.config.perturb.as_ps();
        if periods > self.periods {
            self.periods = periods;
            self.perturbation = self.random.next_u64();
            self.rehash(dropped);
        }
    }

    /// Moves every packet to its bucket under the new hash: `sfq_rehash`. Takes time in proportion
    /// to the waiting packets.
    fn rehash(&mut self, dropped: &mut Dropped<P>) {
        let mut packets = Vec::with_capacity(self.flows.packets() as usize);
        while let Some(index) = self.flows.turn() {
            packets.push(self.take(index, true));
        }
        for packet in packets {
            let key = self.hash(packet.flow_hash());
            let known = self.flows.find(key);
            let full = match known {
                Some(index) => self.flows.flow(index).packets() >= self.config.depth,
                None => self.flows.active() >= self.config.flows,
            };
            if full {
                self.drop(packet, dropped);
            } else {
                self.link(key, packet);
            }
        }
    }
}

impl<P: Packet> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        self.perturb(now, dropped);
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        self.largest = self.largest.max(bytes);
        let key = self.hash(packet.flow_hash());
        let known = self.flows.find(key);
        let deep = known.is_some_and(|index| self.flows.flow(index).packets() >= self.config.depth);
        let no_slot = known.is_none() && self.flows.active() >= self.config.flows;
        if no_slot || (deep && !self.config.headdrop) {
            self.drop(packet, dropped);
            return Verdict::Dropped;
        }
        let index = self.link(key, packet).expect("there is a slot");
        if deep {
            let head = self.take(index, true);
            self.drop(head, dropped);
        } else if self.flows.packets() > self.config.limit
            && self.drop_longest(dropped) == index
            && !self.config.headdrop
        {
            return Verdict::Dropped;
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        self.perturb(now, dropped);
        let quantum = self.scaled_quantum();
        let index = loop {
            let index = self.flows.turn()?;
            let slot = self.flows.flow_mut(index);
            if slot.deficit > 0 {
                break index;
            }
            slot.deficit += quantum;
            self.flows.end_turn();
        };
        self.flows.flow_mut(index).deficit -= units(self.flows.front(index)?.bytes());
        let packet = self.take(index, true);
        self.counters.on_departure(packet.bytes());
        Some(packet)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.flows.backlog()
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

/// Returns bytes in units of eight, rounded up: `SFQ_ALLOT_SIZE`. A packet without bytes counts as
/// one unit; otherwise a bucket of such packets would never end its turn.
#[inline]
fn units(bytes: u32) -> i64 {
    i64::from(bytes.max(1).div_ceil(UNIT as u32))
}

#[cfg(test)]
mod tests;
