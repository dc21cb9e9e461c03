//! What a receiver says about ECN on the segments that it sends.

use narrows_units::Ecn;

use super::Receiver;
use super::accurate::Accurate;
use super::dctcp::{Dctcp, Earlier};
use super::feedback::{ECHO, FEEDBACK, Feedback, Said};
use crate::tcp::clock::Context;
use crate::tcp::segment::Header;
use crate::tcp::{AccurateEcn, Flags, SackBlocks};

impl Receiver {
    /// Reports as Accurate ECN says. `third`: ACE on the handshake's third segment, for a client.
    pub(crate) fn use_accurate_ecn(&mut self, ect: Ecn, third: Option<Flags>, marks: u32) {
        self.start_feedback(ect).accurate = Some(Accurate::new(third, marks));
    }

    /// Acknowledges as DCTCP says, and reports so unless it uses Accurate ECN.
    pub(crate) fn use_dctcp(&mut self, ect: Ecn) {
        self.start_feedback(ect).dctcp = Some(Dctcp::default());
    }

    fn start_feedback(&mut self, ect: Ecn) -> &mut Feedback {
        self.predicted = Flags(0);
        self.echo = FEEDBACK;
        let feedback = &mut self.more.get_or_insert_default().feedback;
        feedback.get_or_insert(Feedback { ect, accurate: None, dctcp: None })
    }

    /// Sends no more ECN-capable segments, because the path clears ECN fields.
    #[cold]
    pub(crate) fn stop_ect(&mut self) {
        if let Some(feedback) = self.feedback_mut() {
            feedback.ect = Ecn::NotEct;
        }
    }

    /// Returns whether it reports as Accurate ECN says.
    #[inline]
    pub(crate) fn is_accurate(&self) -> bool {
        self.echo & FEEDBACK != 0 && self.feedback().is_some_and(|it| it.accurate.is_some())
    }

    pub(super) fn feedback(&self) -> Option<&Feedback> {
        self.more.as_ref()?.feedback.as_ref()
    }

    fn feedback_mut(&mut self) -> Option<&mut Feedback> {
        self.more.as_mut()?.feedback.as_mut()
    }

    pub(super) fn accurate_mut(&mut self) -> Option<&mut Accurate> {
        self.feedback_mut()?.accurate.as_mut()
    }

    pub(super) fn dctcp_mut(&mut self) -> Option<&mut Dctcp> {
        self.feedback_mut()?.dctcp.as_mut()
    }

    /// Returns whether segments report anything about ECN.
    #[inline]
    pub(crate) fn has_ecn_report(&self) -> bool {
        self.echo != 0
    }

    /// Adds the report to what a segment with `len` bytes of data says, and notes that it is sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn report_ecn(&mut self, cx: &Context, mut said: Said, len: u16) -> Said {
        if self.echo & ECHO != 0 {
            said.flags = said.flags.with(Flags::ECE);
        }
        let third = self.first;
        let mut earlier = None;
        match self.feedback_mut() {
            // The handshake's third segment reports a mark only once.
            None if third => self.echo &= !ECHO,
            None => {}
            Some(Feedback { ect, accurate, dctcp }) => {
                said.ecn = *ect;
                earlier = dctcp.as_mut().and_then(Dctcp::take_earlier).filter(|_| len == 0);
                if let Some(accurate) = accurate {
                    said.flags = said.flags.with(accurate.ace(third));
                } else if let Some(Earlier { marked, .. }) = earlier {
                    said.flags = said.flags.without(Flags::ECE);
                    if marked {
                        said.flags = said.flags.with(Flags::ECE);
                    }
                }
            }
        }
        self.on_ack_sent(cx);
        if let Some(earlier) = earlier {
            said.ack = earlier.next;
            self.rcv_wup = earlier.next;
            self.acknowledge_now();
        }
        said
    }

    /// Counts a packet that has arrived (RFC 9768, 3.2.1).
    pub(crate) fn count_ecn(&mut self, header: &Header) {
        let owes = header.len > 0 || self.scheduled;
        let Some(accurate) = self.accurate_mut() else { return };
        if accurate.count(header, owes) {
            self.acknowledge_now();
        }
    }

    /// Returns the AccECN option of a segment with these SACK blocks, of which it may take one away.
    pub(crate) fn accurate_option(&mut self, sack: &mut SackBlocks) -> Option<AccurateEcn> {
        let stamps = self.timestamps;
        self.accurate_mut()?.option(sack, stamps)
    }

    /// Notes whether data were marked (RFC 8257, 3.2).
    pub(super) fn note_dctcp_mark(&mut self, header: &Header) {
        let marked = header.ecn == Ecn::Ce;
        // Data in order are counted already.
        let in_order = header.end() == self.rcv_nxt;
        let next = if in_order { header.seq } else { self.rcv_nxt };
        let waits = next.after(self.rcv_wup);
        let change = self.dctcp_mut().and_then(|dctcp| dctcp.note(marked, next, waits));
        let Some(old_goes_first) = change else { return };
        self.first |= old_goes_first;
        if !self.is_accurate() {
            self.echo = if marked { self.echo | ECHO } else { self.echo & !ECHO };
        }
        self.acknowledge_now();
    }
}
