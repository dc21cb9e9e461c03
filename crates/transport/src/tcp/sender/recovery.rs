//! How losses are found, and how recovery starts.
//!
//! Source: Linux 6.1 `tcp_fastretrans_alert`, `tcp_time_to_recover`, `tcp_identify_packet_loss`,
//! `tcp_newreno_mark_lost`, `tcp_mark_skb_lost`, `tcp_update_scoreboard`, `tcp_mark_head_lost`,
//! `tcp_enter_recovery`, `tcp_try_to_open`, `tcp_try_keep_open`, `tcp_add_reno_sack`. Differences:
//! reneging is checked only at the timeout. Under Linux's window rules, `Recovery::Reno` ends
//! recovery with the first new acknowledgement.

use super::ack::{Ack, Resend, flag};
use super::scoreboard::{LOST, RETRANSMITTED, SACKED};
use super::{Sender, State};
use crate::tcp::Recovery;
use crate::tcp::clock::Context;
use crate::tcp::congestion::Signal;

impl Sender {
    /// `tcp_fastretrans_alert`: handles a dubious acknowledgement.
    pub(super) fn fast_retransmit_alert(
        &mut self,
        cx: &Context,
        ack: &mut Ack,
        num_dupack: u32,
    ) -> Resend {
        let ece = ack.has(flag::ECE);
        let mut do_lost =
            num_dupack > 0 || (ack.has(flag::DATA_SACKED) && self.must_retransmit_fast(cx));
        let mut first = false;
        if self.packets_out == 0 {
            self.sacked_out = 0;
        }
        // A: an echo rules out undo.
        if ece {
            self.prior_ssthresh = 0;
        }
        // D: states end when high_seq is acknowledged.
        if self.state == State::Open {
            self.retrans_stamp = 0;
        } else if !self.snd_una.before(self.high_seq) {
            match self.state {
                State::Cwr if self.snd_una != self.high_seq => {
                    // The state is held until something above is acknowledged, so that CWR has
                    // arrived.
                    self.end_reduction(cx);
                    self.state = State::Open;
                }
                State::Recovery => {
                    if !self.uses_sack(cx) {
                        self.sacked_out = 0;
                    }
                    if self.try_undo_recovery(cx, ack) {
                        return Resend::Nothing;
                    }
                    self.end_reduction(cx);
                }
                _ => {}
            }
        } else if self.state == State::Recovery
            && cx.config.recovery == Recovery::Reno
            && ack.has(flag::ADVANCED)
        {
            self.sacked_out = 0;
            self.end_reduction(cx);
            self.state = State::Open;
        }
        // E: the reaction depends on the state.
        match self.state {
            State::Recovery => {
                if !ack.has(flag::ADVANCED) {
                    if !self.uses_sack(cx) {
                        self.add_reno_sack(num_dupack);
                    }
                } else if self.try_undo_partial(cx, ack, &mut do_lost) {
                    return Resend::Nothing;
                }
                if self.try_undo_dsack(cx) {
                    self.try_to_open(cx, ack);
                }
                self.identify_loss(cx, ack);
                if self.state != State::Recovery {
                    if !self.is_time_to_recover(cx) {
                        return Resend::Nothing;
                    }
                    self.enter_recovery(cx, ece);
                }
            }
            State::Loss => {
                let resend = self.process_loss(cx, ack, num_dupack);
                self.identify_loss(cx, ack);
                if self.state != State::Open && !ack.has(flag::LOST_RETRANS) {
                    return resend;
                }
                if !self.alert_default(cx, ack, num_dupack, &mut first) {
                    return resend;
                }
            }
            State::Open | State::Disorder | State::Cwr => {
                if !self.alert_default(cx, ack, num_dupack, &mut first) {
                    return Resend::Nothing;
                }
            }
        }
        if !self.uses_rack(cx) && do_lost {
            self.update_scoreboard(cx, first);
        }
        Resend::Lost
    }

    /// The default case of `tcp_fastretrans_alert`. Returns whether recovery begins.
    fn alert_default(
        &mut self,
        cx: &Context,
        ack: &mut Ack,
        num_dupack: u32,
        first: &mut bool,
    ) -> bool {
        if !self.uses_sack(cx) {
            if ack.has(flag::ADVANCED) {
                self.sacked_out = 0;
            }
            self.add_reno_sack(num_dupack);
        }
        if self.state <= State::Disorder {
            self.try_undo_dsack(cx);
        }
        self.identify_loss(cx, ack);
        if !self.is_time_to_recover(cx) {
            self.try_to_open(cx, ack);
            return false;
        }
        self.enter_recovery(cx, ack.has(flag::ECE));
        *first = true;
        true
    }

    /// `tcp_force_fast_retransmit`.
    pub(super) fn must_retransmit_fast(&self, cx: &Context) -> bool {
        let far = self.snd_una + self.reordering() * u32::from(self.mss);
        self.uses_sack(cx) && self.highest_sack_seq().after(far)
    }

    /// `tcp_time_to_recover`.
    fn is_time_to_recover(&self, cx: &Context) -> bool {
        // RFC 5681, 3.2: the third duplicate. RACK marks by time instead.
        self.lost_out > 0 || (!self.uses_rack(cx) && self.sacked_out + 1 > self.reordering())
    }

