use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use super::plain::{Config, Drr};
use super::qsdrr::{self, Qsdrr};
use super::tdrr::{self, Tdrr};
use super::*;
use crate::laws;
use crate::traffic::TestPacket;
use crate::{Dropped, Packet, Qdisc, Verdict};

const ENDS: [End; 2] = [End::Front, End::Tail];
const UNITS: [By; 2] = [By::Bytes, By::Packets];

fn packet(flow: u8, number: u64, bytes: u32) -> TestPacket {
    TestPacket { flow, number, bytes, ..TestPacket::default() }
}

/// Enqueues packets of 1000 bytes of these flows, numbered from zero. Returns the numbers of those
/// dropped.
fn fill(queue: &mut impl Qdisc<TestPacket>, flows: &[u8]) -> Vec<u64> {
    let mut dropped = Dropped::new();
    for (number, &flow) in flows.iter().enumerate() {
        queue.enqueue(Time::ZERO, packet(flow, number as u64, 1000), &mut dropped);
    }
    dropped.iter().map(|(packet, _)| packet.number).collect()
}

/// Returns the numbers of all waiting packets in the order of leaving.
fn drain(queue: &mut impl Qdisc<TestPacket>) -> Vec<u64> {
    core::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut Dropped::new()))
        .map(|packet| packet.number)
        .collect()
}

#[test]
fn it_obeys_the_laws_in_every_mode() {
    for quantum in [1, 300, 1500, 9000].map(Bytes::new) {
        for (drop_from, buckets) in [(End::Front, None), (End::Tail, Some(3))] {
            for longest_by in UNITS {
                laws::check(|| {
                    let common = Config { limit: 20, quantum, buckets, ..Config::default() };
                    Drr::new(Config { longest_by, drop_from, ..common }, 1)
                });
                laws::check(|| {
                    let common =
                        qsdrr::Config { limit: 20, quantum, buckets, ..Default::default() };
                    Qsdrr::new(qsdrr::Config { longest_by, drop_from, ..common }, 1)
                });
            }
            for sample in [tdrr::Sample::Packet, tdrr::Sample::Interval(Span::from_ms(50))] {
                laws::check(|| {
                    let common = tdrr::Config { limit: 20, quantum, buckets, ..Default::default() };
                    Tdrr::new(tdrr::Config { sample, drop_from, remember: 3, ..common }, 1)
                });
            }
        }
    }
}

/// Figure 2 of Shreedhar and Varghese, with a quantum of 500: a deficit of 500 sends a packet of
/// 200 and leaves 300 for the next turn; 750 needs two turns.
#[test]
fn deficits_are_as_in_the_paper_s_figures() {
    let mut drr = Drr::new(Config { quantum: Bytes::new(500), ..Config::default() }, 1);
    let queues: [(u8, &[u32]); 4] =
        [(1, &[200, 750, 20]), (2, &[500, 500]), (3, &[200, 600, 100]), (4, &[50, 700, 180])];
    let mut number = 0;
    for (flow, sizes) in queues {
        for &bytes in sizes {
            number += 1;
            drr.enqueue(Time::ZERO, packet(flow, number, bytes), &mut Dropped::new());
        }
    }
    // First round: 200 | 500 | 200 | 50. Second: 300 + 500 send 750 and 20 | 500 | 300 + 500 send
    // 600 and 100 | 450 + 500 send 700 and 180.
    assert_eq!(drain(&mut drr), [1, 4, 6, 9, 2, 3, 5, 7, 8, 10, 11]);
}

/// Flow 1 sends 100 bytes of its 1000 and is empty. When it comes back it has 1000 again, not 1900,
/// and so sends one packet of 900 before flow 2 has its turn. This holds for TDRR too, although it
/// remembers the flow.
#[test]
fn a_flow_that_becomes_empty_forgets_its_deficit() {
    fn check(mut queue: impl Qdisc<TestPacket>) {
        let mut dropped = Dropped::new();
        queue.enqueue(Time::ZERO, packet(1, 0, 100), &mut dropped);
        assert!(queue.dequeue(Time::ZERO, &mut dropped).is_some());
        for (flow, number, bytes) in [(1, 1, 900), (1, 2, 900), (2, 3, 900)] {
            queue.enqueue(Time::ZERO, packet(flow, number, bytes), &mut dropped);
        }
        assert_eq!(drain(&mut queue), [1, 3, 2]);
    }
    let quantum = Bytes::new(1000);
    check(Drr::new(Config { quantum, ..Config::default() }, 1));
    check(Tdrr::new(tdrr::Config { quantum, ..Default::default() }, 1));
}

