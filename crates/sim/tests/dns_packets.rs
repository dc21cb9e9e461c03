//! The packets that attempts count over persistent connections: those of attempts that fail too, and each
//! packet once.

use crate::common::{Dialogue, SERVER, attempts, kept, numbers, run, table, texts};
use narrows_sim::plan::Monitor;
use narrows_sim::plan::dns::client::{self, Attempts, Persistent, Reuse};
use narrows_sim::plan::dns::server::{self, OnQuery};
use narrows_sim::{Simulation, quic, tls};
use narrows_units::Span;

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
const SHARED: Persistent = Persistent {
    idle_timeout: None,
    queries: None,
    pipelined: true,
    shared: true,
    after_silence: false,
};

/// A persistent connection over TCP, TLS and QUIC, and the name of each.
fn dialogues() -> [(&'static str, Dialogue); 3] {
    let mut tcp = Dialogue::new();
    tcp.asking().reuse = kept();
    let with = |quic| {
        let mut dialogue = tcp.clone();
        dialogue.asking().tls =
            Some(client::Tls { handshake: CLIENT, padding: None, https: None, quic, http3: None });
        dialogue.serving().tls = Some(server::Tls {
            handshake: SERVER,
            padding: None,
            extra_service: None,
            https: None,
            quic,
            http3: None,
        });
        dialogue
    };
    [("tcp", tcp.clone()), ("tls", with(None)), ("quic", with(Some(quic::Config::default())))]
}

fn fates(simulation: &Simulation) -> Vec<String> {
    texts(&table(simulation, "attempts"), "fate").into_iter().map(str::to_owned).collect()
}

/// Packets sent and received by each attempt.
fn packets(simulation: &Simulation) -> Vec<(f64, f64)> {
    let received = attempts(simulation, "packets_received");
    attempts(simulation, "packets_sent").into_iter().zip(received).collect()
}

/// The packets that the link carried, there and back.
fn carried(simulation: &Simulation) -> [f64; 2] {
    let links = table(simulation, "links");
    let packets = numbers(&links, "packets");
    ["wan.forward", "wan.backward"].map(|link| {
        let of_link = texts(&links, "link").into_iter().zip(&packets);
        of_link.filter(|(name, _)| *name == link).map(|(_, &packets)| packets).fold(0.0, f64::max)
    })
}

#[test]
fn a_query_that_crosses_the_close_has_its_packets() {
    for (name, mut dialogue) in dialogues() {
        // The server closes after 200 ms; the client pauses for 200 ms on average.
        dialogue.serving().idle_timeout = Span::from_ms(200);
        dialogue.client.queries = Some(400);
        dialogue.asking().attempts = Attempts::of(2);
        let simulation = run(dialogue.plan());
        let fates = fates(&simulation);
        let reused = attempts(&simulation, "reused");
        let crossed: Vec<_> = packets(&simulation)
            .into_iter()
            .zip(fates.iter().zip(&reused))
            .filter(|(_, (fate, reused))| *fate == "closed" && **reused == 1.0)
            .map(|(packets, _)| packets)
            .collect();
        // The query, and the server's FIN if it left after the query. QUIC answers the query with
        // another CONNECTION_CLOSE (RFC 9000, 10.2.1).
        assert!(crossed.len() > 5, "{name}: {fates:?}");
        let most = if name == "quic" { 2.0 } else { 1.0 };
        for (sent, received) in crossed {
            assert!(sent == 1.0 && received <= most, "{name}: {sent} and {received}");
        }
    }
}

/// A server that closes when it has read a query: the attempt has the handshake's packets too.
#[test]
fn a_query_that_the_server_refuses_to_answer_has_its_packets() {
    for (name, mut dialogue) in dialogues().into_iter().take(2) {
        dialogue.serving().on_query = OnQuery::Close;
        let simulation = run(dialogue.plan());
        assert_eq!(fates(&simulation), ["closed"; 3], "{name}");
        let of_kept = packets(&simulation);
        if name == "tcp" {
            // From the client: SYN, ACK, query. From the server: SYN-ACK, the query's ACK, FIN.
            assert_eq!(of_kept, [(3.0, 3.0); 3]);
        }
        // On a connection for one query, the client's FIN and its ACK count too.
        dialogue.asking().reuse = Reuse::Never;
        let more = of_kept.into_iter().map(|(sent, received)| (sent + 1.0, received + 1.0));
        assert_eq!(packets(&run(dialogue.plan())), more.collect::<Vec<_>>(), "{name}");
    }
}

/// Without an answer, an attempt counts what has crossed until it is given up.
#[test]
fn a_query_without_an_answer_has_its_packets() {
    for (name, mut dialogue) in dialogues() {
        dialogue.asking().answer_timeout = Some(Span::from_ms(300));
        dialogue.asking().attempts = Attempts::of(2);
        dialogue.server.service = Span::from_secs(1000);
        dialogue.client.queries = Some(1);
        let simulation = run(dialogue.plan());
        assert_eq!(fates(&simulation), ["timed-out"; 2], "{name}");
        // Each has a connection of its own, because a silent one is closed.
        let alone = packets(&simulation);
        if name == "tcp" {
            // From the client: SYN, ACK, query. From the server: SYN-ACK, the query's ACK.
            assert_eq!(alone[0], (3.0, 2.0));
        }
        assert_eq!(alone[1], alone[0], "{name}");
        dialogue.asking().reuse =
            Reuse::Persistent(Persistent { shared: false, after_silence: true, ..SHARED });
        // The second query goes over the same connection, and is acknowledged.
        assert_eq!(packets(&run(dialogue.plan())), [alone[0], (1.0, 1.0)], "{name}");
    }
}

/// The oldest query's attempt counts the packets of all that the server closes on.
#[test]
fn queries_that_wait_on_a_closed_connection_share_its_packets() {
    let (_, mut dialogue) = dialogues()[0].clone();
    dialogue.asking().reuse = Reuse::Persistent(SHARED);
    dialogue.serving().on_query = OnQuery::Close;
    dialogue.client.workers = 3;
    dialogue.client.queries = Some(1);
    let simulation = run(dialogue.plan());
    assert_eq!(fates(&simulation), ["closed"; 3]);
    // The three queries are in one segment.
    assert_eq!(packets(&simulation), [(3.0, 3.0), (0.0, 0.0), (0.0, 0.0)]);
}

/// While a query waits, every packet counts once, whatever the order of the replies.
#[test]
fn overlapping_queries_count_every_packet_once() {
    for (name, mut dialogue) in dialogues() {
        dialogue.asking().reuse = Reuse::Persistent(SHARED);
        dialogue.client.workers = 6;
        dialogue.client.queries = Some(100);
        dialogue.client.think_mean = Span::from_ms(40);
        dialogue.server.service_jitter_mean = Span::from_ms(300);
        // Nobody closes, so few packets cross while no query waits: acknowledgements at the end.
        dialogue.serving().idle_timeout = Span::from_secs(1000);
        let mut plan = dialogue.plan();
        plan.tcp[0].nagle = false;
        plan.link_monitors =
            [0, 1].map(|link| Monitor { link, interval: Span::from_ms(100) }).to_vec();
        let simulation = run(plan);
        assert_eq!(fates(&simulation), ["answered"; 600], "{name}");
        let carried = carried(&simulation);
        let (sent, received): (Vec<f64>, Vec<f64>) = packets(&simulation).into_iter().unzip();
        let counted = [sent, received].map(|packets| packets.iter().sum::<f64>());
        for (counted, carried) in counted.into_iter().zip(carried) {
            assert!((carried - 5.0..=carried).contains(&counted), "{name}: {counted} of {carried}");
        }
    }
}
