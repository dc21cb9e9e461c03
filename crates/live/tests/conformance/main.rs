//! Each kind of traffic gives the same rows on the simulator's hosts, over a link that loses and
//! delays nothing, and over real sockets, on the loopback device. Where losses are repaired, the rows
//! are also the same over a link that loses packets (`namespaces.rs`).
//!
//! Times differ, and what the kernel decides: how many segments TCP makes of its bytes.
#![cfg(target_os = "linux")]

#[allow(dead_code, unused_imports, reason = "other tests use more of it")]
#[path = "../../../sim/tests/common/mod.rs"]
mod common;
mod encrypted;
mod namespaces;
mod split;

use std::net::Ipv4Addr;

use common::{Dialogue, client_and_server};
use narrows_live::{Clock, Live, Part, Place};
use narrows_sim::Simulation;
use narrows_sim::plan::dns::client::{Arrivals, Persistent, Reuse, Udp};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server::OnQuery;
use narrows_sim::plan::incast::{Incast, RoundTrip};
use narrows_sim::plan::on_off::OnOff;
use narrows_sim::plan::page::{Object, Page, Resolver};
use narrows_sim::plan::ping::Ping;
use narrows_sim::plan::responder::Responder;
use narrows_sim::plan::secure::{SecureClient, SecureServer};
use narrows_sim::plan::trace::Trace;
use narrows_sim::plan::transfer::{Secondary, Transfer};
use narrows_sim::plan::udp::Spacing;
use narrows_sim::plan::voip::{Codec, Playout, Voip};
use narrows_sim::plan::{
    Application, Connection, Draw, FlowMonitor, Kind, Opener, Plan, Stream, bulk, udp,
};
use narrows_sim::table::{Column, Table};
use narrows_units::{Bytes, Rate, Span, Time};

/// Plays both ends over the loopback device, at addresses of their own.
fn play(plan: Plan, number: u8) -> Option<Vec<Table>> {
    play_at(plan, |node| Place::at(Ipv4Addr::new(127, 77, number, node as u8 + 1)))
}

/// Plays all nodes of a plan, each at its place.
fn play_at(plan: Plan, place: impl Fn(usize) -> Place) -> Option<Vec<Table>> {
    let places = plan.nodes.iter().enumerate().map(|(node, name)| (name.clone(), place(node)));
    let part = Part { places: places.collect(), ..Part::default() };
    play_part(plan, &part)
}

fn play_part(plan: Plan, part: &Part) -> Option<Vec<Table>> {
    let played = Live::new(plan, part).and_then(|mut live| {
        live.run(Clock::starting_now())?;
        Ok(live.tables())
    });
    match played {
        Err(why) if why.to_string().ends_with("Permission denied") => {
            println!("SKIP: {why}; hint: run as root");
            None
        }
        played => Some(played.expect("the plan can be played")),
    }
}

fn simulate(plan: Plan) -> Vec<Table> {
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    while !simulation.advance(1_000_000) {}
    simulation.tables()
}

/// Compares the rows of a plan in both worlds; `decided` are columns that the kernel decides.
#[track_caller]
fn compare(plan: Plan, number: u8, decided: &[&str]) {
    if let Some(real) = play(plan.clone(), number) {
        compare_tables(&real, &simulate(plan), decided);
    }
}

