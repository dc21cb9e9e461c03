//! F-RTO: whether a timeout was spurious, and how recovery after a timeout ends.
//!
//! Written from RFC 5682, section 3.1, in the form with SACK. Differences, which are Linux 6.1's, as
//! replays on a kernel show them: each further timeout of a recovery may start F-RTO again, and a
//! SACK counts as the acknowledgement of step 3.

use super::Sender;
use super::ack::{Ack, Resend, flag};
use crate::tcp::clock::Context;

impl Sender {
    /// Handles an acknowledgement after a timeout. Without SACK, it stands for this number of
    /// `duplicates`.
    pub(super) fn continue_after_timeout(
        &mut self,
        cx: &Context,
        ack: &Ack,
        duplicates: u32,
    ) -> Resend {
        if ack.has(flag::ADVANCED) && self.take_back_timeout(cx, ack, false) {
            return Resend::Nothing;
        }
        if self.frto {
            match self.watch_timeout(ack, duplicates) {
                Verdict::Open => {}
                Verdict::SendNew => return Resend::NewFirst,
                Verdict::Spurious => {
                    self.take_back_timeout(cx, ack, true);
                    return Resend::Nothing;
                }
                Verdict::Real => self.frto = false,
            }
        }
        if !self.snd_una.before(self.high_seq) {
            // Everything that the timeout marked is repaired.
            self.leave_recovery(cx, ack);
            return Resend::Nothing;
        }
        if !self.uses_sack(cx) {
            if self.snd_nxt.after(self.high_seq) && duplicates > 0 {
                self.add_duplicates(duplicates);
            } else if ack.has(flag::ADVANCED) {
                self.sacked_out = 0;
            }
        }
        Resend::Lost
    }

    /// Steps 2 and 3.
    fn watch_timeout(&mut self, ack: &Ack, duplicates: u32) -> Verdict {
        if ack.has(flag::ORIGINAL_ARRIVED) {
            // Step 3 (b): a segment that was not sent again has arrived.
            return Verdict::Spurious;
        }
        if self.snd_nxt.after(self.high_seq) {
            // Step 3 (a): new data were sent, and a duplicate or a SACK answers them.
            let repeated = ack.has(flag::SACKS_DATA) || duplicates > 0;
            return if repeated { Verdict::Real } else { Verdict::Open };
        }
        if !ack.has(flag::ADVANCED) || !self.snd_una.before(self.high_seq) {
            return Verdict::Open;
        }
        // Step 2 (b): the window has moved, but not past what was in flight.
        self.high_seq = self.snd_nxt;
        if self.has_new_data() && self.window_end().after(self.snd_nxt) {
            Verdict::SendNew
        } else {
            Verdict::Real
        }
    }
}

/// What F-RTO makes of an acknowledgement.
enum Verdict {
    /// It decides nothing. A later one may.
    Open,
    /// Two new segments have to be sent. Their acknowledgements decide.
    SendNew,
    /// The original has arrived.
    Spurious,
    /// The segments were lost, or no new data can be sent to find out.
    Real,
}
