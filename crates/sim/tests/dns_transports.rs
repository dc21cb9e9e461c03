//! DNS over UDP and TCP: what real servers and clients were seen to do (docs/dns-servers.md,
//! docs/dns-clients.md, and the trials with NSD 3.2.13 and emulated servers behind paper R).

#[allow(dead_code, reason = "other tests use more of it")]
mod common;

use common::{ETHERNET, numbers, pfifo, profile, run, table};
use narrows_sim::plan::dns::client::{Attempts, Client, Kept, Reuse, Tcp, Udp};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server::{self, Server, WhenFull};
use narrows_sim::plan::{Application, Capture, Kind, Link, LinkChange, Middlebox, Path, Plan};
use narrows_sim::table::Column;
use narrows_sim::{Simulation, Stopped, tcp};
use narrows_units::{Rate, Span, Time};

/// Half of the round trip.
const ONE_WAY_MS: f64 = 20.0;

/// TCP settings of the client (0), and of the server (1).
fn settings() -> Vec<tcp::Config> {
    let mut server = profile("linux-6");
    server.nagle = false;
    vec![profile("linux-6"), server]
}

fn client() -> Client {
    Client {
        server: 1,
        there: 0,
        back: 1,
        workers: 1,
        start: Time::ZERO,
        spread: Span::ZERO,
        warm_up: 0,
        queries: Some(10),
        arrivals: None,
        think_mean: Span::from_ms(200),
        sizes: Sizes::fixed(40, 745),
        gives_up: None,
        udp: None,
        tcp: Some(over_tcp()),
    }
}

fn over_tcp() -> Tcp {
    Tcp {
        tcp: 0,
        reuse: Reuse::Never,
        connect_timeout: None,
        answer_timeout: Some(Span::from_secs(5)),
        attempts: Attempts::of(1),
        udp_between: false,
        refused_together: 1,
        length_apart: false,
        tls: None,
    }
}

fn over_udp() -> Udp {
    Udp {
        timeouts: vec![Span::from_secs(5); 2],
        payload: 1232,
        tcp_if_truncated: true,
        tcp_if_silent: false,
        new_port: false,
    }
}

fn server() -> Server {
    Server {
        service: Span::from_us(100),
        service_jitter_mean: Span::ZERO,
        udp_payload: 1232,
        tcp: Some(listening()),
    }
}

fn listening() -> server::Tcp {
    server::Tcp {
        tcp: 1,
        backlog: 256,
        connections: None,
        connections_per_client: None,
        when_full: WhenFull::Wait,
        idle_timeout: Span::from_secs(10),
        first_query_timeout: Span::from_secs(10),
        half_query_timeout: None,
        on_query: server::OnQuery::Answer,
        busy_levels: Vec::new(),
        queries_per_connection: None,
        in_order: false,
        length_apart: false,
        extra_service: Span::ZERO,
        half_open: server::HalfOpenLimits::LINUX,
        stateless: false,
        tls: None,
    }
}

/// A client and a server, 20 ms apart on a fast link.
fn plan(client: Client, server: Server) -> Plan {
    let link = |name: &str, from, to| Link {
        delay: Span::from_ms(ONE_WAY_MS as u64),
        framing: ETHERNET,
        ..common::link(name, from, to, 1000, Span::ZERO, pfifo(1000))
    };
    Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(200),
        end_with_dns: true,
        event_limit: 10_000_000,
        nodes: ["client", "server"].map(str::to_owned).to_vec(),
        links: vec![link("wan.forward", 0, 1), link("wan.backward", 1, 0)],
        tcp: settings(),
        paths: vec![
            Path { from: 0, to: 1, links: vec![0] },
            Path { from: 1, to: 0, links: vec![1] },
        ],
        applications: vec![
            Application { name: "dns".into(), kind: Kind::DnsClient(client) },
            Application { name: "dns".into(), kind: Kind::DnsServer(server) },
        ],
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        collapse: true,
    }
}

