//! What a receiver accepts, and what it says about it: the kernel's rules, worked out by hand.

use alloc::vec::Vec;

use narrows_units::{Ecn, Time};

use super::*;
use crate::tcp::AckPolicy;

fn linux() -> Config {
    Config::profile("linux-6").expect("a known profile")
}

fn at_ms(config: &Config, ms: u64) -> Context<'_> {
    Context::new(config, Time::ZERO + Span::from_ms(ms))
}

/// A receiver that has got and acknowledged everything before 10001, with a window of 64000 bytes
/// and the timestamp 5000.
fn receiver(config: &Config) -> Receiver {
    let mut receiver = Receiver::new(config);
    receiver.start(Seq(1), true);
    (receiver.rcv_nxt, receiver.rcv_wup) = (Seq(10_001), Seq(10_001));
    (receiver.window, receiver.ts_recent) = (64_000, 5000);
    (receiver.timestamps, receiver.sack, receiver.rcv_mss) = (true, true, 1448);
    receiver
}

/// The next data, with this codepoint.
fn with(ecn: Ecn) -> Header {
    Header { ecn, ..segment(10_001, 100) }
}

fn segment(seq: u32, len: u16) -> Header {
    Header {
        seq: Seq(seq),
        ack: Seq(1),
        window: 5,
        len,
        flags: Flags::ACK,
        ecn: Ecn::NotEct,
        timestamps: Some((5000, 1)),
    }
}

/// A silent half whose next byte is 1; the peer's window is 640 bytes, as its segments say, and
/// the timeout is 280 ms.
fn half(config: &Config) -> Half {
    use crate::tcp::sender::Start;
    let mut half = Half::new(config, Seq(1));
    let start = Start {
        mss: 1448,
        peer_scale: 7,
        window: 640,
        peer_seq: Seq(10_001),
        rtt_us: core::num::NonZeroU32::new(80_000),
        ..Start::default()
    };
    half.start(&at_ms(config, 100), start);
    half
}

/// `tcp_sequence`: what ends before the last acknowledgement or begins beyond the window is dropped,
/// and answered (RFC 9293, 3.10.7.4).
#[test]
fn a_segment_must_touch_the_window() {
    let config = linux();
    for (seq, len, accepted) in [
        (10_001, 0, true),
        (10_001, 1448, true),
        (10_000, 1, true),
        (9999, 1, false),
        (10_000, 0, false),
        (74_001, 0, true),
        (74_001, 1448, true),
        (74_002, 1448, false),
        (74_002, 0, false),
    ] {
        let mut receiver = receiver(&config);
        let verdict = receiver.validate(&at_ms(&config, 900), &segment(seq, len), &half(&config));
        assert_eq!(verdict == Verdict::Acceptable, accepted, "{seq} {len}");
        assert_eq!((receiver.now, receiver.scheduled), (!accepted, !accepted));
    }
}

/// `tcp_paws_check` and `tcp_disordered_ack`: timestamps that are older by more than `TCP_PAWS_WINDOW`
/// (1) are dropped, except a duplicate that changes nothing and is no older than a timeout.
#[test]
fn rfc7323_5_old_timestamps_are_dropped() {
    let config = linux();
    for (stamp, recent, seq, len, acked, accepted) in [
        (5000, 5000, 10_001, 1448, 1, true),
        (4999, 5000, 10_001, 1448, 1, true),
        (4998, 5000, 10_001, 1448, 1, false),
        (4998, 0, 10_001, 1448, 1, true),
        (9000, 5000, 10_001, 1448, 1, true),
        // A duplicate: 280 ms at most.
        (4998, 5000, 10_001, 0, 1, true),
        (4720, 5000, 10_001, 0, 1, true),
        (4719, 5000, 10_001, 0, 1, false),
        (4998, 5000, 10_000, 0, 1, false),
        (4998, 5000, 10_002, 0, 1, false),
        (4998, 5000, 10_001, 0, 2, false),
        (4998, 5000, 10_001, 0, 0, false),
    ] {
        let mut receiver = receiver(&config);
        receiver.ts_recent = recent;
        let header = Header { timestamps: Some((stamp, 1)), ack: Seq(acked), ..segment(seq, len) };
        let verdict = receiver.validate(&at_ms(&config, 900), &header, &half(&config));
        let case = (stamp, recent, seq, len, acked);
        assert_eq!(verdict == Verdict::Acceptable, accepted, "{case:?}");
    }
    let mut without = receiver(&config);
    without.timestamps = false;
    let old = Header { timestamps: Some((1, 1)), ..segment(10_001, 1448) };
    let verdict = without.validate(&at_ms(&config, 900), &old, &half(&config));
    assert_eq!(verdict, Verdict::Acceptable);
}

