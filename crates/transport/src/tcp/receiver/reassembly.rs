//! Data that arrived out of order, and the SACK blocks that report it.
//!
//! Written from RFC 2018 (4) and RFC 2883 (4). Four blocks are kept, as in Linux 6.1.

use crate::tcp::Seq;
use alloc::vec::Vec;

/// The ranges above `rcv_nxt`, and the order in which they arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Reassembly {
    /// Disjoint, not adjacent, ascending.
    ranges: Vec<(Seq, Seq)>,
    /// What is reported, the latest first.
    blocks: [(Seq, Seq); 4],
    count: u8,
}

/// So many blocks are usual. A compressed acknowledgement waits while not more have changed.
const EXPECTED_BLOCKS: usize = 2;

impl Reassembly {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the blocks to report, the latest first.
    #[inline]
    pub(super) fn blocks(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Returns whether all of `[seq, end)` is there.
    pub(super) fn holds(&self, seq: Seq, end: Seq) -> bool {
        let at = self.ranges.partition_point(|range| range.1.before(end));
        self.ranges.get(at).is_some_and(|range| !seq.before(range.0))
    }

    /// Inserts `[seq, end)`. Returns true if so many blocks have changed that a compressed
    /// acknowledgement must not wait. The part that was there already becomes a D-SACK.
    pub(super) fn insert(&mut self, seq: Seq, end: Seq, dsack: &mut Option<(Seq, Seq)>) -> bool {
        // Ranges that overlap or touch the new one: [first, last).
        let first = self.ranges.partition_point(|range| range.1.before(seq));
        let last = first + self.ranges[first..].partition_point(|range| !range.0.after(end));
        let (mut start, mut stop) = (seq, end);
        if first < last {
            let (low, high) = (self.ranges[first], self.ranges[last - 1]);
            for range in &self.ranges[first..last] {
                let from = range.0.max(seq);
                let to = if range.1.before(end) { range.1 } else { end };
                if from.before(to) {
                    *dsack = Some((from, to));
                }
            }
            start = if low.0.before(seq) { low.0 } else { seq };
            stop = high.1.max(end);
        }
        self.ranges.splice(first..last, [(start, stop)]);
        self.report(start, stop)
    }

    /// Puts the block with the new data first.
    fn report(&mut self, start: Seq, end: Seq) -> bool {
        let count = usize::from(self.count);
        let touched = self.blocks[..count]
            .iter()
            .position(|block| !block.0.after(end) && !start.after(block.1));
        let crowded = touched.unwrap_or(count) >= EXPECTED_BLOCKS;
        // All blocks inside the merged range are now one.
        let mut kept = 0;
        let mut blocks = [(start, end); 4];
        for &block in &self.blocks[..count] {
            let inside = !block.0.after(end) && !start.after(block.1);
            if !inside && kept + 1 < blocks.len() {
                kept += 1;
                blocks[kept] = block;
            }
        }
        self.blocks = blocks;
        self.count = kept as u8 + 1;
        crowded
    }

    /// Removes everything that follows `next` without a gap. Returns the new end.
    pub(super) fn take_in_order(&mut self, mut next: Seq) -> Seq {
        let taken = self
            .ranges
            .iter()
            .take_while(|range| {
                let joins = !range.0.after(next);
                if joins {
                    next = next.max(range.1);
                }
                joins
            })
            .count();
        self.ranges.drain(..taken);
        let mut kept = 0;
        for at in 0..usize::from(self.count) {
            if self.blocks[at].0.after(next) {
                self.blocks[kept] = self.blocks[at];
                kept += 1;
            }
        }
        self.count = kept as u8;
        next
    }

    /// Returns the heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<(Seq, Seq)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u32, end: u32) -> (Seq, Seq) {
        (Seq(start), Seq(end))
    }

    #[test]
    fn rfc2018_4_the_first_block_holds_the_segment_that_came_last() {
        let mut queue = Reassembly::default();
        let mut dsack = None;
        for start in [5500, 6500, 7500] {
            queue.insert(Seq(start), Seq(start + 500), &mut dsack);
        }
        assert_eq!(queue.blocks(), [block(7500, 8000), block(6500, 7000), block(5500, 6000)]);
        queue.insert(Seq(6000), Seq(6500), &mut dsack);
        assert_eq!(queue.blocks(), [block(5500, 7000), block(7500, 8000)]);
        assert_eq!(dsack, None);
    }

    #[test]
    fn rfc2883_4_a_duplicate_above_the_gap_is_reported() {
        let mut queue = Reassembly::default();
        let mut dsack = None;
        queue.insert(Seq(100), Seq(300), &mut dsack);
        queue.insert(Seq(100), Seq(200), &mut dsack);
        assert_eq!(dsack, Some(block(100, 200)));
        assert_eq!(queue.blocks(), [block(100, 300)]);
    }

    #[test]
    fn a_filled_gap_releases_what_follows_it() {
        let mut queue = Reassembly::default();
        let mut dsack = None;
        queue.insert(Seq(100), Seq(200), &mut dsack);
        queue.insert(Seq(300), Seq(400), &mut dsack);
        assert_eq!(queue.take_in_order(Seq(100)), Seq(200));
        assert_eq!(queue.blocks(), [block(300, 400)]);
        assert_eq!(queue.take_in_order(Seq(350)), Seq(400));
        assert!(queue.is_empty());
    }
}
