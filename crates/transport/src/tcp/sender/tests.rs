//! Windows and counts of a sender, from states that are set by hand.

mod acks;
mod classic;
mod recovering;
mod sending;

use super::ack::{Ack, flag};
use super::*;
use crate::congestion::{INFINITE_SSTHRESH, Signal};
use crate::tcp::{Congestion, Reduction as Rule, RestartAfterIdle};

fn linux() -> Config {
    Config::profile("linux-6").expect("a known profile")
}

fn at(config: &Config, ms: u64) -> Context<'_> {
    Context::new(config, Time::ZERO + Span::from_ms(ms))
}

/// A sender after a handshake of 100 ms: the timeout is 75 jiffies.
fn sender(config: &Config) -> Sender {
    let mut sender = Sender::new(config, Seq(1));
    let start = Start {
        at: Time::from_ps(100_000_000_000),
        mss: 1448,
        sack: true,
        window: 1 << 30,
        rtt_us: NonZeroU32::new(100_000),
        ..Start::default()
    };
    sender.start(config, start);
    sender
}

fn ack_with(flags: u16) -> Ack {
    let mut ack = Ack::empty(Seq(1));
    ack.set(flags);
    ack
}

/// RFC 6937, 3.1, with the slow-start bound: above ssthresh, `ceil(prr_delivered * ssthresh /
/// RecoverFS) - prr_out`; below it, what was delivered and one more if nothing was lost, up to
/// ssthresh.
#[test]
fn rfc6937_3_1_the_window_follows_what_was_delivered() {
    let config = linux();
    // In flight, delivered before and now, sent, lost now, whether snd_una advanced, and what may
    // be sent. The window was 20, and ssthresh is 14.
    for (in_flight, before, now, sent, lost, advanced, sends) in [
        (19, 0, 1, 0, 0, false, 1),
        (19, 1, 1, 1, 0, false, 1),
        (18, 2, 1, 2, 0, false, 1),
        (18, 3, 1, 3, 0, false, 0),
        (15, 9, 1, 7, 0, false, 0),
        (15, 9, 2, 7, 0, false, 1),
        // The first retransmission leaves at once, whatever the proportion says.
        (15, 0, 1, 0, 0, false, 1),
        // At and below ssthresh.
        (14, 9, 1, 7, 0, false, 0),
        (13, 9, 1, 7, 0, false, 1),
        (10, 9, 1, 7, 0, false, 3),
        (10, 9, 1, 10, 0, false, 1),
        (10, 9, 1, 10, 0, true, 2),
        (10, 9, 1, 10, 1, true, 1),
        (10, 9, 2, 12, 0, true, 3),
        (5, 19, 1, 2, 0, true, 9),
        (0, 9, 1, 10, 1, false, 1),
    ] {
        let mut sender = sender(&config);
        sender.packets_out = in_flight;
        sender.window.ssthresh = 14;
        sender.reduction = Reduction { prior_cwnd: 20, delivered: before, sent };
        let ack = ack_with(if advanced { flag::ADVANCED } else { 0 });
        sender.reduce(&at(&config, 200), &ack, now, lost);
        let case = (in_flight, before, now, sent, lost, advanced);
        assert_eq!(sender.window.cwnd, (in_flight + sends).max(1), "{case:?}");
        assert_eq!(sender.reduction.delivered, before + now);
    }
    // Nothing was delivered, or there is no reduction.
    for (delivered, prior_cwnd) in [(0, 20), (1, 0)] {
        let mut sender = sender(&config);
        sender.reduction.prior_cwnd = prior_cwnd;
        sender.reduce(&at(&config, 200), &ack_with(0), delivered, 0);
        assert_eq!((sender.window.cwnd, sender.reduction.delivered), (10, 0));
    }
}

