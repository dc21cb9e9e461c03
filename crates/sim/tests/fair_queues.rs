//! Whole runs over queues that tell flows apart (DRR, TDRR, QSDRR, SFQ), and over Blue.

use crate::common::{
    add_resolvers, dumbbell, fingerprint, numbers, on_off, pfifo, run, run_foreseeing, table,
};
use narrows_qdisc::drr::{plain, qsdrr, tdrr};
use narrows_qdisc::{blue, sfq};
use narrows_sim::Simulation;
use narrows_sim::plan::{Plan, Queue, Ring};
use narrows_units::{Span, Time};

fn drr(limit: u32) -> Queue {
    Queue::Drr(plain::Config { limit, ..Default::default() })
}

fn tdrr(limit: u32, sample: tdrr::Sample) -> Queue {
    Queue::Tdrr(tdrr::Config { limit, sample, ..Default::default() })
}

fn qsdrr(limit: u32) -> Queue {
    Queue::Qsdrr(qsdrr::Config { limit, ..Default::default() })
}

fn fair_queues(limit: u32) -> Vec<(&'static str, Queue)> {
    let interval = tdrr::Sample::Interval(Span::from_ms(100));
    vec![
        ("drr", drr(limit)),
        ("drr in 8 buckets", {
            Queue::Drr(plain::Config { limit, buckets: Some(8), ..Default::default() })
        }),
        ("tdrr", tdrr(limit, interval)),
        ("tdrr by packets", tdrr(limit, tdrr::Sample::Packet)),
        ("qsdrr", qsdrr(limit)),
        ("sfq", {
            let perturb = Span::from_secs(3);
            Queue::Sfq(sfq::Config { limit, perturb, headdrop: true, ..Default::default() })
        }),
    ]
}

/// Returns the bytes that each flow has delivered.
fn received(simulation: &Simulation) -> Vec<f64> {
    numbers(&table(simulation, "flows"), "bytes_received")
}

fn last(simulation: &Simulation, column: &str) -> f64 {
    *numbers(&table(simulation, "queues"), column).last().expect("samples")
}

/// Two endless flows over 10 Mbit/s with round trips of 60 and 240 ms.
fn unequal(queue: Queue) -> Plan {
    let mut plan = dumbbell(2, 10, queue);
    for link in &mut plan.links[6..10] {
        link.delay = Span::from_ms(50);
    }
    plan.end = Time::ZERO + Span::from_secs(60);
    plan
}

#[test]
fn two_flows_with_unequal_round_trips_get_equal_shares() {
    let ratio = |queue| {
        let received = received(&run(unequal(queue)));
        received[0] / received[1]
    };
    assert!(ratio(pfifo(100)) > 2.0, "a FIFO is not fair: {}", ratio(pfifo(100)));
    for (name, queue) in fair_queues(100) {
        // SFQ and the buckets hash the two flows apart with this seed.
        let ratio = ratio(queue);
        assert!((0.9..1.12).contains(&ratio), "{name}: {ratio}");
    }
}

/// Jain's index of ten flows with round trips from 60 to 600 ms: 1 if all get the same.
#[test]
fn many_flows_with_mixed_round_trips_get_equal_shares() {
    let fairness = |queue| {
        let mut plan = dumbbell(10, 20, queue);
        for (index, link) in plan.links.iter_mut().skip(2).enumerate() {
            link.delay = Span::from_ms(5 + 15 * (index as u64 / 4));
        }
        plan.end = Time::ZERO + Span::from_secs(120);
        let received = received(&run(plan));
        let sum: f64 = received.iter().sum();
        sum * sum / (received.len() as f64 * received.iter().map(|x| x * x).sum::<f64>())
    };
    assert!(fairness(pfifo(400)) < 0.93, "a FIFO is not fair: {}", fairness(pfifo(400)));
    let tdrr = tdrr(400, tdrr::Sample::Interval(Span::from_ms(100)));
    for (name, queue) in [("drr", drr(400)), ("tdrr", tdrr), ("qsdrr", qsdrr(400))] {
        assert!(fairness(queue.clone()) > 0.99, "{name}: {}", fairness(queue));
    }
}

/// In the time of a few round trips under steady load, DRR drops a packet or two of each flow that
/// it hits, and QSDRR drops many of few flows.
#[test]
fn qsdrr_takes_its_drops_from_few_flows() {
    // Packets dropped for each flow that retransmits, in windows of 200 ms.
    let drops_per_flow = |queue: &Queue| {
        let state = |end_ms| {
            let mut plan = dumbbell(20, 20, queue.clone());
            plan.end = Time::ZERO + Span::from_ms(end_ms);
            let simulation = run(plan);
            let column = numbers(&table(&simulation, "flows"), "segments_retransmitted");
            (column, last(&simulation, "dropped_overflow"))
        };
        let (mut flows, mut drops) = (0, 0.0);
        for window in 20..40 {
            let (before, dropped_before) = state(window * 1000);
            let (after, dropped_after) = state(window * 1000 + 200);
            flows += before.iter().zip(&after).filter(|(before, after)| before < after).count();
            drops += dropped_after - dropped_before;
        }
        assert!(drops > 10.0, "too few drops to tell");
        drops / flows as f64
    };
    let (drr, qsdrr) = (drops_per_flow(&drr(200)), drops_per_flow(&qsdrr(200)));
    assert!(drr < 2.0 && qsdrr > 2.0 * drr, "{drr} and {qsdrr}");
}

