use alloc::string::ToString;
use alloc::vec::Vec;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use crate::{DropReason::Overflow, Ecn};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn rate(bps: u64) -> Option<Rate> {
    Rate::from_bps(bps)
}

fn put(queue: &mut Fq<TestPacket>, now: Time, flow: u8, packets: u64, bytes: u32) {
    for number in 0..packets {
        let packet = TestPacket { flow, number, bytes, ..TestPacket::default() };
        queue.enqueue(now, packet, &mut Vec::new());
    }
}

/// Dequeues some packets at once. Returns their flows.
fn order(queue: &mut Fq<TestPacket>, now: Time, packets: usize) -> Vec<u8> {
    let next = || queue.dequeue(now, &mut Vec::new()).map(|packet| packet.flow);
    core::iter::from_fn(next).take(packets).collect()
}

/// Takes packets out whenever one may leave, on a line that needs `busy` for each. Returns when
/// each left, and its flow.
fn departures(queue: &mut Fq<TestPacket>, mut now: Time, busy: Span) -> Vec<(Time, u8)> {
    let mut found = Vec::new();
    loop {
        if let Some(packet) = queue.dequeue(now, &mut Vec::new()) {
            found.push((now, packet.flow));
            now += busy;
        } else if let Some(at) = queue.ready_at(now) {
            now = at;
        } else {
            return found;
        }
    }
}

/// A queue for each of the flows 0 to 5: a seed for which they do not collide.
fn apart(config: &Config) -> Fq<TestPacket> {
    let flow_of =
        |queue: &Fq<TestPacket>, flow| queue.flow_of(&TestPacket { flow, ..TestPacket::default() });
    (0..1000)
        .map(|seed| Fq::new(config.clone(), seed))
        .find(|queue| {
            let mut indices: Vec<u32> = (0..6).map(|flow| flow_of(queue, flow)).collect();
            indices.sort_unstable();
            indices.dedup();
            indices.len() == 6
        })
        .expect("nearly every seed will do")
}

#[test]
fn it_obeys_the_laws() {
    for (limit, flow_limit, orphan_mask, bps) in
        [(20, 10, 1023, 400_000), (200, 100, 0, 3_000_000), (50, 5, 3, 900_000)]
    {
        let config = Config {
            limit,
            flow_limit,
            orphan_mask,
            quantum: 300,
            initial_quantum: 0,
            ce_threshold: Some(Span::from_ms(2)),
            ..Config::default()
        };
        laws::check(|| Fq::new(config.clone(), 3));
        laws::check(|| Fq::new(Config { bands: true, ..config.clone() }, 3));
        for low_rate_threshold in [rate(1), rate(5_000_000)].into_iter().flatten() {
            let paced = Config { maxrate: rate(bps), low_rate_threshold, ..config.clone() };
            laws::check_shaping(|| Fq::new(paced.clone(), 3));
        }
    }
    laws::check(|| Fq::new(Config::default(), 3));
    laws::check(|| Fq::new(with_bands(), 3));
}

fn with_bands() -> Config {
    Config { bands: true, ..Config::default() }
}

/// Linux 6.7's weights: the usual band sends 196,608 bytes, or 130 packets of 1514, in its turn, and a
/// flow that nobody has seen before is in another band.
#[test]
fn an_unknown_flow_waits_for_the_turn_of_the_known_ones() {
    let config = Config { flow_limit: 10_000, ..with_bands() };
    let mut queue = apart(&config);
    put(&mut queue, Time::ZERO, 0, 400, 1514);
    // Eight packets pass, and ten are an unknown flow's first turn.
    assert_eq!(order(&mut queue, Time::ZERO, 18 + 5), [0; 23]);
    put(&mut queue, Time::ZERO, 1, 1, 500);
    let found = order(&mut queue, Time::ZERO, 126);
    assert_eq!(found.iter().position(|&flow| flow == 1), Some(125));
    // Now it is known, and goes first as a new flow.
    order(&mut queue, Time::ZERO, 5);
    put(&mut queue, Time::ZERO, 1, 1, 500);
    assert_eq!(order(&mut queue, Time::ZERO, 2), [1, 0]);
}

