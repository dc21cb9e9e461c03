//! Queue disciplines: what the scenario language needs to know about them, how they check settings,
//! and what tc(8) computes for RED.
//!
//! The disciplines themselves declare everything once (`narrows_units::settings`); this converts it
//! to JSON. Settings have the form of a plan: `{"fq-codel": {"limit": 100, ...}}`, in base units.

use narrows_qdisc::red::linux::tc;
use narrows_qdisc::{AnyConfig, Listed};
use narrows_units::{Bytes, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

use crate::declared::{Wrong, parts, table};

/// Adds the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(queue_disciplines, module)?)?;
    module.add_function(wrap_pyfunction!(check_queue, module)?)?;
    module.add_function(wrap_pyfunction!(settle_queue, module)?)?;
    module.add_function(wrap_pyfunction!(queue_facts, module)?)?;
    module.add_function(wrap_pyfunction!(red_bursts, module)?)?;
    module.add_function(wrap_pyfunction!(red_most_apart, module)?)
}

/// Returns all disciplines with their settings as JSON: names, kinds, ranges, defaults and
/// meanings.
#[pyfunction]
fn queue_disciplines() -> String {
    Json::from_iter(AnyConfig::LISTED.iter().map(discipline)).to_string()
}

/// Returns what is wrong with settings: the key, the fault and the remedy; None if nothing is.
#[pyfunction]
fn check_queue(settings_json: &str) -> PyResult<Option<Wrong>> {
    Ok(read(settings_json)?.check().err().as_ref().map(parts))
}

/// Returns settings for a queue that is served at this many bits per second, with every open value
/// filled in that follows from others; or else what is wrong with them, as `check_queue` does.
#[pyfunction]
fn settle_queue(
    settings_json: &str,
    bits_per_second: u64,
) -> PyResult<(Option<String>, Option<Wrong>)> {
    let rate = Rate::from_bps(bits_per_second);
    let rate = rate.ok_or_else(|| PyValueError::new_err("a rate of zero"))?;
    let settled = read(settings_json)?.settled(rate);
    match settled.check() {
        Ok(()) => Ok((Some(serde_json::to_string(&settled).map_err(|why| refused(&why))?), None)),
        Err(error) => Ok((None, Some(parts(&error)))),
    }
}

/// Returns what a plot shows beside a queue, and how many queues it holds from the start, as
/// JSON.
#[pyfunction]
fn queue_facts(settings_json: &str) -> PyResult<String> {
    let config = read(settings_json)?;
    let levels = config.levels();
    let facts = json!({
        "unit": if levels.in_packets { "packets" } else { "bytes" },
        "levels": levels.backlogs,
        "target": levels.target.map(|span| span.as_ps()),
        "several_lines": levels.several_lines,
        "held": config.held(),
    });
    Ok(facts.to_string())
}

/// Returns the `burst` that tc sets for RED with these thresholds if none is given, and the
/// smallest that it accepts.
#[pyfunction]
fn red_bursts(min: u64, max: u64, avpkt: u64) -> (u32, u64) {
    let (min, max, avpkt) = (Bytes::new(min), Bytes::new(max), Bytes::new(avpkt));
    (tc::default_burst(min, max, avpkt), tc::least_burst(min, avpkt))
}

/// Returns the most bytes between RED's thresholds for which tc finds a probability per byte.
#[pyfunction]
fn red_most_apart(probability: f64) -> u64 {
    tc::most_apart(probability).get()
}

fn read(settings_json: &str) -> PyResult<AnyConfig> {
    serde_json::from_str(settings_json).map_err(|why| refused(&why))
}

fn refused(why: &serde_json::Error) -> PyErr {
    PyValueError::new_err(why.to_string())
}

fn discipline(listed: &Listed) -> Json {
    json!({
        "name": listed.name,
        "label": listed.label,
        "decides_at_enqueue": listed.decides_at_enqueue,
        "table": table(&listed.table),
    })
}
