//! The reader of a capture: from packets to rows.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use narrows_wire::brief::Brief;
use narrows_wire::dns::HEADER_BYTES;

use super::connection::{Connection, is_cut};
use super::copies::Copies;
use super::datagrams::PendingQueries;
use super::file::{FileError, Packets};
use super::ip::{Datagram, Fragments, NoDatagram};
use super::link::{NoIp, ip_of};
use super::remark::Remark;
use super::rows::CaptureChunk;
use super::segment::{SYN, Tcp, Udp};
use crate::Skipped;

/// Reads a capture's DNS exchanges.
pub struct CaptureReader<R> {
    packets: Packets<R>,
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
    count: u64,
    now_ns: i64,
    ended: bool,
    skipped: Skipped,
    remarks: Skipped<Remark>,
}

type End = (IpAddr, u16);
type Key = (End, End);
/// Keys come from the network, so the hash is seeded at random to bound its work.
type Connections = HashMap<Key, Connection, RandomState>;

impl<R: Read> CaptureReader<R> {
    /// Creates a reader of a file that is already decompressed. DNS servers listen on `ports`.
    pub fn new(file: R, ports: &[u16]) -> Result<Self, FileError> {
        Ok(Self {
            packets: Packets::new(file)?,
            ports: ports.to_vec(),
            copies: Copies::default(),
            fragments: Fragments::default(),
            connections: Connections::default(),
            over: VecDeque::new(),
            opened: 0,
            held: 0,
            waiting: PendingQueries::default(),
            other_ports: BTreeMap::new(),
            count: 0,
            now_ns: 0,
            ended: false,
            skipped: Skipped::default(),
            remarks: Skipped::default(),
        })
    }

    /// Returns the rows of the next packets, about `most`; `None` after the last.
    ///
    /// If the file cannot be read further, it ends there and counts as damaged.
    pub fn next_chunk(&mut self, most: usize) -> Option<CaptureChunk> {
        let mut rows = CaptureChunk::default();
        self.fill(&mut rows, most).then_some(rows)
    }

    /// Reads the rows of the next packets, about `most`, into `rows`, which must be empty. Returns
    /// whether there may be more.
    pub(super) fn fill(&mut self, rows: &mut CaptureChunk, most: usize) -> bool {
        // A capture without rows also has to give the caller a turn now and then.
        let mut left = PACKETS;
        while !self.ended && rows.len() < most && left > 0 {
            left -= 1;
            let number = self.count + 1;
            match self.packets.next_packet() {
                Ok(Some(packet)) => {
                    self.count = number;
                    let Some(now_ns) = packet.time_ns else {
                        self.skipped.add(NO_TIME, number, || "its block has no time".to_owned());
                        continue;
                    };
                    self.now_ns = now_ns;
                    match ip_of(packet.link, packet.data) {
                        Ok(ip) if self.copies.is_copy(ip, now_ns) => {
                            self.skipped
                                .add(COPY, number, || "from a bridge or a mirror".to_owned());
                        }
                        Ok(ip) => match self.fragments.read(ip) {
                            Ok(datagram) => Self::datagram(
                                &datagram,
                                now_ns,
                                &mut Parts {
                                    ports: &self.ports,
                                    connections: &mut self.connections,
                                    over: &mut self.over,
                                    opened: &mut self.opened,
                                    held: &mut self.held,
                                    waiting: &mut self.waiting,
                                    other_ports: &mut self.other_ports,
                                    number,
                                    rows,
                                    skipped: &mut self.skipped,
                                    remarks: &mut self.remarks,
                                },
                            ),
                            Err(NoDatagram::Fragment) => {}
                            Err(NoDatagram::Short) => self.skipped.add(CUT, number, || {
                                "the capture cut its IP header off".to_owned()
                            }),
                            Err(NoDatagram::Malformed) => self.skipped.add(NO_IP, number, || {
                                "the lengths in its IP header make no sense".to_owned()
                            }),
                        },
                        Err(NoIp::Other) => {
                            self.skipped.add(OTHER, number, || "such as ARP".to_owned());
                        }
                        Err(NoIp::Short) => self.skipped.add(CUT, number, || {
                            "it ends within the link layer's header".to_owned()
                        }),
                        Err(NoIp::UnknownLink(link)) => self
                            .skipped
                            .add(LINK, number, || format!("link type {link} is not read")),
                    }
                }
                Ok(None) => self.finish(rows),
                Err(error) => {
                    self.skipped.add(DAMAGED, number, || error.to_string());
                    self.finish(rows);
                }
            }
        }
        !self.ended || !rows.is_empty()
    }

