//! DNS over QUIC (RFC 9250, RFC 9000): round trips in closed form, on an empty link.

use crate::common::{
    Dialogue, ROUND_TRIP_MS, SERVER, assert_trips, attempts, kept, numbers, run, table, texts,
};
use narrows_sim::captured::Frame;
use narrows_sim::plan::Capture;
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::{self, client, server};
use narrows_sim::table::Column;
use narrows_sim::{quic, tls};
use narrows_units::Span;

const CLIENT: tls::Client = tls::Client {
    hello: 225,
    pads_hello: true,
    key_share: 32,
    alpn: 3,
    apart: false,
    resume: false,
    early_data: false,
    close_notify: false,
};
fn usual() -> quic::Config {
    quic::Config::default()
}

fn dialogue(client: tls::Client, server: tls::Server, quic: quic::Config) -> Dialogue {
    let mut dialogue = Dialogue::new();
    let (padding, quic) = (None, Some(quic));
    dialogue.asking().tls =
        Some(client::Tls { handshake: client, padding, https: None, quic, http3: None });
    dialogue.serving().tls = Some(server::Tls {
        handshake: server,
        padding,
        extra_service: None,
        https: None,
        quic,
        http3: None,
    });
    dialogue
}

/// One round trip for the handshake, which includes TLS, and one for the query (RFC 9001, 4).
#[test]
fn a_new_connection_takes_two_round_trips() {
    let simulation = run(dialogue(CLIENT, SERVER, usual()).plan());
    assert_trips(&simulation, &[2.0; 3]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [1.0; 3]);
    for ms in attempts(&simulation, "handshake_ms") {
        assert!((ms - ROUND_TRIP_MS).abs() < 1.5, "{ms}");
    }
    let table = table(&simulation, "attempts");
    let (_, transport) = table.columns.iter().find(|(name, _)| *name == "transport").expect("it");
    assert!(matches!(transport, Column::Text(names) if *names == ["quic"; 3]));
}

/// The query goes with the hello if the client has a session (RFC 9001, 4.6).
#[test]
fn early_data_take_one_round_trip() {
    let client = tls::Client { resume: true, early_data: true, ..CLIENT };
    let simulation = run(dialogue(client, SERVER, usual()).plan());
    assert_trips(&simulation, &[2.0, 1.0, 1.0]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [1.0, 0.0, 0.0]);
    let without = tls::Server { early_data: false, ..SERVER };
    assert_trips(&run(dialogue(client, without, usual()).plan()), &[2.0; 3]);
}

#[test]
fn a_connection_that_is_kept_takes_one_round_trip() {
    let mut dialogue = dialogue(CLIENT, SERVER, usual());
    dialogue.asking().reuse = kept();
    let simulation = run(dialogue.plan());
    assert_trips(&simulation, &[2.0, 1.0, 1.0]);
    assert_eq!(attempts(&simulation, "handshake_round_trips"), [1.0, 0.0, 0.0]);
}

/// Over HTTP/3, a request and a response have two frames, and each end opens three streams.
#[test]
fn http3_takes_as_many_round_trips_and_more_bytes() {
    let with = |http3: bool| {
        let mut dialogue = dialogue(CLIENT, SERVER, usual());
        dialogue.asking().reuse = kept();
        dialogue.client.sizes = Sizes::fixed(128, 468);
        if http3 {
            let tls = [&mut dialogue.asking().tls].into_iter().flatten();
            tls.for_each(|tls| tls.http3 = Some(Default::default()));
            let tls = [&mut dialogue.serving().tls].into_iter().flatten();
            tls.for_each(|tls| tls.http3 = Some(Default::default()));
        }
        run(dialogue.plan())
    };
    let [quic, http3] = [false, true].map(with);
    assert_trips(&http3, &[2.0, 1.0, 1.0]);
    assert_eq!(texts(&table(&http3, "attempts"), "transport"), ["http3"; 3]);
    let more = |column: &str| -> Vec<f64> {
        let (quic, http3) = (attempts(&quic, column), attempts(&http3, column));
        quic.iter().zip(http3).map(|(quic, http3)| http3 - quic).collect()
    };
    // As captured: 166 bytes instead of 2 + 128, and 493 instead of 2 + 468. STREAM frames on the
    // three others have three bytes more than their content, and those of the server have a datagram
    // of their own, with headers of 28 and 26 bytes, and the client's acknowledgement.
    assert_eq!(more("bytes_sent")[1..], [36.0; 2]);
    assert_eq!(more("bytes_received")[1..], [23.0; 2]);
    assert_eq!(more("packets_received"), [1.0, 0.0, 0.0]);
    assert_eq!(more("bytes_received")[0], 23.0 + 28.0 + 26.0 + 22.0);
    assert_eq!(more("packets_sent"), [1.0, 0.0, 0.0]);
    assert_eq!(more("bytes_sent")[0], 36.0 + 25.0 + 28.0 + 26.0 + 6.0);
}

