//! What acknowledgements report about marks, and who hears it: the sender, which begins a reduction,
//! and a congestion control that counts marks.

use super::ack::{Ack, flag};
use super::{Sender, State};
use crate::congestion::Delivery;
use crate::tcp::clock::Context;
use crate::tcp::segment::Header;

impl Sender {
    /// Returns whether the other end reports marks by the counters of Accurate ECN.
    #[inline]
    pub(super) fn is_accurate(&self) -> bool {
        self.accurate.is_some()
    }

    /// Returns whether a reduction of the window is announced by CWR (RFC 3168, 6.1.2).
    pub(super) fn announces_reductions(&self) -> bool {
        self.ect.is_capable() && !self.is_accurate()
    }

    /// Takes the report of the segment `header`, whose acknowledgement delivers `delivered`
    /// segments.
    #[cold]
    #[inline(never)]
    pub(super) fn take_report(&mut self, header: &Header, ack: &mut Ack, delivered: u32) {
        let mss = u32::from(self.mss);
        let news = ack.has(flag::ADVANCED | flag::ACKS_DATA | flag::SACKS_DATA);
        let Some(accurate) = &mut self.accurate else { return };
        let Some(heard) = accurate.heard.take() else { return };
        if !accurate.is_latest(header.timestamps.map(|(stamp, _)| stamp), news) {
            return;
        }
        ack.marked = accurate.take(heard, delivered, mss);
        if ack.marked > 0 && self.ect.is_capable() {
            ack.set(flag::ECE);
        }
    }
}

/// What congestion controls that count marks hear.
impl Sender {
    /// Lets Prague change the window. Returns false if it is another control.
    pub(super) fn steer(&mut self, cx: &Context, ack: &Ack, delivered: u32) -> bool {
        let delivery = Delivery {
            delivered,
            marked: ack.marked,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt_us: self.rtt.smoothed_us().unwrap_or(0),
            is_limited: self.is_cwnd_limited(),
            is_open: self.state == State::Open,
        };
        self.control.steer(cx, &mut self.window, &delivery)
    }

    /// Tells the control what an acknowledgement delivers, of `self.delivered - prior_delivered`
    /// segments. Without Accurate ECN, ECE says that all of them were marked.
    #[inline(never)]
    pub(super) fn note_marks(&mut self, ack: &Ack, prior_delivered: u32) {
        let delivered = self.delivered.wrapping_sub(prior_delivered);
        let marked = match (self.is_accurate(), ack.has(flag::ECE)) {
            (true, _) => ack.marked,
            (false, true) => delivered,
            (false, false) => 0,
        };
        self.control.on_delivered(delivered, marked, self.snd_una, self.snd_nxt);
    }
}