/// A resolver's packets wait in queues of their own, which are never the longest.
#[test]
fn dns_beside_bulk_loses_nothing_and_waits_for_a_round_at_most() {
    let answers = |queue| {
        let mut plan = dumbbell(4, 10, queue);
        add_resolvers(&mut plan, 5, 40);
        let simulation = run(plan);
        let response = numbers(&table(&simulation, "queries"), "response_ms");
        (last(&simulation, "dropped_dns"), response.into_iter().fold(0.0, f64::max))
    };
    assert!(answers(pfifo(50)).0 > 0.0, "a FIFO drops DNS");
    let interval = tdrr::Sample::Interval(Span::from_ms(100));
    for (name, queue) in [("drr", drr(50)), ("tdrr", tdrr(50, interval)), ("qsdrr", qsdrr(50))] {
        let (dropped, longest_ms) = answers(queue);
        // Round trip 60 ms; four full packets of others and the one in transmission, 1.2 ms each.
        assert!(dropped == 0.0 && longest_ms < 60.0 + 5.0 * 1.24 + 1.0, "{name}: {longest_ms} ms");
    }
}

/// Bursts and DNS, over each of these queues at the bottleneck and its way back.
fn mixed(queue: Queue) -> Plan {
    let mut plan = dumbbell(12, 10, queue.clone());
    plan.links[1].queue = queue;
    plan.links[0].ring = Some(Ring::bytes(9_000));
    on_off(&mut plan, 60);
    add_resolvers(&mut plan, 10, 30);
    for (index, link) in plan.links.iter_mut().enumerate().skip(2) {
        link.delay = Span::from_us(700 * index as u64 + 13);
    }
    plan
}

#[test]
fn neither_shortcuts_nor_prefetching_change_a_result() {
    for (name, queue) in fair_queues(40) {
        let mut plain = mixed(queue.clone());
        plain.modes.collapse = false;
        let (fast, plain) = (run(mixed(queue.clone())), run(plain));
        assert!(fast.events() < plain.events(), "{name}");
        assert!(fingerprint(&fast) == fingerprint(&plain), "{name}: the tables differ");
        let again = run_foreseeing(mixed(queue));
        assert!(fingerprint(&fast) == fingerprint(&again), "{name}: the tables differ");
    }
}

#[test]
fn what_comes_in_goes_out_or_is_dropped_or_waits() {
    for (name, queue) in fair_queues(40) {
        let simulation = run(mixed(queue));
        let queues = table(&simulation, "queues");
        let column = |name| numbers(&queues, name);
        let (arrived, sent) = (column("arrived_packets"), column("sent_packets"));
        let (waiting, in_ring) = (column("backlog_packets"), column("ring_packets"));
        let dropped = column("dropped_overflow");
        for row in 0..arrived.len() {
            let here = sent[row] + dropped[row] + waiting[row] + in_ring[row];
            assert_eq!(arrived[row], here, "{name}: row {row}");
            // One more may be on its way into the ring.
            assert!(waiting[row] <= 41.0, "{name}: row {row}");
        }
        assert!(
            dropped.last().is_some_and(|&drops| drops > 100.0),
            "{name}: too few drops to tell"
        );
    }
}

/// Blue settles on a probability: nearly all of its drops are early ones, the queue hardly ever
/// overflows, and the line stays busy.
#[test]
fn blue_drops_early_and_seldom_at_the_limit() {
    let freeze = Span::from_ms(100);
    let config = blue::Config { limit: 200, freeze, ..Default::default() };
    let mut plan = dumbbell(40, 20, Queue::Blue(config));
    plan.end = Time::ZERO + Span::from_secs(120);
    let simulation = run(plan);
    let since = |column| {
        // After the start, when all windows double.
        let values = numbers(&table(&simulation, "queues"), column);
        values[values.len() - 1] - values[values.len() / 4]
    };
    let (early, overflow) = (since("dropped_early"), since("dropped_overflow"));
    assert!(early > 1000.0 && overflow < 0.1 * early, "{early} early, {overflow} at the limit");
    let busy = numbers(&table(&simulation, "links"), "busy_s");
    assert!(busy[busy.len() - 1] > 0.95 * 120.0, "{busy:?}");
}
