//! Whether the window limited the sender, and how idle time reduces it.
//!
//! Written from RFC 2861, with its variables; RFC 7661 states the problem. Differences,
//! which are Linux 6.1's, as facts: for a window of data, the burst counts that used the window most;
//! in slow start, a window is limited that is less than twice what was used; and an idle window is
//! halved for every full timeout, down to the initial one. `Fresh` is for ns-2's on-off comparisons.

use super::{Sender, State};
use crate::congestion::{INFINITE_SSTHRESH, Window};
use crate::tcp::RestartAfterIdle;
use crate::tcp::clock::{Context, elapsed_us};

impl Sender {
    /// Returns whether the window, and not the application, limits the sender.
    #[inline]
    pub(super) fn is_cwnd_limited(&self) -> bool {
        let twice_used = 2 * u64::from(self.max_packets_out);
        self.cwnd_limited
            || (self.window.in_slow_start() && twice_used > u64::from(self.window.cwnd))
    }

    /// Notes after a burst how much of the window was used. `limited`: the window was full.
    #[inline]
    pub(super) fn validate_cwnd(&mut self, cx: &Context, limited: bool) {
        let used_more = || self.packets_out > self.max_packets_out && !self.cwnd_limited;
        if limited || !self.snd_una.before(self.cwnd_usage_seq) || used_more() {
            (self.cwnd_limited, self.max_packets_out) = (limited, self.packets_out);
            self.cwnd_usage_seq = self.snd_nxt;
        }
        if self.is_cwnd_limited() {
            // W_used, and T_prev.
            self.cwnd_used = 0;
            self.cwnd_stamp_us = cx.us;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(self.packets_out);
        let decays = cx.config.restart_after_idle == RestartAfterIdle::Decay;
        if decays && !self.control.sets_window() && self.was_unused_for_an_rto(cx) {
            self.shrink_unused(cx);
        }
    }

    #[inline]
    fn was_unused_for_an_rto(&self, cx: &Context) -> bool {
        elapsed_us(cx.us, self.cwnd_stamp_us) >= cx.us_in(self.rtt.rto)
    }

    /// Moves the window halfway to what was used of it (RFC 2861).
    fn shrink_unused(&mut self, cx: &Context) {
        self.cwnd_stamp_us = cx.us;
        if self.state != State::Open {
            return;
        }
        let used = core::mem::take(&mut self.cwnd_used).max(cx.config.initial_window);
        if used < self.window.cwnd {
            self.window.ssthresh = self.current_ssthresh();
            self.window.cwnd = (self.window.cwnd + used) / 2;
        }
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
                let full_timeouts = (idle_us - 1) / cx.us_in(self.rtt.rto).max(1);
                let halved = window.cwnd.checked_shr(full_timeouts).unwrap_or(0);
                window.ssthresh = window.ssthresh.max(three_quarters(window.cwnd));
                window.cwnd = halved.max(initial.min(window.cwnd));
                self.cwnd_used = 0;
                self.cwnd_stamp_us = cx.us;
            }
            RestartAfterIdle::SlowStart => window.cwnd = window.cwnd.min(initial),
            RestartAfterIdle::Fresh => {
                window.cwnd = initial;
                window.count = 0;
                window.ssthresh = INFINITE_SSTHRESH;
            }
        }
    }

    /// Returns the threshold that keeps the present window in mind: at least three quarters of it
    /// (RFC 2861), unless it is being reduced.
    pub(super) fn current_ssthresh(&self) -> u32 {
        let Window { cwnd, ssthresh, .. } = self.window;
        if self.in_reduction() { ssthresh } else { ssthresh.max(three_quarters(cwnd)) }
    }
}

fn three_quarters(cwnd: u32) -> u32 {
    cwnd / 2 + cwnd / 4
}
