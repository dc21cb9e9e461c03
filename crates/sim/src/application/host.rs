//! The interface through which applications act.

mod one_way;

use narrows_units::Time;

pub(crate) use self::one_way::Transfer;
use crate::agenda::Event;
use crate::flow::{Flows, NewConnection};
use crate::message::{Message, Sent};
use crate::network::Network;
use crate::packet::Packet;
use crate::random::Random;
use crate::record::Records;
use crate::socket::{Association, Socket};
use crate::transport::Connection;
use crate::transport::half_open::{Counts, HalfOpenLimits};
use crate::transport::tcp::{Endpoint, Flags, Segment, Seq, SynOptions};
use crate::transport::{quic, tls};
use crate::wakes::{Wake, Wakes};

/// The hosts of the network, as one application sees them during a call.
///
/// Segments that result from its requests are sent when the call is over, so that a FIN travels
/// with the last byte. [`Host::flush`] sends them at once. Datagrams are sent at once.
#[derive(Debug)]
pub struct Host<'a> {
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

/// How to reach a server.
#[derive(Clone, Copy, Debug)]
pub struct Dial {
    /// The path to the server: an index into the plan's paths.
    pub there: usize,
    /// The path back: an index into the plan's paths.
    pub back: usize,
    /// The server: an index into the plan's applications.
    pub server: usize,
    /// The server's port.
    pub port: u16,
    /// The TCP settings of this end: an index into the plan's `tcp`. Not used for datagrams.
    pub tcp: usize,
    /// The application's own number for the connection.
    pub number: u32,
    /// Whether its packets count as DNS, for links and monitors that distinguish it.
    pub dns: bool,
}

