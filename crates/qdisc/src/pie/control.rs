//! PIE's controller, without the queue.
//!
//! Written from RFC 8033, sections 4 and 5, with its variables. The differences, which are Linux's,
//! are listed at [`super`].

use narrows_units::{Span, Time};
use rand_core::Rng;
use rand_pcg::Pcg32;

use super::Config;

/// The settings, in the controller's units.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    target: Ticks,
    tupdate: Span,
    /// The probability (in units of 1/[`CERTAIN`]) added at each update for each tick of delay
    /// above the target.
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

/// What the controller remembers (RFC 8033, appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vars {
    /// The delay now, and at the last update.
    qdelay: Ticks,
    qdelay_old: Ticks,
    burst_allowance: Ticks,
    /// The drop probability, in units of 1/[`CERTAIN`]. It can be nearly 256.
    pub(crate) drop_prob: u64,
    /// The sum of probabilities since the last drop.
    pub(crate) accu_prob: u64,
    departures: Departures,
}

/// What departures tell. With the estimator, they are measured in cycles (RFC 8033, 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Departures {
    /// The time of the last departure; with the estimator, the start of the cycle.
    since: Option<Ticks>,
    /// The bytes that have left during this cycle; `None`: there is none.
    count: Option<u64>,
    /// The departure rate in 256ths of a byte per tick; zero: unknown.
    average_rate: u64,
}

/// The most steps in which a long time without packets is caught up with. This is a millisecond of
/// work, and 25 minutes of updates at the usual interval even if none of them could be combined.
const MOST_STEPS: u32 = 100_000;

/// Time in Linux's ticks of queues, 64 ns.
type Ticks = u64;

impl Params {
    /// `more`: how much longer than in PIE the timer takes.
    pub(crate) fn new(config: &Config, more: Span) -> Self {
        let scaled = |sixteenths: u32| u64::from(sixteenths) * (CERTAIN / TICKS_PER_SEC) / 16;
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
            burst_allowance: MAX_BURST,
            drop_prob: 0,
            accu_prob: 0,
            departures: Departures::default(),
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
    /// Runs [`Vars::update`] `due` times, in few steps however many are due.
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
            self.update(params, backlog);
            due -= 1;
            if *self == before {
                return;
            }
            let still = Self { drop_prob: before.drop_prob, ..*self } == before;
            let (low, high) = range(self.drop_prob);
            let linear = self.qdelay != 0 || backlog != 0;
            if still && linear && (low..high).contains(&before.drop_prob) {
                let (step, room) = if self.drop_prob > before.drop_prob {
                    (self.drop_prob - before.drop_prob, high - self.drop_prob)
                } else {
                    (before.drop_prob - self.drop_prob, self.drop_prob - low)
                };
                // Each of these steps starts within the range, and none ends beyond its edge.
                let steps = due.min(room / step);
                if self.drop_prob > before.drop_prob {
                    self.drop_prob += steps * step;
                } else {
                    self.drop_prob -= steps * step;
                }
                due -= steps;
            }
        }
    }

    /// One update of the probability (RFC 8033, 4.2).
    pub(crate) fn update(&mut self, params: &Params, backlog: u64) {
        if params.dq_rate_estimator {
            let delay = (backlog << RATE_BITS).checked_div(self.departures.average_rate);
            self.qdelay_old = core::mem::replace(&mut self.qdelay, delay.unwrap_or(0));
        }
        let adjustment = self.adjustment(params);
        // Linux looks for an overflow of 64 bits, although a probability of 1 has 56.
        self.drop_prob = if adjustment > 0 {
            self.drop_prob.checked_add_signed(adjustment).unwrap_or(CERTAIN)
        } else {
            self.drop_prob.saturating_add_signed(adjustment)
        };
        // A delay of zero with a backlog is no idle time.
        if self.qdelay | self.qdelay_old | backlog == 0 {
            self.drop_prob -= self.drop_prob / 64;
        }
        let measured = !params.dq_rate_estimator || self.departures.average_rate > 0;
        if self.drop_prob == 0 && measured && self.qdelay.max(self.qdelay_old) < params.target / 2 {
            // The congestion is over: the next burst is allowed again (5.2).
            self.burst_allowance = MAX_BURST;
            self.accu_prob = 0;
            self.departures = Departures::default();
        }
        if !params.dq_rate_estimator {
            self.qdelay_old = self.qdelay;
        }
    }

    /// Returns by how much the delays move the probability (4.2), with the bounds of 5.5.
    fn adjustment(&self, params: &Params) -> i64 {
        let shift = auto_tuning(self.drop_prob);
        // Ticks of any time fit 63 bits.
        let weighted = |weight: u64, delay: Ticks, wanted: Ticks| {
            ((weight >> shift) as i64).saturating_mul(delay as i64 - wanted as i64)
        };
        let distance = weighted(params.alpha, self.qdelay, params.target);
        let trend = weighted(params.beta, self.qdelay, self.qdelay_old);
        let mut adjustment = distance.saturating_add(trend);
        if self.drop_prob >= CERTAIN / 10 && adjustment > (CERTAIN / 50) as i64 {
            // Two whole hundredths. 1/50 is not exactly as much.
            adjustment = (CERTAIN / 100) as i64 * 2;
        }
        if self.qdelay > HIGH_DELAY {
            adjustment = adjustment.saturating_add((CERTAIN / 50) as i64);
        }
        adjustment
    }

    /// Returns whether an arriving packet is to be dropped or marked (4.1, 5.1, 5.4). `backlog`
    /// excludes it.
    #[inline]
    pub(crate) fn hits(
        &mut self,
        params: &Params,
        backlog: u64,
        bytes: u32,
        random: &mut Pcg32,
    ) -> bool {
        if self.burst_allowance > 0 || self.is_harmless(params, backlog) {
            return false;
        }
        let prob = self.prob_of(params, bytes.into());
        // Marks may sum up to 256 times the probability of 1; then the sum wraps, as Linux's does.
        self.accu_prob = if prob == 0 { 0 } else { self.accu_prob.wrapping_add(prob) };
        if (LEAST_SUM..MOST_SUM).contains(&self.accu_prob) {
            let hit = random.next_u64() >> 8 < prob;
            if hit {
                self.accu_prob = 0;
            }
            hit
        } else {
            self.accu_prob >= MOST_SUM
        }
    }

    /// The safeguards of 4.1: the delay is low, or too little waits.
    #[inline]
    fn is_harmless(&self, params: &Params, backlog: u64) -> bool {
        let low = self.qdelay < params.target / 2 && self.drop_prob < CERTAIN / 5;
        low || backlog < params.mtu.saturating_mul(2)
    }

    /// Returns the probability for a packet of `bytes`.
    #[inline]
    fn prob_of(&self, params: &Params, bytes: u64) -> u64 {
        if params.bytemode && bytes <= params.mtu {
            self.drop_prob / params.mtu * bytes
        } else {
            self.drop_prob
        }
    }

    /// Takes a departure into account. `backlog` is what the packet leaves behind.
    #[inline]
    pub(crate) fn on_departure(
        &mut self,
        params: &Params,
        now: Time,
        arrived_at: Time,
        bytes: u32,
        backlog: u64,
    ) {
        let now = ticks(now.as_ps());
        let elapsed = if params.dq_rate_estimator {
            self.departures.measure(now, bytes, backlog)
        } else {
            self.qdelay = if backlog == 0 { 0 } else { now - ticks(arrived_at.as_ps()) };
            self.departures.since.replace(now).map_or(0, |before| now - before)
        };
        self.burst_allowance = self.burst_allowance.saturating_sub(elapsed);
    }
}

