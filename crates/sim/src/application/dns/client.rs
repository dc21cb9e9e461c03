//! Resolver workers in a closed loop.
//!
//! A worker asks, waits for the attempt's time-out, asks again as its settings say, and goes on to
//! the next query when an answer comes or it gives up. An answer to an attempt that has timed out is
//! counted as late and changes nothing. Attempts over UDP come from a worker's one port, as with
//! glibc, or each from a port of its own, as with BIND and with dnspython (the first paper's client).
//!
//! It asks over UDP or over TCP first. A truncated reply, or silence, may send it from UDP to TCP
//! (RFC 7766, section 5). A connection that fails is tried again as often as the settings say for
//! its kind of failure. What real clients do is in docs/dns-clients.md.

use narrows_units::{Span, Time};

use super::connections::{self, Asked, Connections, Crossed};
pub use super::connections::{Kept, Reuse};
use super::exchange::{Exchange, Sizes};
use super::https::Requests;
use super::{
    HEADER, HTTPS, HTTPS_PORT, LENGTH, PADDED, PORT, TLS_PORT, WITHOUT_EDNS, is_truncated, padded,
};
use crate::application::{
    Application, Association, Closed, Datagram, Host, Lost, Message, Settings, Socket, Use,
};
use crate::maybe_time::MaybeTime;
use crate::packet::{IP_HEADER, UDP_HEADER};
use crate::plan::{Kind, Plan};
use crate::random::Random;
use crate::record::{AttemptRow, Fate, QueryRow, Transport};
use crate::transport::{quic, tls};

/// Settings of a group of workers.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Client {
    /// Whom they ask: an index into the plan's applications.
    pub server: usize,
    /// The way to the server: an index into the plan's paths.
    pub there: usize,
    /// The way back: an index into the plan's paths.
    pub back: usize,
    /// Number of workers.
    pub workers: u32,
    /// When the first worker starts.
    pub start: Time,
    /// Workers start at random times within this span after `start`.
    pub spread: Span,
    /// Queries before measurement starts, for each worker.
    pub warm_up: u32,
    /// Measured queries, for each worker.
    pub queries: u32,
    /// Pause between the end of a query and the next: mean of an exponential distribution.
    pub think_mean: Span,
    /// Lengths of queries and replies.
    pub sizes: Sizes,
    /// A query that has no answer after this time is given up; `None`: its attempts decide.
    pub gives_up: Option<Span>,
    /// How they ask over UDP; `None`: over TCP only.
    pub udp: Option<Udp>,
    /// How they ask over TCP; `None`: not at all.
    pub tcp: Option<Tcp>,
}

/// How a client asks over UDP.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Udp {
    /// Time-outs of successive attempts; its length is the number of attempts.
    pub timeouts: Vec<Span>,
    /// The longest reply that it takes (RFC 6891, 6.2.3); 512 without EDNS.
    pub payload: u16,
    /// After a truncated reply it asks over TCP; otherwise it takes the reply for an answer.
    pub tcp_if_truncated: bool,
    /// After the last time-out it asks over TCP.
    pub tcp_if_silent: bool,
    /// Each attempt comes from a port of its own; otherwise all those of a worker from one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub new_port: bool,
}

/// How a client asks over TCP.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tcp {
    /// Settings of its ends: an index into the plan's `tcp`.
    pub tcp: usize,
    /// Whether it keeps connections.
    pub reuse: Reuse,
    /// A connection that is not established by then is given up; `None`: TCP decides.
    pub connect_timeout: Option<Span>,
    /// A query without a reply by then is given up; `None`: it waits for ever.
    pub answer_timeout: Option<Span>,
    /// Connections tried for a query, by how the last one failed.
    pub attempts: Attempts,
    /// After a failure it asks over UDP again, before the next connection.
    pub udp_between: bool,
    /// Where connections are refused, so many come before that, one right after the other.
    #[cfg_attr(feature = "serde", serde(default = "one"))]
    pub refused_together: u8,
    /// Length and query are written apart.
    pub length_apart: bool,
    /// It encrypts what it asks; `None`: it does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tls: Option<Tls>,
}