impl Host<'_> {
    /// Returns the application that is being called: an index into the plan's applications.
    pub fn application(&self) -> u32 {
        self.application
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns when the first byte of the message being delivered arrived. This is now, unless the
    /// message arrived in parts.
    pub fn first_byte_at(&self) -> Time {
        self.first_byte_at
    }

    /// Creates the random stream that belongs to `name` in this run.
    pub fn random(&self, name: &str) -> Random {
        Random::new(self.seed, name)
    }

    /// Asks for a call of [`timer`](super::Application::timer) with this number at `at`, which must
    /// not be in the past. A timer cannot be cancelled; ignore one that is no longer needed.
    pub fn wake(&mut self, at: Time, token: u32) {
        let place = self.wakes.put(Wake { application: self.application, token });
        self.network.agenda.schedule(at, Event::Wake(place));
    }

    /// Listens for connections with these TCP settings (an index into the plan's `tcp`). Up to
    /// `backlog` connections (plus one, as in Linux) may be established before they are
    /// [accepted](Self::accept); others have to try again. If nobody listens, connections are
    /// refused.
    ///
    /// Half-open connections have the limits of Linux.
    pub fn listen(&mut self, tcp: usize, backlog: u32) {
        self.listen_within(tcp, backlog, HalfOpenLimits::LINUX);
    }

    /// Listens like [`listen`](Self::listen), with these limits for half-open connections.
    pub fn listen_within(&mut self, tcp: usize, backlog: u32, limits: HalfOpenLimits) {
        self.flows.listen(self.application, tcp as u16, backlog, limits);
    }

    /// Lets queries over TCP arrive as [datagrams](super::Application::datagram) without a
    /// connection, as behind narrows-gateway. The application answers each with one datagram. What
    /// a server without state cannot handle still arrives as a connection.
    pub fn serve_without_state(&mut self) {
        self.flows.serve_without_state(self.application);
    }

    /// Lets clients use TLS with this listener ([`open_securely`](Self::open_securely)).
    pub fn serve_securely(&mut self, tls: tls::Server) {
        self.flows.serve_securely(self.application, tls);
    }

    /// Lets clients use TLS at this port, with settings of its own. `tcp` is an index into the
    /// plan's `tcp`.
    pub fn serve_securely_at(&mut self, port: u16, tcp: usize, tls: tls::Server) {
        self.flows.serve_securely_at(self.application, port, (tcp as u16, tls));
    }

    /// Lets clients use QUIC with this application ([`open_quic`](Self::open_quic)).
    pub fn serve_quic(&mut self, quic: quic::Config) {
        self.flows.serve_quic(self.application, quic);
    }

    /// Returns what an application's listener has done about SYNs, or `None` if it does not listen.
    pub fn half_open(&self, application: usize) -> Option<Counts> {
        self.flows.half_open(application as u32)
    }

    /// Sends a SYN with all options from the first end, whose address is forged: it will receive no
    /// answer. `seq` is its sequence number.
    pub fn send_forged_syn(&mut self, association: Association, seq: u32) {
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

    /// Takes the connection that has waited longest, or returns `None` if none waits.
    pub fn accept(&mut self) -> Option<Socket> {
        self.flows.accept(self.now, self.application)
    }

    /// Opens a connection to a server, over which both applications exchange messages.
    pub fn open(&mut self, dial: &Dial, random: &mut Random) -> Socket {
        self.open_with(dial, None, random)
    }

    /// Opens a connection over TLS. [`opened`](super::Application::opened) is called when the TLS
    /// handshake is complete. The server must have called [`serve_securely`](Self::serve_securely),
    /// which sets its side of TLS.
    pub fn open_securely(&mut self, dial: &Dial, tls: tls::Client, random: &mut Random) -> Socket {
        self.open_securely_from(dial, tls, 0, random)
    }

    /// Opens a connection over TLS that shares its TLS sessions only with connections of the same
    /// `jar`, like the connections of one browser.
    pub(crate) fn open_securely_from(
        &mut self,
        dial: &Dial,
        tls: tls::Client,
        jar: u32,
        random: &mut Random,
    ) -> Socket {
        let socket = self.open_with(dial, Some((tls, jar)), random);
        self.flows.change(self.now, socket, |connection, cx| {
            let Some(dialogue) = &mut connection.dialogue else { return };
            let Some(tls) = &dialogue.tls else { return };
            let hello = tls.open();
            dialogue.write_flight(0, hello);
            connection.ends[0].endpoint.write(cx.config, cx.now, u64::from(hello.bytes));
        });
        socket
    }

    /// Opens a connection over QUIC. The server must have called
    /// [`serve_securely`](Self::serve_securely) and [`serve_quic`](Self::serve_quic).
    ///
    /// # Panics
    ///
    /// Panics if the server does not use QUIC.
    pub fn open_quic(&mut self, dial: &Dial, tls: tls::Client, quic: quic::Config) -> Socket {
        self.open_quic_from(dial, tls, quic, 0)
    }

    /// Opens a connection over QUIC that shares its TLS sessions only with connections of the same
    /// `jar`.
    pub(crate) fn open_quic_from(
        &mut self,
        dial: &Dial,
        tls: tls::Client,
        quic: quic::Config,
        jar: u32,
    ) -> Socket {
        let new = NewConnection { tls: Some((tls, jar)), ..self.dialled(dial) };
        self.flows.add_quic(self.now, &new, quic, self.network).expect("the server speaks QUIC")
    }

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

    /// Opens a connection that is set up.
    pub(crate) fn connect(&mut self, socket: Socket) {
        let opener = self.flows.connection(socket).map_or(0, Connection::opener);
        let opening = Socket { end: 2 * socket.flow() + opener, ..socket };
        self.flows.change(self.now, opening, |connection, cx| {
            connection.connect(cx.config, cx.now);
        });
    }

    /// Returns whether data written before a new connection is established can leave at once: with
    /// the SYN (RFC 7413), or with the TLS hello (RFC 8446, 2.3).
    pub fn takes_early_data(&self, socket: Socket) -> bool {
        if let Some(connection) = self.flows.quic(socket) {
            return connection.takes_early_data();
        }
        let Some(connection) = self.flows.connection(socket) else { return false };
        match connection.dialogue.as_ref().and_then(|dialogue| dialogue.tls) {
            Some(tls) => tls.takes_early_data(),
            None => connection.ends[socket.side()].endpoint.shows_cookie(),
        }
    }

    /// Returns whether a connection uses QUIC.
    pub(crate) fn is_quic(&self, socket: Socket) -> bool {
        self.flows.quic(socket).is_some()
    }

    /// Returns whether a connection is encrypted.
    pub fn is_secure(&self, socket: Socket) -> bool {
        let connection = self.flows.connection(socket);
        self.is_quic(socket)
            || connection
                .and_then(|c| c.dialogue.as_ref())
                .is_some_and(|dialogue| dialogue.tls.is_some())
    }

    /// Returns how many round trips of TCP and TLS passed before a message could leave on a new
    /// connection. `early` says that the message was written before the connection was established.
    pub fn handshake_round_trips(&self, socket: Socket, early: bool) -> u8 {
        let Some(connection) = self.flows.connection(socket) else {
            return self.flows.quic(socket).map_or(0, |quic| quic.handshake_round_trips(early));
        };
        let with_syn = connection.ends[socket.side()].endpoint.syn_data_taken();
        match connection.dialogue.as_ref().and_then(|dialogue| dialogue.tls) {
            Some(_) => u8::from(!with_syn) + u8::from(!early),
            None => u8::from(!(with_syn && early)),
        }
    }

    /// Returns when TCP's handshake was complete, as seen from the end that opened the connection.
    pub fn established_at(&self, socket: Socket) -> Option<Time> {
        self.flows.connection(socket)?.established_at()
    }

    /// Prepares to exchange datagrams with a server.
    pub fn associate(&mut self, dial: &Dial) -> Association {
        Association::from(self.flows.add_datagrams(&self.dialled(dial), self.network))
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
            dns: dial.dns,
            dialogue: false,
            tls: None,
            port: Some(dial.port),
        }
    }

    /// Reserves sockets for datagrams, each with a port of its own. Returns the first.
    pub fn take_sockets(&mut self, count: u32) -> u32 {
        self.flows.take_sockets(count)
    }

    /// Sends a datagram from one of the first end's sockets, or to it (`back`). Returns what was
    /// sent.
    pub fn send_datagram(
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

    /// Writes a message.
    pub fn send(&mut self, socket: Socket, message: Message) {
        if self.flows.write_quic(socket, message) {
            return;
        }
        if let Some(spoken) = self.flows.spoken_mut() {
            spoken.write(socket, &message);
            self.flows.note_write(self.now, socket, message.bytes.into());
        }
        self.flows.change(self.now, socket, |connection, cx| {
            let dialogue = connection.dialogue.as_mut();
            let bytes = dialogue.map_or(message.bytes, |d| d.write(socket.side(), message));
            let endpoint = &mut connection.ends[socket.side()].endpoint;
            endpoint.write(cx.config, cx.now, u64::from(bytes));
        });
    }

    /// Writes a message in two parts: the first `apart` bytes leave before the rest is written.
    pub fn send_apart(&mut self, socket: Socket, apart: u32, message: Message) {
        if self.flows.write_quic(socket, message) {
            // QUIC fills packets whatever the writes.
            return;
        }
        self.send_part(socket, apart);
        self.send(socket, Message { bytes: message.bytes - apart, ..message });
    }

    /// Writes bytes that belong to the next message and leave before the rest of that message is
    /// written.
    pub fn send_part(&mut self, socket: Socket, apart: u32) {
        if let Some(spoken) = self.flows.spoken_mut() {
            spoken.write_part(socket, apart);
        }
        self.flows.change(self.now, socket, |connection, cx| {
            let dialogue = connection.dialogue.as_mut();
            let bytes = dialogue.map_or(apart, |d| d.write_part(socket.side(), apart));
            let endpoint = &mut connection.ends[socket.side()].endpoint;
            endpoint.write(cx.config, cx.now, u64::from(bytes));
        });
        self.flush(socket);
    }

    /// Sends what was written so far now, rather than when the call is over.
    pub fn flush(&mut self, socket: Socket) {
        self.flows.flush(self.now, socket.end, self.network);
    }

    /// Notes that nothing more is written: a FIN follows the last byte.
    pub fn close(&mut self, socket: Socket) {
        if self.flows.close_quic(socket) {
            return;
        }
        self.say_goodbye(socket);
        self.flows.change(self.now, socket, |connection, cx| {
            connection.ends[socket.side()].endpoint.close(cx.config, cx.now);
        });
    }

    /// Lets TLS announce that it closes, in a write of its own.
    fn say_goodbye(&mut self, socket: Socket) {
        let side = socket.side();
        let mut said = false;
        self.flows.change(self.now, socket, |connection, cx| {
            let Some(dialogue) = &mut connection.dialogue else { return };
            let already = std::mem::replace(&mut dialogue.sides[side].closing, true);
            // If nothing has arrived from the other end, there are no keys for it.
            let can = !already && dialogue.has_heard(side);
            let bytes = dialogue.tls.filter(|_| can).and_then(|tls| tls.goodbye(side));
            let Some(bytes) = bytes else { return };
            dialogue.write_flight(side, tls::Write { bytes, ends: None });
            connection.ends[side].endpoint.write(cx.config, cx.now, u64::from(bytes));
            said = true;
        });
        if said {
            self.flush(socket);
        }
    }

    /// Ends a connection at once with a reset. No further notices follow.
    pub fn abort(&mut self, socket: Socket) {
        self.flows.abort(self.now, socket, self.network);
    }

    /// Returns this application's own number for a connection.
    pub fn number(&self, socket: Socket) -> u32 {
        self.flows.number(socket)
    }

    /// Sets this application's own number for a connection.
    pub fn set_number(&mut self, socket: Socket, number: u32) {
        self.flows.set_number(socket, number);
    }

    /// Returns the node at a connection's first end: an index into the plan's nodes.
    pub fn client_node(&self, socket: Socket) -> u32 {
        self.network.paths.nodes(self.flows.there(socket))[0]
    }

    /// Returns the TCP endpoint behind a socket, or `None` if the connection is gone.
    pub fn endpoint(&self, socket: Socket) -> Option<&Endpoint> {
        let connection = self.flows.connection(socket)?;
        Some(&connection.ends[socket.side()].endpoint)
    }

    /// Returns the IP packets, and their bytes, that one end of a connection with messages has
    /// sent.
    pub fn sent(&self, socket: Socket) -> (u32, u64) {
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

    /// Returns the rows of the tables that applications share.
    pub fn records(&mut self) -> &mut Records {
        self.records
    }
}

/// Read access to the flows of a run.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(pub(crate) &'a Flows);

impl View<'_> {
    /// Returns the data segments that the first end of a connection has retransmitted.
    pub(crate) fn retransmissions(&self, socket: Socket) -> u32 {
        self.0.connection(socket).map_or(0, Connection::retransmissions)
    }
}
