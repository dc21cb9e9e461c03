//! Per-flow queues and the round in which they are served.
//!
//! A flow that has packets is *active* and has a place in the round. A flow without packets is
//! forgotten, unless the discipline keeps it for what it knows about it. Memory therefore follows
//! the active flows, whatever has passed before.

use alloc::vec::Vec;
use core::hint::black_box;

use narrows_units::Bytes;

use super::slab::{List, NIL, Slab};
use super::table::Table;
use crate::{Backlog, Packet, mix};

/// Queues by flow, in one store.
#[derive(Clone, Debug)]
pub(crate) struct Flows<P> {
    slab: Slab<P>,
    flows: Vec<Flow>,
    /// The round: each flow's neighbours in it. This list is separate from the flows, so that a
    /// walk along it touches little memory and stays in a cache.
    round: Vec<Neighbours>,
    /// Indices in `flows` that are free.
    free: Vec<u32>,
    table: Table,
    /// The flow whose turn it is, or [`NIL`]. It is part of a ring.
    turn: u32,
    active: u32,
    packets: u32,
    bytes: u64,
    buckets: Option<u32>,
    seed: u64,
}

/// A flow and its queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// The key that identifies the flow.
    key: u64,
    bytes: u64,
    /// For the discipline: what the flow may still send in its turn. Zero when it becomes active.
    pub(crate) deficit: i64,
    list: List,
    packets: u32,
}

/// The next and the previous flow in the round. If a flow is not active, these are its own index or
/// mean nothing.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    next: u32,
    before: u32,
}

/// The number of packets for which memory is read ahead at once.
const FORESEEN: usize = 16;

impl Flow {
    /// Returns the key that identifies the flow.
    #[inline]
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    #[inline]
    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<P: Packet> Flows<P> {
    /// Creates an empty set. With `buckets`, all flows share that many queues by a hash.
    pub(crate) const fn new(buckets: Option<u32>, seed: u64) -> Self {
        Self {
            slab: Slab::new(),
            flows: Vec::new(),
            round: Vec::new(),
            free: Vec::new(),
            // The seed differs from that of the buckets: keys of one bucket must not collide here
            // too.
            table: Table::new(mix(seed, 0x7461_626C_6500_0000)),
            turn: NIL,
            active: 0,
            packets: 0,
            bytes: 0,
            buckets,
            seed,
        }
    }

    /// Returns the key of a packet with this hash: the hash itself, or a bucket.
    #[inline]
    pub(crate) const fn key(&self, flow_hash: u64) -> u64 {
        match self.buckets {
            None => flow_hash,
            Some(buckets) => {
                // The upper half, multiplied, is uniform below `buckets` (Lemire 2019). Without his
                // rejection step, the bias is buckets / 2^32.
                ((mix(flow_hash, self.seed) >> 32) * buckets as u64) >> 32
            }
        }
    }

    /// Returns the flow with this key, if it is known.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        self.table.get(key)
    }

    /// Returns the flow with this key; adds it if it is not known.
    #[inline]
    pub(crate) fn find_or_add(&mut self, key: u64) -> u32 {
        match self.table.get(key) {
            Some(flow) => flow,
            None => self.add(key),
        }
    }

    fn add(&mut self, key: u64) -> u32 {
        let flow = Flow { key, bytes: 0, deficit: 0, list: List::EMPTY, packets: 0 };
        let index = match self.free.pop() {
            Some(index) => {
                self.flows[index as usize] = flow;
                index
            }
            None => {
                self.flows.push(flow);
                self.round.push(Neighbours { next: NIL, before: NIL });
                (self.flows.len() - 1) as u32
            }
        };
        self.table.insert(key, index);
        index
    }

    /// Forgets a flow that is not active.
    #[inline]
    pub(crate) fn forget(&mut self, flow: u32) {
        debug_assert_eq!(self.flows[flow as usize].packets, 0, "an active flow is not forgotten");
        self.table.remove(self.flows[flow as usize].key);
        self.free.push(flow);
    }

    /// Appends a packet to a flow's queue. A flow that becomes active goes to the end of the round.
    #[inline]
    pub(crate) fn push(&mut self, flow: u32, packet: P) {
        let bytes = u64::from(packet.bytes());
        let entry = &mut self.flows[flow as usize];
        let was_empty = entry.list.is_empty();
        self.slab.push_back(&mut entry.list, packet);
        entry.packets += 1;
        entry.bytes += bytes;
        self.packets += 1;
        self.bytes += bytes;
        if was_empty {
            entry.deficit = 0;
            self.join(flow);
        }
    }

