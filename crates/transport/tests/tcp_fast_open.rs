//! TCP Fast Open (RFC 7413), rule by rule.

use narrows_transport::tcp::{Config, Endpoint, FastOpenOption, Flags, Segment, Seq, SynOptions};
use narrows_units::Span;

use crate::tcp_script::{self, Script, linux, stamp};

fn fast() -> Config {
    Config { fast_open: true, ..linux() }
}

/// A client that has a cookie or not, and a first write of 36 bytes.
fn client(cookie: bool) -> Script {
    let mut client = Script::client(&fast());
    client.endpoint.use_fast_open(cookie);
    client.endpoint.connect(client.now);
    client
}

fn option_of(segment: &Segment) -> Option<FastOpenOption> {
    segment.syn.expect("a SYN has options").fast_open
}

/// A SYN or SYN-ACK of the other end.
fn syn(script: &Script, ack: Option<u32>, len: u16, fast_open: Option<FastOpenOption>) -> Segment {
    let flags = if ack.is_some() { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
    Segment {
        ack: Seq(ack.unwrap_or(0)),
        window: 65_535,
        len,
        flags,
        timestamps: Some((stamp(script.now), 0)),
        syn: Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true, fast_open }),
        ..Segment::default()
    }
}

#[test]
fn section_4_1_1_the_first_syn_asks_for_a_cookie_and_carries_no_data() {
    let mut client = client(false);
    client.write(36);
    let sent = client.take_sent();
    assert_eq!((sent.len(), sent[0].1.len), (1, 0));
    assert_eq!(option_of(&sent[0].1), Some(FastOpenOption::Request));
    // MSS, SACK and timestamps, window scale: 20; the option and two bytes of padding.
    assert_eq!(sent[0].1.header_bytes(), 20 + 20 + 4);
    let answer = syn(&client, Some(1), 0, Some(FastOpenOption::Cookie));
    client.at(50.0).gets_segment(&answer).sends(&[". 1:1 ack 1", "P. 1:37 ack 1"]);
    assert!(client.endpoint.take_cookie() && !client.endpoint.take_cookie());
    assert!(!client.endpoint.syn_data_taken());
}

#[test]
fn a_cookie_that_nobody_asked_for_is_ignored() {
    let mut client = Script::client(&linux());
    client.connect().forget();
    let answer = syn(&client, Some(1), 0, Some(FastOpenOption::Cookie));
    client.at(50.0).gets_segment(&answer);
    assert!(!client.endpoint.take_cookie());
}

#[test]
fn section_4_2_1_data_go_with_the_cookie_and_are_acknowledged_with_the_syn() {
    let mut client = client(true);
    client.write(36);
    let sent = client.take_sent();
    assert_eq!((sent[0].1.len, sent[0].1.flags), (36, Flags::SYN));
    // As Knot's client sends it: an IP packet of 108 bytes.
    assert_eq!(20 + sent[0].1.header_bytes() + sent[0].1.len, 108);
    let answer = syn(&client, Some(37), 0, None);
    client.at(50.0).gets_segment(&answer).sends(&[". 37:37 ack 1"]);
    assert!(client.endpoint.syn_data_taken());
    assert_eq!(client.endpoint.bytes_acked(), 36);
    client.write(100).sends(&["P. 37:137 ack 1"]);
    client.at(100.0).gets(". 1:1 ack 137");
    assert_eq!(client.endpoint.bytes_acked(), 136);
    assert!(client.endpoint.all_acked());
}

/// `tcp_send_syn_data` leaves 40 bytes for options.
#[test]
fn a_syn_carries_no_more_than_fits_beside_all_options() {
    let mut client = client(true);
    client.write(3000);
    assert_eq!(client.take_sent()[0].1.len, 1420);
    let answer = syn(&client, Some(1421), 0, None);
    let rest = [". 1421:1421 ack 1", ". 1421:2869 ack 1", "P. 2869:3001 ack 1"];
    client.at(50.0).gets_segment(&answer).sends(&rest);
}

#[test]
fn section_4_2_1_data_that_the_server_did_not_take_go_again_at_once() {
    let mut client = client(true);
    client.write(36).forget();
    let answer = syn(&client, Some(1), 0, None);
    client.at(50.0).gets_segment(&answer).sends(&["P. 1:37 ack 1"]);
    assert!(!client.endpoint.syn_data_taken());
}

#[test]
fn section_7_1_a_syn_that_is_sent_again_has_neither_cookie_nor_data() {
    for cookie in [false, true] {
        let mut client = client(cookie);
        client.write(36).forget();
        client.at(1100.0);
        let sent = client.take_sent();
        assert_eq!((sent.len(), sent[0].1.len, option_of(&sent[0].1)), (1, 0, None));
        assert_eq!(client.endpoint.counters().segments_retransmitted, 1);
        let answer = syn(&client, Some(1), 0, None);
        client.at(1150.0).gets_segment(&answer);
        let data: &[&str] =
            if cookie { &["P. 1:37 ack 1"] } else { &[". 1:1 ack 1", "P. 1:37 ack 1"] };
        client.sends(data);
    }
}

