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
//! RFC 9768  AE ECE CWR  AE, CWR, ECE: how                    the third segment and all later ones
//!                       the SYN came                         report it
//! ```
//!
//! A repeated SYN or SYN-ACK is not ECN-capable, unless its sender sends only ECN-capable packets
//! (DCTCP, Prague), and a repeated SYN no longer asks for ECN. If the server answers an ECN++ client as
//! RFC 3168 says, the client cannot know whether its SYN was marked and uses initial window 1.
//!
//! With Accurate ECN, ends give it up later (RFC 9768, 3.1.4; Linux 7.3 `tcp_ecn_make_synack`,
//! `tcp_check_req`, `TCP_ACCECN_ACE_FAIL_SEND`): the first repeated SYN asks again. A server that has
//! waited for a timeout repeats its SYN-ACK without the flags. From its second repetition on, or after a
//! SYN that no longer asks, it sends no ECN-capable data, because the path may drop these. With
//! `syn_ack_ecn_fallback`, a server with RFC 3168's ECN leaves ECE out then, as Linux 7.3 does, but goes
//! on to send ECN-capable data.
//!
//! Differences:
//!
//! - Without `accurate_ecn`, feedback follows RFC 3168 even if both ends use ECN++: the sender hears
//!   of one mark in a round trip, which is as often as it reduces the window anyway.
//! - It then has the counter of Accurate ECN (ACE) only in the answer to the SYN. A marked SYN-ACK
//!   is reported only by ECE on the handshake's third segment.
//! - With ECN++ and without `accurate_ecn`, bare acknowledgements, window probes and resets stay
//!   Not-ECT, because RFC 3168's feedback could not report that they were marked.

use narrows_units::Ecn;

use super::accurate_ecn::{FIRST_PACKETS, WHOLE_OPTION, ace_flags, ace_of};
use super::clock::Context;
use super::endpoint::{Phase, State};
use super::segment::Header;
use super::sender::{Negotiated, Outgoing};
use super::{Config, Congestion, EcnControl, Flags, Segment};

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
    /// A server: the SYN asked for Accurate ECN, and arrived with this codepoint.
    Accurate(Ecn),
    /// A server: the SYN asked for Accurate ECN, but the repeated SYN-ACK no longer answers that.
    Unanswered,
    /// A server: the SYN asked for ECN, but the repeated SYN-ACK no longer agrees.
    Withheld,
}

const _: () = assert!(size_of::<HandshakeEcn>() == 1);

impl State {
    /// Returns the flags and the IP header's ECN field of a SYN or SYN-ACK.
    pub(super) fn syn_ecn(&self, config: &Config) -> (Flags, Ecn) {
        let first = self.syn_retries == 0;
        let plus_plus = config.ecn_control == EcnControl::PlusPlus;
        let ect_if = |capable: bool| {
            let capable = capable && first || config.sends_only_ect();
            if capable { config.ect() } else { Ecn::NotEct }
        };
        if self.phase == Phase::SynSent {
            // RFC 3168, 6.1.1.1; RFC 9768, 3.1.4.1.
            let asks = first || self.syn_retries == 1 && config.is_accurate();
            let flags = match (config.wants_ecn(), asks) {
                (false, _) => return (Flags::SYN, Ecn::NotEct),
                (true, false) => Flags::SYN,
                (true, true) => Flags::SYN.with(Flags::ECE).with(Flags::CWR),
            };
            let accurate = asks && (plus_plus || config.is_accurate());
            return (if accurate { flags.with(Flags::AE) } else { flags }, ect_if(plus_plus));
        }
        let flags = Flags::SYN.with(Flags::ACK);
        if !self.receiver.ecn {
            return (flags, Ecn::NotEct);
        }
        let capable = config.ecn_control != EcnControl::Data;
        match self.handshake_ecn {
            HandshakeEcn::Accurate(syn) => (flags.with(handshake_code(syn)), ect_if(capable)),
            HandshakeEcn::Unanswered | HandshakeEcn::Withheld => (flags, ect_if(capable)),
            HandshakeEcn::Refused => (flags.with(Flags::ECE), Ecn::NotEct),
            HandshakeEcn::Asked => (flags.with(Flags::AE), ect_if(true)),
            HandshakeEcn::AskedMarked => (flags.with(Flags::AE).with(Flags::CWR), ect_if(true)),
            _ => (flags.with(Flags::ECE), ect_if(capable)),
        }
    }