/// Shreedhar and Varghese, theorem 2: in any interval in which two flows are backlogged, what they
/// have been sent differs by at most a quantum and two of the largest packets.
#[test]
fn what_two_backlogged_flows_send_differs_by_at_most_a_quantum_and_two_packets() {
    let mut random = Pcg32::seed_from_u64(2);
    for quantum in [100u64, 700, 1500, 4000] {
        let config = Config { limit: 10_000, quantum: Bytes::new(quantum), ..Config::default() };
        let mut drr = Drr::new(config, 1);
        let mut dropped = Dropped::new();
        // Flow 0 has small packets, flow 1 large ones, flow 2 all sizes; 3 and 4 come and go.
        let size = |flow: u8, random: &mut Pcg32| match flow {
            0 => 40,
            1 => 1500,
            _ => 1 + random.next_u32() % 1500,
        };
        for flow in [0, 1, 2] {
            for number in 0..3_000 {
                let bytes = size(flow, &mut random);
                drr.enqueue(Time::ZERO, packet(flow, number, bytes), &mut dropped);
            }
        }
        // What each flow was sent, at the start and at each later moment. Any two moments bound an
        // interval.
        let mut sent = [0i64; 5];
        let mut extremes = [[(0i64, 0i64); 3]; 3];
        for step in 0..3_000u64 {
            if step % 7 == 0 {
                let flow = 3 + (step % 2) as u8;
                drr.enqueue(Time::ZERO, packet(flow, step, size(flow, &mut random)), &mut dropped);
            }
            let packet = drr.dequeue(Time::ZERO, &mut dropped).expect("packets wait");
            sent[usize::from(packet.flow)] += i64::from(packet.bytes);
            for one in 0..3 {
                for other in 0..3 {
                    let difference = sent[one] - sent[other];
                    let (least, most) = &mut extremes[one][other];
                    (*least, *most) = (difference.min(*least), difference.max(*most));
                    assert!(*most - *least <= quantum as i64 + 2 * 1500);
                }
            }
        }
        assert!(dropped.is_empty());
    }
}

#[test]
fn the_longest_queue_loses_a_packet_from_the_end_that_is_asked_for() {
    for (drop_from, lost) in [(End::Front, 0), (End::Tail, 3)] {
        let mut drr = Drr::new(Config { limit: 4, drop_from, ..Config::default() }, 1);
        assert_eq!(fill(&mut drr, &[1, 2, 1, 1, 2]), [lost]);
    }
}