/// The answer to the first SYN may come after the second one left.
#[test]
fn a_late_syn_ack_may_still_take_the_data() {
    let mut client = client(true);
    client.write(36).at(1100.0).forget();
    let answer = syn(&client, Some(37), 0, None);
    client.at(1150.0).gets_segment(&answer).sends(&[". 37:37 ack 1"]);
    assert!(client.endpoint.syn_data_taken());
}

#[test]
fn section_4_2_2_a_server_gives_cookies_and_acknowledges_no_data_without() {
    let mut server = Script::server(&fast());
    let ask = syn(&server, None, 0, Some(FastOpenOption::Request));
    server.gets_segment(&ask);
    let sent = server.take_sent();
    assert_eq!(option_of(&sent[0].1), Some(FastOpenOption::Cookie));
    assert_eq!(sent[0].1.ack, Seq(1));
    assert!(!server.endpoint.is_established());

    // One without Fast Open, and one that answers this SYN with a SYN cookie.
    let mut busy = Script::server(&fast());
    busy.endpoint.ignore_fast_open();
    for mut old in [Script::server(&linux()), busy] {
        let shows = syn(&old, None, 36, Some(FastOpenOption::Cookie));
        old.gets_segment(&shows);
        let sent = old.take_sent();
        assert_eq!((option_of(&sent[0].1), sent[0].1.ack), (None, Seq(1)));
        assert_eq!(old.endpoint.bytes_received(), 0);
    }
}

#[test]
fn section_4_2_2_a_server_answers_before_the_handshake_is_over() {
    let mut server = Script::server(&fast());
    let shows = syn(&server, None, 36, Some(FastOpenOption::Cookie));
    server.gets_segment(&shows).sends(&["S. 0:0 ack 37"]);
    assert_eq!(server.endpoint.bytes_received(), 36);
    server.at(1.0).write(3000);
    server.sends(&[". 1:1449 ack 37", ". 1449:2897 ack 37", "P. 2897:3001 ack 37"]);
    server.at(50.0).gets(". 37:37 ack 1").sends(&[]);
    assert_eq!(server.endpoint.srtt(), Some(Span::from_ms(50)));
    server.at(51.0).gets(". 37:37 ack 3001");
    assert!(server.endpoint.is_established() && server.endpoint.all_acked());
    server.endpoint.check_invariants();
}

/// `tcp_retransmit_timer`: before the SYN-ACK is acknowledged, nothing else is sent again.
#[test]
fn a_lost_syn_ack_is_repeated_before_the_data() {
    let mut server = Script::server(&fast());
    let shows = syn(&server, None, 36, Some(FastOpenOption::Cookie));
    server.gets_segment(&shows).write(100).forget();
    server.at(1100.0).sends_at(&[(1024.0, "S. 0:0 ack 37")]);
    // The client repeats its SYN, without data, and is answered.
    let again = syn(&server, None, 0, None);
    server.at(1150.0).gets_segment(&again).sends(&["S. 0:0 ack 37"]);
    server.at(1200.0).gets(". 37:37 ack 1").sends(&[]);
    // Now the timer serves the data. The handshake has measured 50 ms since the last SYN-ACK, so
    // the timeout is 250 ms, then twice and four times that (RFC 6298, 5.5). A timer of 0.25 to 2 s
    // fires at the next multiple of 32 ms (Linux, kernel/time/timer.c, with 250 Hz).
    let data = "P. 1:101 ack 37";
    server.at(3100.0).sends_at(&[(1472.0, data), (1984.0, data), (3008.0, data)]);
}

#[test]
fn a_server_that_nobody_confirms_gives_up() {
    let mut server = Script::server(&fast());
    let shows = syn(&server, None, 36, Some(FastOpenOption::Cookie));
    // Linux sends the SYN-ACK `tcp_synack_retries` (5) times again, and once more with Fast Open
    // (`tcp_fastopen_synack_timer`). The pauses are 1, 2, 4, ... 64 s: 127 s in all,
    // and a little more, because long timers are coarse.
    server.gets_segment(&shows).write(100).at(126_000.0);
    assert!(!server.endpoint.is_failed());
    assert_eq!(server.endpoint.counters().segments_retransmitted, 6);
    server.at(136_000.0);
    assert!(server.endpoint.is_failed());
    let reset = Segment { flags: Flags::RST, seq: Seq(37), ..Segment::default() };
    let mut other = Script::server(&fast());
    other.gets_segment(&shows).gets_segment(&reset);
    assert!(other.endpoint.is_failed());
}

