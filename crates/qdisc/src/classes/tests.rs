use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use crate::traffic::TestPacket;
use crate::{AverageQueue, Ecn, Protocol, codel, fifo::PfifoConfig, fq_codel, laws, red};

fn pfifo(limit: u32) -> AnyConfig {
    AnyConfig::Pfifo(PfifoConfig { limit })
}

fn class(name: &str, filter: Option<Filter>, limited: Option<(u64, u64)>) -> Class {
    Class {
        name: name.into(),
        filters: filter.into_iter().collect(),
        rate: limited.and_then(|(bps, _)| Rate::from_bps(bps)),
        burst: limited.map(|(_, burst)| Bytes::new(burst)),
        queue: pfifo(1000),
    }
}

fn port(port: u16) -> Option<Filter> {
    Some(Filter { port: Some(port), ..Filter::default() })
}

fn one(bps: u64, burst: u64) -> Classes<TestPacket> {
    Classes::new(&Config { classes: vec![class("all", None, Some((bps, burst)))] }, 1)
}

/// Takes out what comes within `span`, each packet as soon as it is ready.
fn sent(queue: &mut Classes<TestPacket>, span: Span) -> Vec<(Time, TestPacket)> {
    let mut now = Time::ZERO;
    let mut sent = Vec::new();
    while now <= Time::ZERO + span {
        if let Some(packet) = queue.dequeue(now, &mut Vec::new()) {
            sent.push((now, packet));
        } else {
            let Some(at) = queue.ready_at(now) else { break };
            assert!(at > now);
            now = at;
        }
    }
    sent
}

#[test]
fn it_obeys_the_laws_of_shaping() {
    // Eight whole picoseconds a bit, and a rate that divides nothing.
    for bps in [1_000_000, 7_777_777] {
        laws::check_shaping(|| one(bps, 1_500));
        let red = red::linux::Config { ecn: true, ..red::linux::Config::default() };
        let codel = codel::Config { ecn: true, ..codel::Config::default() };
        let udp = Some(Filter { protocol: Some(Protocol::Udp), ..Filter::default() });
        let config = Config {
            classes: vec![
                Class { queue: AnyConfig::Red(red), ..class("a", port(53), Some((bps, 3_000))) },
                class("b", udp, None),
                Class {
                    queue: AnyConfig::Codel(codel),
                    ..class("c", port(80), Some((2 * bps, 20_000)))
                },
                Class {
                    queue: AnyConfig::FqCodel(fq_codel::Config::default()),
                    ..class("d", None, Some((bps / 3, 1_600)))
                },
            ],
        };
        laws::check_shaping(|| Classes::new(&config, 1));
    }
}

#[test]
fn classes_without_a_rate_obey_the_laws_of_those_that_do_not_shape() {
    let classes = vec![class("dns", port(53), None), class("rest", None, None)];
    let config = Config { classes };
    laws::check(|| Classes::new(&config, 1));
}

/// The closed form: k packets of L bytes have left once k L <= burst + rate t.
#[test]
fn a_busy_class_sends_its_burst_and_then_at_its_rate() {
    // 1 Mbit/s: 8 us a byte.
    let mut queue = one(1_000_000, 2_500);
    for number in 0..100 {
        let packet = TestPacket { number, ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut Vec::new());
    }
    let sent = sent(&mut queue, Span::from_secs(10));
    assert_eq!(sent.len(), 100);
    for (k, (at, packet)) in sent.into_iter().enumerate() {
        let due = Span::from_us(8 * ((k as u64 + 1) * 1_000).saturating_sub(2_500));
        assert_eq!((at, packet.number), (Time::ZERO + due, k as u64));
    }
}

