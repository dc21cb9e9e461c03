//! RED as in the paper of 1993: keeps the average queue between two thresholds by dropping or
//! marking at random.
//!
//! Source: S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance",
//! IEEE/ACM Transactions on Networking 1(4), 1993, figure 2 and sections 4 and 7. Later additions
//! are as in ns-2 (2.35, `queue/red.cc`): `gentle`, `wait`, ECN, and the count in byte mode.
//! `adaptive` is Adaptive RED: S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for
//! Increasing the Robustness of RED's Active Queue Management", 2001, as in ns-2.
//!
//! Differences from the paper:
//!
//! - m, the number of packets that might have been sent in an idle time, is the idle time divided
//!   by a mean packet's transmission time, rounded down, as in ns-2; the paper leaves the function
//!   open. The mean packet is `mean_packet` in byte mode, and the mean of all arrivals so far in
//!   packet mode. (ns-2 uses `mean_pktsize_` in both.)
//! - Idle time starts when `dequeue` finds nothing. This is when the last transmission ends, as in
//!   ns-2, or at once if the caller's line takes packets in advance.
//! - In byte mode the count runs in bytes, in units of mean packets rounded down, and the size
//!   scales the final probability, as in ns-2. The paper counts packets and scales p_b, so that one
//!   large packet after many small ones is always hit.
//! - There is a limit. A drop there restarts the count, as in ns-2.
//! - Adaptive RED changes the probability at the first arrival after `interval` has passed since
//!   the last change, as in ns-2; its paper says every `interval`.
//!
//! Differences from ns-2, where the paper is followed:
//!
//! - After an idle time the average is multiplied by (1-w)^m; ns-2 also takes a sample of zero.
//! - The first packet between the thresholds may be hit (count 0); ns-2 always lets it pass.
//! - RED acts whatever waits; ns-2 lets packets pass while at most one waits (packet or byte).
//! - A `limit` in bytes admits a packet if the sum including it fits. ns-2 admits it if the sum
//!   without it is below the limit, which it computes as packets times `mean_pktsize_`.
//! - A packet that RED has decided to drop counts as early or forced even if the queue is full;
//!   ns-2 calls that forced.
//! - With `adaptive` and `gentle`, the probability above `max` starts from the current `max_p`, not
//!   from the first one.
//! - Feng's adaptive RED, `cautious`, `drop_front` and `drop_rand` are not modelled.
//!   [`Config::automatic`] does what ns-2 does if `thresh_`, `maxthresh_`, `q_weight_` or `bottom_`
//!   is zero.

use alloc::format;
use alloc::vec;

