//! What acknowledgements tell: which data arrived, how long that took, and whether it is news.

use super::*;
use crate::tcp::Flags;
use crate::tcp::segment::Header;

fn ack(ack: u32) -> Header {
    let (seq, window, len) = (Seq(0), 1000, 0);
    let ecn = narrows_units::Ecn::NotEct;
    Header { seq, ack: Seq(ack), window, len, flags: Flags::ACK, ecn, timestamps: None }
}

/// `tcp_rcv_established`, in its own terms: nothing is dubious, and data in flight are acknowledged.
#[test]
fn a_plain_acknowledgement_covers_data_in_flight() {
    let config = linux();
    let plain = |change: fn(&mut Sender), number| {
        let mut sender = in_flight(&config);
        change(&mut sender);
        sender.predicts(&ack(number))
    };
    for (number, expected) in [(1, false), (2, true), (10_001, true), (10_002, false)] {
        assert_eq!(plain(|_| (), number), expected, "{number}");
    }
    assert!(!plain(|sender| sender.state = State::Disorder, 1001));
    assert!(!plain(|sender| sender.sacked_out = 1, 1001));
    assert!(!plain(|sender| sender.lost_out = 2, 1001));
    assert!(!plain(|sender| sender.retrans_out = 4, 1001));
    let probe = |sender: &mut Sender| {
        sender.probe = Some(Probe { end: Seq(9), is_retransmission: false });
    };
    assert!(!plain(probe, 1001));
}

/// A plain acknowledgement does what the general path does.
#[test]
fn the_short_way_does_the_same() {
    for classic in [false, true] {
        let config =
            if classic { Config::profile("ns-2").expect("a known profile") } else { linux() };
        for number in [1001, 3001, 3500, 10_001] {
            let [mut short, mut long] = [(); 2].map(|()| {
                let mut sender = in_flight(&config);
                sender.sack = !classic;
                (sender.retransmits, sender.cwnd_limited) = (3, true);
                sender
            });
            let cx = at(&config, 250);
            let header = Header { timestamps: Some((9, 101)), ..ack(number) };
            short.take_predicted_ack(&cx, &header);
            assert!(long.handle_ack(&cx, &header, &[]));
            assert_eq!(alloc::format!("{short:?}"), alloc::format!("{long:?}"), "{number}");
            assert_eq!((short.retransmits, short.todo), (0, todo::NEW));
            let left = 10 - (number - 1) / 1000;
            assert_eq!((short.packets_out, short.snd_una), (left, Seq(number)));
        }
    }
}

/// RFC 9293, 3.10.7.4: an acknowledgement of what was not sent is not acceptable; an old one is, but
/// only its SACK blocks can be new.
#[test]
fn old_and_foreign_acknowledgements_change_nothing() {
    let config = linux();
    for (number, blocks, accepted, sacked) in [
        (10_001, false, true, 0),
        (10_002, false, false, 0),
        (0, false, true, 0),
        (0, true, true, 1),
        (1, true, true, 1),
    ] {
        let mut sender = in_flight(&config);
        let block = [(Seq(5001), Seq(6001))];
        let blocks = if blocks { &block[..] } else { &[] };
        sender.todo = 0;
        let delivered = sender.delivered;
        let taken = sender.handle_ack(&at(&config, 200), &ack(number), blocks);
        assert_eq!((taken, sender.sacked_out), (accepted, sacked), "{number}");
        assert_eq!(sender.snd_una, Seq(if number == 10_001 { 10_001 } else { 1 }));
        let left = if number == 10_001 { 10 } else { 0 };
        assert_eq!(sender.delivered - delivered, left + sacked, "{number}");
        assert_eq!(sender.todo & todo::NEW != 0, accepted && (number > 0 || sacked > 0));
    }
}

/// RFC 5681, 2: a duplicate carries no data, no new window and no FIN.
#[test]
fn rfc5681_2_what_a_duplicate_is() {
    let config = Config { sack: false, rack: false, tlp: false, ..linux() };
    for (change, counts) in [
        ((0, 1000, Flags::ACK), true),
        ((1, 1000, Flags::ACK), false),
        ((0, 1001, Flags::ACK), false),
        ((0, 999, Flags::ACK), true),
        ((0, 1000, Flags::ACK.with(Flags::FIN)), false),
    ] {
        let mut sender = in_flight(&config);
        (sender.sack, sender.snd_wnd, sender.state) = (false, 1000, State::Disorder);
        let (len, window, flags) = change;
        let header = Header { len, window, flags, ..ack(1) };
        assert!(sender.handle_ack(&at(&config, 200), &header, &[]));
        assert_eq!(sender.sacked_out, u32::from(counts), "{change:?}");
    }
}

