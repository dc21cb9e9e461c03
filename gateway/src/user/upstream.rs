//! Queries to the server over UDP, from the gateway's own address, and the way back to the asker.
//!
//! A server's answer is accepted only after every possible check (RFC 5452, section 9.1). The
//! sockets are connected, so only datagrams from the server's address and port arrive. Port and ID
//! are unpredictable, and the question must be the query's. The server never sees the client's own
//! ID, which is put back into the answer.
//!
//! The number of open queries is limited. The gateway never sends a query again on its own: the
//! client's TCP does, and the query then goes to the server again under the same ID.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::batch::{Inbox, send_all};
use super::peer::Peer;
use super::proxied::{self, Transport};
use super::random::Random;
use crate::core::Connection;

/// The number of sockets for each server. The kernel draws a port for each.
const SOCKETS: usize = 16;
/// After this many queries, a socket with another port replaces a socket.
const USES: u32 = 4096;

/// Who asked a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// The connection of the query.
    pub(super) connection: Connection,
    /// Where the packets of the answer go.
    pub(super) peer: Peer,
}

/// All open queries to the servers.
#[derive(Debug)]
pub(super) struct Upstream {
    servers: Vec<SocketAddr>,
    /// [`SOCKETS`] for each server.
    sockets: Vec<Option<Socket>>,
    open: HashMap<(u32, u16), Query>,
    /// The keys of `open`, by who asked.
    asked: HashMap<Connection, (u32, u16)>,
    /// The queries, in the order in which they were first asked.
    order: VecDeque<(Duration, (u32, u16), Connection)>,
    /// The socket of each server that gets the queries until the next [`Upstream::flush`].
    turns: Vec<Option<usize>>,
    /// Sockets with messages to send.
    waiting: Vec<u32>,
    limit: usize,
    /// Whether a header before each query names its client, and the transport that it gives.
    proxied: Option<Transport>,
    random: Random,
}

#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    uses: u32,
    /// The number of its open queries.
    open: u32,
    /// Messages that wait for [`Upstream::flush`].
    outbox: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Query {
    asker: Asker,
    id: [u8; 2],
    /// The question, in lower case.
    question: Vec<u8>,
    asked_at: Duration,
}

/// What happened to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The query was sent. It may be lost, like any datagram. If its socket is new, this is the
    /// socket's index.
    Sent(Option<u32>),
    /// Too many queries are open.
    Full,
    /// No socket is available, or the message has no question.
    Failed,
}

impl Upstream {
    /// Creates an upstream without queries. At most `limit` queries may be open at once. With
    /// `proxied`, each query follows a header of the PROXY protocol.
    pub(super) fn new(
        servers: Vec<SocketAddr>,
        limit: usize,
        proxied: Option<Transport>,
    ) -> io::Result<Self> {
        let sockets = (0..servers.len() * SOCKETS).map(|_| None).collect();
        Ok(Self {
            turns: vec![None; servers.len()],
            waiting: Vec::new(),
            servers,
            sockets,
            open: HashMap::new(),
            asked: HashMap::new(),
            order: VecDeque::new(),
            limit,
            proxied,
            random: Random::new()?,
        })
    }

    /// Sends `message` to the server with this number at the next [`Upstream::flush`]. If its
    /// connection asked the same before, it keeps the ID and port.
    pub(super) fn ask(
        &mut self,
        server: usize,
        asker: Asker,
        message: Vec<u8>,
        now: Duration,
    ) -> Asked {
        let Some(question) = question(&message) else { return Asked::Failed };
        let id = [message[0], message[1]];
        if let Some(&key) = self.asked.get(&asker.connection) {
            let query = self.open.get_mut(&key).expect("what was asked is open");
            if query.id == id && query.question == question {
                query.asker.peer = asker.peer;
                self.send(key, &asker.connection, message);
                return Asked::Sent(None);
            }
            self.forget(key);
        }
        if self.open.len() >= self.limit {
            return Asked::Full;
        }
        let Ok((at, fresh)) = self.socket(server) else { return Asked::Failed };
        // At most `limit` of the 65536 IDs of this port are taken, so a few draws find a free one.
        let free = (0..64)
            .map(|_| (at, self.random.next() as u16))
            .find(|key| !self.open.contains_key(key));
        let Some(key) = free else { return Asked::Full };
        self.open.insert(key, Query { asker, id, question, asked_at: now });
        self.asked.insert(asker.connection, key);
        self.order.push_back((now, key, asker.connection));
        if let Some(socket) = self.sockets[at as usize].as_mut() {
            (socket.uses, socket.open) = (socket.uses + 1, socket.open + 1);
        }
        self.send(key, &asker.connection, message);
        Asked::Sent(fresh.then_some(at))
    }

