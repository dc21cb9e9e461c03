//! Benchmark scenario B1 without Python around it, for profilers:
//! `cargo run --release --example b1 -- [scheduled-]QUEUE [SECONDS] [FLOWS] [BUFFER]
//! [CONTROL] [delays | queue-delays]`.
//!
//! QUEUE is `droptail`, `red`, `blue`, `pie`, `codel`, `fq-codel`, `fq-pie`, `cake`,
//! `dualpi2`, `fq`, `drr`, `tdrr`, `qsdrr` or `sfq`. With `scheduled-`, each departure from the
//! bottleneck's queue has an event.
//! With a CONTROL (`reno`, `cubic`, `bbr`, `bbr-v3`), TCP is today's Linux, and not ns-2's. With
//! `delays`, the one-way delays of all packets are measured, and with `queue-delays` how long each
//! waits in the bottleneck's queue.
//!
//! On-off sources with bursts of 256 packets over a bottleneck of 1 Mbit/s for each source, with
//! 5000 packets of buffer at 500 sources; access links of 100 Mbit/s, one-way delays 5 + 40 + 5 ms.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a stop-watch around the simulator, which itself has none"
)]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use narrows_qdisc::drr::{plain, qsdrr, tdrr};
use narrows_qdisc::{blue, cake, codel, dualpi2, fq, fq_codel, fq_pie, pie, red, sfq};
use narrows_sim::plan::{DelayMonitor, Draw, OneWayMonitor, Queue};
use narrows_sim::tcp::Congestion;
use narrows_sim::{Simulation, tcp};
use narrows_units::{Bytes, Rate, Span, Time};

// Long: the scenario's values.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number"))
    };
    let (seconds, flows) = (number(1, 100), number(2, 500));
    let mbit = flows;
    let buffer = number(3, 10 * flows);
    let limit = buffer as u32;
    let name = arguments.first().map_or("droptail", String::as_str);
    let queue = match name.strip_prefix("scheduled-").unwrap_or(name) {
        "droptail" => common::pfifo(limit),
        "blue" => Queue::Blue(blue::Config { limit: buffer, ..Default::default() }),
        "codel" => Queue::Codel(codel::Config { limit, ..Default::default() }),
        "drr" => Queue::Drr(plain::Config { limit, ..Default::default() }),
        "tdrr" => Queue::Tdrr(tdrr::Config { limit, ..Default::default() }),
        "qsdrr" => Queue::Qsdrr(qsdrr::Config { limit, ..Default::default() }),
        "sfq" => {
            let many = sfq::Config { flows: 1024, divisor: 16_384, ..Default::default() };
            Queue::Sfq(sfq::Config { limit, ..many })
        }
        "fq-codel" => Queue::FqCodel(fq_codel::Config { limit, ..Default::default() }),
        "dualpi2" => Queue::Dualpi2(dualpi2::Config { limit, ..Default::default() }),
        "fq" => {
            let many = fq::Config { flow_limit: limit, orphan_mask: 16_383, ..Default::default() };
            Queue::Fq(fq::Config { limit, ..many })
        }
        "cake" => Queue::Cake(cake::Config::default()),
        "fq-pie" => Queue::FqPie(fq_pie::Config { limit, ..Default::default() }),
        "pie" => Queue::Pie(pie::Config { limit, ..Default::default() }),
        "red" => Queue::Red1993(red::classic::Config {
            unit: red::classic::Unit::Packets,
            mean_packet: Bytes::new(500),
            limit: buffer,
            min: buffer as f64 / 4.0,
            max: buffer as f64 * 3.0 / 4.0,
            weight: 1.0 / 512.0,
            max_p: 0.1,
            gentle: false,
            wait: true,
            ecn: false,
            mark_above_max: false,
            bandwidth: Rate::from_bps(mbit * 1_000_000),
            adaptive: None,
        }),
        other => panic!("no queue is called {other}"),
    };
    let mut plan = common::dumbbell(flows as usize, mbit, queue);
    plan.end = Time::ZERO + Span::from_secs(seconds);
    plan.event_limit = u64::MAX;
    plan.modes.scheduled = if name.starts_with("scheduled-") { vec![0] } else { Vec::new() };
    for link in &mut plan.links[..2] {
        link.delay = Span::from_ms(40);
    }
    for link in &mut plan.links {
        link.framing.overhead = 0;
        link.framing.min = 0;
        link.framing.queue_overhead = 0;
    }
    plan.tcp = vec![match arguments.get(4).map(String::as_str) {
        None => tcp::Config::profile("ns-2").expect("the profile exists"),
        Some("reno") => tcp::Config { congestion: Congestion::Reno, ..Default::default() },
        Some("cubic") => tcp::Config::default(),
        Some("bbr-v3") => tcp::Config { congestion: Congestion::BbrV3, ..Default::default() },
        Some("bbr") => tcp::Config { congestion: Congestion::Bbr, ..Default::default() },
        Some(other) => panic!("no congestion control is called {other}"),
    }];
    let burst = Draw::Constant(Bytes::new(256 * 1460));
    let idle = Draw::Exponential { mean: Span::from_secs(2) };
    common::send(&mut plan, &burst, &idle, None);
    let (from, to) = (Time::ZERO, Time::MAX);
    match arguments.get(5).map(String::as_str) {
        None => {}
        Some("delays") => {
            let groups = vec![plan.applications[0].name.clone()];
            let monitor = OneWayMonitor { groups, flows: false, packets: false, from, to };
            plan.one_way_monitor = Some(monitor);
        }
        Some("queue-delays") => plan.delay_monitors.push(DelayMonitor { link: 0, from, to }),
        Some(other) => panic!("nothing is called {other}"),
    }
    let started = Instant::now();
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    let set_up = started.elapsed().as_secs_f64();
    while !simulation.advance(1 << 20) {}
    let tables = simulation.tables();
    let wall = started.elapsed().as_secs_f64();
    drop(tables);
    let last = |table: &str, name: &str| {
        *common::numbers(&common::table(&simulation, table), name).last().expect("samples")
    };
    let bursts = common::table(&simulation, "bursts");
    let (starts, ends) = (common::numbers(&bursts, "start_s"), common::numbers(&bursts, "end_s"));
    let spans: Vec<f64> =
        starts.iter().zip(&ends).map(|(s, e)| e - s).filter(|span| !span.is_nan()).collect();
    let packets = last("links", "packets");
    let drops: f64 = ["dropped_overflow", "dropped_early", "dropped_forced"]
        .map(|name| last("queues", name))
        .iter()
        .sum();
    println!(
        "set-up {set_up:.3} s, wall {wall:.3} s, {:.2} M packets/s, {:.2} events/packet, {:.0} ns/packet",
        packets / wall / 1e6,
        simulation.events() as f64 / packets,
        wall / packets * 1e9
    );
    let mean_s = spans.iter().sum::<f64>() / spans.len() as f64;
    let goodput_mbps = spans.len() as f64 * 256.0 * 1500.0 * 8.0 / seconds as f64 / 1e6;
    let utilisation = last("links", "busy_s") / seconds as f64;
    println!(
        "{{\"packets\": {packets}, \"drops\": {drops}, \"bursts\": {}, \"mean_s\": {mean_s:.3}, \
         \"goodput_mbps\": {goodput_mbps:.1}, \"utilisation\": {utilisation:.4}, \"run_s\": {wall:.4}}}",
        spans.len()
    );
}
