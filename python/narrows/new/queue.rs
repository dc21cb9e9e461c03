//! A queue that drops a packet with a probability that grows with the queue, from 0 when it is empty
//! to 1 at the limit.

use std::collections::VecDeque;

use narrows_qdisc::{Backlog, Counters, DropReason, Dropped, Packet, Qdisc, Verdict};
use narrows_units::{Bytes, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

/// The queue. `P` is the type of its packets.
#[derive(Debug)]
pub struct Slope<P> {
    limit: u32,
    random: Pcg32,
    packets: VecDeque<P>,
    bytes: u64,
    counters: Counters,
}

impl<P> Slope<P> {
    /// Creates an empty queue that holds up to `limit` packets. Its random numbers follow from `seed`.
    pub fn new(limit: u32, seed: u64) -> Self {
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

#[cfg(test)]
mod tests {
    use narrows_qdisc::laws;

    use super::*;

    #[test]
    fn it_obeys_the_laws_of_all_disciplines() {
        laws::check(|| Slope::new(50, 1));
    }
}
