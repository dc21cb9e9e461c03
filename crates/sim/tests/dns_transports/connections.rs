//! The round trips of connections, one for each query or kept, and what writes and acknowledgements
//! add to them.

use super::*;

#[test]
fn a_connection_for_each_query_takes_two_round_trips() {
    let simulation = run(plan(client(), server()));
    assert_eq!(simulation.stopped(), Stopped::Done);
    for ratio in ratios(&simulation) {
        assert!((ratio - 2.0).abs() < 0.03, "{ratio}");
    }
    let attempts = table(&simulation, "attempts");
    assert_eq!(texts(&simulation, "attempts", "transport"), ["tcp"; 10]);
    assert_eq!(numbers(&attempts, "handshake_round_trips"), [1.0; 10]);
    for ms in numbers(&attempts, "handshake_ms") {
        assert!((ms - 2.0 * ONE_WAY_MS).abs() < 0.1, "{ms}");
    }
    // From the client: SYN, ACK, query, ACK of the reply, FIN, and the ACK of the server's FIN.
    // From the server: SYN-ACK, the query's ACK, the reply, and FIN with ACK. The run ends with the
    // last reply, before that connection is closed.
    assert_eq!(numbers(&attempts, "packets_sent")[..9], [6.0; 9]);
    assert_eq!(numbers(&attempts, "packets_received")[..9], [4.0; 9]);
}

/// A server that writes the length separately (NSD before 3.2.14), with Nagle's algorithm: the
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

/// With two writes and Nagle's algorithm, a server has the length alone for a round trip.
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

/// The time limit for half a query ends when the rest has come, however late the reply is.
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
    let shared = Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    };
    let asking = Tcp { length_apart: true, reuse: Reuse::Persistent(shared), ..over_tcp() };
    let client = Client {
        workers: 2,
        queries: Some(1),
        spread: Span::from_secs(1),
        tcp: Some(Tcp { attempts: Attempts::of(1), ..asking }),
        ..client()
    };
    // The server's replies take longer than both workers need to ask, and the rest of a query comes
    // a round trip after its length.
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
        ..LinkChange::default()
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
    let kept = Persistent {
        idle_timeout: None,
        queries: Some(4),
        pipelined: false,
        shared: false,
        after_silence: false,
    };
    let client =
        Client { tcp: Some(Tcp { reuse: Reuse::Persistent(kept), ..over_tcp() }), ..client() };
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
    let kept = Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    };
    let client = Client {
        workers: 20,
        tcp: Some(Tcp { reuse: Reuse::Persistent(kept), ..over_tcp() }),
        ..client()
    };
    let jittery = |in_order| {
        let tcp = server::Tcp { in_order, ..listening() };
        let service_jitter_mean = Span::from_ms(30);
        let server = Server { tcp: Some(tcp), service_jitter_mean, ..server() };
        let simulation = run(plan(client.clone(), server));
        assert_eq!(simulation.stopped(), Stopped::Done);
        let handshakes = numbers(&table(&simulation, "attempts"), "handshake_round_trips");
        assert_eq!(handshakes.iter().sum::<f64>(), 20.0, "all wait for the one connection");
        let responses = numbers(&table(&simulation, "queries"), "response_ms");
        responses.iter().sum::<f64>() / responses.len() as f64
    };
    // The head of the line blocks: the mean grows.
    let (as_ready, in_order) = (jittery(false), jittery(true));
    assert!(in_order > as_ready + 5.0, "{in_order} {as_ready}");
}

#[test]
fn a_lossy_path_loses_no_answer_over_tcp() {
    let client = Client { workers: 20, queries: Some(50), ..client() };
    let mut plan = plan(client, server());
    for link in &mut plan.links {
        link.loss = 0.05.into();
    }
    let simulation = run(plan);
    assert_eq!(simulation.stopped(), Stopped::Done);
    let answered = numbers(&table(&simulation, "queries"), "attempt");
    assert_eq!(answered.len(), 1_000);
    // A query is given up only after five seconds of losses in a row.
    assert!(answered.iter().filter(|&&attempt| attempt == 0.0).count() < 10);
}

#[test]
fn flows_are_used_again() {
    // Ten thousand connections, never more than a few at once.
    let client = Client { workers: 5, queries: Some(2_000), think_mean: Span::ZERO, ..client() };
    let mut plan = plan(client, server());
    plan.end = Time::ZERO + Span::from_secs(2_000);
    let simulation = run(plan);
    assert_eq!(simulation.stopped(), Stopped::Done);
    assert_eq!(numbers(&table(&simulation, "queries"), "attempt"), [1.0; 10_000]);
    assert!(simulation.most_flows() < 40, "{}", simulation.most_flows());
}
