//! One table of all flows: the owners of their ends, the paths of their packets, and their
//! transport.
//!
//! A flow is what two hosts exchange under one pair of addresses: a TCP connection, or the
//! datagrams between an application's sockets and one server. Packets carry its number. Flows open
//! and close during the run, and their numbers are used again. A *generation* of one byte, in
//! packets and [`Socket`]s, tells apart the flows that had the same number, so that late packets
//! are not delivered to the wrong flow.

mod datagrams;
mod dialogue;
mod listed;
mod listener;
mod observed;
mod opening;
mod path_mtu;
mod quic;
mod sessions;
mod socket_event;
mod stateless;

use std::collections::VecDeque;
use std::sync::Arc;

use narrows_apps::Socket;
use narrows_transport::prefetch::{Prefetch, Step};
use narrows_transport::tcp::Config;
use narrows_units::Time;

use self::listed::Listed;
pub(crate) use self::listed::Row;
use self::listener::Listener;
pub(crate) use self::opening::NewConnection;
use self::sessions::Sessions;
pub(crate) use self::socket_event::SocketEvent;
use crate::network::Network;
use crate::packet::{Label, Packet};
use crate::spoken::Spoken;
use crate::transport::Connection;
use crate::transport::quic as of_quic;

/// All flows of a run.
#[derive(Debug)]
pub(crate) struct Flows {
    table: Vec<Flow>,
    owners: Vec<Owners>,
    /// Numbers to be used again; the one that has been free longest comes first.
    free: VecDeque<u32>,
    /// TCP settings: the plan's, then those that narrow paths need.
    configs: Vec<Arc<Config>>,
    listeners: Vec<Listener>,
    /// Connections with a row in the table `flows`.
    listed: Vec<Listed>,
    /// Their names, concatenated.
    names: String,
    /// Notices for applications, in order.
    events: Vec<SocketEvent>,
    /// Ends at which an application has written, opened or closed, with segments not yet sent.
    unsent: Vec<u32>,
    /// Flows that both ends have finished with.
    ending: Vec<u32>,
    /// The bytes that arrived in order at the clients of connections whose numbers are free again,
    /// by the client's application.
    received_by_ended: Vec<u64>,
    /// The number of datagram sockets given out.
    sockets: u32,
    sessions: Sessions,
    /// Messages of the foreground sent in clear over connections, kept for captures. `None`: no link
    /// is captured.
    spoken: Option<Box<Spoken>>,
}

/// The transport of a flow. Almost all flows are connections, and packets should reach these
/// without an indirection.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost one more cache miss per packet")]
enum Flow {
    Tcp(Connection),
    Quic(Box<of_quic::Connection>),
    /// The datagrams of an application's sockets.
    Udp(Label),
    /// The number is free. The next flow that takes it has this generation.
    Free(u8),
}

/// The owners of a flow.
#[derive(Clone, Copy, Debug)]
struct Owners {
    /// The applications at its ends. A connection that carries data one way has the same one twice.
    applications: [u32; 2],
    /// The numbers by which these applications know the flow.
    numbers: [u32; 2],
    /// The path from the first end: an index into the plan's paths.
    there: u32,
}

impl Flows {
    pub(crate) fn new(configs: &[Config]) -> Self {
        Self {
            table: Vec::new(),
            owners: Vec::new(),
            free: VecDeque::new(),
            configs: configs.iter().map(|config| Arc::new(config.clone())).collect(),
            listeners: Vec::new(),
            listed: Vec::new(),
            names: String::new(),
            events: Vec::new(),
            unsent: Vec::new(),
            ending: Vec::new(),
            received_by_ended: Vec::new(),
            sockets: 0,
            sessions: Sessions::default(),
            spoken: None,
        }
    }

    /// Starts noting the messages of connections.
    pub(crate) fn note_messages(&mut self) {
        self.spoken = Some(Box::default());
    }

    /// Returns the noted messages of connections, if they are noted.
    pub(crate) fn spoken(&self) -> Option<&Spoken> {
        self.spoken.as_deref()
    }

    /// Returns the noted messages of connections for writing, if they are noted.
    pub(crate) fn spoken_mut(&mut self) -> Option<&mut Spoken> {
        self.spoken.as_deref_mut()
    }

    /// Returns how many numbers are or have been in use.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Makes room for this many more flows, with names of this many bytes in all.
    pub(crate) fn reserve(&mut self, flows: usize, name_bytes: usize) {
        self.table.reserve_exact(flows);
        self.owners.reserve_exact(flows);
        self.listed.reserve_exact(flows);
        self.names.reserve_exact(name_bytes);
    }

    /// Handles a packet of a connection that has reached its host.
    #[inline]
    pub(crate) fn handle_segment(&mut self, now: Time, packet: Packet, network: &mut Network) {
        let flow = packet.flow();
        let Flow::Tcp(connection) = &mut self.table[flow as usize] else {
            self.handle_stray(now, packet, network);
            return;
        };
        if connection.dialogue.is_some() {
            self.handle_dialogue(now, packet, network);
        } else if connection.handle_packet(now, packet, network) {
            let generation = connection.generation();
            self.events.push(SocketEvent::Delivered(Socket { end: 2 * flow, generation }));
        }
    }

