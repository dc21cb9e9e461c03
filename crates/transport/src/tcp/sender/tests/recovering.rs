//! What is lost, when a loss is repaired, and which timer waits for it.

use alloc::vec::Vec;

use super::*;
use crate::tcp::Recovery;

/// The same as `in_flight`, with these segments SACKed, without SACK's other traces.
fn with_sacked(config: &Config, sacked: &[u32]) -> Sender {
    let mut sender = in_flight(config);
    for &k in sacked {
        sender.board.at_mut(k).flags |= scoreboard::SACKED;
        sender.highest_sack = sender.board.at(k).end();
    }
    sender.sacked_out = sacked.len() as u32;
    sender
}

fn lost(sender: &Sender) -> Vec<u32> {
    (sender.board.head()..sender.board.tail())
        .filter(|&k| sender.board.at(k).has(scoreboard::LOST))
        .collect()
}

/// RFC 6675, 4 (`IsLost`): segments above `snd_una` by more than DupThresh full segments.
#[test]
fn a_sack_is_far_above_by_more_than_three_segments() {
    let config = linux();
    for (highest, far) in [(3001, false), (3002, true), (9001, true), (1, false)] {
        let mut sender = in_flight(&config);
        (sender.sacked_out, sender.highest_sack) = (1, Seq(highest));
        assert_eq!(sender.sacks_far_above(&at(&config, 200)), far, "{highest}");
        sender.sacked_out = 0;
        assert!(!sender.sacks_far_above(&at(&config, 200)));
    }
}

/// RFC 6675, 4 and 5: without RACK, three SACKed segments above one mean that it is lost; when
/// recovery begins, the first one is in any case.
#[test]
fn rfc6675_three_sacked_segments_above_mean_a_loss() {
    let config = Config { rack: false, tlp: false, ..linux() };
    for (sacked, expected) in [
        (&[1, 2, 3][..], &[0][..]),
        (&[1, 3, 5], &[0]),
        (&[2, 3, 4], &[0, 1]),
        (&[1, 4, 5, 6], &[0, 2, 3]),
        (&[1, 3, 5, 7, 9], &[0, 2, 4]),
    ] {
        let mut sender = with_sacked(&config, sacked);
        let mut ack = ack_with(flag::SACKS_DATA);
        let resend = sender.handle_dubious_ack(&at(&config, 200), &mut ack, 0);
        assert_eq!(resend, ack::Resend::Lost, "{sacked:?}");
        assert_eq!(lost(&sender), expected, "{sacked:?}");
        assert_eq!((sender.state, sender.tally().fast_recoveries), (State::Recovery, 1));
        assert_eq!((sender.high_seq, sender.window.ssthresh), (Seq(10_001), 7));
        sender.check_invariants();
    }
    for sacked in [&[1, 2][..], &[5, 9]] {
        let mut sender = with_sacked(&config, sacked);
        let mut ack = ack_with(flag::SACKS_DATA);
        let resend = sender.handle_dubious_ack(&at(&config, 200), &mut ack, 0);
        assert_eq!((resend, sender.state), (ack::Resend::Nothing, State::Disorder));
        assert!(lost(&sender).is_empty());
    }
}

/// A lost segment is counted once; if it was sent again and is lost again, once more.
#[test]
fn a_loss_is_counted_once_for_each_time_it_was_sent() {
    let config = linux();
    let (sacked, lost, resent) = (scoreboard::SACKED, scoreboard::LOST, scoreboard::RETRANSMITTED);
    for (before, after, lost_out, retrans_out, counted) in [
        (0, lost, 1, 0, 1),
        (sacked, sacked, 0, 0, 0),
        (lost, lost, 1, 0, 0),
        (lost | resent, lost, 1, 0, 1),
        (resent, lost | resent, 1, 1, 1),
    ] {
        let mut sender = in_flight(&config);
        sender.retransmit_hint = 9;
        sender.board.at_mut(4).flags = before;
        sender.lost_out = u32::from(before & lost != 0);
        sender.retrans_out = u32::from(before & resent != 0);
        sender.mark_lost(&at(&config, 0), 4);
        assert_eq!(sender.board.at(4).flags, after, "{before}");
        assert_eq!(
            (sender.lost_out, sender.retrans_out, sender.lost),
            (lost_out, retrans_out, counted)
        );
        assert_eq!(sender.retransmit_hint, if counted > 0 { 4 } else { 9 });
    }
}

