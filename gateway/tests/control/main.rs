//! Attach, restart, crash, upgrade, detach, and every refusal: on a real kernel, in separate
//! network namespaces.
#![cfg(feature = "ebpf")]

mod checks;
mod drain;
mod place;
mod refusals;

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys;
use narrows_gateway::kernel::links::{Hook, Link, XdpMode};
use nix::sys::signal::Signal;
use place::{Place, SERVER, ask, pass_all, skip};
use serde_json::Value;

/// Waits until something holds, at most a few seconds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn map_id(place: &Place, name: &str) -> Value {
    let output = std::process::Command::new("bpftool")
        .args(["-j", "map", "show", "pinned"])
        .arg(place.pins().join(name))
        .output()
        .expect("bpftool");
    let about: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    about["id"].clone()
}

#[test]
fn it_serves_and_leaves_the_machine_as_it_was() {
    if skip().is_some() {
        return;
    }
    for (mode, signal) in [("native", Signal::SIGTERM), ("generic", Signal::SIGINT)] {
        let place = Place::new();
        let before = place.machine();
        let run = place.start(&["--mode", mode, "--metrics", "127.0.0.1:9053"]);
        assert_eq!(run.ready["mode"], mode);
        assert_ne!(place.machine(), before);
        ask(&mut place.connect(), "name").expect("a reply");
        let status = place.status();
        assert_eq!(
            (&status["counters"]["query"], &status["counters"]["reply"]),
            (&1.into(), &1.into()),
            "{status}"
        );
        assert_eq!((&status["attached"], &status["daemon"]), (&true.into(), &run.pid().into()));

        until("metrics tell of the query", || {
            place.at_server(|| {
                use std::io::Write;
                let mut stream =
                    std::net::TcpStream::connect("127.0.0.1:9053").expect("it listens");
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
                let mut text = String::new();
                stream.read_to_string(&mut text).expect("it answers");
                text.contains(&format!(
                    "narrows_gateway_query_total{{interface=\"g0\",mode=\"{mode}\"}} 1"
                ))
            })
        });
        let about = fs::read_to_string(format!("/proc/{}/status", run.pid())).expect("procfs");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            let line = about.lines().find(|line| line.starts_with(set)).expect("a line");
            assert!(line.ends_with("\t0000000000000000"), "{line}");
        }
        assert!(about.contains("NoNewPrivs:\t1"));
        assert_eq!(run.end(signal), Some(0));
        assert_eq!(place.machine(), before);
    }
}

#[test]
fn the_units_capabilities_are_enough() {
    if skip().is_some() {
        return;
    }
    let unit = include_str!("../../systemd/narrows-gateway.service");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .expect("the line");
    let set: String = line
        .split(' ')
        .map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let place = Place::new();
    let before = place.machine();
    // Under systemd the bpf file system is mounted already. Here this first run mounts it.
    let first = place.start(&[]);
    assert_eq!(first.end(Signal::SIGTERM), Some(0));
    let run = place
        .start_as(&["setpriv", "--bounding-set", &format!("-all{set}"), "--no-new-privs"], &[]);
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
    assert_eq!(place.machine(), before);
}

#[test]
fn detach_finds_what_a_crash_left() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let run = place.start(&[]);
    assert_eq!(run.end(Signal::SIGKILL), None);
    // The kernel serves without a daemon, and status says so.
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.status()["daemon"], Value::Null);
    assert_eq!(place.status()["attached"], true);
    assert!(place.command(&[], &["detach"]).status.success());
    assert_eq!(place.machine(), before);
    let again = place.command(&[], &["detach"]);
    assert!(
        again.status.success()
            && String::from_utf8_lossy(&again.stdout).starts_with("nothing was attached")
    );
    assert_eq!(place.command(&[], &["status"]).status.code(), Some(2));
}

#[test]
fn a_restart_or_upgrade_drops_no_connection() {
    if skip().is_some() {
        return;
    }
    for signal in [Signal::SIGKILL, Signal::SIGUSR2] {
        let place = Place::new();
        let before = place.machine();
        let first = place.start(&[]);
        let (flows, pid) = (map_id(&place, "flows"), first.pid());
        let mut answered = place.connect();
        ask(&mut answered, "first").expect("a reply");
        let mut shaken = place.connect();
        until("the query is counted", || place.counter("query") == 1);
        first.end(signal);
        let mut between = place.connect();
        ask(&mut between, "between").expect("a reply without a daemon");

        let second = place.start(&[]);
        assert_ne!(second.pid(), pid);
        assert_eq!(map_id(&place, "flows"), flows, "the new run uses the same map");
        // A later query, which the kernel takes over because the server does not answer over UDP
        // for names with an s, and a first one with a cookie from the daemon before.
        ask(&mut answered, "second").expect("a reply");
        ask(&mut shaken, "late").expect("a reply");
        ask(&mut place.connect(), "new").expect("a reply");
        let counters = place.status()["counters"].clone();
        assert_eq!(counters["query"], 5, "{counters}");
        assert_eq!(counters["query_later"], 1, "{counters}");
        assert_eq!(counters["to_kernel_silent"], 1, "{counters}");
        assert_eq!(counters["adopted"], 1, "{counters}");
        assert_eq!(second.end(Signal::SIGTERM), Some(0));
        assert_eq!(place.machine(), before);
    }
}

