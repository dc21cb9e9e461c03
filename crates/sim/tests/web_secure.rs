//! Web pages over TLS and QUIC: round trips and bytes in closed form, and how fast long objects
//! come.

use crate::common::{SERVER, fingerprint, link, numbers, pfifo, profile, run, table};
use narrows_sim::captured::Frame;
use narrows_sim::plan::incast::RoundTrip;
use narrows_sim::plan::page::{Object, Page};
use narrows_sim::plan::responder::Responder;
use narrows_sim::plan::secure::{SecureClient, SecureServer};
use narrows_sim::plan::{Application, Capture, Draw, Kind, Modes, Path, Plan, Queue};
use narrows_sim::{Simulation, quic, tcp, tls};
use narrows_units::{Bytes, Span, Time};

const ROUND_TRIP: f64 = 0.04;
fn usual() -> quic::Config {
    quic::Config::default()
}
const CLIENT: tls::Client = tls::Client {
    hello: 300,
    pads_hello: false,
    key_share: 32,
    alpn: 2,
    apart: false,
    resume: false,
    early_data: false,
    close_notify: false,
};

/// What carries a page.
#[derive(Clone, Copy)]
enum Over {
    Tcp,
    Tls(tls::Client),
    Quic(tls::Client, quic::Config),
}

impl Over {
    fn ends(self) -> [(Option<SecureClient>, Option<SecureServer>); 1] {
        let ends = |handshake, quic| {
            let server = SecureServer { handshake: SERVER, quic };
            (Some(SecureClient { handshake, quic }), Some(server))
        };
        [match self {
            Self::Tcp => (None, None),
            Self::Tls(client) => ends(client, None),
            Self::Quic(client, config) => ends(client, Some(config)),
        }]
    }
}

/// A client (node 0) and two servers behind a router, with a round trip of 40 ms; link 1 is the way
/// to the client.
fn plan(mbit: u64, queue: Queue) -> Plan {
    let delay = Span::from_ms(10);
    let fast = |name: &str, from, to| link(name, from, to, 10_000, delay, pfifo(100_000));
    Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(120),
        end_when_done: false,
        event_limit: 100_000_000,
        nodes: ["client", "router", "server0", "server1"].map(str::to_owned).to_vec(),
        links: vec![
            link("line.forward", 0, 1, mbit, delay, pfifo(100_000)),
            link("line.backward", 1, 0, mbit, delay, queue),
            fast("s0.forward", 1, 2),
            fast("s0.backward", 2, 1),
            fast("s1.forward", 1, 3),
            fast("s1.backward", 3, 1),
        ],
        tcp: vec![tcp::Config { timestamps: true, nagle: false, ..profile("linux-6") }],
        paths: vec![
            Path { from: 0, to: 2, links: vec![0, 2] },
            Path { from: 2, to: 0, links: vec![3, 1] },
            Path { from: 0, to: 3, links: vec![0, 4] },
            Path { from: 3, to: 0, links: vec![5, 1] },
        ],
        applications: Vec::new(),
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: None,
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes::default(),
    }
}

fn object(bytes: u64, after: &[usize]) -> Object {
    Object {
        name: format!("after {after:?}"),
        server: 0,
        bytes: Draw::Constant(Bytes::new(bytes)),
        after: after.to_vec(),
        wait: Span::ZERO,
    }
}

fn page(objects: Vec<Object>) -> Page {
    Page {
        responder: 1,
        servers: vec![RoundTrip { there: 0, back: 1 }, RoundTrip { there: 2, back: 3 }],
        tcp: 0,
        browsers: 1,
        start: Time::ZERO + Span::from_ms(10),
        spread: Span::ZERO,
        loads: 3,
        pause: Draw::Constant(Span::from_ms(500)),
        connections: 1,
        streams: 100,
        request: 300,
        objects,
        secure: None,
        resolver: None,
    }
}

fn load(mut plan: Plan, over: Over, page: Page) -> Simulation {
    add(&mut plan, over, page);
    run(plan)
}

fn add(plan: &mut Plan, over: Over, page: Page) {
    let [(client, server)] = over.ends();
    let responder = Responder { tcp: 0, service: Draw::Constant(Span::ZERO), secure: server };
    for kind in [Kind::Page(Page { secure: client, ..page }), Kind::Responder(responder)] {
        plan.applications.push(Application { name: "web".into(), kind });
    }
}