/// Linux 2.6.30 `tcp_cwnd_down`: one segment for every second acknowledgement, down to half of
/// ssthresh for Reno (`tcp_reno_min_cwnd`), and never more than what is in flight and one.
#[test]
fn rate_halving_takes_a_segment_for_two_acknowledgements() {
    for (congestion, cwnd, ssthresh, in_flight, flags, counts) in [
        (Congestion::Reno, 20, 10, 30, flag::SACKS_DATA, [20, 19, 19, 18]),
        (Congestion::Reno, 6, 10, 30, flag::SACKS_DATA, [6, 5, 5, 5]),
        (Congestion::Cubic, 11, 10, 30, flag::SACKS_DATA, [11, 10, 10, 10]),
        (Congestion::Cubic, 20, 10, 15, flag::SACKS_DATA, [16, 15, 15, 14]),
        (Congestion::Cubic, 20, 10, 30, flag::ADVANCED, [20, 19, 19, 18]),
        (Congestion::Cubic, 20, 10, 30, flag::D_SACK, [20, 19, 19, 18]),
        (Congestion::Cubic, 20, 10, 30, flag::ACKS_DATA, [20, 19, 19, 18]),
        (Congestion::Cubic, 20, 10, 30, flag::NEW_WINDOW, [20, 20, 20, 20]),
        (Congestion::Cubic, 20, 10, 30, 0, [20, 20, 20, 20]),
    ] {
        let config = Config { reduction: Rule::RateHalving, congestion, ..linux() };
        let mut sender = sender(&config);
        sender.window = Window { cwnd, ssthresh, count: 0 };
        sender.packets_out = in_flight;
        let windows = [(); 4].map(|()| {
            sender.reduce(&at(&config, 200), &ack_with(flags), 1, 0);
            sender.window.cwnd
        });
        assert_eq!(windows, counts, "{cwnd} {ssthresh} {in_flight} {flags}");
    }
    // Without SACK a duplicate counts, too.
    let config = Config { reduction: Rule::RateHalving, ..linux() };
    for (flags, cwnd) in [(0, 19), (flag::DATA, 20)] {
        let mut sender = sender(&config);
        (sender.sack, sender.packets_out) = (false, 30);
        sender.window = Window { cwnd: 20, ssthresh: 10, count: 1 };
        sender.reduce(&at(&config, 200), &ack_with(flags), 1, 0);
        assert_eq!(sender.window.cwnd, cwnd);
    }
}

/// `tcp_init_cwnd_reduction`, `tcp_end_cwnd_reduction`, `tcp_enter_cwr`: CUBIC's ssthresh is 0.7 of
/// the window, and an echo reduces once.
#[test]
fn a_reduction_begins_and_ends_at_ssthresh() {
    let config = linux();
    for (state, reduces) in [
        (State::Open, true),
        (State::Disorder, true),
        (State::Cwr, false),
        (State::Recovery, false),
        (State::Loss, false),
    ] {
        let mut sender = sender(&config);
        (sender.state, sender.ect, sender.snd_nxt) = (state, Ecn::Ect0, Seq(5000));
        sender.undo.ssthresh = NonZeroU32::new(7);
        sender.enter_cwr(&at(&config, 200));
        assert_eq!(sender.undo.ssthresh, None);
        assert_eq!(sender.state == State::Cwr, reduces || state == State::Cwr);
        assert_eq!(sender.tally().ecn_reductions, u32::from(reduces));
        assert_eq!(sender.queue_cwr, reduces);
        if reduces {
            assert_eq!((sender.window.ssthresh, sender.high_seq), (7, Seq(5000)));
            assert_eq!(sender.reduction.prior_cwnd, 10);
        }
    }
    // It ends if it may no longer be undone, or if it was for an echo.
    for (state, ssthresh, episode, undo, cwnd) in [
        (State::Cwr, 7, false, true, 7),
        (State::Recovery, 7, true, true, 7),
        (State::Recovery, 7, false, true, 10),
        (State::Recovery, 7, false, false, 7),
        (State::Cwr, INFINITE_SSTHRESH, false, true, 10),
    ] {
        let config = Config { undo, ..linux() };
        let mut sender = sender(&config);
        (sender.state, sender.window.ssthresh) = (state, ssthresh);
        if episode {
            sender.begin_episode(&at(&Config { undo: true, ..linux() }, 150));
        }
        sender.end_reduction(&at(&config, 200));
        assert_eq!(sender.window.cwnd, cwnd, "{state:?} {ssthresh} {episode} {undo}");
        assert_eq!(sender.cwnd_stamp_us == 200_000, cwnd == 7);
    }
    let halving = Config { reduction: Rule::RateHalving, ..linux() };
    for (cwnd, expected) in [(20, 12), (12, 12), (5, 5)] {
        let mut sender = sender(&halving);
        sender.window = Window { cwnd, ssthresh: 12, count: 0 };
        sender.end_reduction(&at(&halving, 200));
        assert_eq!(sender.window.cwnd, expected);
    }
    let mut sender = sender(&config);
    (sender.ect, sender.window.count) = (Ecn::NotEct, 3);
    sender.begin_reduction(&at(&config, 200), Signal::Loss);
    assert_eq!((sender.queue_cwr, sender.window.count), (false, 0));
}

