//! `Simulation`: a run of the simulator, and the named TCP profiles.

use narrows_capture::message::{self, Messages};
use narrows_sim::plan::Plan;
use narrows_sim::table::{Column, Table};
use narrows_sim::{Simulation as Engine, tcp};
use numpy::IntoPyArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Adds the class and the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Simulation>()?;
    module.add_function(wrap_pyfunction!(check_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan_schema, module)?)?;
    module.add_function(wrap_pyfunction!(dns_sizes, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_profiles, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_profile, module)?)
}

/// A run of the simulator.
#[pyclass(module = "narrows._core")]
struct Simulation(Engine);

#[pymethods]
impl Simulation {
    /// A run of the plan, at time zero; ValueError says what is wrong with the plan.
    #[new]
    fn new(plan_json: &str) -> PyResult<Self> {
        Engine::new(read(plan_json)?).map(Self).map_err(refused)
    }

    /// Handles up to `max_events` events with the interpreter's lock released; True when the run
    /// has stopped.
    fn advance(&mut self, py: Python<'_>, max_events: u64) -> bool {
        py.detach(|| self.0.advance(max_events))
    }

    /// Stops the run where it stands.
    fn interrupt(&mut self) {
        self.0.interrupt();
    }

    /// Simulated time so far, in seconds.
    #[getter]
    fn now_s(&self) -> f64 {
        self.0.now().as_secs_f64()
    }

    /// How far the run is, from 0 to 1.
    #[getter]
    fn progress(&self) -> f64 {
        self.0.progress()
    }

    /// Events so far.
    #[getter]
    fn events(&self) -> u64 {
        self.0.events()
    }

    /// Why the run stands still: running, end, dns-done, event-limit or interrupted.
    #[getter]
    fn stopped(&self) -> &'static str {
        self.0.stopped().name()
    }

    /// The tables, each a dict of columns: NumPy arrays, or lists of str for names.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = py.detach(|| self.0.tables());
        let result = PyDict::new(py);
        for Table { name, columns } in tables {
            let table = PyDict::new(py);
            for (name, column) in columns {
                match column {
                    Column::F64(values) => table.set_item(name, values.into_pyarray(py))?,
                    Column::U64(values) => table.set_item(name, values.into_pyarray(py))?,
                    Column::U32(values) => table.set_item(name, values.into_pyarray(py))?,
                    Column::U8(values) => table.set_item(name, values.into_pyarray(py))?,
                    Column::Bool(values) => table.set_item(name, values.into_pyarray(py))?,
                    Column::Text(values) => table.set_item(name, values)?,
                }
            }
            result.set_item(name, table)?;
        }
        Ok(result)
    }

    /// What a captured link transmitted, as a pcapng file; `snaplen` keeps that many bytes of each
    /// packet (None: all).
    #[pyo3(signature = (link, snaplen=None))]
    fn capture<'py>(
        &self,
        py: Python<'py>,
        link: usize,
        snaplen: Option<u32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if !self.0.plan().captures.contains(&link) {
            return Err(PyValueError::new_err(format!("link {link} is not captured")));
        }
        let file = py.detach(|| {
            let messages = Messages::for_queries(self.0.planned_queries());
            narrows_capture::pcapng(self.0.plan(), link, &self.0.captured(link), messages, snaplen)
        });
        Ok(PyBytes::new(py, &file))
    }
}

/// ValueError where a run of the plan would be refused.
#[pyfunction]
fn check_plan(plan_json: &str) -> PyResult<()> {
    read(plan_json)?.check().map_err(refused)
}

/// The JSON schema of plans, as JSON (draft 2020-12).
#[pyfunction]
fn plan_schema() -> PyResult<String> {
    serde_json::to_string(&schemars::schema_for!(Plan)).map_err(refused)
}

/// The smallest IP packets of a DNS query and its reply that a capture can show as messages, where
/// a run has so many queries in all, and this one's packets have these lengths.
#[pyfunction]
fn dns_sizes(queries: u64, query_bytes: u16, reply_bytes: u16) -> (u16, u16) {
    let messages = Messages::for_queries(queries);
    (messages.min_query_bytes(reply_bytes), messages.min_reply_bytes(query_bytes))
}

fn read(plan_json: &str) -> PyResult<Plan> {
    let plan: Plan = serde_json::from_str(plan_json).map_err(refused)?;
    if !plan.captures.is_empty() {
        message::check(&plan).map_err(refused)?;
    }
    Ok(plan)
}

fn refused(why: impl std::error::Error) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// The names of the TCP profiles.
#[pyfunction]
fn tcp_profiles() -> Vec<&'static str> {
    tcp::Config::PROFILES.to_vec()
}

/// A TCP profile's settings as JSON; ValueError for an unknown name.
#[pyfunction]
fn tcp_profile(name: &str) -> PyResult<String> {
    let config = tcp::Config::profile(name)
        .ok_or_else(|| PyValueError::new_err(format!("no TCP profile is called {name:?}")))?;
    serde_json::to_string(&config).map_err(refused)
}