/// A server that closes after a number of queries answers the last one first. It waits until the
/// client has the answer, so a query that comes within a round trip still meets the old connection.
#[test]
fn a_server_that_closes_has_answered() {
    for queries in [1, 2] {
        let mut dialogue = dialogue(CLIENT, SERVER, usual());
        dialogue.asking().reuse = kept();
        dialogue.serving().queries_per_connection = Some(queries);
        dialogue.client.think_mean = Span::from_secs(2);
        let second = if queries == 1 { 2.0 } else { 1.0 };
        assert_trips(&run(dialogue.plan()), &[2.0, second, 2.0]);
    }
}

/// RFC 9000, 8.1: a server may send three times the client's datagram of 1200 bytes; the rest waits
/// for the client's next one. Bytes count, however long the datagrams are.
#[test]
fn a_certificate_above_the_amplification_limit_costs_a_round_trip() {
    for payload in [1200, 1232, 9000] {
        for (certificate, expected) in [(2000, 2.0), (2800, 2.0), (3600, 3.0), (6000, 3.0)] {
            let server = tls::Server { certificate, ..SERVER };
            let quic = quic::Config { payload, ..usual() };
            let mut plan = dialogue(CLIENT, server, quic).plan();
            for link in &mut plan.links {
                link.mtu = 9000;
            }
            assert_trips(&run(plan), &[expected; 3]);
        }
    }
}

/// RFC 9002: if a tenth of all packets is lost, every query still gets its answer. A run with the
/// same seed is the same.
#[test]
fn what_the_wire_loses_comes_again() {
    let lossy = || {
        let mut plan = dialogue(CLIENT, SERVER, usual()).plan();
        for link in &mut plan.links {
            link.loss = 0.1.into();
        }
        run(plan)
    };
    let simulation = lossy();
    let responses = numbers(&table(&simulation, "queries"), "response_ms");
    assert_eq!(responses.len(), 3);
    assert!(responses.iter().all(|&ms| ms >= 2.0 * ROUND_TRIP_MS), "{responses:?}");
    let again = numbers(&table(&lossy(), "queries"), "response_ms");
    assert_eq!(responses, again);
}

/// RFC 9000, 14: packets are never fragmented, however long the sender's packets may be. Links that
/// take 1200 bytes of payload carry QUIC; a first link that takes less is refused.
#[test]
fn packets_are_never_cut() {
    for payload in [1200, 9000] {
        let mut dialogue = dialogue(CLIENT, SERVER, quic::Config { payload, ..usual() });
        dialogue.client.sizes = dns::exchange::Sizes::fixed(40, 3000);
        let mut plan = dialogue.plan();
        for link in &mut plan.links {
            link.mtu = 1228;
        }
        plan.captures = [0, 1].map(|link| Capture::of(link, "")).to_vec();
        let first = plan.paths[0].links[0];
        let mut refused = plan.clone();
        refused.links[first].mtu = 1227;
        let simulation = run(plan);
        assert_trips(&simulation, &[2.0; 3]);
        for link in [0, 1] {
            let packets: Vec<_> = simulation
                .captured(link)
                .into_iter()
                .filter_map(|packet| match packet.frame {
                    Frame::Udp { ip_bytes, part, .. } => Some((ip_bytes, part)),
                    _ => None,
                })
                .collect();
            assert_eq!(packets.iter().map(|(bytes, _)| *bytes).max(), Some(1228));
            assert!(packets.iter().all(|(_, part)| part.is_none()), "{packets:?}");
        }
        let why = refused.check().map_err(|why| why.to_string());
        assert!(why.is_err_and(|why| why.contains("and QUIC needs 1228 B; hint: ")));
    }
}

