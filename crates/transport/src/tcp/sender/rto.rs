//! The retransmission timer (RFC 6298, section 5), and what a timeout does.
//!
//! Source: Linux 6.1 `tcp_rearm_rto`, `tcp_rto_delta_us`, `tcp_retransmit_timer`, `tcp_enter_loss`,
//! `tcp_timeout_mark_lost`.

use super::scoreboard::SACKED;
use super::{DEFAULT_REORDERING, Sender, State, Timer, todo};
use crate::tcp::clock::{Context, elapsed_us};
use crate::tcp::congestion::Signal;

impl Sender {
    /// Handles the timer, if it has fired.
    pub(crate) fn handle_timeout(&mut self, cx: &Context) {
        if cx.now < self.timer_at {
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

    /// `tcp_rto_delta_us`: the time left until the first segment's timeout; negative if it has
    /// passed.
    pub(super) fn rto_remaining_us(&self, cx: &Context) -> i64 {
        let Some(head) = self.board.front() else { return 0 };
        i64::from(cx.us_in(self.rto)) - i64::from(elapsed_us(cx.us, head.sent_us))
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
        let mut rto = self.rto;
        if matches!(self.timer, Timer::Reordering | Timer::LossProbe) {
            // Subtract the time since the first segment was sent.
            rto = cx.jiffies_in(self.rto_remaining_us(cx).max(1) as u32);
        }
        self.arm(cx, Timer::Retransmission, rto);
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
        // RFC 6298 (5.5).
        self.rto = self.rto.saturating_mul(2).min(cx.span_to_jiffies(cx.config.max_rto));
        self.arm(cx, Timer::Retransmission, self.rto);
    }

    /// Stops sending for good (`tcp_write_err`, `tcp_reset`).
    pub(crate) fn fail(&mut self, cx: &Context) {
        self.failed = true;
        self.disarm();
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
            self.prior_ssthresh = self.current_ssthresh();
            self.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.control.ssthresh(cx, self.window.cwnd, Signal::Loss);
            self.begin_undo(cx);
        }
        self.control.on_timeout(cx, self.snd_nxt);
        self.window.cwnd = self.in_flight() + 1;
        self.window.count = 0;
        self.cwnd_stamp_us = cx.us;
        // A timeout despite many SACKs: reordering was overestimated.
        if self.state <= State::Disorder && self.sacked_out >= DEFAULT_REORDERING {
            self.set_reordering(self.reordering().min(DEFAULT_REORDERING));
        }
        self.state = State::Loss;
        self.high_seq = self.snd_nxt;
        self.probe_out = false;
        self.queue_cwr = self.ecn;
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
                && self.rack_remaining_us(cx, self.board.at(position), 0) > 0
            {
                position = position.wrapping_add(1);
                continue;
            }
            self.mark_lost(position);
            position = position.wrapping_add(1);
        }
        self.clear_hints();
    }

    /// `tcp_probe_timer`: probes a closed window again, at ever longer intervals.
    fn on_persist_timeout(&mut self, cx: &Context) {
        if self.packets_out > 0 || !self.has_new_data() {
            self.disarm();
            return;
        }
        self.todo |= todo::PERSIST;
        self.retransmits = self.retransmits.saturating_add(1).min(cx.config.max_retries);
        let backoff = self.rto.checked_shl(u32::from(self.retransmits.min(16)));
        self.arm(cx, Timer::Persist, backoff.unwrap_or(u32::MAX));
    }
}
