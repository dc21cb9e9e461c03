//! The clocks of an endpoint: microseconds for round trips, jiffies for timers, milliseconds in the
//! timestamps option.
//!
//! Source: Linux 6.1 kernel/time/timer.c (`calc_wheel_index`), include/net/tcp.h. Differences: all
//! hosts share one clock, with jiffy 0 at the start of the run.

use narrows_units::{Span, Time};

use super::{Config, TimerRounding};
use crate::congestion::Moment;
pub(super) use crate::congestion::elapsed_us;

/// The settings and the time, which every step of the state machine needs.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The settings of the endpoint.
    pub(super) config: &'a Config,
    /// The time.
    pub(super) now: Time,
    /// `tcp_mstamp`: microseconds since the start, modulo 2^32; compare differences only.
    pub(super) us: u32,
}

impl<'a> Context<'a> {
    /// Creates the context of a step at `now`.
    #[inline]
    pub(super) fn new(config: &'a Config, now: Time) -> Self {
        Self { config, now, us: (now.as_ps() / PS_PER_US) as u32 }
    }

    /// Returns the time alone, as congestion controls need it.
    #[inline]
    pub(super) fn moment(&self) -> Moment {
        Moment { now: self.now, us: self.us, tick: self.config.timer_granularity }
    }

    /// Returns the microseconds per jiffy.
    #[inline]
    pub(super) fn tick_us(&self) -> u32 {
        self.moment().tick_us()
    }

    /// Returns the current jiffy.
    #[inline]
    pub(super) fn jiffies(&self) -> u32 {
        self.moment().jiffies()
    }

    /// Converts microseconds to jiffies, rounded up (`usecs_to_jiffies`).
    #[inline]
    pub(super) fn jiffies_in(&self, us: u32) -> u32 {
        self.moment().jiffies_in(us)
    }

    /// Converts a span to jiffies, rounded up.
    #[inline]
    pub(super) fn span_to_jiffies(&self, span: Span) -> u32 {
        self.moment().span_to_jiffies(span)
    }

    /// Converts jiffies to microseconds (`jiffies_to_usecs`).
    #[inline]
    pub(super) fn us_in(&self, jiffies: u32) -> u32 {
        jiffies.saturating_mul(self.tick_us())
    }

    /// Limits a timer's jiffies to `max_rto`.
    #[inline]
    pub(super) fn bounded_timeout(&self, jiffies: u32) -> u32 {
        if u64::from(self.us_in(jiffies)) <= self.config.max_rto.as_us() {
            jiffies
        } else {
            jiffies.min(self.span_to_jiffies(self.config.max_rto))
        }
    }

    /// Returns the value of the timestamps option.
    #[inline]
    pub(super) fn timestamp(&self) -> u32 {
        timestamp(self.now)
    }

    /// Returns the value that the timestamps option had `us` microseconds ago.
    pub(super) fn timestamp_before(&self, us: u32) -> u32 {
        let then_us = (self.now.as_ps() / PS_PER_US).saturating_sub(u64::from(us));
        ((then_us / (PS_PER_MS / PS_PER_US)) as u32).wrapping_add(1)
    }

    /// Returns when a timer that is armed now for `jiffies` fires.
    ///
    /// Linux's timer wheel fires at the jiffy *after* the one asked for. From 63 jiffies on it
    /// rounds up to a multiple of 8, from 504 on to a multiple of 64, and so forth. Timers that
    /// fire at the same jiffy take turns within 5 us (`turn`).
    #[inline]
    pub(super) fn deadline(&self, jiffies: u32) -> Time {
        let tick = u64::from(self.tick_us());
        match self.config.timer_rounding {
            TimerRounding::Exact => self.now + Span::from_us(u64::from(jiffies) * tick),
            TimerRounding::Jiffy => at_jiffy(expires(self.now, tick, jiffies), tick),
            TimerRounding::Wheel => {
                let (fires, level) = slot(self.now, tick, jiffies);
                fires + turn(level, fires.since(self.now))
            }
        }
    }
}

