use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::ToString;
use alloc::vec::Vec;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use crate::{DropReason::Early, DropReason::Overflow, Ecn};

fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// Enqueues `packets` packets of `flow` at `now`.
fn put(queue: &mut FqCodel<TestPacket>, now: Time, flow: u8, packets: u32, bytes: u32) {
    for _ in 0..packets {
        let packet = TestPacket { flow, bytes, ..TestPacket::default() };
        queue.enqueue(now, packet, &mut Vec::new());
    }
}

/// Dequeues some packets. Returns their flows.
fn order(queue: &mut FqCodel<TestPacket>, now: Time, packets: usize) -> Vec<u8> {
    let mut dropped = Vec::new();
    let next = || queue.dequeue(now, &mut dropped).map(|packet| packet.flow);
    core::iter::from_fn(next).take(packets).collect()
}

/// Distinct queues for flows 0, 1, 2 and so on: a seed for which they do not collide.
fn apart(config: &Config) -> FqCodel<TestPacket> {
    let flows = 6;
    (0..1000)
        .map(|seed| FqCodel::new(config.clone(), seed))
        .find(|queue| {
            let mut indices: Vec<u32> = (0..flows)
                .map(|flow| queue.flow_of(&TestPacket { flow, ..TestPacket::default() }))
                .collect();
            indices.sort_unstable();
            indices.dedup();
            indices.len() == usize::from(flows)
        })
        .expect("one in two seeds will do")
}

#[test]
fn it_obeys_the_laws() {
    for (limit, flows, drop_batch) in [(20, 1024, 64), (200, 3, 1), (10_240, 1, 64), (5, 8, 2)] {
        for ecn in [false, true] {
            let config = Config {
                limit,
                flows,
                drop_batch,
                ecn,
                quantum: 300,
                memory_limit: Bytes::new(150_000),
                target: Span::from_ms(2),
                interval: Span::from_ms(10),
                ce_threshold: ecn.then_some(Span::from_ms(20)),
                ..Config::default()
            };
            laws::check(|| FqCodel::new(config.clone(), 3));
        }
    }
    laws::check(|| FqCodel::new(Config::default(), 3));
}

/// RFC 8290, section 4.2: deficit round robin, in bytes.
#[test]
fn flows_share_the_line_by_bytes() {
    let mut queue = apart(&Config { quantum: 1500, ..Config::default() });
    put(&mut queue, Time::ZERO, 0, 200, 1500);
    put(&mut queue, Time::ZERO, 1, 2_000, 300);
    let sent = order(&mut queue, Time::ZERO, 600);
    let large = sent.iter().filter(|&&flow| flow == 0).count();
    // One large packet leaves for every five small ones.
    assert!(large.abs_diff(100) <= 1, "{large}");
}

/// RFC 8290, section 4.2: a flow that was not there is served first, for a quantum.
#[test]
fn new_flows_are_served_first_and_then_join_the_old_ones() {
    let mut queue = apart(&Config::default());
    put(&mut queue, Time::ZERO, 0, 10, 1514);
    put(&mut queue, Time::ZERO, 1, 10, 1514);
    assert_eq!(order(&mut queue, Time::ZERO, 6), [0, 1, 0, 1, 0, 1]);
    put(&mut queue, Time::ZERO, 2, 1, 100);
    put(&mut queue, Time::ZERO, 3, 3, 1000);
    // Flow 2 has one packet. Flow 3 may send its quantum of 1514, which is two packets of 1000.
    // Then both are behind flow 0, and flow 1, which has used up its quantum, is behind them.
    assert_eq!(order(&mut queue, Time::ZERO, 6), [2, 3, 3, 0, 3, 1]);
}

