//! A client's connections to its server: opened for one query, or kept for more queries.

use narrows_transport::{quic, tls};
use narrows_units::settings::{any, whole};
use narrows_units::{ConfigError, MaybeTime, Span, Time, choice, keys};

use super::slab::Slab;
use crate::{Dial, Host, Random, Socket};

choice! {
    #[derive(Copy)]
    /// How a client uses its connections.
    pub enum Reuse {
        /// Opens one for each query, and closes it when the reply has arrived.
        Never,
        /// Uses them for later queries too.
        Persistent(Persistent),
    }
    with Persistent
}

impl Reuse {
    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Never => Ok(()),
            Self::Persistent(persistent) => persistent.check(),
        }
    }
}

keys! {
    #[derive(Copy)]
    /// How a client keeps its connections.
    pub struct Persistent as "PersistentConnections" {
        /// The client closes a connection that has had no query for this long; `None`: never.
        idle_timeout: Option<Span> = None, any();
        /// The number of queries after which it closes one; `None`: no limit.
        queries: Option<u32> = None, whole(1, 1_000_000);
        /// Whether queries are sent while others wait for their replies.
        pipelined: bool = false, any();
        /// Whether all workers use the same connections. Otherwise each has its own.
        shared: bool = false, any();
        /// Whether a connection stays open when a reply does not come in time, and the next query
        /// uses it.
        after_silence: bool = false, any();
    }
}

/// A query under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) worker: u32,
    /// The row of the attempt.
    pub(super) row: u32,
    /// What had crossed the connection before.
    before: Crossed,
    /// Whether it is in the SYN (RFC 7413), or follows the TLS hello directly (RFC 8446, 2.3; in
    /// QUIC, RFC 9001, 4.6).
    pub(super) early: bool,
}

/// The IP packets, and their bytes, that have crossed a connection: from the client, and to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crossed {
    pub(super) sent: (u32, u64),
    pub(super) received: (u32, u64),
}

impl Crossed {
    /// Returns the counts until now.
    pub(super) fn until_now(host: &dyn Host, socket: Socket) -> Self {
        Self { sent: host.sent(socket), received: host.sent(socket.other()) }
    }

    /// Returns the later of two counts of a connection.
    fn or_later(self, other: Self) -> Self {
        Self { sent: self.sent.max(other.sent), received: self.received.max(other.received) }
    }
}

/// A connection of the client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    /// The worker that it belongs to; `None`: all workers.
    owner: Option<u32>,
    pub(super) opened_at: Time,
    pub(super) established: bool,
    /// The number of queries written, or to be written when it is established.
    pub(super) queries: u32,
    /// The number of queries written.
    pub(super) written: u32,
    /// Queries without a reply, in the order in which they were asked.
    pub(super) waiting: Vec<Asked>,
    /// Whether it is being closed: it takes nothing new.
    pub(super) closing: bool,
    /// The row that its packets are counted for; `None`: it serves several queries.
    only_row: Option<u32>,
    /// What had crossed it when packets were last counted for an attempt.
    counted: Crossed,
    /// When its idle time ends.
    due: MaybeTime,
    /// When the pending timer expires.
    armed: MaybeTime,
}

/// The connections of a group.
#[derive(Debug)]
pub(super) struct Connections {
    open: Slab<Connection>,
    reuse: Reuse,
    /// The connections' timers have this number and those above.
    first_token: u32,
}

impl Connections {
    pub(super) fn new(reuse: Reuse, first_token: u32) -> Self {
        Self { open: Slab::default(), reuse, first_token }
    }

    /// Returns a connection for a worker's attempt (`row`), an existing one or a new one.
    pub(super) fn find(
        &mut self,
        host: &mut dyn Host,
        (dial, tls): (&Dial, Option<(tls::Client, Option<quic::Config>)>),
        random: &mut Random,
        (worker, row): (u32, u32),
    ) -> (Asked, &mut Connection) {
        let persistent = match self.reuse {
            Reuse::Never => None,
            Reuse::Persistent(persistent) => Some(persistent),
        };
        let owner = persistent.is_none_or(|persistent| !persistent.shared).then_some(worker);
        let usable = |connection: &Connection| {
            persistent.is_some_and(|persistent| {
                connection.owner == owner
                    && !connection.closing
                    && persistent.queries.is_none_or(|most| connection.queries < most)
                    && (persistent.pipelined || connection.waiting.is_empty())
            })
        };
        let found = self.open.numbered().find(|(_, connection)| usable(connection));
        let number = match found.map(|(number, _)| number) {
            Some(number) => number,
            None => {
                let number = self.open.next_number();
                let dial = Dial { number, ..*dial };
                let socket = match tls {
                    Some((tls, Some(quic))) => host.open_quic(&dial, tls, quic, 0),
                    Some((tls, None)) => host.open_securely(&dial, tls, 0, random),
                    None => host.open(&dial, random),
                };
                self.open.put(Connection {
                    socket,
                    owner,
                    opened_at: host.now(),
                    established: false,
                    queries: 0,
                    written: 0,
                    waiting: Vec::new(),
                    closing: false,
                    only_row: persistent.is_none().then_some(row),
                    counted: Crossed::default(),
                    due: MaybeTime::NONE,
                    armed: MaybeTime::NONE,
                })
            }
        };
        let connection = self.open.get_mut(number).expect("it was found, or put there");
        let before = Crossed::until_now(host, connection.socket);
        // Only the first query is written before the SYN leaves.
        let early = connection.queries == 0 && host.takes_early_data(connection.socket);
        connection.queries += 1;
        let asked = Asked { worker, row, before, early };
        connection.waiting.push(asked);
        connection.due = MaybeTime::NONE;
        (asked, connection)
    }

