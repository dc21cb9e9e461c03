//! Exchanges over QUIC (RFC 9250): a connection, and a stream on it for each query.
//!
//! quinn-proto is QUIC without I/O; the socket, the clock and the stamps are ours. A query leaves
//! with the handshake's last packet, so a first query takes two round trips.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::socket::{MsgFlags, SockType, send};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection as State, ConnectionError, ConnectionHandle, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, StreamId, VarInt,
};

use crate::client::{Server, unanswered};
use crate::exchange::{Closer, ConnectionFacts, Ending, Exchange, Outcome, Segments, Stage, Times};
use crate::failed::Failed;
use crate::query::Query;
use crate::socket::{self, Woken};
use crate::tcp::Unopened;
use crate::{stamps, tls};

/// An established connection.
pub(crate) struct QuicConnection {
    socket: OwnedFd,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    state: State,
    facts: ConnectionFacts,
    /// When the last packet arrived, and whether the kernel said so.
    came: Option<stamps::Arrival>,
    /// When the last packet left, according to the kernel or the process.
    left: Option<(SystemTime, bool)>,
    lost: Option<ConnectionError>,
    buffer: Vec<u8>,
}

impl fmt::Debug for QuicConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicConnection").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl QuicConnection {
    /// Opens a connection.
    pub(crate) fn open(server: &Server, number: u32, until: Instant) -> Result<Self, Unopened> {
        let unsent = |failed| Unopened::unsent(failed, SystemTime::now());
        let made = socket::towards(server.address, server.source, SockType::Datagram, None)
            .and_then(|made| socket::start_connect(&made, server.address).map(|_| made))
            .map_err(|error| unsent(Failed::of_system(&error)))?;
        let crypto = QuicClientConfig::try_from(tls::over_quic())
            .expect("ring has the suite of QUIC's first packets");
        let config = ClientConfig::new(Arc::new(crypto));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let name = server.tls_name.clone().unwrap_or_else(|| server.address.ip().to_string());
        let (clock, started) = (Instant::now(), SystemTime::now());
        let (handle, state) = endpoint
            .connect(clock, config, server.address, &name)
            .map_err(|error| unsent(Failed::new(Outcome::NotAsked, &error.to_string())))?;
        let mut made = Self {
            socket: made,
            server: server.address,
            endpoint,
            handle,
            state,
            facts: ConnectionFacts::begun(number, started),
            came: None,
            left: None,
            lost: None,
            buffer: vec![0; 1 << 16],
        };
        let connected = made.drive(until, |state| !state.is_handshaking());
        let elapsed = clock.elapsed();
        match connected {
            Ok(()) => {
                let took = made.came.and_then(|came| stamps::between(started, came.at, elapsed));
                made.facts.syn = Some(took.unwrap_or(elapsed));
                made.facts.ending = Ending::Fin;
                Ok(made)
            }
            Err(failed) => {
                if failed.outcome == Outcome::Refused {
                    made.facts.ending = Ending::Refused;
                }
                Err(Unopened {
                    failed,
                    stage: Stage::Connect,
                    connect: None,
                    started,
                    facts: Some(Box::new(made.facts)),
                })
            }
        }
    }

    /// Returns whether neither side has closed it.
    pub(crate) fn is_open(&mut self) -> bool {
        // Something may have arrived meanwhile, such as the server's close.
        let _ = self.drive(Instant::now(), |_| false);
        self.lost.is_none() && !self.state.is_closed()
    }

    /// Asks on a stream of its own. If this fails, the connection cannot be used again.
    pub(crate) fn ask(mut self, query: &Query, until: Instant, reused: bool) -> (Exchange, Self) {
        // RFC 9250, section 4.2.1: the number is 0, because the stream identifies the query.
        let message = query.message(0);
        let (clock, asked) = (Instant::now(), SystemTime::now());
        self.facts.exchanges += 1;
        let begun = if reused { asked } else { self.facts.started };
        let connect = self.facts.syn.filter(|_| !reused);
        let number = Some(self.facts.number);
        let exchange_of = |failed: &Failed, stage| Exchange {
            reused: Some(reused),
            connection: number,
            times: Times { connect, ..Times::default() },
            ..unanswered(failed, stage, begun, message.len())
        };
        let frame = self.send(&message).and_then(|(stream, left)| {
            let (first, last, bytes) = self.receive(stream, until)?;
            Ok((left, first, last, bytes))
        });
        let own = clock.elapsed();
        let (left, first, last, bytes) = match frame {
            Ok(frame) => frame,
            Err((stage, failed)) => {
                if matches!(failed.outcome, Outcome::Closed | Outcome::Reset) {
                    self.facts.closer = Some(Closer::Server);
                    self.facts.ended = Some(SystemTime::now());
                }
                return (exchange_of(&failed, stage), self);
            }
        };
        let since = |from, at| stamps::between(from, at, own);
        let total = if reused { own } else { own + Duration::from_secs(3600) };
        let reply = match query.judge(0, &bytes) {
            Ok(reply) => reply,
            Err(no_answer) => return (exchange_of(&no_answer.failed(), Stage::Reply), self),
        };
        let exchange = Exchange {
            outcome: Outcome::Answered,
            stage: None,
            detail: String::new(),
            started: begun,
            times: Times {
                connect,
                secure: None,
                first_byte: since(left.0, first.at),
                query: since(left.0, last.at),
                total: stamps::between(begun, last.at, total),
                by_kernel: left.1 && last.stamped,
            },
            query_bytes: message.len(),
            reply: Some(reply),
            segments: Segments::default(),
            reused: Some(reused),
            connection: number,
        };
        (exchange, self)
    }

    /// Closes the connection and returns what is known about it.
    pub(crate) fn close(mut self) -> ConnectionFacts {
        if self.facts.closer.is_none() {
            let open = self.is_open();
            self.facts.closer = Some(if open { Closer::Client } else { Closer::Server });
            self.facts.ended = Some(SystemTime::now());
        }
        self.facts.rtt = Some(self.state.stats().path.min_rtt);
        // RFC 9250, section 8.4: DOQ_NO_ERROR.
        self.state.close(Instant::now(), VarInt::from_u32(0), Vec::new().into());
        self.transmit();
        self.facts
    }

    /// Queues a query on a new stream and sends it. Returns when it left.
    fn send(&mut self, message: &[u8]) -> Result<(StreamId, (SystemTime, bool)), (Stage, Failed)> {
        let failed = |what: &str| (Stage::Query, Failed::new(Outcome::Closed, what));
        let stream = self.state.streams().open(Dir::Bi).ok_or(failed("it takes no stream"))?;
        let length = u16::try_from(message.len()).expect("a query is shorter than 65536 bytes");
        let framed = [&length.to_be_bytes()[..], message].concat();
        let mut sending = self.state.send_stream(stream);
        // A query is far smaller than any server's first window.
        let written = sending.write(&framed).map_err(|error| failed(&error.to_string()))?;
        if written < framed.len() || sending.finish().is_err() {
            return Err(failed("it takes no query"));
        }
        self.transmit();
        Ok((stream, self.left.unwrap_or((SystemTime::now(), false))))
    }

    /// Reads a stream to its end. Returns when its first and its last bytes arrived, and the
    /// message.
    fn receive(
        &mut self,
        stream: StreamId,
        until: Instant,
    ) -> Result<(stamps::Arrival, stamps::Arrival, Vec<u8>), (Stage, Failed)> {
        let mut input = Vec::new();
        let mut first = None;
        loop {
            let mut ended = false;
            if let Ok(mut chunks) = self.state.recv_stream(stream).read(true) {
                loop {
                    match chunks.next(usize::MAX) {
                        Ok(Some(chunk)) => input.extend_from_slice(&chunk.bytes),
                        Ok(None) => {
                            ended = true;
                            break;
                        }
                        Err(quinn_proto::ReadError::Blocked) => break,
                        Err(quinn_proto::ReadError::Reset(code)) => {
                            let words = format!("the server reset the stream, code {code}");
                            return Err((Stage::Query, Failed::new(Outcome::Reset, &words)));
                        }
                    }
                }
                let _ = chunks.finalize();
            }
            if let (None, Some(came)) = (first, self.came) {
                first = (!input.is_empty()).then_some(came);
            }
            let stage = if input.is_empty() { Stage::Query } else { Stage::Reply };
            let whole = match input[..] {
                [high, low, ..] => 2 + usize::from(u16::from_be_bytes([high, low])),
                _ => 2,
            };
            if let (Some(first), Some(came), true) =
                (first, self.came, input.len() >= whole && input.len() > 2)
            {
                input.truncate(whole);
                return Ok((first, came, input.split_off(2)));
            }
            if ended {
                return Err((stage, Failed::new(Outcome::Closed, "the server ended the stream")));
            }
            // One packet at a time, so that each has its own stamp.
            let mut packets = 0;
            self.drive(until, |_| {
                packets += 1;
                packets > 1
            })
            .map_err(|failed| (stage, failed))?;
        }
    }

    /// Sends and receives until `enough` returns true. It is called before each packet.
    fn drive(
        &mut self,
        until: Instant,
        mut enough: impl FnMut(&State) -> bool,
    ) -> Result<(), Failed> {
        loop {
            self.transmit();
            if let Some(lost) = &self.lost {
                return Err(of_loss(lost));
            }
            if enough(&self.state) {
                return Ok(());
            }
            let timer = self.state.poll_timeout();
            let wake = timer.map_or(until, |timer| timer.min(until));
            match socket::readable(&self.socket, wake) {
                Ok(Woken::Ready) => {}
                Ok(Woken::Report) => {
                    self.departed();
                    match socket::pending_error(&self.socket) {
                        Some(error) => return Err(Failed::of_system(&error)),
                        None => continue,
                    }
                }
                Ok(Woken::Late) => {
                    let now = Instant::now();
                    if now >= until {
                        return Err(Failed::timeout());
                    }
                    self.state.handle_timeout(now);
                    continue;
                }
                Err(error) => return Err(Failed::of_system(&error)),
            }
            let mut buffer = core::mem::take(&mut self.buffer);
            let arrival = stamps::receive(&self.socket, &mut buffer);
            match arrival {
                Ok(arrival) => {
                    self.came = Some(arrival);
                    self.take(&buffer[..arrival.bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.buffer = buffer;
                    return Err(Failed::of_system(&error));
                }
            }
            self.buffer = buffer;
        }
    }

    /// Passes a packet to the protocol.
    fn take(&mut self, packet: &[u8]) {
        let mut reply = Vec::new();
        let now = Instant::now();
        let event = self.endpoint.handle(now, self.server, None, None, packet.into(), &mut reply);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.state.handle_event(event),
            Some(DatagramEvent::Response(transmit)) => self.write(&reply[..transmit.size]),
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            None => {}
        }
    }

    /// Sends what the protocol wants to send, and notes its events.
    fn transmit(&mut self) {
        while let Some(event) = self.state.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.state.handle_event(answer);
            }
        }
        let mut packet = Vec::new();
        while let Some(transmit) = self.state.poll_transmit(Instant::now(), 1, &mut packet) {
            self.write(&packet[..transmit.size]);
            packet.clear();
        }
        while let Some(event) = self.state.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.lost = Some(reason);
            }
        }
    }

    /// Sends a packet. If the system does not accept it, it counts as lost.
    fn write(&mut self, packet: &[u8]) {
        let now = SystemTime::now();
        if send(self.socket.as_raw_fd(), packet, MsgFlags::empty()).is_ok() {
            self.left = Some((now, false));
            self.departed();
        }
    }

    /// Takes the stamp of the packet that left last, if the kernel already has it.
    fn departed(&mut self) {
        if let Some(at) = stamps::departure(&self.socket) {
            self.left = Some((at, true));
        }
    }
}

fn of_loss(lost: &ConnectionError) -> Failed {
    let outcome = match lost {
        ConnectionError::TimedOut => Outcome::Timeout,
        ConnectionError::Reset => Outcome::Reset,
        ConnectionError::ApplicationClosed(_) => Outcome::Closed,
        _ => Outcome::HandshakeFailed,
    };
    Failed::new(outcome, &lost.to_string())
}
