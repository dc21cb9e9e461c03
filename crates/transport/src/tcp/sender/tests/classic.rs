//! The textbook's Tahoe, Reno and NewReno, and messages about the path's MTU.

use super::*;
use crate::tcp::Recovery;
use crate::tcp::segment::Header;
use crate::tcp::{AckPolicy, Flags};

fn textbook(recovery: Recovery) -> Config {
    Config { recovery, acks: AckPolicy::EverySegment, ..Config::profile("ns-2").expect("listed") }
}

/// Ten segments of 1000 bytes in flight, all of which the window holds.
fn sending(config: &Config) -> Sender {
    let mut sender = in_flight(config);
    (sender.sack, sender.window.cwnd, sender.high_seq) = (false, 10, Seq(0));
    sender.cwnd_limited = true;
    sender
}

fn ack(ack: u32) -> Header {
    let (seq, window, len) = (Seq(0), 1000, 0);
    let ecn = narrows_units::Ecn::NotEct;
    Header { seq, ack: Seq(ack), window, len, flags: Flags::ACK, ecn, timestamps: None }
}

/// RFC 5681, 3.2, and RFC 3042: the third duplicate halves the window and inflates it by three, each
/// further one by one. The first two let new segments out if they may.
#[test]
fn rfc5681_3_2_the_third_duplicate_counts() {
    for (recovery, limited, expected) in [
        // Window and inflation after each duplicate.
        (Recovery::Reno, true, [(10, 1), (10, 2), (5, 3), (5, 4)]),
        (Recovery::Reno, false, [(10, 0), (10, 0), (5, 3), (5, 4)]),
        (Recovery::NewReno, true, [(10, 1), (10, 2), (5, 3), (5, 4)]),
        (Recovery::Tahoe, true, [(10, 1), (10, 2), (1, 0), (1, 1)]),
    ] {
        let config = Config { limited_transmit: limited, ..textbook(recovery) };
        let mut sender = sending(&config);
        sender.snd_wnd = 1000;
        let cx = at(&config, 200);
        for (n, expected) in expected.into_iter().enumerate() {
            sender.todo = 0;
            assert!(sender.handle_ack(&cx, &ack(1), &[]));
            let state = (sender.window.cwnd, u32::from(sender.inflation));
            assert_eq!(state, expected, "{recovery:?}, duplicate {}", n + 1);
            assert_eq!(sender.todo & todo::HEAD != 0, n == 2);
        }
        assert_eq!(sender.tally().fast_recoveries, 1);
        assert_eq!((sender.window.ssthresh, sender.high_seq), (5, Seq(10_001)));
        let lost = if recovery == Recovery::Tahoe { 10 } else { 0 };
        assert_eq!(sender.lost_out, lost);
    }
    // Not again within the same window (ns-2's `bugFix_`), and not for data or a new window.
    for (una, high, len, window, halves) in [
        (2001, 2001, 0, 1000, false),
        (2001, 2000, 0, 1000, true),
        (2001, 2000, 1, 1000, false),
        (2001, 2000, 0, 1001, false),
    ] {
        let config = textbook(Recovery::Reno);
        let mut sender = sending(&config);
        (sender.snd_una, sender.high_seq, sender.snd_wnd) = (Seq(una), Seq(high), 1000);
        for n in 0..3 {
            let window = if window > 1000 { window + n } else { window };
            let header = Header { len, window, ..ack(una) };
            sender.handle_ack(&at(&config, 200), &header, &[]);
        }
        assert_eq!(sender.window.cwnd, if halves { 5 } else { 10 }, "{una} {high} {len} {window}");
    }
}

/// RFC 5681, 2 (a): a duplicate answers data in flight.
#[test]
fn rfc5681_2_nothing_in_flight_has_no_duplicates() {
    let config = textbook(Recovery::Reno);
    for (packets, duplicates) in [(0, 0), (1, 3)] {
        let mut sender = sending(&config);
        (sender.packets_out, sender.snd_wnd) = (packets, 1000);
        sender.unsent.write(9000);
        for _ in 0..3 {
            sender.handle_ack(&at(&config, 200), &ack(1), &[]);
        }
        assert_eq!(sender.dupacks, duplicates, "{packets}");
        assert_eq!(sender.window.cwnd, if duplicates > 0 { 5 } else { 10 }, "{packets}");
    }
}