/// The state outside recovery: something SACKed, lost or sent again is dubious.
#[test]
fn what_is_dubious_is_disorder() {
    let config = linux();
    for (sacked, lost, resent, ever, expected) in [
        (0, 0, 0, false, State::Open),
        (1, 0, 0, false, State::Disorder),
        (0, 1, 0, false, State::Disorder),
        (0, 0, 1, false, State::Disorder),
        (0, 0, 0, true, State::Disorder),
    ] {
        for before in [State::Open, State::Disorder] {
            let mut sender = in_flight(&config);
            (sender.sacked_out, sender.lost_out, sender.retrans_out) = (sacked, lost, resent);
            if ever {
                sender.board.at_mut(0).flags |= scoreboard::EVER_RETRANSMITTED;
            }
            (sender.state, sender.high_seq) = (before, Seq(7));
            sender.return_to_normal();
            assert_eq!(sender.state, expected, "{sacked} {lost} {resent} {ever}");
            assert_eq!(sender.high_seq, Seq(if before == expected { 7 } else { 10_001 }));
        }
    }
}

/// RFC 8985, 6.2, step 4: a quarter of the shortest round trip for each D-SACK and one, at most the
/// smoothed one; none in recovery or after three SACKs, unless reordering was seen.
#[test]
fn rfc8985_6_2_how_long_racks_waits() {
    let config = linux();
    // The shortest round trip is 80 ms, and the smoothed one 100 ms; segments were sent one after
    // another, a millisecond apart, and the newest of the delivered ones has taken 90 ms.
    for (seen, state, sacked, mult, window_ms) in [
        (false, State::Open, 2, 1, 20),
        (false, State::Open, 3, 1, 0),
        (false, State::Recovery, 0, 1, 0),
        (false, State::Loss, 0, 1, 0),
        (true, State::Recovery, 5, 1, 20),
        (true, State::Open, 5, 3, 60),
        (true, State::Open, 5, 4, 80),
        (true, State::Open, 5, 200, 100),
    ] {
        let mut sender = in_flight(&config);
        sender.rtt.note_shortest(&at(&config, 100), 80_000);
        (sender.state, sender.sacked_out) = (state, sacked);
        sender.rack.reordering_seen = seen;
        sender.rack.reo_wnd_mult = mult;
        sender.rack.rtt_us = 90_000;
        sender.rack.newest = rack::Sent::of(sender.board.at(9));
        sender.rack.advanced = true;
        // Segment k was sent at k ms; at 94 + w ms those up to 4 have waited for 90 + w.
        let cx = Context::new(&config, Time::ZERO + Span::from_ms(94 + window_ms));
        sender.sacked_out = 0;
        let urgent = sacked >= 3 && !seen;
        if urgent {
            sender.sacked_out = sacked;
        }
        let armed = sender.rack_find_lost(&cx);
        assert_eq!(lost(&sender), [0, 1, 2, 3, 4], "{seen} {state:?} {sacked} {mult}");
        // The newest itself is not lost; segment 8 still has 4 ms, and the slack is 2 ms.
        assert!(armed && sender.timer == Timer::Reordering);
        assert_eq!(sender.timer_at, cx.deadline(2).into());
        assert!(!sender.rack_find_lost(&cx), "nothing was delivered since");
    }
}

