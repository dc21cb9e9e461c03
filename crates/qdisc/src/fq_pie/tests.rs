use alloc::string::ToString;
use alloc::vec::Vec;

use rand_core::Rng;

use super::*;
use crate::laws;
use crate::pie::Pie;
use crate::traffic::TestPacket;
use crate::{DropReason::Early, DropReason::Overflow, Ecn};

fn at_us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Queues in which flows 0 and 1 do not share one.
fn apart(config: &Config) -> FqPie<TestPacket> {
    let index = |queue: &FqPie<TestPacket>, flow| {
        queue.flow_of(&TestPacket { flow, ..TestPacket::default() })
    };
    (0..100)
        .map(|seed| FqPie::new(config, seed))
        .find(|queue| index(queue, 0) != index(queue, 1))
        .expect("nearly all seeds will do")
}

#[test]
fn it_obeys_the_laws() {
    for (limit, flows) in [(20, 1024), (200, 3), (10_240, 1), (5, 8)] {
        for bits in 0..8 {
            let [ecn, bytemode, dq_rate_estimator] = [1, 2, 4].map(|bit| bits & bit != 0);
            let config = Config {
                limit,
                flows,
                quantum: 300,
                target: Span::from_ms(2),
                beta: 32,
                alpha: 32,
                ecn,
                bytemode,
                dq_rate_estimator,
                ..Config::default()
            };
            laws::check(|| FqPie::new(&config, 3));
        }
    }
    laws::check(|| FqPie::new(&Config::default(), 3));
}

/// With a single queue there is no order to choose, and what remains is PIE, packet by packet.
#[test]
fn a_single_queue_is_pie() {
    for bits in 0..8 {
        let [ecn, bytemode, dq_rate_estimator] = [1, 2, 4].map(|bit| bits & bit != 0);
        let jiffy = (bits % 3 == 0).then_some(Span::from_ms(4));
        let config = Config {
            limit: 80,
            flows: 1,
            target: Span::from_ms(3),
            jiffy,
            ecn,
            bytemode,
            dq_rate_estimator,
            ..Config::default()
        };
        let mut many = FqPie::<TestPacket>::new(&config, bits);
        let mut one = Pie::<TestPacket>::new(&config.of_one(), bits);
        let mut random = Pcg32::seed_from_u64(bits);
        let mut lost = [Vec::new(), Vec::new()];
        let mut now = Time::ZERO;
        for number in 0..60_000 {
            now += Span::from_us(u64::from(random.next_u32() % 900));
            let flow = random.next_u32() as u8 % 4;
            let bytes = [60, 600, 1500][random.next_u32() as usize % 3];
            let ecn = if flow == 0 { Ecn::NotEct } else { Ecn::Ect0 };
            let packet = TestPacket { flow, number, bytes, ecn, ..TestPacket::default() };
            let verdict = one.enqueue(now, packet, &mut lost[0]);
            assert_eq!(many.enqueue(now, packet, &mut lost[1]), verdict);
            if random.next_u32() % 32 < 29 {
                assert_eq!(many.dequeue(now, &mut lost[1]), one.dequeue(now, &mut lost[0]));
            }
        }
        assert_eq!(lost[0], lost[1]);
        assert_eq!(many.counters(), one.counters());
        let counters = one.counters();
        assert!(counters.dropped(Early) + counters.marked_early > 100, "{counters:?}");
    }
}

/// One flow sends twice what the line carries, and the other a packet every 20 ms. The first is held
/// at the target, and the second neither waits nor loses anything.
#[test]
fn a_flow_pays_only_for_its_own_queue() {
    let mut queue = apart(&Config::default());
    let mut dropped = Vec::new();
    let mut sparse_waited = Vec::new();
    let (mut lost, mut arrived, mut waited, mut served) = (0, 0, 0, 0);
    for ms in 0..60_000 {
        let now = at_us(ms * 1_000);
        let packet = |flow| TestPacket { flow, number: ms, bytes: 1250, ..TestPacket::default() };
        for _ in 0..2 {
            let verdict = queue.enqueue(now, packet(0), &mut dropped);
            if ms > 30_000 {
                arrived += 1;
                lost += u32::from(verdict == Verdict::Dropped);
            }
        }
        if ms % 20 == 10 {
            assert_eq!(queue.enqueue(now, packet(1), &mut dropped), Verdict::Queued);
        }
        let sent = queue.dequeue(now, &mut dropped).expect("the line is never idle");
        if sent.flow == 1 {
            sparse_waited.push(ms - sent.number);
        } else if ms > 30_000 {
            waited += ms - sent.number;
            served += 1;
        }
    }
    assert_eq!((sparse_waited.len(), sparse_waited.iter().max()), (3_000, Some(&0)));
    assert!(dropped.iter().all(|(packet, reason)| packet.flow == 0 && *reason == Early));
    // 0.95 of 2 packets pass each millisecond.
    let share = f64::from(lost) / f64::from(arrived);
    assert!((share - 0.525).abs() < 0.01, "{share}");
    let delay_ms = f64::from(waited as u32) / f64::from(served);
    assert!((delay_ms - 15.0).abs() < 2.0, "{delay_ms} ms");
}

