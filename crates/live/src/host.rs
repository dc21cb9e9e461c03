//! Turns what applications ask for into system calls.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use narrows_apps::dns::{HTTPS_PORT, LENGTH};
use narrows_apps::record::Records;
use narrows_apps::{
    Application, Association, Dial, Host, Message, Random, Sent, Socket, Transfer, View,
};
use narrows_transport::half_open::{Counts, HalfOpenLimits};
use narrows_transport::tcp::Counters;
use narrows_transport::{quic, tls};
use narrows_units::{Ecn, Time};

use crate::connection::{Connection, Side};
use crate::datagrams::{Forged, Link, Queries};
use crate::end::End;
use crate::flows::{Flow, Listed, What, counters};
use crate::part::Use;
use crate::secure::Secure;
use crate::world::{SocketEvent, World};

/// The hosts during a call of one application.
#[derive(Debug)]
pub(crate) struct LiveHost<'a> {
    pub(crate) now: Time,
    /// When the first byte of the message being delivered arrived.
    pub(crate) first_byte_at: Time,
    /// The application that is being called.
    pub(crate) application: u32,
    pub(crate) world: &'a mut World,
}

impl View for LiveHost<'_> {
    fn retransmissions(&self, socket: Socket) -> u32 {
        self.world.retransmissions(socket)
    }
}

/// Says why a method has no meaning here. `refused` has checked the plan for it.
const REFUSED: &str = "the plan would have been refused";

