//! What losses change (sections 5.5.10 and 5.5.11), and what an undo restores.

use super::{Ack, Bbr3, State};
use crate::congestion::moment::Moment;
use crate::congestion::path::Path;
use crate::congestion::sample::{Lost, SentState};
use crate::congestion::state::State as Recovery;

/// What was true before the losses of a round (section 2.15).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// BBR.undo_state.
    pub state: Option<State>,
    /// The round in which this was saved; `None`: nothing is saved.
    round: Option<u32>,
    bandwidth_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

impl SentState {
    /// IsInflightTooHigh: more than 2 % of what was in flight is lost; without SACK, anything.
    pub(super) fn loses_too_much(&self, has_selective_acks: bool) -> bool {
        u64::from(self.lost) * 100 > u64::from(self.in_flight) * LOSS_PERCENT
            || (self.lost > 0 && !has_selective_acks)
    }

    /// InflightAtLoss, for a packet of one segment: what was in flight when losses exceeded 2 %.
    fn inflight_at_loss(&self) -> u32 {
        let (in_flight, lost) = (self.in_flight.saturating_sub(1), self.lost.saturating_sub(1));
        let allowed = u64::from(in_flight) * LOSS_PERCENT;
        in_flight + (allowed.saturating_sub(u64::from(lost) * 100) / (100 - LOSS_PERCENT)) as u32
    }
}

impl Bbr3 {
    /// ResetCongestionSignals.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.bandwidth_latest, self.inflight_latest) = (0, 0);
    }

    /// ResetShortTermModel.
    pub(super) fn reset_shortterm(&mut self) {
        (self.bandwidth_shortterm, self.inflight_shortterm) = (u64::MAX, u32::MAX);
    }

    /// UpdateLatestDeliverySignals.
    pub(super) fn update_latest(&mut self, path: &Path, ack: &Ack) {
        self.bandwidth_latest = self.bandwidth_latest.max(ack.bandwidth);
        self.inflight_latest = self.inflight_latest.max(ack.newest.delivered);
        self.loss_round_start =
            ack.newest.prior_delivered.wrapping_sub(self.loss_round_delivered) as i32 >= 0;
        if self.loss_round_start {
            self.loss_round_delivered = path.delivered;
        }
    }

    /// UpdateCongestionSignals, AdaptLowerBoundsFromCongestion. Returns whether a round with losses has
    /// just ended.
    pub(super) fn adapt_to_losses(&mut self, path: &Path) -> bool {
        if !self.loss_round_start || !core::mem::take(&mut self.is_loss_in_round) {
            return false;
        }
        if !matches!(self.state, State::Startup | State::Refill | State::Up) {
            if self.bandwidth_shortterm == u64::MAX {
                self.bandwidth_shortterm = self.max_bandwidth();
            }
            if self.inflight_shortterm == u32::MAX {
                self.inflight_shortterm = path.window.cwnd;
            }
            let bandwidth = self.bandwidth_shortterm / 10 * BETA_TENTHS;
            self.bandwidth_shortterm = self.bandwidth_latest.max(bandwidth);
            self.inflight_shortterm = self.inflight_latest.max(beta(self.inflight_shortterm));
        }
        true
    }

    /// NoteLoss.
    fn note_loss(&mut self, path: &Path) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = path.delivered;
            self.save_state(path.window.cwnd);
        }
        self.is_loss_in_round = true;
    }

    /// HandleLostPacket.
    pub(crate) fn on_lost(&mut self, cx: &Moment, path: &Path, lost: &Lost) {
        self.note_loss(path);
        if self.lost_ranges == 0 || lost.begin.0 != self.lost_end {
            self.lost_ranges = self.lost_ranges.saturating_add(1);
        }
        self.lost_end = lost.end.0;
        if self.is_probe_sample && lost.sent.loses_too_much(path.has_selective_acks) {
            let in_flight = (!lost.sent.is_app_limited).then(|| lost.sent.inflight_at_loss());
            self.end_probe(cx, path, in_flight);
        }
    }

    /// Handles a mark: as losses above the threshold.
    pub(crate) fn on_mark(&mut self, cx: &Moment, path: &Path) {
        self.note_loss(path);
        if self.state == State::Startup {
            self.undo.state = None;
            (self.full_now, self.full_reached) = (true, true);
        }
        if self.is_probe_sample {
            let in_flight = (!path.is_app_limited()).then_some(path.in_flight);
            self.end_probe(cx, path, in_flight);
        }
    }

    /// HandleInflightTooHigh. `in_flight`: what was too much, if the application did not limit it.
    fn end_probe(&mut self, cx: &Moment, path: &Path, in_flight: Option<u32>) {
        self.prev_too_high = true;
        self.is_probe_sample = false;
        if let Some(in_flight) = in_flight {
            self.inflight_longterm = in_flight.max(beta(self.target_inflight(path)));
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(path, cx.now);
        }
    }
}

/// Recovery (sections 5.5.11 and 5.6.4.4).
impl Bbr3 {
    /// SaveStateUponLoss, once in a round: what the first loss has changed must not replace what was
    /// before it.
    fn save_state(&mut self, cwnd: u32) {
        self.save_window(cwnd);
        if self.undo.round == Some(self.round) {
            return;
        }
        self.undo = Undo {
            state: None,
            round: Some(self.round),
            bandwidth_shortterm: self.bandwidth_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// SaveCwnd.
    pub(super) fn save_window(&mut self, cwnd: u32) {
        let is_reduced = self.prior_recovery >= Recovery::Recovery || self.state == State::ProbeRtt;
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// RestoreCwnd.
    pub(super) fn restore_window(&self, path: &mut Path) {
        path.window.cwnd = path.window.cwnd.max(self.prior_cwnd);
    }

    /// OnEnterFastRecovery, and the first part of OnEnterRTO.
    pub(crate) fn on_recovery(&mut self, cwnd: u32) {
        self.save_state(cwnd);
    }

    /// OnEnterRTO.
    pub(crate) fn on_timeout(&mut self, path: &mut Path) {
        self.prior_recovery = Recovery::Loss;
        path.window.cwnd = path.in_flight + 1;
    }

    /// Restores the window if a recovery has ended.
    pub(super) fn leave_recovery(&mut self, path: &mut Path) {
        if self.prior_recovery >= Recovery::Recovery && path.recovery < Recovery::Recovery {
            self.restore_window(path);
        }
        self.prior_recovery = path.recovery;
    }

    /// HandleSpuriousLossDetection.
    pub(crate) fn on_undo(&mut self, path: &mut Path) {
        self.restore_window(path);
        self.is_loss_in_round = false;
        self.look_for_full_bandwidth(0);
        let undo = &mut self.undo;
        undo.round = None;
        self.bandwidth_shortterm = self.bandwidth_shortterm.max(undo.bandwidth_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        match undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill(path);
            }
            _ => {}
        }
    }
}

/// BBR.Beta times a volume.
fn beta(segments: u32) -> u32 {
    (u64::from(segments) * BETA_TENTHS).div_ceil(10) as u32
}

/// BBR.LossThresh.
const LOSS_PERCENT: u64 = 2;
/// BBR.Beta.
const BETA_TENTHS: u64 = 7;
