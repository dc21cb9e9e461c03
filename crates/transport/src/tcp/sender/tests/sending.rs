//! Which segment is sent next, and with which flags.

use alloc::vec::Vec;

use super::*;
use crate::tcp::{AckPolicy, EcnControl, Flags};

/// The sequence numbers, lengths and flags of what may be sent now.
fn poll(sender: &mut Sender, config: &Config) -> Vec<(u32, u16, Flags)> {
    let cx = at(config, 200);
    core::iter::from_fn(|| sender.poll(&cx))
        .map(|sent| (sent.seq.0, sent.len, sent.flags))
        .collect()
}

/// `tcp_cwnd_test` and `tcp_snd_wnd_test`: the congestion window counts segments in flight, the
/// peer's window bytes. The segment with the FIN needs no congestion window. RFC 3042: SACKed segments make room.
#[test]
fn a_segment_fits_both_windows() {
    // In flight, SACKed, inflation, the state, limited transmit, the peer's window, unsent bytes.
    for (packets, sacked, inflation, state, limited, window, unsent, sends) in [
        (9, 0, 0, State::Open, true, 90_000, 9000, true),
        (10, 0, 0, State::Open, true, 90_000, 9000, false),
        (10, 0, 1, State::Open, true, 90_000, 9000, true),
        (11, 0, 1, State::Open, true, 90_000, 9000, false),
        (10, 1, 0, State::Disorder, true, 90_000, 9000, true),
        (10, 1, 0, State::Disorder, false, 90_000, 9000, false),
        (10, 2, 0, State::Recovery, false, 90_000, 9000, true),
        (9, 0, 0, State::Open, true, 1448, 9000, true),
        (9, 0, 0, State::Open, true, 1447, 9000, false),
        (0, 0, 0, State::Open, true, 100, 100, true),
        (0, 0, 0, State::Open, true, 99, 100, false),
        (10, 0, 0, State::Open, true, 0, 0, true),
        (0, 0, 0, State::Open, true, 0, 1, false),
    ] {
        let config = Config { limited_transmit: limited, nagle: false, ..linux() };
        let mut sender = sender(&config);
        (sender.packets_out, sender.sacked_out, sender.inflation) = (packets, sacked, inflation);
        (sender.state, sender.snd_wnd) = (state, window);
        sender.unsent.write(unsent);
        sender.fin_queued = unsent == 0;
        let sent = sender.poll(&at(&config, 200));
        let case = (packets, sacked, inflation, state, limited, window, unsent);
        assert_eq!(sent.is_some(), sends, "{case:?}");
    }
    for (unsent, closes, sends) in [(1448, true, true), (1449, true, false), (1448, false, false)] {
        let config = linux();
        let mut sender = sender(&config);
        sender.packets_out = 10;
        sender.unsent.write(unsent);
        sender.fin_queued = closes;
        assert_eq!(sender.poll(&at(&config, 200)).is_some(), sends, "{unsent} {closes}");
    }
}

/// `forced_push`, if the application writes 64 KiB at a time: these are the segments that Linux
/// 6.1.192 pushed. With a larger window, or another receiver, it pushes none.
#[test]
fn half_a_window_after_a_write_a_segment_pushes() {
    let every = Config { acks: AckPolicy::EverySegment, ..linux() };
    for (config, window, expected) in [
        (linux(), 64_128, &[33_304, 98_464, 163_624, 228_784][..]),
        (linux(), 1000, &[33_304, 98_464, 163_624, 228_784]),
        (linux(), 1 << 17, &[]),
        (every, 64_128, &[]),
    ] {
        let mut sender = sender(&config);
        let mut pushed = Vec::new();
        for _ in 0..170 {
            (sender.snd_wnd, sender.todo) = (window, todo::NEW);
            sender.unsent.write(u64::MAX);
            let sent = sender.send_new(&at(&config, 200)).expect("there are data");
            if sent.flags.contains(Flags::PSH) {
                pushed.push(sent.seq.0 + u32::from(sent.len) - 1);
            }
        }
        assert_eq!(pushed, expected, "{window}");
    }
}

