//! The receiving half: delayed, quick and compressed acknowledgements, SACK and ECN echo.

use narrows_transport::tcp::{AckPolicy, Config, Segment};
use narrows_units::Span;

use crate::tcp_script::{self, Script, linux};

/// A receiver that has left quick-acknowledgement mode: 16 full segments came in, `n` is the next
/// byte.
fn settled() -> (Script, u32) {
    settled_with(&linux())
}

fn settled_with(config: &Config) -> (Script, u32) {
    let mut server = Script::accepted(config, 100.0);
    let mut next = 1;
    for n in 0..16 {
        server.at(100.0 + f64::from(n)).gets(&format!(". {next}:{} ack 1", next + 1448));
        next += 1448;
        server.sends(&[&format!(". 1:1 ack {next}")]);
    }
    (server, next)
}

#[test]
fn the_first_sixteen_segments_are_acknowledged_at_once() {
    settled();
}

#[test]
fn rfc1122_4_2_3_2_every_second_full_segment_is_acknowledged() {
    let (mut server, next) = settled();
    server.at(120.0).gets(&format!(". {next}:{} ack 1", next + 1448)).sends(&[]);
    server.at(121.0).gets(&format!(". {}:{} ack 1", next + 1448, next + 2896));
    server.sends(&[&format!(". 1:1 ack {}", next + 2896)]);
}

/// 40 ms are 10 jiffies; the wheel fires at the eleventh.
#[test]
fn a_lone_segment_waits_forty_milliseconds() {
    let (mut server, next) = settled();
    server.at(120.0).gets(&format!(". {next}:{} ack 1", next + 1448)).at(300.0);
    server.sends_at(&[(164.0, &format!(". 1:1 ack {}", next + 1448))]);
}

/// `tcp_event_data_recv` subtracts jiffies: 20.1 ms from the 30th jiffy to the 36th are 6, more
/// than half of the shortest delay, so the estimate rises from 10 to 11.
#[test]
fn the_estimate_of_the_gap_between_segments_counts_jiffies() {
    let (mut server, n) = settled();
    server.at(123.5).gets(&format!(". {n}:{} ack 1", n + 1448));
    server.at(123.9).gets(&format!(". {}:{} ack 1", n + 1448, n + 2896)).forget();
    server.at(144.0).gets(&format!(". {}:{} ack 1", n + 2896, n + 4344)).at(300.0);
    server.sends_at(&[(192.0, &format!(". 1:1 ack {}", n + 4344))]);
}

#[test]
fn a_delay_that_was_in_vain_doubles() {
    let (mut server, next) = settled();
    server.at(120.0).gets(&format!(". {next}:{} ack 1", next + 1448)).at(200.0).forget();
    // 80 ms after the last: the estimate stays; the delay is bounded by the RTT of 100 ms.
    server.gets(&format!(". {}:{} ack 1", next + 1448, next + 2896)).at(400.0);
    let sent = server.take_sent();
    assert_eq!(sent.len(), 1);
    let waited = sent[0].0.since(tcp_script::ms(200.0));
    assert!(waited > Span::from_ms(44) && waited <= Span::from_ms(104), "waited {waited}");
}

/// `TCP_DELACK_MAX`: 200 ms at most, though lone segments on a path of 600 ms double the estimate
/// from 40 ms to 320 ms. 50 jiffies; the wheel fires at the next.
#[test]
fn no_acknowledgement_waits_for_more_than_two_hundred_milliseconds() {
    let mut server = Script::accepted(&linux(), 600.0);
    let mut next = 1;
    for n in 0..16 {
        server.at(600.0 + f64::from(n)).gets(&format!(". {next}:{} ack 1", next + 1448)).forget();
        next += 1448;
    }
    for (at, waited) in [(1000.0, 44.0), (1400.0, 84.0), (1800.0, 164.0), (2200.0, 204.0)] {
        server.at(at).gets(&format!(". {next}:{} ack 1", next + 1448)).at(at + 399.0);
        next += 1448;
        server.sends_at(&[(at + waited, &format!(". 1:1 ack {next}"))]);
    }
}

#[test]
fn the_end_of_a_write_is_acknowledged_when_it_is_read() {
    let (mut server, next) = settled();
    server.at(120.0).gets(&format!("P. {next}:{} ack 1", next + 100));
    server.sends(&[&format!(". 1:1 ack {}", next + 100)]);
}

