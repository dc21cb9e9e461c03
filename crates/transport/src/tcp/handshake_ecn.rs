//! ECN in the handshake: what SYN and SYN-ACK negotiate, and how they may themselves be marked.
//!
//! Sources: RFC 3168, 6.1.1; RFC 5562; ECN++ (draft-ietf-tcpm-generalized-ecn); and the handshake
//! of Accurate ECN (RFC 9768, 3.1), without which a server could not tell a client that its SYN was
//! marked.
//!
//! ```text
//!           SYN asks    SYN-ACK agrees      SYN     SYN-ACK  what a mark does
//! RFC 3168  ECE CWR     ECE
//! RFC 5562  ECE CWR     ECE                         ECT(0)   an ACK with ECE makes the server
//!                                                            repeat the SYN-ACK without ECT;
//!                                                            initial window 1
//! ECN++     AE ECE CWR  AE; marked: AE CWR  ECT(0)  ECT(0)   initial window 1 for its sender
//! ```
//!
//! A repeated SYN or SYN-ACK is not ECN-capable, and a repeated SYN no longer asks for ECN. If the
//! server answers an ECN++ client as RFC 3168 says, the client cannot know whether its SYN was
//! marked and uses initial window 1.
//!
//! Differences:
//!
//! - After the handshake, feedback follows RFC 3168 even if both ends use ECN++: the sender hears
//!   of one mark in a round trip, which is as often as it reduces the window anyway.
//! - The counter of Accurate ECN (ACE) is modelled only in the answer to the SYN. A marked SYN-ACK
//!   is reported only by ECE on the handshake's third segment.
//! - With ECN++, bare acknowledgements, window probes and resets stay Not-ECT, because RFC 3168's
//!   feedback could not report that they were marked.

use narrows_units::Ecn;

use super::clock::Context;
use super::endpoint::{Phase, State};
use super::segment::Header;
use super::sender::Outgoing;
use super::{Config, EcnControl, Flags, Segment};

/// What an end has to report about marks during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeEcn {
    Nothing,
    /// A server: the SYN asked for ECN as ECN++ does.
    Asked,
    /// A server: that SYN was marked.
    AskedMarked,
    /// A client: the SYN-ACK was marked, and RFC 5562 lets the client refuse it.
    Refuse,
    /// A server: its SYN-ACK was refused, and is repeated without ECT.
    Refused,
}

impl State {
    /// Returns the flags and the IP header's ECN field of a SYN or SYN-ACK.
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

    /// Takes what the other end's SYN or SYN-ACK says about ECN.
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
            // The SYN was marked, or the server could not say.
            self.opening().start.restart_window = true;
        }
    }

    /// Returns whether the client refuses the SYN-ACK `segment`, because it is marked, and asks for
    /// it again (RFC 5562).
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

    /// Returns the acknowledgement with ECE that refuses a SYN-ACK.
    pub(super) fn mark_refusal(&mut self, cx: &Context) -> Segment {
        self.handshake_ecn = HandshakeEcn::Nothing;
        let outgoing =
            Outgoing { seq: self.sender.snd_nxt(), len: 0, flags: Flags::ECE, ecn: Ecn::NotEct };
        Segment::from(self.header(cx, outgoing))
    }

    /// Returns whether a client's acknowledgement refuses the SYN-ACK, which is then repeated.
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

    /// Lets a client with ECN++ report a marked SYN-ACK on the handshake's third segment.
    pub(super) fn echo_marked_syn_ack(&mut self, cx: &Context, segment: &Segment) {
        if cx.config.ecn_control == EcnControl::PlusPlus && segment.ecn == Ecn::Ce {
            self.receiver.echo_once();
        }
    }

    /// Takes a client's report on the SYN-ACK from the handshake's third segment, for a server with
    /// ECN++. Returns the segment without the report.
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
