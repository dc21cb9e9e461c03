//! What a reader could not use or found odd: how many of each kind, and one example.

use std::collections::BTreeMap;

/// One kind of thing that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// How many there were.
    pub count: u64,
    /// The first one's number in its file, from 1.
    pub first: u64,
    /// What was wrong with the first one.
    pub example: String,
}

/// What was skipped, by kind. A kind is a text, or a type with a value for each remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped<K = &'static str> {
    kinds: BTreeMap<K, Skip>,
}

impl<K> Default for Skipped<K> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Skipped<K> {
    /// Counts one of `kind`: the record with this `number` in its file.
    pub fn add(&mut self, kind: K, number: u64, why: impl FnOnce() -> String) {
        let skip = self.kinds.entry(kind);
        let skip = skip.or_insert_with(|| Skip { count: 0, first: number, example: why() });
        skip.count += 1;
    }

    /// Returns the kinds in their order; texts in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &Skip)> {
        self.kinds.iter().map(|(kind, skip)| (*kind, skip))
    }

    /// Returns how many there were of a kind.
    pub fn count(&self, kind: K) -> u64 {
        self.kinds.get(&kind).map_or(0, |skip| skip.count)
    }

    /// Returns how many there were in all.
    pub fn total(&self) -> u64 {
        self.kinds.values().map(|skip| skip.count).sum()
    }
}