#[test]
fn rfc5681_4_2_out_of_order_and_gap_filling_segments_are_acknowledged_at_once() {
    let (mut server, n) = settled();
    server.at(120.0).gets(&format!(". {}:{} ack 1", n + 1448, n + 2896));
    server.sends(&[&format!(". 1:1 ack {n} sack {}:{}", n + 1448, n + 2896)]);
    server.at(121.0).gets(&format!(". {n}:{} ack 1", n + 1448));
    server.sends(&[&format!(". 1:1 ack {}", n + 2896)]);
}

#[test]
fn rfc2018_4_the_latest_block_comes_first_and_three_fit() {
    let (mut server, n) = settled();
    for (at, k) in [(120.0, 1), (121.0, 3), (122.0, 5)] {
        server.at(at).gets(&format!(". {}:{} ack 1", n + k * 1448, n + (k + 1) * 1448));
    }
    let sent = server.take_sent();
    let blocks: Vec<u32> =
        sent[2].1.sack.as_slice().iter().map(|block| (block.0.0 - n) / 1448).collect();
    assert_eq!(blocks, [5, 3, 1]);
}

/// `tcp_comp_sack_delay_ns`: after three duplicates, one acknowledgement a millisecond.
#[test]
fn many_duplicates_are_answered_in_bundles() {
    // With a growing window, every segment would be acknowledged at once.
    let (mut server, n) = settled_with(&Config { receive_autotuning: false, ..linux() });
    server.at(120.0);
    for k in 1..=10 {
        server.at(120.0 + f64::from(k) * 0.1);
        server.gets(&format!(". {}:{} ack 1", n + k * 1448, n + (k + 1) * 1448));
    }
    assert_eq!(server.take_sent().len(), 3);
    server.at(125.0);
    let end = n + 11 * 1448;
    server.sends_at(&[(121.4, &format!(". 1:1 ack {n} sack {}:{end}", n + 1448))]);
}

#[test]
fn rfc2883_4_a_needless_retransmission_is_reported() {
    let (mut server, n) = settled();
    server.at(120.0).gets(&format!(". {}:{n} ack 1", n - 1448));
    server.sends(&[&format!(". 1:1 ack {n} sack {}:{n}", n - 1448)]);
    // It is reported once.
    server.at(121.0).gets(&format!(". {n}:{} ack 1", n + 1448));
    server.sends(&[&format!(". 1:1 ack {}", n + 1448)]);
}

#[test]
fn rfc7323_5_a_segment_from_before_the_latest_timestamp_is_dropped() {
    let (mut server, n) = settled();
    let mut old = tcp_script::parse(&format!(". {n}:{} ack 1", n + 1448));
    old.timestamps = Some((50, 1));
    server.at(120.0).gets_segment(&old);
    assert_eq!(server.endpoint.bytes_received(), u64::from(n - 1));
    assert_eq!(server.take_sent().len(), 1, "an acknowledgement says what is expected");
}

/// A pure acknowledgement of `ack` with this timestamp.
fn pure_ack(flags: &str, ack: u32, stamp: u32) -> Segment {
    let mut segment = tcp_script::parse(&format!("{flags} 1:1 ack {ack}"));
    segment.timestamps = Some((stamp, 101));
    segment
}

/// A sender whose first segment was acknowledged with the timestamp 5000; the clock stands at
/// 200 ms.
fn sender() -> Script {
    sender_with(&linux())
}

fn sender_with(config: &Config) -> Script {
    let mut client = Script::connected(config, 100.0);
    client.write_forever();
    client.at(200.0).gets_segment(&pure_ack(".", 1449, 5000)).forget();
    client
}

/// Returns how many of the segments sent are bare acknowledgements.
fn answers(script: &mut Script) -> usize {
    script.take_sent().iter().filter(|(_, segment)| segment.len == 0).count()
}

/// `tcp_oow_rate_limited` with `sysctl_tcp_invalid_ratelimit`. A kernel's senders answer about two
/// thirds of the acknowledgements that jitter has made old (`TCPACKSkippedPAWS`).
#[test]
fn overtaken_acknowledgements_are_answered_twice_a_second_at_most() {
    let mut client = sender();
    // These are no duplicates: they acknowledge less than what is already acknowledged.
    client.at(210.0).gets_segment(&pure_ack(".", 1, 4990));
    assert_eq!(answers(&mut client), 1, "the first");
    client.at(220.0).gets_segment(&pure_ack(".", 1, 4991));
    assert_eq!(answers(&mut client), 0, "10 ms after an answer");
    // Data are never part of a loop of acknowledgements.
    let data = tcp_script::parse(". 1:101 ack 1449");
    client.gets_segment(&Segment { timestamps: Some((4990, 101)), ..data });
    assert_eq!(answers(&mut client), 1, "data");
    client.at(704.0).gets_segment(&pure_ack(".", 1, 4992));
    assert_eq!(answers(&mut client), 0, "496 ms after an answer");
    client.at(712.0).gets_segment(&pure_ack(".", 1, 4993));
    assert_eq!(answers(&mut client), 1, "504 ms after an answer");
}

