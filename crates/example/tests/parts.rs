//! Each part in a network, checked against its source.

use narrows_example::pi::{self, Pi};
use narrows_example::scalable::Scalable;
use narrows_example::typing::{BYTES, Shell, Typist};
use narrows_qdisc::AnyConfig;
use narrows_qdisc::fifo::PfifoConfig;
use narrows_sim::plan::{
    Application, Connection, Framing, Kind, Link, Modes, Monitor, Opener, Path, Plan, Queue, bulk,
};
use narrows_sim::table::Column;
use narrows_sim::{Simulation, tcp};
use narrows_units::{Rate, Span, Time};

/// Two hosts with a link each way. `queue` belongs to the first host's link, whose queue is
/// monitored.
fn network(mbit: u64, delay: Span, queue: Queue) -> Plan {
    let link = |name: &str, from, to, queue| Link {
        name: name.into(),
        from,
        to,
        rate: Rate::from_bps(mbit * 1_000_000).expect("not zero"),
        opportunities_ms: None,
        delay,
        jitter: None,
        loss: 0.0.into(),
        dns_exempt: false,
        framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
        queue,
        ring: None,
        mtu: 1500,
        middlebox: None,
    };
    let path = |from, to, link| Path { from, to, links: vec![link] };
    Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(60),
        end_when_done: false,
        event_limit: 100_000_000,
        nodes: vec!["a".into(), "b".into()],
        links: vec![link("there", 0, 1, queue), link("back", 1, 0, fifo(10_000))],
        tcp: vec![tcp::Config::profile("linux-6").expect("the profile exists")],
        paths: vec![path(0, 1, 0), path(1, 0, 1)],
        applications: Vec::new(),
        queue_monitors: vec![Monitor { link: 0, interval: Span::from_ms(10) }],
        link_monitors: Vec::new(),
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: None,
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes::default(),
    }
}

fn fifo(limit: u32) -> Queue {
    PfifoConfig { limit }.into()
}

fn add(plan: &mut Plan, name: &str, kind: Kind) -> usize {
    plan.applications.push(Application { name: name.into(), kind });
    plan.applications.len() - 1
}

/// Connections from the first host to the second that send without end.
fn add_bulk(plan: &mut Plan, count: usize) {
    let connections = (0..count).map(|number| Connection {
        name: format!("flow {number}"),
        there: 0,
        back: 1,
        tcp: 0,
        opener: Opener::Sender,
        start: Time::ZERO + Span::from_ms(50 * number as u64),
        stop: None,
    });
    let kind = Kind::Bulk(bulk::Bulk { connections: connections.collect() });
    add(plan, "bulk", kind);
}

/// Somebody who types `keys` keys, starting in the third second.
fn add_typist(plan: &mut Plan, keys: u32) {
    let shell = add(plan, "shell", Kind::custom(Shell { tcp: 0 }));
    let typist = Typist {
        there: 0,
        back: 1,
        tcp: 0,
        shell,
        start: Time::ZERO + Span::from_secs(3),
        pause: Span::from_ms(200),
        keys,
    };
    add(plan, "typist", Kind::custom(typist));
}

fn finish(plan: Plan) -> Simulation {
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    while !simulation.advance(1 << 20) {}
    simulation
}

