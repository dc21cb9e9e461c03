//! Attach, restart, crash, upgrade, detach, and every refusal: on a real kernel, in network namespaces of the test's own.
#![cfg(feature = "ebpf")]

mod place;

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

/// Waits until something holds, at most some seconds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The command is refused: exit code 2, one line that holds `words`, and the machine as it was.
fn refused(place: &Place, prefix: &[&str], arguments: &[&str], words: &[&str]) {
    let before = place.machine();
    let output = place.command(prefix, &[&["run"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    assert!(
        said.lines().all(|line| line.starts_with("error: ") || line.starts_with('{')),
        "{said}"
    );
    assert!(errors[0].contains("; hint: "), "{said}");
    for word in words {
        assert!(errors[0].contains(word), "{word:?} is not in {said}");
    }
    assert!(output.stdout.is_empty());
    assert_eq!(place.machine(), before, "{arguments:?}");
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
fn what_stands_in_the_way_is_refused() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let server = ["--server", SERVER];
    let with = |more: &[&'static str]| [&server[..], more].concat();

    refused(&place, &[], &with(&["--interface", "g1"]), &["no interface \"g1\"", "\"g0\""]);
    refused(
        &place,
        &[],
        &["--server", "10.77.0.9"],
        &["10.77.0.9 is no address of this machine", SERVER],
    );
    refused(
        &place,
        &[],
        &with(&["--port", "5353", "--server-wait", "200ms"]),
        &["10.77.0.1:5353 does not answer"],
    );
    refused(&place, &[], &[], &["server: is not set"]);
    refused(&place, &[], &with(&["--timeout", "3"]), &["--timeout", "no unit"]);
    refused(&place, &[], &with(&["--tiemout", "3 s"]), &["--tiemout", "--timeout"]);
    refused(&place, &[], &with(&["--secret", "/nowhere"]), &["/nowhere: no such file"]);
    let port = place.at_server(|| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let address = port.local_addr().expect("bound").to_string();
    refused(&place, &[], &[&server[..], &["--metrics", &address]].concat(), &["metrics", &address]);

    let file = place.path("gateway.toml");
    fs::write(&file, "interface = \"g0\"\nserver = \"10.77.0.1\"\nsyncache.hashsise = 3\n")
        .expect("a file");
    let config = file.to_str().expect("plain").to_owned();
    refused(&place, &[], &["--config", &config], &["gateway.toml:3", "syncache.hashsize"]);

    let secret = place.path("secret");
    fs::write(&secret, "00112233445566778899aabbccddeeff").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("ours");
    refused(
        &place,
        &[],
        &[&server[..], &["--secret", secret.to_str().expect("plain")]].concat(),
        &["others", "chmod 600"],
    );

    let none = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"];
    refused(&place, &none, &server, &["not enough privileges", "CAP_BPF"]);
}

#[test]
fn a_kernel_or_interface_without_a_feature_is_named() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    place.at_server(|| fs::write("/proc/sys/net/ipv4/tcp_syncookies", "0").expect("root may"));
    refused(
        &place,
        &[],
        &["--server", SERVER, "--mode", "native"],
        &["no SYN cookies in the kernel", "tcp_syncookies=1"],
    );
    place.at_server(|| fs::write("/proc/sys/net/ipv4/tcp_syncookies", "1").expect("root may"));

    // A driver without XDP, as the loopback's: generic is used, and said.
    refused(
        &place,
        &[],
        &["--server", SERVER, "--interface", "lo", "--mode", "native"],
        &["no native XDP in the driver of lo", "hint: --mode generic"],
    );
    let run = place.start(&["--interface", "lo", "--mode", "auto"]);
    assert_eq!(run.ready["mode"], "generic");
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
    assert!(!place.log().contains("veth"), "{}", place.log());
}

#[test]
fn auto_does_not_go_on_in_user_space_with_addresses_of_the_machine() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    // A feature that this interface lacks: its frames have no Ethernet header.
    place.at_server(|| {
        for words in ["tuntap add mode tun name t0", "link set t0 up"] {
            let made = std::process::Command::new("ip").args(words.split(' ')).status();
            assert!(made.expect("ip").success(), "{words}");
        }
    });
    for upstream in [&[][..], &["--user-upstream", "127.0.0.1:5353"]] {
        let arguments = [&["--server", SERVER, "--interface", "t0"], upstream].concat();
        let words = [
            "no Ethernet header",
            "--mode user with --user-upstream and a --server that is no address of this machine",
        ];
        refused(&place, &[], &arguments, &words);
        let output = place.command(&[], &[&["check", "--json"], &*arguments].concat());
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((output.status.code(), &said["mode"]), (Some(2), &Value::Null), "{said}");
        let problem = said["problems"][0].as_str().expect("a problem");
        assert!(words.iter().all(|word| problem.contains(word)), "{said}");
    }
}

#[test]
fn auto_serves_whatever_a_veth_devices_other_end_has() {
    if skip().is_some() {
        return;
    }
    let mut place = Place::new();
    place.take_program_off_client();
    let before = place.machine();
    let run = place.start(&["--mode", "auto", "--loglevel", "1"]);
    assert_eq!(run.ready["mode"], "generic");
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.status()["mode"], "generic");
    let log = place.log();
    assert_eq!(log.lines().count(), 1, "{log}");
    let line: Value = serde_json::from_str(&log).expect("JSON");
    let what = line["what"].as_str().expect("words");
    assert!(what.contains("g0 is a veth device") && what.contains("hint: --mode native"), "{log}");

    // What was attached in another mode goes on in it, and a mode that is named is the mode that is used.
    assert_eq!(run.end(Signal::SIGUSR2), Some(0));
    let named = place.start(&["--mode", "native"]);
    assert_eq!(named.ready["mode"], "native");
    assert_eq!(named.end(Signal::SIGUSR2), Some(0));
    let again = place.start(&["--mode", "auto"]);
    assert_eq!(again.ready["mode"], "native");
    assert_eq!(again.end(Signal::SIGTERM), Some(0));
    assert_eq!(place.machine(), before);
}

#[test]
fn another_program_or_gateway_is_left_alone() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    fs::create_dir_all(place.path("other")).expect("a folder");
    let other = place.path("other").to_str().expect("plain").to_owned();
    let run = place.start(&["--bpffs", &other]);
    // To whoever looks elsewhere for pins it is a foreign program.
    refused(
        &place,
        &[],
        &["--server", SERVER],
        &["has an XDP program already: gateway_xdp", "the --bpffs of its run"],
    );
    // Neither is it as if there were none.
    for command in ["status", "detach"] {
        let output = place.command(&[], &[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("g0 has the programs of a narrows-gateway"), "{command}: {said}");
    }
    let pid = run.pid().to_string();
    refused(
        &place,
        &[],
        &["--server", SERVER, "--bpffs", &other],
        &["another narrows-gateway serves g0", &pid],
    );
    let detach = place.command(&[], &["detach", "--bpffs", &other]);
    assert_eq!(detach.status.code(), Some(2), "a daemon serves it");
    assert_eq!(run.end(Signal::SIGINT), Some(0));
    assert_eq!(place.machine(), before);
}

#[test]
fn who_has_the_hook_is_named_with_the_command_that_takes_it_off() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let index = || nix::net::if_::if_nametoindex("g0").expect("g0");
    // Attached by a link, which its descriptor here keeps.
    for (mode, how) in [(XdpMode::Generic, "generic"), (XdpMode::Native, "native")] {
        let link = place.at_server(|| {
            Link::create(pass_all(c"pass").as_fd(), index(), Hook::Xdp(mode)).expect("root may")
        });
        let how = format!("{how}, held by the BPF link ");
        take_off(&place, &told(&place, "pass", &how, "bpftool link detach id "));
        drop(link);
    }
    // As ip(8) attaches: the interface keeps it.
    let attach = |name, flags| {
        place.at_server(|| {
            let (program, device) = (pass_all(name), index().cast_signed());
            // SAFETY: a descriptor that lives until the call returns, and no options.
            #[allow(unsafe_code, reason = "libbpf's C functions")]
            let result = unsafe {
                libbpf_sys::bpf_xdp_attach(device, program.as_raw_fd(), flags, std::ptr::null())
            };
            assert_eq!(result, 0);
        });
    };
    let modes = [
        (libbpf_sys::XDP_FLAGS_SKB_MODE, "generic", "xdpgeneric"),
        (libbpf_sys::XDP_FLAGS_DRV_MODE, "native", "xdpdrv"),
    ];
    for (flags, how, off) in modes {
        attach(c"pass", flags);
        let (how, off) =
            (format!("{how}, attached without a link"), format!("ip link set dev g0 {off} off"));
        take_off(&place, &told(&place, "pass", &how, &off));
    }
    // Nothing is in the way any more.
    place.start(&["--mode", "generic"]).end(Signal::SIGTERM);
    // libxdp's dispatcher is known by its name (xdp-tools 1.3, lib/libxdp/xdp-dispatcher.c.in).
    attach(c"xdp_dispatcher", libbpf_sys::XDP_FLAGS_SKB_MODE);
    told(&place, "xdp_dispatcher", "generic", "xdp-loader unload g0 --all");
}

/// `run` and `check` name the program that has the hook, how it is attached, and a command that takes it off, which begins so.
/// Gives the command.
fn told(place: &Place, program: &str, how: &str, command: &str) -> String {
    let server = ["--server", SERVER];
    let name = format!("g0 has an XDP program already: {program} (id ");
    refused(place, &[], &server, &[&name, how, command]);
    let output = place.command(&[], &[&["check", "--json"][..], &server].concat());
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &said["mode"]), (Some(2), &Value::Null), "{said}");
    let problem = said["problems"][0].as_str().expect("a problem");
    assert!(problem.contains(&name) && problem.contains(how), "{said}");
    let begin = problem.find(command).expect("the command");
    let end = problem.find(" takes ").expect("what the command does");
    problem[begin..end].to_owned()
}

