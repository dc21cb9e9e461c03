//! The AQM of docs/extending.md, with the program that runs it. It drops a packet with a
//! probability that grows with the queue, from 0 when it is empty to 1 at the limit.

use std::collections::VecDeque;
use std::process::ExitCode;

use narrows_qdisc::{AnyConfig, Backlog, Counters, DropReason, Dropped, Packet, Qdisc, Verdict};
use narrows_units::{Bytes, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

#[derive(Debug)]
struct Slope<P> {
    limit: u32,
    random: Pcg32,
    packets: VecDeque<P>,
    bytes: u64,
    counters: Counters,
}

impl<P> Slope<P> {
    fn new(limit: u32, seed: u64) -> Self {
        Self {
            limit,
            random: Pcg32::seed_from_u64(seed),
            packets: VecDeque::new(),
            bytes: 0,
            counters: Counters::default(),
        }
    }
}

impl<P: Packet> Qdisc<P> for Slope<P> {
    fn enqueue(&mut self, _now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        self.counters.on_arrival(packet.bytes());
        if self.random.next_u32() % self.limit < self.packets.len() as u32 {
            self.counters.on_drop(packet.bytes(), DropReason::Early);
            dropped.push((packet, DropReason::Early));
            return Verdict::Dropped;
        }
        self.bytes += u64::from(packet.bytes());
        self.packets.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        self.counters.on_departure(packet.bytes());
        Some(packet)
    }

    fn head(&self) -> Option<&P> {
        self.packets.front()
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: Bytes::new(self.bytes) }
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

fn main() -> ExitCode {
    narrows_engine::serve(|plan| {
        let link = plan.links.iter_mut().find(|link| link.name == "bottleneck.forward");
        let link = link.ok_or("no link bottleneck.forward")?;
        link.queue = AnyConfig::custom("slope", |seed| Slope::new(200, seed));
        Ok::<(), &str>(())
    })
}