/// RFC 7323, 4.3: the timestamp to be echoed is that of the segment that reaches back to the last
/// acknowledgement, and does not go back.
#[test]
fn rfc7323_4_3_which_timestamp_is_echoed() {
    let config = linux();
    for (seq, stamp, echoed) in [
        (10_001, 5000, 5000),
        (10_001, 5001, 5001),
        (10_001, 4999, 5000),
        (9000, 5001, 5001),
        (10_002, 5001, 5000),
    ] {
        let mut receiver = receiver(&config);
        let header = Header { timestamps: Some((stamp, 1)), ..segment(seq, 100) };
        receiver.note_stamp(&header);
        assert_eq!(receiver.ts_recent, echoed, "{seq} {stamp}");
    }
}

/// Header prediction: the next byte, and a timestamp, if there should be one, that is not older.
#[test]
fn only_the_next_segment_is_expected() {
    let config = linux();
    for (seq, stamps, stamp, expected) in [
        (10_001, true, Some(5000), true),
        (10_001, true, Some(5001), true),
        (10_001, true, Some(4999), false),
        (10_001, true, None, false),
        (10_001, false, None, true),
        (10_001, false, Some(5000), false),
        (10_002, true, Some(5000), false),
        (10_000, true, Some(5000), false),
    ] {
        let mut receiver = receiver(&config);
        receiver.timestamps = stamps;
        let header = Header { timestamps: stamp.map(|stamp| (stamp, 1)), ..segment(seq, 100) };
        assert_eq!(receiver.expects(&header), expected, "{seq} {stamps} {stamp:?}");
    }
}

/// `tcp_oow_rate_limited`: an answer every 500 ms, which are 125 jiffies; the first is free.
#[test]
fn answers_without_data_are_rationed() {
    let config = linux();
    let mut receiver = receiver(&config);
    let answers: Vec<bool> = [1000, 1004, 1496, 1500, 1996, 2000]
        .map(|ms| receiver.may_answer(&at_ms(&config, ms)))
        .into();
    assert_eq!(answers, [true, false, false, true, false, true]);
    // Data, and SYNs, are answered in any case (`tcp_send_dupack`).
    for (len, syn, answered) in [(0, false, false), (1, false, true), (0, true, true)] {
        let mut receiver = self::receiver(&config);
        receiver.answered_at = 250;
        let flags = if syn { Flags::SYN } else { Flags::ACK };
        receiver.answer_old(&at_ms(&config, 1004), &Header { flags, ..segment(20_000, len) });
        assert_eq!(receiver.now, answered, "{len} {syn}");
        assert_eq!(receiver.quick, 0, "it is not a retransmission");
    }
}

