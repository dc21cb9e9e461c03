//! Deficit round robin, generic over the choice of the queue that loses a packet when the buffer is
//! full.
//!
//! Before working on this file read Shreedhar and Varghese, section 3 and figure 2.

use narrows_units::Time;

use super::End;
use super::flows::{Flow, Flows};
use crate::{Backlog, Coming, Counters, DropReason, Dropped, Packet, Qdisc, Verdict};

/// The choice of the queue from which a packet is dropped when the buffer is full.
pub(super) trait Victim {
    /// Notes that a queue's length has changed. A flow without packets has just left the round.
    fn on_length(&mut self, index: u32, flow: &Flow);

    /// Notes that a packet of the flow leaves at `now`.
    fn on_sent(&mut self, _now: Time, _index: u32, _bytes: u32) {}

    /// Chooses one of the active flows; there is at least one.
    fn choose<P: Packet>(&mut self, flows: &Flows<P>) -> u32;

    /// Returns the flow to forget now, if any, given one that has just left the round.
    fn to_forget(&mut self, index: u32) -> Option<u32> {
        Some(index)
    }
}

/// The part that all disciplines of the family share.
#[derive(Clone, Debug)]
pub(super) struct Scheduler<P, V> {
    limit: u32,
    quantum: u64,
    drop_from: End,
    flows: Flows<P>,
    /// Whether the flow whose turn it is already has its quantum.
    granted: bool,
    /// The largest packet so far.
    largest: u32,
    pub(super) victim: V,
    counters: Counters,
}

/// The settings that all of them share.
#[derive(Clone, Copy)]
pub(super) struct Shares {
    pub(super) limit: u32,
    pub(super) quantum: u64,
    pub(super) buckets: Option<u32>,
    pub(super) drop_from: End,
    pub(super) seed: u64,
}

/// The most turns of its flow that a packet waits. The quantum is at least the largest packet
/// divided by this.
const MOST_ROUNDS: u64 = 64;

impl<P: Packet, V: Victim> Scheduler<P, V> {
    pub(super) const fn new(settings: Shares, victim: V) -> Self {
        let Shares { limit, quantum, buckets, drop_from, seed } = settings;
        Self {
            // One packet more than `limit` waits while a victim is chosen.
            limit: if limit > u32::MAX - 2 { u32::MAX - 2 } else { limit },
            quantum,
            drop_from,
            flows: Flows::new(buckets, seed),
            granted: false,
            largest: 0,
            victim,
            counters: Counters::ZERO,
        }
    }

    pub(super) const fn active(&self) -> u32 {
        self.flows.active()
    }

    /// Returns the flow with this hash, if it is known.
    pub(super) fn find(&self, flow_hash: u64) -> Option<u32> {
        self.flows.find(self.flows.key(flow_hash))
    }

    /// Returns what a flow gets in its turn. The paper wants at least the largest packet, so that
    /// each turn sends something. With less, deficits add up over a bounded number of rounds.
    #[inline]
    fn grant(&self) -> i64 {
        // It is below 2^32, by `check` and by the packet's length.
        self.quantum.max(u64::from(self.largest) / MOST_ROUNDS) as i64
    }

    /// Returns the flow that sends next: figure 2, "Dequeuing Module".
    ///
    /// The paper serves a flow until its deficit does not suffice. Here each call sends one packet
    /// of that flow, and the next call continues.
    #[inline]
    fn next_flow(&mut self) -> Option<u32> {
        loop {
            let index = self.flows.turn()?;
            let cost = cost(self.flows.front(index)?.bytes());
            let grant = self.grant();
            let flow = self.flows.flow_mut(index);
            if !self.granted {
                self.granted = true;
                flow.deficit += grant;
            }
            if flow.deficit >= cost {
                flow.deficit -= cost;
                return Some(index);
            }
            self.granted = false;
            self.flows.end_turn();
        }
    }

    /// Notes that a packet was added to or removed from a flow's queue.
    #[inline]
    fn changed(&mut self, index: u32, had_turn: bool) {
        let flow = self.flows.flow(index);
        self.victim.on_length(index, flow);
        if flow.packets() == 0 {
            // If it was this flow's turn, the turn is over, and the next flow's begins.
            self.granted &= !had_turn;
            if let Some(index) = self.victim.to_forget(index) {
                self.flows.forget(index);
            }
        }
    }

    /// Makes room by dropping one of the victim's packets. Returns whether that is the packet that
    /// has just arrived, for flow `arrived`.
    fn overflow(&mut self, arrived: u32, dropped: &mut Dropped<P>) -> bool {
        let index = self.victim.choose(&self.flows);
        let had_turn = self.flows.turn() == Some(index);
        let last = self.flows.flow(index).packets() == 1;
        let packet = match self.drop_from {
            End::Front => self.flows.pop_front(index),
            End::Tail => self.flows.pop_back(index),
        };
        let packet = packet.expect("an active flow has packets");
        self.counters.on_drop(packet.bytes(), DropReason::Overflow);
        dropped.push((packet, DropReason::Overflow));
        self.changed(index, had_turn);
        index == arrived && (last || self.drop_from == End::Tail)
    }
}

impl<P: Packet, V: Victim> Qdisc<P> for Scheduler<P, V> {
    #[inline]
    fn enqueue(&mut self, _now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        self.largest = self.largest.max(bytes);
        let index = self.flows.find_or_add(self.flows.key(packet.flow_hash()));
        self.flows.push(index, packet);
        self.victim.on_length(index, self.flows.flow(index));
        if self.flows.packets() > self.limit && self.overflow(index, dropped) {
            return Verdict::Dropped;
        }
        Verdict::Queued
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let index = self.next_flow()?;
        let packet = self.flows.pop_front(index)?;
        let bytes = packet.bytes();
        self.victim.on_sent(now, index, bytes);
        self.changed(index, true);
        self.counters.on_departure(bytes);
        Some(packet)
    }

    fn prefetch(&self, coming: Coming<'_, P>) {
        match coming {
            Coming::Enqueue(flow_hashes) => self.flows.prefetch_for_push(flow_hashes),
            Coming::Dequeue(show) => self.flows.prefetch_for_pop(show),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.flows.backlog()
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

/// Returns what a packet costs of a deficit. A packet without bytes would be free, and a flow of
/// such packets would never end its turn.
#[inline]
fn cost(bytes: u32) -> i64 {
    i64::from(bytes.max(1))
}
