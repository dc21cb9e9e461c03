//! Flags: one for each key of the configuration, and the file that they override.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use narrows_gateway::config::table::{KEYS, Key};
use narrows_gateway::config::{Config, ConfigError, layered};
use narrows_units::{Span, parse_span};

use super::Failure;

/// Where a configuration came from, so that it can be read again.
pub(crate) struct Source {
    file: Option<PathBuf>,
    flags: Vec<(&'static Key, Vec<String>)>,
}

impl Source {
    /// Reads the file and applies the flags.
    pub(crate) fn read(&self) -> Result<Config, ConfigError> {
        layered(self.file.as_deref(), &self.flags)
    }
}

/// Adds `--config` and a flag for each key.
pub(crate) fn with_settings(command: Command) -> Command {
    with_keys(command, |_| true)
}

/// Adds `--config` and the flags that select a gateway.
pub(crate) fn with_place(command: Command) -> Command {
    with_keys(command, |key| matches!(key.name, "interface" | "bpffs"))
}

/// Returns the configuration that the command line asks for.
pub(crate) fn config(matches: &ArgMatches) -> Result<(Config, Source), Failure> {
    let file = matches.get_one::<String>("config").map(PathBuf::from);
    let flags = KEYS
        .iter()
        .filter_map(|key| {
            let values = matches.try_get_many::<String>(key.name).ok().flatten()?;
            Some((key, values.cloned().collect()))
        })
        .collect();
    let source = Source { file, flags };
    let config = source.read().map_err(Failure::start)?;
    config.validate_interface().map_err(Failure::refused)?;
    Ok((config, source))
}

/// `--interval SPAN`.
pub(crate) fn interval_flag(default: &'static str) -> Arg {
    Arg::new("interval")
        .long("interval")
        .value_name("SPAN")
        .default_value(default)
        .help("measure rates over this time")
}

/// Returns what `--interval` says.
pub(crate) fn interval(matches: &ArgMatches) -> Result<Duration, Failure> {
    span(matches, "interval")
}

/// Returns what this flag says, which has a default.
pub(crate) fn span(matches: &ArgMatches, flag: &str) -> Result<Duration, Failure> {
    let text = matches.get_one::<String>(flag).map_or("1 s", String::as_str);
    let refused = |what: String| {
        Failure::refused(format!("--{flag}: {what}; hint: a span of at most 1 h, such as \"2 s\""))
    };
    let span = parse_span(text).map_err(|error| refused(format!("{text:?} {error}")))?;
    if span > Span::from_secs(3600) {
        return Err(refused(format!("{text:?} is out of range")));
    }
    Ok(Duration::from_nanos(span.as_ps() / 1000))
}

fn with_keys(command: Command, wanted: impl Fn(&Key) -> bool) -> Command {
    let file = Arg::new("config")
        .long("config")
        .short('c')
        .value_name("FILE")
        .help("read settings from this TOML file; flags win over it");
    let keys = KEYS.iter().filter(|key| wanted(key)).map(|key| {
        let several = matches!(key.name, "server" | "interface");
        let action = if several { ArgAction::Append } else { ArgAction::Set };
        let default = key.show(&Config::default());
        let help = if matches!(&*default, "\"\"" | "[]") {
            key.help()
        } else {
            format!("{} [default: {}]", key.help(), default.trim_matches('"'))
        };
        Arg::new(key.name)
            .long(key.flag())
            .value_name(key.placeholder)
            .action(action)
            .allow_hyphen_values(true)
            .help(help)
    });
    command.arg(file).args(keys)
}
