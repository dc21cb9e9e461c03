//! Tahoe, Reno and NewReno as in the textbook and in ns-2. Duplicate acknowledgements inflate the
//! window (RFC 5681, 3.2; RFC 6582; ns-2.35 tcp-reno.cc, tcp-newreno.cc, tcp.cc); Tahoe instead
//! returns to one segment (Jacobson, "Congestion avoidance and control", 1988; Fall and Floyd,
//! "Simulation-based comparisons of Tahoe, Reno and SACK TCP", 1996).
//!
//! Modelled: halving at the third duplicate, `dupwnd_`, one reduction for each window (`recover_`,
//! `bugFix_`), window 1 and go-back-N after a timeout, one timed segment for each window, growth
//! by acknowledgements and not by bytes. Differences: after a timeout, segments that arrived are
//! skipped when their acknowledgement comes (as in ns-2). There is no overhead_ and no random
//! start, and the window has no fractions of a segment.

use super::ack::{Ack, flag};
use super::episode::Episode;
use super::scoreboard::{EVER_RETRANSMITTED, FIN, LOST, RETRANSMITTED};
use super::{Sender, State, todo};
use crate::congestion::Signal;
use crate::tcp::Recovery;
use crate::tcp::clock::{Context, elapsed_us};
use crate::tcp::segment::Header;

/// The third duplicate starts fast retransmit (RFC 5681, 3.2).
const THIRD: u8 = 3;

impl Sender {
    /// Handles an acknowledgement at or above `snd_una`, which is already updated.
    pub(super) fn handle_ack_classic(&mut self, cx: &Context, header: &Header, ack: &mut Ack) {
        if ack.has(flag::ADVANCED) {
            self.take_new_ack(cx, ack);
        } else if self.packets_out > 0 && !ack.has(flag::DATA | flag::NEW_WINDOW) {
            self.take_duplicate(cx);
        }
        if ack.has(flag::ECE) {
            self.reduce_for_echo(cx, header);
        }
        if self.lost_out > self.retrans_out {
            self.todo |= todo::RETRANSMIT;
        }
        self.todo |= todo::NEW;
    }

    #[inline(always)]
    pub(super) fn take_new_ack(&mut self, cx: &Context, ack: &Ack) {
        let mut acked = 0;
        let mut sample_us = None;
        while let Some(&record) = self.board.front() {
            if record.end().after(self.snd_una) {
                break;
            }
            // One timed segment for each window, and never a retransmitted one (Karn).
            if record.end().after(self.rtt.round_end) && !record.has(EVER_RETRANSMITTED) {
                sample_us = sample_us.or(Some(elapsed_us(cx.us, record.sent_us)));
            }
            acked += 1;
            self.retrans_out -= u32::from(record.has(RETRANSMITTED));
            self.lost_out -= u32::from(record.has(LOST));
            self.packets_out -= 1;
            self.bytes_acked -= u64::from(record.has(FIN));
            self.board.pop();
        }
        self.delivered = self.delivered.wrapping_add(acked);
        if let Some(rtt_us) = sample_us {
            self.rtt.note_shortest(cx, rtt_us);
            self.estimate_and_set_rto(cx, rtt_us);
            self.rtt.round_end = self.snd_nxt;
            let progress = self.progress();
            self.control.on_delay(cx, &mut self.window, rtt_us, progress);
        }
        self.dupacks = 0;
        let mut restart_timer = true;
        if self.state == State::Recovery {
            let partial = self.snd_una.before(self.high_seq);
            if partial && cx.config.recovery == Recovery::NewReno {
                // RFC 6582, 3.2 step 3: deflate, send the next hole, re-arm the timer once.
                let acked = u16::try_from(acked).unwrap_or(u16::MAX);
                self.inflation = self.inflation.saturating_add(1).saturating_sub(acked);
                self.todo |= todo::HEAD;
                restart_timer =
                    self.undo.episode.is_some_and(|episode| episode.start == ack.prior_una);
            } else {
                self.inflation = 0;
                self.state = State::Open;
            }
        } else {
            self.inflation = 0;
            if !self.snd_una.before(self.high_seq) {
                self.state = State::Open;
            }
        }
        // An echo of congestion opens no window (ns-2.35, `recv_newack_helper`).
        if self.state != State::Recovery && !ack.has(flag::ECE) && self.is_cwnd_limited() {
            self.control.avoid(cx, &mut self.window, 1);
        }
        if restart_timer || self.packets_out == 0 {
            self.rearm_rto(cx);
        }
    }

    fn take_duplicate(&mut self, cx: &Context) {
        self.dupacks = self.dupacks.saturating_add(1);
        if self.state == State::Recovery {
            self.inflation = self.inflation.saturating_add(1);
        } else if self.dupacks < THIRD {
            // RFC 3042.
            self.inflation = if cx.config.limited_transmit { self.dupacks.into() } else { 0 };
        } else if self.dupacks == THIRD && self.snd_una.after(self.high_seq) {
            self.tally().fast_recoveries += 1;
            if cx.config.recovery == Recovery::Tahoe {
                // The same as at a timeout, without the timer's backoff.
                self.enter_loss_classic(cx);
            } else {
                self.halve(cx, Signal::Loss);
                self.inflation = THIRD.into();
                self.undo.episode = Some(Episode { start: self.snd_una, unexplained: None });
                self.state = State::Recovery;
            }
            self.todo |= todo::HEAD;
            self.rearm_rto(cx);
        }
    }

    fn reduce_for_echo(&mut self, cx: &Context, header: &Header) {
        if header.ack.after(self.high_seq) && self.state == State::Open {
            self.halve(cx, Signal::EcnEcho);
            self.queue_cwr = true;
            self.tally().ecn_reductions += 1;
        }
    }

    /// `slowdown`: halves both at once, and no more until everything now in flight is acknowledged.
    fn halve(&mut self, cx: &Context, signal: Signal) {
        self.high_seq = self.snd_nxt;
        let window = &mut self.window;
        window.ssthresh = self.control.ssthresh(cx, *window, signal);
        window.cwnd = window.ssthresh;
        window.count = 0;
        self.queue_cwr = self.announces_reductions();
    }

    /// Handles a timeout, or Tahoe's third duplicate: window 1, and everything in flight counts as
    /// lost.
    pub(super) fn enter_loss_classic(&mut self, cx: &Context) {
        let mut position = self.board.head();
        while position != self.board.tail() {
            self.mark_lost(cx, position);
            position = position.wrapping_add(1);
        }
        self.retransmit_from_head();
        self.halve(cx, Signal::Loss);
        self.control.on_timeout(cx, self.snd_nxt);
        self.window.cwnd = 1;
        self.inflation = 0;
        self.dupacks = 0;
        self.state = State::Loss;
    }
}