/// Among unknown flows alone, no turn ends.
#[test]
fn unknown_flows_share_their_band() {
    let mut queue = apart(&with_bands());
    put(&mut queue, Time::ZERO, 5, 9, 1514);
    for flow in 0..3 {
        put(&mut queue, Time::ZERO, flow, 2, 1514);
    }
    assert_eq!(order(&mut queue, Time::ZERO, 15), [5, 5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 1, 1, 2, 2]);
}

/// Up to eight packets pass by the flows while none of them has packets: in order of arrival, and
/// before the flows.
#[test]
fn packets_pass_by_flows_without_packets() {
    let mut queue = apart(&Config { limit: 2, ..with_bands() });
    for flow in [0, 0, 0, 1, 0, 1, 0, 0, 2, 2] {
        put(&mut queue, Time::ZERO, flow, 1, 100);
    }
    assert_eq!(order(&mut queue, Time::ZERO, 8), [0, 0, 0, 1, 0, 1, 0, 0]);
    // Flow 2 waits, so nothing passes; only what waits in flows counts towards the limit.
    put(&mut queue, Time::ZERO, 3, 1, 100);
    assert_eq!(queue.counters().dropped(Overflow), 1);
    assert_eq!(order(&mut queue, Time::ZERO, 3), [2, 2]);
    let mut paced = apart(&Config { maxrate: rate(400_000), ..with_bands() });
    put(&mut paced, Time::ZERO, 0, 2, 500);
    assert_eq!(departures(&mut paced, Time::ZERO, Span::ZERO)[1].0, at_ms(10));
}

/// Deficit round robin in bytes: two flows differ by a quantum and a packet at most, after their
/// first turns.
#[test]
fn flows_share_the_line_by_bytes() {
    let config = Config { flow_limit: 10_000, initial_quantum: 3028, ..Config::default() };
    let mut queue = apart(&config);
    put(&mut queue, Time::ZERO, 0, 400, 1500);
    put(&mut queue, Time::ZERO, 1, 4_000, 300);
    let sent = order(&mut queue, Time::ZERO, 1200);
    let bytes = |flow, bytes: u64| sent.iter().filter(|&&each| each == flow).count() as u64 * bytes;
    assert!(bytes(0, 1500).abs_diff(bytes(1, 300)) <= 3028 + 1500);
}

/// tc-fq(8): ten packets of 1514 bytes in the first turn, and two in each later one. A flow that was
/// not there goes first.
#[test]
fn the_first_turn_is_longer_and_new_flows_go_first() {
    let mut queue = apart(&Config::default());
    put(&mut queue, Time::ZERO, 0, 14, 1514);
    put(&mut queue, Time::ZERO, 1, 13, 1514);
    let first = [[0; 10], [1; 10]].concat();
    assert_eq!(order(&mut queue, Time::ZERO, 20), first);
    assert_eq!(order(&mut queue, Time::ZERO, 3), [0, 0, 1]);
    put(&mut queue, Time::ZERO, 2, 1, 100);
    assert_eq!(order(&mut queue, Time::ZERO, 9), [2, 1, 0, 0, 1]);
}

/// A flow that sends a packet each time it is empty does not starve others.
#[test]
fn a_new_flow_that_runs_empty_has_to_wait_for_the_old_ones() {
    let config = Config { quantum: 1514, initial_quantum: 1514, ..Config::default() };
    let mut queue = apart(&config);
    put(&mut queue, Time::ZERO, 0, 10, 1514);
    assert_eq!(order(&mut queue, Time::ZERO, 1), [0]);
    let mut sent = Vec::new();
    for _ in 0..6 {
        put(&mut queue, Time::ZERO, 1, 1, 1514);
        sent.extend(order(&mut queue, Time::ZERO, 1));
    }
    assert_eq!(sent.iter().filter(|&&flow| flow == 1).count(), 3, "{sent:?}");
}