/// RFC 8985, 6.2, step 2: the segment sent last of those delivered; a retransmission that is
/// acknowledged in less than the shortest round trip is ignored.
#[test]
fn rfc8985_6_2_which_delivery_is_the_newest() {
    let config = linux();
    for (resent, sent_ms, counts) in [
        (false, 150, true),
        (true, 150, false),
        (true, 121, false),
        (true, 120, true),
        (true, 100, true),
    ] {
        let mut sender = in_flight(&config);
        sender.rtt.note_shortest(&at(&config, 100), 80_000);
        let flags = if resent { scoreboard::EVER_RETRANSMITTED } else { 0 };
        let record = scoreboard::Record {
            seq: Seq(500),
            sent_us: 1000 * sent_ms,
            flags,
            ..scoreboard::Record::default()
        };
        sender.rack_note_delivered(&at(&config, 200), &record);
        assert_eq!(
            (sender.rack.advanced, sender.rack.started),
            (counts, counts),
            "{resent} {sent_ms}"
        );
        assert_eq!(sender.rack.rtt_us, if counts { 1000 * (200 - sent_ms) } else { 0 });
        let older = scoreboard::Record { sent_us: 1000, flags: 0, ..record };
        sender.rack_note_delivered(&at(&config, 200), &older);
        assert_eq!(sender.rack.rtt_us, 199_000);
        let is_newest = !sender.rack.newest.is_after(rack::Sent::of(&record));
        assert!(is_newest, "{resent} {sent_ms}");
        assert_eq!(rack::Sent::of(&record).is_after(sender.rack.newest), !counts);
    }
    // Of two that were sent at once, the one that ends later.
    let record = |seq, sent_us| scoreboard::Record { seq: Seq(seq), sent_us, ..Default::default() };
    for (one, other, after) in [
        ((5, 10), (5, 9), true),
        ((5, 9), (5, 10), false),
        ((6, 9), (5, 9), true),
        ((5, 9), (5, 9), false),
    ] {
        assert_eq!(rack::sent_after(&record(one.0, one.1), &record(other.0, other.1)), after);
    }
}

/// RFC 8985, 6.2, step 4: a D-SACK widens the window once in a round trip, for 16 recoveries.
#[test]
fn rfc8985_6_2_how_the_window_widens() {
    let config = linux();
    for (seen, delivered, round, mult, persist, expected) in [
        (true, 50, 50, 1, 0, (2, 16, 60)),
        (true, 49, 50, 1, 0, (1, 0, 50)),
        (false, 50, 50, 3, 5, (3, 5, 50)),
        (false, 50, 50, 3, 0, (1, 0, 50)),
        (true, 50, 50, 255, 5, (255, 16, 60)),
    ] {
        let mut sender = in_flight(&config);
        sender.delivered = 60;
        let rack = &mut sender.rack;
        (rack.reo_wnd_mult, rack.reo_wnd_persist, rack.round_delivered) = (mult, persist, round);
        rack.reordering_seen = seen;
        rack.note_dsack();
        assert_eq!(rack.dsack_seen, seen);
        let mut ack = ack_with(0);
        sender.rack_adapt_window(&ack);
        assert_eq!(sender.rack.reo_wnd_mult, mult, "no delivery");
        ack.note_delivered(&scoreboard::Record { delivered, ..Default::default() });
        sender.rack_adapt_window(&ack);
        let rack = &sender.rack;
        let state = (rack.reo_wnd_mult, rack.reo_wnd_persist, rack.round_delivered);
        assert_eq!(state, expected, "{seen} {delivered} {mult} {persist}");
        assert!(!rack.dsack_seen);
    }
    let mut rack = Rack::default();
    for (step, expected) in [(true, 1), (true, 2), (false, 1), (false, 0), (false, 0)] {
        if step {
            rack.count_needless_recovery();
        } else {
            rack.end_recovery();
        }
        assert_eq!(rack.reo_wnd_persist, expected);
    }
    (0..20).for_each(|_| rack.count_needless_recovery());
    assert_eq!(rack.reo_wnd_persist, 16);
}

