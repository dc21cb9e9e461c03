//! The sequence of a direction's packets, in which each is heard or missing: how many are missing,
//! and in bursts of which length.
//!
//! What became of packets is known in another order than that in which they were sent. So those
//! behind the first unknown one wait, and memory grows with what is under way, not with the call.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The number of the first packet whose end is unknown.
    first: u32,
    /// From there on: whether it was heard; `None`: unknown.
    later: VecDeque<Option<bool>>,
    heard: u64,
    missing: u64,
    /// Runs of missing packets.
    bursts: u64,
    /// The last one before `first` is missing.
    in_burst: bool,
}

impl Sequence {
    /// The next packet is sent; gives its number.
    pub(super) fn send(&mut self) -> u32 {
        self.later.push_back(None);
        self.first.wrapping_add(self.later.len() as u32 - 1)
    }

    /// A packet is heard, or missing.
    pub(super) fn resolve(&mut self, number: u32, heard: bool) {
        let index = number.wrapping_sub(self.first) as usize;
        if let Some(end) = self.later.get_mut(index) {
            *end = Some(heard);
        }
        while let Some(&Some(heard)) = self.later.front() {
            self.later.pop_front();
            self.first = self.first.wrapping_add(1);
            self.heard += u64::from(heard);
            self.missing += u64::from(!heard);
            self.bursts += u64::from(!heard && !self.in_burst);
            self.in_burst = !heard;
        }
    }

    /// In percent of those whose end is known; NaN: none is.
    pub(super) fn missing_percent(&self) -> f64 {
        100.0 * self.missing as f64 / (self.heard + self.missing) as f64
    }

    /// The mean length of bursts, over 1 / (1 - p), which is that of random losses of probability p
    /// (G.107, 7.5); 1 without losses.
    pub(super) fn burst_ratio(&self) -> f64 {
        if self.bursts == 0 {
            return 1.0;
        }
        let share = self.missing_percent() / 100.0;
        self.missing as f64 / self.bursts as f64 * (1.0 - share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(ends: &str) -> Sequence {
        let mut sequence = Sequence::default();
        let numbers: Vec<u32> = ends.bytes().map(|_| sequence.send()).collect();
        // From behind: the order does not matter.
        for (number, end) in numbers.into_iter().zip(ends.bytes()).rev() {
            sequence.resolve(number, end == b'.');
        }
        sequence
    }

    #[test]
    fn a_burst_ratio_compares_with_random_losses() {
        // Four of ten, in bursts of three and one: 2 x 0.6.
        let bursty = sequence("..xxx...x.");
        assert_eq!((bursty.missing_percent(), bursty.burst_ratio()), (40.0, 1.2));
        assert_eq!(sequence("x.x.x.x.").burst_ratio(), 0.5);
        assert_eq!(sequence("....").burst_ratio(), 1.0);
        assert!(Sequence::default().missing_percent().is_nan());
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let mut sequence = Sequence::default();
        let numbers = [0; 3].map(|_| sequence.send());
        sequence.resolve(numbers[0], true);
        sequence.resolve(numbers[2], false);
        assert_eq!(sequence.missing_percent(), 0.0);
        assert_eq!(sequence.later.len(), 2);
    }
}