fn texts(simulation: &Simulation, name: &str, column: &str) -> Vec<String> {
    let table = table(simulation, name);
    let found = table.columns.iter().find(|(other, _)| *other == column);
    match found {
        Some((_, Column::Text(values))) => values.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

/// Response times as multiples of the round trip.
fn ratios(simulation: &Simulation) -> Vec<f64> {
    let responses = numbers(&table(simulation, "queries"), "response_ms");
    responses.iter().map(|ms| ms / (2.0 * ONE_WAY_MS)).collect()
}

#[test]
fn a_connection_for_each_query_takes_two_round_trips() {
    let simulation = run(plan(client(), server()));
    assert_eq!(simulation.stopped(), Stopped::DnsDone);
    for ratio in ratios(&simulation) {
        assert!((ratio - 2.0).abs() < 0.03, "{ratio}");
    }
    let attempts = table(&simulation, "attempts");
    assert_eq!(texts(&simulation, "attempts", "transport"), ["tcp"; 10]);
    assert_eq!(numbers(&attempts, "handshake_round_trips"), [1.0; 10]);
    for ms in numbers(&attempts, "handshake_ms") {
        assert!((ms - 2.0 * ONE_WAY_MS).abs() < 0.1, "{ms}");
    }
    // SYN, ACK, query, ACK of the reply, FIN, and the ACK of the server's FIN; from the server the
    // SYN-ACK, the query's ACK, the reply, and FIN with ACK.
    // The run ends with the last reply, before that connection is closed.
    assert_eq!(numbers(&attempts, "packets_sent")[..9], [6.0; 9]);
    assert_eq!(numbers(&attempts, "packets_received")[..9], [4.0; 9]);
}

/// A server that writes the length by itself (NSD before 3.2.14), with Nagle's algorithm: the
/// message waits for the length's acknowledgement. Measured: 3.01.
#[test]
fn two_writes_with_nagle_take_three_round_trips() {
    let mut plan = plan(client(), server());
    let apart = server::Tcp { length_apart: true, ..listening() };
    plan.applications[1].kind = Kind::DnsServer(Server { tcp: Some(apart), ..server() });
    for (nagle, expected) in [(true, 3.0), (false, 2.0)] {
        plan.tcp[1].nagle = nagle;
        let tables = run(plan.clone());
        for ratio in ratios(&tables) {
            assert!((ratio - expected).abs() < 0.03, "{ratio}, not {expected}");
        }
        // The length is a round trip ahead of the message, or comes just before it.
        let attempts = table(&tables, "attempts");
        let first = numbers(&attempts, "first_byte_s");
        for (first, last) in first.iter().zip(numbers(&attempts, "received_s")) {
            let trips = (last - first) * 1e3 / (2.0 * ONE_WAY_MS);
            assert!((trips - (expected - 2.0)).abs() < 0.03, "{trips} round trips");
        }
    }
}

/// The same with a client that delays its acknowledgements: measured 3 round trips and 44 ms.
#[test]
fn delayed_acknowledgements_add_their_time_to_three_round_trips() {
    let mut plan = plan(client(), server());
    let apart = server::Tcp { length_apart: true, ..listening() };
    plan.applications[1].kind = Kind::DnsServer(Server { tcp: Some(apart), ..server() });
    plan.tcp[1].nagle = true;
    plan.tcp[0].acks = tcp::AckPolicy::Delayed(Span::from_ms(40));
    for ratio in ratios(&run(plan)) {
        let extra_ms = (ratio - 3.0) * 2.0 * ONE_WAY_MS;
        assert!((38.0..52.0).contains(&extra_ms), "{extra_ms} ms");
    }
}

/// Both sides write twice: 3.98 was measured.
#[test]
fn when_the_client_writes_twice_too_it_takes_four() {
    let client = Client { tcp: Some(Tcp { length_apart: true, ..over_tcp() }), ..client() };
    let apart = server::Tcp { length_apart: true, ..listening() };
    let mut plan = plan(client, Server { tcp: Some(apart), ..server() });
    for config in &mut plan.tcp {
        config.nagle = true;
    }
    for ratio in ratios(&run(plan)) {
        assert!((ratio - 4.0).abs() < 0.05, "{ratio}");
    }
}

/// With two writes and Nagle's algorithm a server has the length alone for a round trip.
#[test]
fn a_server_may_be_too_impatient_for_half_a_query() {
    let fates = |half_query_timeout| {
        let client = Client {
            queries: Some(3),
            tcp: Some(Tcp { length_apart: true, ..over_tcp() }),
            ..client()
        };
        let tcp = server::Tcp { half_query_timeout, ..listening() };
        let mut plan = plan(client, Server { tcp: Some(tcp), ..server() });
        for config in &mut plan.tcp {
            config.nagle = true;
        }
        texts(&run(plan), "attempts", "fate")
    };
    let round_trip = 2 * ONE_WAY_MS as u64;
    assert_eq!(fates(Some(Span::from_ms(round_trip - 5))), ["closed"; 3]);
    assert_eq!(fates(Some(Span::from_ms(round_trip + 5))), ["answered"; 3]);
    assert_eq!(fates(None), ["answered"; 3]);
}

/// The time of half a query is over when the rest has come, however late the reply is.
#[test]
fn a_whole_query_has_as_long_as_it_takes() {
    let tcp = server::Tcp { half_query_timeout: Some(Span::from_ms(45)), ..listening() };
    let client = Client {
        queries: Some(1),
        tcp: Some(Tcp { length_apart: true, ..over_tcp() }),
        ..client()
    };
    let slow = Server { service: Span::from_secs(1), tcp: Some(tcp), ..server() };
    let mut plan = plan(client, slow);
    for config in &mut plan.tcp {
        config.nagle = true;
    }
    assert_eq!(texts(&run(plan), "attempts", "fate"), ["answered"]);
}

/// A server that loses patience with half of a second query answers the first one before it closes.
#[test]
fn half_a_query_takes_no_reply_from_another_one() {
    let shared = Kept {
        idle_timeout: None,
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    };
    let asking = Tcp { length_apart: true, reuse: Reuse::Kept(shared), ..over_tcp() };
    let client = Client {
        workers: 2,
        queries: Some(1),
        spread: Span::from_secs(1),
        tcp: Some(Tcp { attempts: Attempts::of(1), ..asking }),
        ..client()
    };
    // Its replies take longer than both workers need to ask; and the rest of a query comes a round trip after its length.
    let half_query_timeout = Some(Span::from_ms(3 * ONE_WAY_MS as u64));
    let listening = server::Tcp { half_query_timeout, ..listening() };
    let service = Span::from_secs(3);
    let mut plan = plan(client, Server { service, tcp: Some(listening), ..server() });
    for config in &mut plan.tcp {
        config.nagle = true;
    }
    let simulation = run(plan.clone());
    assert_eq!(texts(&simulation, "attempts", "fate"), ["answered"; 2]);
    let starts = numbers(&table(&simulation, "queries"), "start_s");
    assert!(starts[1] - starts[0] > 0.2, "{starts:?}");
    // The link gets so slow that the rest of the second query comes seconds later.
    plan.changes = vec![LinkChange {
        at: Time::ZERO + Span::from_secs_f64(starts[1]) + Span::from_ms(ONE_WAY_MS as u64),
        link: 0,
        rate: Rate::from_bps(100).expect("not zero"),
        delay: None,
    }];
    assert_eq!(texts(&run(plan), "attempts", "fate"), ["answered", "closed"]);
}

#[test]
fn a_server_may_end_the_connection_instead_of_answering() {
    for (on_query, fate) in [(server::OnQuery::Close, "closed"), (server::OnQuery::Reset, "reset")]
    {
        // Room for one connection: it is free again at once.
        let tcp = server::Tcp { on_query, connections: Some(1), ..listening() };
        let client = Client { workers: 3, queries: Some(2), ..client() };
        let fates =
            texts(&run(plan(client, Server { tcp: Some(tcp), ..server() })), "attempts", "fate");
        assert_eq!(fates, [fate; 6]);
    }
}

#[test]
fn a_kept_connection_takes_one_round_trip_after_the_first_query() {
    let kept = Kept {
        idle_timeout: None,
        queries: Some(4),
        pipelined: false,
        shared: false,
        after_silence: false,
    };
    let client = Client { tcp: Some(Tcp { reuse: Reuse::Kept(kept), ..over_tcp() }), ..client() };
    let simulation = run(plan(client, server()));
    // Four queries a connection: the first of each opens it.
    let expected = [2.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0];
    for (ratio, expected) in ratios(&simulation).into_iter().zip(expected) {
        assert!((ratio - expected).abs() < 0.03, "{ratio}, not {expected}");
    }
    let reused = numbers(&table(&simulation, "attempts"), "reused");
    assert_eq!(reused, expected.map(|ratio| f64::from(u8::from(ratio == 1.0))));
}

/// Many workers share a connection: queries go out together, and replies come as they are ready.
#[test]
fn pipelined_queries_share_a_connection() {
    let kept = Kept {
        idle_timeout: None,
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    };
    let client = Client {
        workers: 20,
        tcp: Some(Tcp { reuse: Reuse::Kept(kept), ..over_tcp() }),
        ..client()
    };
    let jittery = |in_order| {
        let tcp = server::Tcp { in_order, ..listening() };
        let service_jitter_mean = Span::from_ms(30);
        let server = Server { tcp: Some(tcp), service_jitter_mean, ..server() };
        let simulation = run(plan(client.clone(), server));
        assert_eq!(simulation.stopped(), Stopped::DnsDone);
        let handshakes = numbers(&table(&simulation, "attempts"), "handshake_round_trips");
        assert_eq!(handshakes.iter().sum::<f64>(), 20.0, "all wait for the one connection");
        let responses = numbers(&table(&simulation, "queries"), "response_ms");
        responses.iter().sum::<f64>() / responses.len() as f64
    };
    // The head of the line blocks: the mean grows.
    let (as_ready, in_order) = (jittery(false), jittery(true));
    assert!(in_order > as_ready + 5.0, "{in_order} {as_ready}");
}

/// `tcp-count 10` with holders that say nothing: the kernel opens the connection, and the query
/// waits ("connects at once and answers late").
#[test]
fn at_a_full_server_the_handshake_is_quick_and_the_answer_late() {
    let limited = server::Tcp {
        connections: Some(2),
        first_query_timeout: Span::from_secs(3),
        ..listening()
    };
    let holders = Kept {
        idle_timeout: None,
        queries: None,
        pipelined: false,
        shared: false,
        after_silence: false,
    };
    // Two workers keep the server's two slots until its idle time-out of 3 s.
    let hold = Client {
        workers: 2,
        queries: Some(1),
        tcp: Some(Tcp { reuse: Reuse::Kept(holders), ..over_tcp() }),
        ..client()
    };
    let late = Client { start: Time::ZERO + Span::from_secs(1), queries: Some(1), ..client() };
    let idle_timeout = Span::from_secs(3);
    let server = Server { tcp: Some(server::Tcp { idle_timeout, ..limited }), ..server() };
    let mut plan = plan(hold, server);
    plan.applications.push(Application { name: "late".into(), kind: Kind::DnsClient(late) });
    let simulation = run(plan);
    let attempts = table(&simulation, "attempts");
    let connects = numbers(&attempts, "handshake_ms");
    assert!((connects[2] - 2.0 * ONE_WAY_MS).abs() < 0.1, "{connects:?}");
    // The holders were answered at 80 ms and idle from then on: a slot is free at 3.06 s or so,
    // and the query came at 1 s.
    let response = numbers(&table(&simulation, "queries"), "response_ms")[2];
    assert!((2_050.0..2_150.0).contains(&response), "{response}");
}

/// A full backlog drops SYNs: the client sends its SYN again after a second, and so on.
#[test]
fn at_a_full_backlog_the_handshake_is_late() {
    let tcp = server::Tcp { connections: Some(1), backlog: 0, ..listening() };
    let holders = Kept {
        idle_timeout: None,
        queries: None,
        pipelined: false,
        shared: false,
        after_silence: false,
    };
    // One holds the slot, one waits in the backlog (Linux lets in one more than its limit).
    let hold = Client {
        workers: 2,
        queries: Some(1),
        spread: Span::from_ms(200),
        tcp: Some(Tcp { reuse: Reuse::Kept(holders), answer_timeout: None, ..over_tcp() }),
        ..client()
    };
    let late = Client { start: Time::ZERO + Span::from_secs(1), queries: Some(1), ..client() };
    let idle_timeout = Span::from_ms(3_500);
    let server = Server { tcp: Some(server::Tcp { idle_timeout, ..tcp }), ..server() };
    let mut plan = plan(hold, server);
    plan.applications.push(Application { name: "late".into(), kind: Kind::DnsClient(late) });
    let connects = numbers(&table(&run(plan), "attempts"), "handshake_ms");
    // SYNs leave 0, 1 and 3 s after the first, and timers of seconds in Linux are late by up to an
    // eighth (`calc_wheel_index`); the third one finds room.
    let connect = connects[2] - 2.0 * ONE_WAY_MS;
    assert!((3_000.0..3_050.0).contains(&connect), "{connects:?}");
}

#[test]
fn a_truncated_reply_sends_the_client_to_tcp() {
    let client = Client { udp: Some(over_udp()), sizes: Sizes::fixed(51, 3_000), ..client() };
    let simulation = run(plan(client, server()));
    let fates = texts(&simulation, "attempts", "fate");
    assert_eq!(fates[..4], ["truncated", "answered", "truncated", "answered"]);
    for ratio in ratios(&simulation) {
        assert!((ratio - 3.0).abs() < 0.05, "{ratio}");
    }
    let attempts = table(&simulation, "attempts");
    // IP packets: 20 + 8 + 51, and the truncated reply as long.
    assert_eq!(numbers(&attempts, "bytes_sent")[0], 79.0);
    assert_eq!(numbers(&attempts, "bytes_received")[0], 79.0);
    // 3002 bytes in segments of 1448: three of them.
    assert_eq!(numbers(&attempts, "packets_received")[1], 6.0);
}

#[test]
fn a_reply_that_fits_the_client_but_not_the_server_is_truncated() {
    let client = Client {
        udp: Some(Udp { payload: 4096, ..over_udp() }),
        sizes: Sizes::fixed(51, 1_400),
        ..client()
    };
    let transports =
        |server: Server| texts(&run(plan(client.clone(), server)), "attempts", "transport");
    assert_eq!(transports(server())[..2], ["udp", "tcp"]);
    assert_eq!(transports(Server { udp_payload: 4096, ..server() })[..2], ["udp", "udp"]);
}

#[test]
fn refused_connections_are_tried_as_often_as_the_settings_say() {
    let attempts = Attempts { refused: 3, ..Attempts::of(1) };
    let client = Client { queries: Some(2), tcp: Some(Tcp { attempts, ..over_tcp() }), ..client() };
    let refusing = Server { tcp: None, ..server() };
    let simulation = run(plan(client.clone(), refusing.clone()));
    assert_eq!(texts(&simulation, "attempts", "fate"), ["refused"; 6]);
    assert_eq!(numbers(&table(&simulation, "queries"), "attempt"), [0.0, 0.0]);
    // A round trip each, one after the other.
    let queries = table(&simulation, "queries");
    let (starts, ends) = (numbers(&queries, "start_s"), numbers(&queries, "end_s"));
    assert!((ends[0] - starts[0] - 3.0 * 0.04).abs() < 0.001, "{}", ends[0] - starts[0]);

    // systemd-resolved, Unbound and kdig ask over UDP in between.
    let udp_between = Client {
        udp: Some(over_udp()),
        sizes: Sizes::fixed(51, 3_000),
        tcp: Some(Tcp { attempts, udp_between: true, ..over_tcp() }),
        ..client
    };
    let transports = texts(&run(plan(udp_between, refusing)), "attempts", "transport");
    assert_eq!(transports[..6], ["udp", "tcp", "udp", "tcp", "udp", "tcp"]);
}

/// Unbound in the trial refuse (docs/dns-clients.md): two connections after each of five queries over
/// UDP.
#[test]
fn refused_connections_may_follow_each_other_before_the_next_query_over_udp() {
    let attempts = Attempts { refused: 10, ..Attempts::of(5) };
    let tcp = Tcp { attempts, udp_between: true, refused_together: 2, ..over_tcp() };
    let sizes = Sizes::fixed(51, 3_000);
    let client =
        Client { queries: Some(1), udp: Some(over_udp()), sizes, tcp: Some(tcp), ..client() };
    let refusing = Server { tcp: None, ..server() };
    let transports = texts(&run(plan(client.clone(), refusing)), "attempts", "transport");
    assert_eq!(transports, ["udp", "tcp", "tcp"].repeat(5));

    // In the trial close each query over UDP has one.
    let holder = Client { tcp: Some(Tcp { reuse: forever(), ..over_tcp() }), ..self::client() };
    let late = Client { start: Time::ZERO + Span::from_secs(5), ..client };
    let tcp = server::Tcp { connections: Some(1), when_full: WhenFull::Reject, ..listening() };
    let tcp = server::Tcp { idle_timeout: Span::from_secs(100), ..tcp };
    let mut plan = plan(holder, Server { tcp: Some(tcp), ..server() });
    plan.applications.push(Application { name: "late".into(), kind: Kind::DnsClient(late) });
    let transports = texts(&run(plan), "attempts", "transport");
    assert_eq!(transports[10..], ["udp", "tcp"].repeat(5));
}

fn forever() -> Reuse {
    Reuse::Kept(Kept {
        idle_timeout: None,
        queries: None,
        pipelined: false,
        shared: false,
        after_silence: false,
    })
}

/// RFC 791, 3.2: 3008 bytes behind the IP header leave in 1480, 1480 and 48, each with a header.
#[test]
fn each_fragment_of_a_reply_counts() {
    let udp = Udp { payload: 4096, ..over_udp() };
    let sizes = Sizes::fixed(51, 3_000);
    let client = Client { queries: Some(1), udp: Some(udp), tcp: None, sizes, ..client() };
    let client =
        Client { udp: client.udp.map(|udp| Udp { tcp_if_truncated: false, ..udp }), ..client };
    let mut plan = plan(client, Server { udp_payload: 4096, ..server() });
    for link in &mut plan.links {
        link.mtu = 1500;
    }
    let attempts = table(&run(plan), "attempts");
    assert_eq!(numbers(&attempts, "packets_sent"), [1.0]);
    assert_eq!(numbers(&attempts, "packets_received"), [3.0]);
    assert_eq!(numbers(&attempts, "bytes_received"), [3_068.0]);
}

#[test]
fn a_lost_reply_counts_as_sent_and_a_late_one_once() {
    let over_udp = Udp { tcp_if_truncated: false, ..over_udp() };
    let client = Client { queries: Some(1), udp: Some(over_udp.clone()), tcp: None, ..client() };
    let mut lossy = plan(client.clone(), server());
    lossy.links[1].loss = 1.0;
    let simulation = run(lossy);
    assert_eq!(texts(&simulation, "attempts", "fate"), ["reply-lost"; 2]);
    let attempts = table(&simulation, "attempts");
    assert_eq!(numbers(&attempts, "packets_received"), [1.0; 2]);
    assert_eq!(numbers(&attempts, "bytes_received"), [773.0; 2]);

    let impatient = Udp { timeouts: vec![Span::from_ms(30), Span::from_secs(5)], ..over_udp };
    let simulation = run(plan(Client { udp: Some(impatient), ..client }, server()));
    assert_eq!(texts(&simulation, "attempts", "fate"), ["late", "answered"]);
    assert_eq!(numbers(&table(&simulation, "attempts"), "packets_received"), [1.0; 2]);
}

#[test]
fn attempts_over_udp_that_nothing_came_for_are_timed_out() {
    let over_udp = Udp { tcp_if_truncated: false, ..over_udp() };
    let client = Client { queries: Some(1), udp: Some(over_udp), tcp: None, ..client() };
    let silent = Server { service: Span::from_secs(1000), ..server() };
    let simulation = run(plan(client.clone(), silent.clone()));
    assert_eq!(texts(&simulation, "attempts", "fate"), ["timed-out"; 2]);

    // What is still open at the end has no fate yet.
    let mut short = plan(client, silent);
    short.end = Time::ZERO + Span::from_secs(7);
    assert_eq!(texts(&run(short), "attempts", "fate"), ["timed-out", "pending"]);
}

#[test]
fn attempts_come_from_one_port_or_each_from_its_own() {
    let ports = |new_port| {
        let udp = Udp { tcp_if_truncated: false, new_port, ..over_udp() };
        let client = Client { workers: 2, queries: Some(1), udp: Some(udp), tcp: None, ..client() };
        let mut plan = plan(client, Server { service: Span::from_secs(1000), ..server() });
        plan.captures = [0].map(|link| Capture::of(link, "")).to_vec();
        let simulation = run(plan);
        let mut ports: Vec<_> =
            simulation.captured(0).iter().map(|packet| packet.ports.0).collect();
        assert_eq!(ports.len(), 4, "two workers, two attempts each");
        ports.sort_unstable();
        ports.dedup();
        ports.len()
    };
    assert_eq!(ports(false), 2);
    assert_eq!(ports(true), 4);
}

#[test]
fn a_silent_server_is_given_up_after_the_time_out() {
    let attempts = Attempts { silent: 2, ..Attempts::of(1) };
    let client = Client { queries: Some(1), tcp: Some(Tcp { attempts, ..over_tcp() }), ..client() };
    let silent = Server { service: Span::from_secs(1000), ..server() };
    let simulation = run(plan(client, silent));
    assert_eq!(texts(&simulation, "attempts", "fate"), ["timed-out"; 2]);
    let queries = table(&simulation, "queries");
    let took = numbers(&queries, "end_s")[0] - numbers(&queries, "start_s")[0];
    // Twice a handshake and 5 s.
    assert!((took - 10.08).abs() < 0.001, "{took}");
}

#[test]
fn a_server_that_is_full_may_close_at_once() {
    let tcp = server::Tcp { connections: Some(1), when_full: WhenFull::Reject, ..listening() };
    let client = Client { workers: 2, queries: Some(1), ..client() };
    let fates =
        texts(&run(plan(client, Server { tcp: Some(tcp), ..server() })), "attempts", "fate");
    assert_eq!(fates, ["answered", "closed"]);
}

#[test]
fn a_lossy_path_loses_no_answer_over_tcp() {
    let client = Client { workers: 20, queries: Some(50), ..client() };
    let mut plan = plan(client, server());
    for link in &mut plan.links {
        link.loss = 0.05;
    }
    let simulation = run(plan);
    assert_eq!(simulation.stopped(), Stopped::DnsDone);
    let answered = numbers(&table(&simulation, "queries"), "attempt");
    assert_eq!(answered.len(), 1_000);
    // Nothing but five seconds of loss in a row gives a query up.
    assert!(answered.iter().filter(|&&attempt| attempt == 0.0).count() < 10);
}

#[test]
fn flows_are_used_again() {
    // Ten thousand connections, never more than a few at once.
    let client = Client { workers: 5, queries: Some(2_000), think_mean: Span::ZERO, ..client() };
    let mut plan = plan(client, server());
    plan.end = Time::ZERO + Span::from_secs(2_000);
    let simulation = run(plan);
    assert_eq!(simulation.stopped(), Stopped::DnsDone);
    assert_eq!(numbers(&table(&simulation, "queries"), "attempt"), [1.0; 10_000]);
    assert!(simulation.most_flows() < 40, "{}", simulation.most_flows());
}

#[test]
fn impossible_settings_are_refused() {
    let refused = |client: Client, server: Server| {
        Simulation::new(plan(client, server)).expect_err("it is impossible").to_string()
    };
    let with = |tcp: Tcp| Client { tcp: Some(tcp), ..client() };
    let listens = |tcp: server::Tcp| Server { tcp: Some(tcp), ..server() };
    for (client, server, said) in [
        (Client { tcp: None, ..client() }, server(), "dns: udp, tcp"),
        (with(Tcp { tcp: 9, ..over_tcp() }), server(), "dns: tcp: no such"),
        (with(Tcp { attempts: Attempts::of(0), ..over_tcp() }), server(), "dns: attempts"),
        (with(Tcp { udp_between: true, ..over_tcp() }), server(), "dns: udp_between"),
        (with(Tcp { refused_together: 0, ..over_tcp() }), server(), "dns: refused_together"),
        (Client { tcp: None, udp: Some(over_udp()), ..client() }, server(), "dns: tcp: is needed"),
        (
            Client { udp: Some(Udp { payload: 511, ..over_udp() }), ..client() },
            server(),
            "dns: payload",
        ),
        (client(), listens(server::Tcp { tcp: 9, ..listening() }), "dns: tcp: no such"),
        (
            client(),
            listens(server::Tcp { connections: Some(0), ..listening() }),
            "dns: connections",
        ),
        (
            client(),
            listens(server::Tcp { busy_levels: vec![(0.5, Span::ZERO)], ..listening() }),
            "dns: busy_levels",
        ),
        (
            client(),
            listens(server::Tcp {
                stateless: true,
                on_query: server::OnQuery::Reset,
                ..listening()
            }),
            "dns: on_query: needs connections",
        ),
        (client(), Server { udp_payload: 100, ..server() }, "dns: udp_payload"),
    ] {
        let message = refused(client, server);
        assert!(message.starts_with(said), "{message}, not {said}");
    }
}

/// RFC 7413: the first connection asks for a cookie, and later ones carry the query in the SYN.
#[test]
fn with_fast_open_a_connection_for_each_query_takes_one_round_trip() {
    let mut plan = plan(client(), server());
    for config in &mut plan.tcp {
        config.fast_open = true;
    }
    let simulation = run(plan);
    for (index, ratio) in ratios(&simulation).into_iter().enumerate() {
        let expected = if index == 0 { 2.0 } else { 1.0 };
        assert!((ratio - expected).abs() < 0.03, "{ratio}, not {expected}");
    }
    let attempts = table(&simulation, "attempts");
    let handshakes = numbers(&attempts, "handshake_round_trips");
    assert_eq!((handshakes[0], handshakes[1..].iter().sum()), (1.0, 0.0));
    assert!(numbers(&attempts, "handshake_ms")[1..].iter().all(|ms| ms.is_nan()));
    // SYN with the query, the ACK of the SYN-ACK, the reply's, FIN, and the ACK of the server's FIN; from
    // the server the SYN-ACK, the reply, and FIN with ACK: as captured from kdig and Knot.
    assert_eq!(numbers(&attempts, "packets_sent")[1..9], [5.0; 8]);
    assert_eq!(numbers(&attempts, "packets_received")[1..9], [3.0; 8]);
}

/// A server that knows no Fast Open leaves everything as it was, but for the SYN's option.
#[test]
fn without_fast_open_at_the_server_it_takes_two_round_trips() {
    let mut plan = plan(client(), server());
    plan.tcp[0].fast_open = true;
    let simulation = run(plan.clone());
    for ratio in ratios(&simulation) {
        assert!((ratio - 2.0).abs() < 0.03, "{ratio}");
    }
    plan.tcp[0].fast_open = false;
    let bytes = |simulation| numbers(&table(&simulation, "attempts"), "bytes_sent")[0];
    assert_eq!(bytes(simulation), bytes(run(plan)) + 4.0);
}

/// Linux 6.1, `tcp_conn_request`: who is answered with a SYN cookie gets no Fast Open.
#[test]
fn syn_cookies_leave_no_room_for_fast_open() {
    let mut plan = plan(client(), server());
    for config in &mut plan.tcp {
        config.fast_open = true;
    }
    for application in &mut plan.applications {
        if let Kind::DnsServer(server::Server { tcp: Some(tcp), .. }) = &mut application.kind {
            tcp.half_open.cookies = server::Cookies::Always;
        }
    }
    for ratio in ratios(&run(plan)) {
        assert!((ratio - 2.0).abs() < 0.03, "{ratio}");
    }
}

/// RFC 7413, 7.1: where SYNs with data do not pass, the SYN goes again without, a second later.
#[test]
fn a_middlebox_that_drops_data_in_syns_costs_a_time_out() {
    let mut plan = plan(client(), server());
    for config in &mut plan.tcp {
        config.fast_open = true;
    }
    plan.links[0].middlebox = Some(Middlebox { drop_syn_data: true, ..Middlebox::default() });
    let simulation = run(plan);
    assert_eq!(texts(&simulation, "attempts", "fate"), ["answered"; 10]);
    let handshakes = numbers(&table(&simulation, "attempts"), "handshake_round_trips");
    assert_eq!(handshakes, [1.0; 10], "in the end no query left with a SYN");
    for ratio in &ratios(&simulation)[1..] {
        let late_ms = (ratio - 2.0) * 2.0 * ONE_WAY_MS;
        assert!((1_000.0..1_050.0).contains(&late_ms), "{late_ms}");
    }
}

/// Of the queries that wait for a shared connection the first alone goes with the SYN.
#[test]
fn the_first_query_of_a_shared_connection_goes_with_its_syn() {
    let kept = Kept {
        idle_timeout: Some(Span::ZERO),
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    };
    let client = Client {
        workers: 3,
        queries: Some(2),
        arrivals: None,
        think_mean: Span::ZERO,
        tcp: Some(Tcp { reuse: Reuse::Kept(kept), ..over_tcp() }),
        ..client()
    };
    let mut plan = plan(client, server());
    for config in &mut plan.tcp {
        config.fast_open = true;
    }
    let simulation = run(plan);
    assert_eq!(texts(&simulation, "attempts", "fate"), ["answered"; 6]);
    let handshakes = numbers(&table(&simulation, "attempts"), "handshake_round_trips");
    assert_eq!(handshakes[..3], [1.0; 3]);
    assert!(handshakes[3..].contains(&0.0), "{handshakes:?}");
}

#[test]
fn who_is_no_dns_server_is_not_asked() {
    let asks = |server| Simulation::new(plan(Client { server, ..client() }, self::server()));
    assert!(asks(1).is_ok());
    // Itself: its datagrams would come back to it as replies.
    let refused = asks(0).expect_err("a client answers nothing").to_string();
    assert!(refused.ends_with("answers nothing like this"), "{refused}");
    let refused = asks(2).expect_err("there are two").to_string();
    assert!(refused.ends_with("server: no such application"), "{refused}");
}
