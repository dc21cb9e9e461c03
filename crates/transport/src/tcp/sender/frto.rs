//! F-RTO after a timeout (RFC 5682, 3.1 in the SACK-enhanced form), and how the Loss state ends.
//!
//! Source: Linux 6.1 `tcp_process_loss`.

use super::ack::{Ack, Resend, flag};
use super::{Sender, State};
use crate::tcp::clock::Context;

impl Sender {
    /// `tcp_process_loss`.
    pub(super) fn process_loss(&mut self, cx: &Context, ack: &Ack, num_dupack: u32) -> Resend {
        let recovered = !self.snd_una.before(self.high_seq);
        if ack.has(flag::ADVANCED) && self.try_undo_loss(cx, ack, false) {
            return Resend::Nothing;
        }
        if self.frto {
            // Step 3.b: data that was never retransmitted has arrived.
            if ack.has(flag::ORIGINAL_ACKED) && self.try_undo_loss(cx, ack, true) {
                return Resend::Nothing;
            }
            if self.snd_nxt.after(self.high_seq) {
                if ack.has(flag::DATA_SACKED) || num_dupack > 0 {
                    self.frto = false; // Step 3.a: the loss was real.
                }
            } else if ack.has(flag::ADVANCED) && !recovered {
                self.high_seq = self.snd_nxt;
                // Step 2.b: new data, once the window is updated.
                if self.has_new_data() && self.window_end().after(self.snd_nxt) {
                    return Resend::NewFirst;
                }
                self.frto = false;
            }
        }
        if recovered {
            // Step 2.a and the first part of step 3.a.
            self.try_undo_recovery(cx, ack);
            return Resend::Nothing;
        }
        if !self.uses_sack(cx) {
            if self.snd_nxt.after(self.high_seq) && num_dupack > 0 {
                self.add_reno_sack(num_dupack);
            } else if ack.has(flag::ADVANCED) {
                self.sacked_out = 0;
            }
        }
        debug_assert!(self.state == State::Loss);
        Resend::Lost
    }
}