    /// `tcp_identify_packet_loss`.
    fn identify_loss(&mut self, cx: &Context, ack: &mut Ack) {
        if self.board.is_empty() {
            return;
        }
        if !self.uses_sack(cx) {
            self.mark_lost_reno(ack.has(flag::ADVANCED));
        } else if self.uses_rack(cx) {
            let prior = self.retrans_out;
            if self.rack_mark_lost(cx) {
                ack.clear(flag::SET_TIMER);
            }
            if prior > self.retrans_out {
                ack.set(flag::LOST_RETRANS);
            }
        }
    }

    /// `tcp_newreno_mark_lost`: the head, at the third duplicate and at each partial
    /// acknowledgement (RFC 6582, 3.2).
    fn mark_lost_reno(&mut self, advanced: bool) {
        let partial = self.state == State::Recovery && advanced;
        let third = self.state < State::Recovery && self.sacked_out >= self.reordering();
        let head = self.board.head();
        if (partial || third) && !self.board.at(head).has(LOST) {
            self.mark_lost(head);
        }
    }

    /// `tcp_mark_skb_lost`.
    pub(super) fn mark_lost(&mut self, position: u32) {
        let record = self.board.at_mut(position);
        if record.has(SACKED) {
            return;
        }
        if !record.has(LOST) {
            record.flags |= LOST;
            self.lost_out += 1;
            self.lost = self.lost.wrapping_add(1);
        } else if record.has(RETRANSMITTED) {
            // The retransmission is lost as well.
            record.flags &= !RETRANSMITTED;
            self.retrans_out -= 1;
            self.lost = self.lost.wrapping_add(1);
        }
        // `tcp_verify_retransmit_hint`.
        if (position.wrapping_sub(self.retransmit_hint) as i32) < 0 {
            self.retransmit_hint = position;
        }
    }

    /// `tcp_update_scoreboard`: without RACK, a segment is lost once `reordering` segments above it
    /// are SACKed.
    fn update_scoreboard(&mut self, cx: &Context, first: bool) {
        if !self.uses_sack(cx) {
            return;
        }
        if self.sacked_out >= self.reordering() {
            self.mark_head_lost(self.sacked_out - self.reordering(), false);
        } else if first {
            self.mark_head_lost(1, true);
        }
    }

    /// `tcp_mark_head_lost`: marks segments until more than `sacked` SACKed ones have been passed.
    fn mark_head_lost(&mut self, sacked: u32, head_only: bool) {
        let (mut position, mut count) = (self.board.head(), 0);
        while position != self.board.tail() {
            let record = self.board.at(position);
            count += u32::from(record.has(SACKED));
            if count > sacked {
                break;
            }
            if !record.has(LOST) {
                self.mark_lost(position);
            }
            if head_only {
                break;
            }
            position = position.wrapping_add(1);
        }
    }

    /// `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self, cx: &Context, ece: bool) {
        self.prior_ssthresh = 0;
        self.begin_undo(cx);
        if !self.in_reduction() {
            if !ece {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.begin_reduction(cx, Signal::Loss);
        }
        self.state = State::Recovery;
        self.tally.fast_recoveries += 1;
    }

    /// `tcp_try_to_open`.
    pub(super) fn try_to_open(&mut self, cx: &Context, ack: &Ack) {
        if !self.any_retransmission_done() {
            self.retrans_stamp = 0;
        }
        if ack.has(flag::ECE) {
            self.enter_cwr(cx);
        }
        if self.state != State::Cwr {
            self.try_keep_open();
        }
    }

    /// `tcp_try_keep_open`.
    pub(super) fn try_keep_open(&mut self) {
        let dubious = self.sacked_out + self.lost_out > 0 || self.any_retransmission_done();
        let state = if dubious { State::Disorder } else { State::Open };
        if self.state != state {
            self.state = state;
            self.high_seq = self.snd_nxt;
        }
    }

    /// `tcp_add_reno_sack`: each duplicate acknowledgement stands for one segment that has arrived.
    pub(super) fn add_reno_sack(&mut self, num_dupack: u32) {
        if num_dupack == 0 {
            return;
        }
        let prior = self.sacked_out;
        self.sacked_out += num_dupack;
        self.limit_reno_sacked(0);
        self.delivered = self.delivered.wrapping_add(self.sacked_out.saturating_sub(prior));
    }

    /// `tcp_limit_reno_sacked` and `tcp_check_reno_reordering`: at least one segment is a hole, so
    /// more duplicates mean reordering.
    fn limit_reno_sacked(&mut self, addend: u32) {
        let holes = self.lost_out.max(1).min(self.packets_out);
        if self.sacked_out + holes > self.packets_out {
            self.sacked_out = self.packets_out - holes;
            self.set_reordering((self.packets_out + addend).max(1));
            self.reord_seen = true;
        }
    }

    /// `tcp_remove_reno_sacks`: a cumulative acknowledgement uses up the duplicates below it.
    pub(super) fn remove_reno_sacks(&mut self, acked: u32) {
        // One of the acknowledged segments was the hole.
        let fresh = acked.saturating_sub(self.sacked_out).max(1);
        self.delivered = self.delivered.wrapping_add(fresh);
        self.sacked_out = self.sacked_out.saturating_sub(acked - 1);
        self.limit_reno_sacked(acked);
    }
}
