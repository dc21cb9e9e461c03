//! Everything but the applications: sockets, timers and records. What the kernel reports becomes
//! events for applications.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use narrows_apps::record::Records;
use narrows_apps::{Closed, Datagram, Message, Path, Socket, View};
use narrows_transport::tcp;
use narrows_units::Time;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::answers::Answer;
use crate::connection::{Connection, Progress, closed_by};
use crate::datagrams;
use crate::end::Read;
use crate::flood::Floods;
use crate::flows::{Flow, Flows, What};
use crate::quic::Quic;
use crate::real::Asking;
use crate::secure::Configs;
use crate::sockets::{Places, local, set_dscp};
use crate::split::{Ends, Visitors};
use crate::timeouts::Timeouts;

/// The network as applications use it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) places: Places,
    pub(crate) paths: Vec<Path>,
    /// The longest packets of the plan's links.
    pub(crate) mtus: Vec<u16>,
    pub(crate) tcp: Vec<tcp::Config>,
    pub(crate) epoll: Epoll,
    pub(crate) flows: Flows,
    pub(crate) datagrams: datagrams::Sockets,
    listeners: Vec<Listener>,
    /// For each application that listens: its TCP settings and its backlog.
    pub(crate) serving: HashMap<u32, (usize, u32)>,
    /// The TCP settings of an application's ports that differ from those in `serving`.
    pub(crate) serving_at: HashMap<(u32, u16), usize>,
    pub(crate) secure: Configs,
    pub(crate) quic: Quic,
    pub(crate) floods: Floods,
    pub(crate) real: Asking,
    pub(crate) ends: Ends,
    /// Clients elsewhere that may open connections.
    pub(crate) visitors: Vec<Visitors>,
    /// By node: the ports that the plan has given to ends that open connections.
    ports_given: HashMap<usize, u16>,
    /// Connections by the addresses of the opening and of the accepting end.
    by_addresses: HashMap<[SocketAddrV4; 2], u32>,
    pub(crate) events: VecDeque<SocketEvent>,
    /// Ends that have something to write when the call is over.
    pub(crate) dirty: Vec<Socket>,
    /// Flows that may be over.
    pub(crate) ended: Vec<u32>,
    pub(crate) wakes: BinaryHeap<Reverse<Wake>>,
    /// The number of timers set so far. Simultaneous timers fire in the order of their numbers.
    pub(crate) wakes_set: u64,
    pub(crate) records: Records,
    /// Answers of servers that take time, by the numbers of their timers.
    pub(crate) answers: HashMap<u32, Answer>,
    /// The timeouts of servers' hosts.
    pub(crate) timeouts: Timeouts,
    /// Why the run cannot go on.
    pub(crate) failure: Option<String>,
    pub(crate) buffer: Vec<u8>,
}

/// A timer: when, its number among all, the application, and that application's number for it;
/// without an application, it is that of a server's answer.
pub(crate) type Wake = (Time, u64, Option<u32>, u32);

/// A socket that waits for connections.
#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    node: usize,
    at: SocketAddrV4,
    /// The application that accepts; `None`: connections are accepted at once.
    owner: Option<u32>,
}

/// What an application does not know yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SocketEvent {
    Opened(Socket),
    FirstByte(Socket),
    /// A flight of TLS's handshake has arrived.
    FlightArrived(Socket),
    /// The time is that of the message's first byte.
    Received(Socket, Message, Time),
    Delivered(Socket),
    Closed(Socket, Closed),
    Arrived(u32),
    Datagram(Datagram),
    /// An application tells another one something: `to`, `from`, what.
    Notified(u32, u32, [u32; 2]),
}

