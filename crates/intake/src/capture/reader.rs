//! From packets to rows.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use narrows_wire::brief::Brief;
use narrows_wire::dns::HEADER_BYTES;

use super::connection::{Connection, is_cut};
use super::copies::Copies;
use super::datagrams::PendingQueries;
use super::ip::{Datagram, Fragments, NoDatagram};
use super::link::{NoIp, ip_of};
use super::names::protocol_name;
use super::remark::Remark;
use super::rows::CaptureChunk;
use super::segment::{SYN, Tcp, Udp};
use super::tunnel;
use crate::Skipped;

/// Makes rows of packets.
pub(super) struct PacketRows {
    ports: Vec<u16>,
    copies: Copies,
    fragments: Fragments,
    connections: Connections,
    /// The connections that have ended, and when.
    over: VecDeque<(i64, Key)>,
    opened: u32,
    held: usize,
    waiting: PendingQueries,
    /// How many packets each other port had, for the hint if nothing was DNS.
    other_ports: BTreeMap<u16, u64>,
}

/// Where the rows of a record go, and what is odd about it.
pub(super) struct Out<'a> {
    /// The record's number in its file.
    pub(super) number: u64,
    pub(super) rows: &'a mut CaptureChunk,
    pub(super) skipped: &'a mut Skipped,
    pub(super) remarks: &'a mut Skipped<Remark>,
}

impl Out<'_> {
    pub(super) fn skip(&mut self, kind: &'static str, why: impl FnOnce() -> String) {
        self.skipped.add(kind, self.number, why);
    }

    pub(super) fn remark(&mut self, kind: Remark, what: impl FnOnce() -> String) {
        self.remarks.add(kind, self.number, what);
    }
}

type End = (IpAddr, u16);
type Key = (End, End);
/// Keys come from the network, so the hash is seeded at random to bound its work.
type Connections = HashMap<Key, Connection, RandomState>;

impl PacketRows {
    /// Creates a reader of packets. DNS servers listen on `ports`.
    pub(super) fn new(ports: &[u16]) -> Self {
        Self {
            ports: ports.to_vec(),
            copies: Copies::default(),
            fragments: Fragments::default(),
            connections: Connections::default(),
            over: VecDeque::new(),
            opened: 0,
            held: 0,
            waiting: PendingQueries::default(),
            other_ports: BTreeMap::new(),
        }
    }

    /// Takes a packet.
    pub(super) fn take(&mut self, link: u16, packet: &[u8], now_ns: i64, out: &mut Out<'_>) {
        match ip_of(link, packet) {
            Ok(ip) => self.ip(ip, 0, now_ns, out),
            Err(why) => out.no_ip(why),
        }
    }

    /// Returns the ports of most of the other packets, the busiest first; at most three.
    pub(super) fn busiest_other_ports(&self) -> Vec<u16> {
        let mut ports: Vec<(u64, u16)> = self
            .other_ports
            .iter()
            .filter(|(port, _)| !unreadable(**port))
            .map(|(port, count)| (*count, *port))
            .collect();
        ports.sort_by(|a, b| b.cmp(a));
        ports.iter().take(3).map(|(_, port)| *port).collect()
    }

    /// Ends the capture.
    pub(super) fn finish(&mut self, out: &mut Out<'_>) {
        // In a fixed order, so that the same file gives the same rows.
        let mut left: Vec<(Key, Connection)> = self.connections.drain().collect();
        left.sort_by_key(|(key, connection)| (connection.last_ns, *key));
        for (_, connection) in left {
            connection.finish(out.rows, out.remarks);
        }
        self.waiting.finish(out.rows);
        let given_up = self.fragments.dropped() + self.fragments.open() as u64;
        if given_up > 0 {
            out.skip(FRAGMENTS, || {
                format!("{given_up} datagrams, of which some fragments are missing")
            });
        }
    }

    /// Takes an IP packet, `depth` tunnels deep.
    fn ip(&mut self, ip: &[u8], depth: u8, now_ns: i64, out: &mut Out<'_>) {
        if self.copies.is_copy(ip, now_ns) {
            return out.skip(COPY, || "from a bridge or a mirror port".to_owned());
        }
        let datagram = match self.fragments.read(ip) {
            Ok(datagram) => datagram,
            Err(NoDatagram::Fragment) => return,
            Err(NoDatagram::Short) => {
                return out.skip(CUT, || "the capture cut its IP header off".to_owned());
            }
            Err(NoDatagram::Malformed) => {
                return out.skip(NO_IP, || "the lengths in its IP header make no sense".to_owned());
            }
        };
        match tunnel::inside(&datagram, &self.ports) {
            Some(_) if depth == MAX_DEPTH => {
                out.skip(OTHER, || format!("more than {MAX_DEPTH} tunnels in each other"));
            }
            Some(Ok(inner)) => self.ip(inner, depth + 1, now_ns, out),
            Some(Err(why)) => out.no_ip(why),
            None => self.datagram(&datagram, now_ns, out),
        }
    }