#[test]
fn the_arriving_packet_is_refused_where_its_own_queue_is_the_longest_and_loses_its_tail() {
    let mut drr = Drr::new(Config { limit: 2, drop_from: End::Tail, ..Config::default() }, 1);
    assert!(fill(&mut drr, &[1, 1]).is_empty());
    let mut dropped = Dropped::new();
    assert_eq!(drr.enqueue(Time::ZERO, packet(1, 2, 1000), &mut dropped), Verdict::Dropped);
    assert_eq!(drr.enqueue(Time::ZERO, packet(2, 3, 1000), &mut dropped), Verdict::Queued);
    assert_eq!(dropped.iter().map(|(packet, _)| packet.number).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn length_is_counted_in_bytes_or_in_packets() {
    for (longest_by, lost) in [(By::Bytes, 0), (By::Packets, 1)] {
        let mut drr = Drr::new(Config { limit: 3, longest_by, ..Config::default() }, 1);
        let mut dropped = Dropped::new();
        for (number, flow, bytes) in [(0, 1, 1500), (1, 2, 40), (2, 2, 40), (3, 2, 40)] {
            drr.enqueue(Time::ZERO, packet(flow, number, bytes), &mut dropped);
        }
        assert_eq!(dropped[0].0.number, lost);
    }
}

#[test]
fn among_equally_long_queues_the_oldest_or_the_newest_loses_a_packet() {
    for (ties, lost) in [(Ties::Oldest, [0, 1]), (Ties::Newest, [3, 4])] {
        let mut drr = Drr::new(Config { limit: 3, ties, ..Config::default() }, 1);
        assert_eq!(fill(&mut drr, &[1, 2, 3, 4, 5]), lost);
    }
}

#[test]
fn buckets_are_shared_and_without_them_no_flow_shares_its_queue() {
    let mut drr = Drr::new(Config { buckets: Some(1), ..Config::default() }, 1);
    fill(&mut drr, &[1, 1, 2]);
    assert_eq!((drr.active(), drain(&mut drr)), (1, vec![0, 1, 2]));
    let mut drr = Drr::new(Config { quantum: Bytes::new(1000), ..Config::default() }, 1);
    fill(&mut drr, &[1, 1, 2]);
    assert_eq!((drr.active(), drain(&mut drr)), (2, vec![0, 2, 1]));
}

/// A packet with a hash of its own.
#[derive(Clone, Copy)]
struct Forged {
    hash: u64,
    bytes: u32,
}

impl Packet for Forged {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn ecn(&self) -> crate::Ecn {
        crate::Ecn::NotEct
    }

    fn mark(&mut self) {}

    fn flow_hash(&self) -> u64 {
        self.hash
    }
}

/// Hashes that are not mixed, packets without bytes and of 4 GB, tiny quanta, limits of one and of
/// the largest number: nothing overflows, and nothing is lost.
#[test]
fn hostile_packets_are_only_packets() {
    let sizes = [0, 1, 40, 1500, 65_535, u32::MAX];
    let hashes = [0, 1, u64::MAX, 1 << 63, 0x8000_0000, 0xFFFF_FFFF_0000_0000];
    let mut random = Pcg32::seed_from_u64(9);
    for limit in [1, 2, 100, 10_000_000] {
        for quantum in [1, 1500, u64::from(u32::MAX)].map(Bytes::new) {
            let drr = Config { limit, quantum, ..Config::default() };
            let tdrr = tdrr::Config { limit, quantum, remember: 1, ..Default::default() };
            let packet = tdrr::Config { sample: tdrr::Sample::Packet, ..tdrr.clone() };
            let qsdrr = qsdrr::Config { limit, quantum, ..Default::default() };
            let mut queues: [Box<dyn Qdisc<Forged>>; 4] = [
                Box::new(Drr::new(drr, 1)),
                Box::new(Tdrr::new(tdrr, 1)),
                Box::new(Tdrr::new(packet, 1)),
                Box::new(Qsdrr::new(qsdrr, 1)),
            ];
            let mut now = Time::ZERO;
            for _ in 0..2_000 {
                let pick = random.next_u32() as usize;
                let hash = match pick % 8 {
                    0..=5 => hashes[pick % 6].wrapping_add(u64::from(random.next_u32() % 2)),
                    _ => u64::from(random.next_u32()) << 32,
                };
                let forged = Forged { hash, bytes: sizes[random.next_u32() as usize % 6] };
                now += Span::from_ps(u64::from(random.next_u32()) * u64::from(pick as u32 % 3));
                for queue in &mut queues {
                    let mut dropped = Dropped::new();
                    queue.enqueue(now, forged, &mut dropped);
                    if !pick.is_multiple_of(3) {
                        queue.dequeue(now, &mut dropped);
                    }
                    assert!(queue.counters().balance(queue.backlog()));
                    assert!(queue.backlog().packets <= limit);
                }
            }
            for queue in &mut queues {
                while queue.dequeue(now, &mut Dropped::new()).is_some() {}
                assert!(queue.counters().balance(queue.backlog()));
                assert_eq!(queue.backlog(), crate::Backlog::default());
            }
        }
    }
}

/// A flow of packets without bytes gets a byte's worth for each, and no more.
#[test]
fn packets_without_bytes_do_not_keep_the_others_waiting() {
    let mut drr = Drr::new(Config { quantum: Bytes::new(10), ..Config::default() }, 1);
    let mut dropped = Dropped::new();
    for number in 0..100 {
        drr.enqueue(Time::ZERO, packet(1, number, 0), &mut dropped);
    }
    drr.enqueue(Time::ZERO, packet(2, 100, 10), &mut dropped);
    assert_eq!(drain(&mut drr).iter().position(|&number| number == 100), Some(10));
}

#[test]
fn the_seed_decides_about_buckets_and_about_nothing_else() {
    let flows: Vec<u8> = (0..200).collect();
    let order = |buckets, seed| {
        let mut drr = Drr::new(Config { buckets, limit: 50, ..Config::default() }, seed);
        (fill(&mut drr, &flows), drain(&mut drr))
    };
    assert_eq!(order(None, 1), order(None, 2));
    assert_eq!(order(Some(7), 1), order(Some(7), 1));
    assert_ne!(order(Some(7), 1), order(Some(7), 2));
}

#[test]
fn impossible_settings_are_refused_by_field() {
    let refused: [(Config, &str); 4] = [
        (Config { limit: 0, ..Config::default() }, "limit: must be above zero"),
        (Config { quantum: Bytes::ZERO, ..Config::default() }, "quantum: must be above zero"),
        (
            Config { quantum: Bytes::new(1 << 32), ..Config::default() },
            "quantum: must be at most 4294967295",
        ),
        (Config { buckets: Some(0), ..Config::default() }, "buckets: must be above zero"),
    ];
    for (config, error) in refused {
        assert_eq!(config.check().expect_err(error).to_string(), error);
    }
    let weight = |weight| tdrr::Config { weight, ..Default::default() }.check();
    for bad in [0.0, 1.0, -0.1, f64::NAN] {
        let error = weight(bad).expect_err("no weight");
        assert_eq!(error.key(), "weight");
    }
    let sample = tdrr::Sample::Interval(Span::ZERO);
    let config = tdrr::Config { sample, ..Default::default() };
    let error = config.check().expect_err("no interval");
    assert_eq!(error.to_string(), "sample: must be above zero");
    assert_eq!(Config::default().check(), Ok(()));
    assert_eq!(tdrr::Config::default().check(), Ok(()));
    assert_eq!(qsdrr::Config::default().check(), Ok(()));
}

/// The heap's choice is that of a search through all queues, for every discipline and setting.
#[test]
fn the_longest_queue_is_the_one_that_a_search_finds() {
    for longest_by in UNITS {
        for drop_from in ENDS {
            let config = Config { limit: 40, longest_by, drop_from, ..Config::default() };
            let mut drr: Drr<TestPacket> = Drr::new(config, 1);
            let mut random = Pcg32::seed_from_u64(4);
            let mut inside: Vec<TestPacket> = Vec::new();
            for number in 0..20_000 {
                if random.next_u32() % 2 == 0 {
                    if let Some(sent) = drr.dequeue(Time::ZERO, &mut Dropped::new()) {
                        inside.retain(|packet| packet.number != sent.number);
                    }
                    continue;
                }
                let bytes = 40 + random.next_u32() % 1460;
                let packet = packet((random.next_u32() % 12) as u8, number, bytes);
                inside.push(packet);
                let length = |flow: u8| -> u32 {
                    let own = inside.iter().filter(|packet| packet.flow == flow);
                    own.map(|packet| if longest_by == By::Bytes { packet.bytes } else { 1 }).sum()
                };
                let longest = (0..12).map(length).max();
                let mut dropped = Dropped::new();
                drr.enqueue(Time::ZERO, packet, &mut dropped);
                assert_eq!(dropped.len(), usize::from(inside.len() > 40));
                if let Some((lost, _)) = dropped.pop() {
                    assert_eq!(Some(length(lost.flow)), longest);
                    let mut own = inside.iter().filter(|packet| packet.flow == lost.flow);
                    let end = if drop_from == End::Front { own.next() } else { own.next_back() };
                    assert_eq!(end, Some(&lost));
                    inside.retain(|packet| packet.number != lost.number);
                }
            }
        }
    }
}
