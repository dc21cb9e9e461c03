//! The interface through which applications act.

use narrows_transport::half_open::{Counts, HalfOpenLimits};
use narrows_transport::tcp::Counters;
use narrows_transport::{quic, tls};
use narrows_units::{Ecn, Time};

use crate::record::Records;
use crate::{Association, Message, Random, Sent, Socket};

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

/// A connection of an application with itself that carries bytes one way.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The path from the sender: an index into the plan's paths.
    pub there: usize,
    /// The path back.
    pub back: usize,
    /// An index into the plan's `tcp`.
    pub tcp: usize,
    /// Whether the sender sends the SYN.
    pub first_opens: bool,
    /// Initial sequence numbers.
    pub isns: [u32; 2],
    /// The application's own number for it.
    pub number: u32,
}

/// Read access to the connections of a run.
pub trait View {
    /// Returns the data segments that the first end of a connection has retransmitted.
    fn retransmissions(&self, socket: Socket) -> u32;
}

/// The hosts of the network, as one application sees them during a call.
///
/// Segments that result from its requests are sent when the call is over, so that a FIN travels
/// with the last byte. [`Host::flush`] sends them at once. Datagrams are sent at once.
pub trait Host: View {
    /// Returns the application that is being called: an index into the plan's applications.
    fn application(&self) -> u32;

    /// Returns the current time. In a call of [`timer`](super::Application::timer), it is the time
    /// that was asked for, even on a real host that wakes up later.
    fn now(&self) -> Time;

    /// Returns when the first byte of the message being delivered arrived. This is now, unless the
    /// message arrived in parts.
    fn first_byte_at(&self) -> Time;

    /// Creates the random stream that belongs to `name` in this run.
    fn random(&self, name: &str) -> Random;

    /// Asks for a call of [`timer`](super::Application::timer) with this number at `at`, which must
    /// not be in the past. A timer cannot be cancelled; ignore one that is no longer needed.
    fn wake(&mut self, at: Time, token: u32);

    /// Tells another application at the same machine something, once this call is over. It is an
    /// index into the plan's applications, and [hears](super::Application::notified) it at once.
    fn notify(&mut self, application: u32, notes: [u32; 2]);

    /// Listens for connections with these TCP settings (an index into the plan's `tcp`). Up to
    /// `backlog` connections (plus one, as in Linux) may be established before they are
    /// [accepted](Self::accept); others have to try again. If nobody listens, connections are
    /// refused.
    ///
    /// Half-open connections have the limits of Linux.
    fn listen(&mut self, tcp: usize, backlog: u32) {
        self.listen_within(tcp, backlog, HalfOpenLimits::LINUX);
    }

    /// Listens like [`listen`](Self::listen), with these limits for half-open connections.
    fn listen_within(&mut self, tcp: usize, backlog: u32, limits: HalfOpenLimits);

    /// Lets queries over TCP arrive as [datagrams](super::Application::datagram) without a
    /// connection, as behind narrows-gateway. The application answers each with one datagram. What
    /// a server without state cannot handle still arrives as a connection.
    fn serve_without_state(&mut self);

    /// Lets clients use TLS with this listener ([`open_securely`](Self::open_securely)).
    fn serve_securely(&mut self, tls: tls::Server);

    /// Lets clients use TLS at this port, with settings of its own. `tcp` is an index into the
    /// plan's `tcp`.
    fn serve_securely_at(&mut self, port: u16, tcp: usize, tls: tls::Server);

    /// Lets clients use QUIC with this application ([`open_quic`](Self::open_quic)).
    fn serve_quic(&mut self, quic: quic::Config);

    /// Returns what an application's listener has done about SYNs, or `None` if it does not listen.
    fn half_open(&self, application: usize) -> Option<Counts>;

    /// Sends a SYN with all options from the first end, whose address is forged: it will receive no
    /// answer. `seq` is its sequence number.
    fn send_forged_syn(&mut self, association: Association, seq: u32);

    /// Takes the connection that has waited longest, or returns `None` if none waits.
    fn accept(&mut self) -> Option<Socket>;

    /// Opens a connection to a server, over which both applications exchange messages.
    fn open(&mut self, dial: &Dial, random: &mut Random) -> Socket;

    /// Opens a connection over TLS. [`opened`](super::Application::opened) is called when the TLS
    /// handshake is complete. The server must have called [`serve_securely`](Self::serve_securely),
    /// which sets its side of TLS. The connection shares its TLS sessions only with connections of
    /// the same `jar`, like the connections of one browser.
    fn open_securely(
        &mut self,
        dial: &Dial,
        tls: tls::Client,
        jar: u32,
        random: &mut Random,
    ) -> Socket;

    /// Opens a connection over QUIC. The server must have called
    /// [`serve_securely`](Self::serve_securely) and [`serve_quic`](Self::serve_quic). The
    /// connection shares its TLS sessions only with connections of the same `jar`.
    ///
    /// # Panics
    ///
    /// Panics if the server does not use QUIC.
    fn open_quic(&mut self, dial: &Dial, tls: tls::Client, quic: quic::Config, jar: u32) -> Socket;

