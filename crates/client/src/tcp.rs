//! Exchanges over TCP (RFC 7766), with or without TLS (RFC 7858): a connection, and queries on it,
//! each with its two-byte length in the same segment.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{MsgFlags, SockType, recv, send};

use rustls::pki_types::ServerName;

use crate::client::{Server, Transport, unanswered};
use crate::exchange::{Closer, ConnectionFacts, Ending, Exchange, Outcome, Segments, Stage, Times};
use crate::failed::Failed;
use crate::query::Query;
use crate::segments::{self, Read, Seen, Watch};
use crate::socket::{self, Woken};
use crate::tcp_info::{Acknowledging, TcpInfo, acknowledge};
use crate::{stamps, tls};

/// An established connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    port: u16,
    facts: ConnectionFacts,
    late_acknowledgements: bool,
    /// The TLS session over it.
    secure: Option<Box<rustls::ClientConnection>>,
    /// The segments that a raw socket saw.
    seen: Vec<Seen>,
    /// The payload read so far, and the data segments that have arrived so far.
    bytes_read: u32,
    segments_counted: Option<u32>,
    /// The segments so far that had to wait for a lost one.
    out_of_order: u32,
}

/// A connection that was not established.
#[derive(Debug)]
pub(crate) struct Unopened {
    pub(crate) failed: Failed,
    pub(crate) stage: Stage,
    /// The duration of the TCP handshake, if the TLS handshake failed.
    pub(crate) connect: Option<Duration>,
    pub(crate) started: SystemTime,
    /// `None` if no SYN was sent.
    pub(crate) facts: Option<Box<ConnectionFacts>>,
}

impl Unopened {
    /// Describes a connection for which nothing was sent.
    pub(crate) fn unsent(failed: Failed, started: SystemTime) -> Self {
        Self { failed, stage: Stage::Connect, connect: None, started, facts: None }
    }
}

impl Connection {
    /// Opens a connection.
    pub(crate) fn open(
        server: &Server,
        number: u32,
        until: Instant,
        watch: Option<&Watch>,
    ) -> Result<Self, Unopened> {
        let unsent =
            |error: &io::Error| Unopened::unsent(Failed::of_system(error), SystemTime::now());
        let made = socket::towards(server.address, server.source, SockType::Stream, None)
            .map_err(|error| unsent(&error))?;
        if let Some(watch) = watch {
            watch.clear();
        }
        let (clock, started) = (Instant::now(), SystemTime::now());
        let mut facts = ConnectionFacts::begun(number, started);
        let connected = socket::start_connect(&made, server.address)
            .and_then(|done| if done { Ok(true) } else { await_connection(&made, until) });
        let elapsed = clock.elapsed();
        let info = TcpInfo::of(&made);
        facts.syn_again = info.again;
        let unopened = |failed, stage, facts: ConnectionFacts| Unopened {
            failed,
            stage,
            connect: facts.syn,
            started,
            facts: Some(Box::new(facts)),
        };
        match connected {
            Ok(true) => {}
            Ok(false) => return Err(unopened(Failed::timeout(), Stage::Connect, facts)),
            Err(error) => {
                let failed = Failed::of_system(&error);
                if failed.outcome == Outcome::Refused {
                    facts.ending = Ending::Refused;
                }
                return Err(unopened(failed, Stage::Connect, facts));
            }
        }
        // TCP's own sample, which does not exist if the SYN was retransmitted (Karn).
        let sample = info.rtt.filter(|rtt| info.again == Some(0) && *rtt > Duration::ZERO);
        facts.syn = Some(sample.filter(|rtt| *rtt <= elapsed).unwrap_or(elapsed));
        facts.ending = Ending::Fin;
        let port = socket::local_port(&made).unwrap_or(0);
        let mut made = Self {
            socket: made,
            port,
            facts,
            late_acknowledgements: server.late_acknowledgements,
            secure: None,
            seen: Vec::new(),
            bytes_read: 0,
            segments_counted: info.data_segments_in,
            out_of_order: 0,
        };
        if server.transport == Transport::Tls
            && let Err(failed) = made.make_secure(server, until)
        {
            let facts = made.close(watch);
            return Err(unopened(failed, Stage::Secure, facts));
        }
        Ok(made)
    }

