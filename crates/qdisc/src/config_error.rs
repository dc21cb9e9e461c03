//! Settings that no queue can have.

use core::fmt;

/// Why settings were refused; the text names the field.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// `limit` is zero: nothing could ever wait.
    LimitZero,
    /// A field that must be above zero is not, or is no number.
    NotPositive(&'static str),
    /// A field must lie above zero and at most at one.
    NotProbability(&'static str),
    /// A field exceeds the most that the source allows.
    Above(&'static str, u32),
    /// A field is less than the least that the source allows.
    Below(&'static str, u32),
    /// A field must lie above zero and below one.
    NotFraction(&'static str),
    /// A field must be a power of two.
    NotPowerOfTwo(&'static str),
    /// `min_bytes` is above `max_bytes`: no packet could match.
    MinAboveMax,
    /// There is no band or class.
    NoBands,
    /// Two bands or classes have this name.
    BandTwice(String),
    /// This band or class is not the last and matches nothing.
    BandWithoutMatch(String),
    /// The band or class of this name has settings that cannot be.
    InBand(String, Box<ConfigError>),
    /// This field is only meaningful with the other one.
    Without(&'static str, &'static str),
    /// `min` is not below `max`.
    MinNotBelowMax,
    /// A field exceeds what the source's integers hold.
    TooLarge(&'static str),
    /// `min` or `max` is too large for the weight that `burst` asks for (Linux: the threshold,
    /// shifted by the logarithm of the weight, has to fit in 32 bits).
    ThresholdTooLarge(&'static str),
    /// `burst` is smaller than `min / avpkt`; the smallest that will do.
    BurstTooSmall(u32),
    /// `burst` needs a weight below 2^-31.
    BurstTooLarge,
    /// `probability`, spread over `max - min` bytes, is below what 32 bits resolve.
    ProbabilityTooSmall,
    /// `bandwidth` is so low that the table of the idle decay would have cells above 2^31 us.
    BandwidthTooLow,
    /// `nodrop` without `ecn`.
    NodropWithoutEcn,
}

impl ConfigError {
    pub(crate) fn in_band(self, name: &str) -> Self {
        Self::InBand(name.into(), Box::new(self))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitZero => f.write_str("limit must be above zero"),
            Self::NotPositive(field) => write!(f, "{field} must be above zero"),
            Self::NotProbability(field) => write!(f, "{field} must be above 0 and at most 1"),
            Self::Above(field, most) => write!(f, "{field} must be at most {most}"),
            Self::Below(field, least) => write!(f, "{field} must be at least {least}"),
            Self::NotFraction(field) => write!(f, "{field} must be above 0 and below 1"),
            Self::NotPowerOfTwo(field) => write!(f, "{field} must be a power of two"),
            Self::MinAboveMax => f.write_str("min_bytes must be at most max_bytes"),
            Self::NoBands => f.write_str("there must be at least one"),
            Self::BandTwice(name) => write!(f, "{name}: there are two of this name"),
            Self::BandWithoutMatch(name) => {
                write!(f, "{name}: has no match; hint: only the last one takes what none matches")
            }
            Self::InBand(name, error) => write!(f, "{name}: {error}"),
            Self::Without(field, other) => write!(f, "{field} is only meaningful with {other}"),
            Self::MinNotBelowMax => f.write_str("min must be smaller than max"),
            Self::TooLarge(field) => write!(f, "{field} must be below 2^32"),
            Self::ThresholdTooLarge(field) => {
                write!(f, "{field} is too large for the weight that burst asks for")
            }
            Self::BurstTooSmall(least) => {
                write!(f, "burst is too small for min / avpkt; hint: at least {least}")
            }
            Self::BurstTooLarge => f.write_str("burst is too large: no weight allows it"),
            Self::ProbabilityTooSmall => {
                f.write_str("probability is too small for the distance of min and max")
            }
            Self::BandwidthTooLow => {
                f.write_str("bandwidth is too low for a table of the idle decay")
            }
            Self::NodropWithoutEcn => f.write_str("nodrop is only meaningful with ecn"),
        }
    }
}

impl core::error::Error for ConfigError {}
