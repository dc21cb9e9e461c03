//! Zone transfers: how long they take and what they bring on an empty link, on a lossy one, and
//! from a server that keeps no state before a query.

use crate::common::{Dialogue, numbers, run, table};
use narrows_sim::Simulation;
use narrows_sim::plan::dns::server::{Server, WhenFull};
use narrows_sim::plan::transfer::{Secondary, Transfer};
use narrows_sim::plan::{Application, Kind, Plan};
use narrows_sim::table::{Column, Table};
use narrows_units::{Bytes, Rate, Span, Time};

/// A full message: 204 records of 100 bytes. A zone has `records` of them, with the second SOA.
const MESSAGE: u32 = 12 + 204 * 100;
const QUESTION: u32 = 17;

fn zone(records: u32) -> u32 {
    records * 100 + records.div_ceil(204) * 12
}

/// 8 Mbit/s and 20 ms each way; nobody else sends.
fn plan(records: u32) -> Plan {
    let mut plan = Dialogue::new().plan();
    plan.applications.remove(0);
    for link in &mut plan.links {
        link.rate = Rate::from_bps(8_000_000).expect("not zero");
    }
    for tcp in &mut plan.tcp {
        tcp.receive_buffer = Bytes::new(1 << 30);
    }
    let transfer = Transfer {
        server: 0,
        secondaries: vec![Secondary { node: 0, there: 0, back: 1 }],
        tcp: 0,
        at: vec![Time::ZERO],
        spread: Span::ZERO,
        query: 12 + QUESTION,
        zone: zone(records),
        message: MESSAGE,
    };
    plan.applications.push(Application { name: "zone".into(), kind: Kind::Transfer(transfer) });
    plan
}

fn transfer(plan: &mut Plan) -> &mut Transfer {
    match &mut plan.applications[1].kind {
        Kind::Transfer(transfer) => transfer,
        other => panic!("the second application is {other:?}"),
    }
}

fn server(plan: &mut Plan) -> &mut Server {
    match &mut plan.applications[0].kind {
        Kind::DnsServer(server) => server,
        other => panic!("the first application is {other:?}"),
    }
}

fn rows(plan: Plan) -> Table {
    table(&run(plan), "transfers")
}

/// A handshake, the query, and the zone in full segments, all of which the first window lets out.
#[test]
fn on_an_empty_link_a_transfer_takes_two_round_trips_and_the_time_of_its_bytes() {
    let mut plan = plan(401);
    for tcp in &mut plan.tcp {
        tcp.initial_window = 1000;
    }
    let found = rows(plan);
    let written = zone(401) + QUESTION + 2 * 2;
    assert_eq!(numbers(&found, "bytes"), [f64::from(written)]);
    assert_eq!(numbers(&found, "messages"), [2.0]);
    // A byte takes a microsecond. SYN and SYN-ACK have 60 bytes. The acknowledgement and the query
    // follow one another. A segment has 52 bytes of headers and 1448 of the zone. The server takes
    // 100 us.
    let segments = written.div_ceil(1448);
    // Ethernet adds 38 bytes to each packet.
    let headers = 52 + 38;
    let query = headers + 2 + 12 + QUESTION;
    let us = 2 * (60 + 38) + headers + query + 100 + written + headers * segments;
    let expected = 0.080 + f64::from(us) * 1e-6;
    let took = numbers(&found, "end_s")[0];
    assert!((took - expected).abs() < 1e-9, "{took} s, not {expected} s");
    // The first message ends in the segment with its last byte.
    let of_first = (2 + MESSAGE + QUESTION).div_ceil(1448) * (1500 + 38);
    let first = expected - f64::from(written + headers * segments - of_first) * 1e-6;
    assert!((numbers(&found, "first_s")[0] - first).abs() < 1e-9);
}

/// Whatever is lost, each byte of each message comes once.
#[test]
fn losses_cost_time_and_no_bytes() {
    let mut lossy = plan(10_001);
    lossy.links[1].loss = 0.02.into();
    let (lossy, clean) = (rows(lossy), rows(plan(10_001)));
    for (name, expected) in
        [("messages", 50.0), ("bytes", f64::from(zone(10_001) + QUESTION + 50 * 2))]
    {
        assert_eq!(numbers(&lossy, name), [expected], "{name}");
        assert_eq!(numbers(&clean, name), [expected], "{name}");
    }
    assert!(numbers(&lossy, "segments_retransmitted")[0] > 5.0);
    assert_eq!(numbers(&clean, "segments_retransmitted"), [0.0]);
    assert!(numbers(&lossy, "end_s")[0] > numbers(&clean, "end_s")[0]);
}

