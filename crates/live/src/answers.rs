//! What TLS says of bytes that have arrived, and servers' answers that take time (`service`).

use std::net::SocketAddrV4;

use narrows_apps::Socket;
use narrows_units::{Span, Time};
use quinn_proto::Incoming;

use crate::secure::Taken;
use crate::world::{SocketEvent, World};

/// What a server does when it has computed its answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It writes its flight.
    Tls(Socket, Vec<Vec<u8>>),
    /// It handles the first datagram from an address, which has arrived at this socket of QUIC's.
    Quic(usize, SocketAddrV4, Box<Incoming>),
}

impl World {
    /// Tells what TLS says of bytes that an end has read.
    pub(crate) fn tell_taken(&mut self, now: Time, socket: Socket, taken: Taken) {
        if taken.flight {
            self.events.push_back(SocketEvent::FlightArrived(socket));
        }
        if taken.opened && socket.side() == 0 {
            self.events.push_back(SocketEvent::Opened(socket));
        }
        if taken.service > Span::ZERO {
            self.answer_at(now + taken.service, Answer::Tls(socket, taken.writes));
        }
        self.tell_progress(now, socket);
    }

    /// Answers at a time.
    pub(crate) fn answer_at(&mut self, at: Time, answer: Answer) {
        let token = self.wakes_set as u32;
        self.answers.insert(token, answer);
        self.wake(at, None, token);
    }

    /// Gives the answer of a timer.
    pub(crate) fn answer(&mut self, now: Time, token: u32) {
        match self.answers.remove(&token) {
            Some(Answer::Tls(socket, writes)) => self.write_flight(socket, writes),
            Some(Answer::Quic(number, from, incoming)) => {
                self.accept_new(now, number, from, *incoming);
            }
            None => {}
        }
    }

    /// Writes a flight of TLS's handshake.
    fn write_flight(&mut self, socket: Socket, writes: Vec<Vec<u8>>) {
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        if let Err(how) = connection.sides[socket.side()].write_flight(writes) {
            self.end(socket, how);
            return;
        }
        self.flush(socket);
    }
}