/// RFC 6582, 3.2, step 3: a partial acknowledgement sends the next hole, takes what it acknowledges
/// off the inflation and adds one; only the first restarts the timer. Reno leaves recovery.
#[test]
fn rfc6582_3_2_partial_acknowledgements() {
    for (recovery, number, first, state, inflation, restarts) in [
        (Recovery::NewReno, 3001, true, State::Recovery, 6 + 1 - 3, true),
        (Recovery::NewReno, 3001, false, State::Recovery, 6 + 1 - 3, false),
        (Recovery::NewReno, 9001, true, State::Recovery, 0, true),
        (Recovery::NewReno, 10_001, true, State::Open, 0, true),
        (Recovery::Reno, 3001, true, State::Open, 0, true),
    ] {
        let config = textbook(recovery);
        let mut sender = sending(&config);
        (sender.state, sender.high_seq, sender.inflation) = (State::Recovery, Seq(10_001), 6);
        sender.window = Window { cwnd: 5, ssthresh: 5, count: 0 };
        sender.dupacks = 7;
        let start = Seq(if first { 1 } else { 0 });
        sender.undo.episode = Some(episode::Episode { start, unexplained: None });
        let before = MaybeTime::from(Time::ZERO + Span::from_ms(333));
        sender.timer_at = before;
        sender.todo = 0;
        sender.handle_ack(&at(&config, 200), &ack(number), &[]);
        assert_eq!((sender.state, sender.inflation), (state, inflation), "{recovery:?} {number}");
        assert_eq!(sender.dupacks, 0);
        assert_eq!(sender.timer_at != before, restarts, "{recovery:?} {number}");
        let partial = state == State::Recovery;
        assert_eq!(sender.todo & todo::HEAD != 0, partial);
        // Five acknowledged segments open a window of five, and one does not.
        assert_eq!((sender.window.cwnd, sender.window.count), (5, u32::from(!partial)));
    }
}

/// Karn's algorithm, with one timed segment for each window (ns-2): what ends above the last timed
/// window and was sent once.
#[test]
fn one_segment_of_each_window_is_timed() {
    let config = textbook(Recovery::Reno);
    for (number, round_end, resent, sample_ms) in [
        (1001, 0, None, Some(200)),
        (1001, 1000, None, Some(200)),
        (1001, 1001, None, None),
        (3001, 1001, None, Some(199)),
        (3001, 0, Some(0), Some(199)),
        (1001, 0, Some(0), None),
    ] {
        let mut sender = sending(&config);
        sender.rtt = rtt::Rtt::new(Seq(round_end));
        if let Some(k) = resent {
            sender.board.at_mut(k).flags |= scoreboard::EVER_RETRANSMITTED;
        }
        sender.handle_ack(&at(&config, 200), &ack(number), &[]);
        let sampled = sample_ms.map(|ms| 1000 * ms);
        assert_eq!(sender.rtt.shortest_us(), sampled, "{number} {round_end} {resent:?}");
        // In whole ticks of 10 ms.
        let ticks = sampled.map(|us: u32| us / 10_000 * 10_000);
        assert_eq!(sender.rtt.smoothed_us(), ticks, "{number} {round_end} {resent:?}");
        let end = if sample_ms.is_some() { 10_001 } else { round_end };
        assert_eq!(sender.rtt.round_end, Seq(end));
    }
}

/// RFC 5681, 3.1: a new acknowledgement opens the window once, unless it has an echo, is in recovery,
/// or the window was not used. What was lost or sent again is counted off.
#[test]
fn a_new_acknowledgement_opens_the_window_once() {
    let config = textbook(Recovery::Reno);
    for (limited, state, high, cwnd, state_after) in [
        (true, State::Open, 0, 11, State::Open),
        (false, State::Open, 0, 10, State::Open),
        (true, State::Loss, 10_001, 11, State::Loss),
        (true, State::Loss, 4001, 11, State::Open),
        (true, State::Loss, 4000, 11, State::Open),
        (true, State::Loss, 4002, 11, State::Loss),
    ] {
        let mut sender = sending(&config);
        (sender.cwnd_limited, sender.state, sender.high_seq) = (limited, state, Seq(high));
        sender.max_packets_out = 1;
        sender.inflation = 2;
        sender.mark_lost(&at(&config, 0), 1);
        sender.mark_lost(&at(&config, 0), 5);
        for k in [1, 6] {
            sender.board.at_mut(k).flags |= scoreboard::RETRANSMITTED;
        }
        sender.retrans_out = 2;
        let delivered = sender.delivered;
        sender.todo = 0;
        sender.handle_ack(&at(&config, 200), &ack(4001), &[]);
        assert_eq!((sender.window.cwnd, sender.state), (cwnd, state_after), "{limited} {state:?}");
        assert_eq!((sender.lost_out, sender.retrans_out, sender.packets_out), (1, 1, 6));
        assert_eq!((sender.delivered - delivered, sender.inflation), (4, 0));
        assert_eq!(sender.todo & todo::RETRANSMIT, 0, "what is lost was sent again");
        assert_eq!(sender.todo & todo::NEW, todo::NEW);
    }
    let mut sender = sending(&config);
    sender.mark_lost(&at(&config, 0), 5);
    sender.handle_ack(&at(&config, 200), &ack(1001), &[]);
    assert_eq!(sender.todo & todo::RETRANSMIT, todo::RETRANSMIT);
    // An echo halves the window once, outside recovery.
    for (state, high, expected) in [
        (State::Open, 1000, 5),
        (State::Open, 1001, 10),
        (State::Loss, 1000, 5),
        (State::Recovery, 10_001, 10),
    ] {
        let mut sender = sending(&config);
        (sender.ect, sender.state, sender.high_seq) = (Ecn::Ect0, state, Seq(high));
        let header = Header { flags: Flags::ACK.with(Flags::ECE), ..ack(1001) };
        sender.handle_ack(&at(&config, 200), &header, &[]);
        assert_eq!(sender.window.cwnd, expected, "{state:?} {high}");
        let reduces = expected == 5;
        assert_eq!(
            (sender.queue_cwr, sender.tally().ecn_reductions),
            (reduces, u32::from(reduces))
        );
    }
    // At a timeout all is lost.
    let mut sender = sending(&config);
    (sender.inflation, sender.dupacks, sender.timer_at) = (4, 2, Time::ZERO.into());
    sender.handle_timeout(&at(&config, 4000));
    assert_eq!((sender.window.cwnd, sender.window.ssthresh, sender.lost_out), (1, 5, 10));
    assert_eq!((sender.inflation, sender.dupacks, sender.state), (0, 0, State::Loss));
}

