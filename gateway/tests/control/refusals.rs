//! What `run` refuses, and what it prints then.

use super::*;

/// Checks that the command is refused until somebody changes something: exit code 2.
fn refused(place: &Place, prefix: &[&str], arguments: &[&str], words: &[&str]) {
    ends(2, place, prefix, arguments, words);
}

/// Checks that the command does not start now, but may start later: exit code 1.
fn not_now(place: &Place, prefix: &[&str], arguments: &[&str], words: &[&str]) {
    ends(1, place, prefix, arguments, words);
}

/// Checks that the command ends with this exit code and one line with `words`, and that the machine
/// is unchanged.
fn ends(code: i32, place: &Place, prefix: &[&str], arguments: &[&str], words: &[&str]) {
    let before = place.machine();
    let output = place.command(prefix, &[&["run"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
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

#[test]
fn what_stands_in_the_way_is_refused() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let server = ["--server", SERVER];
    let with = |more: &[&'static str]| [&server[..], more].concat();

    not_now(&place, &[], &with(&["--interface", "g1"]), &["no interface \"g1\"", "\"g0\""]);
    not_now(
        &place,
        &[],
        &["--server", "10.77.0.9"],
        &["10.77.0.9 is not an address of this machine", SERVER],
    );
    not_now(
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
    not_now(&place, &[], &[&server[..], &["--metrics", &address]].concat(), &["metrics", &address]);

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

/// What a machine may lack for a moment. The limit is raised until a start succeeds, so many steps of
/// the start fail at least once.
#[test]
fn a_lack_of_descriptors_may_pass() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let mut failed = 0;
    for files in (5..).step_by(7) {
        let limit = format!("--nofile={files}");
        let started = place.try_start(&["prlimit", &limit], &[]);
        let (code, said) = match started {
            Ok(run) => {
                assert_eq!(run.end(Signal::SIGTERM), Some(0));
                break;
            }
            Err(ended) => ended,
        };
        assert_eq!(code, Some(1), "{files} descriptors: {said}");
        assert_eq!(place.machine(), before, "{files} descriptors: {said}");
        failed += 1;
    }
    assert!(failed > 4, "{failed}");
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

    // A driver without XDP, such as the loopback's: `run` uses generic XDP and says so.
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
            "--mode user with --user-upstream and a --server that is not an address of this machine",
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

    // A gateway that was attached in another mode continues in that mode, and a mode that is named
    // is used.
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
    // If the pins are looked for elsewhere, it is a foreign program.
    refused(
        &place,
        &[],
        &["--server", SERVER],
        &["has an XDP program already: gateway_xdp", "the --bpffs with which it was started"],
    );
    // And it does not count as nothing.
    for command in ["status", "detach"] {
        let output = place.command(&[], &[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("g0 has the programs of a narrows-gateway"), "{command}: {said}");
    }
    let pid = run.pid().to_string();
    not_now(
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
    // Attached by a link, which the descriptor here holds.
    for (mode, how) in [(XdpMode::Generic, "generic"), (XdpMode::Native, "native")] {
        let link = place.at_server(|| {
            Link::create(pass_all(c"pass").as_fd(), index(), Hook::Xdp(mode)).expect("root may")
        });
        let how = format!("{how}, held by the BPF link ");
        take_off(&place, &named_with_its_removal(&place, "pass", &how, "bpftool link detach id "));
        drop(link);
    }
    // Attached as by ip(8): the interface holds it.
    let attach = |name, flags| {
        place.at_server(|| {
            let (program, device) = (pass_all(name), index().cast_signed());
            // SAFETY: a descriptor that outlives the call, and no options.
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
        take_off(&place, &named_with_its_removal(&place, "pass", &how, &off));
    }
    // Nothing is in the way any more.
    place.start(&["--mode", "generic"]).end(Signal::SIGTERM);
    // libxdp's dispatcher is known by its name (xdp-tools 1.3, lib/libxdp/xdp-dispatcher.c.in).
    attach(c"xdp_dispatcher", libbpf_sys::XDP_FLAGS_SKB_MODE);
    named_with_its_removal(&place, "xdp_dispatcher", "generic", "xdp-loader unload g0 --all");
}

/// `run` and `check` name the program on the hook, how it is attached, and a command that removes
/// it and begins with these words. Returns the command.
fn named_with_its_removal(place: &Place, program: &str, how: &str, command: &str) -> String {
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

/// Does what a hint says. After that, no program is on the interface.
fn take_off(place: &Place, command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let done = place.at_server(|| std::process::Command::new(words[0]).args(&words[1..]).output());
    assert!(done.expect("the tool is there").status.success(), "{command}");
    assert!(!place.machine().contains("prog/xdp"), "{command}: {}", place.machine());
}
