//! Storage for the agenda's lists, 16 bytes for each event.

use narrows_units::Time;

use super::Packed;
use crate::maybe_index::MaybeIndex;

/// A list of entries. If it is empty, it has no first entry, and `last` means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: MaybeIndex,
    pub(super) last: MaybeIndex,
}

/// All pending entries. Freed places are used again, the last one freed first.
#[derive(Debug)]
pub(super) struct Store {
    nodes: Vec<Node>,
    /// The first free place. Its `next` is the next free one.
    free: MaybeIndex,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: Time,
    pub(super) event: Packed,
    pub(super) next: MaybeIndex,
}

const _: () = assert!(size_of::<Node>() == 16);

/// No entry.
pub(super) const NONE: MaybeIndex = MaybeIndex::NONE;

impl List {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Appends an entry that has no successor.
    #[inline(always)]
    pub(super) fn append(&mut self, entry: MaybeIndex, store: &mut Store) {
        if self.is_empty() {
            self.first = entry;
        } else {
            store.set_next(self.last, entry);
        }
        self.last = entry;
    }
}

impl Store {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }

    /// Stores an entry without a successor.
    #[inline(always)]
    pub(super) fn put(&mut self, at: Time, event: Packed) -> MaybeIndex {
        let node = Node { at, event, next: NONE };
        match self.nodes.get_mut(self.free.place()) {
            Some(free) => {
                let place = self.free;
                self.free = free.next;
                *free = node;
                place
            }
            None => self.grow(node),
        }
    }

    /// Removes an entry.
    #[inline(always)]
    pub(super) fn take(&mut self, entry: MaybeIndex) -> Node {
        let place = &mut self.nodes[entry.place()];
        let node = *place;
        place.next = self.free;
        self.free = entry;
        node
    }

    #[inline(always)]
    pub(super) fn event(&self, entry: MaybeIndex) -> Packed {
        self.nodes[entry.place()].event
    }

    #[inline(always)]
    pub(super) fn at(&self, entry: MaybeIndex) -> Time {
        self.nodes[entry.place()].at
    }

    #[inline(always)]
    pub(super) fn next(&self, entry: MaybeIndex) -> MaybeIndex {
        self.nodes[entry.place()].next
    }

    #[inline(always)]
    pub(super) fn set_next(&mut self, entry: MaybeIndex, next: MaybeIndex) {
        self.nodes[entry.place()].next = next;
    }

    /// Returns the largest number of entries that existed at once.
    pub(super) fn most_entries(&self) -> usize {
        self.nodes.len()
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, node: Node) -> MaybeIndex {
        self.nodes.push(node);
        // 2^32 entries would need 64 GB.
        MaybeIndex::some((self.nodes.len() - 1) as u32)
    }
}
