use alloc::borrow::ToOwned;
use alloc::string::ToString;
use alloc::vec::Vec;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use crate::{DropReason::Early, DropReason::Overflow, Ecn};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// A queue that received `packets` packets of 1000 bytes at time zero.
fn standing(config: &Config, packets: u32, ecn: Ecn) -> Codel<TestPacket> {
    let mut queue = Codel::new(&Config { limit: 10_000_000, ..config.clone() });
    for number in 0..u64::from(packets) {
        let packet = TestPacket { number, ecn, ..TestPacket::default() };
        assert_eq!(queue.enqueue(Time::ZERO, packet, &mut Vec::new()), Verdict::Queued);
    }
    queue
}

/// Dequeues every 10 us from `from_us` to `to_us`. Returns when packets were dropped.
fn drops(queue: &mut Codel<TestPacket>, from_us: u64, to_us: u64) -> Vec<Time> {
    let mut times = Vec::new();
    for us in (from_us..to_us).step_by(10) {
        let mut dropped = Vec::new();
        let packet = queue.dequeue(at_us(us), &mut dropped);
        assert!(packet.is_some());
        assert!(dropped.iter().all(|(_, reason)| *reason == Early));
        times.extend(dropped.iter().map(|_| at_us(us)));
    }
    times
}

#[test]
fn it_obeys_the_laws() {
    for (limit, mtu) in [(20, 1514), (1000, 1514), (1000, 1)] {
        for ecn in [false, true] {
            for ce_threshold in [None, Some(Span::from_ms(1))] {
                let config = Config {
                    limit,
                    target: Span::from_ms(2),
                    interval: Span::from_ms(10),
                    ecn,
                    ce_threshold,
                    mtu: Bytes::new(mtu),
                };
                laws::check(|| Codel::new(&config));
            }
        }
    }
    laws::check(|| Codel::new(&Config::default()));
}

#[test]
fn the_limit_is_in_packets() {
    let mut queue = Codel::new(&Config { limit: 2, ..Config::default() });
    let mut dropped = Vec::new();
    let verdicts = [(); 3].map(|()| queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped));
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Dropped]);
    assert_eq!(dropped, [(TestPacket::default(), Overflow)]);
}

#[test]
fn nothing_is_dropped_below_the_target_however_long_the_queue() {
    let mut queue = Codel::new(&Config::default());
    let mut dropped = Vec::new();
    // 4.99 ms of 100 packets a millisecond, for ten seconds.
    for us in (0..10_000_000u64).step_by(10) {
        queue.enqueue(at_us(us), TestPacket::default(), &mut dropped);
        if us >= 4_990 {
            assert!(queue.dequeue(at_us(us), &mut dropped).is_some());
        }
    }
    assert_eq!((dropped.len(), queue.backlog().packets), (0, 499));
}

/// RFC 8289, 4.4: the first drop comes when the sojourn time has been above the target for an
/// interval.
#[test]
fn the_first_drop_comes_an_interval_after_the_sojourn_time_passed_the_target() {
    let mut queue = standing(&Config::default(), 30_000, Ecn::NotEct);
    // CoDel first looks at 5 ms; a sojourn time equal to the target counts as above it. The drop
    // comes strictly after an interval.
    let times = drops(&mut queue, 5_000, 105_010);
    assert!(times.is_empty());
    assert_eq!(drops(&mut queue, 105_010, 105_020), [at_us(105_010)]);
}

#[test]
fn one_packet_below_the_target_starts_the_interval_anew() {
    let mut queue = standing(&Config::default(), 30_000, Ecn::NotEct);
    assert!(drops(&mut queue, 5_000, 100_000).is_empty());
    let mut dropped = Vec::new();
    while queue.backlog().packets > 0 {
        queue.storage.pop();
    }
    for us in [99_000, 99_001, 99_002, 99_003] {
        queue.enqueue(at_us(us), TestPacket::default(), &mut dropped);
    }
    assert!(queue.dequeue(at_us(100_000), &mut dropped).is_some());
    for _ in 0..30_000 {
        queue.enqueue(at_us(100_000), TestPacket::default(), &mut dropped);
    }
    // Above again from the packet at 110 ms on, so a drop follows after 210 ms.
    for _ in 0..3 {
        queue.storage.pop();
    }
    assert!(drops(&mut queue, 110_000, 210_010).is_empty());
    assert_eq!(drops(&mut queue, 210_010, 210_020).len(), 1);
}

