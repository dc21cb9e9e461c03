//! What happens to each packet and each answer: the core decides, and this module carries it out.

mod peers;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use narrows_wire::tcp::{Flags, Options};

pub use peers::Source;

use peers::Peers;

use super::batch::{BATCH, Inbox};
use super::fragments::Fragments;
use super::link::Link;
use super::peer::Peer;
use super::poller::{Poller, Token};
use super::proxied::Transport;
use super::relay::Relay;
use super::stream::{self, Start};
use super::upstream::{Asked, Asker, Upstream};
use crate::config::User;
use crate::core::packet::{Datagram, Ip, Segment, TCP};
use crate::core::segment::Outgoing;
use crate::core::{Connection, Core, Counter, Now, ReplyVerdict, Settings, TooBig, Verdict};

/// How many packets are read before others have their turn.
const BURST: usize = 256;
/// How often expired entries and queries are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How long the entry of a closing connection stays: the lifetime of its cookie (PROTOCOL.md).
const LINGER: Duration = Duration::from_secs(64);

/// What only this path counts; [`Core::counters`] has the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Queries that are with the server now.
    pub queries: u64,
    /// Queries that were dropped because too many were with the server.
    pub queries_full: u64,
    /// Datagrams to the gateway's sockets that answered no query.
    pub strange_answers: u64,
    /// Connections that continue with TCP now.
    pub relays: u64,
    /// Connections that could not continue with TCP and were reset.
    pub relays_refused: u64,
    /// Packets that the link had no room for or refused.
    pub unsent: u64,
}

/// The user-space data path.
#[derive(Debug)]
pub struct DataPath<L> {
    link: L,
    core: Core,
    upstream: Upstream,
    relay: Relay,
    poller: Poller,
    counters: PathCounters,
    peers: Peers,
    fragments: Fragments,
    swept_at: Duration,
    inbox: Inbox,
    out: Vec<Vec<u8>>,
    tokens: Vec<Token>,
    /// The link has no descriptor to wait for.
    in_memory: bool,
}

impl<L: Link> DataPath<L> {
    /// A path without connections. The link's MTU limits the segments.
    ///
    /// # Errors
    ///
    /// Returns the system's error if it has no epoll or no random numbers.
    pub fn new(link: L, settings: Settings, user: User) -> io::Result<Self> {
        let settings = fitted(settings, link.mtu());
        let poller = Poller::new()?;
        for (at, descriptor) in link.descriptors().into_iter().enumerate() {
            poller.add(descriptor, Token::Link(at as u32))?;
        }
        let in_memory = link.descriptors().is_empty();
        Ok(Self {
            peers: Peers::new(
                settings.flows,
                Duration::from_millis(settings.idle_ms.into()) + LINGER,
            ),
            fragments: Fragments::new(link.mtu()),
            core: Core::new(settings),
            upstream: Upstream::new(user.upstream, user.queries as usize, user.proxy_protocol)?,
            relay: Relay::new(user.relays as usize, user.proxy_protocol == Some(Transport::Stream)),
            poller,
            counters: PathCounters::default(),
            swept_at: Duration::ZERO,
            inbox: Inbox::new(),
            out: Vec::new(),
            tokens: Vec::new(),
            in_memory,
            link,
        })
    }