impl SocketEvent {
    /// Returns the application that it is for; `None`: nobody wants it any more.
    pub(crate) fn application(&self, flows: &Flows) -> Option<u32> {
        match *self {
            Self::Opened(socket)
            | Self::FirstByte(socket)
            | Self::FlightArrived(socket)
            | Self::Received(socket, ..)
            | Self::Delivered(socket)
            | Self::Closed(socket, _) => {
                let aborted = match (flows.connection(socket), flows.quic(socket)) {
                    (Some(connection), _) => connection.sides[socket.side()].aborted,
                    (_, Some(connection)) => connection.sides[socket.side()].aborted,
                    (None, None) => true,
                };
                (!aborted).then(|| flows.get(socket.flow()).owners[socket.side()])
            }
            Self::Arrived(application) | Self::Notified(application, ..) => Some(application),
            Self::Datagram(Datagram { association, goes_back, .. }) => {
                let owners = flows.get(association.socket().flow()).owners;
                Some(owners[usize::from(!goes_back)])
            }
        }
    }
}

impl View for World {
    fn retransmissions(&self, socket: Socket) -> u32 {
        let connection = self.flows.connection(socket);
        connection.and_then(|connection| connection.info(0).again).unwrap_or(0)
    }
}

impl World {
    pub(crate) fn new(
        seed: u64,
        places: Places,
        paths: Vec<Path>,
        mtus: Vec<u16>,
        tcp: Vec<tcp::Config>,
        epoll: Epoll,
    ) -> Self {
        Self {
            seed,
            places,
            paths,
            mtus,
            tcp,
            epoll,
            flows: Flows::default(),
            datagrams: datagrams::Sockets::default(),
            listeners: Vec::new(),
            serving: HashMap::new(),
            serving_at: HashMap::new(),
            secure: Configs::default(),
            quic: Quic::default(),
            floods: Floods::new(),
            real: Asking::default(),
            ends: Ends::default(),
            visitors: Vec::new(),
            ports_given: HashMap::new(),
            by_addresses: HashMap::new(),
            events: VecDeque::new(),
            dirty: Vec::new(),
            ended: Vec::new(),
            wakes: BinaryHeap::new(),
            wakes_set: 0,
            records: Records::default(),
            answers: HashMap::new(),
            timeouts: Timeouts::default(),
            failure: None,
            buffer: vec![0; 1 << 16],
        }
    }

    /// Handles what epoll reports.
    pub(crate) fn handle(&mut self, now: Time, event: EpollEvent) {
        let number = event.data() as u32;
        match Watched::of(event.data()) {
            Watched::End => self.handle_end(now, number, event.events()),
            Watched::Listener => match self.listeners[number as usize].owner {
                Some(owner) => self.events.push_back(SocketEvent::Arrived(owner)),
                None => while self.accept_one(now, number as usize).is_some() {},
            },
            Watched::Datagrams => self.receive_datagrams(number as usize),
            Watched::Replies => self.receive_replies(number),
            Watched::Quic => self.receive_quic(now, number as usize),
            Watched::QuicTimer => self.handle_quic_timer(now),
            Watched::Timer | Watched::Stop => {}
        }
    }

    /// Ends the run.
    pub(crate) fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    /// Watches a socket. The event has its kind and its number.
    pub(crate) fn watch(&mut self, socket: &impl AsFd, kind: Watched, number: u32, edge: bool) {
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLET, edge);
        if let Err(why) = self.epoll.add(socket, EpollEvent::new(flags, kind.data(number))) {
            self.fail(format!("epoll: {why}"));
        }
    }
}

/// Connections.
impl World {
    /// Listens at a node, unless it does already. SYN-ACKs have the code point of `application`.
    pub(crate) fn listen(
        &mut self,
        (node, at): (usize, SocketAddrV4),
        (tcp, backlog): (usize, u32),
        owner: Option<u32>,
        application: u32,
    ) {
        let here = |listener: &&Listener| (listener.node, listener.at) == (node, at);
        if let Some(there) = self.listeners.iter().find(here) {
            if there.owner != owner {
                self.fail(format!("{at}: two applications listen there"));
            }
            return;
        }
        let dscp = self.places.dscp(application);
        match self.places.listen(node, at, (&self.tcp[tcp], backlog), dscp) {
            Ok(socket) => {
                let number = self.listeners.len() as u32;
                self.watch(&socket, Watched::Listener, number, owner.is_some());
                self.listeners.push(Listener { socket: socket.into(), node, at, owner });
            }
            Err(why) => self.fail(format!("{at}: {}", why.desc())),
        }
    }