/// RFC 8985, 7.2: two round trips and 2 ms, or 200 ms more for a lone segment, and no later than the
/// timeout. A jiffy is 4 ms.
#[test]
fn rfc8985_7_2_when_a_probe_is_sent() {
    let config = linux();
    for (packets, srtt_us, rto, advancing, now_ms, jiffies) in [
        (2, Some(100_000), 90, true, 0, 51),
        (1, Some(100_000), 150, true, 0, 100),
        (1, Some(100_000), 75, true, 0, 75),
        (2, None, 300, true, 0, 250),
        (2, None, 200, true, 0, 200),
        // 90 jiffies are 360 ms since the first segment was sent.
        (2, Some(100_000), 90, false, 100, 51),
        (2, Some(100_000), 90, false, 200, 40),
        (2, Some(100_000), 90, false, 359, 1),
        (2, Some(100_000), 90, false, 360, 51),
    ] {
        let mut sender = in_flight(&config);
        sender.packets_out = packets;
        sender.rtt = rtt::Rtt::new(Seq(1));
        if let Some(srtt_us) = srtt_us {
            sender.rtt.estimate(&at(&config, 0), srtt_us, (Seq(1), Seq(1)));
        }
        sender.rtt.rto = rto;
        let cx = at(&config, now_ms);
        assert!(sender.schedule_probe(&cx, advancing));
        let case = (packets, srtt_us, rto, advancing, now_ms);
        assert_eq!(
            (sender.timer, sender.timer_at),
            (Timer::LossProbe, cx.deadline(jiffies).into()),
            "{case:?}"
        );
    }
    for (tlp, sack, state, unconfirmed, packets, expected) in [
        (true, true, State::Open, false, 1, true),
        (true, true, State::Cwr, false, 1, true),
        (true, true, State::Disorder, false, 1, false),
        (true, true, State::Recovery, false, 1, false),
        (false, true, State::Open, false, 1, false),
        (true, false, State::Open, false, 1, false),
        (true, true, State::Open, true, 1, false),
        (true, true, State::Open, false, 0, false),
    ] {
        let config = Config { tlp, ..linux() };
        let mut sender = in_flight(&config);
        (sender.sack, sender.state, sender.unconfirmed) = (sack, state, unconfirmed);
        sender.packets_out = packets;
        assert_eq!(sender.schedule_probe(&at(&config, 0), true), expected, "{state:?}");
    }
}

/// RFC 8985, 7.4.2: what the acknowledgement of a probe tells.
#[test]
fn rfc8985_7_4_what_a_probe_finds_out() {
    let config = linux();
    for (again, ack_seq, flags, waits, window) in [
        (false, 9000, 0, true, 10),
        (false, 9001, flag::ADVANCED, false, 10),
        (true, 9000, flag::ADVANCED, true, 10),
        (true, 9001, flag::D_SACK_OF_PROBE, false, 10),
        (true, 9001, flag::ADVANCED, true, 10),
        (true, 9001, 0, false, 10),
        (true, 9001, flag::SACKS_DATA, true, 10),
        (true, 9001, flag::NEW_WINDOW, true, 10),
        (true, 9002, flag::ADVANCED, false, 7),
    ] {
        let mut sender = in_flight(&config);
        sender.probe = Some(Probe { end: Seq(9001), is_retransmission: again });
        sender.process_probe_ack(&at(&config, 200), Seq(ack_seq), &ack_with(flags));
        assert_eq!(sender.probe.is_some(), waits, "{again} {ack_seq} {flags}");
        assert_eq!(sender.window.cwnd, window, "{again} {ack_seq} {flags}");
        assert_eq!(sender.state, State::Open);
    }
}

