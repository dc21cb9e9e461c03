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
use crate::quic::QuicConnection;
use crate::schedule::Schedule;
use crate::segments::Watch;
use crate::tcp::{Connection, Unopened};
use crate::{socket, udp};

/// The server to ask, and how to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: SocketAddr,
    /// How queries travel.
    pub transport: Transport,
    /// The address to ask from; `None`: the system chooses one.
    pub source: Option<IpAddr>,
    /// The time limit of a whole exchange, including handshakes, as on RIPE Atlas.
    pub timeout: Duration,
    /// Whether queries share a connection for as long as it stays open.
    pub reuse: bool,
    /// Whether to watch the arriving packets, if this process may.
    pub watch: bool,
    /// Whether TCP should acknowledge late (`TCP_QUICKACK` 0), as it does within a conversation.
    /// Otherwise Linux acknowledges a connection's first segments at once.
    pub late_acknowledgements: bool,
    /// The name that TLS and QUIC ask for (RFC 6066, section 3); `None`: no name.
    pub tls_name: Option<String>,
}

impl Server {
    /// Describes a server as RIPE Atlas asks it: five seconds, a connection for each query.
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
            tls_name: None,
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
    /// RFC 7858.
    Tls,
    /// RFC 9250.
    Quic,
}

/// A client that asks one server, one query at a time.
#[derive(Debug)]
pub struct Client {
    server: Server,
    watch: Option<Watch>,
    connection: Option<Persistent>,
    opened: u32,
    finished: Vec<ConnectionFacts>,
    ids: RandomState,
    asked: u64,
    // The kernel stamps packets only while some socket wants it, and starts with a delay.
    _keeps_stamping: OwnedFd,
}

impl Client {
    /// Creates a client of this server.
    ///
    /// # Errors
    ///
    /// Returns an error if no socket can be created, or if the source address does not belong to
    /// this machine.
    pub fn new(server: Server) -> io::Result<Self> {
        let keeper = socket::towards(server.address, server.source, SockType::Datagram, None)?;
        let watch = (server.watch && server.transport == Transport::Tcp)
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

    /// Returns whether it sees the arriving packets. Otherwise the sizes of segments are known only
    /// if no two arrived at once.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.watch.is_some()
    }

    /// Asks, and waits for the result.
    pub fn ask(&mut self, query: &Query) -> Exchange {
        let id = self.id();
        match self.server.transport {
            Transport::Udp => udp::ask(&self.server, query, id),
            Transport::Tcp | Transport::Tls | Transport::Quic => self.ask_on_connection(query, id),
        }
    }

    /// Asks as a stub resolver does: again after each of the schedule's timeouts, until there is
    /// an answer or no attempt is left. Returns one exchange for each attempt. [`Server::timeout`]
    /// does not apply. Does not wait for an answer beyond its attempt's timeout.
    pub fn ask_again(&mut self, query: &Query, schedule: &Schedule) -> Vec<Exchange> {
        let usual = self.server.timeout;
        let mut exchanges = Vec::new();
        for timeout in schedule.timeouts() {
            self.server.timeout = *timeout;
            let exchange = self.ask(query);
            let over = !matches!(exchange.outcome, Outcome::Timeout | Outcome::Mismatched);
            exchanges.push(exchange);
            if over {
                break;
            }
        }
        self.server.timeout = usual;
        exchanges
    }

    /// Returns what is known about the connections that ended since the last call.
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
        if let Some(mut connection) = self.connection.take() {
            if connection.is_open() {
                let (exchange, left) = connection.ask(query, id, until, true, self.watch.as_ref());
                self.keep_or_finish(left, &exchange);
                return exchange;
            }
            // It was idle for too long and the server has closed it, so a client that wants an
            // answer opens another (RFC 7766, section 6.2.4).
            self.finish(connection);
        }
        let number = self.opened;
        self.opened += 1;
        let opened = if self.server.transport == Transport::Quic {
            QuicConnection::open(&self.server, number, until)
                .map(|made| Persistent::Quic(made.into()))
        } else {
            Connection::open(&self.server, number, until, self.watch.as_ref())
                .map(|made| Persistent::Tcp(made.into()))
        };
        match opened {
            Ok(made) => {
                let (exchange, left) = made.ask(query, id, until, false, self.watch.as_ref());
                self.keep_or_finish(left, &exchange);
                exchange
            }
            Err(unopened) => {
                let bytes = query.message(id).len();
                let Unopened { failed, stage, connect, started, facts } = unopened;
                let exchange = unanswered(&failed, stage, started, bytes);
                let connection = facts.as_ref().map(|facts| facts.number);
                let times = Times { connect, ..exchange.times };
                self.finished.extend(facts.map(|facts| *facts));
                Exchange { reused: Some(false), connection, times, ..exchange }
            }
        }
    }

    fn keep_or_finish(&mut self, connection: Persistent, exchange: &Exchange) {
        if self.server.reuse && exchange.outcome == Outcome::Answered {
            self.connection = Some(connection);
        } else {
            self.finish(connection);
        }
    }

    fn finish(&mut self, connection: Persistent) {
        self.finished.push(connection.close(self.watch.as_ref()));
    }

    /// Returns a number that is hard to guess, as RFC 5452 demands.
    fn id(&mut self) -> u16 {
        self.asked += 1;
        let random = self.ids.hash_one((self.asked, SystemTime::now()));
        (random >> 16) as u16
    }
}

/// A persistent connection of any transport.
#[derive(Debug)]
enum Persistent {
    Tcp(Box<Connection>),
    Quic(Box<QuicConnection>),
}

impl Persistent {
    fn is_open(&mut self) -> bool {
        match self {
            Self::Tcp(made) => made.is_open(),
            Self::Quic(made) => made.is_open(),
        }
    }

    fn ask(
        self,
        query: &Query,
        id: u16,
        until: Instant,
        reused: bool,
        watch: Option<&Watch>,
    ) -> (Exchange, Self) {
        match self {
            Self::Tcp(made) => {
                let (exchange, left) = made.ask(query, id, until, reused, watch);
                (exchange, Self::Tcp(left.into()))
            }
            Self::Quic(made) => {
                let (exchange, left) = made.ask(query, until, reused);
                (exchange, Self::Quic(left.into()))
            }
        }
    }

    fn close(self, watch: Option<&Watch>) -> ConnectionFacts {
        match self {
            Self::Tcp(made) => made.close(watch),
            Self::Quic(made) => made.close(),
        }
    }
}

/// Describes an exchange that ended unanswered before anything was measured.
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
