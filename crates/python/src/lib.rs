//! The extension module `narrows._core`, thin and private. Numbers, strings and NumPy tables go in
//! and out; the public interface is written in Python on top of it.

use pyo3::prelude::*;

mod ahead;
#[cfg(target_os = "linux")]
mod client;
mod controls;
mod declared;
mod intake;
mod outside;
mod quantities;
mod queues;
mod simulation;
mod traces;

/// The compiled half of narrows; private, use the package `narrows`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    module.add("build", narrows_engine::build())?;
    module.add("profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    controls::register(module)?;
    declared::register(module)?;
    intake::register(module)?;
    #[cfg(target_os = "linux")]
    client::register(module)?;
    outside::register(module)?;
    quantities::register(module)?;
    queues::register(module)?;
    simulation::register(module)?;
    traces::register(module)
}
