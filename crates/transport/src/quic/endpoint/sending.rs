//! Packets and frames to be sent, and the close.

use alloc::vec;
use alloc::vec::Vec;

use narrows_units::Time;

use super::{DATA, Endpoint, HANDSHAKE, INITIAL};
use crate::quic::config::LEAST_PAYLOAD;
use crate::quic::frames::{Datagram, Frame, Level, Packet, around, stream_header, varint};
use crate::quic::space::{Sent, Space};
use crate::quic::streams::Sending;

impl Endpoint {
    /// Returns how many bytes it may send: three times what has arrived, to an address that is not
    /// validated (RFC 9000, 8.1).
    pub(super) fn allowance(&self) -> u64 {
        if self.knows_address {
            return u64::MAX;
        }
        (3 * self.received_bytes).saturating_sub(self.sent_bytes)
    }

    /// Returns whether it would send now if nothing held it back.
    pub(super) fn is_due(&self, now: Time) -> bool {
        let asks = |space: &Space| space.probes > 0 || space.ack_at.is_some_and(|at| at <= now);
        let mut open = self.spaces.iter().filter(|space| !space.is_over);
        open.any(asks) || self.done_unsent || self.has_unsent()
    }

    /// Returns whether the window and the pace let a datagram of these bytes leave now.
    pub(super) fn may_send(&mut self, now: Time, bytes: u64) -> bool {
        self.window.allows(bytes) && !self.window.holds(now)
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.spaces.iter().any(|space| !space.is_over && space.crypto.has_unsent())
            || self.sending.values().any(Sending::has_unsent)
    }

    pub(super) fn has_unsent_in(&self, index: usize) -> bool {
        self.spaces[index].crypto.has_unsent()
            || (index == DATA
                && (self.done_unsent || self.sending.values().any(Sending::has_unsent)))
    }

    /// Returns the keys with which it sends in a space, or `None` if it has none.
    fn level(&self, space: usize) -> Option<Level> {
        if self.spaces[space].is_over {
            return None;
        }
        match space {
            INITIAL => Some(Level::Initial),
            HANDSHAKE => self.has_handshake_keys.then_some(Level::Handshake),
            _ if self.is_client && !self.is_complete => {
                self.messages.early_data.then_some(Level::ZeroRtt)
            }
            // RFC 9001, 5.7: the server may write before it has the client's Finished.
            _ => self.has_handshake_keys.then_some(Level::OneRtt),
        }
    }

    fn around(&self, level: Level, space: usize) -> u32 {
        let space = &self.spaces[space];
        let behind = space.next - space.largest_acked.unwrap_or(0);
        around(level, [self.peer.id, self.config.id], behind)
    }

    pub(super) fn next_packet(&mut self, now: Time, index: usize, room: u64) -> Option<Packet> {
        let level = self.level(index)?;
        let around = u64::from(self.around(level, index));
        let mut left = room.checked_sub(around).filter(|&left| left >= LEAST_FRAMES)?;
        // RFC 9000, 14.1: the padded datagram would need more room than there is.
        let is_short = level == Level::Initial && room < LEAST_PAYLOAD.into();
        let has_unsent = self.has_unsent_in(index);
        let is_probe = self.spaces[index].probes > 0;
        let payload = self.config.payload.into();
        let asks = !is_short && (is_probe || (has_unsent && self.may_send(now, payload)));
        let ack_due = self.spaces[index].ack_at.is_some_and(|at| at <= now);
        if !ack_due && !asks {
            return None;
        }
        let mut frames = Vec::new();
        let space = &self.spaces[index];
        if level != Level::ZeroRtt && space.unacknowledged > 0 {
            frames.extend(space.acknowledgement(now, self.peer.ecn));
        }
        left = left.checked_sub(frames.iter().map(Frame::length).sum())?;
        if asks {
            if is_probe && !has_unsent {
                self.repeat_oldest(index);
            }
            left = self.fill(index, &mut frames, left);
            if left > 0 && is_probe && !frames.iter().any(Frame::is_ack_eliciting) {
                frames.push(Frame::Ping);
            }
        }
        if !asks && left > 0 && self.needs_ping(now, index) {
            frames.push(Frame::Ping);
        }
        if frames.is_empty() {
            return None;
        }
        let space = &mut self.spaces[index];
        let number = space.next;
        space.next += 1;
        let bytes = frames.iter().map(Frame::length).sum::<u64>().max(LEAST_FRAMES);
        Some(Packet { level, number, frames, bytes: (around + bytes) as u32 })
    }

    /// Returns whether an end that sends only acknowledgements with gaps has to ask for one itself,
    /// once in a round trip, so that it need not repeat those gaps forever (RFC 9000, 13.2.4).
    fn needs_ping(&mut self, now: Time, index: usize) -> bool {
        let space = &self.spaces[index];
        index == DATA
            && self.is_confirmed
            && space.received.has_gaps()
            && !space.has_eliciting()
            && space.last_eliciting_at.is_none_or(|last| last + self.rtt.smoothed <= now)
            && self.may_send(now, self.config.payload.into())
    }