/// How a client asks over TLS (RFC 7858).
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tls {
    /// Its handshake.
    pub handshake: tls::Client,
    /// Queries are padded to a multiple of so many bytes (RFC 8467); `None`: they are not.
    pub padding: Option<u32>,
    /// It speaks HTTP (RFC 8484); `None`: it puts a length before each query.
    #[cfg_attr(feature = "serde", serde(default))]
    pub https: Option<Requests>,
    /// It speaks QUIC instead of TCP (RFC 9250); `None`: it does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub quic: Option<quic::Config>,
}

#[cfg(feature = "serde")]
fn one() -> u8 {
    1
}

/// How many connections a query is worth, the first one included, by kind of failure.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempts {
    /// The SYN was refused.
    pub refused: u8,
    /// The server closed before it answered.
    pub closed: u8,
    /// The server reset the connection.
    pub reset: u8,
    /// Nothing came in time.
    pub silent: u8,
}

impl Attempts {
    /// The same number for each kind of failure.
    pub const fn of(number: u8) -> Self {
        Self { refused: number, closed: number, reset: number, silent: number }
    }
}

impl Tls {
    fn check(&self) -> Result<(), String> {
        if self.padding.is_some_and(|block| !(1..=u32::from(u16::MAX)).contains(&block)) {
            return Err("padding: must be 1 to 65535".into());
        }
        if let Some(quic) = &self.quic {
            quic.check().map_err(|why| format!("quic: {why}"))?;
            if self.https.is_some() {
                return Err("https: excludes quic".into());
            }
        }
        if let Some(https) = &self.https {
            https.check().map_err(|why| format!("https: {why}"))?;
        }
        self.handshake.check()
    }
}

impl Tcp {
    /// What carries an attempt, and the server's port.
    fn transport(&self) -> (Transport, u16) {
        match &self.tls {
            None => (Transport::Tcp, PORT),
            Some(Tls { quic: Some(_), .. }) => (Transport::Quic, TLS_PORT),
            Some(Tls { https: None, .. }) => (Transport::Tls, TLS_PORT),
            Some(Tls { https: Some(_), .. }) => (Transport::Https, HTTPS_PORT),
        }
    }
}

impl Client {
    /// How it speaks QUIC, if it does.
    pub(crate) fn quic(&self) -> Option<&quic::Config> {
        self.tcp.as_ref()?.tls.as_ref()?.quic.as_ref()
    }

    /// Queries that each worker asks.
    fn each(&self) -> u32 {
        self.warm_up + self.queries
    }
}

