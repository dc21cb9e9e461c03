//! Blue: finds the marking probability that the load needs, from losses and idleness alone.
//!
//! Source: W. Feng, K. Shin, D. Kandlur, D. Saha, "The BLUE Active Queue Management Algorithms",
//! IEEE/ACM Transactions on Networking 10(4), 2002, section III and figure 1; first as technical
//! report CSE-TR-387-99, University of Michigan, 1999.
//!
//! Differences from the source:
//!
//! - A change is allowed as soon as `freeze` has passed since the last; figure 1 says "after".
//! - The paper leaves open how often an idle link is an event; see [`Idle`]. The link counts as
//!   idle from the `dequeue` that finds nothing to the next arrival.
//! - Increment and decrement stop at probabilities of 1 and 0.
//! - A packet that finds the queue full is a loss. No random number is drawn for it first.

use narrows_units::{Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::random::uniform;
pub use crate::settings::Unit;
use crate::settings::{any, in_unit, keys, probability, words};
use crate::storage::Storage;
use crate::{
    Backlog, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict,
    assert_possible,
};

keys! {
    /// Blue (Feng, Shin, Kandlur, Saha 1999): the probability follows losses and idleness.
    pub struct Config {
        /// What `limit` and `threshold` count.
        unit: Unit = Unit::Packets, any();
        /// What the queue holds: a number of packets, or a size.
        limit: u64 = 1000, in_unit().required();
        /// A queue longer than this counts as a loss (the paper's L): a number of packets, or a
        /// size. By default only losses count.
        threshold: Option<u64> = None, in_unit();
        /// What a loss adds to the probability (the paper's d1).
        increment: f64 = 0.02, probability();
        /// What an idle link subtracts from the probability (d2).
        decrement: f64 = 0.002, probability();
        /// Shortest time between two changes of the probability (`freeze_time`).
        freeze: Span = Span::from_ms(100), any();
        /// How often an idle link counts: once per `freeze`, or once when it becomes idle.
        idle: Idle = Idle::Repeated, any();
        /// Marks packets of ECN-capable transports instead of dropping them.
        ecn: bool = false, any();
    }
}

words! {
    /// How often an idle link lowers the probability.
    pub enum Idle {
        /// Once each `freeze`, as long as it is idle.
        Repeated = "repeated",
        /// Once, when it becomes idle.
        Once = "once",
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "Blue";
    type Queue<P> = Blue<P>;

    fn build<P: Packet>(&self, seed: u64) -> Blue<P> {
        Blue::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        Levels { in_packets: self.unit == Unit::Packets, ..Levels::packets(self.limit) }
    }
}

/// Blue, with one probability for all packets.
#[derive(Clone, Debug)]
pub struct Blue<P> {
    config: Config,
    /// The marking probability p_m.
    p_m: f64,
    /// The probability does not change before this time: `freeze` after its last change.
    frozen_until: Time,
    /// When the link became idle; `None`: it is not.
    idle_since: Option<Time>,
    random: Pcg32,
    storage: Storage<P>,
    counters: Counters,
}

impl<P: Packet> Blue<P> {
    /// Creates an empty queue. Its random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        Self {
            p_m: 0.0,
            frozen_until: Time::ZERO,
            idle_since: None,
            random: Pcg32::seed_from_u64(seed),
            storage: Storage::new(),
            counters: Counters::ZERO,
            config,
        }
    }

    /// Returns the marking probability after the last arrival, or the last `dequeue` that found
    /// nothing.
    pub const fn probability(&self) -> f64 {
        self.p_m
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Figure 1, "Upon packet loss (or Q_len > L) event".
    fn on_loss(&mut self, now: Time) {
        if now >= self.frozen_until {
            self.p_m = (self.p_m + self.config.increment).min(1.0);
            self.frozen_until = now + self.config.freeze;
        }
    }

    /// Figure 1, "Upon link idle event", as often as it fits between `from` and `until`.
    fn on_idle(&mut self, from: Time, until: Time) {
        let first = from.max(self.frozen_until);
        if first > until {
            return;
        }
        let freeze = self.config.freeze.as_ps();
        let more = until.since(first).as_ps().checked_div(freeze).unwrap_or(0);
        self.p_m = (self.p_m - self.config.decrement * (1 + more) as f64).max(0.0);
        self.frozen_until = first + Span::from_ps(more * freeze) + self.config.freeze;
    }

    /// Returns the queue's length with a packet of `bytes`, in the unit.
    #[inline]
    fn length_with(&self, bytes: u32) -> u64 {
        match self.config.unit {
            Unit::Packets => self.storage.packets() as u64 + 1,
            Unit::Bytes => self.storage.bytes() + u64::from(bytes),
        }
    }
}

impl<P: Packet> Qdisc<P> for Blue<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        if let Some(since) = self.idle_since.take()
            && self.config.idle == Idle::Repeated
        {
            self.on_idle(since, now);
        }
        let length = self.length_with(bytes);
        let full = length > self.config.limit;
        if full || self.config.threshold.is_some_and(|threshold| length > threshold) {
            self.on_loss(now);
        }
        let hit = !full && self.p_m > 0.0 && uniform(&mut self.random) < self.p_m;
        let marks = hit && self.config.ecn && packet.ecn().is_capable();
        if full || (hit && !marks) {
            let reason = if full { DropReason::Overflow } else { DropReason::Early };
            self.counters.on_drop(bytes, reason);
            dropped.push((packet, reason));
            return Verdict::Dropped;
        }
        if marks {
            packet.mark();
            self.counters.marked_early += 1;
        }
        self.storage.push(packet);
        if marks { Verdict::Marked } else { Verdict::Queued }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let packet = self.storage.pop();
        match &packet {
            Some(packet) => {
                self.counters.on_departure(packet.bytes());
            }
            None if self.idle_since.is_none() => {
                self.idle_since = Some(now);
                self.on_idle(now, now);
            }
            None => {}
        }
        packet
    }

    #[inline]
    fn head(&self) -> Option<&P> {
        self.storage.head()
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.storage.backlog()
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use narrows_units::{Bytes, Rate};

    use super::*;
    use crate::Ecn;
    use crate::laws;
    use crate::traffic::TestPacket;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn with_probability(config: Config, p_m: f64) -> Blue<TestPacket> {
        Blue { p_m, ..Blue::new(config, 5) }
    }

    fn put(blue: &mut Blue<TestPacket>, now: Time, ecn: Ecn) -> (Verdict, Vec<DropReason>) {
        let mut dropped = Dropped::new();
        let packet = TestPacket { ecn, ..TestPacket::default() };
        let verdict = blue.enqueue(now, packet, &mut dropped);
        (verdict, dropped.iter().map(|&(_, reason)| reason).collect())
    }

    #[test]
    fn it_obeys_the_laws_in_every_mode() {
        for (unit, limit) in [(Unit::Packets, 20), (Unit::Bytes, 20_000)] {
            for ecn in [false, true] {
                for idle in [Idle::Repeated, Idle::Once] {
                    let threshold = ecn.then_some(limit / 2);
                    let freeze = Span::from_ms(1);
                    let config =
                        Config { unit, limit, ecn, idle, threshold, freeze, ..Config::default() };
                    laws::check(|| Blue::new(config.clone(), 1));
                }
            }
        }
    }

    #[test]
    fn a_loss_adds_the_increment_at_most_once_each_freeze() {
        let mut blue = Blue::new(Config { limit: 1, ..Config::default() }, 1);
        for (ms, p_m) in [(0, 0.0), (1, 0.02), (100, 0.02), (101, 0.04), (150, 0.04), (500, 0.06)] {
            // The queue accepts the first packet. Each later one finds it full.
            put(&mut blue, at_ms(ms), Ecn::NotEct);
            assert!((blue.probability() - p_m).abs() < 1e-12, "{ms} ms: {}", blue.probability());
        }
        let mut blue = with_probability(Config { limit: 1, ..Config::default() }, 0.99);
        blue.storage.push(TestPacket::default());
        put(&mut blue, at_ms(1_000), Ecn::NotEct);
        assert_eq!(blue.probability(), 1.0);
    }

    #[test]
    fn a_queue_above_the_threshold_counts_as_a_loss() {
        let config = Config { threshold: Some(2), freeze: Span::ZERO, ..Config::default() };
        let mut blue = Blue::new(config, 1);
        for p_m in [0.0, 0.0, 0.02] {
            assert_eq!(put(&mut blue, at_ms(1), Ecn::NotEct).0, Verdict::Queued);
            assert_eq!(blue.probability(), p_m);
        }
        let config = Config { threshold: Some(1_000), unit: Unit::Bytes, ..Config::default() };
        let mut blue = Blue::new(Config { limit: 5_000, ..config }, 1);
        for p_m in [0.0, 0.02] {
            put(&mut blue, at_ms(1), Ecn::NotEct);
            assert_eq!(blue.probability(), p_m);
        }
    }

    #[test]
    fn an_idle_link_takes_the_decrement_once_each_freeze_while_it_lasts_or_once() {
        for (idle, after) in [(Idle::Repeated, 0.48), (Idle::Once, 0.498)] {
            let mut blue = with_probability(Config { idle, ..Config::default() }, 0.5);
            blue.dequeue(at_ms(50), &mut Dropped::new());
            assert!((blue.probability() - 0.498).abs() < 1e-12);
            // Asking again is not a new event.
            blue.dequeue(at_ms(400), &mut Dropped::new());
            assert!((blue.probability() - 0.498).abs() < 1e-12);
            // The decrements come at 50, 150, ..., 950 ms.
            put(&mut blue, at_ms(1_049), Ecn::NotEct);
            assert!((blue.probability() - after).abs() < 1e-12, "{}", blue.probability());
        }
        let mut blue = with_probability(Config::default(), 0.001);
        blue.dequeue(at_ms(0), &mut Dropped::new());
        assert_eq!(blue.probability(), 0.0);
    }

    #[test]
    fn a_change_in_either_direction_freezes_the_probability() {
        let mut blue = with_probability(Config { limit: 1, ..Config::default() }, 0.5);
        blue.dequeue(at_ms(0), &mut Dropped::new());
        assert!((blue.probability() - 0.498).abs() < 1e-12);
        blue.storage.push(TestPacket::default());
        put(&mut blue, at_ms(99), Ecn::NotEct);
        assert!((blue.probability() - 0.498).abs() < 1e-12);
        put(&mut blue, at_ms(100), Ecn::NotEct);
        assert!((blue.probability() - 0.518).abs() < 1e-12);
    }

    #[test]
    fn without_a_freeze_an_idle_time_is_one_event() {
        let mut blue = with_probability(Config { freeze: Span::ZERO, ..Config::default() }, 0.5);
        blue.dequeue(at_ms(0), &mut Dropped::new());
        put(&mut blue, at_ms(10_000), Ecn::NotEct);
        assert!((blue.probability() - 0.496).abs() < 1e-12);
    }

    #[test]
    fn packets_are_hit_with_the_probability_each_on_its_own() {
        let config = Config { limit: u32::MAX.into(), ..Config::default() };
        let mut blue = with_probability(config, 0.25);
        let hits: Vec<bool> = (0..40_000)
            .map(|_| put(&mut blue, at_ms(1), Ecn::NotEct).1 == [DropReason::Early])
            .collect();
        // Standard deviations: sqrt(40000 p (1-p)), with p = 1/4, and p = 1/16 for pairs.
        let count = hits.iter().filter(|&&hit| hit).count() as f64;
        assert!((count - 10_000.0).abs() < 4.0 * 86.7, "{count}");
        let pairs = hits.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        assert!((pairs - 2_500.0).abs() < 4.0 * 61.3, "{pairs}");
    }

    #[test]
    fn with_ecn_capable_packets_are_marked_and_never_where_the_queue_is_full() {
        let config = Config { ecn: true, limit: 1, ..Config::default() };
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            let mut blue = with_probability(config.clone(), 1.0);
            let hit = put(&mut blue, at_ms(1), ecn);
            if ecn.is_capable() {
                assert_eq!(hit, (Verdict::Marked, vec![]));
                assert_eq!(blue.head().map(|packet| packet.ecn), Some(Ecn::Ce));
                let full = put(&mut blue, at_ms(1), ecn);
                assert_eq!(full, (Verdict::Dropped, vec![DropReason::Overflow]));
            } else {
                assert_eq!(hit, (Verdict::Dropped, vec![DropReason::Early]));
            }
        }
        let mut blue = with_probability(Config::default(), 1.0);
        assert_eq!(put(&mut blue, at_ms(1), Ecn::Ect0).0, Verdict::Dropped);
    }

    #[test]
    fn the_limit_counts_in_the_unit() {
        for (unit, limit, admitted) in [(Unit::Packets, 3, 3), (Unit::Bytes, 3_999, 3)] {
            let mut blue = Blue::new(Config { unit, limit, ..Config::default() }, 1);
            let mut dropped = Dropped::new();
            for _ in 0..5 {
                blue.enqueue(at_ms(0), TestPacket::default(), &mut dropped);
            }
            assert_eq!(blue.backlog().packets, admitted);
        }
    }

    /// Unresponsive senders at r times the line's rate need a probability of 1 - 1/r. Blue finds
    /// it, stays within a few steps of it, and then loses almost nothing to the limit.
    #[test]
    fn it_finds_the_probability_that_the_load_needs() {
        for r in [1.1, 1.25, 2.0] {
            let line = Rate::from_bps(10_000_000).expect("not zero");
            let service = line.time_for(Bytes::new(1000));
            let gap = Span::from_secs_f64(service.as_secs_f64() / r);
            let config = Config { limit: 100, freeze: Span::from_ms(10), ..Config::default() };
            let mut blue = Blue::new(config, 1);
            let (mut now, mut free_at) = (Time::ZERO, Time::ZERO);
            let (mut sum, mut samples, mut losses) = (0.0, 0u32, 0);
            for n in 0..200_000 {
                now += gap;
                while free_at <= now {
                    match blue.dequeue(free_at, &mut Dropped::new()) {
                        Some(_) => free_at += service,
                        None => free_at = now + Span::from_ps(1),
                    }
                }
                put(&mut blue, now, Ecn::NotEct);
                if n == 50_000 {
                    losses = blue.counters().dropped_overflow;
                }
                if n >= 50_000 {
                    sum += blue.probability();
                    samples += 1;
                }
            }
            let mean = sum / f64::from(samples);
            assert!((mean - (1.0 - 1.0 / r)).abs() < 0.02, "{r}: {mean}");
            let losses = (blue.counters().dropped_overflow - losses) as f64 / f64::from(samples);
            assert!(losses < 0.01, "{r}: {losses}");
        }
    }

    #[test]
    fn impossible_settings_are_refused_by_field() {
        type Change = fn(&mut Config);
        let refused: [(Change, &str); 4] = [
            (|c| c.limit = 0, "limit: must be above zero"),
            (|c| c.increment = 0.0, "increment: must be above zero"),
            (|c| c.increment = f64::NAN, "increment: must be above zero"),
            (|c| c.decrement = 1.1, "decrement: must be at most 1"),
        ];
        for (change, error) in refused {
            let mut config = Config::default();
            change(&mut config);
            assert_eq!(config.check().expect_err(error).to_string(), error);
        }
        assert_eq!(Config::default().check(), Ok(()));
    }
}
