//! One end of a connection: its state, and what goes in and out.

mod acks;
mod flow_sample;
mod receiving;
mod sending;
mod timers;

use alloc::collections::{BTreeMap, VecDeque};

use narrows_units::{Ecn, Span, Time};

use super::config::{Config, LEAST_PAYLOAD};
use super::congestion::Window;
use super::frames::{Datagram, Frame, Level, Packet};
use super::path_mtu::PathMtu;
use super::ranges::Ranges;
use super::recovery::RoundTrip;
use super::space::Space;
use super::streams::{Receiving, Sending};
use crate::tls::Messages;

/// One end of a connection.
///
/// ```text
///   handle_datagram(now, ..), handle_timeout(now)    what happens to it
///   write(..), close(), abort()                      what its application wants
///   poll_transmit(now), until None                   what it sends, after each of these
///   next_timeout()                                   when to call handle_timeout
///   next_whole(), is_open(), end()                   what the application learns
/// ```
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    is_client: bool,
    peer: Peer,
    messages: Messages,
    /// The packet number spaces: Initial, Handshake, and application data.
    spaces: [Space; 3],
    /// Whether the client has ServerHello, or the server has ClientHello.
    has_handshake_keys: bool,
    /// When the server has computed its answer to ClientHello. It sends nothing before.
    answers_at: Option<Time>,
    /// Whether it has the other end's Finished, and reads 1-RTT packets.
    is_complete: bool,
    /// Whether the handshake is confirmed (RFC 9001, 4.1.2).
    is_confirmed: bool,
    done_unsent: bool,
    /// Whether the peer's address is validated, so that there is no limit of bytes (RFC 9000, 8.1).
    knows_address: bool,
    /// Whether the server has validated the client's address (RFC 9002, A.8).
    is_known: bool,
    received_bytes: u64,
    sent_bytes: u64,
    rtt: RoundTrip,
    window: Window,
    path_mtu: PathMtu,
    /// Whether the congestion window held it back when it last sent.
    limited: bool,
    /// Whether the limit of bytes (RFC 9000, 8.1) held it back when it last sent.
    held: bool,
    probe_count: u32,
    recovery_at: Option<(Time, Timer)>,
    idle_at: Time,
    /// Whether it has sent something to be acknowledged since it last received anything.
    has_asked: bool,
    sending: BTreeMap<u64, Sending>,
    receiving: BTreeMap<u64, (Receiving, Time)>,
    /// The streams that are complete.
    finished: Ranges,
    /// Their bytes.
    finished_bytes: u64,
    /// The packets with something to be acknowledged that counted as lost.
    lost_packets: u64,
    whole: VecDeque<(u64, Time)>,
    /// Packets that arrived before their keys, in order.
    undecryptable: VecDeque<Arrived>,
    /// Whether it ends as soon as the other end has everything.
    closing: bool,
    end: Option<End>,
    close_unsent: bool,
}

/// What an end knows about the other from its transport parameters and its packets.
#[derive(Clone, Copy, Debug)]
struct Peer {
    id: u8,
    max_ack_delay: Span,
    idle_timeout: Span,
    /// Whether its packets are ECN-capable, so that marks are counted for it (RFC 9000, 13.4.1).
    ecn: bool,
}

/// A packet that has arrived.
#[derive(Clone, Debug)]
struct Arrived {
    at: Time,
    packet: Packet,
    /// Whether a queue on its way marked it.
    marked: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// This end closed it.
    Here,
    /// The other end closed it.
    There,
    /// Nothing arrived for long.
    Silence,
}

/// The purpose of the recovery timer (RFC 9002, A.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Loss(usize),
    Probe(usize),
}

const INITIAL: usize = 0;
const HANDSHAKE: usize = 1;
const DATA: usize = 2;

impl Endpoint {
    /// Creates an end. `configs` are its own settings and the peer's.
    pub fn new(
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
        let (rtt, mut window) = (RoundTrip::new(), Window::new(&config));
        window.start(now, &rtt, 0);
        Self {
            config,
            is_client,
            peer: Peer {
                id: peer.id,
                max_ack_delay: peer.max_ack_delay,
                idle_timeout,
                ecn: peer.ect().is_capable(),
            },
            messages,
            spaces,
            has_handshake_keys: false,
            answers_at: None,
            is_complete: false,
            is_confirmed: false,
            done_unsent: false,
            knows_address: is_client,
            is_known: !is_client,
            received_bytes: 0,
            sent_bytes: 0,
            rtt,
            window,
            path_mtu: PathMtu::new(config.payload, config.search_to),
            limited: false,
            held: false,
            probe_count: 0,
            recovery_at: None,
            idle_at: now + idle_timeout,
            has_asked: false,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            finished: Ranges::default(),
            finished_bytes: 0,
            lost_packets: 0,
            whole: VecDeque::new(),
            undecryptable: VecDeque::new(),
            closing: false,
            end: None,
            close_unsent: false,
        }
    }

    /// Returns the same end, with a number from which BBR takes the phase with which it begins to
    /// probe. By default, it is 0.
    #[must_use]
    pub fn with_seed(mut self, now: Time, seed: u32) -> Self {
        self.window.start(now, &self.rtt, seed);
        self
    }

    /// Writes a whole stream.
    pub fn write(&mut self, stream: u64, bytes: u64) {
        self.write_more(stream, bytes);
        self.sending.entry(stream).or_default().ends = true;
    }

