//! How SACK blocks mark the scoreboard, and how reordering is measured.
//!
//! Written from RFC 2018 (5.1), RFC 2883 (4) and RFC 3708. Differences, which are Linux 6.1's, as
//! replays on a kernel show them:
//!
//! - A D-SACK counts for as many segments as it is long. It counts for nothing if it is longer than
//!   the window, or if all of them together report more than was sent again.
//! - Only a D-SACK from the present recovery may lie below `snd_una`.
//! - Reordering is the distance from a segment that arrives late to the highest one SACKed, in
//!   segments. A segment that was sent again does not count.
//!
//! A block that covers only part of a segment does not mark it. Receivers here SACK what they
//! received, in whole segments.

use super::ack::{Ack, flag};
use super::scoreboard::{LOST, RETRANS, RETRANSMITTED, Record, SACKED};
use super::{Sender, State};
use crate::tcp::Seq;
use crate::tcp::clock::Context;

/// A SACK block: its edges, and whether it is a D-SACK.
#[derive(Clone, Copy)]
struct Block {
    start: Seq,
    end: Seq,
    is_duplicate: bool,
}

impl Sender {
    /// Takes the blocks of an acknowledgement, from the lowest to the highest.
    pub(super) fn take_blocks(
        &mut self,
        cx: &Context,
        ack_seq: Seq,
        blocks: &[(Seq, Seq)],
        ack: &mut Ack,
    ) {
        if self.sacked_out == 0 {
            self.highest_sack = self.snd_una;
        }
        ack.reordered = self.snd_nxt;
        let first_is_duplicate = self.take_duplicate_report(ack_seq, blocks, ack);
        if self.packets_out == 0 {
            return;
        }
        let mut order = [0usize, 1, 2];
        let order = &mut order[..blocks.len()];
        order.sort_unstable_by_key(|&i| blocks[i].0.distance(self.snd_una).wrapping_add(1 << 31));
        for &i in order.iter() {
            let (start, end) = blocks[i];
            let block = Block { start, end, is_duplicate: i == 0 && first_is_duplicate };
            if end.after(ack.prior_una) && self.believes(block) {
                self.take_block(cx, block, ack);
            }
        }
        if self.undo.episode.is_some() || self.state != State::Loss {
            self.note_reordering(ack.reordered);
        }
    }

    /// Returns whether a block can be about what was sent.
    fn believes(&self, Block { start, end, is_duplicate }: Block) -> bool {
        let was_sent = start.before(end) && start.before(self.snd_nxt) && !end.after(self.snd_nxt);
        let is_old = || {
            let episode = self.undo.episode.filter(|_| is_duplicate);
            !end.after(self.snd_una) && episode.is_some_and(|own| !start.before(own.start))
        };
        was_sent && (start.after(self.snd_una) || is_old())
    }

    /// Takes the segments that a block covers.
    fn take_block(&mut self, cx: &Context, block: Block, ack: &mut Ack) {
        let mut position = self.board.find(block.start);
        while position != self.board.tail() {
            let record = *self.board.at(position);
            if record.end().after(block.end) {
                break;
            }
            if block.is_duplicate && record.has(RETRANS) {
                self.undo.count_duplicates(1, record.end());
                if record.has(SACKED) {
                    ack.note_late(record.seq);
                }
            }
            // A segment below snd_una is about to leave the scoreboard.
            if record.end().after(self.snd_una) {
                let mut flags = record.flags;
                if !record.has(SACKED) {
                    flags = self.take_arrival(cx, position, &record, ack);
                }
                if block.is_duplicate && flags & RETRANSMITTED != 0 {
                    flags &= !RETRANSMITTED;
                    self.retrans_out -= 1;
                }
                self.board.at_mut(position).flags = flags;
            }
            position = position.wrapping_add(1);
        }
    }

    /// Handles the first news that a segment has arrived. Returns its new flags.
    fn take_arrival(&mut self, cx: &Context, position: u32, record: &Record, ack: &mut Ack) -> u8 {
        if !record.has(RETRANS) {
            if record.seq.before(self.highest_sack) {
                ack.note_late(record.seq);
            }
            if !record.end().after(self.high_seq) {
                ack.set(flag::ORIGINAL_ARRIVED);
            }
            ack.first_sacked_us = ack.first_sacked_us.or(Some(record.sent_us));
            ack.last_sacked_us = record.sent_us;
        }
        // Of a lost segment that was sent again, the retransmission has arrived. Of one that is not
        // marked lost, it may still be in flight.
        let mut flags = record.flags | SACKED;
        if record.has(LOST) {
            self.lost_out -= 1;
            self.retrans_out -= u32::from(record.has(RETRANSMITTED));
            flags &= !(LOST | RETRANSMITTED);
        }
        self.sacked_out += 1;
        self.highest_sack = self.highest_sack.max(record.end());
        ack.set(flag::SACKS_DATA);
        ack.sack_delivered += 1;
        ack.note_delivered(record);
        self.rack_note_delivered(cx, record);
        let index = position.wrapping_sub(self.board.head());
        if let Some(rates) = self.rates() {
            rates.note_delivered(index, record.to_delivered());
        }
        flags
    }

    /// Finds whether the first block is a D-SACK (RFC 2883, 4): it lies below the acknowledgement,
    /// or within the second block. Returns whether it is a credible one, and counts it.
    fn take_duplicate_report(
        &mut self,
        ack_seq: Seq,
        blocks: &[(Seq, Seq)],
        ack: &mut Ack,
    ) -> bool {
        let [first, others @ ..] = blocks else { return false };
        let &(start, end) = first;
        let within = |&(from, to): &(Seq, Seq)| !start.before(from) && !end.after(to);
        let is_duplicate = start.before(ack_seq) || others.first().is_some_and(within);
        let length = end.distance(start);
        let longest = self.snd_wnd.max(u16::MAX.into());
        if !is_duplicate || !start.before(end) || length > longest {
            return false;
        }
        let duplicates = length.div_ceil(self.mss.into()).max(1);
        let of_probe = duplicates == 1 && self.probe.is_some_and(|probe| probe.end == end);
        if of_probe {
            ack.set(flag::D_SACK_OF_PROBE);
        }
        self.dsack_dups = self.dsack_dups.saturating_add(duplicates);
        if self.dsack_dups > self.counted().retransmitted {
            // The network made the copy; we did not.
            return false;
        }
        if !of_probe {
            self.rack.note_dsack();
        }
        ack.set(flag::D_SACK);
        ack.sack_delivered += duplicates;
        if !end.after(ack.prior_una) {
            // The data have already left the scoreboard.
            self.undo.count_duplicates(duplicates, end);
        }
        true
    }

    /// Returns the end of the highest segment SACKed, or `snd_una`.
    #[inline]
    pub(super) fn highest_sack_seq(&self) -> Seq {
        if self.sacked_out == 0 { self.snd_una } else { self.highest_sack }
    }

    /// Notes how far a segment at `late` was overtaken, if it was.
    pub(super) fn note_reordering(&mut self, late: Seq) {
        let highest = self.highest_sack_seq();
        if late.before(highest) {
            self.rack.reordering_seen = true;
            let (mss, distance) = (u32::from(self.mss), highest.distance(late));
            if distance > self.reordering() * mss {
                self.set_reordering(distance.div_ceil(mss));
            }
        }
    }
}
