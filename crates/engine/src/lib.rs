//! A simulator with parts of your own, as a program.
//! `narrows run --backend "program:PATH ARGUMENTS"` starts it, hands it the plan of a scenario, and
//! makes a run folder from its tables.
//!
//! The program's `main` is one call of [`serve`] with a function that puts the parts into the plan.
//! narrows sends requests to standard input and reads replies from standard output; standard error
//! is for people.
//!
//! ```text
//! -> the plan, as JSON on one line
//! <- {"ok":"0.1.0 (3f2a9c0d11aa)"}                 with its version, or {"error":"what is wrong"}
//! -> {"advance":10000}                             handle this many events
//! -> "interrupt"                                   stop where it stands
//! <- {"now_s":1.5,"progress":0.1,"events":10000,"stopped":"running"}
//! -> "tables"
//! <- {"tables":[{"name":"flows","columns":[{"name":"flow","type":"u32","bytes":400}, ...]}, ...]}
//!    and the columns' values, one after the other, in that order
//! ```
//!
//! narrows refuses a version and a build that are not its own: `ok` is what `narrows --version`
//! prints.
//!
//! Numbers are little-endian, a flag is one byte, and a column of names is a JSON array. The
//! program ends when its input does.

mod packets;

use std::fmt;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use narrows_sim::plan::Plan;
use narrows_sim::table::{Column, Table};
use narrows_sim::{SOURCES, Simulation};
use serde::{Deserialize, Serialize};

pub use packets::packets;

/// Runs the plan that arrives on standard input, after `change` has put its own parts into it.
///
/// If `change` or [`Simulation::new`] returns an error, `narrows run` prints it, so it should be
/// one line. The exit code is 2 if a stream fails or a request cannot be read.
pub fn serve<E: fmt::Display>(change: impl FnOnce(&mut Plan) -> Result<(), E>) -> ExitCode {
    let (input, output) = (io::stdin().lock(), io::BufWriter::new(io::stdout().lock()));
    match converse(input, output, change) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a plan as [`serve`] does, between any two streams.
///
/// # Errors
///
/// Returns an error if a stream fails, or if a line is not one of the requests.
pub fn converse<E: fmt::Display>(
    mut input: impl BufRead,
    mut output: impl Write,
    change: impl FnOnce(&mut Plan) -> Result<(), E>,
) -> io::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let mut simulation = match begin(&line, change) {
        Ok(simulation) => simulation,
        Err(why) => return say(&mut output, &Reply::Error(why)),
    };
    say(&mut output, &Reply::Ok(&version()))?;
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match serde_json::from_str(&line)? {
            Request::Advance(events) => {
                simulation.advance(events);
                say(&mut output, &State::of(&simulation))?;
            }
            Request::Interrupt => {
                simulation.interrupt();
                say(&mut output, &State::of(&simulation))?;
            }
            Request::Tables => write_tables(&mut output, &simulation.tables())?,
        }
    }
}

/// Returns the version and, in brackets, the [`build`], as `narrows --version` prints them.
pub fn version() -> String {
    format!("{} ({})", env!("CARGO_PKG_VERSION"), build())
}

/// Returns a digest of the simulator's sources, as 12 hexadecimal digits.
///
/// Two programs have the same one if their simulators were built from the same sources, wherever
/// and with whatever profile. Comments and tests do not count, nor does what the program adds.
pub fn build() -> String {
    let sources = SOURCES.into_iter().chain([env!("NARROWS_SOURCES")]);
    let digest = sources.flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{:012x}", digest >> 16)
}

fn begin<E: fmt::Display>(
    line: &str,
    change: impl FnOnce(&mut Plan) -> Result<(), E>,
) -> Result<Simulation, String> {
    let mut plan: Plan =
        serde_json::from_str(line).map_err(|why| format!("standard input: no plan: {why}"))?;
    change(&mut plan).map_err(|why| why.to_string())?;
    Simulation::new(plan).map_err(|why| why.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
    Advance(u64),
    Interrupt,
    Tables,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Reply<'a> {
    Ok(&'a str),
    Error(String),
    Tables(Vec<TableHead<'a>>),
}

#[derive(Serialize)]
struct State {
    now_s: f64,
    progress: f64,
    events: u64,
    stopped: &'static str,
}

impl State {
    fn of(simulation: &Simulation) -> Self {
        Self {
            now_s: simulation.now().as_secs_f64(),
            progress: simulation.progress(),
            events: simulation.events(),
            stopped: simulation.stopped().name(),
        }
    }
}

#[derive(Serialize)]
struct TableHead<'a> {
    name: &'a str,
    columns: Vec<ColumnHead<'a>>,
}

#[derive(Serialize)]
struct ColumnHead<'a> {
    name: &'a str,
    r#type: &'static str,
    bytes: usize,
}

fn say(output: &mut impl Write, reply: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, reply)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// Writes tables as a program does on the request `tables`.
///
/// # Errors
///
/// Returns an error if the stream fails.
pub fn write_tables(output: &mut impl Write, tables: &[Table]) -> io::Result<()> {
    let mut values = Vec::new();
    let mut heads = Vec::with_capacity(tables.len());
    for Table { name, columns } in tables {
        let mut columns_heads = Vec::with_capacity(columns.len());
        for (name, column) in columns {
            let from = values.len();
            let kind = write_column(&mut values, column)?;
            columns_heads.push(ColumnHead { name, r#type: kind, bytes: values.len() - from });
        }
        heads.push(TableHead { name, columns: columns_heads });
    }
    say(output, &Reply::Tables(heads))?;
    output.write_all(&values)?;
    output.flush()
}

/// Appends the values of a column to `to` and returns the name of their type.
fn write_column(to: &mut Vec<u8>, column: &Column) -> io::Result<&'static str> {
    Ok(match column {
        Column::F64(values) => {
            to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            "f64"
        }
        Column::U64(values) => {
            to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            "u64"
        }
        Column::U32(values) => {
            to.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            "u32"
        }
        Column::U8(values) => {
            to.extend(values);
            "u8"
        }
        Column::Bool(values) => {
            to.extend(values.iter().map(|&value| u8::from(value)));
            "bool"
        }
        Column::Text(values) => {
            serde_json::to_writer(to, &values.iter().collect::<Vec<_>>())?;
            "string"
        }
    })
}
