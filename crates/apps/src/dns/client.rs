//! Resolver workers, in a closed loop, with queries that begin by themselves, or for pages.
//!
//! A worker asks, waits until the attempt times out, and asks again as its settings say. It goes on
//! to the next query when an answer arrives or it gives up. An answer to an attempt that has timed
//! out counts as late and changes nothing. Attempts over UDP come from a worker's single port, as
//! with glibc, or each from a port of its own, as with BIND and with dnspython (the first paper's
//! client).
//!
//! It asks over UDP or over TCP first. A truncated reply, or silence, may send it from UDP to TCP
//! (RFC 7766, section 5). A connection that fails is tried again as often as the settings say for
//! its kind of failure. docs/dns-clients.md describes what real clients do.

mod arrivals;
pub(crate) mod on_demand;
mod over_tcp;
mod settings;
mod worker;

use narrows_transport::Closed;
use narrows_units::{MaybeTime, Span};

use super::connections::{self, Asked, Connections};
pub use super::connections::{Persistent, Reuse};
use super::exchange::Exchange;
use super::{PORT, is_truncated};
use crate::record::{Fate, QueryRow, Records, Transport};
use crate::{Application, Association, Datagram, Host, Lost, Message, Settings, Socket};
pub use arrivals::Arrivals;
use arrivals::Arriving;
use on_demand::Calls;
use over_tcp::{Failure, count_packets};
pub use settings::{Attempts, Client, Tcp, Tls, Udp};
use worker::{State, Worker};

#[derive(Debug)]
struct Workers {
    name: String,
    settings: Client,
    workers: Vec<Worker>,
    /// The number of workers that have not finished. With arrivals or calls, none ever does.
    unfinished: u32,
    /// `None`: each worker begins its next query itself.
    arriving: Option<Arriving>,
    /// `None`: nobody calls for queries.
    calls: Option<Calls>,
    /// Queries begun so far.
    begun: u64,
    /// The first worker's socket if workers keep theirs; the others follow.
    first_socket: u32,
    association: Option<Association>,
    connections: Connections,
}

impl Application for Workers {
    fn start(&mut self, host: &mut dyn Host) {
        let settings = &self.settings;
        if settings.udp.as_ref().is_none_or(|udp| !udp.new_port) {
            self.first_socket = host.take_sockets(settings.workers);
        }
        let paths = [settings.there, settings.back];
        let dial = connections::dial(settings.server, paths, 0, PORT);
        self.association = Some(host.associate(&dial));
        if let Some(arrivals) = settings.arrivals {
            let random = host.random(&format!("{}/arrivals", self.name));
            let mut arriving = Arriving::new(arrivals, random, settings.workers);
            host.wake(settings.start + arriving.first(settings.spread), arrivals::TOKEN);
            self.arriving = Some(arriving);
        }
        for number in 0..settings.workers {
            let mut random = host.random(&format!("{}/worker {number}", self.name));
            let mut start = MaybeTime::NONE;
            if self.arriving.is_none() && self.calls.is_none() {
                let spread = settings.spread.as_secs_f64() * random.uniform();
                let at = settings.start + Span::from_secs_f64(spread);
                host.wake(at, number);
                start = at.into();
            }
            self.workers.push(Worker {
                begun: 0,
                state: State::Pause,
                query: 0,
                exchange: Exchange { query: 0, reply: 0, over_udp: None },
                gives_up_at: MaybeTime::NONE,
                attempts: 0,
                over_udp: 0,
                over_tcp: 0,
                together: 0,
                due: start,
                armed: start,
                random,
            });
        }
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let Some(worker) = self.workers.get_mut(token as usize) else {
            match token {
                arrivals::TOKEN => self.arrive(host),
                _ => self.connections.timer(host, token),
            }
            return;
        };
        if !worker.armed.is(host.now()) {
            return;
        }
        worker.armed = MaybeTime::NONE;
        if worker.due.is_after(host.now()) {
            worker.arm(host, token);
            return;
        }
        match worker.state {
            State::Pause => self.begin_query(host, token),
            State::Datagram { row } => self.end_datagram(host, token, row),
            State::Connection { row } => {
                if let Some(socket) = self.connections.with(row) {
                    self.leave(host, socket, row);
                }
                self.fail(host, token, row, Failure::Silent);
            }
        }
    }

    fn notified(&mut self, host: &mut dyn Host, from: u32, notes: [u32; 2]) {
        self.begin_call(host, from, notes[0]);
    }