impl Settings for Client {
    fn check(&self, plan: &Plan) -> Result<usize, String> {
        plan.check_round_trip(self.there, self.back)?;
        plan.check_server(self.server, |kind| matches!(kind, Kind::DnsServer(_)))?;
        self.sizes.check()?;
        if self.warm_up.checked_add(self.queries).is_none() {
            return Err("warm_up, queries: too many together".into());
        }
        let over_udp = self.udp.as_ref().map_or(0, |udp| udp.timeouts.len());
        let mut attempts = over_udp as u64;
        if let Some(udp) = &self.udp {
            if udp.timeouts.is_empty() || udp.timeouts.len() > 255 {
                return Err("timeouts: needs 1 to 255 attempts".into());
            }
            if udp.timeouts.contains(&Span::ZERO) {
                return Err("timeouts: each must be above zero".into());
            }
            if udp.payload < WITHOUT_EDNS {
                return Err(format!("payload: must be at least {WITHOUT_EDNS} B"));
            }
            if (udp.tcp_if_truncated || udp.tcp_if_silent) && self.tcp.is_none() {
                return Err("tcp: is needed for what UDP cannot do".into());
            }
        }
        match &self.tcp {
            None if self.udp.is_none() => return Err("udp, tcp: one of them is needed".into()),
            None => {}
            Some(tcp) => {
                if tcp.tcp >= plan.tcp.len() {
                    return Err("tcp: no such settings".into());
                }
                let Attempts { refused, closed, reset, silent } = tcp.attempts;
                let most = refused.max(closed).max(reset).max(silent);
                if refused.min(closed).min(reset).min(silent) == 0 {
                    return Err("attempts: must be at least one".into());
                }
                if tcp.refused_together == 0 {
                    return Err("refused_together: must be at least one".into());
                }
                if let Some(tls) = &tcp.tls {
                    tls.check().map_err(|why| format!("tls: {why}"))?;
                    if self.udp.is_some() {
                        return Err("tls: excludes udp".into());
                    }
                    match &plan.applications[self.server].kind {
                        Kind::DnsServer(server) if server.speaks_tls() => {
                            if tls.https.is_some() && !server.speaks_https() {
                                return Err("https: the server has none".into());
                            }
                            if tls.quic.is_some() && server.quic().is_none() {
                                return Err("quic: the server has none".into());
                            }
                        }
                        _ => return Err("tls: the server has none".into()),
                    }
                }
                if self.quic().is_some() {
                    // RFC 9000, 14: a path that takes less is not for QUIC.
                    let least = quic::LEAST_PAYLOAD + IP_HEADER + UDP_HEADER;
                    let first = |path: usize| plan.links[plan.paths[path].links[0]].mtu;
                    if first(self.there).min(first(self.back)) < least {
                        return Err(format!("quic: needs links that take packets of {least} B"));
                    }
                }
                if tcp.udp_between && self.udp.is_none() {
                    return Err("udp_between: needs udp".into());
                }
                attempts += u64::from(most) * if tcp.udp_between { 2 } else { 1 };
            }
        }
        let total = Settings::queries(self).saturating_mul(attempts);
        if total >= u64::from(u32::MAX) {
            return Err(format!("{total} attempts are more than the table can hold"));
        }
        // A flow of datagrams, and a connection for each worker.
        Ok(1 + self.workers as usize)
    }

    fn uses(&self, plan: &Plan) -> Vec<Use> {
        // A SYN-ACK or an acknowledgement without options.
        const SHORTEST_SEGMENT: u16 = IP_HEADER + 20;
        let (query, reply) = self.sizes.shortest();
        let shortest = |message: u32| match self.tcp {
            Some(_) => SHORTEST_SEGMENT,
            None => over_udp(message),
        };
        // A truncated reply is no longer than its query.
        let reply = if self.truncates() { reply.min(query).max(HEADER) } else { reply };
        // Without UDP nothing is cut into fragments.
        let longest = self.udp.as_ref().map_or((0, 0), |_| self.sizes.longest());
        let using = |path, least: u32, most: u32| {
            Use::of_datagrams(plan, path, (shortest(least), over_udp(most)), true)
        };
        vec![using(self.there, query, longest.0), using(self.back, reply, longest.1)]
    }

    fn queries(&self) -> u64 {
        u64::from(self.workers).saturating_mul(u64::from(self.warm_up) + u64::from(self.queries))
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        let reuse = self.tcp.as_ref().map_or(Reuse::Never, |tcp| tcp.reuse);
        Box::new(Workers {
            name: name.to_owned(),
            unfinished: self.workers,
            begun: 0,
            connections: Connections::new(reuse, self.workers),
            settings: self,
            workers: Vec::new(),
            first_socket: 0,
            association: None,
        })
    }
}

impl Client {
    /// Whether a reply may be shorter than it is meant to be.
    fn truncates(&self) -> bool {
        match &self.sizes {
            // The server may send less than 1232 bytes, but never less than 512.
            Sizes::Drawn { reply: crate::application::Draw::Constant(bytes), .. } => {
                bytes.get() > u64::from(WITHOUT_EDNS)
            }
            _ => true,
        }
    }
}

/// The IP packet of a message over UDP, as far as it fits one.
fn over_udp(message: u32) -> u16 {
    (u32::from(IP_HEADER + UDP_HEADER) + message).min(u32::from(u16::MAX)) as u16
}