#[test]
fn nothing_is_dropped_where_no_more_than_an_mtu_is_left_behind() {
    let mut dropped = Vec::new();
    for (left, acts) in [(1514, false), (1515, true)] {
        let mut queue = Codel::new(&Config::default());
        for us in 0..1_000u64 {
            // The packet that is dequeued leaves one packet behind.
            for bytes in [100, left] {
                let packet = TestPacket { bytes, ..TestPacket::default() };
                queue.enqueue(at_ms(us), packet, &mut dropped);
            }
            queue.dequeue(at_ms(us + 6), &mut dropped);
            queue.storage.pop();
        }
        assert_eq!(!dropped.is_empty(), acts);
    }
}

/// RFC 8289, 5.5, with the kernel's approximation of the root.
#[test]
fn drops_come_an_interval_over_the_root_of_their_count_apart() {
    let mut queue = standing(&Config::default(), 200_000, Ecn::NotEct);
    let times = drops(&mut queue, 10_000, 1_500_000);
    let interval = 0.1;
    let mut x = 1.0;
    let mut due = 0.11001;
    for (n, time) in times.iter().enumerate() {
        let late = time.as_secs_f64() - due;
        // The 10 us between two calls, and the rounding of each interval so far to sixteen bits.
        let tolerance = 11e-6 + (n as f64 + 1.0) * interval * 4.0 / 65_536.0;
        assert!(late.abs() < tolerance, "drop {n} at {time}, due {due}");
        due += interval * x;
        // The next fraction, without rounding: 1, then Newton's steps.
        x = x / 2.0 * (3.0 - (n as f64 + 2.0) * x * x);
    }
    // 0.11 s and interval * (1 + 0.5 + 0.5625 + sum of 1/sqrt(n) from 4 on) up to 1.5 s.
    let expected = (4..).scan(0.11 + 0.20625, |sum, n| {
        *sum += interval / f64::from(n).sqrt();
        Some(*sum)
    });
    let expected = 4 + expected.take_while(|&sum| sum < 1.5).count();
    assert!(times.len().abs_diff(expected) <= 1, "{} drops, {expected} expected", times.len());
}

#[test]
fn where_the_next_drops_are_overdue_they_all_happen_at_once() {
    let mut queue = standing(&Config::default(), 100_000, Ecn::NotEct);
    assert_eq!(drops(&mut queue, 10_000, 110_020).len(), 1);
    // The second drop is due at 210 ms, the third at 260, the fourth at 316, and drop n comes about
    // 100 ms / sqrt(n - 1) after drop n - 1: the eleventh at 589, the twelfth at 619.
    let mut dropped = Vec::new();
    assert!(queue.dequeue(at_us(610_000), &mut dropped).is_some());
    assert_eq!(dropped.len(), 10);
    assert!(queue.dequeue(at_us(610_000), &mut dropped).is_some());
    assert_eq!(dropped.len(), 10);
}

#[test]
fn a_sojourn_time_below_the_target_ends_the_dropping() {
    let mut queue = standing(&Config::default(), 30_000, Ecn::NotEct);
    assert_eq!(drops(&mut queue, 10_000, 220_000).len(), 2);
    while queue.backlog().packets > 0 {
        queue.storage.pop();
    }
    let mut dropped = Vec::new();
    for _ in 0..5 {
        queue.enqueue(at_ms(219), TestPacket::default(), &mut dropped);
    }
    assert!(queue.dequeue(at_ms(220), &mut dropped).is_some());
    // The third drop was due at 261 ms. Now the sojourn time must stay above the target for an
    // interval again.
    for _ in 0..100_000 {
        queue.enqueue(at_ms(220), TestPacket::default(), &mut dropped);
    }
    while queue.storage.head().is_some_and(|head| head.arrived_at < at_ms(220)) {
        queue.storage.pop();
    }
    let times = drops(&mut queue, 225_000, 330_000);
    assert_eq!(times, [at_us(325_010)]);
}

