use alloc::vec::Vec;

use narrows_units::{Span, Time};

use super::window::bytes_per_second;
use super::*;
use crate::congestion::pace::Pace;
use crate::congestion::sample::{Lost, Rate, SentState};
use crate::congestion::window::Window;
use crate::seq::Seq;

/// A connection whose acknowledgements are made by hand.
struct Host {
    bbr: Bbr3,
    window: Window,
    pace: Pace,
    delivered: u32,
    in_flight: u32,
    recovery: Recovery,
    is_cwnd_limited: bool,
    has_selective_acks: bool,
    now: Time,
}

/// An acknowledgement of a round.
#[derive(Clone, Copy)]
struct Round {
    /// How long after the last one it comes.
    after_ms: u64,
    /// The segments that it delivers, and over how many milliseconds.
    acked: u32,
    over_ms: u32,
    rtt_ms: u32,
    sent: SentState,
}

const CALM: SentState = SentState { in_flight: 100, lost: 0, is_app_limited: false };
/// 100 segments in a round trip of 10 ms.
const ROUND: Round = Round { after_ms: 10, acked: 100, over_ms: 10, rtt_ms: 10, sent: CALM };

impl Host {
    /// A connection with a round trip of 10 ms and a window of 10.
    fn new() -> Self {
        let mut host = Self {
            bbr: Bbr3::new(7, 3),
            window: Window::new(10, None),
            pace: Pace::new(true),
            delivered: 1,
            in_flight: 10,
            recovery: Recovery::Open,
            is_cwnd_limited: false,
            has_selective_acks: true,
            now: Time::ZERO + Span::from_secs(1),
        };
        host.with(|bbr, cx, path| bbr.start(cx, path));
        host
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Bbr3, &Moment, &mut Path) -> R) -> R {
        let us = (self.now.as_ps() / 1_000_000) as u32;
        let cx = Moment { now: self.now, us, tick: Span::from_ms(4) };
        let mut path = Path {
            window: &mut self.window,
            pace: &mut self.pace,
            delivered: self.delivered,
            lost: 0,
            in_flight: self.in_flight,
            mss: 1448,
            srtt_us: Some(10_000),
            shortest_us: Some(10_000),
            recovery: self.recovery,
            is_cwnd_limited: self.is_cwnd_limited,
            has_selective_acks: self.has_selective_acks,
            ack_is_delayed: false,
        };
        f(&mut self.bbr, &cx, &mut path)
    }

    /// Acknowledges a whole round at once.
    fn round(&mut self, round: Round) {
        self.now += Span::from_ms(round.after_ms);
        let prior_delivered = self.delivered;
        self.delivered += round.acked;
        let rate = Rate {
            delivered: round.acked,
            interval_us: round.over_ms * 1000,
            prior_delivered,
            is_app_limited: round.sent.is_app_limited,
        };
        let sample = RateSample {
            acked: round.acked,
            lost: 0,
            prior_in_flight: self.in_flight,
            rtt_us: Some(round.rtt_ms * 1000),
            delivered_us: 0,
            rate: Some(rate),
            newest: Some(Newest { delivered: round.acked, prior_delivered, sent: round.sent }),
        };
        self.with(|bbr, cx, path| bbr.on_ack(cx, path, &sample));
    }

    /// Loses segments `from..to`, sent when `sent` was true.
    fn lose(&mut self, (from, to): (u32, u32), sent: SentState) {
        for k in from..to {
            let lost = Lost { begin: Seq(1000 * k), end: Seq(1000 * (k + 1)), sent };
            self.with(|bbr, cx, path| bbr.on_lost(cx, path, &lost));
        }
    }

    /// A connection in PROBE_BW with a bandwidth of 10 segments a millisecond, so that its product is
    /// 100 segments.
    fn in_probe_bw() -> Self {
        let mut host = Self::new();
        host.in_flight = 1000;
        while !host.bbr.is_in_probe_bw() {
            host.round(ROUND);
        }
        assert_eq!(host.bbr.state, State::Down);
        host.in_flight = 100;
        assert_eq!(host.bbr.product(host.bbr.bandwidth, 100), 100);
        host
    }

    /// The same in a phase that comes later.
    fn until(state: State) -> Self {
        let mut host = Self::in_probe_bw();
        for _ in 0..200 {
            if host.bbr.state == state {
                return host;
            }
            host.round(ROUND);
        }
        panic!("{state:?} does not come");
    }
}