#[track_caller]
fn compare_tables(real: &[Table], simulated: &[Table], decided: &[&str]) {
    assert!(real.iter().map(|table| table.columns[0].1.len()).sum::<usize>() > 0, "has rows");
    for found in real {
        let expected = simulated.iter().find(|table| table.name == found.name);
        let expected = expected.expect("the simulator has this table");
        assert_eq!(found.columns.len(), expected.columns.len(), "{}", found.name);
        for ((name, found_values), (expected_name, values)) in
            found.columns.iter().zip(&expected.columns)
        {
            assert_eq!(name, expected_name, "{}", found.name);
            let (found_values, values) = (text(found_values), text(values));
            let place = format!("{}.{name}", found.name);
            if SAMPLES.contains(&found.name) {
                // The simulator ends when nothing more can happen, and takes fewer samples.
                if *name == "bytes_received" && !decided.contains(&&*place) {
                    assert_eq!(found_values.last(), values.last(), "{place}");
                }
                continue;
            }
            assert_eq!(found_values.len(), values.len(), "{place}");
            let is_time = name.ends_with("_s") || name.ends_with("_ms");
            if is_time {
                // Whether something happened is no time.
                let never = |values: &[String]| {
                    values.iter().map(|value| value == "NaN").collect::<Vec<_>>()
                };
                let kernels = ["cwnd_mean", "busy_s", "rwnd_limited_s", "rtt_ms", "first_byte_s"];
                if !kernels.iter().any(|kernel| name.contains(kernel)) {
                    assert_eq!(never(&found_values), never(&values), "{place}");
                }
            } else if UNTOLD.contains(&&*place) {
                assert!(found_values.iter().all(|value| value == "NaN"), "{place}");
            } else if !KERNELS.contains(&&*place) && !decided.contains(&&*place) {
                assert_eq!(found_values, values, "{place}");
            }
        }
    }
    let missing: Vec<_> = simulated
        .iter()
        .map(|table| table.name)
        .filter(|name| !NETWORKS.contains(name) && !real.iter().any(|table| table.name == *name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What the kernel decides in every run.
const KERNELS: [&str; 9] = [
    "flows.segments_sent",
    "flows.segments_retransmitted",
    "flows.cwnd_segments",
    "flows.cwnd_mean_segments",
    "bursts.segments_retransmitted",
    "rounds.segments_retransmitted",
    "transfers.segments_retransmitted",
    "voip.r",
    "voip.mos",
];

/// What the kernel does not tell.
const UNTOLD: [&str; 6] = [
    "flows.timeouts",
    "flows.fast_recoveries",
    "flows.ecn_reductions",
    "flows.tail_probes",
    "flows.undos",
    "flows.marks_received",
];

/// Counts of a connection's packets.
const PACKETS: [&str; 4] = [
    "attempts.packets_sent",
    "attempts.bytes_sent",
    "attempts.packets_received",
    "attempts.bytes_received",
];

/// Tables of the simulator's network.
const NETWORKS: [&str; 2] = ["queues", "links"];

/// Tables of samples.
const SAMPLES: [&str; 3] = ["goodput", "flow_samples", "flow_states"];

fn text(column: &Column) -> Vec<String> {
    fn all<T: ToString>(values: &[T]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }
    match column {
        Column::F64(values) => all(values),
        Column::U64(values) => all(values),
        Column::U32(values) => all(values),
        Column::U8(values) => all(values),
        Column::Bool(values) => all(values),
        Column::Text(values) => values.iter().map(str::to_owned).collect(),
    }
}

/// A client that asks a server two milliseconds after each reply.
fn dialogue() -> Dialogue {
    let mut found = Dialogue::new();
    found.client.queries = Some(6);
    found.client.think_mean = Span::from_ms(2);
    found.client.tcp = None;
    found.client.udp = Some(Udp {
        timeouts: vec![Span::from_secs(1), Span::from_secs(2)],
        payload: 1232,
        tcp_if_truncated: false,
        tcp_if_silent: false,
        new_port: false,
    });
    found
}

/// A link of 1 Gbit/s and a microsecond.
fn plan_of(dialogue: Dialogue) -> Plan {
    let Dialogue { client, server } = dialogue;
    let tcp = vec![common::profile("linux-6")];
    let end = Span::from_secs(20);
    let plan = Plan { tcp, ..client_and_server(client, server, Span::from_us(1), end) };
    fitted(plan)
}

/// Lets all ends have the first settings.
fn fitted(mut plan: Plan) -> Plan {
    for application in &mut plan.applications {
        match &mut application.kind {
            Kind::DnsClient(client) => client.tcp.iter_mut().for_each(|tcp| tcp.tcp = 0),
            Kind::DnsServer(server) => server.tcp.iter_mut().for_each(|tcp| tcp.tcp = 0),
            _ => {}
        }
    }
    plan
}

fn plan_with(kinds: Vec<Kind>, end: Span) -> Plan {
    let applications =
        kinds.into_iter().map(|kind| Application { name: "group".into(), kind }).collect();
    let end = Time::ZERO + end;
    Plan {
        applications,
        end,
        end_when_done: false,
        goodput_interval: Some(Span::from_ms(100)),
        flow_samples: vec![Time::ZERO + Span::from_ms(150), end],
        flow_monitor: None,
        one_way_monitor: None,
        ..plan_of(dialogue())
    }
}

fn streams() -> Vec<Stream> {
    let stream = |number: usize, there, back| Stream {
        name: format!("stream {number}"),
        there,
        back,
        start: Time::ZERO + Span::from_ms(10 + 3 * number as u64),
        stop: Some(Time::ZERO + Span::from_ms(300)),
    };
    vec![stream(0, 0, 1), stream(1, 1, 0)]
}

fn connections() -> Vec<Connection> {
    let connection = |number: usize, opener| Connection {
        name: format!("flow {number}"),
        there: 0,
        back: 1,
        tcp: 0,
        opener,
        start: Time::ZERO + Span::from_ms(10 + 5 * number as u64),
        stop: None,
    };
    vec![connection(0, Opener::Sender), connection(1, Opener::Receiver)]
}

/// What real sockets cannot do is refused before anything starts, and named.
#[test]
fn plans_that_cannot_be_played_are_refused() {
    let part = |names: &[&str]| {
        let place = Place::at(Ipv4Addr::LOCALHOST);
        let places = names.iter().map(|&name| (name.to_owned(), place.clone())).collect();
        Part { places, ..Part::default() }
    };
    let refused = |plan: &Plan, names: &[&str]| {
        Live::new(plan.clone(), &part(names)).expect_err("it is refused").to_string()
    };
    let plan = plan_of(dialogue());
    let mut rack = plan.clone();
    rack.tcp[0].rack = false;
    let both = ["client", "server"];
    assert_eq!(
        refused(&rack, &both),
        "tcp[0]: rack: false has no socket option; the kernel decides it"
    );
    assert_eq!(
        refused(&plan, &["client"]),
        "dns: plays at client, and at server, which is not in this part"
    );
    assert_eq!(refused(&plan, &["client", "srv"]), "srv: the plan has no such node");
    let mut stateless = dialogue();
    stateless.serving().stateless = true;
    let why = refused(&plan_of(stateless), &both);
    assert!(why.starts_with("dns: stateless: "), "{why}");
    let place = Place { namespace: Some("/no/such".into()), ..Place::at(Ipv4Addr::LOCALHOST) };
    let places = both.map(|name| (name.to_owned(), place.clone())).into();
    let why = Live::new(plan, &Part { places, ..Part::default() })
        .expect_err("there is no such file")
        .to_string();
    assert!(why.starts_with("namespace /no/such: "), "{why}");
}

#[test]
fn dns_over_udp() {
    compare(plan_of(dialogue()), 1, &[]);
}

#[test]
fn dns_over_udp_from_a_port_for_each_attempt() {
    let mut dialogue = dialogue();
    dialogue.client.udp.as_mut().expect("it asks over UDP").new_port = true;
    compare(plan_of(dialogue), 2, &[]);
}

#[test]
fn dns_over_tcp_after_truncated_replies() {
    let mut dialogue = dialogue();
    dialogue.client.sizes = Sizes::fixed(40, 4000);
    dialogue.client.udp.as_mut().expect("it asks over UDP").tcp_if_truncated = true;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    compare(plan_of(dialogue), 3, &PACKETS);
}

#[test]
fn dns_over_tcp_on_one_connection() {
    let mut dialogue = dialogue();
    dialogue.client.udp = None;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    dialogue.asking().reuse = KEPT;
    compare(plan_of(dialogue), 4, &PACKETS);
}

/// A connection serves four queries.
const KEPT: Reuse = Reuse::Persistent(Persistent {
    idle_timeout: None,
    queries: Some(4),
    pipelined: true,
    shared: true,
    after_silence: false,
});

#[test]
fn dns_over_tcp_at_a_server_that_resets() {
    let mut dialogue = dialogue();
    dialogue.client.udp = None;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    dialogue.serving().on_query = OnQuery::Reset;
    compare(plan_of(dialogue), 5, &PACKETS);
}

#[test]
fn dns_over_tcp_at_a_server_that_closes() {
    let mut dialogue = dialogue();
    dialogue.client.udp = None;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    dialogue.serving().on_query = OnQuery::Close;
    compare(plan_of(dialogue), 6, &PACKETS);
}

#[test]
fn dns_over_tcp_at_a_server_without_it() {
    let mut dialogue = dialogue();
    dialogue.client.udp = None;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    dialogue.server.tcp = None;
    compare(plan_of(dialogue), 7, &PACKETS);
}

#[test]
fn dns_queries_that_arrive_at_a_rate() {
    let mut dialogue = dialogue();
    // So many queries can be under way if this process has to wait.
    dialogue.client.workers = 100;
    dialogue.client.queries = Some(100);
    dialogue.client.think_mean = Span::ZERO;
    dialogue.client.arrivals =
        Some(Arrivals { interval: Span::from_ms(2), spacing: Spacing::Poisson });
    compare(plan_of(dialogue), 8, &["queries.worker"]);
}

#[test]
fn zone_transfers() {
    let transfer = Transfer {
        server: 1,
        secondaries: vec![Secondary { node: 0, there: 0, back: 1 }],
        tcp: 0,
        at: vec![Time::ZERO + Span::from_ms(10), Time::ZERO + Span::from_ms(50)],
        spread: Span::ZERO,
        query: 35,
        zone: 100_000,
        message: 16_384,
    };
    let server = Kind::DnsServer(dialogue().server);
    let plan = plan_with(vec![Kind::Transfer(transfer), server], Span::from_ms(500));
    compare(fitted(plan), 9, &[]);
}

#[test]
fn pings() {
    let ping = Ping {
        streams: streams(),
        packet_bytes: 84,
        interval: Span::from_ms(7),
        spacing: Spacing::Poisson,
        probes: Some(20),
    };
    compare(plan_with(vec![Kind::Ping(ping)], Span::from_ms(500)), 10, &[]);
}

#[test]
fn datagrams_at_a_rate() {
    let udp = udp::Udp {
        streams: streams(),
        packet_bytes: 1000,
        rate: Rate::from_bps(4_000_000).expect("not zero"),
        spacing: Spacing::Even,
        on_off: None,
        ecn: udp::Codepoint::NotEct,
        packets: Some(100),
        period: Span::from_ms(100),
    };
    compare(plan_with(vec![Kind::Udp(udp)], Span::from_ms(500)), 11, &[]);
}

#[test]
fn datagrams_of_a_trace() {
    let trace = Trace {
        streams: streams(),
        packets: [(0, 100), (0, 1500), (3, 40), (9, 3000)]
            .map(|(ms, bytes)| (Span::from_ms(ms), bytes))
            .to_vec(),
        repeat_after: Some(Span::from_ms(20)),
        period: Span::from_ms(100),
    };
    compare(plan_with(vec![Kind::Trace(trace)], Span::from_ms(500)), 12, &[]);
}

#[test]
fn calls() {
    let voip = Voip {
        calls: streams(),
        codec: Codec::G711,
        packet_time: Span::from_ms(20),
        talk: None,
        playout: Playout::Fixed(Span::from_ms(300)),
    };
    compare(plan_with(vec![Kind::Voip(voip)], Span::from_ms(500)), 13, &[]);
}

#[test]
fn bursts() {
    let on_off = OnOff {
        connections: connections(),
        burst: Draw::Constant(Bytes::new(300_000)),
        idle: Draw::Constant(Span::from_ms(50)),
        bursts: Some(3),
    };
    let plan = plan_with(vec![Kind::OnOff(on_off)], Span::from_secs(2));
    // Both connections end bursts at about the same time, in either order.
    compare(plan, 14, &["bursts.flow", "bursts.burst"]);
}

#[test]
fn endless_data() {
    let mut connections = connections();
    for connection in &mut connections {
        connection.stop = Some(Time::ZERO + Span::from_ms(200));
    }
    let plan = plan_with(vec![Kind::Bulk(bulk::Bulk { connections })], Span::from_secs(2));
    let amounts = ["flows.bytes_acked", "flows.bytes_received"];
    let samples = ["goodput.bytes_received", "flow_samples.bytes_received"];
    // How much it is depends on the machine.
    compare(plan.clone(), 15, &[&amounts[..], &samples].concat());
    let monitor = FlowMonitor { groups: vec!["group".into()], interval: Span::from_ms(20) };
    let Some(tables) = play(Plan { flow_monitor: Some(monitor), ..plan }, 16) else { return };
    what_a_kernel_knows_of_windows(&tables);
    for name in amounts.iter().filter_map(|amount| amount.strip_prefix("flows.")) {
        let (_, column) =
            tables[0].columns.iter().find(|(column, _)| *column == name).expect("it exists");
        let Column::U64(bytes) = column else { panic!("{name} is a number") };
        assert!(bytes.iter().all(|&bytes| bytes > 1_000_000), "{name}: {bytes:?}");
    }
}

/// Both connections are sampled between their handshakes and their closes. The first window has ten
/// segments (RFC 6928), and nothing loses any.
fn what_a_kernel_knows_of_windows(tables: &[Table]) {
    let states = tables.iter().find(|table| table.name == "flow_states").expect("it exists");
    let column = |name: &str| {
        let found = states.columns.iter().find(|(column, _)| *column == name);
        &found.expect("the column exists").1
    };
    let counts = |name| match column(name) {
        Column::U64(counts) => counts.clone(),
        Column::U32(counts) => counts.iter().map(|&count| u64::from(count)).collect(),
        _ => panic!("{name} has counts"),
    };
    let numbers = |name| match column(name) {
        Column::F64(numbers) => numbers.clone(),
        _ => panic!("{name} has numbers"),
    };
    let (windows, segments) = (counts("cwnd_bytes"), counts("segment_bytes"));
    assert!(windows.len() > 10, "{windows:?}");
    assert!(windows.iter().zip(&segments).all(|(window, segment)| *window >= 10 * segment));
    assert_eq!(*counts("connection").iter().max().expect("there are rows"), 1);
    assert!(numbers("srtt_ms").iter().all(|&ms| ms > 0.0 && ms < 300.0));
    assert!(numbers("pacing_bit_per_s").iter().all(|&rate| rate > 1e6));
    // 20 ms at a Megabit per second and more.
    assert!(numbers("goodput_bit_per_s").iter().any(|&rate| rate > 1e6));
}

#[test]
fn incast() {
    let incast = Incast {
        responder: 1,
        servers: vec![RoundTrip { there: 0, back: 1 }; 4],
        tcp: 0,
        start: Time::ZERO + Span::from_ms(10),
        rounds: 3,
        pause: Draw::Constant(Span::from_ms(5)),
        request: 100,
        block: Draw::Constant(Bytes::new(40_000)),
        reuse: false,
    };
    let plan = plan_with(vec![Kind::Incast(incast), responder(None)], Span::from_secs(2));
    compare(plan, 17, &[]);
}

#[test]
fn pages() {
    let plan = pages_with(None, None);
    // Browsers load at about the same time.
    compare(plan, 18, &["pages.browser", "pages.load", "objects.browser", "objects.load"]);
}

/// Two names, which are asked for over UDP.
#[test]
fn pages_that_ask_for_names() {
    let Dialogue { mut client, mut server } = dialogue();
    (client.queries, client.think_mean, client.workers) = (Some(0), Span::ZERO, 4);
    client.server = 3;
    server.tcp = None;
    let mut plan = pages_with(None, None);
    if let Kind::Page(page) = &mut plan.applications[0].kind {
        page.servers = vec![RoundTrip { there: 0, back: 1 }; 2];
        page.objects[2].server = 1;
        page.resolver = Some(Resolver { client: 2, cached: 0.0 });
    }
    for (name, kind) in [("dns", Kind::DnsClient(client)), ("dns", Kind::DnsServer(server))] {
        plan.applications.push(Application { name: name.into(), kind });
    }
    let of_pages = ["pages.browser", "pages.load", "objects.browser", "objects.load"];
    let of_names = ["browser", "load", "host", "query"].map(|name| format!("lookups.{name}"));
    let of_names = of_names.iter().map(String::as_str);
    let decided: Vec<_> = of_pages.into_iter().chain(of_names).chain(["queries.worker"]).collect();
    let Some(tables) = play(plan.clone(), 47) else { return };
    compare_tables(&tables, &simulate(plan), &decided);
    let lookups = tables.iter().find(|table| table.name == "lookups").expect("it has them");
    assert_eq!(lookups.columns[0].1.len(), 2 * 3 * 2);
}

fn pages_with(client: Option<SecureClient>, server: Option<SecureServer>) -> Plan {
    let object = |name: &str, bytes, after: Vec<usize>| Object {
        name: name.into(),
        server: 0,
        bytes: Draw::Constant(Bytes::new(bytes)),
        after,
        wait: Span::from_ms(2),
    };
    let page = Page {
        responder: 1,
        servers: vec![RoundTrip { there: 0, back: 1 }],
        tcp: 0,
        browsers: 2,
        start: Time::ZERO + Span::from_ms(10),
        spread: Span::from_ms(20),
        loads: 3,
        pause: Draw::Constant(Span::from_ms(10)),
        connections: 6,
        streams: 1,
        request: 400,
        objects: vec![
            object("page", 20_000, vec![]),
            object("style", 5000, vec![0]),
            object("picture", 90_000, vec![0, 1]),
        ],
        secure: client,
        resolver: None,
    };
    plan_with(vec![Kind::Page(page), responder(server)], Span::from_secs(8))
}

fn responder(secure: Option<SecureServer>) -> Kind {
    let service = Draw::Constant(Span::from_us(200));
    Kind::Responder(Responder { tcp: 0, service, secure })
}
