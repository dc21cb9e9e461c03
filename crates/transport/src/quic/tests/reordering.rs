//! Packets that arrive before their keys (RFC 9001, 5.7).

use super::*;
use crate::quic::frames::{Ack, Frame, Packet};
use crate::quic::ranges::Ranges;
use alloc::vec;
use alloc::vec::Vec;

const LATER: Span = Span::from_ms(1);

fn keeping(packets: u8) -> Config {
    Config { undecryptable_packets: packets, ..Config::default() }
}

/// Returns when a query is answered if one datagram takes a millisecond longer.
fn answered(config: Config, side: usize, datagram: usize) -> Time {
    let mut line = Line::new(config, false);
    line.late[side].push((datagram, LATER));
    line.ask(60, 800);
    line.answered_at().expect("an answer comes in the end")
}

/// The client acknowledges the first datagram with its second, and sends Finished in its third.
#[test]
fn a_query_that_overtakes_finished_is_kept() {
    assert_eq!(answered(keeping(4), 0, 2), at(200) + LATER);
    // Without the packet, the client sends it again after a probe timeout.
    assert!(answered(keeping(0), 0, 2) > at(300));
}

/// ServerHello is in the server's first datagram. The second has the rest of the certificate.
#[test]
fn a_certificate_that_overtakes_the_hello_is_kept() {
    assert_eq!(answered(keeping(4), 1, 0), at(200) + LATER);
    assert!(answered(keeping(0), 1, 0) > at(300));
}

/// A sample of the round trip ends when the packet with the acknowledgement arrives. Here the answer
/// to early data, with their acknowledgement, waits until a lost ServerHello is there.
#[test]
fn an_acknowledgement_counts_from_its_arrival() {
    let mut line = Line::new(Config::default(), true);
    line.loses[1].push(0);
    // The second datagram has the end of the query, so the answer acknowledges it.
    line.ends[0].write(0, 2_000);
    line.talk(None, |line| line.ends[1].write(0, 800), |_| ());
    // The first probe: 999 ms.
    assert_eq!(line.answered_at(), Some(at(999 + 100)));
    assert_eq!(line.smoothed_round_trips(), [Span::from_ms(100); 2]);
}

/// RFC 9000, 13.2.5: the server says how long the query waited for its keys.
#[test]
fn an_acknowledgement_reports_the_time_without_keys() {
    let mut line = Line::new(Config::default(), false);
    line.late[0].push((2, Span::from_ms(30)));
    line.ask(60, 800);
    assert_eq!(line.answered_at(), Some(at(230)));
    assert_eq!(line.smoothed_round_trips()[0], Span::from_ms(100));
}

/// RFC 9002, 5.3: only the delay of Initial packets may be ignored. A sample of 150 ms with a delay
/// of 30 ms counts as 120 ms, an eighth of which enters the mean.
#[test]
fn the_delay_of_handshake_packets_counts() {
    let mut line = Line::new(Config::default(), false);
    line.run(at(120), |_| ());
    let mut received = Ranges::default();
    // The second packet has Finished.
    received.insert(0, 2);
    let ack = Frame::Ack(Ack { received, delay: Span::from_ms(30), marked: None });
    let packet = Packet { level: Level::Handshake, number: 50, frames: vec![ack], bytes: 40 };
    line.ends[0].handle_datagram(at(250), &Datagram { packets: vec![packet] }, false);
    assert_eq!(line.smoothed_round_trips()[0], Span::from_us(102_500));
}

/// Two queries overtake Finished. There is room for one.
#[test]
fn no_more_packets_are_kept_than_allowed() {
    let mut line = Line::new(keeping(1), false);
    let mut asked = false;
    line.late[0].push((2, LATER));
    line.run(at(150), |line| {
        if line.ends[0].is_open() && !asked {
            asked = true;
            for stream in [0, 4] {
                line.ends[0].write(stream, 60);
                line.flush(0);
            }
        }
    });
    assert_eq!(line.ends[1].undecryptable_packets(), 1);
    line.run(at(151), |_| ());
    let asked: Vec<u64> = line.whole.iter().map(|&(_, _, stream)| stream).collect();
    assert_eq!(asked, [0]);
    assert_eq!(line.ends[1].undecryptable_packets(), 0);
}

/// A server has no connection yet for early data that overtake the hello.
#[test]
fn early_data_before_the_hello_are_lost() {
    let mut line = Line::new(Config::default(), true);
    line.ends[0].write(0, 2_000);
    line.late[0].push((0, LATER));
    line.run(at(50), |_| ());
    assert_eq!(line.ends[1].undecryptable_packets(), 0);
    line.run(at(5_000), |_| ());
    assert!(line.is_asked());
}

/// However datagrams are lost and overtake each other, everything arrives in the end.
#[test]
fn whatever_is_reordered_comes_in_the_end() {
    for (seed, packets, early) in (0..200)
        .flat_map(|seed| [(seed, 0, false), (seed, 1, true), (seed, 4, false), (seed, 4, true)])
    {
        let mut random = Random(seed);
        let mut line = Line::new(keeping(packets), early);
        for side in 0..2 {
            line.loses[side] = (0..60).filter(|_| random.uniform() < 0.15).collect();
            line.late[side] = (0..60)
                .map(|datagram| (datagram, Span::from_ms((200.0 * random.uniform()) as u64)))
                .collect();
        }
        line.ask(200, 5_000);
        assert!(line.answered_at().is_some(), "{seed} {packets} {early}: {:?}", line.left);
        assert_eq!(line.ends.each_ref().map(Endpoint::undecryptable_packets), [0; 2]);
    }
}
