//! The rate of a policer: a token bucket that drops what exceeds its rate, after a burst.
//!
//! Source: the rules and constants of Linux 6.1 (`bbr_lt_bw_sampling`), which no draft describes.
//! While losses go on, BBR measures the delivery rate of intervals of 4 to 16 rounds that begin and
//! end with a loss, and in which about a fifth as many segments are lost as delivered, or more. If
//! two in a row have nearly the same rate (within 1/8, or 4 kbit/s), BBR keeps to their mean for 48
//! rounds.

use super::super::path::Path;
use super::{BANDWIDTH_UNIT, SCALE, UNIT, bytes_per_second};

#[derive(Clone, Debug, Default)]
pub(super) struct Policer {
    is_sampling: bool,
    /// Whether two intervals were alike, so that `rate` applies.
    found: bool,
    /// The rate of the last interval, or the mean of two; 0: none yet.
    rate: u64,
    /// Rounds of the current interval, or for which the rate was kept.
    rounds: u32,
    /// When the current interval began, and what had been delivered and lost by then.
    since_ms: u32,
    delivered: u32,
    lost: u32,
}

impl Policer {
    /// Returns whether there is a policer.
    pub(super) fn is_found(&self) -> bool {
        self.found
    }

    /// Returns the rate, if there is a policer.
    pub(super) fn rate(&self) -> Option<u64> {
        self.found.then_some(self.rate)
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self, path: &Path, now_us: u32) {
        *self = Self::default();
        self.begin_interval(path, now_us);
    }

    fn begin_interval(&mut self, path: &Path, now_us: u32) {
        self.since_ms = now_us / 1000;
        self.delivered = path.delivered;
        self.lost = path.lost;
        self.rounds = 0;
    }

    /// Takes an acknowledgement with `lost` losses. Returns whether PROBE_BW has to begin anew,
    /// because the rate was kept long enough.
    pub(super) fn note(
        &mut self,
        path: &Path,
        round_start: bool,
        lost: u32,
        now_us: u32,
        in_probe_bw: bool,
    ) -> bool {
        if self.found {
            self.rounds += u32::from(in_probe_bw && round_start);
            let ends = in_probe_bw && round_start && self.rounds >= KEPT_ROUNDS;
            if ends {
                self.reset(path, now_us);
            }
            return ends;
        }
        if !self.is_sampling {
            if lost == 0 {
                return false;
            }
            self.begin_interval(path, now_us);
            self.is_sampling = true;
        }
        if path.is_app_limited() {
            self.reset(path, now_us);
            return false;
        }
        self.rounds += u32::from(round_start);
        if self.rounds < LEAST_ROUNDS {
            return false;
        }
        if self.rounds > MOST_ROUNDS {
            self.reset(path, now_us);
            return false;
        }
        if lost > 0 {
            self.end_interval(path, now_us);
        }
        false
    }

    /// Ends an interval, if enough of it was lost.
    fn end_interval(&mut self, path: &Path, now_us: u32) {
        let lost = path.lost.wrapping_sub(self.lost);
        let delivered = path.delivered.wrapping_sub(self.delivered);
        if delivered == 0 || u64::from(lost) << SCALE < LOSS * u64::from(delivered) {
            return;
        }
        let ms = (now_us / 1000).wrapping_sub(self.since_ms);
        if ms == 0 || ms > i32::MAX as u32 {
            return;
        }
        let rate = u64::from(delivered) * BANDWIDTH_UNIT / (u64::from(ms) * 1000);
        let difference = rate.abs_diff(self.rate);
        let is_alike = difference * UNIT <= ALIKE * self.rate
            || bytes_per_second(difference, UNIT, path.mss) <= ALIKE_BYTES;
        if self.rate > 0 && is_alike {
            self.rate = u64::midpoint(self.rate, rate);
            self.found = true;
            self.rounds = 0;
        } else {
            self.rate = rate;
            self.begin_interval(path, now_us);
        }
    }
}

const LEAST_ROUNDS: u32 = 4;
const MOST_ROUNDS: u32 = 4 * LEAST_ROUNDS;
const KEPT_ROUNDS: u32 = 48;
/// 20 % in 1/256: the least share of losses in an interval.
const LOSS: u64 = 50;
/// 1/8 in 1/256: how far two rates may be apart.
const ALIKE: u64 = UNIT / 8;
/// 4 kbit/s.
const ALIKE_BYTES: u64 = 500;
