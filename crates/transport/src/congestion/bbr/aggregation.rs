//! Acknowledgements that come in bunches: how many segments they report beyond what the bandwidth
//! explains.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-01, 4.5 (BBRUpdateACKAggregation), with the
//! constants of Linux 6.1 (`bbr_update_ack_aggregation`).

use super::super::moment::elapsed_us;
use super::super::sample::RateSample;
use super::{BANDWIDTH_SCALE, BANDWIDTH_UNIT};

/// The state of the estimate.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    /// When the interval began, and the segments acknowledged since then.
    since_us: u32,
    acked: u32,
    /// The most extra segments of this window of rounds and of the one before.
    extra: [u32; 2],
    /// The rounds of this window, and its place in `extra`.
    rounds: u8,
    current: usize,
}

impl Aggregation {
    /// Begins an interval at `us`.
    pub(super) fn restart(&mut self, us: u32) {
        self.since_us = us;
        self.acked = 0;
    }

    /// Takes an acknowledgement. `cwnd`: the most that counts.
    pub(super) fn note(
        &mut self,
        round_start: bool,
        sample: &RateSample,
        bandwidth: u64,
        cwnd: u32,
    ) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.current ^= 1;
                self.extra[self.current] = 0;
            }
        }
        let epoch_us = u64::from(elapsed_us(sample.delivered_us, self.since_us));
        let mut expected = (bandwidth * epoch_us) >> BANDWIDTH_SCALE;
        if u64::from(self.acked) <= expected || self.acked + sample.acked >= RESET {
            self.restart(sample.delivered_us);
            expected = 0;
        }
        self.acked = (self.acked + sample.acked).min(RESET - 1);
        let extra = u64::from(self.acked).saturating_sub(expected).min(cwnd.into()) as u32;
        let most = &mut self.extra[self.current];
        *most = extra.max(*most);
    }

    /// Returns the segments to add to the window, at most what the path carries in 100 ms.
    pub(super) fn extra(&self, bandwidth: u64) -> u32 {
        let most = bandwidth * LONGEST_US / BANDWIDTH_UNIT;
        u64::from(self.extra[0].max(self.extra[1])).min(most) as u32
    }
}

/// The rounds of a window.
const WINDOW_ROUNDS: u8 = 5;
/// An interval that has acknowledged so many segments begins anew.
const RESET: u32 = 1 << 20;
/// 100 ms: how much of the bandwidth `extra` may be.
const LONGEST_US: u64 = 100_000;