#[test]
fn in_any_interval_a_class_sends_at_most_its_burst_and_its_rate_s_share() {
    for seed in 0..20 {
        let mut random = Pcg32::seed_from_u64(seed);
        let bps = [64_000, 1_000_000, 7_777_777, 12_345_678_901][seed as usize % 4];
        let burst = [1_500, 1_501, 10_000][seed as usize % 3];
        let mut queue = one(bps, burst);
        let mean_gap = 8_000_000_000_000 * 750 / bps;
        let mut now = Time::ZERO;
        let mut dropped = Vec::new();
        let mut sent: Vec<(Time, u64)> = Vec::new();
        while sent.len() < 600 {
            let wait = u64::from(random.next_u32() % 2_000) * mean_gap / 1_000;
            let arrives_at = now + Span::from_ps(wait);
            // The line asks as soon as the class is ready, or a little later.
            while let Some(at) = queue.ready_at(now).filter(|&at| at <= arrives_at) {
                now = at.max(now);
                if random.next_u32() % 4 == 0 {
                    now = (now + Span::from_ps(mean_gap / 3)).min(arrives_at);
                }
                while let Some(packet) = queue.dequeue(now, &mut dropped) {
                    sent.push((now, u64::from(packet.bytes)));
                }
            }
            now = arrives_at;
            let bytes = random.next_u32() % 1_501;
            queue.enqueue(now, TestPacket { bytes, ..TestPacket::default() }, &mut dropped);
            while let Some(packet) = queue.dequeue(now, &mut dropped) {
                sent.push((now, u64::from(packet.bytes)));
            }
        }
        let mut fullest: f64 = 0.0;
        for first in 0..sent.len() {
            let mut bytes = 0;
            for &(at, length) in &sent[first..] {
                bytes += length;
                // The bound in bits and picoseconds, without rounding:
                // 8 bytes 10^12 <= 8 burst 10^12 + rate t.
                let span = u128::from(at.since(sent[first].0).as_ps());
                let allowed = 8 * u128::from(burst) * 1_000_000_000_000 + u128::from(bps) * span;
                let took = 8 * u128::from(bytes) * 1_000_000_000_000;
                assert!(took <= allowed, "{bytes} bytes in {span} ps at {bps} bit/s");
                fullest = fullest.max(took as f64 / allowed as f64);
            }
        }
        assert!(fullest > 0.9, "the bucket was never near empty: {fullest}");
    }
}

#[test]
fn the_first_class_with_tokens_sends() {
    let config = Config {
        classes: vec![
            class("dns", port(53), Some((1_000_000, 1_500))),
            class("web", port(80), Some((2_000_000, 1_500))),
            class("rest", None, None),
        ],
    };
    let mut queue = Classes::new(&config, 1);
    let mut dropped = Vec::new();
    for (number, port) in [22, 22, 80, 80, 53, 53].into_iter().enumerate() {
        let packet = TestPacket {
            ports: (1, port),
            number: number as u64,
            bytes: 1500,
            ..TestPacket::default()
        };
        queue.enqueue(Time::ZERO, packet, &mut dropped);
    }
    let mut order = |us: u64, packets: usize| -> Vec<u64> {
        let now = Time::ZERO + Span::from_us(us);
        (0..packets)
            .filter_map(|_| queue.dequeue(now, &mut dropped))
            .map(|packet| packet.number)
            .collect()
    };
    // The first two classes send their bursts, by priority. Then comes what needs no tokens.
    assert_eq!(order(0, 3), [4, 2, 0]);
    // At 6 ms the second class has tokens again, and at 12 ms the first.
    assert_eq!(order(6_000, 2), [3, 1]);
    assert!(order(11_999, 1).is_empty());
    assert_eq!(order(12_000, 1), [5]);
}

#[test]
fn a_packet_longer_than_the_burst_is_dropped() {
    let mut queue = one(1_000_000, 1_500);
    let mut dropped = Vec::new();
    let large = TestPacket { bytes: 1_501, ..TestPacket::default() };
    assert_eq!(queue.enqueue(Time::ZERO, large, &mut dropped), Verdict::Dropped);
    assert_eq!(dropped, [(large, DropReason::Overflow)]);
    let fits = TestPacket { bytes: 1_500, ..large };
    assert_eq!(queue.enqueue(Time::ZERO, fits, &mut dropped), Verdict::Queued);
    let counters = queue.counters();
    assert_eq!((counters.arrived_packets, counters.dropped_overflow), (2, 1));
    assert!(counters.balance(queue.backlog()));
    // A full bucket is just enough for this packet.
    assert_eq!(queue.dequeue(Time::ZERO, &mut dropped), Some(fits));
}

#[test]
fn a_packet_that_waits_for_tokens_has_not_left_and_its_mark_does_not_count() {
    let codel = codel::Config { ce_threshold: Some(Span::ZERO), ..codel::Config::default() };
    let slow = Class { queue: AnyConfig::Codel(codel), ..class("all", None, Some((1_000, 1_500))) };
    let mut queue = Classes::new(&Config { classes: vec![slow] }, 1);
    let mut dropped = Vec::new();
    for _ in 0..2 {
        let packet = TestPacket { ecn: Ecn::Ect0, bytes: 1_500, ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut dropped);
    }
    let at = |s| Time::ZERO + Span::from_secs(s);
    assert!(queue.dequeue(at(1), &mut dropped).is_some());
    // 1500 bytes at 1 kbit/s.
    assert_eq!(queue.dequeue(at(12), &mut dropped), None);
    let counters = queue.counters();
    assert_eq!((counters.sent_packets, counters.marked_packets()), (1, 1));
    assert_eq!(queue.backlog().packets, 1);
    assert_eq!(queue.ready_at(at(12)), Some(at(13)));
    assert!(queue.dequeue(at(13), &mut dropped).is_some());
    assert_eq!(queue.counters().marked_packets(), 2);
}

