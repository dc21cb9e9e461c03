//! The textbook's Tahoe, Reno and NewReno (Jacobson 1988; RFC 5681, 3.2; RFC 6582, 3.2).

use narrows_transport::tcp::Recovery;

use super::*;

fn textbook(recovery: Recovery) -> Script {
    let config = Config {
        initial_window: 8,
        recovery,
        limited_transmit: false,
        ..Config::profile("ns-2").expect("a known profile")
    };
    let mut client = Script::client(&config);
    client.connect().write_forever();
    assert_eq!(client.take_sent().len(), 8);
    client
}

fn at(k: u32) -> u32 {
    1 + k * 1460
}

fn plain(k: u32) -> narrows_transport::tcp::Segment {
    parse(&format!(". 1:1 ack {}", at(k)))
}

fn echo(k: u32) -> narrows_transport::tcp::Segment {
    parse(&format!("E. 1:1 ack {}", at(k)))
}

fn numbers(client: &mut Script) -> Vec<u32> {
    client.take_sent().iter().map(|(_, s)| (s.seq.0 - 1) / 1460).collect()
}

#[test]
fn rfc5681_3_2_duplicates_inflate_the_window() {
    let mut client = textbook(Recovery::Reno);
    client.at(100.0);
    client.gets_segment(&plain(0)).gets_segment(&plain(0));
    assert_eq!(numbers(&mut client), [] as [u32; 0]);
    client.gets_segment(&plain(0));
    assert_eq!(numbers(&mut client), [0]);
    assert_eq!((client.endpoint.cwnd(), client.endpoint.ssthresh()), (4, Some(4)));
    // 4 + 3 + duplicates beyond the third must exceed 8 in flight.
    client.gets_segment(&plain(0));
    assert_eq!(numbers(&mut client), [] as [u32; 0]);
    client.gets_segment(&plain(0));
    assert_eq!(numbers(&mut client), [8]);
    client.at(200.0).gets_segment(&plain(8));
    assert_eq!(client.endpoint.cwnd(), 4);
}

#[test]
fn an_echo_of_congestion_halves_the_window_and_further_ones_do_not_open_it() {
    let config = Config { ecn: true, ..Config::profile("ns-2").expect("a known profile") };
    let mut client = Script::client(&Config { initial_window: 8, ..config });
    client.connect().write_forever();
    client.at(100.0);
    for k in 1..=8 {
        client.gets_segment(&echo(k));
    }
    assert_eq!(client.endpoint.cwnd(), 4);
    // A window later, four acknowledgements without an echo open it by one.
    for k in 9..=12 {
        client.gets_segment(&plain(k));
    }
    assert_eq!(client.endpoint.cwnd(), 5);
}

#[test]
fn rfc6582_3_2_a_partial_acknowledgement_sends_the_next_hole_at_once() {
    for (recovery, expected) in [(Recovery::NewReno, vec![3]), (Recovery::Reno, vec![])] {
        let mut client = textbook(recovery);
        client.at(100.0);
        for _ in 0..3 {
            client.gets_segment(&plain(0));
        }
        assert_eq!(numbers(&mut client), [0]);
        client.at(200.0).gets_segment(&plain(3));
        assert_eq!(numbers(&mut client), expected, "{recovery:?}");
    }
}

/// Jacobson 1988, section 3; Fall and Floyd 1996, section 2: fast retransmit, then slow start
/// from one segment up to half the window; duplicates send nothing.
#[test]
fn tahoe_slow_starts_after_fast_retransmit() {
    let mut client = textbook(Recovery::Tahoe);
    client.at(100.0);
    client.gets_segment(&plain(0)).gets_segment(&plain(0));
    assert_eq!(numbers(&mut client), [] as [u32; 0]);
    client.gets_segment(&plain(0));
    assert_eq!(numbers(&mut client), [0]);
    assert_eq!((client.endpoint.cwnd(), client.endpoint.ssthresh()), (1, Some(4)));
    // Segments 1 to 7 have arrived: the other duplicates inflate no window.
    for _ in 0..4 {
        client.gets_segment(&plain(0));
    }
    assert_eq!(numbers(&mut client), [] as [u32; 0]);
    // Segment 0 filled the only hole. Two segments follow: slow start up to 4, then one a window.
    client.at(200.0).gets_segment(&plain(8));
    assert_eq!(numbers(&mut client), [8, 9]);
    client.at(300.0).gets_segment(&plain(9)).gets_segment(&plain(10));
    assert_eq!(client.endpoint.cwnd(), 4);
    assert_eq!(numbers(&mut client), [10, 11, 12, 13]);
    client.at(400.0);
    for k in 11..=14 {
        client.gets_segment(&plain(k));
    }
    assert_eq!(client.endpoint.cwnd(), 5);
    let counters = client.endpoint.counters();
    assert_eq!((counters.fast_recoveries, counters.timeouts), (1, 0));
}

/// Two holes: what lies beyond the first is sent again too, as far as it is not acknowledged
/// first (go-back-N), and the duplicates of that start no second reduction.
#[test]
fn tahoe_goes_back_n() {
    let mut client = textbook(Recovery::Tahoe);
    // 0 and 3 are lost.
    client.at(100.0);
    for _ in 0..6 {
        client.gets_segment(&plain(0));
    }
    assert_eq!(numbers(&mut client), [0]);
    client.at(200.0).gets_segment(&plain(3));
    assert_eq!(numbers(&mut client), [3, 4]);
    client.at(300.0).gets_segment(&plain(8)).gets_segment(&plain(8));
    assert_eq!(numbers(&mut client), [8, 9, 10]);
    assert_eq!(client.endpoint.ssthresh(), Some(4));
    assert_eq!(client.endpoint.counters().fast_recoveries, 1);
}

/// The retransmission timer starts again at the third duplicate, without backoff.
#[test]
fn tahoe_waits_a_timeout_for_a_lost_retransmission() {
    let mut client = textbook(Recovery::Tahoe);
    client.at(100.0);
    for _ in 0..3 {
        client.gets_segment(&plain(0));
    }
    assert_eq!(numbers(&mut client), [0]);
    // The first timeout is 3 s; ticks are 10 ms.
    client.at(3090.0);
    assert_eq!(numbers(&mut client), [] as [u32; 0]);
    client.at(3130.0);
    assert_eq!(numbers(&mut client), [0]);
    assert_eq!(client.endpoint.ssthresh(), Some(2));
    assert_eq!(client.endpoint.counters().timeouts, 1);
}

#[test]
fn a_timeout_starts_from_window_one() {
    let mut client = textbook(Recovery::Reno);
    client.at(3500.0);
    assert_eq!(numbers(&mut client), [0]);
    assert_eq!((client.endpoint.cwnd(), client.endpoint.ssthresh()), (1, Some(4)));
    client.gets_segment(&plain(1));
    assert_eq!(numbers(&mut client), [1, 2]);
    // Duplicates of the retransmissions start no second reduction (ns-2's bugFix_).
    for _ in 0..5 {
        client.gets_segment(&plain(1));
    }
    assert_eq!(client.endpoint.counters().fast_recoveries, 0);
}
