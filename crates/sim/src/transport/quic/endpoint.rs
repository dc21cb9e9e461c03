//! One end of a connection.
//!
//! ```text
//!   handle_datagram(now, ..), handle_timeout(now)    what happens to it
//!   write(..), close(), abort()                      what its application wants
//!   poll_transmit(now), until None                   what it sends, after each of these
//!   next_timeout()                                   when to call handle_timeout
//!   next_whole(), is_open(), end()                   what the application is to know
//! ```

use std::collections::{BTreeMap, VecDeque};

use narrows_units::{Span, Time};

use super::config::{Config, LEAST_PAYLOAD};
use super::congestion::Window;
use super::frames::{Ack, Datagram, Frame, Level, Packet, around, stream_header, varint};
use super::ranges::Ranges;
use super::recovery::{RoundTrip, detect_lost, is_persistent};
use super::space::{Sent, Space};
use super::streams::{Receiving, Sending};
use crate::transport::tls::Messages;

#[derive(Debug)]
pub(super) struct Endpoint {
    config: Config,
    is_client: bool,
    peer: Peer,
    messages: Messages,
    /// Initial, Handshake, and application data.
    spaces: [Space; 3],
    /// The client has ServerHello, or the server ClientHello.
    has_handshake_keys: bool,
    /// It has the other's Finished, and reads 1-RTT packets.
    is_complete: bool,
    /// RFC 9001, 4.1.2.
    is_confirmed: bool,
    done_unsent: bool,
    /// The peer is where it says, so that there is no limit of bytes (RFC 9000, 8.1).
    knows_address: bool,
    /// The client's server has nothing more to ask for (RFC 9002, A.8).
    is_known: bool,
    received_bytes: u64,
    sent_bytes: u64,
    rtt: RoundTrip,
    window: Window,
    /// The window held it back when it sent last.
    limited: bool,
    /// The limit of bytes did.
    held: bool,
    probe_count: u32,
    recovery_at: Option<(Time, Timer)>,
    idle_at: Time,
    /// It has sent something to be acknowledged since it heard last.
    has_asked: bool,
    sending: BTreeMap<u64, Sending>,
    receiving: BTreeMap<u64, (Receiving, Time)>,
    /// Streams that have come whole.
    finished: Ranges,
    whole: VecDeque<(u64, Time)>,
    /// It is to end as soon as the other end has all.
    closing: bool,
    end: Option<End>,
    close_unsent: bool,
}

/// What an end knows of the other from its transport parameters and its packets.
#[derive(Clone, Copy, Debug)]
struct Peer {
    id: u8,
    max_ack_delay: Span,
    idle_timeout: Span,
    /// Its packets can be marked, so marks are counted for it (RFC 9000, 13.4.1).
    ecn: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// This end closed it.
    Here,
    /// The other end did.
    There,
    /// Nothing came for long.
    Silence,
}

/// What the recovery timer is for (RFC 9002, A.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Loss(usize),
    Probe(usize),
}

const INITIAL: usize = 0;
const HANDSHAKE: usize = 1;
const DATA: usize = 2;

impl Endpoint {
    /// `configs`: its own settings and the peer's.
    pub(super) fn new(
        now: Time,
        is_client: bool,
        [config, peer]: [Config; 2],
        messages: Messages,
    ) -> Self {
        let mut spaces = <[Space; 3]>::default();
        if is_client {
            spaces[INITIAL].crypto.write(messages.hello);
        }
        let idle_timeout = config.idle_timeout.min(peer.idle_timeout);
        Self {
            config,
            is_client,
            peer: Peer {
                id: peer.id,
                max_ack_delay: peer.max_ack_delay,
                idle_timeout,
                ecn: peer.ecn,
            },
            messages,
            spaces,
            has_handshake_keys: false,
            is_complete: false,
            is_confirmed: false,
            done_unsent: false,
            knows_address: is_client,
            is_known: !is_client,
            received_bytes: 0,
            sent_bytes: 0,
            rtt: RoundTrip::new(),
            window: Window::new(&config),
            limited: false,
            held: false,
            probe_count: 0,
            recovery_at: None,
            idle_at: now + idle_timeout,
            has_asked: false,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            finished: Ranges::default(),
            whole: VecDeque::new(),
            closing: false,
            end: None,
            close_unsent: false,
        }
    }

