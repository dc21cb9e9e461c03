//! Round-trip estimation and the retransmission timeout (RFC 6298, in Linux's form).
//!
//! Source: Linux 6.1 `tcp_rtt_estimator`, `tcp_set_rto`, `tcp_update_rtt_min`. Classic senders
//! keep RFC 6298's own variance, in ticks, as ns-2 does (tcp.cc, `rtt_update`).

use core::num::NonZeroU32;

use crate::tcp::Seq;
use crate::tcp::clock::Context;

/// What a sender knows about round trips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    /// The retransmission timeout in jiffies, backed off.
    pub rto: u32,
    /// Eight times the smoothed round trip; none before the first sample.
    smoothed_us: Option<NonZeroU32>,
    /// Four times the mean deviation, and its maximum in this round trip.
    deviation_us: u32,
    most_deviation_us: u32,
    variance_us: u32,
    /// The round trip ends when something above this is acknowledged.
    pub round_end: Seq,
    shortest_us: Option<NonZeroU32>,
}

impl Rtt {
    pub(super) fn new(first: Seq) -> Self {
        Self {
            rto: 0,
            smoothed_us: None,
            deviation_us: 0,
            most_deviation_us: 0,
            variance_us: 0,
            round_end: first,
            shortest_us: None,
        }
    }

    /// Starts from a timeout of `jiffies` after a handshake that gave no sample (RFC 6298, 5.7).
    pub(super) fn assume(&mut self, cx: &Context, jiffies: u32) {
        self.rto = jiffies;
        self.variance_us = cx.us_in(jiffies);
        self.deviation_us = self.variance_us;
        self.most_deviation_us = self.variance_us;
    }

    /// Returns the smoothed round trip in microseconds, unless it is shorter than one.
    #[inline]
    pub(super) fn smoothed_us(&self) -> Option<u32> {
        self.smoothed_us.map(|eighths| eighths.get() >> 3).filter(|&us| us > 0)
    }

    /// Returns twice the smoothed round trip in microseconds.
    #[inline]
    pub(super) fn twice_smoothed_us(&self) -> Option<u32> {
        self.smoothed_us.map(|eighths| eighths.get() >> 2)
    }

    /// Returns the shortest round trip in microseconds.
    #[inline]
    pub(super) fn shortest_us(&self) -> Option<u32> {
        self.shortest_us.map(NonZeroU32::get)
    }

    /// Notes a round trip that may be the shortest, in microseconds.
    #[inline]
    pub(super) fn note_shortest(&mut self, rtt_us: u32) {
        let rtt_us = NonZeroU32::new(rtt_us).unwrap_or(NonZeroU32::MIN);
        self.shortest_us = Some(self.shortest_us.map_or(rtt_us, |shortest| shortest.min(rtt_us)));
    }

    /// RFC 6298 (5.5).
    pub(super) fn back_off(&mut self, cx: &Context) {
        self.rto = self.rto.saturating_mul(2).min(cx.span_to_jiffies(cx.config.max_rto));
    }

    /// `tcp_rtt_estimator`: the variance rises at once, and falls at most once in a round trip.
    #[inline]
    pub(super) fn estimate(&mut self, cx: &Context, rtt_us: u32, (acked, sent): (Seq, Seq)) {
        let floor = cx.config.min_rto.as_us() as u32;
        let rtt_us = rtt_us.min(LONGEST_RTT_US);
        let Some(eighths) = self.smoothed_us else {
            self.smoothed_us = NonZeroU32::new(rtt_us << 3);
            self.deviation_us = rtt_us << 1;
            self.variance_us = self.deviation_us.max(floor);
            self.most_deviation_us = self.variance_us;
            self.round_end = sent;
            return;
        };
        let mut error = self.smooth(eighths, rtt_us);
        if error < 0 {
            error = -error - (self.deviation_us >> 2) as i32;
            // A falling RTT says little about a rise, so its effect is damped.
            if error > 0 {
                error >>= 3;
            }
        } else {
            error -= (self.deviation_us >> 2) as i32;
        }
        self.deviation_us = self.deviation_us.saturating_add_signed(error);
        if self.deviation_us > self.most_deviation_us {
            self.most_deviation_us = self.deviation_us;
            self.variance_us = self.variance_us.max(self.most_deviation_us);
        }
        if acked.after(self.round_end) {
            if self.most_deviation_us < self.variance_us {
                self.variance_us -= (self.variance_us - self.most_deviation_us) >> 2;
            }
            self.round_end = sent;
            self.most_deviation_us = floor;
        }
    }

    /// Takes a sample into the smoothed round trip. Returns its difference from the value before,
    /// in microseconds.
    #[inline]
    fn smooth(&mut self, eighths: NonZeroU32, rtt_us: u32) -> i32 {
        let error = rtt_us as i32 - (eighths.get() >> 3) as i32;
        let smoothed = eighths.get().saturating_add_signed(error).max(1);
        self.smoothed_us = NonZeroU32::new(smoothed);
        error
    }

    /// `tcp_set_rto`.
    #[inline]
    pub(super) fn set_rto(&mut self, cx: &Context) {
        let rto_us = self.smoothed_us().unwrap_or(0).saturating_add(self.variance_us);
        self.rto = cx.jiffies_in(rto_us.min(cx.config.max_rto.as_us() as u32));
    }

    /// RFC 6298 (2.2), (2.3), with samples and variance in whole ticks.
    pub(super) fn estimate_classic(&mut self, cx: &Context, rtt_us: u32) {
        let tick = cx.tick_us();
        let rtt_us = (rtt_us.min(LONGEST_RTT_US) / tick).max(1) * tick;
        if let Some(eighths) = self.smoothed_us {
            let error = self.smooth(eighths, rtt_us).abs() - (self.variance_us >> 2) as i32;
            self.variance_us = self.variance_us.saturating_add_signed(error).max(1);
        } else {
            self.smoothed_us = NonZeroU32::new(rtt_us << 3);
            self.variance_us = rtt_us << 1;
        }
        let rto_us = self.smoothed_us().unwrap_or(0).saturating_add(self.variance_us);
        let bounds = (cx.config.min_rto.as_us() as u32, cx.config.max_rto.as_us() as u32);
        self.rto = cx.jiffies_in(rto_us.clamp(bounds.0, bounds.1));
    }
}

/// The longest round trip: an eighth of what 32 bits hold, in microseconds: about 9 minutes.
pub(super) const LONGEST_RTT_US: u32 = u32::MAX >> 3;
