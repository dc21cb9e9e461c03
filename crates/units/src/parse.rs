//! Quantities as people write them: `"50 ms"`, `"10 Mbit/s"`, `"375000 B"`.
//!
//! A quantity has decimal digits (no exponent, no sign), an optional fraction, an optional space,
//! and a unit, which only zero may omit. The value must be a whole number of base units
//! (picoseconds, bits per second, bytes). Anything finer is refused rather than rounded.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

use crate::{Bytes, Rate, Span};

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// There is no number at the start.
    NoNumber,
    /// The number has no unit although it needs one. Carries the possible units.
    NoUnit(&'static str),
    /// The unit is unknown or of another kind. Carries the unit and the possible ones.
    UnknownUnit(String, &'static str),
    /// The unit, such as `Mbps`, means bits to some and bytes to others. Carries the unit and the
    /// one to use.
    AmbiguousUnit(String, &'static str),
    /// The value has more decimals than the base unit can hold.
    TooFine,
    /// The value is beyond the largest that can be held.
    TooLarge,
    /// The rate is zero.
    ZeroRate,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => write!(f, "does not start with a number"),
            Self::NoUnit(known) => write!(f, "has no unit; use one of {known}"),
            Self::UnknownUnit(unit, known) => {
                write!(f, "has the unknown unit {unit:?}; use one of {known}")
            }
            Self::AmbiguousUnit(unit, clear) => write!(
                f,
                "has the unit {unit:?}, which is bytes to tc(8) and bits to others; use {clear}"
            ),
            Self::TooFine => write!(f, "has more decimals than can be held"),
            Self::TooLarge => write!(f, "is too large"),
            Self::ZeroRate => write!(f, "must be above zero"),
        }
    }
}

impl core::error::Error for ParseError {}

/// Parses a duration: `ps`, `ns`, `us` (or `µs`), `ms`, `s`, `min`, `h`.
pub fn parse_span(text: &str) -> Result<Span, ParseError> {
    const KNOWN: &str = "ps, ns, us, ms, s, min, h";
    let (number, unit) = split(text)?;
    let scale = match unit {
        "ps" => 1,
        "ns" => 1_000,
        "us" | "µs" | "μs" => 1_000_000,
        "ms" => 1_000_000_000,
        "s" => 1_000_000_000_000,
        "min" => 60_000_000_000_000,
        "h" => 3_600_000_000_000_000,
        "" if is_zero(number) => 1,
        "" => return Err(ParseError::NoUnit(KNOWN)),
        other => return Err(ParseError::UnknownUnit(other.to_owned(), KNOWN)),
    };
    scaled(number, scale).map(Span::from_ps)
}

/// Parses a rate: `bit/s`, `kbit/s`, `Mbit/s`, `Gbit/s`, `Tbit/s`, or tc(8)'s `bit`, `kbit`,
/// `mbit`, `gbit`, `tbit` (powers of ten). It refuses `bps`, `Mbps` and the like.
pub fn parse_rate(text: &str) -> Result<Rate, ParseError> {
    const KNOWN: &str = "bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s";
    let (number, unit) = split(text)?;
    let scale = match unit {
        "bit/s" | "bit" => 1,
        "kbit/s" | "kbit" => 1_000,
        "Mbit/s" | "mbit" => 1_000_000,
        "Gbit/s" | "gbit" => 1_000_000_000,
        "Tbit/s" | "tbit" => 1_000_000_000_000,
        "" if is_zero(number) => return Err(ParseError::ZeroRate),
        "" => return Err(ParseError::NoUnit(KNOWN)),
        other => {
            return Err(match without_bps(other) {
                Some(clear) => ParseError::AmbiguousUnit(other.to_owned(), clear),
                None => ParseError::UnknownUnit(other.to_owned(), KNOWN),
            });
        }
    };
    Rate::from_bps(scaled(number, scale)?).ok_or(ParseError::ZeroRate)
}

/// Returns the clear unit that may be meant by one in `bps`, in any case.
fn without_bps(unit: &str) -> Option<&'static str> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "bps" => "bit/s",
        "kbps" => "kbit/s",
        "mbps" => "Mbit/s",
        "gbps" => "Gbit/s",
        "tbps" => "Tbit/s",
        _ => return None,
    })
}

