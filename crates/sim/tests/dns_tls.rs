//! DNS over TLS (RFC 7858, RFC 8446): round trips and bytes in closed form, on an empty link.

use crate::common::{
    Dialogue, ROUND_TRIP_MS, assert_trips, attempts, kept, numbers, run, table, trips,
};
use narrows_sim::captured::Frame;
use narrows_sim::plan::dns::client::{self, Attempts, Persistent, Reuse};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::https::{Requests, Responses};
use narrows_sim::plan::dns::server;
use narrows_sim::plan::{Capture, Kind, Plan};
use narrows_sim::table::Column;
use narrows_sim::{Simulation, tls};
use narrows_units::Span;

/// OpenSSL 3, which resumes no sessions unless a test says so.
const CLIENT: tls::Client = tls::Client {
    hello: 225,
    pads_hello: true,
    key_share: 32,
    alpn: 0,
    apart: false,
    resume: false,
    early_data: false,
    close_notify: false,
};
/// Two certificates, of 1010 and 1271 bytes.
const CERTIFICATE: u32 = 2299;
const SERVER: tls::Server = tls::Server {
    certificate: CERTIFICATE,
    signature: 256,
    hash: 48,
    groups: 26,
    alpn: false,
    ticket: 255,
    tickets: 2,
    tickets_resumed: 1,
    tickets_apart: true,
    early_data: true,
    write: None,
    close_notify: false,
    service: Span::ZERO,
};
/// What the server sends before the client may ask, as captured from OpenSSL.
const FLIGHT: f64 = 127.0 + 6.0 + 28.0 + 2321.0 + 286.0 + 74.0;
const RESUMED_FLIGHT: f64 = 133.0 + 6.0 + 28.0 + 74.0;

fn dialogue(client: tls::Client, server: tls::Server) -> Dialogue {
    let mut dialogue = Dialogue::new();
    dialogue.asking().tls = Some(client::Tls {
        handshake: client,
        padding: None,
        https: None,
        quic: None,
        http3: None,
    });
    dialogue.serving().tls = Some(server::Tls {
        handshake: server,
        padding: None,
        extra_service: None,
        https: None,
        quic: None,
        http3: None,
    });
    dialogue
}

/// Returns the plan without Nagle's algorithm: neither end waits for acknowledgements.
fn plan(dialogue: &Dialogue) -> Plan {
    let mut plan = dialogue.plan();
    for tcp in &mut plan.tcp {
        tcp.nagle = false;
    }
    plan
}

/// Returns the bytes that TCP carried for each attempt: its packets without their headers, which
/// have the timestamps option.
fn payloads(simulation: &Simulation, direction: &str) -> Vec<f64> {
    const HEADERS: f64 = 52.0;
    const MORE_IN_SYN: f64 = 8.0;
    let packets = attempts(simulation, &format!("packets_{direction}"));
    let bytes = attempts(simulation, &format!("bytes_{direction}"));
    bytes
        .iter()
        .zip(packets)
        .map(|(bytes, packets)| bytes - HEADERS * packets - MORE_IN_SYN)
        .collect()
}

/// One round trip each for TCP, TLS and the query (RFC 8446, 2).
#[test]
fn a_connection_for_each_query_takes_three_round_trips() {
    let simulation = run(plan(&dialogue(CLIENT, SERVER)));
    assert_trips(&simulation, &[3.0; 3]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [2.0; 3]);
    for ms in attempts(&simulation, "handshake_ms") {
        assert!((ms - 2.0 * ROUND_TRIP_MS).abs() < 1.0, "{ms}");
    }
    let table = table(&simulation, "attempts");
    let (_, transport) = table.columns.iter().find(|(name, _)| *name == "transport").expect("it");
    assert!(matches!(transport, Column::Text(names) if *names == ["tls"; 3]));
    // Query and reply with length and record: 22 bytes around them.
    assert_eq!(payloads(&simulation, "sent"), [225.0 + 80.0 + 64.0; 3]);
    assert_eq!(payloads(&simulation, "received"), [FLIGHT + 2.0 * 255.0 + 769.0; 3]);
}