/// `tcp_is_cwnd_limited`: in slow start, the window may double what was in flight.
#[test]
fn a_window_that_is_half_used_may_grow_in_slow_start() {
    let config = linux();
    for (limited, cwnd, ssthresh, most, expected) in [
        (true, 10, 5, 1, true),
        (false, 10, 100, 6, true),
        (false, 10, 100, 5, false),
        (false, 10, 10, 9, false),
    ] {
        let mut sender = sender(&config);
        sender.window = Window { cwnd, ssthresh, count: 0 };
        (sender.cwnd_limited, sender.max_packets_out) = (limited, most);
        assert_eq!(sender.is_cwnd_limited(), expected, "{limited} {cwnd} {ssthresh} {most}");
    }
}

/// `tcp_cwnd_validate`: what a burst says about the window's use, once in a round trip or more.
#[test]
fn the_use_of_the_window_is_noted_once_in_a_round_trip() {
    let config = linux();
    for (una, limited, before, packets, most, notes) in [
        (1, false, false, 4, 5, false),
        (1, false, false, 5, 5, false),
        (1, false, false, 6, 5, true),
        (1, false, true, 6, 5, false),
        (1, true, true, 4, 5, true),
        (999, false, true, 4, 5, false),
        (1000, false, true, 4, 5, true),
    ] {
        let mut sender = sender(&config);
        sender.window = Window { cwnd: 20, ssthresh: 10, count: 0 };
        (sender.snd_una, sender.snd_nxt) = (Seq(una), Seq(9000));
        (sender.cwnd_usage_seq, sender.cwnd_limited) = (Seq(1000), before);
        (sender.packets_out, sender.max_packets_out) = (packets, most);
        sender.validate_cwnd(&at(&config, 150), limited);
        let case = (una, limited, before, packets, most);
        let expected = if notes { (limited, packets, 9000) } else { (before, most, 1000) };
        let state = (sender.cwnd_limited, sender.max_packets_out, sender.cwnd_usage_seq.0);
        assert_eq!(state, expected, "{case:?}");
        let is_limited = sender.is_cwnd_limited();
        assert_eq!(sender.cwnd_used, if is_limited { 0 } else { packets }, "{case:?}");
        assert_eq!(sender.cwnd_stamp_us, if is_limited { 150_000 } else { 100_000 });
    }
}

