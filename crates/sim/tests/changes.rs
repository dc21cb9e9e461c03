//! Links whose rate changes during a run.

#[allow(dead_code, reason = "other tests use more of it")]
mod common;

use common::{dumbbell, fingerprint, numbers, pfifo, red_ecn, run, table};
use narrows_sim::Simulation;
use narrows_sim::plan::{LinkChange, LinkState, Plan, Queue, Ring};
use narrows_units::{Rate, Span, Time};

const LINK: usize = 0;

fn change(ms: u64, bps: u64) -> LinkChange {
    let rate = Rate::from_bps(bps).expect("not zero");
    LinkChange { at: Time::ZERO + Span::from_ms(ms), link: LINK, rate, delay: None, state: None }
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
        plan.links[0].scheduled = scheduled;
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
    plain.collapse = false;
    let (fast, plain) = (run(plan), run(plain));
    assert!(fast.events() < plain.events());
    assert!(fingerprint(&fast) == fingerprint(&plain));
}

#[test]
fn a_change_to_the_same_rate_changes_nothing() {
    for (queue, scheduled) in [(pfifo(60), false), (red_ecn(), false), (red_ecn(), true)] {
        let mut plan = dumbbell(5, 10, queue);
        plan.links[0].scheduled = scheduled;
        let expected = fingerprint(&run(plan.clone()));
        plan.changes = vec![change(3_000, 10_000_000), change(3_000, 10_000_000)];
        assert!(fingerprint(&run(plan.clone())) == expected);
        plan.changes.push(change(4_000, 5_000_000));
        assert!(fingerprint(&run(plan)) != expected);
    }
}

fn turn(ms: u64, state: LinkState) -> LinkChange {
    LinkChange { state: Some(state), ..change(ms, 10_000_000) }
}

#[test]
fn a_link_that_was_down_sends_what_waited_at_its_full_rate() {
    for scheduled in [false, true] {
        let mut plan = dumbbell(10, 10, pfifo(200));
        plan.links[0].scheduled = scheduled;
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
    plan.collapse = false;
    plan.links.iter_mut().for_each(|link| link.scheduled = true);
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
    plain.collapse = false;
    assert!(fingerprint(&run(plan.clone())) == fingerprint(&run(plain)));
    // Nor does what is in its ring then, because it is slow, if all links are scheduled.
    plan.links[2].ring = Some(Ring::packets(4));
    plan.links[2].rate = Rate::from_bps(1_000_000).expect("not zero");
    plan.changes[0].rate = plan.links[2].rate;
    let mut scheduled = plan.clone();
    scheduled.links.iter_mut().for_each(|link| link.scheduled = true);
    assert!(fingerprint(&run(plan)) == fingerprint(&run(scheduled)));
}

#[test]
fn a_change_of_no_link_is_refused() {
    let mut plan = plan(pfifo(10));
    plan.changes[0].link = plan.links.len();
    let error = Simulation::new(plan).expect_err("the plan is unsound").to_string();
    assert_eq!(error, "changes[0]: no such link");
}