/// The draft's constants (B4): gains in per cent, the threshold of losses, beta, headroom, the least
/// window and the margin.
#[test]
fn the_constants_are_the_drafts() {
    let gains = [
        (State::Startup, (277, 200)),
        (State::Drain, (50, 200)),
        (State::Down, (90, 200)),
        (State::Cruise, (100, 200)),
        (State::Refill, (100, 200)),
        (State::Up, (125, 225)),
        (State::ProbeRtt, (100, 50)),
    ];
    let mut bbr = Bbr3::new(1, 3);
    for (state, expected) in gains {
        bbr.state = state;
        assert_eq!(bbr.gains(), expected, "{state:?}");
    }
    for (longterm, left) in [(100, 85), (1000, 850), (7, 5), (5, 4), (4, 4), (u32::MAX, u32::MAX)] {
        bbr.inflight_longterm = longterm;
        assert_eq!(bbr.inflight_with_headroom(), left, "{longterm}");
    }
    for (in_flight, lost, sack, expected) in
        [(100, 2, true, false), (100, 3, true, true), (100, 1, false, true), (100, 0, false, false)]
    {
        let sent = SentState { in_flight, lost, is_app_limited: false };
        assert_eq!(sent.loses_too_much(sack), expected, "{in_flight} {lost} {sack}");
    }
    // 10 segments of 1448 B in 1 ms are 14.48 MB/s, of which 99 % are left.
    let bandwidth = 10 * BANDWIDTH_UNIT / 1000;
    for (gain, expected) in [(100, 14_335_200.0), (277, 39_708_504.0), (90, 12_901_680.0)] {
        let rate = bytes_per_second(bandwidth, gain, 1448) as f64;
        assert!((rate / expected - 1.0).abs() < 1e-5, "{gain}: {rate}");
    }
    let fast = u64::from(u32::MAX) * BANDWIDTH_UNIT / 1_000_000;
    assert!(bytes_per_second(fast, 277, 65_535) > 1 << 48, "no overflow");
}

/// Section 5.6.4.2: the product is rounded up; three bursts of two segments, and four segments, always
/// fit.
#[test]
fn the_product_is_rounded_up_and_bursts_fit() {
    let mut bbr = Bbr3::new(1, 3);
    bbr.first_window = 10;
    let bandwidth = 83 * BANDWIDTH_UNIT / 100_000;
    assert_eq!(bbr.product(bandwidth, 100), 10, "without a round trip it is the first window");
    for (rtt_us, gain, expected) in
        [(40_000, 100, 34), (40_000, 200, 67), (40_000, 225, 75), (1000, 100, 1), (1300, 100, 2)]
    {
        bbr.min_rtt_us = Some(rtt_us);
        assert_eq!(bbr.product(bandwidth, gain), expected, "{rtt_us} {gain}");
    }
    bbr.min_rtt_us = Some(1000);
    assert_eq!(bbr.inflight_for(bandwidth), 6, "three bursts of two");
    bbr.quanta = 1;
    assert_eq!(bbr.inflight_for(bandwidth), 4, "QUIC has one burst, so the least window counts");
    bbr.state = State::Up;
    assert_eq!(bbr.inflight_for(bandwidth), 6);
}

/// A.1 (section 5.3.1.2): three rounds with less than 25 % growth end STARTUP; 25 % are enough.
#[test]
fn three_rounds_without_growth_end_startup() {
    for (over_ms, rounds) in [(&[100, 80, 64, 52, 52, 52][..], 6), (&[100, 80, 65, 65, 65][..], 5)]
    {
        let mut host = Host::new();
        for (round, &over_ms) in (1..).zip(over_ms) {
            assert_eq!(host.bbr.state, State::Startup, "round {round}");
            host.in_flight = 1000;
            host.round(Round { acked: 1000, over_ms, ..ROUND });
        }
        assert_eq!((host.bbr.state, host.bbr.round), (State::Drain, rounds));
        assert!(host.bbr.full_now && host.bbr.full_reached);
    }
    // A.7: rounds that the application limits do not count.
    let mut host = Host::new();
    for _ in 0..50 {
        let sent = SentState { is_app_limited: true, ..CALM };
        host.round(Round { sent, ..ROUND });
    }
    assert_eq!(host.bbr.state, State::Startup);
}