/// The second and later connections show a ticket (2.2). They take as many round trips, but no
/// certificate is sent.
#[test]
fn a_resumed_session_saves_bytes_and_no_round_trip() {
    let simulation = run(plan(&dialogue(tls::Client { resume: true, ..CLIENT }, SERVER)));
    assert_trips(&simulation, &[3.0; 3]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [2.0; 3]);
    let resumed = RESUMED_FLIGHT + 255.0 + 769.0;
    assert_eq!(payloads(&simulation, "received"), [FLIGHT + 2.0 * 255.0 + 769.0, resumed, resumed]);
    assert_eq!(payloads(&simulation, "sent"), [369.0, 517.0 + 80.0 + 64.0, 661.0]);
}

/// The query goes with the hello (2.3).
#[test]
fn early_data_take_two_round_trips() {
    let client = tls::Client { resume: true, early_data: true, ..CLIENT };
    let simulation = run(plan(&dialogue(client, SERVER)));
    assert_trips(&simulation, &[3.0, 2.0, 2.0]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [2.0, 1.0, 1.0]);
    let handshakes = attempts(&simulation, "handshake_ms");
    assert!((handshakes[1] - ROUND_TRIP_MS).abs() < 1.0, "{handshakes:?}");
    // If the server's sessions do not allow early data, the query comes later.
    let simulation = run(plan(&dialogue(client, tls::Server { early_data: false, ..SERVER })));
    assert_trips(&simulation, &[3.0; 3]);
}

/// The hello goes with the SYN, and with early data the query does too.
#[test]
fn early_data_with_fast_open_take_one_round_trip() {
    for (early_data, expected, trips) in [(true, 1.0, 0.0), (false, 2.0, 1.0)] {
        let client = tls::Client { resume: true, early_data, ..CLIENT };
        let mut plan = plan(&dialogue(client, SERVER));
        for tcp in &mut plan.tcp {
            tcp.fast_open = true;
        }
        let simulation = run(plan);
        assert_trips(&simulation, &[3.0, expected, expected]);
        assert_eq!(attempts(&simulation, "handshake_round_trips"), [2.0, trips, trips]);
    }
}

#[test]
fn a_connection_that_is_kept_takes_one_round_trip() {
    let mut dialogue = dialogue(CLIENT, SERVER);
    dialogue.asking().reuse = kept();
    let simulation = run(plan(&dialogue));
    assert_trips(&simulation, &[3.0, 1.0, 1.0]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [2.0, 0.0, 0.0]);
    assert_eq!(attempts(&simulation, "reused"), [0.0, 1.0, 1.0]);
}

/// RFC 6928: ten segments leave at once; the rest waits for their acknowledgement.
#[test]
fn a_certificate_beyond_the_initial_window_costs_a_round_trip() {
    let segment = 1448;
    let others = FLIGHT as u32 - (CERTIFICATE + 22);
    // The certificate's record adds 22 bytes.
    let of_flight = |bytes: u32| bytes - others - 22;
    for (flight, expected) in [(10 * segment, 3.0), (10 * segment + 1, 4.0)] {
        let server = tls::Server { certificate: of_flight(flight), ..SERVER };
        let simulation = run(plan(&dialogue(CLIENT, server)));
        assert_trips(&simulation, &[expected; 3]);
        assert_eq!(payloads(&simulation, "received"), [f64::from(flight) + 2.0 * 255.0 + 769.0; 3]);
    }
}