impl Host for LiveHost<'_> {
    fn application(&self) -> u32 {
        self.application
    }

    fn now(&self) -> Time {
        self.now
    }

    fn first_byte_at(&self) -> Time {
        self.first_byte_at
    }

    fn random(&self, name: &str) -> Random {
        Random::new(self.world.seed, name)
    }

    fn wake(&mut self, at: Time, token: u32) {
        self.world.wake(at, Some(self.application), token);
    }

    fn notify(&mut self, application: u32, notes: [u32; 2]) {
        self.world.events.push_back(SocketEvent::Notified(application, self.application, notes));
    }

    fn listen_within(&mut self, tcp: usize, backlog: u32, _limits: HalfOpenLimits) {
        // A socket is made when a client's path leads to a node.
        self.world.serving.insert(self.application, (tcp, backlog));
    }

    fn serve_without_state(&mut self) {
        unreachable!("{REFUSED}")
    }

    fn serve_securely(&mut self, tls: tls::Server) {
        self.serve(None, tls);
    }

    fn serve_securely_at(&mut self, port: u16, tcp: usize, tls: tls::Server) {
        self.world.serving_at.insert((self.application, port), tcp);
        self.serve(Some(port), tls);
    }

    fn serve_quic(&mut self, quic: quic::Config) {
        self.world.serve_quic(self.application, quic);
    }

    fn half_open(&self, _application: usize) -> Option<Counts> {
        self.world.floods.get(&self.application)?.half_open()
    }

    fn send_forged_syn(&mut self, association: Association, seq: u32) {
        let World { floods, flows, .. } = &mut *self.world;
        if let Some(flood) = floods.get_mut(&self.application) {
            flood.send_syn(flows.get(association.socket().flow()).numbers[0], seq);
        }
    }

    fn accept(&mut self) -> Option<Socket> {
        self.world.accept(self.now, self.application)
    }

    fn open(&mut self, dial: &Dial, random: &mut Random) -> Socket {
        self.open_with(dial, random, [None, None])
    }

    fn open_securely(
        &mut self,
        dial: &Dial,
        tls: tls::Client,
        jar: u32,
        random: &mut Random,
    ) -> Socket {
        let server = dial.server as u32;
        let World { secure, real, ends, .. } = &mut *self.world;
        let applications = [self.application, server];
        let ends = if ends.are_split() {
            secure.open_elsewhere(applications, dial.port, jar, tls).map(|end| [Some(end), None])
        } else if real.is_real(server) {
            secure.open_alone(applications, jar, tls).map(|end| [Some(end), None])
        } else {
            secure.open(applications, dial.port, jar, tls).map(|ends| ends.map(Some))
        };
        if ends.is_none() {
            self.world.fail("tls: the server has none".into());
        }
        let ends = ends.unwrap_or_default().map(|end| end.map(Box::new));
        self.open_with(dial, random, ends)
    }

    fn open_quic(&mut self, dial: &Dial, tls: tls::Client, quic: quic::Config, jar: u32) -> Socket {
        let opened = self.world.open_quic(self.application, dial, (tls, quic, jar));
        opened.unwrap_or_else(|why| {
            self.world.fail(format!("quic: {why}"));
            NOBODY
        })
    }

    fn connect(&mut self, socket: Socket) {
        self.world.connect(self.now, socket.flow());
    }

    fn takes_early_data(&self, socket: Socket) -> bool {
        if let Some(connection) = self.world.flows.quic(socket) {
            return connection.takes_early_data();
        }
        let connection = self.world.connection(socket);
        connection.is_some_and(|connection| connection.sides[socket.side()].takes_early_data())
    }

    fn quic_port(&self, socket: Socket) -> Option<u16> {
        self.world.flows.quic(socket).map(|connection| connection.port)
    }

    fn is_secure(&self, socket: Socket) -> bool {
        let connection = self.world.connection(socket);
        self.is_quic(socket)
            || connection.is_some_and(|connection| connection.sides[socket.side()].secure.is_some())
    }

    fn handshake_round_trips(&self, socket: Socket, early: bool) -> u8 {
        if let Some(connection) = self.world.flows.quic(socket) {
            return connection.handshake_round_trips(early);
        }
        let Some(connection) = self.world.connection(socket) else { return 0 };
        let with_syn = connection.info(socket.side()).syn_data == Some(true);
        if self.is_secure(socket) {
            return u8::from(!with_syn) + u8::from(!early);
        }
        u8::from(!(with_syn && early))
    }

    fn established_at(&self, socket: Socket) -> Option<Time> {
        self.world.connection(socket)?.established_at
    }

    fn associate(&mut self, dial: &Dial) -> Association {
        let nodes = self.nodes(dial.there);
        let link = Link {
            nodes,
            port: dial.port,
            owners: [self.application, dial.server as u32],
            of: Use { tcp: None, server: Some(dial.server as u32) },
            mtus: [self.world.mtu(dial.there), self.world.mtu(dial.back)],
            queries: dial.dns.then(Queries::default),
            is_real: self.world.real.is_real(dial.server as u32),
            is_elsewhere: false,
            under_way: BTreeMap::new(),
        };
        let socket = self.world.flows.add(Flow {
            generation: 0,
            owners: [self.application, dial.server as u32],
            numbers: [dial.number, 0],
            nodes,
            back: dial.back,
            what: What::Datagrams(Box::new(link)),
        });
        if !self.world.real.is_real(dial.server as u32) {
            self.world.serve_datagrams(socket.flow());
        }
        let flood = self.world.floods.get_mut(&self.application);
        if let Some(flood) = flood.filter(|flood| flood.replies.is_some()) {
            flood.association = Some(Association::from(socket));
            let (network, first) = (flood.network, flood.first_socket);
            self.world.datagrams.forge(Forged { network, flow: socket.flow(), first });
        }
        Association::from(socket)
    }

    fn set_ecn(&mut self, _association: Association, _ecn: Ecn) {
        unreachable!("{REFUSED}")
    }

    fn take_sockets(&mut self, count: u32) -> u32 {
        let first = self.world.datagrams.take(count);
        if let Some(flood) = self.world.floods.get_mut(&self.application) {
            flood.first_socket = first;
        }
        first
    }

    fn send_datagram(
        &mut self,
        association: Association,
        socket: u32,
        back: bool,
        message: &Message,
    ) -> Sent {
        let flow = association.socket().flow();
        let forged = self.world.datagrams.forged_address((flow, socket));
        let is_here = self.world.flows.link_mut(flow).is_some_and(|link| !link.is_elsewhere);
        if forged.is_none() && is_here {
            self.world.open_datagrams(flow, socket);
        }
        let asked = self.world.real.query(self.application, message.bytes, message);
        let World { flows, datagrams, places, floods, .. } = &mut *self.world;
        let Some(link) = flows.link_mut(flow) else { return Sent::default() };
        let bytes = match asked {
            Some(asked) => link.ask(socket, message, asked),
            None => link.write(self.now, (socket, back), message),
        };
        let Some(bytes) = bytes else { return Sent::default() };
        match (forged, floods.get_mut(&self.application)) {
            (Some(from), Some(flood)) => flood.send_query(from, &bytes),
            _ => datagrams.send(places, link, ((flow, socket), back), &bytes),
        }
        link.packets(back, bytes.len())
    }

    fn send(&mut self, socket: Socket, message: Message) {
        self.send_apart(socket, 0, message);
    }

    fn send_apart(&mut self, socket: Socket, apart: u32, message: Message) {
        if let Some(connection) = self.world.flows.quic_mut(socket) {
            // QUIC fills its packets, however the application writes.
            connection.write(socket.side(), message);
            self.world.dirty.push(socket);
            return;
        }
        let length = message.bytes.saturating_sub(LENGTH);
        let asked = self.world.real.query(self.application, length, &message);
        self.change(socket, |connection| {
            connection.send(socket.side(), apart as usize, message, asked)
        });
    }

    fn send_part(&mut self, socket: Socket, apart: u32) {
        self.change(socket, |connection| connection.send_part(socket.side(), apart));
    }

    fn send_beside(&mut self, socket: Socket, stream: u8, bytes: u32) {
        if let Some(connection) = self.world.flows.quic_mut(socket) {
            connection.write_beside(socket.side(), stream, bytes);
            self.world.dirty.push(socket);
        }
    }

    fn flush(&mut self, socket: Socket) {
        self.world.flush(socket);
    }

    fn close(&mut self, socket: Socket) {
        if let Some(connection) = self.world.flows.quic_mut(socket) {
            connection.close(socket.side());
            self.world.dirty.push(socket);
            return;
        }
        self.change(socket, |connection| {
            connection.sides[socket.side()].finish();
            Ok(())
        });
    }

    fn abort(&mut self, socket: Socket) {
        self.world.abort(socket);
    }

    fn number(&self, socket: Socket) -> u32 {
        self.world.flows.get(socket.flow()).numbers[socket.side()]
    }

    fn set_number(&mut self, socket: Socket, number: u32) {
        self.world.flows.get_mut(socket.flow()).numbers[socket.side()] = number;
    }

    fn client_node(&self, socket: Socket) -> u32 {
        self.world.flows.get(socket.flow()).nodes[0] as u32
    }

    fn counters(&self, socket: Socket) -> Option<Counters> {
        let connection = self.world.connection(socket)?;
        let side = &connection.sides[socket.side()];
        if connection.opener != socket.side() {
            let node = self.world.flows.get(socket.flow()).nodes[socket.side()];
            side.timeouts.set(side.timeouts.get() + self.world.timeouts.take(node));
        }
        Some(Counters { timeouts: side.timeouts.get(), ..counters(&side.info()) })
    }

    fn sent(&self, socket: Socket) -> (u32, u64) {
        if let Some(connection) = self.world.flows.quic(socket) {
            let side = &connection.sides[socket.side()];
            return (side.packets, side.ip_bytes);
        }
        let connection = self.world.connection(socket);
        connection.map_or((0, 0), |connection| connection.sent(socket.side()))
    }

    fn records(&mut self) -> &mut Records {
        &mut self.world.records
    }

    fn set_up(&mut self, transfer: &Transfer) -> Socket {
        let opener = usize::from(!transfer.first_opens);
        let nodes = self.nodes(transfer.there);
        // Each set of TCP settings needs a listening socket of its own.
        let port = PORT + transfer.tcp as u16;
        let from_port = self.world.next_port(nodes[opener]);
        let connection = Connection { from_port, ..Connection::new(opener, transfer.tcp, port) };
        let owners = [self.application; 2];
        let of = connection.used(owners);
        let places = &self.world.places;
        let [from, to] = [(opener, from_port), (1 - opener, port)]
            .map(|(side, port)| SocketAddrV4::new(places.address(nodes[side], of), port));
        if self.world.ends.accept_at(nodes[1 - opener]) {
            self.world.listen(
                (nodes[1 - opener], to),
                (transfer.tcp, BACKLOG),
                None,
                self.application,
            );
        }
        let socket = self.world.flows.add(Flow {
            generation: 0,
            owners,
            numbers: [transfer.number; 2],
            nodes,
            back: transfer.back,
            what: What::Tcp(Box::new(connection)),
        });
        if from_port != 0 {
            self.world.expect([from, to], socket.flow());
        }
        socket
    }

    fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32 {
        if let Some(connection) = self.world.flows.connection_mut(socket) {
            connection.listed = true;
        }
        let listed = &mut self.world.flows.listed;
        listed.push(Listed { flow: socket.flow(), name: name.to_owned(), start });
        listed.len() as u32 - 1
    }

    fn write(&mut self, socket: Socket, bytes: u64) {
        self.change_end(socket, |end| end.write_zeros(bytes));
    }

    fn write_forever(&mut self, socket: Socket) {
        self.change_end(socket, |end| end.set_forever(true));
    }

    fn end_forever(&mut self, socket: Socket) {
        self.change_end(socket, |end| end.set_forever(false));
    }

    fn release_memory(&mut self, _socket: Socket) {}

    fn tell_delivery(&mut self, socket: Socket, bytes: u64) {
        self.change_end(socket, |end| end.await_delivery(bytes));
    }

    fn reserve(&mut self, _connections: usize, _name_bytes: usize) {}
}

