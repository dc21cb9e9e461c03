//! What an endpoint tells about itself, and its two ways to take and give segments.

use narrows_transport::Closed;
use narrows_transport::tcp::{Adopted, Config, Endpoint, Flags, Segment, Seq, SynOptions};
use narrows_units::{Bytes, Span, Time};

use crate::tcp_script::{MSS, Script, linux, ms, parse};

#[test]
fn an_endpoint_tells_its_state_from_the_first_segment_to_the_last() {
    let mut server = Script::server(&linux());
    assert!(server.endpoint.is_listening() && !server.endpoint.is_open());
    assert_eq!((server.endpoint.srtt(), server.endpoint.min_rtt()), (None, None));
    server.gets_syn().forget();
    assert!(!server.endpoint.is_listening() && !server.endpoint.is_open());
    assert!(!server.endpoint.ecn_negotiated());
    server.at(80.0).gets(". 1:1 ack 1");
    assert!(server.endpoint.is_open() && server.endpoint.is_silent());
    let rtt = Some(Span::from_ms(80));
    assert_eq!((server.endpoint.srtt(), server.endpoint.min_rtt()), (rtt, rtt));
    server.gets("P. 1:101 ack 1").forget();
    assert_eq!(server.endpoint.bytes_received(), 100);
    assert_eq!(server.endpoint.write_seq(), Seq(1));
    server.write(5000).forget();
    assert_eq!(server.endpoint.write_seq(), Seq(5001));
    assert!(!server.endpoint.is_silent() && !server.endpoint.all_acked());
    assert!(server.endpoint.heap_bytes() >= 4 * 16);
    server.at(180.0).gets(". 101:101 ack 5001").forget();
    assert!(server.endpoint.all_acked());
    assert_eq!(server.endpoint.bytes_acked(), 5000);
    // 7/8 of 80 ms and 1/8 of 100 ms.
    assert_eq!(server.endpoint.srtt(), Some(Span::from_us(82_500)));
    assert_eq!(server.endpoint.busy(ms(900.0)), Span::from_ms(100));
    assert_eq!(server.endpoint.rwnd_limited(ms(900.0)), Span::ZERO);
    server.endpoint.release_memory();
    assert_eq!(server.endpoint.heap_bytes(), 0);
    // A SYN-ACK, an acknowledgement of the query, and four segments of data.
    assert_eq!(server.endpoint.counters().segments_sent, 6);
    server.gets("F. 101:101 ack 5001").forget();
    assert!(server.endpoint.is_peer_closed() && !server.endpoint.is_closed());
    server.at(260.0).gets(". 102:102 ack 5002");
    assert!(server.endpoint.is_closed() && !server.endpoint.is_failed());
    assert_eq!(server.endpoint.failure(), None);
}

/// RFC 9293, 3.6: an end may go on sending after the other one has closed.
#[test]
fn an_end_may_stay_open_after_the_other_has_closed() {
    let mut server = Script::accepted(&linux(), 80.0);
    server.endpoint.keep_open();
    server.at(90.0).gets("FP. 1:101 ack 1").sends(&[]);
    server.write(10).sends(&["P. 1:11 ack 102"]);
    server.close().sends(&["F. 11:11 ack 102"]);
    server.at(170.0).gets(". 102:102 ack 12");
    assert!(server.endpoint.is_closed());
}

/// RFC 9293, 3.10.5: a reset goes to an end that may know of the connection.
#[test]
fn giving_up_tells_the_other_end() {
    let config = linux();
    let abort = |script: &mut Script| {
        let reset = script.endpoint.abort(script.now);
        assert!(script.endpoint.is_failed() && script.endpoint.is_closed());
        assert_eq!(script.endpoint.failure(), Some(Closed::TimedOut));
        assert_eq!(script.endpoint.next_timeout(), None);
        reset.map(|reset| (reset.flags, reset.seq.0))
    };
    let expected = Some((Flags::RST.with(Flags::ACK), 1));
    assert_eq!(abort(&mut Script::client(&config)), None);
    assert_eq!(abort(&mut Script::server(&config)), None);
    assert_eq!(abort(Script::client(&config).connect()), expected);
    assert_eq!(abort(Script::server(&config).gets_syn()), expected);
    let mut connected = Script::connected(&config, 50.0);
    assert_eq!(abort(&mut connected), expected);
    assert_eq!(abort(&mut connected), None, "it has failed already");
}

