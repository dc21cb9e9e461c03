//! Connections that continue with ordinary TCP: a [`Stream`] on the client's side and a kernel
//! socket on the server's.
//!
//! In the kernel, the server's own listener adopts such connections. Here only the gateway can
//! continue with the client's sequence numbers, so it relays the bytes: zone transfers, long and
//! truncated replies, split and pipelined queries, a second query. The client sees no difference;
//! the server sees the gateway's address.
//!
//! There are limits for connections at once, for those of one source, and for the buffers of each
//! ([`SEND_BUFFER`](super::stream::SEND_BUFFER) and
//! [`RECEIVE_BUFFER`](super::stream::RECEIVE_BUFFER), which only grow as needed). What the client
//! does not accept is not read from the server.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};

use super::peer::Peer;
use super::poller::{Interest, Poller, Token};
use super::proxied::{self, Transport};
use super::stream::{Segment, Start, Stream};
use crate::core::{Connection, TooBig};

/// A connection without any traffic for this long is closed. It is longer than servers wait (NSD,
/// 120 s), so that they decide.
const IDLE: Duration = Duration::from_secs(150);

/// All connections that continue with TCP.
#[derive(Debug)]
pub(super) struct Relay {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    by_connection: HashMap<Connection, usize>,
    /// The number of connections of each source that has any.
    sources: HashMap<u128, usize>,
    deadlines: BTreeSet<(Duration, usize)>,
    limit: usize,
    /// Whether a header at the start of each connection to the server names its client.
    proxied: bool,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    connection: Connection,
    peer: Peer,
    stream: Stream,
    server: TcpStream,
    connected: bool,
    /// What the server must get before the client's bytes.
    header: Vec<u8>,
    /// The server has no more to send.
    server_finished: bool,
    /// The server knows that the client has no more to send.
    half_closed: bool,
    moved_at: Duration,
    deadline: Option<Duration>,
    interest: Interest,
}

impl Relay {
    /// Creates a relay without connections. At most `limit` connections may exist at once. With
    /// `proxied`, each connection to the server begins with a header of the PROXY protocol.
    pub(super) fn new(limit: usize, proxied: bool) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_connection: HashMap::new(),
            sources: HashMap::new(),
            deadlines: BTreeSet::new(),
            limit,
            proxied,
            buffer: vec![0; 65_536],
        }
    }

    /// Returns how many connections there are.
    pub(super) fn len(&self) -> usize {
        self.by_connection.len()
    }

    /// Returns the index of the connection that a segment with this sequence number may belong to.
    pub(super) fn find(&self, connection: &Connection, seq: u32) -> Option<usize> {
        let at = *self.by_connection.get(connection)?;
        self.entries[at].as_ref().filter(|entry| entry.stream.fits(seq)).map(|_| at)
    }

    /// Returns whether a client may have one more connection. While half of all are taken, one
    /// source has an eighth at most, and at least one.
    pub(super) fn has_room(&self, client: IpAddr) -> bool {
        let of_source = self.sources.get(&source(client)).copied().unwrap_or(0);
        let share = if self.len() < self.limit / 2 { self.limit } else { (self.limit / 8).max(1) };
        self.len() < self.limit && of_source < share
    }

    /// Takes a connection over, for which there is room, and opens the server's side of it.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no socket.
    pub(super) fn open(
        &mut self,
        connection: Connection,
        peer: Peer,
        start: &Start,
        server: SocketAddr,
        now: Duration,
    ) -> io::Result<usize> {
        self.forget(&connection);
        let (server, connected) = begin_to_connect(server)?;
        let names = || proxied::header(Transport::Stream, connection.client, connection.server);
        let entry = Entry {
            connection,
            peer,
            stream: Stream::adopt(start, now),
            server,
            connected,
            header: if self.proxied { names() } else { Vec::new() },
            server_finished: false,
            half_closed: false,
            moved_at: now,
            deadline: None,
            interest: Interest::default(),
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[at] = Some(entry);
        self.by_connection.insert(connection, at);
        *self.sources.entry(source(connection.client.ip())).or_default() += 1;
        Ok(at)
    }

    /// Forgets a connection without telling the client, which has begun another one.
    pub(super) fn forget(&mut self, connection: &Connection) {
        if let Some(&at) = self.by_connection.get(connection) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        let Some(entry) = self.entries[at].take() else { return };
        self.free.push(at);
        self.by_connection.remove(&entry.connection);
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, at));
        }
        let from = source(entry.connection.client.ip());
        if let Some(count) = self.sources.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&from);
            }
        }
    }

    /// Handles a router's report that a segment was too long for the path. If the segment belongs
    /// to a connection here whose segments are shorter now, returns that connection.
    pub(super) fn shorten(&mut self, message: &TooBig, now: Duration) -> Option<usize> {
        let at = *self.by_connection.get(&message.ends)?;
        let stream = &mut self.entries[at].as_mut()?.stream;
        stream.shorten(message.seq, message.mss, now).then_some(at)
    }

    /// Handles a segment of the client. Call [`Relay::pump`] afterwards.
    pub(super) fn handle_segment(
        &mut self,
        at: usize,
        peer: Peer,
        segment: &Segment<'_>,
        now: Duration,
    ) {
        if let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) {
            entry.peer = peer;
            entry.moved_at = now;
            entry.stream.handle_segment(segment, now);
        }
    }

    /// Returns when the next call of [`Relay::due`] is due.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Handles a timeout that is due, and returns its connection, which must then be pumped.
    pub(super) fn due(&mut self, now: Duration) -> Option<usize> {
        let &(deadline, at) = self.deadlines.first().filter(|&&(deadline, _)| deadline <= now)?;
        self.deadlines.remove(&(deadline, at));
        let entry = self.entries[at].as_mut()?;
        entry.deadline = None;
        entry.stream.handle_timeout(now);
        if now.saturating_sub(entry.moved_at) >= IDLE {
            if entry.server_finished {
                entry.stream.abort();
            } else {
                // Try an orderly end first: send the client a FIN, and close the server's side.
                entry.server_finished = true;
                entry.stream.finish();
                let _ = entry.server.shutdown(Shutdown::Both);
                entry.moved_at = now;
            }
        }
        Some(at)
    }

    /// Relays what it can in both directions, passes segments for the client to `send`, and waits
    /// for the server's side with `poller`.
    ///
    /// # Errors
    ///
    /// Returns the poller's error.
    pub(super) fn pump(
        &mut self,
        at: usize,
        now: Duration,
        poller: &Poller,
        mut send: impl FnMut(Connection, Peer, &Segment<'_>),
    ) -> io::Result<()> {
        let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        entry.feed_server(now);
        entry.read_server(&mut self.buffer, now);
        let (connection, peer) = (entry.connection, entry.peer);
        entry.stream.transmit(now, |segment| send(connection, peer, segment));
        if entry.stream.is_closed() {
            self.remove(at); // with its socket, which the poller forgets automatically
            return Ok(());
        }
        let interest = entry.interest();
        let before = std::mem::replace(&mut entry.interest, interest);
        poller.change(&entry.server, Token::Relay(at as u32), before, interest)?;
        let idle = entry.moved_at + IDLE;
        let deadline = entry.stream.timeout().map_or(idle, |timeout| timeout.min(idle));
        if entry.deadline != Some(deadline) {
            if let Some(before) = entry.deadline.replace(deadline) {
                self.deadlines.remove(&(before, at));
            }
            self.deadlines.insert((deadline, at));
        }
        Ok(())
    }
}

