//! The operators' documents agree with the program: the reference of the settings, the man page,
//! the sample configuration, the systemd unit.
//!
//! `NARROWS_WRITE=1 cargo test -p narrows-gateway --test documents` rewrites the generated parts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use narrows_gateway::config::table::{KEYS, Key, Raw, TABLES};
use narrows_gateway::config::{Config, parse_file, read_file};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks that the part between two lines of a document is as expected.
fn section_is(name: &str, start: &str, end: &str, wanted: &str) {
    let text = read(name);
    let from =
        text.find(start).map(|at| at + start.len()).unwrap_or_else(|| panic!("{name}: no {start}"));
    let to = from + text[from..].find(end).unwrap_or_else(|| panic!("{name}: no {end}"));
    if text[from..to] != *wanted {
        if std::env::var_os("NARROWS_WRITE").is_some() {
            let new = format!("{}{wanted}{}", &text[..from], &text[to..]);
            fs::write(path(name), new).expect("the checkout can be written");
        } else {
            panic!(
                "{name} is out of date; NARROWS_WRITE=1 cargo test -p narrows-gateway --test documents writes it"
            );
        }
    }
}

fn default_of(key: &Key) -> String {
    match key.name {
        "interface" | "server" => "(must be set)".into(),
        _ => key.show(&Config::default()),
    }
}

#[test]
fn the_reference_has_the_settings() {
    let mut table = String::from("\n| key | default | meaning |\n|---|---|---|\n");
    for key in KEYS {
        let star = if key.live { "" } else { " *" };
        table += &format!(
            "| `{}`{star} | `{}` | {} |\n",
            key.name,
            default_of(key),
            key.help().replace('|', "\\|")
        );
    }
    let start = "<!-- settings: written by the test documents.rs, with NARROWS_WRITE=1 -->";
    section_is("SETTINGS.md", start, "<!-- end of settings -->", &(table + "\n"));
}

/// PROTOCOL.md names the tests of each claim about attackers.
#[test]
fn the_attackers_tests_exist() {
    let text = read("PROTOCOL.md");
    let (_, tests) = text.split_once("| who wants | the tests |").expect("the table");
    let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    assert!(names.len() > 15, "{names:?}");
    let mut sources = String::new();
    let mut folders = vec![path("tests")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a checkout").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                sources += &fs::read_to_string(entry.path()).unwrap_or_default();
            }
        }
    }
    for name in names {
        let there = ["fn", "def"].map(|word| sources.contains(&format!("{word} {name}(")));
        assert!(there.contains(&true), "no test {name}");
    }
}

#[test]
fn the_man_page_has_the_settings() {
    let roff = |text: &str| {
        text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq").replace('\'', "\\(aq")
    };
    let mut list = String::from("\n");
    for key in KEYS {
        let star = if key.live { "" } else { " *" };
        list +=
            &format!(".TP\n\\fB{}\\fR = \\fI{}\\fR{star}\n", roff(key.name), roff(key.placeholder));
        list += &format!("{}\nDefault: {}.\n", roff(&key.about()), roff(&default_of(key)));
    }
    let start = ".\\\" settings: written by the test documents.rs, with NARROWS_WRITE=1";
    section_is("man/narrows-gateway.8", start, ".\\\" end of settings", &list);
}

#[test]
fn the_man_page_renders() {
    let Ok(output) = Command::new("man")
        .args(["--warnings", "-E", "UTF-8", "-l"])
        .arg(path("man/narrows-gateway.8"))
        .output()
    else {
        eprintln!("SKIP: no man; apt-get install man-db");
        assert!(std::env::var_os("CI").is_none(), "CI must not skip");
        return;
    };
    assert!(output.status.success());
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(complaints.trim().is_empty(), "{complaints}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("syncache.hashsize"));
}

#[test]
fn the_sample_configuration_has_the_settings() {
    let mut sample = String::new();
    let mut table = "";
    for key in KEYS {
        let (within, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if within != table {
            table = within;
            let about = TABLES.iter().find(|(name, _)| *name == table).expect("it is described").1;
            sample += &format!("\n{}[{table}]\n", commented(about));
        }
        let default = key.show(&Config::default());
        sample += "\n";
        sample += &commented(&key.about());
        sample += &match key.sample() {
            Some(value) if matches!(&*default, "\"\"" | "[]") => format!("{name} = {value}\n"),
            Some(value) => format!("{name} = {value}  # default: {default}\n"),
            None => format!("# {name} = {default}\n"),
        };
    }
    let start = "# settings: written by the test documents.rs, with NARROWS_WRITE=1\n";
    section_is("narrows-gateway.toml", start, "\n# end of settings", &sample);
}

/// Lines of comments.
fn commented(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.len() + word.len() < 100 {
            *line += &format!(" {word}");
        } else {
            lines.push(format!("# {word}"));
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_sample_configuration_is_read_and_shows_the_defaults() {
    let sample = read_file(&path("narrows-gateway.toml"), Config::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sample.validate(), Ok(()));
    // Without its comment marks it sets each key to its default.
    let keys: Vec<&str> =
        KEYS.iter().map(|key| key.name.rsplit('.').next().expect("a name")).collect();
    let whole: String = read("narrows-gateway.toml")
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|(name, _)| keys.contains(&name)) => {
                format!("{rest}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let all = parse_file("narrows-gateway.toml", &whole, Config::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(all, sample, "what is commented out is not the default");
}

#[test]
fn each_flag_takes_its_default() {
    for key in KEYS.iter().filter(|key| !matches!(key.name, "interface" | "server")) {
        let shown = key.show(&Config::default());
        let plain = serde_json::from_str::<String>(&shown).unwrap_or(shown);
        let mut config = Config::default();
        key.set(&mut config, &Raw::Flag(plain))
            .unwrap_or_else(|wrong| panic!("{}: {}", key.name, wrong.what));
        assert_eq!(config, Config::default());
    }
}

#[test]
fn the_unit_is_sound() {
    let unit = read("systemd/narrows-gateway.service");
    for needed in [
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_NET_ADMIN",
        "CAP_NET_RAW",
        "RestartKillSignal=SIGUSR2",
        "NoNewPrivileges=yes",
        // For `check_every`: otherwise systemd would answer unshare with EPERM, whatever the
        // capabilities.
        "CAP_SYS_ADMIN",
        "\nRestrictNamespaces=net\n",
    ] {
        assert!(unit.contains(needed), "{needed}");
    }
    // It makes /sys/fs/bpf read-only, even if ReadWritePaths names it: systemd 252,
    // src/core/namespace.c.
    assert!(!unit.lines().any(|line| line.starts_with("ProtectKernelTunables=")));
    // systemd looks for the program and the manual page, which are not installed here.
    let binary = env!("CARGO_BIN_EXE_narrows-gateway");
    let here = unit
        .replace("/usr/sbin/narrows-gateway", binary)
        .replace("Documentation=man:narrows-gateway(8)\n", "");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("narrows-gateway.service");
    fs::write(&copy, here).expect("it can be written");
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // Other units of the machine may have errors of their own.
            let ours: Vec<&str> =
                said.lines().filter(|line| line.contains("narrows-gateway")).collect();
            assert!(ours.is_empty(), "{ours:?}");
        }
        Err(_) => {
            eprintln!("SKIP: no systemd-analyze; apt-get install systemd");
            assert!(std::env::var_os("CI").is_none(), "CI must not skip");
        }
    }
}