#[test]
fn connecting_twice_or_listening_and_connecting_changes_nothing() {
    let config = linux();
    let mut client = Script::client(&config);
    client.endpoint.use_fast_open(true);
    assert!(client.endpoint.shows_cookie());
    client.connect().forget();
    client.endpoint.use_fast_open(false);
    assert!(client.endpoint.shows_cookie(), "it is too late to change it");
    client.at(10.0).connect().sends(&[]);
    let mut server = Script::server(&config);
    server.connect().sends(&[]);
    assert!(server.endpoint.is_listening());
    // A server that answers with a cookie repeats nothing.
    server.gets_syn().forget();
    server.endpoint.forget_handshake();
    server.at(100_000.0).sends(&[]);
}

/// RFC 7323, 2.3.
#[test]
fn the_offered_window_is_in_bytes() {
    let server = Script::accepted(&linux(), 50.0);
    assert_eq!(server.endpoint.window_scale(), 7);
    assert_eq!(server.endpoint.offered_window(), 65_160);
    assert_eq!(server.endpoint.largest_window(), 65_535 << 7);
    let unscaled = Config { window_scaling: false, ..linux() };
    assert_eq!(Script::server(&unscaled).endpoint.largest_window(), 65_535);
}

/// RFC 1191, section 4: a link's MTU holds 20 bytes of IP, 20 of TCP, and 12 of timestamps.
#[test]
fn a_link_s_mtu_limits_segments() {
    for (timestamps, mtu, len) in [(true, 1400, 1348), (false, 1400, 1360), (true, 1500, 1448)] {
        let mut client = Script::connected(&Config { timestamps, ..linux() }, 50.0);
        client.write(u64::from(MSS)).forget();
        client.endpoint.handle_too_big(client.now, Seq(1), mtu);
        client.write(10_000);
        let longest = client.take_sent().iter().map(|(_, sent)| sent.len).max();
        assert_eq!(longest, Some(len), "{timestamps} {mtu}");
    }
}

/// The ways of the simulator, which avoid copies, and those of other callers do the same.
#[test]
fn plain_segments_may_take_a_shorter_way() {
    let config = Config { receive_buffer: Bytes::new(100_000), ecn: false, ..linux() };
    // Data in order, a hole, its end, a duplicate, an end of a write, and acknowledgements.
    let segments = [
        (100, ". 1:1449 ack 1"),
        (101, ". 1449:2897 ack 1"),
        (102, ". 4345:5793 ack 1"),
        (103, ". 7241:8689 ack 1"),
        (104, ". 2897:4345 ack 1"),
        (105, ". 1:1449 ack 1"),
        (106, ". 5793:7241 ack 1"),
        (107, "P. 8689:8700 ack 1"),
        (150, ". 8700:8700 ack 1449"),
        (151, ". 8700:8700 ack 4345"),
        (152, "P. 8700:8800 ack 9001"),
        (153, "F. 8800:8800 ack 9001"),
    ];
    for writes in [false, true] {
        let mut general = Script::accepted(&config, 80.0);
        let mut plain = Script::accepted(&config, 80.0).endpoint;
        if writes {
            general.at(90.0).write(9000);
            plain.write(ms(90.0), 9000);
        }
        let mut sent: Vec<(Time, Segment)> = Vec::new();
        let mut poll = |plain: &mut Endpoint, now: Time| {
            loop {
                let header = if plain.is_silent() {
                    plain.poll_acknowledgement(now)
                } else {
                    plain.poll_established(now)
                };
                let Some(header) = header else { break };
                let mut segment = Segment::from(header);
                if segment.len == 0 && plain.has_sack_blocks() {
                    segment.sack = plain.take_sack_blocks();
                    assert!(!segment.sack.is_empty());
                }
                sent.push((now, segment));
            }
        };
        poll(&mut plain, ms(90.0));
        for (at, text) in segments {
            let mut segment = parse(text);
            segment.timestamps = Some((at, 81));
            if !writes {
                segment.ack = Seq(1);
            }
            let now = ms(f64::from(at));
            while let Some(due) = plain.next_timeout().filter(|&due| due < now) {
                plain.handle_timeout(due);
                poll(&mut plain, due);
            }
            general.at(f64::from(at)).gets_segment(&segment);
            plain.handle_plain(now, &segment.header());
            poll(&mut plain, now);
        }
        assert_eq!(sent, general.take_sent(), "{writes}");
        assert_eq!(plain.counters(), general.endpoint.counters());
        assert_eq!(plain.bytes_received(), 8799);
        assert!(plain.is_peer_closed());
    }
    // A segment of the handshake takes the longer way.
    let mut server = Script::server(&config);
    server.gets_syn().forget();
    let third = parse(". 1:1 ack 1").header();
    server.endpoint.handle_plain(ms(50.0), &third);
    assert!(server.endpoint.is_established());
}

