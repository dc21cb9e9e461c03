//! Routers' messages that a segment was too long (RFC 1191, section 6.4).
//!
//! Written from RFC 1191. What is in flight and too long counts as lost, and the window stays as it
//! is, as in Linux 6.1. Differences: segments that are too long are cut at once; Linux cuts each when
//! it retransmits it. The size never grows again during a connection (`tcp_mtu_probing` is off by
//! default, and what a host has learned holds for ten minutes, longer than most connections).

use super::scoreboard::{LOST, RETRANSMITTED, SACKED};
use super::{Sender, State, todo};
use crate::tcp::Seq;
use crate::tcp::clock::Context;

impl Sender {
    /// Handles the news that the segment at `seq` was longer than a link takes. `mss` is what a
    /// segment may carry there.
    pub(super) fn handle_too_big(&mut self, cx: &Context, seq: Seq, mss: u16) {
        // It is about something that is not in flight, or it is nothing new.
        if seq.before(self.snd_una) || !seq.before(self.snd_nxt) || mss >= self.mss {
            return;
        }
        self.mss = mss;
        self.cut_rates();
        self.board.split(mss);
        let (mut sacked, mut lost, mut retransmitted) = (0, 0, 0);
        let mut position = self.board.head();
        while position != self.board.tail() {
            let record = self.board.at(position);
            sacked += u32::from(record.has(SACKED));
            lost += u32::from(record.has(LOST));
            retransmitted += u32::from(record.has(RETRANSMITTED));
            position = position.wrapping_add(1);
        }
        self.packets_out = self.board.len();
        self.lost += lost.saturating_sub(self.lost_out);
        (self.lost_out, self.retrans_out) = (lost, retransmitted);
        // Without SACK, what is lost has caused no duplicates.
        let most_sacked = self.packets_out - lost;
        self.sacked_out = if self.sack { sacked } else { self.sacked_out.min(most_sacked) };
        self.retransmit_from_head();
        if lost == 0 {
            return;
        }
        // The amount of data stays the same but its unit changes, so the window stays as it is.
        if self.state != State::Loss {
            self.high_seq = self.snd_nxt;
            self.window.ssthresh = self.current_ssthresh();
            self.undo.ssthresh = None;
            self.undo.rule_out();
            self.state = State::Loss;
        }
        self.todo |= todo::RETRANSMIT | todo::NEW;
        self.rearm_rto(cx);
    }
    /// Cuts the rate samples as the scoreboard is about to be cut.
    fn cut_rates(&mut self) {
        let Some(rates) = self.pace.as_mut().and_then(|pace| pace.rates.as_mut()) else { return };
        let (board, mss) = (&self.board, self.mss);
        rates.cut((0..board.len()).map(|index| {
            let record = board.at(board.head().wrapping_add(index));
            usize::from(record.len.div_ceil(mss).max(1))
        }));
    }
}
