//! PI: holds the queue at a reference length by dropping or marking with a probability that a
//! proportional-integral controller sets at regular times.
//!
//! Source: C. Hollot, V. Misra, D. Towsley, W. Gong, "On Designing Improved Controllers for AQM
//! Routers Supporting TCP Flows", IEEE INFOCOM 2001, section IV.
//!
//! Differences from the source: none from what it specifies. The queue is sampled at multiples of
//! the interval, but only when the next packet arrives. The queue only shrinks between two packets;
//! its length at that arrival stands for its length at the sample.

use std::collections::VecDeque;

use narrows_qdisc::{Backlog, ConfigError, Counters, DropReason, Dropped, Packet, Qdisc, Verdict};
use narrows_units::{Bytes, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// Settings of [`Pi`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The most packets that may wait.
    pub limit: u32,
    /// The number of packets that should wait on average: the paper's q_ref.
    pub reference: u32,
    /// The weight of the present distance from the reference.
    pub a: f64,
    /// The weight of the distance at the previous sample.
    pub b: f64,
    /// The time between samples.
    pub interval: Span,
    /// Whether to mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for Config {
    /// The paper's settings, for 3750 packets a second, 60 flows or more, and round trips up to 246
    /// ms.
    fn default() -> Self {
        Self {
            limit: 800,
            reference: 200,
            a: 1.822e-5,
            b: 1.816e-5,
            // 160 Hz.
            interval: Span::from_us(6_250),
            ecn: false,
        }
    }
}

impl Config {
    /// Returns settings by the paper's design rule (proposition 2). Their gains hold the queue
    /// stably at `reference` packets, for at least `flows` flows with round trips of at most
    /// `round_trip`, at a link of `packets_per_second`.
    ///
    /// C(s) = K (s/z + 1) / s with z = 2N / (R^2 C), which is also the crossover frequency w, and K
    /// = w |jw R + 1| (2N)^2 / (R C)^3. The bilinear transform turns it into a and b.
    pub fn designed(packets_per_second: f64, flows: u32, round_trip: Span, reference: u32) -> Self {
        let interval = Self::default().interval;
        let (n, r) = (2.0 * f64::from(flows), round_trip.as_secs_f64());
        let w = n / (r * r * packets_per_second);
        // Without hypot and powi, whose last bits depend on the C library and the target.
        let (gain, product) = ((w * r * w * r + 1.0).sqrt(), r * packets_per_second);
        let k = w * gain * n * n / (product * product * product);
        let half = k * interval.as_secs_f64() / 2.0;
        Self { reference, a: k / w + half, b: k / w - half, ..Self::default() }
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.limit == 0 {
            return Err(ConfigError::new("limit", "must be above zero"));
        }
        if self.interval == Span::ZERO {
            return Err(ConfigError::new("interval", "must be above zero"));
        }
        if !self.a.is_finite() || !self.b.is_finite() || self.a <= self.b || self.b < 0.0 {
            let what = format!("{} is not above b ({})", self.a, self.b);
            return Err(
                ConfigError::new("a", what).or("without that the controller integrates nothing")
            );
        }
        Ok(())
    }
}

/// The PI controller over a FIFO.
#[derive(Debug)]
pub struct Pi<P> {
    config: Config,
    /// The probability of a drop or mark.
    p: f64,
    /// The queue at the previous sample.
    sampled: f64,
    sample_at: Time,
    random: Pcg32,
    packets: VecDeque<P>,
    bytes: u64,
    counters: Counters,
}

impl<P: Packet> Pi<P> {
    /// Creates an empty queue whose random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// If [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        if let Err(error) = config.check() {
            panic!("settings that check() refuses: {error}");
        }
        Self {
            sample_at: Time::ZERO + config.interval,
            config,
            p: 0.0,
            sampled: 0.0,
            random: Pcg32::seed_from_u64(seed),
            packets: VecDeque::new(),
            bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Returns the probability of a drop or mark.
    pub const fn probability(&self) -> f64 {
        self.p
    }

    /// p(k) = a (q(k) - q_ref) - b (q(k-1) - q_ref) + p(k-1), for every sample that is due by
    /// `now`.
    fn sample(&mut self, now: Time) {
        let (queue, reference) = (self.packets.len() as f64, f64::from(self.config.reference));
        while self.sample_at <= now {
            let step =
                self.config.a * (queue - reference) - self.config.b * (self.sampled - reference);
            let p = (self.p + step).clamp(0.0, 1.0);
            self.sample_at += self.config.interval;
            if p == self.p && queue == self.sampled {
                // Neither changes again, however long no packet arrives.
                let missed = now.since(self.sample_at).as_ps() / self.config.interval.as_ps();
                self.sample_at += self.config.interval * missed;
            }
            self.p = p;
            self.sampled = queue;
        }
    }

    fn uniform(&mut self) -> f64 {
        f64::from(self.random.next_u32()) / 4_294_967_296.0
    }
}