/// RFC 6298 (5.2), (5.3): the timer runs while something is in flight. After a probe or RACK's timer
/// the time since the first segment is subtracted.
#[test]
fn rfc6298_5_the_timer_watches_the_first_segment() {
    let config = linux();
    for (timer, packets, unconfirmed, now_ms, expected) in [
        (Timer::Idle, 1, false, 100, Some(75)),
        (Timer::Retransmission, 1, false, 100, Some(75)),
        (Timer::Reordering, 1, false, 100, Some(50)),
        (Timer::LossProbe, 1, false, 100, Some(50)),
        (Timer::LossProbe, 1, false, 299, Some(1)),
        (Timer::LossProbe, 1, false, 900, Some(1)),
        (Timer::Retransmission, 0, false, 100, None),
    ] {
        let mut sender = in_flight(&config);
        (sender.timer, sender.packets_out, sender.unconfirmed) = (timer, packets, unconfirmed);
        let cx = at(&config, now_ms);
        sender.rearm_rto(&cx);
        let due = expected.map_or(MaybeTime::NONE, |jiffies| cx.deadline(jiffies).into());
        assert_eq!(sender.timer_at, due, "{timer:?} {packets} {now_ms}");
        let kind = if packets > 0 { Timer::Retransmission } else { Timer::Idle };
        assert_eq!(sender.timer, kind);
    }
    let mut sender = in_flight(&config);
    (sender.unconfirmed, sender.timer_at) = (true, Time::ZERO.into());
    sender.rearm_rto(&at(&config, 100));
    assert_eq!(sender.timer_at, Time::ZERO.into(), "it serves the SYN-ACK");
    assert_eq!(sender.rto_remaining_us(&at(&config, 100)), 200_000);
    assert_eq!(sender.rto_remaining_us(&at(&config, 350)), -50_000);
    sender.board = Scoreboard::default();
    assert_eq!(sender.rto_remaining_us(&at(&config, 100)), 0);
}