    /// Writes the whole of a stream.
    pub(super) fn write(&mut self, stream: u64, bytes: u64) {
        let sending = self.sending.entry(stream).or_default();
        sending.write(bytes);
        sending.ends = true;
    }

    /// Ends the connection when the client has all that the server has written; a client that closes has its
    /// replies, or waits for them no longer.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.end_if_done();
    }

    /// Ends the connection at once; the other end is told.
    pub(super) fn abort(&mut self) {
        if self.end.is_none() {
            (self.end, self.close_unsent) = (Some(End::Here), true);
        }
    }

    fn end_if_done(&mut self) {
        if self.closing && (self.is_client || self.sending.is_empty()) {
            self.abort();
        }
    }

    /// A datagram has come; `marked`: by a queue on its way.
    pub(super) fn handle_datagram(&mut self, now: Time, datagram: &Datagram, marked: bool) {
        self.received_bytes += u64::from(datagram.bytes());
        if self.end.is_some() {
            let closes = |packet: &Packet| packet.frames.contains(&Frame::Close);
            // 10.2.1: who closed says so again.
            self.close_unsent |=
                self.end == Some(End::Here) && !datagram.packets.iter().any(closes);
            return;
        }
        self.held = false;
        for packet in &datagram.packets {
            self.handle_packet(now, packet, marked);
        }
        self.end_if_done();
        self.set_timer(now);
    }

    /// The time that [`next_timeout`](Self::next_timeout) told has come.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.end.is_some() {
            return;
        }
        if self.idle_at <= now {
            self.end = Some(End::Silence);
            return;
        }
        match self.recovery_at {
            Some((due, Timer::Loss(space))) if due <= now => self.look_for_losses(now, space),
            Some((due, Timer::Probe(space))) if due <= now => {
                // RFC 9002, 6.2.4; against a deadlock one is enough.
                self.spaces[space].probes = if self.spaces[space].has_eliciting() { 2 } else { 1 };
                self.probe_count += 1;
            }
            _ => {}
        }
        self.set_timer(now);
    }

    /// When something is due without a datagram.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        if self.end.is_some() {
            return None;
        }
        let open = self.spaces.iter().filter(|space| !self.held && !space.is_over);
        let acks = open.filter_map(|space| space.ack_at);
        let recovery = self.recovery_at.map(|(due, _)| due);
        acks.chain(recovery).chain([self.idle_at]).min()
    }

    /// The next datagram to send now, if any.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<Datagram> {
        if self.end.is_some() {
            return self.poll_close();
        }
        let payload = u64::from(self.config.payload);
        let most = payload.min(self.allowance());
        let mut datagram = Datagram::default();
        for space in [INITIAL, HANDSHAKE, DATA] {
            let room = most.saturating_sub(datagram.bytes().into());
            datagram.packets.extend(self.next_packet(now, space, room));
        }
        if datagram.packets.is_empty() {
            self.limited = !self.window.allows(payload) && self.has_unsent();
            self.held = most < payload && self.is_due(now);
            self.set_timer(now);
            return None;
        }
        // RFC 9000, 14.1.
        let needs_padding = |packet: &Packet| {
            packet.level == Level::Initial && (self.is_client || packet.is_ack_eliciting())
        };
        let mut padded = false;
        if datagram.packets.iter().any(needs_padding) {
            let missing = u32::from(LEAST_PAYLOAD).saturating_sub(datagram.bytes());
            if let Some(last) = datagram.packets.last_mut() {
                last.bytes += missing;
                padded = missing > 0;
            }
        }
        self.sent_bytes += u64::from(datagram.bytes());
        let last = datagram.packets.len() - 1;
        for (place, packet) in datagram.packets.iter().enumerate() {
            self.note_sent(now, packet, padded && place == last);
        }
        Some(datagram)
    }

    /// The next stream that has come whole, and when its first byte came.
    pub(super) fn next_whole(&mut self) -> Option<(u64, Time)> {
        self.whole.pop_front()
    }

    /// Its application may write: the client has all of the server's flight, the server has ClientHello.
    pub(super) fn is_open(&self) -> bool {
        if self.is_client { self.is_complete } else { self.has_handshake_keys }
    }

    /// The client has the server's tickets.
    pub(super) fn has_tickets(&self) -> bool {
        self.is_client
            && self.messages.tickets > 0
            && self.spaces[DATA].crypto_received.has(self.messages.tickets)
    }

    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes of its congestion window.
    #[cfg(test)]
    pub(super) fn window(&self) -> u64 {
        self.window.bytes
    }

    pub(super) fn sends_ect(&self) -> bool {
        self.config.ecn
    }
}

