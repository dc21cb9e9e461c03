//! Whole runs: determinism, shortcuts that change nothing, conservation, and closed forms.

use crate::common::{
    self, add_resolvers, busy_plan, connections, dumbbell, fingerprint, numbers, on_off, pfifo,
    red_ecn, resolvers, run, run_foreseeing, send, send_forever, table,
};
use narrows_sim::plan::{Capture, Draw, NeighbourPair, Path, Plan};
use narrows_sim::{Simulation, Stopped};
use narrows_units::{Bytes, Span, Time};

#[test]
fn the_same_plan_gives_the_same_tables() {
    assert_eq!(fingerprint(&run(busy_plan())), fingerprint(&run(busy_plan())));
    let mut other = busy_plan();
    other.seed = 2;
    assert_ne!(fingerprint(&run(busy_plan())), fingerprint(&run(other)));
}

#[test]
fn slices_of_any_length_give_the_same_tables() {
    let mut simulation = Simulation::new(busy_plan()).expect("the plan is sound");
    while !simulation.advance(777) {}
    assert_eq!(fingerprint(&simulation), fingerprint(&run(busy_plan())));
}

#[test]
fn neither_shortcuts_nor_prefetching_change_a_result() {
    let mut unequal = dumbbell(9, 20, pfifo(40));
    on_off(&mut unequal, 64);
    for (index, link) in unequal.links.iter_mut().enumerate().skip(2) {
        link.delay = Span::from_us(700 * index as u64 + 13);
    }
    let mut equal = dumbbell(30, 50, pfifo(100));
    on_off(&mut equal, 100);
    let mut legacy = dumbbell(10, 10, red_ecn());
    legacy.tcp[0] = common::profile("legacy");
    let mut classic = dumbbell(10, 10, pfifo(60));
    classic.tcp[0] = common::profile("ns-2");
    let mut changing = dumbbell(12, 10, pfifo(60));
    let burst = Draw::Exponential { mean: Bytes::new(60_000) };
    let idle = Draw::Pareto { mean: Span::from_ms(300), shape: 1.2 };
    send(&mut changing, &burst, &idle, None);
    for connection in connections(&mut changing).into_iter().take(6) {
        connection.stop = Some(Time::ZERO + Span::from_secs(8));
    }
    // Routers create ARP packets, and they release packets that have waited for an address.
    let mut resolving = busy_plan();
    resolving.end = Time::ZERO + Span::from_secs(45);
    resolving.queue_monitors.clear();
    resolving.link_monitors.clear();
    let there = resolving.paths.len();
    resolving.paths.extend([(0, 1, 0), (1, 0, 1)].map(|(from, to, link)| Path {
        from,
        to,
        links: vec![link],
    }));
    resolving.neighbours.push(NeighbourPair { there, back: there + 1 });
    for plan in [busy_plan(), unequal, equal, legacy, classic, changing, resolving] {
        let mut plain = plan.clone();
        plain.modes.collapse = false;
        let (fast, plain, foreseeing) = (run(plan.clone()), run(plain), run_foreseeing(plan));
        assert!(fast.events() <= plain.events(), "{} {}", fast.events(), plain.events());
        assert_eq!(fingerprint(&fast), fingerprint(&plain));
        assert_eq!(foreseeing.events(), fast.events());
        assert_eq!(fingerprint(&foreseeing), fingerprint(&fast));
    }
}

#[test]
fn what_comes_in_goes_out_or_is_dropped_or_waits() {
    let simulation = run(busy_plan());
    let queues = table(&simulation, "queues");
    let column = |name| numbers(&queues, name);
    let (arrived, sent) = (column("arrived_packets"), column("sent_packets"));
    let (waiting, in_ring) = (column("backlog_packets"), column("ring_packets"));
    let drops = ["dropped_overflow", "dropped_early", "dropped_forced"].map(column);
    assert!(arrived.len() > 100);
    for row in 0..arrived.len() {
        let dropped: f64 = drops.iter().map(|drops| drops[row]).sum();
        assert_eq!(arrived[row], sent[row] + dropped + waiting[row] + in_ring[row], "row {row}");
    }
    assert!(drops[1].last().is_some_and(|&drops| drops > 0.0));
}

