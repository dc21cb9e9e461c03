//! Opening and closing (RFC 9293, 3.5 and 3.6), segment by segment.

use narrows_transport::tcp::{Config, Flags, Segment, Seq, SynOptions};
use narrows_units::Span;

use crate::tcp_script::{self, Script, linux, ms, parse, stamp};

#[test]
fn rfc9293_3_5_three_segments_open_a_connection() {
    let mut client = Script::client(&linux());
    client.connect().sends(&["S 0:0"]);
    client.at(50.0).gets_syn_ack().sends(&[". 1:1 ack 1"]);
    assert!(client.endpoint.is_established());
    assert_eq!(client.endpoint.srtt(), Some(Span::from_ms(50)));

    let mut server = Script::server(&linux());
    server.at(10.0).gets_syn().sends(&["S. 0:0 ack 1"]);
    assert!(!server.endpoint.is_established());
    server.at(60.0).gets(". 1:1 ack 1").sends(&[]);
    assert!(server.endpoint.is_established());
    assert_eq!(server.endpoint.srtt(), Some(Span::from_ms(50)));
}

#[test]
fn a_syn_carries_the_options_of_the_configuration() {
    let mut client = Script::client(&linux());
    client.connect();
    let (_, syn) = client.take_sent()[0];
    let options = SynOptions {
        mss: 1460,
        window_scale: Some(7),
        sack_permitted: true,
        ..SynOptions::default()
    };
    assert_eq!(syn.syn, Some(options));
    assert_eq!(syn.header_bytes(), 40);
    let bare = Config { sack: false, timestamps: false, window_scaling: false, ..linux() };
    let mut client = Script::client(&bare);
    client.connect();
    let (_, syn) = client.take_sent()[0];
    assert_eq!(syn.header_bytes(), 24);
}

/// RFC 6298 (2.1): 1 s at first, doubled each time. The timer wheel is coarse at such distances:
/// 250 jiffies fall on a multiple of 8, 500 likewise, 1000 on one of 64.
#[test]
fn a_lost_syn_is_repeated_with_backoff() {
    let mut client = Script::client(&linux());
    client.connect().at(8000.0).sends_at(&[
        (0.0, "S 0:0"),
        (1024.0, "S 0:0"),
        (3040.0, "S 0:0"),
        (7168.0, "S 0:0"),
    ]);
    assert_eq!(client.endpoint.counters().timeouts, 3);
}

#[test]
fn a_syn_repeated_once_keeps_the_initial_window_and_twice_does_not() {
    let mut client = Script::client(&linux());
    client.connect().at(1100.0).gets_syn_ack();
    assert_eq!(client.endpoint.cwnd(), 10);
    let mut client = Script::client(&linux());
    client.connect().at(3100.0).gets_syn_ack();
    assert_eq!(client.endpoint.cwnd(), 1);
}

/// `tcp_try_undo_spurious_syn`: a long round trip is no loss.
#[test]
fn a_syn_ack_that_answers_the_first_syn_keeps_the_initial_window() {
    let syn_ack = |echo_ms: f64, at_ms: f64| Segment {
        ack: Seq(1),
        window: 65_535,
        flags: Flags::SYN.with(Flags::ACK),
        timestamps: Some((stamp(ms(at_ms)), stamp(ms(echo_ms)))),
        syn: Some(SynOptions { mss: 1460, window_scale: Some(7), ..SynOptions::default() }),
        ..Segment::default()
    };
    for (echo_ms, timestamps, undo, expected) in [
        (0.7, true, true, 10),
        (1024.0, true, true, 1),
        (3040.0, true, true, 1),
        (0.7, false, true, 1),
        (0.7, true, false, 1),
    ] {
        let mut client = Script::client(&Config { timestamps, undo, ..linux() });
        client.at(0.7).connect().at(3100.0).gets_segment(&syn_ack(echo_ms, 3100.0));
        assert!(client.endpoint.counters().timeouts == 2 && client.endpoint.is_established());
        assert_eq!(client.endpoint.cwnd(), expected, "{echo_ms} {timestamps} {undo}");
    }
}

