//! How long packets waited in a queue, by the ECN field with which they arrived: from their arrival
//! until their transmission began, without the transmission itself.

use narrows_qdisc::Ecn;
use narrows_units::{Span, Time};

use super::histogram::Histogram;

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
    /// How long the packets that left have waited.
    pub waits: Histogram,
    /// Of these, those that were marked.
    pub marked: u64,
    /// Packets that were dropped.
    pub dropped: u64,
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
            class.waits.note(wait);
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
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]
            .map(Ecn::name)
            .into_iter()
            .zip(&self.classes)
            .filter(|(_, class)| class.waits.count() + class.dropped > 0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

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
        assert_eq!((lost.waits.count(), lost.dropped), (0, 1));
        assert!(lost.waits.mean_ms().is_nan() && lost.waits.quantile_ms(0.5).is_nan());
        assert_eq!((ect0.waits.count(), ect0.marked, ect0.dropped), (100, 10, 0));
        assert_eq!((ect0.waits.mean_ms(), ect0.waits.longest_ms()), (50.5, 100.0));
        let bins: Vec<_> = ect0.waits.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.packets).sum::<u64>(), 100);
        for ms in 1..=100 {
            let ms = f64::from(ms);
            assert!(bins.iter().any(|bin| bin.from_ms <= ms && ms < bin.to_ms), "{ms}");
        }
        assert!(bins.iter().all(|bin| bin.to_ms / bin.from_ms < 1.0 + 1.01 / 64.0));
        for (share, ms) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let quantile = ect0.waits.quantile_ms(share);
            assert!((quantile / ms - 1.0).abs() < 0.01, "{share}: {quantile}");
        }
    }
}