/// RFC 6298, 3 and 4, RFC 7323, 4: what was sent once measures the round trip, from the first of the
/// segments that are acknowledged; otherwise the echo does, if anything is acknowledged.
#[test]
fn rfc6298_3_what_measures_the_round_trip() {
    let config = linux();
    // Segment k was sent at k ms, it is 200 ms, and timestamps count from 1.
    for (number, blocks, resent, echo, sample_ms, least_ms) in [
        (1001, &[][..], None, 0, Some(200), Some(200)),
        (3001, &[], None, 0, Some(200), Some(198)),
        (3001, &[], Some(1), 0, None, None),
        (3001, &[], Some(1), 151, Some(50), Some(50)),
        (3001, &[], Some(1), 201, Some(1), Some(1)),
        // Originals are better than echoes.
        (3001, &[], None, 151, Some(200), Some(198)),
        // SACKed originals count, too.
        (1, &[(5001, 7001)], None, 0, Some(195), Some(194)),
        (1, &[(5001, 6001)], Some(5), 0, None, None),
        (1, &[(5001, 6001)], Some(5), 151, None, None),
        (1001, &[(5001, 6001)], None, 0, Some(200), Some(195)),
    ] {
        let mut sender = in_flight(&config);
        sender.rtt = rtt::Rtt::new(Seq(1));
        if let Some(k) = resent {
            sender.board.at_mut(k).flags |= scoreboard::EVER_RETRANSMITTED;
        }
        let blocks: alloc::vec::Vec<_> = blocks.iter().map(|&(a, b)| (Seq(a), Seq(b))).collect();
        let header = Header { timestamps: Some((9, echo)), ..ack(number) };
        sender.handle_ack(&at(&config, 200), &header, &blocks);
        let case = (number, &blocks, resent, echo);
        assert_eq!(sender.rtt.smoothed_us(), sample_ms.map(|ms| 1000 * ms), "{case:?}");
        assert_eq!(sender.rtt.shortest_us(), least_ms.map(|ms| 1000 * ms), "{case:?}");
    }
    // An echo of INT_MAX microseconds and more is none.
    for (ago_ms, counts) in [(2_147_482_u32, true), (2_147_483, false)] {
        let mut sender = in_flight(&config);
        sender.rtt = rtt::Rtt::new(Seq(1));
        sender.board.at_mut(0).flags |= scoreboard::EVER_RETRANSMITTED;
        let echo = 201_u32.wrapping_sub(ago_ms);
        let header = Header { timestamps: Some((9, echo)), ..ack(1001) };
        sender.handle_ack(&at(&config, 200), &header, &[]);
        assert_eq!(sender.rtt.smoothed_us().is_some(), counts, "{ago_ms}");
    }
}

/// `tcp_ack_update_rtt` with `FLAG_ACK_MAYBE_DELAYED`: a lone small segment's acknowledgement was
/// probably delayed, so a longer time says nothing about the shortest.
#[test]
fn a_lone_small_segment_may_have_been_delayed() {
    let config = linux();
    for (acked, len, delivered, shortest_ms, kept_ms) in
        [(1, 999, 1, 90, 90), (1, 999, 1, 250, 200), (1, 1000, 1, 250, 200), (1, 1000, 1, 90, 90)]
    {
        let mut sender = in_flight(&config);
        sender.rtt = rtt::Rtt::new(Seq(1));
        sender.rtt.note_shortest(&at(&config, 100), 1000 * shortest_ms);
        sender.board.at_mut(0).len = len;
        (sender.delivered, sender.board.at_mut(0).delivered) = (delivered, delivered);
        sender.handle_ack(&at(&config, 200), &ack(1 + u32::from(len) * acked), &[]);
        assert_eq!(sender.rtt.shortest_us(), Some(1000 * kept_ms), "{len} {shortest_ms}");
    }
}