/// `tcp_disordered_ack` asks for a duplicate that changes nothing, and not for its flags.
#[test]
fn an_overtaken_duplicate_is_accepted_unless_it_is_older_than_a_timeout() {
    let mut client = sender();
    client.at(210.0).gets_segment(&pure_ack("E.", 1449, 4990));
    assert_eq!(answers(&mut client), 0, "a duplicate with an echo");
    client.at(220.0).gets_segment(&pure_ack(".", 1449, 1000));
    assert_eq!(answers(&mut client), 1, "a duplicate of 4 s ago");
    let mut client = sender();
    let mut wider = pure_ack(".", 1449, 4990);
    wider.window += 1;
    client.at(210.0).gets_segment(&wider);
    assert_eq!(answers(&mut client), 1, "a window update");
}

/// RFC 6298 (5.5): the timeout backs off to a maximum, and a duplicate may not be older than that.
#[test]
fn an_overtaken_duplicate_is_too_old_beyond_the_longest_timeout() {
    let mut client = sender_with(&Config { max_rto: Span::from_secs(1), ..linux() });
    // 300 ms, 600 ms, and then a second each time. Doubling would have led to 4.8 s.
    client.at(8000.0).forget();
    assert!(client.endpoint.counters().timeouts >= 6);
    client.gets_segment(&pure_ack(".", 1449, 4010));
    assert_eq!(answers(&mut client), 0, "a duplicate of 0.99 s ago");
    client.gets_segment(&pure_ack(".", 1449, 3990));
    assert_eq!(answers(&mut client), 1, "a duplicate of 1.01 s ago");
}

fn with_ecn(config: &Config) -> (Script, u32) {
    use narrows_transport::tcp::{Flags, Segment, SynOptions};
    let mut server = Script::server(config);
    let syn = Segment {
        window: 65_535,
        flags: Flags::SYN.with(Flags::ECE).with(Flags::CWR),
        timestamps: Some((1, 0)),
        syn: Some(SynOptions {
            mss: 1460,
            window_scale: Some(7),
            sack_permitted: true,
            ..SynOptions::default()
        }),
        ..Segment::default()
    };
    server.gets_segment(&syn).sends(&["SE. 0:0 ack 1"]);
    server.at(100.0).gets(". 1:1 ack 1").forget();
    assert!(server.endpoint.ecn_negotiated());
    let mut next = 1;
    for n in 0..16 {
        server.at(100.0 + f64::from(n)).gets(&format!(". {next}:{} ack 1 ect0", next + 1448));
        next += 1448;
    }
    server.forget();
    (server, next)
}

#[test]
fn rfc3168_6_1_3_marks_are_echoed_until_the_sender_says_cwr() {
    let (mut server, n) = with_ecn(&linux());
    let end = |k: u32| n + k * 1448;
    server.at(120.0).gets(&format!(". {n}:{} ack 1 ce", end(1)));
    server.sends(&[&format!("E. 1:1 ack {}", end(1))]);
    server.at(121.0).gets(&format!(". {}:{} ack 1 ect0", end(1), end(2)));
    server.sends(&[&format!("E. 1:1 ack {}", end(2))]);
    server.at(122.0).gets(&format!(". {}:{} ack 1 ect0", end(2), end(3))).sends(&[]);
    server.at(123.0).gets(&format!(". {}:{} ack 1 ect0", end(3), end(4)));
    server.sends(&[&format!("E. 1:1 ack {}", end(4))]);
    // CWR ends the echo and is answered at once.
    server.at(124.0).gets(&format!("W. {}:{} ack 1 ect0", end(4), end(5)));
    server.sends(&[&format!(". 1:1 ack {}", end(5))]);
    assert_eq!(server.endpoint.counters().marks_received, 1);
}

#[test]
fn cwr_on_a_marked_segment_starts_a_new_echo() {
    let (mut server, n) = with_ecn(&linux());
    server.at(120.0).gets(&format!(". {n}:{} ack 1 ce", n + 1448)).forget();
    server.at(121.0).gets(&format!("W. {}:{} ack 1 ce", n + 1448, n + 2896));
    server.sends(&[&format!("E. 1:1 ack {}", n + 2896)]);
}