/// RFC 9293, 3.7.4, with Minshall's change: a small segment waits only for another small one.
#[test]
fn a_small_segment_waits_for_a_small_one() {
    for (nagle, fin, packets, small_end, sends) in [
        (true, false, 2, 1000, true),
        (true, false, 2, 1001, false),
        (true, false, 2, 3000, false),
        (true, false, 2, 3001, true),
        (true, false, 0, 3000, true),
        (true, true, 2, 3000, true),
        (false, false, 2, 3000, true),
    ] {
        let config = Config { nagle, ..linux() };
        let mut sender = sender(&config);
        (sender.snd_una, sender.snd_nxt) = (Seq(1000), Seq(3000));
        (sender.packets_out, sender.small_end, sender.fin_queued) = (packets, Seq(small_end), fin);
        sender.unsent.write(1447);
        let sent = sender.poll(&at(&config, 200));
        assert_eq!(sent.is_some(), sends, "{nagle} {fin} {packets} {small_end}");
        // A full one never waits.
        sender.todo = todo::NEW;
        sender.unsent.write(1448);
        assert!(sender.poll(&at(&config, 200)).is_some());
    }
}

/// PSH ends what was written, and FIN goes with the last byte, or alone.
#[test]
fn the_last_segment_pushes_and_closes() {
    let (none, psh, fin) = (Flags(0), Flags::PSH, Flags::FIN);
    for (bytes, closes, expected) in [
        (1448, false, &[(1, 1448, psh)][..]),
        (1548, false, &[(1, 1448, none), (1449, 100, psh)]),
        (1548, true, &[(1, 1448, none), (1449, 100, psh.with(fin))]),
        (0, true, &[(1, 0, fin)]),
    ] {
        let config = linux();
        let mut sender = sender(&config);
        sender.write(&at(&config, 200), bytes);
        if closes {
            sender.close();
        }
        assert_eq!(poll(&mut sender, &config), expected, "{bytes} {closes}");
        assert_eq!(sender.is_fin_sent(), closes);
        assert_eq!(sender.small_end == sender.snd_nxt, bytes != 1448);
        assert_eq!((sender.burst, sender.last_sent_us), (0, 200_000));
        sender.check_invariants();
    }
    // Without FINs (ns-2), closing sends nothing.
    let config = Config { skip_handshake: true, ..linux() };
    for (bytes, expected) in [(0, &[][..]), (100, &[(1, 100, psh)])] {
        let mut sender = sender(&config);
        sender.write(&at(&config, 200), bytes);
        sender.close();
        assert_eq!(poll(&mut sender, &config), expected);
        assert!(sender.is_fin_sent());
        assert_eq!(sender.is_fin_acked(), bytes == 0);
    }
}

/// RFC 3168, 6.1.2 and 6.1.5, and ECN++: new data carry ECT, and the first after a reduction CWR.
#[test]
fn rfc3168_6_1_new_data_carry_ect_and_one_segment_cwr() {
    for (ecn, control, fin_capable) in [
        (false, EcnControl::Data, false),
        (true, EcnControl::Data, false),
        (true, EcnControl::PlusPlus, true),
    ] {
        let config = Config { ecn_control: control, ..linux() };
        let mut sender = sender(&config);
        (sender.ect, sender.queue_cwr) = (ect_if(ecn), true);
        let cx = at(&config, 200);
        sender.write(&cx, 2 * 1448);
        let sent: Vec<_> = core::iter::from_fn(|| sender.poll(&cx)).collect();
        assert!(sent.iter().all(|sent| sent.ecn == ect_if(ecn)));
        assert_eq!(sent[0].flags.contains(Flags::CWR), ecn);
        assert!(!sent[1].flags.contains(Flags::CWR));
        sender.queue_cwr = true;
        sender.close();
        let fin = sender.poll(&cx).expect("a FIN");
        assert_eq!((fin.ecn, fin.flags), (ect_if(fin_capable), Flags::FIN));
        assert!(sender.queue_cwr, "data will carry it");
        let again = sender.send_again(&cx, sender.board.head());
        assert_eq!(again.ecn, ect_if(fin_capable));
    }
}

