//! TDRR, throughput DRR: the queue that has sent most in the long run pays for a full buffer.
//!
//! Source: Kantawala and Turner 2002, section II.2. [The module above](super) describes what the
//! family shares, and how it differs from the sources.
//!
//! The paper leaves open:
//!
//! - How throughput is sampled: [`Sample`]. The paper prints only the weight.
//! - Which end of the queue loses a packet: `drop_from`.
//! - How long the throughput of an empty queue is remembered: as long as its flow is among the last
//!   `remember` flows that became empty. The paper has as many fixed queues as sources and never
//!   has to forget; here memory is bounded, whatever arrives.
//! - Which of several queues with the same throughput loses a packet: the one whose throughput has
//!   not changed for the longest time.

use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};

use super::End;
use super::flows::{Flow, Flows};
use super::heap::Heap;
use super::scaled::Scaled;
use super::scheduler::{Scheduler, Shares, Victim};
use super::slab::NIL;
use crate::settings::{
    Kind, MOST_BYTES, MOST_PACKETS, Rule, Setting, Value, any, fraction, keys, positive, size,
    whole,
};
use crate::{ConfigError, Discipline, Levels, Packet, assert_possible};

keys! {
    /// Throughput DRR (Kantawala and Turner 2002): drops from the queue with the highest
    /// throughput.
    pub struct Config {
        /// Packets that may wait, of all flows together.
        limit: u32 = 1000, whole(1, MOST_PACKETS);
        /// Bytes that a flow may send in its turn. The paper wants it no smaller than a packet.
        quantum: Bytes = Bytes::new(1500), size(1, MOST_BYTES);
        /// Number of queues that the flows share by a hash; by default each flow has its own.
        buckets: Option<u32> = None, whole(1, 1_000_000);
        /// Which end of the queue loses packets.
        drop_from: End = End::Front, any();
        /// Weight of a new sample in a flow's average throughput.
        weight: f64 = 0.03125, fraction();
        /// What a sample is: the throughput over an interval of this length, or with `"packet"`,
        /// the bytes of each departing packet divided by the time since the one before.
        sample: Sample = Sample::Interval(Span::from_ms(100)), positive();
        /// Number of flows without packets whose throughput is remembered.
        remember: u32 = 65_536, whole(0, 10_000_000);
    }
}

/// What a sample of a queue's throughput is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Sample {
    /// What the queue sent in an interval of this length, which is above zero. Each interval gives
    /// a sample, which is zero if the queue sent nothing. The average forgets while the queue is
    /// idle: with a weight w, n intervals multiply it by (1-w)^n. By default, half of what it
    /// remembers is from the last 2.2 s, the time of a burst and a pause of the paper's sources.
    Interval(Span),
    /// The bytes of a packet that leaves, divided by the time since the one before left. Each
    /// packet gives a sample. The average stays while the queue is idle, and the first sample after
    /// that is small.
    Packet,
}

impl Setting for Sample {
    const KIND: Kind = Kind::WordOrSpan("packet", "interval");

    fn value(&self) -> Value {
        match self {
            Self::Interval(span) => span.value(),
            Self::Packet => Value::Word("packet"),
        }
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        match self {
            Self::Interval(span) => span.check(key, rule),
            Self::Packet => Ok(()),
        }
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "TDRR";
    type Queue<P> = Tdrr<P>;

    fn build<P: Packet>(&self, seed: u64) -> Tdrr<P> {
        Tdrr::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        Levels::packets(self.limit).in_several_lines()
    }
}

/// DRR with drops from the queue with the highest throughput.
#[derive(Clone, Debug)]
pub struct Tdrr<P> {
    config: Config,
    scheduler: Scheduler<P, Highest>,
}

impl<P: Packet> Tdrr<P> {
    /// Creates an empty queue. Its hash of flows follows from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        let Config { limit, quantum, buckets, drop_from, weight, sample, remember } = config;
        let settings = Shares { limit, quantum: quantum.get(), buckets, drop_from, seed };
        let rates = Rates::new(weight, sample);
        let victim = Highest {
            rates,
            heap: Heap::new(),
            known: Vec::new(),
            changes: 0,
            remember,
            idle: 0,
            oldest: NIL,
            newest: NIL,
        };
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

