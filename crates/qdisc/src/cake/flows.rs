//! Flows and the rotations in which they wait: new and sparse ones, bulk ones, and those that only
//! remember.

use super::cobalt::Cobalt;
use crate::drr::slab::{List, NIL};

/// `struct cake_flow`
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) packets: List,
    pub(super) backlog: u64,
    /// The bytes that it may still send in its turn.
    pub(super) deficit: i64,
    pub(super) cobalt: Cobalt,
    /// Its neighbours in its rotation.
    before: u32,
    after: u32,
    /// The places of its hosts.
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) tin: u8,
    pub(super) state: State,
}

/// Which rotation a flow is in, and how it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In none.
    Idle,
    /// In that of new flows: it sends little.
    Sparse,
    /// In that of bulk flows because it has used its deficit, but without packets; counts as
    /// sparse.
    SparseWait,
    /// In that of bulk flows.
    Bulk,
    /// In that of flows without packets whose COBALT remembers something.
    Decaying,
}

impl Flow {
    pub(super) const fn new(tin: u8) -> Self {
        Self {
            packets: List::EMPTY,
            backlog: 0,
            deficit: 0,
            cobalt: Cobalt::new(),
            before: NIL,
            after: NIL,
            source: 0,
            destination: 0,
            tin,
            state: State::Idle,
        }
    }
}

/// A rotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL };

    /// Returns the flow whose turn it is, or `None`.
    #[inline]
    pub(super) fn first(self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Adds a flow that is in no rotation.
    #[inline]
    pub(super) fn push(&mut self, index: u32, flows: &mut [Flow]) {
        let flow = &mut flows[index as usize];
        (flow.before, flow.after) = (self.last, NIL);
        match flows.get_mut(self.last as usize) {
            Some(last) => last.after = index,
            None => self.first = index,
        }
        self.last = index;
    }

    /// Removes a flow, which must be in this rotation.
    #[inline]
    pub(super) fn remove(&mut self, index: u32, flows: &mut [Flow]) {
        let Flow { before, after, .. } = flows[index as usize];
        match flows.get_mut(before as usize) {
            Some(flow) => flow.after = after,
            None => self.first = after,
        }
        match flows.get_mut(after as usize) {
            Some(flow) => flow.before = before,
            None => self.last = before,
        }
    }
}