    /// Returns the number of packets so far.
    pub fn packets(&self) -> u64 {
        self.count
    }

    /// Returns what was skipped so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Returns what was odd so far in data that still gave rows.
    pub fn remarks(&self) -> &Skipped<Remark> {
        &self.remarks
    }

    /// Returns the ports of most of the other packets, the busiest first; at most three.
    pub fn busiest_other_ports(&self) -> Vec<u16> {
        let mut ports: Vec<(u64, u16)> =
            self.other_ports.iter().map(|(port, count)| (*count, *port)).collect();
        ports.sort_by(|a, b| b.cmp(a));
        ports.iter().take(3).map(|(_, port)| *port).collect()
    }

    fn finish(&mut self, rows: &mut CaptureChunk) {
        self.ended = true;
        // In a fixed order, so that the same file gives the same rows.
        let mut left: Vec<(Key, Connection)> = self.connections.drain().collect();
        left.sort_by_key(|(key, connection)| (connection.last_ns, *key));
        for (_, connection) in left {
            connection.finish(rows, &mut self.remarks);
        }
        self.waiting.finish(rows);
        let given_up = self.fragments.dropped() + self.fragments.open() as u64;
        for _ in 0..given_up.min(1) {
            self.skipped.add(FRAGMENTS, self.count, || {
                format!("{given_up} datagrams, of which some fragments are missing")
            });
        }
    }

    fn datagram(datagram: &Datagram<'_>, now_ns: i64, parts: &mut Parts<'_>) {
        let (source, destination) = (datagram.source, datagram.destination);
        match datagram.protocol {
            17 => match Udp::read(&datagram.payload, datagram.length) {
                Some(udp) => parts.udp(source, destination, &udp, now_ns),
                None => parts.skip(CUT, "its UDP header is cut off or makes no sense"),
            },
            6 => match Tcp::read(&datagram.payload, datagram.length) {
                Some(tcp) => parts.tcp(source, destination, &tcp, now_ns),
                None => parts.skip(CUT, "its TCP header is cut off or makes no sense"),
            },
            _ => parts.skip(OTHER, "neither TCP nor UDP"),
        }
    }
}

/// Everything that a packet may change.
struct Parts<'a> {
    ports: &'a [u16],
    connections: &'a mut Connections,
    over: &'a mut VecDeque<(i64, Key)>,
    opened: &'a mut u32,
    held: &'a mut usize,
    waiting: &'a mut PendingQueries,
    other_ports: &'a mut BTreeMap<u16, u64>,
    number: u64,
    rows: &'a mut CaptureChunk,
    skipped: &'a mut Skipped,
    remarks: &'a mut Skipped<Remark>,
}