    /// Opens a connection that is set up.
    fn connect(&mut self, socket: Socket);

    /// Returns whether data written before a new connection is established can leave at once: with
    /// the SYN (RFC 7413), or with the TLS hello (RFC 8446, 2.3).
    fn takes_early_data(&self, socket: Socket) -> bool;

    /// Returns the server's port of a connection over QUIC; `None`: it does not use QUIC.
    fn quic_port(&self, socket: Socket) -> Option<u16>;

    /// Returns whether a connection uses QUIC.
    fn is_quic(&self, socket: Socket) -> bool {
        self.quic_port(socket).is_some()
    }

    /// Returns whether a connection is encrypted.
    fn is_secure(&self, socket: Socket) -> bool;

    /// Returns how many round trips of TCP and TLS passed before a message could leave on a new
    /// connection. `early` says that the message was written before the connection was established.
    fn handshake_round_trips(&self, socket: Socket, early: bool) -> u8;

    /// Returns when TCP's handshake was complete, as seen from the end that opened the connection.
    fn established_at(&self, socket: Socket) -> Option<Time>;

    /// Prepares to exchange datagrams with a server.
    fn associate(&mut self, dial: &Dial) -> Association;

    /// Sets the ECN field of an association's datagrams, in both directions.
    fn set_ecn(&mut self, association: Association, ecn: Ecn);

    /// Says that the addresses of an association's first end are forged: another one for each
    /// association of SYNs, and for each socket of datagrams. Only queues that tell hosts apart
    /// need to know. By default, does nothing.
    fn forge_addresses(&mut self, _association: Association) {}

    /// Reserves sockets for datagrams, each with a port of its own. Returns the first.
    fn take_sockets(&mut self, count: u32) -> u32;

    /// Sends a datagram from one of the first end's sockets, or to it (`back`). Returns what was
    /// sent.
    fn send_datagram(
        &mut self,
        association: Association,
        socket: u32,
        back: bool,
        message: &Message,
    ) -> Sent;

    /// Writes a message.
    fn send(&mut self, socket: Socket, message: Message);

    /// Writes a message in two parts: the first `apart` bytes leave before the rest is written.
    fn send_apart(&mut self, socket: Socket, apart: u32, message: Message);

    /// Writes bytes that belong to the next message and leave before the rest of that message is
    /// written.
    fn send_part(&mut self, socket: Socket, apart: u32);

    /// Writes bytes without meaning on one of this end's unidirectional streams of a QUIC connection
    /// (RFC 9000, 2.1), which never ends. Streams are numbered from 0, and begin in this order.
    fn send_beside(&mut self, socket: Socket, stream: u8, bytes: u32);

    /// Sends what was written so far now, rather than when the call is over.
    fn flush(&mut self, socket: Socket);

    /// Notes that nothing more is written: a FIN follows the last byte.
    fn close(&mut self, socket: Socket);

    /// Ends a connection at once with a reset. No further notices follow.
    fn abort(&mut self, socket: Socket);

    /// Returns this application's own number for a connection.
    fn number(&self, socket: Socket) -> u32;

    /// Sets this application's own number for a connection.
    fn set_number(&mut self, socket: Socket, number: u32);

    /// Returns the node at a connection's first end: an index into the plan's nodes.
    fn client_node(&self, socket: Socket) -> u32;

    /// Returns what the TCP endpoint behind a socket has counted, or `None` if the connection is
    /// gone.
    fn counters(&self, socket: Socket) -> Option<Counters>;

    /// Returns the IP packets, and their bytes, that one end of a connection with messages has
    /// sent.
    fn sent(&self, socket: Socket) -> (u32, u64);

    /// Returns the rows of the tables that applications share.
    fn records(&mut self) -> &mut Records;

    /// Sets up a connection to be opened later.
    fn set_up(&mut self, transfer: &Transfer) -> Socket;

    /// Gives a connection a row in the table `flows`. Returns the row's number.
    fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32;

    /// Writes bytes without meaning.
    fn write(&mut self, socket: Socket, bytes: u64);

    /// Writes bytes without end.
    fn write_forever(&mut self, socket: Socket);

    /// Stops endless data: what has not been sent is never written.
    fn end_forever(&mut self, socket: Socket);

    /// Frees the memory for segments in flight, because the application falls silent.
    fn release_memory(&mut self, socket: Socket);

    /// Asks for a call of [`delivered`](super::Application::delivered) when `bytes` more bytes of
    /// the first end of a connection are acknowledged than now: those that it has just written.
    fn tell_delivery(&mut self, socket: Socket, bytes: u64);

    /// Makes room for this many more connections, with names of this many bytes in all.
    fn reserve(&mut self, connections: usize, name_bytes: usize);
}
