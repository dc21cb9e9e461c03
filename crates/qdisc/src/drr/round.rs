//! A round of flows, as a list: for schedulers with several rounds, where a flow is in one at most.

use super::slab::NIL;

/// A flow that knows which one comes after it in its round.
pub(crate) trait Linked {
    /// Returns the index of the flow after it, or [`NIL`].
    fn next(&self) -> u32;
    /// Sets that index.
    fn set_next(&mut self, next: u32);
}

/// Flows in the order of service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    first: u32,
    last: u32,
    len: u32,
}

impl Round {
    pub(crate) const EMPTY: Self = Self { first: NIL, last: NIL, len: 0 };

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// Returns the flow whose turn it is, or [`NIL`].
    #[inline]
    pub(crate) const fn first(&self) -> u32 {
        self.first
    }

    /// Returns the number of flows.
    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn push_back<F: Linked>(&mut self, index: u32, flows: &mut [F]) {
        flows[index as usize].set_next(NIL);
        match flows.get_mut(self.last as usize) {
            Some(last) => last.set_next(index),
            None => self.first = index,
        }
        self.last = index;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop_front<F: Linked>(&mut self, flows: &[F]) {
        let Some(first) = flows.get(self.first as usize) else { return };
        self.first = first.next();
        self.len -= 1;
        if self.first == NIL {
            self.last = NIL;
        }
    }
}
