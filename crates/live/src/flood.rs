//! Floods: packets with forged source addresses, and what their server does about them.
//!
//! Packets leave through a raw socket (raw(7)), so each can have any source. A flood needs a network
//! of addresses that belong to nobody ([`Place::forged`](crate::Place)), and a route at its own node
//! that discards packets to them: nothing answers a SYN-ACK or a reply.
//!
//! Every SYN has a random port, so nearly every one is a new connection to the server. All queries
//! from an address have the same port. Filters of packet sockets count what arrives: SYNs and queries
//! at the server, replies at the flood's own node. The counters of the server's host show the rest.
//! They include other servers of the node, and count a SYN that a client repeats as given up.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_apps::flood::{self, Of};
use narrows_apps::{Association, Datagram, Message};
use narrows_sim::plan::{Kind, Plan};
use narrows_transport::half_open::Counts;
use narrows_units::Time;
use narrows_wire::tcp::{Flags, Options};
use narrows_wire::{Ethernet, Ipv4, Packet, Payload, Tcp, Transport, Udp};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, sendto};

use crate::counters::{counter, read_all};
use crate::part::{Part, Use};
use crate::sockets::{PacketTest, Places, Width, address, passed};

/// The floods of a part, by application.
pub(crate) type Floods = BTreeMap<u32, Flood>;

/// A flood.
#[derive(Debug)]
pub(crate) struct Flood {
    settings: flood::Flood,
    /// The addresses that it forges.
    pub(crate) network: Network,
    /// Its first socket and its last association, as the application knows them.
    pub(crate) first_socket: u32,
    pub(crate) association: Option<Association>,
    pub(crate) nodes: [usize; 2],
    /// The server's address.
    pub(crate) target: SocketAddrV4,
    socket: OwnedFd,
    /// Counts queries that arrive at the server; `None`: it sends SYNs.
    arrived: Option<Counter>,
    /// Receives the heads of replies to forged addresses; `None`: it sends SYNs.
    pub(crate) replies: Option<OwnedFd>,
    /// What the server's host has done; `None`: the server has no TCP.
    server: Option<Server>,
    dscp: u8,
    sent: u64,
    /// When losses are counted next.
    due: Time,
    sent_before: u64,
    lost: u64,
}

/// A network of forged addresses, with 16 bits for hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network(Ipv4Addr);

/// The packets that pass a filter.
#[derive(Debug)]
struct Counter {
    socket: OwnedFd,
    passed: Cell<u64>,
}

/// The counters of a server's host.
#[derive(Debug)]
struct Server {
    syns: Counter,
    netstat: File,
    snmp: File,
    /// Its sockets.
    table: File,
    port: u16,
    /// The counters at the start: dropped SYNs, cookies, repeated SYN-ACKs, connections.
    first: [u64; 4],
    expired: Cell<u64>,
}

/// Prepares the floods of a plan that are played.
///
/// # Errors
///
/// Returns, in one line, what is missing.
pub(crate) fn open(
    plan: &Plan,
    played: &[bool],
    part: &Part,
    places: &Places,
) -> Result<Floods, String> {
    let mut found = Floods::new();
    for (number, (one, _)) in
        plan.applications.iter().zip(played).enumerate().filter(|(_, (_, played))| **played)
    {
        let Kind::Flood(settings) = &one.kind else { continue };
        let path = &plan.paths[settings.there];
        let (nodes, number) = ([path.from, path.to], number as u32);
        let place = part.places.get(&plan.nodes[path.from]);
        let network = place.and_then(|place| place.forged.get(&number));
        let Some(&network) = network else {
            let node = &plan.nodes[path.from];
            return Err(format!("{}: {node} has no addresses that it may forge", one.name));
        };
        let flood = Flood::open(places, settings, nodes, (Network(network), number));
        let flood = flood.map_err(|why| format!("{}: raw sockets: {}", one.name, why.desc()))?;
        found.insert(number, flood);
    }
    Ok(found)
}

impl Flood {
    fn open(
        places: &Places,
        settings: &flood::Flood,
        nodes: [usize; 2],
        (network, number): (Network, u32),
    ) -> Result<Self, Errno> {
        let of = Use { tcp: None, server: Some(settings.server as u32) };
        let target = SocketAddrV4::new(places.address(nodes[1], of), narrows_apps::dns::PORT);
        let of_queries = matches!(settings.of, Of::Queries(_));
        let watch = |node, side| places.packets(node, &network.datagrams(side));
        let queries = of_queries.then(|| watch(nodes[1], SOURCE)).transpose()?;
        Ok(Self {
            settings: settings.clone(),
            network,
            first_socket: 0,
            association: None,
            nodes,
            target,
            dscp: places.dscp(number),
            socket: places.raw(nodes[0])?,
            arrived: queries.map(Counter::from),
            replies: of_queries.then(|| watch(nodes[0], DESTINATION)).transpose()?,
            server: None,
            sent: 0,
            due: settings.start + settings.period,
            sent_before: 0,
            lost: 0,
        })
    }

