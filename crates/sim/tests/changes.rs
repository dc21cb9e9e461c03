//! Links that change during a run.

use crate::common::{self, dumbbell, fingerprint, numbers, pfifo, red_ecn, run, table};
use narrows_qdisc::codel;
use narrows_sim::Simulation;
use narrows_sim::plan::{GilbertElliott, LinkChange, LinkState, Loss, Plan, Queue, Ring};
use narrows_sim::table::Table;
use narrows_units::{Rate, Span, Time};

const LINK: usize = 0;

fn change(ms: u64, bps: u64) -> LinkChange {
    let rate = Rate::from_bps(bps).expect("not zero");
    LinkChange { at: Time::ZERO + Span::from_ms(ms), link: LINK, rate, ..LinkChange::default() }
}

/// Bytes that the link has transmitted, and seconds that it was busy, between two samples.
fn between(simulation: &Simulation, from_s: f64, to_s: f64) -> (f64, f64) {
    let links = table(simulation, "links");
    let times = numbers(&links, "t_s");
    let at = |column: &str, at_s: f64| {
        let row = times.iter().position(|&t| (t - at_s).abs() < 1e-9).expect("a sample");
        numbers(&links, column)[row]
    };
    let differs = |column| at(column, to_s) - at(column, from_s);
    (differs("bytes"), differs("busy_s"))
}

/// Ten flows that never stop over 10 Mbit/s, 4 Mbit/s from 10.3 s on, and 5 Mbit/s from 15.2 s on.
fn plan(queue: Queue) -> Plan {
    let mut plan = dumbbell(10, 10, queue);
    plan.changes = vec![change(15_200, 5_000_000), change(10_300, 4_000_000)];
    plan
}

#[test]
fn a_saturated_link_sends_as_much_as_its_rate_says() {
    for (queue, scheduled) in [(pfifo(200), false), (pfifo(200), true), (red_ecn(), false)] {
        let mut plan = plan(queue);
        plan.modes.scheduled = if scheduled { vec![0] } else { Vec::new() };
        let simulation = run(plan);
        // Before, between and after the changes, and across each.
        let spans = [
            (8.0, 10.0, 2.0 * 10e6),
            (10.0, 10.5, 0.3 * 10e6 + 0.2 * 4e6),
            (11.0, 15.0, 4.0 * 4e6),
            (15.0, 15.5, 0.2 * 4e6 + 0.3 * 5e6),
            (16.0, 20.0, 4.0 * 5e6),
        ];
        for (from_s, to_s, bits) in spans {
            let (bytes, busy_s) = between(&simulation, from_s, to_s);
            // One packet of 1538 bytes may have begun before the span, and one may end after it.
            assert!((busy_s - (to_s - from_s)).abs() < 1e-9, "{from_s}: busy {busy_s}");
            assert!((bytes - bits / 8.0).abs() <= 2.0 * 1538.0, "{from_s}: {bytes} {bits}");
        }
    }
}

#[test]
fn shortcuts_change_no_result() {
    let mut plan = plan(pfifo(200));
    common::on_off(&mut plan, 60);
    common::add_resolvers(&mut plan, 10, 30);
    // Access links that get slower and faster, and one whose delay falls.
    for (number, link) in (2..20).enumerate() {
        for (ms, bps) in [(2_000, 3_000_000), (9_000, 400_000_000)] {
            plan.changes.push(LinkChange { link, ..change(ms + 10 * number as u64, bps) });
        }
    }
    plan.changes.push(LinkChange { delay: Some(Span::from_us(100)), ..change(3_000, 9_000_000) });
    let mut plain = plan.clone();
    plain.modes.collapse = false;
    let (fast, plain) = (run(plan), run(plain));
    assert!(fast.events() < plain.events());
    assert!(fingerprint(&fast) == fingerprint(&plain));
}