/// RFC 8290, section 4.2: a new flow that runs empty is put among the old ones, so that flows that
/// send a packet each time they are empty do not starve others.
#[test]
fn a_new_flow_that_runs_empty_has_to_wait_for_the_old_ones() {
    let mut queue = apart(&Config::default());
    put(&mut queue, Time::ZERO, 0, 10, 1514);
    assert_eq!(order(&mut queue, Time::ZERO, 1), [0]);
    let mut sent = Vec::new();
    for _ in 0..6 {
        put(&mut queue, Time::ZERO, 1, 1, 1514);
        sent.extend(order(&mut queue, Time::ZERO, 1));
    }
    // The first is new. Each later one finds its flow still in the round.
    assert_eq!(sent, [1, 0, 1, 0, 1, 0]);
}

/// Linux looks at all flows and finds the largest backlog, and among equal ones the first.
/// Flow 1 has sent its only packet. Below a shaper nobody asks while all queues are empty, so it is
/// still in its turn when it comes back, and then it has used it up.
#[test]
fn a_flow_that_has_sent_all_is_new_again_only_if_the_empty_queue_is_asked() {
    for (idles, expected) in [(true, [1, 2]), (false, [2, 1])] {
        let mut queue = apart(&Config { idles, ..Config::default() });
        put(&mut queue, at_ms(0), 1, 1, 1514);
        assert_eq!(order(&mut queue, at_ms(0), 2), [1]);
        put(&mut queue, at_ms(1), 1, 1, 1514);
        put(&mut queue, at_ms(1), 2, 1, 100);
        assert_eq!(order(&mut queue, at_ms(2), 2), expected);
    }
}

#[test]
fn an_overflow_hits_the_flow_that_a_search_would_find() {
    let mut random = Pcg32::seed_from_u64(8);
    let config = Config { limit: 60, flows: 16, drop_batch: 3, ecn: false, ..Config::default() };
    let mut queue = FqCodel::new(config, 4);
    let mut overflows = 0;
    for number in 0..20_000 {
        let flow = random.next_u32() as u8 % 40;
        let bytes = [100, 100, 200, 1500][random.next_u32() as usize % 4];
        let packet = TestPacket { flow, number, bytes, ..TestPacket::default() };
        let own = queue.flow_of(&packet) as usize;
        let mut backlogs: Vec<u64> = queue.flows.iter().map(|flow| flow.backlog).collect();
        backlogs[own] += u64::from(bytes);
        let most = backlogs.iter().max().copied().expect("16 flows");
        let fattest = backlogs.iter().position(|&backlog| backlog == most).expect("the most");
        let counts: Vec<u32> = queue.flows.iter().map(|flow| flow.control.count).collect();

        let mut dropped = Vec::new();
        queue.enqueue(Time::ZERO, packet, &mut dropped);
        let mut gone = 0;
        for (n, (packet, reason)) in dropped.iter().enumerate() {
            assert_eq!((*reason, queue.flow_of(packet) as usize), (Overflow, fattest));
            assert!(
                n < 3 && gone < most / 2,
                "an overflow dropped more than half of the bytes, or more packets than the batch"
            );
            gone += u64::from(packet.bytes);
        }
        if !dropped.is_empty() {
            overflows += 1;
            assert!(gone >= most / 2 || dropped.len() == 3);
            // "Tell codel to increase its signal strength also."
            let count = queue.flows[fattest].control.count;
            assert_eq!(count, counts[fattest] + dropped.len() as u32);
        }
        assert!(queue.backlog().packets <= 60);
        if random.next_u32() % 3 == 0 {
            queue.dequeue(Time::ZERO, &mut Vec::new());
        }
    }
    assert!(overflows > 1_000);
}

#[test]
fn an_overflow_by_memory_is_one_too() {
    let mut queue = apart(&Config { memory_limit: Bytes::new(10_000), ..Config::default() });
    put(&mut queue, Time::ZERO, 0, 9, 1000);
    put(&mut queue, Time::ZERO, 1, 1, 1000);
    assert_eq!(queue.counters().dropped_packets(), 0);
    put(&mut queue, Time::ZERO, 1, 1, 1);
    // Half of 9000 bytes: five packets.
    assert_eq!(queue.counters().dropped_overflow, 5);
    assert_eq!(queue.backlog().packets, 6);
}