/// Does what a hint says, after which no program is on the interface.
fn take_off(place: &Place, command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let done = place.at_server(|| std::process::Command::new(words[0]).args(&words[1..]).output());
    assert!(done.expect("the tool is there").status.success(), "{command}");
    assert!(!place.machine().contains("prog/xdp"), "{command}: {}", place.machine());
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
    // The bpf file system is systemd's to mount.
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
        assert_eq!(map_id(&place, "flows"), flows, "the map goes on");
        // A later query, which the kernel takes over, because the server is silent over UDP about names
        // with an s, and a first one with the cookie of the daemon before.
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
    // As another version would have left it.
    let about = MapHandle::from_pinned_path(place.pins().join("about")).expect("it is pinned");
    let text = about.lookup(&[0; 4], MapFlags::ANY).expect("it is read").expect("one element");
    let at =
        text.windows(10).position(|window| window == b"\"layout\":\"").expect("the layout") + 10;
    let mut other = text;
    other[at] = if other[at] == b'1' { b'2' } else { b'1' };
    about.update(&[0; 4], &other, MapFlags::ANY).expect("it is written");

    let second = place.start(&[]);
    assert_ne!(map_id(&place, "flows"), flows);
    assert_eq!(place.counter("query"), 0, "counters begin anew");
    // The secret stays, and so do cookies.
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

    // Another map in the place of the settings.
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
    // Everything passes: the server's own TCP answers.
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

#[test]
fn entries_go_when_their_time_is_over() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let run = place.start(&["--timeout", "500 ms", "--idle", "1 s"]);
    let mut idle = place.connect();
    ask(&mut idle, "name").expect("a reply");
    // Closed in order, with a FIN: a read ends without an error.
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
    // Nothing is left of the first but the cookie that the client holds.
    assert_eq!(first.end(Signal::SIGTERM), Some(0));
    let second = place.start(&["--secret", path]);
    ask(&mut stream, "name").expect("a reply");
    assert_eq!(place.counter("query"), 1);
    assert_eq!(second.end(Signal::SIGTERM), Some(0));
}