/// Parses a number of bytes: `B`, `kB`, `MB`, `GB` (powers of ten), `KiB`, `MiB`, `GiB`.
pub fn parse_bytes(text: &str) -> Result<Bytes, ParseError> {
    const KNOWN: &str = "B, kB, MB, GB, KiB, MiB, GiB";
    let (number, unit) = split(text)?;
    let scale = match unit {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "" if is_zero(number) => 1,
        "" => return Err(ParseError::NoUnit(KNOWN)),
        other => return Err(ParseError::UnknownUnit(other.to_owned(), KNOWN)),
    };
    scaled(number, scale).map(Bytes::new)
}

/// Splits a text into the number at its start and the unit after it.
fn split(text: &str) -> Result<(&str, &str), ParseError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let points = number.len() - digits;
    if digits == 0 || points > 1 || !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(ParseError::NoNumber);
    }
    Ok((number, unit.trim()))
}

fn is_zero(number: &str) -> bool {
    number.bytes().all(|b| matches!(b, b'0' | b'.'))
}

/// Returns `number` times `scale`, exactly.
fn scaled(number: &str, scale: u64) -> Result<u64, ParseError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut value = 0u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value * 10 + u128::from(digit - b'0');
        if value > u128::from(u64::MAX) * 1_000_000_000_000_000 {
            return Err(ParseError::TooLarge);
        }
    }
    let value = value.checked_mul(u128::from(scale)).ok_or(ParseError::TooLarge)?;
    let divisor = u32::try_from(fraction.len())
        .ok()
        .and_then(|n| 10u128.checked_pow(n))
        .ok_or(ParseError::TooFine)?;
    if value % divisor != 0 {
        return Err(ParseError::TooFine);
    }
    u64::try_from(value / divisor).map_err(|_| ParseError::TooLarge)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn spans() {
        assert_eq!(parse_span("50 ms"), Ok(Span::from_ms(50)));
        assert_eq!(parse_span("0.25s"), Ok(Span::from_ms(250)));
        assert_eq!(parse_span("2 min"), Ok(Span::from_secs(120)));
        assert_eq!(parse_span("0"), Ok(Span::ZERO));
        assert!(matches!(parse_span("50"), Err(ParseError::NoUnit(_))));
        assert!(matches!(parse_span("50 Mbit/s"), Err(ParseError::UnknownUnit(..))));
        assert_eq!(parse_span("-5 ms"), Err(ParseError::NoNumber));
        assert_eq!(
            parse_span("1e3 s"),
            Err(ParseError::UnknownUnit("e3 s".into(), "ps, ns, us, ms, s, min, h"))
        );
        assert_eq!(parse_span("0.5 ps"), Err(ParseError::TooFine));
        assert_eq!(parse_span("99999999999 h"), Err(ParseError::TooLarge));
        assert_eq!(parse_span(&format!("{} s", "9".repeat(4000))), Err(ParseError::TooLarge));
        assert_eq!(parse_span(&format!("0.{}1 s", "0".repeat(4000))), Err(ParseError::TooFine));
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("1.544 Mbit/s").map(Rate::as_bps), Ok(1_544_000));
        assert_eq!(parse_rate("10mbit").map(Rate::as_bps), Ok(10_000_000));
        // tc(8), UNITS: "mbps" is megabytes per second, and "mbit" megabits.
        for (unit, clear) in [
            ("bps", "bit/s"),
            ("kbps", "kbit/s"),
            ("mbps", "Mbit/s"),
            ("Mbps", "Mbit/s"),
            ("GBPS", "Gbit/s"),
            ("Tbps", "Tbit/s"),
        ] {
            let refused = parse_rate(&format!("10 {unit}"));
            assert_eq!(refused, Err(ParseError::AmbiguousUnit(unit.into(), clear)));
        }
        assert!(matches!(parse_rate("10 xbps"), Err(ParseError::UnknownUnit(..))));
        assert_eq!(parse_rate("0 Mbit/s"), Err(ParseError::ZeroRate));
        assert_eq!(parse_rate("0.5 bit/s"), Err(ParseError::TooFine));
    }

    #[test]
    fn bytes() {
        assert_eq!(parse_bytes("375000 B"), Ok(Bytes::new(375_000)));
        assert_eq!(parse_bytes("1.5 KiB"), Ok(Bytes::new(1536)));
        assert_eq!(parse_bytes("..5 B"), Err(ParseError::NoNumber));
    }
}
