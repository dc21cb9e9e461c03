//! The two modes of a link: one computes when a packet leaves, the other has an event for it. A
//! discipline that can run in either gives the same tables.

use crate::common::{
    self, add_resolvers, busy_plan, dumbbell, fingerprint, link, numbers, on_off, pfifo, run, table,
};
use narrows_qdisc::fifo::BfifoConfig;
use narrows_qdisc::traffic::Whim;
use narrows_qdisc::{blue, codel, pie, red};
use narrows_sim::Simulation;
use narrows_sim::plan::{
    Application, Capture, Connection, Distribution, GilbertElliott, Jitter, Kind, LinkChange,
    LinkState, Loss, Monitor, OneWayMonitor, Opener, Path, Plan, Queue, Ring, bulk,
};
use narrows_sim::table::{Column, Table};
use narrows_units::{Bytes, Rate, Span, Time};

/// Returns the same plan, but with an event for each departure from `links`.
fn scheduled(plan: &Plan, links: impl IntoIterator<Item = usize>) -> Plan {
    let mut plan = plan.clone();
    for link in links {
        plan.modes.scheduled.push(link);
    }
    plan
}

/// Runs `plan` in clock mode, and with the bottleneck, then all links, scheduled, each with and
/// without shortcuts.
fn check(name: &str, plan: &Plan) -> Simulation {
    let mut plan = plan.clone();
    plan.one_way_monitor = Some(all_delays(&plan));
    let clocked = run(plan.clone());
    let expected = fingerprint(&clocked);
    for links in [0..1, 0..plan.links.len()] {
        for collapse in [true, false] {
            let mut other = scheduled(&plan, links.clone());
            other.modes.collapse = collapse;
            let other = run(other);
            assert!(other.events() > clocked.events(), "{name}: nothing was scheduled");
            assert!(
                fingerprint(&other) == expected,
                "{name}: links {links:?}, collapse {collapse}: the tables differ"
            );
            for link in plan.captures.iter().map(|capture| capture.link) {
                assert_eq!(
                    format!("{:?}", other.captured(link)),
                    format!("{:?}", clocked.captured(link)),
                    "{name}: the packets captured at link {link} differ"
                );
            }
        }
    }
    clocked
}

/// Measures the delays of every flow.
fn all_delays(plan: &Plan) -> OneWayMonitor {
    let mut groups: Vec<_> = plan.applications.iter().map(|one| one.name.clone()).collect();
    groups.sort();
    groups.dedup();
    OneWayMonitor { groups, flows: true, packets: false, from: Time::ZERO, to: Time::MAX }
}

/// Flows, bursts and DNS over a bottleneck of 10 Mbit/s.
fn mixed(queue: Queue) -> Plan {
    let mut plan = dumbbell(9, 10, queue);
    plan.end = Time::ZERO + Span::from_secs(10);
    on_off(&mut plan, 60);
    add_resolvers(&mut plan, 10, 30);
    for (index, link) in plan.links.iter_mut().enumerate().skip(2) {
        link.delay = Span::from_us(700 * index as u64 + 13);
    }
    plan.captures = [0, 3].map(|link| Capture::of(link, "")).to_vec();
    plan
}

fn red_1993(unit: red::classic::Unit) -> Queue {
    let scale = match unit {
        red::classic::Unit::Packets => 1.0,
        red::classic::Unit::Bytes => 1000.0,
    };
    Queue::Red1993(red::classic::Config {
        unit,
        mean_packet: Bytes::new(1000),
        limit: (60.0 * scale) as u64,
        min: 5.0 * scale,
        max: 15.0 * scale,
        weight: 0.01,
        bandwidth: Rate::from_bps(10_000_000),
        ..red::classic::Config::example()
    })
}

