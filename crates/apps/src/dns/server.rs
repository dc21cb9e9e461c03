//! A DNS server, which answers each query after its service time.
//!
//! Over UDP it answers with a datagram. If the whole reply is longer than the client accepts or the
//! server sends (RFC 6891, 6.2.5), it leaves out additional records or truncates the reply. Over
//! TCP (RFC 7766) it reads queries from several connections at once, up to a limit, and answers
//! each as soon as the reply is ready, or in order. docs/dns-servers.md describes what real servers
//! do. A query for a zone is answered in many messages ([`transfer`]).

mod settings;

use std::collections::VecDeque;

use narrows_transport::Closed;
use narrows_units::{MaybeTime, Span, Time};

use super::exchange::Wanted;
use super::slab::Slab;
use super::{HTTPS, HTTPS_PORT, LENGTH, TRUNCATED, http3, is_padded, is_transfer, padded};
use crate::{Application, Association, Datagram, Host, Message, Random, Socket, transfer};
pub use narrows_transport::half_open::{Cookies, HalfOpenLimits, SynAckTimers};
pub use settings::{Https, OnQuery, Server, Tcp, Tls, WhenFull};

#[derive(Debug)]
struct Serving {
    settings: Server,
    name: String,
    random: Option<Random>,
    /// Replies in preparation. Their timers have even numbers.
    replies: Slab<Reply>,
    /// Accepted connections. Their timers have odd numbers.
    connections: Slab<Connection>,
    /// How many of them are open.
    open: u32,
    /// The shorter timeouts that places in `connections` keep, by number.
    short: Vec<Option<Span>>,
}

/// A reply in preparation.
#[derive(Clone, Copy, Debug)]
struct Reply {
    to: To,
    message: Message,
}

#[derive(Clone, Copy, Debug)]
enum To {
    Datagram { association: Association, socket: u32 },
    Connection(Socket),
}

/// A connection that the server has accepted.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    client: u32,
    /// The number of queries read.
    asked: u32,
    /// Unanswered queries by tag, the oldest first, each with its reply if that is ready.
    waiting: VecDeque<(u32, Option<Message>)>,
    /// Whether a part of a query has arrived and the rest has not.
    reading: bool,
    /// Whether nothing more is read, and the waiting queries are the last.
    closing: bool,
    /// The shorter timeout that it has because the server was busy when it was accepted.
    busy: Option<Span>,
    idle_since: Time,
    /// When the idle time ends, or the time in which the rest of a query must arrive.
    due: MaybeTime,
    /// When the pending timer expires.
    armed: MaybeTime,
}

impl Serving {
    fn new(settings: Server, name: &str) -> Self {
        Self {
            settings,
            name: name.to_owned(),
            random: None,
            replies: Slab::default(),
            connections: Slab::default(),
            open: 0,
            short: Vec::new(),
        }
    }
}

impl Application for Serving {
    fn start(&mut self, host: &mut dyn Host) {
        self.random = Some(host.random(&format!("{}/service", self.name)));
        if let Some(tcp) = &self.settings.tcp {
            let cookies = if tcp.stateless { Cookies::Always } else { tcp.half_open.cookies };
            let limits = HalfOpenLimits { cookies, ..tcp.half_open };
            host.listen_within(tcp.tcp, tcp.backlog, limits);
            if tcp.stateless {
                host.serve_without_state();
            }
            if let Some(tls) = tcp.tls {
                host.serve_securely(tls.handshake);
                if let Some(https) = tls.https {
                    host.serve_securely_at(HTTPS_PORT, https.tcp, https.handshake);
                }
                if let Some(quic) = tls.quic {
                    host.serve_quic(quic);
                }
            }
        }
    }

    fn datagram(&mut self, host: &mut dyn Host, query: Datagram) {
        let wanted = Wanted::of(&query.message);
        // A reply without records: header, question and OPT record, as in the query.
        let empty = query.message.bytes;
        let (bytes, truncated) = wanted.reply_over_udp(self.settings.udp_payload, empty);
        let note = if truncated { TRUNCATED } else { 0 };
        let message = Message { bytes, notes: [wanted.whole, note], ..query.message };
        let to = To::Datagram { association: query.association, socket: query.socket };
        self.prepare(host, Reply { to, message }, Span::ZERO);
    }

    fn arrived(&mut self, host: &mut dyn Host) {
        self.accept(host);
    }

    fn first_byte(&mut self, host: &mut dyn Host, socket: Socket) {
        let number = host.number(socket);
        let timeout = self.settings.tcp.as_ref().and_then(|tcp| tcp.half_query_timeout);
        let (Some(timeout), Some(connection)) = (timeout, self.connections.get_mut(number)) else {
            return;
        };
        if connection.socket == socket && !connection.closing {
            connection.reading = true;
            connection.wait_for(host, timeout, number);
        }
    }

