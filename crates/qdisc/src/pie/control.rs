//! PIE's controller, without the queue.
//!
//! Source: Linux 6.1, `net/sched/sch_pie.c`; RFC 8033, sections 4 and 5. The differences are
//! listed at [`super`].

use narrows_units::{Span, Time};
use rand_core::Rng;
use rand_pcg::Pcg32;

use super::Config;

/// `struct pie_params`
#[derive(Clone, Debug)]
pub(super) struct Params {
    target: Ticks,
    tupdate: Span,
    /// Probability (of [`MAX_PROB`]) an update for each tick of delay above the target.
    alpha: u64,
    /// The same for each tick that the delay has grown.
    beta: u64,
    bytemode: bool,
    dq_rate_estimator: bool,
    mtu: u64,
}

/// The variables and when they are updated next.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) vars: Vars,
    update_at: Time,
}

/// `struct pie_vars`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vars {
    qdelay: Ticks,
    qdelay_old: Ticks,
    /// What is left of the burst allowance.
    burst_time: Ticks,
    /// The last departure; with the estimator, when the measurement began.
    dq_tstamp: Option<Ticks>,
    /// The drop probability, of [`MAX_PROB`].
    pub(super) prob: u64,
    /// The sum of probabilities since the last drop.
    pub(super) accu_prob: u64,
    /// Bytes that have left in this measurement; `None`: there is none.
    dq_count: Option<u64>,
    /// Bytes a tick, in 256ths; zero: not known.
    avg_dq_rate: u64,
}

/// Steps that a long time without packets is caught up with in: a millisecond of work, and 25 minutes
/// of updates at the usual interval even if none of them could be put together with others.
const MOST_STEPS: u32 = 100_000;

/// Time in `psched` ticks of 64 ns.
type Ticks = u64;

impl Params {
    pub(super) fn new(config: &Config) -> Self {
        // In Linux scaled at each update; the shift right by 4 makes sixteenths of it.
        let scaled = |factor: u32| (u64::from(factor) * (MAX_PROB / TICKS_PER_SEC)) >> 4;
        Self {
            target: ticks(config.target.as_ps()),
            tupdate: config.tupdate,
            alpha: scaled(config.alpha),
            beta: scaled(config.beta),
            bytemode: config.bytemode,
            dq_rate_estimator: config.dq_rate_estimator,
            mtu: config.mtu.get(),
        }
    }
}

impl Control {
    pub(super) fn new(tupdate: Span) -> Self {
        let vars = Vars {
            qdelay: 0,
            qdelay_old: 0,
            burst_time: BURST_TIME,
            dq_tstamp: None,
            prob: 0,
            accu_prob: 0,
            dq_count: None,
            avg_dq_rate: 0,
        };
        Self { vars, update_at: Time::ZERO + tupdate }
    }

    /// Runs the timer for each time that it was due by `now`; `backlog` has been the same since the
    /// last call.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Time, params: &Params, backlog: u64) {
        if self.update_at <= now {
            let due = 1 + now.since(self.update_at).as_ps() / params.tupdate.as_ps();
            self.vars.update_times(due, params, backlog);
            self.update_at += params.tupdate * due;
        }
    }
}

impl Vars {
    /// [`Vars::calculate_probability`], `due` times; in few steps, however many are due.
    ///
    /// Once the delay stands still, the probability moves by equal steps within each range of the
    /// auto-tuning, of which there are seven, or shrinks by 1/64, which ends at zero after some
    /// 2,500 steps, or nothing changes any more. Or else it swings about an edge of two ranges for
    /// ever, which takes a delay above 250 ms and below the target: after `MOST_STEPS` of that, the
    /// rest would change where in its swing it is found, and is left out.
    #[cold]
    pub(super) fn update_times(&mut self, mut due: u64, params: &Params, backlog: u64) {
        for _ in 0..MOST_STEPS {
            if due == 0 {
                return;
            }
            let before = *self;
            self.calculate_probability(params, backlog);
            due -= 1;
            if *self == before {
                return;
            }
            let still = Self { prob: before.prob, ..*self } == before;
            let (low, high) = range(self.prob);
            let linear = self.qdelay != 0 || backlog != 0;
            if still && linear && (low..high).contains(&before.prob) {
                let (step, room) = if self.prob > before.prob {
                    (self.prob - before.prob, high - self.prob)
                } else {
                    (before.prob - self.prob, self.prob - low)
                };
                // Each of these steps starts within the range, and none ends beyond its edge.
                let steps = due.min(room / step);
                if self.prob > before.prob {
                    self.prob += steps * step;
                } else {
                    self.prob -= steps * step;
                }
                due -= steps;
            }
        }
    }