impl LiveHost<'_> {
    /// Lets the application serve TLS, at this port or at all others.
    fn serve(&mut self, port: Option<u16>, tls: tls::Server) {
        self.world.secure.serve(self.application, port, tls);
    }

    /// Delivers an event to its application.
    pub(crate) fn tell(&mut self, application: &mut dyn Application, event: SocketEvent) {
        match event {
            SocketEvent::Opened(socket) => application.opened(self, socket),
            SocketEvent::FirstByte(socket) => application.first_byte(self, socket),
            SocketEvent::FlightArrived(socket) => application.flight_arrived(self, socket),
            SocketEvent::Received(socket, message, first_byte_at) => {
                self.first_byte_at = first_byte_at;
                application.received(self, socket, message);
            }
            SocketEvent::Delivered(socket) => application.delivered(self, socket),
            SocketEvent::Closed(socket, how) => application.closed(self, socket, how),
            SocketEvent::Arrived(_) => application.arrived(self),
            SocketEvent::Datagram(datagram) => application.datagram(self, datagram),
            SocketEvent::Notified(_, from, notes) => application.notified(self, from, notes),
        }
    }

    fn open_with(
        &mut self,
        dial: &Dial,
        random: &mut Random,
        ends: [Option<Box<Secure>>; 2],
    ) -> Socket {
        // The simulator draws sequence numbers here. Later draws must be the same as there.
        let _ = [random.bits(), random.bits()];
        let nodes = self.nodes(dial.there);
        let server = dial.server as u32;
        let connection = Connection {
            sides: ends.map(Side::with),
            has_messages: true,
            // TLS hides HTTP/2's frames and messages, so they are zeros.
            exchanges: (dial.dns && dial.port != HTTPS_PORT).then(Default::default),
            real: self.world.real.is_real(server).then(Default::default),
            ..Connection::new(0, dial.tcp, dial.port)
        };
        let World { timeouts, places, .. } = &mut *self.world;
        if let Err(why) = timeouts.add(places, nodes[1]) {
            self.world.fail(format!("netstat: {why}"));
        }
        if let Some(&(tcp, backlog)) = self.world.serving.get(&server) {
            let at_port = self.world.serving_at.get(&(server, dial.port));
            let serving = (at_port.copied().unwrap_or(tcp), backlog);
            let of = connection.used([self.application, server]);
            let at = SocketAddrV4::new(self.world.places.address(nodes[1], of), dial.port);
            if !self.world.real.is_real(server) {
                self.world.listen((nodes[1], at), serving, Some(server), server);
            }
        }
        let socket = self.world.flows.add(Flow {
            generation: 0,
            owners: [self.application, server],
            numbers: [dial.number, 0],
            nodes,
            back: dial.back,
            what: What::Tcp(Box::new(connection)),
        });
        self.world.connect(self.now, socket.flow());
        socket
    }

    fn nodes(&self, path: usize) -> [usize; 2] {
        let path = &self.world.paths[path];
        [path.from, path.to]
    }

    /// Changes a connection. What it has to write leaves when the application's call is over.
    fn change(&mut self, socket: Socket, change: impl FnOnce(&mut Connection) -> nix::Result<()>) {
        let Some(connection) = self.world.flows.connection_mut(socket) else { return };
        // If a write fails, so does the next one, at the end of the call.
        let _ = change(connection);
        self.world.dirty.push(socket);
    }

    fn change_end(&mut self, socket: Socket, change: impl FnOnce(&mut End)) {
        self.change(socket, |connection| {
            if let Some(end) = &mut connection.sides[socket.side()].end {
                change(end);
            }
            Ok(())
        });
    }
}

impl World {
    pub(crate) fn wake(&mut self, at: Time, application: Option<u32>, token: u32) {
        let number = self.wakes_set;
        self.wakes_set += 1;
        self.wakes.push(Reverse((at, number, application, token)));
    }
}

/// What an application gets for a connection that cannot be opened. The run then ends.
const NOBODY: Socket = Socket { end: u32::MAX, generation: 0 };

/// The first of the ports at which ends accept connections of their own application, one for each
/// set of TCP settings: iperf's.
const PORT: u16 = 5001;

/// `net.core.somaxconn`. These connections are accepted at once.
const BACKLOG: u32 = 4096;
