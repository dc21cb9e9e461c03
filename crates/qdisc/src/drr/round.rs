//! Rounds of flows, as lists: for schedulers with several rounds, where a flow is in one at most.

use super::slab::NIL;

/// A flow that knows which one comes after it in its round.
pub(crate) trait Linked {
    /// Returns the index of the flow after it, or [`NIL`].
    fn next(&mut self) -> &mut u32;
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
        *flows[index as usize].next() = NIL;
        match flows.get_mut(self.last as usize) {
            Some(last) => *last.next() = index,
            None => self.first = index,
        }
        self.last = index;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop_front<F: Linked>(&mut self, flows: &mut [F]) {
        let Some(first) = flows.get_mut(self.first as usize) else { return };
        self.first = *first.next();
        self.len -= 1;
        if self.first == NIL {
            self.last = NIL;
        }
    }
}

/// A flow that may send a number of bytes in its turn.
pub(crate) trait Turn: Linked {
    /// Returns how many bytes it may still send.
    fn deficit(&mut self) -> &mut i64;
}

/// Two rounds: flows that were idle are served first, each for a quantum (RFC 8290, section 4.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFirst {
    new: Round,
    old: Round,
    /// Bytes that a flow may send in its turn.
    quantum: i64,
}

impl NewFirst {
    pub(crate) const fn new(quantum: u32) -> Self {
        Self { new: Round::EMPTY, old: Round::EMPTY, quantum: quantum as i64 }
    }

    /// Adds a flow that is in no round.
    #[inline]
    pub(crate) fn add<F: Turn>(&mut self, index: u32, flows: &mut [F]) {
        *flows[index as usize].deficit() = self.quantum;
        self.new.push_back(index, flows);
    }

    /// Returns the flow whose turn it is, and whether it is a new one. It may send now.
    #[inline]
    pub(crate) fn turn<F: Turn>(&mut self, flows: &mut [F]) -> Option<(u32, bool)> {
        let mut waited = 0u32;
        loop {
            let is_new = !self.new.is_empty();
            let round = if is_new { &mut self.new } else { &mut self.old };
            let index = round.first();
            let deficit = flows.get_mut(index as usize)?.deficit();
            if *deficit > 0 {
                return Some((index, is_new));
            }
            *deficit += self.quantum;
            round.pop_front(flows);
            self.old.push_back(index, flows);
            waited += 1;
            if !is_new && waited > self.old.len() {
                self.skip(flows);
                waited = 0;
            }
        }
    }

    /// Ends the turn of a flow that has no packets. Returns whether it is still in a round.
    #[inline]
    pub(crate) fn end<F: Turn>(&mut self, index: u32, is_new: bool, flows: &mut [F]) -> bool {
        if !is_new {
            self.old.pop_front(flows);
            return false;
        }
        self.new.pop_front(flows);
        // Flows that return again and again as new ones must not starve the old ones.
        let stays = !self.old.is_empty();
        if stays {
            self.old.push_back(index, flows);
        }
        stays
    }

    /// Skips all but the last of the rounds in which no old flow could send. Each flow gets a
    /// quantum for each skipped round. If a flow can send now, no round is skipped.
    #[cold]
    fn skip<F: Turn>(&self, flows: &mut [F]) {
        let mut rounds = i64::MAX;
        let mut index = self.old.first();
        while index != NIL {
            let flow = &mut flows[index as usize];
            rounds = rounds.min(-*flow.deficit() / self.quantum).max(0);
            index = *flow.next();
        }
        index = self.old.first();
        while index != NIL {
            let flow = &mut flows[index as usize];
            *flow.deficit() += rounds * self.quantum;
            index = *flow.next();
        }
    }
}
