//! Arriving packets, and the handshake that advances with them.

use narrows_units::{Span, Time};

use super::{Arrived, DATA, End, Endpoint, HANDSHAKE, INITIAL};
use crate::quic::config::Probes;
use crate::quic::frames::{Frame, Level, Packet};
use crate::quic::streams::Receiving;
use crate::tls::Messages;

impl Endpoint {
    /// Reads a packet, and those that it makes readable. Keeps it if its keys are missing.
    pub(super) fn handle_packet(&mut self, now: Time, packet: &Packet, marked: bool) {
        if !self.has_keys(packet.level) {
            self.keep(now, packet, marked);
            return;
        }
        self.read(now, now, packet, marked);
        while let Some(place) =
            self.undecryptable.iter().position(|kept| self.has_keys(kept.packet.level))
            && let Some(Arrived { at, packet, marked }) = self.undecryptable.remove(place)
        {
            self.read(now, at, &packet, marked);
        }
    }

    /// Returns whether it may process packets under these keys. A server may not process 1-RTT
    /// packets before it has the client's Finished (RFC 9001, 5.7).
    fn has_keys(&self, level: Level) -> bool {
        match level {
            Level::Initial => true,
            Level::Handshake => self.has_handshake_keys,
            Level::ZeroRtt => !self.is_client && self.has_handshake_keys,
            Level::OneRtt => self.is_complete,
        }
    }

    /// Keeps a packet whose keys are missing, if there is room (RFC 9001, 5.7). A server keeps
    /// nothing before the first Initial packet, which opens the connection.
    fn keep(&mut self, at: Time, packet: &Packet, marked: bool) {
        let alike = self.undecryptable.iter().filter(|kept| kept.packet.level == packet.level);
        let has_room = alike.count() < self.config.undecryptable_packets.into();
        if has_room && (self.is_client || !self.spaces[INITIAL].received.is_empty()) {
            self.undecryptable.push_back(Arrived { at, packet: packet.clone(), marked });
        }
    }

    /// Reads a packet that arrived at `arrived_at`. RFC 9000, 13.2.5: the delay that its
    /// acknowledgement reports includes the time without keys.
    fn read(&mut self, now: Time, arrived_at: Time, packet: &Packet, marked: bool) {
        let index = match packet.level {
            Level::Initial => INITIAL,
            Level::Handshake => HANDSHAKE,
            Level::ZeroRtt | Level::OneRtt => DATA,
        };
        let space = &mut self.spaces[index];
        if space.is_over || space.received.contains(packet.number) {
            return;
        }
        let every = match index {
            DATA => (self.config.ack_every, self.config.max_ack_delay),
            // 13.2.1: handshake packets are acknowledged at once.
            _ => (1, Span::ZERO),
        };
        space.note_received(arrived_at, packet.number, marked, packet.is_ack_eliciting(), every);
        if index == HANDSHAKE && !self.is_client {
            // 8.1: the client has keys that it can only have from the server's answer.
            self.knows_address = true;
            self.give_up(INITIAL);
        }
        for frame in &packet.frames {
            match *frame {
                Frame::Ack(ref ack) => self.handle_ack(now, arrived_at, index, ack),
                Frame::Crypto { offset, bytes } => {
                    self.spaces[index].crypto_received.take(offset, bytes);
                    self.go_on(now, index);
                }
                Frame::Stream { id, offset, bytes, fin } => {
                    self.take_stream(now, id, (offset, bytes), fin);
                }
                Frame::HandshakeDone { .. } => self.confirm(),
                Frame::Close => self.end = Some(End::There),
                Frame::Ping => {}
            }
        }
        self.has_asked = false;
        self.restart_idle(now);
    }

    fn take_stream(&mut self, now: Time, id: u64, (offset, bytes): (u64, u64), fin: bool) {
        if self.finished.contains(id) {
            return;
        }
        let (receiving, first_at) =
            self.receiving.entry(id).or_insert_with(|| (Receiving::default(), now));
        receiving.take(offset, bytes);
        if fin {
            receiving.length = Some(offset + bytes);
        }
        if receiving.is_whole() {
            self.whole.push_back((id, *first_at));
            self.finished_bytes += receiving.in_order();
            self.receiving.remove(&id);
            self.finished.insert(id, id + 1);
        }
    }

    /// Advances the handshake after a part of it has arrived: keys, and what follows (RFC 9001,
    /// 4.1).
    fn go_on(&mut self, now: Time, index: usize) {
        let has = |index: usize, bytes: u64| self.spaces[index].crypto_received.has(bytes);
        let Messages { hello, server_hello, answer, finished, early_data, service, .. } =
            self.messages;
        if self.is_client {
            if index == INITIAL && has(INITIAL, server_hello) {
                self.has_handshake_keys = true;
            }
            if index == HANDSHAKE && !self.is_complete && has(HANDSHAKE, answer) {
                self.is_complete = true;
                self.spaces[HANDSHAKE].crypto.write(finished);
            }
        } else if index == INITIAL && !self.has_handshake_keys && has(INITIAL, hello) {
            self.has_handshake_keys = true;
            self.answers_at = (service > Span::ZERO).then(|| now + service);
            if self.answers_at.is_none() {
                self.answer();
            }
        } else if index == HANDSHAKE && !self.is_complete && has(HANDSHAKE, finished) {
            self.is_complete = true;
            self.done_unsent = true;
            if !early_data {
                self.give_tickets();
            }
            self.confirm();
        }
    }

    /// Sends ServerHello to Finished.
    pub(super) fn answer(&mut self) {
        let Messages { server_hello, answer, early_data, .. } = self.messages;
        self.spaces[INITIAL].crypto.write(server_hello);
        self.spaces[HANDSHAKE].crypto.write(answer);
        if early_data {
            // RFC 8446, 4.6.1, allows this before the client's Finished has arrived; BoringSSL does
            // it.
            self.give_tickets();
        }
    }

    fn give_tickets(&mut self) {
        if self.messages.tickets > 0 {
            self.spaces[DATA].crypto.write(self.messages.tickets);
        }
    }

    /// Confirms the handshake (RFC 9001, 4.1.2 and 4.9.2).
    fn confirm(&mut self) {
        (self.is_confirmed, self.is_known) = (true, true);
        self.give_up(HANDSHAKE);
    }

    /// Discards the keys of a space, and with them its packets in flight (RFC 9002, 6.4).
    pub(super) fn give_up(&mut self, index: usize) {
        let space = &mut self.spaces[index];
        if core::mem::replace(&mut space.is_over, true) {
            return;
        }
        for sent in space.sent.drain(..).filter(|sent| sent.in_flight) {
            self.window.forget(sent.bytes.into());
            self.window.note_gone(None);
        }
        (space.loss_at, space.last_eliciting_at, space.ack_at) = (None, None, None);
        space.probes = 0;
        if self.config.probes == Probes::Rfc9002 {
            self.probe_count = 0;
        }
    }
}