    /// Also waits for another descriptor, which the caller keeps open. [`DataPath::turn`] says when
    /// it is readable.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn watch(&self, descriptor: impl AsFd) -> io::Result<()> {
        self.poller.add(descriptor, Token::Watched)
    }

    /// Waits at most `wait` for something to do, and does it. `clock` is read after the wait.
    /// Returns whether the watched descriptor is ready.
    ///
    /// # Errors
    ///
    /// Returns the link's error if the device is gone.
    pub fn turn(&mut self, wait: Duration, mut clock: impl FnMut() -> Now) -> io::Result<bool> {
        let start = clock().boot;
        let due = [Some(self.swept_at + SWEEP), self.relay.timeout()].into_iter().flatten().min();
        let wait = due.map_or(wait, |due| wait.min(due.saturating_sub(start)));
        let mut tokens = std::mem::take(&mut self.tokens);
        self.poller.wait(wait, &mut tokens)?;
        let now = clock();
        let mut watched = false;
        for token in &tokens {
            match *token {
                Token::Watched => watched = true,
                Token::Link(at) => self.on_packets(now, at as usize)?,
                Token::Upstream(at) => self.on_answers(now, at)?,
                Token::Relay(at) => self.pump(now, at as usize)?,
            }
        }
        self.tokens = tokens;
        if self.in_memory {
            self.on_packets(now, 0)?;
        }
        while let Some(at) = self.relay.due(now.boot) {
            self.pump(now, at)?;
        }
        if now.boot >= self.swept_at + SWEEP {
            self.swept_at = now.boot;
            self.link.check()?;
            self.core.poll(now, &mut self.out);
            let fins = std::mem::take(&mut self.out);
            for fin in fins {
                let to = read(&fin).and_then(|fin| self.peers.find(fin.ip.destination));
                if let Some(peer) = to {
                    self.link.send(fin, peer)?;
                }
            }
            self.peers.age(now.boot);
            self.upstream.expire(now.boot.saturating_sub(self.core.settings().timeout));
        }
        self.flush()?;
        Ok(watched)
    }

    /// Applies new settings, as [`Core::reconfigure`].
    pub fn reconfigure(&mut self, settings: Settings) {
        self.core.reconfigure(fitted(settings, self.link.mtu()));
    }

    /// Returns the core, for its entries, counters and keys.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Returns what only this path counts.
    pub fn counters(&self) -> PathCounters {
        PathCounters {
            queries: self.upstream.open() as u64,
            relays: self.relay.len() as u64,
            unsent: self.link.unsent(),
            ..self.counters
        }
    }

    /// Returns the client addresses with the most entries or queries, at most `most` of either
    /// kind.
    pub fn sources(&self, most: usize) -> HashMap<IpAddr, Source> {
        let mut all: HashMap<IpAddr, Source> = HashMap::new();
        for (key, _) in self.core.flows() {
            all.entry(key.client).or_default().connections += 1;
        }
        for (&client, known) in self.peers.old.iter().chain(&self.peers.young) {
            all.entry(client).or_default().asked = known.asked;
        }
        if all.len() <= most {
            return all;
        }
        let mut kept = HashMap::new();
        let mut order: Vec<(IpAddr, Source)> = all.into_iter().collect();
        for by in [|source: &Source| source.connections, |source: &Source| source.asked] {
            order.sort_unstable_by_key(|(_, source)| std::cmp::Reverse(by(source)));
            kept.extend(order.iter().take(most).copied());
        }
        kept
    }

    /// Returns the link.
    pub fn link(&mut self) -> &mut L {
        &mut self.link
    }

    fn on_packets(&mut self, now: Now, from: usize) -> io::Result<()> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let result = self.take_packets(now, from, &mut inbox);
        self.inbox = inbox;
        result
    }

    fn take_packets(&mut self, now: Now, from: usize, inbox: &mut Inbox) -> io::Result<()> {
        for _ in 0..BURST / BATCH {
            let more = self.link.receive(from, inbox)?;
            for at in 0..inbox.len() {
                let (packet, peer) = inbox.packet(at);
                self.on_packet(now, packet, peer)?;
            }
            if !more {
                break;
            }
            // The first packets of a long queue need not wait for its end.
            self.flush()?;
        }
        Ok(())
    }

    /// Sends what is queued for clients and servers.
    fn flush(&mut self) -> io::Result<()> {
        self.upstream.flush();
        self.link.flush()
    }

    fn on_packet(&mut self, now: Now, packet: &[u8], peer: Peer) -> io::Result<()> {
        match Ip::read(packet) {
            Ok(Some(ip)) if ip.protocol == TCP && ip.fragment.is_some() => {
                let whole = self.fragments.take(now.boot, &ip);
                whole.map_or(Ok(()), |packet| self.on_whole_packet(now, &packet, peer))
            }
            _ => self.on_whole_packet(now, packet, peer),
        }
    }

    fn on_whole_packet(&mut self, now: Now, packet: &[u8], peer: Peer) -> io::Result<()> {
        if self.relay.len() > 0 {
            if let Some(at) = self.too_long(now, packet) {
                return self.pump(now, at);
            }
            if let Some(segment) = read(packet) {
                // The core gets SYNs even within the connection's window: the client may have begun
                // anew.
                let known = self.relay.find(&ends(&segment), segment.seq);
                if let Some(at) = known.filter(|_| !segment.flags.has(Flags::SYN)) {
                    if segment.checksum_holds() {
                        self.relay.handle_segment(at, peer, &plain(&segment), now.boot);
                        return self.pump(now, at);
                    }
                    self.core.count(Counter::BadChecksum);
                    return Ok(());
                }
            }
        }
        match self.core.on_client(now, packet, &mut self.out) {
            Verdict::Pass | Verdict::Drop => Ok(()),
            Verdict::Transmit => self.transmit(peer),
            Verdict::Query => self.ask(now, peer),
            Verdict::HandOff(_) => self.adopt(now, packet, peer),
        }
    }

    /// Returns which connection that continued with TCP has shorter segments now, because this
    /// packet reports a narrower path.
    fn too_long(&mut self, now: Now, packet: &[u8]) -> Option<usize> {
        let message = TooBig::read(&Ip::read(packet).ok()??)?;
        let at = self.relay.shorten(&message, now.boot)?;
        self.core.learn_path(now, &message);
        Some(at)
    }

    /// Sends the core's output.
    fn transmit(&mut self, peer: Peer) -> io::Result<()> {
        for packet in self.out.drain(..) {
            self.link.send(packet, peer)?;
        }
        Ok(())
    }

    /// Sends the core's datagram to the server.
    fn ask(&mut self, now: Now, peer: Peer) -> io::Result<()> {
        let packets = std::mem::take(&mut self.out);
        for packet in &packets {
            let Ok(Some(ip)) = Ip::read(packet) else { continue };
            let Ok(datagram) = Datagram::read(ip.payload) else { continue };
            let connection = Connection {
                client: SocketAddr::new(ip.source, datagram.source_port),
                server: SocketAddr::new(ip.destination, datagram.destination_port),
            };
            // The client has begun anew, so a connection of these ports that continued with TCP is
            // over.
            self.relay.forget(&connection);
            let server = self.server(&connection);
            let asker = Asker { connection, peer };
            self.peers.note(connection.client.ip(), peer);
            if let Some(ack) = self.core.acknowledge(packet) {
                self.link.send(ack, peer)?;
            }
            match self.upstream.ask(server, asker, datagram.message.to_vec(), now.boot) {
                Asked::Sent(None) => {}
                Asked::Sent(Some(at)) => {
                    if let Some(descriptor) = self.upstream.descriptor(at) {
                        self.poller.add(descriptor, Token::Upstream(at))?;
                    }
                }
                Asked::Full | Asked::Failed => self.counters.queries_full += 1,
            }
        }
        Ok(())
    }

    fn on_answers(&mut self, now: Now, at: u32) -> io::Result<()> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let result = self.take_answers(now, at, &mut inbox);
        self.inbox = inbox;
        result
    }

    fn take_answers(&mut self, now: Now, at: u32, inbox: &mut Inbox) -> io::Result<()> {
        for _ in 0..BURST / BATCH {
            let more = self.upstream.receive(at, inbox);
            for number in 0..inbox.len() {
                let (message, _) = inbox.packet(number);
                match self.upstream.accept(at, message) {
                    Some(asker) => self.on_answer(now, asker, message)?,
                    None => self.counters.strange_answers += 1,
                }
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn on_answer(&mut self, now: Now, asker: Asker, message: &[u8]) -> io::Result<()> {
        match self.core.on_message(now, asker.connection, message, &mut self.out) {
            ReplyVerdict::Sent | ReplyVerdict::Truncated => self.transmit(asker.peer),
            ReplyVerdict::Pass | ReplyVerdict::Drop => Ok(()),
            ReplyVerdict::HandOff => {
                let queries = std::mem::take(&mut self.out);
                queries.iter().try_for_each(|query| self.adopt(now, query, asker.peer))
            }
        }
    }

    /// Takes a connection over, beginning with this packet, if the core agrees.
    fn adopt(&mut self, now: Now, packet: &[u8], peer: Peer) -> io::Result<()> {
        self.out.clear();
        let client = read(packet).map(|segment| ends(&segment).client.ip());
        if client.is_some_and(|client| !self.relay.has_room(client)) {
            self.counters.relays_refused += 1;
            self.core.count(Counter::AdoptLimited);
            return Ok(()); // the client sends it again
        }
        let Some(adoption) = self.core.adopt(now, packet) else { return Ok(()) };
        let packet = adoption.joined.as_deref().unwrap_or(packet);
        let Some(segment) = read(packet) else { return Ok(()) };
        let connection = ends(&segment);
        let settings = self.core.settings();
        let ours = if connection.client.is_ipv4() { settings.mss4 } else { settings.mss6 };
        let path = self.core.path_mss(now, connection.client.ip()).unwrap_or(ours);
        let start = Start {
            client_next: segment.seq,
            server_next: segment.ack,
            window: u32::from(segment.window) << adoption.wscale.unwrap_or(0).min(14),
            mss: adoption.mss.min(ours).min(path),
            scale: adoption.wscale,
            timestamps: adoption.timestamps,
        };
        let server = self.upstream.server(self.server(&connection));
        match self.relay.open(connection, peer, &start, server, now.boot) {
            Ok(at) => {
                self.relay.handle_segment(at, peer, &plain(&segment), now.boot);
                self.pump(now, at)
            }
            Err(_) => {
                self.core.count(Counter::AdoptFailed);
                let rst = stream::Segment {
                    seq: segment.ack,
                    ack: segment.seq,
                    flags: Flags::RST | Flags::ACK,
                    ..stream::Segment::default()
                };
                self.link.send(outgoing(connection, &rst), peer)
            }
        }
    }

    fn pump(&mut self, now: Now, at: usize) -> io::Result<()> {
        let link = &mut self.link;
        let mut result = Ok(());
        self.relay.pump(at, now.boot, &self.poller, |connection, peer, segment| {
            if result.is_ok() {
                result = link.send(outgoing(connection, segment), peer);
            }
        })?;
        result
    }

    /// Returns which of the core's server addresses a connection is to.
    fn server(&self, connection: &Connection) -> usize {
        let servers = &self.core.settings().servers;
        servers.iter().position(|server| *server == connection.server.ip()).unwrap_or(0)
    }
}

/// Segments fit into the link's MTU.
fn fitted(settings: Settings, mtu: u16) -> Settings {
    Settings {
        mss4: settings.mss4.min(mtu.saturating_sub(40)),
        mss6: settings.mss6.min(mtu.saturating_sub(60)),
        ..settings
    }
}

fn read(packet: &[u8]) -> Option<Segment<'_>> {
    let ip = Ip::read(packet).ok()??;
    let is_tcp = ip.protocol == TCP && ip.fragment.is_none();
    if is_tcp { Segment::read(ip).ok() } else { None }
}

fn ends(segment: &Segment<'_>) -> Connection {
    Connection { client: segment.client(), server: segment.server() }
}

/// Returns the segment without its addresses and ports.
fn plain<'a>(segment: &Segment<'a>) -> stream::Segment<'a> {
    stream::Segment {
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags.0,
        window: segment.window,
        timestamps: segment.options.timestamps,
        payload: (segment.payload, &[]),
    }
}

/// Returns the IP packet that carries a segment to the client.
fn outgoing(connection: Connection, segment: &stream::Segment<'_>) -> Vec<u8> {
    let header = Outgoing {
        from: connection.server,
        to: connection.client,
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        options: Options { timestamps: segment.timestamps, ..Options::default() },
    };
    let payload = match segment.payload {
        (first, []) => Cow::Borrowed(first),
        (first, second) => Cow::Owned([first, second].concat()),
    };
    header.packet(&payload)
}

#[cfg(test)]
mod tests;
