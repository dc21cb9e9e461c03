//! Code points, hosts and acknowledgements of packets, as queues and captures see them.
#![allow(clippy::disallowed_types, reason = "shows outside what a queue inside has seen")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::common::{add_resolvers, dumbbell, fingerprint, numbers, pfifo, run, table};
use narrows_qdisc::fifo::{Pfifo, PfifoConfig};
use narrows_qdisc::prio::{self, Band};
use narrows_qdisc::{
    Ack, Backlog, Counters, Dropped, Filter, Item, Packet, Protocol, Qdisc, Verdict,
};
use narrows_sim::captured::Frame;
use narrows_sim::plan::{Capture, Codepoint, Plan, Queue};
use narrows_units::{Span, Time};

/// What a queue has seen of its packets.
#[derive(Clone, Debug, Default)]
struct Seen {
    hosts: BTreeSet<(u32, u32)>,
    /// Whether they are those of TCP, and which.
    codepoints: BTreeSet<(bool, u8)>,
    pure_acks: u64,
    data: u64,
    acks_of_others: u64,
    last: Option<Ack>,
}

/// A FIFO that notes what it sees, and may wash packets.
#[derive(Debug)]
struct Looking {
    queue: Pfifo<Item>,
    seen: Arc<Mutex<Seen>>,
    announced: Option<Ack>,
    washes: bool,
}

impl Qdisc<Item> for Looking {
    fn enqueue(&mut self, now: Time, mut item: Item, dropped: &mut Dropped<Item>) -> Verdict {
        let mut seen = self.seen.lock().expect("one thread");
        seen.hosts.insert(item.hosts());
        seen.codepoints.insert((item.protocol() == Protocol::Tcp, item.dscp()));
        match (item.protocol(), self.announced.take()) {
            (Protocol::Tcp, Some(ack)) => {
                seen.pure_acks += u64::from(ack.is_pure);
                seen.data += u64::from(!ack.is_pure);
                seen.last = Some(ack);
            }
            (_, Some(_)) => seen.acks_of_others += 1,
            (_, None) => {}
        }
        if self.washes && item.dscp() != 0 {
            item.set_dscp(0);
        }
        self.queue.enqueue(now, item, dropped)
    }

    fn announce(&mut self, ack: Option<&Ack>) {
        self.announced = ack.copied();
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<Item>) -> Option<Item> {
        self.queue.dequeue(now, dropped)
    }