#[test]
fn limits_hold_for_each_flow_and_for_all() {
    let config = Config { limit: 7, flow_limit: 4, ..Config::default() };
    let mut queue = apart(&config);
    let mut dropped = Vec::new();
    for flow in [0, 0, 0, 0, 0, 1, 1, 1, 1, 1] {
        queue.enqueue(Time::ZERO, TestPacket { flow, ..TestPacket::default() }, &mut dropped);
    }
    let lost: Vec<_> = dropped.iter().map(|(packet, reason)| (packet.flow, *reason)).collect();
    assert_eq!(lost, [(0, Overflow), (1, Overflow), (1, Overflow)]);
}

/// Below the threshold, each packet takes the time of its bytes.
#[test]
fn a_slow_flow_waits_after_each_packet() {
    // 500 bytes at 400 kbit/s take 10 ms.
    let config = Config { maxrate: rate(400_000), ..Config::default() };
    let mut queue = apart(&config);
    put(&mut queue, Time::ZERO, 0, 5, 500);
    put(&mut queue, Time::ZERO, 1, 2, 1000);
    let expected =
        [(0, 0), (0, 1), (10, 0), (20, 0), (20, 1), (30, 0), (40, 0)].map(|(ms, f)| (at_ms(ms), f));
    let mut found = departures(&mut queue, Time::ZERO, Span::ZERO);
    found.sort_unstable();
    assert_eq!(found, expected);
}

/// Above it, a flow sends its credit, and then waits for the time of a quantum.
#[test]
fn a_fast_flow_sends_a_quantum_at_a_time() {
    // 3000 bytes at 24 Mbit/s take 1 ms.
    let fast = Config { quantum: 3000, maxrate: rate(24_000_000), ..Config::default() };
    let mut queue = apart(&Config { initial_quantum: 6000, ..fast });
    put(&mut queue, Time::ZERO, 0, 8, 1500);
    let times: Vec<u64> = departures(&mut queue, Time::ZERO, Span::ZERO)
        .iter()
        .map(|(at, _)| at.since(Time::ZERO).as_us())
        .collect();
    assert_eq!(times, [0, 0, 0, 0, 1000, 1000, 2000, 2000]);
    // A packet that is longer than the quantum waits for its own bytes.
    let mut queue = apart(&Config { initial_quantum: 1, ..fast });
    put(&mut queue, Time::ZERO, 0, 2, 9000);
    let times = departures(&mut queue, Time::ZERO, Span::ZERO);
    assert_eq!(times[1].0, at_us(3000));
}

/// Whatever the sizes, the line and the number of flows, each flow gets its rate.
#[test]
fn each_flow_is_held_to_its_rate() {
    for bps in [300_000, 3_000_000, 8_000_000] {
        for bytes in [100, 1000, 1514] {
            let config = Config {
                maxrate: rate(bps),
                flow_limit: 10_000,
                initial_quantum: 0,
                ..Config::default()
            };
            let mut queue = apart(&config);
            let packets = 400 * 1514 / u64::from(bytes);
            for flow in 0..3 {
                put(&mut queue, Time::ZERO, flow, packets, bytes);
            }
            // A line of 100 Mbit/s.
            let busy = Span::from_ns(u64::from(bytes) * 80);
            let found = departures(&mut queue, Time::ZERO, busy);
            let end = found.last().expect("packets left").0;
            let carried =
                packets as f64 * f64::from(bytes) * 8.0 / end.since(Time::ZERO).as_secs_f64();
            assert!((carried / bps as f64 - 1.0).abs() < 0.01, "{carried} of {bps}, {bytes} B");
        }
    }
}