/// What comes.
impl Endpoint {
    fn handle_packet(&mut self, now: Time, packet: &Packet, marked: bool) {
        let (index, readable) = match packet.level {
            Level::Initial => (INITIAL, true),
            Level::Handshake => (HANDSHAKE, self.has_handshake_keys),
            Level::ZeroRtt => (DATA, !self.is_client && self.has_handshake_keys),
            Level::OneRtt => (DATA, self.is_complete),
        };
        let space = &mut self.spaces[index];
        if !readable || space.is_over || space.received.contains(packet.number) {
            return;
        }
        let every = match index {
            DATA => (self.config.ack_every, self.config.max_ack_delay),
            // 13.2.1: the handshake does not wait.
            _ => (1, Span::ZERO),
        };
        space.note_received(now, packet.number, marked, packet.is_ack_eliciting(), every);
        if index == HANDSHAKE && !self.is_client {
            // 8.1: the client has keys that it can have from the server's answer alone.
            self.knows_address = true;
            self.give_up(INITIAL);
        }
        for frame in &packet.frames {
            match *frame {
                Frame::Ack(ref ack) => self.handle_ack(now, index, ack),
                Frame::Crypto { offset, bytes } => {
                    self.spaces[index].crypto_received.take(offset, bytes);
                    self.go_on(index);
                }
                Frame::Stream { id, offset, bytes, fin } => {
                    self.take_stream(now, id, (offset, bytes), fin);
                }
                Frame::HandshakeDone => self.confirm(),
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
            self.receiving.remove(&id);
            self.finished.insert(id, id + 1);
        }
    }

    /// A part of the handshake has come: keys, and what follows (RFC 9001, 4.1).
    fn go_on(&mut self, index: usize) {
        let has = |index: usize, bytes: u64| self.spaces[index].crypto_received.has(bytes);
        let Messages { hello, server_hello, answer, finished, early_data, .. } = self.messages;
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
            self.spaces[INITIAL].crypto.write(server_hello);
            self.spaces[HANDSHAKE].crypto.write(answer);
            if early_data {
                // RFC 8446, 4.6.1, lets it do so before it has Finished; BoringSSL does.
                self.give_tickets();
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

    fn give_tickets(&mut self) {
        if self.messages.tickets > 0 {
            self.spaces[DATA].crypto.write(self.messages.tickets);
        }
    }

    /// RFC 9001, 4.1.2 and 4.9.2.
    fn confirm(&mut self) {
        (self.is_confirmed, self.is_known) = (true, true);
        self.give_up(HANDSHAKE);
    }

    /// The keys of a space are gone, and with them what is on its way (RFC 9002, 6.4).
    fn give_up(&mut self, index: usize) {
        let space = &mut self.spaces[index];
        if std::mem::replace(&mut space.is_over, true) {
            return;
        }
        for sent in space.sent.drain(..).filter(|sent| sent.in_flight) {
            self.window.forget(sent.bytes.into());
        }
        (space.loss_at, space.last_eliciting_at, space.ack_at) = (None, None, None);
        space.probes = 0;
        self.probe_count = 0;
    }

    /// RFC 9002, A.7.
    fn handle_ack(&mut self, now: Time, index: usize, ack: &Ack) {
        let space = &mut self.spaces[index];
        let Some(largest) = ack.received.largest() else { return };
        space.largest_acked = space.largest_acked.max(Some(largest));
        let on_way = std::mem::take(&mut space.sent);
        let (newly, left): (Vec<Sent>, Vec<Sent>) =
            on_way.into_iter().partition(|sent| ack.received.contains(sent.number));
        space.sent = left.into();
        let Some(last) = newly.last() else { return };
        if index == HANDSHAKE {
            self.is_known = true;
        }
        if last.number == largest && newly.iter().any(|sent| sent.eliciting) {
            // 5.3: what is said before the handshake is confirmed may be more than the limit.
            let delay = match index {
                DATA if self.is_confirmed => ack.delay.min(self.peer.max_ack_delay),
                DATA => ack.delay,
                _ => Span::ZERO,
            };
            self.rtt.note(now, now.since(last.at), delay);
        }
        if let Some(marked) = ack.marked
            && marked > self.spaces[index].marked_there
        {
            self.spaces[index].marked_there = marked;
            self.window.reduce(now, last.at);
        }
        let rtt = self.rtt.smoothed;
        for sent in newly {
            if sent.in_flight {
                self.window.note_acked(now, (sent.bytes.into(), sent.at), self.limited, rtt);
            }
            for frame in &sent.frames {
                self.note_delivered(index, frame);
            }
        }
        self.look_for_losses(now, index);
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
                // RFC 9000, 13.2.4: the peer knows of these.
                if let Some(largest) = ack.received.largest() {
                    self.spaces[index].received.remove(0, largest);
                }
            }
            Frame::Ping | Frame::HandshakeDone | Frame::Close => {}
        }
    }

    fn look_for_losses(&mut self, now: Time, index: usize) {
        let lost = detect_lost(&mut self.spaces[index], now, &self.rtt);
        for sent in &lost {
            if sent.in_flight {
                self.window.forget(sent.bytes.into());
            }
            self.send_again(index, &sent.frames);
        }
        let Some(last) = lost.iter().rfind(|sent| sent.in_flight) else { return };
        self.window.reduce(now, last.at);
        // RFC 9002, 7.6.1.
        let duration = (self.rtt.probe_timeout() + self.peer.max_ack_delay) * 3;
        if is_persistent(&lost, duration, &self.rtt) {
            self.window.collapse();
        }
    }

    /// What has to be sent again of a packet that did not arrive, perhaps (RFC 9000, 13.3).
    fn send_again(&mut self, index: usize, frames: &[Frame]) {
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
                Frame::HandshakeDone => self.done_unsent = true,
                Frame::Ack(_) | Frame::Ping | Frame::Close => {}
            }
        }
    }

    /// RFC 9000, 10.1.
    fn restart_idle(&mut self, now: Time) {
        let probing = self.probe_span() * 3;
        self.idle_at = now + self.peer.idle_timeout.max(probing);
    }

    /// RFC 9002, 6.2.1, for application data.
    fn probe_span(&self) -> Span {
        self.rtt.probe_timeout() + self.peer.max_ack_delay
    }

    /// RFC 9002, A.8.
    fn set_timer(&mut self, now: Time) {
        let losses = self.spaces.iter().enumerate();
        let loss = losses
            .filter_map(|(space, s)| Some((s.loss_at?, Timer::Loss(space))))
            .min_by_key(|(at, _)| *at);
        self.recovery_at = loss;
        let asks = |index: usize| !self.spaces[index].is_over && self.spaces[index].has_eliciting();
        // 6.2.1: application data only when the handshake is confirmed. And a client goes on asking even if 0-RTT
        // packets alone are in flight (6.2.2.1; the pseudocode of A.8 would wait for ever).
        let waits = [asks(INITIAL), asks(HANDSHAKE), asks(DATA) && self.is_confirmed];
        if loss.is_some() || self.held || (!waits.contains(&true) && self.is_known) {
            return;
        }
        let backoff = 1 << self.probe_count.min(30);
        if !waits.contains(&true) {
            let space = if self.has_handshake_keys { HANDSHAKE } else { INITIAL };
            let due = now + self.rtt.probe_timeout() * backoff;
            self.recovery_at = Some((due, Timer::Probe(space)));
            return;
        }
        for (space, _) in waits.into_iter().enumerate().filter(|(_, waits)| *waits) {
            let mut span = self.rtt.probe_timeout();
            if space == DATA {
                span = self.probe_span();
            }
            let Some(last) = self.spaces[space].last_eliciting_at else { continue };
            let due = last + span * backoff;
            if self.recovery_at.is_none_or(|(before, _)| due < before) {
                self.recovery_at = Some((due, Timer::Probe(space)));
            }
        }
    }
}

