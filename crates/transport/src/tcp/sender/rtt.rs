//! Round-trip estimation and the retransmission timeout (RFC 6298, in Linux's form).
//!
//! Source: Linux 6.1 `tcp_rtt_estimator`, `tcp_set_rto`, `tcp_update_rtt_min`. Classic senders
//! keep RFC 6298's own variance, in ticks, as ns-2 does (tcp.cc, `rtt_update`).

use super::Sender;
use crate::tcp::clock::Context;

impl Sender {
    /// Takes the handshake's sample: minimum, estimator, timeout.
    pub(super) fn take_rtt_sample(&mut self, cx: &Context, rtt_us: u32) {
        self.min_rtt_us = self.min_rtt_us.min(rtt_us);
        self.estimate_and_set_rto(cx, rtt_us);
    }

    /// Updates the estimator and sets the timeout from it, which ends any backoff.
    #[inline]
    pub(super) fn estimate_and_set_rto(&mut self, cx: &Context, rtt_us: u32) {
        if cx.config.is_classic() {
            self.estimate_classic(cx, rtt_us);
        } else {
            self.estimate(cx, rtt_us);
            self.set_rto(cx);
        }
    }

    /// `tcp_rtt_estimator`: the variance rises at once, and falls at most once in a round trip.
    #[inline]
    fn estimate(&mut self, cx: &Context, rtt_us: u32) {
        let floor = cx.config.min_rto.as_us() as u32;
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us.min(LONGEST_RTT_US) << 3;
            self.mdev_us = rtt_us.min(LONGEST_RTT_US) << 1;
            self.rttvar_us = self.mdev_us.max(floor);
            self.mdev_max_us = self.rttvar_us;
            self.rtt_seq = self.snd_nxt;
            return;
        }
        let mut error = rtt_us.min(LONGEST_RTT_US) as i32 - (self.srtt_us >> 3) as i32;
        self.srtt_us = self.srtt_us.saturating_add_signed(error).max(1);
        if error < 0 {
            error = -error - (self.mdev_us >> 2) as i32;
            // A falling RTT says little about a rise, so its effect is damped.
            if error > 0 {
                error >>= 3;
            }
        } else {
            error -= (self.mdev_us >> 2) as i32;
        }
        self.mdev_us = self.mdev_us.saturating_add_signed(error);
        if self.mdev_us > self.mdev_max_us {
            self.mdev_max_us = self.mdev_us;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if self.snd_una.after(self.rtt_seq) {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.rtt_seq = self.snd_nxt;
            self.mdev_max_us = floor;
        }
    }

    /// `tcp_set_rto`.
    #[inline]
    fn set_rto(&mut self, cx: &Context) {
        let rto_us = (self.srtt_us >> 3).saturating_add(self.rttvar_us);
        self.rto = cx.jiffies_in(rto_us.min(cx.config.max_rto.as_us() as u32));
    }

    /// RFC 6298 (2.2), (2.3), with samples and variance in whole ticks.
    fn estimate_classic(&mut self, cx: &Context, rtt_us: u32) {
        let tick = cx.tick_us();
        let rtt_us = (rtt_us.min(LONGEST_RTT_US) / tick).max(1) * tick;
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us << 3;
            self.rttvar_us = rtt_us << 1;
        } else {
            let error = rtt_us as i32 - (self.srtt_us >> 3) as i32;
            self.srtt_us = self.srtt_us.saturating_add_signed(error).max(1);
            let error = error.abs() - (self.rttvar_us >> 2) as i32;
            self.rttvar_us = self.rttvar_us.saturating_add_signed(error).max(1);
        }
        let rto_us = (self.srtt_us >> 3).saturating_add(self.rttvar_us);
        let bounds = (cx.config.min_rto.as_us() as u32, cx.config.max_rto.as_us() as u32);
        self.rto = cx.jiffies_in(rto_us.clamp(bounds.0, bounds.1));
    }
}

/// The longest round trip: an eighth of what 32 bits hold, in microseconds: about 9 minutes.
pub(super) const LONGEST_RTT_US: u32 = u32::MAX >> 3;
