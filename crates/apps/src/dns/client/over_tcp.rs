//! Attempts over TCP: on which connection, until when, and what follows a failure.

use narrows_units::MaybeTime;

use super::Workers;
use super::worker::State;
use crate::dns::connections::{self, Asked, Crossed};
use crate::dns::{HTTPS, LENGTH, PADDED, padded};
use crate::record::Fate;
use crate::{Host, Message, Socket};

/// How an attempt over TCP failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Refused,
    Closed,
    Reset,
    Silent,
}

impl Workers {
    pub(super) fn ask_over_tcp(&mut self, host: &mut dyn Host, number: u32) {
        let settings = &self.settings;
        let tcp = settings.tcp.as_ref().expect("it asks over TCP");
        let worker = &mut self.workers[number as usize];
        worker.over_tcp = worker.over_tcp.saturating_add(1);
        worker.together = worker.together.saturating_add(1);
        let (transport, port) = tcp.transport();
        let row = worker.begin_attempt(host, transport);
        let paths = [settings.there, settings.back];
        let dial = connections::dial(settings.server, paths, tcp.tcp, port);
        let secure = tcp.tls.map(|tls| (tls.handshake, tls.quic));
        let asker = (number, row);
        let (asked, connection) =
            self.connections.find(host, (&dial, secure), &mut worker.random, asker);
        let (socket, established) = (connection.socket, connection.established);
        let reused = connection.queries > 1;
        // The query waits for this many round trips, or for none if the SYN carries it.
        let early = asked.early && tcp.tls.is_none();
        let trips = match established || early {
            true => 0,
            false => host.handshake_round_trips(socket, asked.early),
        };
        let attempt = &mut host.records().attempts[row as usize];
        (attempt.reused, attempt.handshakes) = (reused, trips);
        worker.state = State::Connection { row };
        let timeout = if established { tcp.answer_timeout } else { tcp.connect_timeout };
        let due = MaybeTime::from(timeout.map(|span| host.now() + span));
        worker.due = due.min(worker.gives_up_at);
        worker.arm(host, number);
        if established || asked.early {
            self.write_query(host, socket, asked);
        }
        if established {
            self.expect_answer(host, asked);
        }
    }

    /// Writes a query on a connection that is established or whose SYN carries data.
    pub(super) fn write_query(&mut self, host: &mut dyn Host, socket: Socket, asked: Asked) {
        let tcp = self.settings.tcp.as_ref().expect("it asks over TCP");
        let Some((_, connection)) = self.connections.of(host, socket) else { return };
        connection.written += 1;
        let turn = connection.written;
        let worker = &self.workers[asked.worker as usize];
        let query = worker.exchange.query;
        let padding = tcp.tls.and_then(|tls| tls.padding);
        let (query, note) = padding.map_or((query, 0), |block| (padded(query, block), PADDED));
        let [lengths, takes] = worker.exchange.wanted().notes();
        let notes = [lengths, takes | note];
        if let Some(https) = tcp.tls.and_then(|tls| tls.https) {
            let written = https.written(query, turn);
            for part in written.apart.into_iter().filter(|&part| part > 0) {
                host.send_part(socket, part);
            }
            let notes = [lengths, takes | note | HTTPS];
            host.send(socket, Message { bytes: written.last, tag: asked.row, notes });
            return;
        }
        if let Some(http3) = tcp.tls.and_then(|tls| tls.http3) {
            let beside = if turn == 1 { Some(http3.beside()) } else { None };
            for (stream, bytes) in (0..).zip(beside.into_iter().flatten()) {
                host.send_beside(socket, stream, bytes);
            }
            host.send(socket, Message { bytes: http3.written(query), tag: asked.row, notes });
            return;
        }
        let message = Message { bytes: LENGTH + query, tag: asked.row, notes };
        if tcp.length_apart {
            host.send_apart(socket, LENGTH, message);
        } else {
            host.send(socket, message);
        }
    }

    /// Starts the time of a query that has left on an established connection.
    pub(super) fn expect_answer(&mut self, host: &mut dyn Host, asked: Asked) {
        let tcp = self.settings.tcp.as_ref().expect("it asks over TCP");
        let worker = &mut self.workers[asked.worker as usize];
        let due = MaybeTime::from(tcp.answer_timeout.map(|span| host.now() + span));
        worker.due = due.min(worker.gives_up_at);
        worker.arm(host, asked.worker);
    }

    /// Ends a query's wait on a connection. The connection is left, unless other queries wait
    /// there.
    pub(super) fn leave(&mut self, host: &mut dyn Host, socket: Socket, row: u32) {
        let keeps = self.connections.keeps_silent_ones();
        let Some((number, connection)) = self.connections.of(host, socket) else { return };
        let Some((_, from)) = connection.end_wait(host, row) else { return };
        if connection.established && keeps {
            self.connections.release(host, number);
        } else if connection.waiting.is_empty() && connection.established {
            connection.close(host);
        } else if connection.waiting.is_empty() {
            self.connections.forget(number);
            host.abort(socket);
        }
        // If the connection was for one query, packets that follow are added when it is over.
        count_packets(host, socket, row, from);
    }

    /// Handles a failed attempt over TCP: makes the next one, or ends the query.
    pub(super) fn fail(&mut self, host: &mut dyn Host, number: u32, row: u32, failure: Failure) {
        let tcp = self.settings.tcp.as_ref().expect("it has asked over TCP");
        let (fate, most) = match failure {
            Failure::Refused => (Fate::Refused, tcp.attempts.refused),
            Failure::Closed => (Fate::Closed, tcp.attempts.closed),
            Failure::Reset => (Fate::Reset, tcp.attempts.reset),
            Failure::Silent => (Fate::TimedOut, tcp.attempts.silent),
        };
        host.records().attempts[row as usize].fate = fate;
        let worker = &self.workers[number as usize];
        if worker.over_tcp >= most || worker.is_given_up(host.now()) {
            self.end_query(host, number, None);
        } else if tcp.udp_between
            && (failure != Failure::Refused || worker.together >= tcp.refused_together)
        {
            self.ask_over_udp(host, number);
        } else {
            self.ask_over_tcp(host, number);
        }
    }
}

/// Counts the packets that have crossed a connection since `before` for an attempt.
pub(super) fn count_packets(host: &mut dyn Host, socket: Socket, row: u32, before: Crossed) {
    let now = Crossed::until_now(host, socket);
    let attempt = &mut host.records().attempts[row as usize];
    attempt.packets_sent = now.sent.0 - before.sent.0;
    attempt.bytes_sent = (now.sent.1 - before.sent.1) as u32;
    attempt.packets_received = now.received.0 - before.received.0;
    attempt.bytes_received = (now.received.1 - before.received.1) as u32;
}
