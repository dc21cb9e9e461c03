use narrows_apps::Use;
use narrows_qdisc::fifo::PfifoConfig;
use narrows_transport::tcp::Segment;
use narrows_units::Rate;

use super::*;
use crate::packet::{PacketKind, Stamp};
use crate::plan::{Framing, Link as LinkPlan, Modes, Path, Plan, Queue};

/// Returns a plan of a host, two routers and a host in a row. Links 0 to 2 lead there and 3 to 5
/// back; each takes a millisecond. The routers resolve each other's addresses. `loss` is the loss
/// of the link back between the routers.
fn plan(loss: f64) -> Plan {
    let ends = [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0)];
    let link = |(index, (from, to)): (usize, (usize, usize))| LinkPlan {
        name: format!("{from}->{to}"),
        from,
        to,
        rate: Rate::from_bps(8_000_000_000).expect("not zero"),
        delay: Span::from_ms(1),
        jitter: None,
        loss: if index == 4 { loss } else { 0.0 }.into(),
        dns_exempt: false,
        opportunities_ms: None,
        framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
        queue: Queue::Pfifo(PfifoConfig::default()),
        ring: None,
        mtu: 1500,
        middlebox: None,
    };
    Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(1000),
        end_when_done: false,
        event_limit: 1000,
        nodes: ["host", "left", "right", "server"].map(String::from).to_vec(),
        links: ends.into_iter().enumerate().map(link).collect(),
        tcp: Vec::new(),
        paths: vec![
            Path { from: 0, to: 3, links: vec![0, 1, 2] },
            Path { from: 3, to: 0, links: vec![3, 4, 5] },
            Path { from: 1, to: 2, links: vec![1] },
            Path { from: 2, to: 1, links: vec![4] },
        ],
        applications: Vec::new(),
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: None,
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: vec![NeighbourPair { there: 2, back: 3 }],
        modes: Modes::default(),
    }
}

fn network(loss: f64) -> Network {
    let plan = plan(loss);
    plan.check().expect("the plan is sound");
    let uses = (0..4).map(|path| Use { path, bytes: 28, dns: false });
    let mut network = Network::new(&plan.topology(), &uses.collect::<Vec<_>>());
    network.paths.assign(0, 0, 1);
    network.paths.assign(1, 2, 3);
    network.neighbours.set_flow(0, 1);
    network
}