#[test]
fn a_server_loses_its_initial_window_only_to_timeouts_that_the_answer_confirms() {
    // The client repeated its SYN, and the server answered each one.
    let mut server = Script::server(&linux());
    server.gets_syn().at(600.0).gets_syn().at(1200.0).gets_syn();
    assert_eq!(server.take_sent().len(), 3);
    server.at(1250.0).gets(". 1:1 ack 1");
    assert_eq!((server.endpoint.counters().timeouts, server.endpoint.cwnd()), (0, 10));
    // The server repeated its SYN-ACK in vain: the client answers the first.
    for (echo_ms, expected) in [(0.0, 10), (1024.0, 1)] {
        let mut server = Script::server(&linux());
        server.gets_syn().at(3100.0).echo(echo_ms).gets(". 1:1 ack 1");
        assert_eq!(server.endpoint.counters().timeouts, 2);
        assert_eq!(server.endpoint.cwnd(), expected);
    }
}

#[test]
fn nobody_answers_and_the_connection_is_given_up() {
    let mut client = Script::client(&linux());
    client.connect().at(400_000.0);
    assert_eq!(client.take_sent().len(), 7, "one SYN and tcp_syn_retries = 6");
    assert!(client.endpoint.is_failed() && client.endpoint.is_closed());
    assert_eq!(client.endpoint.next_timeout(), None);
}

/// Linux 6.18 with its default of 4 repeats a SYN after 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s, and
/// gives up after 131 s. The bounds allow for the coarse timer wheel.
#[test]
fn the_first_repetitions_of_a_syn_may_leave_the_timeout_as_it_is() {
    let config = Config { syn_linear_timeouts: 4, ..linux() };
    let mut client = Script::client(&config);
    client.connect().at(140_000.0);
    let seconds: Vec<_> = client.take_sent().iter().map(|(at, _)| at.as_secs_f64()).collect();
    let expected = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0, 19.0, 35.0, 67.0];
    assert_eq!(seconds.len(), expected.len(), "{seconds:?}");
    for (at, expected) in seconds.iter().zip(expected) {
        assert!((at - expected).abs() <= 0.01 + 0.05 * expected, "{seconds:?}");
    }
    assert!(client.endpoint.is_failed());

    // With more linear timeouts, the connection is given up at the first timeout after 127 s. Linux
    // 6.18 sends the same number of SYNs.
    for (linear, syns) in [(20, 27), (127, 125)] {
        let config = Config { syn_linear_timeouts: linear, ..linux() };
        let mut client = Script::client(&config);
        client.connect().at(200_000.0);
        assert_eq!(client.take_sent().len(), syns, "{linear}");
        assert!(client.endpoint.is_failed());
    }

    // SYN-ACKs are not affected.
    let mut server = Script::server(&config);
    server.gets_syn().at(4000.0).sends_at(&[
        (0.0, "S. 0:0 ack 1"),
        (1024.0, "S. 0:0 ack 1"),
        (3040.0, "S. 0:0 ack 1"),
    ]);
}

#[test]
fn a_lost_syn_ack_is_repeated_and_a_repeated_syn_answered() {
    let mut server = Script::server(&linux());
    server.gets_syn().sends(&["S. 0:0 ack 1"]);
    server.at(500.0).gets_syn().sends(&["S. 0:0 ack 1"]);
    // The timer starts again with the answer (`tcp_check_req`).
    server.at(1600.0).sends_at(&[(1504.0, "S. 0:0 ack 1")]);
    // Repeated twice, so the path counts as bad (`tcp_init_transfer`).
    server.gets(". 1:1 ack 1");
    assert_eq!(server.endpoint.cwnd(), 1);
}

#[test]
fn a_lost_third_segment_is_repeated_on_demand_and_data_stand_in_for_it() {
    let mut client = Script::connected(&linux(), 50.0);
    client.at(1050.0).gets_syn_ack().sends(&[". 1:1 ack 1"]);

    let mut server = Script::server(&linux());
    server.gets_syn().forget();
    server.at(100.0).gets("P. 1:101 ack 1").sends(&[". 1:1 ack 101"]);
    assert_eq!(server.endpoint.bytes_received(), 100);
}