/// Two ends of the same kind, a round trip of 40 ms: a query in the SYN, and a reply.
#[test]
fn a_query_in_the_syn_is_answered_after_one_round_trip() {
    let mut ends = [Endpoint::client(fast(), Seq(7)), Endpoint::server(fast(), Seq(9))];
    ends[0].use_fast_open(true);
    let mut script = Vec::new();
    let mut now = tcp_script::ms(0.0);
    ends[0].connect(now);
    ends[0].write(now, 36);
    for turn in 0..6 {
        let (sender, receiver) = (turn % 2, 1 - turn % 2);
        let mut sent = Vec::new();
        while let Some(segment) = ends[sender].poll_transmit(now) {
            sent.push(segment);
        }
        now = tcp_script::ms(f64::from(turn as u32 + 1) * 20.0);
        for segment in sent {
            script.push((sender, segment.flags, segment.len));
            ends[receiver].handle_segment(now, &segment);
        }
        if turn == 0 {
            ends[1].write(now, 52);
        }
        if turn == 1 {
            assert_eq!(ends[0].bytes_received(), 52, "after one round trip");
        }
        ends[receiver].check_invariants();
    }
    let (syn, ack, push) = (Flags::SYN, Flags::ACK, Flags::PSH.with(Flags::ACK));
    let expected = [(0, syn, 36), (1, syn.with(ack), 0), (1, push, 52), (0, ack, 0)];
    assert_eq!(script, expected);
    assert!(ends[1].is_established() && ends[1].all_acked());
}

/// RFC 7413, 4.2.1: a server may take a part of the data. The rest, and what the window allows, goes
/// after the handshake. Nothing beyond the data may be acknowledged (RFC 9293, 3.10.7.3).
#[test]
fn a_syn_ack_acknowledges_the_syn_and_what_it_takes_of_the_data() {
    for (ack, sends) in [
        (0, &[][..]),
        (1, &["P. 1:37 ack 1"]),
        (2, &[". 2:2 ack 1", "P. 2:37 ack 1"]),
        (36, &[". 36:36 ack 1", "P. 36:37 ack 1"]),
        (37, &[". 37:37 ack 1"]),
        (38, &[]),
    ] {
        let mut client = client(true);
        client.write(36).forget();
        let answer = syn(&client, Some(ack), 0, None);
        client.at(50.0).gets_segment(&answer).sends(sends);
        assert_eq!(client.endpoint.is_established(), !sends.is_empty(), "{ack}");
        assert_eq!(client.endpoint.syn_data_taken(), (2..=37).contains(&ack), "{ack}");
        if client.endpoint.is_established() {
            assert_eq!(client.endpoint.bytes_acked(), u64::from(ack - 1));
        }
    }
    // Without a cookie there are no data, so nothing but the SYN may be acknowledged.
    let mut client = client(false);
    client.write(36).forget();
    let answer = syn(&client, Some(2), 0, None);
    client.at(50.0).gets_segment(&answer).sends(&[]);
}

#[test]
fn a_cookie_without_data_leaves_an_ordinary_handshake() {
    for given in [None, Some(FastOpenOption::Cookie)] {
        let mut client = client(true);
        assert!(client.endpoint.shows_cookie());
        client.endpoint.write(client.now, 0);
        client.at(1.0);
        let mut sent = Vec::new();
        while let Some(segment) = client.endpoint.poll_transmit(client.now) {
            sent.push(segment);
        }
        assert_eq!((sent.len(), sent[0].len), (1, 0));
        let answer = syn(&client, Some(1), 0, given);
        client.at(50.0).gets_segment(&answer).sends(&[". 1:1 ack 1"]);
        assert_eq!(client.endpoint.take_cookie(), given.is_some());
        assert!(!client.endpoint.syn_data_taken());
    }
}

/// RFC 9293, 3.10.7.4: what the server's data allow to acknowledge, before the handshake is over.
#[test]
fn the_third_segment_may_acknowledge_what_the_server_has_sent() {
    for (ack, accepted) in [(0, false), (1, true), (101, true), (102, false)] {
        let mut server = Script::server(&fast());
        let shows = syn(&server, None, 36, Some(FastOpenOption::Cookie));
        server.gets_segment(&shows).at(1.0).write(100).forget();
        assert!(server.endpoint.is_open() && !server.endpoint.is_established());
        server.at(50.0).gets(&format!(". 37:37 ack {ack}")).sends(&[]);
        assert_eq!(server.endpoint.is_established(), accepted, "{ack}");
        assert_eq!(server.endpoint.all_acked(), ack == 101);
    }
    // A reset ends it, whatever it acknowledges.
    let mut server = Script::server(&fast());
    let shows = syn(&server, None, 36, Some(FastOpenOption::Cookie));
    server.gets_segment(&shows).at(1.0).write(100).forget();
    let reset = tcp_script::parse("R. 37:37 ack 101");
    server.gets_segment(&reset);
    assert!(server.endpoint.is_failed() && !server.endpoint.is_established());
}

/// RFC 7413, 4.1.1: the server gives a cookie with every SYN-ACK, also a repeated one.
#[test]
fn a_repeated_syn_ack_gives_the_cookie_too() {
    let mut server = Script::server(&fast());
    let ask = syn(&server, None, 0, Some(FastOpenOption::Request));
    server.gets_segment(&ask).at(1100.0);
    let options: Vec<_> = server.take_sent().iter().map(|(_, sent)| option_of(sent)).collect();
    assert_eq!(options, [Some(FastOpenOption::Cookie); 2]);
    let mut server = Script::server(&fast());
    server.gets_syn();
    assert_eq!(option_of(&server.take_sent()[0].1), None);
}