    /// Performs the TLS handshake.
    fn make_secure(&mut self, server: &Server, until: Instant) -> Result<(), Failed> {
        let ip = ServerName::IpAddress(server.address.ip().into());
        let name = match &server.tls_name {
            Some(name) => ServerName::try_from(name.clone())
                .map_err(|_| Failed::new(Outcome::NotAsked, "the TLS name is no host name"))?,
            None => ip,
        };
        let failed = |error: &rustls::Error| {
            Failed::new(Outcome::HandshakeFailed, &error.to_string().to_lowercase())
        };
        let mut tls = rustls::ClientConnection::new(Arc::new(tls::over_tcp()), name)
            .map_err(|error| failed(&error))?;
        let (clock, began) = (Instant::now(), SystemTime::now());
        let mut buffer = vec![0; 1 << 16];
        let mut last = began;
        loop {
            // The last flight of TLS 1.3 leaves with the query. In a segment of its own, it would
            // hold back the query (Nagle) until the server acknowledges it, perhaps late.
            if !tls.is_handshaking() {
                break;
            }
            if tls.wants_write() {
                self.flush(&mut tls).map_err(|error| Failed::of_system(&error))?;
            }
            match socket::readable(&self.socket, until) {
                Ok(Woken::Ready) => {}
                Ok(Woken::Report) => {
                    stamps::departure(&self.socket);
                    match socket::pending_error(&self.socket) {
                        Some(error) => return Err(Failed::of_system(&error)),
                        None => continue,
                    }
                }
                Ok(Woken::Late) => return Err(Failed::timeout()),
                Err(error) => return Err(Failed::of_system(&error)),
            }
            let arrival = match self.read(&mut buffer).map(|(arrival, _)| arrival) {
                Ok(arrival) => arrival,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(Failed::of_system(&error)),
            };
            if arrival.bytes == 0 {
                self.facts.closer = Some(Closer::Server);
                let words = "the server closed during the handshake";
                return Err(Failed::new(Outcome::HandshakeFailed, words));
            }
            last = arrival.at;
            feed(&mut tls, &buffer[..arrival.bytes]).map_err(|error| failed(&error))?;
        }
        let own = clock.elapsed();
        self.facts.secure = Some(stamps::between(began, last, own).unwrap_or(own));
        self.secure = Some(Box::new(tls));
        Ok(())
    }

