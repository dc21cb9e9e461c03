//! The rate of a policer: a token bucket that drops what exceeds its rate, after a burst.
//!
//! Source: the rules and constants of Linux 6.1 (`bbr_lt_bw_sampling`), which no draft describes.
//! While losses go on, BBR measures the delivery rate of intervals of 4 to 16 rounds that begin and
//! end with a loss, and in which about a fifth as many segments are lost as delivered, or more. If
//! two in a row have nearly the same rate (within 1/8, or 4 kbit/s), BBR keeps to their mean for 48
//! rounds.

use super::super::path::Path;
use super::{BANDWIDTH_UNIT, SCALE, UNIT, bytes_per_second};

/// What is known of a policer.
#[derive(Clone, Debug, Default)]
pub(super) enum Policer {
    /// Nothing was lost so far.
    #[default]
    Unsuspected,
    /// An interval is measured.
    Suspected(Interval),
    /// BBR keeps to `rate`, and has done so for `rounds` rounds of PROBE_BW.
    Found { rate: u64, rounds: u32 },
}

/// An interval that began with a loss.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    /// When it began, and what had been delivered and lost by then.
    since_ms: u32,
    delivered: u32,
    lost: u32,
    rounds: u32,
    /// The rate of the interval before it.
    before: Option<u64>,
}

impl Policer {
    /// Returns whether there is a policer.
    pub(super) fn is_found(&self) -> bool {
        self.rate().is_some()
    }

    /// Returns the rate, if there is a policer.
    pub(super) fn rate(&self) -> Option<u64> {
        match self {
            Self::Found { rate, .. } => Some(*rate),
            Self::Unsuspected | Self::Suspected(_) => None,
        }
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
        if let Self::Found { rounds, .. } = self {
            *rounds += u32::from(in_probe_bw && round_start);
            let is_over = *rounds >= KEPT_ROUNDS;
            if is_over {
                *self = Self::Unsuspected;
            }
            return is_over;
        }
        if matches!(self, Self::Unsuspected) && lost > 0 {
            *self = Self::Suspected(Interval::new(path, now_us, None));
        }
        let Self::Suspected(interval) = self else { return false };
        interval.rounds += u32::from(round_start);
        if path.is_app_limited() || interval.rounds > MOST_ROUNDS {
            *self = Self::Unsuspected;
        } else if lost > 0
            && interval.rounds >= LEAST_ROUNDS
            && let Some(rate) = interval.rate(path, now_us)
        {
            *self = match interval.before.filter(|&before| is_alike(before, rate, path.mss)) {
                Some(before) => Self::Found { rate: u64::midpoint(before, rate), rounds: 0 },
                None => Self::Suspected(Interval::new(path, now_us, Some(rate))),
            };
        }
        false
    }
}

impl Interval {
    fn new(path: &Path, now_us: u32, before: Option<u64>) -> Self {
        let (delivered, lost) = (path.delivered, path.lost);
        Self { since_ms: now_us / 1000, delivered, lost, rounds: 0, before }
    }

    /// Returns the rate of the interval, if it may end here: enough of it was lost.
    fn rate(&self, path: &Path, now_us: u32) -> Option<u64> {
        let delivered = path.delivered.wrapping_sub(self.delivered);
        let lost = path.lost.wrapping_sub(self.lost);
        let ms = (now_us / 1000).wrapping_sub(self.since_ms);
        let counts = delivered > 0
            && u64::from(lost) << SCALE >= LOSS * u64::from(delivered)
            && (1..=i32::MAX as u32).contains(&ms);
        counts.then(|| u64::from(delivered) * BANDWIDTH_UNIT / (u64::from(ms) * 1000))
    }
}

/// Returns whether two rates differ by no more than an eighth of the first, or 4 kbit/s.
fn is_alike(before: u64, rate: u64, mss: u32) -> bool {
    let difference = rate.abs_diff(before);
    difference * UNIT <= ALIKE * before || bytes_per_second(difference, UNIT, mss) <= ALIKE_BYTES
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::State;
    use crate::congestion::Window;
    use crate::congestion::pace::Pace;

    /// A connection whose rounds take 10 ms each.
    struct Line {
        policer: Policer,
        window: Window,
        pace: Pace,
        rounds: u32,
        delivered: u32,
        lost: u32,
    }

    impl Line {
        fn new() -> Self {
            Self {
                policer: Policer::default(),
                window: Window { cwnd: 100, ssthresh: u32::MAX, count: 0 },
                pace: Pace::new(true),
                rounds: 0,
                delivered: 0,
                lost: 0,
            }
        }

        /// One more round. Returns whether PROBE_BW has to begin anew.
        fn round(&mut self, delivered: u32, lost: u32, in_probe_bw: bool) -> bool {
            self.rounds += 1;
            self.delivered += delivered;
            self.lost += lost;
            let path = Path {
                window: &mut self.window,
                pace: &mut self.pace,
                delivered: self.delivered,
                lost: self.lost,
                in_flight: delivered,
                mss: 1448,
                srtt_us: Some(10_000),
                shortest_us: Some(10_000),
                recovery: State::Recovery,
                is_cwnd_limited: false,
                has_selective_acks: true,
                ack_is_delayed: false,
            };
            self.policer.note(&path, true, lost, 10_000 * self.rounds, in_probe_bw)
        }
    }

    /// The first interval begins with the first loss, and ends with the fourth round. The next four
    /// rounds have the same rate, of 100 segments in 10 ms. It is kept for 48 rounds of PROBE_BW.
    #[test]
    fn two_intervals_with_the_same_rate_show_a_policer() {
        let mut line = Line::new();
        line.round(100, 0, true);
        for _ in 0..7 {
            assert!(!line.round(100, 25, true) && !line.policer.is_found());
        }
        line.round(100, 25, true);
        assert_eq!(line.policer.rate(), Some(BANDWIDTH_UNIT / 100));
        for _ in 0..100 {
            assert!(!line.round(100, 0, false), "only PROBE_BW counts");
        }
        for _ in 1..KEPT_ROUNDS {
            assert!(!line.round(100, 0, true) && line.policer.is_found());
        }
        assert!(line.round(100, 0, true) && !line.policer.is_found());
    }

    /// Intervals with few losses or with different rates show no policer, nor do those in which the
    /// application limits the sender.
    #[test]
    fn other_losses_show_no_policer() {
        let mut few = Line::new();
        let mut changing = Line::new();
        let mut limited = Line::new();
        for round in 0..100 {
            few.round(100, 10, true);
            changing.round(if round / 4 % 2 == 0 { 100 } else { 50 }, 25, true);
            if let Some(rates) = &mut limited.pace.rates {
                rates.limit_by_application(limited.delivered, 1000);
            }
            limited.round(100, 25, true);
            for line in [&few, &changing, &limited] {
                assert!(!line.policer.is_found(), "{round}");
            }
        }
    }
}