/// A column of a table.
fn column(simulation: &Simulation, table: &str, name: &str) -> Vec<f64> {
    let tables = simulation.tables();
    let table = tables.iter().find(|found| found.name == table).expect("there is one");
    let column = table.columns.iter().find(|(found, _)| *found == name).expect("it is in it");
    match &column.1 {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|&value| value as f64).collect(),
        Column::U32(values) => values.iter().map(|&value| f64::from(value)).collect(),
        Column::U8(_) | Column::Bool(_) | Column::Text(_) => panic!("{name} has no numbers"),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Hollot et al. 2001, section IV: the integral part brings the queue to the reference, whatever
/// the load. The paper's network: 3750 packets a second, round trips up to 246 ms, 60 flows of
/// Reno; and the same with twice as many flows.
#[test]
fn pi_brings_the_queue_to_its_reference_whatever_the_load() {
    for flows in [60, 120] {
        let queue = AnyConfig::custom("pi", |seed| Pi::new(pi::Config::default(), seed));
        let mut plan = network(45, Span::from_ms(95), queue);
        plan.end = Time::ZERO + Span::from_secs(120);
        plan.tcp[0].congestion = tcp::Congestion::Reno;
        add_bulk(&mut plan, flows);
        let backlog = column(&finish(plan), "queues", "backlog_packets");
        let settled = mean(&backlog[backlog.len() / 2..]);
        assert!((settled - 200.0).abs() < 15.0, "{flows} flows: {settled} packets");
    }
}

/// Kelly 2003, section 3: a window of (a / b) / p segments, with a = 0.01 and b = 1/8, if a share p
/// of all segments is lost. Reno's window is sqrt(1.5 / p).
#[test]
fn scalable_tcp_obeys_its_response_function() {
    let window = |congestion: tcp::Congestion, expected: f64| {
        let mut plan = network(1_000, Span::from_ms(25), fifo(100_000));
        plan.end = Time::ZERO + Span::from_secs(120);
        plan.links[0].loss = 4e-4.into();
        plan.tcp[0].congestion = congestion;
        // The window starts where it should stay: the mean is over acknowledgements, and slow start
        // has many.
        plan.tcp[0].initial_ssthresh = Some(expected as u32);
        plan.tcp[0].receive_buffer = narrows_units::Bytes::new(1 << 30);
        add_bulk(&mut plan, 4);
        mean(&column(&finish(plan), "flows", "cwnd_mean_segments")) / expected
    };
    let scalable = window(tcp::Congestion::custom("scalable", |_| Scalable), 0.08 / 4e-4);
    assert!((scalable - 1.0).abs() < 0.2, "{scalable} of the window");
    let reno = window(tcp::Congestion::Reno, (1.5f64 / 4e-4).sqrt());
    assert!((reno - 1.0).abs() < 0.3, "{reno} of the window");
}

#[test]
fn an_echo_takes_a_round_trip_where_nobody_else_sends() {
    let mut plan = network(10, Span::from_ms(20), fifo(100));
    // As SSH does.
    plan.tcp[0].nagle = false;
    add_typist(&mut plan, 50);
    let took = column(&finish(plan), "keys", "echo_ms");
    // A key and its echo, each with 20 bytes of IP header, 20 of TCP header and 12 of timestamps,
    // at 10 Mbit/s.
    let round_trip = 2.0 * (20.0 + 8e-4 * f64::from(BYTES + 52));
    assert_eq!(took.len(), 50);
    // The handshake's last acknowledgement leaves before the first key, and the shell's kernel
    // acknowledges the first keys at once, before their echoes.
    let acknowledgement = 8e-4 * 52.0;
    for &ms in &took {
        let more = (ms - round_trip) / acknowledgement;
        assert!((-1e-6..2.0 + 1e-6).contains(&more), "{ms} ms, not {round_trip} ms");
    }
    let exact = took.iter().filter(|&ms| (ms - round_trip).abs() < 1e-9).count();
    assert!(exact > 30, "{exact} of 50");
}

/// All three parts run together, and beside narrows' own. The simulator's shortcuts do not change
/// the results.
#[test]
fn the_parts_work_together_and_with_ours() {
    let run = |queue: Queue, collapse| {
        let mut plan = network(10, Span::from_ms(20), queue);
        plan.modes.collapse = collapse;
        plan.tcp[0].congestion = tcp::Congestion::custom("scalable", |_| Scalable);
        add_bulk(&mut plan, 4);
        add_typist(&mut plan, 100);
        column(&finish(plan), "keys", "echo_ms")
    };
    // Gains for 833 packets a second: the paper's, as if for 60 flows with a third of a share each.
    let config = pi::Config { reference: 20, a: 1e-3, b: 9.9e-4, ..pi::Config::default() };
    let pi = || {
        let config = config.clone();
        AnyConfig::custom("pi", move |seed| Pi::new(config.clone(), seed))
    };
    let behind_pi = run(pi(), true);
    let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
    assert!(behind_pi.iter().zip(&run(pi(), false)).all(same), "shortcuts changed the results");
    let behind_fifo = run(fifo(800), true);
    // 800 packets of 1500 bytes take 960 ms, 20 take 24 ms.
    let known = |echoes: &[f64]| {
        let known: Vec<f64> = echoes.iter().copied().filter(|ms| !ms.is_nan()).collect();
        assert!(known.len() > 50, "hardly any key came back");
        mean(&known)
    };
    assert!(known(&behind_pi) < 0.3 * known(&behind_fifo));
}

/// What the page shows of the queue is in the file that `narrows new` copies.
#[test]
fn the_pages_decision_is_that_of_the_file() {
    let page = include_str!("../../../docs/extending.md");
    let lines: Vec<&str> =
        include_str!("../../../python/narrows/new/queue.rs").lines().map(str::trim).collect();
    let (_, shown) = page.split_once("fn enqueue(").expect("the page shows it");
    let (shown, _) = shown.split_once("```").expect("the block ends");
    for line in shown.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()) {
        assert!(lines.contains(&line), "{line}");
    }
}

#[test]
fn plans_with_parts_from_outside_are_refused_where_these_say_so() {
    let mut plan = network(10, Span::from_ms(20), fifo(100));
    add_typist(&mut plan, 5);
    plan.tcp.clear();
    let error = Simulation::new(plan).expect_err("there are no settings").to_string();
    assert_eq!(error, "shell: tcp: no such settings");
}