/// A flow that is asked late may make up for it, by half of its wait at most.
#[test]
fn lateness_shortens_the_next_wait_by_half_at_most() {
    let config = Config { maxrate: rate(400_000), ..Config::default() };
    for (late_ms, wait_ms) in [(0, 10), (4, 6), (5, 5), (9, 5)] {
        let mut queue = apart(&config);
        put(&mut queue, Time::ZERO, 0, 3, 500);
        assert!(queue.dequeue(Time::ZERO, &mut Vec::new()).is_some());
        assert!(queue.dequeue(Time::ZERO, &mut Vec::new()).is_none());
        let now = at_ms(10 + late_ms);
        assert!(queue.dequeue(now, &mut Vec::new()).is_some());
        assert!(queue.dequeue(now, &mut Vec::new()).is_none());
        assert_eq!(queue.ready_at(now), Some(now + Span::from_ms(wait_ms)));
    }
    // No wait is longer than a second.
    let mut queue = apart(&Config { maxrate: rate(1_000), ..Config::default() });
    put(&mut queue, Time::ZERO, 0, 2, 1500);
    assert_eq!(departures(&mut queue, Time::ZERO, Span::ZERO)[1].0, at_ms(1000));
}

#[test]
fn a_flow_that_was_idle_gets_a_quantum_back() {
    let config = Config { initial_quantum: 3028, ..Config::default() };
    for (idle_ms, expected) in [(40, [0, 1, 0, 0]), (41, [0, 0, 1, 0])] {
        let mut queue = apart(&config);
        put(&mut queue, Time::ZERO, 0, 1, 1514);
        put(&mut queue, Time::ZERO, 1, 40, 1514);
        // Flow 0 keeps half of its credit and leaves the round. Flow 1 is within its turn.
        assert_eq!(order(&mut queue, Time::ZERO, 10), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let now = at_ms(idle_ms);
        put(&mut queue, now, 0, 4, 1514);
        assert_eq!(order(&mut queue, now, 4), expected, "{idle_ms} ms");
    }
}

#[test]
fn packets_leave_at_their_departure_times() {
    let mut queue = apart(&Config::default());
    for (flow, ms) in [(0, 5), (1, 3), (0, 8), (1, 3)] {
        let packet = TestPacket { flow, departure_at: Some(at_ms(ms)), ..TestPacket::default() };
        queue.enqueue(at_ms(1), packet, &mut Vec::new());
    }
    let found = departures(&mut queue, at_ms(1), Span::ZERO);
    assert_eq!(found, [(3, 1), (3, 1), (5, 0), (8, 0)].map(|(ms, flow)| (at_ms(ms), flow)));
    // A flow that is held back does not stop others.
    let packet = TestPacket { departure_at: Some(at_ms(90)), ..TestPacket::default() };
    queue.enqueue(at_ms(10), packet, &mut Vec::new());
    assert!(queue.dequeue(at_ms(10), &mut Vec::new()).is_none());
    put(&mut queue, at_ms(11), 1, 1, 1500);
    assert_eq!(order(&mut queue, at_ms(11), 2), [1]);
    assert_eq!(queue.ready_at(at_ms(11)), Some(at_ms(90)));
}

/// A departure time replaces the waits for the rate if it lies later, and then none of the credit.
#[test]
fn maxrate_bounds_packets_with_departure_times_too() {
    // 500 bytes at 4 Mbit/s take 1 ms.
    let mut queue = apart(&Config { maxrate: rate(4_000_000), ..Config::default() });
    for us in [0, 100, 5_000] {
        let packet =
            TestPacket { bytes: 500, departure_at: Some(at_us(us)), ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut Vec::new());
    }
    let times: Vec<Time> =
        departures(&mut queue, Time::ZERO, Span::ZERO).iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [0, 1_000, 5_000].map(at_us));
}

#[test]
fn departure_times_beyond_the_horizon_are_dropped_or_brought_nearer() {
    let far = |ms| TestPacket { departure_at: Some(at_ms(ms)), ..TestPacket::default() };
    let config = Config { horizon: Span::from_ms(100), ..Config::default() };
    let mut queue = Fq::new(config.clone(), 1);
    let mut dropped = Vec::new();
    let verdicts = [101, 102].map(|ms| queue.enqueue(at_ms(1), far(ms), &mut dropped));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Dropped]);
    assert_eq!(dropped, [(far(102), Overflow)]);
    let mut queue = Fq::new(Config { horizon_drop: false, ..config }, 1);
    queue.enqueue(at_ms(1), far(500), &mut dropped);
    assert_eq!(departures(&mut queue, at_ms(1), Span::ZERO), [(at_ms(101), 0)]);
}

