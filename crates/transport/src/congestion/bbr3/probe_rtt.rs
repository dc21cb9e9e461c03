//! The shortest round trip, and PROBE_RTT (section 5.3.4).

use narrows_units::{Span, Time};

use super::{Ack, AckPhase, Bbr3, State};
use crate::congestion::path::Path;

impl Bbr3 {
    /// UpdateMinRTT.
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        self.rtt_expired = ack.now > self.recent_rtt_at + INTERVAL;
        if let Some(rtt_us) = ack.rtt_us
            && (self.rtt_expired || self.recent_rtt_us.is_none_or(|least| rtt_us < least))
        {
            (self.recent_rtt_us, self.recent_rtt_at) = (Some(rtt_us), ack.now);
        }
        let expired = ack.now > self.min_rtt_at + WINDOW;
        if let Some(recent_us) = self.recent_rtt_us
            && (expired || self.min_rtt_us.is_none_or(|least| recent_us < least))
        {
            (self.min_rtt_us, self.min_rtt_at) = (Some(recent_us), self.recent_rtt_at);
        }
    }

    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, path: &mut Path, ack: &Ack) {
        if self.rtt_expired && !self.idle_restart && self.state != State::ProbeRtt {
            self.save_window(path.window.cwnd);
            self.state = State::ProbeRtt;
            self.probe_rtt_ends = None;
            self.ack_phase = AckPhase::Stopping;
            self.start_round(path);
        }
        if self.state == State::ProbeRtt {
            self.stay_in_probe_rtt(path, ack.now);
        }
        if ack.newest.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// HandleProbeRTT: 200 ms and a round with half of a BDP in flight.
    fn stay_in_probe_rtt(&mut self, path: &mut Path, now: Time) {
        path.limit_by_application();
        if self.probe_rtt_ends.is_none() {
            if path.in_flight <= self.probe_rtt_window() {
                self.probe_rtt_ends = Some(now + DURATION);
                self.probe_rtt_round_done = false;
                self.start_round(path);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.leave_probe_rtt(path, now);
        }
    }

    /// CheckProbeRTTDone, ExitProbeRTT.
    pub(super) fn leave_probe_rtt(&mut self, path: &mut Path, now: Time) {
        if self.probe_rtt_ends.is_none_or(|ends| now <= ends) {
            return;
        }
        self.recent_rtt_at = now;
        self.restore_window(path);
        self.reset_shortterm();
        if self.full_reached {
            self.start_down(path, now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}

/// BBR.ProbeRTTInterval, BBR.MinRTTFilterLen, BBR.ProbeRTTDuration.
const INTERVAL: Span = Span::from_secs(5);
const WINDOW: Span = Span::from_secs(10);
const DURATION: Span = Span::from_ms(200);