fn load_times(simulation: &Simulation) -> Vec<f64> {
    let rows = table(simulation, "pages");
    let (start, end) = (numbers(&rows, "start_s"), numbers(&rows, "end_s"));
    start.iter().zip(end).map(|(start, end)| end - start).collect()
}

fn empty() -> Plan {
    plan(10_000, pfifo(100_000))
}

#[track_caller]
fn assert_trips(simulation: &Simulation, expected: &[f64]) {
    let trips: Vec<f64> = load_times(simulation).iter().map(|s| s / ROUND_TRIP).collect();
    assert_eq!(trips.len(), expected.len());
    for (one, other) in trips.iter().zip(expected) {
        assert!((one - other).abs() < 0.02, "{trips:?}, not {expected:?}");
    }
}

const RESUMING: tls::Client = tls::Client { resume: true, ..CLIENT };
const EARLY: tls::Client = tls::Client { early_data: true, ..RESUMING };

/// Handshakes take one round trip for TCP, two with TLS 1.3 on it (RFC 8446, 2), one for QUIC (RFC
/// 9001, 4); early data save one of a resumed connection (RFC 8446, 2.3). Each object of a chain
/// takes another.
#[test]
fn a_chain_of_objects_takes_the_handshake_and_a_round_trip_each() {
    let chain = || page(vec![object(1000, &[]), object(1000, &[0]), object(1000, &[1])]);
    for (over, expected) in [
        (Over::Tcp, [4.0; 3]),
        (Over::Tls(CLIENT), [5.0; 3]),
        (Over::Tls(RESUMING), [5.0; 3]),
        (Over::Tls(EARLY), [5.0, 4.0, 4.0]),
        (Over::Quic(CLIENT, usual()), [4.0; 3]),
        (Over::Quic(RESUMING, usual()), [4.0; 3]),
        (Over::Quic(EARLY, usual()), [4.0, 3.0, 3.0]),
    ] {
        assert_trips(&load(empty(), over, chain()), &expected);
    }
}

/// A browser has its own sessions with each server: the first connection to a second server is a
/// full handshake, and so is the first one of a second browser.
#[test]
fn sessions_are_of_a_browser_and_a_server() {
    let mut elsewhere = object(1000, &[0]);
    elsewhere.server = 1;
    let two = page(vec![object(1000, &[]), elsewhere]);
    assert_trips(&load(empty(), Over::Quic(EARLY, usual()), two), &[4.0, 2.0, 2.0]);

    let crowd =
        Page { browsers: 2, loads: 2, spread: Span::from_secs(1), ..page(vec![object(1000, &[])]) };
    let simulation = load(empty(), Over::Quic(EARLY, usual()), crowd);
    let rows = table(&simulation, "pages");
    let (browsers, loads) = (numbers(&rows, "browser"), numbers(&rows, "load"));
    let starts = numbers(&rows, "start_s");
    assert!(
        (starts[0] - starts[1]).abs() > 0.1,
        "the second one begins when the first has a session"
    );
    assert_eq!(browsers.len(), 4);
    let expected: Vec<f64> =
        loads.iter().map(|&load| if load == 0.0 { 2.0 } else { 1.0 }).collect();
    assert_trips(&simulation, &expected);
}

/// RFC 9002, 7.2 and 7.3.1: ten datagrams at first, then twice as many each round trip. Datagrams
/// of 1200 bytes carry 12 kB, 36 kB, 84 kB in one, two, three round trips. Headers take 3 % of
/// this, tickets a part of the first datagrams, and the last datagram leaves only if the window has
/// room for a whole one.
#[test]
fn a_long_object_takes_the_round_trips_of_slow_start() {
    for (bytes, rounds) in
        [(10_000, 1.0), (30_000, 2.0), (72_000, 3.0), (100_000, 4.0), (1_000_000, 7.0)]
    {
        let page = page(vec![object(bytes, &[])]);
        assert_trips(&load(empty(), Over::Quic(CLIENT, usual()), page), &[1.0 + rounds; 3]);
    }
}