    fn datagram(&mut self, datagram: &Datagram<'_>, now_ns: i64, out: &mut Out<'_>) {
        let (source, destination) = (datagram.source, datagram.destination);
        match datagram.protocol {
            17 => match Udp::read(&datagram.payload, datagram.length) {
                Some(udp) => self.udp(source, destination, &udp, now_ns, out),
                None => out.skip(CUT, || "its UDP header is cut off or makes no sense".to_owned()),
            },
            6 => match Tcp::read(&datagram.payload, datagram.length) {
                Some(tcp) => self.tcp(source, destination, &tcp, now_ns, out),
                None => out.skip(CUT, || "its TCP header is cut off or makes no sense".to_owned()),
            },
            other => out.no_ip(NoIp::Other(protocol_name(other), u16::from(other))),
        }
    }

    fn other(&mut self, source: u16, destination: u16, out: &mut Out<'_>) {
        // A port that is known is the server's, and otherwise most likely the lower one.
        let known = [destination, source].into_iter().find(|port| unreadable(*port));
        let port = known.unwrap_or(source.min(destination));
        *self.other_ports.entry(port).or_insert(0) += 1;
        let kind = if ENCRYPTED.contains(&port) { SECURE_PORT } else { OTHER_PORT };
        out.skip(kind, || format!("port {port}"));
    }

    fn udp(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        udp: &Udp<'_>,
        now_ns: i64,
        out: &mut Out<'_>,
    ) {
        let to_server = self.ports.contains(&udp.destination);
        let from_server = self.ports.contains(&udp.source);
        if !to_server && !from_server {
            return self.other(udp.source, udp.destination, out);
        }
        let snapped = udp.payload.len() < udp.length;
        let Some(brief) = Brief::read(udp.payload) else {
            if snapped && udp.length >= HEADER_BYTES {
                out.skip(CUT, || "the capture cut its DNS header off".to_owned());
            } else {
                out.skip(NO_MESSAGE, || "shorter than a DNS header".to_owned());
            }
            return;
        };
        if snapped && is_cut(brief, HEADER_BYTES) {
            out.remark(Remark::NoQuestion, || format!("of {} bytes", udp.length));
        }
        let (source, destination) = ((source, udp.source), (destination, udp.destination));
        let (waiting, rows) = (&mut self.waiting, &mut *out.rows);
        // Some resolvers ask from port 53, so only the message itself says its direction.
        if brief.reply() {
            if from_server {
                if waiting.reply(destination, source, brief, udp.length, now_ns, rows) {
                    out.remark(Remark::SecondReply, || format!("number {}", brief.id()));
                }
            } else {
                out.skip(NO_MESSAGE, || "a reply that goes to a server".to_owned());
            }
        } else if brief.questions() == 0 {
            out.skip(NO_MESSAGE, || "a query without a question".to_owned());
        } else if to_server {
            waiting.query(source, destination, brief, udp.length, now_ns, rows);
        } else {
            out.skip(NO_MESSAGE, || "a query that comes from a server".to_owned());
        }
    }

    fn tcp(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        tcp: &Tcp<'_>,
        now_ns: i64,
        out: &mut Out<'_>,
    ) {
        let to_server = self.ports.contains(&tcp.destination);
        let from_server = self.ports.contains(&tcp.source);
        if !to_server && !from_server {
            return self.other(tcp.source, tcp.destination, out);
        }
        let (source, destination) = ((source, tcp.source), (destination, tcp.destination));
        let forward = (source, destination);
        let backward = (destination, source);
        // If both ports are servers' ports, the connection's first packet gives its direction.
        let from_client = match (to_server, from_server) {
            (true, false) => true,
            (false, true) => false,
            _ => !self.connections.contains_key(&backward),
        };
        let key = if from_client { forward } else { backward };
        let opens = from_client && tcp.flags & SYN != 0;
        self.close_ended(now_ns, out);
        // Returns by how much the connection grows, and when it ended if this packet ends it.
        let take = |connection: &mut Connection, rows: &mut _, remarks: &mut _| {
            let (before, known) = (connection.held(), connection.over_ns());
            connection.segment(tcp, from_client, now_ns, rows, remarks);
            let over = if known.is_none() { connection.over_ns() } else { None };
            (connection.held().wrapping_sub(before), over)
        };
        let (grown, over) = match self.connections.get_mut(&key) {
            // Nearly every packet needs just this one look-up.
            Some(known) if !(opens && known.is_other(tcp.seq)) => {
                take(known, out.rows, out.remarks)
            }
            known => {
                if known.is_some() {
                    self.close(&key, out);
                }
                if self.connections.len() >= MAX_CONNECTIONS {
                    self.make_room(now_ns, out);
                }
                let number = self.opened;
                self.opened = number.wrapping_add(1);
                let mut connection = Connection::new(number, key.0, key.1, now_ns);
                let (_, over) = take(&mut connection, out.rows, out.remarks);
                let whole = connection.held();
                self.connections.insert(key, connection);
                (whole, over)
            }
        };
        self.over.extend(over.map(|at| (at, key)));
        self.held = self.held.wrapping_add(grown);
        if self.held > MAX_HELD {
            self.make_room(now_ns, out);
        }
    }