/// Returns when the slot of the timer wheel begins in which a timer fires that is armed now, and the
/// level of the slot (`calc_wheel_index`).
#[inline]
pub(crate) fn slot(now: Time, tick_us: u64, jiffies: u32) -> (Time, u32) {
    let mut level = 0;
    while u64::from(jiffies) >= 63 << (3 * level) && level < 8 {
        level += 1;
    }
    let jiffy = ((expires(now, tick_us, jiffies) >> (3 * level)) + 1) << (3 * level);
    (at_jiffy(jiffy, tick_us), level)
}

#[inline]
fn expires(now: Time, tick_us: u64, jiffies: u32) -> u64 {
    (now.as_ps() / PS_PER_US) / tick_us + u64::from(jiffies)
}

#[inline]
fn at_jiffy(jiffy: u64, tick_us: u64) -> Time {
    Time::ZERO + Span::from_us(jiffy * tick_us)
}

/// Returns how long after its jiffy a timer of the wheel fires, among others of this jiffy.
///
/// `wait` is the time since it was armed. Linux fires the timers of the longest level first, and
/// within a level it begins with the one that was armed last (`enqueue_timer` puts it at the head
/// of a list, and `__run_timers` goes from the highest level down). The order decides whose
/// retransmission finds room in a full queue.
#[inline]
fn turn(level: u32, wait: Span) -> Span {
    /// The time for all timers of a level, in picoseconds: about a microsecond. Up to a jiffy of 16
    /// ms, the longest wait of a level takes less.
    const LEVEL: u64 = 1 << 20;
    let later_levels = u64::from(3_u32.saturating_sub(level));
    Span::from_ps(later_levels * LEVEL + (wait.as_ps() >> (20 + 3 * level)).min(LEVEL - 1))
}

/// Returns the value of the timestamps option at `now`: milliseconds, never 0 (RFC 7323, 5.4).
#[inline]
pub fn timestamp(now: Time) -> u32 {
    ((now.as_ps() / PS_PER_MS) as u32).wrapping_add(1)
}

