//! What the agenda's lists are made of: 16 bytes an event.

use narrows_units::Time;

use super::Packed;

/// A list of entries. Empty: `first` is [`NONE`], and `last` means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// All pending entries. A place that was left is the next to be taken.
#[derive(Debug)]
pub(super) struct Store {
    nodes: Vec<Node>,
    /// The first free place, or [`NONE`]; `next` leads on.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: Time,
    pub(super) event: Packed,
    pub(super) next: u32,
}

const _: () = assert!(size_of::<Node>() == 16);

/// No place.
pub(super) const NONE: u32 = u32::MAX;

impl List {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Puts an entry, which nothing follows, behind all others.
    #[inline(always)]
    pub(super) fn append(&mut self, entry: u32, store: &mut Store) {
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
    pub(super) fn put(&mut self, at: Time, event: Packed) -> u32 {
        let node = Node { at, event, next: NONE };
        match self.nodes.get_mut(self.free as usize) {
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
    pub(super) fn take(&mut self, entry: u32) -> Node {
        let place = &mut self.nodes[entry as usize];
        let node = *place;
        place.next = self.free;
        self.free = entry;
        node
    }

    #[inline(always)]
    pub(super) fn event(&self, entry: u32) -> Packed {
        self.nodes[entry as usize].event
    }

    #[inline(always)]
    pub(super) fn at(&self, entry: u32) -> Time {
        self.nodes[entry as usize].at
    }

    #[inline(always)]
    pub(super) fn next(&self, entry: u32) -> u32 {
        self.nodes[entry as usize].next
    }

    #[inline(always)]
    pub(super) fn set_next(&mut self, entry: u32, next: u32) {
        self.nodes[entry as usize].next = next;
    }

    /// The most entries that there have been at once.
    pub(super) fn most_entries(&self) -> usize {
        self.nodes.len()
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        // 2^32 entries would need 64 GB.
        (self.nodes.len() - 1) as u32
    }
}