#[test]
fn the_smaller_mss_counts_and_timestamps_take_twelve_bytes_of_it() {
    let mut client = Script::client(&linux());
    client.connect().at(50.0);
    let syn_ack = Segment {
        ack: Seq(1),
        window: 65_535,
        flags: Flags::SYN.with(Flags::ACK),
        timestamps: Some((1, stamp(narrows_units::Time::ZERO))),
        syn: Some(SynOptions {
            mss: 1000,
            window_scale: None,
            sack_permitted: false,
            ..SynOptions::default()
        }),
        ..Segment::default()
    };
    client.gets_segment(&syn_ack).forget();
    client.write(1000).sends(&[". 1:989 ack 1", "P. 989:1001 ack 1"]);
}

#[test]
fn rfc9293_3_6_fin_follows_the_last_byte_and_both_ends_close() {
    let mut client = Script::connected(&linux(), 50.0);
    client.write(100).close();
    client.sends(&["P. 1:101 ack 1", "F. 101:101 ack 1"]);
    client.at(100.0).gets("F. 1:1 ack 102").sends(&[". 102:102 ack 2"]);
    assert!(client.endpoint.is_closed());
    assert_eq!(client.endpoint.bytes_acked(), 100, "FIN is no payload");
    // Our last acknowledgement was lost.
    client.at(400.0).gets("F. 1:1 ack 102");
    let sent = client.take_sent();
    assert_eq!((sent.len(), sent[0].1.ack), (1, Seq(2)));
}

#[test]
fn a_passive_end_closes_when_it_has_read_everything() {
    let mut server = Script::accepted(&linux(), 50.0);
    server.at(60.0).gets("FP. 1:101 ack 1").sends(&["F. 1:1 ack 102"]);
    assert_eq!(server.endpoint.bytes_received(), 100);
    assert!(server.endpoint.is_peer_closed() && !server.endpoint.is_closed());
    server.at(110.0).gets(". 102:102 ack 2");
    assert!(server.endpoint.is_closed());
    assert_eq!(server.endpoint.next_timeout(), None);
}

#[test]
fn a_lost_fin_is_repeated() {
    let mut client = Script::connected(&linux(), 50.0);
    client.close().sends(&["F. 1:1 ack 1"]);
    client.at(1000.0);
    assert!(client.take_sent().iter().all(|(_, s)| s.flags.contains(Flags::FIN)));
    assert!(client.endpoint.counters().segments_retransmitted >= 1);
}

#[test]
fn a_reset_ends_the_connection() {
    let mut client = Script::connected(&linux(), 50.0);
    client.write_forever().forget();
    client.at(60.0).gets_segment(&parse("R 1:1"));
    assert!(client.endpoint.is_failed());
    client.at(60_000.0).sends(&[]);
}

#[test]
fn without_a_handshake_data_flow_at_once() {
    let config = Config::profile("ns-2").expect("a known profile");
    let mut client = Script::client(&config);
    client.connect().write(5000).sends(&[". 1:1461 ack 1", ". 1461:2921 ack 1"]);
    let mut server = Script::server(&config);
    server.gets_segment(&parse(". 1:1461 ack 1")).sends(&[". 1:1 ack 1461"]);
}

/// Until it has something to send, an end keeps no more of its sending half than the start.
#[test]
fn an_end_that_was_silent_sends_with_the_handshakes_measurement_and_the_latest_window() {
    let mut server = Script::accepted(&linux(), 80.0);
    assert_eq!((server.endpoint.cwnd(), server.endpoint.counters().segments_sent), (10, 1));
    server.at(200.0).gets(". 1:1449 ack 1").sends(&[". 1:1 ack 1449"]);
    let mut data = parse("P. 1449:2897 ack 1");
    // Units of 128 bytes: there is room for one full segment, where the SYN offered 64 KB.
    data.window = 12;
    data.timestamps = Some((201, stamp(narrows_units::Time::ZERO)));
    server.gets_segment(&data).sends(&[". 1:1 ack 2897"]);
    assert_eq!(server.endpoint.srtt(), Some(Span::from_ms(80)));
    server.write(5000).sends(&[". 1:1449 ack 2897"]);
    assert_eq!(server.endpoint.srtt(), Some(Span::from_ms(80)));
    assert_eq!(server.endpoint.min_rtt(), Some(Span::from_ms(80)));
    server.endpoint.check_invariants();
}

