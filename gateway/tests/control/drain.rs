//! A stop, `active = false`, and `drain`: open connections go on, and the kernel's TCP has new ones.
//! The server's own TCP answers at the same address.

use std::thread;

use super::*;

/// Both queries of an open connection, one before and one after something happens.
fn goes_on(place: &Place, happens: impl FnOnce()) {
    let (mut used, mut shaken) = (place.connect(), place.connect());
    ask(&mut used, "before").expect("a reply");
    // The handshake's ACK has arrived: it is all that the gateway hears of this one.
    until("the handshakes are over", || place.counter("handshake_ack") >= 2);
    happens();
    ask(&mut used, "after").expect("the kernel's TCP has taken the connection over");
    ask(&mut shaken, "first").expect("a reply to a client with a cookie");
    ask(&mut place.connect(), "new").expect("the kernel's TCP has new connections");
    ask(&mut used, "again").expect("a reply");
}

#[test]
fn a_stop_waits_for_open_connections() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let run = place.start(&["--drain-for", "4 s"]);
    // Its reply does not come over UDP, so the kernel's TCP must take it over meanwhile.
    let mut slow = place.connect();
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&mut slow, "slow"));
        until("it is asked", || place.counter("query") == 1);
        goes_on(&place, || {
            run.signal(Signal::SIGTERM);
            until("it drains", || place.status()["draining"] == true);
            assert_eq!(place.status()["active"], false);
        });
        asked.join().expect("no panic").expect("a reply over the kernel's TCP");
    });
    assert_eq!(place.counter("syn_aside"), 1);
    assert_eq!(run.wait(), Some(0));
    assert_eq!(place.machine(), before);
    ask(&mut slow, "slow").expect("the kernel's TCP keeps it");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let run = place.start(&["--drain-for", "10 min"]);
    let mut open = place.connect();
    ask(&mut open, "before").expect("a reply");
    run.signal(Signal::SIGTERM);
    until("it drains", || place.status()["draining"] == true);
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
    assert_eq!(place.machine(), before);
}

#[test]
fn a_gateway_that_serves_nobody_keeps_open_connections() {
    if skip().is_some() {
        return;
    }
    for off in ["false", "\"0 %\""] {
        let place = Place::new();
        let file = place.path("gateway.toml");
        fs::write(&file, "").expect("a file");
        let mut run = place.start(&["--config", file.to_str().expect("plain")]);
        goes_on(&place, || {
            fs::write(&file, format!("active = {off}\n")).expect("a file");
            run.signal(Signal::SIGHUP);
            assert_eq!(run.line()["active"], false);
            let status = place.status();
            assert_eq!((&status["active"], &status["draining"]), (&false.into(), &true.into()));
        });
        // A restart does not reset them either.
        fs::write(&file, "").expect("a file");
        run.signal(Signal::SIGHUP);
        assert_eq!(run.line()["active"], true);
        let mut open = place.connect();
        ask(&mut open, "name").expect("a reply");
        assert_eq!(place.status()["draining"], false);
        assert_eq!(run.end(Signal::SIGUSR2), Some(0));
        let again = place.start(&["--active", "false"]);
        ask(&mut open, "name").expect("a reply");
        assert_eq!(place.status()["draining"], true);
        assert_eq!(again.end(Signal::SIGTERM), Some(0));
    }
}

#[test]
fn drain_tells_the_daemon_and_reports() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    let drain = |wait: &str| {
        let output = place.command(&[], &["drain", "--wait", wait]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, said) = drain("1 s");
    assert_eq!(code, Some(2), "{said}");
    // Nobody has connected yet.
    let run = place.start(&[]);
    let (code, out, said) = drain("5 s");
    assert_eq!((code, &*said), (Some(0), ""));
    assert!(out.ends_with("detached from g0\n"), "{out}");
    assert_eq!(run.wait(), Some(0));
    assert_eq!(place.machine(), before);

    let mut run = place.start(&[]);
    goes_on(&place, || {
        let (code, out, said) = drain("300 ms");
        assert_eq!(code, Some(1), "{said}");
        assert!(out.starts_with("draining g0: 1 connection is open"), "{out}");
        assert!(said.contains("1 connection is open") && said.contains("kill -HUP"), "{said}");
    });
    let (code, _, said) = drain("300 ms");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("64 s"), "{said}");
    // Rolled back: it serves new connections.
    run.signal(Signal::SIGHUP);
    assert_eq!(
        (&run.line()["event"], &run.line()["event"]),
        (&"draining".into(), &"reloaded".into())
    );
    let before = place.counter("query");
    ask(&mut place.connect(), "name").expect("a reply");
    assert_eq!(place.counter("query"), before + 1);
    assert_eq!(run.end(Signal::SIGTERM), Some(0));
}

#[test]
fn drain_does_without_a_daemon() {
    if skip().is_some() {
        return;
    }
    let place = Place::new();
    let before = place.machine();
    place.start(&["--close", "keep", "--idle", "20 s"]).end(Signal::SIGKILL);
    goes_on(&place, || {
        let output = place.command(&[], &["drain", "--wait", "1 s"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let status = place.status();
        assert_eq!((&status["draining"], &status["daemon"]), (&true.into(), &Value::Null));
        assert_eq!(status["settings"]["idle"], "20 s");
    });
    // All connections are closed now. On a busy machine, the daemon looks for that every 5 s.
    let drained = || {
        let output = place.command(&[], &["drain", "--wait", "4 s"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        output.status.success()
    };
    assert!((0..5).any(|_| drained()));
    assert_eq!(place.machine(), before);
}
