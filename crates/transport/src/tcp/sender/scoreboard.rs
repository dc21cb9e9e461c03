//! The scoreboard: one 16-byte record for each segment in flight, in order of sequence.
//!
//! The scoreboard of RFC 6675 (3), with marks for what is lost and what was sent again. Segments are
//! never split or joined after they were sent, except when the path's MTU has shrunk, so one record
//! is one packet. The ring doubles when it is full, so a full window costs at most 32 bytes for
//! each segment.

use crate::congestion::Delivered;
use crate::prefetch::{Prefetch, Step};
use crate::tcp::Seq;
use alloc::boxed::Box;
use alloc::vec;

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Record {
    pub seq: Seq,
    /// When it was last sent.
    pub sent_us: u32,
    /// The segments delivered when it was last sent.
    pub delivered: u32,
    /// Payload bytes.
    pub len: u16,
    /// Its state: `SACKED`, `LOST`, `RETRANSMITTED`, `EVER_RETRANSMITTED`, `FIN`, `PSH`,
    /// `UNLISTED`.
    pub flags: u8,
}

const _: () = assert!(size_of::<Record>() == 16);

/// A SACK block covers the segment.
pub(super) const SACKED: u8 = 1;
/// It counts as lost.
pub(super) const LOST: u8 = 2;
/// A retransmission is in flight.
pub(super) const RETRANSMITTED: u8 = 4;
/// It was sent again at some time.
pub(super) const EVER_RETRANSMITTED: u8 = 8;
/// Either.
pub(super) const RETRANS: u8 = RETRANSMITTED | EVER_RETRANSMITTED;
/// The segment carries FIN.
pub(super) const FIN: u8 = 16;
/// The segment carries PSH.
pub(super) const PSH: u8 = 32;
/// RACK has found it lost, and does not look at it again until it is retransmitted, even if an undo
/// says that it is not lost.
pub(super) const UNLISTED: u8 = 64;

impl Record {
    /// Returns the sequence number after it.
    #[inline]
    pub(super) fn end(&self) -> Seq {
        self.seq + (u32::from(self.len) + u32::from(self.flags & FIN != 0))
    }

    /// Returns what a rate sample needs of it once it is delivered.
    #[inline]
    pub(super) fn to_delivered(self) -> Delivered {
        let (sent_us, prior_delivered) = (self.sent_us, self.delivered);
        Delivered { end: self.end(), sent_us, prior_delivered }
    }

    #[inline]
    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// A ring of records. Positions are absolute: they stay the same while the head moves on.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    records: Box<[Record]>,
    head: u32,
    tail: u32,
}

impl Scoreboard {
    /// Returns the position of the oldest record.
    #[inline]
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Returns the position after the newest record.
    #[inline]
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    #[inline]
    fn slot(&self, position: u32) -> usize {
        position as usize & (self.records.len().wrapping_sub(1))
    }

    /// Returns the record at a position between head and tail.
    #[inline]
    pub(super) fn at(&self, position: u32) -> &Record {
        &self.records[self.slot(position)]
    }