/// Linux 2.6.30 `TCP_ECN_check_ce`, `TCP_ECN_accept_cwr`: the flags change, nothing hurries.
#[test]
fn before_linux_3_7_a_mark_and_cwr_wait_for_the_second_segment() {
    let (mut server, n) = with_ecn(&Config { acks: AckPolicy::Linux26, ..linux() });
    let end = |k: u32| n + k * 1448;
    server.at(120.0).gets(&format!(". {n}:{} ack 1 ce", end(1))).sends(&[]);
    server.at(121.0).gets(&format!(". {}:{} ack 1 ect0", end(1), end(2)));
    server.sends(&[&format!("E. 1:1 ack {}", end(2))]);
    server.at(122.0).gets(&format!("W. {}:{} ack 1 ect0", end(2), end(3))).sends(&[]);
    server.at(123.0).gets(&format!(". {}:{} ack 1 ect0", end(3), end(4)));
    server.sends(&[&format!(". 1:1 ack {}", end(4))]);
}

#[test]
fn other_policies_acknowledge_every_segment_or_every_second() {
    let every = Config { acks: AckPolicy::EverySegment, ..linux() };
    let mut server = Script::accepted(&every, 100.0);
    for k in 0..40u32 {
        server.gets(&format!(". {}:{} ack 1", 1 + k * 1448, 1 + (k + 1) * 1448));
    }
    assert_eq!(server.take_sent().len(), 40);

    let delayed = Config { acks: AckPolicy::Delayed(Span::from_ms(100)), ..linux() };
    let mut server = Script::accepted(&delayed, 100.0);
    for k in 0..41u32 {
        server.gets(&format!(". {}:{} ack 1", 1 + k * 1448, 1 + (k + 1) * 1448));
    }
    assert_eq!(server.take_sent().len(), 20);
    server.at(300.0).sends_at(&[(200.0, &format!(". 1:1 ack {}", 1 + 41 * 1448))]);
}

/// What the receiver of one CUBIC connection over 10 Mbit/s and 100 ms advertised in the first
/// three round trips, on a guest of Linux 6.1.192, in the field's units of 128 bytes. In slow
/// start, two segments answer each acknowledged one.
#[test]
fn the_window_grows_as_linux_lets_it_grow() {
    const FRAME_MS: f64 = 1.2307;
    const FIRST: [u16; 10] = [501; 10];
    const SECOND: [u16; 14] =
        [501, 516, 516, 516, 516, 516, 516, 516, 516, 516, 516, 516, 516, 516];
    const THIRD: [u16; 38] = [
        516, 539, 562, 584, 607, 629, 652, 675, 697, 720, 743, 765, 788, 810, 833, 856, 878, 901,
        924, 946, 969, 991, 1014, 1037, 1059, 1082, 1105, 1127, 1150, 1172, 1195, 1218, 1240, 1263,
        1286, 1308, 1331, 1353,
    ];
    let mut server = Script::server(&Config { timer_granularity: Span::from_ms(10), ..linux() });
    server.at(150.186).gets_syn();
    assert_eq!(server.take_sent()[0].1.window, 65_160);
    server.at(251.5).gets(". 1:1 ack 1");
    let mut next = 1;
    let mut echoes = vec![150.186; 10];
    // Round trips are counted in whole milliseconds, and all three are 101.
    for (start, windows) in [(252.017, &FIRST[..]), (353.320, &SECOND), (454.623, &THIRD)] {
        let mut before = next;
        for (k, echo) in echoes.drain(..).enumerate() {
            server.at(start + FRAME_MS * k as f64).echo(echo);
            // The kernel's sender pushed these two.
            let push = if [20, 30].map(|k| 1 + k * 1448).contains(&next) { "P" } else { "" };
            server.gets(&format!("{push}. {next}:{} ack 1", next + 1448));
            next += 1448;
        }
        // The last segment of the second round is acknowledged by the timer.
        let acks = server.at(start + 90.0).take_sent();
        let advertised: Vec<u16> = acks.iter().map(|(_, ack)| ack.window).collect();
        assert_eq!(advertised, windows);
        for (at, ack) in acks {
            let segments = (ack.ack.0 - before) / 1448;
            before = ack.ack.0;
            let at_ms = at.as_secs_f64() * 1e3;
            // What answers the timer's acknowledgement comes after the round.
            if at_ms < start + 40.0 {
                echoes.extend((0..2 * segments).map(|_| at_ms));
            }
        }
    }
}
