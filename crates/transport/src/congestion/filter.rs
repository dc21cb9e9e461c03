//! The maximum of the last rounds or milliseconds. For the minimum, the values are [`Reverse`]d.
//!
//! Written from Kathleen Nichols' description of a windowed filter, which Linux 6.1 uses too. It
//! needs constant space, because it keeps only the best three samples of a window. None is older
//! than the one before it. When the best is older than the window, the second takes its place.
//!
//! [`Reverse`]: core::cmp::Reverse

/// A sample, and its round or millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct Sample<V> {
    at: u32,
    value: V,
}

/// The best, second best and third best samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaxFilter<V> {
    best: [Sample<V>; 3],
}

impl<V: Copy + Ord> MaxFilter<V> {
    /// Creates a filter with its first sample.
    pub(crate) fn new(at: u32, value: V) -> Self {
        Self { best: [Sample { at, value }; 3] }
    }

    /// Returns the maximum.
    #[inline]
    pub(crate) fn max(&self) -> V {
        self.best[0].value
    }

    /// Takes the `value` of a round or millisecond into a filter over `window` of them.
    #[inline]
    pub(crate) fn note(&mut self, at: u32, value: V, window: u32) {
        let [first, _, third] = self.best;
        // Most samples are worse than all three, and change nothing for a quarter of the window.
        if value >= third.value || at.wrapping_sub(first.at) > window / 4 {
            self.replace(at, value, window);
        }
    }

    fn replace(&mut self, at: u32, value: V, window: u32) {
        let sample = Sample { at, value };
        let age = |kept: Sample<V>| at.wrapping_sub(kept.at);
        let [first, mut second, mut third] = self.best;
        if value >= first.value || age(third) > window {
            self.best = [sample; 3];
            return;
        }
        if value >= third.value {
            third = sample;
        }
        if value >= second.value {
            second = sample;
        }
        // A sample too old gives way to the next ones. Two that are one and the same tell nothing
        // about a later part of the window, so the newest takes over there: from the second quarter
        // on, and from the second half on.
        self.best = match age(first) {
            old if old > window && age(second) > window => [third, sample, sample],
            old if old > window => [second, third, sample],
            old if old > window / 4 && second.at == first.at => [first, sample, sample],
            old if old > window / 2 && third.at == second.at => [first, second, sample],
            _ => [first, second, third],
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maxima(values: &[(u32, u64)]) -> alloc::vec::Vec<u64> {
        let mut filter = MaxFilter::default();
        values
            .iter()
            .map(|&(round, value)| {
                filter.note(round, value, 10);
                filter.max()
            })
            .collect()
    }

    #[test]
    fn a_maximum_lasts_for_its_window_and_gives_way_to_the_next() {
        assert_eq!(maxima(&[(0, 5), (1, 9), (2, 3)]), [5, 9, 9]);
        // The second best of rounds 4 to 6 takes over when the best is 11 rounds old.
        let values = [(1, 9), (4, 7), (6, 6), (11, 3), (12, 3)];
        assert_eq!(maxima(&values), [9, 9, 9, 9, 7]);
        // Nothing for more than a window: everything starts anew.
        assert_eq!(maxima(&[(1, 9), (2, 8), (30, 1)]), [9, 9, 1]);
    }

    /// A true maximum over the last ten rounds is never exceeded, and is met for falling values.
    #[test]
    fn it_is_a_maximum_of_the_window() {
        let mut state = 1u64;
        let mut values = alloc::vec::Vec::new();
        let mut filter = MaxFilter::default();
        for round in 0..500u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            values.push(state >> 40);
            filter.note(round, state >> 40, 10);
            let since = values.len().saturating_sub(11);
            let most = values[since..].iter().copied().max().unwrap_or(0);
            assert!(filter.max() <= most, "round {round}");
            assert!(filter.max() >= *values.last().unwrap_or(&0), "round {round}");
        }
    }
}