/// RFC 6298 (5.3): the timer starts again when something is acknowledged, and stops when all is.
#[test]
fn rfc6298_5_3_new_acknowledgements_restart_the_timer() {
    let config = Config { tlp: false, ..linux() };
    let cx = at(&config, 200);
    for (number, restarts) in [(1, false), (999, false), (1001, true)] {
        let mut sender = in_flight(&config);
        let before = MaybeTime::from(Time::ZERO + Span::from_ms(333));
        sender.timer_at = before;
        sender.handle_ack(&cx, &ack(number), &[]);
        let due = if restarts { cx.deadline(sender.rtt.rto).into() } else { before };
        assert_eq!(sender.timer_at, due, "{number}");
    }
    let mut sender = in_flight(&config);
    sender.handle_ack(&cx, &ack(10_001), &[]);
    assert_eq!((sender.timer, sender.timer_at), (Timer::Idle, MaybeTime::NONE));
}

/// `tcp_may_raise_cwnd`: acknowledged data raise the window if it was used; SACKed data do so only
/// where segments overtake each other a lot.
#[test]
fn what_raises_the_window() {
    let config = Config { hystart: false, ..linux() };
    for (number, blocks, reordering, limited, cwnd) in [
        (3001, &[][..], 3, true, 13),
        (3001, &[], 3, false, 10),
        (1, &[(5001, 7001)], 3, true, 10),
        (1, &[(5001, 7001)], 4, true, 12),
        (1, &[], 4, true, 10),
    ] {
        let mut sender = in_flight(&config);
        (sender.cwnd_limited, sender.rack.reordering) = (limited, reordering);
        let blocks: alloc::vec::Vec<_> = blocks.iter().map(|&(a, b)| (Seq(a), Seq(b))).collect();
        sender.handle_ack(&at(&config, 200), &ack(number), &blocks);
        assert_eq!(sender.window.cwnd, cwnd, "{number} {blocks:?} {reordering} {limited}");
    }
}

/// RFC 3168, 6.1.2: an echo counts if ECN is in use.
#[test]
fn rfc3168_6_1_2_an_echo_needs_ecn() {
    for (ecn, classic, reduces) in
        [(true, false, true), (false, false, false), (true, true, true), (false, true, false)]
    {
        let config =
            if classic { Config::profile("ns-2").expect("a known profile") } else { linux() };
        let mut sender = in_flight(&config);
        (sender.ect, sender.sack) = (ect_if(ecn), !classic);
        sender.high_seq = Seq(0);
        let header = Header { flags: Flags::ACK.with(Flags::ECE), ..ack(1001) };
        sender.handle_ack(&at(&config, 200), &header, &[]);
        assert_eq!(sender.tally().ecn_reductions, u32::from(reduces), "{ecn} {classic}");
        assert_eq!(sender.window.ssthresh < INFINITE_SSTHRESH, reduces);
    }
}

/// `tcp_skb_timestamp` and `tcp_tsopt_ecr_before`: the timestamp of a segment, and whether an echo is
/// older. 0 is no echo.
#[test]
fn timestamps_of_segments_are_compared() {
    let config = linux();
    for (now_us, sent_us, stamp) in [
        (200_000, 200_000, 201),
        (200_000, 100_000, 101),
        (200_999, 200_000, 201),
        (200_999, 199_999, 200),
    ] {
        let cx = Context::new(&config, Time::ZERO + Span::from_us(now_us));
        assert_eq!(ack::stamp_of(&cx, sent_us), stamp, "{now_us} {sent_us}");
    }
    for (echo, stamp, before) in [
        (0, 500, false),
        (499, 500, true),
        (500, 500, false),
        (501, 500, false),
        (u32::MAX, 5, true),
    ] {
        let mut ack = ack_with(0);
        ack.echo = echo;
        assert_eq!(ack.echoes_before(stamp), before, "{echo} {stamp}");
    }
    let mut ack = ack_with(flag::DATA | flag::ECE);
    assert!(ack.has(flag::ECE | flag::ACKS_DATA) && !ack.has(flag::ACKS_DATA));
    ack.clear(flag::ECE | flag::ACKS_DATA);
    assert!(ack.has(flag::DATA) && !ack.has(flag::ECE));
    // The delivered segment that was sent last.
    for (sent_us, delivered) in [(10, 1), (30, 3), (20, 3)] {
        let record = scoreboard::Record { sent_us, delivered: sent_us / 10, ..Default::default() };
        ack.note_delivered(&record);
        assert_eq!(ack.prior_delivered(), Some(delivered));
    }
}