#[test]
fn a_packet_that_is_itself_dropped_says_so() {
    let mut queue = apart(&Config { limit: 1, ..Config::default() });
    let mut dropped = Vec::new();
    let small = TestPacket { flow: 0, bytes: 100, ..TestPacket::default() };
    let large = TestPacket { flow: 1, bytes: 200, ..TestPacket::default() };
    assert_eq!(queue.enqueue(Time::ZERO, small, &mut dropped), Verdict::Queued);
    assert_eq!(queue.enqueue(Time::ZERO, large, &mut dropped), Verdict::Dropped);
    assert_eq!(dropped, [(large, Overflow)]);
    dropped.clear();
    let smaller = TestPacket { flow: 2, bytes: 50, ..TestPacket::default() };
    assert_eq!(queue.enqueue(Time::ZERO, smaller, &mut dropped), Verdict::Queued);
    assert_eq!(dropped, [(small, Overflow)]);
}

/// Each flow has a CoDel of its own: a flow that overloads is controlled, a sparse one is not hit.
#[test]
fn codel_hits_the_flow_that_queues_and_no_other() {
    let mut queue = apart(&Config { limit: 100_000, ecn: false, ..Config::default() });
    let mut hit = BTreeMap::new();
    // A line of one packet a millisecond; flow 0 sends two, flow 1 one in ten.
    for ms in 0..2_000 {
        put(&mut queue, at_ms(ms), 0, 2, 1000);
        if ms % 10 == 0 {
            put(&mut queue, at_ms(ms), 1, 1, 1000);
        }
        let mut dropped = Vec::new();
        assert!(queue.dequeue(at_ms(ms), &mut dropped).is_some());
        for (packet, reason) in dropped {
            assert_eq!(reason, Early);
            *hit.entry(packet.flow).or_insert(0) += 1;
        }
    }
    assert!(hit[&0] > 50 && !hit.contains_key(&1), "{hit:?}");
}

/// Linux 815980fe6dbb: a packet a second, each above the target and with another flow's packets
/// behind it, is no standing queue. Earlier kernels took it for one: the first packet set the time,
/// the second was dropped a second later, and so forth.
#[test]
fn a_sparse_flow_that_waits_too_long_loses_packets_only_where_the_old_state_is_kept() {
    for (when_empty, lost) in [(WhenEmpty::Forget, 0), (WhenEmpty::Keep, 5)] {
        let mut queue = apart(&Config { when_empty, ..Config::default() });
        let mut dropped = Vec::new();
        let mut sent = 0;
        for second in 0..10 {
            put(&mut queue, at_ms(1000 * second), 0, 1, 100);
            put(&mut queue, at_ms(1000 * second), 1, 3, 1514);
            while let Some(packet) = queue.dequeue(at_ms(1000 * second + 6), &mut dropped) {
                sent += u32::from(packet.flow == 0);
            }
        }
        let dropped = dropped.iter().filter(|(packet, _)| packet.flow == 0).count() as u32;
        assert_eq!((dropped, sent), (lost, 10 - lost), "{when_empty:?}");
    }
}

#[test]
fn ecn_is_on_and_ce_threshold_marks() {
    let config = Config { ce_threshold: Some(Span::from_ms(1)), ..Config::default() };
    let mut queue = apart(&config);
    let mut dropped = Vec::new();
    for ecn in [Ecn::Ect0, Ecn::NotEct] {
        let packet = TestPacket { ecn, ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut dropped);
    }
    let marked = [(); 2].map(|()| queue.dequeue(at_ms(2), &mut dropped).map(|packet| packet.ecn));
    assert_eq!(marked, [Some(Ecn::Ce), Some(Ecn::NotEct)]);
    // A standing queue of capable packets loses none to CoDel.
    for _ in 0..3_000 {
        let packet = TestPacket { ecn: Ecn::Ect1, ..TestPacket::default() };
        queue.enqueue(at_ms(2), packet, &mut dropped);
    }
    while queue.dequeue(at_ms(200), &mut dropped).is_some() {}
    while queue.dequeue(at_ms(400), &mut dropped).is_some() {}
    assert!(dropped.is_empty());
}