/// A.2 (section 5.3.1.3): STARTUP ends at the end of a round with losses of more than 2 %, in six
/// ranges or more; without SACK, with any loss in a recovery. Application limits do not matter.
#[test]
fn losses_in_six_ranges_end_startup() {
    for (ranges, lost, sack, recovery, ends) in [
        (6, 10, true, Recovery::Recovery, true),
        (5, 10, true, Recovery::Recovery, false),
        (6, 2, true, Recovery::Recovery, false),
        (6, 10, true, Recovery::Loss, false),
        (1, 1, false, Recovery::Recovery, true),
        (1, 1, false, Recovery::Open, false),
    ] {
        let mut host = Host::new();
        host.has_selective_acks = sack;
        let growing = |round: u32| Round { acked: 100 << round, ..ROUND };
        host.round(growing(0));
        host.round(growing(1));
        (host.recovery, host.in_flight) = (recovery, 1000);
        let sent = SentState { lost, is_app_limited: true, ..CALM };
        for range in 0..ranges {
            // Two segments each, next to each other.
            host.lose((10 * range, 10 * range + 2), sent);
        }
        host.round(Round { sent, ..growing(2) });
        let case = (ranges, lost, sack, recovery);
        assert_eq!(host.bbr.state == State::Drain, ends, "{case:?}");
        assert_eq!(host.bbr.undo.state, ends.then_some(State::Startup), "{case:?}");
        // The most that was delivered in the round is safe.
        assert_eq!(host.bbr.inflight_longterm, if ends { 400 } else { u32::MAX }, "{case:?}");
    }
}

/// A.3, A.4 (section 5.3.2): DRAIN ends with a BDP in flight, or in the fourth round after it began.
#[test]
fn drain_ends_with_a_product_in_flight_or_after_three_rounds() {
    // The queue is empty then, so PROBE_DOWN ends with it.
    for (in_flight, rounds, state) in [(100, 1, State::Cruise), (101, 4, State::Down)] {
        let mut host = Host::new();
        host.in_flight = 1000;
        while host.bbr.state != State::Drain {
            host.round(ROUND);
        }
        host.in_flight = in_flight;
        let begun = host.bbr.round;
        while host.bbr.state == State::Drain {
            host.round(ROUND);
        }
        assert_eq!((host.bbr.state, host.bbr.round - begun), (state, rounds));
    }
}

/// Section 5.3.3.8: the wait lies evenly between 2 and 3 s, and rounds count from 0 or 1.
#[test]
fn waits_lie_between_two_and_three_seconds() {
    let mut host = Host::new();
    let mut tenths = [0; 10];
    let mut ones = 0;
    for seed in 0..5000 {
        host.bbr.seed = seed;
        host.with(|bbr, cx, path| bbr.start_down(path, cx.now));
        let us = host.bbr.probe_wait.as_us();
        tenths[((us - 2_000_000) / 100_000) as usize] += 1;
        ones += host.bbr.rounds_since_up;
    }
    assert!(tenths.iter().all(|count| (400..600).contains(count)), "{tenths:?}");
    assert!((2300..2700).contains(&ones), "{ones}");
}

