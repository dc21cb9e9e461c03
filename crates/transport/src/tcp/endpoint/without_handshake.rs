//! Connections that this end did not open by a handshake of its own.
//!
//! With `skip_handshake`, neither end makes one: both start at sequence number 1. A stateless server
//! makes it before there is an endpoint, which then takes the connection over.

use narrows_units::Time;

use super::super::clock::Context;
use super::super::sender::{Half, Start};
use super::super::{Flags, Segment, Seq};
use super::{Endpoint, Phase, State, payload};

/// What an endpoint needs to take over a connection that a server without state has opened.
#[derive(Clone, Copy, Debug)]
pub struct Adopted {
    /// The client's SYN.
    pub syn: Segment,
    /// The client's next byte.
    pub client_next: Seq,
    /// The payload bytes that the server has taken before it.
    pub taken: u64,
    /// Our next byte.
    pub server_next: Seq,
}

impl Endpoint {
    /// Takes over a connection that was opened without this endpoint, from `first` on, the segment
    /// that it gets next (`bpf_sk_assign_tcp_reqsk`).
    pub fn adopt(&mut self, now: Time, adopted: &Adopted, first: &Segment) {
        let (state, cx) = self.at(now);
        state.adopt(&cx, adopted, first);
    }
}

impl State {
    /// Establishes the connection at once (`skip_handshake`).
    pub(super) fn skip_handshake(&mut self, cx: &Context) {
        self.phase = Phase::Established;
        self.syn_sent_us = NEVER_SENT;
        self.receiver.start(Seq(1), cx.config.window_scaling);
        self.receiver.timestamps = cx.config.timestamps;
        self.receiver.sack = cx.config.sack;
        self.receiver.ecn = cx.config.wants_ecn();
        let mss = payload(cx.config.mss, cx.config.timestamps);
        self.opening().start = Start { mss, ..Start::default() };
        if cx.config.is_accurate() {
            self.use_accurate_ecn(cx.config, None, 0);
        } else if self.receiver.ecn {
            self.use_classic_ecn(cx.config);
        }
        let Start { mss, ecn, .. } = self.opening().start;
        let start = Start {
            at: cx.now,
            mss,
            peer_scale: self.receiver.scale(),
            sack: cx.config.sack,
            ecn,
            window: u32::from(self.receiver.window_field()) << self.receiver.scale(),
            peer_seq: Seq(1),
            rtt_us: None,
            handshake_lost: false,
            restart_window: false,
        };
        self.sender.start(cx, start);
    }

    fn adopt(&mut self, cx: &Context, adopted: &Adopted, first: &Segment) {
        self.sender = Half::new(cx.config, adopted.server_next);
        // The SYN-ACK did not agree to ECN.
        let asks = Flags::ECE.with(Flags::CWR).with(Flags::AE);
        let syn = Segment { flags: adopted.syn.flags.without(asks), ..adopted.syn };
        self.take_syn(cx, &syn);
        let scaled = self.receiver.scaled && self.receiver.timestamps;
        self.receiver.start(adopted.client_next, scaled);
        self.receiver.sack &= self.receiver.timestamps;
        self.receiver.bytes_received = adopted.taken;
        self.syn_sent_us = cx.us.min(NEVER_SENT - 1);
        if !scaled {
            self.opening().start.peer_scale = 0;
        }
        let start = self.start_of(cx, first, None);
        self.phase = Phase::Established;
        self.sender.start(cx, start);
    }

    /// Returns whether neither end made a handshake.
    pub(super) fn skipped(&self) -> bool {
        // Only `skip_handshake` establishes a connection without a SYN.
        self.syn_sent_us == NEVER_SENT
    }
}

/// The value of `syn_sent_us` on a connection without a handshake.
pub(super) const NEVER_SENT: u32 = u32::MAX;
