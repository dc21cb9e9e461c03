//! A DNS server with stateless TCP: what it leaves to ordinary TCP.
//! gateway/tests/core/simulated.rs compares it with narrows-gateway's core, segment by segment.

use crate::common::{Dialogue, numbers, run, table};
use narrows_sim::plan::dns::client::{Persistent, Reuse};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_units::Span;

const ROUND_TRIP_MS: f64 = 40.0;

fn stateless() -> Dialogue {
    let mut plan = Dialogue::new();
    plan.serving().stateless = true;
    plan
}

fn responses(plan: &Dialogue) -> Vec<f64> {
    numbers(&table(&run(plan.plan()), "queries"), "response_ms")
}

fn assert_round_trips(responses: &[f64], expected: &[f64]) {
    assert_eq!(responses.len(), expected.len());
    for (ms, expected) in responses.iter().zip(expected) {
        assert!((ms / ROUND_TRIP_MS - expected).abs() < 0.05, "{responses:?}, not {expected:?}");
    }
}

#[test]
fn a_query_takes_two_round_trips_and_two_packets_of_the_server_less() {
    let plan = stateless();
    assert_round_trips(&responses(&plan), &[2.0; 3]);
    let received =
        |plan: &Dialogue| numbers(&table(&run(plan.plan()), "attempts"), "packets_received")[0];
    let mut ordinary = plan.clone();
    ordinary.serving().stateless = false;
    // The query has no acknowledgement of its own: the reply carries it.
    assert_eq!((received(&plan), received(&ordinary)), (3.0, 4.0));
}

/// PROTOCOL.md, "Data on an entry": the second query on a connection is adopted, and so are all
/// later ones.
#[test]
fn the_second_query_goes_to_ordinary_tcp() {
    let kept = Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: false,
        shared: false,
        after_silence: false,
    };
    let mut plan = stateless();
    plan.asking().reuse = Reuse::Persistent(kept);
    assert_round_trips(&responses(&plan), &[2.0, 1.0, 1.0]);
    let attempts = table(&run(plan.plan()), "attempts");
    assert_eq!(numbers(&attempts, "reused"), [0.0, 1.0, 1.0]);
    // The reply to the second query follows its acknowledgement.
    assert_eq!(numbers(&attempts, "packets_received")[1], 2.0);
}

/// Pipelined queries: the first goes to the server twice, and ordinary TCP answers both.
#[test]
fn pipelined_queries_go_to_ordinary_tcp() {
    let kept = Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: true,
        shared: true,
        after_silence: false,
    };
    let mut plan = stateless();
    plan.asking().reuse = Reuse::Persistent(kept);
    plan.client.workers = 5;
    plan.client.queries = Some(2);
    let found = responses(&plan);
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|ms| *ms < 3.0 * ROUND_TRIP_MS), "{found:?}");
}

/// A reply that does not fit into UDP comes from ordinary TCP, on the same connection.
#[test]
fn truncated_replies_go_to_ordinary_tcp() {
    let mut plan = stateless();
    plan.client.sizes = Sizes::fixed(40, 3000);
    plan.server.udp_payload = 1232;
    assert_round_trips(&responses(&plan), &[2.0; 3]);
    let received = numbers(&table(&run(plan.plan()), "attempts"), "packets_received");
    // SYN-ACK, the query's acknowledgement, three segments of the reply, and FIN.
    assert_eq!(received[0], 6.0);
}

/// A reply of more than ten segments comes from ordinary TCP, too.
#[test]
fn replies_of_more_than_ten_segments_go_to_ordinary_tcp() {
    let mut plan = stateless();
    plan.client.sizes = Sizes::fixed(40, 14_478);
    plan.server.udp_payload = 65_500;
    let received =
        |plan: &Dialogue| numbers(&table(&run(plan.plan()), "attempts"), "packets_received")[0];
    // Ten segments with the prefix, the SYN-ACK, the late acknowledgement of the query, the FIN.
    assert_eq!(received(&plan), 13.0);
    plan.client.sizes = Sizes::fixed(40, 14_479);
    assert_eq!(received(&plan), 14.0);
}

/// A server that takes longer than the client's first timeout, but not longer than the gateway's
/// patience, is asked once; a slower one is asked again over ordinary TCP.
#[test]
fn a_slow_server_is_asked_again_over_ordinary_tcp() {
    let mut plan = stateless();
    plan.server.service = Span::from_ms(350);
    for ms in responses(&plan) {
        assert!((ms - 430.0).abs() < 2.0, "{ms}");
    }
    // The client's timeouts are 240 ms, twice that, and twice again: the query comes for the third
    // time when the patience of half a second is over, about a second after the first.
    plan.server.service = Span::from_secs(2);
    for ms in responses(&plan) {
        assert!((3_000.0..3_300.0).contains(&ms), "{ms}");
    }
}

/// After 10 s without a query, the server closes.
#[test]
fn an_idle_connection_is_closed() {
    let kept = Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: false,
        shared: false,
        after_silence: false,
    };
    let mut plan = stateless();
    plan.asking().reuse = Reuse::Persistent(kept);
    plan.client.think_mean = Span::from_secs(60);
    plan.client.queries = Some(6);
    let found = responses(&plan);
    // Two round trips: the query opened a connection. One: it came within the 10 s of the stateless
    // server or of ordinary TCP.
    assert!(found.iter().filter(|ms| (*ms / ROUND_TRIP_MS - 2.0).abs() < 0.05).count() >= 4);
}