/// `tcp_cwnd_application_limited`: after a timeout (300 ms) without need of the window, it falls
/// halfway to what was used, and ssthresh is three quarters of it at least.
#[test]
fn a_window_that_is_not_used_shrinks() {
    for (restart, ms, state, used, cwnd, ssthresh) in [
        (RestartAfterIdle::Decay, 399, State::Open, 12, 30, 5),
        (RestartAfterIdle::Decay, 400, State::Open, 12, 21, 22),
        (RestartAfterIdle::Decay, 400, State::Open, 4, 20, 22),
        (RestartAfterIdle::Decay, 400, State::Open, 30, 30, 5),
        (RestartAfterIdle::Decay, 400, State::Open, 29, 29, 22),
        (RestartAfterIdle::Decay, 400, State::Disorder, 12, 30, 5),
        (RestartAfterIdle::Keep, 400, State::Open, 12, 30, 5),
    ] {
        let config = Config { restart_after_idle: restart, ..linux() };
        let mut sender = sender(&config);
        sender.window = Window { cwnd: 30, ssthresh: 5, count: 0 };
        (sender.state, sender.packets_out, sender.cwnd_used) = (state, 3, used);
        sender.validate_cwnd(&at(&config, ms), false);
        assert_eq!((sender.window.cwnd, sender.window.ssthresh), (cwnd, ssthresh), "{ms} {used}");
        let shrinks = ms == 400 && restart == RestartAfterIdle::Decay;
        assert_eq!(sender.cwnd_stamp_us == 400_000, shrinks);
        let left = if shrinks && state == State::Open { 0 } else { used };
        assert_eq!(sender.cwnd_used, left);
    }
}

/// `tcp_cwnd_restart` (RFC 2861): half of the window for every timeout (300 ms) of silence, not
/// below the initial one; RFC 5681, 4.1, for the others.
#[test]
fn silence_costs_window() {
    use RestartAfterIdle::{Decay, Fresh, Keep, SlowStart};
    for (restart, idle_ms, in_flight, acked, cwnd, expected) in [
        (Decay, 300, 0, 1, 80, (80, 50)),
        (Decay, 301, 0, 1, 80, (40, 60)),
        (Decay, 600, 0, 1, 80, (40, 60)),
        (Decay, 601, 0, 1, 80, (20, 60)),
        (Decay, 901, 0, 1, 80, (10, 60)),
        (Decay, 1201, 0, 1, 80, (10, 60)),
        (Decay, 90_000, 0, 1, 80, (10, 60)),
        (Decay, 601, 0, 1, 6, (6, 50)),
        (Decay, 601, 1, 1, 80, (80, 50)),
        (Decay, 601, 0, 0, 80, (80, 50)),
        (Keep, 601, 0, 1, 80, (80, 50)),
        (SlowStart, 601, 0, 1, 80, (10, 50)),
        (SlowStart, 300, 0, 1, 80, (80, 50)),
        (SlowStart, 601, 0, 1, 6, (6, 50)),
        (Fresh, 1, 0, 1, 80, (10, INFINITE_SSTHRESH)),
        (Fresh, 1, 1, 1, 80, (80, 50)),
        (Fresh, 1, 0, 0, 80, (80, 50)),
    ] {
        let config = Config { restart_after_idle: restart, ..linux() };
        let mut sender = sender(&config);
        sender.window = Window { cwnd, ssthresh: 50, count: 3 };
        (sender.packets_out, sender.bytes_acked) = (in_flight, acked);
        sender.last_sent_us = 100_000;
        sender.restart_after_idle(&at(&config, 100 + idle_ms));
        let state = (sender.window.cwnd, sender.window.ssthresh);
        assert_eq!(state, expected, "{restart:?} {idle_ms} {in_flight} {acked} {cwnd}");
    }
    let config = linux();
    let mut sender = sender(&config);
    for (state, expected) in [(State::Open, 75), (State::Recovery, 70), (State::Cwr, 70)] {
        sender.window = Window { cwnd: 101, ssthresh: 70, count: 0 };
        sender.state = state;
        assert_eq!(sender.current_ssthresh(), expected, "{state:?}");
    }
}

