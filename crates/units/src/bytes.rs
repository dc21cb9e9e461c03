//! Numbers of bytes.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// More than any queue holds: "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a number of `n` bytes.
    #[inline]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns this minus `other`, or zero.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<u32> for Bytes {
    #[inline]
    fn from(n: u32) -> Self {
        Self(u64::from(n))
    }
}

impl From<u16> for Bytes {
    #[inline]
    fn from(n: u16) -> Self {
        Self(u64::from(n))
    }
}

impl Add for Bytes {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// Returns the difference. A negative one is a bug of the caller and panics in debug builds.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Bytes {
    /// Prints the exact number, in the largest unit in which it is whole: `375 kB`, `1514 B`,
    /// `32 MiB`. It does not use KiB: 4096 B and 65536 B are better known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] = [
            ("GB", 1_000_000_000),
            ("GiB", 1 << 30),
            ("MB", 1_000_000),
            ("MiB", 1 << 20),
            ("kB", 1_000),
        ];
        let whole = UNITS.iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        let (unit, scale) = whole.copied().unwrap_or(("B", 1));
        write!(f, "{} {unit}", self.0 / scale)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn sizes_print_in_the_largest_unit_in_which_they_are_whole() {
        for (bytes, text) in [
            (0, "0 B"),
            (1_514, "1514 B"),
            (4_096, "4096 B"),
            (65_536, "65536 B"),
            (375_000, "375 kB"),
            (1_024_000, "1024 kB"),
            (1 << 20, "1 MiB"),
            (32 << 20, "32 MiB"),
            (3_000_000, "3 MB"),
            (1 << 30, "1 GiB"),
            (2_000_000_000, "2 GB"),
            (u64::MAX, "18446744073709551615 B"),
        ] {
            assert_eq!(Bytes::new(bytes).to_string(), text);
        }
    }
}
