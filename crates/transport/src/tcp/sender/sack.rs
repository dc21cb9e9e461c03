//! How SACK blocks mark the scoreboard (RFC 2018, 2883), and how reordering is measured.
//!
//! Source: Linux 6.1 `tcp_sacktag_write_queue`, `tcp_sacktag_one`, `tcp_check_dsack`,
//! `tcp_dsack_seen`, `tcp_is_sackblock_valid`, `tcp_check_sack_reordering`. Differences: a block
//! that covers only part of a segment does not mark it (the kernel would split it). Receivers here
//! SACK what they received, in whole segments.

use super::ack::{Ack, flag};
use super::scoreboard::{LOST, RETRANS, RETRANSMITTED, SACKED};
use super::{Sender, State};
use crate::tcp::Seq;
use crate::tcp::clock::Context;

impl Sender {
    /// `tcp_sacktag_write_queue`.
    pub(super) fn tag_sacked(
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
        let duplicate = self.check_dsack(ack_seq, blocks, ack);
        if self.packets_out == 0 {
            return;
        }
        let mut order = [0usize, 1, 2];
        let order = &mut order[..blocks.len()];
        order.sort_unstable_by_key(|&i| blocks[i].0.distance(self.snd_una).wrapping_add(1 << 31));
        for &i in order.iter() {
            let (start, end) = blocks[i];
            let is_duplicate = i == 0 && duplicate;
            if !self.is_valid_block(start, end, is_duplicate) || !end.after(ack.prior_una) {
                continue;
            }
            self.tag_block(cx, start, end, is_duplicate, ack);
        }
        if self.state != State::Loss || self.undo.episode.is_some() {
            self.check_reordering(ack.reordered);
        }
    }

    /// `tcp_is_sackblock_valid`.
    fn is_valid_block(&self, start: Seq, end: Seq, is_duplicate: bool) -> bool {
        if end.after(self.snd_nxt) || !start.before(end) || !start.before(self.snd_nxt) {
            return false;
        }
        if start.after(self.snd_una) {
            return true;
        }
        is_duplicate
            && !end.after(self.snd_una)
            && self.undo.episode.is_some_and(|episode| !start.before(episode.start))
    }

    /// `tcp_sacktag_walk` and `tcp_sacktag_one`.
    fn tag_block(&mut self, cx: &Context, start: Seq, end: Seq, duplicate: bool, ack: &mut Ack) {
        let mut position = self.board.find(start);
        while position != self.board.tail() {
            let record = *self.board.at(position);
            if record.end().after(end) {
                break;
            }
            let mut flags = record.flags;
            if duplicate && record.has(RETRANS) {
                self.undo.count_duplicates(1, record.end());
                if record.has(SACKED) && record.seq.before(ack.reordered) {
                    ack.reordered = record.seq;
                }
            }
            // A segment below snd_una is about to leave the scoreboard.
            if record.end().after(self.snd_una) {
                if !record.has(SACKED) {
                    // The echoed timestamp belongs to data in order, so it says nothing about this
                    // segment.
                    self.rack_note_delivered(cx, &record);
                    if record.has(RETRANSMITTED) {
                        // It is not marked lost, so the retransmission is believed to be still in
                        // flight.
                        if record.has(LOST) {
                            flags &= !(LOST | RETRANSMITTED);
                            self.lost_out -= 1;
                            self.retrans_out -= 1;
                        }
                    } else {
                        if !record.has(RETRANS) {
                            if record.seq.before(self.highest_sack)
                                && record.seq.before(ack.reordered)
                            {
                                ack.reordered = record.seq;
                            }
                            if !record.end().after(self.high_seq) {
                                ack.set(flag::ORIGINAL_ACKED);
                            }
                            ack.first_sacked_us = ack.first_sacked_us.or(Some(record.sent_us));
                            ack.last_sacked_us = record.sent_us;
                        }
                        if record.has(LOST) {
                            flags &= !LOST;
                            self.lost_out -= 1;
                        }
                    }
                    flags |= SACKED;
                    ack.set(flag::DATA_SACKED);
                    self.sacked_out += 1;
                    ack.sack_delivered += 1;
                    ack.note_delivered(&record);
                    let index = position.wrapping_sub(self.board.head());
                    if let Some(rates) = self.rates() {
                        rates.note_delivered(index, record.to_delivered());
                    }
                    self.highest_sack = self.highest_sack.max(record.end());
                }
                if duplicate && flags & RETRANSMITTED != 0 {
                    flags &= !RETRANSMITTED;
                    self.retrans_out -= 1;
                }
                self.board.at_mut(position).flags = flags;
            }
            position = position.wrapping_add(1);
        }
    }

    /// `tcp_check_dsack` (RFC 2883): returns whether the first block reports a duplicate.
    fn check_dsack(&mut self, ack_seq: Seq, blocks: &[(Seq, Seq)], ack: &mut Ack) -> bool {
        let Some(&(start, end)) = blocks.first() else { return false };
        let below = start.before(ack_seq);
        let inside = blocks
            .get(1)
            .is_some_and(|&(outer, outer_end)| !end.after(outer_end) && !start.before(outer));
        if !below && !inside {
            return false;
        }
        let duplicates = self.see_dsack(start, end, ack);
        if duplicates == 0 {
            return false;
        }
        if !end.after(ack.prior_una) {
            // The data have already left the scoreboard.
            self.undo.count_duplicates(duplicates, end);
        }
        true
    }

    /// `tcp_dsack_seen`: returns the number of duplicates; 0: dubious.
    fn see_dsack(&mut self, start: Seq, end: Seq, ack: &mut Ack) -> u32 {
        if !start.before(end) || end.distance(start) > self.snd_wnd.max(u32::from(u16::MAX)) {
            return 0;
        }
        let duplicates = end.distance(start).div_ceil(u32::from(self.mss)).max(1);
        if duplicates == 1 && self.probe.is_some_and(|probe| probe.end == end) {
            ack.set(flag::DSACK_TLP);
        }
        self.dsack_dups = self.dsack_dups.saturating_add(duplicates);
        if self.dsack_dups > self.tally.retransmitted {
            return 0; // The network made the copy; we did not.
        }
        if !ack.has(flag::DSACK_TLP) {
            self.rack.note_dsack();
        }
        ack.set(flag::DSACKING);
        ack.sack_delivered += duplicates;
        duplicates
    }

    /// `tcp_highest_sack_seq`.
    #[inline]
    pub(super) fn highest_sack_seq(&self) -> Seq {
        if self.sacked_out == 0 { self.snd_una } else { self.highest_sack }
    }

    /// `tcp_check_sack_reordering`: a segment at or above `low` arrived after later ones.
    pub(super) fn check_reordering(&mut self, low: Seq) {
        let highest = self.highest_sack_seq();
        if !low.before(highest) {
            return;
        }
        let mss = u32::from(self.mss);
        let metric = highest.distance(low);
        if metric > self.reordering() * mss {
            self.set_reordering(metric.div_ceil(mss));
        }
        self.rack.reordering_seen = true;
    }
}