    fn send(&mut self, key: (u32, u16), connection: &Connection, mut message: Vec<u8>) {
        message[..2].copy_from_slice(&key.1.to_be_bytes());
        if let Some(transport) = self.proxied {
            let names = proxied::header(transport, connection.client, connection.server);
            message.splice(..0, names);
        }
        if let Some(socket) = &mut self.sockets[key.0 as usize] {
            if socket.outbox.is_empty() {
                self.waiting.push(key.0);
            }
            socket.outbox.push(message);
        }
    }

    /// Sends the queries since the last call. What the system refuses is lost, as datagrams may be.
    pub(super) fn flush(&mut self) {
        self.turns.fill(None);
        for at in self.waiting.drain(..) {
            let Some(Socket { socket, outbox, .. }) = &mut self.sockets[at as usize] else {
                continue;
            };
            // The error may be about an earlier datagram (ICMP); then another try succeeds.
            let mut tries = outbox.len();
            let refused = |error: io::Error| {
                let again = tries > 0 && error.kind() != io::ErrorKind::WouldBlock;
                tries = tries.saturating_sub(1);
                Ok(again)
            };
            let _ = send_all(socket, outbox, &[], refused);
        }
    }

    /// Returns one of the server's sockets, drawn at random and the same until [`Upstream::flush`],
    /// and whether it is new.
    fn socket(&mut self, server: usize) -> io::Result<(u32, bool)> {
        let server = server.min(self.servers.len() - 1);
        let random = &mut self.random;
        let at = *self.turns[server]
            .get_or_insert_with(|| server * SOCKETS + random.next() as usize % SOCKETS);
        if self.sockets[at].as_ref().is_some_and(|socket| socket.uses < USES || socket.open > 0) {
            return Ok((at as u32, false));
        }
        let to = self.servers[server];
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?; // Linux draws the port (`udp_lib_get_port`)
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        self.sockets[at] = Some(Socket { socket, uses: 0, open: 0, outbox: Vec::new() });
        Ok((at as u32, true))
    }

    /// Reads datagrams that are waiting on a socket into `inbox`. Returns whether more may be
    /// waiting.
    pub(super) fn receive(&self, at: u32, inbox: &mut Inbox) -> bool {
        let socket = self.sockets.get(at as usize).and_then(Option::as_ref);
        let more = socket.map(|socket| inbox.receive(&socket.socket, |_, _| Some(Peer::default())));
        match more {
            Some(Ok(more)) => more,
            // The server's port is closed (ICMP). This is no answer, and no other answer is lost by
            // it.
            Some(Err(error)) => error.kind() == io::ErrorKind::ConnectionRefused,
            None => false,
        }
    }

    /// Returns who asked what this datagram answers, after putting the client's ID into it; `None`
    /// if nobody did.
    pub(super) fn accept(&mut self, at: u32, message: &mut [u8]) -> Option<Asker> {
        let header = message.get(..12)?;
        let key = (at, u16::from_be_bytes([header[0], header[1]]));
        let query = self.open.get(&key)?;
        // A server that could not read the question may leave it out (RFC 1035, 4.1.1, FORMERR).
        let without = header[4..6] == [0, 0];
        if header[2] & 0x80 == 0 || !without && question(message)? != query.question {
            return None;
        }
        message[..2].copy_from_slice(&query.id);
        let asker = query.asker;
        self.forget(key);
        Some(asker)
    }

    fn forget(&mut self, key: (u32, u16)) {
        if let Some(query) = self.open.remove(&key) {
            self.asked.remove(&query.asker.connection);
            if let Some(socket) = self.sockets[key.0 as usize].as_mut() {
                socket.open -= 1;
            }
        }
    }

    /// Forgets queries from before `since`.
    pub(super) fn expire(&mut self, since: Duration) {
        while let Some(&(asked_at, key, connection)) = self.order.front() {
            let open = self.open.get(&key).is_some_and(|query| {
                query.asked_at == asked_at && query.asker.connection == connection
            });
            if open && asked_at >= since {
                break;
            }
            if open {
                self.forget(key);
            }
            self.order.pop_front();
        }
    }

    /// Returns the number of open queries.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns the socket with this index, to wait for.
    pub(super) fn descriptor(&self, at: u32) -> Option<BorrowedFd<'_>> {
        Some(self.sockets.get(at as usize)?.as_ref()?.socket.as_fd())
    }

    /// Returns the server with this number.
    pub(super) fn server(&self, server: usize) -> SocketAddr {
        self.servers[server.min(self.servers.len() - 1)]
    }
}

/// Returns the question of a message that has one, in lower case: an uncompressed name, type and
/// class.
fn question(message: &[u8]) -> Option<Vec<u8>> {
    let rest = message.get(12..)?;
    let mut at = 0;
    loop {
        match *rest.get(at)? {
            0 => break,
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
    Some(rest.get(..at + 5)?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