    /// Takes what the other end's SYN or SYN-ACK says about ECN.
    pub(super) fn take_syn_ecn(&mut self, cx: &Context, segment: &Segment) {
        let config = cx.config;
        let accurate = config.wants_ecn() && config.ecn_control == EcnControl::PlusPlus;
        let [ae, cwr, ece] =
            [Flags::AE, Flags::CWR, Flags::ECE].map(|flag| segment.flags.contains(flag));
        if !segment.flags.contains(Flags::ACK) {
            self.receiver.ecn = ece && cwr;
            if ae && ece && cwr && config.is_accurate() {
                self.handshake_ecn = HandshakeEcn::Accurate(segment.ecn);
                self.use_accurate_ecn(config, None, 0);
            } else if self.receiver.ecn {
                self.use_classic_ecn(config);
            }
            if ae && ece && cwr && accurate && !config.is_accurate() {
                let marked = segment.ecn == Ecn::Ce;
                self.handshake_ecn =
                    if marked { HandshakeEcn::AskedMarked } else { HandshakeEcn::Asked };
            }
            return;
        }
        // A SYN-ACK may agree to the first SYN after a second one that no longer asked
        // (`tcp_ecn_rcv_synack`).
        let plain = ece && !cwr && !ae;
        let agrees = if config.is_accurate() {
            // RFC 9768, table 2.
            matches!(ace_of(segment.flags), 2 | 3 | 4 | 6)
        } else {
            accurate && !ece && (ae || cwr)
        };
        self.receiver.ecn = config.wants_ecn() && (plain || agrees);
        if agrees && config.is_accurate() {
            let marks = u32::from(segment.ecn == Ecn::Ce);
            self.use_accurate_ecn(config, Some(handshake_code(segment.ecn)), marks);
        } else if self.receiver.ecn {
            self.use_classic_ecn(config);
        }
        if accurate && (ae && cwr || !agrees) && self.syn_retries == 0 {
            // The SYN was marked, or the server could not say.
            self.opening().start.restart_window = true;
        }
    }

    /// Takes a repeated SYN's word on Accurate ECN.
    pub(super) fn take_repeated_syn_ecn(&mut self, segment: &Segment) {
        if let HandshakeEcn::Accurate(syn) = &mut self.handshake_ecn {
            *syn = segment.ecn;
            if ace_of(segment.flags) == 0 {
                self.stop_ect();
            }
        }
    }

    /// Gives up what a server's SYN-ACK says of ECN if it has to be repeated too often.
    pub(super) fn repeat_syn_ack_ecn(&mut self, config: &Config) {
        let timed_out = self.syn_retries > 0;
        match self.handshake_ecn {
            HandshakeEcn::Accurate(_) | HandshakeEcn::Unanswered => {
                if timed_out {
                    self.handshake_ecn = HandshakeEcn::Unanswered;
                }
                if self.syns_repeated() > 0 {
                    self.stop_ect();
                }
            }
            HandshakeEcn::Nothing if timed_out && config.syn_ack_ecn_fallback => {
                self.handshake_ecn = HandshakeEcn::Withheld;
            }
            _ => {}
        }
    }

    /// Sends no more ECN-capable packets, because the path clears ECN fields or drops such packets.
    fn stop_ect(&mut self) {
        self.receiver.stop_ect();
        self.sender.stop_ect();
    }

    /// Uses Accurate ECN from now on. `third`: the flags of a client's third segment; `marks`: marks
    /// that it has seen already.
    pub(super) fn use_accurate_ecn(&mut self, config: &Config, third: Option<Flags>, marks: u32) {
        self.receiver.ecn = true;
        self.receiver.use_accurate_ecn(config.ect(), third, marks);
        if config.congestion == Congestion::Dctcp {
            self.receiver.use_dctcp(config.ect());
        }
        let start = &mut self.opening().start;
        start.ecn = Negotiated::Accurate(FIRST_PACKETS as u8);
        // Every segment carries the AccECN option.
        start.mss = start.mss.saturating_sub(WHOLE_OPTION).max(1);
    }

    /// Uses ECN with the feedback of RFC 3168, or that of DCTCP, which looks alike in the handshake.
    pub(super) fn use_classic_ecn(&mut self, config: &Config) {
        self.receiver.ecn = true;
        self.opening().start.ecn = Negotiated::Classic;
        if config.congestion == Congestion::Dctcp {
            self.receiver.use_dctcp(config.ect());
        }
    }

    /// Takes what a server with Accurate ECN hears in the handshake's third segment (RFC 9768,
    /// 3.2.2.1). Its ACE is a code if it carries no data, and the counter otherwise.
    pub(super) fn take_third_segment(&mut self, segment: &Segment) {
        if !self.receiver.is_accurate() {
            return;
        }
        let pure = segment.len == 0 && !segment.flags.contains(Flags::FIN);
        match ace_of(segment.flags) {
            // Table 4: the path clears the flags.
            0 if pure => self.stop_ect(),
            HANDSHAKE_CE if pure => {
                if let Some(silent) = self.sender.silent_mut() {
                    silent.start.restart_window = true;
                }
                self.sender.hear_report(segment.flags, segment.accurate);
            }
            _ if pure => {}
            _ => self.sender.hear_report(segment.flags, segment.accurate),
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
        let plus_plus = cx.config.ecn_control == EcnControl::PlusPlus;
        if plus_plus && segment.ecn == Ecn::Ce && !self.receiver.is_accurate() {
            self.receiver.echo_once();
        }
    }

    /// Takes a client's report on the SYN-ACK from the handshake's third segment, for a server with
    /// ECN++. Returns the segment without the report.
    pub(super) fn take_syn_ack_echo(&mut self, cx: &Context, segment: &Segment) -> Header {
        let mut header = segment.header();
        if self.receiver.is_accurate() {
            self.take_third_segment(segment);
            return header;
        }
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

/// Returns the flags that say with which codepoint a SYN or SYN-ACK has arrived (RFC 9768, tables 2
/// and 3).
fn handshake_code(arrived: Ecn) -> Flags {
    ace_flags(match arrived {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => HANDSHAKE_CE.into(),
    })
}

/// The code of a marked SYN or SYN-ACK.
const HANDSHAKE_CE: u8 = 0b110;
