//! The retransmission timer, and what a timeout does.
//!
//! Written from RFC 6298 (5), RFC 5681 (3.1), RFC 6582 (4), RFC 6675 (5.1), RFC 8985 (6.3) and, for a
//! closed window, RFC 1122 (4.2.2.17). Differences, which are Linux 6.1's, as replays on a kernel
//! show them: after a reordering or probe timer, the timeout counts from when the first segment was
//! sent; and a timeout within a recovery reduces the threshold again only if the recovery point is
//! acknowledged, or if the recovery began with a timeout and has made progress since.

use core::num::NonZeroU32;

use narrows_units::MaybeTime;

use super::rack::DEFAULT_REORDERING;
use super::scoreboard::SACKED;
use super::{Sender, State, Timer, todo};
use crate::congestion::Signal;
use crate::tcp::clock::{Context, elapsed_us};

impl Sender {
    /// Handles the timer, if it has fired.
    pub(crate) fn handle_timeout(&mut self, cx: &Context) {
        self.resume(cx.now);
        if self.timer_at.is_after(cx.now) {
            return;
        }
        match self.timer {
            Timer::Idle => self.disarm(),
            Timer::Retransmission => self.on_rto(cx),
            Timer::LossProbe => self.todo |= todo::PROBE,
            Timer::Reordering => self.on_reordering_timeout(cx),
            Timer::Persist => self.on_persist_timeout(cx),
        }
    }

    /// Takes the handshake's sample: minimum, estimator, timeout.
    pub(super) fn take_rtt_sample(&mut self, cx: &Context, rtt_us: u32) {
        self.rtt.note_shortest(cx, rtt_us);
        self.estimate_and_set_rto(cx, rtt_us);
    }

    /// Updates the estimator and sets the timeout from it, which ends any backoff.
    #[inline]
    pub(super) fn estimate_and_set_rto(&mut self, cx: &Context, rtt_us: u32) {
        if cx.config.is_classic() {
            self.rtt.estimate_classic(cx, rtt_us);
        } else {
            self.rtt.estimate(cx, rtt_us, (self.snd_una, self.snd_nxt));
            self.rtt.set_rto(cx);
        }
    }

    /// Returns the time that is left until the first segment's timeout; negative if it has passed.
    #[inline]
    pub(super) fn rto_remaining_us(&self, cx: &Context) -> i64 {
        let Some(head) = self.board.front() else { return 0 };
        i64::from(cx.us_in(self.rtt.rto)) - i64::from(elapsed_us(cx.us, head.sent_us))
    }

    /// Restarts the timer (5.1, 5.3), or stops it if nothing is in flight (5.2).
    #[inline]
    pub(super) fn rearm_rto(&mut self, cx: &Context) {
        match self.timer {
            _ if self.unconfirmed => {}
            _ if self.packets_out == 0 => self.disarm(),
            Timer::Reordering | Timer::LossProbe => {
                let left_us = self.rto_remaining_us(cx).max(1);
                self.arm_for_sending(cx, Timer::Retransmission, cx.jiffies_in(left_us as u32));
            }
            _ => self.arm_for_sending(cx, Timer::Retransmission, self.rtt.rto),
        }
    }

    /// Handles the retransmission timeout (5.4 to 5.6).
    fn on_rto(&mut self, cx: &Context) {
        self.timer = Timer::Idle;
        if self.packets_out == 0 {
            self.disarm();
            return;
        }
        if self.retransmits >= cx.config.max_retries {
            self.fail(cx);
            return;
        }
        self.tally().timeouts += 1;
        if cx.config.is_classic() {
            self.enter_loss_classic(cx);
        } else {
            self.enter_loss(cx);
        }
        self.retransmits = self.retransmits.saturating_add(1);
        self.todo |= todo::HEAD;
        self.rtt.back_off(cx);
        self.arm(cx, Timer::Retransmission, self.rtt.rto);
    }

    /// Stops sending for good.
    pub(crate) fn fail(&mut self, cx: &Context) {
        self.failed = true;
        self.disarm();
        if let Some(pace) = &mut self.pace {
            pace.resumes_at = MaybeTime::NONE;
        }
        self.todo = 0;
        self.stop_timing(cx);
    }

    /// Begins the recovery after a timeout: what is in flight is lost, and the window is as large as
    /// what is not, plus one segment.
    fn enter_loss(&mut self, cx: &Context) {
        let undisturbed = self.state <= State::Disorder;
        // RFC 5682, 3.1 step 1 and 3.2.
        self.frto = cx.config.frto && (self.state < State::Recovery || self.retransmits > 0);
        self.mark_lost_after_timeout(cx);
        let is_reduced = !undisturbed
            && self.high_seq.after(self.snd_una)
            && (self.state != State::Loss || self.retransmits > 0);
        if !is_reduced {
            self.begin_episode(cx);
            self.undo.ssthresh = NonZeroU32::new(self.current_ssthresh());
            self.reduction.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.control.ssthresh(cx, self.window, Signal::Loss);
        }
        if undisturbed && self.sacked_out >= DEFAULT_REORDERING.into() {
            // So many SACKs should have started a recovery: reordering was overestimated.
            self.set_reordering(self.reordering().min(DEFAULT_REORDERING.into()));
        }
        self.state = State::Loss;
        self.high_seq = self.snd_nxt;
        self.probe = None;
        self.queue_cwr = self.announces_reductions();
        self.control.on_timeout(cx, self.snd_nxt);
        self.window.count = 0;
        self.window.cwnd = self.in_flight() + 1;
        self.cwnd_stamp_us = cx.us;
        self.with_model(false, |bbr, path| bbr.on_timeout(path, cx.us));
        self.with_own(cx, |control, now, window| control.on_timeout(now, window));
    }

    /// Marks what is in flight as lost, except, with RACK, what was sent a moment ago (RFC 8985, 6.3).
    /// The receiver may have taken back what it SACKed (RFC 2018, 8): it has, if the first segment is
    /// still missing although it is SACKed.
    fn mark_lost_after_timeout(&mut self, cx: &Context) {
        let head = self.board.head();
        let reneged = self.board.front().is_some_and(|first| first.has(SACKED));
        if reneged || !self.uses_sack(cx) {
            self.sacked_out = 0;
        }
        let spares = self.uses_rack(cx) && !reneged;
        for index in 0..self.board.len() {
            let position = head.wrapping_add(index);
            let record = self.board.at_mut(position);
            if reneged {
                record.flags &= !SACKED;
            }
            if !(spares && index > 0 && self.rack.remaining_us(cx, record, 0) > 0) {
                self.mark_lost(cx, position);
            }
        }
        self.retransmit_from_head();
    }

    /// Probes a closed window again, at ever longer intervals (RFC 1122, 4.2.2.17).
    fn on_persist_timeout(&mut self, cx: &Context) {
        if self.packets_out > 0 || !self.has_new_data() {
            self.disarm();
            return;
        }
        self.todo |= todo::PERSIST;
        self.retransmits = self.retransmits.saturating_add(1).min(cx.config.max_retries);
        let backoff = self.rtt.rto.checked_shl(u32::from(self.retransmits.min(16)));
        self.arm_for_sending(cx, Timer::Persist, backoff.unwrap_or(u32::MAX));
    }
}