#[test]
fn a_query_in_an_empty_network_takes_the_sum_of_its_parts() {
    let mut plan = dumbbell(1, 10, pfifo(100));
    connections(&mut plan)[0].start = Time::ZERO + Span::from_secs(1000);
    add_resolvers(&mut plan, 1, 5);
    plan.end_when_done = true;
    let simulation = run(plan);
    assert_eq!(simulation.stopped(), Stopped::Done);
    // Frames of 70 + 38 and 100 + 38 bytes over 100, 10 and 100 Mbit/s; 30 ms each way; 0.2 ms.
    let transmission_ms = (108.0 + 138.0) * 8.0 * (2.0 / 100e6 + 1.0 / 10e6) * 1e3;
    let expected_ms = transmission_ms + 60.0 + 0.2;
    for rtt_ms in numbers(&table(&simulation, "queries"), "rtt_ms") {
        assert!((rtt_ms - expected_ms).abs() < 1e-6, "{rtt_ms} {expected_ms}");
    }
}

#[test]
fn one_bulk_connection_fills_a_link_whose_buffer_is_the_bandwidth_delay_product() {
    // 10 Mbit/s x 60 ms = 75 kB = 49 frames.
    let simulation = run(dumbbell(1, 10, pfifo(60)));
    let received = numbers(&table(&simulation, "flows"), "bytes_received")[0];
    // 1448 payload bytes in 1538 on the wire; the first second is start-up.
    let most = 10e6 / 8.0 * 1448.0 / 1538.0 * 20.0;
    assert!(received < most && received > 0.93 * most, "{received} of {most}");
}

#[test]
fn bursts_are_rows_and_follow_each_other() {
    let mut plan = dumbbell(3, 10, pfifo(100));
    on_off(&mut plan, 20);
    let simulation = run(plan);
    let bursts = table(&simulation, "bursts");
    let (flows, starts, ends) =
        (numbers(&bursts, "flow"), numbers(&bursts, "start_s"), numbers(&bursts, "end_s"));
    assert!(flows.len() > 20);
    for flow in [0.0, 1.0, 2.0] {
        let mut last_end = 0.0;
        for row in (0..flows.len()).filter(|&row| flows[row] == flow) {
            assert!(starts[row] >= last_end && (ends[row] > starts[row] || ends[row].is_nan()));
            last_end = ends[row];
        }
    }
}

#[test]
fn bursts_have_the_sizes_and_pauses_of_a_list_and_then_the_connection_closes() {
    let mut plan = dumbbell(1, 10, pfifo(100));
    let sizes = [10_000, 250_000, 1].map(Bytes::new);
    let pauses = [Span::from_ms(700), Span::from_secs(3)];
    send(&mut plan, &Draw::List(sizes.to_vec()), &Draw::List(pauses.to_vec()), Some(5));
    let simulation = run(plan);
    let bursts = table(&simulation, "bursts");
    assert_eq!(numbers(&bursts, "bytes"), [10_000.0, 250_000.0, 1.0, 10_000.0, 250_000.0]);
    let (starts, ends) = (numbers(&bursts, "start_s"), numbers(&bursts, "end_s"));
    for (turn, pause_s) in [0.7, 3.0, 0.7, 3.0].into_iter().enumerate() {
        assert!((starts[turn + 1] - ends[turn] - pause_s).abs() < 1e-9, "pause {turn}");
    }
    let flows = table(&simulation, "flows");
    assert_eq!(numbers(&flows, "bytes_received"), [520_001.0]);
    // The FIN leaves with the last data and is acknowledged with them.
    assert!((numbers(&flows, "end_s")[0] - ends[4]).abs() < 0.1);
}

