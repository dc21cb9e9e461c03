//! What a client remembers of a server between connections: Fast Open cookies and TLS tickets.

use std::collections::{BTreeMap, BTreeSet};

use narrows_apps::Socket;
use narrows_transport::tls::{Client, Flight, Server, Tls};
use narrows_units::{MaybeTime, Span, Time};

use super::{Flow, Flows};
use crate::agenda::Event;
use crate::network::Network;

/// What clients remember of servers.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Fast Open cookies: a host, and the server that gave it one.
    cookies: BTreeSet<(u32, u32)>,
    /// The number of TLS tickets by client and server application, and by the client's number for
    /// the session.
    tickets: BTreeMap<([u32; 2], u32), u32>,
}

impl Sessions {
    /// Notes that a server has given a host a Fast Open cookie.
    pub(super) fn keep_cookie(&mut self, host: u32, server: u32) {
        self.cookies.insert((host, server));
    }

    /// Returns whether a host has a server's Fast Open cookie.
    pub(super) fn has_cookie(&self, host: u32, server: u32) -> bool {
        self.cookies.contains(&(host, server))
    }

    /// Starts a TLS session between two applications. Uses up a ticket if it can.
    pub(super) fn begin_tls(
        &mut self,
        owners: [u32; 2],
        jar: u32,
        client: Client,
        server: Server,
    ) -> Tls {
        let tickets = self.tickets.get_mut(&(owners, jar));
        let has_session = tickets.as_ref().is_some_and(|count| **count > 0);
        let tls = Tls::new(client, server, has_session).with(jar);
        if let Some(count) = tickets.filter(|_| tls.is_resumed()) {
            *count -= 1;
        }
        tls
    }

    /// Stores tickets that a server has given an application.
    pub(super) fn keep_tickets(&mut self, owners: [u32; 2], jar: u32, count: u32) {
        *self.tickets.entry((owners, jar)).or_default() += count;
    }
}

impl Flows {
    /// Handles a TLS flight at an end. Answers it at once, unless computing the answer takes time.
    pub(crate) fn take_flight(
        &mut self,
        now: Time,
        socket: Socket,
        flight: Flight,
        network: &mut Network,
    ) {
        let Some(connection) = self.connection_of(socket) else { return };
        let Some(tls) = connection.dialogue.as_mut().and_then(|d| d.tls.as_mut()) else { return };
        let service = tls.service(flight);
        if service == Span::ZERO {
            self.answer_flight(now, socket, flight, network);
        } else {
            tls.answers_at = (now + service).into();
            network.agenda.schedule(now + service, Event::Handshake(socket.end));
        }
    }

    /// Sends a server's answer to a ClientHello if it has been computed by now.
    pub(crate) fn end_handshake_service(&mut self, now: Time, end: u32, network: &mut Network) {
        let Flow::Tcp(connection) = &mut self.table[end as usize / 2] else { return };
        let generation = connection.generation();
        let Some(tls) = connection.dialogue.as_mut().and_then(|d| d.tls.as_mut()) else { return };
        // Otherwise the event belongs to an earlier connection with the same number.
        if tls.answers_at.is(now) {
            tls.answers_at = MaybeTime::NONE;
            self.answer_flight(now, Socket { end, generation }, Flight::Hello, network);
            self.flush_all(now, network);
        }
    }

    fn answer_flight(&mut self, now: Time, socket: Socket, flight: Flight, network: &mut Network) {
        let side = socket.side();
        let owners = self.owners[socket.flow() as usize].applications;
        let Some(connection) = self.connection_of(socket) else { return };
        let Some(dialogue) = &mut connection.dialogue else { return };
        dialogue.sides[side].in_handshake = false;
        let Some(tls) = &mut dialogue.tls else { return };
        let jar = tls.jar;
        let mut writes = tls.answer(flight);
        if dialogue.sides[side].closing {
            writes.clear();
        }
        if let Flight::Tickets(count) = flight {
            self.sessions.keep_tickets(owners, jar, count);
        }
        // Even without tickets, there may be events for the application.
        self.change(socket, |_| {});
        for write in writes {
            self.change(socket, |connection| {
                if let Some(dialogue) = &mut connection.dialogue {
                    dialogue.write_flight(side, write);
                }
                let endpoint = &mut connection.ends[side].endpoint;
                endpoint.write(now, u64::from(write.bytes));
            });
            self.flush(now, socket.end, network);
        }
    }
}