    fn datagram(&mut self, host: &mut dyn Host, reply: Datagram) {
        let row = reply.message.tag;
        let now = host.now();
        let records = host.records();
        let attempt = &mut records.attempts[row as usize];
        let number = records.queries[attempt.query as usize].worker;
        (attempt.first_byte, attempt.received) = (Some(now), Some(now));
        let truncated = is_truncated(&reply.message);
        let worker = &mut self.workers[number as usize];
        if worker.state != (State::Datagram { row }) {
            attempt.fate = Fate::Late;
            let query = &mut records.queries[attempt.query as usize];
            query.late_answers = query.late_answers.saturating_add(1);
            return;
        }
        let turns = self.settings.udp.as_ref().is_some_and(|udp| udp.tcp_if_truncated);
        if truncated && turns {
            attempt.fate = Fate::Truncated;
            self.ask_over_tcp(host, number);
        } else {
            attempt.fate = if truncated { Fate::Truncated } else { Fate::Answered };
            let (attempt, rtt) = (attempt.attempt, now.since(attempt.sent));
            self.end_query(host, number, Some((attempt, rtt)));
        }
    }

    fn lost(&mut self, records: &mut Records, datagram: Datagram, lost: Option<Lost>) {
        let Some(lost) = lost else { return };
        let fate = if datagram.goes_back { Fate::ReplyLost } else { Fate::QueryLost };
        let attempt = &mut records.attempts[datagram.message.tag as usize];
        attempt.fate = fate(lost.link, lost.reason);
    }

    fn opened(&mut self, host: &mut dyn Host, socket: Socket) {
        let Some((_, connection)) = self.connections.of(host, socket) else { return };
        connection.established = true;
        let opened_at = connection.opened_at;
        let waiting = connection.waiting.clone();
        for asked in waiting {
            let trips = host.handshake_round_trips(socket, asked.early);
            // A query that did not have to wait for TLS left as soon as TCP allowed.
            let left = host.established_at(socket).filter(|_| asked.early);
            let handshake = left.unwrap_or(host.now()).since(opened_at);
            let attempt = &mut host.records().attempts[asked.row as usize];
            (attempt.handshakes, attempt.handshake) = (trips, (trips > 0).then_some(handshake));
            if !asked.early {
                self.write_query(host, socket, asked);
            }
            self.expect_answer(host, asked);
        }
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, reply: Message) {
        let (now, first_byte_at) = (host.now(), host.first_byte_at());
        let row = reply.tag;
        let Some((number, connection)) = self.connections.of(host, socket) else { return };
        let ended = connection.end_wait(host, row);
        let records = host.records();
        let attempt = &mut records.attempts[row as usize];
        (attempt.first_byte, attempt.received) = (Some(first_byte_at), Some(now));
        let in_time = ended
            .map(|(asked, _)| asked.worker)
            .filter(|&worker| self.workers[worker as usize].state == State::Connection { row });
        match in_time {
            Some(_) => attempt.fate = Fate::Answered,
            None => {
                attempt.fate = Fate::Late;
                let query = &mut records.queries[attempt.query as usize];
                query.late_answers = query.late_answers.saturating_add(1);
            }
        }
        let (attempt, rtt) = (attempt.attempt, now.since(attempt.sent));
        if let Some((_, from)) = ended {
            count_packets(host, socket, row, from);
        }
        self.connections.release(host, number);
        if let Some(worker) = in_time {
            self.end_query(host, worker, Some((attempt, rtt)));
        }
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, how: Closed) {
        let Some((number, connection)) = self.connections.of(host, socket) else { return };
        let failure = match how {
            Closed::ByPeer | Closed::Done => Failure::Closed,
            Closed::Refused => Failure::Refused,
            Closed::Reset => Failure::Reset,
            Closed::TimedOut => Failure::Silent,
        };
        let (waiting, counts) = connection.end_all(host);
        if how == Closed::ByPeer {
            connection.close(host);
        } else {
            self.connections.forget(number);
        }
        if let Some((row, from)) = counts {
            count_packets(host, socket, row, from);
        }
        for Asked { worker, row, .. } in waiting {
            if (self.workers[worker as usize].state == State::Connection { row }) {
                self.fail(host, worker, row, failure);
            }
        }
    }

    fn is_done(&self) -> bool {
        if self.calls.is_some() {
            return false;
        }
        match (&self.arriving, self.settings.each()) {
            (None, _) => self.unfinished == 0,
            (Some(_), None) => false,
            (Some(arriving), Some(each)) => {
                arriving.begun() == each && arriving.is_idle(self.workers.len())
            }
        }
    }

