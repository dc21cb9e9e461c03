//! Memory, measured: bytes for a connection, a segment in flight, and a queued packet.
//!
//! `cargo run --release --example memory` prints a table and, last, one line of JSON. Every figure
//! is a difference of live heap between two runs that differ in that number alone.

#[allow(dead_code)]
#[path = "../tests/common/mod.rs"]
mod common;

use narrows_sim::plan::{Plan, Source};
use narrows_sim::tcp;
use narrows_units::{Bytes, Rate, Span, Time};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() {
    let flow = slope(1_000, 21_000, connections);
    let segment = slope(2_000, 22_000, segments_in_flight);
    let packet = slope(2_000, 22_000, queued_packets) - segment;
    println!(
        "connection, established and idle, with its plan and routes  {flow:7.1} B (aim: 1024)"
    );
    println!(
        "segment in flight, in the sender's records                  {segment:7.1} B (aim: 32)"
    );
    println!(
        "queued packet, in the queue and on its way                  {packet:7.1} B (aim: 64)"
    );
    println!(
        "{{\"bytes_per_flow\": {flow:.1}, \"bytes_per_segment\": {segment:.1}, \"bytes_per_queued_packet\": {packet:.1}}}"
    );
}

/// Growth of the live heap for each unit of `n`.
fn slope(low: usize, high: usize, live_bytes: fn(usize) -> usize) -> f64 {
    (live_bytes(high) as f64 - live_bytes(low) as f64) / (high - low) as f64
}

/// Live heap of what `build` returns.
fn live<T>(build: impl FnOnce() -> T) -> usize {
    let before = HEAP.current_usage();
    let value = build();
    let bytes = HEAP.current_usage() - before;
    drop(value);
    bytes
}

/// `n` connections between two hosts that have each sent one segment and wait.
fn connections(n: usize) -> usize {
    let mut plan = quiet(1_000_000);
    let model = plan.connections.remove(0);
    for index in 0..n {
        let mut connection = model.clone();
        connection.name = format!("flow {index}");
        connection.source =
            Source::OnOff { burst: Bytes::new(1448), idle_mean: Span::from_secs(1_000_000) };
        plan.connections.push(connection);
    }
    live(|| common::run(plan))
}

/// An endpoint that has `n` segments in flight.
fn segments_in_flight(n: usize) -> usize {
    let config = wide_open(n);
    live(|| {
        let mut sender = tcp::Endpoint::client(&config, tcp::Seq(0));
        let mut receiver = tcp::Endpoint::server(&config, tcp::Seq(0));
        let at = Time::ZERO;
        sender.connect(&config, at);
        for _ in 0..2 {
            while let Some(segment) = sender.poll_transmit(&config, at) {
                receiver.handle_segment(&config, at, &segment);
            }
            while let Some(segment) = receiver.poll_transmit(&config, at) {
                sender.handle_segment(&config, at, &segment);
            }
        }
        sender.write_forever(&config, at);
        let sent = std::iter::from_fn(|| sender.poll_transmit(&config, at)).count();
        assert!(sent >= n, "{sent} of {n} segments went out");
        sender
    })
}

/// A network whose bottleneck holds `n` packets.
fn queued_packets(n: usize) -> usize {
    let mut plan = quiet(1);
    plan.tcp = vec![wide_open(n)];
    plan.connections[0].source = Source::Bulk;
    live(|| common::run(plan))
}

/// One connection over links that drop nothing, unobserved; 3 seconds.
fn quiet(bottleneck_mbit: u64) -> Plan {
    let mut plan = common::dumbbell(1, bottleneck_mbit, common::pfifo(1 << 30));
    plan.queue_monitors.clear();
    plan.link_monitors.clear();
    plan.end = Time::ZERO + Span::from_secs(3);
    for link in &mut plan.links[2..] {
        link.rate = Rate::from_bps(1_000_000_000_000).expect("not zero");
        link.queue = common::pfifo(1 << 30);
    }
    plan
}

/// A sender that puts `segments` on the way at once.
fn wide_open(segments: usize) -> tcp::Config {
    tcp::Config {
        initial_window: segments as u32,
        receive_buffer: Bytes::new(1 << 29),
        hystart: false,
        ..common::profile("linux-6")
    }
}