    /// Removes the first packet of a flow. A flow without packets leaves the round.
    #[inline]
    pub(crate) fn pop_front(&mut self, flow: u32) -> Option<P> {
        let packet = self.slab.pop_front(&mut self.flows[flow as usize].list)?;
        self.taken(flow, packet.bytes());
        Some(packet)
    }

    /// Removes the last packet of a flow. A flow without packets leaves the round.
    #[inline]
    pub(crate) fn pop_back(&mut self, flow: u32) -> Option<P> {
        let packet = self.slab.pop_back(&mut self.flows[flow as usize].list)?;
        self.taken(flow, packet.bytes());
        Some(packet)
    }

    #[inline]
    fn taken(&mut self, flow: u32, bytes: u32) {
        let entry = &mut self.flows[flow as usize];
        entry.packets -= 1;
        entry.bytes -= u64::from(bytes);
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        if entry.packets == 0 {
            self.leave(flow);
        }
    }

    /// Returns a reference to the first packet of a flow.
    #[inline]
    pub(crate) fn front(&self, flow: u32) -> Option<&P> {
        self.slab.front(self.flows[flow as usize].list)
    }

    #[inline]
    pub(crate) fn flow(&self, flow: u32) -> &Flow {
        &self.flows[flow as usize]
    }

    #[inline]
    pub(crate) fn flow_mut(&mut self, flow: u32) -> &mut Flow {
        &mut self.flows[flow as usize]
    }

    /// Returns the flow whose turn it is, or `None` if no packet waits.
    #[inline]
    pub(crate) const fn turn(&self) -> Option<u32> {
        if self.turn == NIL { None } else { Some(self.turn) }
    }

    /// Ends a flow's turn: it goes to the end of the round.
    #[inline]
    pub(crate) fn end_turn(&mut self) {
        if self.turn != NIL {
            self.turn = self.round[self.turn as usize].next;
        }
    }

    /// Reads what [`push`](Self::push) will need for packets with these hashes: [`Qdisc::prefetch`].
    ///
    /// Each read shows where the next one lies, so this goes in steps, each for all packets.
    ///
    /// [`Qdisc::prefetch`]: crate::Qdisc::prefetch
    pub(crate) fn prefetch_for_push(&self, flow_hashes: &[u64]) {
        for flow_hashes in flow_hashes.chunks(FORESEEN) {
            let mut nodes = [NIL; FORESEEN];
            let nodes = &mut nodes[..flow_hashes.len()];
            for (flow, &flow_hash) in nodes.iter_mut().zip(flow_hashes) {
                *flow = self.find(self.key(flow_hash)).unwrap_or(NIL);
            }
            for node in nodes.iter_mut() {
                *node = self.flows.get(*node as usize).map_or(NIL, |flow| flow.list.back());
            }
            for node in nodes {
                black_box(self.slab.prefetch(*node));
            }
        }
    }

    /// Reads what [`pop_front`](Self::pop_front) will need for the flows whose turn is next, and
    /// shows their first packets: [`Qdisc::prefetch`].
    ///
    /// [`Qdisc::prefetch`]: crate::Qdisc::prefetch
    pub(crate) fn prefetch_for_pop(&self, show: &mut dyn FnMut(&P)) {
        let mut nodes = [NIL; FORESEEN];
        let mut count = 0;
        let mut flow = self.turn;
        while count < FORESEEN && flow != NIL {
            nodes[count] = flow;
            count += 1;
            flow = self.round[flow as usize].next;
            if flow == self.turn {
                break;
            }
        }
        let nodes = &mut nodes[..count];
        for node in nodes.iter_mut() {
            *node = self.flows[*node as usize].list.front();
        }
        let mut behind = [NIL; FORESEEN];
        for (behind, &node) in behind.iter_mut().zip(nodes.iter()) {
            *behind = self.slab.end(node).map_or(NIL, |(_, next)| next);
        }
        for node in behind {
            black_box(self.slab.prefetch(node));
        }
        for &mut node in nodes {
            if let Some((packet, _)) = self.slab.end(node) {
                show(packet);
            }
        }
    }

    /// Returns the number of flows that have packets.
    #[inline]
    pub(crate) const fn active(&self) -> u32 {
        self.active
    }

