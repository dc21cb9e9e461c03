//! A client: one server, one transport, one address of its own.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::SockType;

use crate::exchange::{ConnectionFacts, Exchange, Outcome, Segments, Stage, Times};
use crate::failed::Failed;
use crate::query::Query;
use crate::segments::Watch;
use crate::tcp::Connection;
use crate::{socket, udp};

/// Whom to ask, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: SocketAddr,
    /// How queries travel.
    pub transport: Transport,
    /// The address to ask from; the system chooses one for `None`.
    pub source: Option<IpAddr>,
    /// How long an exchange may take in all, handshakes included, as on RIPE Atlas.
    pub timeout: Duration,
    /// Whether queries share a connection for as long as it stays open.
    pub reuse: bool,
    /// Whether to look at the packets that come, where this process may.
    pub watch: bool,
    /// Whether TCP shall acknowledge late (`TCP_QUICKACK` 0), as it does within a conversation;
    /// otherwise Linux acknowledges a connection's first segments at once.
    pub late_acknowledgements: bool,
}

impl Server {
    /// A server as RIPE Atlas asks it: five seconds, a connection for each query.
    #[must_use]
    pub fn new(address: SocketAddr, transport: Transport) -> Self {
        Self {
            address,
            transport,
            source: None,
            timeout: Duration::from_secs(5),
            reuse: false,
            watch: true,
            late_acknowledgements: false,
        }
    }
}

/// How queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RFC 1035, section 4.2.1.
    Udp,
    /// RFC 7766.
    Tcp,
}

/// Asks one server, one query at a time.
#[derive(Debug)]
pub struct Client {
    server: Server,
    watch: Option<Watch>,
    connection: Option<Connection>,
    opened: u32,
    finished: Vec<ConnectionFacts>,
    ids: RandomState,
    asked: u64,
    // The kernel stamps packets for as long as some socket wants that, and begins with a delay.
    _keeps_stamping: OwnedFd,
}

impl Client {
    /// A client of this server.
    ///
    /// # Errors
    ///
    /// No socket can be made, or the source address is none of this machine's.
    pub fn new(server: Server) -> io::Result<Self> {
        let keeper = socket::towards(server.address, server.source, SockType::Datagram, None)?;
        let watch = (server.watch && server.transport != Transport::Udp)
            .then(|| Watch::open(server.address, server.source).ok())
            .flatten();
        Ok(Self {
            server,
            watch,
            connection: None,
            opened: 0,
            finished: Vec::new(),
            ids: RandomState::new(),
            asked: 0,
            _keeps_stamping: keeper,
        })
    }

    /// Whether it sees the packets that come; without, sizes of segments are known only where no
    /// two came at once.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.watch.is_some()
    }

    /// Asks, and waits for what becomes of it.
    pub fn ask(&mut self, query: &Query) -> Exchange {
        let id = self.id();
        match self.server.transport {
            Transport::Udp => udp::ask(&self.server, query, id),
            Transport::Tcp => self.ask_on_connection(query, id),
        }
    }

    /// What is known of the connections that ended since the last call.
    pub fn take_connections(&mut self) -> Vec<ConnectionFacts> {
        core::mem::take(&mut self.finished)
    }

    /// Closes the connection that waits for another query, if there is one.
    pub fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.finish(connection);
        }
    }

    fn ask_on_connection(&mut self, query: &Query, id: u16) -> Exchange {
        let until = Instant::now() + self.server.timeout;
        if let Some(kept) = self.connection.take() {
            if kept.is_open() {
                let (exchange, left) = kept.ask(query, id, until, true, self.watch.as_ref());
                self.keep_or_finish(left, &exchange);
                return exchange;
            }
            // Idle for too long: the server has closed it, and a client that wants an answer opens
            // another (RFC 7766, section 6.2.4).
            self.finish(kept);
        }
        let number = self.opened;
        self.opened += 1;
        match Connection::open(&self.server, number, until, self.watch.as_ref()) {
            Ok(connection) => {
                let (exchange, left) = connection.ask(query, id, until, false, self.watch.as_ref());
                self.keep_or_finish(left, &exchange);
                exchange
            }
            Err(unopened) => {
                let bytes = query.message(id).len();
                let exchange =
                    unanswered(&unopened.failed, Stage::Connect, unopened.started, bytes);
                let connection = unopened.facts.as_ref().map(|facts| facts.number);
                self.finished.extend(unopened.facts.map(|facts| *facts));
                Exchange { reused: Some(false), connection, ..exchange }
            }
        }
    }

    fn keep_or_finish(&mut self, connection: Connection, exchange: &Exchange) {
        if self.server.reuse && exchange.outcome == Outcome::Answered {
            self.connection = Some(connection);
        } else {
            self.finish(connection);
        }
    }

    fn finish(&mut self, connection: Connection) {
        self.finished.push(connection.close());
    }

    /// Hard to guess, as RFC 5452 wants it.
    fn id(&mut self) -> u16 {
        self.asked += 1;
        let random = self.ids.hash_one((self.asked, SystemTime::now()));
        (random >> 16) as u16
    }
}

/// An exchange that ended without an answer, before anything was measured.
pub(crate) fn unanswered(
    failed: &Failed,
    stage: Stage,
    started: SystemTime,
    query_bytes: usize,
) -> Exchange {
    Exchange {
        outcome: failed.outcome,
        stage: Some(stage),
        detail: failed.detail.clone(),
        started,
        times: Times::default(),
        query_bytes,
        reply: None,
        segments: Segments::default(),
        reused: None,
        connection: None,
    }
}
