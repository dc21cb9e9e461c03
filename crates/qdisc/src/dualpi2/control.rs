//! DualPI2's controller, without the queues: the base PI of RFC 9332, figure 5.

use narrows_units::{Span, Time};

use super::Config;

/// The base probability, and what its next update needs.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// p' in the RFC.
    pub(super) probability: f64,
    /// The highest probability: 1, or that at which L marks everything.
    most: f64,
    /// The delay at the last update, in seconds (`prevq`).
    before_s: f64,
    update_at: Time,
    tupdate: Span,
    target_s: f64,
    alpha: f64,
    beta: f64,
}

/// The updates that are made one by one after a time without calls.
const MOST_STEPS: u64 = 1000;

impl Control {
    pub(super) fn new(config: &Config) -> Self {
        let coupling = f64::from(config.coupling_factor);
        Self {
            probability: 0.0,
            most: if config.drop_on_overload { 1.0 } else { 1.0 / coupling },
            before_s: 0.0,
            update_at: Time::ZERO + config.tupdate,
            tupdate: config.tupdate,
            target_s: config.target.as_secs_f64(),
            alpha: config.alpha,
            beta: config.beta,
        }
    }

    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.update_at <= now
    }

    /// Makes each update that was due by `now`. `oldest` is when the packet came that has waited
    /// longest; it must have been the same since the last call.
    #[cold]
    pub(super) fn update(&mut self, now: Time, oldest: Option<Time>) {
        let due = 1 + now.since(self.update_at).as_ps() / self.tupdate.as_ps();
        for _ in 0..due.min(MOST_STEPS) {
            self.step(1, oldest);
        }
        if due > MOST_STEPS {
            self.step(due - MOST_STEPS, oldest);
        }
    }

    /// Makes `count` updates at once: the sum of their changes, within the bounds. The delay grows
    /// evenly from one to the next.
    fn step(&mut self, count: u64, oldest: Option<Time>) {
        let last_at = self.update_at + self.tupdate * (count - 1);
        let delay_s = |at: Time| oldest.map_or(0.0, |oldest| at.since(oldest).as_secs_f64());
        let (first_s, last_s) = (delay_s(self.update_at), delay_s(last_at));
        let above_s = (first_s + last_s) / 2.0 - self.target_s;
        let change = count as f64 * self.alpha * above_s + self.beta * (last_s - self.before_s);
        self.probability = (self.probability + change).clamp(0.0, self.most);
        self.before_s = last_s;
        self.update_at = last_at + self.tupdate;
    }
}