#[test]
fn entries_outlive_a_change_of_their_number() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let first = place.start(&["--cache-connections", "2048", "--cache-ring", "256 KiB"]);
    let mut stream = place.connect();
    ask(&mut stream, "first").expect("a reply");
    until("it is acknowledged", || place.status()["entries"]["idle"] == 1);
    first.end(Signal::SIGUSR2);
    let second = place.start(&["--cache-connections", "4096", "--cache-ring", "1 MiB"]);
    assert_eq!(place.status()["entries_room"], 4096);
    assert_eq!(place.status()["entries"]["idle"], 1);
    ask(&mut stream, "second").expect("a reply");
    ask(&mut place.connect(), "new").expect("a reply");
    assert_eq!(second.end(Signal::SIGTERM), Some(0));
}

#[test]
fn an_upgrade_with_other_structures_begins_with_empty_maps() {
    if skip().is_some() {
        return;
    }
    use libbpf_rs::{MapCore, MapFlags, MapHandle};
    let place = Place::new();
    let before = place.machine();
    let first = place.start(&[]);
    ask(&mut place.connect(), "first").expect("a reply");
    let mut shaken = place.connect();
    first.end(Signal::SIGUSR2);
    let flows = map_id(&place, "flows");
    // This is what another version would have left behind.
    let about = MapHandle::from_pinned_path(place.pins().join("about")).expect("it is pinned");
    let text = about.lookup(&[0; 4], MapFlags::ANY).expect("it is read").expect("one element");
    let at =
        text.windows(10).position(|window| window == b"\"layout\":\"").expect("the layout") + 10;
    let mut other = text;
    other[at] = if other[at] == b'1' { b'2' } else { b'1' };
    about.update(&[0; 4], &other, MapFlags::ANY).expect("it is written");

    let second = place.start(&[]);
    assert_ne!(map_id(&place, "flows"), flows);
    assert_eq!(place.counter("query"), 0, "counters start again from zero");
    // The secret stays the same, so cookies stay valid.
    ask(&mut shaken, "late").expect("a reply");
    assert_eq!(place.counter("query"), 1);
    assert_eq!(second.end(Signal::SIGTERM), Some(0));
    assert_eq!(place.machine(), before);
}

#[test]
fn an_interface_that_came_again_is_served_again() {
    if skip().is_some() {
        return;
    }
    let mut place = Place::new();
    place.start(&[]).end(Signal::SIGKILL);
    place.at_server(|| {
        let gone = std::process::Command::new("ip").args(["link", "del", "g0"]).status();
        assert!(gone.expect("ip").success());
    });
    place.join();
    let before = place.machine();
    let run = place.start(&[]);
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.status()["attached"], true);
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
    assert_ne!(place.machine(), before, "the dead links' pins are gone, too");
    assert!(!place.path("bpf/narrows-gateway").exists());
}

#[test]
fn an_interface_that_goes_ends_the_run() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let run = place.start(&[]);
    place.at_server(|| {
        let gone = std::process::Command::new("ip").args(["link", "del", "g0"]).status();
        assert!(gone.expect("ip").success());
    });
    assert_eq!(run.wait(), Some(1));
    assert!(place.log().contains("error: g0 is gone"), "{}", place.log());
    assert!(!place.path("bpf/narrows-gateway").exists(), "its pins are removed");
}

#[test]
fn lost_and_foreign_pins_are_named_and_healed() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let says = |words: &str| {
        let status = place.command(&[], &["status", "--interval", "0"]);
        let said = String::from_utf8_lossy(&status.stderr).into_owned();
        assert!(matches!(status.status.code(), Some(1 | 2)), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(said.contains("hint: narrows-gateway run attaches and pins again"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    place.start(&[]).end(Signal::SIGKILL);
    fs::remove_file(place.pins().join("flows")).expect("it is pinned");
    says("flows: no such file or directory");
    let run = place.start(&[]);
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.counter("query"), 1);
    run.end(Signal::SIGKILL);

    // Another map in place of the settings.
    fs::remove_file(place.pins().join("settings")).expect("it is pinned");
    let pin = |map: &str, name: &str| {
        let done = std::process::Command::new("bpftool")
            .args(["map", "pin", "id", map])
            .arg(place.pins().join(name))
            .status();
        assert!(done.expect("bpftool").success());
    };
    pin(&map_id(&place, "ring_head").to_string(), "settings");
    says("another version's");
    assert!(place.command(&[], &["detach"]).status.success());
    assert_eq!(place.machine(), before);
}

#[test]
fn on_exit_keep_leaves_it_serving() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let run = place.start(&["--on-exit", "keep"]);
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.counter("query"), 1);
    assert!(place.command(&[], &["detach"]).status.success());
    assert_eq!(place.machine(), before);
}