/// `tcp_send_dupack` and RFC 2883, 4: what is old is reported, up to what is expected next.
#[test]
fn old_data_are_reported_as_far_as_they_are_old() {
    let config = linux();
    for (seq, len, fin, reported) in [
        (9000, 1000, false, Some((9000, 10_000))),
        (9000, 1001, false, Some((9000, 10_001))),
        (9000, 1448, false, Some((9000, 10_001))),
        (9000, 0, true, Some((9000, 9001))),
        (10_001, 100, false, None),
        (9000, 0, false, None),
    ] {
        for sack in [true, false] {
            let mut receiver = receiver(&config);
            (receiver.sack, receiver.window) = (sack, 64_000);
            let flags = if fin { Flags::FIN.with(Flags::ACK) } else { Flags::ACK };
            receiver.answer_old(&at_ms(&config, 1004), &Header { flags, ..segment(seq, len) });
            let reported = reported.map(|(start, end)| (Seq(start), Seq(end)));
            let dsack_sent = receiver.trouble().and_then(|trouble| trouble.dsack);
            assert_eq!(dsack_sent, reported.filter(|_| sack), "{seq} {len} {fin}");
            assert_eq!(receiver.quick, if reported.is_some() { 16 } else { 0 });
            assert_eq!(receiver.has_sack_blocks(), reported.is_some() && sack);
        }
    }
}

/// `tcp_data_queue`: old, beyond the window, out of order, overlapping, or next.
#[test]
fn where_a_segment_lies_decides_what_becomes_of_it() {
    let config = linux();
    for (seq, len, next, dsack, gap, quick) in [
        (10_001, 1448, 11_449, None, false, 16),
        (9001, 1000, 10_001, Some((9001, 10_001)), false, 16),
        (9001, 1001, 10_002, Some((9001, 10_001)), false, 16),
        (10_002, 1448, 10_001, None, true, 0),
        (74_000, 1448, 10_001, None, true, 0),
        (74_001, 1448, 10_001, None, false, 16),
    ] {
        let config = Config { receive_autotuning: false, ..config.clone() };
        let mut receiver = receiver(&config);
        receiver.take_data(&at_ms(&config, 900), &segment(seq, len), 70);
        assert_eq!(receiver.rcv_nxt, Seq(next), "{seq} {len}");
        assert_eq!(receiver.bytes_received, u64::from(next - 10_001));
        let dsack_sent = receiver.trouble().and_then(|trouble| trouble.dsack);
        assert_eq!(dsack_sent, dsack.map(|(start, end)| (Seq(start), Seq(end))), "{seq} {len}");
        assert_eq!((receiver.has_gap(), receiver.scheduled), (gap, true), "{seq} {len}");
        assert_eq!(receiver.quick, quick, "{seq} {len}");
    }
}

/// RFC 5681, 4.2, and RFC 9293, 3.10.7.4: a segment that fills a hole is acknowledged at once, and
/// a FIN counts when everything before it has arrived. It is no payload.
#[test]
fn a_fin_counts_when_everything_before_it_is_there() {
    let config = linux();
    let fin = Flags::FIN.with(Flags::ACK);
    let mut receiver = receiver(&config);
    let cx = at_ms(&config, 900);
    receiver.take_data(&cx, &Header { flags: fin, ..segment(12_001, 500) }, 70);
    receiver.take_data(&cx, &segment(11_001, 500), 70);
    assert!(!receiver.fin_received && receiver.has_gap() && !receiver.now);
    receiver.take_data(&cx, &segment(10_001, 1000), 70);
    assert_eq!((receiver.rcv_nxt, receiver.now), (Seq(11_501), false), "a hole remains");
    assert!(receiver.has_gap() && !receiver.fin_received);
    receiver.take_data(&cx, &segment(11_501, 500), 70);
    assert_eq!((receiver.rcv_nxt, receiver.bytes_received), (Seq(12_502), 2500));
    assert!(receiver.fin_received && receiver.now && !receiver.has_gap() && receiver.pingpong);
    // Once more.
    receiver.take_data(&cx, &Header { flags: fin, ..segment(12_001, 500) }, 70);
    assert_eq!(receiver.bytes_received, 2500);
    // In order, with and without payload.
    for len in [0, 700] {
        let mut receiver = self::receiver(&config);
        receiver.take_data(&cx, &Header { flags: fin, ..segment(10_001, len) }, 70);
        assert!(receiver.fin_received && receiver.scheduled);
        assert_eq!(receiver.bytes_received, u64::from(len));
        assert_eq!(receiver.rcv_nxt, Seq(10_002 + u32::from(len)));
    }
}

