//! Queues in C: the examples obey the laws, and each abuse ends with a sentence.
#![allow(clippy::unwrap_used, reason = "tests")]

mod compiler;

use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use narrows_plugin::{ABI, CAck, Faults, Library, Sending};
use narrows_qdisc::laws::{self, TestPacket};
use narrows_qdisc::{AnyConfig, AnyQdisc, PacketView, Qdisc};
use narrows_units::settings::Given;
use narrows_units::{Rate, Span, Time};

use compiler::{compiled, library, setting};

fn rate() -> Rate {
    Rate::from_bps(10_000_000).unwrap()
}

fn config(library: &Library, name: &str, settings: &[Given], faults: &Faults) -> AnyConfig {
    library.queue(name).unwrap().config(settings, rate(), faults).unwrap()
}

#[test]
fn the_header_and_this_crate_agree() {
    let Some(program) = compiled("tests/c/layout.c", &[]) else { return };
    let printed = Command::new(program).output().unwrap();
    let expected = format!(
        "abi {ABI}\nnarrows_packet {}\nnarrows_packet.arrived {}\nnarrows_packet.bytes {}\n\
         narrows_packet.destination_port {}\nnarrows_packet.ecn {}\nnarrows_packet.dscp {}\n\
         narrows_queue 72\nnarrows_ack {}\nnarrows_ack.delivery_rate {}\nnarrows_ack.mss {}\n\
         narrows_ack.window_limited {}\nnarrows_sending {}\nnarrows_control 96\n\
         narrows_control.on_restart 88\nrandom ",
        size_of::<PacketView>(),
        offset_of!(PacketView, arrived),
        offset_of!(PacketView, bytes),
        offset_of!(PacketView, ports) + 2,
        offset_of!(PacketView, ecn),
        offset_of!(PacketView, dscp),
        size_of::<CAck>(),
        offset_of!(CAck, delivery_rate),
        offset_of!(CAck, mss),
        offset_of!(CAck, window_limited),
        size_of::<Sending>(),
    );
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.starts_with(&expected), "{printed}");
}

#[test]
fn the_examples_obey_the_laws() {
    let faults = Faults::default();
    let Some(slope) = library("examples/slope.c") else { return };
    laws::check(|| config(&slope, "slope", &[setting("most", 30.0)], &faults).build(1));
    let codel = library("examples/codel.c").unwrap();
    let short = [setting("target", 0.000_1), setting("interval", 0.001)];
    laws::check(|| config(&codel, "codel-rfc8289", &short, &faults).build(1));
    let turns = library("examples/turns.c").unwrap();
    laws::check(|| config(&turns, "turns", &[setting("limit", 20.0)], &faults).build(1));
    laws::check_shaping(|| config(&turns, "paced", &[setting("gap", 0.000_01)], &faults).build(1));
    assert!(faults.take().is_none());
}

/// RFC 8289 and Linux differ in little (narrows' `codel` names it): the numbers of drops are close.
#[test]
fn codel_in_c_drops_as_often_as_ours() {
    let Some(codel) = library("examples/codel.c") else { return };
    let theirs = config(&codel, "codel-rfc8289", &[], &Faults::default());
    let ours = AnyConfig::from(narrows_qdisc::codel::Config::default());
    let [theirs, ours] = [theirs, ours].map(|config| drops(&mut config.build(1)));
    assert!(ours > 100 && theirs.abs_diff(ours) * 20 < ours, "{theirs} and {ours}");
}

/// Sends 10 % more than leaves for a minute, and returns the drops.
fn drops(queue: &mut AnyQdisc<TestPacket>) -> u64 {
    let (mut dropped, mut leaves) = (Vec::new(), Time::ZERO);
    for number in 0..60_000 {
        let now = Time::ZERO + Span::from_us(1000) * number;
        while leaves <= now {
            queue.dequeue(leaves, &mut dropped);
            leaves += Span::from_us(1100);
        }
        let packet = TestPacket { number, bytes: 1000, ..TestPacket::default() };
        queue.enqueue(now, packet, &mut dropped);
    }
    queue.counters().dropped_early
}

