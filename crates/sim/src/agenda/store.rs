//! What the agenda's lists are made of: 16 bytes an event.

use narrows_units::Time;

use super::Packed;
use crate::maybe_index::MaybeIndex;

/// A list of entries. Empty: there is no first, and `last` means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: MaybeIndex,
    pub(super) last: MaybeIndex,
}

/// All pending entries. A place that was left is the next to be taken.
#[derive(Debug)]
pub(super) struct Store {
    nodes: Vec<Node>,
    /// The first free place; `next` leads on.
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

    /// Puts an entry, which nothing follows, behind all others.
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

    /// Stores an entry that nothing follows.
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

    /// Takes an entry out.
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

    /// The most entries that there have been at once.
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
