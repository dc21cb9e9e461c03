//! Quantities as text.

use alloc::format;
use core::fmt;

/// Writes `value` base units exactly, in the first of `units` that it reaches. Each unit has a name
/// and is worth ten to the power of its number; the last is the base unit.
pub(crate) fn write_in_largest(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u32)],
) -> fmt::Result {
    let reached = units.iter().find(|&&(_, power)| value >= 10u64.pow(power));
    let &(unit, power) = reached.unwrap_or(&units[units.len() - 1]);
    let scale = 10u64.pow(power);
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return write!(f, "{whole} {unit}");
    }
    let digits = format!("{rest:0width$}", width = power as usize);
    write!(f, "{whole}.{} {unit}", digits.trim_end_matches('0'))
}
