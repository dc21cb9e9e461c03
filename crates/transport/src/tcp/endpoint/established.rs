//! The segments of an established connection: those that arrive, and those that leave.
//!
//! Source: Linux 6.1 `tcp_rcv_established`; header prediction is Jacobson's ("4BSD TCP header
//! prediction", 1990). Most segments of a run take only the predicted path.

use narrows_units::Ecn;

use super::super::clock::Context;
use super::super::receiver::{Decision, Said, Verdict};
use super::super::segment::Header;
use super::super::sender::{Half, Outgoing};
use super::super::{AccurateEcn, Flags, Segment, Seq};
use super::{Closing, Phase, State};
use crate::Closed;

impl State {
    /// Takes a segment by header prediction (Jacobson, "4BSD TCP header prediction", 1990;
    /// `tcp_rcv_established`). On an established connection, nearly every segment is either the
    /// next data, for an end that has nothing in flight, or an acknowledgement of data in flight,
    /// without data. Returns false, and changes nothing, if the segment is neither and needs the
    /// full path.
    #[inline(always)]
    pub(super) fn take_predicted(&mut self, cx: &Context, header: &Header) -> bool {
        // The segment has no other flags, it starts where the last one ended, and its timestamp is
        // not old: `Receiver::validate` would accept it.
        if self.phase != Phase::Established
            || header.flags.without(Flags::PSH) != self.receiver.predicted
            || !self.receiver.expects(header)
        {
            return false;
        }
        match &mut self.sender {
            Half::Silent(silent) => {
                // Nothing is out of order, so no hole can be filled.
                if header.len == 0 || !silent.is_acknowledged_by(header) || self.receiver.has_gap()
                {
                    return false;
                }
                silent.update_window(header);
                self.marks_received += u32::from(header.ecn == Ecn::Ce);
                self.receiver.note_stamp(header);
                self.receiver.take_next(cx, header, silent.rto());
            }
            Half::Active(sender) => {
                if header.len != 0 || header.ecn == Ecn::Ce || !sender.predicts(header) {
                    return false;
                }
                self.receiver.note_stamp(header);
                sender.take_predicted_ack(cx, header);
            }
        }
        true
    }

    /// Handles a segment that [`take_predicted`](Self::take_predicted) did not take.
    #[inline(never)]
    pub(super) fn handle_unpredicted(&mut self, cx: &Context, header: &Header) {
        if self.phase == Phase::Established {
            self.hear_report(header, None);
            self.handle_established(cx, header, &[]);
        } else {
            self.handle_handshake(cx, &Segment::from(*header));
        }
    }

    /// Takes what a segment reports by Accurate ECN, before it is
    /// [handled](Self::handle_established).
    #[inline]
    pub(super) fn hear_report(&mut self, header: &Header, option: Option<AccurateEcn>) {
        if self.receiver.is_accurate() && !header.flags.contains(Flags::SYN) {
            self.sender.hear_report(header.flags, option);
        }
    }

    pub(super) fn handle_established(
        &mut self,
        cx: &Context,
        header: &Header,
        sack: &[(Seq, Seq)],
    ) {
        if header.flags.intersects(Flags::RST.with(Flags::SYN)) {
            self.handle_disruption(cx, header);
            return;
        }
        if header.ecn == Ecn::Ce {
            self.marks_received += 1;
        }
        let verdict = self.receiver.validate(cx, header, &self.sender);
        if verdict == Verdict::Dropped {
            return;
        }
        if self.receiver.is_accurate() {
            self.receiver.count_ecn(header);
        }
        if !header.flags.contains(Flags::ACK) || !self.sender.handle_ack(cx, header, sack) {
            return;
        }
        self.receiver.accept_cwr(cx, header);
        if header.end() != header.seq {
            self.receiver.take_data(cx, header, self.sender.rto());
            if self.receiver.fin_received {
                if self.sender.is_fin_sent() {
                    self.receiver.acknowledge_now();
                }
                if self.closing == Closing::WithPeer {
                    self.sender.close(cx.config);
                }
            }
        }
    }

    /// Handles RST or SYN on an established connection.
    #[cold]
    fn handle_disruption(&mut self, cx: &Context, header: &Header) {
        if header.flags.contains(Flags::RST) {
            self.fail_by(cx, Closed::Reset);
        } else {
            // Our answer was lost.
            self.receiver.acknowledge_now();
        }
    }

    /// Returns the next data segment, or else an acknowledgement.
    #[inline(always)]
    pub(super) fn next_outgoing(&mut self, cx: &Context) -> Option<Outgoing> {
        if !self.receiver.first
            && let Some(outgoing) = self.sender.poll(cx)
        {
            if outgoing.len > 0 {
                self.receiver.on_data_sent(cx);
            }
            return Some(outgoing);
        }
        let owed = self.receiver.decide(cx, self.sender.srtt_us()) == Decision::Send;
        owed.then_some(Outgoing {
            seq: self.sender.snd_nxt(),
            len: 0,
            flags: Flags(0),
            ecn: Ecn::NotEct,
        })
    }

    /// Returns a header with everything that the receiving half has to say, except SACK blocks.
    #[inline(always)]
    pub(in super::super) fn header(&mut self, cx: &Context, outgoing: Outgoing) -> Header {
        let receiver = &mut self.receiver;
        let window = receiver.advertise();
        let timestamps = receiver.timestamps.then(|| (cx.timestamp(), receiver.ts_recent));
        let plain = Said {
            ack: receiver.rcv_nxt,
            flags: outgoing.flags.with(Flags::ACK),
            ecn: outgoing.ecn,
        };
        let Said { ack, flags, ecn } = if receiver.has_ecn_report() {
            receiver.report_ecn(cx, plain, outgoing.len)
        } else {
            receiver.on_ack_sent(cx);
            plain
        };
        self.segments_sent += 1;
        Header { seq: outgoing.seq, ack, window, len: outgoing.len, flags, ecn, timestamps }
    }
}
