//! The kernel's rules for acknowledgements, worked out by hand. A jiffy is 4 ms, so `TCP_ATO_MIN`
//! and `TCP_DELACK_MIN` are 10 jiffies, and `TCP_DELACK_MAX` is 50.

use alloc::vec::Vec;

use narrows_units::{Ecn, Time};

use super::*;
use crate::tcp::receiver::Said;
use crate::tcp::{Config, Seq};

fn linux() -> Config {
    Config::profile("linux-6").expect("a known profile")
}

fn at_jiffy(config: &Config, jiffy: u32) -> Context<'_> {
    Context::new(config, Time::ZERO + Span::from_ms(4 * u64::from(jiffy)))
}

/// A receiver of full segments of 1448 bytes. Its window is 65160 bytes.
fn receiver(config: &Config) -> Receiver {
    let mut receiver = Receiver::new(config);
    receiver.start(Seq(1), true);
    receiver.sack = true;
    receiver.window = 65_160;
    receiver.rcv_mss = 1448;
    receiver
}

fn segment(len: u16, flags: Flags) -> Header {
    let (seq, ack) = (Seq(1), Seq(1));
    Header { seq, ack, window: 500, len, flags, ecn: Ecn::NotEct, timestamps: None }
}

/// `tcp_event_data_recv`: the estimate after a gap between segments, and the quick
/// acknowledgements.
#[test]
fn the_delay_follows_the_gaps_between_segments() {
    let config = linux();
    for (ato, gap, rto, expected, quick) in [
        // The first data.
        (0, 1000, 75, 10, 16),
        (20, 0, 75, 15, 0),
        (20, 5, 75, 15, 0),
        (20, 6, 75, 16, 0),
        (20, 19, 75, 29, 0),
        (20, 19, 25, 25, 0),
        (20, 20, 75, 20, 0),
        (20, 75, 75, 20, 0),
        // The sender may be restarting.
        (20, 76, 75, 20, 16),
        (10, 5, 75, 10, 0),
        (10, 9, 75, 14, 0),
    ] {
        let mut receiver = receiver(&config);
        (receiver.ato, receiver.last_data) = (ato, 100);
        let header = segment(1448, Flags::ACK);
        receiver.observe(&at_jiffy(&config, 100 + gap), &header, rto);
        assert_eq!((receiver.ato, receiver.quick), (expected, quick), "{ato} {gap} {rto}");
        assert_eq!(receiver.last_data, 100 + gap);
    }
}

/// `tcp_incr_quickack`: one for every two segments of the window, at least two if it is smaller
/// than that, and no fewer than there were.
#[test]
fn quick_acknowledgements_cover_the_window() {
    let config = linux();
    for (window, mss, most, before, expected) in [
        (65_160, 1448, 16, 0, 16),
        (28_960, 1448, 16, 0, 10),
        (28_959, 1448, 16, 0, 9),
        (2896, 1448, 16, 0, 1),
        (2895, 1448, 16, 0, 2),
        (65_160, 1448, 2, 0, 2),
        (65_160, 1448, 2, 5, 5),
    ] {
        let mut receiver = receiver(&config);
        (receiver.window, receiver.rcv_mss, receiver.quick) = (window, mss, before);
        receiver.add_quick(most);
        assert_eq!(receiver.quick, expected, "{window} {mss} {most}");
    }
    let mut receiver = receiver(&config);
    (receiver.pingpong, receiver.ato) = (true, 40);
    receiver.enter_quick_mode(&at_jiffy(&config, 0), 2);
    assert_eq!((receiver.quick, receiver.pingpong, receiver.ato), (2, false, 10));
}