fn queues() -> Vec<(&'static str, Queue)> {
    vec![
        ("pfifo", pfifo(40)),
        ("bfifo", Queue::Bfifo(BfifoConfig { limit: Bytes::new(30_000) })),
        ("red", common::red_ecn()),
        ("red-1993", red_1993(red::classic::Unit::Packets)),
        ("red-1993 in bytes", red_1993(red::classic::Unit::Bytes)),
        ("pie", Queue::Pie(pie::Config { target: Span::from_ms(5), ..pie::Config::default() })),
        ("decided outside", Whim::config(false)),
        (
            "pie with ECN and an estimate of the rate",
            Queue::Pie(pie::Config {
                limit: 40,
                ecn: true,
                bytemode: true,
                dq_rate_estimator: true,
                ..pie::Config::default()
            }),
        ),
        (
            "blue",
            Queue::Blue(blue::Config {
                limit: 40,
                freeze: Span::from_ms(10),
                ecn: true,
                ..blue::Config::default()
            }),
        ),
    ]
}

fn jitter(reorder: bool) -> Jitter {
    Jitter {
        deviation: Span::from_ms(3),
        correlation: 0.25,
        distribution: Distribution::Normal,
        reorder,
    }
}

fn dropped(simulation: &Simulation) -> f64 {
    let queues = table(simulation, "queues");
    ["dropped_overflow", "dropped_early", "dropped_forced"]
        .iter()
        .map(|name| *numbers(&queues, name).last().expect("samples"))
        .sum()
}

#[test]
fn each_discipline_decides_the_same() {
    for (name, queue) in queues() {
        let simulation = check(name, &mixed(queue));
        assert!(dropped(&simulation) > 40.0, "{name}: too few drops to tell");
    }
}

#[test]
fn rings_take_packets_at_the_same_moments() {
    let rings = [Ring::packets(1), Ring::packets(7), Ring::thresholds(9, 2), Ring::bytes(9_000)];
    for ((name, queue), ring) in
        queues().into_iter().flat_map(|queue| rings.map(|ring| (queue.clone(), ring)))
    {
        let mut plan = mixed(queue);
        plan.links[0].ring = Some(ring);
        check(&format!("{name}, {ring:?}"), &plan);
    }
}

#[test]
fn packets_draw_the_same_loss_and_delay() {
    for (name, queue) in queues() {
        let mut plan = mixed(queue);
        plan.links[0].loss = 0.01.into();
        plan.links[0].dns_exempt = true;
        plan.links[0].jitter = Some(jitter(false));
        plan.links[1].jitter = Some(jitter(true));
        check(&format!("{name}, with loss and jitter"), &plan);
        let states = GilbertElliott { p: 0.01, r: Some(0.3), loss_bad: 0.9, loss_good: 0.001 };
        plan.links[0].loss = Loss::Bursts { states };
        plan.links[1].loss = Loss::Bursts { states };
        check(&format!("{name}, with bursts of losses"), &plan);
    }
    check("everything at once", &busy_plan());
}

#[test]
fn a_packet_that_comes_as_another_leaves_comes_after_it() {
    // The access links' packets take as long as the bottleneck's, and all start at once: packets
    // come and leave at the same moments all the time.
    for (name, queue) in queues() {
        let mut plan = dumbbell(4, 100, queue);
        plan.end = Time::ZERO + Span::from_secs(5);
        on_off(&mut plan, 200);
        check(&format!("{name} at equal rates"), &plan);
    }
}

/// Plans whose bottleneck decides at dequeue, by name.
fn codel_plans() -> Vec<(&'static str, Plan)> {
    let codel = |ecn| Queue::Codel(codel::Config { ecn, ..codel::Config::default() });
    let mut plans = vec![("codel", mixed(codel(false)))];
    for ring in [Ring::thresholds(5, 1), Ring::bytes(9_000)] {
        let mut plan = mixed(codel(false));
        plan.links[0].ring = Some(ring);
        plans.push(("codel above a ring", plan));
    }
    let mut plan = mixed(codel(true));
    plan.tcp[0].ecn = true;
    plan.links[0].jitter = Some(jitter(true));
    plan.links[0].loss = 0.01.into();
    plans.push(("codel with ECN, loss and jitter", plan));
    // In the middle of each path, with several links before and after it that may be computed.
    let mut plan = busy_plan();
    plan.links[0].queue = codel(true);
    plan.links[1].queue = codel(false);
    plan.links[6].queue = codel(false);
    plans.push(("codel in three places", plan));
    plans
}