#[test]
fn check_touches_nothing() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let output = place.command(&[], &["check", "--json", "--server", SERVER]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success(), "{said}");
    assert_eq!(said["mode"], "generic", "{said}");
    assert!(said["warnings"][0].as_str().is_some_and(|text| text.contains("hint: --mode native")));
    assert_eq!(said["facts"]["native_xdp"], true, "{said}");
    assert_eq!(said["facts"]["servers"][0]["tcp"], true, "{said}");
    assert_eq!(said["facts"]["bpf_sk_assign_tcp_reqsk"], true, "{said}");
    assert_eq!(place.machine(), before);
    let output = place.command(&[], &["check", "--json", "--server", SERVER, "--mode", "native"]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["mode"], "native", "{said}");
    assert!(said["warnings"][0].as_str().is_some_and(|text| text.contains("hint: --mode generic")));
    assert_eq!(place.machine(), before);

    let refused = place.command(&[], &["check", "--json", "--server", "10.77.0.9"]);
    assert_eq!(refused.status.code(), Some(2));
    let said: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!(said["mode"], Value::Null);
    assert_eq!(place.machine(), before);
}

#[test]
fn check_says_what_the_user_space_path_needs() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let asked = |arguments: &[&str]| {
        let all =
            [&["check", "--json", "--mode", "user", "--user-link", "packet"], arguments].concat();
        let output = place.command(&[], &all);
        let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), said)
    };
    let (code, said) = asked(&["--server", "127.0.0.1", "--user-upstream", "10.77.0.1:53"]);
    assert_eq!(code, Some(2), "the address is the machine's own: {said}");
    let (code, said) = asked(&["--server", "192.0.2.53", "--user-upstream", "10.77.0.1:53"]);
    assert_eq!((code, &said["mode"]), (Some(0), &"user".into()), "{said}");
    let output = place.command(&[], &["check", "--mode", "user", "--server", "192.0.2.53"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("user.upstream"), "it is named");
}

