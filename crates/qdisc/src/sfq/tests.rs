use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use alloc::string::ToString;
use alloc::vec::Vec;

fn packet(flow: u8, number: u64) -> TestPacket {
    TestPacket { flow, number, ..TestPacket::default() }
}

/// Enqueues packets of these flows. Returns the numbers of those dropped.
fn fill(sfq: &mut Sfq<TestPacket>, flows: &[u8]) -> Vec<u64> {
    let mut dropped = Dropped::new();
    for (number, &flow) in flows.iter().enumerate() {
        sfq.enqueue(Time::ZERO, packet(flow, number as u64), &mut dropped);
    }
    dropped.iter().map(|(packet, _)| packet.number).collect()
}

fn drain(sfq: &mut Sfq<TestPacket>, now: Time) -> Vec<(u8, u64)> {
    core::iter::from_fn(|| sfq.dequeue(now, &mut Dropped::new()))
        .map(|packet| (packet.flow, packet.number))
        .collect()
}

/// Enough buckets that no two of eight flows share one with this seed.
fn wide() -> Config {
    Config { divisor: 65_536, ..Config::default() }
}

#[test]
fn it_obeys_the_laws_in_every_mode() {
    for headdrop in [false, true] {
        for perturb in [Span::ZERO, Span::from_ms(30)] {
            for (limit, depth, divisor, flows) in
                [(20, 127, 1024, 128), (20, 3, 4, 128), (127, 1, 1024, 2), (1, 1, 1, 1)]
            {
                let quantum = Bytes::new(if headdrop { 1 } else { 1514 });
                let config = Config { limit, depth, divisor, flows, quantum, perturb, headdrop };
                laws::check(|| Sfq::new(config.clone(), 1));
            }
        }
    }
}

#[test]
fn the_longest_bucket_loses_its_tail_or_with_headdrop_its_head() {
    for (headdrop, lost) in [(false, 3), (true, 0)] {
        let mut sfq = Sfq::new(Config { limit: 4, headdrop, ..wide() }, 1);
        assert_eq!(fill(&mut sfq, &[1, 2, 1, 1, 2]), [lost]);
    }
}

#[test]
fn among_the_longest_the_one_whose_length_changed_last_loses_a_packet() {
    let mut sfq = Sfq::new(Config { limit: 5, ..wide() }, 1);
    assert_eq!(fill(&mut sfq, &[1, 1, 2, 2, 3, 3]), [5]);
}

/// `sfq_change` makes no more slots than `limit` allows. `tc -s qdisc` shows `flows 10` for a queue
/// of `limit 10 flows 128`.
#[test]
fn where_as_many_buckets_as_limit_have_a_packet_another_bucket_gets_none() {
    for (headdrop, lost) in [(false, 0), (true, 2)] {
        let mut sfq = Sfq::new(Config { limit: 3, headdrop, ..wide() }, 1);
        assert_eq!(fill(&mut sfq, &[1, 2, 3, 4, 5]), [3, 4]);
        // A bucket that has a packet may have another, at its own expense.
        assert_eq!(fill(&mut sfq, &[3]), [lost]);
    }
}

#[test]
fn a_bucket_holds_depth_packets() {
    for (headdrop, lost) in [(false, [2, 3]), (true, [0, 1])] {
        let mut sfq = Sfq::new(Config { depth: 2, headdrop, ..wide() }, 1);
        assert_eq!(fill(&mut sfq, &[1, 1, 1, 1]), lost);
        let mut dropped = Dropped::new();
        let verdict = sfq.enqueue(Time::ZERO, packet(1, 4), &mut dropped);
        assert_eq!(verdict == Verdict::Dropped, !headdrop);
    }
}

#[test]
fn as_many_buckets_as_flows_have_packets_at_a_time() {
    let mut sfq = Sfq::new(Config { flows: 2, ..wide() }, 1);
    assert_eq!(fill(&mut sfq, &[1, 2, 3, 1]), [2]);
    assert_eq!(sfq.active(), 2);
}

#[test]
fn limit_is_at_most_depth_times_flows_and_flows_at_most_divisor() {
    let sfq = Sfq::<TestPacket>::new(Config { divisor: 2, depth: 3, ..Config::default() }, 1);
    assert_eq!((sfq.config.flows, sfq.config.limit), (2, 6));
}