#[test]
fn shortcuts_around_a_scheduled_link_change_no_result() {
    for (name, plan) in codel_plans() {
        let mut plain = plan.clone();
        plain.modes.collapse = false;
        let (fast, plain) = (run(plan), run(plain));
        assert!(fast.events() < plain.events(), "{name}");
        assert!(fingerprint(&fast) == fingerprint(&plain), "{name}: the tables differ");
    }
}

#[test]
fn drops_at_dequeue_are_counted_and_told_to_those_who_ask() {
    let mut total = 0;
    for (name, plan) in codel_plans() {
        let simulation = run(plan);
        let queues = table(&simulation, "queues");
        let column = |name| numbers(&queues, name);
        let (arrived, sent) = (column("arrived_packets"), column("sent_packets"));
        let (waiting, in_ring) = (column("backlog_packets"), column("ring_packets"));
        let drops = ["dropped_overflow", "dropped_early", "dropped_forced"].map(column);
        for row in 0..arrived.len() {
            let dropped: f64 = drops.iter().map(|drops| drops[row]).sum();
            let here = sent[row] + dropped + waiting[row] + in_ring[row];
            assert_eq!(arrived[row], here, "{name}: row {row}");
        }
        let last = |column: &[f64]| *column.last().expect("samples");
        let affected = last(&drops[1]) + last(&column("marked_early"));
        assert!(affected > 20.0, "{name}: CoDel did nothing");
        // Each DNS packet that was dropped is an attempt that says where and why.
        let attempts = table(&simulation, "attempts");
        let (places, reasons) = (texts(&attempts, "lost_at"), texts(&attempts, "reason"));
        let early = (places.iter().zip(&reasons))
            .filter(|&(place, reason)| place == "bottleneck.forward" && reason == "early")
            .count();
        assert_eq!(last(&column("dropped_dns")), early as f64, "{name}");
        total += early;
    }
    assert!(total > 0, "no DNS packet was dropped");
}

fn texts(table: &Table, name: &str) -> Vec<String> {
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Text(values))) => values.iter().map(str::to_owned).collect(),
        _ => panic!("no texts are called {name}"),
    }
}

/// Losses to change to.
const LOSSES: [Loss; 3] = [
    Loss::Each(0.02),
    Loss::Bursts {
        states: GilbertElliott { p: 0.01, r: Some(0.3), loss_bad: 1.0, loss_good: 0.0 },
    },
    Loss::Each(0.0),
];

#[test]
fn rates_delays_and_losses_change_at_the_same_moments() {
    for (name, queue) in queues() {
        let bursts = Ring::thresholds(7, 4);
        for ring in [None, Some(bursts), Some(Ring::bytes(9_000))] {
            let mut plan = mixed(queue.clone());
            plan.links[0].ring = ring;
            for (number, mbit) in [3, 30, 10, 1, 5].into_iter().enumerate() {
                plan.changes.push(LinkChange {
                    at: Time::ZERO + Span::from_ms(1_000 + 1_666 * number as u64),
                    link: number % 2,
                    rate: Rate::from_bps(mbit * 1_000_000).expect("not zero"),
                    delay: (number == 2).then_some(Span::from_ms(3)),
                    loss: LOSSES.get(number.wrapping_sub(2)).copied(),
                    jitter: (number == 1).then_some(jitter(true)),
                    ..LinkChange::default()
                });
            }
            check(&format!("{name}, {ring:?}, with changes"), &plan);
        }
    }
}

