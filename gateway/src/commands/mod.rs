//! The command line. Data goes to stdout, the rest to stderr.
//!
//! Exit codes: 0 done, 1 a fault that may pass (while running, or at a start that may succeed
//! later), 2 refused until somebody changes something.

mod check;
mod data_path;
#[cfg(feature = "ebpf")]
mod deep;
mod detach;
mod drain;
mod options;
mod picture;
#[cfg(feature = "ebpf")]
mod rechecks;
mod run;
#[cfg(feature = "ebpf")]
mod scratch;
mod status;
mod top;
mod user;

use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use narrows_gateway::config::Config;
use narrows_gateway::passing::Passing;
use narrows_gateway::udp_limit::Question;

/// Why a command ends without finishing its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Refused until somebody changes something; nothing was touched: exit code 2.
    Refused(String),
    /// A fault that may pass, while running or at a start: exit code 1.
    Fault(String),
    /// Everything is already printed: exit code 2.
    Quiet,
}

impl Failure {
    pub(crate) fn refused(error: impl fmt::Display) -> Self {
        Self::Refused(error.to_string())
    }

    pub(crate) fn fault(error: impl fmt::Display) -> Self {
        Self::Fault(error.to_string())
    }

    /// Why `run` does not start.
    pub(crate) fn start(error: impl fmt::Display + Passing) -> Self {
        if error.passes() { Self::fault(error) } else { Self::refused(error) }
    }
}

/// Reads the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    let result = match matches.subcommand() {
        Some(("run", matches)) => {
            options::config(matches).and_then(|(config, source)| run::run(&config, &source))
        }
        Some((name @ ("status" | "top"), matches)) => {
            options::config(matches).and_then(|(config, _)| show(name, &config, matches))
        }
        Some(("check", matches)) => {
            options::config(matches).and_then(|(config, _)| check::check(&config, matches))
        }
        Some(("detach", matches)) => {
            options::config(matches).and_then(|(config, _)| detach::detach(&config))
        }
        Some(("drain", matches)) => options::config(matches)
            .and_then(|(config, source)| drain::drain(&config, &source, matches)),
        _ => Ok(()),
    };
    let (text, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Refused(text)) => (text, 2),
        Err(Failure::Fault(text)) => (text, 1),
        Err(Failure::Quiet) => return ExitCode::from(2),
    };
    tell(&format!("error: {text}\n"));
    ExitCode::from(code)
}

/// Writes data to stdout. It is no fault if the reader has gone, as head(1) does.
pub(crate) fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
}

/// Writes messages to stderr. If they cannot be written (full, closed), the exit code is enough;
/// `eprintln!` would panic.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs `status` or `top`.
fn show(name: &str, config: &Config, matches: &ArgMatches) -> Result<(), Failure> {
    if name == "top" { top::top(config, matches) } else { status::status(config, matches) }
}

fn command() -> Command {
    let json =
        || Arg::new("json").long("json").action(ArgAction::SetTrue).help("print one JSON object");
    Command::new("narrows-gateway")
        .version(narrows_gateway::VERSION)
        .about("Stateless TCP in front of any DNS server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(options::with_settings(
            Command::new("run").about("Serves an interface's DNS over TCP, in the foreground"),
        ))
        .subcommand(options::with_settings(
            Command::new("check")
                .about("Says what the kernel and the interface can do, and what a run would use; touches nothing")
                .arg(json())
                .arg(Arg::new("deep").long("deep").action(ArgAction::SetTrue).help(
                    "try each server address with a client in a network namespace and a gateway of its own, and say what fails and why",
                ))
                .arg(
                    Arg::new("long-reply")
                        .long("long-reply")
                        .value_name("\"NAME TYPE\"")
                        .value_parser(clap::value_parser!(Question))
                        .help("ask the server for this, such as \"example.com DNSKEY\", and say whether it sends the reply over UDP"),
                ),
        ))
        .subcommand(options::with_place(
            Command::new("status")
                .about("Shows what the gateway of an interface is doing")
                .arg(json())
                .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).help("also show counters that are zero"))
                .arg(options::interval_flag("1 s"))
                .arg(
                    Arg::new("address")
                        .long("address")
                        .value_name("ADDRESS")
                        .value_parser(clap::value_parser!(IpAddr))
                        .action(ArgAction::Append)
                        .help("also say whether this client is in the share that the gateway serves; repeat it for more"),
                ),
        ))
        .subcommand(options::with_place(
            Command::new("top")
                .about("Shows status again and again, with the busiest sources")
                .arg(options::interval_flag("2 s"))
                .arg(
                    Arg::new("times")
                        .long("times")
                        .short('n')
                        .value_name("N")
                        .value_parser(clap::value_parser!(u64))
                        .help("end after N updates"),
                ),
        ))
        .subcommand(options::with_place(
            Command::new("drain")
                .about("Takes the gateway off an interface once its open connections have ended, with its daemon or without")
                .arg(
                    Arg::new("wait")
                        .long("wait")
                        .value_name("SPAN")
                        .default_value("3 min")
                        .help("how long this command waits; after that it says how many are open, and ends with exit code 1"),
                ),
        ))
        .subcommand(options::with_place(
            Command::new("detach")
                .about("Removes what a run left on an interface, even after a crash"),
        ))
}

/// clap's message, in one line if it is an error.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            put(&error.to_string());
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            tell(&error.to_string());
            ExitCode::from(2)
        }
        _ => {
            let text = error.to_string();
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let what = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let tip = lines
                .find_map(|line| line.strip_prefix("tip: "))
                .map_or_else(|| format!("see {} --help", used()), str::to_owned);
            tell(&format!("error: {what}; hint: {tip}\n"));
            ExitCode::from(2)
        }
    }
}

/// The command that the command line names, after the program's name. clap's message has it only if
/// an argument is missing or unknown.
fn used() -> String {
    let named = std::env::args().nth(1).filter(|word| command().find_subcommand(word).is_some());
    named.map_or_else(|| "narrows-gateway".into(), |word| format!("narrows-gateway {word}"))
}

/// Why commands that need the in-kernel data path do not work.
#[cfg(not(feature = "ebpf"))]
pub(crate) const BUILT_WITHOUT: &str = "this narrows-gateway was built without the in-kernel data path; hint: make gateway builds one that has it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