#[derive(Debug)]
struct Workers {
    name: String,
    settings: Client,
    workers: Vec<Worker>,
    /// Workers that have not had their last answer.
    unfinished: u32,
    /// Queries begun so far.
    begun: u64,
    /// The first worker's socket, where workers keep theirs; the others follow.
    first_socket: u32,
    association: Option<Association>,
    connections: Connections,
}

#[derive(Debug)]
struct Worker {
    /// Queries begun.
    begun: u32,
    state: State,
    /// The present query: its row, its lengths, and when it is given up.
    query: u32,
    exchange: Exchange,
    gives_up_at: MaybeTime,
    /// Attempts made of it in all, over UDP, and over TCP.
    attempts: u8,
    over_udp: u8,
    over_tcp: u8,
    /// Attempts over TCP since the last one over UDP.
    together: u8,
    /// When something is due: the next query, or the end of an attempt.
    due: MaybeTime,
    /// When the pending timer comes.
    armed: MaybeTime,
    random: Random,
}

/// What a worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The time of its next query.
    Pause,
    /// A datagram for this attempt.
    Datagram { row: u32 },
    /// A reply over a connection for this attempt.
    Connection { row: u32 },
}

/// How an attempt over TCP failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Refused,
    Closed,
    Reset,
    Silent,
}

