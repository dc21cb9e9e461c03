//! The receiver's side of ECN (RFC 3168, 6.1.3): it echoes marks until the sender says CWR.
//!
//! Source: Linux 6.1 `__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr`; for [`AckPolicy::Linux26`] Linux
//! 2.6.30 `TCP_ECN_check_ce`, `TCP_ECN_accept_cwr`, which only record what they see.

use narrows_units::Ecn;

use super::Receiver;
use super::feedback::ECHO;
use crate::tcp::clock::Context;
use crate::tcp::segment::Header;
use crate::tcp::{AckPolicy, Flags};

impl Receiver {
    /// `__tcp_ecn_check_ce`.
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
        match header.ecn {
            Ecn::NotEct => {
                // This is probably a retransmission, which carries no ECT.
                if self.ect_seen || !hurries {
                    self.enter_quick_mode(cx, QUICK_ON_ECN);
                }
            }
            Ecn::Ce => {
                if self.echo == 0 && hurries {
                    // The sender's window may be tiny, so do not delay.
                    self.enter_quick_mode(cx, QUICK_ON_ECN);
                }
                self.echo = ECHO;
                self.ect_seen = true;
            }
            Ecn::Ect0 | Ecn::Ect1 => self.ect_seen = true,
        }
    }

    /// `tcp_ecn_accept_cwr`.
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

/// `tcp_enter_quickack_mode(sk, 2)`.
const QUICK_ON_ECN: u32 = 2;
