//! What a packet costs where many flows overflow a fair queue, by the number of flows:
//! `cargo run --release -p narrows-qdisc --example many_flows -- [FLOWS]`.
//!
//! Every flow has packets waiting and two packets come for each that leaves, so each enqueue looks
//! for the fattest flow. Its cost may grow as the logarithm of the number of flows; a search
//! through all of them would grow as the number. (What grows faster than instructions is the time to
//! fetch packets from memory.)

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a stop-watch around the discipline, which itself has none"
)]

use std::time::Instant;

use narrows_qdisc::fq_codel::{Config, FqCodel};
use narrows_qdisc::{Ecn, Packet, Qdisc};
use narrows_units::{Bytes, Span, Time};

#[derive(Clone, Copy, Debug)]
struct Item {
    flow: u64,
    bytes: u32,
}

impl Packet for Item {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark(&mut self) {}
    fn flow_hash(&self) -> u64 {
        self.flow
    }
}

fn main() {
    let only: Option<u32> =
        std::env::args().nth(1).map(|text| text.parse().expect("a number of flows"));
    for flows in [64u32, 512, 4_096, 32_768] {
        if only.is_none_or(|only| only == flows) {
            measure(flows);
        }
    }
}

fn measure(flows: u32) {
    // CoDel is kept out of it.
    let target = Span::from_secs(1_000);
    let memory_limit = Bytes::MAX;
    let config = Config {
        limit: 8 * flows,
        memory_limit,
        flows: 65_536,
        drop_batch: 1,
        target,
        ..Config::default()
    };
    let mut queue = FqCodel::new(config, 1);
    let mut dropped = Vec::new();
    // SplitMix64, for flows and lengths in no order.
    let mut state = 0u64;
    let mut random = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
    };
    let mut now = Time::ZERO;
    let mut step = |queue: &mut FqCodel<Item>, packets: u32| {
        for number in 0..packets {
            now += Span::from_us(1);
            let item =
                Item { flow: random() % u64::from(flows), bytes: 40 + (random() % 1_460) as u32 };
            queue.enqueue(now, item, &mut dropped);
            if number % 2 == 0 {
                queue.dequeue(now, &mut dropped);
            }
            dropped.clear();
        }
    };
    step(&mut queue, 32 * flows);
    let before = queue.counters().dropped_overflow;
    let started = Instant::now();
    step(&mut queue, 1_000_000);
    let ns = started.elapsed().as_nanos() as f64 / 1e6;
    let overflows = queue.counters().dropped_overflow - before;
    println!("{flows:6} flows: {ns:4.0} ns a packet, {overflows} overflows");
}
