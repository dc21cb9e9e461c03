//! The pace, the bursts and the window (section 5.6), acknowledgements that come in bunches (5.5.9),
//! and what happens after an idle time (5.4).

use super::{Ack, BANDWIDTH_SCALE, BANDWIDTH_UNIT, Bbr3, LEAST_QUANTUM, LEAST_WINDOW};
use super::{PROBE_RTT_GAIN, State};
use crate::congestion::moment::Moment;
use crate::congestion::path::Path;

impl Bbr3 {
    /// InitPacingRate.
    pub(super) fn set_first_rate(&mut self, path: &mut Path) {
        let rtt_us = path.srtt_us.unwrap_or(1000);
        self.has_seen_rtt |= path.srtt_us.is_some();
        let bandwidth = u64::from(self.first_window) * BANDWIDTH_UNIT / u64::from(rtt_us.max(1));
        let rate = bytes_per_second(bandwidth, self.gains().0, path.mss);
        self.pace(path, rate * 100 / (100 - MARGIN_PERCENT));
    }

    /// SetPacingRateWithGain: until the pipe has been full, the rate does not fall.
    pub(super) fn set_rate(&mut self, path: &mut Path, gain: u64) {
        if !self.has_seen_rtt && path.srtt_us.is_some() {
            self.set_first_rate(path);
        }
        let rate = bytes_per_second(self.bandwidth, gain, path.mss);
        if path.rate() != Some(rate)
            && (self.full_reached || path.rate().is_none_or(|current| rate > current))
        {
            self.pace(path, rate);
        }
    }

    /// Sets the pace, and the segments that leave in a millisecond (SetSendQuantum).
    fn pace(&mut self, path: &mut Path, rate: u64) {
        let bytes = (rate / 1000).min(LARGEST_QUANTUM);
        self.quantum = ((bytes / u64::from(path.mss.max(1))) as u32).max(LEAST_QUANTUM);
        path.set_rate(rate);
        path.set_burst(self.quantum);
    }

    /// SetCwnd.
    pub(super) fn set_window(&mut self, path: &mut Path, ack: &Ack) {
        let most = self.with_room_for_bursts(
            self.product(self.bandwidth, self.gains().1) + self.extra_acked.max() as u32,
        );
        let cwnd = path.window.cwnd;
        let grown = cwnd.saturating_add(ack.acked);
        let mut next = if self.full_reached {
            grown.min(most)
        } else if cwnd < most || path.delivered < self.first_window {
            grown
        } else {
            cwnd
        };
        next = next.max(LEAST_WINDOW);
        if self.state == State::ProbeRtt {
            next = next.min(self.probe_rtt_window());
        }
        path.window.cwnd = next.min(self.volume_cap());
    }

    /// BoundCwndForModel.
    fn volume_cap(&self) -> u32 {
        let cap = match self.state {
            State::Startup | State::Drain => u32::MAX,
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
        };
        cap.min(self.inflight_shortterm).max(LEAST_WINDOW)
    }

    /// ProbeRTTCwnd.
    pub(super) fn probe_rtt_window(&self) -> u32 {
        self.product(self.bandwidth, PROBE_RTT_GAIN).max(LEAST_WINDOW)
    }

    /// BDPMultiple: the bandwidth-delay product times `gain` per cent, in segments, rounded up. Without
    /// a round trip it is the first window.
    pub(super) fn product(&self, bandwidth: u64, gain: u64) -> u32 {
        let Some(min_rtt_us) = self.min_rtt_us else { return self.first_window };
        // In 1/65536 segments.
        let product = bandwidth.saturating_mul(min_rtt_us.into()) >> (BANDWIDTH_SCALE - 16);
        (product.saturating_mul(gain) / 100).div_ceil(1 << 16).min(MOST_SEGMENTS) as u32
    }

    /// Inflight(1.0).
    pub(super) fn inflight_for(&self, bandwidth: u64) -> u32 {
        self.with_room_for_bursts(self.product(bandwidth, 100))
    }

    /// QuantizationBudget.
    fn with_room_for_bursts(&self, segments: u32) -> u32 {
        let least = segments.max(self.quanta * self.quantum).max(LEAST_WINDOW);
        least + if self.state == State::Up { 2 } else { 0 }
    }

    /// UpdateACKAggregation.
    pub(super) fn note_aggregation(&mut self, path: &Path, ack: &Ack) {
        let us = ack.now.since(self.extra_since).as_us();
        let mut expected = self.bandwidth.saturating_mul(us) >> BANDWIDTH_SCALE;
        if u64::from(self.extra_delivered) <= expected {
            self.extra_delivered = 0;
            self.extra_since = ack.now;
            expected = 0;
        }
        self.extra_delivered = self.extra_delivered.saturating_add(ack.acked);
        let extra = u64::from(self.extra_delivered).saturating_sub(expected);
        let rounds = if self.full_reached { EXTRA_ROUNDS } else { 1 };
        self.extra_acked.note(self.round, extra.min(path.window.cwnd.into()), rounds);
    }

    /// Handles the first segment after an idle time (HandleRestartFromIdle).
    pub(crate) fn on_restart(&mut self, cx: &Moment, path: &mut Path) {
        if !path.is_app_limited() {
            return;
        }
        self.idle_restart = true;
        self.extra_since = cx.now;
        if self.is_in_probe_bw() {
            self.set_rate(path, 100);
        } else if self.state == State::ProbeRtt {
            self.leave_probe_rtt(path, cx.now);
        }
    }
}

/// Returns the pacing rate for a bandwidth and a gain in per cent: 1 % less, to keep the queue short.
pub(super) fn bytes_per_second(bandwidth: u64, gain: u64, mss: u32) -> u64 {
    let scaled = u128::from(bandwidth) * u128::from(u64::from(mss) * gain);
    ((scaled * u128::from(1_000_000 / 10_000 * (100 - MARGIN_PERCENT))) >> BANDWIDTH_SCALE) as u64
}

/// BBR.PacingMarginPercent.
const MARGIN_PERCENT: u64 = 1;
/// The longest burst in bytes.
const LARGEST_QUANTUM: u64 = 65_536;
/// BBR.ExtraAckedFilterLen.
const EXTRA_ROUNDS: u32 = 10;
/// More segments than any window has.
const MOST_SEGMENTS: u64 = 1 << 24;