    /// Each part of a handshake that the server reads begins its timeout again, as libevent does
    /// with persistent events. Measured with Unbound (tests/dns_behaviour/busy_handshakes.py).
    fn flight_arrived(&mut self, host: &mut dyn Host, socket: Socket) {
        let number = host.number(socket);
        let Some(tcp) = &self.settings.tcp else { return };
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.socket == socket && connection.asked == 0 && !connection.closing {
            connection.wait_for(host, tcp.first_query_timeout, number);
        }
    }

    fn received(&mut self, host: &mut dyn Host, socket: Socket, query: Message) {
        let number = host.number(socket);
        let http3 = self.http3(host, socket);
        let Some(tcp) = &self.settings.tcp else { return };
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.socket != socket || connection.closing {
            return;
        }
        connection.reading = false;
        match tcp.on_query {
            OnQuery::Answer => {}
            _ if host.is_quic(socket) => {}
            OnQuery::Close => return self.hang_up(host, number),
            OnQuery::Reset => return self.reset(host, number),
        }
        connection.asked += 1;
        connection.waiting.push_back((query.tag, None));
        connection.due = MaybeTime::NONE;
        if tcp.queries_per_connection == Some(connection.asked) {
            connection.closing = true;
        }
        let whole = Wanted::of(&query).whole;
        let padding = tcp.tls.and_then(|tls| tls.padding);
        let padding = padding.filter(|_| is_padded(&query));
        let bytes = padding.map_or(whole, |block| padded(whole, block));
        let https = tcp.tls.and_then(|tls| tls.https).filter(|_| query.notes[1] & HTTPS != 0);
        let https = https.map(|https| https.responses);
        let bytes = match (https, http3) {
            (None, None) => LENGTH + bytes,
            (None, Some(http3)) => http3.written(bytes),
            (Some(https), _) => {
                if connection.asked == 1 {
                    for part in https.greeting().into_iter().filter(|&part| part > 0) {
                        host.send_part(socket, part);
                    }
                }
                https.written(bytes, connection.asked == 1)
            }
        };
        let message = if is_transfer(&query) {
            // The reply is many messages, which are created when it is ready.
            query
        } else {
            Message { bytes, notes: [whole, query.notes[1] & HTTPS], ..query }
        };
        let over_tls = tcp.tls.filter(|_| host.is_secure(socket));
        let extra = over_tls.and_then(|tls| tls.extra_service).unwrap_or(tcp.extra_service);
        self.prepare(host, Reply { to: To::Connection(socket), message }, extra);
    }

    fn closed(&mut self, host: &mut dyn Host, socket: Socket, how: Closed) {
        let number = host.number(socket);
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.socket != socket {
            // This end has closed and forgotten the connection.
            return;
        }
        connection.closing = true;
        connection.due = MaybeTime::NONE;
        if how != Closed::ByPeer || connection.waiting.is_empty() {
            self.hang_up(host, number);
        }
    }

    fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let number = token / 2;
        if token.is_multiple_of(2) {
            if let Some(reply) = self.replies.take(number) {
                self.answer(host, reply);
            }
        } else {
            self.end_idle_time(host, number);
        }
    }
}

impl Serving {
    /// Prepares the reply to a query that has been read: it is ready after the service time.
    fn prepare(&mut self, host: &mut dyn Host, reply: Reply, extra: Span) {
        let mut service = self.settings.service + extra;
        if self.settings.service_jitter_mean > Span::ZERO
            && let Some(random) = &mut self.random
        {
            service += random.exponential(self.settings.service_jitter_mean);
        }
        let place = self.replies.put(reply);
        host.wake(host.now() + service, 2 * place);
    }

    fn answer(&mut self, host: &mut dyn Host, reply: Reply) {
        let socket = match reply.to {
            To::Datagram { association, socket } => {
                let sent = host.send_datagram(association, socket, true, &reply.message);
                // A flood's queries have no rows.
                let rows = &mut host.records().attempts;
                if let Some(attempt) = rows.get_mut(reply.message.tag as usize) {
                    attempt.packets_received =
                        attempt.packets_received.saturating_add(sent.packets);
                    attempt.bytes_received = attempt.bytes_received.saturating_add(sent.bytes);
                }
                return;
            }
            To::Connection(socket) => socket,
        };
        let Some(tcp) = &self.settings.tcp else { return };
        let number = host.number(socket);
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.socket != socket {
            // The connection is gone, and another one has its place.
            return;
        }
        let tag = reply.message.tag;
        if let Some(waiting) = connection.waiting.iter_mut().find(|(other, _)| *other == tag) {
            waiting.1 = Some(reply.message);
        }
        loop {
            let ready = match tcp.in_order {
                true => connection.waiting.front().is_some_and(|(_, reply)| reply.is_some()),
                false => connection.waiting.iter().any(|(_, reply)| reply.is_some()),
            };
            if !ready {
                break;
            }
            let place = connection.waiting.iter().position(|(_, reply)| reply.is_some());
            let Some((_, Some(message))) = place.and_then(|at| connection.waiting.remove(at))
            else {
                break;
            };
            let send = |host: &mut dyn Host, message: Message| {
                if tcp.length_apart && message.notes[1] & HTTPS == 0 {
                    host.send_apart(socket, LENGTH, message);
                } else {
                    host.send(socket, message);
                }
            };
            if is_transfer(&message) {
                for part in transfer::messages(message) {
                    send(host, part);
                }
            } else {
                send(host, message);
            }
        }
        if connection.waiting.is_empty() {
            if connection.closing {
                self.hang_up(host, number);
            } else if !connection.reading {
                connection.idle_from(host, number, tcp.idle_timeout);
            }
        }
    }