    /// Returns the average throughput of the flow with this hash at `now`, in bytes a second, or
    /// `None` if nothing is known about it.
    pub fn throughput(&self, now: Time, flow_hash: u64) -> Option<f64> {
        let index = self.scheduler.find(flow_hash)?;
        let Highest { rates, known, .. } = &self.scheduler.victim;
        Some(rates.read(now, known.get(index as usize)?.rate))
    }
}

scheduled!(Tdrr);

/// The active queue with the highest throughput.
#[derive(Clone, Debug)]
struct Highest {
    rates: Rates,
    /// The active queues by throughput.
    heap: Heap<Key>,
    /// What is known about each flow, by index.
    known: Vec<Known>,
    /// The number of changes of throughput so far. It tells which of two flows with the same
    /// throughput reached it first.
    changes: u32,
    remember: u32,
    /// The flows without packets, in the order in which their last packets left.
    idle: u32,
    oldest: u32,
    newest: u32,
}

/// The throughput. Of flows with the same throughput, the one that reached it first has the largest
/// key.
type Key = (Scaled, u32);

/// What is known about a flow.
#[derive(Clone, Copy, Debug)]
struct Known {
    rate: Scaled,
    /// When its last packet left, and the bytes that left at that time. `Time::MAX`: no packet has
    /// left.
    sent_at: Time,
    sent: u32,
    /// The neighbours among the idle flows. `before` is the flow itself if it is not idle.
    before: u32,
    next: u32,
}

impl Highest {
    #[inline]
    fn stamp(&mut self) -> u32 {
        self.changes = self.changes.wrapping_add(1);
        !self.changes
    }

    fn activate(&mut self, index: u32) {
        let unknown = |index| Known {
            rate: Scaled::ZERO,
            sent_at: Time::MAX,
            sent: 0,
            before: index,
            next: NIL,
        };
        if index as usize >= self.known.len() {
            self.known.push(unknown(index));
        }
        self.unlink(index);
        let key = (self.known[index as usize].rate, self.stamp());
        self.heap.set(index, key);
    }

    /// Removes a flow from the list of idle ones, if it is there.
    fn unlink(&mut self, index: u32) {
        let Known { before, next, .. } = self.known[index as usize];
        if before == index {
            return;
        }
        match self.known.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.oldest = next,
        }
        match self.known.get_mut(next as usize) {
            Some(next) => next.before = before,
            None => self.newest = before,
        }
        self.known[index as usize].before = index;
        self.idle -= 1;
    }

    /// Adds a flow to the list of idle ones.
    fn link(&mut self, index: u32) {
        let before = core::mem::replace(&mut self.newest, index);
        let known = &mut self.known[index as usize];
        (known.before, known.next) = (before, NIL);
        match self.known.get_mut(before as usize) {
            Some(before) => before.next = index,
            None => self.oldest = index,
        }
        self.idle += 1;
    }
}

impl Victim for Highest {
    #[inline]
    fn on_length(&mut self, index: u32, flow: &Flow) {
        if flow.packets() == 0 {
            self.heap.remove(index);
        } else if !self.heap.contains(index) {
            self.activate(index);
        }
    }

    #[inline]
    fn on_sent(&mut self, now: Time, index: u32, bytes: u32) {
        let stamp = self.stamp();
        let known = &mut self.known[index as usize];
        self.rates.add(now, known, bytes);
        self.heap.set(index, (known.rate, stamp));
    }

    fn choose<P: Packet>(&mut self, _flows: &Flows<P>) -> u32 {
        self.heap.first().expect("packets wait")
    }

    fn to_forget(&mut self, index: u32) -> Option<u32> {
        self.link(index);
        if self.idle <= self.remember {
            return None;
        }
        let oldest = self.oldest;
        self.unlink(oldest);
        let known = &mut self.known[oldest as usize];
        (known.rate, known.sent_at, known.sent) = (Scaled::ZERO, Time::MAX, 0);
        Some(oldest)
    }
}