impl Parts<'_> {
    fn skip(&mut self, kind: &'static str, why: &str) {
        self.skipped.add(kind, self.number, || why.to_owned());
    }

    fn other(&mut self, source: u16, destination: u16) {
        // The lower port is most likely the server's.
        *self.other_ports.entry(source.min(destination)).or_insert(0) += 1;
        self.skip(OTHER_PORT, "");
    }

    fn udp(&mut self, source: IpAddr, destination: IpAddr, udp: &Udp<'_>, now_ns: i64) {
        let to_server = self.ports.contains(&udp.destination);
        let from_server = self.ports.contains(&udp.source);
        if !to_server && !from_server {
            return self.other(udp.source, udp.destination);
        }
        let snapped = udp.payload.len() < udp.length;
        let Some(brief) = Brief::read(udp.payload) else {
            if snapped && udp.length >= HEADER_BYTES {
                self.skip(CUT, "the capture cut its DNS header off");
            } else {
                self.skip(NO_MESSAGE, "shorter than a DNS header");
            }
            return;
        };
        if snapped && is_cut(brief, HEADER_BYTES) {
            self.remarks
                .add(Remark::NoQuestion, self.number, || format!("of {} bytes", udp.length));
        }
        let (source, destination) = ((source, udp.source), (destination, udp.destination));
        let (waiting, rows) = (&mut *self.waiting, &mut *self.rows);
        // Some resolvers ask from port 53, so only the message itself says its direction.
        if brief.reply() {
            if from_server {
                waiting.reply(destination, source, brief, udp.length, now_ns, rows);
            } else {
                self.skip(NO_MESSAGE, "a reply that goes to a server");
            }
        } else if to_server {
            waiting.query(source, destination, brief, udp.length, now_ns, rows);
        } else {
            self.skip(NO_MESSAGE, "a query that comes from a server");
        }
    }

    fn tcp(&mut self, source: IpAddr, destination: IpAddr, tcp: &Tcp<'_>, now_ns: i64) {
        let to_server = self.ports.contains(&tcp.destination);
        let from_server = self.ports.contains(&tcp.source);
        if !to_server && !from_server {
            return self.other(tcp.source, tcp.destination);
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
        self.close_ended(now_ns);
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
                take(known, self.rows, self.remarks)
            }
            known => {
                if known.is_some() {
                    self.close(&key);
                }
                if self.connections.len() >= MAX_CONNECTIONS {
                    self.make_room(now_ns);
                }
                let number = *self.opened;
                *self.opened = number.wrapping_add(1);
                let mut connection = Connection::new(number, key.0, key.1, now_ns);
                let (_, over) = take(&mut connection, self.rows, self.remarks);
                let whole = connection.held();
                self.connections.insert(key, connection);
                (whole, over)
            }
        };
        self.over.extend(over.map(|at| (at, key)));
        *self.held = self.held.wrapping_add(grown);
        if *self.held > MAX_HELD {
            self.make_room(now_ns);
        }
    }

    /// Ends connections on which nothing will be sent again.
    fn close_ended(&mut self, now_ns: i64) {
        while let Some(&(at, key)) = self.over.front() {
            let full = self.over.len() > MAX_CONNECTIONS;
            if now_ns.saturating_sub(at) <= QUIET_NS && !full {
                break;
            }
            self.over.pop_front();
            // Another connection may use its ports by now.
            if self.connections.get(&key).is_some_and(|known| known.over_ns() == Some(at)) {
                self.close(&key);
            }
        }
    }

    fn close(&mut self, key: &Key) {
        if let Some(connection) = self.connections.remove(key) {
            *self.held = self.held.saturating_sub(connection.held());
            connection.finish(self.rows, self.remarks);
        }
    }

    /// Ends the half of the connections that have been quiet for longest.
    fn make_room(&mut self, now_ns: i64) {
        let mut quiet: Vec<(i64, Key)> =
            self.connections.iter().map(|(key, part)| (part.last_ns, *key)).collect();
        quiet.sort_unstable();
        let half = quiet.len().div_ceil(2);
        let busy = quiet.iter().take(half).filter(|(at, _)| now_ns - at < QUIET_NS).count();
        if busy > 0 {
            self.remarks.add(Remark::TooMany, self.number, || {
                format!("{busy} connections that had packets in the last minute")
            });
        }
        for (_, key) in quiet.into_iter().take(half) {
            self.close(&key);
        }
    }
}

/// The most packets that are read before the caller gets a turn.
const PACKETS: usize = 1_000_000;
const MAX_CONNECTIONS: usize = 100_000;
/// The most bytes that unfinished messages and connections may hold.
const MAX_HELD: usize = 256 << 20;
const QUIET_NS: i64 = 60_000_000_000;

const DAMAGED: &str = "the file is damaged from there on";
const NO_TIME: &str = "a packet without time";
const OTHER: &str = "neither UDP nor TCP over IP";
const OTHER_PORT: &str = "of other ports";
const LINK: &str = "an unknown link type";
const COPY: &str = "a packet that was captured twice";
const CUT: &str = "a packet that was cut or makes no sense";
const NO_IP: &str = "an IP header that makes no sense";
const NO_MESSAGE: &str = "udp: no DNS message";
const FRAGMENTS: &str = "fragments without the rest of their datagram";
