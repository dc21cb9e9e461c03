//! What an application can ask for.

use narrows_units::Time;

use super::connection::Connection as ConnectionPlan;
use super::{Message, Sent, Socket};
use crate::agenda::Event;
use crate::flow::{Flows, NewConnection};
use crate::network::Network;
use crate::packet::Packet;
use crate::random::Random;
use crate::record::Records;
use crate::transport::Connection;
use crate::transport::half_open::{Counts, Limits};
use crate::transport::tcp::{Endpoint, Flags, Segment, Seq, SynOptions};
use crate::transport::{quic, tls};
use crate::wakes::{Wake, Wakes};

/// The hosts of the network, as one application sees them during a call.
///
/// Segments that follow from what it asks are sent when the call is over, so that a FIN goes with
/// the last byte; [`Host::flush`] sends them at once. Datagrams are sent at once.
#[derive(Debug)]
pub struct Host<'a> {
    pub(crate) now: Time,
    /// When the first byte of the message that it is being given had come.
    pub(crate) first_byte_at: Time,
    pub(crate) seed: u64,
    /// The application that is being told something.
    pub(crate) application: u32,
    pub(crate) network: &'a mut Network,
    pub(crate) flows: &'a mut Flows,
    pub(crate) wakes: &'a mut Wakes,
    pub(crate) records: &'a mut Records,
}

/// A connection of an application with itself, to carry bytes one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Indices into the plan's paths: from the sender, and back.
    pub(crate) there: usize,
    pub(crate) back: usize,
    /// An index into the plan's `tcp`.
    pub(crate) tcp: usize,
    /// The sender sends the SYN.
    pub(crate) first_opens: bool,
    /// Initial sequence numbers.
    pub(crate) isns: [u32; 2],
    /// What the application calls it.
    pub(crate) number: u32,
}

/// How to reach a server.
#[derive(Clone, Copy, Debug)]
pub struct Dial {
    /// The way to the server: an index into the plan's paths.
    pub there: usize,
    /// The way back: an index into the plan's paths.
    pub back: usize,
    /// The server: an index into the plan's applications.
    pub server: usize,
    /// The server's port.
    pub port: u16,
    /// TCP settings of this end: an index into the plan's `tcp`; datagrams need none.
    pub tcp: usize,
    /// What the application calls the connection.
    pub number: u32,
    /// Its packets count as DNS where links and monitors tell DNS apart.
    pub dns: bool,
}

/// The datagrams between an application's sockets and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association(Socket);

impl From<Socket> for Association {
    fn from(socket: Socket) -> Self {
        Self(socket)
    }
}

impl Association {
    /// Twice the number of its flow.
    pub(crate) const fn first_end(self) -> u32 {
        self.0.end
    }
}