#[test]
fn a_change_to_the_same_rate_changes_nothing() {
    for (queue, scheduled) in [(pfifo(60), false), (red_ecn(), false), (red_ecn(), true)] {
        let mut plan = dumbbell(5, 10, queue);
        plan.modes.scheduled = if scheduled { vec![0] } else { Vec::new() };
        let expected = fingerprint(&run(plan.clone()));
        plan.changes = vec![change(3_000, 10_000_000), change(3_000, 10_000_000)];
        assert!(fingerprint(&run(plan.clone())) == expected);
        plan.changes.push(change(4_000, 5_000_000));
        assert!(fingerprint(&run(plan)) != expected);
    }
}

/// A row of a table, by its time.
fn row(table: &Table, at_s: f64) -> impl Fn(&str) -> f64 {
    let times = numbers(table, "t_s");
    let row = times.iter().position(|&t| (t - at_s).abs() < 1e-9).expect("a sample");
    move |column| numbers(table, column)[row]
}

#[test]
fn losses_begin_and_end_at_their_times() {
    let states = GilbertElliott { p: 0.01, r: Some(0.1), loss_bad: 1.0, loss_good: 0.0 };
    for (loss, share) in [(Loss::Each(0.1), 0.1), (Loss::Bursts { states }, 0.01 / 0.11)] {
        let mut plan = dumbbell(40, 10, pfifo(200));
        let with = |ms, loss| LinkChange { loss: Some(loss), ..change(ms, 10_000_000) };
        plan.changes = vec![with(5_000, loss), with(15_000, Loss::Each(0.0))];
        let simulation = run(plan);
        let links = table(&simulation, "links");
        let [before, from, to, after] = [4.5, 5.5, 15.0, 19.5].map(|at| row(&links, at));
        assert_eq!((before("lost"), after("lost") - to("lost")), (0.0, 0.0));
        let lost = (to("lost") - from("lost")) / (to("packets") - from("packets"));
        // Some 7000 packets: bursts of ten leave a standard error of a sixth of the share.
        assert!((lost / share - 1.0).abs() < 0.5, "{lost} instead of {share}");
    }
}

#[test]
fn a_queue_of_another_kind_drops_what_waits_and_one_of_its_kind_keeps_it() {
    let codel = || Queue::Codel(codel::Config::default());
    let short = Queue::Codel(codel::Config { limit: 20, ..codel::Config::default() });
    for (first, then, dropped) in [
        (pfifo(200), codel(), 200.0),
        (pfifo(200), pfifo(300), 0.0),
        (pfifo(200), pfifo(20), 0.0),
        (red_ecn(), pfifo(20), 30.0),
        (codel(), pfifo(1000), 5.0),
        (codel(), short, 0.0),
    ] {
        let label = format!("from {first:?} to {then:?}");
        let mut plan = dumbbell(40, 10, first);
        let queue = Some(then.clone());
        plan.changes = vec![LinkChange { queue, ..change(10_050, 10_000_000) }];
        let simulation = run(plan);
        let queues = table(&simulation, "queues");
        let column = |name| numbers(&queues, name);
        let (arrived, sent) = (column("arrived_packets"), column("sent_packets"));
        let (waiting, in_ring) = (column("backlog_packets"), column("ring_packets"));
        let drops = ["dropped_overflow", "dropped_early", "dropped_forced"].map(column);
        for at in 0..arrived.len() {
            let gone: f64 = drops.iter().map(|drops| drops[at]).sum();
            assert_eq!(arrived[at], sent[at] + gone + waiting[at] + in_ring[at], "{label}: {at}");
        }
        let [before, after] = [10.0, 10.1].map(|at| row(&queues, at));
        let jump = after("dropped_overflow") - before("dropped_overflow");
        let held = before("backlog_packets");
        if dropped > 0.0 {
            assert!(jump >= 0.8 * dropped, "{label}: {held}, {jump}");
        } else if let Queue::Pfifo(_) = then {
            // 83 packets leave in the tenth of a second.
            assert!(after("backlog_packets") > held - 90.0, "{label}: {held}");
        }
        // From then on it is the new one.
        let late = row(&queues, 18.0)("backlog_packets");
        let bound = if let Queue::Pfifo(fifo) = &then { f64::from(fifo.limit) } else { 100.0 };
        assert!(late <= bound, "{label}: {late}");
    }
}

