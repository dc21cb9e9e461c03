//! The hosts of the simulated network: what applications ask for becomes flows and packets.

use narrows_apps::record::Records;
use narrows_apps::{
    Application, Association, Dial, Host, Message, Random, Sent, Socket, Transfer, View,
};
use narrows_transport::half_open::{Counts, HalfOpenLimits};
use narrows_transport::tcp::{Counters, Flags, Segment, Seq, SynOptions};
use narrows_transport::{quic, tls};
use narrows_units::{Ecn, Time};

use crate::agenda::Event;
use crate::flow::{Flows, NewConnection, SocketEvent};
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::Connection;
use crate::wakes::{Wake, Wakes};

/// The hosts of the network during a call of one application.
#[derive(Debug)]
pub(crate) struct SimulatedHost<'a> {
    pub(crate) now: Time,
    /// When the first byte of the message being delivered arrived.
    pub(crate) first_byte_at: Time,
    pub(crate) seed: u64,
    /// The application that is being called.
    pub(crate) application: u32,
    pub(crate) network: &'a mut Network,
    pub(crate) flows: &'a mut Flows,
    pub(crate) wakes: &'a mut Wakes,
    pub(crate) records: &'a mut Records,
}

impl View for Flows {
    fn retransmissions(&self, socket: Socket) -> u32 {
        self.connection(socket).map_or(0, Connection::retransmissions)
    }
}

impl View for SimulatedHost<'_> {
    fn retransmissions(&self, socket: Socket) -> u32 {
        self.flows.retransmissions(socket)
    }
}

