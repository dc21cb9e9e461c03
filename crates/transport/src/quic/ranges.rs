//! Sets of numbers as ranges: packets that have arrived, and bytes of streams.

use alloc::vec::Vec;

/// Ranges in ascending order, each from its first number to the one after its last. No two of them
/// touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds a range. Returns true if any part of it is new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return false;
        }
        let first = self.0.partition_point(|&(_, other_end)| other_end < start);
        let last = self.0.partition_point(|&(other_start, _)| other_start <= end);
        if let Some(&(other_start, other_end)) = self.0.get(first)
            && other_start <= start
            && end <= other_end
        {
            return false;
        }
        let (mut from, mut to) = (start, end);
        for &(other_start, other_end) in &self.0[first..last] {
            from = from.min(other_start);
            to = to.max(other_end);
        }
        self.0.splice(first..last, [(from, to)]);
        true
    }

    /// Removes a range.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let old = core::mem::take(&mut self.0);
        for (from, to) in old {
            if from < start.min(to) {
                self.0.push((from, to.min(start)));
            }
            if to > end.max(from) {
                self.0.push((from.max(end), to));
            }
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|&(_, end)| end <= number);
        self.0.get(after).is_some_and(|&(start, _)| start <= number)
    }

    /// Returns whether the set contains all numbers below `end`.
    pub(super) fn covers(&self, end: u64) -> bool {
        end == 0 || self.0.first().is_some_and(|&(start, to)| start == 0 && to >= end)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether numbers are missing between others.
    pub(super) fn has_gaps(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the ranges, the largest numbers first.
    pub(super) fn descending(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().rev().copied()
    }

    /// Returns at most `most` ranges, those with the largest numbers.
    pub(super) fn newest(&self, most: usize) -> Self {
        Self(self.0[self.0.len().saturating_sub(most)..].to_vec())
    }

    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    pub(super) fn largest(&self) -> Option<u64> {
        self.0.last().map(|&(_, end)| end - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_where_they_touch() {
        let mut ranges = Ranges::default();
        assert!(ranges.insert(4, 6));
        assert!(ranges.insert(0, 2));
        assert!(!ranges.insert(5, 6));
        assert!(!ranges.covers(6));
        assert!(ranges.insert(2, 4));
        assert!(ranges.covers(6) && !ranges.covers(7));
        assert_eq!(ranges.descending().collect::<Vec<_>>(), [(0, 6)]);
        assert!(ranges.contains(5) && !ranges.contains(6));
    }

    #[test]
    fn what_is_removed_leaves_a_gap() {
        let mut ranges = Ranges::default();
        ranges.insert(0, 10);
        ranges.remove(3, 5);
        assert_eq!(ranges.descending().collect::<Vec<_>>(), [(5, 10), (0, 3)]);
        ranges.remove(0, 20);
        assert!(ranges.is_empty());
        ranges.remove(0, 1);
        assert_eq!(ranges.largest(), None);
    }

    /// Every range of up to seven numbers, inserted into or removed from every set of them: the
    /// set's members are the answer.
    #[test]
    fn ranges_behave_like_a_set() {
        const NUMBERS: u64 = 7;
        let members = |set: u32| (0..NUMBERS).filter(move |n| set & 1 << n != 0);
        let ranges_of = |set: u32| {
            let mut ranges = Ranges::default();
            members(set).for_each(|n| assert!(ranges.insert(n, n + 1)));
            ranges
        };
        for set in 0..1 << NUMBERS {
            let ranges = ranges_of(set);
            let holds = |n: u64| set & 1 << n != 0;
            let runs: Vec<(u64, u64)> = members(set)
                .filter(|&n| n == 0 || !holds(n - 1))
                .map(|n| (n, (n..=NUMBERS).find(|&end| !holds(end)).expect("it ends")))
                .collect();
            let newest: Vec<_> = runs.iter().rev().copied().collect();
            assert_eq!(ranges.descending().collect::<Vec<_>>(), newest);
            assert_eq!(ranges.first(), runs.first().copied());
            assert_eq!(ranges.largest(), members(set).next_back());
            assert_eq!((ranges.is_empty(), ranges.has_gaps()), (set == 0, runs.len() > 1));
            for most in 0..4 {
                let some = ranges.newest(most).descending().collect::<Vec<_>>();
                assert_eq!(some, newest[..most.min(newest.len())]);
            }
            for n in 0..=NUMBERS {
                assert_eq!(ranges.contains(n), holds(n));
                assert_eq!(ranges.covers(n), (0..n).all(holds));
            }
            for start in 0..=NUMBERS {
                for end in 0..=NUMBERS {
                    let range = (start..end).fold(0, |range, n| range | 1 << n);
                    let mut grown = ranges.clone();
                    assert_eq!(grown.insert(start, end), range & !set != 0, "{start} {end}");
                    assert_eq!(grown, ranges_of(set | range), "{set:b} {start} {end}");
                    let mut rest = ranges.clone();
                    rest.remove(start, end);
                    assert_eq!(rest, ranges_of(set & !range), "{set:b} {start} {end}");
                }
            }
        }
    }
}