/// `tcp_enter_loss`: ssthresh falls once for each window; what was sent within a round trip stays,
/// with RACK; F-RTO tries at the first timeout and at further ones, but not in recovery.
#[test]
fn a_timeout_reduces_once_for_each_window() {
    for (state, high, una, retransmits, frto, ssthresh, tries) in [
        (State::Open, 1, 1, 0, true, 7, true),
        (State::Disorder, 9001, 1, 0, true, 7, true),
        (State::Cwr, 9001, 1, 0, true, 40, true),
        (State::Cwr, 1, 1, 0, true, 7, true),
        (State::Recovery, 9001, 1, 0, true, 40, false),
        (State::Recovery, 9001, 1, 1, true, 40, true),
        (State::Loss, 9001, 1, 1, true, 40, true),
        (State::Loss, 9001, 1, 0, true, 7, false),
        (State::Open, 1, 1, 0, false, 7, false),
    ] {
        let config = Config { frto, ..linux() };
        let mut sender = in_flight(&config);
        (sender.state, sender.high_seq, sender.retransmits) = (state, Seq(high), retransmits);
        sender.snd_una = Seq(una);
        sender.window.ssthresh = 40;
        sender.timer_at = Time::ZERO.into();
        let cx = at(&config, 400);
        sender.handle_timeout(&cx);
        let case = (state, high, retransmits, frto);
        assert_eq!((sender.window.ssthresh, sender.frto), (ssthresh, tries), "{case:?}");
        assert_eq!((sender.window.cwnd, sender.state), (1, State::Loss));
        assert_eq!((sender.high_seq, lost(&sender).len()), (Seq(10_001), 10));
        assert_eq!((sender.retransmits, sender.tally().timeouts), (retransmits + 1, 1));
        assert_eq!((sender.rtt.rto, sender.timer_at), (150, cx.deadline(150).into()));
    }
    // Segments 7 to 9 were sent less than RACK's round trip of 93 ms ago.
    let config = linux();
    let mut sender = in_flight(&config);
    (sender.rack.rtt_us, sender.timer_at) = (93_000, Time::ZERO.into());
    sender.handle_timeout(&at(&config, 99));
    assert_eq!(lost(&sender), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(sender.window.cwnd, 4);
    // The first of all was SACKed: the receiver has forgotten it.
    let mut sender = with_sacked(&config, &[0, 5]);
    sender.timer_at = Time::ZERO.into();
    sender.handle_timeout(&at(&config, 400));
    assert_eq!((lost(&sender).len(), sender.sacked_out), (10, 0));
    // Many SACKs before the timeout: reordering was overestimated.
    for (sacked, expected) in [(&[7, 8, 9][..], 3), (&[8, 9], 30)] {
        let mut sender = with_sacked(&config, sacked);
        (sender.rack.reordering, sender.timer_at) = (30, Time::ZERO.into());
        sender.handle_timeout(&at(&config, 400));
        assert_eq!(sender.reordering(), expected, "{sacked:?}");
    }
    // It gives up after as many retries as allowed.
    for (retransmits, fails) in [(14, false), (15, true)] {
        let mut sender = in_flight(&config);
        (sender.retransmits, sender.timer_at) = (retransmits, Time::ZERO.into());
        sender.handle_timeout(&at(&config, 400));
        assert_eq!(sender.failed, fails);
    }
    // It is not due.
    let mut sender = in_flight(&config);
    sender.timer_at = (Time::ZERO + Span::from_ms(401)).into();
    sender.handle_timeout(&at(&config, 400));
    assert_eq!(sender.tally().timeouts, 0);
}

/// RFC 3522, 3.2, and RFC 3708: what shows that a reduction was needless.
#[test]
fn echoes_and_d_sacks_show_a_needless_reduction() {
    let config = linux();
    let ack = |echo| {
        let mut ack = ack_with(flag::ADVANCED);
        ack.echo = echo;
        ack
    };
    for (first, echo, sack, una, answers) in [
        (Some(500), 499, true, 1, true),
        (Some(500), 500, true, 1, false),
        (Some(500), 0, true, 1, false),
        (None, 0, true, 1, true),
        (None, 0, false, 9000, true),
        (None, 0, false, 9001, false),
    ] {
        let mut sender = in_flight(&config);
        sender.undo.first_stamp = first.and_then(NonZeroU32::new);
        (sender.sack, sender.snd_una, sender.high_seq) = (sack, Seq(una), Seq(9001));
        assert_eq!(sender.answers_original(&ack(echo)), answers, "{first:?} {echo} {una}");
    }
    // Retransmissions in flight, and a probe, belong to the episode.
    for (undo, resent, probe, unexplained) in [
        (true, 0, None, Some(None)),
        (true, 2, None, Some(Some(2))),
        (true, 0, Some(true), Some(Some(1))),
        (true, 2, Some(true), Some(Some(3))),
        (true, 0, Some(false), Some(None)),
        (false, 2, None, None),
    ] {
        let config = Config { undo, ..linux() };
        let mut sender = in_flight(&config);
        sender.retrans_out = resent;
        sender.probe = probe.map(|is_retransmission| Probe { end: Seq(9), is_retransmission });
        sender.begin_episode(&at(&config, 200));
        assert_eq!(sender.undo.episode.map(|episode| episode.unexplained), unexplained);
        assert_eq!(sender.undo.episode.map(|episode| episode.start), undo.then_some(Seq(1)));
    }
    let episode = episode::Episode { start: Seq(100), unexplained: None };
    let mut undo = Undo { episode: Some(episode), ..Undo::default() };
    undo.count_duplicates(1, Seq(500));
    assert!(!undo.is_explained(), "nothing was sent again");
    undo.count_retransmission(700);
    undo.count_retransmission(800);
    assert_eq!(undo.first_stamp, NonZeroU32::new(700));
    for (duplicates, end, explained) in
        [(1, 100, false), (1, 101, false), (1, 200, true), (1, 200, true)]
    {
        undo.count_duplicates(duplicates, Seq(end));
        assert_eq!(undo.is_explained(), explained, "{end}");
    }
    undo.rule_out();
    assert!(!undo.is_explained());
}

/// RFC 4015, 3.2: the window and its threshold return to what they were, if that is more.
#[test]
fn a_needless_reduction_is_taken_back() {
    let config = linux();
    for (before, prior, cwnd, ssthresh, expected) in [
        (Some(30), 20, 7, 14, (20, 30)),
        (Some(30), 5, 7, 14, (7, 30)),
        (Some(14), 20, 7, 14, (20, 14)),
        (None, 20, 7, 14, (7, 14)),
    ] {
        let mut sender = in_flight(&config);
        sender.mark_lost(&at(&config, 0), 3);
        sender.undo.ssthresh = before.and_then(NonZeroU32::new);
        sender.reduction.prior_cwnd = prior;
        sender.window = Window { cwnd, ssthresh, count: 0 };
        (sender.state, sender.queue_cwr, sender.retransmits) = (State::Loss, true, 2);
        let cx = at(&config, 200);
        assert!(sender.take_back_timeout(&cx, &ack_with(0), true));
        assert_eq!((sender.window.cwnd, sender.window.ssthresh), expected, "{before:?} {prior}");
        assert_eq!(sender.queue_cwr, expected.1 == 14);
        assert_eq!((sender.state, sender.lost_out, lost(&sender).len()), (State::Open, 0, 0));
        assert_eq!((sender.tally().undos, sender.tally().spurious_timeouts), (1, 1));
        assert_eq!((sender.retransmits, sender.cwnd_stamp_us), (0, 200_000));
        assert!(
            !sender.take_back_timeout(&cx, &ack_with(0), false),
            "there is nothing to take back"
        );
    }
}

/// RFC 5682, 3.1: what an acknowledgement after a timeout means. `high_seq` is 9001.
#[test]
fn rfc5682_3_1_what_follows_a_timeout() {
    let config = linux();
    // `snd_nxt`, what the acknowledgement tells, duplicates, `snd_una`, new data; what F-RTO does.
    for (next, flags, duplicates, una, unsent, spurious, goes_on, resend) in [
        // Step 3 (b).
        (
            9001,
            flag::ADVANCED | flag::ORIGINAL_ARRIVED,
            0,
            2001,
            0,
            true,
            false,
            ack::Resend::Nothing,
        ),
        // Step 2 (b): two new segments.
        (9001, flag::ADVANCED, 0, 2001, 5000, false, true, ack::Resend::NewFirst),
        (9001, flag::ADVANCED, 0, 2001, 0, false, false, ack::Resend::Lost),
        // A duplicate decides nothing yet.
        (9001, 0, 1, 1, 5000, false, true, ack::Resend::Lost),
        // Step 3 (a).
        (10_001, flag::SACKS_DATA, 0, 2001, 0, false, false, ack::Resend::Lost),
        (10_001, 0, 1, 2001, 0, false, false, ack::Resend::Lost),
        (10_001, flag::ADVANCED, 0, 3001, 0, false, true, ack::Resend::Lost),
    ] {
        let mut sender = in_flight(&config);
        (sender.state, sender.frto) = (State::Loss, true);
        (sender.snd_nxt, sender.snd_una, sender.high_seq) = (Seq(next), Seq(una), Seq(9001));
        sender.unsent.write(unsent);
        let ack = ack_with(flags);
        let did = sender.continue_after_timeout(&at(&config, 200), &ack, duplicates);
        let case = (next, flags, duplicates, una, unsent);
        assert_eq!(did, resend, "{case:?}");
        assert_eq!(sender.tally().spurious_timeouts, u32::from(spurious), "{case:?}");
        assert_eq!(sender.frto || spurious, goes_on || spurious, "{case:?}");
        assert_eq!(sender.state == State::Open, spurious);
    }
}

/// RFC 6582, 3.2: without SACK, a partial acknowledgement shows the next loss, and duplicates start
/// recovery.
#[test]
fn rfc6582_3_2_duplicates_and_partial_acknowledgements_show_losses() {
    let config =
        Config { sack: false, rack: false, tlp: false, recovery: Recovery::NewReno, ..linux() };
    for (state, before, duplicates, flags, expected) in [
        (State::Open, 1, 1, 0, &[][..]),
        (State::Open, 2, 1, 0, &[0]),
        (State::Disorder, 2, 1, 0, &[0]),
        (State::Recovery, 5, 1, 0, &[]),
        (State::Recovery, 5, 0, flag::ADVANCED, &[0]),
    ] {
        let mut sender = in_flight(&config);
        (sender.sack, sender.state, sender.sacked_out) = (false, state, before);
        (sender.high_seq, sender.snd_una) = (Seq(9001), Seq(1));
        let mut ack = ack_with(flags);
        sender.handle_dubious_ack(&at(&config, 200), &mut ack, duplicates);
        assert_eq!(lost(&sender), expected, "{state:?} {before} {duplicates}");
    }
}
