//! The sequence of a direction's packets, each heard or missing: how many are missing, and in
//! bursts of which length.
//!
//! Packets are resolved in a different order from that in which they were sent. Those after the
//! first unresolved one wait, so memory grows with what is under way, not with the call.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Sequence {
    /// The number of the first unresolved packet.
    first: u32,
    /// From there on: whether each packet was heard; `None`: unresolved.
    later: VecDeque<Option<bool>>,
    heard: u64,
    missing: u64,
    /// Runs of missing packets.
    bursts: u64,
    /// Whether the last packet before `first` is missing.
    in_burst: bool,
}

impl Sequence {
    pub(super) const fn new() -> Self {
        Self { first: 0, later: VecDeque::new(), heard: 0, missing: 0, bursts: 0, in_burst: false }
    }

    /// Adds the next packet. Returns its number.
    pub(super) fn send(&mut self) -> u32 {
        self.later.push_back(None);
        self.first.wrapping_add(self.later.len() as u32 - 1)
    }

    /// Resolves a packet as heard or missing.
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

    /// Returns the percentage of resolved packets that are missing; NaN if none is resolved.
    pub(super) fn missing_percent(&self) -> f64 {
        100.0 * self.missing as f64 / (self.heard + self.missing) as f64
    }

    /// Returns the mean length of bursts, divided by 1 / (1 - p), the mean length for random losses
    /// of probability p (G.107, 7.5); 1 without losses.
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
        let mut sequence = Sequence::new();
        let numbers: Vec<u32> = ends.bytes().map(|_| sequence.send()).collect();
        // In reverse: the order does not matter.
        for (number, end) in numbers.into_iter().zip(ends.bytes()).rev() {
            sequence.resolve(number, end == b'.');
        }
        sequence
    }

    #[test]
    fn a_burst_ratio_compares_with_random_losses() {
        // Four of ten are missing, in bursts of three and one: 2 x 0.6.
        let bursty = sequence("..xxx...x.");
        assert_eq!((bursty.missing_percent(), bursty.burst_ratio()), (40.0, 1.2));
        assert_eq!(sequence("x.x.x.x.").burst_ratio(), 0.5);
        assert_eq!(sequence("....").burst_ratio(), 1.0);
        assert!(Sequence::new().missing_percent().is_nan());
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let mut sequence = Sequence::new();
        let numbers = [0; 3].map(|_| sequence.send());
        sequence.resolve(numbers[0], true);
        sequence.resolve(numbers[2], false);
        assert_eq!(sequence.missing_percent(), 0.0);
        assert_eq!(sequence.later.len(), 2);
    }
}