    /// Returns the connection of a socket, with its number.
    pub(super) fn of(&mut self, host: &dyn Host, socket: Socket) -> Option<(u32, &mut Connection)> {
        let number = host.number(socket);
        let connection = self.open.get_mut(number).filter(|c| c.socket == socket)?;
        Some((number, connection))
    }

    /// Returns the connection on which a row's query waits.
    pub(super) fn with(&self, row: u32) -> Option<Socket> {
        let asks = |connection: &&Connection| connection.waiting.iter().any(|a| a.row == row);
        self.open.iter().find(asks).map(|connection| connection.socket)
    }

    /// Returns whether a connection on which a reply did not come in time is used again.
    pub(super) fn keeps_silent_ones(&self) -> bool {
        matches!(self.reuse, Reuse::Persistent(Persistent { after_silence: true, .. }))
    }

    /// Decides what happens to a connection after a reply has arrived or is no longer wanted.
    pub(super) fn release(&mut self, host: &mut dyn Host, number: u32) {
        let first_token = self.first_token;
        let Some(connection) = self.open.get_mut(number) else { return };
        if !connection.waiting.is_empty() || connection.closing {
            return;
        }
        match self.reuse {
            Reuse::Never => connection.close(host),
            Reuse::Persistent(persistent)
                if persistent.queries.is_some_and(|most| connection.queries >= most) =>
            {
                connection.close(host);
            }
            Reuse::Persistent(persistent) => match persistent.idle_timeout {
                Some(Span::ZERO) => connection.close(host),
                Some(timeout) => {
                    connection.due = (host.now() + timeout).into();
                    connection.arm(host, first_token + number);
                }
                None => {}
            },
        }
    }

    /// Closes a connection if its idle time has ended.
    pub(super) fn timer(&mut self, host: &mut dyn Host, token: u32) {
        let number = token - self.first_token;
        let Some(connection) = self.open.get_mut(number) else { return };
        if !connection.armed.is(host.now()) {
            return;
        }
        connection.armed = MaybeTime::NONE;
        match connection.due.get() {
            Some(due) if due <= host.now() => connection.close(host),
            Some(_) => connection.arm(host, token),
            None => {}
        }
    }

    /// Removes a connection that is over.
    pub(super) fn forget(&mut self, number: u32) -> Option<Connection> {
        self.open.take(number)
    }
}

impl Connection {
    /// Closes it: it takes no new queries.
    pub(super) fn close(&mut self, host: &mut dyn Host) {
        self.closing = true;
        self.due = MaybeTime::NONE;
        host.close(self.socket);
    }

    /// Ends the wait of a row's query, answered or not. Returns the query, and the counts from
    /// which its packets are counted.
    pub(super) fn end_wait(&mut self, host: &dyn Host, row: u32) -> Option<(Asked, Crossed)> {
        let place = self.waiting.iter().position(|asked| asked.row == row)?;
        let from = self.count_from(host);
        Some((self.waiting.remove(place), from))
    }

    /// Ends the wait of all queries and returns them. Also returns the row for which packets are
    /// counted, if any, and the counts from which they are. This is the oldest query's row, because
    /// nothing is left for the others.
    pub(super) fn end_all(&mut self, host: &dyn Host) -> (Vec<Asked>, Option<(u32, Crossed)>) {
        let counts = match (self.only_row, self.waiting.first()) {
            (Some(row), _) => Some((row, Crossed::default())),
            (None, Some(&Asked { row, .. })) => Some((row, self.count_from(host))),
            (None, None) => None,
        };
        (std::mem::take(&mut self.waiting), counts)
    }

    /// Returns the counts from which packets are counted for an attempt that ends now. These are
    /// the counts when the oldest waiting query was asked, or those at which another attempt's
    /// count has ended since. Each packet that crosses while queries wait is therefore counted
    /// once.
    fn count_from(&mut self, host: &dyn Host) -> Crossed {
        let oldest = self.waiting.first().expect("the query of the attempt waits");
        let from = oldest.before.or_later(self.counted);
        self.counted = Crossed::until_now(host, self.socket);
        from
    }

    /// Sets a timer for the end of its idle time.
    fn arm(&mut self, host: &mut dyn Host, token: u32) {
        if let Some(due) = self.due.get()
            && self.armed.is_after(due)
        {
            self.armed = due.into();
            host.wake(due, token);
        }
    }
}

/// Describes how to reach the server; `number` is filled in later.
pub(super) fn dial(server: usize, paths: [usize; 2], tcp: usize, port: u16) -> Dial {
    let [there, back] = paths;
    Dial { there, back, server, port, tcp, number: 0, dns: true }
}