/// A.8, A.9: PROBE_DOWN ends with a BDP in flight, less the headroom if there is a limit, or when the
/// wait is over. The wait is 62 or 63 rounds, or as many as the product has segments.
#[test]
fn probe_down_ends_by_what_is_in_flight_or_by_the_wait() {
    for (longterm, in_flight, cruises) in [
        (u32::MAX, 100, true),
        (u32::MAX, 101, false),
        (110, 93, true),
        (110, 94, false),
        (200, 101, false),
    ] {
        let mut host = Host::in_probe_bw();
        (host.bbr.inflight_longterm, host.in_flight) = (longterm, in_flight);
        host.round(Round { sent: SentState { in_flight: 50, ..CALM }, ..ROUND });
        assert_eq!(host.bbr.state == State::Cruise, cruises, "{longterm} {in_flight}");
    }
    for (acked, over_ms, after_ms, most) in
        [(100, 10, 10, 63), (20, 10, 10, 20), (1000, 100, 100, 31)]
    {
        let mut host = Host::new();
        let round = Round { acked, over_ms, after_ms, ..ROUND };
        host.in_flight = 5000;
        while host.bbr.state != State::Down {
            host.round(round);
        }
        let begun = host.bbr.round;
        while host.bbr.state == State::Down {
            host.round(round);
        }
        assert_eq!(host.bbr.state, State::Refill);
        let rounds = host.bbr.round - begun;
        // By rounds, or by 2 to 3 s of 100 ms each.
        assert!((most * 2 / 3..=most).contains(&rounds), "{rounds} {most}");
    }
}

/// A.5: PROBE_UP ends after three rounds without growth; if the long-term limit holds it back, the
/// search begins anew, and the limit rises by 1, 2, 4, ... segments in a round (A.15).
#[test]
fn probe_up_ends_without_growth_and_raises_the_limit() {
    let mut host = Host::until(State::Up);
    let begun = host.bbr.round;
    while host.bbr.state == State::Up {
        host.round(ROUND);
    }
    assert_eq!((host.bbr.state, host.bbr.round - begun), (State::Down, 3));

    let mut host = Host::until(State::Refill);
    (host.bbr.inflight_longterm, host.is_cwnd_limited) = (120, true);
    host.window.cwnd = 120;
    host.round(ROUND);
    let mut raised = Vec::new();
    let mut acked = 120;
    // The bandwidth grows with the window.
    for over_ms in [10, 8, 6, 4, 3] {
        // As many as the window had are acknowledged in a round.
        let before = host.bbr.inflight_longterm;
        host.window.cwnd = before;
        host.round(Round { acked, over_ms, ..ROUND });
        acked = before;
        assert_eq!(host.bbr.state, State::Up);
        raised.push(host.bbr.inflight_longterm - before);
    }
    assert_eq!(raised, [1, 2, 4, 8, 16]);
}

/// A.6, A.21 (section 5.5.10.2): losses above 2 % of what was in flight end a probe. The limit becomes
/// what was in flight then, at least 0.7 of the product; not if the application limits the sender.
#[test]
fn losses_end_a_probe_and_set_the_limit() {
    for (in_flight, lost, app_limited, longterm) in [
        (150, 4, false, Some(149)),
        (60, 2, false, Some(70)),
        (150, 4, true, None),
        (150, 3, false, None),
    ] {
        let mut host = Host::until(State::Up);
        let sent = SentState { in_flight, lost, is_app_limited: app_limited };
        host.lose((1, 2), sent);
        let ends = u64::from(lost) * 50 > u64::from(in_flight);
        let state = if ends { State::Down } else { State::Up };
        assert_eq!(host.bbr.state, state, "{in_flight} {lost}");
        assert_eq!(host.bbr.inflight_longterm, longterm.unwrap_or(u32::MAX), "{in_flight} {lost}");
        assert_eq!(host.bbr.prev_too_high, ends);
        // It reacts once in a probe.
        host.lose((5, 9), SentState { in_flight: 110, lost: 50, is_app_limited: false });
        if ends {
            assert_eq!(host.bbr.inflight_longterm, longterm.unwrap_or(u32::MAX));
        }
    }
}