#[test]
fn each_abuse_is_named_and_the_queue_goes_on() {
    let Some(abuse) = library("tests/c/abuse.c") else { return };
    for (name, why) in [
        ("nonsense", "admit returned 7, which is no decision (0, 1 or 2)"),
        ("twice", "gave a packet that does not wait: twice, or one it dropped"),
        ("foreign", "gave a packet that does not wait: twice, or one it dropped"),
        ("never", "packets wait, but none leaves and ready_at names no time"),
        ("past", "to be asked again at"),
        ("drops-and-gives", "gave a packet that does not wait: twice, or one it dropped"),
        ("drops-foreign", "dropped a packet that does not wait"),
        ("marks-foreign", "marked a packet that does not wait or is not ECN-capable"),
        ("counts-too-many", "dropped or marked more packets than wait"),
    ] {
        let faults = Faults::default();
        nothing_is_lost(&mut config(&abuse, name, &[], &faults).build(1));
        let fault = faults.take().unwrap_or_else(|| panic!("{name}: no fault")).to_string();
        assert!(fault.starts_with(name) && fault.contains(why), "{fault}");
    }
}

/// Each packet comes out or is dropped, once, whatever the queue does.
fn nothing_is_lost(queue: &mut AnyQdisc<TestPacket>) {
    let (mut dropped, mut out) = (Vec::new(), Vec::new());
    for number in 0..300 {
        let now = Time::ZERO + Span::from_ms(1) * number;
        queue.enqueue(now, TestPacket { number, ..TestPacket::default() }, &mut dropped);
        if number % 3 != 0 {
            out.extend(queue.dequeue(now, &mut dropped));
        }
        assert!(queue.counters().balance(queue.backlog()));
    }
    while queue.backlog().packets > 0 {
        out.extend(queue.dequeue(Time::ZERO + Span::from_ms(1000), &mut dropped));
    }
    out.extend(dropped.into_iter().map(|(packet, _)| packet));
    let mut numbers: Vec<u64> = out.iter().map(|packet| packet.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..300));
}

#[test]
fn a_queue_refuses_its_settings_in_one_line() {
    let Some(abuse) = library("tests/c/abuse.c") else { return };
    let refused = |name: &str| {
        abuse.queue(name).unwrap().config(&[], rate(), &Faults::default()).unwrap_err()
    };
    assert_eq!(refused("refuse"), "wants nothing");
    assert_eq!(refused("silent"), "create() returned NULL");
    assert!(abuse.queue("absent").is_none());
}

#[test]
fn other_files_are_refused() {
    let why = |path: &Path| Library::load(path).unwrap_err().why;
    assert_eq!(why(Path::new("absent.so")), "is no file");
    assert!(!why(Path::new(file!()).file_name().unwrap().as_ref()).is_empty());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(!why(&here.join("Cargo.toml")).is_empty());
    for (text, expected) in [
        ("int x;", "exports no function narrows_plugin"),
        ("const void *narrows_plugin(void) { return 0; }", "narrows_plugin() returned NULL"),
        (
            "static const unsigned offer[8] = { 9 }; const void *narrows_plugin(void) { return offer; }",
            "was built for version 9 of narrows.h, but this is 2; build it again",
        ),
        (
            "static const unsigned offer[14] = { 2, 72 }; const void *narrows_plugin(void) { return offer; }",
            "offers no queue and no congestion control",
        ),
        (
            "#include \"narrows.h\"\nstatic narrows_control c; static const narrows_offer o = { .abi = 2, \
             .control_size = 8, .controls = &c, .controls_count = 1 }; \
             const narrows_offer *narrows_plugin(void) { return &o; }",
            "was built for another form of narrows.h, but this is 2; build it again",
        ),
        (
            "#include \"narrows.h\"\nstatic narrows_control c; static const narrows_offer o = { .abi = 2, \
             .control_size = sizeof c, .controls = &c, .controls_count = 1 }; \
             const narrows_offer *narrows_plugin(void) { return &o; }",
            "offers a congestion control without a name",
        ),
        (
            "#include \"narrows.h\"\nstatic void *make(const narrows_start *s) { return (void *)s; }\n\
             static narrows_control c = { .name = \"mine\", .create = make, .owns_window = 1 }; \
             static const narrows_offer o = { .abi = 2, .control_size = sizeof c, .controls = &c, \
             .controls_count = 1 }; const narrows_offer *narrows_plugin(void) { return &o; }",
            "its congestion control \"mine\" owns its window, but has no on_ack",
        ),
    ] {
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.c", expected.len()));
        std::fs::write(&source, format!("{text}\n")).unwrap();
        let Some(object) = compiled(source.to_str().unwrap(), &["-shared", "-fPIC"]) else {
            return;
        };
        assert_eq!(why(&object), expected);
    }
}
