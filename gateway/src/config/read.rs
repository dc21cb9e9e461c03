//! Turns text into a [`Config`]: the TOML file, overridden by flags.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::table::{KEYS, Key, Raw, key};
use super::{Config, ConfigError, Preset};
use crate::passing;

/// The most bytes of a configuration file.
const FILE_MAX: u64 = 1 << 20;

/// Reads a configuration file over `base`.
///
/// # Errors
///
/// Returns the first error in the file: any [`ConfigError`] except [`ConfigError::Missing`].
pub fn read_file(path: &Path, base: Config) -> Result<Config, ConfigError> {
    let place = path.display().to_string();
    let unreadable =
        |why: String| ConfigError::Unreadable { path: place.clone(), why, passes: false };
    let failed = |error: std::io::Error| ConfigError::Unreadable {
        path: place.clone(),
        why: plain(&error),
        passes: passing::error(&error),
    };
    // A FIFO without a writer must not block: opened in this way, it is empty, and is refused
    // below.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = file.map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(unreadable("is not a regular file".into()));
    }
    let mut bytes = Vec::new();
    // Files of /proc claim to be empty, so only what is read counts.
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(unreadable(format!("is longer than {FILE_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| unreadable("is not UTF-8 text".into()))?;
    parse_file(&place, &text, base)
}

/// Reads the text of a configuration file; messages call the file `name`.
///
/// # Errors
///
/// Returns the same errors as [`read_file`].
pub fn parse_file(name: &str, text: &str, base: Config) -> Result<Config, ConfigError> {
    let line_of = |at: usize| {
        text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
    };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        let what = error.message().lines().next().unwrap_or("cannot be read").to_owned();
        ConfigError::Syntax { place: format!("{name}:{line}"), what }
    })?;
    let mut config = base;
    let mut found: Vec<(usize, String, Found<'_>)> = Vec::new();
    collect("", table.get_ref(), &mut found);
    found.sort_by_key(|(at, ..)| *at);
    for (at, full, value) in found {
        let place = format!("{name}:{}", line_of(at));
        let (Found::Value(value), Some(key)) = (value, key(&full)) else {
            return Err(ConfigError::Unknown { place, nearest: nearest(&full), key: full });
        };
        set(&mut config, key, &raw(value), place)?;
    }
    Ok(config)
}

/// Applies flags to `base`: keys and their values, one or several each.
///
/// # Errors
/// Returns [`ConfigError::Value`] if a value is refused.
/// [`ConfigError::Value`].
pub fn with_flags(
    base: Config,
    flags: &[(&'static Key, Vec<String>)],
) -> Result<Config, ConfigError> {
    let mut config = base;
    for (key, values) in flags {
        let mut values: Vec<Raw> = values.iter().cloned().map(Raw::Flag).collect();
        let value = if values.len() == 1 { values.remove(0) } else { Raw::List(values) };
        set(&mut config, key, &value, format!("--{}", key.flag()))?;
    }
    Ok(config)
}

/// Reads a configuration file, if there is one, applies flags, and bases both on the preset that
/// they name.
///
/// # Errors
///
/// Returns the same errors as [`read_file`] and [`with_flags`].
pub fn layered(
    file: Option<&Path>,
    flags: &[(&'static Key, Vec<String>)],
) -> Result<Config, ConfigError> {
    let over = |base| {
        let base =
            file.map_or_else(|| Ok(Config::clone(&base)), |file| read_file(file, base.clone()))?;
        with_flags(base, flags)
    };
    let config = over(Config::default())?;
    match config.preset {
        Preset::Narrows => Ok(config),
        preset => over(Config::of(preset)),
    }
}

enum Found<'a> {
    Value(&'a DeValue<'a>),
    Section,
}

/// All keys with their places. A table counts as its keys if it can be one of ours.
fn collect<'a>(prefix: &str, table: &'a DeTable<'a>, found: &mut Vec<(usize, String, Found<'a>)>) {
    for (name, value) in table {
        let name: &Spanned<_> = name;
        let full = format!("{prefix}{}", name.get_ref());
        let at = name.span().start;
        match value.get_ref() {
            DeValue::Table(inner)
                if KEYS.iter().any(|key| key.name.starts_with(&format!("{full}."))) =>
            {
                collect(&format!("{full}."), inner, found);
            }
            DeValue::Table(_) => found.push((at, full, Found::Section)),
            value => found.push((at, full, Found::Value(value))),
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("a number beyond 64 bits"), Raw::Whole),
        DeValue::Boolean(value) => Raw::Truth(*value),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a decimal number"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

fn set(config: &mut Config, key: &Key, value: &Raw, place: String) -> Result<(), ConfigError> {
    key.set(config, value).map_err(|wrong| ConfigError::Value {
        place,
        key: key.name.into(),
        what: wrong.what,
        hint: wrong.hint,
    })
}

/// Returns the key or table with the nearest name. Its last part also counts, to find keys in the
/// wrong table.
fn nearest(name: &str) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &str| {
        let whole = strsim::damerau_levenshtein(known, name);
        let part =
            strsim::damerau_levenshtein(&last(known), &last(name)) + usize::from(known != name);
        whole.min(part)
    };
    let tables = KEYS.iter().filter_map(|key| key.name.split_once('.')).map(|(table, _)| table);
    let known = KEYS.iter().map(|key| key.name).chain(tables);
    known.min_by_key(|known| distance(known)).unwrap_or_default().to_owned()
}

/// Returns the system's message without "(os error 2)".
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::{Active, Close};
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        parse_file("gateway.toml", text, Config::default())
    }

    fn message(text: &str) -> String {
        parse(text).expect_err("bad").to_string()
    }

    #[test]
    fn a_file_sets_what_it_names() {
        let config = parse("interface = \"eth0\"\nserver = [\"192.0.2.53\", \"2001:db8::53\"]\n[syncache]\nhashsize = 1024\n")
            .expect("it is right");
        assert_eq!(config.interface(), "eth0");
        assert_eq!(config.servers.len(), 2);
        assert_eq!(config.syncache.hashsize, 1024);
        assert_eq!(config.timeout, Config::default().timeout);
    }

    #[test]
    fn one_server_needs_no_array() {
        assert_eq!(parse("server = \"192.0.2.53\"").expect("it is right").servers.len(), 1);
    }

    #[test]
    fn unknown_keys_name_line_and_nearest() {
        assert_eq!(
            message("port = 53\ntimeot = \"3 s\"\n"),
            "gateway.toml:2: there is no key \"timeot\"; hint: the nearest is \"timeout\""
        );
        assert!(message("[syncach]\nhashsize = 3").ends_with("the nearest is \"syncache\""));
        assert!(message("hashsize = 3").ends_with("\"syncache.hashsize\""));
        assert!(message("[limits]\nsyn_rat = 3").ends_with("\"limits.syn_rate\""));
    }

    #[test]
    fn values_name_their_key() {
        assert_eq!(
            message("\nloglevel = 9"),
            "gateway.toml:2: loglevel: 9 is out of range; hint: a whole number from 0 to 3"
        );
        assert!(message("timeout = 3").contains("3 has no unit; hint: such as \"3 s\""));
        assert!(
            message("syncache = 3")
                .ends_with("toml:1: syncache is a table; hint: [syncache], and its keys below")
        );
        assert!(message("loglevel = 99999999999999999999").contains("loglevel: "));
    }

    #[test]
    fn what_is_no_toml_names_the_line() {
        assert!(message("port = 53\nport\n").starts_with("gateway.toml:2: "));
        assert!(message("port = 53\nport = 54\n").starts_with("gateway.toml:2: "));
    }

    #[test]
    fn ipv4_written_as_ipv6_is_named_as_ipv4() {
        assert_eq!(
            message("server = \"::ffff:10.77.0.1\""),
            "gateway.toml:1: server: ::ffff:10.77.0.1 stands for the IPv4 address 10.77.0.1; hint: write 10.77.0.1"
        );
        assert!(
            message("user.upstream = \"[::ffff:127.0.0.1]:5353\"")
                .ends_with("; hint: write 127.0.0.1:5353")
        );
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = parse("port = 5353\nloglevel = 2").expect("it is right");
        let flags = vec![(key("port").expect("it exists"), vec!["5300".to_owned()])];
        let config = with_flags(file, &flags).expect("it is right");
        assert_eq!((config.port, config.loglevel), (5300, 2));
        let flags = vec![(key("port").expect("it exists"), vec!["dns".to_owned()])];
        let error = with_flags(Config::default(), &flags).expect_err("no number").to_string();
        assert!(error.starts_with("--port: port: is \"dns\""), "{error}");
    }

    #[test]
    fn a_preset_lies_below_everything_that_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("preset.toml");
        std::fs::write(&path, "close = \"keep\"\npreset = \"hayes-2010\"").expect("a file");
        let flags = vec![(key("active").expect("it exists"), vec!["true".to_owned()])];
        let config = layered(Some(&path), &flags).expect("it is right");
        let paper = Config::of(Preset::Hayes2010);
        let expected = Config { close: Close::Keep, active: Active::ALL, ..paper };
        assert_eq!(config, expected);
        // Then a flag selects another preset.
        let flags = vec![(key("preset").expect("it exists"), vec!["narrows".to_owned()])];
        assert_eq!(layered(Some(&path), &flags), Ok(Config::default()));
    }

    /// Section V.B of the paper, and what it says of SYNs (IV) and closing.
    #[test]
    fn the_papers_preset_has_its_defaults() {
        let paper = Config::of(Preset::Hayes2010);
        let shown = |name| key(name).expect("it exists").show(&paper);
        for (name, value) in [
            ("active", "false"),
            ("axfr_detect", "false"),
            ("timeout", "\"3 s\""),
            ("loglevel", "1"),
            ("port", "53"),
            ("close", "\"fin\""),
            ("acknowledge", "\"at-once\""),
            ("syncache.active", "true"),
            ("syncache.hashsize", "512"),
            ("syncache.bucketlimit", "30"),
        ] {
            assert_eq!(shown(name), value, "{name}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        use rand_core::Rng;
        let mut random = rand_pcg::Pcg64Mcg::new(7);
        let sample = include_str!("../../narrows-gateway.toml").replace("# ", "");
        for _ in 0..2000 {
            let mut bytes = sample.clone().into_bytes();
            for _ in 0..random.next_u32() % 8 + 1 {
                if bytes.is_empty() {
                    break;
                }
                let at = random.next_u32() as usize % bytes.len();
                match random.next_u32() % 3 {
                    0 => bytes[at] = random.next_u32() as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at + 1),
                }
            }
            if let Err(error) = parse(&String::from_utf8_lossy(&bytes)) {
                let text = error.to_string();
                assert!(text.contains("; hint: ") && text.lines().count() == 1, "{text}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read_file(Path::new("/nowhere/gateway.toml"), Config::default())
            .expect_err("not there");
        assert!(error.to_string().starts_with("/nowhere/gateway.toml: no such file"), "{error}");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        for path in [&*fifo, Path::new("/"), Path::new("/dev/zero"), Path::new("/dev/null")] {
            let error = read_file(path, Config::default()).expect_err("no file").to_string();
            let words = format!("{}: is not a regular file; hint: ", path.display());
            assert!(error.starts_with(&words) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn a_file_that_is_too_long_or_no_text_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.toml");
        // A hole: none of its 8 GiB is on the disk, and only as much as is allowed is read.
        let long = File::create(&path).expect("a file");
        long.set_len(8 << 30).expect("a hole");
        let error = read_file(&path, Config::default()).expect_err("too long").to_string();
        assert!(error.contains(": is longer than 1048576 bytes; hint: "), "{error}");
        std::fs::write(&path, b"interface = \"\xff\"").expect("a file");
        let error = read_file(&path, Config::default()).expect_err("no text").to_string();
        assert!(error.contains(": is not UTF-8 text; hint: "), "{error}");
    }

    #[test]
    fn a_long_value_is_shown_in_part() {
        let text = message(&format!("timeout = \"{}\"", "x".repeat(100_000)));
        assert!(text.len() < 400 && text.contains("hint: "), "{text}");
        let text = message(&format!("{} = 1", "é".repeat(100_000)));
        assert!(text.len() < 600 && text.contains("hint: "), "{text}");
    }
}