/// The time for which fq itself held a packet back does not count.
#[test]
fn packets_that_waited_for_the_line_are_marked() {
    let config = Config {
        ce_threshold: Some(Span::from_ms(4)),
        maxrate: rate(400_000),
        ..Config::default()
    };
    for (ecn, late_us, marks) in [
        (Ecn::Ect0, 4_000, 0),
        (Ecn::Ect0, 4_001, 1),
        (Ecn::Ect1, 4_001, 1),
        (Ecn::NotEct, 9_000, 0),
    ] {
        let mut queue = apart(&config);
        for _ in 0..2 {
            let packet = TestPacket { ecn, bytes: 500, ..TestPacket::default() };
            queue.enqueue(Time::ZERO, packet, &mut Vec::new());
        }
        let first = queue.dequeue(Time::ZERO, &mut Vec::new()).expect("it waits");
        assert!(queue.dequeue(at_us(9_999), &mut Vec::new()).is_none());
        let second = queue.dequeue(at_us(10_000 + late_us), &mut Vec::new()).expect("it waits");
        assert_eq!((first.marks, second.marks), (0, marks));
        assert_eq!(queue.counters().marked_forced, u64::from(marks));
    }
}

#[test]
fn impossible_settings_are_refused() {
    let error = Config { orphan_mask: 1000, ..Config::default() }.check().expect_err("no mask");
    assert!(error.to_string().starts_with("orphan_mask: is not one less than a power of two"));
    assert!(Config { quantum: 255, ..Config::default() }.check().is_err());
    assert!(Config { orphan_mask: 65_535, ..Config::default() }.check().is_ok());
}

#[test]
fn any_times_and_sizes_will_do() {
    for seed in 0..40 {
        let mut random = Pcg32::seed_from_u64(seed);
        let config = Config {
            limit: 1 + random.next_u32() % 50,
            flow_limit: 1 + random.next_u32() % 50,
            quantum: [256, 3028, 1 << 20][seed as usize % 3],
            initial_quantum: [0, u32::MAX][seed as usize % 2],
            maxrate: [None, rate(1), rate(u64::MAX)][seed as usize % 5 % 3],
            low_rate_threshold: rate([1, u64::MAX][seed as usize % 4 % 2]).expect("not zero"),
            refill_delay: Span::from_ps([0, u64::MAX][seed as usize % 2]),
            orphan_mask: 3,
            ce_threshold: (seed % 5 == 0).then_some(Span::ZERO),
            horizon: Span::from_ps([1, u64::MAX][seed as usize % 2]),
            horizon_drop: seed % 3 == 0,
            bands: seed % 7 < 3,
        };
        let mut queue = Fq::new(config, seed);
        let mut now = Time::ZERO;
        for number in 0..500 {
            now += Span::from_ps([0, 0, 1, 1 << 20, 1 << 40][random.next_u32() as usize % 5]);
            let packet = TestPacket {
                number,
                flow: random.next_u32() as u8 % 9,
                bytes: [0, 1, 1500, u32::MAX][random.next_u32() as usize % 4],
                ecn: Ecn::Ect0,
                departure_at: (random.next_u32() % 3 == 0).then_some(now + Span::from_us(number)),
                ..TestPacket::default()
            };
            queue.enqueue(now, packet, &mut Vec::new());
            if random.next_u32() % 2 == 0 && queue.dequeue(now, &mut Vec::new()).is_none() {
                assert!(queue.ready_at(now).is_none_or(|at| at > now));
                assert_eq!(queue.ready_at(now).is_some(), queue.backlog().packets > 0);
            }
            assert!(queue.counters().balance(queue.backlog()));
        }
    }
}
