//! The purposes of the disciplines, from end to end: they bound delays, protect DNS and keep rates.

use crate::common::{add_resolvers, dumbbell, fingerprint, numbers, pfifo, profile, run, table};
use narrows_qdisc::{
    AnyConfig, Filter, Protocol, classes, codel, dualpi2, fifo, fq, fq_codel, pie, prio,
};
use narrows_sim::Simulation;
use narrows_sim::plan::{Kind, Plan, Queue, bulk::Bulk};
use narrows_units::{Bytes, Rate, Span, Time};

/// Bulk flows over 10 Mbit/s with a round-trip time of 60 ms, for a minute.
fn bulk(flows: usize, queue: Queue) -> Plan {
    let mut plan = dumbbell(flows, 10, queue);
    plan.end = Time::ZERO + Span::from_secs(60);
    plan
}

/// The mean of a column over the last two thirds of a run.
fn settled(simulation: &Simulation, column: &str) -> f64 {
    let values = numbers(&table(simulation, "queues"), column);
    let values: Vec<f64> =
        values[values.len() / 3..].iter().copied().filter(|v| !v.is_nan()).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// The share of the time after the first third in which the bottleneck was busy.
fn utilisation(simulation: &Simulation) -> f64 {
    let links = table(simulation, "links");
    let (busy, t) = (numbers(&links, "busy_s"), numbers(&links, "t_s"));
    let (from, to) = (t.len() / 3, t.len() - 1);
    (busy[to] - busy[from]) / (t[to] - t[from])
}

/// Sorted response times of DNS queries in milliseconds.
fn responses(simulation: &Simulation) -> Vec<f64> {
    let mut times = numbers(&table(simulation, "queries"), "response_ms");
    times.retain(|time| !time.is_nan());
    times.sort_by(f64::total_cmp);
    times
}

fn with_dns(flows: usize, queue: Queue) -> Plan {
    let mut plan = bulk(flows, queue);
    add_resolvers(&mut plan, 4, 100);
    plan
}

fn codel_queue() -> Queue {
    Queue::Codel(codel::Config::default())
}

fn fq_codel_queue() -> Queue {
    Queue::FqCodel(fq_codel::Config::default())
}

fn dns() -> Vec<Filter> {
    let filter = Filter { protocol: Some(Protocol::Udp), port: Some(53), ..Filter::default() };
    vec![filter]
}

/// DNS in a FIFO of its own, which is served before another one for the rest.
fn dns_first() -> Queue {
    let fifo = |limit| AnyConfig::Pfifo(fifo::PfifoConfig { limit });
    let band = |name: &str, filters, queue| prio::Band { name: name.into(), filters, queue };
    let bands = vec![band("dns", dns(), fifo(100)), band("rest", Vec::new(), fifo(1000))];
    Queue::Prio(prio::Config { bands })
}

/// DNS as fast as the line, the rest at 2 Mbit/s in bursts of ten packets.
fn rest_limited() -> Queue {
    let class = |name: &str, filters, limit: Option<(u64, u64)>| classes::Class {
        name: name.into(),
        filters,
        rate: limit.and_then(|(bps, _)| Rate::from_bps(bps)),
        burst: limit.map(|(_, burst)| Bytes::new(burst)),
        queue: AnyConfig::Codel(codel::Config::default()),
    };
    let limited = Some((2_000_000, 15_000));
    let classes = vec![class("dns", dns(), None), class("rest", Vec::new(), limited)];
    Queue::Classes(classes::Config { classes })
}

/// The time on the wire of a full packet at 10 Mbit/s: 1538 bytes.
const PACKET_MS: f64 = 1.2304;

/// Returns the response time of DNS when nobody else sends.
fn base_ms() -> f64 {
    let mut plan = with_dns(1, pfifo(1000));
    // The application stays, so that the server keeps its index.
    plan.applications[0].kind = Kind::Bulk(Bulk { connections: Vec::new() });
    responses(&run(plan))[0]
}

/// In a FIFO of 1000 packets, a packet would wait for more than a second.
#[test]
fn codel_holds_the_sojourn_time_near_its_target_for_one_to_twenty_flows() {
    for flows in [1, 2, 5, 10, 20] {
        let simulation = run(bulk(flows, codel_queue()));
        let wait = settled(&simulation, "sojourn_mean_ms") - PACKET_MS;
        // The target is 5 ms. A single flow halves its window and leaves the queue empty for a
        // time; twenty flows together grow faster than one drop in each interval can hold back.
        assert!(wait > 2.0 && wait < 5.0 + flows as f64, "{flows} flows wait {wait} ms");
        let utilisation = utilisation(&simulation);
        assert!(utilisation > if flows == 1 { 0.9 } else { 0.97 }, "{flows}: {utilisation}");
    }
}

#[test]
fn pie_holds_the_delay_at_its_target_for_one_to_twenty_flows() {
    for flows in [1, 2, 5, 10, 20] {
        let simulation = run(bulk(flows, Queue::Pie(pie::Config::default())));
        let wait = settled(&simulation, "sojourn_mean_ms") - PACKET_MS;
        assert!((wait - 15.0).abs() < 4.0, "{flows} flows wait {wait} ms");
        assert!(utilisation(&simulation) > 0.98);
    }
}

/// Without L4S traffic it is PI2 alone. A single flow halves its window, which is less than twice what
/// the path holds, and leaves the queue empty for a time.
#[test]
fn dualpi2_holds_the_classic_delay_at_its_target_for_two_to_twenty_flows() {
    for flows in [1, 2, 5, 10, 20] {
        let simulation = run(bulk(flows, Queue::Dualpi2(dualpi2::Config::default())));
        let wait = settled(&simulation, "sojourn_mean_ms") - PACKET_MS;
        let utilisation = utilisation(&simulation);
        if flows == 1 {
            assert!(wait > 5.0 && wait < 15.0 && utilisation > 0.9, "{wait} ms, {utilisation}");
        } else {
            assert!((wait - 15.0).abs() < 4.0, "{flows} flows wait {wait} ms");
            assert!(utilisation > 0.98, "{flows}: {utilisation}");
        }
    }
}

/// Packets that are held back leave the line to others.
#[test]
fn fq_holds_each_flow_to_its_rate_and_lets_dns_pass() {
    for flows in [1, 5] {
        let maxrate = Rate::from_bps(1_000_000);
        let simulation =
            run(with_dns(flows, Queue::Fq(fq::Config { maxrate, ..Default::default() })));
        // The queue counts Ethernet's header of 14 bytes, and the line all 38 (with 1500 below them).
        let expected = flows as f64 * 0.1 * 1538.0 / 1514.0;
        let utilisation = utilisation(&simulation);
        assert!((utilisation / expected - 1.0).abs() < 0.02, "{flows}: {utilisation}");
        let (responses, base_ms) = (responses(&simulation), base_ms());
        let median = responses[responses.len() / 2];
        assert!(median < base_ms + flows as f64 * PACKET_MS, "{median} ms, {base_ms} ms");
    }
}

/// tc-fq(8): fq at a host's own link paces its TCP. Elsewhere on the path it does not.
#[test]
fn a_sender_paces_behind_an_fq_of_its_own() {
    let goodput = |own: Queue, bottleneck: Queue, pacing: bool| {
        let mut plan = dumbbell(1, 10, bottleneck);
        plan.links[2].queue = own;
        plan.tcp[0].pacing = pacing;
        numbers(&table(&run(plan), "goodput"), "bytes_received")
    };
    let fq = || Queue::Fq(fq::Config::default());
    let (plain, paced) =
        (goodput(pfifo(100), pfifo(30), false), goodput(pfifo(100), pfifo(30), true));
    assert_ne!(plain, paced);
    assert_eq!(goodput(fq(), pfifo(30), false), paced);
    assert_eq!(goodput(fq(), pfifo(30), true), paced);
    assert_ne!(goodput(pfifo(100), fq(), false), goodput(pfifo(100), fq(), true));
    // TCP of 2010 cannot pace.
    let mut plan = dumbbell(1, 10, pfifo(30));
    plan.links[2].queue = fq();
    plan.tcp = vec![profile("linux-2.6.30")];
    assert!(utilisation(&run(plan)) > 0.5);
}

/// In a FIFO, DNS waits for a second beside one flow.
#[test]
fn fq_codel_lets_dns_pass_bulk_flows() {
    let base = base_ms();
    for flows in [1, 5, 10] {
        let simulation = run(with_dns(flows, fq_codel_queue()));
        let times = responses(&simulation);
        assert_eq!(times.len(), 4 * 102);
        // A new flow waits for the packet on the wire and for new flows before it. A flow that
        // comes again while it is still in the round waits for a packet of each other flow.
        let p95 = times[times.len() * 95 / 100];
        assert!(p95 < base + 3.0 * PACKET_MS, "{flows}: {p95} ms, {base} ms alone");
        let most = times[times.len() - 1];
        assert!(most < base + (flows + 2) as f64 * PACKET_MS, "{flows}: {most} ms");
        assert_eq!(numbers(&table(&simulation, "queues"), "dropped_dns").pop(), Some(0.0));
    }
}

#[test]
fn a_band_of_its_own_protects_dns_from_all_but_the_packet_on_the_wire() {
    let base = base_ms();
    for flows in [1, 5, 20] {
        let simulation = run(with_dns(flows, dns_first()));
        let times = responses(&simulation);
        assert_eq!(times.len(), 4 * 102);
        // The packet on the wire, and the replies of the three other workers: 138 bytes each.
        let bound = base + PACKET_MS + 3.0 * 138.0 * 8.0 / 1e4 + 1e-6;
        assert!(times[times.len() - 1] < bound, "{flows}: {:?} ms, not {bound}", times.last());
        assert!(settled(&simulation, "sojourn_mean_ms") > 500.0, "the rest does not queue");
    }
}

#[test]
fn classes_keep_their_rates() {
    let mut plan = with_dns(5, rest_limited());
    // The same lengths in queues and on the wire.
    plan.links[0].framing.overhead = 14;
    plan.links[0].framing.min = 0;
    let simulation = run(plan);
    let links = table(&simulation, "links");
    let (bytes, t) = (numbers(&links, "bytes"), numbers(&links, "t_s"));
    // What DNS may add: 408 replies of 114 bytes in all.
    let replies = 408.0 * 114.0;
    for from in 0..t.len() {
        for to in from + 1..t.len() {
            // Bytes count when they are transmitted, so one packet may have left the queue before
            // the interval.
            let allowed = 15_000.0 + 1_514.0 + replies + 2e6 / 8.0 * (t[to] - t[from]);
            assert!(bytes[to] - bytes[from] <= allowed, "from {} to {} s", t[from], t[to]);
        }
    }
    let (half, end) = (t.len() / 2, t.len() - 1);
    let rate = (bytes[end] - bytes[half]) * 8.0 / (t[end] - t[half]);
    assert!(rate > 0.97 * 2e6, "{rate} bit/s");
    // DNS waits for nothing but the packet on the wire.
    let times = responses(&simulation);
    assert!(times[times.len() - 1] < base_ms() + 1.5 * PACKET_MS);
}

#[test]
fn shortcuts_around_them_change_no_result() {
    for queue in [fq_codel_queue(), dns_first(), rest_limited()] {
        let mut plan = with_dns(6, queue);
        plan.end = Time::ZERO + Span::from_secs(15);
        let mut plain = plan.clone();
        plain.modes.collapse = false;
        assert!(fingerprint(&run(plan)) == fingerprint(&run(plain)));
    }
}

#[test]
fn plans_with_impossible_bands_are_refused_by_name() {
    let mut plan = bulk(1, dns_first());
    if let Queue::Prio(config) = &mut plan.links[0].queue {
        config.bands[0].queue = AnyConfig::Pfifo(fifo::PfifoConfig { limit: 0 });
    }
    let error = Simulation::new(plan).expect_err("a limit of zero").to_string();
    assert_eq!(error, "bottleneck.forward: queue.bands[0].queue.limit: must be above zero");
}