/// How averages are kept.
#[derive(Clone, Copy, Debug)]
enum Rates {
    /// In the n-th interval, stored averages are too large by the factor `growth`, (1-w)^-n. They
    /// therefore need no update while nothing is sent.
    Interval {
        weight: f64,
        interval: Span,
        number: u64,
        growth: Scaled,
        step: Scaled,
    },
    Packet {
        weight: f64,
    },
}

impl Rates {
    fn new(weight: f64, sample: Sample) -> Self {
        match sample {
            Sample::Packet => Self::Packet { weight },
            Sample::Interval(interval) => Self::Interval {
                weight,
                interval,
                number: 0,
                growth: Scaled::ONE,
                step: Scaled::new(1.0 / (1.0 - weight)),
            },
        }
    }

    /// Adds a packet that leaves at `now`.
    #[inline]
    fn add(&mut self, now: Time, known: &mut Known, bytes: u32) {
        match self {
            // avg <- (1-w) avg + w sample at the end of each interval. A sample is the sum of its
            // packets, each of which is added when it leaves.
            Self::Interval { weight, interval, number, growth, step } => {
                let current = now.as_ps() / interval.as_ps();
                if current > *number {
                    *growth = *growth * step.power(current - *number);
                    *number = current;
                }
                let part = *weight * f64::from(bytes) / interval.as_secs_f64();
                known.rate = known.rate + Scaled::new(part) * *growth;
            }
            Self::Packet { weight } => {
                let sent_at = core::mem::replace(&mut known.sent_at, now);
                if sent_at == Time::MAX {
                    // There is no earlier packet, so there is no time since it.
                    return;
                }
                // Packets that leave at the same time are one sample.
                let bytes = known.sent.saturating_add(bytes);
                known.sent = bytes;
                if now > sent_at {
                    let sample = f64::from(bytes) / now.since(sent_at).as_secs_f64();
                    let average = known.rate.over(Scaled::ONE);
                    known.rate = Scaled::new(average + *weight * (sample - average));
                    known.sent = 0;
                }
            }
        }
    }

