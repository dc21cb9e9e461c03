//! How long the server takes, from getting a query to having sent its reply.
//!
//! A histogram in quarter octaves, so a quantile is accurate to a quarter in a fixed amount of
//! memory. Below 4 µs each microsecond has a bucket. From there on each power of two has four
//! buckets, up to 16 s. `bpf/reply.h` counts in the same buckets.

/// The number of buckets.
pub const BUCKETS: usize = 92;

/// How many replies took how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum_us: 0 }
    }
}

impl Latencies {
    /// Reads the counts of the buckets, which are followed by the sum in microseconds. Returns
    /// `None` if there are too few.
    pub fn of(words: &[u64]) -> Option<Self> {
        let (counts, sum) = words.split_first_chunk()?;
        Some(Self { counts: *counts, sum_us: *sum.first()? })
    }

    /// Returns the words that [`Latencies::of`] reads.
    pub fn words(&self) -> Vec<u64> {
        [&self.counts[..], &[self.sum_us]].concat()
    }

    /// Adds one.
    pub(super) fn add(&mut self, us: u32) {
        self.counts[bucket(us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us.into());
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns their sum in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_us as f64 / 1e6
    }

    /// Returns those that came after an earlier count.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut fresh = self.clone();
        for (count, before) in fresh.counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(before);
        }
        fresh.sum_us = fresh.sum_us.saturating_sub(earlier.sum_us);
        fresh
    }

    /// Returns how many microseconds this share (0 to 1) of them stayed below; `None` if there are
    /// none. Anything above 16 s counts as 16 s.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let all = self.count();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let reached = |count: &u64| {
            below += count;
            below >= wanted
        };
        let at = self.counts.iter().position(reached).filter(|_| all > 0)?;
        Some(end_us(at))
    }

    /// Returns, for each power of two of microseconds, this time in seconds and how many took less
    /// than it but not less than the one before. The last pair counts all that took longer.
    pub fn octaves(&self) -> Vec<(f64, u64)> {
        let (first, rest) = self.counts.split_at(4);
        let rest = rest.chunks(4).enumerate();
        let mut octaves = vec![(4e-6, first.iter().sum())];
        octaves.extend(rest.map(|(at, four)| (end_us(7 + 4 * at) as f64 / 1e6, four.iter().sum())));
        if let Some((end, _)) = octaves.last_mut() {
            *end = f64::MAX;
        }
        octaves
    }
}

/// Returns the bucket for this many microseconds.
fn bucket(us: u32) -> usize {
    if us < 4 {
        return us as usize;
    }
    let octave = us.ilog2();
    let quarter = us >> (octave - 2) & 3;
    ((octave - 1) * 4 + quarter).min(BUCKETS as u32 - 1) as usize
}

/// Returns where a bucket ends, in microseconds.
fn end_us(bucket: usize) -> u64 {
    match bucket as u64 {
        at @ 0..4 => at + 1,
        at => (4 + at % 4 + 1) << (at / 4 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_below_its_buckets_end_and_not_below_the_one_before() {
        for us in (0..5000).chain([9_999_999, 16_777_215]) {
            let at = bucket(us);
            assert!(u64::from(us) < end_us(at), "{us}");
            assert!(at == 0 || u64::from(us) >= end_us(at - 1), "{us}");
        }
        assert_eq!((bucket(u32::MAX), end_us(BUCKETS - 1)), (BUCKETS - 1, 1 << 24));
    }

    #[test]
    fn quantiles_are_right_to_a_quarter() {
        let mut all = Latencies::default();
        assert_eq!(all.quantile_us(0.5), None);
        (1..=1000).for_each(|us| all.add(us));
        for (share, exact) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = all.quantile_us(share).expect("some") as f64;
            assert!(found >= exact && found <= exact * 1.25 + 1.0, "{share}: {found}");
        }
        assert_eq!((all.count(), all.sum_s()), (1000, 0.5005));
    }

    #[test]
    fn octaves_hold_all() {
        let mut all = Latencies::default();
        [0, 3, 4, 7, 8, 1000, 20_000_000].into_iter().for_each(|us| all.add(us));
        let octaves = all.octaves();
        assert_eq!(octaves[..3], [(4e-6, 2), (8e-6, 2), (16e-6, 1)]);
        assert_eq!(octaves.iter().map(|(_, n)| n).sum::<u64>(), 7);
        assert_eq!(octaves.last(), Some(&(f64::MAX, 1)));
    }

    #[test]
    fn words_and_back_and_what_is_new() {
        let mut all = Latencies::default();
        all.add(10);
        let before = all.clone();
        all.add(700);
        assert_eq!(Latencies::of(&all.words()), Some(all.clone()));
        assert_eq!(Latencies::of(&[1, 2]), None);
        let fresh = all.since(&before);
        assert_eq!((fresh.count(), fresh.sum_s()), (1, 700e-6));
    }
}
