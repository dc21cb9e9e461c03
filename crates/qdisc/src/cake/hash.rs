//! A set-associative hash: a flow may use any of the eight queues of its set, so flows share a queue
//! only if more than eight fall into one set.

use alloc::boxed::Box;
use alloc::vec;

use super::flows::{Flow, State};
use super::hosts::{Ends, Hashes, Hosts};
use crate::drr::slab::NIL;

/// Queues of a tin.
pub(super) const QUEUES: usize = 1024;
/// Queues of a set.
const WAYS: usize = 8;

/// Which flows use which of a tin's queues.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// The hash of the flow that used each queue last.
    tags: Box<[u32]>,
    /// The index of each queue's state, or [`NIL`] before the first packet.
    places: Box<[u32]>,
    /// The hosts, if they matter.
    pub(super) hosts: Option<Hosts>,
}

impl Table {
    pub(super) fn new(hosts: bool) -> Self {
        Self {
            tags: vec![0; QUEUES].into(),
            places: vec![NIL; QUEUES].into(),
            hosts: hosts.then(|| Hosts::new(QUEUES)),
        }
    }

    /// `cake_hash`: returns the index of the queue for a packet with these hashes. The state of a
    /// queue that is used for the first time is added to `flows`.
    #[inline]
    pub(super) fn find(
        &mut self,
        hashes: Hashes,
        ends: Option<Ends>,
        flows: &mut alloc::vec::Vec<Flow>,
        new: Flow,
    ) -> u32 {
        let bucket = bucket(hashes.flow);
        let place = self.places[bucket];
        if self.tags[bucket] == hashes.flow
            && flows.get(place as usize).is_some_and(|flow| flow.state != State::Idle)
        {
            return place;
        }
        self.reserve(hashes, ends, flows, new)
    }

    fn reserve(
        &mut self,
        hashes: Hashes,
        ends: Option<Ends>,
        flows: &mut alloc::vec::Vec<Flow>,
        new: Flow,
    ) -> u32 {
        let state = |way: usize| flows.get(self.places[way] as usize).map(|flow| flow.state);
        let is_idle = |way: usize| state(way).is_none_or(|state| state == State::Idle);
        let mut ways = ways(hashes.flow);
        let reserved = ways.clone().find(|&way| self.tags[way] == hashes.flow);
        let is_known = reserved.is_some_and(|way| !is_idle(way));
        // Without a free queue, flows share the first one.
        let way =
            reserved.or_else(|| ways.find(|&way| is_idle(way))).unwrap_or(bucket(hashes.flow));
        self.tags[way] = hashes.flow;
        if self.places[way] == NIL {
            self.places[way] = flows.len() as u32;
            flows.push(new);
        }
        let place = self.places[way];
        if let Some((ends, hosts)) = ends.zip(self.hosts.as_mut())
            && !is_known
        {
            let flow = &mut flows[place as usize];
            let is_bulk = flow.state == State::Bulk;
            if is_bulk {
                hosts.leave(flow, ends);
            }
            flow.source = hosts.source(hashes.source);
            flow.destination = hosts.destination(hashes.destination);
            if is_bulk {
                hosts.join(flow, ends);
            }
        }
        place
    }
}

/// Returns the queue that a plain hash would choose.
#[inline]
pub(super) const fn bucket(hash: u32) -> usize {
    hash as usize % QUEUES
}

/// Returns the queues of its set, that one first.
#[inline]
pub(super) fn ways(hash: u32) -> impl Iterator<Item = usize> + Clone {
    let bucket = bucket(hash);
    let (set, first) = (bucket / WAYS * WAYS, bucket % WAYS);
    (0..WAYS).map(move |way| set + (first + way) % WAYS)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;

    fn busy() -> Flow {
        let mut flow = Flow::new(0);
        flow.state = State::Sparse;
        flow
    }

    fn queues(hashes: impl Iterator<Item = u32>) -> usize {
        let mut table = Table::new(false);
        let mut flows = Vec::new();
        let found: BTreeSet<u32> = hashes
            .map(|flow| {
                let hashes = Hashes { flow, source: 0, destination: 0 };
                let place = table.find(hashes, None, &mut flows, busy());
                assert_eq!(table.find(hashes, None, &mut flows, busy()), place);
                place
            })
            .collect();
        assert_eq!(found.len(), flows.len());
        found.len()
    }

    /// The published check: 128 flows whose plain hash has 16 values.
    #[test]
    fn a_hundred_and_twenty_eight_flows_in_sixteen_buckets_get_a_queue_each() {
        let colliding = |gap: u32| (0..128).map(move |n| (n % 16) * gap + (n / 16 + 1) * 1024);
        // In sixteen sets of eight queues: each flow has its own.
        assert_eq!(queues(colliding(8)), 128);
        // In the sixteen buckets of two sets: all sixteen queues are used, and shared by eight.
        assert_eq!(queues(colliding(1)), 16);
        // In every second bucket of four sets: twice as many queues as buckets.
        assert_eq!(queues(colliding(2)), 32);
        // In every fourth bucket of eight sets: four times as many.
        assert_eq!(queues(colliding(4)), 64);
    }

    #[test]
    fn up_to_eight_flows_of_a_set_have_their_own_queues_and_the_ninth_shares_one() {
        for flows in 1..=20 {
            let hashes = (0..flows).map(|n| 5 + 1024 * (n + 1));
            assert_eq!(queues(hashes), flows.min(8) as usize);
        }
    }

    #[test]
    fn a_queue_that_is_idle_is_used_again() {
        let mut table = Table::new(false);
        let mut flows = Vec::new();
        let hashes = |flow| Hashes { flow, source: 0, destination: 0 };
        let first = table.find(hashes(1024), None, &mut flows, busy());
        flows[first as usize].state = State::Idle;
        // It is kept for its flow, and given away if another one comes before it.
        assert_eq!(table.find(hashes(1024), None, &mut flows, busy()), first);
        assert_eq!(table.find(hashes(2048), None, &mut flows, busy()), first);
    }
}