    /// Returns the port of the next end at a node that opens a connection. It is zero if the kernel
    /// chooses it, because the other end is here too.
    pub(crate) fn next_port(&mut self, node: usize) -> u16 {
        if !self.ends.are_split() {
            return 0;
        }
        let given = self.ports_given.entry(node).or_default();
        *given += 1;
        FIRST_PORT + *given - 1
    }

    /// Waits for a connection between these addresses of the opening and of the accepting end.
    pub(crate) fn expect(&mut self, addresses: [SocketAddrV4; 2], flow: u32) {
        self.by_addresses.insert(addresses, flow);
    }

    /// Sends the SYN of a connection.
    pub(crate) fn connect(&mut self, now: Time, flow: u32) {
        // What was written or closed before leaves before the SYN.
        for socket in std::mem::take(&mut self.dirty) {
            self.flush(socket);
        }
        let Flow { nodes, owners, .. } = *self.flows.get(flow);
        let socket = self.flows.socket(flow, 0);
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        let opener = connection.opener;
        if !self.ends.open_at(nodes[opener]) {
            return;
        }
        let of = connection.used(owners);
        let from = self.places.address(nodes[opener], of);
        let from = SocketAddrV4::new(from, connection.from_port);
        let to = SocketAddrV4::new(self.places.address(nodes[1 - opener], of), connection.port);
        let config = &self.tcp[connection.tcp];
        // Only messages can leave with a SYN.
        let fast_open = config.fast_open && connection.has_messages;
        let dscp = self.places.dscp(owners[opener]);
        match self.places.connect((nodes[opener], from), to, (config, fast_open), dscp) {
            Ok((made, done, from)) => {
                connection.addresses = Some([from, to]);
                self.by_addresses.insert([from, to], flow);
                connection.is_new = true;
                let waits = done && fast_open;
                if waits {
                    connection.sides[opener].defer();
                }
                let socket = self.flows.socket(flow, opener);
                self.attach(now, socket, made, done && !waits);
                self.dirty.push(socket);
            }
            Err(Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ECONNREFUSED) => {
                self.end(self.flows.socket(flow, opener), Closed::Refused);
            }
            Err(why) => {
                self.fail(format!("connection from {} to {to}: {}", from.ip(), why.desc()));
            }
        }
    }

    /// Takes the connection of an application that has waited longest.
    pub(crate) fn accept(&mut self, now: Time, application: u32) -> Option<Socket> {
        (0..self.listeners.len())
            .filter(|&number| self.listeners[number].owner == Some(application))
            .collect::<Vec<_>>()
            .into_iter()
            .find_map(|number| self.accept_one(now, number))
            .or_else(|| self.accept_quic(application))
    }

