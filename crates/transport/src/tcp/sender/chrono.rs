//! How long a sender had something to send or to be acknowledged, and how long nothing but the
//! receiver's window held it back.
//!
//! These are `tcpi_busy_time` and `tcpi_rwnd_limited` of Linux' `struct tcp_info`, as ss(8) shows
//! them. Differences: time is counted in milliseconds instead of jiffies. Both states are determined
//! at the end of a burst, which follows all that can change them. Nothing limits the send buffer, so
//! there is no third state.

use narrows_units::{Span, Time};

use super::Sender;
use crate::tcp::clock::Context;

impl Sender {
    /// Starts and stops the stopwatches after a burst. `cwnd_limited`: whether the congestion window
    /// is full. If both windows are full, the congestion window counts.
    #[inline(always)]
    pub(super) fn time_states(&mut self, cx: &Context, cwnd_limited: bool) {
        let waits = self.has_new_data();
        self.busy.set(waits || self.packets_out > 0, cx.now);
        self.rwnd_limited.set(waits && !cwnd_limited && !self.fits_peer_window(), cx.now);
    }

    /// Stops both stopwatches for good.
    pub(super) fn stop_timing(&mut self, cx: &Context) {
        self.busy.set(false, cx.now);
        self.rwnd_limited.set(false, cx.now);
    }
}

/// A stopwatch in four bytes. While it is stopped, the number of milliseconds that it shows. While
/// it runs, the complement (which is negative) of the time at which it would show the same if it
/// had run without a pause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopwatch(i32);

impl Stopwatch {
    /// Starts or stops it at `now`, unless that is its state already.
    #[inline(always)]
    fn set(&mut self, runs: bool, now: Time) {
        if runs != (self.0 < 0) {
            self.0 = if runs { !(ms(now) - self.0) } else { ms(now) - !self.0 };
        }
    }

    /// Returns what it shows at `now`.
    pub(super) fn read(self, now: Time) -> Span {
        let shown = if self.0 < 0 { ms(now) - !self.0 } else { self.0 };
        Span::from_ms(shown as u64)
    }
}

/// Returns the milliseconds since the start of the run. After 24 days, they stand still.
fn ms(at: Time) -> i32 {
    i32::try_from(at.since(Time::ZERO).as_ms()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_stopwatch_adds_up_the_times_in_which_it_ran() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut watch = Stopwatch::default();
        let mut shown = Vec::new();
        // From the very start, without a pause, and started twice.
        for (ms, runs) in [(0, true), (3, true), (5, false), (5, true), (7, false), (90, false)] {
            watch.set(runs, at(ms));
            shown.push(watch.read(at(ms)).as_ms());
        }
        assert_eq!(shown, [0, 3, 5, 5, 7, 7]);
        watch.set(true, at(100));
        assert_eq!([100, 104].map(|ms| watch.read(at(ms)).as_ms()), [7, 11]);
        assert!(watch.read(Time::MAX) > Span::from_secs(24 * 86_400));
    }
}
