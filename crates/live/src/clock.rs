//! The clock of a run.

use std::time::Duration;

use narrows_units::Time;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// The time since a run's start, by `CLOCK_MONOTONIC`.
///
/// All processes of a machine have this clock in common, so several of them can start at the same
/// moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The start, in nanoseconds of `CLOCK_MONOTONIC`.
    origin: u64,
}

impl Clock {
    /// Creates the clock of a run that starts at `origin`, a time of `CLOCK_MONOTONIC`.
    pub const fn starting_at(origin: Duration) -> Self {
        Self { origin: origin.as_nanos() as u64 }
    }

    /// Creates the clock of a run that starts now.
    pub fn starting_now() -> Self {
        Self { origin: monotonic() }
    }

    /// Returns whether the run's start has passed.
    pub fn has_started(self) -> bool {
        monotonic() >= self.origin
    }

    /// Returns the time of the run, or its start if it has not begun.
    pub(crate) fn now(self) -> Time {
        Time::from_ps(monotonic().saturating_sub(self.origin) * PS_IN_NS)
    }

    /// Returns `at` as a time of `CLOCK_MONOTONIC`, rounded up to a nanosecond.
    pub(crate) fn absolute(self, at: Time) -> TimeSpec {
        let ns = self.origin.saturating_add(at.as_ps().div_ceil(PS_IN_NS));
        TimeSpec::from_duration(Duration::from_nanos(ns))
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    Duration::from(now).as_nanos() as u64
}

const PS_IN_NS: u64 = 1000;
