//! Queries over UDP: truncated and fragmented replies, losses, ports.

use super::*;

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
    // IP packets: 20 + 8 + 51; the truncated reply is as long.
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
    lossy.links[1].loss = 1.0.into();
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