    fn progress(&self) -> Option<f64> {
        self.settings.queries.filter(|&queries| queries > 0)?;
        let total = Settings::queries(&self.settings);
        Some(if total == 0 { 1.0 } else { self.begun as f64 / total as f64 })
    }
}

impl Workers {
    fn begin_query(&mut self, host: &mut dyn Host, number: u32) {
        let (now, client) = (host.now(), host.application());
        let worker = &mut self.workers[number as usize];
        if self.calls.is_none() && self.settings.each() == Some(worker.begun) {
            // The plan has no queries, so there is nothing to do.
            worker.due = MaybeTime::NONE;
            self.unfinished -= 1;
            return;
        }
        let records = host.records();
        worker.query = records.queries.len() as u32;
        records.queries.push(QueryRow {
            client,
            worker: number,
            index: worker.begun,
            measured: worker.begun >= self.settings.warm_up,
            start: now,
            end: None,
            attempt: 0,
            attempts: 0,
            rtt: None,
            late_answers: 0,
        });
        worker.exchange = self.settings.sizes.next(&mut worker.random, worker.begun);
        worker.gives_up_at = self.settings.gives_up.map(|span| now + span).into();
        (worker.attempts, worker.over_udp, worker.over_tcp) = (0, 0, 0);
        worker.begun += 1;
        self.begun += 1;
        if self.settings.udp.is_some() {
            self.ask_over_udp(host, number);
        } else {
            self.ask_over_tcp(host, number);
        }
    }

    fn ask_over_udp(&mut self, host: &mut dyn Host, number: u32) {
        let udp = self.settings.udp.as_ref().expect("it asks over UDP");
        let worker = &mut self.workers[number as usize];
        // When it returns to UDP after a connection, the last timeout holds again.
        let turn = usize::from(worker.over_udp).min(udp.timeouts.len() - 1);
        let due = host.now() + udp.timeouts[turn];
        worker.over_udp = worker.over_udp.saturating_add(1);
        worker.together = 0;
        let bytes = worker.exchange.query_over_udp();
        let row = worker.begin_attempt(host, Transport::Udp);
        worker.state = State::Datagram { row };
        worker.due = MaybeTime::from(due).min(worker.gives_up_at);
        let notes = worker.exchange.wanted().taking(udp.payload).notes();
        let message = Message { bytes, tag: row, notes };
        let association = self.association.expect("the run has started");
        let socket = match udp.new_port {
            true => host.take_sockets(1),
            false => self.first_socket + number,
        };
        let sent = host.send_datagram(association, socket, false, &message);
        let attempt = &mut host.records().attempts[row as usize];
        (attempt.packets_sent, attempt.bytes_sent) = (sent.packets, sent.bytes);
        worker.arm(host, number);
    }

    /// Ends an attempt for which no datagram came in time.
    fn end_datagram(&mut self, host: &mut dyn Host, number: u32, row: u32) {
        let udp = self.settings.udp.as_ref().expect("it has asked over UDP");
        let worker = &self.workers[number as usize];
        let attempt = &mut host.records().attempts[row as usize];
        if attempt.fate == Fate::Pending {
            attempt.fate = Fate::TimedOut;
        }
        if worker.is_given_up(host.now()) {
            self.end_query(host, number, None);
        } else if usize::from(worker.over_udp) < udp.timeouts.len() {
            self.ask_over_udp(host, number);
        } else if udp.tcp_if_silent && worker.over_tcp == 0 {
            self.ask_over_tcp(host, number);
        } else {
            self.end_query(host, number, None);
        }
    }

    fn end_query(&mut self, host: &mut dyn Host, number: u32, answer: Option<(u8, Span)>) {
        let now = host.now();
        let worker = &mut self.workers[number as usize];
        let query = &mut host.records().queries[worker.query as usize];
        query.end = Some(now);
        query.attempt = answer.map_or(0, |(attempt, _)| attempt);
        query.rtt = answer.map(|(_, rtt)| rtt);
        worker.state = State::Pause;
        let settings = &self.settings;
        if let Some(calls) = &mut self.calls {
            worker.due = MaybeTime::NONE;
            calls.end(host, number, worker.query, answer.is_some());
        } else if let Some(arriving) = &mut self.arriving {
            worker.due = MaybeTime::NONE;
            arriving.release(number);
        } else if settings.each() == Some(worker.begun) {
            worker.due = MaybeTime::NONE;
            self.unfinished -= 1;
        } else if settings.think_mean > Span::ZERO {
            worker.due = (now + worker.random.exponential(settings.think_mean)).into();
            worker.arm(host, number);
        } else {
            self.begin_query(host, number);
        }
    }
}
