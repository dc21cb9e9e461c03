//! A QUIC connection in the network: both ends, the messages on their streams, and datagrams under
//! way.
//!
//! Each query has a stream of its own, on which its reply returns (RFC 9250, 4.2), so none waits
//! for the bytes of another.

use std::collections::{BTreeMap, VecDeque};

use narrows_apps::Message;
use narrows_transport::Closed;
use narrows_transport::quic::{Config, Datagram, End, Endpoint};
use narrows_transport::tls::Tls;
use narrows_units::{MaybeTime, Time};

use crate::agenda::Event;
use crate::network::Network;
use crate::packet::{Label, Packet};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    label: Label,
    tls: Tls,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) sides: [Side; 2],
    /// When the pending timer event of each end is due.
    armed: [MaybeTime; 2],
    /// The datagrams that each end has sent and that have neither arrived nor been lost, by number.
    in_flight: [VecDeque<(u32, Datagram)>; 2],
    numbers: u32,
    /// The messages that each end will have once their streams are complete.
    unread: [BTreeMap<u64, Message>; 2],
    /// Queries that the server has not answered yet: tag and stream.
    asked: Vec<(u32, u64)>,
    /// The number of streams that each end has opened.
    opened: [u64; 2],
    reported_tickets: bool,
    /// Whether both ends have finished with it.
    pub(crate) ending: bool,
}

/// What the application at an end knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side {
    /// Whether it may be told of the connection: it opened or accepted it.
    pub(crate) attached: bool,
    /// Whether it waits to be accepted.
    pub(crate) queued: bool,
    reported_open: bool,
    reported_peer_closed: bool,
    pub(crate) over: bool,
    /// The IP packets that it has sent, and their bytes.
    pub(crate) packets: u32,
    pub(crate) ip_bytes: u64,
}

/// An event for an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Opened,
    /// The client has tickets: the set of its sessions that they join, and their number.
    Tickets(u32, u32),
    /// A whole message has arrived; the time is when its first byte could be read.
    Received(Message, Time),
    Closed(Closed),
}

impl Connection {
    /// Creates a connection. `configs` are the client's and the server's, and so are `seeds`.
    pub(crate) fn new(
        now: Time,
        label: Label,
        configs: [Config; 2],
        seeds: [u32; 2],
        tls: Tls,
    ) -> Self {
        let [client, server] = configs;
        let parameters = configs.map(|config| u64::from(config.parameters));
        let messages = tls.messages(parameters);
        Self {
            label,
            tls,
            ends: [
                Endpoint::new(now, true, [client, server], messages).with_seed(now, seeds[0]),
                Endpoint::new(now, false, [server, client], messages).with_seed(now, seeds[1]),
            ],
            sides: [Side { attached: true, ..Side::default() }, Side::default()],
            armed: [MaybeTime::NONE; 2],
            in_flight: Default::default(),
            numbers: 0,
            unread: Default::default(),
            asked: Vec::new(),
            opened: [0; 2],
            reported_tickets: false,
            ending: false,
        }
    }

    pub(crate) fn generation(&self) -> u8 {
        self.label.generation
    }

    /// Returns whether the client's first message is sent with its hello.
    pub(crate) fn takes_early_data(&self) -> bool {
        self.tls.takes_early_data()
    }

    /// Returns the round trips before a message could be sent. `early`: it was written before the
    /// connection was open.
    pub(crate) fn handshake_round_trips(&self, early: bool) -> u8 {
        if early { 0 } else { 1 + u8::from(self.ends[0].waits()) }
    }

    /// Returns whether the server's end has heard of the connection.
    pub(crate) fn has_arrived(&self) -> bool {
        self.ends[1].is_open()
    }

    /// Writes a message from an end's application.
    pub(crate) fn write(&mut self, side: usize, message: Message) {
        let place = self.asked.iter().position(|&(tag, _)| side == 1 && tag == message.tag);
        let stream = match place {
            Some(place) => self.asked.swap_remove(place).1,
            None => {
                // RFC 9000, 2.1: the lowest bit tells who opened the stream.
                let stream = 4 * self.opened[side] + side as u64;
                self.opened[side] += 1;
                stream
            }
        };
        self.ends[side].write(stream, message.bytes.into());
        self.unread[1 - side].insert(stream, message);
    }

