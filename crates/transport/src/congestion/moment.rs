//! The time as congestion controls count it: in microseconds, and in ticks of the host's clock.

use narrows_units::{Span, Time};

/// The time of one step of a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub now: Time,
    /// Microseconds since the start, modulo 2^32; compare differences only.
    pub us: u32,
    /// How long a tick (jiffy) of the host's clock takes.
    pub tick: Span,
}

impl Moment {
    /// Returns the microseconds per jiffy.
    #[inline]
    pub(crate) fn tick_us(&self) -> u32 {
        (self.tick.as_us() as u32).max(1)
    }

    /// Returns the current jiffy.
    #[inline]
    pub(crate) fn jiffies(&self) -> u32 {
        ((self.now.as_ps() / PS_PER_US) / u64::from(self.tick_us())) as u32
    }

    /// Converts microseconds to jiffies, rounded up (`usecs_to_jiffies`).
    #[inline]
    pub(crate) fn jiffies_in(&self, us: u32) -> u32 {
        us.div_ceil(self.tick_us())
    }

    /// Converts a span to jiffies, rounded up.
    #[inline]
    pub(crate) fn span_to_jiffies(&self, span: Span) -> u32 {
        self.jiffies_in(u32::try_from(span.as_us()).unwrap_or(u32::MAX - MAX_TICK_US))
    }
}

/// Returns the time from `earlier` to `later` on the microsecond clock.
#[inline]
pub(crate) fn elapsed_us(later: u32, earlier: u32) -> u32 {
    let delta = later.wrapping_sub(earlier);
    if delta > u32::MAX / 2 { 0 } else { delta }
}

const PS_PER_US: u64 = 1_000_000;
/// The longest tick in microseconds.
const MAX_TICK_US: u32 = 1_000_000;
