//! Random numbers: a stream for each component, derived from the run's seed and the component's name.
//!
//! Adding a component changes no other component's random numbers.

use narrows_units::Span;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::mix;

/// Returns a uniform number in [0, 1), in steps of 2^-32.
#[inline]
pub(crate) fn uniform(random: &mut Pcg32) -> f64 {
    f64::from(random.next_u32()) / 4_294_967_296.0
}

/// A component's own stream of random numbers (PCG-XSH-RR 64/32, O'Neill 2014).
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

impl Random {
    /// Creates the stream of component `name` in the run with `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        Self(Pcg32::seed_from_u64(stream_seed(seed, name)))
    }

    /// Returns 32 random bits.
    #[inline]
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Returns a uniform number in [0, 1), with 53 bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns an exponentially distributed span with the given mean.
    pub fn exponential(&mut self, mean: Span) -> Span {
        Span::from_secs_f64(self.standard_exponential() * mean.as_secs_f64())
    }

    /// Returns an exponentially distributed number with mean 1.
    pub fn standard_exponential(&mut self) -> f64 {
        // 1 - u is in (0, 1], so the logarithm is finite.
        -libm::log(1.0 - self.uniform())
    }

    /// Returns a Pareto-distributed number with the given mean and a shape above 1.
    pub fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        let scale = mean * (shape - 1.0) / shape;
        scale * libm::pow(1.0 - self.uniform(), -1.0 / shape)
    }
}

/// Returns the seed of component `name`: FNV-1a over the name, mixed with the run's seed by
/// SplitMix64.
pub fn stream_seed(seed: u64, name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    split_mix(split_mix(seed) ^ hash)
}

/// Returns the first number of SplitMix64 with the state `x` (Steele, Lea, Flood 2014).
fn split_mix(x: u64) -> u64 {
    mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_by_seed() {
        let first = |seed, name| Random::new(seed, name).bits();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::new(7, "idle");
        let n = 200_000;
        let sum: f64 = (0..n).map(|_| random.exponential(Span::from_secs(2)).as_secs_f64()).sum();
        // The standard error of the mean is 2 / sqrt(200000) = 0.0045; five of them are allowed.
        assert!((sum / f64::from(n) - 2.0).abs() < 0.0224);
    }
}
