//! PROBE_BW (section 5.3.3): cruising at the bandwidth, and probing for more every few seconds.

use narrows_units::{Span, Time};

use super::{Ack, AckPhase, Bbr3, LEAST_WINDOW, State};
use crate::congestion::bbr::spread;
use crate::congestion::path::Path;

impl Bbr3 {
    pub(super) fn is_in_probe_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// StartProbeBW_DOWN.
    pub(super) fn start_down(&mut self, path: &Path, now: Time) {
        self.reset_congestion_signals();
        self.up_acked_per_inc = u64::MAX;
        self.pick_wait();
        self.cycle_at = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round(path);
        self.state = State::Down;
    }

    /// PickProbeWait: 2 to 3 s, or 62 or 63 rounds.
    fn pick_wait(&mut self) {
        self.draws = self.draws.wrapping_add(1);
        let random = spread(self.seed.wrapping_add(self.draws));
        self.rounds_since_up = random & 1;
        let share = u64::from(random >> 1) * SPREAD_US;
        self.probe_wait = Span::from_us(LEAST_WAIT_US + (share >> 31));
    }

    /// StartProbeBW_REFILL.
    pub(super) fn start_refill(&mut self, path: &Path) {
        self.reset_shortterm();
        (self.up_rounds, self.up_acked) = (0, 0);
        self.prev_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(path);
        self.state = State::Refill;
    }

    /// StartProbeBW_UP.
    fn start_up(&mut self, path: &Path, ack: &Ack) {
        self.is_probe_sample = true;
        self.ack_phase = AckPhase::Starting;
        self.start_round(path);
        self.look_for_full_bandwidth(ack.bandwidth);
        self.state = State::Up;
        self.steepen(path);
    }

    /// UpdateProbeBWCyclePhase.
    pub(super) fn update_probe_bw(&mut self, path: &Path, ack: &Ack) {
        if !self.full_reached || self.adapt_longterm(path, ack) {
            return;
        }
        match self.state {
            State::Down | State::Cruise => {
                if self.is_time_to_probe(path, ack.now) {
                    self.start_refill(path);
                } else if self.state == State::Down && self.is_time_to_cruise(path) {
                    self.state = State::Cruise;
                }
            }
            State::Refill => {
                if self.round_start {
                    self.start_up(path, ack);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(path, ack) {
                    self.prev_too_high = false;
                    self.start_down(path, ack.now);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// IsTimeToProbeBW, IsRenoCoexistenceProbeTime.
    fn is_time_to_probe(&self, path: &Path, now: Time) -> bool {
        now > self.cycle_at + self.probe_wait
            || self.rounds_since_up >= self.target_inflight(path).min(MOST_ROUNDS)
    }

    /// IsTimeToCruise.
    fn is_time_to_cruise(&self, path: &Path) -> bool {
        path.in_flight <= self.inflight_with_headroom()
            && path.in_flight <= self.inflight_for(self.max_bandwidth())
    }

    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, path: &Path, ack: &Ack) -> bool {
        if self.prev_too_high && path.in_flight >= self.inflight_longterm {
            self.prev_precautionary = true;
            return true;
        }
        if path.is_cwnd_limited && path.window.cwnd >= self.inflight_longterm {
            self.look_for_full_bandwidth(ack.bandwidth);
            return false;
        }
        self.full_now
    }

    /// TargetInflight.
    pub(super) fn target_inflight(&self, path: &Path) -> u32 {
        self.product(self.bandwidth, 100).min(path.window.cwnd)
    }

    /// InflightWithHeadroom: 15 % less than the long-term limit.
    pub(super) fn inflight_with_headroom(&self) -> u32 {
        if self.inflight_longterm == u32::MAX {
            return u32::MAX;
        }
        let headroom = (u64::from(self.inflight_longterm) * 15).div_ceil(100).max(1) as u32;
        (self.inflight_longterm - headroom.min(self.inflight_longterm)).max(LEAST_WINDOW)
    }

    /// RaiseInflightLongtermSlope: growth doubles with each round of a probe.
    fn steepen(&mut self, path: &Path) {
        self.up_acked_per_inc =
            ((u64::from(path.window.cwnd) * PARTS) >> self.up_rounds).max(PARTS);
        self.up_rounds = (self.up_rounds + 1).min(30);
    }

    /// ProbeInflightLongtermUpward.
    fn raise_longterm(&mut self, path: &Path, ack: &Ack) {
        if !path.is_cwnd_limited || path.window.cwnd < self.inflight_longterm {
            return;
        }
        self.up_acked += u64::from(ack.acked) * PARTS;
        if self.up_acked >= self.up_acked_per_inc {
            self.inflight_longterm += (self.up_acked / self.up_acked_per_inc) as u32;
            self.up_acked %= self.up_acked_per_inc;
        }
        if self.round_start {
            self.steepen(path);
        }
    }

    /// AdaptLongTermModel. Returns whether it has begun a phase.
    fn adapt_longterm(&mut self, path: &Path, ack: &Ack) -> bool {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() {
                if !ack.newest.sent.is_app_limited {
                    self.advance_bandwidth();
                }
                if self.prev_precautionary && !self.prev_too_high {
                    self.start_refill(path);
                    return true;
                }
            }
        }
        let sent = ack.newest.sent;
        if self.inflight_longterm < u32::MAX && !sent.loses_too_much(path.has_selective_acks) {
            self.inflight_longterm = self.inflight_longterm.max(sent.in_flight);
            if self.state == State::Up {
                self.raise_longterm(path, ack);
            }
        }
        false
    }
}

/// The parts of a segment in which growth counts.
const PARTS: u64 = 1024;
/// T_bbr (section 5.3.3.8.2): from 2 s, over 1 s.
const LEAST_WAIT_US: u64 = 2_000_000;
const SPREAD_US: u64 = 1_000_000;
/// T_reno_bound.
const MOST_ROUNDS: u32 = 63;