use narrows_units::{Bytes, Rate, Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::random::uniform;
pub use crate::settings::Unit;
use crate::settings::{
    MOST_BYTES, Settings, any, in_unit, keys, positive, probability, settings, size, threshold,
};
use crate::storage::Storage;
use crate::{
    AverageQueue, Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Levels, Packet,
    Qdisc, Verdict, assert_possible,
};

settings! {
    /// RED as in the paper of 1993 and in ns-2: with thresholds in packets or bytes, and a given
    /// weight.
    pub struct Config {
        /// What `limit`, `min` and `max` count.
        unit: Unit = Unit::Packets, any();
        /// Average packet size, by which byte mode scales the probability (ns-2: 500).
        mean_packet: Bytes = Bytes::new(500), size(1, MOST_BYTES);
        /// Hard limit of the real queue: a number of packets, or a size.
        limit: u64 = 60, in_unit().required();
        /// Average at which marking or dropping starts: packets, or a size.
        min: f64 = 5.0, threshold().required();
        /// Average above which every packet is marked or dropped: packets, or a size.
        max: f64 = 15.0, threshold().required();
        /// Weight of a new sample in the average (the paper's w_q).
        weight: f64 = 0.002, probability();
        /// Probability of marking or dropping when the average reaches `max`.
        max_p: f64 = 0.1, probability();
        /// Lets the probability rise from `max_p` to 1 between `max` and twice `max`.
        gentle: bool = false, any();
        /// Spaces drops 1/p to 2/p packets apart (ns-2's default) instead of 1 to 1/p (the paper).
        wait: bool = false, any();
        /// Marks packets of ECN-capable transports where it would drop them early.
        ecn: bool = false, any();
        /// Marks above `max` too (Linux does, ns-2 drops).
        mark_above_max: bool = false, any();
        /// Adapts `max_p`, so that the average stays half-way between `min` and `max`: true, or a
        /// table; false by default.
        adaptive: Option<Adaptive> = None, any();
        /// The line rate from which the average's decay in idle times is computed; by default the
        /// link's.
        bandwidth: Option<Rate> = None, any();
    }
}

keys! {
    /// How Adaptive RED (Floyd, Gummadi, Shenker 2001) changes `max_p`; `true` stands for these
    /// defaults.
    pub struct Adaptive {
        /// The shortest time between changes.
        interval: Span = Span::from_ms(500), positive();
        /// Added to `max_p` while the average is above its target, but at most a quarter of
        /// `max_p`.
        alpha: f64 = 0.01, probability();
        /// What `max_p` is multiplied by while the average is below its target.
        beta: f64 = 0.9, probability();
        /// `max_p` does not rise above this.
        top: f64 = 0.5, probability();
        /// `max_p` does not fall below this.
        bottom: f64 = 0.01, probability();
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        let Self { min, max, .. } = self;
        if min < max {
            return Ok(());
        }
        let what = format!("{min} is not below max ({max})");
        Err(ConfigError::new("min", what).or("exchange or fix them"))
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "RED (1993)";
    type Queue<P> = Red<P>;

    fn build<P: Packet>(&self, seed: u64) -> Red<P> {
        Red::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        let backlogs = vec![("min", self.min), ("max", self.max), ("limit", self.limit as f64)];
        Levels { in_packets: self.unit == Unit::Packets, backlogs, ..Levels::default() }
    }

    fn settled(self, rate: Rate) -> Self {
        Self { bandwidth: Some(self.bandwidth.unwrap_or(rate)), ..self }
    }
}

/// The link's rate if none is given: 10 Mbit/s, as in tc-red(8).
const BANDWIDTH: Rate = const { Rate::from_bps(10_000_000).expect("not zero") };

impl Config {
    /// Returns the paper's recommendations (section 5 to 7): thresholds of 5 and 15 packets, a
    /// weight of 0.002, a probability of 1/50.
    pub fn example() -> Self {
        Self { max_p: 0.02, ..Self::default() }
    }

    /// Returns settings of Adaptive RED that are all computed from the link and the target delay,
    /// in packets of `mean_packet` bytes, following the paper's section 4 and ns-2 with its
    /// settings at zero.
    ///
    /// `min` is half the target, but at least 5 packets, and `max` is three times that. The
    /// average's time constant is a second, or less on links of less than a packet a second. At the
    /// smallest `max_p`, a connection of 100 ms sees less than one mark in a round trip. The limit
    /// is four times `max`; callers should set their own.
    pub fn automatic(bandwidth: Rate, mean_packet: u32, target_delay: Span) -> Self {
        let packets_per_second = bandwidth.as_bps() as f64 / (8.0 * f64::from(mean_packet.max(1)));
        let min = (target_delay.as_secs_f64() * packets_per_second / 2.0).max(5.0);
        let bottom = (80_000.0 / bandwidth.as_bps() as f64).min(0.01);
        Self {
            limit: libm::ceil(12.0 * min) as u64,
            min,
            max: 3.0 * min,
            weight: 1.0 - libm::exp(-1.0 / packets_per_second),
            gentle: true,
            bandwidth: Some(bandwidth),
            adaptive: Some(Adaptive { bottom, ..Adaptive::default() }),
            ..Self::example()
        }
    }
}

/// The RED of the paper, with ns-2's additions.
#[derive(Clone, Debug)]
pub struct Red<P> {
    config: Config,
    avg: f64,
    /// The marking probability when the average reaches `max`.
    max_p: f64,
    /// With `adaptive`: the time of the last change of `max_p`.
    lastset: Time,
    /// Packets or bytes since the last mark; `None` below `min` (the paper's -1).
    count: Option<u64>,
    /// Since when the queue has been empty; `None` since the next arrival.
    q_time: Option<Time>,
    random: Pcg32,
    storage: Storage<P>,
    counters: Counters,
}

impl<P: Packet> Red<P> {
    /// Creates an empty queue. Its random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        Self {
            avg: 0.0,
            max_p: config.max_p,
            lastset: Time::ZERO,
            count: None,
            q_time: Some(Time::ZERO),
            random: Pcg32::seed_from_u64(seed),
            storage: Storage::new(),
            counters: Counters::ZERO,
            config,
        }
    }

    /// Returns the average queue in the unit, after the last arrival.
    pub const fn average(&self) -> f64 {
        self.avg
    }

    /// Returns the marking probability when the average reaches `max`. It changes only with
    /// `adaptive`.
    pub const fn max_p(&self) -> f64 {
        self.max_p
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Figure 2, "calculate the new average queue size".
    #[inline]
    fn update_average(&mut self, now: Time) {
        let weight = self.config.weight;
        match self.q_time.take() {
            None => self.avg += weight * (self.queue() - self.avg),
            Some(since) => {
                let m = now.since(since).as_ps() / self.transmission_time().as_ps().max(1);
                self.avg *= power(1.0 - weight, m);
            }
        }
    }

    /// ns-2's `updateMaxP`: additive increase, multiplicative decrease.
    #[inline]
    fn adapt(&mut self, now: Time) {
        let Some(adaptive) = &self.config.adaptive else { return };
        if now <= self.lastset + adaptive.interval {
            return;
        }
        let part = 0.4 * (self.config.max - self.config.min);
        if self.avg < self.config.min + part && self.max_p > adaptive.bottom {
            self.max_p *= adaptive.beta;
        } else if self.avg > self.config.max - part && self.max_p < adaptive.top {
            self.max_p += adaptive.alpha.min(0.25 * self.max_p);
        } else {
            return;
        }
        self.lastset = now;
    }

    /// Returns the queue in the unit: the paper's q.
    #[inline]
    fn queue(&self) -> f64 {
        match self.config.unit {
            Unit::Packets => self.storage.packets() as f64,
            Unit::Bytes => self.storage.bytes() as f64,
        }
    }

    /// Returns a mean packet's transmission time: the paper's s.
    fn transmission_time(&self) -> Span {
        let mean = match self.config.unit {
            Unit::Bytes => self.config.mean_packet.get(),
            // The counts include this arrival.
            Unit::Packets => self.counters.arrived_bytes / self.counters.arrived_packets.max(1),
        };
        self.config.bandwidth.unwrap_or(BANDWIDTH).time_for(Bytes::new(mean))
    }

    /// Decides whether to mark or drop a packet of `bytes`, and why. Figure 2, from "if min_th <=
    /// avg < max_th".
    #[inline]
    fn decide(&mut self, bytes: u32) -> Option<DropReason> {
        if self.avg < self.config.min {
            self.count = None;
            return None;
        }
        let certain = if self.config.gentle { 2.0 * self.config.max } else { self.config.max };
        if self.avg >= certain {
            self.count = Some(0);
            return Some(DropReason::Forced);
        }
        let step = match self.config.unit {
            Unit::Packets => 1,
            Unit::Bytes => u64::from(bytes),
        };
        let count = self.count.map_or(0, |count| count + step);
        let marks = uniform(&mut self.random) < self.p_a(self.p_b(), count, bytes);
        self.count = Some(if marks { 0 } else { count });
        marks.then_some(DropReason::Early)
    }

    /// Returns the probability that follows from the average alone.
    #[inline]
    fn p_b(&self) -> f64 {
        let Config { min, max, .. } = self.config;
        let max_p = self.max_p;
        if self.avg < max {
            max_p * (self.avg - min) / (max - min)
        } else {
            // ns-2's `gentle_`: from max_p at max to 1 at twice max.
            max_p + (1.0 - max_p) * (self.avg - max) / max
        }
    }

    /// Returns the probability that spaces marks evenly, given the `count` since the last one.
    #[inline]
    fn p_a(&self, p_b: f64, count: u64, bytes: u32) -> f64 {
        let count = match self.config.unit {
            Unit::Packets => count as f64,
            Unit::Bytes => (count / self.config.mean_packet.get()) as f64,
        };
        let x = count * p_b;
        let p_a = match (self.config.wait, x) {
            (false, x) if x < 1.0 => p_b / (1.0 - x),
            (true, x) if x < 1.0 => 0.0,
            (true, x) if x < 2.0 => p_b / (2.0 - x),
            _ => 1.0,
        };
        match self.config.unit {
            Unit::Bytes if p_a < 1.0 => {
                p_a * f64::from(bytes) / self.config.mean_packet.get() as f64
            }
            _ => p_a,
        }
    }

    /// Returns whether the limit leaves room for a packet of `bytes`.
    #[inline]
    fn fits(&self, bytes: u32) -> bool {
        match self.config.unit {
            Unit::Packets => (self.storage.packets() as u64) < self.config.limit,
            Unit::Bytes => self.storage.bytes() + u64::from(bytes) <= self.config.limit,
        }
    }

    /// Marks `packet` if `reason` allows it and it may be marked.
    #[inline]
    fn mark(&mut self, packet: &mut P, reason: DropReason) -> bool {
        let forced = reason == DropReason::Forced;
        let allowed = self.config.ecn && (!forced || self.config.mark_above_max);
        if !allowed || !packet.ecn().is_capable() {
            return false;
        }
        packet.mark();
        if forced {
            self.counters.marked_forced += 1;
        } else {
            self.counters.marked_early += 1;
        }
        true
    }
}

impl<P: Packet> Qdisc<P> for Red<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        self.update_average(now);
        self.adapt(now);
        let hit = self.decide(bytes);
        let marked = hit.is_some_and(|reason| self.mark(&mut packet, reason));
        let reason = match hit {
            Some(reason) if !marked => reason,
            _ if !self.fits(bytes) => {
                self.counters.marked_then_dropped += u64::from(marked);
                self.count = self.count.map(|_| 0);
                DropReason::Overflow
            }
            _ => {
                self.storage.push(packet);
                return if marked { Verdict::Marked } else { Verdict::Queued };
            }
        };
        self.counters.on_drop(bytes, reason);
        dropped.push((packet, reason));
        Verdict::Dropped
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let packet = self.storage.pop();
        match &packet {
            Some(packet) => {
                self.counters.on_departure(packet.bytes());
            }
            None => {
                self.q_time.get_or_insert(now);
            }
        }
        packet
    }

    #[inline]
    fn head(&self) -> Option<&P> {
        self.storage.head()
    }

    fn average_queue(&self) -> Option<AverageQueue> {
        let average = match self.config.unit {
            Unit::Packets => AverageQueue::Packets,
            Unit::Bytes => AverageQueue::Bytes,
        };
        Some(average(Self::average(self)))
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

/// Returns `base` raised to the power of `exponent`, by squaring: the same bits from every
/// compiler.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests;