/// RFC 6582, 3, and `tcp_limit_reno_sacked`: without SACK, duplicates stand for segments that have
/// arrived, but at least one is missing.
#[test]
fn duplicates_never_stand_for_all_segments() {
    let config = linux();
    for (packets, lost, before, more, sacked, reordering) in [
        (10, 0, 0, 0, 0, 3),
        (10, 0, 8, 1, 9, 3),
        (10, 0, 9, 1, 9, 10),
        (10, 2, 7, 1, 8, 3),
        (10, 2, 8, 1, 8, 10),
        (400, 0, 399, 1, 399, 300),
    ] {
        let mut sender = sender(&config);
        (sender.sack, sender.packets_out, sender.lost_out) = (false, packets, lost);
        sender.sacked_out = before;
        let delivered = sender.delivered;
        sender.add_duplicates(more);
        assert_eq!(sender.sacked_out, sacked, "{packets} {lost} {before}");
        assert_eq!(sender.delivered - delivered, sacked - before);
        assert_eq!(sender.reordering(), reordering);
        assert_eq!(sender.rack.reordering_seen, reordering > 3);
    }
    // Three of ten are acknowledged: the first was missing, the others had caused duplicates.
    for (sacked, acked, left, fresh) in
        [(5, 3, 3, 1), (5, 1, 5, 1), (1, 3, 0, 2), (0, 3, 0, 3), (3, 3, 1, 1), (2, 3, 0, 1)]
    {
        let mut sender = sender(&config);
        (sender.sack, sender.packets_out, sender.sacked_out) = (false, 7, sacked);
        let delivered = sender.delivered;
        sender.remove_duplicates(acked);
        assert_eq!(sender.sacked_out, left, "{sacked} {acked}");
        assert_eq!(sender.delivered - delivered, fresh, "{sacked} {acked}");
    }
}

/// A sender with segments 0 to 9 of 1000 bytes in flight, from sequence number 1 on. Segment k was
/// sent at k ms.
fn in_flight(config: &Config) -> Sender {
    let mut sender = sender(config);
    sender.mss = 1000;
    for k in 0..10 {
        sender.board.push(scoreboard::Record {
            seq: Seq(1 + 1000 * k),
            sent_us: 1000 * k,
            len: 1000,
            ..scoreboard::Record::default()
        });
    }
    (sender.packets_out, sender.snd_nxt) = (10, Seq(10_001));
    sender.timer = Timer::Retransmission;
    sender
}

fn sacked(sender: &Sender) -> alloc::vec::Vec<u32> {
    (0..sender.board.len())
        .filter(|&k| sender.board.at(sender.board.head() + k).has(scoreboard::SACKED))
        .collect()
}

/// RFC 2018, 3 and 8: a block counts if it lies between `snd_una` and `snd_nxt`, and marks the whole
/// segments in it.
#[test]
fn rfc2018_blocks_mark_whole_segments() {
    let config = linux();
    for (start, end, marked) in [
        (1001, 2001, &[1][..]),
        (1001, 2000, &[]),
        (1001, 3000, &[1]),
        (1002, 3001, &[2]),
        (2001, 5001, &[2, 3, 4]),
        (9001, 10_001, &[9]),
        (9001, 10_002, &[]),
        (1, 2001, &[]),
        (2, 2001, &[1]),
        (2001, 2001, &[]),
        (3001, 2001, &[]),
    ] {
        let mut sender = in_flight(&config);
        let mut ack = Ack::empty(Seq(1));
        sender.take_blocks(&at(&config, 200), Seq(1), &[(Seq(start), Seq(end))], &mut ack);
        assert_eq!(sacked(&sender), marked, "{start} {end}");
        assert_eq!(sender.sacked_out, marked.len() as u32);
        assert_eq!(ack.sack_delivered, marked.len() as u32);
        assert_eq!(ack.has(flag::SACKS_DATA), !marked.is_empty());
        let highest = marked.last().map_or(1, |k| 1001 + 1000 * k);
        assert_eq!(sender.highest_sack_seq(), Seq(highest));
        // The first and the last of them, as they were sent.
        assert_eq!(ack.first_sacked_us, marked.first().map(|k| 1000 * k));
        assert_eq!(ack.last_sacked_us, marked.last().map_or(0, |k| 1000 * k));
        sender.check_invariants();
    }
}

