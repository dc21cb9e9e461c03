//! Quantities with units, as `narrows-units` reads and prints them.

use narrows_units::{Bytes, ParseError, Rate, Span};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(parse_span, module)?)?;
    module.add_function(wrap_pyfunction!(parse_rate, module)?)?;
    module.add_function(wrap_pyfunction!(parse_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(format_span, module)?)?;
    module.add_function(wrap_pyfunction!(format_rate, module)?)?;
    module.add_function(wrap_pyfunction!(format_bytes, module)?)
}

/// Returns the picoseconds of a duration such as "50 ms". Raises ValueError for an invalid text.
#[pyfunction]
fn parse_span(text: &str) -> PyResult<u64> {
    narrows_units::parse_span(text).map(Span::as_ps).map_err(refused)
}

/// Returns the bits per second of a rate such as "10 Mbit/s". Raises ValueError for an invalid
/// text.
#[pyfunction]
fn parse_rate(text: &str) -> PyResult<u64> {
    narrows_units::parse_rate(text).map(Rate::as_bps).map_err(refused)
}

/// Returns the bytes of a size such as "1.5 kB". Raises ValueError for an invalid text.
#[pyfunction]
fn parse_bytes(text: &str) -> PyResult<u64> {
    narrows_units::parse_bytes(text).map(Bytes::get).map_err(refused)
}

/// Formats a number of picoseconds in its largest unit: "50 ms".
#[pyfunction]
fn format_span(picoseconds: u64) -> String {
    Span::from_ps(picoseconds).to_string()
}

/// Formats a number of bits per second in its largest unit: "10 Mbit/s". Raises ValueError for
/// zero.
#[pyfunction]
fn format_rate(bits_per_second: u64) -> PyResult<String> {
    match Rate::from_bps(bits_per_second) {
        Some(rate) => Ok(rate.to_string()),
        None => Err(refused(ParseError::ZeroRate)),
    }
}

/// Formats a number of bytes in the largest unit in which it is whole: "375 kB".
#[pyfunction]
fn format_bytes(bytes: u64) -> String {
    Bytes::new(bytes).to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err hands over")]
fn refused(error: ParseError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
