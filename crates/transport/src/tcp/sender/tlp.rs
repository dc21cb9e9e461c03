//! The tail loss probe: if acknowledgements stop, one more segment makes the receiver answer.
//!
//! Written from RFC 8985, section 7, with its steps. Differences, which are Linux 6.1's (6.1.60 and
//! later), as replays on a kernel show them:
//!
//! - Probes are sent in the states Open and CWR.
//! - For a lone segment, the shortest retransmission timeout stands for TLP.max_ack_delay; for more,
//!   2 ms are added. Before 6.1.60, the latter were two jiffies.
//! - Without a round trip, the first retransmission timeout stands for 1 s.

use super::ack::{Ack, flag};
use super::{Outgoing, Probe, SLACK_US, Sender, State, Timer};
use crate::congestion::Signal;
use crate::tcp::Seq;
use crate::tcp::clock::Context;

impl Sender {
    /// Returns whether a probe watches what is in flight.
    #[inline]
    pub(super) fn schedules_probes(&self, cx: &Context) -> bool {
        matches!(self.state, State::Open | State::Cwr)
            && cx.config.tlp
            && self.uses_sack(cx)
            && !self.unconfirmed
    }

    /// Sets the timer for a probe (7.2), if there may be one. `acked`: an acknowledgement sets it,
    /// and the retransmission timeout starts anew.
    #[inline]
    pub(super) fn schedule_probe(&mut self, cx: &Context, acked: bool) -> bool {
        let schedules = self.packets_out > 0 && self.schedules_probes(cx);
        if schedules {
            let pto_us = self.probe_timeout_us(cx);
            let jiffies = if acked {
                self.rtt.rto.min(cx.jiffies_in(pto_us))
            } else {
                // What is left of the retransmission timeout, if anything is.
                let left_us = u32::try_from(self.rto_remaining_us(cx)).ok().filter(|&us| us > 0);
                cx.jiffies_in(left_us.map_or(pto_us, |left_us| left_us.min(pto_us)))
            };
            self.arm_for_sending(cx, Timer::LossProbe, jiffies);
        }
        schedules
    }

    /// TLP_calc_PTO (7.2), in microseconds, without the bound of the retransmission timeout.
    #[inline]
    fn probe_timeout_us(&self, cx: &Context) -> u32 {
        let Some(twice_us) = self.rtt.twice_smoothed_us() else {
            return cx.config.initial_rto.as_us() as u32;
        };
        // The acknowledgement of a lone segment may be delayed.
        let is_alone = self.packets_out == 1;
        let more_us = if is_alone { cx.config.min_rto.as_us() as u32 } else { SLACK_US };
        twice_us.saturating_add(more_us)
    }

    /// TLP_send_probe (7.3): a new segment, or else the last one again. The retransmission timeout
    /// counts from now on.
    pub(super) fn send_probe(&mut self, cx: &Context) -> Option<Outgoing> {
        let sent = if self.probe.is_some() { None } else { self.send_new_or_last(cx) };
        if let Some((_, is_retransmission)) = sent {
            self.probe = Some(Probe { end: self.snd_nxt, is_retransmission });
            self.tally().tail_probes += 1;
            self.timer = Timer::Idle;
        }
        self.rearm_rto(cx);
        sent.map(|(outgoing, _)| outgoing)
    }

    /// Sends a probe's segment. Returns whether it was sent before, too.
    fn send_new_or_last(&mut self, cx: &Context) -> Option<(Outgoing, bool)> {
        if self.has_new_data() && self.fits_peer_window() {
            let sent = self.send_new(cx);
            self.burst = 0;
            return sent.map(|outgoing| (outgoing, false));
        }
        if self.packets_out == 0 {
            return None;
        }
        let last = self.board.tail().wrapping_sub(1);
        Some((self.send_again(cx, last), true))
    }

    /// TLP_process_ack (7.4).
    #[inline]
    pub(super) fn process_probe_ack(&mut self, cx: &Context, ack_seq: Seq, ack: &Ack) {
        let Some(Probe { end, is_retransmission }) = self.probe else { return };
        if ack_seq.before(end) {
            return;
        }
        // New data have arrived, or both the original and the probe: nothing was lost.
        let nothing_lost = !is_retransmission || ack.has(flag::D_SACK_OF_PROBE);
        if !nothing_lost && ack_seq.after(end) {
            // The probe repaired a loss, so reduce as for any other.
            self.begin_reduction(cx, Signal::Loss);
            self.state = State::Cwr;
            self.end_reduction(cx);
            self.return_to_normal();
        } else if nothing_lost || !ack.has(flag::ADVANCED | flag::NO_DUPLICATE | flag::SACKS_DATA) {
            // A bare duplicate answers the probe, because the original had arrived.
            self.probe = None;
        }
    }
}