    /// Writes on one of an end's unidirectional streams, which the other end's application does not
    /// hear of.
    pub(crate) fn write_beside(&mut self, side: usize, stream: u8, bytes: u32) {
        // RFC 9000, 2.1: the second bit says that it goes one way.
        self.ends[side].write_more(4 * u64::from(stream) + 2 + side as u64, bytes.into());
    }

    /// Notes that an end's application writes nothing more.
    pub(crate) fn close(&mut self, side: usize) {
        self.ends[side].close();
    }

    /// Notes that an end's application has finished with the connection.
    pub(crate) fn abort(&mut self, side: usize) {
        self.ends[side].abort();
    }

    /// Handles a packet that has reached its host.
    pub(crate) fn handle_packet(&mut self, now: Time, packet: &Packet) {
        let from = usize::from(packet.goes_back());
        if let Some(datagram) = self.take_off(packet) {
            let marked = packet.ecn() == narrows_qdisc::Ecn::Ce;
            self.ends[1 - from].handle_datagram(now, &datagram, marked);
        }
    }

    /// Removes a packet that goes no further, and returns its datagram.
    pub(crate) fn take_off(&mut self, packet: &Packet) -> Option<Datagram> {
        let in_flight = &mut self.in_flight[usize::from(packet.goes_back())];
        let number = packet.message().tag;
        let place = in_flight.iter().position(|&(other, _)| other == number)?;
        in_flight.remove(place).map(|(_, datagram)| datagram)
    }

    /// Handles the timer of the end that sends in `direction`.
    pub(crate) fn handle_timer(&mut self, now: Time, direction: u32) {
        let side = direction as usize % 2;
        if !self.armed[side].is(now) {
            return;
        }
        self.armed[side] = MaybeTime::NONE;
        if self.ends[side].next_timeout().is_some_and(|due| due <= now) {
            self.ends[side].handle_timeout(now);
        }
    }

    /// Sends what the end that sends in `direction` has to send.
    pub(crate) fn flush(&mut self, now: Time, direction: u32, network: &mut Network) {
        let side = direction as usize % 2;
        let stamp = self.label.in_direction(direction);
        while let Some(datagram) = self.ends[side].poll_transmit(now) {
            self.numbers = self.numbers.wrapping_add(1);
            let message =
                Message { bytes: datagram.bytes(), tag: self.numbers, ..Message::default() };
            let packet = Packet::quic(stamp, &message, self.ends[side].ect());
            self.in_flight[side].push_back((self.numbers, datagram));
            self.sides[side].packets += 1;
            self.sides[side].ip_bytes += u64::from(packet.bytes);
            network.send_seldom(now, packet);
        }
        if let Some(due) = self.ends[side].next_timeout() {
            let due = due.max(now);
            if self.armed[side].is_after(due) {
                self.armed[side] = due.into();
                network.agenda.schedule(due, Event::Timer(direction));
            }
        }
    }

    /// Returns the next thing that an end's application does not know yet.
    pub(crate) fn next_event(&mut self, side: usize) -> Option<ConnectionEvent> {
        let (this, end) = (&mut self.sides[side], &mut self.ends[side]);
        if side == 0 && !self.reported_tickets && end.has_tickets() {
            self.reported_tickets = true;
            return Some(ConnectionEvent::Tickets(self.tls.jar, self.tls.tickets()));
        }
        if !this.attached || this.over {
            return None;
        }
        if !this.reported_open && end.is_open() {
            this.reported_open = true;
            return Some(ConnectionEvent::Opened);
        }
        if this.reported_open
            && let Some((stream, begun)) = end.next_whole()
            && let Some(message) = self.unread[side].remove(&stream)
        {
            if side == 1 {
                self.asked.push((message.tag, stream));
            }
            return Some(ConnectionEvent::Received(message, begun));
        }
        match end.end()? {
            End::There if !this.reported_peer_closed => {
                this.reported_peer_closed = true;
                Some(ConnectionEvent::Closed(Closed::ByPeer))
            }
            End::There | End::Here => {
                this.over = true;
                Some(ConnectionEvent::Closed(Closed::Done))
            }
            End::Silence => {
                this.over = true;
                Some(ConnectionEvent::Closed(Closed::TimedOut))
            }
        }
    }

    /// Returns whether both ends have finished with it. Packets from the client may still reach a
    /// server that has not heard of the connection.
    pub(crate) fn is_over(&self) -> bool {
        let [client, server] = &self.sides;
        let server_is = server.attached || server.queued;
        client.over && (server.over || (!server_is && self.in_flight[0].is_empty()))
    }
}
