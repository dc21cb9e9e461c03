//! QUIC (RFC 9000) as quinn-proto speaks it, over UDP sockets.
//!
//! A client has a socket for each connection, and a server one for each port. The clock of
//! quinn-proto is the kernel's, so that round trips do not include the waits of applications.

mod connection;
mod session;
mod settings;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::IoSliceMut;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_apps::{Dial, Socket};
use narrows_transport::{quic, tls};
use narrows_units::{Span, Time};
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendto};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ClientConfig, ConnectionEvent, ConnectionHandle, ConnectionIdGenerator as _, DatagramEvent,
    EcnCodepoint, Endpoint, EndpointEvent, Incoming, RandomConnectionIdGenerator, ServerConfig,
    Transmit, ValidationTokenConfig,
};

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Suite;

pub(crate) use self::connection::Connection;
use self::connection::{End, Later, PacketKind, Progress};
use self::session::{Client, HasKeys, Server};
pub(crate) use self::settings::refused;
use self::settings::{carrier, endpoint, first_id, transport};
use crate::answers::Answer;
use crate::flows::{Flow, What};
use crate::part::Use;
use crate::secure::{Pair, Sessions};
use crate::sockets::{address, local, set_ect, set_peer, set_up_quic};
use crate::world::{SocketEvent, Watched, World};

/// What connections have in common.
#[derive(Debug, Default)]
pub(crate) struct Quic {
    servers: HashMap<u32, Serving>,
    /// By client and server.
    pairs: HashMap<[u32; 2], Pair>,
    /// By client, server, and the client's number for a set of sessions.
    sessions: HashMap<([u32; 2], u32), Arc<Sessions>>,
    /// Sockets, by their number in epoll.
    sockets: Vec<Option<Bound>>,
    free: Vec<usize>,
    /// The sockets of servers, by node and address.
    far: HashMap<(usize, SocketAddrV4), usize>,
    /// The connections that wait to be accepted, by application.
    waiting: HashMap<u32, VecDeque<Socket>>,
    /// When ends want to be called, with the ends' numbers.
    due: BTreeSet<(Instant, u32)>,
    timer: Option<TimerFd>,
    /// When the timer expires.
    armed: Option<Instant>,
}

/// How an application serves QUIC.
#[derive(Clone, Debug)]
struct Serving {
    quic: quic::Config,
    tls: tls::Server,
}

/// A UDP socket, and the endpoint of its connections.
#[derive(Debug)]
struct Bound {
    socket: OwnedFd,
    endpoint: Endpoint,
    /// Whether it is a server's.
    serves: bool,
    /// The flows of its connections.
    flows: HashMap<ConnectionHandle, u32>,
    /// The flows of connections that clients open, by the client's address.
    expected: HashMap<SocketAddrV4, u32>,
    /// Whether its packets may be ECN-capable, and whether the socket marks them so now.
    ecn: bool,
    is_ect: bool,
    dscp: u8,
}

/// What the endpoint of a socket says of a datagram.
enum Arrived {
    /// It is for this flow, and begins with a packet of this kind.
    For(u32, PacketKind, ConnectionEvent),
    New(SocketAddrV4, Incoming),
}

impl Quic {
    /// Returns the configurations of a client's next connection, which has to begin before the next
    /// call, and of its server.
    fn begin(
        &mut self,
        applications: [u32; 2],
        jar: u32,
        (client, quic): (tls::Client, quic::Config),
    ) -> Result<(ClientConfig, ServerConfig, [HasKeys; 2], Span), String> {
        let serving = self.servers.get(&applications[1]).ok_or("the server has none")?;
        let known = self.pairs.get(&applications);
        if known.is_none_or(|pair| pair.settings != (client, serving.tls)) {
            let pair = Pair::new(client, serving.tls, carrier(&serving.quic))?;
            self.pairs.insert(applications, pair);
        }
        let sessions = self.sessions.entry((applications, jar)).or_default();
        let begun = self.pairs[&applications].begin(sessions);
        let has_keys = <[HasKeys; 2]>::default();
        let keys = QuicServerConfig::with_initial(begun.server.clone(), initial());
        let client = Client {
            tls: begun.client,
            parameters: quic.parameters,
            has_keys: has_keys[0].clone(),
        };
        let server = Server {
            tls: begun.server,
            parameters: serving.quic.parameters,
            filling: begun.filling,
            has_keys: has_keys[1].clone(),
            keys: keys.map_err(|why| why.to_string())?,
        };
        let mut client = ClientConfig::new(Arc::new(client));
        let id = first_id(&serving.quic);
        client.initial_dst_cid_provider(Arc::new(move || {
            RandomConnectionIdGenerator::new(id).generate_cid()
        }));
        let mut server = ServerConfig::with_crypto(Arc::new(server));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        server.validation_token_config(tokens);
        Ok((client, server, has_keys, begun.tls.service(tls::Flight::Hello)))
    }

