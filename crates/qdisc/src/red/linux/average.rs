//! The average queue, the marking probability, and the decision about a packet.
//!
//! Source: Linux 6.1, `include/net/red.h`. Functions have the names that they have there.

use narrows_units::{Span, Time};
use rand_core::Rng;
use rand_pcg::Pcg32;

use super::Config;
use super::tc::Derived;

/// RED's decision about a packet: the enumeration at `red_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// `RED_DONT_MARK`
    Pass,
    /// `RED_PROB_MARK`
    Prob,
    /// `RED_HARD_MARK`
    Hard,
}

/// `struct red_parms`
#[derive(Clone, Debug)]
pub(super) struct Parms {
    /// Shifted left by `wlog`, as `qth_max` and [`Vars::qavg`] are.
    qth_min: u64,
    qth_max: u64,
    pub(super) wlog: u8,
    scell_log: u8,
    /// The longest idle time in the table, in microseconds.
    scell_max: u32,
    /// A 32-bit fraction.
    pub(super) max_p: u32,
    /// The divisor of a random number; the kernel keeps its reciprocal.
    pub(super) max_p_delta: u32,
    qth_delta: u32,
    pub(super) target_min: u64,
    target_max: u64,
    stab: [u8; 256],
}

impl Parms {
    /// `red_set_parms`
    pub(super) fn new(config: &Config, derived: &Derived) -> Self {
        // The check admits only what fits in 32 bits.
        let [qth_min, qth_max] = [config.lower(), config.upper()].map(|bytes| bytes.get() as u32);
        let delta = qth_max - qth_min;
        let max_p = match derived.max_p {
            0 => (u32::MAX >> derived.plog).wrapping_mul(delta),
            max_p => max_p,
        };
        Self {
            qth_min: u64::from(qth_min) << derived.wlog,
            qth_max: u64::from(qth_max) << derived.wlog,
            wlog: derived.wlog,
            scell_log: derived.scell_log,
            scell_max: 255u32 << derived.scell_log,
            max_p,
            max_p_delta: (max_p / delta).max(1),
            qth_delta: delta,
            target_min: u64::from(qth_min + 2 * (delta / 5)),
            target_max: u64::from(qth_min + 3 * (delta / 5)),
            stab: derived.stab,
        }
    }

    /// `red_calc_qavg`
    #[inline]
    pub(super) fn calc_qavg(&self, vars: &Vars, backlog: u64, now: Time) -> u64 {
        match vars.qidlestart {
            None => self.calc_qavg_no_idle_time(vars.qavg, backlog),
            Some(since) => self.calc_qavg_from_idle_time(vars.qavg, now.since(since)),
        }
    }

    /// `red_calc_qavg_no_idle_time`
    #[inline]
    pub(super) fn calc_qavg_no_idle_time(&self, qavg: u64, backlog: u64) -> u64 {
        qavg + backlog - (qavg >> self.wlog)
    }

    /// `red_calc_qavg_from_idle_time`
    pub(super) fn calc_qavg_from_idle_time(&self, qavg: u64, idle: Span) -> u64 {
        let us_idle = idle.as_us().min(u64::from(self.scell_max));
        let cell = (us_idle >> self.scell_log) & 255;
        match self.stab[cell as usize] {
            // The first cells are too coarse, so the decay is linear there, down to a half.
            0 => {
                let loss = qavg.wrapping_mul(us_idle) >> self.scell_log;
                if loss < qavg >> 1 { qavg - loss } else { qavg >> 1 }
            }
            shift => qavg >> shift,
        }
    }

    /// `red_random`
    #[inline]
    fn random(&self, random: &mut Pcg32) -> u32 {
        random.next_u32() / self.max_p_delta
    }

    /// `red_adaptative_algo`; returns the average in bytes that it saw.
    pub(super) fn adaptative_algo(&mut self, vars: &Vars, now: Time) -> u64 {
        let qavg = match vars.qidlestart {
            None => vars.qavg,
            Some(since) => self.calc_qavg_from_idle_time(vars.qavg, now.since(since)),
        };
        let qavg = qavg >> self.wlog;
        if qavg > self.target_max && self.max_p <= MAX_P_MAX {
            self.max_p += MAX_P_MIN.min(self.max_p / 4);
        } else if qavg < self.target_min && self.max_p >= MAX_P_MIN {
            self.max_p = self.max_p / 10 * 9;
        }
        let rounded =
            (u64::from(self.max_p) + u64::from(self.qth_delta) / 2) / u64::from(self.qth_delta);
        self.max_p_delta = (rounded as u32).max(1);
        qavg
    }
}

/// `struct red_vars`
#[derive(Clone, Debug)]
pub(super) struct Vars {
    /// Packets since the last random number was drawn; -1 outside the thresholds.
    pub(super) qcount: i32,
    /// That random number.
    pub(super) qr: u32,
    /// The average queue, shifted left by [`Parms::wlog`].
    pub(super) qavg: u64,
    /// When the queue was last found empty; `None` since the next arrival.
    pub(super) qidlestart: Option<Time>,
}

impl Vars {
    /// `red_action`
    #[inline]
    pub(super) fn action(&mut self, parms: &Parms, random: &mut Pcg32) -> Action {
        if self.qavg < parms.qth_min {
            self.qcount = -1;
            Action::Pass
        } else if self.qavg >= parms.qth_max {
            self.qcount = -1;
            Action::Hard
        } else {
            self.qcount += 1;
            if self.qcount == 0 {
                self.qr = parms.random(random);
                Action::Pass
            } else if self.mark_probability(parms) {
                self.qcount = 0;
                self.qr = parms.random(random);
                Action::Prob
            } else {
                Action::Pass
            }
        }
    }

    /// `red_mark_probability`: returns whether (average - min) * qcount has reached the random
    /// number. Marks are then evenly spread over 1 to 1/p packets, where p is max_P * (average -
    /// min) / (max - min).
    #[inline]
    fn mark_probability(&self, parms: &Parms) -> bool {
        ((self.qavg - parms.qth_min) >> parms.wlog) * self.qcount as u64 >= u64::from(self.qr)
    }
}

/// One percent, as a 32-bit fraction.
const MAX_P_MIN: u32 = 42_949_673;
/// Fifty percent.
const MAX_P_MAX: u32 = 50 * MAX_P_MIN;