/// tc-fq_pie(8): `ecn_prob` is the highest probability at which packets are marked.
#[test]
fn packets_are_marked_up_to_ecn_prob() {
    for (ecn_prob, prob, marks) in [
        (0.1, CERTAIN / 100 * 10, true),
        (0.1, CERTAIN / 100 * 10 + 1_000, false),
        (0.25, CERTAIN / 100 * 25, true),
        (0.0, 1_000, false),
        (1.0, CERTAIN / 100 * 100, true),
    ] {
        let config = Config { ecn: true, ecn_prob, flows: 1, ..Config::default() };
        let mut queue = FqPie::new(&config, 1);
        let mut dropped = Vec::new();
        let packet = TestPacket { ecn: Ecn::Ect0, ..TestPacket::default() };
        for us in 0..4 {
            queue.enqueue(at_us(us), packet, &mut dropped);
        }
        // Departures spend the burst allowance, and have waited for long.
        for us in [100_000, 350_000] {
            queue.dequeue(at_us(us), &mut dropped);
            queue.flows[0].control.vars.drop_prob = prob;
        }
        queue.flows[0].backlog = 10_000;
        queue.flows[0].control.vars.accu_prob = 9 * CERTAIN;
        let verdict = queue.enqueue(at_us(350_000), packet, &mut dropped);
        assert_eq!(verdict == Verdict::Marked, marks, "{ecn_prob} {prob}");
    }
}

/// As with FQ-CoDel: flow 0 has used its turn up, and keeps its place if nobody asks meanwhile.
#[test]
fn a_flow_that_has_sent_all_is_new_again_only_if_the_empty_queue_is_asked() {
    for (idles, expected) in [(true, [0, 1]), (false, [1, 0])] {
        let mut queue = apart(&Config { idles, ..Config::default() });
        let put = |queue: &mut FqPie<TestPacket>, flow, bytes| {
            let packet = TestPacket { flow, bytes, ..TestPacket::default() };
            queue.enqueue(at_us(0), packet, &mut Vec::new());
        };
        let next = |queue: &mut FqPie<TestPacket>| {
            queue.dequeue(at_us(0), &mut Vec::new()).map(|packet| packet.flow)
        };
        put(&mut queue, 0, 1514);
        assert_eq!([next(&mut queue), next(&mut queue)], [Some(0), None]);
        put(&mut queue, 0, 1514);
        put(&mut queue, 1, 100);
        assert_eq!([next(&mut queue), next(&mut queue)], expected.map(Some));
    }
}

#[test]
fn the_limit_is_for_all_queues_together() {
    let mut queue = apart(&Config { limit: 2, ..Config::default() });
    let mut dropped = Vec::new();
    let verdicts = [0, 1, 1].map(|flow| {
        queue.enqueue(Time::ZERO, TestPacket { flow, ..TestPacket::default() }, &mut dropped)
    });
    assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::Dropped]);
    assert!(matches!(dropped[..], [(TestPacket { flow: 1, .. }, Overflow)]));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let base = Config::default;
    assert_eq!(base().check(), Ok(()));
    for (config, error) in [
        (Config { limit: 0, ..base() }, "limit: must be above zero"),
        (Config { flows: 65_537, ..base() }, "flows: must be at most 65536"),
        (Config { target: Span::ZERO, ..base() }, "target: must be above zero"),
        (Config { alpha: 33, ..base() }, "alpha: must be at most 32"),
    ] {
        assert_eq!(config.check().expect_err(error).to_string(), error);
    }
    assert!(Config { quantum: 255, ..base() }.check().is_err());
    assert!(Config { ecn_prob: 1.5, ..base() }.check().is_err());
}