/// `tcp_check_sack_reordering`: a segment that arrives below the highest SACKed one was overtaken;
/// how far is counted in full segments, and the largest distance counts.
#[test]
fn an_overtaken_segment_shows_reordering() {
    let config = linux();
    for (first, then, seen, reordering) in [
        ((2001, 3001), (3001, 4001), false, 3),
        ((2001, 3001), (1001, 2001), true, 3),
        ((4001, 5001), (2001, 3001), true, 3),
        ((5001, 6001), (2001, 3001), true, 4),
        ((9001, 10_001), (1001, 2001), true, 9),
    ] {
        let mut sender = in_flight(&config);
        for block in [first, then] {
            let mut ack = Ack::empty(Seq(1));
            let blocks = [(Seq(block.0), Seq(block.1))];
            sender.take_blocks(&at(&config, 200), Seq(1), &blocks, &mut ack);
        }
        assert_eq!(sender.rack.reordering_seen, seen, "{first:?} {then:?}");
        assert_eq!(sender.reordering(), reordering, "{first:?} {then:?}");
    }
}

/// RFC 2883, 4: a first block below the acknowledgement, or inside the second, reports a duplicate.
/// Linux counts it if it has sent as many segments again.
#[test]
fn rfc2883_4_which_blocks_report_duplicates() {
    let config = linux();
    for (ack_seq, blocks, retransmitted, duplicates, reports) in [
        (3001, &[(2001, 3001)][..], 1, 1, true),
        (3001, &[(1001, 3001)], 2, 2, true),
        (3001, &[(1001, 3001)], 1, 2, false),
        (3001, &[(2501, 3001)], 1, 1, true),
        (3001, &[(3001, 4001)], 1, 0, false),
        (3001, &[(5001, 6001), (4001, 7001)], 1, 1, true),
        (3001, &[(4001, 7001), (4001, 7001)], 3, 3, true),
        (3001, &[(4001, 7001), (5001, 7001)], 3, 0, false),
        (3001, &[(4001, 7001), (4001, 6001)], 3, 0, false),
        (3001, &[(3001, 2001)], 1, 0, false),
    ] {
        let mut sender = in_flight(&config);
        sender.tally().retransmitted = retransmitted;
        let mut ack = Ack::empty(Seq(1));
        let blocks: alloc::vec::Vec<_> = blocks.iter().map(|&(a, b)| (Seq(a), Seq(b))).collect();
        sender.take_blocks(&at(&config, 200), Seq(ack_seq), &blocks, &mut ack);
        assert_eq!(sender.dsack_dups, duplicates, "{blocks:?} {retransmitted}");
        assert_eq!(ack.has(flag::D_SACK), reports, "{blocks:?} {retransmitted}");
    }
}

/// `tcp_sacktag_one`: a D-SACK for a retransmission shows that segments overtook each other only if
/// the segment had been SACKed before.
#[test]
fn a_duplicate_of_a_sacked_segment_shows_reordering() {
    let config = linux();
    for (flags, seen) in [(0, false), (scoreboard::SACKED, true)] {
        let mut sender = in_flight(&config);
        sender.board.at_mut(3).flags = scoreboard::EVER_RETRANSMITTED | flags;
        sender.board.at_mut(5).flags = scoreboard::SACKED;
        sender.sacked_out = 1 + u32::from(flags != 0);
        sender.highest_sack = Seq(6001);
        sender.tally().retransmitted = 1;
        let mut ack = Ack::empty(Seq(1));
        let blocks = [(Seq(3001), Seq(4001)), (Seq(3001), Seq(4001))];
        sender.take_blocks(&at(&config, 200), Seq(1), &blocks, &mut ack);
        assert!(ack.has(flag::D_SACK));
        assert_eq!(sacked(&sender), [3, 5]);
        assert_eq!(sender.rack.reordering_seen, seen, "{flags}");
        sender.check_invariants();
    }
}

/// The ECN field of what may be marked, or not.
fn ect_if(capable: bool) -> Ecn {
    if capable { Ecn::Ect0 } else { Ecn::NotEct }
}