impl Application for Workers {
    fn start(&mut self, host: &mut Host<'_>) {
        let settings = &self.settings;
        if settings.udp.as_ref().is_none_or(|udp| !udp.new_port) {
            self.first_socket = host.take_sockets(settings.workers);
        }
        let ways = [settings.there, settings.back];
        let dial = connections::dial(settings.server, ways, 0, PORT);
        self.association = Some(host.associate(&dial));
        for number in 0..settings.workers {
            let mut random = host.random(&format!("{}/worker {number}", self.name));
            let spread = settings.spread.as_secs_f64() * random.uniform();
            let start = settings.start + Span::from_secs_f64(spread);
            host.wake(start, number);
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
                due: start.into(),
                armed: start.into(),
                random,
            });
        }
    }

    fn timer(&mut self, host: &mut Host<'_>, token: u32) {
        let Some(worker) = self.workers.get_mut(token as usize) else {
            self.connections.timer(host, token);
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

    fn datagram(&mut self, host: &mut Host<'_>, reply: Datagram) {
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

    fn lost(&mut self, host: &mut Host<'_>, datagram: Datagram, lost: Lost) {
        let fate = if datagram.goes_back { Fate::ReplyLost } else { Fate::QueryLost };
        let attempt = &mut host.records().attempts[datagram.message.tag as usize];
        attempt.fate = fate(lost.link, lost.reason);
    }

    fn opened(&mut self, host: &mut Host<'_>, socket: Socket) {
        let Some((_, connection)) = self.connections.of(host, socket) else { return };
        connection.established = true;
        let opened_at = connection.opened_at;
        let waiting = connection.waiting.clone();
        for asked in waiting {
            let trips = host.handshake_round_trips(socket, asked.early);
            // What did not have to wait for TLS left when TCP let it.
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

    fn received(&mut self, host: &mut Host<'_>, socket: Socket, reply: Message) {
        let (now, first_byte_at) = (host.now(), host.first_byte_at());
        let row = reply.tag;
        let Some((number, connection)) = self.connections.of(host, socket) else { return };
        let place = connection.waiting.iter().position(|asked| asked.row == row);
        let asked = place.map(|place| connection.waiting.swap_remove(place));
        let records = host.records();
        let attempt = &mut records.attempts[row as usize];
        (attempt.first_byte, attempt.received) = (Some(first_byte_at), Some(now));
        let in_time = asked
            .filter(|asked| self.workers[asked.worker as usize].state == State::Connection { row });
        match in_time {
            Some(_) => attempt.fate = Fate::Answered,
            None => {
                attempt.fate = Fate::Late;
                let query = &mut records.queries[attempt.query as usize];
                query.late_answers = query.late_answers.saturating_add(1);
            }
        }
        let (attempt, rtt) = (attempt.attempt, now.since(attempt.sent));
        if let Some(asked) = asked {
            count_packets(host, socket, row, asked.before);
        }
        self.connections.release(host, number);
        if let Some(asked) = in_time {
            self.end_query(host, asked.worker, Some((attempt, rtt)));
        }
    }

    fn closed(&mut self, host: &mut Host<'_>, socket: Socket, how: Closed) {
        let Some((number, connection)) = self.connections.of(host, socket) else { return };
        let failure = match how {
            Closed::ByPeer | Closed::Done => Failure::Closed,
            Closed::Refused => Failure::Refused,
            Closed::Reset => Failure::Reset,
            Closed::TimedOut => Failure::Silent,
        };
        let waiting = std::mem::take(&mut connection.waiting);
        let only_row = connection.only_row;
        if how == Closed::ByPeer {
            connection.close(host);
        } else {
            self.connections.forget(number);
        }
        if let Some(row) = only_row {
            count_packets(host, socket, row, Crossed::default());
        }
        for Asked { worker, row, .. } in waiting {
            if (self.workers[worker as usize].state == State::Connection { row }) {
                self.fail(host, worker, row, failure);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    fn progress(&self) -> Option<f64> {
        let total = Settings::queries(&self.settings);
        Some(if total == 0 { 1.0 } else { self.begun as f64 / total as f64 })
    }
}

impl Workers {
    fn begin_query(&mut self, host: &mut Host<'_>, number: u32) {
        let (now, client) = (host.now(), host.application());
        let worker = &mut self.workers[number as usize];
        if worker.begun == self.settings.each() {
            // A plan without queries: nothing to do.
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

    fn ask_over_udp(&mut self, host: &mut Host<'_>, number: u32) {
        let udp = self.settings.udp.as_ref().expect("it asks over UDP");
        let worker = &mut self.workers[number as usize];
        // Where it comes back to UDP after a connection, the last time-out holds again.
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

    /// No datagram came in time.
    fn end_datagram(&mut self, host: &mut Host<'_>, number: u32, row: u32) {
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

    fn ask_over_tcp(&mut self, host: &mut Host<'_>, number: u32) {
        let settings = &self.settings;
        let tcp = settings.tcp.as_ref().expect("it asks over TCP");
        let worker = &mut self.workers[number as usize];
        worker.over_tcp = worker.over_tcp.saturating_add(1);
        worker.together = worker.together.saturating_add(1);
        let (transport, port) = tcp.transport();
        let row = worker.begin_attempt(host, transport);
        let ways = [settings.there, settings.back];
        let dial = connections::dial(settings.server, ways, tcp.tcp, port);
        let secure = tcp.tls.map(|tls| (tls.handshake, tls.quic));
        let asker = (number, row);
        let (asked, connection) =
            self.connections.find(host, (&dial, secure), &mut worker.random, asker);
        let (socket, established) = (connection.socket, connection.established);
        let reused = connection.queries > 1;
        // As many as there will be, unless the SYN carries data.
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

    /// Writes a query on a connection that is established, or whose SYN carries data.
    fn write_query(&mut self, host: &mut Host<'_>, socket: Socket, asked: Asked) {
        let tcp = self.settings.tcp.as_ref().expect("it asks over TCP");
        let worker = &self.workers[asked.worker as usize];
        let query = worker.exchange.query;
        let padding = tcp.tls.and_then(|tls| tls.padding);
        let (query, note) = padding.map_or((query, 0), |block| (padded(query, block), PADDED));
        let [lengths, takes] = worker.exchange.wanted().notes();
        let notes = [lengths, takes | note];
        if let Some(https) = tcp.tls.and_then(|tls| tls.https) {
            let written = https.written(query, asked.turn);
            for part in written.apart.into_iter().filter(|&part| part > 0) {
                host.send_part(socket, part);
            }
            let notes = [lengths, takes | note | HTTPS];
            host.send(socket, Message { bytes: written.last, tag: asked.row, notes });
            return;
        }
        let message = Message { bytes: LENGTH + query, tag: asked.row, notes };
        if tcp.length_apart {
            host.send_apart(socket, LENGTH, message);
        } else {
            host.send(socket, message);
        }
    }

    /// A query has left on a connection that is established: its time begins.
    fn expect_answer(&mut self, host: &mut Host<'_>, asked: Asked) {
        let tcp = self.settings.tcp.as_ref().expect("it asks over TCP");
        let worker = &mut self.workers[asked.worker as usize];
        let due = MaybeTime::from(tcp.answer_timeout.map(|span| host.now() + span));
        worker.due = due.min(worker.gives_up_at);
        worker.arm(host, asked.worker);
    }

    /// A query's time on a connection is over: it goes on without it, unless others wait there.
    fn leave(&mut self, host: &mut Host<'_>, socket: Socket, row: u32) {
        let keeps = self.connections.keeps_silent_ones();
        let Some((number, connection)) = self.connections.of(host, socket) else { return };
        connection.waiting.retain(|asked| asked.row != row);
        if connection.established && keeps {
            self.connections.release(host, number);
        } else if connection.waiting.is_empty() && connection.established {
            connection.close(host);
            // What follows is added when it is over.
            if let Some(row) = connection.only_row {
                count_packets(host, socket, row, Crossed::default());
            }
        } else if connection.waiting.is_empty() {
            let only_row = connection.only_row;
            self.connections.forget(number);
            host.abort(socket);
            if let Some(row) = only_row {
                count_packets(host, socket, row, Crossed::default());
            }
        }
    }

    /// An attempt over TCP has failed: the next one, or the query's end.
    fn fail(&mut self, host: &mut Host<'_>, number: u32, row: u32, failure: Failure) {
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

    fn end_query(&mut self, host: &mut Host<'_>, number: u32, answer: Option<(u8, Span)>) {
        let now = host.now();
        let worker = &mut self.workers[number as usize];
        let query = &mut host.records().queries[worker.query as usize];
        query.end = Some(now);
        query.attempt = answer.map_or(0, |(attempt, _)| attempt);
        query.rtt = answer.map(|(_, rtt)| rtt);
        worker.state = State::Pause;
        let settings = &self.settings;
        if worker.begun == settings.each() {
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

/// Counts the packets that have crossed a connection since then for an attempt. Those of queries
/// that were on it at the same time are counted for each.
fn count_packets(host: &mut Host<'_>, socket: Socket, row: u32, before: Crossed) {
    let now = Crossed::until_now(host, socket);
    let attempt = &mut host.records().attempts[row as usize];
    attempt.packets_sent = now.sent.0 - before.sent.0;
    attempt.bytes_sent = (now.sent.1 - before.sent.1) as u32;
    attempt.packets_received = now.received.0 - before.received.0;
    attempt.bytes_received = (now.received.1 - before.received.1) as u32;
}

impl Worker {
    /// Adds the row of another attempt at the present query.
    fn begin_attempt(&mut self, host: &mut Host<'_>, transport: Transport) -> u32 {
        let sent = host.now();
        let records = host.records();
        let row = records.attempts.len() as u32;
        self.attempts = self.attempts.saturating_add(1);
        records.queries[self.query as usize].attempts = self.attempts;
        records.attempts.push(AttemptRow {
            query: self.query,
            attempt: self.attempts,
            sent,
            fate: Fate::Pending,
            first_byte: None,
            received: None,
            transport,
            reused: false,
            handshakes: 0,
            handshake: None,
            packets_sent: 0,
            bytes_sent: 0,
            packets_received: 0,
            bytes_received: 0,
            query_bytes: over_udp(self.exchange.query),
        });
        row
    }

    fn is_given_up(&self, now: Time) -> bool {
        !self.gives_up_at.is_after(now)
    }

    /// Makes sure that a timer comes when something is due.
    fn arm(&mut self, host: &mut Host<'_>, number: u32) {
        if let Some(due) = self.due.get()
            && self.armed.is_after(due)
        {
            self.armed = due.into();
            host.wake(due, number);
        }
    }
}