    /// `pie_calculate_probability`; RFC 8033, section 4.2.
    pub(super) fn calculate_probability(&mut self, params: &Params, backlog: u64) {
        if params.dq_rate_estimator {
            self.qdelay_old = self.qdelay;
            self.qdelay = (backlog << SCALE).checked_div(self.avg_dq_rate).unwrap_or(0);
        }
        let (qdelay, qdelay_old) = (self.qdelay, self.qdelay_old);

        let shift = auto_tuning(self.prob);
        let weighted = |factor: u64, more: Ticks, less: Ticks| {
            // Ticks of any time fit 63 bits.
            ((factor >> shift) as i64).saturating_mul(more as i64 - less as i64)
        };
        let mut delta = weighted(params.alpha, qdelay, params.target).saturating_add(weighted(
            params.beta,
            qdelay,
            qdelay_old,
        ));
        // RFC 8033, 5.5: no more than 2 % at a time where the probability is 10 % or more.
        if delta > (MAX_PROB / 50) as i64 && self.prob >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100) as i64 * 2;
        }
        // RFC 8033, 5.5: 2 % more above 250 ms.
        if qdelay > HIGH_DELAY {
            delta = delta.saturating_add((MAX_PROB / 50) as i64);
        }
        self.prob = (self.prob as i64).saturating_add(delta).clamp(0, MAX_PROB as i64) as u64;
        // RFC 8033, 4.2: decay while idle. A delay of zero over a backlog is no idle time.
        if qdelay == 0 && qdelay_old == 0 && backlog == 0 {
            self.prob -= self.prob / 64;
        }
        let low = params.target / 2;
        let rate_known = !params.dq_rate_estimator || self.avg_dq_rate > 0;
        if qdelay < low && qdelay_old < low && self.prob == 0 && rate_known {
            self.restart();
        }
        if !params.dq_rate_estimator {
            self.qdelay_old = qdelay;
        }
    }

    /// `pie_vars_init`; RFC 8033, section 5.2: a new burst allowance.
    fn restart(&mut self) {
        self.burst_time = BURST_TIME;
        self.dq_tstamp = None;
        self.accu_prob = 0;
        self.dq_count = None;
        self.avg_dq_rate = 0;
    }

    /// `pie_drop_early`; RFC 8033, sections 4.1, 5.1 and 5.4. `backlog`: without the packet.
    #[inline]
    pub(super) fn drop_early(
        &mut self,
        params: &Params,
        backlog: u64,
        bytes: u32,
        random: &mut Pcg32,
    ) -> bool {
        if self.burst_time > 0
            || (self.qdelay < params.target / 2 && self.prob < MAX_PROB / 5)
            || backlog < params.mtu.saturating_mul(2)
        {
            return false;
        }
        let bytes = u64::from(bytes);
        let prob = if params.bytemode && bytes <= params.mtu {
            bytes * (self.prob / params.mtu)
        } else {
            self.prob
        };
        if prob == 0 {
            self.accu_prob = 0;
        } else {
            // Marks may add up to 256 times the probability of 1; then it wraps, as in the kernel.
            self.accu_prob = self.accu_prob.wrapping_add(prob);
        }
        if self.accu_prob < MAX_PROB / 100 * 85 {
            return false;
        }
        if self.accu_prob >= MAX_PROB / 2 * 17 {
            return true;
        }
        let hit = random.next_u64() >> 8 < prob;
        if hit {
            self.accu_prob = 0;
        }
        hit
    }

    /// `pie_process_dequeue`. `backlog`: what the packet leaves behind.
    #[inline]
    pub(super) fn process_dequeue(
        &mut self,
        params: &Params,
        now: Time,
        arrived_at: Time,
        bytes: u32,
        backlog: u64,
    ) {
        let now = ticks(now.as_ps());
        let elapsed = if params.dq_rate_estimator {
            self.estimate_rate(now, bytes, backlog)
        } else {
            self.qdelay = if backlog == 0 { 0 } else { now - ticks(arrived_at.as_ps()) };
            self.dq_tstamp.replace(now).map_or(0, |before| now - before)
        };
        self.burst_time = self.burst_time.saturating_sub(elapsed);
    }

    /// The departure rate over each 16 KB of a queue at least as long (RFC 8033, section 4.3); how
    /// long the measurement took that ends now, else zero.
    fn estimate_rate(&mut self, now: Ticks, bytes: u32, backlog: u64) -> Ticks {
        if backlog >= QUEUE_THRESHOLD && self.dq_count.is_none() {
            self.dq_tstamp = Some(now);
            self.dq_count = Some(0);
        }
        let (Some(count), Some(since)) = (&mut self.dq_count, self.dq_tstamp) else { return 0 };
        *count += u64::from(bytes);
        let elapsed = now - since;
        if *count < QUEUE_THRESHOLD || elapsed == 0 {
            return 0;
        }
        let rate = (*count << SCALE) / elapsed;
        self.avg_dq_rate = match self.avg_dq_rate {
            0 => rate,
            average => average - (average >> 3) + (rate >> 3),
        };
        if backlog < QUEUE_THRESHOLD {
            self.dq_count = None;
        } else {
            self.dq_count = Some(0);
            self.dq_tstamp = Some(now);
        }
        elapsed
    }
}

