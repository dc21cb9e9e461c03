//! Connections of an application with itself, which carry bytes without meaning.

use narrows_units::Time;

use super::Host;
use crate::application::connection::Connection as ConnectionPlan;
use crate::flow::NewConnection;
use crate::socket::Socket;
use crate::transport::Connection;

/// A connection of an application with itself that carries bytes one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// The paths from the sender and back: indices into the plan's paths.
    pub(crate) there: usize,
    pub(crate) back: usize,
    /// An index into the plan's `tcp`.
    pub(crate) tcp: usize,
    /// Whether the sender sends the SYN.
    pub(crate) first_opens: bool,
    /// Initial sequence numbers.
    pub(crate) isns: [u32; 2],
    /// The application's own number for it.
    pub(crate) number: u32,
}

impl Host<'_> {
    /// Makes room for the connections of a group.
    pub(crate) fn reserve(&mut self, connections: &[ConnectionPlan]) {
        let name_bytes = connections.iter().map(|connection| connection.name.len()).sum();
        self.flows.reserve(connections.len(), name_bytes);
        self.network.reserve(self.flows.len() + connections.len());
    }

    /// Sets up a connection to be opened later.
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

    /// Gives a connection a row in the table `flows`. Returns the row's number.
    pub(crate) fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32 {
        self.flows.list(socket, name, start)
    }

    /// Writes bytes without meaning.
    pub(crate) fn write(&mut self, socket: Socket, bytes: u64) {
        if self.flows.spoken().is_some() {
            self.flows.note_write(self.now, socket, bytes);
        }
        self.flows.change(self.now, socket, |connection, cx| {
            connection.ends[socket.side()].endpoint.write(cx.config, cx.now, bytes);
        });
    }

    /// Writes bytes without end.
    pub(crate) fn write_forever(&mut self, socket: Socket) {
        if self.flows.spoken().is_some() {
            self.flows.note_write(self.now, socket, u64::MAX);
        }
        self.flows.change(self.now, socket, |connection, cx| {
            connection.ends[socket.side()].endpoint.write_forever(cx.config, cx.now);
        });
    }

    /// Stops endless data: what has not been sent is never written.
    pub(crate) fn end_forever(&mut self, socket: Socket) {
        self.flows.change(self.now, socket, |connection, _| {
            connection.ends[socket.side()].endpoint.end_forever();
        });
    }

    /// Returns the data segments that the first end of a connection has retransmitted.
    pub(crate) fn retransmissions(&self, socket: Socket) -> u32 {
        self.flows.connection(socket).map_or(0, Connection::retransmissions)
    }

    /// Frees the memory for segments in flight, because the application falls silent.
    pub(crate) fn release_memory(&mut self, socket: Socket) {
        self.flows.change(self.now, socket, |connection, _| {
            connection.ends[socket.side()].endpoint.release_memory();
        });
    }

    /// Asks for a call of [`delivered`](super::Application::delivered) when everything that the
    /// first end of a connection has written so far is acknowledged.
    pub(crate) fn tell_delivery(&mut self, socket: Socket, bytes: u64) {
        self.flows.change(self.now, socket, |connection, _| {
            let acked = connection.first().bytes_acked();
            connection.awaits = std::num::NonZeroU64::new(acked + bytes);
        });
    }
}