    /// Puts unsent data into frames as far as there is room. Returns how much room is left.
    fn fill(&mut self, index: usize, frames: &mut Vec<Frame>, mut left: u64) -> u64 {
        let crypto = &mut self.spaces[index].crypto;
        while let Some((offset, bytes)) = crypto.next() {
            let header = 1 + varint(offset) + varint(bytes.min(left));
            let bytes = bytes.min(left.saturating_sub(header));
            if bytes == 0 {
                return left;
            }
            crypto.note_sent(offset, bytes);
            left -= header + bytes;
            frames.push(Frame::Crypto { offset, bytes });
        }
        if index != DATA {
            return left;
        }
        let done = Frame::HandshakeDone { extras: self.config.extras };
        if self.done_unsent && left >= done.length() {
            self.done_unsent = false;
            left -= done.length();
            frames.push(done);
        }
        for (&id, sending) in &mut self.sending {
            while let Some((offset, bytes)) = sending.next() {
                let header = stream_header(id, offset, bytes.min(left));
                let bytes = bytes.min(left.saturating_sub(header));
                if bytes == 0 {
                    return left;
                }
                sending.note_sent(offset, bytes);
                left -= header + bytes;
                let fin = sending.ends && offset + bytes == sending.written;
                frames.push(Frame::Stream { id, offset, bytes, fin });
            }
        }
        left
    }

    /// Returns a datagram that tests whether the path takes longer ones, once the handshake is
    /// confirmed and nothing else has to be sent (RFC 9000, 14.4).
    pub(super) fn path_probe(&mut self, now: Time) -> Option<Datagram> {
        let bytes = self.path_mtu.next().filter(|_| self.is_confirmed && !self.closing)?;
        if !self.may_send(now, bytes.into()) {
            return None;
        }
        let level = self.level(DATA)?;
        let number = self.spaces[DATA].next;
        self.spaces[DATA].next += 1;
        let packet = Packet { level, number, frames: vec![Frame::Ping], bytes: bytes.into() };
        self.path_mtu.note_sent(number);
        self.sent_bytes += u64::from(bytes);
        self.note_sent(now, &packet, false);
        Some(Datagram { packets: vec![packet] })
    }

    pub(super) fn note_sent(&mut self, now: Time, packet: &Packet, padded: bool) {
        let index = match packet.level {
            Level::Initial => INITIAL,
            Level::Handshake => HANDSHAKE,
            Level::ZeroRtt | Level::OneRtt => DATA,
        };
        let eliciting = packet.is_ack_eliciting();
        let space = &mut self.spaces[index];
        if packet.frames.iter().any(|frame| matches!(frame, Frame::Ack(_))) {
            space.note_acknowledged();
        }
        if eliciting {
            space.last_eliciting_at = Some(now);
            space.probes = space.probes.saturating_sub(1);
        }
        let in_flight = eliciting || padded;
        // A bare acknowledgement asks for none. It matters only as the largest packet of an
        // acknowledgement that earlier packets ask for (RFC 9002, 5.1).
        if in_flight || space.has_eliciting() {
            space.sent.push_back(Sent {
                number: packet.number,
                at: now,
                bytes: packet.bytes,
                eliciting,
                in_flight,
                frames: packet.frames.clone(),
            });
        }
        if in_flight {
            let number = (index == DATA).then_some(packet.number);
            self.window.note_sent(packet.bytes.into());
            self.window.note_packet_sent(now, &self.rtt, number, packet.bytes);
        }
        if eliciting && !core::mem::replace(&mut self.has_asked, true) {
            self.restart_idle(now);
        }
        if index == HANDSHAKE && self.is_client {
            // RFC 9001, 4.9.1.
            self.give_up(INITIAL);
        }
    }

    /// Returns the close, under every key that the other end may have. That end can certainly read
    /// 1-RTT only after the handshake is confirmed (RFC 9000, 10.2.3).
    pub(super) fn poll_close(&mut self) -> Option<Datagram> {
        if !self.close_unsent {
            return None;
        }
        let mut datagram = Datagram::default();
        for space in [INITIAL, HANDSHAKE, DATA] {
            let Some(level) = self.level(space).filter(|&level| level != Level::ZeroRtt) else {
                continue;
            };
            if self.is_confirmed && level != Level::OneRtt {
                continue;
            }
            // Before 1-RTT it also has the type of a frame (19.19).
            let bytes = Frame::Close.length() as u32 + u32::from(level != Level::OneRtt);
            datagram.packets.push(Packet {
                level,
                number: self.spaces[space].next,
                frames: vec![Frame::Close],
                bytes: self.around(level, space) + bytes,
            });
        }
        let has_initial = datagram.packets.iter().any(|packet| packet.level == Level::Initial);
        if self.is_client && has_initial {
            let missing = u32::from(LEAST_PAYLOAD).saturating_sub(datagram.bytes());
            datagram.packets.last_mut()?.bytes += missing;
        }
        let bytes = u64::from(datagram.bytes());
        // What the limit holds back is sent when more has arrived.
        if datagram.packets.is_empty() || bytes > self.allowance() {
            return None;
        }
        self.close_unsent = false;
        self.sent_bytes += bytes;
        for space in &mut self.spaces {
            space.next += 1;
        }
        Some(datagram)
    }
}

/// The fewest bytes of frames in a packet: number and frames together have at least four bytes (RFC
/// 9001, 5.4.2).
const LEAST_FRAMES: u64 = 3;