    fn accept_one(&mut self, now: Time, listener: usize) -> Option<Socket> {
        loop {
            let (stream, peer) = match self.listeners[listener].socket.accept() {
                Ok(found) => found,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return None,
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(why) if why.kind() == ErrorKind::ConnectionAborted => continue,
                Err(why) => {
                    self.fail(format!("accept: {why}"));
                    return None;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let made = OwnedFd::from(stream);
            let (SocketAddr::V4(peer), Ok(own)) = (peer, local(&made)) else { continue };
            let known = self.by_addresses.get(&[peer, own]).and_then(|&flow| {
                let connection = self.flows.connection(self.flows.socket(flow, 0))?;
                Some(self.flows.socket(flow, 1 - connection.opener))
            });
            // Otherwise it is somebody else's connection, or one that its opener has forgotten.
            let Some(socket) = known.or_else(|| self.visit([peer, own])) else { continue };
            let owner = self.flows.get(socket.flow()).owners[socket.side()];
            if let Err(why) = set_dscp(&made, self.places.dscp(owner)) {
                self.fail(format!("accept: {}", why.desc()));
            }
            self.attach(now, socket, made, true);
            return Some(socket);
        }
    }

    /// Gives an end its socket.
    fn attach(&mut self, now: Time, socket: Socket, made: OwnedFd, established: bool) {
        self.watch(&made, Watched::End, socket.end, false);
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        let Some(end) = &mut connection.sides[socket.side()].end else { return };
        end.attach(made, established);
        end.watched = Some(EpollFlags::EPOLLIN);
        if established {
            self.establish(now, socket);
        } else {
            self.settle(socket);
        }
    }

    fn establish(&mut self, now: Time, socket: Socket) {
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        if socket.side() == connection.opener {
            connection.established_at = Some(now);
        }
        let has_messages = connection.has_messages;
        let this = &mut connection.sides[socket.side()];
        let Some(end) = &mut this.end else { return };
        end.established = true;
        if has_messages {
            match &mut this.secure {
                // A client can write when TLS's handshake is complete.
                Some(secure) if socket.side() == 0 => end.write(secure.hello()),
                _ => self.events.push_back(SocketEvent::Opened(socket)),
            }
        } else if socket.side() == 0
            && let Err(why) = end.prepare_reports()
        {
            self.fail(format!("timestamps of acknowledgements: {}", why.desc()));
        }
        self.flush(socket);
    }

    fn handle_end(&mut self, now: Time, number: u32, events: EpollFlags) {
        let socket = self.flows.socket(number / 2, number as usize % 2);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.handle_socket(now, socket, events, &mut buffer);
        self.buffer = buffer;
    }

    fn handle_socket(&mut self, now: Time, socket: Socket, events: EpollFlags, buffer: &mut [u8]) {
        let side = socket.side();
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        let Some(end) = &mut connection.sides[side].end else { return };
        let broken = events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        if !end.established {
            if broken || events.contains(EpollFlags::EPOLLOUT) {
                match end.pending_error() {
                    Some(why) => self.end(socket, closed_by(why)),
                    None if broken => self.end(socket, Closed::Reset),
                    None => self.establish(now, socket),
                }
            }
            return;
        }
        if end.is_delivered() {
            self.events.push_back(SocketEvent::Delivered(socket));
        }
        if broken && end.ended {
            // Nothing is read any more, so no read returns the error.
            if let Some(why) = end.pending_error() {
                self.end(socket, closed_by(why));
                return;
            }
        } else if broken || events.contains(EpollFlags::EPOLLIN) {
            match end.read(buffer) {
                Ok(Read::Some(bytes)) => match connection.take(side, &buffer[..bytes]) {
                    Ok(taken) => self.tell_taken(now, socket, taken),
                    Err(how) => {
                        self.end(socket, how);
                        return;
                    }
                },
                Ok(Read::Nothing) => {}
                Ok(Read::End) => self.read_end(now, socket),
                Err(why) => {
                    self.end(socket, closed_by(why));
                    return;
                }
            }
        }
        self.flush(socket);
    }

    pub(crate) fn tell_progress(&mut self, now: Time, socket: Socket) {
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        if !connection.has_messages || connection.sides[socket.side()].over {
            return;
        }
        while let Some(progress) = connection.progress(socket.side(), now) {
            self.events.push_back(match progress {
                Progress::FirstByte => SocketEvent::FirstByte(socket),
                Progress::Received(message, first) => SocketEvent::Received(socket, message, first),
            });
        }
    }

    /// Handles a FIN.
    fn read_end(&mut self, now: Time, socket: Socket) {
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        if connection.has_messages {
            if !connection.sides[socket.side()].over {
                self.events.push_back(SocketEvent::Closed(socket, Closed::ByPeer));
            }
            return;
        }
        if socket.side() == 1 {
            connection.ended_at = Some(now);
        }
        if let Some(end) = &mut connection.sides[socket.side()].end {
            end.closing = true;
        }
    }

    /// Writes what an end has to write, and closes its socket if both directions are closed.
    pub(crate) fn flush(&mut self, socket: Socket) {
        let Some(connection) = self.flows.connection_mut(socket) else {
            self.flush_quic(socket);
            return;
        };
        connection.is_new = false;
        let Some(end) = &mut connection.sides[socket.side()].end else { return };
        if let Err(why) = end.flush() {
            self.end(socket, closed_by(why));
            return;
        }
        if end.shut && end.ended {
            self.end(socket, Closed::Done);
            return;
        }
        self.settle(socket);
    }

    /// Watches an end's socket for what it needs.
    fn settle(&mut self, socket: Socket) {
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        let Some(end) = &mut connection.sides[socket.side()].end else { return };
        let wanted = end.wanted();
        if end.watched == Some(wanted) {
            return;
        }
        end.watched = Some(wanted);
        let mut event = EpollEvent::new(wanted, Watched::End.data(socket.end));
        let changed = end.socket().map(|fd| self.epoll.modify(fd, &mut event));
        if let Some(Err(why)) = changed {
            self.fail(format!("epoll: {why}"));
        }
    }

    /// Ends an end of a connection, and tells its application.
    pub(crate) fn end(&mut self, socket: Socket, how: Closed) {
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        let has_messages = connection.has_messages;
        let side = &mut connection.sides[socket.side()];
        side.close();
        if has_messages && !std::mem::replace(&mut side.over, true) {
            self.events.push_back(SocketEvent::Closed(socket, how));
        }
        self.ended.push(socket.flow());
    }

    /// Resets a connection.
    pub(crate) fn abort(&mut self, socket: Socket) {
        if let Some(connection) = self.flows.quic_mut(socket) {
            connection.abort(socket.side());
            let side = &mut connection.sides[socket.side()];
            (side.over, side.aborted) = (true, true);
            self.flush_quic(socket);
        }
        let Some(connection) = self.flows.connection_mut(socket) else { return };
        let side = &mut connection.sides[socket.side()];
        if let Some(end) = &side.end {
            end.reset();
        }
        side.close();
        (side.over, side.aborted) = (true, true);
        self.ended.push(socket.flow());
    }

    /// Frees the flows that have no end any more. No events of them may be waiting.
    pub(crate) fn free_ended(&mut self) {
        for flow in std::mem::take(&mut self.ended) {
            let connection = match &self.flows.get(flow).what {
                What::Tcp(connection) => connection,
                What::Quic(connection) if connection.is_over() => {
                    self.quic.forget(connection);
                    self.flows.free(flow);
                    continue;
                }
                _ => continue,
            };
            if connection.listed || !connection.is_over() {
                continue;
            }
            if let Some(addresses) = connection.addresses {
                self.by_addresses.remove(&addresses);
            }
            self.flows.free(flow);
        }
    }

    pub(crate) fn connection(&self, socket: Socket) -> Option<&Connection> {
        self.flows.connection(socket)
    }
}

/// The first of the ports that the plan gives to ends that open connections.
const FIRST_PORT: u16 = 10_000;

/// What epoll watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// An end of a connection, by twice the flow's number plus the side.
    End,
    Listener,
    Datagrams,
    /// Replies to a flood, by its application.
    Replies,
    Timer,
    /// A file that ends the run early.
    Stop,
    Quic,
    QuicTimer,
}

impl Watched {
    /// Returns the number with which epoll reports it.
    pub(crate) const fn data(self, number: u32) -> u64 {
        (self as u64) << 32 | number as u64
    }

    pub(crate) fn of(data: u64) -> Self {
        match data >> 32 {
            0 => Self::End,
            1 => Self::Listener,
            2 => Self::Datagrams,
            3 => Self::Replies,
            4 => Self::Timer,
            5 => Self::Stop,
            6 => Self::Quic,
            _ => Self::QuicTimer,
        }
    }
}
