//! Rates, and the time that a number of bytes takes at a rate.

use core::fmt;

use crate::print::write_in_largest;
use crate::{Bytes, Span};

/// A rate in bits per second; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate(core::num::NonZeroU64);

/// A rate prepared for repeated use: picoseconds per byte, with a fraction of 32 bits. Below 1863
/// bit/s, the fraction has as many of these bits as 64 bits leave room for (20 at 1 bit/s).
///
/// The time for `n` bytes is rounded down. The error is below one picosecond for every packet size,
/// and zero for rates that divide 8 Tbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    per_byte: u64,
    fraction_bits: u8,
}

impl Rate {
    /// Returns a rate of `bps` bits per second, or `None` for zero.
    #[inline]
    pub const fn from_bps(bps: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(bps) {
            Some(bps) => Some(Self(bps)),
            None => None,
        }
    }

    /// Returns the bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0.get()
    }

    /// Returns the rate in the form that [`Pace::time_for`] needs.
    #[inline]
    pub const fn pace(self) -> Pace {
        const PS_BITS: u128 = 8 * 1_000_000_000_000;
        let bps = self.0.get() as u128;
        let mut fraction_bits = 32;
        while (PS_BITS << fraction_bits).div_ceil(bps) > u64::MAX as u128 {
            fraction_bits -= 1;
        }
        Pace { per_byte: (PS_BITS << fraction_bits).div_ceil(bps) as u64, fraction_bits }
    }

    /// Returns the time to send `bytes` at this rate.
    #[inline]
    pub const fn time_for(self, bytes: Bytes) -> Span {
        self.pace().time_for(bytes)
    }
}

impl Pace {
    /// Returns the time to send a frame of `bytes`, rounded down. `bytes` must be below 2^20; debug
    /// builds panic otherwise.
    #[inline]
    pub const fn time_for_frame(self, bytes: u32) -> Span {
        // 2^20 bytes at 1 bit/s: 8.4e18 ps, which 64 bits hold.
        debug_assert!(bytes < 1 << 20);
        Span::from_ps(((self.per_byte as u128 * bytes as u128) >> self.fraction_bits) as u64)
    }

    /// Returns the time to send `bytes`, rounded down to a picosecond. Saturates.
    #[inline]
    pub const fn time_for(self, bytes: Bytes) -> Span {
        let ps = (self.per_byte as u128 * bytes.get() as u128) >> self.fraction_bits;
        Span::from_ps(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("Gbit/s", 9), ("Mbit/s", 6), ("kbit/s", 3), ("bit/s", 0)];
        write_in_largest(f, self.as_bps(), &UNITS)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn mbit(mbit: u64) -> Rate {
        Rate::from_bps(mbit * 1_000_000).expect("not zero")
    }

    #[test]
    fn a_full_frame_takes_1230_us_at_10_mbit() {
        // 1538 bytes on the wire: 1500 of IP, 14 + 4 of Ethernet, 20 of preamble and gap.
        assert_eq!(mbit(10).time_for(Bytes::new(1538)), Span::from_ns(1_230_400));
    }

    #[test]
    fn fractional_picoseconds_per_byte_stay_below_one_picosecond_of_error() {
        // DS1: 8e12 / 1.544e6 = 5181347.1503... ps per byte.
        let ds1 = Rate::from_bps(1_544_000).expect("not zero");
        assert_eq!(ds1.time_for(Bytes::new(1500)), Span::from_ps(7_772_020_725));
        assert_eq!(ds1.time_for(Bytes::new(65_535)), Span::from_ps(339_559_585_492));
    }

    #[test]
    fn absurd_spans_saturate() {
        let slow = Rate::from_bps(1).expect("not zero");
        assert_eq!(slow.time_for(Bytes::new(u64::MAX)), Span::MAX);
    }

    #[test]
    fn rates_print_in_their_largest_unit() {
        assert_eq!(mbit(10).to_string(), "10 Mbit/s");
        assert_eq!(Rate::from_bps(1_544_000).expect("not zero").to_string(), "1.544 Mbit/s");
    }
}
