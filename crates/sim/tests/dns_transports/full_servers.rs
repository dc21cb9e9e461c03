//! Servers that are full, silent, or refuse connections.

use super::*;

/// `tcp-count 10` with holders that say nothing: the kernel opens the connection, and the query
/// waits ("connects at once and answers late").
#[test]
fn at_a_full_server_the_handshake_is_quick_and_the_answer_late() {
    let limited = server::Tcp {
        connections: Some(2),
        first_query_timeout: Span::from_secs(3),
        ..listening()
    };
    // Two workers keep the server's two slots until its idle timeout of 3 s.
    let hold = Client {
        workers: 2,
        queries: Some(1),
        tcp: Some(Tcp { reuse: kept(), ..over_tcp() }),
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
    // One holds the slot, one waits in the backlog (Linux lets in one more than its limit).
    let hold = Client {
        workers: 2,
        queries: Some(1),
        spread: Span::from_ms(200),
        tcp: Some(Tcp { reuse: kept(), answer_timeout: None, ..over_tcp() }),
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

/// What Unbound did in the trial refuse (docs/dns-clients.md): it opened two connections after each
/// of five queries over UDP.
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

    // In the trial close, it opened one after each query over UDP.
    let holder = Client { tcp: Some(Tcp { reuse: kept(), ..over_tcp() }), ..self::client() };
    let late = Client { start: Time::ZERO + Span::from_secs(5), ..client };
    let tcp = server::Tcp { connections: Some(1), when_full: WhenFull::Reject, ..listening() };
    let tcp = server::Tcp { idle_timeout: Span::from_secs(100), ..tcp };
    let mut plan = plan(holder, Server { tcp: Some(tcp), ..server() });
    plan.applications.push(Application { name: "late".into(), kind: Kind::DnsClient(late) });
    let transports = texts(&run(plan), "attempts", "transport");
    assert_eq!(transports[10..], ["udp", "tcp"].repeat(5));
}

#[test]
fn a_silent_server_is_given_up_after_the_timeout() {
    let attempts = Attempts { silent: 2, ..Attempts::of(1) };
    let client = Client { queries: Some(1), tcp: Some(Tcp { attempts, ..over_tcp() }), ..client() };
    let silent = Server { service: Span::from_secs(1000), ..server() };
    let simulation = run(plan(client, silent));
    assert_eq!(texts(&simulation, "attempts", "fate"), ["timed-out"; 2]);
    let queries = table(&simulation, "queries");
    let took = numbers(&queries, "end_s")[0] - numbers(&queries, "start_s")[0];
    // Two attempts, each with a handshake and 5 s.
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

/// Two workers hold the server's two places; the second one's timeout is shorter only if its own
/// connection counts among those in use, as in Unbound (`setup_tcp_handler`), and not as in NSD.
#[test]
fn a_new_connection_may_count_among_those_in_use() {
    for (busy_counts_new, waits) in [(false, true), (true, false)] {
        let tcp = server::Tcp {
            connections: Some(2),
            idle_timeout: Span::from_secs(3),
            busy_levels: vec![(0.5, Span::from_ms(50))],
            busy_counts_new,
            ..listening()
        };
        let hold = Client {
            workers: 2,
            queries: Some(1),
            tcp: Some(Tcp { reuse: kept(), ..over_tcp() }),
            ..client()
        };
        let late = Client { start: Time::ZERO + Span::from_secs(1), queries: Some(1), ..client() };
        let mut plan = plan(hold, Server { tcp: Some(tcp), ..server() });
        plan.applications.push(Application { name: "late".into(), kind: Kind::DnsClient(late) });
        let response = numbers(&table(&run(plan), "queries"), "response_ms")[2];
        let expected = if waits { 2_050.0..2_150.0 } else { 80.0..81.0 };
        assert!(expected.contains(&response), "{response}");
    }
}

/// Two connections fill the table for a moment. Much later, one gets the place that was the second
/// one's, and its timeout.
#[test]
fn a_place_may_keep_its_shorter_timeout() {
    for (busy_stays, handshakes) in [(false, [1.0, 0.0, 0.0]), (true, [1.0; 3])] {
        let tcp = server::Tcp {
            connections: Some(2),
            idle_timeout: Span::from_secs(100),
            busy_levels: vec![(0.5, Span::from_ms(60))],
            busy_counts_new: true,
            busy_stays,
            ..listening()
        };
        // Both clients close after their replies, the second one last.
        let crowd = Client { workers: 2, queries: Some(1), ..client() };
        let late = Client {
            start: Time::ZERO + Span::from_secs(1),
            queries: Some(3),
            think_mean: Span::from_secs(5),
            tcp: Some(Tcp { reuse: kept(), ..over_tcp() }),
            ..client()
        };
        let mut plan = plan(crowd, Server { tcp: Some(tcp), ..server() });
        plan.applications.push(Application { name: "late".into(), kind: Kind::DnsClient(late) });
        let attempts = table(&run(plan), "attempts");
        assert_eq!(numbers(&attempts, "handshake_round_trips")[2..], handshakes);
    }
}

/// A busy server does not wait longer for the rest of a query: 0.2 s with Unbound
/// (tests/dns_behaviour/busy_handshakes.py).
#[test]
fn half_a_query_has_the_shorter_timeout_too() {
    let fate = |level| {
        let tcp = server::Tcp {
            connections: Some(2),
            half_query_timeout: Some(Span::from_secs(1)),
            busy_levels: vec![(level, Span::from_ms(30))],
            busy_counts_new: true,
            ..listening()
        };
        let client = Client {
            queries: Some(1),
            tcp: Some(Tcp { length_apart: true, ..over_tcp() }),
            ..client()
        };
        let mut plan = plan(client, Server { tcp: Some(tcp), ..server() });
        for config in &mut plan.tcp {
            config.nagle = true;
        }
        texts(&run(plan), "attempts", "fate")
    };
    assert_eq!(fate(0.5), ["answered"]);
    assert_eq!(fate(0.4), ["closed"]);
}