    /// Ends connections on which nothing will be sent again.
    fn close_ended(&mut self, now_ns: i64, out: &mut Out<'_>) {
        while let Some(&(at, key)) = self.over.front() {
            let full = self.over.len() > MAX_CONNECTIONS;
            if now_ns.saturating_sub(at) <= QUIET_NS && !full {
                break;
            }
            self.over.pop_front();
            // Another connection may use its ports by now.
            if self.connections.get(&key).is_some_and(|known| known.over_ns() == Some(at)) {
                self.close(&key, out);
            }
        }
    }

    fn close(&mut self, key: &Key, out: &mut Out<'_>) {
        if let Some(connection) = self.connections.remove(key) {
            self.held = self.held.saturating_sub(connection.held());
            connection.finish(out.rows, out.remarks);
        }
    }

    /// Ends the half of the connections that have been quiet for longest.
    fn make_room(&mut self, now_ns: i64, out: &mut Out<'_>) {
        let mut quiet: Vec<(i64, Key)> =
            self.connections.iter().map(|(key, part)| (part.last_ns, *key)).collect();
        quiet.sort_unstable();
        let half = quiet.len().div_ceil(2);
        let busy = quiet.iter().take(half).filter(|(at, _)| now_ns - at < QUIET_NS).count();
        if busy > 0 {
            out.remark(Remark::TooMany, || {
                format!("{busy} connections that had packets in the last minute")
            });
        }
        for (_, key) in quiet.into_iter().take(half) {
            self.close(&key, out);
        }
    }
}

impl Out<'_> {
    fn no_ip(&mut self, why: NoIp) {
        match why {
            NoIp::Other(Some(name), _) => self.skip(name, String::new),
            NoIp::Other(None, number) => self.skip(OTHER, || format!("protocol {number:#06x}")),
            NoIp::Short => self.skip(CUT, || "it ends within the link layer's header".to_owned()),
            NoIp::UnknownLink(link) => self.skip(LINK, || format!("link type {link} is not read")),
        }
    }
}

/// Returns whether a port's packets cannot be DNS that is read when the port is named.
fn unreadable(port: u16) -> bool {
    ENCRYPTED.contains(&port)
        || OTHERWISE_ENCRYPTED.contains(&port)
        || tunnel::PORTS.contains(&port)
}

/// More tunnels in each other than any network has.
const MAX_DEPTH: u8 = 8;
const MAX_CONNECTIONS: usize = 100_000;
/// The most bytes that unfinished messages and connections may hold.
const MAX_HELD: usize = 256 << 20;
const QUIET_NS: i64 = 60_000_000_000;

/// Ports of HTTPS, of DNS over TLS and QUIC, and of DNS over QUIC before RFC 9250.
const ENCRYPTED: [u16; 3] = [443, 853, 784];
/// SSH, IPsec, OpenVPN, WireGuard, GRE in DTLS.
const OTHERWISE_ENCRYPTED: [u16; 6] = [22, 500, 4500, 1194, 51820, 4755];

const OTHER: &str = "neither UDP nor TCP over IP";
const SECURE_PORT: &str = "of ports of TLS, HTTPS and QUIC, which cannot be read";
const OTHER_PORT: &str = "of other ports";
const LINK: &str = "an unknown link type";
const COPY: &str = "a packet that was captured twice";
const CUT: &str = "a packet that was cut or makes no sense";
const NO_IP: &str = "an IP header that makes no sense";
const NO_MESSAGE: &str = "udp: no DNS message";
const FRAGMENTS: &str = "fragments without the rest of their datagram";