#[test]
fn an_application_that_stops_writes_no_more_and_closes() {
    let mut plan = dumbbell(3, 10, pfifo(100));
    on_off(&mut plan, 20);
    send_forever(&mut plan.applications[0]);
    let stop = Time::ZERO + Span::from_secs(7);
    for connection in connections(&mut plan).into_iter().take(2) {
        connection.stop = Some(stop);
    }
    let simulation = run(plan);
    let flows = table(&simulation, "flows");
    let ends = numbers(&flows, "end_s");
    // A bulk connection's window drains within two round trips of at most 180 ms.
    assert!(ends[0] > 7.0 && ends[0] < 7.5, "{}", ends[0]);
    assert!(ends[1] > 7.0 && ends[1] < 9.0, "{}", ends[1]);
    assert!(ends[2].is_nan(), "the third goes on");
    assert_eq!(numbers(&flows, "bytes_received"), numbers(&flows, "bytes_acked"));
    let bursts = table(&simulation, "bursts");
    let (flow, starts) = (numbers(&bursts, "flow"), numbers(&bursts, "start_s"));
    let last = |wanted: f64| {
        (0..flow.len())
            .filter(|&row| flow[row] == wanted)
            .map(|row| starts[row])
            .fold(0.0, f64::max)
    };
    assert!(last(1.0) < 7.0 && last(2.0) > 18.0, "{} {}", last(1.0), last(2.0));
}

#[test]
fn another_flow_changes_no_other_component_s_luck() {
    let starts = |flows| {
        let mut plan = dumbbell(flows, 10, pfifo(100));
        add_resolvers(&mut plan, 10, 1);
        let queries = table(&run(plan), "queries");
        let (index, start) = (numbers(&queries, "index"), numbers(&queries, "start_s"));
        let mut first: Vec<f64> = start
            .into_iter()
            .zip(index)
            .filter(|&(_, index)| index == 0.0)
            .map(|(s, _)| s)
            .collect();
        first.sort_by(f64::total_cmp);
        first
    };
    assert_eq!(starts(1), starts(4));
}

#[test]
fn the_event_limit_and_an_interrupt_leave_a_partial_run_with_tables() {
    let mut plan = busy_plan();
    plan.event_limit = 5_000;
    let simulation = run(plan);
    assert_eq!(simulation.stopped(), Stopped::EventLimit);
    assert_eq!(simulation.events(), 5_000);
    assert!(!numbers(&table(&simulation, "queues"), "t_s").is_empty());
    let mut simulation = Simulation::new(busy_plan()).expect("the plan is sound");
    assert!(!simulation.advance(5_000));
    simulation.interrupt();
    assert!(simulation.advance(1));
    assert_eq!(simulation.stopped(), Stopped::Interrupted);
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let refused = |change: fn(&mut Plan)| {
        let mut plan = dumbbell(1, 10, pfifo(100));
        add_resolvers(&mut plan, 1, 1);
        change(&mut plan);
        Simulation::new(plan).expect_err("the plan is unsound").to_string()
    };
    assert_eq!(refused(|plan| plan.end = Time::ZERO), "end: must be above zero");
    assert!(refused(|plan| plan.paths[0].links.swap(0, 1)).starts_with("route"));
    assert_eq!(refused(|plan| connections(plan)[0].there = 9), "flows: flow 0: path: no such path");
    assert!(refused(|plan| connections(plan)[0].back = 0).ends_with("does not lead back"));
    assert!(refused(|plan| connections(plan)[0].stop = Some(Time::ZERO)).contains("after start"));
    assert!(refused(|plan| connections(plan)[0].tcp = 7).contains("no such settings"));
    let refused_burst = |burst: &Draw<Bytes>, idle: &Draw<Span>, bursts| {
        let mut plan = dumbbell(1, 10, pfifo(100));
        send(&mut plan, burst, idle, bursts);
        Simulation::new(plan).expect_err("the plan is unsound").to_string()
    };
    let (second, kilobyte) =
        (|| Draw::Constant(Span::from_secs(1)), || Draw::Constant(Bytes::new(1000)));
    let pareto = |shape| Draw::Pareto { mean: Span::from_secs(1), shape };
    for (burst, idle, bursts, setting) in [
        (Draw::Constant(Bytes::ZERO), second(), None, "burst: "),
        (Draw::List(vec![Bytes::new(1), Bytes::ZERO]), second(), None, "burst: "),
        (Draw::List(Vec::new()), second(), None, "burst: "),
        (kilobyte(), pareto(1.0), None, "idle.shape: "),
        (kilobyte(), pareto(f64::NAN), None, "idle.shape: "),
        (kilobyte(), Draw::List(Vec::new()), None, "idle: "),
        (kilobyte(), second(), Some(0), "bursts: "),
    ] {
        let said = refused_burst(&burst, &idle, bursts);
        assert!(said.starts_with(&format!("flows: {setting}")), "{said}");
    }
    assert!(
        refused(|plan| plan.links[0].loss = 1.5.into()).starts_with("bottleneck.forward: loss")
    );
    assert!(refused(|plan| plan.links[0].queue = pfifo(0)).contains("queue"));
    assert!(refused(|plan| resolvers(plan).udp = None).starts_with("dns: udp, tcp"));
    let said = refused(|plan| resolvers(plan).udp.iter_mut().for_each(|u| u.timeouts.clear()));
    assert!(said.starts_with("dns: udp.timeouts"), "{said}");
    assert!(refused(|plan| resolvers(plan).queries = Some(u32::MAX)).starts_with("dns: "));
    assert!(refused(|plan| plan.queue_monitors[0].link = 99).contains("no such link"));
    assert!(refused(|plan| plan.captures.push(Capture::of(99, "none"))).contains("no such link"));
}