/// By how many bits the weights shrink at a probability of `prob`: RFC 8033, section 4.2.
fn auto_tuning(prob: u64) -> u32 {
    RANGES.into_iter().find(|&(from, _)| prob >= from).map_or(11, |(_, shift)| shift)
}

/// The probabilities with the same auto-tuning as `prob`, the upper edge excluded.
fn range(prob: u64) -> (u64, u64) {
    let above = RANGES.into_iter().rfind(|&(from, _)| prob < from);
    let at = RANGES.into_iter().find(|&(from, _)| prob >= from);
    (at.map_or(0, |(from, _)| from), above.map_or(MAX_PROB, |(from, _)| from))
}

/// From which probability on the weights shrink by how many bits.
const RANGES: [(u64, u32); 6] = [
    (MAX_PROB / 10, 0),
    (MAX_PROB / 100, 1),
    (MAX_PROB / 1_000, 3),
    (MAX_PROB / 10_000, 5),
    (MAX_PROB / 100_000, 7),
    (MAX_PROB / 1_000_000, 9),
];

/// Whole ticks in `ps` picoseconds.
#[inline]
const fn ticks(ps: u64) -> Ticks {
    ps / 64_000
}

/// The probability 1.
pub(super) const MAX_PROB: u64 = u64::MAX >> 8;
const TICKS_PER_SEC: u64 = 15_625_000;
/// 150 ms (RFC 8033, `MAX_BURST`).
const BURST_TIME: Ticks = ticks(Span::from_ms(150).as_ps());
/// 250 ms.
const HIGH_DELAY: Ticks = ticks(Span::from_ms(250).as_ps());
/// Bytes that must wait for the rate to be measured, and leave for it to be known.
const QUEUE_THRESHOLD: u64 = 16_384;
/// Bits behind the point in the departure rate.
const SCALE: u32 = 8;

#[cfg(test)]
mod tests;