/// What NSD, BIND and Unbound do (tests/dns_behaviour): the reply waits until the client has
/// acknowledged the tickets. The client delays this acknowledgement, unless it sends its next
/// query.
#[test]
fn tickets_before_the_reply_cost_a_round_trip_with_nagle() {
    let mut plan = plan(&dialogue(CLIENT, SERVER));
    plan.tcp[1].nagle = true;
    let simulation = run(plan.clone());
    for ratio in trips(&simulation) {
        let late_ms = (ratio - 4.0) * ROUND_TRIP_MS;
        assert!((0.0..=45.0).contains(&late_ms), "{ratio}");
    }
    // Without tickets, nothing precedes the reply.
    let none = tls::Server { tickets: 0, ..SERVER };
    let mut plan = self::plan(&dialogue(CLIENT, none));
    plan.tcp[1].nagle = true;
    assert_trips(&run(plan), &[3.0; 3]);
}

/// What dig does: its query waits until Finished is acknowledged.
#[test]
fn a_client_with_nagle_asks_a_round_trip_later() {
    let none = tls::Server { tickets: 0, ..SERVER };
    let mut plan = plan(&dialogue(CLIENT, none));
    plan.tcp[0].nagle = true;
    for ratio in trips(&run(plan)) {
        let late_ms = (ratio - 4.0) * ROUND_TRIP_MS;
        assert!((-0.5..=45.0).contains(&late_ms), "{ratio}");
    }
}

/// RFC 8467, section 4.1: 128 and 468 bytes; each with its length and record.
#[test]
fn messages_are_padded() {
    let mut dialogue = dialogue(CLIENT, SERVER);
    dialogue.client.sizes = Sizes::fixed(40, 465);
    for (of_client, of_server, query, reply) in [
        (Some(128), Some(468), 128.0, 936.0),
        (None, Some(468), 40.0, 465.0),
        (Some(128), None, 128.0, 465.0),
    ] {
        dialogue.asking().tls = Some(client::Tls {
            handshake: CLIENT,
            padding: of_client,
            https: None,
            quic: None,
            http3: None,
        });
        dialogue.serving().tls = Some(server::Tls {
            handshake: SERVER,
            padding: of_server,
            extra_service: None,
            https: None,
            quic: None,
            http3: None,
        });
        let simulation = run(plan(&dialogue));
        assert_eq!(payloads(&simulation, "sent"), [225.0 + 80.0 + query + 24.0; 3]);
        let before = FLIGHT + 2.0 * 255.0;
        assert_eq!(payloads(&simulation, "received"), [before + reply + 24.0; 3]);
    }
}

/// 6.1: an alert of 24 bytes goes before each FIN.
#[test]
fn ends_say_that_they_close() {
    let client = tls::Client { close_notify: true, ..CLIENT };
    let simulation = run(plan(&dialogue(client, tls::Server { close_notify: true, ..SERVER })));
    assert_eq!(payloads(&simulation, "sent"), [369.0 + 24.0; 3]);
    assert_eq!(payloads(&simulation, "received"), [FLIGHT + 510.0 + 769.0 + 24.0; 3]);
}

/// A signature takes time, which a resumed session saves. The time that queries take is separate.
#[test]
fn a_server_works_on_handshakes_and_on_queries() {
    let half_a_trip = Span::from_ms(ROUND_TRIP_MS as u64 / 2);
    let busy = tls::Server { service: half_a_trip, ..SERVER };
    let mut dialogue = dialogue(tls::Client { resume: true, ..CLIENT }, busy);
    assert_trips(&run(plan(&dialogue)), &[3.5, 3.0, 3.0]);
    // The extra time of queries over TCP also applies to TLS, unless TLS has its own.
    dialogue.serving().extra_service = half_a_trip;
    assert_trips(&run(plan(&dialogue)), &[4.0, 3.5, 3.5]);
    if let Some(tls) = &mut dialogue.serving().tls {
        tls.extra_service = Some(Span::ZERO);
    }
    assert_trips(&run(plan(&dialogue)), &[3.5, 3.0, 3.0]);
    dialogue.asking().tls = None;
    assert_trips(&run(plan(&dialogue)), &[2.5; 3]);
}