/// Section 5.3.3.6: the probe after one that lost too much ends where that one did, and is repeated
/// at once if it loses nothing.
#[test]
fn the_probe_after_a_lossy_one_is_cautious() {
    let mut host = Host::until(State::Up);
    host.lose((1, 2), SentState { in_flight: 130, lost: 4, is_app_limited: false });
    assert_eq!((host.bbr.state, host.bbr.inflight_longterm), (State::Down, 129));
    let quiet = Round { sent: SentState { in_flight: 50, ..CALM }, ..ROUND };
    while host.bbr.state != State::Up {
        host.round(quiet);
    }
    host.in_flight = 128;
    host.round(quiet);
    assert_eq!(host.bbr.state, State::Up);
    host.in_flight = 129;
    host.round(quiet);
    assert_eq!((host.bbr.state, host.bbr.prev_precautionary), (State::Down, true));
    host.round(quiet);
    assert_eq!(host.bbr.state, State::Refill, "a round later it begins anew");
    host.in_flight = 10;
    host.round(quiet);
    host.in_flight = 129;
    host.round(quiet);
    assert_eq!((host.bbr.state, host.bbr.prev_too_high), (State::Up, false));
}

/// A.16, A.17 (section 5.5.10.3): when it does not probe, a round with losses lowers the short-term
/// limits to what was delivered, at most by 30 %. REFILL forgets them.
#[test]
fn losses_lower_the_short_term_limits() {
    for (acked, limit) in [(50, 70), (80, 80), (100, 100)] {
        let mut host = Host::until(State::Cruise);
        host.window.cwnd = 100;
        host.bbr.reset_congestion_signals();
        host.lose((1, 2), CALM);
        host.round(Round { acked, ..ROUND });
        let product = host.bbr.product(host.bbr.bandwidth, 100);
        assert!(product.abs_diff(limit) <= 1, "{acked}: {product}");
        assert_eq!(host.bbr.inflight_shortterm, limit, "{acked}");
        assert!(host.window.cwnd <= limit);
        while host.bbr.state != State::Refill {
            host.round(ROUND);
        }
        assert_eq!(host.bbr.inflight_shortterm, u32::MAX);
        assert_eq!(host.bbr.bandwidth_shortterm, u64::MAX);
    }
}

/// A.18, A.19 (section 5.5.11): an undo brings the limits and the phase back.
#[test]
fn an_undo_restores_limits_and_phase() {
    let mut host = Host::until(State::Up);
    let cwnd = host.window.cwnd;
    host.lose((1, 2), SentState { in_flight: 130, lost: 4, is_app_limited: false });
    host.recovery = Recovery::Recovery;
    host.with(|bbr, _, path| bbr.on_recovery(path.window.cwnd));
    host.window.cwnd = 20;
    host.with(|bbr, _, path| bbr.on_undo(path));
    assert_eq!((host.bbr.state, host.bbr.inflight_longterm), (State::Refill, u32::MAX));
    assert_eq!(host.window.cwnd, cwnd);

    let mut host = Host::until(State::Cruise);
    host.lose((1, 2), CALM);
    host.round(Round { acked: 50, ..ROUND });
    assert!(host.bbr.bandwidth_shortterm < u64::MAX && host.bbr.inflight_shortterm < u32::MAX);
    host.with(|bbr, _, path| bbr.on_undo(path));
    assert_eq!(host.bbr.state, State::Cruise);
    assert_eq!(host.bbr.bandwidth_shortterm, u64::MAX);

    // A timeout in STARTUP: one more than what is in flight, until the undo.
    let mut host = Host::new();
    host.round(ROUND);
    let cwnd = host.window.cwnd;
    host.with(|bbr, _, path| bbr.on_recovery(path.window.cwnd));
    host.in_flight = 3;
    host.with(|bbr, _, path| bbr.on_timeout(path));
    assert_eq!(host.window.cwnd, 4);
    host.with(|bbr, _, path| bbr.on_undo(path));
    assert_eq!((host.window.cwnd, host.bbr.state), (cwnd, State::Startup));
}

/// Section 5.6.4.4: the window that recovery began with comes back when it ends.
#[test]
fn the_end_of_a_recovery_restores_the_window() {
    let mut host = Host::until(State::Cruise);
    let cwnd = host.window.cwnd;
    host.with(|bbr, _, path| bbr.on_recovery(path.window.cwnd));
    host.recovery = Recovery::Recovery;
    host.round(Round { acked: 1, ..ROUND });
    host.window.cwnd = 5;
    host.recovery = Recovery::Open;
    host.round(Round { acked: 1, ..ROUND });
    assert_eq!(host.window.cwnd, cwnd);
}

