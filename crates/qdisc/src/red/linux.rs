//! RED as in the Linux kernel: keeps the average queue, in bytes, between two thresholds by
//! dropping or marking at random.
//!
//! Written from the papers that `average.rs` names, tc-red(8), and the behaviour of Linux 6.1's
//! `red`. What tc computes from the settings is in [`tc`].
//!
//! Differences from Linux:
//!
//! - Random numbers come from a seeded PCG, not from the kernel's pool.
//! - The adaptive timer fires every 500 ms from time zero on; in Linux, from the time of
//!   configuration, rounded to a jiffy. The next call catches up with it, with the same
//!   result.
//! - `adaptive` adapts. With tc 6.1 on Linux 6.1 it does not: tc sends the flag in TCA_RED_FLAGS,
//!   and `sch_red.c` looks for it in TCA_RED_PARMS before it starts the timer.
//! - Idle time is rounded down to whole microseconds from picoseconds, not from nanoseconds.
//! - `min` must be smaller than `max`; Linux also accepts equal ones.
//! - There are no qevents, no hardware offload, no child other than a byte FIFO, and no change of
//!   settings during operation.
//!
//! Kept on purpose, though they look like mistakes:
//!
//! - tc fills the table of the idle decay in ticks of 64 ns, but the kernel reads it in
//!   microseconds, and natural logarithms serve as powers of two. The first half of an idle queue's
//!   average decays quickly, by a linear rule; the rest decays 15.625 / ln 2 = 22.5 times more
//!   slowly than the paper says.
//! - Idle time starts when `dequeue` finds nothing. A parent that looks before it takes
//!   (`tbf_dequeue`), or that removes a class from its list with the last packet
//!   (`htb_dequeue_tree`), never lets that happen: below them the average does not decay at all.
//!   That is `idles = false`.
//! - A probability of 1 overflows tc's 32 bits and becomes 2^-Plog times `max - min`.
//! - A packet is marked before the limit is checked, so a marked packet may be dropped.
//! - The divisor of the random number is first rounded down; adaptation rounds it to the nearest.

mod average;
pub mod tc;

use alloc::format;

