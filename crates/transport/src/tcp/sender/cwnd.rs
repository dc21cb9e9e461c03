//! Whether the window limited the sender, and how idle time reduces it (the problem of RFC 7661,
//! and RFC 2861's answer).
//!
//! Source: Linux 6.1 `tcp_is_cwnd_limited`, `tcp_cwnd_validate`, `tcp_cwnd_application_limited`,
//! `tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`. `Fresh`: ns-2's on-off comparisons.

use super::{Sender, State};
use crate::congestion::INFINITE_SSTHRESH;
use crate::tcp::RestartAfterIdle;
use crate::tcp::clock::{Context, elapsed_us};

impl Sender {
    /// `tcp_is_cwnd_limited`.
    #[inline]
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            || (self.window.in_slow_start()
                && u64::from(self.window.cwnd) < 2 * u64::from(self.max_packets_out))
    }

    /// `tcp_cwnd_validate`, after a burst.
    #[inline]
    pub(super) fn validate_cwnd(&mut self, cx: &Context, limited: bool) {
        if !self.snd_una.before(self.cwnd_usage_seq)
            || limited
            || (!self.cwnd_limited && self.packets_out > self.max_packets_out)
        {
            self.cwnd_limited = limited;
            self.max_packets_out = self.packets_out;
            self.cwnd_usage_seq = self.snd_nxt;
        }
        if self.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp_us = cx.us;
        } else {
            self.cwnd_used = self.cwnd_used.max(self.packets_out);
            if cx.config.restart_after_idle == RestartAfterIdle::Decay
                && elapsed_us(cx.us, self.cwnd_stamp_us) >= cx.us_in(self.rtt.rto)
                && !self.control.sets_window()
            {
                self.shrink_unused(cx);
            }
        }
    }

    /// `tcp_cwnd_application_limited`.
    fn shrink_unused(&mut self, cx: &Context) {
        if self.state == State::Open {
            let used = self.cwnd_used.max(cx.config.initial_window);
            if used < self.window.cwnd {
                self.window.ssthresh = self.current_ssthresh();
                self.window.cwnd = (self.window.cwnd + used) / 2;
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp_us = cx.us;
    }

    /// Restarts the window if the application writes after a long silence.
    pub(super) fn restart_after_idle(&mut self, cx: &Context) {
        let idle_us = elapsed_us(cx.us, self.last_sent_us);
        // `Fresh` is about bursts, however short the silence between them.
        let long = cx.config.restart_after_idle == RestartAfterIdle::Fresh
            || idle_us > cx.us_in(self.rtt.rto);
        if self.packets_out > 0 || !long || self.bytes_acked == 0 || self.control.sets_window() {
            return;
        }
        let initial = cx.config.initial_window;
        let window = &mut self.window;
        match cx.config.restart_after_idle {
            RestartAfterIdle::Keep => {}
            RestartAfterIdle::Decay => {
                let floor = initial.min(window.cwnd);
                let rto_us = cx.us_in(self.rtt.rto).max(1);
                // The window is halved for every full timeout that has passed.
                let halvings = (idle_us - 1) / rto_us;
                let decayed = window.cwnd.checked_shr(halvings).unwrap_or(0).max(floor);
                window.ssthresh = window.ssthresh.max(window.cwnd / 2 + window.cwnd / 4);
                window.cwnd = decayed;
                self.cwnd_stamp_us = cx.us;
                self.cwnd_used = 0;
            }
            RestartAfterIdle::SlowStart => window.cwnd = window.cwnd.min(initial),
            RestartAfterIdle::Fresh => {
                window.cwnd = initial;
                window.count = 0;
                window.ssthresh = INFINITE_SSTHRESH;
            }
        }
    }

    /// `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            self.window.ssthresh
        } else {
            self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4)
        }
    }
}