    /// Sends what TLS has to send.
    fn flush(&self, tls: &mut rustls::ClientConnection) -> io::Result<()> {
        let mut records = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut records)?;
        }
        let sent = send(self.socket.as_raw_fd(), &records, MsgFlags::MSG_NOSIGNAL)?;
        if sent < records.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    /// Returns whether the server has left it open.
    pub(crate) fn is_open(&self) -> bool {
        let mut byte = [0];
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        recv(self.socket.as_raw_fd(), &mut byte, flags) == Err(nix::errno::Errno::EAGAIN)
    }

    /// Asks on the connection. If this fails, the connection cannot be used again.
    pub(crate) fn ask(
        mut self,
        query: &Query,
        id: u16,
        until: Instant,
        reused: bool,
        watch: Option<&Watch>,
    ) -> (Exchange, Self) {
        let message = query.message(id);
        let mut framed = Vec::with_capacity(2 + message.len());
        let length = u16::try_from(message.len()).expect("a query is shorter than 65536 bytes");
        framed.extend(length.to_be_bytes());
        framed.extend(&message);
        let before = TcpInfo::of(&self.socket);
        if self.late_acknowledgements {
            acknowledge(&self.socket, Acknowledging::Late);
        }
        let (clock, asked) = (Instant::now(), SystemTime::now());
        self.facts.exchanges += 1;
        let came = self.send(&framed).and_then(|()| self.receive(until));
        let own = clock.elapsed();
        if let Some(watch) = watch {
            watch.take(self.port, &mut self.seen);
        }
        let begun = if reused { asked } else { self.facts.started };
        let frame = match came {
            Ok(frame) => frame,
            Err((stage, failed)) => {
                let exchange = unanswered(&failed, stage, begun, message.len());
                let exchange = self.note_failure(&failed, exchange, &before, reused);
                return (exchange, self);
            }
        };
        let left = frame.left.filter(|_| frame.stamped).unwrap_or(asked);
        let since_asked = |at| stamps::between(left, at, own);
        let times = Times {
            connect: self.facts.syn.filter(|_| !reused),
            secure: self.facts.secure.filter(|_| !reused),
            first_byte: since_asked(frame.first_at),
            query: since_asked(frame.last_at),
            total: if reused {
                stamps::between(asked, frame.last_at, own)
            } else {
                stamps::between(begun, frame.last_at, own + Duration::from_secs(3600))
            },
            by_kernel: frame.left.is_some() && frame.stamped,
        };
        let mut cut = Segments::default();
        if self.secure.is_none() {
            // TLS records, including tickets, tell nothing about how the reply was written.
            let start = self.bytes_read.wrapping_sub(u32::try_from(frame.bytes).unwrap_or(0));
            cut = segments::cut(&self.seen, start, 2 + u32::from(frame.length))
                .unwrap_or_else(|| segments::cut_by_reads(&frame.reads));
        }
        cut.query_again = self.sent_again_since(&before);
        let (outcome, detail, reply) = match query.judge(id, &frame.message) {
            Ok(reply) => (Outcome::Answered, String::new(), Some(reply)),
            Err(no_answer) => {
                let failed = no_answer.failed();
                (failed.outcome, failed.detail, None)
            }
        };
        let exchange = Exchange {
            outcome,
            stage: (outcome != Outcome::Answered).then_some(Stage::Reply),
            detail,
            started: begun,
            times,
            query_bytes: message.len(),
            reply,
            segments: cut,
            reused: Some(reused),
            connection: Some(self.facts.number),
        };
        (exchange, self)
    }

    /// Notes how the connection ended, and completes the exchange with what it knows.
    fn note_failure(
        &mut self,
        failed: &Failed,
        exchange: Exchange,
        before: &TcpInfo,
        reused: bool,
    ) -> Exchange {
        self.facts.ended = self.ended();
        if failed.outcome == Outcome::Reset {
            self.facts.ending = Ending::Reset;
        }
        if matches!(failed.outcome, Outcome::Reset | Outcome::Closed) {
            self.facts.closer = Some(Closer::Server);
        }
        Exchange {
            reused: Some(reused),
            connection: Some(self.facts.number),
            times: Times { connect: self.facts.syn.filter(|_| !reused), ..exchange.times },
            segments: Segments { query_again: self.sent_again_since(before), ..exchange.segments },
            ..exchange
        }
    }

    fn sent_again_since(&self, before: &TcpInfo) -> Option<u32> {
        Some(TcpInfo::of(&self.socket).again?.saturating_sub(before.again?))
    }

    /// Closes the connection and returns what is known about it. The server closed first if its FIN
    /// is there.
    pub(crate) fn close(mut self, watch: Option<&Watch>) -> ConnectionFacts {
        let info = TcpInfo::of(&self.socket);
        if let Some(watch) = watch {
            // A FIN may have arrived since the last answer.
            watch.take(self.port, &mut self.seen);
        }
        if self.facts.closer.is_none() {
            let open = self.is_open();
            self.facts.closer = Some(if open { Closer::Client } else { Closer::Server });
            self.facts.ended = if open { Some(SystemTime::now()) } else { self.ended() };
        }
        self.facts.client_bytes = info.bytes_out;
        self.facts.server_bytes = info.bytes_in;
        self.facts.client_segments = info.data_segments_out;
        self.facts.server_segments = info.data_segments_in;
        self.facts.client_again =
            info.again.map(|again| again.saturating_sub(self.facts.syn_again.unwrap_or(0)));
        self.facts.mss = info.advertised_mss;
        self.facts.rtt = info.min_rtt;
        self.facts
    }

    /// Returns when the server's FIN or RST arrived; otherwise now.
    fn ended(&self) -> Option<SystemTime> {
        let last = self.seen.iter().find(|segment| segment.fin || segment.reset);
        Some(last.map_or_else(SystemTime::now, |segment| segment.at))
    }

    fn send(&mut self, framed: &[u8]) -> Result<(), (Stage, Failed)> {
        if let Some(mut tls) = self.secure.take() {
            let sent = tls.writer().write_all(framed).and_then(|()| self.flush(&mut tls));
            self.secure = Some(tls);
            return sent.map_err(|error| (Stage::Query, Failed::of_system(&error)));
        }
        // A query is smaller than any send buffer, so it is accepted as a whole or not at all.
        let sent = send(self.socket.as_raw_fd(), framed, MsgFlags::MSG_NOSIGNAL);
        sent.map(drop).map_err(|error| (Stage::Query, Failed::of_system(&error.into())))
    }

    /// Reads what is there, and the number of data segments received so far.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<(stamps::Arrival, Option<u32>)> {
        let mut arrival = stamps::receive(&self.socket, buffer)?;
        let info = TcpInfo::of(&self.socket);
        let out_of_order = info.out_of_order.unwrap_or(0);
        if out_of_order != self.out_of_order {
            // What waited for a lost segment has the stamp of its own arrival, which was earlier.
            arrival = stamps::Arrival { at: SystemTime::now(), stamped: false, ..arrival };
            self.out_of_order = out_of_order;
        }
        Ok((arrival, info.data_segments_in))
    }

    fn receive(&mut self, until: Instant) -> Result<Frame, (Stage, Failed)> {
        let mut frame = Frame::empty();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let stage = if frame.bytes == 0 { Stage::Query } else { Stage::Reply };
            match socket::readable(&self.socket, until) {
                Ok(Woken::Ready) => {}
                Ok(Woken::Report) => {
                    frame.left = stamps::departure(&self.socket).or(frame.left);
                    match socket::pending_error(&self.socket) {
                        Some(error) => return Err((stage, Failed::of_system(&error))),
                        None => continue,
                    }
                }
                Ok(Woken::Late) => {
                    return Err((stage, Failed::new(Outcome::Timeout, &frame.received())));
                }
                Err(error) => return Err((stage, Failed::of_system(&error))),
            }
            let most = if self.secure.is_some() { usize::MAX } else { frame.missing() };
            let wanted = buffer.len().min(most);
            let (arrival, counted) = match self.read(&mut buffer[..wanted]) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err((stage, Failed::of_system(&error))),
            };
            if arrival.bytes == 0 {
                let words = match frame.bytes {
                    0 => "the server closed".to_owned(),
                    _ => frame.received(),
                };
                return Err((stage, Failed::new(Outcome::Closed, &words)));
            }
            let segments =
                counted.zip(self.segments_counted).map(|(now, then)| now.wrapping_sub(then));
            self.segments_counted = counted;
            self.bytes_read = self.bytes_read.wrapping_add(arrival.bytes as u32);
            match &mut self.secure {
                None => frame.take(&buffer[..arrival.bytes], arrival, segments),
                Some(tls) => {
                    let plain = decrypt(tls, &buffer[..arrival.bytes]).map_err(|error| {
                        let words = error.to_string().to_lowercase();
                        (stage, Failed::new(Outcome::Malformed, &words))
                    })?;
                    // Session tickets are not a reply.
                    if !plain.is_empty() {
                        frame.take(&plain, arrival, None);
                    }
                }
            }
            if frame.is_whole() {
                frame.left = stamps::departure(&self.socket).or(frame.left);
                return Ok(frame);
            }
            // On a persistent connection, Linux now and then delays acknowledgements. The measurement
            // should not depend on that if a server waits for the acknowledgement of its first
            // segments.
            if !self.late_acknowledgements && self.secure.is_none() {
                acknowledge(&self.socket, Acknowledging::Now);
            }
        }
    }
}