/// RFC 3168, 5: captures show which packets can be marked.
#[test]
fn captures_show_what_can_be_marked() {
    for (ecn, field) in [(false, 0b00), (true, 0b10)] {
        let mut plan = dialogue(CLIENT, SERVER, quic::Config { ecn, ..usual() }).plan();
        plan.captures = vec![Capture::of(0, "")];
        let simulation = run(plan);
        let fields: Vec<_> = simulation
            .captured(0)
            .into_iter()
            .filter_map(|packet| match packet.frame {
                Frame::Udp { ecn, .. } => Some(ecn),
                _ => None,
            })
            .collect();
        assert!(fields.len() >= 6, "{fields:?}");
        assert!(fields.iter().all(|&found| found == field), "{fields:?}");
    }
}

/// RFC 9001, 4: a server signs over QUIC as it does over TLS; a resumed session saves the
/// signature.
#[test]
fn a_server_works_on_handshakes() {
    let half_a_trip = Span::from_ms(ROUND_TRIP_MS as u64 / 2);
    let busy = tls::Server { service: half_a_trip, ..SERVER };
    assert_trips(&run(dialogue(CLIENT, busy, usual()).plan()), &[2.5; 3]);
    let resuming = tls::Client { resume: true, ..CLIENT };
    assert_trips(&run(dialogue(resuming, busy, usual()).plan()), &[2.5, 2.0, 2.0]);
}

/// A client gives up while its hello is on its way: the server answers it, and then hears that the
/// connection has ended (RFC 9000, 10.2.3).
#[test]
fn a_server_works_for_clients_that_have_given_up() {
    let mut dialogue = dialogue(CLIENT, SERVER, usual());
    dialogue.asking().connect_timeout = Some(Span::from_ms(ROUND_TRIP_MS as u64 / 4));
    let mut plan = dialogue.plan();
    plan.captures = [0, 1].map(|link| Capture::of(link, "")).to_vec();
    let simulation = run(plan);
    let bytes = |link| -> Vec<u16> {
        let packets = simulation.captured(link).into_iter();
        let lengths = packets.filter_map(|packet| match packet.frame {
            Frame::Udp { ip_bytes, .. } => Some(ip_bytes),
            _ => None,
        });
        lengths.collect()
    };
    // For each of three queries: a hello and a close, both padded, and the close again for each
    // datagram that arrives.
    assert!(bytes(0).len() >= 6 && bytes(0)[..2] == [1228, 1228], "{:?}", bytes(0));
    // The server answers each hello with its flight, of which at least one datagram is full.
    let flights = bytes(1).iter().filter(|&&length| length == 1228).count();
    assert!(flights >= 3, "{:?}", bytes(1));
    // It does not send the flight again.
    assert!(bytes(1).len() <= 9, "{:?}", bytes(1));
}

#[test]
fn what_contradicts_is_named() {
    let mut without = dialogue(CLIENT, SERVER, usual());
    without.serving().tls = Some(server::Tls {
        handshake: SERVER,
        padding: None,
        extra_service: None,
        https: None,
        quic: None,
        http3: None,
    });
    let why = without.plan().check().map_err(|why| why.to_string());
    assert_eq!(why, Err("dns: quic: the server has none".to_owned()));
    let mut without = dialogue(CLIENT, SERVER, usual());
    without.asking().tls.iter_mut().for_each(|tls| tls.http3 = Some(Default::default()));
    let why = without.plan().check().map_err(|why| why.to_string());
    assert_eq!(why, Err("dns: http3: the server has none".to_owned()));
    for (config, said) in [
        (quic::Config { payload: 1199, ..usual() }, "payload: must be at least 1200"),
        (quic::Config { search_to: Some(1200), ..usual() }, "search_to: must be at least 1201"),
        (quic::Config { initial_window: Some(0), ..usual() }, "initial_window: must be above zero"),
        (quic::Config { ack_every: 0, ..usual() }, "ack_every: must be above zero"),
        (quic::Config { idle_timeout: Span::ZERO, ..usual() }, "idle_timeout: must be above zero"),
        (
            quic::Config { max_ack_delay: Span::from_secs(17), ..usual() },
            "max_ack_delay: must be at most 16.383 s",
        ),
    ] {
        assert_eq!(config.check().map_err(|why| why.to_string()), Err(said.to_owned()));
    }
}
