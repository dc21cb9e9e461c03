//! A map of bounded size. When it is full, the least recently used entry makes room.
//!
//! The kernel's LRU hash maps only approximate that order. The crate lru keeps it exactly, so that
//! runs repeat. With a capacity, it would allocate room for all entries at once, so the capacity is
//! kept here.

use std::hash::Hash;

use lru::LruCache;

/// A map that forgets the least recently used entry.
#[derive(Clone, Debug)]
pub(super) struct LruMap<K: Eq + Hash, V> {
    entries: LruCache<K, V>,
    capacity: usize,
}

impl<K: Copy + Eq + Hash, V: Copy> LruMap<K, V> {
    /// Creates an empty map for at most `capacity` entries, and at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: LruCache::unbounded(), capacity: capacity.max(1) }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the value of `key`. This does not count as a use.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.entries.peek(key).copied()
    }

    /// Sets the value of `key`, which is now the most recently used. Returns the entry that had to
    /// make room for it.
    pub(super) fn put(&mut self, key: K, value: V) -> Option<(K, V)> {
        self.entries.put(key, value);
        if self.len() > self.capacity { self.entries.pop_lru() } else { None }
    }

    /// Removes `key` and returns its value.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.pop(key)
    }

    /// Returns all entries, the least recently used first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        self.entries.iter().rev().map(|(key, value)| (*key, *value))
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