    /// Returns an average in bytes a second at `now`.
    fn read(&self, now: Time, rate: Scaled) -> f64 {
        match self {
            Self::Interval { interval, number, growth, step, .. } => {
                let current = now.as_ps() / interval.as_ps();
                rate.over(*growth * step.power(current.saturating_sub(*number)))
            }
            Self::Packet { .. } => rate.over(Scaled::ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::TestPacket;
    use crate::{Dropped, Qdisc, Verdict};

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn put(queue: &mut Tdrr<TestPacket>, now: Time, flow: u8) -> Dropped<TestPacket> {
        let mut dropped = Dropped::new();
        queue.enqueue(now, TestPacket { flow, ..TestPacket::default() }, &mut dropped);
        dropped
    }

    fn pass(queue: &mut Tdrr<TestPacket>, now: Time, flow: u8) {
        assert!(put(queue, now, flow).is_empty());
        assert!(queue.dequeue(now, &mut Dropped::new()).is_some());
    }

    /// avg <- (1-w) avg + w sample, at the end of each interval.
    #[test]
    fn in_intervals_the_average_is_the_weighted_one_of_their_samples() {
        let weight = 0.25;
        let mut queue = Tdrr::new(Config { weight, ..Config::default() }, 1);
        let mut expected = 0.0;
        for interval in 0..100 {
            let packets = [3, 0, 1, 7][interval as usize % 4];
            for n in 0..packets {
                pass(&mut queue, at_ms(interval * 100 + 7 * n), 1);
            }
            // 1000 bytes each, in a tenth of a second.
            expected = (1.0 - weight) * expected + weight * f64::from(packets as u32) * 10_000.0;
            let average = queue.throughput(at_ms(interval * 100 + 99), 1).expect("it is known");
            assert!((average / expected - 1.0).abs() < 1e-12, "{average}, not {expected}");
        }
        assert_eq!(queue.throughput(at_ms(0), 2), None);
    }

    /// A constant load of r bytes a second raises the average to r (1 - (1-w)^n) in n intervals,
    /// and n idle intervals lower it by the factor (1-w)^n.
    #[test]
    fn in_intervals_it_approaches_a_constant_load_and_forgets_it() {
        let mut queue = Tdrr::new(Config::default(), 1);
        for ms in 0..3_200 {
            pass(&mut queue, at_ms(ms), 1);
        }
        let power = |n| libm::pow(1.0 - 0.03125, f64::from(n));
        let full = 1e6 * (1.0 - power(32));
        let average = |at| queue.throughput(at_ms(at), 1).expect("it is known");
        assert!((average(3_199) / full - 1.0).abs() < 1e-9);
        assert!((average(3_199 + 1_000) / (full * power(10)) - 1.0).abs() < 1e-9);
        assert!(average(3_199 + 10_000_000) < 1e-300);
    }

    /// avg <- avg + w (bytes / time since the packet before - avg).
    #[test]
    fn with_packets_each_is_a_sample_over_the_time_since_the_one_before() {
        let config = Config { sample: Sample::Packet, weight: 0.5, ..Config::default() };
        let mut queue = Tdrr::new(config, 1);
        let average =
            |queue: &Tdrr<TestPacket>| queue.throughput(Time::ZERO, 1).expect("it is known");
        pass(&mut queue, at_ms(0), 1);
        assert_eq!(average(&queue), 0.0);
        pass(&mut queue, at_ms(10), 1);
        assert_eq!(average(&queue), 50_000.0);
        pass(&mut queue, at_ms(12), 1);
        assert_eq!(average(&queue), 275_000.0);
        // Two at the same time are one sample.
        pass(&mut queue, at_ms(12), 1);
        assert_eq!(average(&queue), 275_000.0);
        pass(&mut queue, at_ms(22), 1);
        assert_eq!(average(&queue), (275_000.0 + 200_000.0) / 2.0);
    }

    #[test]
    fn the_active_queue_with_the_highest_throughput_loses_a_packet() {
        for sample in [Sample::Interval(Span::from_ms(100)), Sample::Packet] {
            let mut queue = Tdrr::new(Config { limit: 4, sample, ..Config::default() }, 1);
            // Flow 1 sends most, flow 2 a little; afterwards both are idle.
            for n in 0..50 {
                pass(&mut queue, at_ms(2 * n), 1);
            }
            for n in 0..10 {
                pass(&mut queue, at_ms(100 + 10 * n), 2);
            }
            // Flow 1 is not active, so flow 2 pays, although flow 3 is the longest.
            for flow in [3, 3, 3, 2] {
                assert!(put(&mut queue, at_ms(300), flow).is_empty());
            }
            assert_eq!(put(&mut queue, at_ms(300), 3)[0].0.flow, 2);
            // Flow 1 returns after a long time and is still known, so its own packet is dropped.
            let mut dropped = Dropped::new();
            let packet = TestPacket { flow: 1, ..TestPacket::default() };
            assert_eq!(queue.enqueue(at_ms(3_000), packet, &mut dropped), Verdict::Dropped);
        }
    }

    #[test]
    fn as_many_idle_flows_are_remembered_as_asked_for_the_latest_of_all() {
        let mut queue = Tdrr::new(Config { remember: 2, ..Config::default() }, 1);
        for flow in [1, 2, 1, 3] {
            pass(&mut queue, at_ms(1), flow);
        }
        let known = [1, 2, 3].map(|flow| queue.throughput(at_ms(1), flow).is_some());
        assert_eq!(known, [true, false, true]);
        // A flow that takes the place of the forgotten one inherits nothing from it.
        pass(&mut queue, at_ms(1), 4);
        let once = queue.throughput(at_ms(1), 4).expect("it is known");
        assert!((once - 0.03125 * 10_000.0).abs() < 1e-9, "{once}");
        assert_eq!(queue.throughput(at_ms(1), 1), None);
    }
}
