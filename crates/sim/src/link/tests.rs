//! Links in a network.

use narrows_apps::Use;
use narrows_qdisc::codel;
use narrows_transport::tcp::{Flags, SackBlocks, Segment, Seq};

use super::*;
use crate::agenda::Event;
use crate::network::Network;
use crate::packet::Stamp;
use crate::plan::{Framing, Modes, Path, Plan, Queue};

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn link(name: &str, from: usize, to: usize, queue: Queue) -> LinkPlan {
    LinkPlan {
        name: name.into(),
        from,
        to,
        rate: Rate::from_bps(8_000_000).expect("not zero"),
        delay: Span::from_ms(10),
        jitter: None,
        loss: 0.0.into(),
        dns_exempt: false,
        opportunities_ms: None,
        framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
        queue,
        ring: None,
        mtu: 1500,
        middlebox: None,
    }
}

#[test]
fn dropped_packets_give_back_their_sack_blocks() {
    // CoDel that drops at the first opportunity.
    let codel = Queue::Codel(codel::Config {
        limit: 20,
        target: Span::from_us(1),
        interval: Span::from_us(2),
        mtu: Bytes::new(1),
        ..codel::Config::default()
    });
    let plan = Plan {
        seed: 1,
        end: ms(1000),
        end_when_done: false,
        event_limit: 1000,
        nodes: vec!["a".into(), "b".into()],
        links: vec![link("a->b", 0, 1, codel.clone()), link("b->a", 1, 0, codel)],
        tcp: Vec::new(),
        paths: vec![
            Path { from: 0, to: 1, links: vec![0] },
            Path { from: 1, to: 0, links: vec![1] },
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
        neighbours: Vec::new(),
        modes: Modes::default(),
    };
    plan.check().expect("the plan is sound");
    let uses = [0, 1].map(|path| Use { path, bytes: 40, dns: false });
    let mut network = Network::new(&plan.topology(), &uses);
    network.paths.assign(0, 0, 1);
    let mut sack = SackBlocks::default();
    assert!(sack.push(Seq(5), Seq(9)));
    let segment = Segment { flags: Flags::ACK, sack, ..Segment::default() };
    for _ in 0..30 {
        let packet = Packet::from_segment(Stamp::new(1, 0, false), &segment, &mut network.pool);
        network.send(Time::ZERO, packet);
    }
    // One is on the wire, 20 wait.
    assert_eq!(network.pool.in_use(), 21);
    let mut landed = 0;
    while let Some((now, event)) = network.agenda.pop() {
        match event {
            Event::Landing(link) => {
                if let Some(packet) = network.land(now, link) {
                    assert_eq!(packet.into_segment(&mut network.pool).sack, sack);
                    landed += 1;
                }
            }
            Event::Departure(link) => network.release(now, link),
            other => panic!("no {other:?} is expected"),
        }
    }
    assert!((2..20).contains(&landed), "{landed}");
    assert_eq!(network.pool.in_use(), 0);
}