#[test]
fn check_warns_of_settings_that_cost_connections() {
    if skip().is_some() {
        return;
    }
    // What each costs, as check says it: whether a second query is answered, and a second one after it.
    for (name, served) in
        [("tcp_window_scaling", false), ("tcp_timestamps", true), ("tcp_sack", true)]
    {
        let place = Place::new();
        let warned = || {
            let all = ["check", "--json", "--server", SERVER, "--mode", "generic"];
            let output = place.command(&[], &all);
            let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert!(output.status.success(), "a warning is no refusal: {said}");
            said["warnings"].as_array().is_some_and(|all| {
                all.iter().any(|text| text.as_str().is_some_and(|text| text.contains(name)))
            })
        };
        assert!(!warned());
        let file = format!("/proc/sys/net/ipv4/{name}");
        place.at_server(|| fs::write(&file, "0").expect("root may"));
        assert!(warned());
        let run = place.start(&["--mode", "generic"]);
        assert!(place.log().contains(&format!("net.ipv4.{name} is 0")), "{}", place.log());
        let mut stream = place.connect();
        ask(&mut stream, "first").expect("a reply");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
        assert_eq!(ask(&mut stream, "second").is_ok(), served, "{name}");
        assert_eq!(place.counter(if served { "adopted" } else { "adopt_failed" }), 1, "{name}");
        if served {
            ask(&mut stream, "third").expect("a reply");
        }
        assert_eq!(run.end(Signal::SIGTERM), Some(0));
    }
}

#[test]
fn check_names_rules_that_would_be_bypassed() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let rules = "table inet t { chain c { type filter hook input priority 0; tcp dport 53 ip saddr 192.0.2.0/24 drop; }; }";
    let set = place.at_server(|| std::process::Command::new("nft").arg(rules).status());
    match set {
        Ok(status) if status.success() => {}
        _ => {
            eprintln!("SKIP: needs nft; apt-get install nftables");
            assert!(std::env::var_os("CI").is_none(), "CI must not skip");
            return;
        }
    }
    let output = place.command(&[], &["check", "--json", "--server", SERVER]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["bypassed"][0]["place"], "nft inet t c", "{said}");
    assert!(output.status.success(), "a warning is no refusal");
}
