//! Flows of QUIC: how they begin, what they receive, and the events that follow.

use narrows_apps::{Message, Socket};
use narrows_transport::quic::{Config, LEAST_PAYLOAD};
use narrows_units::Time;

use super::{Flow, Flows, NewConnection, SocketEvent};
use crate::network::Network;
use crate::packet::{IP_HEADER, Label, Packet, UDP_HEADER};
use crate::transport::quic::{Connection, ConnectionEvent};

impl Flows {
    /// Lets an application's listener use QUIC too, with its TLS settings.
    pub(crate) fn serve_quic(&mut self, application: u32, quic: Config) {
        if let Some(listener) = self.listener(application) {
            listener.quic = Some(quic);
        }
    }

    /// Sets up a connection to a listening application. Returns `None` if that has no QUIC.
    pub(crate) fn add_quic(
        &mut self,
        now: Time,
        new: &NewConnection,
        config: Config,
        network: &mut Network,
    ) -> Option<Socket> {
        let (client, jar) = new.tls?;
        let listener = self.listeners.iter().find(|l| l.application == new.applications[1])?;
        let (server, of_server) = (listener.tls?, listener.quic?);
        let tls = self.sessions.begin_tls(new.applications, jar, client, server);
        let (flow, generation) = self.next_number();
        // QUIC packets are never fragmented (RFC 9000, 14), so none is longer than the first link
        // takes.
        let within = |config: Config, path: u32| {
            let longest = network.longest_packet(path) - IP_HEADER - UDP_HEADER;
            let payload = config.payload.min(longest.max(LEAST_PAYLOAD));
            let search_to = config.search_to.map(|most| most.min(longest));
            Config { payload, search_to: search_to.filter(|&most| most > payload), ..config }
        };
        let configs = [within(config, new.there), within(of_server, new.back)];
        let label = Label::new(generation, new.foreground);
        let connection = Connection::new(now, label, configs, new.isns, tls);
        self.put(flow, Flow::Quic(Box::new(connection)), new.owners());
        network.note_flow(flow, new.applications, (new.there, new.back), new.ports(flow));
        let socket = Socket { end: 2 * flow, generation };
        self.note_unsent(socket.end);
        Some(socket)
    }

    /// Returns a socket's connection, or `None` if it has no QUIC connection.
    pub(crate) fn quic(&self, socket: Socket) -> Option<&Connection> {
        match self.table.get(socket.flow() as usize) {
            Some(Flow::Quic(connection)) if connection.generation() == socket.generation => {
                Some(connection)
            }
            _ => None,
        }
    }

    pub(super) fn quic_of(&mut self, socket: Socket) -> Option<&mut Connection> {
        match self.table.get_mut(socket.flow() as usize) {
            Some(Flow::Quic(connection)) if connection.generation() == socket.generation => {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Writes a message. Returns false if the socket is not of QUIC.
    pub(crate) fn write_quic(&mut self, socket: Socket, message: Message) -> bool {
        let Some(connection) = self.quic_of(socket) else { return false };
        connection.write(socket.side(), message);
        self.note_unsent(socket.end);
        true
    }

    /// Writes on one of an end's own streams.
    pub(crate) fn write_beside(&mut self, socket: Socket, stream: u8, bytes: u32) {
        let Some(connection) = self.quic_of(socket) else { return };
        connection.write_beside(socket.side(), stream, bytes);
        self.note_unsent(socket.end);
    }

    /// Closes a connection after everything written. Returns false if the socket is not of QUIC.
    pub(crate) fn close_quic(&mut self, socket: Socket) -> bool {
        let Some(connection) = self.quic_of(socket) else { return false };
        connection.close(socket.side());
        self.note_unsent(socket.end);
        true
    }

    /// Closes a connection whose application needs no further events.
    pub(super) fn abort_quic(&mut self, now: Time, socket: Socket, network: &mut Network) {
        let Some(connection) = self.quic_of(socket) else { return };
        connection.abort(socket.side());
        connection.flush(now, socket.end, network);
        connection.sides[socket.side()].over = true;
        self.collect_quic_news(socket.end);
    }

    /// Handles a packet that has reached its host.
    pub(super) fn handle_quic(&mut self, now: Time, packet: &Packet, network: &mut Network) {
        let flow = packet.flow();
        let end = 2 * flow + u32::from(!packet.goes_back());
        let socket = Socket { end, generation: packet.generation };
        let application = self.owner(end);
        let room = self.listener(application).is_none_or(|l| l.queue.len() <= l.backlog as usize);
        let Some(connection) = self.quic_of(socket) else { return };
        let arrives = socket.side() == 1 && !connection.has_arrived();
        if arrives && !room {
            // The client sends it again unless it has given up.
            connection.take_off(packet);
            self.collect_quic_news(end);
            return;
        }
        connection.handle_packet(now, packet);
        connection.flush(now, end, network);
        if arrives && connection.has_arrived() {
            connection.sides[1].queued = true;
            if let Some(listener) = self.listener(application) {
                listener.queue.push_back(socket);
            }
            self.events.push(SocketEvent::Arrived(application));
        }
        self.collect_quic_news(end);
    }

    /// Notes that a packet was lost.
    pub(super) fn note_quic_loss(&mut self, packet: &Packet) {
        let socket = Socket { end: packet.direction, generation: packet.generation };
        if let Some(connection) = self.quic_of(socket) {
            connection.take_off(packet);
            self.collect_quic_news(socket.end);
        }
    }

    #[cold]
    pub(super) fn handle_quic_timer(&mut self, now: Time, end: u32, network: &mut Network) {
        let Flow::Quic(connection) = &mut self.table[end as usize / 2] else { return };
        connection.handle_timer(now, end);
        connection.flush(now, end, network);
        self.collect_quic_news(end);
    }

    #[cold]
    pub(super) fn flush_quic(&mut self, now: Time, end: u32, network: &mut Network) {
        if let Flow::Quic(connection) = &mut self.table[end as usize / 2] {
            connection.flush(now, end, network);
        }
    }

    /// Collects what an end's application does not know yet. Notes whether both ends have finished
    /// with the flow.
    #[cold]
    pub(super) fn collect_quic_news(&mut self, end: u32) {
        let owners = self.owners[end as usize / 2].applications;
        let Flow::Quic(connection) = &mut self.table[end as usize / 2] else { return };
        let socket = Socket { end, generation: connection.generation() };
        while let Some(event) = connection.next_event(socket.side()) {
            self.events.push(match event {
                ConnectionEvent::Tickets(jar, count) => {
                    self.sessions.keep_tickets(owners, jar, count);
                    continue;
                }
                ConnectionEvent::Opened => SocketEvent::Opened(socket),
                ConnectionEvent::Received(message, begun) => {
                    SocketEvent::Received(socket, message, begun)
                }
                ConnectionEvent::Closed(how) => SocketEvent::Closed(socket, how),
            });
        }
        if connection.is_over() && !connection.ending {
            connection.ending = true;
            self.ending.push(end / 2);
        }
    }

    fn note_unsent(&mut self, end: u32) {
        if !self.unsent.contains(&end) {
            self.unsent.push(end);
        }
    }
}