    fn head(&self) -> Option<&Item> {
        self.queue.head()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn counters(&self) -> Counters {
        self.queue.counters()
    }
}

fn looking(washes: bool) -> (Queue, Arc<Mutex<Seen>>) {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let shared = Arc::clone(&seen);
    let queue = Queue::custom("looking", move |_| Looking {
        queue: Pfifo::new(PfifoConfig { limit: 100 }),
        seen: Arc::clone(&shared),
        announced: None,
        washes,
    });
    (queue, seen)
}

/// Two downloads and resolvers; the second download has EF, and queries have CS5.
fn plan(forward: Queue, backward: Queue) -> Plan {
    let mut plan = dumbbell(2, 10, forward);
    plan.links[1].queue = backward;
    plan.end = Time::ZERO + Span::from_secs(3);
    add_resolvers(&mut plan, 2, 20);
    let of = |application, dscp| Codepoint { application, dscp };
    let client = plan.applications.iter().position(|one| one.name == "dns").expect("it is there");
    plan.codepoints = vec![of(1, 46), of(client, 40)];
    plan
}

fn result(seen: &Mutex<Seen>) -> Seen {
    seen.lock().expect("one thread").clone()
}

#[test]
fn queues_see_the_code_points_and_hosts_of_both_directions() {
    let ((forward, there), (backward, back)) = (looking(false), looking(false));
    let plan = plan(forward, backward);
    let ends: BTreeSet<_> = [0, 2].map(|path| &plan.paths[path]).map(|p| (p.from, p.to)).into();
    run(plan);
    let (there, back) = (result(&there), result(&back));
    // Both ends of the second download have EF. A server has the default, whatever its clients say.
    let of = |seen: &Seen, tcp: bool| -> Vec<u8> {
        seen.codepoints.iter().filter(|it| it.0 == tcp).map(|it| it.1).collect()
    };
    assert_eq!([of(&there, true), of(&back, true)], [vec![0, 46], vec![0, 46]]);
    // Queries go against the downloads.
    assert_eq!([of(&there, false), of(&back, false)], [vec![0], vec![40]]);
    for (from, to) in ends {
        assert!(there.hosts.contains(&(from as u32, to as u32)));
        assert!(back.hosts.contains(&(to as u32, from as u32)));
    }
}

#[test]
fn queues_hear_what_segments_acknowledge() {
    let ((forward, there), (backward, back)) = (looking(false), looking(false));
    run(plan(forward, backward));
    let (there, back) = (result(&there), result(&back));
    assert!(there.data > 1000 && there.pure_acks < 10, "{there:?}");
    assert!(back.pure_acks > 500 && back.data < 10, "{back:?}");
    assert_eq!(there.acks_of_others + back.acks_of_others, 0);
    let last = back.last.expect("there were acknowledgements");
    assert!(last.timestamps.is_some() && last.number != 0);
}

#[test]
fn washed_packets_stay_so_on_later_links() {
    let ((first, marked), (second, washed)) = (looking(true), looking(false));
    let mut plan = plan(first, pfifo(100));
    // The link behind the bottleneck, to the second receiver.
    plan.links[plan.paths[2].links[2]].queue = second;
    plan.captures = vec![Capture::of(0, "bottleneck")];
    let simulation = run(plan);
    assert!(result(&marked).codepoints.contains(&(true, 46)));
    assert_eq!(result(&washed).codepoints, [(true, 0)].into());
    let captured = simulation.captured(0);
    assert!(captured.len() > 1000 && captured.iter().all(|packet| packet.dscp == 0));
}

#[test]
fn captures_have_code_points_whatever_the_queue_asks() {
    let mut plan = plan(pfifo(100), pfifo(100));
    plan.captures = vec![Capture::of(0, "bottleneck")];
    let simulation = run(plan);
    let of_tcp = simulation.captured(0).into_iter().filter(|it| matches!(it.frame, Frame::Tcp(_)));
    let found: BTreeSet<u8> = of_tcp.map(|packet| packet.dscp).collect();
    assert_eq!(found, [0, 46].into());
}

#[test]
fn a_band_takes_a_code_point_first() {
    let band =
        |name: &str, filters: Vec<Filter>| Band { name: name.into(), filters, queue: pfifo(20) };
    let urgent = Filter { dscp: Some(46), ..Filter::default() };
    let bands = vec![band("urgent", vec![urgent]), band("rest", Vec::new())];
    let with = |codepoints: Vec<Codepoint>| {
        let queue = Queue::Prio(prio::Config { bands: bands.clone() });
        let simulation = run(Plan { codepoints, ..plan(queue, pfifo(100)) });
        numbers(&table(&simulation, "flows"), "bytes_acked")
    };
    let [first, second] = with(vec![Codepoint { application: 1, dscp: 46 }])[..] else {
        panic!("there are two downloads")
    };
    assert!(second > 20.0 * first, "{second} against {first}");
    let equal = with(Vec::new());
    assert!(equal[0] < 4.0 * equal[1] && equal[1] < 4.0 * equal[0], "{equal:?}");
}

#[test]
fn code_points_alone_change_no_result() {
    let marked = plan(pfifo(100), pfifo(100));
    let plain = Plan { codepoints: Vec::new(), ..marked.clone() };
    assert!(fingerprint(&run(marked)) == fingerprint(&run(plain)));
}

#[test]
fn impossible_code_points_are_refused() {
    let refused = |codepoints: Vec<Codepoint>| {
        let plan = Plan { codepoints, ..plan(pfifo(100), pfifo(100)) };
        plan.check().expect_err("it is impossible").to_string()
    };
    let of = |application, dscp| Codepoint { application, dscp };
    assert_eq!(refused(vec![of(9, 1)]), "codepoints[0]: no such application");
    assert_eq!(refused(vec![of(0, 64)]), "codepoints[0]: dscp: must be at most 63");
    assert_eq!(refused(vec![of(0, 1), of(0, 2)]), "codepoints[1]: the application has another one");
}