/// `find_full_segments`: full segments set the size; two equal ones of 536 bytes and more do so,
/// too; smaller ones, and since 6.1.57 full ones with PSH, end a write.
#[test]
fn the_size_of_full_segments_is_learned() {
    const A: Flags = Flags::ACK;
    const P: Flags = Flags::PSH;
    for (segments, mss, last_small, pushed, again) in [
        (&[(1448, A)][..], 1448, 0, false, false),
        (&[(1448, P)], 1448, 0, true, false),
        (&[(1460, A)], 1460, 0, false, false),
        (&[(1447, A)], 1448, 1447, true, false),
        (&[(1000, A), (1000, A)], 1000, 1000, true, false),
        (&[(1000, A), (999, A)], 1448, 999, true, true),
        (&[(536, A), (536, A)], 536, 536, true, false),
        (&[(535, A), (535, A)], 1448, 0, true, true),
        (&[(1000, A), (1448, A), (1000, A)], 1448, 1000, true, true),
        (&[(1000, A), (100, A), (1000, A)], 1448, 1000, true, true),
        (&[(1448, P), (100, A)], 1448, 0, true, true),
    ] {
        let mut receiver = receiver(&linux());
        for &(len, flags) in segments {
            receiver.find_full_segments(&segment(len, flags));
        }
        assert_eq!((receiver.rcv_mss, receiver.last_small), (mss, last_small), "{segments:?}");
        assert_eq!((receiver.pushed, receiver.pushed_again), (pushed, again), "{segments:?}");
    }
}

/// `tcp_send_delayed_ack`: the estimate, at most a round trip (at least 40 ms) or 200 ms. The timer
/// wheel fires one jiffy later.
#[test]
fn the_delay_is_bounded_by_the_round_trip() {
    let config = linux();
    for (ato, srtt_us, jiffies) in [
        (0, None, 1),
        (1, None, 1),
        (10, Some(20_000), 10),
        (8, Some(20_000), 8),
        (30, None, 30),
        (30, Some(100_000), 25),
        (30, Some(100_001), 26),
        (30, Some(20_000), 10),
        (30, Some(400_000), 30),
        (50, None, 50),
        (51, None, 50),
        (100, Some(400_000), 50),
    ] {
        for pushed in [false, true] {
            let mut receiver = receiver(&config);
            (receiver.ato, receiver.pushed) = (ato, pushed);
            let cx = at_jiffy(&config, 1000);
            assert_eq!(receiver.delay(&cx, srtt_us), Decision::Nothing);
            assert_eq!(receiver.ack_at, cx.deadline(jiffies).into(), "{ato} {srtt_us:?}");
        }
    }
}

/// `tcp_send_delayed_ack`: if the timer fires within a quarter of the delay, the acknowledgement
/// need not wait. Otherwise the earlier time counts.
#[test]
fn a_timer_that_is_about_to_fire_is_not_awaited() {
    let config = linux();
    let cx = at_jiffy(&config, 1000);
    for (in_us, ato, expected) in [
        (20_000, 20, Decision::Send),
        (20_001, 20, Decision::Nothing),
        (20_000, 23, Decision::Send),
        (20_000, 19, Decision::Nothing),
        (70_000, 20, Decision::Nothing),
    ] {
        let mut receiver = receiver(&config);
        receiver.ato = ato;
        let due = cx.now + Span::from_us(in_us);
        receiver.ack_at = due.into();
        assert_eq!(receiver.delay(&cx, None), expected, "{in_us} {ato}");
        assert_eq!(receiver.ack_at, due.into());
    }
    let mut receiver = receiver(&config);
    receiver.ato = 20;
    receiver.ack_at = (cx.now + Span::from_ms(500)).into();
    assert_eq!(receiver.delay(&cx, None), Decision::Nothing);
    assert_eq!(receiver.ack_at, cx.deadline(20).into());
}

/// `tcp_event_data_sent`: data within the estimate after the last data make a conversation.
#[test]
fn an_answer_within_the_delay_is_a_conversation() {
    let config = linux();
    for (ato, gap, expected) in [(0, 0, false), (10, 0, true), (10, 9, true), (10, 10, false)] {
        let mut receiver = receiver(&config);
        (receiver.ato, receiver.last_data) = (ato, 100);
        receiver.on_data_sent(&at_jiffy(&config, 100 + gap));
        assert_eq!(receiver.pingpong, expected, "{ato} {gap}");
    }
}