impl Host for SimulatedHost<'_> {
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
        Random::new(self.seed, name)
    }

    fn wake(&mut self, at: Time, token: u32) {
        let place = self.wakes.put(Wake { application: self.application, token });
        self.network.agenda.schedule(at, Event::Wake(place));
    }

    fn notify(&mut self, application: u32, notes: [u32; 2]) {
        self.flows.notify(application, self.application, notes);
    }

    fn listen_within(&mut self, tcp: usize, backlog: u32, limits: HalfOpenLimits) {
        self.flows.listen(self.application, tcp as u16, backlog, limits);
    }

    fn serve_without_state(&mut self) {
        self.flows.serve_without_state(self.application);
    }

    fn serve_securely(&mut self, tls: tls::Server) {
        self.flows.serve_securely(self.application, tls);
    }

    fn serve_securely_at(&mut self, port: u16, tcp: usize, tls: tls::Server) {
        self.flows.serve_securely_at(self.application, port, (tcp as u16, tls));
    }

    fn serve_quic(&mut self, quic: quic::Config) {
        self.flows.serve_quic(self.application, quic);
    }

    fn half_open(&self, application: usize) -> Option<Counts> {
        self.flows.half_open(application as u32)
    }

    fn send_forged_syn(&mut self, association: Association, seq: u32) {
        let Some(stamp) = self.flows.stamp(association.socket()) else { return };
        let syn = Segment {
            seq: Seq(seq),
            window: u16::MAX,
            flags: Flags::SYN,
            timestamps: Some((1, 0)),
            syn: Some(SynOptions {
                mss: 1460,
                window_scale: Some(7),
                sack_permitted: true,
                fast_open: None,
            }),
            ..Segment::default()
        };
        let packet = Packet::from_segment(stamp, &syn, &mut self.network.pool);
        self.network.send_seldom(self.now, packet);
    }

    fn accept(&mut self) -> Option<Socket> {
        self.flows.accept(self.now, self.application)
    }

    fn open(&mut self, dial: &Dial, random: &mut Random) -> Socket {
        self.open_with(dial, None, random)
    }

    fn open_securely(
        &mut self,
        dial: &Dial,
        tls: tls::Client,
        jar: u32,
        random: &mut Random,
    ) -> Socket {
        let socket = self.open_with(dial, Some((tls, jar)), random);
        self.flows.change(socket, |connection| {
            let Some(dialogue) = &mut connection.dialogue else { return };
            let Some(tls) = &dialogue.tls else { return };
            let hello = tls.open();
            dialogue.write_flight(0, hello);
            connection.ends[0].endpoint.write(self.now, u64::from(hello.bytes));
        });
        socket
    }

    fn open_quic(&mut self, dial: &Dial, tls: tls::Client, quic: quic::Config, jar: u32) -> Socket {
        let new = NewConnection { tls: Some((tls, jar)), ..self.dialled(dial) };
        self.flows.add_quic(self.now, &new, quic, self.network).expect("the server speaks QUIC")
    }

    fn connect(&mut self, socket: Socket) {
        let opener = self.flows.connection(socket).map_or(0, Connection::opener);
        let opening = Socket { end: 2 * socket.flow() + opener, ..socket };
        self.flows.change(opening, |connection| {
            connection.connect(self.now);
        });
    }

    fn takes_early_data(&self, socket: Socket) -> bool {
        if let Some(connection) = self.flows.quic(socket) {
            return connection.takes_early_data();
        }
        let Some(connection) = self.flows.connection(socket) else { return false };
        match connection.dialogue.as_ref().and_then(|dialogue| dialogue.tls) {
            Some(tls) => tls.takes_early_data(),
            None => connection.ends[socket.side()].endpoint.shows_cookie(),
        }
    }

    fn quic_port(&self, socket: Socket) -> Option<u16> {
        self.flows.quic(socket).map(|_| self.network.ports[socket.flow() as usize][1])
    }

    fn is_secure(&self, socket: Socket) -> bool {
        let connection = self.flows.connection(socket);
        self.is_quic(socket)
            || connection
                .and_then(|c| c.dialogue.as_ref())
                .is_some_and(|dialogue| dialogue.tls.is_some())
    }

    fn handshake_round_trips(&self, socket: Socket, early: bool) -> u8 {
        let Some(connection) = self.flows.connection(socket) else {
            return self.flows.quic(socket).map_or(0, |quic| quic.handshake_round_trips(early));
        };
        let with_syn = connection.ends[socket.side()].endpoint.syn_data_taken();
        match connection.dialogue.as_ref().and_then(|dialogue| dialogue.tls) {
            Some(_) => u8::from(!with_syn) + u8::from(!early),
            None => u8::from(!(with_syn && early)),
        }
    }

    fn established_at(&self, socket: Socket) -> Option<Time> {
        self.flows.connection(socket)?.established_at()
    }

    fn associate(&mut self, dial: &Dial) -> Association {
        Association::from(self.flows.add_datagrams(&self.dialled(dial), self.network))
    }

    fn set_ecn(&mut self, association: Association, ecn: Ecn) {
        self.flows.set_ecn(association.socket(), ecn);
    }

    fn forge_addresses(&mut self, association: Association) {
        self.network.marks.forge(association.socket().flow());
    }

    fn take_sockets(&mut self, count: u32) -> u32 {
        self.flows.take_sockets(count)
    }

    fn send_datagram(
        &mut self,
        association: Association,
        socket: u32,
        back: bool,
        message: &Message,
    ) -> Sent {
        let end =
            Socket { end: association.socket().end + u32::from(back), ..association.socket() };
        if let Some(stamp) = self.flows.stamp(end) {
            return self.network.send_datagram(self.now, Packet::datagram(stamp, socket, message));
        }
        if back {
            // The connection counts its segments itself.
            self.flows.answer_stateless(self.now, end, message, self.network);
        }
        Sent::default()
    }

    fn send(&mut self, socket: Socket, message: Message) {
        if self.flows.write_quic(socket, message) {
            return;
        }
        if let Some(spoken) = self.flows.spoken_mut() {
            spoken.write(socket, &message);
        }
        self.flows.change(socket, |connection| {
            let dialogue = connection.dialogue.as_mut();
            let bytes = dialogue.map_or(message.bytes, |d| d.write(socket.side(), message));
            let endpoint = &mut connection.ends[socket.side()].endpoint;
            endpoint.write(self.now, u64::from(bytes));
        });
    }

    fn send_apart(&mut self, socket: Socket, apart: u32, message: Message) {
        if self.flows.write_quic(socket, message) {
            // QUIC fills packets whatever the writes.
            return;
        }
        self.send_part(socket, apart);
        self.send(socket, Message { bytes: message.bytes - apart, ..message });
    }

    fn send_part(&mut self, socket: Socket, apart: u32) {
        if let Some(spoken) = self.flows.spoken_mut() {
            spoken.write_part(socket, apart);
        }
        self.flows.change(socket, |connection| {
            let dialogue = connection.dialogue.as_mut();
            let bytes = dialogue.map_or(apart, |d| d.write_part(socket.side(), apart));
            let endpoint = &mut connection.ends[socket.side()].endpoint;
            endpoint.write(self.now, u64::from(bytes));
        });
        self.flush(socket);
    }

    fn send_beside(&mut self, socket: Socket, stream: u8, bytes: u32) {
        self.flows.write_beside(socket, stream, bytes);
    }

    fn flush(&mut self, socket: Socket) {
        self.flows.flush(self.now, socket.end, self.network);
    }

    fn close(&mut self, socket: Socket) {
        if self.flows.close_quic(socket) {
            return;
        }
        self.say_goodbye(socket);
        self.flows.change(socket, |connection| {
            connection.ends[socket.side()].endpoint.close();
        });
    }

    fn abort(&mut self, socket: Socket) {
        self.flows.abort(self.now, socket, self.network);
    }

    fn number(&self, socket: Socket) -> u32 {
        self.flows.number(socket)
    }

    fn set_number(&mut self, socket: Socket, number: u32) {
        self.flows.set_number(socket, number);
    }

    fn client_node(&self, socket: Socket) -> u32 {
        self.network.paths.nodes(self.flows.there(socket))[0]
    }

    fn counters(&self, socket: Socket) -> Option<Counters> {
        let connection = self.flows.connection(socket)?;
        Some(connection.ends[socket.side()].endpoint.counters())
    }

    fn sent(&self, socket: Socket) -> (u32, u64) {
        if let Some(connection) = self.flows.quic(socket) {
            let side = &connection.sides[socket.side()];
            return (side.packets, side.ip_bytes);
        }
        let dialogue = self.flows.connection(socket).and_then(|c| c.dialogue.as_ref());
        dialogue.map_or((0, 0), |dialogue| {
            let side = &dialogue.sides[socket.side()];
            (side.packets, side.ip_bytes)
        })
    }

    fn records(&mut self) -> &mut Records {
        self.records
    }

    fn set_up(&mut self, transfer: &Transfer) -> Socket {
        let new = NewConnection {
            applications: [self.application; 2],
            number: transfer.number,
            there: transfer.there as u32,
            back: transfer.back as u32,
            config: transfer.tcp as u16,
            first_opens: transfer.first_opens,
            isns: transfer.isns,
            foreground: false,
            dialogue: false,
            tls: None,
            port: None,
        };
        self.flows.add_connection(self.now, &new, self.network)
    }

    fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32 {
        self.flows.list(socket, name, start)
    }

    fn write(&mut self, socket: Socket, bytes: u64) {
        self.flows.change(socket, |connection| {
            connection.ends[socket.side()].endpoint.write(self.now, bytes);
        });
    }

    fn write_forever(&mut self, socket: Socket) {
        self.flows.change(socket, |connection| {
            connection.ends[socket.side()].endpoint.write_forever(self.now);
        });
    }

    fn end_forever(&mut self, socket: Socket) {
        self.flows.change(socket, |connection| {
            connection.ends[socket.side()].endpoint.end_forever();
        });
    }

    fn release_memory(&mut self, socket: Socket) {
        self.flows.change(socket, |connection| {
            connection.ends[socket.side()].endpoint.release_memory();
        });
    }

    fn tell_delivery(&mut self, socket: Socket, bytes: u64) {
        self.flows.change(socket, |connection| {
            let acked = connection.first().bytes_acked();
            connection.awaits = std::num::NonZeroU64::new(acked + bytes);
        });
    }

    fn reserve(&mut self, connections: usize, name_bytes: usize) {
        self.flows.reserve(connections, name_bytes);
        self.network.reserve(self.flows.len() + connections);
    }
}

