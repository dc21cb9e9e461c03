//! ECN in the handshake: what SYN and SYN-ACK ask and answer, and how they may be marked themselves.
//!
//! Sources: RFC 3168, 6.1.1; RFC 5562; ECN++ (draft-ietf-tcpm-generalized-ecn), and of Accurate ECN
//! (RFC 9768, 3.1) the handshake, without which nobody could tell a client that its SYN was marked.
//!
//! ```text
//!                  SYN asks        SYN-ACK agrees     SYN   SYN-ACK   what a mark does
//! RFC 3168         ECE CWR         ECE
//! RFC 5562         ECE CWR         ECE                      ECT(0)    an ACK with ECE brings the SYN-ACK again,
//!                                                                     without ECT; initial window 1
//! ECN++            AE ECE CWR      AE; marked: AE CWR ECT(0) ECT(0)    initial window 1 for who sent it
//! ```
//!
//! A SYN or SYN-ACK that is sent again is not capable of ECN, and a SYN no longer asks for it. Where the
//! server answers an ECN++ client as RFC 3168 has it, nobody knows whether the SYN was marked: initial
//! window 1.
//!
//! Differences: after the handshake feedback is RFC 3168's, also where both ends speak ECN++: one mark a
//! round trip is heard, which is as often as the window is reduced anyhow. The field of Accurate ECN that
//! counts marks (ACE) is not there, but for the answer to the SYN; a marked SYN-ACK is told by ECE on the
//! handshake's third segment alone. Of ECN++ bare acknowledgements, window probes and resets stay Not-ECT:
//! with RFC 3168's feedback nobody could say that they were marked.

use narrows_qdisc::Ecn;

use super::clock::Context;
use super::endpoint::{Endpoint, Phase};
use super::segment::Header;
use super::sender::Outgoing;
use super::{Config, EcnControl, Flags, Segment};

/// What an end has to say of marks during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeEcn {
    Nothing,
    /// A server: the SYN asked as ECN++ does.
    Asked,
    /// A server: that SYN was marked.
    AskedMarked,
    /// A client: the SYN-ACK was marked, which RFC 5562 lets it refuse.
    Refuse,
    /// A server: its SYN-ACK was refused, and goes again without ECT.
    Refused,
}

impl Endpoint {
    /// Flags, and the IP header's field, of a SYN or SYN-ACK.
    pub(super) fn syn_ecn(&self, config: &Config) -> (Flags, Ecn) {
        let first = self.syn_retries == 0;
        if self.phase == Phase::SynSent {
            // Linux repeats a SYN without the ECN request (RFC 3168, 6.1.1.1).
            if !config.ecn || !first {
                return (Flags::SYN, Ecn::NotEct);
            }
            let asks = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
            return match config.ecn_control {
                EcnControl::PlusPlus => (asks.with(Flags::AE), Ecn::Ect0),
                EcnControl::Data | EcnControl::SynAck => (asks, Ecn::NotEct),
            };
        }
        let flags = Flags::SYN.with(Flags::ACK);
        if !self.receiver.ecn {
            return (flags, Ecn::NotEct);
        }
        let capable = config.ecn_control != EcnControl::Data;
        match self.handshake_ecn {
            HandshakeEcn::Refused => (flags.with(Flags::ECE), Ecn::NotEct),
            HandshakeEcn::Asked => (flags.with(Flags::AE), ect_if(first)),
            HandshakeEcn::AskedMarked => (flags.with(Flags::AE).with(Flags::CWR), ect_if(first)),
            _ => (flags.with(Flags::ECE), ect_if(capable && first)),
        }
    }

    /// What the other end's SYN or SYN-ACK says of ECN.
    pub(super) fn take_syn_ecn(&mut self, cx: &Context, segment: &Segment) {
        let config = cx.config;
        let accurate = config.ecn && config.ecn_control == EcnControl::PlusPlus;
        let [ae, cwr, ece] =
            [Flags::AE, Flags::CWR, Flags::ECE].map(|flag| segment.flags.contains(flag));
        if !segment.flags.contains(Flags::ACK) {
            self.receiver.ecn = ece && cwr;
            if ae && ece && cwr && accurate {
                let marked = segment.ecn == Ecn::Ce;
                self.handshake_ecn =
                    if marked { HandshakeEcn::AskedMarked } else { HandshakeEcn::Asked };
            }
            return;
        }
        // A SYN-ACK may agree to the first SYN after a second one that no longer asked
        // (`tcp_ecn_rcv_synack`).
        let plain = ece && !cwr && !ae;
        let agrees = accurate && !ece && (ae || cwr);
        self.receiver.ecn = config.ecn && (plain || agrees);
        if accurate && (ae && cwr || !agrees) && self.syn_retries == 0 {
            // The SYN was marked, or nobody can say so.
            self.opening().start.restart_window = true;
        }
    }

    /// A marked SYN-ACK: whether the client asks for it again (RFC 5562), with the segment that says so.
    pub(super) fn refuses_mark(&mut self, cx: &Context, segment: &Segment) -> bool {
        let refuses = cx.config.ecn_control == EcnControl::SynAck
            && segment.ecn == Ecn::Ce
            && self.receiver.ecn;
        if refuses {
            self.handshake_ecn = HandshakeEcn::Refuse;
            self.syn_due = true;
        }
        refuses
    }

    /// The acknowledgement with ECE that refuses it.
    pub(super) fn mark_refusal(&mut self, cx: &Context) -> Segment {
        self.handshake_ecn = HandshakeEcn::Nothing;
        let outgoing =
            Outgoing { seq: self.sender.snd_nxt(), len: 0, flags: Flags::ECE, ect: false };
        Segment::from(self.header(cx, outgoing))
    }

    /// Whether a client's acknowledgement refuses the SYN-ACK, which then goes again.
    pub(super) fn repeats_marked_syn_ack(&mut self, cx: &Context, segment: &Segment) -> bool {
        let refused = cx.config.ecn_control == EcnControl::SynAck
            && self.receiver.ecn
            && segment.flags.contains(Flags::ECE)
            && self.handshake_ecn != HandshakeEcn::Refused;
        if refused {
            self.handshake_ecn = HandshakeEcn::Refused;
            self.syn_due = true;
            self.opening().start.restart_window = true;
        }
        refused
    }

    /// A client with ECN++: the handshake's third segment will say that the SYN-ACK was marked.
    pub(super) fn echo_marked_syn_ack(&mut self, cx: &Context, segment: &Segment) {
        if cx.config.ecn_control == EcnControl::PlusPlus && segment.ecn == Ecn::Ce {
            self.receiver.echo_once();
        }
    }

    /// A server with ECN++: the handshake's third segment without what it says of the SYN-ACK.
    pub(super) fn take_syn_ack_echo(&mut self, cx: &Context, segment: &Segment) -> Header {
        let mut header = segment.header();
        if cx.config.ecn_control == EcnControl::PlusPlus
            && self.receiver.ecn
            && header.flags.contains(Flags::ECE)
        {
            self.opening().start.restart_window = true;
            header.flags = header.flags.without(Flags::ECE);
        }
        header
    }
}

fn ect_if(capable: bool) -> Ecn {
    if capable { Ecn::Ect0 } else { Ecn::NotEct }
}