/// RFC 2018, 4, and RFC 2883, 4: a D-SACK is reported once and comes first; three blocks fit.
#[test]
fn blocks_are_reported_after_a_duplicate() {
    let config = linux();
    let mut receiver = receiver(&config);
    let cx = at_ms(&config, 900);
    assert!(!receiver.has_sack_blocks() && receiver.take_sack_blocks().is_empty());
    for seq in [11_000, 12_000, 13_000] {
        receiver.take_data(&cx, &segment(seq, 500), 70);
    }
    let starts = |receiver: &mut Receiver| {
        let blocks = receiver.take_sack_blocks();
        blocks.as_slice().iter().map(|block| block.0.0).collect::<Vec<_>>()
    };
    assert_eq!(starts(&mut receiver), [13_000, 12_000, 11_000]);
    receiver.take_data(&cx, &segment(9000, 500), 70);
    assert_eq!(starts(&mut receiver), [9000, 13_000, 12_000]);
    assert_eq!(starts(&mut receiver), [13_000, 12_000, 11_000]);
    assert!(receiver.heap_bytes() > size_of::<Trouble>() + size_of::<More>());
    receiver.sack = false;
    assert!(!receiver.has_sack_blocks() && starts(&mut receiver).is_empty());
    // When everything is in order and reported, nothing of this is kept.
    for seq in [10_001, 11_500, 12_500] {
        receiver.take_data(&cx, &segment(seq, 999), 70);
    }
    assert!(!receiver.has_gap());
    receiver.on_ack_sent(&cx);
    assert!(receiver.trouble().is_none());
}

/// RFC 3168, 6.1.3: a mark is echoed until CWR comes. Linux hurries at the first mark, at CWR with
/// data, and at a segment without ECT after others with it.
#[test]
fn marks_are_echoed_and_hurry() {
    for (acks, hurries) in [(AckPolicy::Linux, true), (AckPolicy::Linux26, false)] {
        let config = Config { acks, ..linux() };
        let cx = at_ms(&config, 900);
        let mut receiver = receiver(&config);
        receiver.check_ce(&cx, &with(Ecn::Ce));
        assert_eq!(receiver.echo, 0, "ECN is not in use");
        receiver.ecn = true;
        receiver.check_ce(&cx, &with(Ecn::NotEct));
        let quick = |hurries: bool| if hurries { 2 } else { 0 };
        assert_eq!(receiver.quick, quick(!hurries));
        receiver.quick = 0;
        receiver.check_ce(&cx, &with(Ecn::Ect0));
        assert_eq!((receiver.quick, receiver.echo != 0), (0, false));
        receiver.check_ce(&cx, &with(Ecn::Ce));
        assert_eq!((receiver.quick, receiver.echo != 0), (quick(hurries), true));
        receiver.quick = 0;
        receiver.check_ce(&cx, &with(Ecn::Ce));
        assert_eq!((receiver.quick, receiver.echo != 0), (0, true));
        receiver.check_ce(&cx, &with(Ecn::NotEct));
        assert_eq!(receiver.quick, 2, "probably a retransmission");
        receiver.accept_cwr(&cx, &segment(10_001, 100));
        assert!(receiver.echo != 0 && !receiver.now);
        for len in [0, 100] {
            receiver.check_ce(&cx, &with(Ecn::Ce));
            let header = Header { flags: Flags::CWR.with(Flags::ACK), ..segment(10_001, len) };
            receiver.accept_cwr(&cx, &header);
            assert_eq!((receiver.echo != 0, receiver.now), (false, hurries && len > 0));
        }
    }
}