/// A quantum of 1514 is 190 units; packets of 1000 take 125. A bucket sends two in the first round
/// (190, 65, then overdrawn by 60), two in the second (130, 5, then overdrawn by 120), one in the
/// third (70, then overdrawn by 55), and the last one in the fourth.
#[test]
fn a_bucket_overdraws_its_quantum_by_one_packet_and_pays_in_the_next_round() {
    let mut sfq = Sfq::new(wide(), 1);
    fill(&mut sfq, &[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    let flows: Vec<u8> = drain(&mut sfq, Time::ZERO).iter().map(|&(flow, _)| flow).collect();
    assert_eq!(flows, [1, 1, 2, 2, 1, 1, 2, 2, 1, 2, 1, 2]);
}

#[test]
fn a_bucket_that_becomes_active_has_a_quantum_at_once() {
    let mut sfq = Sfq::new(wide(), 1);
    fill(&mut sfq, &[1, 1, 1, 1]);
    assert!(sfq.dequeue(Time::ZERO, &mut Dropped::new()).is_some());
    fill(&mut sfq, &[2]);
    let flows: Vec<u8> = drain(&mut sfq, Time::ZERO).iter().map(|&(flow, _)| flow).collect();
    assert_eq!(flows, [1, 2, 1, 1]);
}

/// With eight flows in 16 buckets, some flows meet. A new hash separates some and joins others, and
/// the packets of each flow stay in order.
#[test]
fn perturb_hashes_what_waits_anew_and_keeps_each_flow_s_order() {
    let config =
        Config { divisor: 16, flows: 16, perturb: Span::from_secs(10), ..Config::default() };
    let mut sfq = Sfq::new(config, 3);
    fill(&mut sfq, &[1, 2, 3, 4, 5, 6, 7, 8].repeat(10));
    let same = |sfq: &Sfq<TestPacket>| (1..=8).map(|flow| sfq.hash(flow)).collect::<Vec<_>>();
    let before = same(&sfq);
    let just_before = Time::ZERO + Span::from_ms(9_999);
    assert!(sfq.dequeue(just_before, &mut Dropped::new()).is_some());
    assert_eq!(same(&sfq), before);
    let left = drain(&mut sfq, Time::ZERO + Span::from_secs(10));
    assert_ne!(same(&sfq), before);
    assert_eq!(left.len(), 79);
    for flow in 1..=8 {
        let own = left.iter().filter(|&&(other, _)| other == flow);
        assert!(own.is_sorted(), "the packets of flow {flow} left in another order");
    }
}

/// A new hash may join flows beyond the depth of a bucket; the packets beyond are dropped.
#[test]
fn perturb_drops_what_finds_no_room() {
    let config = Config { divisor: 4, depth: 10, perturb: Span::from_secs(1), ..wide() };
    let total: usize = (0..20)
        .map(|seed| {
            let mut sfq = Sfq::new(config.clone(), seed);
            fill(&mut sfq, &[1, 2].repeat(10));
            let mut dropped = Dropped::new();
            sfq.dequeue(Time::ZERO + Span::from_secs(1), &mut dropped);
            assert!(sfq.counters().balance(sfq.backlog()));
            dropped.len()
        })
        .sum();
    assert!(total > 0);
}

/// In buckets of their own, two flows get equal shares. In one bucket, the one that sends three
/// times as much gets three times as much.
#[test]
fn unequal_flows_get_equal_shares_unless_they_meet() {
    let shares = |divisor| {
        let config = Config { divisor, ..Config::default() };
        let mut sfq = Sfq::new(config, 1);
        let mut sent = [0u32; 2];
        let mut random = Pcg32::seed_from_u64(1);
        for number in 0..10_000 {
            // Flow 1 sends three packets for each one of flow 0, and the line takes one.
            for _ in 0..4 {
                let flow = u8::from(random.next_u32() % 4 > 0);
                sfq.enqueue(Time::ZERO, packet(flow, number), &mut Dropped::new());
            }
            let packet = sfq.dequeue(Time::ZERO, &mut Dropped::new()).expect("some wait");
            sent[usize::from(packet.flow)] += 1;
        }
        f64::from(sent[1]) / f64::from(sent[0])
    };
    assert!((shares(1024) - 1.0).abs() < 0.02, "{}", shares(1024));
    // Of 10000 packets, a quarter are flow 0's: the ratio's standard error is about 0.07.
    assert!((shares(1) - 3.0).abs() < 0.28, "{}", shares(1));
}

#[test]
fn impossible_settings_are_refused_by_field() {
    type Change = fn(&mut Config);
    let refused: [(Change, &str); 9] = [
        (|c| c.limit = 0, "limit: must be above zero"),
        (|c| c.depth = 0, "depth: must be above zero"),
        (|c| c.depth = 128, "depth: must be at most 127"),
        (|c| c.divisor = 1000, "divisor: is no power of two; hint: 512 or 1024"),
        (|c| c.divisor = 131_072, "divisor: must be at most 65536"),
        (|c| c.flows = 0, "flows: must be above zero"),
        (|c| c.flows = 65_409, "flows: must be at most 65408"),
        (|c| c.quantum = Bytes::ZERO, "quantum: must be above zero"),
        (|c| c.quantum = Bytes::new(1 << 40), "quantum: must be at most 262136"),
    ];
    for (change, error) in refused {
        let mut config = Config::default();
        change(&mut config);
        assert_eq!(config.check().expect_err(error).to_string(), error);
    }
    assert_eq!(Config::default().check(), Ok(()));
}
