//! Queues by length: the longest and, where asked for, the shortest.

use super::flows::Flow;
use super::heap::Heap;
use super::{By, Ties};

/// The queues by length.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    by: By,
    ties: Ties,
    heap: Heap<u64>,
    /// Changes of length so far: who of two equals has been so for longer. Its overflow, after
    /// 2^32 changes, turns the order of those that are equal just then.
    changes: u32,
}

impl Lengths {
    pub(crate) const fn new(by: By, ties: Ties) -> Self {
        Self { by, ties, heap: Heap::new(), changes: 0 }
    }

    /// A queue's length has changed. Empty queues do not count.
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

    /// The longest queue.
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

    /// A queue's length has changed. Empty queues do not count.
    #[inline]
    pub(super) fn set(&mut self, index: u32, flow: &Flow) {
        if flow.packets() == 0 {
            self.heap.remove(index);
        } else {
            self.heap.set(index, core::cmp::Reverse(self.by.length(flow)));
        }
    }

    /// Whether a queue is shorter than all others; an empty one is shorter than any that is not.
    #[inline]
    pub(super) fn is_shortest(&self, index: u32) -> bool {
        let own = self.heap.key(index).map_or(0, |key| key.0);
        self.heap.largest_but(index).is_none_or(|other| own < other.0)
    }
}

impl By {
    /// A queue's length. What exceeds 32 bits is as long as what just fits.
    #[inline]
    fn length(self, flow: &Flow) -> u32 {
        match self {
            Self::Packets => flow.packets(),
            Self::Bytes => u32::try_from(flow.bytes()).unwrap_or(u32::MAX),
        }
    }
}
