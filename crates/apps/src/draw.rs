//! Amounts and pauses that are constant, listed or drawn at random.
//!
//! The mean fixes the scale of a Pareto distribution: scale = mean (shape - 1) / shape, and P(X >
//! x) = (scale / x)^shape above it. With a shape of 2 or less the variance is infinite, so short
//! runs seldom show the mean.

use narrows_units::settings::{Kind, Rule, Setting, Value, entries, number};
use narrows_units::{Bytes, ConfigError, Span};

use crate::Random;

/// A quantity that is needed again and again.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Draw<Q> {
    /// Always the same.
    Constant(Q),
    /// Exponentially distributed.
    Exponential {
        /// The mean.
        mean: Q,
    },
    /// Pareto-distributed.
    Pareto {
        /// The mean.
        mean: Q,
        /// The exponent of the tail, above 1.
        shape: f64,
    },
    /// Listed. After the last entry the first follows again.
    List(Vec<Q>),
}

impl<Q: Setting> Setting for Draw<Q> {
    const KIND: Kind = Kind::Drawn(&Q::KIND);

    fn value(&self) -> Value {
        match self {
            Self::Constant(value) => value.value(),
            _ => Value::Open,
        }
    }

    /// Checks constants, means and the entries of lists.
    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        match self {
            Self::Constant(value) | Self::Exponential { mean: value } => value.check(key, rule),
            Self::Pareto { mean, shape } => {
                SHAPE.check(&format!("{key}.shape"), *shape)?;
                mean.check(key, rule)
            }
            Self::List(list) => {
                ENTRIES.check_entries(key, list.len())?;
                list.iter().try_for_each(|value| value.check(key, rule))
            }
        }
    }
}

/// The rule for the shape of a Pareto distribution, which has no mean at 1 or below.
const SHAPE: Rule = Rule { above: true, ..number(1.0, 1000.0) };
/// The rule for the length of a list.
const ENTRIES: Rule = entries(1, 10_000);

impl Draw<Span> {
    /// Returns amount number `turn`, counted from 0.
    pub(crate) fn next(&self, random: &mut Random, turn: u32) -> Span {
        match self {
            Self::Constant(span) => *span,
            Self::Exponential { mean } => random.exponential(*mean),
            Self::Pareto { mean, shape } => {
                Span::from_secs_f64(random.pareto(mean.as_secs_f64(), *shape))
            }
            Self::List(list) => list[turn as usize % list.len()],
        }
    }
}

impl Draw<Bytes> {
    /// Returns amount number `turn`, counted from 0; at least one byte.
    pub(crate) fn next(&self, random: &mut Random, turn: u32) -> u64 {
        let whole = |bytes: f64| (bytes.round() as u64).clamp(1, MOST_BYTES);
        match self {
            Self::Constant(bytes) => bytes.get(),
            Self::Exponential { mean } => whole(random.standard_exponential() * mean.get() as f64),
            Self::Pareto { mean, shape } => whole(random.pareto(mean.get() as f64, *shape)),
            Self::List(list) => list[turn as usize % list.len()].get(),
        }
    }
}

/// A petabyte: the most that the scenario language allows for a transfer.
pub(crate) const MOST_BYTES: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(draw: &Draw<Span>, n: u32) -> Vec<f64> {
        let mut random = Random::new(3, "idle");
        (0..n).map(|turn| draw.next(&mut random, turn).as_secs_f64()).collect()
    }

    /// P(X > x) = (scale / x)^shape, within five standard errors.
    #[test]
    fn pareto_has_its_scale_and_its_tail() {
        let draw = Draw::Pareto { mean: Span::from_secs(2), shape: 1.5 };
        let all = samples(&draw, 100_000);
        let scale = 2.0 * 0.5 / 1.5;
        assert!(all.iter().all(|&x| x >= scale * 0.999_999));
        for multiple in [2.0_f64, 10.0, 100.0] {
            let expected = libm::pow(multiple, -1.5);
            let above = all.iter().filter(|&&x| x > multiple * scale).count() as f64 / 1e5;
            let error = (expected * (1.0 - expected) / 1e5).sqrt();
            assert!((above - expected).abs() < 5.0 * error, "{multiple}: {above} {expected}");
        }
    }

    #[test]
    fn pareto_has_its_mean_where_it_has_a_variance() {
        let draw = Draw::Pareto { mean: Bytes::new(100_000), shape: 3.0 };
        let mut random = Random::new(5, "size");
        let n = 100_000;
        let sum: f64 = (0..n).map(|turn| draw.next(&mut random, turn) as f64).sum();
        // The standard deviation is mean / sqrt(shape (shape - 2)) = 57,735; five standard errors
        // are allowed.
        assert!((sum / f64::from(n) - 1e5).abs() < 5.0 * 57_735.0 / 316.0);
    }

    #[test]
    fn a_list_starts_again_at_its_end() {
        let draw = Draw::List([1, 3].map(Span::from_secs).to_vec());
        assert_eq!(samples(&draw, 5), [1.0, 3.0, 1.0, 3.0, 1.0]);
    }
}