impl<P: Packet> Qdisc<P> for Pi<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        self.sample(now);
        let bytes = packet.bytes();
        self.counters.on_arrival(bytes);
        let is_hit = self.uniform() < self.p;
        let marks = is_hit && self.config.ecn && packet.ecn().is_capable();
        let fate = if self.packets.len() as u64 >= u64::from(self.config.limit) {
            Some(DropReason::Overflow)
        } else {
            (is_hit && !marks).then_some(DropReason::Early)
        };
        if let Some(reason) = fate {
            self.counters.on_drop(bytes, reason);
            dropped.push((packet, reason));
            return Verdict::Dropped;
        }
        if marks {
            packet.mark();
            self.counters.marked_early += 1;
        }
        self.bytes += u64::from(bytes);
        self.packets.push_back(packet);
        if marks { Verdict::Marked } else { Verdict::Queued }
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        self.counters.on_departure(packet.bytes());
        Some(packet)
    }

    fn head(&self) -> Option<&P> {
        self.packets.front()
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: Bytes::new(self.bytes) }
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::AnyConfig;
    use narrows_qdisc::laws::{self, TestPacket};

    use super::*;

    #[test]
    fn it_obeys_the_laws() {
        // High enough gains to drop within the laws' short runs; the paper's gains are too small.
        let quick = Config { reference: 5, a: 0.02, b: 0.015, limit: 40, ..Config::default() };
        for ecn in [false, true] {
            let config = Config { ecn, ..quick.clone() };
            laws::check(|| Pi::new(config.clone(), 1));
        }
    }

    /// Section IV: the paper's network, 60 flows, 3750 packets a second, 246 ms. The paper prints a
    /// and b with four digits, but they follow from a K that it prints as 9.64e-6.
    #[test]
    fn the_design_rule_gives_the_papers_gains() {
        let designed = Config::designed(3750.0, 60, Span::from_ms(246), 200);
        let paper = Config::default();
        assert!((designed.a / paper.a - 1.0).abs() < 0.03, "{}", designed.a);
        assert!((designed.b / paper.b - 1.0).abs() < 0.03, "{}", designed.b);
        let (steps, theirs) = (designed.a - designed.b, paper.a - paper.b);
        assert!((steps / theirs - 1.0).abs() < 0.03, "{steps}");
    }

    /// As the simulator uses it: in place of one of narrows' own disciplines, and inside one.
    #[test]
    fn it_obeys_the_laws_where_ours_stand() {
        let pi = AnyConfig::custom("pi", |seed| Pi::new(Config::default(), seed));
        laws::check(|| pi.build(1));
        let band = narrows_qdisc::prio::Band { name: "all".into(), filters: Vec::new(), queue: pi };
        let prio = AnyConfig::from(narrows_qdisc::prio::Config { bands: vec![band] });
        laws::check(|| prio.build(1));
    }

    #[test]
    fn the_probability_changes_with_the_distance_and_its_change() {
        let config = Config { reference: 2, a: 0.1, b: 0.05, ..Config::default() };
        let mut queue = Pi::new(config.clone(), 1);
        for _ in 0..6 {
            queue.enqueue(Time::ZERO, TestPacket::default(), &mut Vec::new());
        }
        queue.enqueue(Time::ZERO + config.interval, TestPacket::default(), &mut Vec::new());
        // 0.1 (6 - 2) - 0.05 (0 - 2)
        assert!((queue.probability() - 0.5).abs() < 1e-12);
        let waiting = f64::from(queue.backlog().packets);
        queue.enqueue(Time::ZERO + config.interval * 2, TestPacket::default(), &mut Vec::new());
        let expected = 0.5 + 0.1 * (waiting - 2.0) - 0.05 * (6.0 - 2.0);
        assert!((queue.probability() - expected.min(1.0)).abs() < 1e-12);
    }

    #[test]
    fn a_long_silence_takes_no_longer_than_a_short_one() {
        let mut queue = Pi::new(Config::default(), 1);
        let year = Time::ZERO + Span::from_secs(31_536_000 / 2);
        queue.enqueue(year, TestPacket::default(), &mut Vec::new());
        assert!(queue.sample_at > year && queue.probability() == 0.0);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let refused = [
            Config { limit: 0, ..Config::default() },
            Config { interval: Span::ZERO, ..Config::default() },
            Config { a: 1e-6, ..Config::default() },
            Config { a: f64::NAN, ..Config::default() },
        ];
        for (config, key) in refused.iter().zip(["limit", "interval", "a", "a"]) {
            assert_eq!(config.check().expect_err(key).key(), key);
        }
    }
}
