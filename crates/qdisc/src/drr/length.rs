//! Queues by length: the longest and, if asked for, the shortest.

use super::flows::Flow;
use super::heap::Heap;
use super::{By, Ties};

/// The queues by length.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    by: By,
    ties: Ties,
    heap: Heap<u64>,
    /// The number of changes of length so far. It tells which of two equally long queues reached
    /// that length first. When it overflows, after 2^32 changes, the order of the queues that are
    /// equally long at that time is reversed.
    changes: u32,
}

impl Lengths {
    pub(crate) const fn new(by: By, ties: Ties) -> Self {
        Self { by, ties, heap: Heap::new(), changes: 0 }
    }

    /// Notes that a queue's length has changed. Empty queues do not count.
    #[inline]
    pub(crate) fn set(&mut self, index: u32, flow: &Flow) {
        if flow.packets() == 0 {
            self.heap.remove(index);
            return;
        }
        self.changes = self.changes.wrapping_add(1);
        let stamp = match self.ties {
            Ties::Oldest => !self.changes,
            Ties::Newest => self.changes,
        };
        self.heap.set(index, u64::from(self.by.length(flow)) << 32 | u64::from(stamp));
    }

    /// Returns the longest queue.
    #[inline]
    pub(crate) fn longest(&self) -> Option<u32> {
        self.heap.first()
    }
}

/// The queues by length, shortest first.
#[derive(Clone, Debug)]
pub(super) struct Shortest {
    by: By,
    heap: Heap<core::cmp::Reverse<u32>>,
}

impl Shortest {
    pub(super) const fn new(by: By) -> Self {
        Self { by, heap: Heap::new() }
    }

    /// Notes that a queue's length has changed. Empty queues do not count.
    #[inline]
    pub(super) fn set(&mut self, index: u32, flow: &Flow) {
        if flow.packets() == 0 {
            self.heap.remove(index);
        } else {
            self.heap.set(index, core::cmp::Reverse(self.by.length(flow)));
        }
    }

    /// Returns whether a queue is shorter than all others. An empty one is shorter than any that is
    /// not.
    #[inline]
    pub(super) fn is_shortest(&self, index: u32) -> bool {
        let own = self.heap.key(index).map_or(0, |key| key.0);
        self.heap.largest_but(index).is_none_or(|other| own < other.0)
    }
}

impl By {
    /// Returns a queue's length, limited to 32 bits.
    #[inline]
    fn length(self, flow: &Flow) -> u32 {
        match self {
            Self::Packets => flow.packets(),
            Self::Bytes => u32::try_from(flow.bytes()).unwrap_or(u32::MAX),
        }
    }
}