/// RFC 9293, 3.10.7.4: what is not acceptable, or acknowledges what was not sent, is not taken.
#[test]
fn data_count_only_if_their_acknowledgement_does() {
    for (text, received) in [
        (". 1:101 ack 1", 100),
        (". 1:101 ack 2", 0),
        (". 1:101 ack 0", 100),
        ("F. 1:101 ack 1", 100),
    ] {
        let mut server = Script::accepted(&linux(), 80.0);
        server.at(90.0).gets(text);
        assert_eq!(server.endpoint.bytes_received(), received, "{text}");
    }
    let mut server = Script::accepted(&linux(), 80.0);
    let data = Segment { flags: Flags::PSH, timestamps: Some((91, 81)), ..parse(". 1:101") };
    server.at(90.0).gets_segment(&data);
    assert_eq!(server.endpoint.bytes_received(), 0, "a segment without ACK");
    // A SYN on an open connection: the third segment was lost.
    server.gets_syn_ack().sends(&[". 1:1 ack 1"]);
    server.gets_segment(&parse("R 1:1"));
    assert_eq!(server.endpoint.failure(), Some(Closed::Reset));
}

/// `cookie_timestamp_decode`: a server that keeps no state remembers window scaling and SACK in its
/// timestamp, so both need timestamps. The MSS is in its sequence number.
#[test]
fn what_a_syn_cookie_remembers() {
    for (scales, stamps, sack) in [(true, true, true), (true, false, true), (false, true, false)] {
        let now = ms(50.0);
        let timestamps = stamps.then_some((51, 1));
        let options = SynOptions {
            mss: 1000,
            window_scale: scales.then_some(7),
            sack_permitted: sack,
            fast_open: None,
        };
        let flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
        let syn = Segment { flags, timestamps, syn: Some(options), ..Segment::default() };
        // A window of 32 is 4096 bytes if scaled.
        let first = Segment { window: 32, timestamps, ..parse("P. 101:201 ack 5001") };
        let adopted = Adopted { syn, client_next: Seq(101), taken: 100, server_next: Seq(5001) };
        let mut server = Endpoint::server(linux(), Seq(0));
        server.adopt(now, &adopted, &first);
        server.handle_segment(now, &first);
        assert!(server.is_established() && !server.ecn_negotiated());
        assert_eq!((server.bytes_received(), server.write_seq()), (200, Seq(5001)));
        server.write(now, 10_000);
        let mut sent = Vec::new();
        while let Some(segment) = server.poll_transmit(now) {
            sent.push(segment);
        }
        let scaled = scales && stamps;
        let payload: u32 = sent.iter().map(|sent| u32::from(sent.len)).sum();
        let full = if stamps { 988 } else { 1000 };
        // Nothing small leaves while data wait.
        let expected = if scaled { 4 * full } else { 0 };
        assert_eq!(payload, expected, "{scales} {stamps}");
        assert_eq!(server.window_scale(), if scaled { 7 } else { 0 });
        assert!(sent.iter().all(|sent| sent.timestamps.is_some() == stamps));
        // A segment beyond the next one.
        let later = Segment { window: 32, timestamps, ..parse(". 301:401 ack 5001") };
        server.handle_segment(now, &later);
        assert_eq!(server.has_sack_blocks(), sack && stamps);
    }
}