/// RFC 1191, 6.4, and `tcp_v4_err`: a message counts if it is about data in flight and tells a
/// smaller size than the one in use. The window stays, and what was cut is sent again.
#[test]
fn rfc1191_6_4_a_shorter_path_cuts_what_is_in_flight() {
    let config = linux();
    for (seq, mss, counts) in [
        (1, 600, true),
        (0, 600, false),
        (10_000, 600, true),
        (10_001, 600, false),
        (1, 1000, false),
        (1, 999, true),
    ] {
        let mut sender = in_flight(&config);
        sender.window.ssthresh = 4;
        sender.todo = 0;
        let cx = at(&config, 200);
        sender.handle_too_big(&cx, Seq(seq), mss);
        assert_eq!(sender.mss, if counts { mss } else { 1000 }, "{seq} {mss}");
        let packets = if counts { 20 } else { 10 };
        assert_eq!((sender.packets_out, sender.board.len()), (packets, packets));
        assert_eq!(
            (sender.lost_out, sender.lost),
            (packets - 10 + if counts { 10 } else { 0 }, if counts { 20 } else { 0 })
        );
        assert_eq!(sender.state, if counts { State::Loss } else { State::Open });
        assert_eq!(sender.window.cwnd, 10);
        if counts {
            // Three quarters of the window, at least.
            assert_eq!((sender.window.ssthresh, sender.high_seq), (7, Seq(10_001)));
            assert_eq!(sender.todo, todo::RETRANSMIT | todo::NEW);
            assert_eq!(sender.timer, Timer::Retransmission);
            sender.check_invariants();
        }
    }
    // SACKed parts no longer count; segments that are short enough stay.
    let mut sender = in_flight(&config);
    for k in 0..10 {
        let record = sender.board.at_mut(k);
        if k % 2 == 0 { record.flags |= scoreboard::SACKED } else { record.len = 600 }
    }
    (sender.sacked_out, sender.highest_sack) = (5, Seq(9001));
    sender.handle_too_big(&at(&config, 200), Seq(1), 600);
    assert_eq!((sender.packets_out, sender.sacked_out, sender.lost_out), (15, 0, 10));
    // Nothing that was sent is too long, only what comes next.
    let mut sender = in_flight(&config);
    (0..10).for_each(|k| sender.board.at_mut(k).len = 500);
    sender.handle_too_big(&at(&config, 200), Seq(1), 600);
    assert_eq!((sender.mss, sender.state, sender.lost_out), (600, State::Open, 0));
    // After a timeout, ssthresh has fallen already.
    let mut sender = in_flight(&config);
    (sender.state, sender.window.ssthresh) = (State::Loss, 4);
    sender.handle_too_big(&at(&config, 200), Seq(1), 600);
    assert_eq!((sender.window.ssthresh, sender.lost_out), (4, 20));
    // Without SACK, duplicates cannot stand for more than what is not lost.
    let mut sender = in_flight(&config);
    (0..5).for_each(|k| sender.board.at_mut(k).len = 600);
    (sender.sack, sender.sacked_out) = (false, 9);
    sender.handle_too_big(&at(&config, 200), Seq(1), 600);
    assert_eq!((sender.packets_out, sender.lost_out, sender.sacked_out), (15, 10, 5));
}
