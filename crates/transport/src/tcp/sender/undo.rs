//! Undo of reductions that D-SACK (RFC 3708) or timestamps (Eifel, RFC 3522) show to be needless.
//!
//! Source: Linux 6.1 `tcp_may_undo`, `tcp_packet_delayed`, `tcp_undo_cwnd_reduction`,
//! `tcp_try_undo_recovery`, `_dsack`, `_loss`, `_partial`, and `tcp_init_undo` (as of 6.1.192).

use super::ack::Ack;
use super::scoreboard::{EVER_RETRANSMITTED, LOST};
use super::{Sender, State};
use crate::tcp::clock::Context;

impl Sender {
    /// `tcp_init_undo`.
    pub(super) fn begin_undo(&mut self, cx: &Context) {
        self.may_undo = cx.config.undo;
        self.undo_from = self.snd_una;
        // Retransmissions and a tail probe in flight may cause D-SACKs later.
        let mut outstanding = self.retrans_out as i32;
        if self.probe_out && self.tlp_retrans {
            outstanding += 1;
        }
        self.undo_retrans = if outstanding > 0 { outstanding } else { -1 };
    }

    /// `tcp_packet_delayed`: returns whether the acknowledgement answers a segment sent before the
    /// first retransmission, which may not have been sent yet.
    pub(super) fn was_delayed(&self, ack: &Ack) -> bool {
        if self.retrans_stamp == 0 {
            self.sack || self.snd_una.before(self.high_seq)
        } else {
            ack.echoes_before(self.retrans_stamp)
        }
    }

    /// `tcp_may_undo`.
    fn is_undoable(&self, ack: &Ack) -> bool {
        self.may_undo && (self.undo_retrans == 0 || self.was_delayed(ack))
    }

    /// `tcp_undo_cwnd_reduction`.
    pub(super) fn undo_reduction(&mut self, cx: &Context, unmark_lost: bool) {
        if unmark_lost {
            let mut position = self.board.head();
            while position != self.board.tail() {
                self.board.at_mut(position).flags &= !LOST;
                position = position.wrapping_add(1);
            }
            self.lost_out = 0;
            self.clear_hints();
        }
        if self.prior_ssthresh != 0 {
            self.window.cwnd = self.window.cwnd.max(self.prior_cwnd);
            if self.prior_ssthresh > self.window.ssthresh {
                self.window.ssthresh = self.prior_ssthresh;
                self.queue_cwr = false;
            }
        }
        self.cwnd_stamp_us = cx.us;
        self.may_undo = false;
        self.rack.advanced = true;
        self.tally.undos += 1;
    }

    /// `tcp_try_undo_recovery`. Returns whether the old state is kept until something above is
    /// acknowledged.
    pub(super) fn try_undo_recovery(&mut self, cx: &Context, ack: &Ack) -> bool {
        if self.is_undoable(ack) {
            self.undo_reduction(cx, false);
        } else {
            self.rack.reo_wnd_persist = self.rack.reo_wnd_persist.saturating_sub(1);
        }
        if self.snd_una == self.high_seq && !self.uses_sack(cx) {
            // RFC 6582: avoid false fast retransmits.
            if !self.any_retransmission_done() {
                self.retrans_stamp = 0;
            }
            return true;
        }
        self.state = State::Open;
        false
    }

    /// `tcp_try_undo_dsack`: undoes the reduction if every retransmission was needless.
    pub(super) fn try_undo_dsack(&mut self, cx: &Context) -> bool {
        if self.may_undo && self.undo_retrans == 0 {
            self.rack.reo_wnd_persist = (self.rack.reo_wnd_persist + 1).min(PERSIST_ROUNDS);
            self.undo_reduction(cx, false);
            return true;
        }
        false
    }

    /// `tcp_try_undo_loss`.
    pub(super) fn try_undo_loss(&mut self, cx: &Context, ack: &Ack, by_frto: bool) -> bool {
        if !by_frto && !self.is_undoable(ack) {
            return false;
        }
        self.undo_reduction(cx, true);
        if by_frto {
            self.tally.spurious_timeouts += 1;
        }
        self.retransmits = 0;
        if by_frto || self.uses_sack(cx) {
            self.state = State::Open;
        }
        true
    }

    /// `tcp_try_undo_partial`. Returns whether nothing more may be retransmitted now.
    pub(super) fn try_undo_partial(&mut self, cx: &Context, ack: &Ack, do_lost: &mut bool) -> bool {
        if self.may_undo && self.was_delayed(ack) {
            // A delayed segment filled the hole, not a retransmission.
            self.check_reordering(ack.prior_una);
            if self.retrans_out > 0 {
                return true;
            }
            if !self.any_retransmission_done() {
                self.retrans_stamp = 0;
            }
            self.undo_reduction(cx, true);
            self.try_keep_open();
        } else {
            *do_lost = self.must_retransmit_fast(cx);
        }
        false
    }

    /// `tcp_any_retrans_done`.
    pub(super) fn any_retransmission_done(&self) -> bool {
        self.retrans_out > 0
            || self.board.front().is_some_and(|record| record.has(EVER_RETRANSMITTED))
    }

    /// `tcp_clear_all_retrans_hints`.
    pub(super) fn clear_hints(&mut self) {
        self.retransmit_hint = self.board.head();
    }
}

/// `TCP_RACK_RECOVERY_THRESH`.
pub(super) const PERSIST_ROUNDS: u8 = 16;