    /// Returns its server: an index into the plan's applications.
    pub(crate) fn server(&self) -> u32 {
        self.settings.server as u32
    }

    /// Counts what the server's host does from now on.
    pub(crate) fn watch_server(&mut self, places: &Places) -> std::io::Result<()> {
        self.server = Some(Server::open(places, self.nodes[1], self.target.port())?);
        Ok(())
    }

    /// Returns what the server has done about SYNs.
    pub(crate) fn half_open(&self) -> Option<Counts> {
        self.server.as_ref().map(Server::counts)
    }

    /// Sends a SYN with Linux's options from the forged address whose turn it is.
    pub(crate) fn send_syn(&mut self, turn: u32, seq: u32) {
        let source = self.network.address(turn);
        let syn = Tcp {
            // Sequence numbers are random, so these ports are random too.
            source_port: FIRST_PORT + (seq % PORTS) as u16,
            destination_port: self.target.port(),
            seq,
            flags: Flags(Flags::SYN),
            window: u16::MAX,
            options: Options {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some((1, 0)),
                ..Options::default()
            },
            ..Tcp::default()
        };
        self.send(*source.ip(), Transport::Tcp(syn), &[]);
    }

    /// Sends a query from a forged address.
    pub(crate) fn send_query(&mut self, source: SocketAddrV4, query: &[u8]) {
        let udp = Udp { source_port: source.port(), destination_port: self.target.port() };
        self.send(*source.ip(), Transport::Udp(udp), query);
    }

    fn send(&mut self, source: Ipv4Addr, transport: Transport, payload: &[u8]) {
        let packet = Packet {
            ethernet: Ethernet::default(),
            // The kernel fills in the identification.
            ip: Ipv4 {
                tos: self.dscp << 2,
                dont_fragment: false,
                ..Ipv4::new(source, *self.target.ip())
            },
            transport,
        };
        let mut frame = Vec::with_capacity(packet.header_bytes() + payload.len());
        self.sent += 1;
        if packet.write(Payload::Bytes(payload), payload.len(), &mut frame).is_ok() {
            let to = address(SocketAddrV4::new(*self.target.ip(), 0));
            let flags = MsgFlags::MSG_DONTWAIT;
            // A failure is a loss: the host's own queue is full.
            let _ = sendto(self.socket.as_raw_fd(), &frame[Ethernet::BYTES..], &to, flags);
        }
    }

    /// Returns how many more queries are lost at `now` than at the last call. A query that was sent
    /// a period ago and has not arrived never will.
    pub(crate) fn newly_lost(&mut self, now: Time) -> u64 {
        let Some(arrived) = self.arrived.as_ref().filter(|_| now >= self.due) else { return 0 };
        let lost = self.sent_before.saturating_sub(arrived.passed()).max(self.lost);
        let more = lost - self.lost;
        self.lost = lost;
        self.sent_before = self.sent;
        self.due += self.settings.period;
        more
    }

    /// Returns a datagram of it.
    pub(crate) fn datagram(&self, goes_back: bool, bytes: u32) -> Option<Datagram> {
        let message = Message { bytes, tag: u32::MAX, notes: [0; 2] };
        let (association, socket) = (self.association?, self.first_socket);
        Some(Datagram { association, socket, goes_back, message })
    }

    /// Reads the head of a reply, and returns the length of its message.
    pub(crate) fn next_reply(&self, buffer: &mut [u8]) -> Option<u32> {
        let count = recv(self.replies.as_ref()?.as_raw_fd(), buffer, MsgFlags::empty()).ok()?;
        let length = buffer[..count].get(UDP_LENGTH..UDP_LENGTH + 2)?;
        let length = u16::from_be_bytes([length[0], length[1]]);
        Some(u32::from(length).saturating_sub(Udp::BYTES as u32))
    }
}

impl Network {
    /// Returns the address and the port with this number. Numbers begin with 0.
    pub(crate) fn address(self, turn: u32) -> SocketAddrV4 {
        let host = turn % HOSTS + 1;
        let port = FIRST_PORT + (turn % PORTS) as u16;
        SocketAddrV4::new(Ipv4Addr::from(u32::from(self.0) | host), port)
    }

    /// Returns the number of an address, or `None` if it is not in this network.
    pub(crate) fn turn(self, of: Ipv4Addr) -> Option<u32> {
        let host = u32::from(of) & !MASK;
        (u32::from(of) & MASK == u32::from(self.0) && host > 0).then(|| host - 1)
    }