/// Packets of 1200 bytes hold a header of 9 bytes, a packet number of 1 or 2, and a tag of 16 (RFC
/// 9001, 5.3); and the frame's type, stream, offset of 4 bytes and length of 2 (RFC 9000, 16 and
/// 19.8). Every second packet is acknowledged.
#[test]
fn an_object_takes_as_many_datagrams_as_its_bytes_need() {
    let mut plan = empty();
    plan.captures = [0, 1].map(|link| Capture::of(link, "")).to_vec();
    let bytes = 1_000_000;
    let page = Page { loads: 1, ..page(vec![object(bytes, &[])]) };
    let simulation = load(plan, Over::Quic(CLIENT, usual()), page);
    let lengths = |capture: usize| -> Vec<u16> {
        let frames = simulation.captured(capture).into_iter();
        frames
            .filter_map(|packet| match packet.frame {
                Frame::Udp { ip_bytes, .. } => Some(ip_bytes - 28),
                _ => None,
            })
            .collect()
    };
    let (sent, acknowledgements) = (lengths(1), lengths(0));
    let full = sent.iter().filter(|&&length| length == 1200).count() as u64;
    let (least, most) = (bytes.div_ceil(1200 - 34), bytes.div_ceil(1200 - 36));
    // The handshake has two or three.
    assert!((least..=most + 3).contains(&full), "{full}, not {least} to {most}");
    let short = acknowledgements.iter().filter(|&&length| length < 60).count() as u64;
    assert!((full / 2 - 12..=full / 2 + 12).contains(&short), "{short} for {full}");
}

/// NewReno gets as much from a link over QUIC as over TCP, whether a long queue holds everything or
/// a short one loses packets.
#[test]
fn long_objects_come_as_fast_as_over_tcp() {
    let datagrams = quic::Config { payload: 1472, ..usual() };
    for (mbit, queue) in [(50, 100_000), (20, 30), (20, 100)] {
        let time = |over| {
            let mut plan = plan(mbit, pfifo(queue));
            plan.tcp[0].congestion = tcp::Congestion::Reno;
            let simulation =
                load(plan, over, Page { loads: 1, ..page(vec![object(4_000_000, &[])]) });
            load_times(&simulation)[0]
        };
        let (over_tcp, over_quic) = (time(Over::Tcp), time(Over::Quic(CLIENT, datagrams)));
        let ratio = over_quic / over_tcp;
        assert!((0.95..=1.05).contains(&ratio), "{mbit} {queue}: {over_quic} s, {over_tcp} s");
        let line = 4_000_000.0 * 8.0 / (f64::from(mbit as u32) * 1e6);
        assert!(over_quic > line && over_quic < 1.25 * line + 0.4, "{over_quic} s, {line} s");
    }
}

/// What the simulator computes ahead of time changes no result.
#[test]
fn results_do_not_depend_on_shortcuts() {
    for over in [Over::Tls(EARLY), Over::Quic(EARLY, usual())] {
        let mut plan = plan(10, pfifo(20));
        let mut objects = vec![object(30_000, &[])];
        objects.extend((0..20).map(|_| object(8_000, &[0])));
        add(&mut plan, over, Page { browsers: 4, ..page(objects) });
        let with = fingerprint(&run(plan.clone()));
        plan.modes.collapse = false;
        assert_eq!(with, fingerprint(&run(plan)));
    }
}

#[test]
fn what_contradicts_is_named() {
    let refusal = |change: fn(&mut Plan)| {
        let mut plan = empty();
        add(&mut plan, Over::Quic(CLIENT, usual()), page(vec![object(1000, &[])]));
        change(&mut plan);
        Simulation::new(plan).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refusal(|plan| *server(plan) = None), "web: secure: the server has none");
    assert_eq!(
        refusal(|plan| server(plan).as_mut().expect("it is there").quic = None),
        "web: secure: quic: the server has none"
    );
    let short = refusal(|plan| plan.links[0].mtu = 1000);
    assert!(short.starts_with("web: secure: quic: "), "{short}");
    assert!(short.contains(" takes packets of 1000 B, and QUIC needs 1228 B; hint: "), "{short}");
}

fn server(plan: &mut Plan) -> &mut Option<SecureServer> {
    match &mut plan.applications[1].kind {
        Kind::Responder(responder) => &mut responder.secure,
        _ => unreachable!("it is the second"),
    }
}
