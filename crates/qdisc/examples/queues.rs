//! What an operation of a discipline costs with many flows waiting:
//! `cargo run --release -p narrows-qdisc --example queues -- QUEUE FLOWS PASSES DROPS`.
//!
//! Fills a queue with four packets of each flow, to its limit. Then each of PASSES takes a packet
//! out and puts one of the same flow in, and each of DROPS does the same and adds one of any flow,
//! for which another has to go. `benchmarks/bench_queues.py` runs it and counts instructions.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a stop-watch around the queues, which have none"
)]

use std::hint::black_box;
use std::time::Instant;

use narrows_qdisc::drr::{plain, qsdrr, tdrr};
use narrows_qdisc::fifo::{Pfifo, PfifoConfig};
use narrows_qdisc::{AnyQdisc, Dropped, Ecn, Packet, Qdisc, fq_codel, sfq};
use narrows_units::{Bytes, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// As large as a packet of 32 bytes with its time of arrival.
#[derive(Clone, Copy)]
struct Item {
    flow_hash: u64,
    bytes: u32,
    _rest: [u64; 3],
}

const _: () = assert!(size_of::<Item>() == 40);

impl Packet for Item {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn mark(&mut self) {}

    fn flow_hash(&self) -> u64 {
        self.flow_hash
    }
}

fn build(name: &str, limit: u32) -> Option<AnyQdisc<Item>> {
    Some(match name {
        "pfifo" => Pfifo::new(PfifoConfig { limit }).into(),
        "drr" => plain::Drr::new(plain::Config { limit, ..Default::default() }, 1).into(),
        "tdrr" => tdrr::Tdrr::new(tdrr::Config { limit, ..Default::default() }, 1).into(),
        "qsdrr" => qsdrr::Qsdrr::new(qsdrr::Config { limit, ..Default::default() }, 1).into(),
        "fq-codel" => {
            // By default, the packets would have waited too long from the start. Only the full
            // buffer should count.
            let target = Span::from_secs(1_000_000);
            let memory_limit = Bytes::new(1 << 40);
            let flows = 65_536;
            let most = fq_codel::Config { flows, memory_limit, target, ..Default::default() };
            fq_codel::FqCodel::new(fq_codel::Config { limit, ..most }, 1).into()
        }
        "sfq" => {
            let most = sfq::Config { divisor: 65_536, flows: 65_408, ..Default::default() };
            sfq::Sfq::new(sfq::Config { limit, ..most }, 1).into()
        }
        _ => return None,
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let name = arguments.first().map_or("", String::as_str);
    let (Some(flows), Some(passes), Some(drops)) = (number(1), number(2), number(3)) else {
        panic!("usage: queues QUEUE FLOWS PASSES DROPS");
    };
    let Some(mut queue) = build(name, 4 * flows) else { panic!("no queue is called {name}") };
    let mut random = Pcg32::seed_from_u64(1);
    let mut dropped = Dropped::new();
    let mut now = Time::ZERO;
    // Hashes are mixed, as a caller's are, and sizes differ.
    let item = |random: &mut Pcg32| Item {
        flow_hash: u64::from(random.next_u32() % flows).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        bytes: 40 + random.next_u32() % 1461,
        _rest: [0; 3],
    };
    for n in 0..4 * flows {
        let flow_hash = u64::from(n % flows).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        queue.enqueue(now, Item { flow_hash, ..item(&mut random) }, &mut dropped);
    }
    assert!(dropped.is_empty() && queue.backlog().packets == 4 * flows);
    let mut step = |adds: bool| {
        now += Span::from_us(12);
        if let Some(packet) = queue.dequeue(now, &mut dropped) {
            queue.enqueue(now, black_box(packet), &mut dropped);
        }
        if adds {
            queue.enqueue(now, item(&mut random), &mut dropped);
            dropped.clear();
        }
    };
    let started = Instant::now();
    (0..passes).for_each(|_| step(false));
    let passed = started.elapsed();
    (0..drops).for_each(|_| step(true));
    let both = started.elapsed();
    let each = |ns: u128, count: u32| ns as f64 / f64::from(count.max(1));
    let counters = queue.counters();
    println!(
        "{{\"pass_ns\": {:.1}, \"drop_ns\": {:.1}, \"dropped\": {}}}",
        each(passed.as_nanos(), passes),
        each((both - passed).as_nanos(), drops),
        counters.dropped_packets(),
    );
}