/// What leaves.
impl Endpoint {
    /// How many bytes it may send: three times what has come, to an address that may be another's
    /// (RFC 9000, 8.1).
    fn allowance(&self) -> u64 {
        if self.knows_address {
            return u64::MAX;
        }
        (3 * self.received_bytes).saturating_sub(self.sent_bytes)
    }

    /// It would send now if nothing held it back.
    fn is_due(&self, now: Time) -> bool {
        let asks = |space: &Space| space.probes > 0 || space.ack_at.is_some_and(|at| at <= now);
        let mut open = self.spaces.iter().filter(|space| !space.is_over);
        open.any(asks) || self.done_unsent || self.has_unsent()
    }

    fn has_unsent(&self) -> bool {
        self.spaces.iter().any(|space| !space.is_over && space.crypto.has_unsent())
            || self.sending.values().any(Sending::has_unsent)
    }

    /// With which keys it sends in a space; `None`: it has none.
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
        let behind = space.next - space.largest_acked.map_or(0, |largest| largest);
        around(level, [self.peer.id, self.config.id], 0, behind)
    }

    fn next_packet(&mut self, now: Time, index: usize, room: u64) -> Option<Packet> {
        let level = self.level(index)?;
        let around = u64::from(self.around(level, index));
        let mut left = room.checked_sub(around).filter(|&left| left >= LEAST_FRAMES)?;
        // RFC 9000, 14.1: the datagram would be made longer than there is room.
        let is_short = level == Level::Initial && room < LEAST_PAYLOAD.into();
        let may_ask = !is_short
            && (self.spaces[index].probes > 0 || self.window.allows(self.config.payload.into()));
        let has_unsent = self.spaces[index].crypto.has_unsent()
            || (index == DATA
                && (self.done_unsent || self.sending.values().any(Sending::has_unsent)));
        let is_probe = self.spaces[index].probes > 0;
        let asks = may_ask && (has_unsent || is_probe);
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
                let oldest = self.spaces[index].sent.iter().find(|sent| sent.eliciting);
                if let Some(frames) = oldest.map(|sent| sent.frames.clone()) {
                    self.send_again(index, &frames);
                }
            }
            left = self.fill(index, &mut frames, left);
            if left > 0 && is_probe && !frames.iter().any(Frame::is_ack_eliciting) {
                frames.push(Frame::Ping);
            }
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

    /// Puts what is unsent into frames, as far as there is room, and says how much is left.
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
        if self.done_unsent && left > 0 {
            self.done_unsent = false;
            left -= 1;
            frames.push(Frame::HandshakeDone);
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

    fn note_sent(&mut self, now: Time, packet: &Packet, padded: bool) {
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
        space.sent.push_back(Sent {
            number: packet.number,
            at: now,
            bytes: packet.bytes,
            eliciting,
            in_flight,
            frames: packet.frames.clone(),
        });
        if in_flight {
            self.window.in_flight += u64::from(packet.bytes);
        }
        if eliciting && !std::mem::replace(&mut self.has_asked, true) {
            self.restart_idle(now);
        }
        if index == HANDSHAKE && self.is_client {
            // RFC 9001, 4.9.1.
            self.give_up(INITIAL);
        }
    }

    /// The close, under every key that the other end may have: it can read 1-RTT for sure only when the handshake is
    /// confirmed (RFC 9000, 10.2.3).
    fn poll_close(&mut self) -> Option<Datagram> {
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
            // Before 1-RTT it has the type of a frame, too (19.19).
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
        // What the limit holds back leaves when more has come.
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

/// RFC 9001, 5.4.2: number and frames together have four bytes.
const LEAST_FRAMES: u64 = 3;