/// `tcp_event_ack_sent`: a quick acknowledgement is counted if one was owed, and after the last one
/// the delay is the shortest.
#[test]
fn quick_acknowledgements_are_counted_down() {
    let config = linux();
    for (quick, scheduled, left, ato) in
        [(2, true, 1, 30), (1, true, 0, 10), (0, true, 0, 30), (2, false, 2, 30), (1, false, 1, 30)]
    {
        let mut receiver = receiver(&config);
        (receiver.quick, receiver.scheduled, receiver.ato) = (quick, scheduled, 30);
        (receiver.now, receiver.pushed, receiver.pushed_again) = (true, true, true);
        (receiver.rcv_nxt, receiver.ack_at) = (Seq(500), Time::ZERO.into());
        receiver.on_ack_sent(&at_jiffy(&config, 5));
        assert_eq!((receiver.quick, receiver.ato), (left, ato), "{quick} {scheduled}");
        let cleared = receiver.scheduled | receiver.now | receiver.pushed | receiver.pushed_again;
        assert!(!cleared && receiver.ack_at == MaybeTime::NONE);
        assert_eq!(receiver.rcv_wup, Seq(500));
    }
    // The handshake's third segment reports a mark once; a later one reports it until CWR.
    for (first, demands) in [(true, false), (false, true)] {
        let mut receiver = receiver(&config);
        (receiver.first, receiver.echo) = (first, 1);
        let plain = Said { ack: Seq(500), flags: Flags::ACK, ecn: Ecn::NotEct };
        let header = receiver.report_ecn(&at_jiffy(&config, 5), plain, 0);
        assert_eq!(header.flags, Flags::ACK.with(Flags::ECE));
        assert_eq!((receiver.first, receiver.echo), (false, u8::from(demands)));
    }
}

/// `tcp_delack_timer_handler`: a wait in vain doubles the estimate, up to the timeout, or ends a
/// conversation.
#[test]
fn a_wait_in_vain_doubles_the_delay() {
    let config = linux();
    for (pingpong, ato, rto, expected) in
        [(false, 20, 75, 40), (false, 40, 75, 75), (true, 40, 75, 10)]
    {
        let mut receiver = receiver(&config);
        (receiver.pingpong, receiver.ato, receiver.scheduled) = (pingpong, ato, true);
        let due = Time::ZERO + Span::from_ms(400);
        receiver.ack_at = due.into();
        receiver.handle_timeout(&at_jiffy(&config, 99), rto);
        assert_eq!((receiver.now, receiver.ato), (false, ato), "it is not due");
        receiver.handle_timeout(&at_jiffy(&config, 100), rto);
        assert!(receiver.now && receiver.ack_at == MaybeTime::NONE);
        assert_eq!((receiver.ato, receiver.pingpong), (expected, false), "{pingpong} {ato}");
    }
    // Nothing is owed.
    let mut receiver = receiver(&config);
    (receiver.ato, receiver.ack_at) = (20, Time::ZERO.into());
    receiver.handle_timeout(&at_jiffy(&config, 100), 75);
    assert_eq!((receiver.now, receiver.ato), (false, 20));
}

/// `__tcp_ack_snd_check`: three duplicates are answered, and then 44 are held back for a part of the
/// round trip, at most a millisecond.
#[test]
fn duplicates_are_held_back_for_a_part_of_the_round_trip() {
    let config = linux();
    let newer = Config { comp_sack_rtt_percent: 33, ..linux() };
    for (config, srtt_us, delay_us) in [
        (&config, Some(10_000), 500),
        (&config, Some(20_000), 1000),
        (&config, Some(100_000), 1000),
        (&config, None, 0),
        (&newer, Some(2000), 660),
        (&newer, Some(4000), 1000),
    ] {
        let mut receiver = receiver(config);
        receiver.new_trouble();
        let cx = at_jiffy(config, 1000);
        let answers: Vec<_> = (0..48)
            .map(|_| {
                receiver.scheduled = true;
                receiver.compress(&cx, srtt_us)
            })
            .collect();
        let expected = |n| if n < 3 || n == 47 { Decision::Send } else { Decision::Nothing };
        assert!(answers.iter().enumerate().all(|(n, &did)| did == expected(n)), "{answers:?}");
        assert_eq!(receiver.ack_at, (cx.now + Span::from_us(delay_us)).into(), "{srtt_us:?}");
        assert!(!receiver.now);
        receiver.flush_compressed();
        assert!(receiver.now && receiver.scheduled);
    }
    // Above another hole, three are answered again.
    let mut receiver = receiver(&config);
    receiver.new_trouble();
    let cx = at_jiffy(&config, 1000);
    for _ in 0..4 {
        receiver.compress(&cx, Some(10_000));
    }
    receiver.rcv_nxt = Seq(100);
    let next = [(); 4].map(|()| receiver.compress(&cx, Some(10_000)));
    assert_eq!(next, [Decision::Send, Decision::Send, Decision::Send, Decision::Nothing]);
    // Without SACK, all are answered.
    receiver.sack = false;
    assert_eq!(receiver.compress(&cx, Some(10_000)), Decision::Send);
    // Nothing is held back, so there is nothing to flush.
    let mut fresh = receiver_with_nothing_held(&config);
    fresh.flush_compressed();
    assert!(!fresh.now);
}

