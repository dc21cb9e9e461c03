//! `narrows-live`: plays a part of a plan over real sockets, and writes its tables.
//!
//! ```text
//! narrows-live PLAN --places FILE [--play NODE]... [--prepared] [--real FILE]
//!     [--start SECONDS] [--out FILE]
//! narrows-live PLAN --places FILE --role ROLE --play NODE [--prepared] [--start SECONDS] [--out FILE]
//! narrows-live PLAN --check [--real FILE]
//! ```
//! PLAN is the simulator's input, as JSON. The places are JSON too: `{"NODE": {"address": "10.0.0.1",
//! "namespace": "/run/netns/NAME"}}`, where the namespace may be left out. Without `--play`, the
//! program plays every node that has a place. A place may have more addresses, for some of its
//! sockets: `"also": [{"tcp": 3, "server": 5, "address": "10.1.0.1"}]`, where the numbers are
//! indices into the plan's TCP settings and applications. A place where a flood starts has a network
//! of addresses to forge, by the flood's index: `"forged": {"7": "198.18.0.0"}`. `--prepared` says
//! that the nodes' sysctls and routes follow the plan's TCP settings. `--real` names servers that are
//! programs of their own, and what their clients ask ([`Real`](narrows_live::Real)).
//!
//! With `--role`, the program plays the ends of one node, and other processes play the others, at the
//! addresses of their places. `serve` accepts connections of bulk traffic and answers DNS queries,
//! `drive` opens connections of bulk traffic, and `resolve` asks DNS queries. Such a part begins late
//! if the start has passed.
//!
//! With `--check`, it plays nothing. It writes what it would refuse of the plan at prepared nodes, as
//! a JSON list of lines. With places, it also tries to make the sockets.
//!
//! The program first makes the sockets of servers. Then it writes a line `{"ready":"VERSION"}` to
//! standard output, with the version and the build as `narrows --version` prints them. It waits for the
//! start, a time of `CLOCK_MONOTONIC`, and plays. Parts that should begin together get the same start.
//!
//! At the end it writes a line `{"now_s":20.0,"stopped":"end"}` and the tables, in the form of
//! `narrows-engine`. Rows count from zero in each part. SIGTERM and SIGINT end a run early;
//! `stopped` is then `interrupted`. If something is wrong, the program writes one line to standard
//! error, and its exit code is 2.

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("error: narrows-live needs Linux");
    ExitCode::from(2)
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    match program::run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

#[cfg(target_os = "linux")]
mod program {
    use std::collections::BTreeMap;
    use std::fs::{self, File};
    use std::io::{self, Write};
    use std::time::Duration;

    use narrows_engine::{version, write_tables};
    use narrows_live::{Clock, Live, Part, Place, Role, Split, name_controls, refusals};
    use narrows_sim::plan::Plan;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::signal::{SigSet, Signal};
    use nix::sys::signalfd::SignalFd;
    use serde::de::DeserializeOwned;

    const USAGE: &str = "narrows-live PLAN --places FILE [--play NODE]... [--prepared] \
        [--role serve|drive|resolve] [--real FILE] [--start SECONDS] [--out FILE], or narrows-live PLAN --check [--real FILE]";

    #[derive(Default)]
    struct Arguments {
        plan: Option<String>,
        places: Option<String>,
        play: Vec<String>,
        prepared: bool,
        role: Option<Role>,
        real: Option<String>,
        check: bool,
        start: Option<Duration>,
        out: Option<String>,
    }

    pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), String> {
        let Arguments { plan, places, play, prepared, role, real, check, start, out } =
            read(arguments)?;
        let mut plan: Plan = load(&plan.ok_or_else(|| format!("usage: {USAGE}"))?)?;
        name_controls(&mut plan)?;
        let real = real.map(|path| load(&path)).transpose()?.unwrap_or_default();
        if check {
            plan.check().map_err(|why| why.to_string())?;
            let refusals = refusals(&plan, &real);
            let refusals = serde_json::to_string(&refusals).expect("strings are JSON");
            if let Some(places) = places {
                let part = part(load(&places)?, &play, role)?;
                Live::new(plan, &Part { prepared, real, ..part }).map_err(|why| why.to_string())?;
            }
            println!("{refusals}");
            return Ok(());
        }
        let places = load(&places.ok_or_else(|| format!("--places is missing; usage: {USAGE}"))?)?;
        let part = Part { prepared, real, ..part(places, &play, role)? };
        let is_split = part.split.is_some();
        // Each connection has two sockets, so the program takes as many as it may have.
        if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
        }
        let place = out.as_deref().unwrap_or("standard output");
        let cannot_write = |place: &str, why: io::Error| format!("{place}: {why}");
        let mut file: Box<dyn Write> = match &out {
            None => Box::new(io::stdout()),
            Some(path) => Box::new(File::create(path).map_err(|why| cannot_write(place, why))?),
        };
        let mut live = Live::new(plan, &part).map_err(|why| why.to_string())?;
        let signals = signals().map_err(|why| format!("signals: {}", why.desc()))?;
        live.end_when_readable(&signals);
        let clock = match start {
            None => Clock::starting_now(),
            Some(at) => Clock::starting_at(at),
        };
        if start.is_some() && clock.has_started() && !is_split {
            return Err("--start: this time has passed".into());
        }
        println!("{{\"ready\":\"{}\"}}", version());
        io::stdout().flush().map_err(|why| cannot_write("standard output", why))?;
        let stopped = live.run(clock).map_err(|why| why.to_string())?;
        let now = live.now().as_secs_f64();
        let line = format!("{{\"now_s\":{now:?},\"stopped\":\"{}\"}}\n", stopped.name());
        let written = file.write_all(line.as_bytes());
        let written = written.and_then(|()| write_tables(&mut file, &live.tables()));
        written.map_err(|why| cannot_write(place, why))
    }

    /// Returns what the arguments say of the part that is played.
    fn part(
        places: BTreeMap<String, Place>,
        play: &[String],
        role: Option<Role>,
    ) -> Result<Part, String> {
        if let Some(node) = play.iter().find(|node| !places.contains_key(*node)) {
            return Err(format!("--play {node}: it has no place"));
        }
        if let Some(role) = role {
            let [node] = play else { return Err("--role: it needs one --play NODE".into()) };
            let split = Some(Split { role, node: node.clone() });
            return Ok(Part { places, split, ..Part::default() });
        }
        let is_played = |node: &String| play.is_empty() || play.contains(node);
        let places = places.into_iter().filter(|(node, _)| is_played(node)).collect();
        Ok(Part { places, ..Part::default() })
    }

    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut found = Arguments::default();
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or_else(|| format!("{argument}: its value is missing"));
            match &*argument {
                "--places" => found.places = Some(value()?),
                "--play" => found.play.push(value()?),
                "--role" => {
                    found.role = Some(value()?.parse().map_err(|why| format!("--role: {why}"))?);
                }
                "--prepared" => found.prepared = true,
                "--check" => found.check = true,
                "--real" => found.real = Some(value()?),
                "--out" => found.out = Some(value()?),
                "--start" => {
                    let text = value()?;
                    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
                    let Some(Ok(start)) = seconds else {
                        return Err(format!("--start: {text:?} is not a number of seconds"));
                    };
                    found.start = Some(start);
                }
                _ if found.plan.is_none() && !argument.starts_with('-') => {
                    found.plan = Some(argument);
                }
                _ => return Err(format!("{argument}: unexpected; usage: {USAGE}")),
            }
        }
        Ok(found)
    }

    /// Returns a file that can be read when a signal asks the program to end.
    fn signals() -> nix::Result<SignalFd> {
        let mut asked = SigSet::empty();
        asked.add(Signal::SIGTERM);
        asked.add(Signal::SIGINT);
        asked.thread_block()?;
        SignalFd::new(&asked)
    }

    fn load<T: DeserializeOwned>(path: &str) -> Result<T, String> {
        let text = fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
        serde_json::from_str(&text).map_err(|why| format!("{path}: {why}"))
    }
}