#[test]
fn a_configuration_is_read_again() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let file = place.path("gateway.toml");
    let config = file.to_str().expect("plain").to_owned();
    let write = |text: &str| fs::write(&file, format!("{text}\nloglevel = 3\n")).expect("a file");
    write("close = \"keep\"");
    let run = place.start(&["--config", &config]);

    write("active = false\nedns_size = \"1232 B\"");
    run.signal(Signal::SIGHUP);
    until("it is not active", || place.status()["active"] == false);
    // Every packet passes, so the server's own TCP answers.
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!((place.counter("syn"), place.counter("query")), (0, 0));

    write("actve = true");
    run.signal(Signal::SIGHUP);
    until("the error is logged", || place.log().contains("configuration not taken"));
    assert_eq!(place.status()["active"], false);

    write("active = true\ncache.connections = 4096");
    run.signal(Signal::SIGHUP);
    until("it is active", || place.status()["active"] == true);
    until("what needs a restart is named", || place.log().contains("setting needs a restart"));
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.counter("query"), 1);
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
}

/// `status` and the metrics show the share in force, also after reloads.
#[test]
fn the_share_of_the_clients_is_shown() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let file = place.path("gateway.toml");
    let config = file.to_str().expect("plain").to_owned();
    let write = |share: &str| {
        fs::write(&file, format!("active = {share}\nloglevel = 2\n")).expect("a file");
    };
    write("\"10 %\"");
    let mut run = place.start(&["--config", &config, "--metrics", "127.0.0.1:9053"]);
    assert_eq!(run.ready["active"], "10 %", "{}", run.ready);
    let scrape = || {
        place.at_server(|| {
            use std::io::Write;
            let mut stream = std::net::TcpStream::connect("127.0.0.1:9053").expect("it listens");
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("it answers");
            text
        })
    };
    let shown = |percent: f64, metric: &str, words: &str| {
        until(words, || place.status()["active_percent"] == percent);
        let settings = format!("\nsettings     {words}");
        // The gateway is active until it has seen that no connection is open.
        until(words, || {
            let output = place.command(&[], &["status", "--interval", "0 s"]);
            String::from_utf8_lossy(&output.stdout).contains(&settings)
        });
        let line =
            format!("narrows_gateway_active_share{{interface=\"g0\",mode=\"native\"}} {metric}\n");
        until(&line, || scrape().contains(&line));
    };
    shown(10.0, "0.1", "active for 10 % of the clients");
    let started = place.status()["started_at"].clone();
    assert!(started.is_u64(), "{started}");
    for (share, percent, metric, words) in [
        ("\"33.33 %\"", 33.33, "0.3333", "active for 33.33 % of the clients"),
        ("false", 0.0, "0.0", "NOT ACTIVE"),
        ("true", 100.0, "1.0", "active for all clients"),
    ] {
        write(share);
        run.signal(Signal::SIGHUP);
        let line = run.line();
        assert_eq!(line["event"], "reloaded", "{line}");
        let given: Value = serde_json::from_str(share).expect("JSON");
        assert_eq!(line["active"], given, "{line}");
        shown(percent, metric, words);
        assert_eq!(place.status()["started_at"], started, "a reload is no start");
        assert!(place.log().contains(&format!("\"active\":{share}")), "{}", place.log());
    }
    // Without SYN cookies the kernel takes nothing over, so nobody is served.
    place.at_server(|| fs::write("/proc/sys/net/ipv4/tcp_syncookies", "0").expect("root may"));
    shown(0.0, "0.0", "NO NEW CONNECTIONS");
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
}

#[test]
fn entries_go_when_their_time_is_over() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let run = place.start(&["--timeout", "500 ms", "--idle", "1 s"]);
    let mut idle = place.connect();
    ask(&mut idle, "name").expect("a reply");
    // The connection is closed in order, with a FIN, so a read ends without an error.
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("FIN, not RST");
    assert!(rest.is_empty());
    drop(idle);
    until("the client's FIN removes the entry", || place.status()["entries"]["closing"] == 0);

    let mut silent = place.connect();
    silent.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    ask(&mut silent, "silence").expect("the server answers over TCP alone");
    assert_eq!(place.counter("to_kernel_silent"), 1);
    until("its entry is forgotten", || place.counter("expired") >= 1);
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
}

#[test]
fn keys_of_one_secret_are_the_same_after_everything_is_gone() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let secret = place.path("secret");
    fs::write(&secret, "00112233445566778899aabbccddeeff\n").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("ours");
    let path = secret.to_str().expect("plain");
    let first = place.start(&["--secret", path]);
    let mut stream = place.connect();
    // Nothing is left of the first run except the cookie that the client holds.
    assert_eq!(first.end(Signal::SIGTERM), Some(0));
    let second = place.start(&["--secret", path]);
    ask(&mut stream, "name").expect("a reply");
    assert_eq!(place.counter("query"), 1);
    assert_eq!(second.end(Signal::SIGTERM), Some(0));
}