#[test]
fn links_go_down_and_up_at_the_same_moments() {
    for (name, queue) in queues() {
        let bursts = Ring::thresholds(7, 4);
        for ring in [None, Some(bursts), Some(Ring::bytes(9_000))] {
            let mut plan = mixed(queue.clone());
            plan.links[0].ring = ring;
            plan.links[0].loss = 0.01.into();
            plan.links[1].jitter = Some(jitter(true));
            // One access link as well. The way back stays down.
            let turns = [(0, 1_000), (0, 1_400), (4, 2_000), (4, 2_007), (0, 5_001), (0, 5_300)];
            for (number, (link, ms)) in turns.into_iter().chain([(1, 9_000)]).enumerate() {
                plan.changes.push(LinkChange {
                    at: Time::ZERO + Span::from_ms(ms),
                    link,
                    rate: plan.links[link].rate,
                    state: Some([LinkState::Down, LinkState::Up][number % 2]),
                    ..LinkChange::default()
                });
            }
            check(&format!("{name}, {ring:?}, down at times"), &plan);
        }
    }
}

#[test]
fn links_that_feed_each_other_in_a_circle_agree() {
    for (name, queue) in [("pfifo", pfifo(30)), ("codel", Queue::Codel(codel::Config::default()))] {
        let mut plan = circle(&queue);
        if name == "pfifo" {
            check(name, &plan);
        }
        let fast = run(plan.clone());
        plan.modes.collapse = false;
        let plain = run(plan);
        assert!(fast.events() < plain.events(), "{name}");
        assert!(fingerprint(&fast) == fingerprint(&plain), "{name} in a circle: the tables differ");
    }
}

/// Three routers in a circle. Links of 10 Mbit/s with `queue` lead from each to the next, and each
/// router's flows pass two of them, so each link feeds the next. The links back and those to the
/// hosts are fast.
fn circle(queue: &Queue) -> Plan {
    let mut plan = dumbbell(0, 10, queue.clone());
    plan.end = Time::ZERO + Span::from_secs(10);
    plan.nodes = (0..3).map(|router| format!("R{router}")).collect();
    plan.links.clear();
    for router in 0..3 {
        let (next, name) = ((router + 1) % 3, format!("circle {router}"));
        plan.links.push(link(&name, router, next, 10, Span::from_ms(5), queue.clone()));
    }
    for router in 0..3 {
        let next = (router + 1) % 3;
        let back =
            link(&format!("back {router}"), next, router, 100, Span::from_ms(5), pfifo(1000));
        plan.links.push(back);
    }
    for flow in 0..12 {
        let router = flow % 3;
        let end = (router + 2) % 3;
        let (sender, receiver) = (plan.nodes.len(), plan.nodes.len() + 1);
        plan.nodes.extend([format!("s{flow}"), format!("d{flow}")]);
        let first = plan.links.len();
        // With 130 us, two packets would come to a link from two others at the same picosecond, and
        // the modes may let either go first.
        let delay = Span::from_us(1_000 + 131 * flow as u64);
        let access = |name: &str, from, to| {
            link(&format!("{name} {flow}"), from, to, 100, delay, pfifo(1000))
        };
        let links = [
            access("up", sender, router),
            access("up back", router, sender),
            access("down", end, receiver),
            access("down back", receiver, end),
        ];
        plan.links.extend(links);
        let middle = (router + 1) % 3;
        let there = plan.paths.len();
        plan.paths.extend([
            Path { from: sender, to: receiver, links: vec![first, router, middle, first + 2] },
            Path {
                from: receiver,
                to: sender,
                links: vec![first + 3, 3 + middle, 3 + router, first + 1],
            },
        ]);
        let connection = Connection {
            name: format!("flow {flow}"),
            there,
            back: there + 1,
            tcp: 0,
            opener: Opener::Sender,
            start: Time::ZERO,
            stop: None,
        };
        let kind = Kind::Bulk(bulk::Bulk { connections: vec![connection] });
        plan.applications.push(Application { name: "flows".into(), kind });
    }
    on_off(&mut plan, 60);
    // Nothing monitors the circle itself, so that packets enter it ahead of time.
    plan.queue_monitors = vec![Monitor { link: 3, interval: Span::from_ms(100) }];
    plan.link_monitors = vec![Monitor { link: 4, interval: Span::from_ms(500) }];
    plan
}