    /// Passes datagrams with such an address: whole ones and first fragments.
    fn datagrams(self, side: u32) -> [PacketTest; 3] {
        [
            PacketTest { at: PROTOCOL, width: Width::Byte, mask: 0xff, value: UDP },
            PacketTest { at: FRAGMENT, width: Width::Half, mask: 0x1fff, value: 0 },
            PacketTest { at: side, width: Width::Word, mask: MASK, value: self.0.into() },
        ]
    }
}

impl From<OwnedFd> for Counter {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, passed: Cell::new(0) }
    }
}

impl Counter {
    /// Returns how many packets have passed the filter, with those that the socket had no room for.
    fn passed(&self) -> u64 {
        // The kernel counts from the last reading.
        self.passed.set(self.passed.get() + passed(&self.socket));
        self.passed.get()
    }
}

impl Server {
    fn open(places: &Places, node: usize, port: u16) -> std::io::Result<Self> {
        let syns = [
            PacketTest { at: PROTOCOL, width: Width::Byte, mask: 0xff, value: TCP },
            PacketTest { at: TCP_PORT, width: Width::Half, mask: 0xffff, value: port.into() },
            PacketTest {
                at: TCP_FLAGS,
                width: Width::Byte,
                mask: (Flags::SYN | Flags::ACK).into(),
                value: Flags::SYN.into(),
            },
        ];
        let open = |name: &str| places.open_in(node, &format!("/proc/thread-self/net/{name}"));
        let mut server = Self {
            syns: places.packets(node, &syns)?.into(),
            netstat: open("netstat")?,
            snmp: open("snmp")?,
            table: open("tcp")?,
            port,
            first: [0; 4],
            expired: Cell::new(0),
        };
        server.first = server.now();
        Ok(server)
    }

    /// Returns the counters, as in `first`. Counters that cannot be read are 0.
    fn now(&self) -> [u64; 4] {
        let (netstat, snmp) = (read_all(&self.netstat), read_all(&self.snmp));
        let of = |text: &str, name| counter(text, name).unwrap_or(0);
        [
            of(&netstat, "ListenDrops"),
            of(&netstat, "SyncookiesSent"),
            of(&netstat, "TCPSynRetrans"),
            of(&snmp, "PassiveOpens"),
        ]
    }

    fn counts(&self) -> Counts {
        let (now, first) = (self.now(), self.first);
        let [dropped, cookies, repeated, opened] =
            std::array::from_fn(|at| now[at].saturating_sub(first[at]));
        let (syns, entries) = (self.syns.passed(), self.entries());
        let left = syns.saturating_sub(dropped + cookies + opened + u64::from(entries));
        self.expired.set(self.expired.get().max(left));
        Counts { entries, syns, dropped, cookies, repeated, expired: self.expired.get() }
    }

    /// Returns the half-open connections of the server's port.
    fn entries(&self) -> u32 {
        let port = format!(":{:04X}", self.port);
        let is_entry = |line: &&str| {
            let mut words = line.split_ascii_whitespace();
            let own = words.nth(1).is_some_and(|own| own.ends_with(&port));
            own && words.nth(1) == Some(HALF_OPEN)
        };
        read_all(&self.table).lines().filter(is_entry).count() as u32
    }
}

/// The mask of a network, and its number of hosts.
const MASK: u32 = 0xffff_0000;
const HOSTS: u32 = 65_534;

/// The ports of forged addresses.
const FIRST_PORT: u16 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT as u32;

/// Where an IPv4 packet without options has its fields.
const FRAGMENT: u32 = 6;
const PROTOCOL: u32 = 9;
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
const TCP_PORT: u32 = 22;
const TCP_FLAGS: u32 = 33;
const UDP_LENGTH: usize = 24;

/// Protocols of IPv4 (RFC 9293, RFC 768).
const TCP: u32 = 6;
const UDP: u32 = 17;

/// The state of a half-open connection in /proc/net/tcp: `TCP_SYN_RECV`.
const HALF_OPEN: &str = "03";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_addresses_are_found_again() {
        let network = Network(Ipv4Addr::new(198, 18, 0, 0));
        assert_eq!(network.address(0), "198.18.0.1:1024".parse().expect("an address"));
        for turn in [0, 255, 256, HOSTS - 1] {
            assert_eq!(network.turn(*network.address(turn).ip()), Some(turn));
        }
        // After the last address, the first one comes again, with another port.
        assert_eq!(network.address(HOSTS).ip(), network.address(0).ip());
        assert_eq!(network.turn(Ipv4Addr::new(198, 19, 0, 1)), None);
        assert_eq!(network.turn(Ipv4Addr::new(198, 18, 0, 0)), None);
    }
}