fn receiver_with_nothing_held(config: &Config) -> Receiver {
    let mut fresh = receiver(config);
    fresh.new_trouble();
    fresh
}

/// RFC 1122, 4.2.3.2, with a delay of 100 ms: every second full segment, and at once if data are
/// missing or something hurries.
#[test]
fn a_fixed_delay_waits_for_the_second_segment() {
    let delay = Span::from_ms(100);
    let config = Config { acks: AckPolicy::Delayed(delay), ..linux() };
    for (arrived, now, gap, expected) in [
        (1448, false, false, Decision::Nothing),
        (2895, false, false, Decision::Nothing),
        (2896, false, false, Decision::Send),
        (0, false, false, Decision::Send),
        (1, false, false, Decision::Nothing),
        (1448, true, false, Decision::Send),
        (1448, false, true, Decision::Send),
    ] {
        let mut receiver = receiver(&config);
        (receiver.scheduled, receiver.now) = (true, now);
        receiver.rcv_nxt = Seq(1 + arrived);
        if gap {
            receiver.new_trouble().queue.insert(Seq(9000), Seq(9100), &mut None);
        }
        let cx = at_jiffy(&config, 1000);
        assert_eq!(receiver.decide(&cx, None), expected, "{arrived} {now} {gap}");
        let due =
            if expected == Decision::Nothing { (cx.now + delay).into() } else { MaybeTime::NONE };
        assert_eq!(receiver.ack_at, due);
        // The timer runs since the first segment.
        receiver.decide(&at_jiffy(&config, 1010), None);
        assert_eq!(receiver.ack_at, due);
    }
}

/// `__tcp_ack_snd_check` and `tcp_cleanup_rbuf`, without a buffer that could change the window.
#[test]
fn what_is_acknowledged_at_once() {
    let config = linux();
    // Bytes that arrived, quick acknowledgements, a conversation, ends of writes, a hole.
    for (arrived, quick, pingpong, pushes, gap, expected) in [
        (1448, 0, false, 0, false, Decision::Nothing),
        (1449, 0, false, 0, false, Decision::Send),
        (1449, 0, true, 0, false, Decision::Send),
        (1448, 1, false, 0, false, Decision::Send),
        (1448, 1, true, 0, false, Decision::Nothing),
        (100, 0, false, 1, false, Decision::Send),
        (100, 0, true, 1, false, Decision::Nothing),
        (100, 0, true, 2, false, Decision::Send),
        (0, 0, false, 2, false, Decision::Nothing),
        (0, 0, false, 0, false, Decision::Nothing),
        // A duplicate.
        (0, 0, false, 0, true, Decision::Send),
    ] {
        let mut receiver = receiver(&config);
        (receiver.scheduled, receiver.ato) = (true, 10);
        receiver.rcv_nxt = Seq(1 + arrived);
        (receiver.quick, receiver.pingpong) = (quick, pingpong);
        (receiver.pushed, receiver.pushed_again) = (pushes > 0, pushes > 1);
        if gap {
            receiver.new_trouble().queue.insert(Seq(9000), Seq(9100), &mut None);
        }
        let decision = receiver.decide(&at_jiffy(&config, 1000), None);
        assert_eq!(decision, expected, "{arrived} {quick} {pingpong} {pushes} {gap}");
    }
}
