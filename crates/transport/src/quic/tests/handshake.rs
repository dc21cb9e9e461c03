//! The handshake, its datagrams, and what a server may send before it knows the client's address.

use super::*;
use alloc::vec::Vec;

/// RFC 9000, 14.1: datagrams with ack-eliciting Initial packets have 1200 bytes.
#[test]
fn the_handshake_takes_a_round_trip_and_full_datagrams() {
    let mut line = Line::new(Config::default(), false);
    line.ask(60, 800);
    assert_eq!(line.opened, Some(at(100)));
    assert_eq!(line.answered_at(), Some(at(200)));
    assert_eq!(line.sent(0)[0], (at(0), 1200));
    let flight: Vec<u32> =
        line.sent(1).iter().filter(|(sent, _)| *sent == at(50)).map(|&(_, bytes)| bytes).collect();
    assert_eq!(flight[0], 1200);
    assert_eq!(flight.len(), 2);
    // A header of one byte and the ID, number, type, ID of the stream, length, tag.
    let query =
        line.sent(0).iter().map(|&(_, bytes)| bytes).find(|&b| b == 1 + 8 + 1 + 3 + 60 + 16);
    assert!(query.is_some(), "{:?}", line.sent(0));
}

/// RFC 9000, 14.3 and 14.4: once the handshake is confirmed, padded PINGs find out what the path
/// takes. The window does not shrink when they are lost.
#[test]
fn longer_datagrams_are_found() {
    for (takes, longest) in [(1200, 1200), (1372, 1372), (1452, 1452), (9000, 1472)] {
        let config = Config { search_to: Some(1472), ..Config::default() };
        let mut line = Line::new(config, false);
        line.takes = takes;
        line.run(at(20_000), |_| ());
        let confirmed = at(150);
        let probes: Vec<u32> = line
            .sent(1)
            .into_iter()
            .filter(|&(sent, bytes)| sent >= confirmed && bytes > 1200)
            .map(|(_, bytes)| bytes)
            .collect();
        assert_eq!(probes[0], 1472, "{takes}");
        assert!(line.ends[1].window() >= 12_000, "{takes}");
        // A reply of many datagrams uses what was found.
        let before = line.left.len();
        line.ends[0].write(0, 60);
        line.run(at(20_100), |_| ());
        line.ends[1].write(0, 10_000);
        line.run(at(20_500), |_| ());
        assert!(line.answered_at().is_some(), "{takes}");
        let found = line.left[before..].iter().map(|left| left.bytes).max();
        assert!(found.is_some_and(|found| found <= longest && longest - found <= 20), "{found:?}");
    }
    let mut line = Line::new(Config::default(), false);
    line.run(at(20_000), |_| ());
    assert!(line.left.iter().all(|left| left.bytes <= 1200));
}

/// RFC 9000, 8.1: until the address is validated, a server sends at most three times what arrived.
#[test]
fn a_server_sends_three_times_what_came() {
    let mut line = Line::with(Config::default(), Server { certificate: 9000, ..SERVER }, false);
    line.run(at(99), |_| ());
    assert_eq!(line.sent(1).iter().map(|&(_, bytes)| bytes).sum::<u32>(), 3600);
    // The acknowledgement at 100 ms allows the rest.
    line.run(at(400), |_| ());
    assert_eq!(line.opened, Some(at(200)));
}

/// RFC 9000, 8.1, counts bytes: longer datagrams do not delay a flight that fits its round trip,
/// and an end that is held back uses all that it may send.
#[test]
fn the_limit_counts_bytes_whatever_the_payload_is() {
    for payload in [1200, 1232, 1419, 1801, 3601, 9000] {
        let config = Config { payload, ..Config::default() };
        let mut line = Line::with(config, Server { certificate: 2800, ..SERVER }, false);
        line.run(at(400), |_| ());
        assert_eq!(line.opened, Some(at(100)), "{payload}");
        let mut line = Line::with(config, Server { certificate: 9000, ..SERVER }, false);
        line.run(at(99), |_| ());
        assert_eq!(line.sent(1).iter().map(|&(_, bytes)| bytes).sum::<u32>(), 3600, "{payload}");
        line.run(at(400), |_| ());
        assert_eq!(line.opened, Some(at(200)), "{payload}");
    }
}