/// A SYN or SYN-ACK with these options.
fn opening(script: &Script, ack: Option<u32>, syn: SynOptions, stamps: bool) -> Segment {
    let flags = if ack.is_some() { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
    Segment {
        ack: Seq(ack.unwrap_or(0)),
        window: 65_535,
        flags,
        timestamps: stamps.then(|| (stamp(script.now), 0)),
        syn: Some(syn),
        ..Segment::default()
    }
}

/// RFC 7323, 1.3 and 2.2, RFC 2018, 2: an option is used if both ends have offered it.
#[test]
fn an_option_needs_both_ends() {
    for number in 0..64 {
        let [scales, stamps, sack, scaling, timestamps, selective] =
            [1, 2, 4, 8, 16, 32].map(|bit| number & bit != 0);
        let config = Config { window_scaling: scaling, timestamps, sack: selective, ..linux() };
        let mut server = Script::server(&config);
        let options = SynOptions {
            mss: 1460,
            window_scale: scales.then_some(7),
            sack_permitted: sack,
            fast_open: None,
        };
        let syn = opening(&server, None, options, stamps);
        server.gets_segment(&syn);
        let answer = server.take_sent()[0].1;
        let agreed = answer.syn.expect("a SYN-ACK has options");
        assert_eq!(agreed.window_scale, (scales && scaling).then_some(7), "{number:06b}");
        assert_eq!(agreed.sack_permitted, sack && selective, "{number:06b}");
        assert_eq!(answer.timestamps.is_some(), stamps && timestamps, "{number:06b}");
        // 45 segments with timestamps, or 44 without (Linux: 65160 and 64240).
        assert_eq!(answer.window, if stamps && timestamps { 65_160 } else { 64_240 });
        assert_eq!((answer.seq, answer.ack), (Seq(0), Seq(1)));
    }
}

/// RFC 7323, 2.3: a shift above 14 counts as 14. Unscaled windows are bytes.
#[test]
fn a_window_scale_is_at_most_fourteen() {
    for (scale, window, segments) in [
        (Some(13), 2, 11),
        (Some(14), 1, 11),
        (Some(15), 1, 11),
        (None, 16_384, 11),
        (Some(0), 16_384, 11),
    ] {
        let mut server = Script::server(&Config { initial_window: 40, ..linux() });
        let options = SynOptions { mss: 1460, window_scale: scale, ..SynOptions::default() };
        let syn = opening(&server, None, options, true);
        server.gets_segment(&syn).forget();
        let third = Segment { window, timestamps: Some((51, 1)), ..parse(". 1:1 ack 1") };
        server.at(50.0).gets_segment(&third).write_forever();
        assert_eq!(server.take_sent().len(), segments, "{scale:?}");
    }
}

/// RFC 9293, 3.7.1: without the option, 536 bytes.
#[test]
fn a_server_s_segments_fit_the_client_s_mss() {
    for (mss, stamps, expected) in [
        (0, false, 536),
        (0, true, 524),
        (1459, false, 1459),
        (1461, true, 1448),
        (9000, false, 1460),
    ] {
        let mut server = Script::server(&linux());
        let options = SynOptions { mss, ..SynOptions::default() };
        let syn = opening(&server, None, options, stamps);
        server.gets_segment(&syn).at(50.0);
        let third = Segment {
            timestamps: stamps.then_some((51, 1)),
            window: 60_000,
            ..parse(". 1:1 ack 1")
        };
        server.gets_segment(&third).forget().write(9000);
        assert_eq!(server.take_sent()[0].1.len, expected, "{mss} {stamps}");
    }
}

/// RFC 6298, 3 and 5.7, RFC 7323, 4: after a repeated SYN only an echo measures the round trip;
/// without one, the timeout is 3 s.
#[test]
fn a_repeated_syn_measures_only_with_an_echo() {
    for (timestamps, echo_ms, srtt_ms) in [
        (true, Some(1024.0), Some(76)),
        (true, Some(1099.9), Some(1)),
        (true, None, None),
        (false, None, None),
    ] {
        let mut client = Script::client(&Config { timestamps, tlp: false, ..linux() });
        client.connect().at(1100.0).forget();
        let options = SynOptions { mss: 1460, window_scale: Some(7), ..SynOptions::default() };
        let mut answer = opening(&client, Some(1), options, timestamps);
        let echo = echo_ms.map_or(0, |at| stamp(ms(at)));
        answer.timestamps = timestamps.then_some((1, echo));
        client.gets_segment(&answer).forget();
        assert_eq!(client.endpoint.srtt(), srtt_ms.map(Span::from_ms), "{timestamps} {echo_ms:?}");
        client.write(100).forget();
        client.at(5000.0);
        let first = tcp_script::in_ms(client.take_sent()[0].0);
        // 750 jiffies from jiffy 275 on; at such distances the timer wheel has multiples of 64.
        assert_eq!(first == 4352.0, srtt_ms.is_none(), "{first}");
        assert!(srtt_ms.is_none() || first < 1600.0, "{first}");
    }
}

/// RFC 9293, 3.10.7.2 and 3.10.7.3: what is ignored before a connection is open, and what ends it.
#[test]
fn a_foreign_segment_opens_nothing() {
    for ack in [0, 2] {
        let mut client = Script::client(&linux());
        client.connect().forget();
        let syn = opening(&client, Some(ack), SynOptions::default(), true);
        client.at(50.0).gets_segment(&syn).sends(&[]);
        client.gets_segment(&parse(&format!("R. 0:0 ack {ack}"))).gets_segment(&parse("R 0:0"));
        client.gets_segment(&parse(". 1:1 ack 1"));
        assert!(!client.endpoint.is_established() && !client.endpoint.is_failed());
        client.gets_segment(&parse("R. 0:0 ack 1"));
        assert_eq!(client.endpoint.failure(), Some(narrows_transport::Closed::Refused));
    }
    let mut server = Script::server(&linux());
    let syn_ack = opening(&server, Some(1), SynOptions::default(), true);
    server.gets_segment(&syn_ack).gets_segment(&parse(". 1:1 ack 1")).gets_segment(&parse("R 0:0"));
    server.sends(&[]);
    assert!(server.endpoint.is_listening());
    server.gets_syn().sends(&["S. 0:0 ack 1"]);
    for ack in [0, 2] {
        server.at(50.0).gets(&format!(". 1:1 ack {ack}"));
        assert!(!server.endpoint.is_established());
    }
    server.gets_segment(&parse("R 1:1"));
    assert_eq!(server.endpoint.failure(), Some(narrows_transport::Closed::Reset));
}

#[test]
fn a_connection_is_given_up_after_as_many_repetitions_as_allowed() {
    for (max_retries, syns) in [(1, 2), (3, 4), (6, 7), (7, 7)] {
        let mut client = Script::client(&Config { max_retries, ..linux() });
        client.connect().at(400_000.0);
        assert_eq!(client.take_sent().len(), syns, "{max_retries}");
        assert_eq!(client.endpoint.failure(), Some(narrows_transport::Closed::TimedOut));
    }
}

/// A mark counts once, on a SYN, a SYN-ACK or the segment that opens the connection.
#[test]
fn marks_of_the_handshake_are_counted() {
    use narrows_units::Ecn;
    for (syn_ecn, third_ecn, marks) in [
        (Ecn::Ce, Ecn::NotEct, 1),
        (Ecn::Ect0, Ecn::Ce, 1),
        (Ecn::Ce, Ecn::Ce, 2),
        (Ecn::Ect0, Ecn::Ect0, 0),
    ] {
        let mut server = Script::server(&linux());
        let syn = opening(&server, None, SynOptions::default(), true);
        server.gets_segment(&Segment { ecn: syn_ecn, ..syn });
        let third = Segment { ecn: third_ecn, timestamps: Some((51, 1)), ..parse(". 1:1 ack 1") };
        server.at(50.0).gets_segment(&third);
        assert_eq!(server.endpoint.counters().marks_received, marks);
    }
}
