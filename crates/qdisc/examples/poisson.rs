//! Poisson load through Linux's RED and through a byte FIFO: drops, marks and delay.
//!
//! `cargo run --release -p narrows-qdisc --example poisson`
//!
//! What to look for: at 0.9 of the line both queues let everything through. Above the line's rate
//! the FIFO fills to its limit and every packet waits for all of it; RED keeps the queue between
//! its thresholds, by dropping a little earlier what could not pass anyway. Marks alone shorten
//! nothing here: these senders do not listen.

use narrows_qdisc::fifo::{Bfifo, BfifoConfig};
use narrows_qdisc::red::linux;
use narrows_qdisc::{AnyQdisc, Dropped, Ecn, Packet, Qdisc};
use narrows_units::{Bytes, Rate, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// All that this experiment needs to know about a packet.
struct Item {
    arrived_at: Time,
    ecn: Ecn,
}

const BYTES: u32 = 1250;
const PACKETS: u32 = 200_000;

impl Packet for Item {
    fn bytes(&self) -> u32 {
        BYTES
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

fn main() {
    println!("load  queue     drops%  marks%  delay_ms  p99_ms");
    for load in [0.9, 1.02, 1.1] {
        let limit = Bytes::new(375_000);
        let fifo = Bfifo::new(BfifoConfig { limit });
        run("bfifo", fifo.into(), load);
        for ecn in [false, true] {
            let config = linux::Config {
                limit,
                min: Some(Bytes::new(74_874)),
                max: Some(Bytes::new(262_374)),
                avpkt: Bytes::new(1400),
                burst: Some(98),
                probability: 0.1,
                ecn,
                ..linux::Config::default()
            };
            let name = if ecn { "red ecn" } else { "red" };
            run(name, linux::Red::new(config, 1).into(), load);
        }
    }
}

/// Offers `load` times what a line of 10 Mbit/s carries; every other packet is ECN-capable.
fn run(name: &str, mut queue: AnyQdisc<Item>, load: f64) {
    let Some(line) = Rate::from_bps(10_000_000) else { return };
    let service = line.time_for(Bytes::from(BYTES));
    let mut random = Pcg32::seed_from_u64(42);
    let mut dropped = Dropped::new();
    let mut delays = Vec::new();
    let (mut now, mut free_at) = (Time::ZERO, Time::ZERO);
    for number in 0..PACKETS {
        let u = (f64::from(random.next_u32()) + 0.5) / 4_294_967_296.0;
        now += Span::from_secs_f64(-libm::log(u) * service.as_secs_f64() / load);
        // The line takes the next packet whenever it is free.
        while free_at <= now {
            let Some(item) = queue.dequeue(free_at, &mut dropped) else {
                free_at = now;
                break;
            };
            free_at += service;
            delays.push(free_at.since(item.arrived_at));
        }
        let ecn = if number % 2 == 0 { Ecn::Ect0 } else { Ecn::NotEct };
        queue.enqueue(now, Item { arrived_at: now, ecn }, &mut dropped);
        dropped.clear();
    }
    delays.sort_unstable();
    let mean = delays.iter().map(|delay| delay.as_secs_f64()).sum::<f64>() / delays.len() as f64;
    let p99 = delays[delays.len() * 99 / 100].as_secs_f64();
    let counters = queue.counters();
    let percent = |n: u64| n as f64 * 100.0 / counters.arrived_packets as f64;
    println!(
        "{load:<4}  {name:<8}  {:>6.2}  {:>6.2}  {:>8.2}  {:>6.2}",
        percent(counters.dropped_packets()),
        percent(counters.marked_packets()),
        mean * 1e3,
        p99 * 1e3,
    );
}
