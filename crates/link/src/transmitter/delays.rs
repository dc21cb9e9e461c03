//! How long packets waited in a queue, by the ECN field with which they arrived: from their arrival
//! until their transmission began, without the transmission itself. Quantiles come from bins that are
//! at most 1/64 as wide as the time.

use alloc::vec::Vec;

use narrows_qdisc::Ecn;
use narrows_units::{Span, Time};

/// The waiting times, marks and drops of one queue within a window of time.
#[derive(Clone, Debug)]
pub struct Delays {
    from: Time,
    to: Time,
    classes: [Class; 4],
}

/// The packets that arrived with one ECN field.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Packets that left.
    pub sent: u64,
    /// Of these, those that were marked.
    pub marked: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    total_ns: u128,
    longest_ns: u64,
    /// The number of packets in each bin of waiting times.
    bins: Vec<u64>,
}

/// Packets that waited for `from_ms` or longer, and for less than `to_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Where the bin begins.
    pub from_ms: f64,
    /// Where it ends, at most 1.6 % later, or a nanosecond.
    pub to_ms: f64,
    /// How many packets are in it.
    pub packets: u64,
}

impl Delays {
    /// Creates the state for packets that leave or are dropped at or after `from` and before `to`.
    pub fn new(from: Time, to: Time) -> Self {
        Self { from, to, classes: <[Class; 4]>::default() }
    }

    /// Notes that a packet whose transmission begins at `at` has waited for `wait`. `before` and
    /// `after` are its ECN fields on arrival and when it leaves.
    #[inline]
    pub(super) fn note_sent(&mut self, at: Time, wait: Span, before: Ecn, after: Ecn) {
        if self.covers(at) {
            let class = &mut self.classes[before as usize];
            class.note(wait);
            class.marked += u64::from(before != after);
        }
    }

    /// Notes that a packet was dropped at `at`.
    #[inline]
    pub(super) fn note_dropped(&mut self, at: Time, before: Ecn) {
        if self.covers(at) {
            self.classes[before as usize].dropped += 1;
        }
    }

    fn covers(&self, at: Time) -> bool {
        self.from <= at && at < self.to
    }

    /// Returns the classes that had packets, each with the RFCs' name of its ECN field.
    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &Class)> {
        ["not-ect", "ect1", "ect0", "ce"]
            .into_iter()
            .zip(&self.classes)
            .filter(|(_, class)| class.sent + class.dropped > 0)
    }
}

impl Class {
    fn note(&mut self, wait: Span) {
        let ns = wait.as_ps() / 1000;
        let bin = bin_of(ns);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.sent += 1;
        self.total_ns += u128::from(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// Returns the bins that hold packets, in order.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        self.bins.iter().enumerate().filter(|&(_, &packets)| packets > 0).map(|(bin, &packets)| {
            let ms = |bin| least_in(bin) as f64 / 1e6;
            Bin { from_ms: ms(bin), to_ms: ms(bin + 1), packets }
        })
    }

    /// Returns the mean waiting time in milliseconds; NaN without packets.
    pub fn mean_ms(&self) -> f64 {
        self.total_ns as f64 / self.sent as f64 / 1e6
    }

    /// Returns the longest waiting time in milliseconds; NaN without packets.
    pub fn longest_ms(&self) -> f64 {
        if self.sent == 0 { f64::NAN } else { self.longest_ns as f64 / 1e6 }
    }

    /// Returns the waiting time in milliseconds that a `share` of the packets does not exceed, to
    /// within 1 %; NaN without packets.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = share * self.sent as f64;
        let mut packets = 0;
        for (bin, &count) in self.bins.iter().enumerate() {
            packets += count;
            if count > 0 && packets as f64 >= wanted {
                let middle = u64::midpoint(least_in(bin), least_in(bin + 1));
                return middle.min(self.longest_ns) as f64 / 1e6;
            }
        }
        f64::NAN
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
    fn quantiles_and_means_are_of_the_window() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut delays = Delays::new(at(10), at(2000));
        delays.note_sent(at(9), Span::from_ms(500), Ecn::Ect0, Ecn::Ect0);
        delays.note_sent(at(2000), Span::from_ms(500), Ecn::Ect0, Ecn::Ect0);
        for ms in 1..=100 {
            let after = if ms % 10 == 0 { Ecn::Ce } else { Ecn::Ect0 };
            delays.note_sent(at(10 + ms), Span::from_ms(ms), Ecn::Ect0, after);
        }
        delays.note_dropped(at(11), Ecn::NotEct);
        let classes: Vec<_> = delays.classes().collect();
        assert_eq!(classes.iter().map(|class| class.0).collect::<Vec<_>>(), ["not-ect", "ect0"]);
        let (lost, ect0) = (classes[0].1, classes[1].1);
        assert_eq!((lost.sent, lost.dropped), (0, 1));
        assert!(lost.mean_ms().is_nan() && lost.quantile_ms(0.5).is_nan());
        assert_eq!((ect0.sent, ect0.marked, ect0.dropped), (100, 10, 0));
        assert_eq!((ect0.mean_ms(), ect0.longest_ms()), (50.5, 100.0));
        let bins: Vec<_> = ect0.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.packets).sum::<u64>(), 100);
        for ms in 1..=100 {
            let ms = f64::from(ms);
            assert!(bins.iter().any(|bin| bin.from_ms <= ms && ms < bin.to_ms), "{ms}");
        }
        assert!(bins.iter().all(|bin| bin.to_ms / bin.from_ms < 1.0 + 1.01 / 64.0));
        for (share, ms) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let quantile = ect0.quantile_ms(share);
            assert!((quantile / ms - 1.0).abs() < 0.01, "{share}: {quantile}");
        }
    }
}
