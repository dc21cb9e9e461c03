//! A histogram of times, in bins that are at most 1/64 as wide as the time. A bin's middle is within
//! 0.8 % of every time in it.

use alloc::vec::Vec;

use narrows_units::Span;

/// Times and how often they occurred. The mean and the longest are exact to a nanosecond.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    count: u64,
    total_ns: u128,
    longest_ns: u64,
    /// The first bin of `bins`. Most histograms span a few octaves, and there may be many.
    first: usize,
    /// How many times lie in each bin.
    bins: Vec<u64>,
}

/// Packets whose time was `from_ms` or longer, and shorter than `to_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Where the bin begins.
    pub from_ms: f64,
    /// Where it ends, at most 1.6 % later, or a nanosecond.
    pub to_ms: f64,
    /// How many packets are in it.
    pub packets: u64,
}

impl Histogram {
    /// Adds a time.
    pub fn note(&mut self, time: Span) {
        let ns = time.as_ps() / 1000;
        let bin = bin_of(ns);
        *self.bin_mut(bin) += 1;
        self.count += 1;
        self.total_ns += u128::from(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Returns the count of a bin, to be changed.
    #[inline]
    fn bin_mut(&mut self, bin: usize) -> &mut u64 {
        if bin.wrapping_sub(self.first) >= self.bins.len() {
            self.widen(bin);
        }
        &mut self.bins[bin - self.first]
    }

    /// Makes room for a bin outside of the present ones.
    #[cold]
    fn widen(&mut self, bin: usize) {
        if self.bins.is_empty() {
            self.first = bin;
        }
        if bin < self.first {
            let missing = self.first - bin;
            self.bins.splice(0..0, core::iter::repeat_n(0, missing));
            self.first = bin;
        } else {
            self.bins.resize(bin - self.first + 1, 0);
        }
    }

    /// Adds the times of another one.
    pub fn add(&mut self, other: &Self) {
        for (bin, count) in other.counts() {
            *self.bin_mut(bin) += count;
        }
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bins that hold packets, in order.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        let ms = |bin| least_in(bin) as f64 / 1e6;
        self.counts().map(move |(bin, packets)| Bin {
            from_ms: ms(bin),
            to_ms: ms(bin + 1),
            packets,
        })
    }

    /// Returns the mean in milliseconds; NaN without times.
    pub fn mean_ms(&self) -> f64 {
        self.total_ns as f64 / self.count as f64 / 1e6
    }

    /// Returns the longest in milliseconds; NaN without times.
    pub fn longest_ms(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.longest_ns as f64 / 1e6 }
    }

    /// Returns the time in milliseconds that a `share` of the times does not exceed, to within 1 %;
    /// NaN without times.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut packets = 0;
        for (bin, count) in self.counts() {
            packets += count;
            if packets as f64 >= wanted {
                let middle = u64::midpoint(least_in(bin), least_in(bin + 1));
                return middle.min(self.longest_ns) as f64 / 1e6;
            }
        }
        f64::NAN
    }

    /// Returns the bins that are not empty, and how many times lie in each.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.bins.iter().zip(self.first..);
        counts.filter(|&(&count, _)| count > 0).map(|(&count, bin)| (bin, count))
    }
}

/// The number of bins in an octave.
const BINS: u64 = 64;

/// Returns the bin of a time: below 128 ns each has its own, and then 64 share an octave.
fn bin_of(ns: u64) -> usize {
    let octave = (ns / BINS).checked_ilog2().unwrap_or(0);
    (u64::from(octave) * BINS + (ns >> octave)) as usize
}

/// Returns the least time of a bin.
fn least_in(bin: usize) -> u64 {
    let bin = bin as u64;
    let octave = (bin / BINS).saturating_sub(1);
    (bin - octave * BINS) << octave
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_narrow_and_leave_nothing_out() {
        let mut last = 0;
        for ns in (0..100_000).chain([1 << 30, (1 << 30) + 1, 1 << 40, u64::MAX / 2]) {
            let bin = bin_of(ns);
            assert!(least_in(bin) <= ns && ns < least_in(bin + 1), "{ns} in {bin}");
            assert!(least_in(bin + 1) - least_in(bin) <= 1 + ns / BINS, "{ns} in {bin}");
            assert!(bin == last || bin == last + 1 || ns > 100_000);
            last = bin;
        }
    }

    #[test]
    fn times_may_come_in_any_order() {
        let mut up = Histogram::default();
        let mut down = Histogram::default();
        for ms in 1..=1000 {
            up.note(Span::from_ms(ms));
            down.note(Span::from_ms(1001 - ms));
        }
        assert!(up.bins().eq(down.bins()));
        assert_eq!((up.count(), up.mean_ms(), up.longest_ms()), (1000, 500.5, 1000.0));
        assert_eq!(up.bins().map(|bin| bin.packets).sum::<u64>(), 1000);
        for share in [0.001, 0.5, 0.99, 0.999, 1.0] {
            let exact = 1000.0 * share;
            assert!((up.quantile_ms(share) / exact - 1.0).abs() < 0.01, "{share}");
        }
        up.add(&down);
        assert_eq!((up.count(), up.mean_ms(), up.longest_ms()), (2000, 500.5, 1000.0));
        assert!(up.bins().zip(down.bins()).all(|(both, one)| both.packets == 2 * one.packets));
    }
}
