//! The segments of a stateless end, with the options that its client's SYN had.

use narrows_transport::tcp::{Flags, Segment, Seq, SynOptions, timestamp};
use narrows_units::Time;

use super::Stateless;

impl Stateless {
    /// Returns the query as the client sent it.
    pub(super) fn query_again(&self) -> Segment {
        let fin = if self.fin_noted { Flags::FIN } else { Flags(0) };
        Segment {
            seq: self.query_seq,
            ack: self.server_seq,
            len: self.query_length,
            flags: Flags::ACK.with(Flags::PSH).with(fin),
            window: u16::MAX,
            timestamps: self.stamped().then_some((self.heard, 0)),
            ..Segment::default()
        }
    }

    fn stamped(&self) -> bool {
        self.syn.timestamps.is_some()
    }

    /// Returns whether the window scale was offered: only to clients that offer timestamps and a
    /// scale.
    fn scaled(&self) -> bool {
        self.stamped() && self.syn.syn.is_some_and(|syn| syn.window_scale.is_some())
    }

    /// Returns the payload of a full segment.
    pub(super) fn payload(&self) -> u16 {
        let offered = self.syn.syn.unwrap_or_default().offered_mss();
        self.mss.min(offered) - if self.stamped() { 12 } else { 0 }
    }

    pub(super) fn send_syn_ack(&mut self, now: Time) {
        let options = self.syn.syn.unwrap_or_default();
        let stamped = self.stamped();
        self.out.push(Segment {
            seq: self.cookie,
            ack: self.syn.seq + 1,
            window: u16::MAX,
            flags: Flags::SYN.with(Flags::ACK),
            timestamps: stamped.then(|| (timestamp(now), self.heard)),
            syn: Some(SynOptions {
                mss: self.mss,
                window_scale: self.scaled().then_some(self.scale),
                sack_permitted: stamped && options.sack_permitted,
                fast_open: None,
            }),
            ..Segment::default()
        });
    }

    /// Sends the reply's segments from `place` on, and returns the first.
    pub(super) fn send_from(&mut self, now: Time, mut place: Seq) -> Option<Segment> {
        let before = self.out.len();
        while place.before(self.end) {
            place = self.send_one(now, place);
        }
        self.out.get(before).copied()
    }

    /// Sends the reply's segment at `place`, or our FIN at the reply's end. Returns the place after
    /// it.
    pub(super) fn send_one(&mut self, now: Time, place: Seq) -> Seq {
        if !place.before(self.end) {
            self.send_fin(now);
            return self.end;
        }
        let left = self.end.distance(place);
        let len = left.min(u32::from(self.payload())) as u16;
        let next = place + u32::from(len);
        let mut flags = Flags(0);
        if next == self.end {
            flags = Flags::PSH;
            if self.fin_on_reply {
                flags = flags.with(Flags::FIN);
            }
        }
        // If there are several segments, all acknowledge the query's beginning, so the client goes
        // on asking.
        let ack = if self.query_open { self.query_seq } else { self.client_next };
        self.send(now, place, ack, len, flags);
        next
    }

    pub(super) fn send_fin(&mut self, now: Time) {
        let ack = if self.query_open { self.query_seq } else { self.client_next };
        self.send(now, self.end, ack, 0, Flags::FIN);
    }

    pub(super) fn send(&mut self, now: Time, seq: Seq, ack: Seq, len: u16, flags: Flags) {
        let scale = if self.scaled() { self.scale } else { 0 };
        self.out.push(Segment {
            seq,
            ack,
            window: u16::MAX >> scale,
            len,
            flags: flags.with(Flags::ACK),
            timestamps: self.stamped().then(|| (timestamp(now), self.heard)),
            ..Segment::default()
        });
    }
}