#[test]
fn all_errors_of_a_plan_are_found_and_none_that_only_follow() {
    let found = |change: fn(&mut Plan)| {
        let mut plan = dumbbell(1, 10, pfifo(100));
        add_resolvers(&mut plan, 1, 1);
        change(&mut plan);
        let errors = plan.errors();
        assert_eq!(plan.check().err().as_ref(), errors.first());
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(found(|_| {}).is_empty());
    let independent = found(|plan| {
        plan.event_limit = 0;
        plan.links[0].loss = 1.5.into();
        plan.links[1].queue = pfifo(0);
        plan.tcp[0].initial_window = 0;
        connections(plan)[0].tcp = 7;
        resolvers(plan).udp = None;
        plan.queue_monitors[0].link = 99;
        plan.captures.push(Capture::of(99, "none"));
    });
    let beginnings = [
        "event_limit: must be above zero",
        "bottleneck.forward: loss: must be at most 1",
        "bottleneck.backward: queue.limit: must be above zero",
        "tcp[0]: initial_window: must be above zero",
        "flows: flow 0: tcp: no such settings",
        "dns: udp, tcp: one of them is needed",
        "queue_monitors[0]: no such link",
        "captures[0]: no such link",
    ];
    assert_eq!(independent.len(), beginnings.len(), "{independent:?}");
    for (error, beginning) in independent.iter().zip(beginnings) {
        assert!(error.starts_with(beginning), "{error}");
    }
    // The link's paths lead nowhere, so the flows have no path. Reporting that would add nothing.
    let nowhere = found(|plan| {
        plan.links[0].to = 99;
        plan.links[0].loss = 1.5.into();
        plan.paths[0].links.swap(0, 1);
        connections(plan)[0].there = 99;
    });
    let link = "bottleneck.forward";
    assert_eq!(
        nowhere,
        [format!("{link}: no such node"), format!("{link}: loss: must be at most 1")]
    );
    let short = found(|plan| plan.links[0].mtu = 575);
    assert_eq!(short, [format!("{link}: mtu: must be at least 576")]);
    let broken = found(|plan| {
        plan.paths[0].links.swap(0, 1);
        plan.paths[1].links.clear();
        connections(plan)[0].tcp = 7;
    });
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken.iter().all(|error| error.starts_with("route from ")), "{broken:?}");
}
