//! What an end shows of itself.

use super::*;
use crate::FlowSample;

const REPLY: u64 = 30_000;

/// Returns what the server knows after it has sent a reply, and lost some of its datagrams.
fn after(loses: &[usize]) -> (Line, FlowSample) {
    let mut line = Line::new(Config::default(), false);
    line.loses[1] = loses.to_vec();
    line.ask(60, REPLY);
    let sample = line.ends[1].sample();
    (line, sample)
}

/// RFC 9002, 7.2 and 5.3: ten datagrams of 1200 bytes, and no round trip yet.
#[test]
fn an_end_before_its_handshake() {
    let line = Line::new(Config::default(), false);
    let sample = line.ends[1].sample();
    assert_eq!((sample.cwnd, sample.segment, sample.ssthresh), (12_000, 1200, None));
    assert_eq!((sample.srtt, sample.min_rtt, sample.pacing_rate), (None, None, None));
    assert_eq!((sample.in_flight, sample.retransmissions, sample.state), (0, 0, "slow-start"));
}

/// 7.3.1: without a loss there is no threshold, and the window has grown.
#[test]
fn a_reply_without_a_loss_leaves_slow_start_on() {
    let (line, sample) = after(&[]);
    assert_eq!((sample.ssthresh, sample.state, sample.retransmissions), (None, "slow-start", 0));
    assert_eq!((sample.min_rtt, sample.in_flight), (Some(DELAY * 2), 0));
    assert!(sample.cwnd > 12_000, "{sample:?}");
    assert_eq!((line.ends[0].bytes_received(), line.ends[1].bytes_received()), (REPLY, 60));
}

/// 7.3.2: a loss reduces the window to a part of itself, which becomes the threshold. Recovery ends
/// when a packet that was sent later is acknowledged, as all are here.
#[test]
fn a_loss_is_counted_once_and_sets_the_threshold() {
    let (clean, _) = after(&[]);
    let first = clean.sent(1).iter().position(|&(at, _)| at >= super::at(150)).expect("a reply");
    let (line, sample) = after(&[first + 2]);
    assert_eq!((sample.retransmissions, sample.in_flight), (1, 0));
    let threshold = sample.ssthresh.expect("something was lost");
    let reduced = line.windows.windows(2).map(|pair| (pair[0][1], pair[1][1]));
    let (from, to) = reduced.into_iter().find(|(from, to)| to < from).expect("a reduction");
    assert_eq!((threshold, sample.state), (to, "avoidance"));
    assert!(to > from / 2 - 1 && to < from, "{from} {to}");
    assert_eq!(line.ends[0].bytes_received(), REPLY);
}

/// Bytes behind a hole have not arrived in order. They count when the hole is filled, and recovery
/// goes on until something that was sent later is acknowledged.
#[test]
fn bytes_behind_a_lost_datagram_do_not_count_yet() {
    let (clean, _) = after(&[]);
    let first = clean.sent(1).iter().position(|&(at, _)| at >= super::at(150)).expect("a reply");
    let mut line = Line::new(Config::default(), false);
    line.loses[1] = [first + 1].to_vec();
    let mut seen = Vec::new();
    let answer = |line: &mut Line| line.ends[1].write(0, REPLY);
    line.talk(Some(60), answer, |line| {
        seen.push((line.ends[0].bytes_received(), line.ends[1].sample().state));
    });
    let counted = seen.iter().map(|&(bytes, _)| bytes).find(|&bytes| bytes > 0);
    assert!(counted.is_some_and(|bytes| bytes > 9 * 1100), "{seen:?}");
    let mut states: Vec<_> = seen.iter().map(|&(_, state)| state).collect();
    states.dedup();
    assert_eq!(states, ["slow-start", "recovery", "avoidance"]);
    assert_eq!(seen.last().map(|&(bytes, _)| bytes), Some(REPLY));
}
