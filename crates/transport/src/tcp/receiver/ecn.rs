//! The receiver's side of ECN (RFC 3168, 6.1.3): it echoes marks until the sender says CWR.
//!
//! Written from RFC 3168. Differences, which are Linux 6.1's, as replays on a kernel show them: marks
//! and CWR end delayed acknowledgements for a while. With [`AckPolicy::Linux26`], they do not.

use narrows_units::Ecn;

use super::Receiver;
use super::feedback::ECHO;
use crate::tcp::clock::Context;
use crate::tcp::segment::Header;
use crate::tcp::{AckPolicy, Flags};

impl Receiver {
    /// Looks at the ECN field of a segment.
    #[inline(always)]
    pub(super) fn check_ce(&mut self, cx: &Context, header: &Header) {
        if self.ecn {
            self.note_ecn(cx, header);
        }
    }

    fn note_ecn(&mut self, cx: &Context, header: &Header) {
        if self.feedback().is_some() {
            self.note_dctcp_mark(header);
            return;
        }
        let hurries = cx.config.acks != AckPolicy::Linux26;
        let (marked, capable) = (header.ecn == Ecn::Ce, header.ecn != Ecn::NotEct);
        let is_urgent = if capable {
            // With the first mark, the sender's window may become tiny, so do not delay.
            hurries && marked && self.echo == 0
        } else {
            // This is probably a retransmission, which carries no ECT.
            self.ect_seen || !hurries
        };
        if is_urgent {
            self.enter_quick_mode(cx, QUICK_ON_ECN);
        }
        self.ect_seen |= capable;
        if marked {
            self.echo = ECHO;
        }
    }

    /// Ends the echo if the sender says CWR.
    #[inline]
    pub(crate) fn accept_cwr(&mut self, cx: &Context, header: &Header) {
        if header.flags.contains(Flags::CWR) && !self.is_accurate() {
            if self.feedback().is_none() {
                self.echo = 0;
            }
            if header.end() != header.seq && cx.config.acks != AckPolicy::Linux26 {
                self.now = true;
            }
        }
    }

    /// Lets the handshake's third segment carry ECE.
    pub(crate) fn echo_once(&mut self) {
        if self.ecn && self.feedback().is_none() {
            self.echo = ECHO;
        }
    }
}

/// The acknowledgements that are not delayed then.
const QUICK_ON_ECN: u32 = 2;
