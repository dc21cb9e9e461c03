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
pub(crate) struct Params {
    target: Ticks,
    tupdate: Span,
    /// The probability (in units of [`MAX_PROB`]) added at each update for each tick of delay above
    /// the target.
    alpha: u64,
    /// The same for each tick by which the delay has grown.
    beta: u64,
    bytemode: bool,
    dq_rate_estimator: bool,
    mtu: u64,
}

/// The controller's variables, and the time of their next update.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub(crate) vars: Vars,
    update_at: Time,
}

/// `struct pie_vars`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vars {
    qdelay: Ticks,
    qdelay_old: Ticks,
    /// The rest of the burst allowance.
    burst_time: Ticks,
    /// The time of the last departure; with the estimator, the start of the measurement.
    dq_tstamp: Option<Ticks>,
    /// The drop probability, in units of [`MAX_PROB`]; up to 256 of them.
    pub(crate) prob: u64,
    /// The sum of probabilities since the last drop.
    pub(crate) accu_prob: u64,
    /// The bytes that have left during this measurement; `None`: there is none.
    dq_count: Option<u64>,
    /// The departure rate in 256ths of a byte per tick; zero: unknown.
    avg_dq_rate: u64,
}

/// The most steps in which a long time without packets is caught up with. This is a millisecond of
/// work, and 25 minutes of updates at the usual interval even if none of them could be combined.
const MOST_STEPS: u32 = 100_000;

/// Time in `psched` ticks of 64 ns.
type Ticks = u64;

impl Params {
    /// `more`: how much longer than in PIE the timer takes.
    pub(crate) fn new(config: &Config, more: Span) -> Self {
        // Linux scales at each update; the shift right by 4 turns the factor into sixteenths.
        let scaled = |factor: u32| (u64::from(factor) * (MAX_PROB / TICKS_PER_SEC)) >> 4;
        Self {
            target: ticks(config.target.as_ps()),
            tupdate: config.on_timer(config.tupdate) + more,
            alpha: scaled(config.alpha),
            beta: scaled(config.beta),
            bytemode: config.bytemode,
            dq_rate_estimator: config.dq_rate_estimator,
            mtu: config.mtu.get(),
        }
    }
}

impl Control {
    pub(crate) fn new(params: &Params) -> Self {
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
        Self { vars, update_at: Time::ZERO + params.tupdate }
    }

    /// Runs the timer for each time that it was due by `now`. `backlog` must have been the same
    /// since the last call.
    #[inline]
    pub(crate) fn catch_up(&mut self, now: Time, params: &Params, backlog: u64) {
        if self.update_at <= now {
            let due = 1 + now.since(self.update_at).as_ps() / params.tupdate.as_ps();
            self.vars.update_times(due, params, backlog);
            self.update_at += params.tupdate * due;
        }
    }
}

impl Vars {
    /// Runs [`Vars::calculate_probability`] `due` times, in few steps however many are due.
    ///
    /// Once the delay is constant, one of three things happens. The probability moves by equal
    /// steps within each range of the auto-tuning, of which there are seven. Or it shrinks by 1/64
    /// each time, which ends at zero after about 2,500 steps. Or nothing changes any more. There is
    /// one exception: with a delay above 250 ms and below the target, the probability swings about
    /// an edge between two ranges forever. After `MOST_STEPS` of that, the remaining updates would
    /// only change its position in the swing, so they are skipped.
    #[cold]
    pub(crate) fn update_times(&mut self, mut due: u64, params: &Params, backlog: u64) {
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
    pub(crate) fn calculate_probability(&mut self, params: &Params, backlog: u64) {
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
        // RFC 8033, 5.5: at most 2 % at a time if the probability is 10 % or more.
        if delta > (MAX_PROB / 50) as i64 && self.prob >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100) as i64 * 2;
        }
        // RFC 8033, 5.5: 2 % more above 250 ms.
        if qdelay > HIGH_DELAY {
            delta = delta.saturating_add((MAX_PROB / 50) as i64);
        }
        // Linux looks for an overflow of 64 bits, although a probability of 1 has 56.
        self.prob = if delta > 0 {
            self.prob.checked_add_signed(delta).unwrap_or(MAX_PROB)
        } else {
            self.prob.saturating_add_signed(delta)
        };
        // RFC 8033, 4.2: decay while idle. A delay of zero with a backlog is not idle time.
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

    /// `pie_drop_early`; RFC 8033, sections 4.1, 5.1 and 5.4. `backlog` excludes the packet.
    #[inline]
    pub(crate) fn drop_early(
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
            // Marks may sum up to 256 times the probability of 1; then the sum wraps, as in the
            // kernel.
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

    /// `pie_process_dequeue`. `backlog` is what the packet leaves behind.
    #[inline]
    pub(crate) fn process_dequeue(
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

    /// Estimates the departure rate over each 16 KB while the queue is at least that long (RFC
    /// 8033, section 4.3). Returns how long the measurement that ends now took, or zero.
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

/// Returns by how many bits the weights shrink at a probability of `prob`: RFC 8033, section 4.2.
fn auto_tuning(prob: u64) -> u32 {
    RANGES.into_iter().find(|&(from, _)| prob >= from).map_or(11, |(_, shift)| shift)
}

/// Returns the probabilities with the same auto-tuning as `prob`, without the upper edge.
fn range(prob: u64) -> (u64, u64) {
    let above = RANGES.into_iter().rfind(|&(from, _)| prob < from);
    let at = RANGES.into_iter().find(|&(from, _)| prob >= from);
    (at.map_or(0, |(from, _)| from), above.map_or(u64::MAX, |(from, _)| from))
}

/// The probabilities from which the weights shrink, and by how many bits.
const RANGES: [(u64, u32); 6] = [
    (MAX_PROB / 10, 0),
    (MAX_PROB / 100, 1),
    (MAX_PROB / 1_000, 3),
    (MAX_PROB / 10_000, 5),
    (MAX_PROB / 100_000, 7),
    (MAX_PROB / 1_000_000, 9),
];

/// Returns the whole ticks in `ps` picoseconds.
#[inline]
const fn ticks(ps: u64) -> Ticks {
    ps / 64_000
}

/// The probability 1.
pub(crate) const MAX_PROB: u64 = u64::MAX >> 8;
const TICKS_PER_SEC: u64 = 15_625_000;
/// 150 ms (RFC 8033, `MAX_BURST`).
const BURST_TIME: Ticks = ticks(Span::from_ms(150).as_ps());
/// 250 ms.
const HIGH_DELAY: Ticks = ticks(Span::from_ms(250).as_ps());
/// The bytes that must wait for a measurement to start, and that must leave for it to end.
const QUEUE_THRESHOLD: u64 = 16_384;
/// The fractional bits of the departure rate.
const SCALE: u32 = 8;

#[cfg(test)]
mod tests;
