//! What `check` prints.

use super::*;

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
fn check_names_a_gateway_beside_which_a_run_is_refused() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let checked = |arguments: &[&str]| {
        let all = [&["check", "--server", SERVER, "--mode", "native"], arguments].concat();
        let output = place.command(&[], &all);
        assert!(output.status.success(), "new settings can be checked beside it");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(checked(&[]).ends_with("\na run would use: native\n"));
    let run = place.start(&[]);
    let refused = place.command(&[], &["run", "--server", SERVER]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    let why = why.lines().find_map(|line| line.strip_prefix("error: ")).expect("it is refused");
    assert!(why.contains(&format!("(process {})", run.pid())), "{why}");
    let said = checked(&[]);
    assert!(said.contains(&format!("\nwarning: {why}\n")), "{said}");
    assert!(said.lines().last().is_some_and(|line| line.contains("would be refused")), "{said}");
    let said: Value = serde_json::from_str(&checked(&["--json"])).expect("JSON");
    assert_eq!((&said["served"], &said["mode"]), (&true.into(), &"native".into()), "{said}");
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
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
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("user.upstream"),
        "the output names the setting"
    );
}

#[test]
fn the_kernel_takes_connections_over_whatever_options_it_has() {
    if skip().is_some() {
        return;
    }
    // Whether check warns of the setting. A client without window scaling loses nothing that the
    // kernel's TCP would give it.
    for (name, warns) in
        [("tcp_window_scaling", false), ("tcp_timestamps", true), ("tcp_sack", true)]
    {
        let place = Place::new();
        let warned = || {
            let all = ["check", "--json", "--server", SERVER, "--mode", "generic"];
            let output = place.command(&[], &all);
            let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert!(output.status.success(), "a warning must not refuse the run: {said}");
            said["warnings"].as_array().is_some_and(|all| {
                all.iter().any(|text| text.as_str().is_some_and(|text| text.contains(name)))
            })
        };
        assert!(!warned());
        let file = format!("/proc/sys/net/ipv4/{name}");
        place.at_server(|| fs::write(&file, "0").expect("root may"));
        assert_eq!(warned(), warns, "{name}");
        let run = place.start(&["--mode", "generic"]);
        let logged = place.log().contains(&format!("net.ipv4.{name} is 0"));
        assert_eq!(logged, warns, "{}", place.log());
        let mut stream = place.connect();
        ask(&mut stream, "first").expect("a reply");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
        ask(&mut stream, "second").expect("a reply");
        assert_eq!(place.counter("adopted"), 1, "{name}");
        ask(&mut stream, "third").expect("a reply");
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
    assert!(output.status.success(), "a warning must not refuse the run");
}