/// Unlike RED below tbf.
#[test]
fn an_inner_red_learns_that_it_is_idle() {
    let red = red::classic::Config { weight: 0.5, ..red::classic::Config::example() };
    let slow =
        Class { queue: AnyConfig::Red1993(red), ..class("all", None, Some((10_000_000, 10_000))) };
    let mut queue = Classes::new(&Config { classes: vec![slow] }, 1);
    let mut dropped = Vec::new();
    for _ in 0..4 {
        queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
    }
    while queue.dequeue(Time::ZERO, &mut dropped).is_some() {}
    queue.enqueue(Time::ZERO + Span::from_secs(1), TestPacket::default(), &mut dropped);
    let average = queue.queues().next().and_then(AnyQdisc::average_queue);
    assert!(matches!(average, Some(AverageQueue::Packets(mean)) if mean < 1e-6), "{average:?}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let check = |class: Class| Config { classes: vec![class] }.check().map_err(|e| e.to_string());
    let good = || class("all", None, Some((1, 1500)));
    assert_eq!(check(good()), Ok(()));
    let missing = "classes[0].burst: is missing beside rate; hint: such as burst = \"10 kB\"";
    for (class, text) in [
        (Class { burst: None, ..good() }, missing),
        (
            Class { rate: None, ..good() },
            "classes[0].burst: goes with rate; hint: such as rate = \"1 Mbit/s\", or leave burst out",
        ),
        (Class { burst: Some(Bytes::ZERO), ..good() }, "classes[0].burst: must be at least 1500"),
        (Class { queue: pfifo(0), ..good() }, "classes[0].queue.limit: must be above zero"),
    ] {
        assert_eq!(check(class), Err(text.into()));
    }
    let error = Config { classes: Vec::new() }.check().expect_err("no classes");
    assert_eq!(error.key(), "classes");
}

#[test]
fn any_times_and_sizes_will_do() {
    for seed in 0..40 {
        let mut random = Pcg32::seed_from_u64(seed);
        let bps = [1, 1_000, 7_777_777, u64::MAX][seed as usize % 4];
        let burst = [1_500, 9_999, u64::from(u32::MAX)][seed as usize % 3];
        let mut queue = one(bps, burst);
        let mut now = Time::ZERO;
        let mut dropped = Vec::new();
        for number in 0..2_000 {
            let step = [0, 0, 1, 1 << 20, 1 << 40, 1 << 60][random.next_u32() as usize % 6];
            now += Span::from_ps(step);
            let bytes = [0, 1, 1500, u32::MAX][random.next_u32() as usize % 4];
            let packet = TestPacket { number, bytes, ..TestPacket::default() };
            queue.enqueue(now, packet, &mut dropped);
            if random.next_u32() % 2 == 0 && queue.dequeue(now, &mut dropped).is_none() {
                let waits = queue.backlog().packets > 0;
                assert_eq!(
                    queue.ready_at(now).is_some_and(|at| at > now),
                    waits && now < Time::MAX
                );
            }
            assert!(queue.counters().balance(queue.backlog()));
        }
    }
}

#[test]
fn what_follows_from_a_rate_goes_to_disciplines_inside_as_they_are_served() {
    let rate = |mbit: u64| Rate::from_bps(mbit * 1_000_000).expect("not zero");
    let class = Class {
        name: "slow".into(),
        rate: Some(rate(2)),
        queue: red::linux::Config::default().into(),
        ..Class::default()
    };
    let config = AnyConfig::from(Config { classes: vec![class] }).settled(rate(10));
    let inner = config.inner();
    assert_eq!(inner[0].0, "classes[0].queue");
    let AnyConfig::Red(red) = inner[0].1 else { panic!("it was red") };
    assert_eq!(red.bandwidth, Some(rate(2)));
    // tc-red(8): max is a quarter of limit, min a third of that.
    assert_eq!(red.max.map(Bytes::get), Some(100_000));
    assert_eq!(red.min.map(Bytes::get), Some(33_333));
    // (2 min + max) / (3 avpkt)
    assert_eq!(red.burst, Some(55));
}