#[test]
fn a_new_limit_that_is_the_old_one_changes_nothing() {
    for queue in [pfifo(60), Queue::Codel(codel::Config::default())] {
        let mut plan = dumbbell(5, 10, queue.clone());
        plan.modes.scheduled.push(0);
        let expected = fingerprint(&run(plan.clone()));
        plan.changes = vec![LinkChange { queue: Some(queue), ..change(3_333, 10_000_000) }];
        plan.modes.scheduled.clear();
        assert!(fingerprint(&run(plan)) == expected);
    }
}

fn turn(ms: u64, state: LinkState) -> LinkChange {
    LinkChange { state: Some(state), ..change(ms, 10_000_000) }
}

#[test]
fn a_link_that_was_down_sends_what_waited_at_its_full_rate() {
    for scheduled in [false, true] {
        let mut plan = dumbbell(10, 10, pfifo(200));
        plan.modes.scheduled = if scheduled { vec![0] } else { Vec::new() };
        plan.link_monitors[0].interval = Span::from_ms(100);
        plan.changes = vec![turn(10_000, LinkState::Down), turn(12_000, LinkState::Up)];
        let simulation = run(plan);
        let (bytes, busy_s) = between(&simulation, 10.0, 12.0);
        // The packet that was cut off counts. 1538 bytes take 1.23 ms.
        assert!(bytes <= 1538.0 && busy_s < 0.001_24, "{bytes} {busy_s}");
        // At least 82 packets of 200 wait, which take a tenth of a second.
        let (bytes, busy_s) = between(&simulation, 12.0, 12.1);
        assert!((busy_s - 0.1).abs() < 1e-9 && (bytes - 125_000.0).abs() <= 1538.0, "{bytes}");
        let lost = numbers(&table(&simulation, "links"), "lost");
        assert_eq!(lost.last(), Some(&1.0));
    }
}

#[test]
fn a_link_that_stays_down_ends_nothing_but_its_traffic() {
    let mut plan = dumbbell(10, 10, pfifo(200));
    common::add_resolvers(&mut plan, 10, 1000);
    plan.changes = vec![turn(10_000, LinkState::Down)];
    let simulation = run(plan.clone());
    let (bytes, _) = between(&simulation, 10.5, 20.0);
    assert_eq!(bytes, 0.0);
    assert!(numbers(&table(&simulation, "flows"), "timeouts").iter().all(|&each| each > 1.0));
    plan.modes.collapse = false;
    plan.modes.scheduled = (0..plan.links.len()).collect();
    assert!(fingerprint(&simulation) == fingerprint(&run(plan)));
}

#[test]
fn what_waits_for_a_link_that_stays_down_never_reaches_the_queue_behind_it() {
    // One sender, so that its link leads straight into the queue.
    let mut plan = dumbbell(1, 10, red_ecn());
    plan.queue_monitors.clear();
    plan.link_monitors.clear();
    plan.changes = vec![LinkChange { link: 2, ..turn(5_000, LinkState::Down) }];
    let mut plain = plan.clone();
    plain.modes.collapse = false;
    assert!(fingerprint(&run(plan.clone())) == fingerprint(&run(plain)));
    // Nor does what is in its ring then, because it is slow, if all links are scheduled.
    plan.links[2].ring = Some(Ring::packets(4));
    plan.links[2].rate = Rate::from_bps(1_000_000).expect("not zero");
    plan.changes[0].rate = plan.links[2].rate;
    let mut scheduled = plan.clone();
    scheduled.modes.scheduled = (0..plan.links.len()).collect();
    assert!(fingerprint(&run(plan)) == fingerprint(&run(scheduled)));
}

#[test]
fn a_change_of_no_link_is_refused() {
    let mut plan = plan(pfifo(10));
    plan.changes[0].link = plan.links.len();
    let error = Simulation::new(plan).expect_err("the plan is unsound").to_string();
    assert_eq!(error, "changes[0]: no such link");
}
