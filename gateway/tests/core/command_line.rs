//! What the command line prints and refuses, without root and without a network.

use std::fs;
use std::process::{Command, Output};

fn gateway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows-gateway")).args(arguments).output().expect("it runs")
}

#[test]
fn the_version_has_a_digest_of_the_sources() {
    let said = String::from_utf8_lossy(&gateway(&["--version"]).stdout).into_owned();
    let digest = said
        .trim()
        .strip_prefix(concat!("narrows-gateway ", env!("CARGO_PKG_VERSION"), " ("))
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(digest.len() == 16 && digest.chars().all(|c| c.is_ascii_hexdigit()), "{said}");
    assert!(said.contains(narrows_gateway::VERSION));
}

/// Checks that a command is refused with exit code 2 and one line that contains these words.
fn refused(arguments: &[&str], words: &[&str]) {
    let output = gateway(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && last.contains("; hint: "), "{arguments:?}: {said}");
    assert_eq!(
        said.lines().filter(|line| !line.starts_with('{')).count(),
        1,
        "{arguments:?}: {said}"
    );
    for word in words {
        assert!(last.contains(word), "{word:?} is not in {last}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["status", "--help"],
        &["help", "check"],
    ] {
        let output = gateway(arguments);
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}");
    }
    let help = String::from_utf8_lossy(&gateway(&["run", "--help"]).stdout).into_owned();
    for key in narrows_gateway::config::table::KEYS {
        assert!(help.contains(&format!("--{}", key.flag())), "{}", key.name);
    }
}

#[test]
fn what_the_command_line_lacks_or_has_too_much_is_named() {
    refused(&["run"], &["interface: is not set"]);
    refused(&["run", "--interface", "lo"], &["server: is not set", "--server 192.0.2.53"]);
    refused(&["run", "--interfac", "lo"], &["--interfac", "--interface"]);
    let help = "see narrows-gateway check --help";
    refused(&["check", "--long-reply", "example.com"], &["NAME TYPE", help]);
    refused(&["--long-reply"], &["see narrows-gateway --help"]);
    refused(&["stats"], &["stats", "status"]);
    #[cfg(feature = "ebpf")]
    refused(&["status", "--interface", "lo", "--interval", "2"], &["--interval", "no unit"]);
    refused(&["run", "--interface", "a/b"], &["a/b"]);
    let server = ["run", "--interface", "lo", "--server"];
    refused(&[&server[..], &["192.0.2.256"]].concat(), &["--server", "192.0.2.256"]);
    refused(&[&server[..], &["192.0.2.53,192.0.2.54"]].concat(), &["--server A --server B"]);
    refused(&[&server[..], &["192.0.2.53:53"]].concat(), &["192.0.2.53:53", "port"]);
    refused(&[&server[..], &["127.0.0.1", "--server", "127.0.0.1"]].concat(), &["server", "twice"]);
    refused(&[&server[..], &["127.0.0.1", "--rotation", "1 s"]].concat(), &["rotation", "64 s"]);
    refused(&[&server[..], &["127.0.0.1", "--loglevel", "7"]].concat(), &["--loglevel", "0 to 3"]);
}

#[test]
fn a_bad_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gateway.toml");
    let name = path.to_str().expect("plain").to_owned();
    for (text, words) in [
        ("port = 53\ninterfaec = \"eth0\"\n", ["toml:2", "\"interface\""]),
        ("port = \"53\"\n", ["toml:1", "port: is a string"]),
        ("[limits]\nquery_rate = -1\n", ["toml:2", "limits.query_rate: -1"]),
        ("port = 53\n\nport\n", ["toml:3", "TOML"]),
        ("port = 53\nmode = native\n", ["toml:2", "in double quotes"]),
    ] {
        fs::write(&path, text).expect("it can be written");
        refused(&["run", "--config", &name], &words);
        refused(&["check", "--config", &name], &words);
    }
    fs::remove_file(&path).expect("it is ours");
    refused(&["run", "--config", &name], &[&name, "no such file"]);
}

#[test]
fn a_configuration_that_is_no_file_holds_nothing_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let fifo = folder.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for path in [&*fifo, folder] {
        let name = path.to_str().expect("plain");
        for command in ["run", "check", "detach"] {
            refused(&[command, "--config", name], &[name, "is not a regular file"]);
        }
    }
}

#[test]
fn check_reads_the_secret_as_run_does() {
    let arguments = ["--interface", "lo", "--server", "127.0.0.1", "--secret", "/nowhere/secret"];
    refused(&[&["run"], &arguments[..]].concat(), &["secret: /nowhere/secret: no such file"]);
    let check = gateway(&[&["check"], &arguments[..]].concat());
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("problem: secret: /nowhere/secret: no such file"), "{said}");
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    for command in [&["check", "--mode", "native"][..], &["status"], &["top"]] {
        if command[0] != "check" && !cfg!(feature = "ebpf") {
            continue;
        }
        refused(&[command, &["--interface", "nowhere0"]].concat(), &["nowhere0", "ip link"]);
    }
}

#[cfg(not(feature = "ebpf"))]
#[test]
fn without_the_in_kernel_path_modes_that_need_it_are_refused() {
    let run = ["run", "--interface", "lo", "--server", "127.0.0.1", "--mode"];
    for mode in ["native", "generic"] {
        refused(&[&run[..], &[mode]].concat(), &[mode, "built", "make gateway"]);
    }
    refused(&[&run[..], &["auto"]].concat(), &["user.upstream"]);
    // What check prints about the same.
    let check = gateway(&["check", "--interface", "lo", "--server", "127.0.0.1"]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("problem: user.upstream is not set"), "{said}");
    assert!(said.ends_with("a run would be refused\n"), "{said}");
    refused(&["status", "--interface", "lo"], &["built without", "make gateway"]);
    assert!(gateway(&["detach", "--interface", "lo"]).status.success());
}

#[test]
fn an_exit_code_stays_where_words_cannot_be_written() {
    for arguments in [&["run"][..], &["check", "--interface", "a/b"], &["stats"], &[]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the system has it");
        let status = Command::new(env!("CARGO_BIN_EXE_narrows-gateway"))
            .args(arguments)
            .stderr(full)
            .status()
            .expect("it runs");
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
}