/// A.10, A.20 (section 5.3.4): PROBE_RTT begins after 5 s without a shorter round trip, lasts 200 ms
/// and a round, and leads to CRUISE, or back to STARTUP. The filter forgets after 10 s.
#[test]
fn probe_rtt_comes_after_five_seconds() {
    for startup in [false, true] {
        let mut host = if startup { Host::new() } else { Host::until(State::Cruise) };
        let limited = SentState { is_app_limited: startup, ..CALM };
        let slow = Round { rtt_ms: 12, sent: limited, ..ROUND };
        host.round(Round { rtt_ms: 9, ..slow });
        let begun = host.now;
        while host.bbr.state != State::ProbeRtt {
            host.in_flight = 10;
            host.round(slow);
        }
        let waited = host.now.since(begun);
        assert_eq!(waited, Span::from_ms(5010), "{startup}");
        assert_eq!(host.bbr.min_rtt_us, Some(9000), "it is remembered for 10 s");
        let most = (host.bbr.product(host.bbr.bandwidth, 50)).max(4);
        assert!(host.window.cwnd <= most);
        let begun = host.now;
        while host.bbr.state == State::ProbeRtt {
            host.round(Round { rtt_ms: 11, ..slow });
        }
        assert_eq!(host.now.since(begun), Span::from_ms(210), "{startup}");
        assert_eq!(host.bbr.state, if startup { State::Startup } else { State::Cruise });
    }
    // A.11: not after an idle time.
    let mut host = Host::until(State::Cruise);
    host.now += Span::from_secs(6);
    host.in_flight = 0;
    host.with(|bbr, cx, path| {
        path.limit_by_application();
        bbr.on_restart(cx, path);
    });
    assert!(host.bbr.idle_restart);
    host.round(ROUND);
    assert_ne!(host.bbr.state, State::ProbeRtt);
    assert!(!host.bbr.idle_restart);
}

/// Section 5.5.9: of 150 segments that come within a millisecond of each other, 10 were expected.
/// The 140 others count for ten rounds, or for one in STARTUP.
#[test]
fn bunches_add_to_the_window() {
    let calm = Round { acked: 50, ..ROUND };
    for (startup, rounds) in [(false, 10), (true, 1)] {
        let mut host = if startup { Host::new() } else { Host::until(State::Cruise) };
        let sent = SentState { is_app_limited: startup, ..CALM };
        host.round(Round { sent, ..ROUND });
        host.window.cwnd = 200;
        for _ in 0..12 {
            host.round(Round { sent, ..calm });
            host.window.cwnd = 200;
        }
        assert_eq!(host.bbr.extra_acked.max(), 50);
        host.round(Round { acked: 100, after_ms: 1, sent, ..ROUND });
        for round in 0..=rounds {
            assert!(host.bbr.extra_acked.max().abs_diff(140) <= 1, "{startup} {round}");
            host.round(Round { sent, ..calm });
        }
        // What comes next is still more than was expected, by 90.
        for _ in 0..2 {
            host.round(Round { sent, ..calm });
        }
        assert_eq!(host.bbr.extra_acked.max(), 50, "{startup}");
    }
}

/// Section 3.7: a mark ends a probe, lowers the limits when it does not probe, and ends STARTUP.
#[test]
fn marks_count_as_losses() {
    let mut host = Host::until(State::Up);
    host.in_flight = 130;
    host.with(|bbr, cx, path| bbr.on_mark(cx, path));
    assert_eq!((host.bbr.state, host.bbr.inflight_longterm), (State::Down, 130));
    let mut host = Host::until(State::Cruise);
    host.with(|bbr, cx, path| bbr.on_mark(cx, path));
    host.round(Round { acked: 50, ..ROUND });
    assert!(host.bbr.bandwidth_shortterm < u64::MAX);
    let mut host = Host::new();
    host.in_flight = 1000;
    host.round(ROUND);
    host.with(|bbr, cx, path| bbr.on_mark(cx, path));
    host.round(ROUND);
    assert_eq!(host.bbr.state, State::Drain);
}