    /// Returns the number of packets of all flows.
    #[inline]
    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    #[inline]
    pub(crate) const fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: Bytes::new(self.bytes) }
    }

    /// Puts a flow at the end of the round.
    #[inline]
    fn join(&mut self, flow: u32) {
        self.active += 1;
        if self.turn == NIL {
            self.turn = flow;
            self.set_ring(flow, flow);
            return;
        }
        let last = self.round[self.turn as usize].before;
        self.set_ring(last, flow);
        self.set_ring(flow, self.turn);
    }

    /// Removes a flow from the round.
    #[inline]
    fn leave(&mut self, flow: u32) {
        self.active -= 1;
        let Neighbours { next, before } = self.round[flow as usize];
        if next == flow {
            self.turn = NIL;
            return;
        }
        self.set_ring(before, next);
        if self.turn == flow {
            self.turn = next;
        }
    }

    #[inline]
    fn set_ring(&mut self, flow: u32, next: u32) {
        self.round[flow as usize].next = next;
        self.round[next as usize].before = flow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::TestPacket;

    fn served(flows: &mut Flows<TestPacket>) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(flow) = flows.turn() {
            order.push(flows.flow(flow).key());
            flows.end_turn();
            flows.pop_front(flow);
        }
        order
    }

    #[test]
    fn the_round_goes_in_the_order_of_becoming_active() {
        let mut flows = Flows::new(None, 1);
        for key in [5, 7, 5, 9, 7, 5] {
            let flow = flows.find_or_add(key);
            flows.push(flow, TestPacket::default());
        }
        assert_eq!((flows.active(), flows.packets()), (3, 6));
        assert_eq!(served(&mut flows), [5, 7, 9, 5, 7, 5]);
    }

    #[test]
    fn a_flow_may_leave_from_anywhere_in_the_round() {
        for gone in 0..4 {
            let mut flows = Flows::new(None, 1);
            for key in 0..4 {
                let flow = flows.find_or_add(key);
                flows.push(flow, TestPacket::default());
            }
            let flow = flows.find(gone).expect("it is there");
            assert!(flows.pop_back(flow).is_some() && flows.pop_back(flow).is_none());
            let rest: Vec<u64> = (0..4).filter(|&key| key != gone).collect();
            assert_eq!(served(&mut flows), rest);
        }
    }

    #[test]
    fn what_is_foreseen_is_the_first_packet_of_each_flow_in_the_order_of_turns() {
        let mut flows = Flows::new(None, 1);
        let foreseen = |flows: &Flows<TestPacket>| {
            flows.prefetch_for_push(&(0..50).collect::<Vec<u64>>());
            let mut numbers = Vec::new();
            flows.prefetch_for_pop(&mut |packet| numbers.push(packet.number));
            numbers
        };
        assert!(foreseen(&flows).is_empty());
        for number in 0..60 {
            let flow = flows.find_or_add(number % 30);
            flows.push(flow, TestPacket { number, ..TestPacket::default() });
            let first = foreseen(&flows);
            assert_eq!(first, (0..=number.min(FORESEEN as u64 - 1)).collect::<Vec<u64>>());
        }
        // The others' turns are over.
        for _ in 0..25 {
            let flow = flows.turn().expect("packets wait");
            flows.end_turn();
            flows.pop_front(flow);
        }
        let expected = (25..41).collect::<Vec<u64>>();
        assert_eq!(foreseen(&flows), expected);
        assert_eq!(served(&mut flows).len(), 35);
    }

    #[test]
    fn flows_that_are_forgotten_leave_their_places_to_others() {
        let mut flows = Flows::new(None, 1);
        for key in 0..10_000 {
            let flow = flows.find_or_add(key);
            flows.push(flow, TestPacket::default());
            flows.pop_front(flow);
            flows.forget(flow);
            assert_eq!(flows.find(key), None);
        }
        assert_eq!(flows.flows.len(), 1);
    }

    #[test]
    fn buckets_are_used_alike() {
        let flows = Flows::<TestPacket>::new(Some(10), 42);
        let mut counts = [0u32; 10];
        for hash in 0..100_000 {
            counts[flows.key(hash) as usize] += 1;
        }
        // Pearson's statistic with 9 degrees of freedom is above 33.7 once in 10000 times.
        let statistic: f64 = counts.iter().map(|&n| libm::pow(f64::from(n) - 1e4, 2.0) / 1e4).sum();
        assert!(statistic < 33.7, "{statistic}");
    }
}