    fn put(&mut self, bound: Bound) -> usize {
        let number = self.free.pop().unwrap_or(self.sockets.len());
        if number == self.sockets.len() {
            self.sockets.push(None);
        }
        self.sockets[number] = Some(bound);
        number
    }

    fn get(&mut self, number: usize) -> Option<&mut Bound> {
        self.sockets.get_mut(number)?.as_mut()
    }

    /// Returns the connection that has waited longest for an application.
    pub(crate) fn accept(&mut self, application: u32) -> Option<Socket> {
        self.waiting.get_mut(&application)?.pop_front()
    }

    /// Sends what an end has to send, and notes when it wants to be called.
    fn transmit(&mut self, connection: &mut Connection, number: u32) {
        let side = number as usize % 2;
        let bound = self.sockets.get_mut(connection.sockets[side]).and_then(Option::as_mut);
        let (Some(bound), Some(end)) = (bound, &mut connection.ends[side]) else { return };
        let mut bytes = Vec::new();
        while let Some(transmit) = end.state.poll_transmit(Instant::now(), 1, &mut bytes) {
            bound.send(&transmit, &bytes);
            let this = &mut connection.sides[side];
            this.packets += 1;
            this.ip_bytes += HEADERS + transmit.size as u64;
            bytes.clear();
        }
        let mut is_drained = false;
        while let Some(event) = end.state.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = bound.tell(end.handle, event) {
                end.state.handle_event(event);
            }
        }
        let due = end.state.poll_timeout().filter(|_| !is_drained);
        if end.due != due {
            if let Some(before) = end.due {
                self.due.remove(&(before, number));
            }
            self.due.extend(due.map(|due| (due, number)));
            end.due = due;
        }
        if is_drained {
            connection.ends[side] = None;
        }
        self.arm();
    }

    /// Sets the timer for the next end that wants to be called.
    fn arm(&mut self) {
        let Some(&(due, _)) = self.due.first() else { return };
        if self.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        // Zero would disarm the timer.
        let wait = due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let at = Expiration::OneShot(TimeSpec::from_duration(wait));
        if let Some(timer) = &self.timer {
            timer.set(at, TimerSetTimeFlags::empty()).expect("the time is valid");
            self.armed = Some(due);
        }
    }

    /// Closes the client's socket of a connection that is over.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        let [near, far] = connection.sockets;
        let closed = self.sockets.get_mut(near).and_then(Option::take);
        self.free.push(near);
        let own = closed.and_then(|closed| local(&closed.socket).ok());
        if let (Some(own), Some(far)) = (own, self.get(far)) {
            far.expected.remove(&own);
        }
    }
}

impl Bound {
    fn send(&mut self, transmit: &Transmit, bytes: &[u8]) {
        let SocketAddr::V4(to) = transmit.destination else { return };
        let is_ect = self.ecn && transmit.ecn == Some(EcnCodepoint::Ect0);
        if is_ect != self.is_ect && set_ect(&self.socket, is_ect, self.dscp).is_ok() {
            self.is_ect = is_ect;
        }
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        // A failure is a loss: the host's own queue is full, or the packet is too long for a link.
        let _ = sendto(self.socket.as_raw_fd(), &bytes[..transmit.size], &address(to), flags);
    }