/// tc-fq_codel(8): the threshold is for packets whose byte, masked, equals the value.
#[test]
fn ce_threshold_can_select_packets() {
    let marks = |value, mask, ecn| {
        let mut queue = FqCodel::new(
            Config {
                ce_threshold: Some(Span::from_ms(1)),
                ce_threshold_selector: value,
                ce_threshold_mask: mask,
                ..Config::default()
            },
            1,
        );
        let packet = TestPacket { ecn, dscp: 46, ..TestPacket::default() };
        queue.enqueue(Time::ZERO, packet, &mut Vec::new());
        queue.dequeue(at_ms(2), &mut Vec::new()).expect("it waits").marks
    };
    let fields = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    for (value, mask, marked) in [
        (0, 0, [0, 1, 1, 1]),
        // L4S alone, with and without its marked packets, and classic ECN.
        (1, 3, [0, 1, 0, 0]),
        (1, 1, [0, 1, 0, 1]),
        (2, 3, [0, 0, 1, 0]),
        // EF, whatever its ECN field, and with one of L4S.
        (0, 252, [0, 0, 0, 0]),
        (184, 252, [0, 1, 1, 1]),
        (185, 255, [0, 1, 0, 0]),
    ] {
        assert_eq!(fields.map(|ecn| marks(value, mask, ecn)), marked, "{value}/{mask}");
    }
}

#[test]
fn flows_are_spread_evenly_over_the_queues() {
    let queue = FqCodel::<TestPacket>::new(Config { flows: 10, ..Config::default() }, 77);
    let mut counts = [0.0f64; 10];
    for flow in 0..=255 {
        counts[queue.flow_of(&TestPacket { flow, ..TestPacket::default() }) as usize] += 1.0;
    }
    let chi: f64 = counts.iter().map(|n| (n - 25.6) * (n - 25.6) / 25.6).sum();
    // With nine degrees of freedom, the statistic exceeds 27.9 once in a thousand times.
    assert!(chi < 27.9, "{counts:?}");
}

