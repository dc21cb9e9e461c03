//! `Simulation`: a run of the simulator, and the named TCP profiles.

use std::path::PathBuf;

use narrows_capture::message::{self, Messages};
use narrows_plugin::{Faults, Library, Part};
use narrows_sim::application::voip::Voip;
use narrows_sim::plan::{Modes, Plan};
use narrows_sim::record::MOST_QUERIES;
use narrows_sim::table::{Column, Table};
use narrows_sim::{Simulation as Engine, tcp};
use numpy::{IntoPyArray as _, ToPyArray as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::{controls, outside};

/// Adds the class and the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Simulation>()?;
    module.add("most_queries", MOST_QUERIES)?;
    module.add_function(wrap_pyfunction!(check_plan, module)?)?;
    module.add_function(wrap_pyfunction!(plan_schema, module)?)?;
    module.add_function(wrap_pyfunction!(dns_sizes, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_profiles, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_paced_controls, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_marked_controls, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_profile, module)?)?;
    module.add_function(wrap_pyfunction!(call_packet_bytes, module)?)
}

/// A run of the simulator.
#[pyclass(module = "narrows._core")]
struct Simulation {
    engine: Engine,
    /// Whether it has parts from outside.
    outside: bool,
    /// What they have done wrong.
    faults: Faults,
    /// Which kind of part has failed, and its name.
    failed: Option<(Part, String)>,
}

/// How many events pass between two looks for faults.
const SOME_EVENTS: u64 = 16;

#[pymethods]
impl Simulation {
    /// Creates a run of the plan at time zero. `plugins` are paths of shared objects; `queues` has
    /// functions that make a queue from a seed and settings, by the name of a link or of a queue in the
    /// plan; `controls` has one for each name of a congestion control. The modes `collapse` and `scheduled` (all links) are for tests: see
    /// `narrows_sim::plan::Modes`. Raises ValueError if something is wrong with the plan, or with a
    /// part from outside.
    #[new]
    #[pyo3(signature = (plan_json, plugins = Vec::new(), queues = None, controls = None, *, collapse = true, scheduled = false))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 hands it over")]
    fn new(
        plan_json: &str,
        plugins: Vec<PathBuf>,
        queues: Option<&Bound<'_, PyDict>>,
        controls: Option<&Bound<'_, PyDict>>,
        collapse: bool,
        scheduled: bool,
    ) -> PyResult<Self> {
        let mut plan = read(plan_json).map_err(refused)?;
        let links = if scheduled { plan.links.len() } else { 0 };
        plan.modes = Modes { collapse, scheduled: (0..links).collect() };
        let faults = Faults::default();
        let outside = !plugins.is_empty() || queues.is_some() || controls.is_some();
        let libraries: Vec<Library> =
            plugins.iter().map(|path| outside::load(path)).collect::<PyResult<_>>()?;
        outside::bind(&mut plan, &libraries, queues, &faults)?;
        if outside {
            controls::bind(&mut plan, &libraries, controls, &faults)?;
        }
        match message_errors(&plan).into_iter().next() {
            Some(why) => Err(refused(why)),
            None => Engine::new(plan)
                .map(|engine| Self { engine, outside, faults, failed: None })
                .map_err(refused),
        }
    }

    /// Handles up to `max_events` events with the interpreter's lock released. Returns True once
    /// the run has stopped. Raises what a part from outside has raised, or a QueueFault or
    /// ControlFault.
    fn advance(&mut self, py: Python<'_>, max_events: u64) -> PyResult<bool> {
        let (engine, faults) = (&mut self.engine, &self.faults);
        let stopped = py.detach(|| {
            if !self.outside {
                return engine.advance(max_events);
            }
            // A run ends within a few events of a fault. To look after each costs a tenth.
            let mut left = max_events;
            while left > 0 && !faults.any() {
                let next = left.min(SOME_EVENTS);
                if engine.advance(next) {
                    return true;
                }
                left -= next;
            }
            false
        });
        match self.faults.take() {
            Some(fault) => {
                self.failed = Some((fault.part, fault.name.clone()));
                Err(outside::raised(fault))
            }
            None => Ok(stopped),
        }
    }

    /// Returns which kind of part from outside has failed, queue or control, and its name.
    #[getter]
    fn failed_part(&self) -> Option<(&'static str, &str)> {
        self.failed.as_ref().map(|(part, name)| match part {
            Part::Queue => ("queue", name.as_str()),
            Part::Control => ("control", name.as_str()),
        })
    }

    /// Stops the run at the current event.
    fn interrupt(&mut self) {
        self.engine.interrupt();
    }

    /// Returns the simulated time so far, in seconds.
    #[getter]
    fn now_s(&self) -> f64 {
        self.engine.now().as_secs_f64()
    }

    /// Returns how far the run has come, from 0 to 1.
    #[getter]
    fn progress(&self) -> f64 {
        self.engine.progress()
    }

    /// Returns the number of events so far.
    #[getter]
    fn events(&self) -> u64 {
        self.engine.events()
    }

