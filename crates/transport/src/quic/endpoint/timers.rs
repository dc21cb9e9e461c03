//! Timers: idle connections (RFC 9000, 10.1), and probes (RFC 9002, 6.2 and appendix A.8, A.9).

use narrows_units::{Span, Time};

use super::{DATA, Endpoint, HANDSHAKE, INITIAL, Timer};
use crate::quic::config::Probes;
use crate::quic::frames::Frame;

impl Endpoint {
    /// Sets the recovery timer (RFC 9002, A.8).
    pub(super) fn set_timer(&mut self, now: Time) {
        let losses = self.spaces.iter().enumerate();
        let loss = losses
            .filter_map(|(space, s)| Some((s.loss_at?, Timer::Loss(space))))
            .min_by_key(|(at, _)| *at);
        self.recovery_at = loss;
        let asks = |index: usize| !self.spaces[index].is_over && self.spaces[index].has_eliciting();
        // 6.2.1: application data only after the handshake is confirmed. A client goes on probing
        // even if only 0-RTT packets are in flight (6.2.2.1; the pseudocode of A.8 would wait
        // forever).
        let waits = [asks(INITIAL), asks(HANDSHAKE), asks(DATA) && self.is_confirmed];
        if loss.is_some() || self.held || (!waits.contains(&true) && self.is_known) {
            return;
        }
        let backoff = 1 << self.probe_count.min(30);
        if !waits.contains(&true) {
            let space = if self.has_handshake_keys { HANDSHAKE } else { INITIAL };
            let due = now + self.rtt.probe_timeout() * backoff;
            self.recovery_at = Some((due, Timer::Probe(space)));
            return;
        }
        for (space, _) in waits.into_iter().enumerate().filter(|(_, waits)| *waits) {
            let mut span = self.rtt.probe_timeout();
            if space == DATA {
                span = self.probe_span();
            }
            let Some(last) = self.spaces[space].last_eliciting_at else { continue };
            let due = last + span * backoff;
            if self.recovery_at.is_none_or(|(before, _)| due < before) {
                self.recovery_at = Some((due, Timer::Probe(space)));
            }
        }
    }

    /// Returns the probe timeout for application data (RFC 9002, 6.2.1).
    fn probe_span(&self) -> Span {
        self.rtt.probe_timeout() + self.peer.max_ack_delay
    }

    /// Asks for probes because the probe timer of a space has expired (RFC 9002, 6.2.4).
    pub(super) fn ask_for_probes(&mut self, index: usize) {
        for (other, space) in self.spaces.iter_mut().enumerate() {
            let waits = !space.is_over && space.has_eliciting();
            space.probes = match (other == index, waits) {
                (true, true) => 2,
                // One is enough against a deadlock.
                (true, false) => 1,
                // It is coalesced with the probe if there is room.
                (false, true) if self.config.probes == Probes::Rfc9002 => space.probes.max(1),
                (false, _) => continue,
            };
        }
    }

    /// Fills a probe without new data with the data of the oldest packet that no probe has repeated
    /// (RFC 9002, 6.2.4), so that a second probe carries other data. The probe's own packet then
    /// holds what it repeats. quinn's probes repeat no data of streams.
    pub(super) fn repeat_oldest(&mut self, index: usize) {
        let quinn = self.config.probes == Probes::Quinn;
        while !self.has_unsent_in(index) {
            let space = &mut self.spaces[index];
            let from = space.repeated;
            let oldest = space.sent.iter().find(|sent| sent.eliciting && sent.number >= from);
            let Some(oldest) = oldest else { return };
            space.repeated = oldest.number + 1;
            let mut frames = oldest.frames.clone();
            frames.retain(|frame| !quinn || !matches!(frame, Frame::Stream { .. }));
            self.send_again(index, &frames);
        }
    }

    /// Restarts the idle timer (RFC 9000, 10.1).
    pub(super) fn restart_idle(&mut self, now: Time) {
        let probing = self.probe_span() * 3;
        self.idle_at = now + self.peer.idle_timeout.max(probing);
    }
}