    /// Writes on a stream that does not end. The peer's application hears nothing of it, and it
    /// holds no close back.
    pub fn write_more(&mut self, stream: u64, bytes: u64) {
        if self.window.samples_rates() && !self.has_unsent() {
            self.window.limit_by_application();
        }
        self.sending.entry(stream).or_default().write(bytes);
    }

    /// Ends the connection once the client has everything that the server has written. A client
    /// that closes has its replies, or no longer waits for them.
    pub fn close(&mut self) {
        self.closing = true;
        self.end_if_done();
    }

    /// Ends the connection at once, and tells the other end.
    pub fn abort(&mut self) {
        if self.end.is_none() {
            (self.end, self.close_unsent) = (Some(End::Here), true);
        }
    }

    fn end_if_done(&mut self) {
        let has_all = || !self.sending.values().any(|sending| sending.ends);
        if self.closing && (self.is_client || has_all()) {
            self.abort();
        }
    }

    /// Handles a datagram that has arrived. `marked`: a queue on its way marked it.
    pub fn handle_datagram(&mut self, now: Time, datagram: &Datagram, marked: bool) {
        self.received_bytes += u64::from(datagram.bytes());
        if self.end.is_some() {
            let closes = |packet: &Packet| packet.frames.contains(&Frame::Close);
            // 10.2.1: an end that closed the connection sends its close again.
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

    /// Handles the time that [`next_timeout`](Self::next_timeout) returned.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.end.is_some() {
            return;
        }
        if self.idle_at <= now {
            self.end = Some(End::Silence);
            return;
        }
        if self.answers_at.is_some_and(|at| at <= now) {
            self.answers_at = None;
            self.answer();
        }
        self.window.resume(now);
        match self.recovery_at {
            Some((due, Timer::Loss(space))) if due <= now => self.look_for_losses(now, space),
            Some((due, Timer::Probe(space))) if due <= now => {
                self.ask_for_probes(space);
                self.probe_count += 1;
            }
            _ => {}
        }
        self.set_timer(now);
    }

    /// Returns when something is due even if no datagram arrives.
    pub fn next_timeout(&self) -> Option<Time> {
        if self.end.is_some() {
            return None;
        }
        if let Some(at) = self.answers_at {
            return Some(at.min(self.idle_at));
        }
        let open = self.spaces.iter().filter(|space| !self.held && !space.is_over);
        let acks = open.filter_map(|space| space.ack_at);
        let recovery = self.recovery_at.map(|(due, _)| due);
        acks.chain(recovery).chain(self.window.resumes_at()).chain([self.idle_at]).min()
    }

    /// Returns the next datagram to send now, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Datagram> {
        if self.end.is_some() {
            return self.poll_close();
        }
        if self.answers_at.is_some() {
            return None;
        }
        let payload = u64::from(self.config.payload);
        let most = payload.min(self.allowance());
        let mut datagram = Datagram::default();
        for space in [INITIAL, HANDSHAKE, DATA] {
            let room = most.saturating_sub(datagram.bytes().into());
            datagram.packets.extend(self.next_packet(now, space, room));
        }
        if datagram.packets.is_empty() {
            if let Some(probe) = self.path_probe(now) {
                return Some(probe);
            }
            // RFC 9002, 7.8: an end that its pace holds back uses its window.
            let may_be = self.window.paces() || !self.window.allows(payload);
            self.limited = may_be && self.has_unsent() && !self.may_send(now, payload);
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

    /// Returns the next stream that is complete, and when its first byte could be read.
    pub fn next_whole(&mut self) -> Option<(u64, Time)> {
        self.whole.pop_front()
    }

    /// Returns whether its application may write. A client may if it has the whole of the server's
    /// flight, and the confirmation if it waits for that; a server may if it has ClientHello.
    pub fn is_open(&self) -> bool {
        match self.is_client {
            true => self.is_complete && (self.is_confirmed || !self.config.waits),
            false => self.has_handshake_keys,
        }
    }

    /// Returns whether the client has the server's tickets.
    pub fn has_tickets(&self) -> bool {
        self.is_client
            && self.messages.tickets > 0
            && self.spaces[DATA].crypto_received.has(self.messages.tickets)
    }

    /// Returns how the connection has ended at this end; `None`: it has not.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns its congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.window.bytes
    }

    /// Returns the shortest round trip so far; `None`: none has been measured.
    pub fn least_round_trip(&self) -> Option<Span> {
        self.rtt.least()
    }

    /// Returns the smoothed round trip (RFC 9002, 5.3); before the first, its initial value.
    pub fn smoothed_round_trip(&self) -> Span {
        self.rtt.smoothed
    }

    /// Returns the number of packets that wait for their keys.
    #[cfg(test)]
    pub fn undecryptable_packets(&self) -> usize {
        self.undecryptable.len()
    }

    /// Returns the number of sent packets that it remembers.
    #[cfg(test)]
    pub fn packets_kept(&self) -> usize {
        self.spaces.iter().map(|space| space.sent.len()).sum()
    }

    /// Returns whether its application waits for the other end's confirmation.
    pub fn waits(&self) -> bool {
        self.config.waits
    }

    /// Returns the ECN codepoint of its datagrams.
    pub fn ect(&self) -> Ecn {
        self.config.ect()
    }

    /// Returns the number of its packets that the other end has reported as marked.
    pub fn marks(&self) -> u64 {
        self.spaces.iter().map(|space| space.marked_there).sum()
    }
}
