//! Rates over time as text, as `narrows-link` reads and writes them.

use narrows_link::trace::{self, Rates, TraceError};
use narrows_units::Time;
use pyo3::prelude::*;

/// Adds the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_opportunities, module)?)?;
    module.add_function(wrap_pyfunction!(read_rates, module)?)?;
    module.add_function(wrap_pyfunction!(write_rates, module)?)?;
    module.add_function(wrap_pyfunction!(opportunities_of, module)?)
}

/// What is wrong with a trace: the line (0: all of it), what, and the remedy.
type Wrong = (usize, String, &'static str);
type Steps = Vec<(u64, u64)>;

/// Returns the milliseconds of a trace in Mahimahi's format, or what is wrong with it.
#[pyfunction]
fn read_opportunities(py: Python<'_>, text: &str) -> (Option<Vec<u32>>, Option<Wrong>) {
    either(py.detach(|| trace::opportunities(text)))
}

/// Returns the steps of a table of rates (picoseconds, bit/s) and its mean rate, or what is wrong
/// with it.
#[pyfunction]
fn read_rates(py: Python<'_>, text: &str) -> (Option<(Steps, u64)>, Option<Wrong>) {
    let read = py.detach(|| trace::rates(text));
    either(read.map(|rates| {
        let steps = rates.steps.iter().map(|&(at, bps)| (at.as_ps(), bps)).collect();
        (steps, rates.mean().as_bps())
    }))
}

/// Writes a table of rates from steps (picoseconds, bit/s).
#[pyfunction]
fn write_rates(steps: Steps) -> String {
    table(steps).text()
}

/// Returns the milliseconds of Mahimahi's format in which a table of rates is offered until a time
/// in picoseconds, or why it cannot be.
#[pyfunction]
fn opportunities_of(py: Python<'_>, steps: Steps, end: u64) -> (Option<Vec<u32>>, Option<Wrong>) {
    either(py.detach(|| table(steps).opportunities(Time::from_ps(end))))
}

fn table(steps: Steps) -> Rates {
    Rates { steps: steps.into_iter().map(|(at, bps)| (Time::from_ps(at), bps)).collect() }
}

fn either<T>(read: Result<T, TraceError>) -> (Option<T>, Option<Wrong>) {
    match read {
        Ok(found) => (Some(found), None),
        Err(TraceError { line, what, hint }) => (None, Some((line, what, hint))),
    }
}