impl SimulatedHost<'_> {
    fn open_with(
        &mut self,
        dial: &Dial,
        tls: Option<(tls::Client, u32)>,
        random: &mut Random,
    ) -> Socket {
        let new = NewConnection {
            config: dial.tcp as u16,
            isns: [random.bits(), random.bits()],
            dialogue: true,
            tls,
            ..self.dialled(dial)
        };
        let socket = self.flows.add_connection(self.now, &new, self.network);
        self.connect(socket);
        socket
    }

    /// Describes a flow to a server, without TCP settings.
    fn dialled(&self, dial: &Dial) -> NewConnection {
        NewConnection {
            applications: [self.application, dial.server as u32],
            number: dial.number,
            there: dial.there as u32,
            back: dial.back as u32,
            config: 0,
            first_opens: true,
            isns: [0; 2],
            foreground: dial.dns,
            dialogue: false,
            tls: None,
            port: Some(dial.port),
        }
    }

    /// Lets TLS announce that it closes, in a write of its own.
    fn say_goodbye(&mut self, socket: Socket) {
        let side = socket.side();
        let mut said = false;
        self.flows.change(socket, |connection| {
            let Some(dialogue) = &mut connection.dialogue else { return };
            let already = std::mem::replace(&mut dialogue.sides[side].closing, true);
            // If nothing has arrived from the other end, there are no keys for it.
            let can = !already && dialogue.has_heard(side);
            let bytes = dialogue.tls.filter(|_| can).and_then(|tls| tls.goodbye(side));
            let Some(bytes) = bytes else { return };
            dialogue.write_flight(side, tls::Write { bytes, ends: None });
            connection.ends[side].endpoint.write(self.now, u64::from(bytes));
            said = true;
        });
        if said {
            self.flush(socket);
        }
    }

    /// Delivers an event to its application.
    pub(crate) fn tell(&mut self, application: &mut dyn Application, event: SocketEvent) {
        match event {
            SocketEvent::Opened(socket) => application.opened(self, socket),
            SocketEvent::FirstByte(socket) => application.first_byte(self, socket),
            SocketEvent::Received(socket, message, first_byte_at) => {
                self.first_byte_at = first_byte_at;
                application.received(self, socket, message);
            }
            SocketEvent::Delivered(socket) => application.delivered(self, socket),
            SocketEvent::Closed(socket, how) => application.closed(self, socket, how),
            SocketEvent::Flight(socket, flight) => {
                self.flows.take_flight(self.now, socket, flight, self.network);
                application.flight_arrived(self, socket);
            }
            SocketEvent::Arrived(_) => application.arrived(self),
            SocketEvent::Datagram(datagram) => application.datagram(self, datagram),
            SocketEvent::Notified(_, from, notes) => application.notified(self, from, notes),
        }
    }
}