/// A server that may send only little stays silent, and goes on when the client's next bytes
/// arrive. Whatever is lost, no timer runs forever.
#[test]
fn a_server_that_is_held_back_waits() {
    for (seed, payload) in (0..50).flat_map(|seed| [1200, 1232, 3500, 9000].map(|p| (seed, p))) {
        let mut random = Random(seed);
        let config = Config { payload, ..Config::default() };
        for early in [false, true] {
            let mut line = Line::with(config, Server { certificate: 12_000, ..SERVER }, early);
            for loses in &mut line.loses {
                *loses = (0..40).filter(|_| random.uniform() < 0.2).collect();
            }
            line.ask(60, 5_000);
            assert!(line.answered_at().is_some(), "{seed} {payload}: {:?}", line.left);
            assert!(line.left.iter().all(|left| left.bytes <= payload.into()));
        }
    }
}

/// RFC 9001, 4: the signature of a full handshake takes time, in which the server sends nothing. A
/// resumed session saves this time.
#[test]
fn a_server_works_on_its_answer() {
    let server = Server { service: Span::from_ms(30), ..SERVER };
    for (resumed, opened) in [(false, 130), (true, 100)] {
        let mut line = Line::with(Config::default(), server, resumed);
        line.ask(60, 800);
        assert_eq!(line.opened, Some(at(opened)));
        assert_eq!(line.sent(1)[0].0, at(opened - 50));
    }
    // An end that has to close meanwhile does not wait for its own answer.
    let mut line = Line::with(Config::default(), server, false);
    line.run(at(60), |_| ());
    line.ends[1].abort();
    line.run(at(5_000), |_| ());
    assert_eq!(line.sent(1).len(), 1);
    assert_eq!(line.ends.each_ref().map(Endpoint::end), [Some(End::There), Some(End::Here)]);
}

/// RFC 9001, 4.6: the query is in the first flight.
#[test]
fn early_data_go_with_the_hello() {
    let mut line = Line::new(Config::default(), true);
    line.ends[0].write(0, 60);
    let mut answered = false;
    line.run(at(1_000), |line| {
        if !answered && line.whole.iter().any(|&(_, side, _)| side == 1) {
            answered = true;
            line.ends[1].write(0, 800);
            line.flush(1);
        }
    });
    assert_eq!(line.whole[0], (at(50), 1, 0));
    assert_eq!(line.answered_at(), Some(at(100)));
}

/// RFC 9000, 17.2: Initial, Handshake, and 1-RTT packets come one after the other in a datagram.
#[test]
fn packets_are_coalesced_in_order() {
    let mut line = Line::new(Config::default(), false);
    line.flush(0);
    let (_, _, hello, _) = line.in_flight.remove(0);
    line.ends[1].handle_datagram(at(50), &hello, false);
    let first = line.ends[1].poll_transmit(at(50)).expect("an answer");
    let levels: Vec<Level> = first.packets.iter().map(|packet| packet.level).collect();
    assert_eq!(levels, [Level::Initial, Level::Handshake]);
}

/// kdig and Knot DNS 3.2.6, as captured: a query of 128 bytes and a reply of 468, both padded, with
/// two bytes of length; IDs of 20 and 18 bytes.
#[test]
fn packets_have_the_lengths_of_kdigs_and_knots() {
    // GnuTLS 3.7: P-256, SHA-256, and hellos of 361 and 123 bytes with transport parameters of 55.
    let client =
        Client { hello: 361 - 4 - 55 + 5 + 32, key_share: 65, early_data: false, ..CLIENT };
    let knot = Config { id: 18, ..Config::default() };
    let kdig = Config { id: 20, parameters: 55, ..knot };
    let messages =
        Tls::new(client, Server { certificate: 400, ..SERVER }, false).messages([55, 60]);
    assert_eq!((messages.hello, messages.server_hello), (361, 123));
    let end = |is_client, configs| Endpoint::new(Time::ZERO, is_client, configs, messages);
    let mut line = Line::between([end(true, [kdig, knot]), end(false, [knot, kdig])]);
    line.ask(130, 470);
    let [asked, answered] = [0, 1].map(|side| line.sent(side));
    assert_eq!(asked[0], (at(0), 1200));
    assert_eq!(answered[0], (at(50), 1200));
    // Acknowledgement and Finished, with padding; then the query.
    assert_eq!(asked[1..3], [(at(100), 1200), (at(100), 170)]);
    // With an acknowledgement of five bytes.
    assert!(answered.contains(&(at(150), 517)), "{answered:?}");
    // The server's first packet, an Initial, has 199 bytes, with an acknowledgement whose delay is
    // longer than here.
    let first = line.first[1].expect("it has answered");
    assert!(first.abs_diff(199) <= 3, "{first}");
}
