//! Instants and durations in integer picoseconds.
//!
//! A 64-bit count of picoseconds spans 213 days, far longer than any run. Whatever would be longer
//! becomes [`Span::MAX`] or [`Time::MAX`]: constructors, sums, differences and products saturate
//! rather than wrap. So "never" stays "never".

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::print::write_in_largest;

/// An instant of simulated time: picoseconds since the start of the run. To C, it is a `uint64_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Time(u64);

/// A duration: a non-negative count of picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span(u64);

const PS_PER_S: u64 = 1_000_000_000_000;

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than every event: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `ps` picoseconds after the start.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Returns the picoseconds since the start.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start, for tables and plots (53 bits of precision).
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a span of `ps` picoseconds.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Creates a span of `ns` nanoseconds.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// Creates a span of `us` microseconds.
    #[inline]
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }

    /// Creates a span of `ms` milliseconds.
    #[inline]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }

    /// Creates a span of `s` seconds.
    #[inline]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(PS_PER_S))
    }

    /// Returns the span nearest to `s` seconds; zero for negative or non-finite values.
    #[inline]
    pub fn from_secs_f64(s: f64) -> Self {
        // `as` saturates and maps NaN to zero.
        let ps = s * PS_PER_S as f64;
        let whole = ps as u64;
        Self(whole.saturating_add(u64::from(ps - whole as f64 >= 0.5)))
    }

    /// Returns the picoseconds.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns the whole microseconds, rounded down.
    #[inline]
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the whole milliseconds, rounded down.
    #[inline]
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Returns the seconds, for tables and plots.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// Returns this span minus `other`, or zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    #[inline]
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Span {
    type Output = Self;
    #[inline]
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl fmt::Display for Span {
    /// Prints the exact value in the largest unit that it reaches: `50 ms`, `1.2 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 5] = [("s", 12), ("ms", 9), ("us", 6), ("ns", 3), ("ps", 0)];
        if self.0 == 0 { f.write_str("0 s") } else { write_in_largest(f, self.0, &UNITS) }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::MAX + Span::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO.since(Time::MAX), Span::ZERO);
    }

    /// 2^64 ps are 213 days, 12 hours, 5 minutes and 44.073709551616 seconds.
    #[test]
    fn what_is_longer_than_213_days_is_the_longest_span() {
        let whole_seconds = 213 * 86_400 + 12 * 3_600 + 5 * 60 + 44;
        assert_eq!(Span::from_secs(whole_seconds).as_ps(), whole_seconds * 1_000_000_000_000);
        let most = [
            Span::from_secs(whole_seconds + 1),
            Span::from_ms((whole_seconds + 1) * 1_000),
            Span::from_us((whole_seconds + 1) * 1_000_000),
            Span::from_ns((whole_seconds + 1) * 1_000_000_000),
            Span::from_secs(u64::MAX),
            Span::from_ms(u64::MAX),
            Span::from_us(u64::MAX),
            Span::from_ns(u64::MAX),
            Span::from_secs_f64(1e300),
            Span::from_secs(whole_seconds) + Span::from_secs(1),
            Span::from_secs(whole_seconds) * 2,
        ];
        assert_eq!(most, [Span::MAX; 11]);
    }

    #[test]
    fn spans_print_in_their_largest_unit() {
        assert_eq!(Span::from_ms(50).to_string(), "50 ms");
        assert_eq!(Span::from_ns(1_200).to_string(), "1.2 us");
        assert_eq!(Span::from_secs(90).to_string(), "90 s");
        assert_eq!(Span::ZERO.to_string(), "0 s");
        // More digits than a floating-point number has.
        assert_eq!(
            Span::from_ps(12_345_678_901_234_567_801).to_string(),
            "12345678.901234567801 s"
        );
    }

    #[test]
    fn float_seconds_round_to_the_nearest_picosecond() {
        assert_eq!(Span::from_secs_f64(0.1), Span::from_ms(100));
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
    }
}