/// A session is good for one connection (appendix C.4): two that are open at once need two tickets.
#[test]
fn workers_share_the_tickets_of_their_group() {
    let mut dialogue = dialogue(tls::Client { resume: true, ..CLIENT }, SERVER);
    dialogue.client.workers = 3;
    dialogue.client.queries = Some(2);
    let simulation = run(plan(&dialogue));
    // Three connections bring six tickets; the later three need three.
    let received = payloads(&simulation, "received");
    let resumed = received.iter().filter(|&&bytes| bytes < FLIGHT).count();
    assert_eq!(resumed, 3);
    let one = tls::Server { tickets: 1, tickets_resumed: 0, ..SERVER };
    dialogue.serving().tls = Some(server::Tls {
        handshake: one,
        padding: None,
        extra_service: None,
        https: None,
        quic: None,
        http3: None,
    });
    dialogue.client.workers = 1;
    dialogue.client.queries = Some(5);
    let received = payloads(&run(plan(&dialogue)), "received");
    let resumed: Vec<bool> = received.iter().map(|&bytes| bytes < FLIGHT).collect();
    assert_eq!(resumed, [false, true, false, true, false]);
}

/// A server that closes a connection in the middle of the handshake sends no tickets after its FIN.
#[test]
fn a_server_may_lose_patience_during_the_handshake() {
    let mut dialogue = dialogue(CLIENT, SERVER);
    dialogue.serving().first_query_timeout = Span::from_ms(30);
    dialogue.asking().attempts = Attempts::of(1);
    let simulation = run(plan(&dialogue));
    let table = table(&simulation, "attempts");
    let (_, fates) = table.columns.iter().find(|(name, _)| *name == "fate").expect("it");
    assert!(matches!(fates, Column::Text(names) if *names == ["closed"; 3]), "{fates:?}");
}

/// RFC 8484: HTTPS takes as many round trips as TLS. HTTP/2's frames surround each message, and
/// settings precede the first one. The lengths are those of kdig and BIND, as captured.
#[test]
fn https_takes_as_many_round_trips_as_tls() {
    let https = (
        Requests { preface: 39, fields: 62, fields_again: 20 },
        Responses { settings: 15, acknowledges_apart: true, fields: 35, fields_again: 8 },
    );
    let mut dialogue = dialogue(CLIENT, SERVER);
    dialogue.asking().reuse = kept();
    dialogue.asking().tls = Some(client::Tls {
        handshake: CLIENT,
        padding: None,
        https: Some(https.0),
        quic: None,
        http3: None,
    });
    assert_eq!(
        dialogue.plan().check().map_err(|why| why.to_string()),
        Err("dns: https: the server has none".to_owned())
    );
    dialogue.serving().tls = Some(server::Tls {
        handshake: SERVER,
        padding: None,
        extra_service: None,
        https: Some(server::Https { tcp: 1, handshake: SERVER, responses: https.1 }),
        quic: None,
        http3: None,
    });
    let simulation = run(plan(&dialogue));
    assert_trips(&simulation, &[3.0, 1.0, 1.0]);
    let table = table(&simulation, "attempts");
    let (_, transport) = table.columns.iter().find(|(name, _)| *name == "transport").expect("it");
    assert!(matches!(transport, Column::Text(names) if *names == ["https"; 3]));
    // A query of 40 bytes and a reply of 745; a record for each write.
    let bytes = |direction: &str| {
        let (packets, bytes) = (format!("packets_{direction}"), format!("bytes_{direction}"));
        let packets = attempts(&simulation, &packets);
        attempts(&simulation, &bytes).iter().zip(packets).map(|(b, p)| b - 52.0 * p).collect()
    };
    let sent: Vec<f64> = bytes("sent");
    assert_eq!(sent, [8.0 + 225.0 + 80.0 + 61.0 + 93.0 + 71.0, 31.0 + 51.0 + 71.0, 51.0 + 71.0]);
    let received: Vec<f64> = bytes("received");
    let [first, later] = [35.0, 8.0].map(|fields| 22.0 + 18.0 + fields + 745.0);
    assert_eq!(received, [8.0 + FLIGHT + 510.0 + 37.0 + 31.0 + first, later, later]);
}

