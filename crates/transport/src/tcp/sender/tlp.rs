//! The tail loss probe (RFC 8985, section 7).
//!
//! Source: Linux 6.1.60 and later, net/ipv4/tcp_output.c `tcp_schedule_loss_probe` and
//! `tcp_send_loss_probe`, net/ipv4/tcp_input.c `tcp_process_tlp_ack`. Before 6.1.60 the slack was
//! two jiffies, which are 2 ms only at HZ 1000.

use super::ack::{Ack, flag};
use super::{Outgoing, Probe, SLACK_US, Sender, State, Timer};
use crate::congestion::Signal;
use crate::tcp::Seq;
use crate::tcp::clock::Context;

impl Sender {
    /// Returns whether a probe watches what is in flight.
    #[inline]
    pub(super) fn schedules_probes(&self, cx: &Context) -> bool {
        cx.config.tlp
            && self.uses_sack(cx)
            && matches!(self.state, State::Open | State::Cwr)
            && !self.unconfirmed
    }

    /// `tcp_schedule_loss_probe`.
    #[inline]
    pub(super) fn schedule_probe(&mut self, cx: &Context, advancing_rto: bool) -> bool {
        if self.packets_out == 0 || !self.schedules_probes(cx) {
            return false;
        }
        let mut timeout = if let Some(twice_us) = self.rtt.twice_smoothed_us() {
            // 2 RTT, plus slack: the acknowledgement of a lone segment may be delayed.
            let slack_us =
                if self.packets_out == 1 { cx.config.min_rto.as_us() as u32 } else { SLACK_US };
            cx.jiffies_in(twice_us.saturating_add(slack_us))
        } else {
            cx.span_to_jiffies(cx.config.initial_rto)
        };
        if advancing_rto {
            timeout = timeout.min(self.rtt.rto);
        } else {
            let remaining_us = self.rto_remaining_us(cx);
            if remaining_us > 0 {
                timeout = timeout.min(cx.jiffies_in(remaining_us as u32));
            }
        }
        self.arm_for_sending(cx, Timer::LossProbe, timeout);
        true
    }

    /// `tcp_send_loss_probe`: sends a new segment if there is one, otherwise the last one again.
    pub(super) fn send_probe(&mut self, cx: &Context) -> Option<Outgoing> {
        let mut sent = None;
        if self.probe.is_none() {
            let mut is_retransmission = false;
            if self.has_new_data() && self.fits_peer_window() {
                sent = self.send_new(cx);
                self.burst = 0;
            } else if self.packets_out > 0 {
                let last = self.board.tail().wrapping_sub(1);
                sent = Some(self.send_again(cx, last));
                is_retransmission = true;
            }
            if sent.is_some() {
                self.probe = Some(Probe { end: self.snd_nxt, is_retransmission });
                self.tally.tail_probes += 1;
                // The timeout counts from now on.
                self.timer = Timer::Idle;
            }
        }
        self.rearm_rto(cx);
        sent
    }

    /// `tcp_process_tlp_ack`.
    #[inline]
    pub(super) fn process_probe_ack(&mut self, cx: &Context, ack_seq: Seq, ack: &Ack) {
        let Some(probe) = self.probe else { return };
        if ack_seq.before(probe.end) {
            return;
        }
        if !probe.is_retransmission || ack.has(flag::DSACK_TLP) {
            // New data has arrived, or both the original and the probe: there was no loss.
            self.probe = None;
        } else if ack_seq.after(probe.end) {
            // The probe repaired a loss, so reduce as for any other.
            self.begin_reduction(cx, Signal::Loss);
            self.state = State::Cwr;
            self.end_reduction(cx);
            self.return_to_normal();
        } else if !ack.has(flag::ADVANCED | flag::NOT_DUP | flag::DATA_SACKED) {
            self.probe = None;
        }
    }
}