/// Sends a packet at each of these milliseconds. Returns when packets reached the server, in whole
/// milliseconds, and how the left router's entry changed, in milliseconds.
fn run(
    network: &mut Network,
    sent_ms: &[u64],
    until_ms: u64,
) -> (Vec<u64>, Vec<(u64, &'static str)>) {
    let mut arrived = Vec::new();
    let until = Time::ZERO + Span::from_ms(until_ms);
    // Samples of a queue mark the times at which packets are sent.
    for &ms in sent_ms {
        network.agenda.schedule(Time::ZERO + Span::from_ms(ms), Event::QueueSample(0));
    }
    network.agenda.schedule(until, Event::LinkSample(0));
    while let Some((now, event)) = network.agenda.pop() {
        match event {
            Event::QueueSample(_) => {
                let segment = Segment::default();
                let packet =
                    Packet::from_segment(Stamp::new(0, 0, false), &segment, &mut network.pool);
                network.send(now, packet);
            }
            Event::Landing(link) => {
                let Some(packet) = network.land(now, link) else { continue };
                match packet.kind() {
                    PacketKind::Arp(arp) => network.handle_arp(now, &packet, arp),
                    _ => arrived.push(now.since(Time::ZERO).as_ms()),
                }
            }
            Event::LinkSample(_) => break,
            Event::Neighbour(entry) => network.handle_neighbour_timer(now, entry),
            event => panic!("no {event:?} is expected"),
        }
    }
    let changes = network.neighbours.changes.iter().filter(|change| change.link == 1);
    let changes = changes.map(|change| (change.at.since(Time::ZERO).as_ms(), change.state.name()));
    (arrived, changes.collect())
}

#[test]
fn the_first_packet_waits_for_a_broadcast_and_its_answer() {
    let (arrived, changes) = run(&mut network(0.0), &[0, 1, 50], 100);
    // The first packet takes a millisecond to the router, waits two for the request and its answer,
    // and then crosses two links. The second packet arrives while the first waits.
    assert_eq!(arrived, [5, 5, 53]);
    assert_eq!(changes, [(1, "incomplete"), (3, "reachable")]);
}

#[test]
fn an_entry_in_use_is_asked_for_again_half_a_minute_later_and_a_silent_one_goes_stale() {
    let every_second: Vec<u64> = (0..100).map(|s| 1000 * s).collect();
    let (arrived, changes) = run(&mut network(0.0), &every_second, 100_000);
    assert_eq!(arrived.len(), 100);
    let states: Vec<_> = changes.iter().map(|&(_, state)| state).collect();
    assert_eq!(states[..5], ["incomplete", "reachable", "delay", "probe", "reachable"]);
    let [_, (confirmed, _), (delay, _), (probe, _), (again, _)] = changes[..5] else { panic!() };
    // The times are half to one and a half of 30 s, then 5 s, then a round trip.
    assert!((15_000..45_000).contains(&(delay - confirmed)), "{changes:?}");
    assert_eq!((probe - delay, again - probe), (5_000, 2));

    let (_, changes) = run(&mut network(0.0), &[0, 90_000], 100_000);
    let states: Vec<_> = changes.iter().map(|&(_, state)| state).collect();
    assert_eq!(states, ["incomplete", "reachable", "stale", "delay", "probe", "reachable"]);
}

#[test]
fn without_answers_an_entry_fails_and_what_waits_for_it_is_lost() {
    let (arrived, changes) = run(&mut network(1.0), &[0, 10, 5_000], 20_000);
    assert_eq!(arrived, [0; 0]);
    // Three broadcasts, a second apart, and another second.
    let expected = [(1, "incomplete"), (3_001, "failed"), (5_001, "incomplete"), (8_001, "failed")];
    assert_eq!(changes, expected);
}

#[test]
fn a_probe_without_answer_fails_after_three_seconds_and_packets_pass_until_then() {
    let (mut network, mut silent) = (network(0.0), network(1.0));
    let (_, changes) = run(&mut network, &[0], 1000);
    assert_eq!(changes.last(), Some(&(3, "reachable")));
    // From now on, the link back loses everything.
    std::mem::swap(&mut silent.links[4], &mut network.links[4]);
    let every_tenth: Vec<u64> = (10..600).map(|tenth| 100 * tenth).collect();
    let (arrived, changes) = run(&mut network, &every_tenth, 60_000);
    let of = |wanted: &str| changes.iter().find(|&&(_, state)| state == wanted).map(|&(at, _)| at);
    let (probe, failed) = (of("probe").expect("probe"), of("failed").expect("failed"));
    assert_eq!(failed - probe, 3_000);
    let passed = arrived.iter().filter(|&&at| at > probe && at < failed).count();
    assert_eq!(passed, 30);
    // The next packet asks again, and waits.
    assert!(arrived.iter().all(|&at| at < failed + 3));
}

#[test]
fn at_most_101_packets_wait() {
    let mut network = network(1.0);
    let burst: Vec<u64> = vec![0; 150];
    let _ = run(&mut network, &burst, 2_000);
    assert_eq!(network.neighbours.entries[0].held.len(), MOST_HELD);
}

#[test]
fn an_end_of_traffic_is_no_router() {
    let mut with_host = plan(0.0);
    with_host.paths.push(Path { from: 1, to: 3, links: vec![1, 2] });
    let wrong = with_host.check().expect_err("the left router sends").to_string();
    assert_eq!(wrong, "neighbours: left is an end of traffic, and not a router");
    let mut twice = plan(0.0);
    twice.neighbours.push(NeighbourPair { there: 2, back: 3 });
    let wrong = twice.check().expect_err("named twice").to_string();
    assert_eq!(wrong, "neighbours: 1->2 is named twice");
    let mut absent = plan(0.0);
    absent.neighbours.push(NeighbourPair { there: 99, back: 2 });
    assert_eq!(absent.check().expect_err("no path").to_string(), "path: no such path");
    let mut long = plan(0.0);
    long.neighbours[0] = NeighbourPair { there: 0, back: 1 };
    assert!(long.check().is_err());
}
