//! A map of bounded size. When it is full, the least recently used entry makes room.
//!
//! The kernel's LRU hash maps only approximate that order; this one keeps it exactly, so that runs
//! repeat. The crate lru allocates memory for each entry; here an entry is a place in a list.

use std::collections::HashMap;
use std::hash::Hash;

/// No slot.
const NONE: u32 = u32::MAX;

/// A map that forgets the least recently used entry.
#[derive(Clone, Debug)]
pub(super) struct LruMap<K, V> {
    index: HashMap<K, u32>,
    slots: Vec<Slot<K, V>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    capacity: usize,
}

#[derive(Clone, Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    older: u32,
    newer: u32,
}

impl<K: Copy + Eq + Hash, V: Copy> LruMap<K, V> {
    /// Creates an empty map for at most `capacity` entries, and at least one.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, NONE as usize);
        Self {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            capacity,
        }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the value of `key`. This does not count as a use.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.index.get(key).map(|&at| self.slots[at as usize].value)
    }

    /// Sets the value of `key`, which is now the most recently used. Returns the entry that had to
    /// make room for it.
    pub(super) fn put(&mut self, key: K, value: V) -> Option<(K, V)> {
        if let Some(&at) = self.index.get(&key) {
            self.unlink(at);
            self.slots[at as usize].value = value;
            self.link_newest(at);
            return None;
        }
        let gone = if self.len() == self.capacity { self.remove_oldest() } else { None };
        let slot = Slot { key, value, older: NONE, newer: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(key, at);
        self.link_newest(at);
        gone
    }

    /// Removes `key` and returns its value.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.index.remove(key)?;
        self.unlink(at);
        self.free.push(at);
        Some(self.slots[at as usize].value)
    }

    /// Returns all entries, the least recently used first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        let mut at = self.oldest;
        core::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.newer;
            Some((slot.key, slot.value))
        })
    }

    fn remove_oldest(&mut self) -> Option<(K, V)> {
        let key = self.slots.get(self.oldest as usize)?.key;
        self.remove(&key).map(|value| (key, value))
    }

    fn unlink(&mut self, at: u32) {
        let Slot { older, newer, .. } = self.slots[at as usize];
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = self.newest;
        let slot = &mut self.slots[at as usize];
        slot.older = older;
        slot.newer = NONE;
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(map: &LruMap<u32, char>) -> Vec<u32> {
        map.iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn what_is_longest_unused_makes_room() {
        let mut map = LruMap::new(3);
        for (key, value) in [(1, 'a'), (2, 'b'), (3, 'c')] {
            assert_eq!(map.put(key, value), None);
        }
        map.put(1, 'A');
        assert_eq!(map.put(4, 'd'), Some((2, 'b')));
        assert_eq!(keys(&map), [3, 1, 4]);
        assert_eq!((map.get(&1), map.get(&2)), (Some('A'), None));
    }

    #[test]
    fn removal_in_any_order_leaves_the_rest_in_order() {
        for gone in [1, 2, 3] {
            let mut map = LruMap::new(3);
            for key in [1, 2, 3] {
                map.put(key, 'x');
            }
            assert_eq!(map.remove(&gone), Some('x'));
            assert_eq!(map.remove(&gone), None);
            let mut rest = vec![1, 2, 3];
            rest.retain(|&key| key != gone);
            assert_eq!(keys(&map), rest);
            map.put(gone, 'y');
            rest.push(gone);
            assert_eq!(keys(&map), rest);
        }
    }
}