    /// Accepts waiting connections, up to the limit.
    fn accept(&mut self, host: &mut dyn Host) {
        let Some(tcp) = &self.settings.tcp else { return };
        loop {
            let full = tcp.connections.is_some_and(|most| self.open >= most);
            if full && tcp.when_full == WhenFull::Wait {
                return;
            }
            let Some(socket) = host.accept() else { return };
            let client = host.client_node(socket);
            let of_client =
                || self.connections.iter().filter(|c| c.client == client).count() as u32;
            let too_many = tcp.connections_per_client.is_some_and(|most| of_client() >= most);
            if too_many || (full && tcp.when_full == WhenFull::Reject) {
                host.close(socket);
                continue;
            }
            if full {
                let idle = self.connections.numbered().filter(|(_, c)| c.waiting.is_empty());
                let oldest =
                    idle.min_by_key(|(_, c)| c.idle_since).map(|(number, c)| (number, c.socket));
                let Some((number, oldest)) = oldest else {
                    // All are busy, so the new one is closed.
                    host.close(socket);
                    continue;
                };
                host.abort(oldest);
                self.connections.take(number);
                self.open -= 1;
            }
            let in_use = f64::from(self.open + u32::from(tcp.busy_counts_new));
            let share = tcp.connections.map_or(0.0, |most| in_use / f64::from(most));
            let busy = tcp.busy_levels.iter().filter(|&&(level, _)| share > level);
            let mut busy = busy.map(|&(_, timeout)| timeout).min();
            if tcp.busy_stays {
                let place = self.connections.next_number() as usize;
                self.short.resize(self.short.len().max(place + 1), None);
                busy = busy.into_iter().chain(self.short[place]).min();
                self.short[place] = busy;
            }
            let connection = Connection {
                socket,
                client,
                asked: 0,
                waiting: VecDeque::new(),
                reading: false,
                closing: false,
                busy,
                idle_since: host.now(),
                due: MaybeTime::NONE,
                armed: MaybeTime::NONE,
            };
            let number = self.connections.put(connection);
            self.open += 1;
            host.set_number(socket, number);
            if let Some(connection) = self.connections.get_mut(number) {
                connection.wait_for(host, tcp.first_query_timeout, number);
            }
            if let Some(http3) = self.http3(host, socket) {
                for (stream, bytes) in (0..).zip(http3.beside()) {
                    host.send_beside(socket, stream, bytes);
                }
            }
        }
    }

    /// Returns how the server speaks HTTP/3 if a connection's client does.
    fn http3(&self, host: &dyn Host, socket: Socket) -> Option<http3::Responses> {
        self.settings.http3().filter(|_| host.quic_port(socket) == Some(HTTPS_PORT))
    }

    fn end_idle_time(&mut self, host: &mut dyn Host, number: u32) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        if !connection.armed.is(host.now()) {
            return;
        }
        connection.armed = MaybeTime::NONE;
        match connection.due.get() {
            Some(due) if due <= host.now() => {
                // Queries that have arrived completely get their replies first.
                connection.closing = true;
                connection.due = MaybeTime::NONE;
                if connection.waiting.is_empty() {
                    self.hang_up(host, number);
                }
            }
            Some(due) => connection.wait_until(host, due, number),
            None => {}
        }
    }

    /// Resets a connection, which makes room for another one at once.
    fn reset(&mut self, host: &mut dyn Host, number: u32) {
        if let Some(connection) = self.connections.take(number) {
            self.open -= 1;
            host.abort(connection.socket);
            self.accept(host);
        }
    }

    /// Closes a connection, which makes room for another one at once.
    fn hang_up(&mut self, host: &mut dyn Host, number: u32) {
        if let Some(connection) = self.connections.take(number) {
            self.open -= 1;
            host.close(connection.socket);
            self.accept(host);
        }
    }
}

impl Connection {
    /// Starts the idle time of a connection whose last reply has been sent.
    fn idle_from(&mut self, host: &mut dyn Host, number: u32, timeout: Span) {
        self.idle_since = host.now();
        self.wait_for(host, timeout, number);
    }

    /// Closes it after a timeout, or after the shorter one that it has.
    fn wait_for(&mut self, host: &mut dyn Host, timeout: Span, number: u32) {
        let timeout = self.busy.map_or(timeout, |busy| busy.min(timeout));
        let until = host.now() + timeout;
        self.wait_until(host, until, number);
    }

    fn wait_until(&mut self, host: &mut dyn Host, due: Time, number: u32) {
        self.due = due.into();
        if self.armed.is_after(due) {
            self.armed = due.into();
            host.wake(due, 2 * number + 1);
        }
    }
}