/// RFC 8289, 5.6, and Linux since 815980fe6dbb.
#[test]
fn an_empty_queue_ends_the_dropping_and_the_interval() {
    let mut queue = standing(&Config::default(), 30_000, Ecn::NotEct);
    assert_eq!(drops(&mut queue, 10_000, 220_000).len(), 2);
    while queue.backlog().packets > 0 {
        queue.storage.pop();
    }
    let mut dropped = Vec::new();
    assert_eq!(queue.dequeue(at_ms(220), &mut dropped), None);
    for _ in 0..100_000 {
        queue.enqueue(at_ms(221), TestPacket::default(), &mut dropped);
    }
    // The third drop was due at 260 ms. A new interval begins with the first packet that leaves.
    assert_eq!(drops(&mut queue, 230_000, 330_020), [at_us(330_010)]);
}

#[test]
fn with_ecn_capable_packets_are_marked_and_others_dropped() {
    for (ecn, capable) in [(Ecn::Ect0, true), (Ecn::Ect1, true), (Ecn::NotEct, false)] {
        let mut queue = standing(&Config { ecn: true, ..Config::default() }, 100_000, ecn);
        let times = drops(&mut queue, 10_000, 500_000);
        let counters = queue.counters();
        let (marked, dropped) = (counters.marked_early, counters.dropped_early);
        // At 110, 210, 260, 316, 365, 410, 451 and 488 ms: the same law holds for drops and marks.
        assert_eq!(marked + dropped, 8);
        assert_eq!(if capable { dropped } else { marked }, 0);
        assert_eq!(times.len() as u64, dropped);
    }
}

#[test]
fn ce_threshold_marks_what_waited_longer_even_below_the_target() {
    let config = Config { ce_threshold: Some(Span::from_ms(1)), ..Config::default() };
    let mut queue = Codel::new(&config);
    let mut dropped = Vec::new();
    for (wait_us, ecn, marked) in [
        (1_000, Ecn::Ect0, false),
        (1_001, Ecn::Ect0, true),
        (1_001, Ecn::NotEct, false),
        (999, Ecn::Ect1, false),
    ] {
        queue.enqueue(Time::ZERO, TestPacket { ecn, ..TestPacket::default() }, &mut dropped);
        let before = queue.counters().marked_forced;
        let packet = queue.dequeue(at_us(wait_us), &mut dropped).expect("it waits");
        assert_eq!(packet.ecn == Ecn::Ce, marked);
        assert_eq!(queue.counters().marked_forced - before, u64::from(marked));
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let check = |config: Config| config.check().map_err(|error| error.to_string());
    let base = Config::default;
    assert_eq!(check(base()), Ok(()));
    assert_eq!(check(Config { limit: 0, ..base() }), Err("limit: must be above zero".to_owned()));
    assert_eq!(
        check(Config { target: Span::ZERO, ..base() }),
        Err("target: must be above zero".to_owned())
    );
    assert_eq!(
        check(Config { interval: Span::ZERO, ..base() }),
        Err("interval: must be above zero".to_owned())
    );
}

#[test]
fn any_times_and_sizes_will_do() {
    for seed in 0..50 {
        let mut random = Pcg32::seed_from_u64(seed);
        let config = Config {
            limit: 1 + random.next_u32() % 50,
            target: Span::from_ps(1),
            interval: Span::from_ps([1, 1_000_000, u64::MAX][seed as usize % 3]),
            ecn: seed % 2 == 0,
            ce_threshold: (seed % 5 == 0).then_some(Span::ZERO),
            mtu: Bytes::new(1.max(u64::from(random.next_u32()) * (seed % 2))),
        };
        let mut queue = Codel::new(&config);
        let mut now = Time::ZERO;
        let mut dropped = Vec::new();
        for number in 0..2_000 {
            now +=
                Span::from_ps([0, 0, 1, 1 << 20, 1 << 40, 1 << 60][random.next_u32() as usize % 6]);
            let bytes = [0, 1, 1500, u32::MAX][random.next_u32() as usize % 4];
            let packet = TestPacket { number, bytes, ecn: Ecn::Ect0, ..TestPacket::default() };
            queue.enqueue(now, packet, &mut dropped);
            if random.next_u32() % 2 == 0 {
                let waited = queue.backlog().packets > 0;
                assert_eq!(queue.dequeue(now, &mut dropped).is_some(), waited);
            }
            assert!(queue.counters().balance(queue.backlog()));
        }
    }
}