/// PROTOCOL.md: a zone transfer goes to ordinary TCP at once, so it takes as long as from a server
/// that has only ordinary TCP.
#[test]
fn a_server_without_state_leaves_transfers_to_ordinary_tcp() {
    let of = |stateless| {
        let mut plan = plan(10_001);
        server(&mut plan).tcp.as_mut().expect("it serves TCP").stateless = stateless;
        rows(plan)
    };
    let (stateless, plain) = (of(true), of(false));
    for name in ["messages", "bytes", "segments_retransmitted"] {
        assert_eq!(numbers(&stateless, name), numbers(&plain, name), "{name}");
    }
    let ends = [&stateless, &plain].map(|found| numbers(found, "end_s")[0]);
    assert!((ends[0] - ends[1]).abs() < 0.005, "{ends:?}");
}

/// A secondary has one transfer at a time; the next one begins when it ends, if it is then due.
#[test]
fn a_transfer_that_is_due_waits_for_the_one_before() {
    let mut plan = plan(10_001);
    transfer(&mut plan).at = [0, 100, 200, 9000].map(|ms| Time::ZERO + Span::from_ms(ms)).to_vec();
    let found = rows(plan);
    let (starts, ends) = (numbers(&found, "start_s"), numbers(&found, "end_s"));
    assert_eq!(numbers(&found, "transfer"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!((starts[1], starts[2], starts[3]), (ends[0], ends[1], 9.0));
}

/// Two at once share the link: both take as long as all bytes of both.
#[test]
fn secondaries_share_the_line() {
    let mut plan = plan(10_001);
    let transfer = transfer(&mut plan);
    transfer.secondaries.push(transfer.secondaries[0]);
    let ends = numbers(&rows(plan), "end_s");
    let written = f64::from(zone(10_001) + QUESTION + 50 * 2);
    let whole = 2.0 * written * 1500.0 / 1448.0 * 1e-6;
    let last = ends.iter().copied().fold(0.0, f64::max);
    assert!(last > whole && last < 1.15 * whole + 0.1, "{ends:?}, {whole}");
}

#[test]
fn what_goes_wrong_is_in_the_table() {
    let fates = |plan: Plan| {
        let found = rows(plan);
        let column = found.columns.into_iter().find(|(name, _)| *name == "fate");
        match column.expect("there is one").1 {
            Column::Text(fates) => fates,
            other => panic!("it is {other:?}"),
        }
    };
    assert_eq!(fates(plan(401)), ["whole"]);
    let mut refused = plan(401);
    server(&mut refused).tcp = None;
    assert_eq!(fates(refused), ["refused"]);
    let mut short = plan(401);
    short.end = Time::ZERO + Span::from_ms(100);
    assert_eq!(fates(short), ["unfinished"]);
    // A server that closes what is above its limit.
    let mut full = plan(401);
    let serving = server(&mut full).tcp.as_mut().expect("it serves TCP");
    serving.connections = Some(1);
    serving.when_full = WhenFull::Reject;
    let transfer = transfer(&mut full);
    transfer.secondaries.push(transfer.secondaries[0]);
    assert_eq!(fates(full), ["whole", "closed"]);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    type Change = fn(&mut Transfer);
    let cases: [(Change, &str); 8] = [
        (|t| t.query = 11, "query"),
        (|t| t.message = 12, "message"),
        (|t| t.message = 65_535, "message"),
        (|t| t.zone = 0, "zone"),
        (|t| (t.message, t.zone) = (13, 999_999_999), "zone"),
        (|t| t.server = 9, "server"),
        (|t| t.secondaries.clear(), "secondaries"),
        (|t| t.at = vec![Time::ZERO + Span::from_ms(1), Time::ZERO], "at"),
    ];
    for (change, word) in cases {
        let mut plan = plan(401);
        change(transfer(&mut plan));
        let message = Simulation::new(plan).expect_err("it cannot be").to_string();
        assert!(message.contains(&format!("{word}: ")), "{message}");
    }
}

/// What the simulator computes ahead of time does not change the results.
#[test]
fn shortcuts_change_nothing() {
    let of = |collapse| {
        let mut plan = plan(2000);
        plan.modes.collapse = collapse;
        plan.links[1].loss = 0.01.into();
        let found = rows(plan);
        [numbers(&found, "end_s"), numbers(&found, "first_s")]
    };
    assert_eq!(of(true), of(false));
}