const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::super::Reduction;
    use super::*;

    fn fires(profile: &str, at: Span, jiffies: u32) -> Span {
        let config = Config::profile(profile).expect("a known profile");
        let now = Time::ZERO + at;
        Context::new(&config, now).deadline(jiffies).since(now)
    }

    /// The same without the turn, which takes microseconds.
    fn slot_after(at: Span, jiffies: u32) -> Span {
        Span::from_ms(fires("linux-6", at, jiffies).as_ps() / PS_PER_MS)
    }

    #[test]
    fn the_wheel_fires_one_jiffy_later_and_coarser_far_away() {
        assert_eq!(slot_after(Span::ZERO, 50), Span::from_ms(204));
        assert_eq!(slot_after(Span::from_ms(3), 50), Span::from_ms(201));
        // 100 jiffies lie in level 1: 104 is the next multiple of 8.
        assert_eq!(slot_after(Span::ZERO, 100), Span::from_ms(416));
        // 600 jiffies lie in level 2: 640 is the next multiple of 64.
        assert_eq!(slot_after(Span::ZERO, 600), Span::from_ms(2560));
    }

    #[test]
    fn older_kernels_fire_at_the_jiffy_and_ns_2_exactly() {
        assert_eq!(fires("linux-2.6.30", Span::from_ms(3), 50), Span::from_ms(197));
        assert_eq!(fires("linux-2.6.30", Span::ZERO, 600), Span::from_ms(2400));
        assert_eq!(fires("ns-2", Span::from_ms(3), 50), Span::from_ms(500));
    }

    #[test]
    fn the_kind_of_reduction_does_not_move_a_timer() {
        let config = Config::profile("linux-6").expect("a known profile");
        let halving = Config { reduction: Reduction::RateHalving, ..config.clone() };
        assert_eq!(
            Context::new(&halving, Time::ZERO).deadline(50),
            Context::new(&config, Time::ZERO).deadline(50)
        );
    }

    #[test]
    fn at_a_jiffy_the_longest_level_fires_first_and_then_what_was_armed_last() {
        let config = Config::profile("linux-6").expect("a known profile");
        let armed = |at: Span, jiffies| Context::new(&config, Time::ZERO + at).deadline(jiffies);
        // All in the slot of jiffy 640: 600 jiffies from the start, 64 to 300 later, and 1 to 50.
        let order = [
            armed(Span::ZERO, 600),
            armed(Span::from_ms(2288), 64),
            armed(Span::from_us(2_287_960), 63),
            armed(Span::from_ms(1348), 300),
            armed(Span::from_ms(2552), 1),
            armed(Span::from_ms(2356), 50),
        ];
        assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
        let jiffy = Time::ZERO + Span::from_ms(2560);
        assert!(order.iter().all(|&at| at >= jiffy && at.since(jiffy) < Span::from_us(5)));
    }

    /// `calc_wheel_index`: level n begins at 63 * 8^(n - 1) jiffies and counts 8^n of them. A timer
    /// fires at the slot after the jiffy asked for.
    #[test]
    fn each_level_of_the_wheel_is_eight_times_coarser() {
        let config = Config {
            timer_granularity: Span::from_ms(1),
            ..Config::profile("linux-6").expect("a known profile")
        };
        for (armed_at, jiffies, fires_at) in [
            (0, 0, 1),
            (0, 62, 63),
            (0, 63, 64),
            (1, 63, 72),
            (0, 503, 504),
            (0, 504, 512),
            (8, 504, 576),
            (0, 4031, 4032),
            (0, 4032, 4096),
            (64, 4032, 4608),
            (0, 32_255, 32_256),
            (0, 32_256, 32_768),
            (512, 32_256, 36_864),
        ] {
            let at = Time::ZERO + Span::from_ms(armed_at);
            let fires = Context::new(&config, at).deadline(jiffies).since(Time::ZERO);
            assert_eq!(fires.as_ms(), fires_at, "{armed_at} {jiffies}");
            assert!(fires.saturating_sub(Span::from_ms(fires_at)) < Span::from_us(5));
        }
    }

    /// `usecs_to_jiffies` rounds up. A jiffy is 4 ms.
    #[test]
    fn jiffies_are_rounded_up() {
        let config = Config {
            max_rto: Span::from_ms(1000),
            ..Config::profile("linux-6").expect("a known profile")
        };
        let cx = Context::new(&config, Time::ZERO + Span::from_us(123_999));
        assert_eq!((cx.us, cx.jiffies(), cx.tick_us()), (123_999, 30, 4000));
        for (us, jiffies) in [(0, 0), (1, 1), (4000, 1), (4001, 2), (8000, 2)] {
            assert_eq!(cx.jiffies_in(us), jiffies, "{us}");
            assert_eq!(cx.span_to_jiffies(Span::from_us(us.into())), jiffies, "{us}");
        }
        assert_eq!((cx.us_in(3), cx.us_in(u32::MAX)), (12_000, u32::MAX));
        for (jiffies, bounded) in [(249, 249), (250, 250), (251, 250), (5000, 250)] {
            assert_eq!(cx.bounded_timeout(jiffies), bounded);
        }
        let without_tick = Config { timer_granularity: Span::ZERO, ..config.clone() };
        assert_eq!(Context::new(&without_tick, Time::ZERO).tick_us(), 1);
        let day = Span::from_secs(86_400);
        assert!(cx.span_to_jiffies(day) > 1_000_000, "as long as 32 bits count");
    }

    /// RFC 7323, 5.4: timestamps count milliseconds, here from 1.
    #[test]
    fn timestamps_count_milliseconds() {
        let config = Config::profile("linux-6").expect("a known profile");
        for (us, before, stamp) in [
            (0, 0, 1),
            (999, 0, 1),
            (1000, 0, 2),
            (123_999, 0, 124),
            (123_999, 999, 124),
            (123_999, 1000, 123),
            (5000, 5000, 1),
            (5000, 5001, 1),
        ] {
            let cx = Context::new(&config, Time::ZERO + Span::from_us(us));
            assert_eq!(cx.timestamp_before(before), stamp, "{us} {before}");
            if before == 0 {
                assert_eq!(cx.timestamp(), stamp);
            }
        }
    }

    #[test]
    fn time_never_runs_backwards() {
        for (later, earlier, elapsed) in [
            (10, 3, 7),
            (3, 10, 0),
            (4, u32::MAX, 5),
            (u32::MAX / 2, 0, u32::MAX / 2),
            (u32::MAX / 2 + 1, 0, 0),
        ] {
            assert_eq!(elapsed_us(later, earlier), elapsed);
        }
    }
}