/// `tcp_xmit_retransmit_queue`: lost segments in order, as far as the window allows, each once.
#[test]
fn lost_segments_go_in_order_and_once() {
    let config = linux();
    for (cwnd, lost, sacked, resent, sends) in [
        (10, &[2, 5][..], &[][..], &[][..], &[2, 5][..]),
        (9, &[2, 5], &[], &[], &[2]),
        (8, &[2, 5], &[], &[], &[]),
        (8, &[2, 5], &[8, 9], &[], &[2, 5]),
        (10, &[2, 5], &[], &[2], &[5]),
        (10, &[2, 5], &[], &[2, 5], &[]),
        (10, &[0, 9], &[1], &[], &[0, 9]),
    ] {
        let mut sender = in_flight(&config);
        for &k in lost {
            sender.mark_lost(&at(&config, 0), k);
        }
        for &k in sacked {
            sender.board.at_mut(k).flags |= scoreboard::SACKED;
        }
        for &k in resent {
            sender.board.at_mut(k).flags |= scoreboard::RETRANSMITTED;
        }
        (sender.sacked_out, sender.retrans_out) = (sacked.len() as u32, resent.len() as u32);
        sender.window.cwnd = cwnd;
        sender.state = State::Recovery;
        sender.todo = todo::RETRANSMIT;
        let sent: Vec<u32> =
            poll(&mut sender, &config).iter().map(|&(seq, ..)| (seq - 1) / 1000).collect();
        assert_eq!(sent, sends, "{cwnd} {lost:?} {sacked:?} {resent:?}");
        assert_eq!(sender.reduction.sent, sends.len() as u32);
        assert_eq!(sender.tally().retransmitted, sends.len() as u32);
        assert_eq!(sender.todo, 0);
        for &k in sends {
            let record = sender.board.at(k);
            assert_eq!((record.sent_us, record.delivered), (200_000, sender.delivered));
            let both = scoreboard::RETRANSMITTED | scoreboard::EVER_RETRANSMITTED;
            assert_eq!(record.flags & both, both);
        }
        sender.check_invariants();
    }
}

/// A search below where the last one ended begins there, and one beyond the scoreboard at its head.
#[test]
fn the_search_for_lost_segments_begins_at_the_first() {
    let config = linux();
    for (hint, left, lost) in [(4, 0, 7), (4, 0, 2), (100, 0, 3), (4, 0, 4), (1, 3, 5)] {
        let mut sender = in_flight(&config);
        sender.retransmit_hint = hint;
        // What was acknowledged meanwhile.
        (0..left).for_each(|_| sender.board.pop());
        sender.mark_lost(&at(&config, 0), lost);
        sender.todo = todo::RETRANSMIT;
        assert_eq!(poll(&mut sender, &config), [(1 + 1000 * lost, 1000, Flags(0))]);
    }
}

/// `tcp_small_queue_check`: after two new segments of a burst, lost ones go first.
#[test]
fn lost_segments_go_before_the_third_new_one() {
    let config = linux();
    for (burst, lost, resent, expected) in
        [(0, 1, 0, 10), (1, 1, 0, 10), (2, 1, 0, 2), (2, 0, 0, 10), (2, 1, 1, 10)]
    {
        for steps in [todo::NEW, todo::NEW | todo::NEW_FIRST] {
            let mut sender = in_flight(&config);
            sender.window.cwnd = 30;
            sender.unsent.write(90_000);
            if lost > 0 {
                sender.mark_lost(&at(&config, 0), 2);
            }
            if resent > 0 {
                sender.board.at_mut(2).flags |= scoreboard::RETRANSMITTED;
                sender.retrans_out = 1;
            }
            (sender.burst, sender.todo, sender.high_seq) = (burst, steps, Seq(1));
            let sent = sender.poll(&at(&config, 200)).expect("there is room");
            assert_eq!((sent.seq.0 - 1) / 1000, expected, "{burst} {lost} {resent}");
        }
    }
}