    /// Returns why the run stopped: running, end, dns-done, event-limit or interrupted.
    #[getter]
    fn stopped(&self) -> &'static str {
        self.engine.stopped().name()
    }

    /// Returns the tables, each a dict of columns: NumPy arrays, or lists of str for names. If
    /// `coded`, names are the number of each row's name, and the different names.
    #[pyo3(signature = (*, coded = false))]
    fn tables<'py>(&self, py: Python<'py>, coded: bool) -> PyResult<Bound<'py, PyDict>> {
        let tables = py.detach(|| self.engine.tables());
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
                    Column::Text(values) if coded => {
                        let codes = values.codes().to_pyarray(py);
                        table.set_item(name, (codes, values.different()))?;
                    }
                    Column::Text(values) => {
                        table.set_item(name, values.iter().collect::<Vec<_>>())?;
                    }
                }
            }
            result.set_item(name, table)?;
        }
        Ok(result)
    }

    /// Returns the tables as `narrows_engine::write_tables` writes them; of a DNS `query`, the table of
    /// its packets at the plan's captures alone.
    #[pyo3(signature = (query = None))]
    fn written<'py>(&self, py: Python<'py>, query: Option<u32>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let tables = match query {
                Some(query) => vec![narrows_engine::packets(&self.engine, query)],
                None => self.engine.tables(),
            };
            let mut bytes = Vec::new();
            narrows_engine::write_tables(&mut bytes, &tables).map(|()| bytes)
        });
        Ok(PyBytes::new(py, &bytes.map_err(refused)?))
    }

    /// Returns what a capture of the plan has seen as a pcapng file.
    fn capture<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyBytes>> {
        let plan = self.engine.plan();
        let Some(capture) = plan.captures.get(number) else {
            return Err(PyValueError::new_err(format!("the plan has no capture {number}")));
        };
        let file = py.detach(|| {
            let messages = Messages::for_queries(self.engine.planned_queries());
            narrows_capture::pcapng(plan, capture, &self.engine.captured_by(capture), messages)
        });
        let file = file.map_err(refused)?;
        Ok(PyBytes::new(py, &file))
    }
}

/// Returns why a run of the plan would be refused: all errors that do not follow from each other, a
/// line each. The list is empty if the run would start.
#[pyfunction]
fn check_plan(plan_json: &str) -> Vec<String> {
    let plan = match read(plan_json) {
        Ok(plan) => plan,
        Err(why) => return vec![why.to_string()],
    };
    let errors = plan.errors().into_iter().map(|why| why.to_string());
    errors.chain(message_errors(&plan).into_iter().map(|why| why.to_string())).collect()
}

/// Returns the JSON schema of plans, as JSON (draft 2020-12).
#[pyfunction]
fn plan_schema() -> PyResult<String> {
    serde_json::to_string(&schemars::schema_for!(Plan)).map_err(refused)
}

/// Returns the smallest IP packets of a DNS query and its reply that a capture can show as
/// messages, in a run of `queries` queries in all whose packets have these lengths.
#[pyfunction]
fn dns_sizes(queries: u64, query_bytes: u16, reply_bytes: u16) -> (u16, u16) {
    let messages = Messages::for_queries(queries);
    (messages.min_query_bytes(reply_bytes), messages.min_reply_bytes(query_bytes))
}

fn read(plan_json: &str) -> Result<Plan, serde_json::Error> {
    serde_json::from_str(plan_json)
}

/// Returns the messages that the plan's captures could not show.
fn message_errors(plan: &Plan) -> Vec<message::Error> {
    if plan.captures.is_empty() { Vec::new() } else { message::errors(plan) }
}

fn refused(why: impl std::error::Error) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// Returns the names of the TCP profiles.
#[pyfunction]
fn tcp_profiles() -> Vec<&'static str> {
    tcp::Config::PROFILES.to_vec()
}

/// Returns the congestion controls of TCP that always pace.
#[pyfunction]
fn tcp_paced_controls() -> Vec<&'static str> {
    tcp::Congestion::PACED.to_vec()
}

/// Returns the congestion controls of TCP that always negotiate ECN.
#[pyfunction]
fn tcp_marked_controls() -> Vec<&'static str> {
    tcp::Congestion::COUNT_MARKS.to_vec()
}

/// Returns a TCP profile's settings as JSON. Raises ValueError for an unknown name.
#[pyfunction]
fn tcp_profile(name: &str) -> PyResult<String> {
    let config = tcp::Config::profile(name)
        .ok_or_else(|| PyValueError::new_err(format!("no TCP profile is called {name:?}")))?;
    serde_json::to_string(&config).map_err(refused)
}

/// Returns the length of the IP packets of a call with these settings (a `Voip` as JSON).
#[pyfunction]
fn call_packet_bytes(settings_json: &str) -> PyResult<u16> {
    let settings: Voip = serde_json::from_str(settings_json).map_err(refused)?;
    Ok(settings.ip_bytes())
}
