//! A non-negative number whose exponent does not overflow.
//!
//! It serves averages that all decay alike. Instead of shrinking each average with time, the caller
//! enlarges what it adds. The order of such numbers never changes with time, but they soon exceed
//! what an `f64` can hold. Only additions and multiplications of `f64` are used, so every machine
//! and compiler gives the same bits.

use core::cmp::Ordering;
use core::ops::{Add, Mul};

/// `mantissa` times 2 to the power of `exponent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaled {
    exponent: i64,
    /// At least 1 and below 2, or 0 if the number is zero. The exponent is then the smallest.
    mantissa: f64,
}

impl Scaled {
    pub(super) const ZERO: Self = Self { exponent: i64::MIN, mantissa: 0.0 };
    pub(super) const ONE: Self = Self { exponent: 0, mantissa: 1.0 };

    /// Converts a number above 2^-1022. Everything smaller, negative or NaN becomes zero.
    pub(super) fn new(value: f64) -> Self {
        if value.is_nan() || value < f64::MIN_POSITIVE {
            return Self::ZERO;
        }
        let value = value.min(f64::MAX);
        let exponent = (value.to_bits() >> 52) as i64 - BIAS;
        let mantissa = f64::from_bits(value.to_bits() & FRACTION | (BIAS as u64) << 52);
        Self { exponent, mantissa }
    }

    /// Returns the number raised to the power of `exponent`, by squaring.
    pub(super) fn power(mut self, mut exponent: u64) -> Self {
        let mut result = Self::ONE;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * self;
            }
            self = self * self;
            exponent >>= 1;
        }
        result
    }

    /// Returns the ratio to `other`, which must not be zero.
    pub(super) fn over(self, other: Self) -> f64 {
        if self.mantissa == 0.0 {
            return 0.0;
        }
        match self.exponent.saturating_sub(other.exponent) {
            power if power > 1000 => f64::MAX,
            power if power < -1000 => 0.0,
            power => self.mantissa / other.mantissa * two_to(power),
        }
    }

    fn normal(exponent: i64, mantissa: f64) -> Self {
        if mantissa < 2.0 {
            Self { exponent, mantissa }
        } else {
            Self { exponent: exponent.saturating_add(1), mantissa: mantissa / 2.0 }
        }
    }
}

impl Mul for Scaled {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return Self::ZERO;
        }
        // At least 1 and below 4.
        let mantissa = self.mantissa * other.mantissa;
        Self::normal(self.exponent.saturating_add(other.exponent), mantissa)
    }
}

impl Add for Scaled {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (large, small) = if self < other { (other, self) } else { (self, other) };
        let shift = large.exponent.saturating_sub(small.exponent);
        // Beyond 53 bits nothing is left of the smaller one.
        if small.mantissa == 0.0 || shift > 60 {
            return large;
        }
        Self::normal(large.exponent, large.mantissa + small.mantissa * two_to(-shift))
    }
}

impl Ord for Scaled {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Positive numbers are ordered like their bits.
        let key = |it: &Self| (it.exponent, it.mantissa.to_bits());
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Scaled {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scaled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scaled {}

const BIAS: i64 = 1023;
const FRACTION: u64 = (1 << 52) - 1;

/// Returns 2 raised to the power of `exponent`, which must be between -1022 and 1023.
#[inline]
fn two_to(exponent: i64) -> f64 {
    f64::from_bits(((BIAS + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_computes_like_f64_where_that_can() {
        let values = [0.0, 1e-9, 0.3, 1.0, 1.5, 2.0, 1e6, 12345.678];
        for a in values {
            assert_eq!(Scaled::new(a).over(Scaled::ONE), a);
            for b in values {
                let (x, y) = (Scaled::new(a), Scaled::new(b));
                assert_eq!((x + y).over(Scaled::ONE), a + b);
                assert_eq!((x * y).over(Scaled::ONE), a * b);
                assert_eq!((x.cmp(&y), x == y), (a.total_cmp(&b), a == b));
            }
        }
    }

    #[test]
    fn powers_do_not_overflow() {
        let two = Scaled::new(2.0);
        assert_eq!(two.power(5_000).over(two.power(4_990)), 1024.0);
        assert!(Scaled::new(1.03).power(1 << 40) > Scaled::new(f64::MAX));
        let most = Scaled::new(f64::MAX).power(u64::MAX);
        assert_eq!((most * most).exponent, i64::MAX);
        assert_eq!(most.over(Scaled::ONE), f64::MAX);
        assert_eq!(Scaled::ONE.over(most), 0.0);
    }

    #[test]
    fn what_is_no_number_from_zero_up_is_zero() {
        for value in [-1.0, f64::NAN, f64::NEG_INFINITY, 1e-320, -0.0] {
            assert_eq!(Scaled::new(value), Scaled::ZERO);
        }
        assert_eq!(Scaled::new(f64::INFINITY), Scaled::new(f64::MAX));
        assert_eq!(Scaled::ZERO + Scaled::ONE, Scaled::ONE);
    }
}