/// Where packets are far larger than the quantum, the rounds that nobody could use pass at once,
/// and the order is that of one round at a time.
#[test]
fn rounds_that_pass_at_once_are_the_same_as_one_by_one() {
    const QUANTUM: i64 = 256;
    let mut random = Pcg32::seed_from_u64(8);
    let config = Config {
        quantum: QUANTUM as u32,
        flows: 64,
        memory_limit: Bytes::new(u32::MAX.into()),
        ecn: false,
        ..Config::default()
    };
    let mut queue = apart(&config);
    let mut sizes = [const { VecDeque::new() }; 6];
    let mut new_flows = VecDeque::new();
    for _ in 0..2_000 {
        let flow = random.next_u32() as u8 % 6;
        let bytes = [0, 40, 256, 257, 60_000, 1_000_000][random.next_u32() as usize % 6];
        put(&mut queue, Time::ZERO, flow, 1, bytes);
        if sizes[usize::from(flow)].is_empty() {
            new_flows.push_back((flow, QUANTUM));
        }
        sizes[usize::from(flow)].push_back(bytes);
    }
    let mut old_flows = VecDeque::new();
    let mut one_by_one = Vec::new();
    loop {
        let is_new = !new_flows.is_empty();
        let round = if is_new { &mut new_flows } else { &mut old_flows };
        let Some((flow, deficit)) = round.pop_front() else { break };
        if deficit <= 0 {
            old_flows.push_back((flow, deficit + QUANTUM));
        } else if let Some(bytes) = sizes[usize::from(flow)].pop_front() {
            one_by_one.push(flow);
            round.push_front((flow, deficit - i64::from(bytes)));
        } else if is_new && !old_flows.is_empty() {
            old_flows.push_back((flow, deficit));
        }
    }
    assert_eq!(order(&mut queue, Time::ZERO, 3_000), one_by_one);
    assert_eq!(one_by_one.len(), 2_000);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let base = Config::default;
    let threshold = || Config { ce_threshold: Some(Span::ZERO), ..base() };
    assert_eq!(base().check(), Ok(()));
    for (config, error) in [
        (Config { limit: 0, ..base() }, "limit: must be above zero"),
        (Config { memory_limit: Bytes::ZERO, ..base() }, "memory_limit: must be above zero"),
        (Config { flows: 0, ..base() }, "flows: must be above zero"),
        (Config { flows: 65_537, ..base() }, "flows: must be at most 65536"),
        (Config { quantum: 255, ..base() }, "quantum: must be at least 256"),
        (Config { target: Span::ZERO, ..base() }, "target: must be above zero"),
        (Config { interval: Span::ZERO, ..base() }, "interval: must be above zero"),
        (Config { drop_batch: 0, ..base() }, "drop_batch: must be above zero"),
        (Config { ce_threshold_mask: 3, ..base() }, "ce_threshold_mask: goes with ce_threshold"),
        (
            Config { ce_threshold_mask: 2, ce_threshold_selector: 1, ..threshold() },
            "ce_threshold_selector: has bits that ce_threshold_mask lacks, so it would select no \
             packet",
        ),
    ] {
        let found = config.check().expect_err(error).to_string();
        assert!(found.starts_with(error), "{found}");
    }
}

#[test]
fn any_times_and_sizes_will_do() {
    for seed in 0..40 {
        let mut random = Pcg32::seed_from_u64(seed);
        let config = Config {
            limit: 1 + random.next_u32() % 50,
            flows: 1 + random.next_u32() % 5,
            memory_limit: Bytes::new([1, 10_000, u32::MAX.into()][seed as usize % 3]),
            quantum: [256, 1514, 1 << 20][seed as usize % 5 % 3],
            target: Span::from_ps(1),
            interval: Span::from_ps([1, 1_000_000, u64::MAX][seed as usize % 3]),
            ecn: seed % 2 == 0,
            ce_threshold: (seed % 5 == 0).then_some(Span::ZERO),
            ce_threshold_selector: u32::from(seed % 10 == 0),
            ce_threshold_mask: 3 * u32::from(seed % 10 == 0),
            drop_batch: 1 + random.next_u32() % 3,
            mtu: Bytes::new(1.max(u64::from(random.next_u32()) * (seed % 2))),
            when_empty: if seed % 3 == 0 { WhenEmpty::Keep } else { WhenEmpty::Forget },
            idles: seed % 2 == 0,
        };
        let mut queue = FqCodel::new(config, seed);
        let mut now = Time::ZERO;
        let mut dropped = Vec::new();
        for number in 0..2_000 {
            now +=
                Span::from_ps([0, 0, 1, 1 << 20, 1 << 40, 1 << 60][random.next_u32() as usize % 6]);
            let bytes = [0, 1, 1500, u32::MAX][random.next_u32() as usize % 4];
            let flow = random.next_u32() as u8 % 9;
            let packet =
                TestPacket { number, flow, bytes, ecn: Ecn::Ect0, ..TestPacket::default() };
            queue.enqueue(now, packet, &mut dropped);
            if random.next_u32() % 2 == 0 {
                let waited = queue.backlog().packets > 0;
                assert_eq!(queue.dequeue(now, &mut dropped).is_some(), waited);
            }
            assert!(queue.counters().balance(queue.backlog()));
        }
    }
}