    /// Handles a timer's event. `end`: twice the flow, plus one for the second end.
    pub(crate) fn handle_timer(&mut self, now: Time, end: u32, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else {
            self.handle_quic_timer(now, end, network);
            return;
        };
        let stateless = connection.dialogue.as_ref().is_some_and(|d| d.stateless.is_some());
        if stateless && !end.is_multiple_of(2) {
            connection.handle_stateless_timer(now, end, network);
            return;
        }
        if connection.handle_timer(now, end, network) && connection.dialogue.is_some() {
            self.collect_news(now, end);
        }
    }

    /// Handles the end of the time for which only its pace held a sender back.
    pub(crate) fn handle_pace(&mut self, now: Time, end: u32, network: &mut Network) {
        if let Flow::Tcp(connection) = &mut self.table[end as usize / 2] {
            connection.handle_pace(now, end, network);
        }
    }

    /// Lets an application hear something from another one.
    pub(crate) fn notify(&mut self, to: u32, from: u32, notes: [u32; 2]) {
        self.events.push(SocketEvent::Notified(to, from, notes));
    }

    /// Moves the events for applications to `into`.
    pub(crate) fn take_events(&mut self, into: &mut Vec<SocketEvent>) {
        std::mem::swap(&mut self.events, into);
    }

    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the application at an end.
    pub(crate) fn owner(&self, end: u32) -> u32 {
        self.owners[end as usize / 2].applications[end as usize % 2]
    }

    /// Returns the number by which the application at an end knows the flow.
    pub(crate) fn number(&self, socket: Socket) -> u32 {
        self.owners[socket.flow() as usize].numbers[socket.side()]
    }

    /// Sets the number by which the application at an end knows the flow.
    pub(crate) fn set_number(&mut self, socket: Socket, number: u32) {
        self.owners[socket.flow() as usize].numbers[socket.side()] = number;
    }

    /// Returns the path from the first end to the second: an index into the plan's paths.
    pub(crate) fn there(&self, socket: Socket) -> u32 {
        self.owners[socket.flow() as usize].there
    }

    /// Returns a socket's connection, or `None` if it is gone.
    pub(crate) fn connection(&self, socket: Socket) -> Option<&Connection> {
        match self.table.get(socket.flow() as usize) {
            Some(Flow::Tcp(connection)) if connection.generation() == socket.generation => {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Lets `change` act on a socket's connection, and remembers that it may have to send. Does
    /// nothing if the connection is gone.
    pub(crate) fn change(&mut self, socket: Socket, change: impl FnOnce(&mut Connection)) {
        let Flow::Tcp(connection) = &mut self.table[socket.flow() as usize] else { return };
        if connection.generation() != socket.generation {
            return;
        }
        change(connection);
        if connection.note_unsent(socket.side()) {
            self.unsent.push(socket.end);
        }
    }

    /// Sends a socket's pending segments now, rather than after its application has finished.
    pub(crate) fn flush(&mut self, now: Time, end: u32, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else {
            self.flush_quic(now, end, network);
            return;
        };
        connection.flush(now, end, network);
    }

    /// Sends what applications have written, opened or closed.
    pub(crate) fn flush_all(&mut self, now: Time, network: &mut Network) {
        let mut next = 0;
        while let Some(&end) = self.unsent.get(next) {
            next += 1;
            if let Flow::Tcp(connection) = &mut self.table[end as usize / 2] {
                connection.forget_unsent(end as usize % 2);
            }
            self.flush(now, end, network);
            self.collect_news(now, end);
        }
        self.unsent.clear();
    }

    /// Ends a connection at once, and tells the other end if that may know of it.
    pub(crate) fn abort(&mut self, now: Time, socket: Socket, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[socket.flow() as usize] else {
            self.abort_quic(now, socket, network);
            return;
        };
        if connection.generation() != socket.generation {
            return;
        }
        connection.abort(now, socket.end, network);
        if let Some(dialogue) = &mut connection.dialogue {
            dialogue.sides[socket.side()].over = true;
        }
        self.collect_news(now, socket.end);
    }

    fn connection_of(&mut self, socket: Socket) -> Option<&mut Connection> {
        match self.table.get_mut(socket.flow() as usize) {
            Some(Flow::Tcp(connection)) if connection.generation() == socket.generation => {
                Some(connection)
            }
            _ => None,
        }
    }
}

/// Reads ahead the connection at the end of a direction.
impl Prefetch<u32> for Flows {
    #[inline(always)]
    fn prefetch(&self, direction: u32, step: Step) -> u32 {
        match &self.table[direction as usize / 2] {
            Flow::Tcp(connection) => connection.prefetch(direction, step),
            Flow::Quic(_) | Flow::Udp(_) | Flow::Free(_) => 0,
        }
    }
}