/// A reply as it arrives: two bytes of length, and the message.
#[derive(Debug)]
struct Frame {
    input: Vec<u8>,
    /// The number of bytes read.
    bytes: usize,
    length: u16,
    message: Vec<u8>,
    /// When the query left.
    left: Option<SystemTime>,
    first_at: SystemTime,
    last_at: SystemTime,
    stamped: bool,
    reads: Vec<Read>,
}

impl Frame {
    fn empty() -> Self {
        Self {
            input: Vec::new(),
            bytes: 0,
            length: 0,
            message: Vec::new(),
            left: None,
            first_at: SystemTime::UNIX_EPOCH,
            last_at: SystemTime::UNIX_EPOCH,
            stamped: true,
            reads: Vec::new(),
        }
    }

    /// Says how much of the reply has arrived; empty if nothing has.
    fn received(&self) -> String {
        let bytes = self.input.len();
        match self.input[..] {
            [] => String::new(),
            [_] => "only the first byte of the length arrived".to_owned(),
            // The server of another protocol: its first bytes are no length.
            [b'H', b'T', b'T', b'P', ..] => "HTTP instead of DNS arrived".to_owned(),
            // A record of TLS: its type, and 3 for its version (RFC 8446, section 5.1).
            [20..=23, 3, ..] => "TLS instead of DNS arrived".to_owned(),
            _ => format!("{} of {} bytes of the message arrived", bytes - 2, self.length),
        }
    }