impl Departures {
    /// Measures the departure rate in cycles of [`DQ_THRESHOLD`] bytes, while as much waits (RFC
    /// 8033, 4.3). Returns how long the cycle that ends now took, or zero.
    fn measure(&mut self, now: Ticks, bytes: u32, backlog: u64) -> Ticks {
        let long = backlog >= DQ_THRESHOLD;
        if long && self.count.is_none() {
            (self.count, self.since) = (Some(0), Some(now));
        }
        let (Some(count), Some(since)) = (&mut self.count, self.since) else { return 0 };
        *count += u64::from(bytes);
        let elapsed = now - since;
        if *count < DQ_THRESHOLD || elapsed == 0 {
            return 0;
        }
        let rate = (*count << RATE_BITS) / elapsed;
        let average = self.average_rate;
        self.average_rate = if average == 0 { rate } else { average - average / 8 + rate / 8 };
        self.count = long.then_some(0);
        if long {
            self.since = Some(now);
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
    (CERTAIN / 10, 0),
    (CERTAIN / 100, 1),
    (CERTAIN / 1_000, 3),
    (CERTAIN / 10_000, 5),
    (CERTAIN / 100_000, 7),
    (CERTAIN / 1_000_000, 9),
];

/// Returns the whole ticks in `ps` picoseconds.
#[inline]
const fn ticks(ps: u64) -> Ticks {
    ps / 64_000
}

/// The probability 1: the largest number of 56 bits.
pub(crate) const CERTAIN: u64 = (1 << 56) - 1;
/// Below this sum of probabilities, a packet is never dropped: 0.85 (RFC 8033, 5.4).
const LEAST_SUM: u64 = CERTAIN / 100 * 85;
/// From this sum on, it always is: 8.5.
const MOST_SUM: u64 = CERTAIN / 2 * 17;
const TICKS_PER_SEC: u64 = 15_625_000;
/// The burst allowance at first: 150 ms.
const MAX_BURST: Ticks = ticks(Span::from_ms(150).as_ps());
/// Above this delay, the probability rises faster: 250 ms (5.5).
const HIGH_DELAY: Ticks = ticks(Span::from_ms(250).as_ps());
/// The bytes that must wait for a cycle to start, and that must leave for it to end.
const DQ_THRESHOLD: u64 = 16_384;
/// The fractional bits of the departure rate.
const RATE_BITS: u32 = 8;

#[cfg(test)]
mod tests;