    /// Returns the record at a position between head and tail, to be changed.
    #[inline]
    pub(super) fn at_mut(&mut self, position: u32) -> &mut Record {
        let slot = self.slot(position);
        &mut self.records[slot]
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Record> {
        (!self.is_empty()).then(|| self.at(self.head))
    }

    #[inline]
    pub(super) fn push(&mut self, record: Record) {
        if self.len() as usize == self.records.len() {
            self.grow();
        }
        let slot = self.slot(self.tail);
        self.records[slot] = record;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.head = self.head.wrapping_add(1);
    }

    /// Cuts every record of more than `most` bytes into several, which no longer count as in
    /// flight.
    pub(super) fn split(&mut self, most: u16) {
        let mut cut = Self::default();
        let mut position = self.head;
        while position != self.tail {
            let mut rest = *self.at(position);
            while rest.len > most {
                let first = Record { len: most, flags: cut_flags(rest) & !(FIN | PSH), ..rest };
                cut.push(first);
                rest = Record {
                    seq: first.end(),
                    len: rest.len - most,
                    flags: cut_flags(rest),
                    ..rest
                };
            }
            cut.push(rest);
            position = position.wrapping_add(1);
        }
        *self = cut;
    }

    /// Frees the memory if it is empty.
    pub(super) fn release(&mut self) {
        if self.is_empty() {
            self.records = Box::default();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = (2 * self.records.len()).max(SMALLEST);
        let mut records = vec![Record::default(); capacity].into_boxed_slice();
        let mut position = self.head;
        while position != self.tail {
            records[position as usize & (capacity - 1)] = *self.at(position);
            position = position.wrapping_add(1);
        }
        self.records = records;
    }

    /// Returns the position of the first record that starts at or after `seq`.
    pub(super) fn find(&self, seq: Seq) -> u32 {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(self.head.wrapping_add(middle)).seq.before(seq) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.head.wrapping_add(low)
    }

    /// Returns the heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        self.records.len() * size_of::<Record>()
    }
}

const SMALLEST: usize = 4;

/// Returns the flags for a part of a segment that was too long and has not got through.
fn cut_flags(record: Record) -> u8 {
    record.flags & !(SACKED | RETRANSMITTED) | LOST
}

/// Reads ahead what an acknowledgement and a new segment need.
impl Prefetch for Scoreboard {
    #[inline(always)]
    fn prefetch(&self, (): (), _step: Step) -> u32 {
        let record = |position| self.records.get(self.slot(position)).map_or(0, |r| r.sent_us);
        record(self.head) ^ record(self.head.wrapping_add(1)) ^ record(self.tail)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_full_window_costs_at_most_32_bytes_a_segment() {
        let mut board = Scoreboard::default();
        for n in 1u32..5000 {
            board.push(Record { seq: Seq(n * 100), len: 100, ..Record::default() });
            if n >= 4 {
                assert!(board.heap_bytes() <= 32 * n as usize, "{n} segments");
            }
        }
    }

    #[test]
    fn positions_survive_growth_and_find_is_exact() {
        let mut board = Scoreboard::default();
        for n in 0..3u32 {
            board.push(Record { seq: Seq(n * 10), len: 10, ..Record::default() });
        }
        board.pop();
        for n in 3..20u32 {
            board.push(Record { seq: Seq(n * 10), len: 10, ..Record::default() });
        }
        assert_eq!(board.at(7).seq, Seq(70));
        assert_eq!(board.find(Seq(70)), 7);
        assert_eq!(board.find(Seq(71)), 8);
        assert_eq!(board.find(Seq(0)), 1);
        assert_eq!(board.find(Seq(1000)), board.tail());
    }

    /// The ring behaves like a queue, wherever it begins and however often it has grown. Positions
    /// wrap around.
    #[test]
    fn the_ring_is_a_queue() {
        for (start, kept) in [(0, 1), (3, 4), (u32::MAX - 2, 5), (7, 9)] {
            let mut board = Scoreboard { head: start, tail: start, ..Scoreboard::default() };
            let mut queue = alloc::collections::VecDeque::new();
            for n in 0..40u32 {
                assert_eq!((board.len(), board.is_empty()), (queue.len() as u32, queue.is_empty()));
                assert_eq!(board.front().map(|record| record.seq.0), queue.front().copied());
                board.push(Record { seq: Seq(10 * n), len: 10, ..Record::default() });
                queue.push_back(10 * n);
                if queue.len() > kept {
                    board.pop();
                    queue.pop_front();
                }
                assert_eq!(board.tail().wrapping_sub(board.head()), board.len());
                for (k, &seq) in queue.iter().enumerate() {
                    let position = board.head().wrapping_add(k as u32);
                    assert_eq!(board.at(position).seq, Seq(seq));
                    assert_eq!(board.find(Seq(seq)), position);
                    assert_eq!(board.find(Seq(seq + 1)), position.wrapping_add(1));
                    assert_eq!(board.find(Seq(seq.wrapping_sub(1))), position);
                }
                board.at_mut(board.head()).sent_us = n;
                assert_eq!(board.front().map(|record| record.sent_us), Some(n));
            }
            let places = (kept + 1).next_power_of_two().max(SMALLEST);
            assert_eq!(board.heap_bytes(), places * size_of::<Record>());
            board.release();
            assert!(board.heap_bytes() > 0, "something is in flight");
            (0..kept).for_each(|_| board.pop());
            board.release();
            assert_eq!((board.heap_bytes(), board.front().is_none()), (0, true));
        }
    }

    #[test]
    fn a_record_ends_after_its_payload_and_fin() {
        let record = |len, flags| Record { seq: Seq(100), len, flags, ..Record::default() };
        for (flags, len, end) in [(0, 50, 150), (FIN, 50, 151), (FIN | PSH, 0, 101), (PSH, 1, 101)]
        {
            assert_eq!(record(len, flags).end(), Seq(end));
        }
        assert!(record(1, LOST | FIN).has(LOST | SACKED) && !record(1, LOST).has(SACKED | FIN));
    }

    /// RFC 1191, 6.4: what is too long is cut and lost; FIN and PSH stay with the last part.
    #[test]
    fn long_segments_are_cut() {
        for (len, most, parts) in [
            (1000, 1000, &[1000][..]),
            (1001, 1000, &[1000, 1]),
            (2000, 1000, &[1000, 1000]),
            (2500, 1000, &[1000, 1000, 500]),
            (0, 1000, &[0]),
        ] {
            let mut board = Scoreboard::default();
            board.push(Record { seq: Seq(50), len: 10, flags: SACKED, ..Record::default() });
            let flags = FIN | PSH | SACKED | RETRANSMITTED | EVER_RETRANSMITTED;
            board.push(Record { seq: Seq(60), len, flags, ..Record::default() });
            board.split(most);
            let cut: Vec<Record> = (0..board.len()).map(|k| *board.at(board.head() + k)).collect();
            assert_eq!((cut[0].len, cut[0].flags), (10, SACKED));
            assert_eq!(cut[1..].iter().map(|part| part.len).collect::<Vec<_>>(), parts);
            let mut next = Seq(60);
            for (k, part) in cut[1..].iter().enumerate() {
                assert_eq!(part.seq, next);
                next = part.end();
                let is_last = k + 1 == parts.len();
                assert_eq!(part.has(FIN), is_last);
                assert_eq!(part.has(PSH), is_last);
                assert_eq!(part.has(LOST), parts.len() > 1);
                assert_eq!(part.has(SACKED | RETRANSMITTED), parts.len() == 1);
                assert!(part.has(EVER_RETRANSMITTED));
            }
        }
    }
}