impl Host<'_> {
    /// The application that is being told something: an index into the plan's applications.
    pub fn application(&self) -> u32 {
        self.application
    }

    /// The present moment.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When the first byte of the message had come that the application is being given: now, unless
    /// the message came in parts.
    pub fn first_byte_at(&self) -> Time {
        self.first_byte_at
    }

    /// A stream of random numbers of its own for whatever has this name in this run.
    pub fn random(&self, name: &str) -> Random {
        Random::new(self.seed, name)
    }

    /// Asks for [`timer`](super::Application::timer) with this number at `at`, which is not before
    /// now. A timer cannot be cancelled; ignore one that you no longer need.
    pub fn wake(&mut self, at: Time, token: u32) {
        let place = self.wakes.put(Wake { application: self.application, token });
        self.network.agenda.schedule(at, Event::Wake(place));
    }

    /// Waits for connections with these TCP settings (an index into the plan's `tcp`); up to
    /// `backlog` (and one, as in Linux) may be established before they are
    /// [accepted](Self::accept), others have to try again. Where nobody listens, connections are
    /// refused.
    ///
    /// Half-open connections have the limits of Linux.
    pub fn listen(&mut self, tcp: usize, backlog: u32) {
        self.listen_within(tcp, backlog, Limits::LINUX);
    }

    /// The same with other limits for half-open connections.
    pub fn listen_within(&mut self, tcp: usize, backlog: u32, limits: Limits) {
        self.flows.listen(self.application, tcp as u16, backlog, limits);
    }

    /// From now on a query over TCP comes as a [datagram](super::Application::datagram), and is answered by
    /// one, without a connection: as behind narrows-gateway. What that cannot do comes to be accepted.
    pub fn serve_without_state(&mut self) {
        self.flows.serve_without_state(self.application);
    }

    /// From now on a client may speak TLS with this listener ([`open_securely`](Self::open_securely)).
    pub fn serve_securely(&mut self, tls: tls::Server) {
        self.flows.serve_securely(self.application, tls);
    }

    /// The same for QUIC ([`open_quic`](Self::open_quic)).
    pub fn serve_quic(&mut self, quic: quic::Config) {
        self.flows.serve_quic(self.application, quic);
    }

    /// What an application's listener has done about SYNs; `None`: it does not listen.
    pub fn half_open(&self, application: usize) -> Option<Counts> {
        self.flows.half_open(application as u32)
    }

    /// Sends a SYN with all options from the first end, which will not hear of it again: a forged
    /// address. `seq` is its sequence number.
    pub fn send_forged_syn(&mut self, association: Association, seq: u32) {
        let Some(stamp) = self.flows.stamp(association.0) else { return };
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

    /// Takes the connection that has waited longest; `None`: none waits.
    pub fn accept(&mut self) -> Option<Socket> {
        self.flows.accept(self.now, self.application)
    }

    /// Opens a connection to a server. Its messages are those of both applications.
    pub fn open(&mut self, dial: &Dial, random: &mut Random) -> Socket {
        self.open_with(dial, None, random)
    }

    /// The same over TLS: [`opened`](super::Application::opened) comes when its handshake is over.
    /// What the server speaks, it has said by [`serve_securely`](Self::serve_securely).
    pub fn open_securely(&mut self, dial: &Dial, tls: tls::Client, random: &mut Random) -> Socket {
        let socket = self.open_with(dial, Some(tls), random);
        self.flows.change(self.now, socket, |connection, cx| {
            let Some(dialogue) = &mut connection.dialogue else { return };
            let Some(tls) = &dialogue.tls else { return };
            let hello = tls.open();
            dialogue.write_flight(0, hello);
            connection.ends[0].endpoint.write(cx.config, cx.now, u64::from(hello.bytes));
        });
        socket
    }

    /// The same over QUIC. What the server speaks, it has said by [`serve_securely`](Self::serve_securely)
    /// and [`serve_quic`](Self::serve_quic).
    ///
    /// # Panics
    ///
    /// If the server does not.
    pub fn open_quic(&mut self, dial: &Dial, tls: tls::Client, quic: quic::Config) -> Socket {
        let new = NewConnection {
            applications: [self.application, dial.server as u32],
            number: dial.number,
            there: dial.there as u32,
            back: dial.back as u32,
            config: 0,
            first_opens: true,
            isns: [0; 2],
            dns: dial.dns,
            dialogue: false,
            tls: Some(tls),
            port: Some(dial.port),
        };
        self.flows.add_quic(self.now, &new, quic, self.network).expect("the server speaks QUIC")
    }

    fn open_with(&mut self, dial: &Dial, tls: Option<tls::Client>, random: &mut Random) -> Socket {
        let new = NewConnection {
            applications: [self.application, dial.server as u32],
            number: dial.number,
            there: dial.there as u32,
            back: dial.back as u32,
            config: dial.tcp as u16,
            first_opens: true,
            isns: [random.bits(), random.bits()],
            dns: dial.dns,
            dialogue: true,
            tls,
            port: Some(dial.port),
        };
        let socket = self.flows.add_connection(self.now, &new, self.network);
        self.connect(socket);
        socket
    }

    /// Whether what is written before a new connection is established need not wait for that: it goes with
    /// the SYN (RFC 7413), or with the hello of TLS (RFC 8446, 2.3).
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

    /// Whether a connection is one of QUIC.
    pub(crate) fn is_quic(&self, socket: Socket) -> bool {
        self.flows.quic(socket).is_some()
    }

    /// Whether a connection is encrypted.
    pub fn is_secure(&self, socket: Socket) -> bool {
        let connection = self.flows.connection(socket);
        self.is_quic(socket)
            || connection
                .and_then(|c| c.dialogue.as_ref())
                .is_some_and(|dialogue| dialogue.tls.is_some())
    }

    /// Round trips before a message could leave on a new connection, of TCP and of TLS; `early`: it was
    /// written before the connection was established.
    pub fn handshake_round_trips(&self, socket: Socket, early: bool) -> u8 {
        let Some(connection) = self.flows.connection(socket) else {
            return u8::from(self.flows.quic(socket).is_some() && !early);
        };
        let with_syn = connection.ends[socket.side()].endpoint.syn_data_taken();
        match connection.dialogue.as_ref().and_then(|dialogue| dialogue.tls) {
            Some(_) => u8::from(!with_syn) + u8::from(!early),
            None => u8::from(!(with_syn && early)),
        }
    }

    /// When TCP's handshake was over, as seen from the end that opened the connection.
    pub fn established_at(&self, socket: Socket) -> Option<Time> {
        self.flows.connection(socket)?.established_at()
    }

    /// Prepares to exchange datagrams with a server.
    pub fn associate(&mut self, dial: &Dial) -> Association {
        let new = NewConnection {
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
        };
        Association(self.flows.add_datagrams(&new, self.network))
    }

    /// The first of so many sockets for datagrams, each with a port of its own.
    pub fn take_sockets(&mut self, count: u32) -> u32 {
        self.flows.take_sockets(count)
    }

    /// Sends a datagram from one of the first end's sockets, or to it: `back`. Says what left.
    pub fn send_datagram(
        &mut self,
        association: Association,
        socket: u32,
        back: bool,
        message: &Message,
    ) -> Sent {
        let end = Socket { end: association.0.end + u32::from(back), ..association.0 };
        if let Some(stamp) = self.flows.stamp(end) {
            return self.network.send_datagram(self.now, Packet::datagram(stamp, socket, message));
        }
        if back {
            // Segments are counted by their connection.
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
        }
        self.flows.change(self.now, socket, |connection, cx| {
            let dialogue = connection.dialogue.as_mut();
            let bytes = dialogue.map_or(message.bytes, |d| d.write(socket.side(), message));
            let endpoint = &mut connection.ends[socket.side()].endpoint;
            endpoint.write(cx.config, cx.now, u64::from(bytes));
        });
    }

    /// Writes a message in two writes: the first `apart` of its bytes leave before the rest is
    /// written.
    pub fn send_apart(&mut self, socket: Socket, apart: u32, message: Message) {
        if self.flows.write_quic(socket, message) {
            // Packets are filled whatever the writes.
            return;
        }
        self.send_part(socket, apart);
        self.send(socket, Message { bytes: message.bytes - apart, ..message });
    }

    /// Writes bytes that belong to the next message, and leave before the rest of it is written.
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

    /// Sends what was written so far, rather than when the call is over.
    pub fn flush(&mut self, socket: Socket) {
        self.flows.flush(self.now, socket.end, self.network);
    }

    /// Writes nothing more: a FIN follows the last byte.
    pub fn close(&mut self, socket: Socket) {
        if self.flows.close_quic(socket) {
            return;
        }
        self.say_goodbye(socket);
        self.flows.change(self.now, socket, |connection, cx| {
            connection.ends[socket.side()].endpoint.close(cx.config, cx.now);
        });
    }

    /// TLS says that it closes, in a write of its own.
    fn say_goodbye(&mut self, socket: Socket) {
        let side = socket.side();
        let mut said = false;
        self.flows.change(self.now, socket, |connection, cx| {
            let Some(dialogue) = &mut connection.dialogue else { return };
            let already = std::mem::replace(&mut dialogue.sides[side].closing, true);
            // Without a word of the other end there are no keys to say it under.
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

    /// Ends a connection at once, with a reset. Nothing more will be heard of it.
    pub fn abort(&mut self, socket: Socket) {
        self.flows.abort(self.now, socket, self.network);
    }

    /// Asks for [`delivered`](super::Application::delivered) when all that the first end of a
    /// connection has written so far is acknowledged.
    pub(crate) fn tell_delivery(&mut self, socket: Socket, bytes: u64) {
        self.flows.change(self.now, socket, |connection, _| {
            let acked = connection.first().bytes_acked();
            connection.awaits = std::num::NonZeroU64::new(acked + bytes);
        });
    }

    /// What this application calls a connection.
    pub fn number(&self, socket: Socket) -> u32 {
        self.flows.number(socket)
    }

    /// From now on this application calls a connection so.
    pub fn set_number(&mut self, socket: Socket, number: u32) {
        self.flows.set_number(socket, number);
    }

    /// The node at a connection's first end: an index into the plan's nodes.
    pub fn client_node(&self, socket: Socket) -> u32 {
        self.network.paths.nodes(self.flows.there(socket))[0]
    }

    /// The TCP endpoint behind a socket; `None`: the connection is gone.
    pub fn endpoint(&self, socket: Socket) -> Option<&Endpoint> {
        let connection = self.flows.connection(socket)?;
        Some(&connection.ends[socket.side()].endpoint)
    }

    /// IP packets that a socket of a connection with messages has sent, and their bytes.
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

    /// The rows of the tables that applications share.
    pub fn records(&mut self) -> &mut Records {
        self.records
    }

    /// Makes room for the connections of a group.
    pub(crate) fn reserve(&mut self, connections: &[ConnectionPlan]) {
        let name_bytes = connections.iter().map(|connection| connection.name.len()).sum();
        self.flows.reserve(connections.len(), name_bytes);
        self.network.reserve(self.flows.len() + connections.len());
    }

    /// Sets up a connection that is opened later.
    pub(crate) fn set_up(&mut self, transfer: &Transfer) -> Socket {
        let new = NewConnection {
            applications: [self.application; 2],
            number: transfer.number,
            there: transfer.there as u32,
            back: transfer.back as u32,
            config: transfer.tcp as u16,
            first_opens: transfer.first_opens,
            isns: transfer.isns,
            dns: false,
            dialogue: false,
            tls: None,
            port: None,
        };
        self.flows.add_connection(self.now, &new, self.network)
    }

    /// Gives a connection a row in the table `flows`; the row's number.
    pub(crate) fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32 {
        self.flows.list(socket, name, start)
    }

    /// Opens a connection that was set up.
    pub(crate) fn connect(&mut self, socket: Socket) {
        let opener = self.flows.connection(socket).map_or(0, Connection::opener);
        let opening = Socket { end: 2 * socket.flow() + opener, ..socket };
        self.flows.change(self.now, opening, |connection, cx| {
            connection.connect(cx.config, cx.now);
        });
    }

    /// Writes bytes without meaning.
    pub(crate) fn write(&mut self, socket: Socket, bytes: u64) {
        self.flows.change(self.now, socket, |connection, cx| {
            connection.ends[socket.side()].endpoint.write(cx.config, cx.now, bytes);
        });
    }

    /// Writes bytes without end.
    pub(crate) fn write_forever(&mut self, socket: Socket) {
        self.flows.change(self.now, socket, |connection, cx| {
            connection.ends[socket.side()].endpoint.write_forever(cx.config, cx.now);
        });
    }

    /// Stops endless data: what is unsent is never written.
    pub(crate) fn end_forever(&mut self, socket: Socket) {
        self.flows.change(self.now, socket, |connection, _| {
            connection.ends[socket.side()].endpoint.end_forever();
        });
    }

    /// Data segments that the first end of a connection has sent again.
    pub(crate) fn retransmissions(&self, socket: Socket) -> u32 {
        self.flows.connection(socket).map_or(0, Connection::retransmissions)
    }

    /// Gives back the memory for segments in flight, as the application falls silent.
    pub(crate) fn release_memory(&mut self, socket: Socket) {
        self.flows.change(self.now, socket, |connection, _| {
            connection.ends[socket.side()].endpoint.release_memory();
        });
    }
}

/// The flows of a run, for looking at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(pub(crate) &'a Flows);

impl View<'_> {
    /// Data segments that the first end of a connection has sent again.
    pub(crate) fn retransmissions(&self, socket: Socket) -> u32 {
        self.0.connection(socket).map_or(0, Connection::retransmissions)
    }
}