/// A server's sockets for HTTPS have settings of their own: for Nagle's algorithm, ALPN and how
/// tickets are cut.
#[test]
fn a_server_speaks_tls_and_https_in_their_own_ways() {
    let responses =
        Responses { settings: 15, acknowledges_apart: true, fields: 35, fields_again: 8 };
    let requests = Requests { preface: 39, fields: 62, fields_again: 20 };
    // Where Nagle's algorithm is on, over TLS or over HTTPS, a reply waits for the acknowledgement
    // of the tickets.
    for nagle in [[true, false], [false, true]] {
        for over_https in [false, true] {
            let client = tls::Client { alpn: if over_https { 2 } else { 3 }, ..CLIENT };
            let mut dialogue = dialogue(client, SERVER);
            dialogue.asking().tls = Some(client::Tls {
                handshake: client,
                padding: None,
                https: over_https.then_some(requests),
                quic: None,
                http3: None,
            });
            let handshake = tls::Server { alpn: true, ..SERVER };
            dialogue.serving().tls = Some(server::Tls {
                handshake: SERVER,
                padding: None,
                extra_service: None,
                https: Some(server::Https { tcp: 2, handshake, responses }),
                quic: None,
                http3: None,
            });
            let mut plan = plan(&dialogue);
            plan.tcp.push(plan.tcp[1].clone());
            (plan.tcp[1].nagle, plan.tcp[2].nagle) = (nagle[0], nagle[1]);
            let simulation = run(plan);
            let waits = nagle[usize::from(over_https)];
            for ratio in trips(&simulation) {
                assert_eq!(ratio > 3.5, waits, "{nagle:?} {over_https}: {ratio}");
            }
            if !over_https {
                // The server does not answer the protocol's name that the client offers (RFC 7301).
                assert_eq!(payloads(&simulation, "received"), [FLIGHT + 2.0 * 255.0 + 769.0; 3]);
            }
        }
    }
}

/// RFC 9113, 3.4: preface and SETTINGS come before a connection's first request, even if the query
/// that opened the connection has been given up by then.
#[test]
fn https_has_its_preface_whoever_asks_first() {
    let responses =
        Responses { settings: 15, acknowledges_apart: true, fields: 35, fields_again: 8 };
    let requests = Requests { preface: 39, fields: 62, fields_again: 20 };
    let mut dialogue = dialogue(CLIENT, SERVER);
    dialogue.asking().tls = Some(client::Tls {
        handshake: CLIENT,
        padding: None,
        https: Some(requests),
        quic: None,
        http3: None,
    });
    dialogue.serving().tls = Some(server::Tls {
        handshake: SERVER,
        padding: None,
        extra_service: None,
        https: Some(server::Https { tcp: 1, handshake: SERVER, responses }),
        quic: None,
        http3: None,
    });
    dialogue.asking().reuse = Reuse::Persistent(Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    });
    dialogue.client.workers = 2;
    dialogue.client.queries = Some(1);
    dialogue.client.spread = Span::from_ms(70);
    let mut plan = plan(&dialogue);
    plan.captures = [0].map(|link| Capture::of(link, "")).to_vec();
    // The connection is open after 80 ms, and answers after 120 ms. The second query has to come
    // more than 45 ms after the first, so that it has its answer within 75 ms. For the first query,
    // 75 ms are too few.
    let starts = |plan: &Plan| {
        let starts = numbers(&table(&run(plan.clone()), "queries"), "start_s");
        (starts[1] - starts[0]) * 1e3
    };
    let seed = (1..100).find(|&seed| {
        plan.seed = seed;
        (47.0..68.0).contains(&starts(&plan))
    });
    plan.seed = seed.expect("one of a hundred seeds draws such times");
    let written = |plan: &Plan| {
        let simulation = run(plan.clone());
        let fates = table(&simulation, "attempts");
        let (_, fates) = fates.columns.iter().find(|(name, _)| *name == "fate").expect("it");
        let Column::Text(fates) = fates else { panic!("fates are texts") };
        let lengths = simulation.captured(0).into_iter().filter_map(|packet| match packet.frame {
            Frame::Tcp(segment) => Some(u32::from(segment.len)),
            _ => None,
        });
        (fates.iter().map(ToString::to_string).collect::<Vec<_>>(), lengths.sum::<u32>())
    };
    let first = 225 + 80 + 61 + 93 + 71;
    assert_eq!(written(&plan), (vec!["answered".into(); 2], first + 31 + 51 + 71));
    for application in &mut plan.applications {
        if let Kind::DnsClient(client) = &mut application.kind {
            client.gives_up = Some(Span::from_ms(75));
        }
    }
    assert_eq!(written(&plan), (vec!["timed-out".into(), "answered".into()], first));
}

