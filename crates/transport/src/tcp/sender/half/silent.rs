//! The state of a half that has sent nothing but SYNs and acknowledgements: what it needs to become
//! a [`Sender`] later.

use narrows_units::MaybeTime;

use super::super::unsent::Unsent;
use super::super::{Negotiated, Sender, Start, Tally};
use crate::congestion::Window;
use crate::tcp::segment::Header;
use crate::tcp::{Config, Flags, Seq};

/// The state of a half that has sent nothing.
#[derive(Clone, Debug)]
pub(crate) struct Silent {
    /// `snd_una` and `snd_nxt`.
    pub(super) next: Seq,
    /// The state with which [`Sender::start`] would start, filled in by the handshake. Its window
    /// is kept up to date.
    pub start: Start,
    pub(super) standing: Standing,
    pub(super) fin_queued: bool,
    pub(super) failed: bool,
    /// How often the SYN was repeated, and how many of these followed a timeout.
    pub(super) syns_repeated: u16,
    pub(super) syn_timeouts: u8,
    /// The bytes that the SYN carried, acknowledged together with it (Fast Open).
    pub(super) early: u16,
    /// The retransmission timeout in jiffies.
    pub(super) rto: u32,
    /// When the SYN has to be repeated.
    pub(super) syn_at: MaybeTime,
    /// Bytes written before the connection is established; `u64::MAX`: no end.
    pub(super) unsent: Unsent,
}

/// Whether a half that has sent nothing may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may not yet, because the handshake is not complete.
    Opening,
    /// It may, but its SYN-ACK is not acknowledged (Fast Open).
    Unconfirmed,
    Established,
}

impl Silent {
    pub(super) fn new(config: &Config, first: Seq) -> Self {
        Self {
            next: first,
            start: Start { mss: config.mss, ..Start::default() },
            standing: Standing::Opening,
            fin_queued: false,
            failed: false,
            syns_repeated: 0,
            syn_timeouts: 0,
            early: 0,
            rto: 0,
            syn_at: MaybeTime::NONE,
            unsent: Unsent::default(),
        }
    }

    /// Returns the sender as it would have started, with its current window.
    pub(super) fn wake(&self, config: &Config) -> Sender {
        let mut sender = Sender::new(config, self.next);
        sender.start(config, self.start);
        sender.unsent = self.unsent;
        sender.fin_queued = self.fin_queued;
        sender.failed = self.failed;
        if self.syns_repeated > 0 || self.syn_timeouts > 0 {
            *sender.tally() = self.tally();
        }
        sender.bytes_acked = u64::from(self.early);
        if self.standing == Standing::Unconfirmed {
            sender.await_confirmation(self.syn_at);
        }
        sender
    }

    /// Returns the congestion window, which nothing has changed since the handshake.
    pub(super) fn window(&self, config: &Config) -> Window {
        let mut window = Window::new(config.initial_window, config.initial_ssthresh);
        if self.start.restart_window && self.standing != Standing::Opening {
            window.cwnd = 1;
        }
        window
    }

    /// Returns the bytes written and not yet sent. A SYN's data count as unsent until acknowledged.
    pub(crate) fn unsent(&self) -> Unsent {
        self.unsent
    }

    /// Notes that the SYN-ACK acknowledges `bytes` bytes that the SYN carried.
    pub(crate) fn take_early_ack(&mut self, bytes: u32) {
        self.unsent.take(bytes as u16);
        self.next = self.next + bytes;
        self.early = bytes as u16;
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            retransmitted: self.syns_repeated(),
            timeouts: u32::from(self.syn_timeouts),
            ..Tally::default()
        }
    }

    /// Returns how often the SYN was repeated.
    pub(crate) fn syns_repeated(&self) -> u32 {
        u32::from(self.syns_repeated)
    }

    /// Returns whether a segment needs no more than this: nothing is in flight, so only its window
    /// can be new.
    #[inline]
    pub(crate) fn is_acknowledged_by(&self, header: &Header) -> bool {
        header.ack == self.next
            && (!header.flags.contains(Flags::ECE)
                || matches!(self.start.ecn, Negotiated::Accurate(_)))
    }

    /// Returns the retransmission timeout in jiffies.
    #[inline]
    pub(crate) fn rto(&self) -> u32 {
        self.rto
    }

    #[inline]
    fn window_in(&self, header: &Header) -> u32 {
        u32::from(header.window) << self.start.peer_scale
    }

    /// `tcp_may_update_window`, if nothing is in flight.
    #[inline(always)]
    pub(super) fn may_update_window(&self, header: &Header) -> bool {
        let window = self.window_in(header);
        header.ack.after(self.next)
            || header.seq.after(self.start.peer_seq)
            || (header.seq == self.start.peer_seq && (window > self.start.window || window == 0))
    }

    #[inline(always)]
    pub(crate) fn update_window(&mut self, header: &Header) {
        if self.may_update_window(header) {
            self.start.peer_seq = header.seq;
            self.start.window = self.window_in(header);
        }
    }
}