/// What has to be sent goes first: the head after a timeout, a loss probe, a window probe, which
/// has an old sequence number and so asks for an answer (RFC 9293, 3.8.6.1).
#[test]
fn what_has_to_be_sent_ignores_the_windows() {
    let config = linux();
    let mut sender = in_flight(&config);
    (sender.window.cwnd, sender.snd_wnd) = (1, 0);
    sender.unsent.write(9000);
    sender.todo = todo::HEAD | todo::PROBE | todo::PERSIST | todo::NEW;
    let sent = poll(&mut sender, &config);
    assert_eq!(sent, [(1, 1000, Flags(0)), (9001, 1000, Flags(0)), (0, 0, Flags(0))]);
    assert_eq!((sender.tally().retransmitted, sender.tally().tail_probes), (2, 1));
    assert_eq!((sender.retrans_out, sender.todo), (1, 0));
    // With room in the peer's window, the probe is new.
    let mut sender = in_flight(&config);
    sender.window.cwnd = 1;
    sender.unsent.write(500);
    sender.todo = todo::PROBE;
    assert_eq!(poll(&mut sender, &config), [(10_001, 500, Flags::PSH)]);
    assert_eq!((sender.tally().retransmitted, sender.tally().tail_probes), (0, 1));
    let probe = sender.probe.expect("it is watched");
    assert_eq!((probe.end, probe.is_retransmission), (Seq(10_501), false));
    // One at a time.
    sender.todo = todo::PROBE;
    assert_eq!(poll(&mut sender, &config), []);
    assert_eq!(sender.tally().tail_probes, 1);
}

/// `tcp_check_probe_timer`: data wait, and nothing is in flight that would bring a window.
#[test]
fn a_closed_window_is_probed_after_a_timeout() {
    let config = linux();
    for (unsent, timer, expected) in [
        (100, Timer::Idle, Timer::Persist),
        (0, Timer::Idle, Timer::Idle),
        (100, Timer::Reordering, Timer::Reordering),
    ] {
        let mut sender = sender(&config);
        (sender.snd_wnd, sender.timer) = (0, timer);
        sender.unsent.write(unsent);
        sender.todo = todo::NEW;
        assert_eq!(poll(&mut sender, &config), []);
        assert_eq!(sender.timer, expected, "{unsent} {timer:?}");
        if expected == Timer::Persist {
            let cx = at(&config, 200);
            assert_eq!(sender.timer_at, cx.deadline(75).into());
            // Each probe doubles the time.
            for backoff in [150, 300, 600] {
                sender.timer_at = cx.now.into();
                sender.handle_timeout(&cx);
                assert_eq!(sender.todo & todo::PERSIST, todo::PERSIST);
                assert_eq!(sender.timer_at, cx.deadline(backoff).into());
            }
        }
    }
}

/// `tcp_probe_timer`: with data in flight, or none to be sent, no probe is needed.
#[test]
fn a_window_probe_needs_data_that_wait() {
    let config = linux();
    for (packets, unsent, probes) in [(0, 100, true), (1, 100, false), (0, 0, false)] {
        let mut sender = sender(&config);
        (sender.packets_out, sender.timer) = (packets, Timer::Persist);
        sender.unsent.write(unsent);
        (sender.todo, sender.timer_at) = (0, Time::ZERO.into());
        sender.handle_timeout(&at(&config, 200));
        assert_eq!(sender.todo == todo::PERSIST, probes, "{packets} {unsent}");
        assert_eq!(sender.timer, if probes { Timer::Persist } else { Timer::Idle });
    }
}