    fn tell(&mut self, handle: ConnectionHandle, event: EndpointEvent) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.flows.remove(&handle);
        }
        self.endpoint.handle_event(handle, event)
    }

    /// Reads a datagram. `None`: there is none; `Some(None)`: no connection needs it.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<Option<Arrived>> {
        let mut control = [0_u8; CONTROL_BYTES];
        let (bytes, from, ecn) = loop {
            let mut into = [IoSliceMut::new(buffer)];
            let found = recvmsg::<SockaddrIn>(
                self.socket.as_raw_fd(),
                &mut into,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            );
            match found {
                Ok(message) => {
                    let ecn = message.cmsgs().into_iter().flatten().find_map(|one| match one {
                        ControlMessageOwned::Ipv4Tos(tos) => EcnCodepoint::from_bits(tos & 3),
                        _ => None,
                    });
                    break (message.bytes, message.address, ecn);
                }
                // An earlier datagram of this socket was refused.
                Err(Errno::EINTR | Errno::ECONNREFUSED) => {}
                Err(_) => return None,
            }
        };
        let Some(from) = from.map(SocketAddrV4::from) else { return Some(None) };
        let (now, mut answer) = (Instant::now(), Vec::new());
        let kind = PacketKind::of(buffer.first().copied().unwrap_or(0));
        let event =
            self.endpoint.handle(now, from.into(), None, ecn, buffer[..bytes].into(), &mut answer);
        Some(match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.flows.get(&handle).map(|&flow| Arrived::For(flow, kind, event))
            }
            Some(DatagramEvent::NewConnection(incoming)) => Some(Arrived::New(from, incoming)),
            Some(DatagramEvent::Response(transmit)) => {
                self.send(&transmit, &answer);
                None
            }
            None => None,
        })
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl World {
    /// Lets an application serve QUIC, with its settings of TLS.
    pub(crate) fn serve_quic(&mut self, application: u32, quic: quic::Config) {
        match self.secure.server(application) {
            Some(&tls) => {
                self.quic.servers.insert(application, Serving { quic, tls });
            }
            None => self.fail("quic: it has no TLS".into()),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// Returns why there can be none.
    pub(crate) fn open_quic(
        &mut self,
        application: u32,
        dial: &Dial,
        (tls, quic, jar): (tls::Client, quic::Config, u32),
    ) -> Result<Socket, String> {
        let path = &self.paths[dial.there];
        let nodes = [path.from, path.to];
        let server = dial.server as u32;
        let quic = within(quic, self.mtu(dial.there));
        let of = Use { tcp: None, server: Some(server) };
        let to = SocketAddrV4::new(self.places.address(nodes[1], of), dial.port);
        let (mut config, of_server, has_keys, service) =
            self.quic.begin([application, server], jar, (tls, quic))?;
        let far = self.listen_for_quic((nodes[1], to), server, &of_server)?;
        let system = |why: Errno| why.desc().to_owned();
        let from = SocketAddrV4::new(self.places.address(nodes[0], of), 0);
        let socket = self.places.datagrams(nodes[0], from, application).map_err(system)?;
        set_up_quic(&socket).map_err(system)?;
        // If this fails, there is no route, and its packets are lost.
        let _ = set_peer(&socket, to);
        let own = local(&socket).map_err(system)?;
        let mut made = Endpoint::new(endpoint(&quic), None, true, None);
        config.transport_config(transport(&quic, dial.port));
        // The name is an address, so it is not in the ClientHello (RFC 6066, 3).
        let opened = made.connect(Instant::now(), config, to.into(), &to.ip().to_string());
        let (handle, state) = opened.map_err(|why| why.to_string())?;
        let near = self.quic.put(Bound {
            socket,
            endpoint: made,
            serves: false,
            flows: HashMap::new(),
            expected: HashMap::new(),
            ecn: quic.ecn,
            is_ect: false,
            dscp: self.places.dscp(application),
        });
        self.watch_quic(near);
        let of_other = self.quic.servers.get(&server).map_or(0, |of| of.quic.undecryptable_packets);
        let [of_client, has_keys] = has_keys;
        let client = End::new(handle, state, of_client, quic.undecryptable_packets);
        let later = Later { config: of_server, service, has_keys, keeps: of_other };
        let connection = Connection::new(client, [near, far], later, dial, quic.waits);
        let socket = self.flows.add(Flow {
            generation: 0,
            owners: [application, server],
            numbers: [dial.number, 0],
            nodes,
            what: What::Quic(Box::new(connection)),
            back: dial.back,
        });
        if let Some(bound) = self.quic.get(near) {
            bound.flows.insert(handle, socket.flow());
        }
        if let Some(bound) = self.quic.get(far) {
            bound.expected.insert(own, socket.flow());
        }
        self.dirty.push(socket);
        Ok(socket)
    }

    /// Opens the socket of a server, unless it is open.
    fn listen_for_quic(
        &mut self,
        place: (usize, SocketAddrV4),
        server: u32,
        config: &ServerConfig,
    ) -> Result<usize, String> {
        if let Some(&there) = self.quic.far.get(&place) {
            return Ok(there);
        }
        let serving = self.quic.servers.get(&server).ok_or("the server has none")?.clone();
        let socket = self.places.datagrams(place.0, place.1, server).and_then(|made| {
            set_up_quic(&made)?;
            Ok(made)
        });
        let socket = socket.map_err(|why| why.desc().to_owned())?;
        let config = Some(Arc::new(config.clone()));
        let made = Endpoint::new(endpoint(&serving.quic), config, true, None);
        let number = self.quic.put(Bound {
            socket,
            endpoint: made,
            serves: true,
            flows: HashMap::new(),
            expected: HashMap::new(),
            ecn: serving.quic.ecn,
            is_ect: false,
            dscp: self.places.dscp(server),
        });
        self.quic.far.insert(place, number);
        self.watch_quic(number);
        Ok(number)
    }

    fn watch_quic(&mut self, number: usize) {
        if self.quic.timer.is_none() {
            match TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK) {
                Ok(timer) => {
                    self.watch(&timer, Watched::QuicTimer, 0, true);
                    self.quic.timer = Some(timer);
                }
                Err(why) => self.fail(format!("timer: {}", why.desc())),
            }
        }
        let Some(bound) = &self.quic.sockets[number] else { return };
        let event = EpollEvent::new(EpollFlags::EPOLLIN, Watched::Quic.data(number as u32));
        if let Err(why) = self.epoll.add(bound, event) {
            self.fail(format!("epoll: {why}"));
        }
    }

    /// Handles the datagrams of a socket.
    pub(crate) fn receive_quic(&mut self, now: Time, number: usize) {
        for _ in 0..MOST_DATAGRAMS {
            let Some(bound) = self.quic.sockets.get_mut(number).and_then(Option::as_mut) else {
                return;
            };
            let serves = bound.serves;
            match bound.receive(&mut self.buffer) {
                None => return,
                Some(None) => {}
                Some(Some(Arrived::For(flow, kind, event))) => {
                    let socket = self.flows.socket(flow, usize::from(serves));
                    let connection = self.flows.quic_mut(socket);
                    let end = connection.and_then(|one| one.ends[socket.side()].as_mut());
                    if let Some(end) = end {
                        end.take(kind, event);
                        self.drive(now, socket);
                    }
                }
                Some(Some(Arrived::New(from, incoming))) => {
                    self.receive_new(now, number, from, incoming);
                }
            }
        }
    }

    /// Handles the first datagram of a connection at its server, now or later.
    fn receive_new(&mut self, now: Time, number: usize, from: SocketAddrV4, incoming: Incoming) {
        let flow = self.quic.get(number).and_then(|bound| bound.expected.get(&from).copied());
        let service = match flow.map(|flow| &self.flows.get(flow).what) {
            Some(What::Quic(one)) if !one.has_arrived => one.later.service,
            _ => Span::ZERO,
        };
        if service > Span::ZERO {
            self.answer_at(now + service, Answer::Quic(number, from, Box::new(incoming)));
        } else {
            self.accept_new(now, number, from, incoming);
        }
    }

    /// Begins the server's part of a connection.
    pub(crate) fn accept_new(
        &mut self,
        now: Time,
        number: usize,
        from: SocketAddrV4,
        incoming: Incoming,
    ) {
        let Some(bound) = self.quic.sockets.get_mut(number).and_then(Option::as_mut) else {
            return;
        };
        let flow = bound.expected.get(&from).copied();
        let found = flow.map(|flow| (flow, self.flows.get(flow), self.flows.socket(flow, 1)));
        let Some((flow, of, socket, (config, port))) =
            found.and_then(|(flow, of, socket)| match &of.what {
                What::Quic(one) if !one.has_arrived => {
                    Some((flow, of, socket, (&one.later.config, one.port)))
                }
                _ => None,
            })
        else {
            // No connection expects it, or the server has accepted that connection already.
            bound.endpoint.ignore(incoming);
            return;
        };
        let (owner, back) = (of.owners[1], of.back);
        let waiting = self.quic.waiting.entry(owner).or_default();
        let backlog = self.serving.get(&owner).map_or(0, |&(_, backlog)| backlog);
        let serving = self.quic.servers.get(&owner);
        let Some(serving) = serving.filter(|_| waiting.len() <= backlog as usize) else {
            // The client sends it again unless it has given up.
            bound.endpoint.ignore(incoming);
            return;
        };
        let mtu = self.paths[back].links.first().map_or(u16::MAX, |&link| self.mtus[link]);
        let mut config = config.clone();
        config.transport_config(transport(&within(serving.quic, mtu), port));
        let mut answer = Vec::new();
        let accepted =
            bound.endpoint.accept(incoming, Instant::now(), &mut answer, Some(Arc::new(config)));
        match accepted {
            Ok((handle, state)) => {
                bound.flows.insert(handle, flow);
                waiting.push_back(socket);
                if let Some(connection) = self.flows.quic_mut(socket) {
                    connection.arrive(handle, state);
                }
                self.events.push_back(SocketEvent::Arrived(owner));
                self.drive(now, socket);
            }
            Err(why) => {
                if let Some(transmit) = why.response {
                    bound.send(&transmit, &answer);
                }
            }
        }
    }

    /// Handles the ends that want to be called.
    pub(crate) fn handle_quic_timer(&mut self, now: Time) {
        self.quic.armed = None;
        let until = Instant::now();
        while let Some(&(due, number)) = self.quic.due.first()
            && due <= until
        {
            self.quic.due.pop_first();
            let socket = self.flows.socket(number / 2, number as usize % 2);
            let connection = self.flows.quic_mut(socket);
            let end = connection.and_then(|one| one.ends[socket.side()].as_mut());
            if let Some(end) = end {
                end.due = None;
                end.state.handle_timeout(until);
                self.drive(now, socket);
            }
        }
        self.quic.arm();
    }

    /// Accepts a connection for an application, which then learns what has arrived.
    pub(crate) fn accept_quic(&mut self, application: u32) -> Option<Socket> {
        let socket = self.quic.accept(application)?;
        self.flows.quic_mut(socket)?.sides[1].attached = true;
        self.tell_quic(socket);
        Some(socket)
    }

    /// Handles what has happened to an end, and sends what it has to send.
    fn drive(&mut self, now: Time, socket: Socket) {
        let Some(connection) = self.flows.quic_mut(socket) else { return };
        connection.handle_events(socket.side(), now);
        self.flush_quic(socket);
    }

    /// Sends what an end has to send.
    pub(crate) fn flush_quic(&mut self, socket: Socket) {
        let Some(connection) = self.flows.quic_mut(socket) else { return };
        self.quic.transmit(connection, socket.end);
        self.tell_quic(socket);
    }

    fn tell_quic(&mut self, socket: Socket) {
        let Some(connection) = self.flows.quic_mut(socket) else { return };
        while let Some(progress) = connection.progress(socket.side()) {
            self.events.push_back(match progress {
                Progress::Opened => SocketEvent::Opened(socket),
                Progress::Received(message, begun) => SocketEvent::Received(socket, message, begun),
                Progress::Closed(how) => SocketEvent::Closed(socket, how),
            });
        }
        if connection.is_over() {
            self.ended.push(socket.flow());
        }
    }
}

/// Fits settings to the longest packet of a path's first link: QUIC packets are never fragmented
/// (RFC 9000, 14).
fn within(config: quic::Config, mtu: u16) -> quic::Config {
    let longest = mtu.saturating_sub(HEADERS as u16).max(quic::LEAST_PAYLOAD);
    let payload = config.payload.min(longest);
    let search_to = config.search_to.map(|most| most.min(longest));
    quic::Config { payload, search_to: search_to.filter(|&most| most > payload), ..config }
}

/// Returns the suite of Initial packets (RFC 9001, 5.2).
fn initial() -> Suite {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.expect("the suite has keys for QUIC")
}

/// The IPv4 and UDP headers, in bytes.
const HEADERS: u64 = 28;

/// The most datagrams that a socket delivers before others have their turn.
const MOST_DATAGRAMS: usize = 64;

/// Room for the control message with the type of service.
const CONTROL_BYTES: usize = 64;