#[test]
fn what_contradicts_is_named() {
    let said = |change: &dyn Fn(&mut Dialogue)| {
        let mut dialogue = dialogue(CLIENT, SERVER);
        change(&mut dialogue);
        dialogue.plan().check().expect_err("it contradicts itself").to_string()
    };
    let early = tls::Client { early_data: true, ..CLIENT };
    let early =
        client::Tls { handshake: early, padding: None, https: None, quic: None, http3: None };
    assert_eq!(
        said(&|dialogue| dialogue.asking().tls = Some(early)),
        "dns: tcp.tls.handshake.early_data: needs resume"
    );
    assert_eq!(said(&|dialogue| dialogue.serving().tls = None), "dns: tls: the server has none");
    assert_eq!(
        said(&|dialogue| dialogue.serving().stateless = true),
        "dns: tls: needs connections, but the server is stateless"
    );
}

/// A server that takes no more connections has no keys: it closes without an alert.
#[test]
fn an_end_that_has_heard_nothing_says_nothing() {
    let mut dialogue = dialogue(CLIENT, tls::Server { close_notify: true, ..SERVER });
    dialogue.client.workers = 2;
    dialogue.client.queries = Some(1);
    dialogue.asking().attempts = Attempts::of(1);
    let serving = dialogue.serving();
    serving.connections = Some(1);
    serving.when_full = server::WhenFull::Reject;
    let received = payloads(&run(plan(&dialogue)), "received");
    assert_eq!(received.iter().filter(|&&bytes| bytes > 0.0).count(), 1, "{received:?}");
    assert_eq!(received.len(), 2);
}

/// With Nagle's algorithm, the query comes a round trip after the Finished. The server's timeout
/// begins again with each part of the handshake, as in Unbound
/// (tests/dns_behaviour/busy_handshakes.py).
#[test]
fn the_timeout_of_the_first_query_begins_again_with_each_flight() {
    let fates = |round_trips: f64| {
        let mut dialogue = dialogue(CLIENT, SERVER);
        dialogue.serving().first_query_timeout =
            Span::from_secs_f64(round_trips * ROUND_TRIP_MS * 1e-3);
        let mut plan = plan(&dialogue);
        for tcp in &mut plan.tcp {
            tcp.nagle = true;
        }
        let table = table(&run(plan), "attempts");
        let (_, fate) = table.columns.into_iter().find(|(name, _)| *name == "fate").expect("it");
        fate
    };
    assert!(matches!(fates(1.5), Column::Text(fates) if fates == ["answered"; 3]));
    assert!(matches!(fates(0.9), Column::Text(fates) if fates == ["closed"; 3]));
}
