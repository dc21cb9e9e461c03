//! Acknowledgements and losses (RFC 9002, appendix A.7 and A.10).

use narrows_units::{Span, Time};

use super::{DATA, Endpoint, HANDSHAKE, INITIAL};
use crate::quic::congestion::Acknowledged;
use crate::quic::frames::{Ack, Frame};
use crate::quic::recovery::{detect_lost, is_persistent};

impl Endpoint {
    /// RFC 9002, A.7. The round trip ends when the packet with the acknowledgement arrived, even if
    /// there were no keys for it then.
    pub(super) fn handle_ack(&mut self, now: Time, arrived_at: Time, index: usize, ack: &Ack) {
        let space = &mut self.spaces[index];
        let Some(largest) = ack.received.largest() else { return };
        space.largest_acked = space.largest_acked.max(Some(largest));
        let newly = space.take_acked(&ack.received);
        let Some(last) = newly.last() else { return };
        if index == HANDSHAKE {
            self.is_known = true;
        }
        let newest_at = last.at;
        let mut measured = None;
        if last.number == largest && newly.iter().any(|sent| sent.eliciting) {
            // 5.3: before the handshake is confirmed, the reported delay may exceed the limit, as it
            // does if the peer had no keys for the packet.
            let delay = match index {
                INITIAL => Span::ZERO,
                DATA if self.is_confirmed => ack.delay.min(self.peer.max_ack_delay),
                _ => ack.delay,
            };
            let rtt = arrived_at.since(newest_at);
            measured = Some(rtt);
            self.rtt.note(now, rtt, delay);
        }
        let mut new_marks = 0;
        if let Some(marked) = ack.marked
            && marked > self.spaces[index].marked_there
        {
            new_marks = marked - self.spaces[index].marked_there;
            self.spaces[index].marked_there = marked;
            self.window.reduce_for_mark(now, newest_at);
        }
        self.window.begin_ack();
        let rtt = self.rtt.smoothed;
        for sent in newly {
            if sent.in_flight {
                self.window.note_acked(now, (sent.bytes.into(), sent.at), self.limited, rtt);
                self.window.note_delivered((index == DATA).then_some(sent.number), sent.at);
            }
            if index == DATA
                && self.path_mtu.is_probe(sent.number)
                && let Some(payload) = self.path_mtu.note_acked()
            {
                self.config.payload = payload;
                self.window.lengthen_datagrams(payload.into());
            }
            for frame in &sent.frames {
                self.note_delivered(index, frame);
            }
        }
        self.look_for_losses(now, index);
        let acknowledged = Acknowledged {
            marked: new_marks,
            newest_at,
            rtt: measured,
            is_delayed: ack.delay > Span::ZERO,
            limited: self.limited,
            largest: self.spaces[DATA].largest_acked,
            next: self.spaces[DATA].next,
        };
        self.window.finish_ack(now, &self.rtt, &acknowledged);
        if self.is_known {
            self.probe_count = 0;
        }
    }

    fn note_delivered(&mut self, index: usize, frame: &Frame) {
        match *frame {
            Frame::Crypto { offset, bytes } => self.spaces[index].crypto.note_acked(offset, bytes),
            Frame::Stream { id, offset, bytes, .. } => {
                if let Some(sending) = self.sending.get_mut(&id) {
                    sending.note_acked(offset, bytes);
                    if sending.is_done() {
                        self.sending.remove(&id);
                    }
                }
            }
            Frame::Ack(ref ack) => {
                // RFC 9000, 13.2.4: the peer knows about these.
                if let Some(largest) = ack.received.largest() {
                    self.spaces[index].received.remove(0, largest);
                }
            }
            Frame::Ping | Frame::HandshakeDone { .. } | Frame::Close => {}
        }
    }

    pub(super) fn look_for_losses(&mut self, now: Time, index: usize) {
        let mut lost = detect_lost(&mut self.spaces[index], now, &self.rtt);
        if index == DATA
            && let Some(place) = lost.iter().position(|sent| self.path_mtu.is_probe(sent.number))
        {
            // RFC 9000, 14.4: the probe was perhaps too long, which tells nothing about congestion.
            let probe = lost.remove(place);
            self.window.forget(probe.bytes.into());
            self.window.note_gone(Some(probe.number));
            self.path_mtu.note_lost();
        }
        self.lost_packets += lost.iter().filter(|sent| sent.eliciting).count() as u64;
        for sent in &lost {
            if sent.in_flight {
                self.window.forget(sent.bytes.into());
                self.window.note_lost(now, &self.rtt, (index == DATA).then_some(sent.number));
            }
            self.send_again(index, &sent.frames);
        }
        let Some(last) = lost.iter().rfind(|sent| sent.in_flight) else { return };
        self.window.reduce_for_loss(now, last.at);
        // RFC 9002, 7.6.1.
        let duration = (self.rtt.probe_timeout() + self.peer.max_ack_delay) * 3;
        if is_persistent(&lost, duration, &self.rtt) {
            self.window.collapse(now, &self.rtt);
            self.rtt.forget_least();
        }
    }

    /// Notes that what a packet carried has to be sent again, because it may not have arrived (RFC
    /// 9000, 13.3).
    pub(super) fn send_again(&mut self, index: usize, frames: &[Frame]) {
        for frame in frames {
            match *frame {
                Frame::Crypto { offset, bytes } => {
                    self.spaces[index].crypto.send_again(offset, bytes);
                }
                Frame::Stream { id, offset, bytes, .. } => {
                    if let Some(sending) = self.sending.get_mut(&id) {
                        sending.send_again(offset, bytes);
                    }
                }
                Frame::HandshakeDone { .. } => self.done_unsent = true,
                Frame::Ack(_) | Frame::Ping | Frame::Close => {}
            }
        }
    }
}
