//! A QUIC connection: both ends, and the messages on their streams.
//!
//! Each request has a stream of its own, on which its reply returns (RFC 9250, 4.2). A message has
//! arrived when its stream has ended.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::time::Instant;

use narrows_apps::dns::HTTPS_PORT;
use narrows_apps::{Closed, Dial, Message};
use narrows_units::{Span, Time};
use quinn_proto::{
    Connection as State, ConnectionError, ConnectionEvent, ConnectionHandle, Dir, Event,
    ServerConfig, StreamEvent, StreamId, VarInt,
};

use super::session::HasKeys;
use crate::dns::Exchanges;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None`: the server has not heard of the connection, or the end is gone.
    pub(super) ends: [Option<End>; 2],
    pub(crate) sides: [Side; 2],
    /// The numbers that the ends' sockets have in epoll.
    pub(super) sockets: [usize; 2],
    /// The server's port.
    pub(crate) port: u16,
    /// What the server's end is made of.
    pub(super) later: Later,
    /// DNS queries; `None`: its messages are zeros.
    exchanges: Option<Exchanges>,
    /// The messages that each end will have once their streams are complete, by stream.
    unread: [BTreeMap<u64, Message>; 2],
    /// Queries that the server has not answered yet: tag and stream.
    asked: Vec<(u32, StreamId)>,
    /// The streams beside those of messages that each end has opened, and what it has written.
    beside: [Vec<(StreamId, u32)>; 2],
    /// Messages that the client wrote before the handshake, to be sent again if the server does not
    /// read them.
    early: Vec<Message>,
    /// Whether what the client writes leaves with its ClientHello.
    early_data: bool,
    /// Whether the client's application may write only when the handshake is confirmed.
    pub(super) waits: bool,
    /// Whether the server has heard of the connection.
    pub(super) has_arrived: bool,
}

/// An end: quinn-proto's state.
pub(super) struct End {
    pub(super) handle: ConnectionHandle,
    pub(super) state: State,
    /// When it wants to be called, as it was last noted.
    pub(super) due: Option<Instant>,
    has_keys: HasKeys,
    /// Datagrams that wait for their keys (RFC 9001, 5.7), and the most of each kind. quinn-proto
    /// would drop them.
    kept: Vec<(PacketKind, ConnectionEvent)>,
    keeps: u8,
}

/// What a server's end is made of when its client's first packet arrives.
#[derive(Debug)]
pub(super) struct Later {
    pub(super) config: ServerConfig,
    /// How long it takes to answer the client's first packet.
    pub(super) service: Span,
    pub(super) has_keys: HasKeys,
    pub(super) keeps: u8,
}

/// The kind of a packet, by the keys that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    Initial,
    ZeroRtt,
    Handshake,
    OneRtt,
}

impl PacketKind {
    /// Returns the kind of a packet with this first byte (RFC 9000, 17.2 and 17.3).
    pub(super) fn of(first: u8) -> Self {
        match (first >> 7, first >> 4 & 3) {
            (0, _) => Self::OneRtt,
            (_, 1) => Self::ZeroRtt,
            (_, 2) => Self::Handshake,
            _ => Self::Initial,
        }
    }
}

impl End {
    pub(super) fn new(
        handle: ConnectionHandle,
        state: State,
        has_keys: HasKeys,
        keeps: u8,
    ) -> Self {
        Self { handle, state, due: None, has_keys, kept: Vec::new(), keeps }
    }

    /// Takes a datagram that begins with such a packet, and those that waited for its keys.
    pub(super) fn take(&mut self, kind: PacketKind, event: ConnectionEvent) {
        if !self.can_read(kind) {
            let alike = self.kept.iter().filter(|(other, _)| *other == kind).count();
            if alike < self.keeps.into() {
                self.kept.push((kind, event));
            }
            return;
        }
        self.state.handle_event(event);
        while let Some(place) = self.kept.iter().position(|(kind, _)| self.can_read(*kind)) {
            let (_, event) = self.kept.remove(place);
            self.state.handle_event(event);
        }
    }

    fn can_read(&self, kind: PacketKind) -> bool {
        match kind {
            PacketKind::Initial => true,
            PacketKind::ZeroRtt | PacketKind::Handshake => self.has_keys.of_handshake(),
            PacketKind::OneRtt => self.has_keys.of_all(),
        }
    }
}

/// An end, and what its application knows.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Whether it may be told of the connection: it opened or accepted it.
    pub(crate) attached: bool,
    is_open: bool,
    reported_open: bool,
    reported_peer_closed: bool,
    /// Whether its application hears no more.
    pub(crate) over: bool,
    /// Whether its application has reset the connection, and hears nothing of what came before.
    pub(crate) aborted: bool,
    closing: bool,
    ended: Option<Ended>,
    /// Messages that have arrived, each with the time of its first byte.
    whole: VecDeque<(Message, Time)>,
    /// When the first byte of an incomplete stream arrived.
    begun: HashMap<StreamId, Time>,
    /// Messages that wait for a stream.
    blocked: VecDeque<Message>,
    /// The number of streams that it has written and the other end has not acknowledged.
    unacknowledged: u32,
    /// The IP packets that it has sent, and their bytes.
    pub(crate) packets: u32,
    pub(crate) ip_bytes: u64,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// This end closed it.
    Here,
    /// The other end closed it.
    There,
    Failed(Closed),
}

/// What an end's application does not know yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Progress {
    Opened,
    Received(Message, Time),
    Closed(Closed),
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Connection {
    /// Creates a connection whose client has sent nothing yet.
    pub(super) fn new(
        client: End,
        sockets: [usize; 2],
        later: Later,
        dial: &Dial,
        waits: bool,
    ) -> Self {
        Self {
            early_data: client.state.has_0rtt(),
            ends: [Some(client), None],
            sides: [Side { attached: true, ..Side::default() }, Side::default()],
            sockets,
            later,
            port: dial.port,
            // HTTP/3's frames and messages are encrypted, so they are zeros.
            exchanges: (dial.dns && dial.port != HTTPS_PORT).then(Exchanges::over_quic),
            unread: Default::default(),
            asked: Vec::new(),
            beside: Default::default(),
            early: Vec::new(),
            waits,
            has_arrived: false,
        }
    }

    /// Gives the server its end.
    pub(super) fn arrive(&mut self, handle: ConnectionHandle, state: State) {
        let Later { has_keys, keeps, .. } = &self.later;
        self.ends[1] = Some(End::new(handle, state, has_keys.clone(), *keeps));
        self.has_arrived = true;
        // A server may write as soon as it has the ClientHello.
        self.sides[1].is_open = true;
    }

    /// Returns whether what the client writes now leaves with its ClientHello.
    pub(crate) fn takes_early_data(&self) -> bool {
        self.early_data && !self.sides[0].is_open
    }

    /// Returns the round trips before a message could be sent. `early`: it was written before the
    /// connection was open.
    pub(crate) fn handshake_round_trips(&self, early: bool) -> u8 {
        if early { 0 } else { 1 + u8::from(self.waits) }
    }

    /// Writes a message from an end's application.
    pub(crate) fn write(&mut self, side: usize, message: Message) {
        if side == 0 && self.takes_early_data() {
            self.early.push(message);
        }
        self.sides[side].blocked.push_back(message);
        self.write_blocked(side);
    }

    /// Writes zeros on one of an end's own streams, which may be the next one. The end may write now.
    pub(crate) fn write_beside(&mut self, side: usize, stream: u8, bytes: u32) {
        let Some(end) = &mut self.ends[side] else { return };
        let known = &mut self.beside[side];
        if known.len() == usize::from(stream) {
            // The other end allows as many.
            known.extend(end.state.streams().open(Dir::Uni).map(|stream| (stream, 0)));
        }
        let Some((stream, written)) = known.get_mut(usize::from(stream)) else { return };
        *written += bytes;
        // An error means that the connection is over.
        let _ = end.state.send_stream(*stream).write(&vec![0; bytes as usize]);
    }

    /// Writes no more. A server ends the connection when the client has everything. A client that
    /// closes has its replies, or no longer waits for them.
    pub(crate) fn close(&mut self, side: usize) {
        self.sides[side].closing = true;
        self.end_if_done(side);
    }

    /// Ends the connection at once, and tells the other end.
    pub(crate) fn abort(&mut self, side: usize) {
        if let (Some(end), None) = (&mut self.ends[side], self.sides[side].ended) {
            // RFC 9250, 8.4: DOQ_NO_ERROR.
            end.state.close(Instant::now(), VarInt::from_u32(0), Vec::new().into());
        }
        self.sides[side].ended.get_or_insert(Ended::Here);
    }

    fn end_if_done(&mut self, side: usize) {
        let this = &self.sides[side];
        let is_done = this.unacknowledged == 0 && this.blocked.is_empty();
        if this.closing && (side == 0 || is_done) {
            self.abort(side);
        }
    }

    /// Writes the messages for which there are streams now.
    fn write_blocked(&mut self, side: usize) {
        while let Some(&message) = self.sides[side].blocked.front() {
            let Some(end) = &mut self.ends[side] else { return };
            let place = self.asked.iter().position(|&(tag, _)| side == 1 && tag == message.tag);
            let stream = match place {
                Some(place) => self.asked.swap_remove(place).1,
                None => match end.state.streams().open(Dir::Bi) {
                    Some(stream) => stream,
                    None => return,
                },
            };
            let zeros = || vec![0; message.bytes as usize];
            let bytes = self.exchanges.as_mut().map_or_else(zeros, |dns| dns.write(side, &message));
            let mut sending = end.state.send_stream(stream);
            // No window holds it back. An error means that the connection is over; the message is
            // then lost.
            if sending.write(&bytes).is_ok() && sending.finish().is_ok() {
                self.sides[side].unacknowledged += 1;
            }
            self.unread[1 - side].insert(VarInt::from(stream).into_inner(), message);
            self.sides[side].blocked.pop_front();
        }
    }

    /// Handles what quinn-proto says of an end.
    pub(super) fn handle_events(&mut self, side: usize, now: Time) {
        loop {
            let Some(end) = &mut self.ends[side] else { return };
            let Some(event) = end.state.poll() else { break };
            match event {
                Event::Connected if side == 0 => self.connect(),
                Event::ConnectionLost { reason } => {
                    self.sides[side].ended.get_or_insert(Ended::by(&reason));
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(stream) = self.accept(side) {
                        self.read(side, stream, now);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(side, id, now),
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.write_blocked(side),
                Event::Stream(StreamEvent::Finished { .. } | StreamEvent::Stopped { .. }) => {
                    let left = &mut self.sides[side].unacknowledged;
                    *left = left.saturating_sub(1);
                }
                _ => {}
            }
        }
        if self.waits
            && let Some(client) = self.ends[0].as_ref().filter(|_| side == 0)
        {
            self.sides[0].is_open = client.state.stats().frame_rx.handshake_done > 0;
        }
        self.end_if_done(side);
    }

    /// Notes that the client's handshake is complete.
    fn connect(&mut self) {
        let Some(client) = &mut self.ends[0] else { return };
        self.sides[0].is_open = !self.waits;
        let early = std::mem::take(&mut self.early);
        if !client.state.accepted_0rtt() && !early.is_empty() {
            // Its streams are gone, and their numbers are used again.
            self.unread[1].clear();
            self.sides[0].unacknowledged = 0;
            let later = std::mem::take(&mut self.sides[0].blocked);
            let fresh = later.into_iter().filter(|message| !early.contains(message));
            self.sides[0].blocked = early.iter().copied().chain(fresh).collect();
            for (stream, (_, bytes)) in (0..).zip(std::mem::take(&mut self.beside[0])) {
                self.write_beside(0, stream, bytes);
            }
        }
        self.write_blocked(0);
    }

    fn accept(&mut self, side: usize) -> Option<StreamId> {
        self.ends[side].as_mut()?.state.streams().accept(Dir::Bi)
    }

    fn read(&mut self, side: usize, stream: StreamId, now: Time) {
        let Some(end) = &mut self.ends[side] else { return };
        let this = &mut self.sides[side];
        let mut is_whole = false;
        if let Ok(mut chunks) = end.state.recv_stream(stream).read(true) {
            is_whole = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(_)) => this.begun.entry(stream).or_insert(now),
                    Ok(None) => break true,
                    Err(_) => break false,
                };
            };
            // Any window update leaves with the next packets.
            let _ = chunks.finalize();
        }
        if !is_whole {
            return;
        }
        let begun = this.begun.remove(&stream).unwrap_or(now);
        if let Some(message) = self.unread[side].remove(&VarInt::from(stream).into_inner()) {
            match side {
                0 => self.exchanges.iter_mut().for_each(|dns| dns.forget(message.tag)),
                _ => self.asked.push((message.tag, stream)),
            }
            this.whole.push_back((message, begun));
        }
    }

    /// Returns the next thing that an end's application does not know yet.
    pub(super) fn progress(&mut self, side: usize) -> Option<Progress> {
        let this = &mut self.sides[side];
        if !this.attached || this.over {
            return None;
        }
        if !this.reported_open && this.is_open {
            this.reported_open = true;
            return Some(Progress::Opened);
        }
        if this.reported_open
            && let Some((message, begun)) = this.whole.pop_front()
        {
            return Some(Progress::Received(message, begun));
        }
        let how = match this.ended? {
            Ended::There if !this.reported_peer_closed => {
                this.reported_peer_closed = true;
                return Some(Progress::Closed(Closed::ByPeer));
            }
            Ended::There | Ended::Here => Closed::Done,
            Ended::Failed(how) => how,
        };
        this.over = true;
        Some(Progress::Closed(how))
    }

    /// Returns whether both ends have finished with it.
    pub(crate) fn is_over(&self) -> bool {
        let [client, server] = &self.sides;
        let gone = self.ends.iter().all(Option::is_none);
        gone && client.over && (server.over || !self.has_arrived)
    }
}

impl Ended {
    fn by(reason: &ConnectionError) -> Self {
        match reason {
            ConnectionError::LocallyClosed => Self::Here,
            ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_) => {
                Self::There
            }
            ConnectionError::TimedOut => Self::Failed(Closed::TimedOut),
            _ => Self::Failed(Closed::Reset),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use narrows_transport::{quic, tls};
    use quinn_proto::{DatagramEvent, Endpoint};

    use super::super::settings::{endpoint, transport};
    use super::super::{Quic, Serving};
    use super::*;

    /// Returns the datagrams that an end sends now.
    fn sent(state: &mut State) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        while let Some(transmit) = state.poll_transmit(Instant::now(), 1, &mut bytes) {
            all.push(bytes[..transmit.size].to_vec());
            bytes.clear();
        }
        all
    }

    /// Opens a connection whose server's first datagram, which makes the keys, arrives last. Returns
    /// whether the client then has its whole flight.
    fn opens(keeps: u8) -> bool {
        let config = quic::Config { undecryptable_packets: keeps, ..quic::Config::default() };
        let client = tls::Client { alpn: 3, hello: 235, ..tls::Client::default() };
        let mut quic = Quic::default();
        quic.servers.insert(1, Serving { quic: config, tls: tls::Server::default() });
        let (mut of_client, of_server, [has_keys, _], _) =
            quic.begin([0, 1], 0, (client, config)).expect("it is possible");
        of_client.transport_config(transport(&config, 853));
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let now = Instant::now();
        let mut near = Endpoint::new(endpoint(&config), None, true, None);
        let mut far = Endpoint::new(endpoint(&config), Some(Arc::new(of_server)), true, None);
        let (handle, state) =
            near.connect(now, of_client, address(853), "127.0.0.1").expect("a client");
        let mut end = End::new(handle, state, has_keys, keeps);
        let [hello] = &sent(&mut end.state)[..] else { panic!("a ClientHello") };
        let mut answer = Vec::new();
        let arrived = far.handle(now, address(1), None, None, (&hello[..]).into(), &mut answer);
        let Some(DatagramEvent::NewConnection(incoming)) = arrived else { panic!("it is new") };
        let (_, mut server) = far.accept(incoming, now, &mut answer, None).expect("a server");
        let mut flight = sent(&mut server);
        assert!(flight.len() > 1);
        flight.rotate_left(1);
        for datagram in flight {
            let kind = PacketKind::of(datagram[0]);
            let arrived =
                near.handle(now, address(853), None, None, (&datagram[..]).into(), &mut answer);
            let Some(DatagramEvent::ConnectionEvent(_, event)) = arrived else {
                panic!("it is the client's")
            };
            end.take(kind, event);
        }
        !end.state.is_handshaking()
    }

    #[test]
    fn datagrams_wait_for_their_keys() {
        assert!(opens(4) && opens(2));
        assert!(!opens(0) && !opens(1));
    }
}
