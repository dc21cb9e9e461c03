//! The command line. Data goes to stdout, the rest to stderr.
//!
//! Exit codes: 0 done, 1 a fault while running, 2 refused before anything was touched.

mod detach;
mod options;
mod run;

use std::fmt;
use std::process::ExitCode;

use clap::{Arg, ArgAction, Command};

/// Why a command ends without having done its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Refused before anything was touched: exit code 2.
    Refused(String),
    /// A fault while running: exit code 1.
    Fault(String),
}

impl Failure {
    pub(crate) fn refused(error: impl fmt::Display) -> Self {
        Self::Refused(error.to_string())
    }

    pub(crate) fn fault(error: impl fmt::Display) -> Self {
        Self::Fault(error.to_string())
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
        Some(("detach", matches)) => {
            options::config(matches).and_then(|(config, _)| detach::detach(&config))
        }
        _ => Ok(()),
    };
    let (text, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Refused(text)) => (text, 2),
        Err(Failure::Fault(text)) => (text, 1),
    };
    eprintln!("error: {text}");
    ExitCode::from(code)
}

fn command() -> Command {
    Command::new("narrows-gateway")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Stateless TCP in front of any DNS server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(options::with_settings(
            Command::new("run").about("Serves an interface's DNS over TCP, in the foreground"),
        ))
        .subcommand(options::with_place(
            Command::new("detach")
                .about("Removes what a run left on an interface, also after a crash"),
        ))
}

/// clap's words, in one line where they are an error.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprint!("{error}");
            ExitCode::from(2)
        }
        _ => {
            let text = error.to_string();
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let what = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let tip = lines
                .find_map(|line| line.strip_prefix("tip: "))
                .unwrap_or("see narrows-gateway --help")
                .to_owned();
            eprintln!("error: {what}; hint: {tip}");
            ExitCode::from(2)
        }
    }
}

/// The flag `--json`.
#[allow(dead_code, reason = "for the commands that show something")]
pub(crate) fn json_flag() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("print one JSON object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
