//! The retransmission timer (RFC 6298, section 5), and what a timeout does.
//!
//! Source: Linux 6.1 `tcp_rearm_rto`, `tcp_rto_delta_us`, `tcp_retransmit_timer`, `tcp_enter_loss`,
//! `tcp_timeout_mark_lost`.

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
        self.resume(cx);
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
        self.rtt.note_shortest(rtt_us);
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

    /// `tcp_rto_delta_us`: the time left until the first segment's timeout; negative if it has
    /// passed.
    pub(super) fn rto_remaining_us(&self, cx: &Context) -> i64 {
        let Some(head) = self.board.front() else { return 0 };
        i64::from(cx.us_in(self.rtt.rto)) - i64::from(elapsed_us(cx.us, head.sent_us))
    }

    /// `tcp_rearm_rto`.
    #[inline]
    pub(super) fn rearm_rto(&mut self, cx: &Context) {
        if self.unconfirmed {
            return;
        }
        if self.packets_out == 0 {
            self.disarm();
            return;
        }
        let mut rto = self.rtt.rto;
        if matches!(self.timer, Timer::Reordering | Timer::LossProbe) {
            // Subtract the time since the first segment was sent.
            rto = cx.jiffies_in(self.rto_remaining_us(cx).max(1) as u32);
        }
        self.arm_for_sending(cx, Timer::Retransmission, rto);
    }

    /// `tcp_retransmit_timer`.
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
        self.tally.timeouts += 1;
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

    /// Stops sending for good (`tcp_write_err`, `tcp_reset`).
    pub(crate) fn fail(&mut self, cx: &Context) {
        self.failed = true;
        self.disarm();
        if let Some(pace) = &mut self.pace {
            pace.resumes_at = MaybeTime::NONE;
        }
        self.todo = 0;
        self.stop_timing(cx);
    }

    /// `tcp_enter_loss`.
    fn enter_loss(&mut self, cx: &Context) {
        let new_recovery = self.state < State::Recovery;
        self.mark_lost_after_timeout(cx);
        // Once for each window.
        if self.state <= State::Disorder
            || !self.high_seq.after(self.snd_una)
            || (self.state == State::Loss && self.retransmits == 0)
        {
            self.undo.ssthresh = NonZeroU32::new(self.current_ssthresh());
            self.reduction.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.control.ssthresh(cx, self.window, Signal::Loss);
            self.begin_episode(cx);
        }
        self.control.on_timeout(cx, self.snd_nxt);
        self.window.cwnd = self.in_flight() + 1;
        self.window.count = 0;
        self.cwnd_stamp_us = cx.us;
        // A timeout despite many SACKs: reordering was overestimated.
        if self.state <= State::Disorder && self.sacked_out >= DEFAULT_REORDERING.into() {
            self.set_reordering(self.reordering().min(DEFAULT_REORDERING.into()));
        }
        self.state = State::Loss;
        self.with_model(false, |bbr, path| bbr.on_timeout(path, cx.us));
        self.with_own(cx, |control, now, window| control.on_timeout(now, window));
        self.high_seq = self.snd_nxt;
        self.probe = None;
        self.queue_cwr = self.announces_reductions();
        // RFC 5682, 3.1 step 1 and 3.2.
        self.frto = cx.config.frto && (new_recovery || self.retransmits > 0);
    }

    /// `tcp_timeout_mark_lost`: marks everything lost, except, with RACK, what was sent a moment
    /// ago.
    fn mark_lost_after_timeout(&mut self, cx: &Context) {
        let head = self.board.head();
        let reneged = self.board.front().is_some_and(|record| record.has(SACKED));
        if reneged || !self.uses_sack(cx) {
            self.sacked_out = 0;
        }
        let mut position = head;
        while position != self.board.tail() {
            if reneged {
                self.board.at_mut(position).flags &= !SACKED;
            } else if self.uses_rack(cx)
                && position != head
                && self.rack.remaining_us(cx, self.board.at(position), 0) > 0
            {
                position = position.wrapping_add(1);
                continue;
            }
            self.mark_lost(cx, position);
            position = position.wrapping_add(1);
        }
        self.retransmit_from_head();
    }

    /// `tcp_probe_timer`: probes a closed window again, at ever longer intervals.
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
