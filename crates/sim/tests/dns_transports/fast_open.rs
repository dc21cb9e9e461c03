//! TCP Fast Open (RFC 7413).

use super::*;

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
    // From the client: SYN with the query, the ACK of the SYN-ACK, the reply's, FIN, and the ACK of
    // the server's FIN. From the server: SYN-ACK, the reply, and FIN with ACK. This is as captured
    // from kdig and Knot.
    assert_eq!(numbers(&attempts, "packets_sent")[1..9], [5.0; 8]);
    assert_eq!(numbers(&attempts, "packets_received")[1..9], [3.0; 8]);
}

/// With a server that does not know Fast Open, nothing changes but the SYN's option.
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

/// Linux 6.1, `tcp_conn_request`: a client that is answered with a SYN cookie gets no Fast Open.
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

/// RFC 7413, 7.1: where SYNs with data do not pass, the SYN is repeated without data a second
/// later.
#[test]
fn a_middlebox_that_drops_data_in_syns_costs_a_timeout() {
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

/// Of the queries that wait for a shared connection, only the first goes with the SYN.
#[test]
fn the_first_query_of_a_shared_connection_goes_with_its_syn() {
    let kept = Persistent {
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
        tcp: Some(Tcp { reuse: Reuse::Persistent(kept), ..over_tcp() }),
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
