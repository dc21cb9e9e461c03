//! Round-trip estimation and the retransmission timeout.
//!
//! Written from RFC 6298 (2), and from Sarolahti and Kuznetsov, "Congestion control in Linux TCP"
//! (USENIX, 2002), which describes the variance of Linux: it is the largest mean deviation of a round
//! trip, and falls by a quarter of what it exceeds that of the next one. Shorter round trips move
//! the mean deviation by an eighth only. The shortest round trip counts for 300 s, as in Linux, but
//! by milliseconds instead of jiffies. Classic senders keep RFC 6298's own variance, in ticks, as
//! ns-2 does.

use core::cmp::Reverse;
use core::num::NonZeroU32;

use crate::congestion::MaxFilter;
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
    /// The shortest round trip of the last 300 s.
    shortest_us: Option<MaxFilter<Reverse<NonZeroU32>>>,
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

    /// Returns the smoothed round trip in microseconds, unless it is shorter than one.
    #[inline]
    pub(super) fn smoothed_us(&self) -> Option<u32> {
        self.smoothed_us.map(|eighths| eighths.get() >> 3).filter(|&us| us > 0)
    }

    /// Returns the smoothed round trip in eighths of a microsecond (`srtt_us`).
    pub(super) fn smoothed_eighths_us(&self) -> Option<u32> {
        self.smoothed_us.map(NonZeroU32::get)
    }

    /// Returns twice the smoothed round trip in microseconds.
    #[inline]
    pub(super) fn twice_smoothed_us(&self) -> Option<u32> {
        self.smoothed_us.map(|eighths| eighths.get() >> 2)
    }

    /// Returns the shortest round trip in microseconds.
    #[inline]
    pub(super) fn shortest_us(&self) -> Option<u32> {
        self.shortest_us.map(|kept| kept.max().0.get())
    }

    /// Notes a round trip that may be the shortest, in microseconds.
    #[inline]
    pub(super) fn note_shortest(&mut self, cx: &Context, rtt_us: u32) {
        let ms = cx.timestamp();
        let rtt_us = Reverse(NonZeroU32::new(rtt_us).unwrap_or(NonZeroU32::MIN));
        match &mut self.shortest_us {
            Some(kept) => kept.note(ms, rtt_us, SHORTEST_LASTS_MS),
            none => *none = Some(MaxFilter::new(ms, rtt_us)),
        }
    }

    /// RFC 6298 (5.5).
    pub(super) fn back_off(&mut self, cx: &Context) {
        self.rto = self.rto.saturating_mul(2).min(cx.span_to_jiffies(cx.config.max_rto));
    }

    /// Takes a sample into the mean, its deviation, and the variance. The variance rises at once,
    /// and falls at most once in a round trip.
    #[inline]
    pub(super) fn estimate(&mut self, cx: &Context, rtt_us: u32, (acked, sent): (Seq, Seq)) {
        let floor = cx.config.min_rto.as_us() as u32;
        let rtt_us = rtt_us.min(LONGEST_RTT_US);
        let Some(eighths) = self.smoothed_us else {
            // RFC 6298 (2.2).
            self.smoothed_us = NonZeroU32::new(rtt_us << 3);
            self.deviation_us = rtt_us << 1;
            self.most_deviation_us = self.deviation_us.max(floor);
            self.variance_us = self.most_deviation_us;
            self.round_end = sent;
            return;
        };
        let error = self.smooth(eighths, rtt_us);
        // RFC 6298 (2.3), with four times the mean deviation.
        let rise = error.abs() - (self.deviation_us / 4) as i32;
        let is_damped = error < 0 && rise > 0;
        let rise = if is_damped { rise >> 3 } else { rise };
        self.deviation_us = self.deviation_us.saturating_add_signed(rise);
        self.most_deviation_us = self.most_deviation_us.max(self.deviation_us);
        self.variance_us = self.variance_us.max(self.most_deviation_us);
        if acked.after(self.round_end) {
            self.variance_us -= (self.variance_us - self.most_deviation_us) / 4;
            self.most_deviation_us = floor;
            self.round_end = sent;
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

    /// RFC 6298 (2.3): the timeout is the mean and the variance.
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
/// How long the shortest round trip counts (`sysctl_tcp_min_rtt_wlen`).
const SHORTEST_LASTS_MS: u32 = 300_000;

#[cfg(test)]
mod tests {
    use narrows_units::{Span, Time};

    use super::*;
    use crate::tcp::Config;

    fn profile(name: &str) -> Config {
        Config::profile(name).expect("a known profile")
    }

    /// The estimator, step by step: eight times the mean, four times the mean deviation, its
    /// maximum in this round trip, and the variance, in microseconds.
    #[test]
    fn linux_raises_the_variance_at_once_and_lowers_it_once_in_a_round_trip() {
        let config = profile("linux-6");
        let cx = Context::new(&config, Time::ZERO);
        let mut rtt = Rtt::new(Seq(1));
        let ends = |acked| (Seq(acked), Seq(acked + 9000));
        for (sample_us, acked, expected, rto) in [
            (100_000, 1000, (800_000, 200_000, 200_000, 200_000), 75),
            // 80 ms more: 30 more than the deviation.
            (180_000, 10_000, (880_000, 230_000, 230_000, 230_000), 85),
            // 50 ms less, which is less than the deviation of 57.5.
            (60_000, 10_000, (830_000, 222_500, 230_000, 230_000), 84),
            // 83.75 ms less: an eighth of what exceeds the deviation. The round trip has ended.
            (20_000, 10_001, (746_250, 226_015, 200_000, 230_000), 81),
            // The mean itself. A quarter of what the variance exceeds the minimum of 200 ms.
            (93_281, 19_001, (746_250, 169_512, 200_000, 230_000), 81),
            (93_281, 19_002, (746_250, 127_134, 200_000, 222_500), 79),
        ] {
            rtt.estimate(&cx, sample_us, ends(acked));
            rtt.set_rto(&cx);
            let state = (
                rtt.smoothed_us.map_or(0, NonZeroU32::get),
                rtt.deviation_us,
                rtt.most_deviation_us,
                rtt.variance_us,
            );
            assert_eq!((state, rtt.rto), (expected, rto), "{sample_us} {acked}");
        }
        assert_eq!((rtt.smoothed_us(), rtt.twice_smoothed_us()), (Some(93_281), Some(186_562)));
        // A first sample above the minimum.
        let mut rtt = Rtt::new(Seq(1));
        rtt.estimate(&cx, 150_000, ends(1000));
        assert_eq!((rtt.variance_us, rtt.most_deviation_us), (300_000, 300_000));
    }

    /// Times of an eighth of a microsecond and more, as far as 32 bits hold them.
    #[test]
    fn the_ends_of_what_can_be_measured() {
        let config = profile("linux-6");
        let cx = Context::new(&config, Time::ZERO);
        let mut rtt = Rtt::new(Seq(1));
        assert_eq!(
            (rtt.smoothed_us(), rtt.twice_smoothed_us(), rtt.shortest_us()),
            (None, None, None)
        );
        rtt.estimate(&cx, 0, (Seq(1), Seq(1)));
        assert_eq!(rtt.smoothed_us(), None);
        rtt.estimate(&cx, 1, (Seq(1), Seq(1)));
        assert_eq!((rtt.smoothed_us(), rtt.twice_smoothed_us()), (Some(1), Some(2)));
        let mut rtt = Rtt::new(Seq(1));
        rtt.estimate(&cx, u32::MAX, (Seq(1), Seq(1)));
        assert_eq!(rtt.smoothed_us(), Some(u32::MAX >> 3));
        rtt.set_rto(&cx);
        assert_eq!(rtt.rto, 30_000, "120 s");
        for (sample_us, shortest) in [(5000, 5000), (7000, 5000), (4000, 4000), (0, 1)] {
            rtt.note_shortest(&cx, sample_us);
            assert_eq!(rtt.shortest_us(), Some(shortest));
        }
    }

    /// `tcp_min_rtt_wlen`: 300 s, over which the best of the next ones takes over, and not just the
    /// last one.
    #[test]
    fn the_shortest_round_trip_counts_for_300_seconds() {
        let config = profile("linux-6");
        // Later than 32 bits count in microseconds.
        let began = Time::ZERO + Span::from_secs(10_000);
        let mut rtt = Rtt::new(Seq(1));
        for (ms, sample_us, shortest) in [
            (0, 50_000, 50_000),
            (100_000, 80_000, 50_000),
            (200_000, 90_000, 50_000),
            (300_000, 95_000, 50_000),
            (300_001, 95_000, 80_000),
            (400_001, 96_000, 90_000),
            (400_002, 70_000, 70_000),
            // A silence of a little more than 32 bits of microseconds.
            (400_002 + 4_294_968, 71_000, 71_000),
        ] {
            rtt.note_shortest(&Context::new(&config, began + Span::from_ms(ms)), sample_us);
            assert_eq!(rtt.shortest_us(), Some(shortest), "{ms} ms");
        }
    }

    /// RFC 6298 (2.2), (2.3), (2.4) and (2.5) in ticks of 10 ms: SRTT, RTTVAR and RTO in
    /// milliseconds.
    #[test]
    fn rfc6298_2_classic_senders_count_whole_ticks() {
        let config = Config { max_rto: Span::from_ms(2000), ..profile("ns-2") };
        let cx = Context::new(&config, Time::ZERO);
        let mut rtt = Rtt::new(Seq(1));
        for (sample_us, srtt, rttvar, rto_ms) in [
            (100_000, 100.0, 50.0, 300),
            // 3/4 * 50 + 1/4 * 40; 7/8 * 100 + 1/8 * 140.
            (149_999, 105.0, 47.5, 300),
            (100_000, 104.375, 36.875, 260),
            // The timeout is 200 ms at least, and 2 s at most.
            (104_375, 103.828_125, 28.75, 220),
            (104_375, 103.349_609, 22.519_531, 200),
            (104_375, 102.930_908, 17.727_051, 200),
            (9_000_000, 1_215.064_544, 2_237.562_561, 2000),
        ] {
            rtt.estimate_classic(&cx, sample_us);
            let near = |us: u32, ms: f64| (f64::from(us) / 1000.0 - ms).abs() < 0.002;
            assert!(near(rtt.smoothed_us().unwrap_or(0), srtt), "{sample_us}: {rtt:?}");
            assert!(near(rtt.variance_us / 4, rttvar), "{sample_us}: {rtt:?}");
            assert_eq!(rtt.rto * 10, rto_ms, "{sample_us}");
        }
        // Less than a tick counts as one.
        let mut rtt = Rtt::new(Seq(1));
        rtt.estimate_classic(&cx, 3000);
        assert_eq!((rtt.smoothed_us(), rtt.variance_us), (Some(10_000), 20_000));
    }

    /// RFC 6298 (5.5).
    #[test]
    fn a_timeout_doubles_the_next_one_up_to_the_maximum() {
        let config = Config { max_rto: Span::from_ms(2000), ..profile("linux-6") };
        let cx = Context::new(&config, Time::ZERO);
        let mut rtt = Rtt::new(Seq(1));
        rtt.rto = 75;
        let backed_off = [(); 4].map(|()| {
            rtt.back_off(&cx);
            rtt.rto
        });
        assert_eq!(backed_off, [150, 300, 500, 500]);
    }
}
