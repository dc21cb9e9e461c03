//! The simulator as a WebAssembly module, for pages and for Node. `web/engine.mjs` calls it.
//!
//! A module holds one run. All that crosses the border are numbers and two buffers in the module's
//! memory: the host writes the plan into the input, and reads text and tables from the output.
//!
//! ```text
//! input(bytes) -> address      room for the plan (JSON)
//! load() -> 0 or 1             1: the plan is refused, and the output says why in one line
//! advance(events) -> 0 or 1    1: the run has stopped
//! interrupt()                  stops the run where it stands
//! now(), progress(), events()  seconds; from 0 to 1; a count
//! stopped()                    the output says why the run stopped, or "running"
//! tables()                     the output holds all tables, written as `narrows_engine` documents
//! packets(query)               the same with one table: a query's packets at the plan's captures
//! version()                    the output holds the version and the build, as `narrows --version`
//! output() -> address, output_bytes() -> length
//! ```
//!
//! An address holds until the next call. If a call traps, as when memory runs out, the module
//! cannot be used again.

// Exporting a name is the only thing here that Rust counts as unsafe.
#![allow(unsafe_code)]

mod json;

use std::cell::RefCell;

use narrows_engine::write_tables;
use narrows_sim::Simulation;
use narrows_sim::table::Table;

#[derive(Default)]
struct Module {
    input: Vec<u8>,
    output: Vec<u8>,
    run: Option<Simulation>,
}

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
}

fn with<T>(then: impl FnOnce(&mut Module) -> T) -> T {
    MODULE.with_borrow_mut(then)
}

/// Makes room for `bytes` of a plan, and returns where to write them.
#[unsafe(no_mangle)]
pub extern "C" fn input(bytes: usize) -> *mut u8 {
    with(|module| {
        module.input = vec![0; bytes];
        module.input.as_mut_ptr()
    })
}

/// Starts a run of the plan in the input, in place of an earlier one. Returns 1 if the plan is
/// refused.
#[unsafe(no_mangle)]
pub extern "C" fn load() -> u32 {
    with(|module| {
        module.run = None;
        let input = std::mem::take(&mut module.input);
        match begin(&input) {
            Ok(run) => {
                module.run = Some(run);
                0
            }
            Err(why) => {
                module.output = why.into_bytes();
                1
            }
        }
    })
}

fn begin(plan: &[u8]) -> Result<Simulation, String> {
    let text = str::from_utf8(plan).map_err(|why| format!("no plan: {why}"))?;
    let plan = json::read(text).map_err(|why| format!("no plan: {why}"))?;
    Simulation::new(plan).map_err(|why| why.to_string())
}

/// Handles up to `most` events. Returns 1 once the run has stopped, or if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn advance(most: u32) -> u32 {
    with(|module| {
        let stopped = module.run.as_mut().is_none_or(|run| run.advance(u64::from(most)));
        u32::from(stopped)
    })
}

/// Stops the run at the current event.
#[unsafe(no_mangle)]
pub extern "C" fn interrupt() {
    with(|module| {
        if let Some(run) = &mut module.run {
            run.interrupt();
        }
    });
}

/// Returns the simulated time so far, in seconds.
#[unsafe(no_mangle)]
pub extern "C" fn now() -> f64 {
    of_run(|run| run.now().as_secs_f64())
}

/// Returns how far the run has come, from 0 to 1.
#[unsafe(no_mangle)]
pub extern "C" fn progress() -> f64 {
    of_run(Simulation::progress)
}

/// Returns the number of events so far.
#[unsafe(no_mangle)]
pub extern "C" fn events() -> f64 {
    // Exact up to 2^53, which takes days.
    of_run(|run| run.events() as f64)
}

fn of_run(value: impl FnOnce(&Simulation) -> f64) -> f64 {
    with(|module| module.run.as_ref().map_or(0.0, value))
}

/// Writes why the run stopped, or `running`, to the output.
#[unsafe(no_mangle)]
pub extern "C" fn stopped() {
    with(|module| {
        if let Some(run) = &module.run {
            module.output = run.stopped().name().into();
        }
    });
}

/// Writes the tables of the run so far to the output.
#[unsafe(no_mangle)]
pub extern "C" fn tables() {
    write(Simulation::tables);
}

/// Writes the packets of a DNS query to the output, as one table.
#[unsafe(no_mangle)]
pub extern "C" fn packets(query: u32) {
    write(|run| vec![narrows_engine::packets(run, query)]);
}

/// Writes the version and the build of this engine to the output.
#[unsafe(no_mangle)]
pub extern "C" fn version() {
    with(|module| module.output = narrows_engine::version().into_bytes());
}

fn write(tables: impl FnOnce(&Simulation) -> Vec<Table>) {
    with(|module| {
        module.output.clear();
        if let Some(run) = &module.run {
            write_tables(&mut module.output, &tables(run))
                .expect("memory takes all that is written");
        }
    });
}

/// Returns where the output is.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    with(|module| module.output.as_ptr())
}

/// Returns how long the output is, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn output_bytes() -> usize {
    with(|module| module.output.len())
}