impl Entry {
    /// Relays the client's bytes to the server.
    fn feed_server(&mut self, now: Duration) {
        if !self.connected {
            match self.server.take_error() {
                Ok(None) if self.server.peer_addr().is_ok() => self.connected = true,
                Ok(None) => return,
                // There is no listener, or it is unreachable. The client gets a RST, as from the
                // kernel.
                Ok(Some(_)) | Err(_) => return self.stream.abort(),
            }
        }
        while !self.header.is_empty() {
            match self.server.write(&self.header) {
                Ok(written) => drop(self.header.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.stream.abort(),
            }
        }
        while !self.stream.received().is_empty() {
            if self.server_finished {
                // Nobody reads the client's bytes any more. The client still gets what is left, and
                // may finish.
                self.stream.consume(self.stream.received().len());
                continue;
            }
            match self.server.write(self.stream.received()) {
                Ok(written) => {
                    self.stream.consume(written);
                    self.moved_at = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.stream.abort(),
            }
        }
        if self.stream.client_finished() && !self.half_closed {
            self.half_closed = true;
            let _ = self.server.shutdown(Shutdown::Write);
        }
    }

    /// Relays the server's bytes to the client, as far as there is room.
    fn read_server(&mut self, buffer: &mut [u8], now: Duration) {
        while self.connected && !self.server_finished && self.stream.room() > 0 {
            let room = self.stream.room().min(buffer.len());
            match self.server.read(&mut buffer[..room]) {
                Ok(0) => {
                    self.server_finished = true;
                    self.stream.finish();
                }
                Ok(length) => {
                    self.stream.write(&buffer[..length]);
                    self.moved_at = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.stream.abort(),
            }
        }
    }

    fn interest(&self) -> Interest {
        let open = !self.server_finished;
        Interest {
            readable: self.connected && open && self.stream.room() > 0,
            writable: open
                && (!self.connected
                    || !self.header.is_empty()
                    || !self.stream.received().is_empty()),
        }
    }
}

/// A socket that is connected or will be, and which of the two.
fn begin_to_connect(to: SocketAddr) -> io::Result<(TcpStream, bool)> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    let connected = match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => true,
        Err(Errno::EINPROGRESS) => false,
        Err(error) => return Err(error.into()),
    };
    Ok((TcpStream::from(socket), connected))
}

/// Returns the source of a client's address, as for rates: an IPv4 address, or the first 64 bits of
/// an IPv6 address.
fn source(client: IpAddr) -> u128 {
    match client {
        IpAddr::V4(address) => address.to_bits().into(),
        // Shifted so that no prefix equals an IPv4 address.
        IpAddr::V6(address) => (address.to_bits() >> 64 << 64) | 1 << 63,
    }
}