use narrows_units::{Bytes, Rate, Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use self::average::{Decision, Parameters, State};
use self::tc::Derived;
use crate::settings::{MOST_BYTES, Settings, any, probability, settings, size, whole};
use crate::storage::Storage;
use crate::{
    AverageQueue, Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Levels, Packet,
    Qdisc, Verdict,
};

settings! {
    /// RED as in the Linux kernel, with the parameters of tc-red(8).
    pub struct Config {
        /// Hard limit of the real queue; packets beyond it are dropped.
        limit: Bytes = Bytes::new(400_000), size(1, MOST_BYTES).required();
        /// Average backlog at which marking or dropping starts; a third of `max` by default.
        min: Option<Bytes> = None, size(1, MOST_BYTES);
        /// Average backlog from which every packet is marked or dropped; a quarter of `limit` by
        /// default.
        max: Option<Bytes> = None, size(1, MOST_BYTES);
        /// Average packet size, for `burst` and for the decay of the average in idle times.
        avpkt: Bytes = Bytes::new(1000), size(1, MOST_BYTES);
        /// How many packets may arrive in a burst before the average follows; this sets the
        /// average's weight. By default (2 `min` + `max`) / (3 `avpkt`), as in tc.
        burst: Option<u32> = None, whole(1, i32::MAX as u64);
        /// Probability of marking or dropping when the average reaches `max`.
        probability: f64 = 0.02, probability();
        /// The line rate from which the average's decay in idle times is computed; by default the
        /// link's (tc's default is 10 Mbit/s).
        bandwidth: Option<Rate> = None, any();
        /// Marks packets of ECN-capable transports where it would drop them early.
        ecn: bool = false, any();
        /// Above `max`, drops packets instead of marking them.
        harddrop: bool = false, any();
        /// Queues packets that it would drop early but cannot mark; needs `ecn`.
        nodrop: bool = false, any();
        /// Adapts `probability` to keep the average half-way between `min` and `max`.
        adaptive: bool = false, any();
        /// Whether the average decays while the queue is empty. In Linux it does if RED stands
        /// directly above a device, but not below a shaper (`tbf`, `htb`), which never asks an
        /// empty queue for a packet.
        idles: bool = true, any();
    }
}

impl Config {
    /// Returns the example of tc-red(8), without `ecn` and `adaptive`.
    pub const fn example() -> Self {
        Self {
            limit: Bytes::new(400_000),
            min: Some(Bytes::new(30_000)),
            max: Some(Bytes::new(90_000)),
            avpkt: Bytes::new(1000),
            burst: Some(55),
            probability: 0.02,
            bandwidth: Some(TC_BANDWIDTH),
            ecn: false,
            harddrop: false,
            nodrop: false,
            adaptive: false,
            idles: true,
        }
    }

    /// Returns the `min` in effect.
    pub fn lower(&self) -> Bytes {
        self.min.unwrap_or_else(|| Bytes::new(self.upper().get() / 3))
    }

    /// Returns the `max` in effect.
    pub fn upper(&self) -> Bytes {
        self.max.unwrap_or_else(|| Bytes::new(self.limit.get() / 4))
    }

    /// Returns the `burst` in effect.
    pub fn packets(&self) -> u32 {
        self.burst.unwrap_or_else(|| tc::default_burst(self.lower(), self.upper(), self.avpkt))
    }

    /// Returns what tc would pass to the kernel for these settings.
    ///
    /// # Errors
    ///
    /// Returns what tc or the kernel would refuse.
    pub fn derive(&self) -> Result<Derived, ConfigError> {
        self.check()?;
        Derived::new(self)
    }
}

impl Settings for Config {
    /// Checks what tc and the kernel would check.
    fn check_together(&self) -> Result<(), ConfigError> {
        let (lower, upper) = (self.lower(), self.upper());
        if lower >= upper {
            let origin = if self.max.is_some() { "" } else { ", which is a quarter of limit" };
            let key = if self.min.is_some() { "min" } else { "max" };
            let what = format!("\"{lower}\" is not below max (\"{upper}\"{origin})");
            return Err(
                ConfigError::new(key, what).or("tc-red(8) advises a max of at least twice min")
            );
        }
        if lower == Bytes::ZERO {
            return Err(ConfigError::new("limit", "is too small for a min of its own")
                .or("raise it or give min and max"));
        }
        let wlog = tc::eval_ewma(self)?;
        // `red_check_params`: the threshold, shifted by the weight, fits in 32 bits.
        for (key, given, bytes) in [("min", self.min, lower), ("max", self.max, upper)] {
            if u64::BITS - bytes.get().leading_zeros() + u32::from(wlog) >= 32 {
                let what = format!(
                    "\"{bytes}\" is too large for the weight that burst {} asks for",
                    self.packets()
                );
                let key = if given.is_some() { key } else { "limit" };
                return Err(ConfigError::new(key, what).or("lower it or burst"));
            }
        }
        tc::eval_p(self)?;
        if self.nodrop && !self.ecn {
            return Err(
                ConfigError::new("nodrop", "needs ecn = true").or("set ecn, or leave nodrop out")
            );
        }
        match self.bandwidth {
            Some(bandwidth) => tc::eval_idle_damping(self, bandwidth, wlog).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "RED";
    type Queue<P> = Red<P>;

    fn build<P: Packet>(&self, seed: u64) -> Red<P> {
        Red::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        let backlogs = [("min", self.lower()), ("max", self.upper()), ("limit", self.limit)];
        let backlogs = backlogs.map(|(name, bytes)| (name, bytes.get() as f64)).into();
        Levels { backlogs, ..Levels::default() }
    }

    fn settled(self, rate: Rate) -> Self {
        Self {
            min: Some(self.lower()),
            max: Some(self.upper()),
            burst: Some(self.packets()),
            bandwidth: Some(self.bandwidth.unwrap_or(rate)),
            ..self
        }
    }
}

/// The rate that tc assumes if none is given.
const TC_BANDWIDTH: Rate = const { Rate::from_bps(10_000_000).expect("not zero") };

/// Linux's RED over a byte FIFO.
#[derive(Clone, Debug)]
pub struct Red<P> {
    config: Config,
    parameters: Parameters,
    state: State,
    adapt_at: Time,
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
        let derived = match config.derive() {
            Ok(derived) => derived,
            Err(error) => panic!("settings that check() refuses: {error}"),
        };
        Self {
            parameters: Parameters::new(&config, &derived),
            state: State::new(),
            adapt_at: if config.adaptive { Time::ZERO + ADAPTATION } else { Time::MAX },
            random: Pcg32::seed_from_u64(seed),
            storage: Storage::new(),
            counters: Counters::ZERO,
            config,
        }
    }

    /// Returns the average queue in bytes, after the last arrival.
    pub fn average(&self) -> f64 {
        self.state.average as f64 / (1u64 << self.parameters.w) as f64
    }

    /// Returns the marking probability when the average reaches `max`. It changes only with
    /// `adaptive`.
    pub fn probability(&self) -> f64 {
        f64::from(self.parameters.max_p) / 4_294_967_296.0
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Carries out a decision: marks `packet`, or returns why it has to be dropped.
    #[inline]
    fn carry_out(&mut self, decision: Decision, packet: &mut P) -> Disposition {
        let (reason, may_mark) = match decision {
            Decision::Pass => return Disposition::Pass,
            Decision::Early => (DropReason::Early, self.config.ecn),
            Decision::Forced => (DropReason::Forced, self.config.ecn && !self.config.harddrop),
        };
        if !may_mark {
            return Disposition::Drop(reason);
        }
        if packet.ecn().is_capable() {
            packet.mark();
            match reason {
                DropReason::Forced => self.counters.marked_forced += 1,
                _ => self.counters.marked_early += 1,
            }
            return Disposition::Mark;
        }
        if self.config.nodrop { Disposition::Pass } else { Disposition::Drop(reason) }
    }

    /// Returns the child's backlog, which its limit keeps within 32 bits.
    #[inline]
    fn child_backlog(&self) -> u64 {
        self.storage.bytes()
    }

    /// Runs the adaptive timer for each time that it was due by `now`.
    #[cold]
    fn adapt(&mut self, now: Time) {
        while self.adapt_at <= now {
            let before = self.parameters.max_p;
            let average = self.parameters.adapt(&self.state, self.adapt_at);
            let settled = self.state.idle_since.is_none() || average < self.parameters.low;
            let periods = if settled && self.parameters.max_p == before {
                // Nothing changes until the next packet: skip to the last time due.
                now.since(self.adapt_at).as_ps() / ADAPTATION.as_ps()
            } else {
                0
            };
            self.adapt_at += ADAPTATION * (periods + 1);
        }
    }
}

impl<P: Packet> Qdisc<P> for Red<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        if self.adapt_at <= now {
            self.adapt(now);
        }
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);

        self.state.see(&self.parameters, self.child_backlog(), now);
        let decision = self.state.decide(&self.parameters, &mut self.random);
        let disposition = self.carry_out(decision, &mut packet);

        let fits = self.child_backlog() + u64::from(bytes) <= self.config.limit.get();
        let reason = match disposition {
            Disposition::Drop(reason) => reason,
            Disposition::Pass | Disposition::Mark if !fits => {
                self.counters.marked_then_dropped += u64::from(disposition == Disposition::Mark);
                DropReason::Overflow
            }
            Disposition::Pass | Disposition::Mark => {
                self.storage.push(packet);
                return if disposition == Disposition::Mark {
                    Verdict::Marked
                } else {
                    Verdict::Queued
                };
            }
        };
        self.counters.on_drop(bytes, reason);
        dropped.push((packet, reason));
        Verdict::Dropped
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        if self.adapt_at <= now {
            self.adapt(now);
        }
        let packet = self.storage.pop();
        match &packet {
            Some(packet) => {
                self.counters.on_departure(packet.bytes());
            }
            None if self.config.idles => {
                self.state.idle_since.get_or_insert(now);
            }
            None => {}
        }
        packet
    }

    #[inline]
    fn head(&self) -> Option<&P> {
        self.storage.head()
    }

    fn average_queue(&self) -> Option<AverageQueue> {
        Some(AverageQueue::Bytes(Self::average(self)))
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

/// The consequence of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disposition {
    Pass,
    Mark,
    Drop(DropReason),
}

/// The interval of Adaptive RED.
const ADAPTATION: Span = Span::from_ms(500);

#[cfg(test)]
mod tests;