    /// Returns how many bytes to read at most, so as not to read into a following reply. Before the
    /// length has arrived, the size is unknown; but there is one query at a time, so everything
    /// that arrives is its reply.
    fn missing(&self) -> usize {
        if self.input.len() < 2 { usize::MAX } else { self.whole() - self.input.len() }
    }

    fn whole(&self) -> usize {
        2 + usize::from(self.length)
    }

    fn take(&mut self, bytes: &[u8], arrival: stamps::Arrival, segments: Option<u32>) {
        if self.bytes == 0 {
            self.first_at = arrival.at;
        }
        self.last_at = arrival.at;
        self.stamped &= arrival.stamped;
        self.bytes += bytes.len();
        self.reads.push(Read { bytes: bytes.len(), segments });
        self.input.extend(bytes);
        if let [high, low, ..] = self.input[..] {
            self.length = u16::from_be_bytes([high, low]);
        }
    }

    fn is_whole(&mut self) -> bool {
        let whole = self.input.len() >= 2 && self.input.len() >= self.whole();
        if whole {
            self.message = self.input[2..self.whole()].to_vec();
        }
        whole
    }
}

/// Passes received records to TLS.
fn feed(tls: &mut rustls::ClientConnection, mut records: &[u8]) -> Result<(), rustls::Error> {
    while !records.is_empty() {
        // Reading from a slice fails only if TLS has no room, and processing makes room.
        let read = tls.read_tls(&mut records).unwrap_or(0);
        tls.process_new_packets()?;
        if read == 0 {
            break;
        }
    }
    Ok(())
}

/// Returns the decrypted content of these records.
fn decrypt(tls: &mut rustls::ClientConnection, records: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    feed(tls, records)?;
    let mut plain = Vec::new();
    // WouldBlock means that there is no more for now.
    let _ = tls.reader().read_to_end(&mut plain);
    Ok(plain)
}

fn await_connection(made: &OwnedFd, until: Instant) -> io::Result<bool> {
    match socket::writable(made, until)? {
        Woken::Late => Ok(false),
        Woken::Ready | Woken::Report => match socket::pending_error(made) {
            Some(error) => Err(error),
            None => Ok(true),
        },
    }
}
