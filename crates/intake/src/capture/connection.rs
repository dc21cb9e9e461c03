//! A TCP connection with DNS on it: handshake, queries and replies, end.

use std::collections::VecDeque;
use std::net::IpAddr;

use narrows_wire::brief::Brief;

use super::datagrams::span;
use super::remark::Remark;
use super::rows::{CaptureChunk, ConnectionRow, Exchange};
use super::segment::{ACK, FIN, RST, SYN, Tcp};
use super::stream::{Message, Segment, Stream};
use crate::Skipped;

/// A connection under way.
#[derive(Debug)]
pub(super) struct Connection {
    row: ConnectionRow,
    pub(super) last_ns: i64,
    client: Stream,
    server: Stream,
    syn: Option<(u32, i64)>,
    syn_ack_ns: Option<i64>,
    ack_ns: Option<i64>,
    end: Option<(Side, bool)>,
    /// Whether client and server have sent a FIN.
    fins: [bool; 2],
    /// When it ended: at a reset, or at the second FIN.
    over_ns: Option<i64>,
    refused: bool,
    /// Whether the client begins with a TLS handshake.
    tls: bool,
    queries: VecDeque<Query>,
    /// The bytes of the names in them.
    names: usize,
    asked: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

#[derive(Debug)]
struct Query {
    id: u16,
    first_ns: i64,
    bytes: usize,
    name: String,
    kind: Option<u16>,
    number: u32,
    /// The retransmissions of client and server before the query.
    before: [u32; 2],
}

impl Connection {
    /// Creates a connection whose first packet arrives now.
    pub(super) fn new(
        number: u32,
        client: (IpAddr, u16),
        server: (IpAddr, u16),
        now_ns: i64,
    ) -> Self {
        Self {
            row: ConnectionRow {
                number,
                client: Some(client),
                server: Some(server),
                started_ns: now_ns,
                ..ConnectionRow::default()
            },
            last_ns: now_ns,
            client: Stream::default(),
            server: Stream::default(),
            syn: None,
            syn_ack_ns: None,
            ack_ns: None,
            end: None,
            fins: [false; 2],
            over_ns: None,
            refused: false,
            tls: false,
            queries: VecDeque::new(),
            names: 0,
            asked: 0,
        }
    }

    /// Returns whether a SYN with this number opens another connection between the same ports.
    pub(super) fn is_other(&self, seq: u32) -> bool {
        match self.syn {
            Some((known, _)) => known != seq,
            // No SYN was seen: the connection was already under way.
            None => true,
        }
    }

    /// Returns when it ended at both sides, if it did.
    pub(super) fn over_ns(&self) -> Option<i64> {
        self.over_ns
    }

    /// Returns the bytes that it holds in memory.
    pub(super) fn held(&self) -> usize {
        let queries = self.queries.len() * size_of::<Query>() + self.names;
        size_of::<Self>() + self.client.held() + self.server.held() + queries
    }

    /// Takes a segment.
    pub(super) fn segment(
        &mut self,
        tcp: &Tcp<'_>,
        from_client: bool,
        now_ns: i64,
        rows: &mut CaptureChunk,
        remarks: &mut Skipped<Remark>,
    ) {
        self.last_ns = self.last_ns.max(now_ns);
        let side = if from_client { Side::Client } else { Side::Server };
        let mut seq = tcp.seq;
        if tcp.flags & SYN != 0 {
            self.handshake(tcp, side, now_ns);
            seq = seq.wrapping_add(1);
        } else if from_client && tcp.flags & ACK != 0 && self.syn_ack_ns.is_some() {
            self.ack_ns.get_or_insert(now_ns);
        }
        let mut whole = Vec::new();
        if tcp.flags & ACK != 0 && tcp.flags & RST == 0 {
            let other = if from_client { &mut self.server } else { &mut self.client };
            other.acknowledged(tcp.ack, from_client, &mut whole);
            self.messages(&mut whole, !from_client, rows, remarks);
        }
        if tcp.length > 0 && tcp.flags & RST == 0 {
            if from_client && self.client.bytes == 0 && begins_tls(tcp.payload) && !self.tls {
                self.tls = true;
                let number = self.row.number;
                remarks.add(Remark::Tls, u64::from(number), || format!("connection {number}"));
            }
            let segment =
                Segment { time_ns: now_ns, seq, payload: tcp.payload, length: tcp.length };
            let stream = if from_client { &mut self.client } else { &mut self.server };
            stream.push(segment, !from_client, &mut whole);
            self.messages(&mut whole, from_client, rows, remarks);
        }
        let reset = tcp.flags & RST != 0;
        if reset || tcp.flags & FIN != 0 {
            if reset && side == Side::Server && self.syn_ack_ns.is_none() && self.syn.is_some() {
                self.refused = true;
            }
            if self.end.is_none() {
                self.end = Some((side, reset));
                self.row.ended_ns = Some(now_ns);
            }
            self.fins[side as usize] = true;
            if reset || self.fins == [true; 2] {
                self.over_ns.get_or_insert(now_ns);
            }
        }
    }

    fn handshake(&mut self, tcp: &Tcp<'_>, side: Side, now_ns: i64) {
        let first = tcp.seq.wrapping_add(1);
        match side {
            Side::Client => {
                match self.syn {
                    None => self.syn = Some((tcp.seq, now_ns)),
                    Some(_) => {
                        *self.row.syn_retransmissions.get_or_insert(0) += 1;
                    }
                }
                self.row.syn_retransmissions.get_or_insert(0);
                self.row.mss = tcp.mss.or(self.row.mss);
                let with_data = self.row.fast_open.unwrap_or(false) || tcp.length > 0;
                self.row.fast_open = Some(with_data);
                self.client.starts_at(first);
            }
            Side::Server => {
                self.syn_ack_ns.get_or_insert(now_ns);
                self.server.starts_at(first);
            }
        }
    }

    /// Notes queries, and makes rows of replies.
    fn messages(
        &mut self,
        whole: &mut Vec<Message>,
        from_client: bool,
        rows: &mut CaptureChunk,
        remarks: &mut Skipped<Remark>,
    ) {
        if self.tls {
            whole.clear();
        }
        for message in whole.drain(..) {
            let number = self.row.number;
            let described = || format!("of {} bytes, on connection {number}", message.length);
            let (header, known) = message.header();
            let Some(brief) = header.as_deref().and_then(Brief::read) else {
                let kind = if message.snapped { Remark::Headless } else { Remark::NoDns };
                remarks.add(kind, u64::from(number), described);
                continue;
            };
            // If its flags were not captured, only its direction tells whether it is a reply. A query
            // has a question.
            let unasked = from_client && known > QUESTIONS && brief.questions() == 0;
            if unasked || (known > FLAGS && brief.reply() == from_client) {
                remarks.add(Remark::NoDns, u64::from(number), described);
                continue;
            }
            if message.snapped && is_cut(brief, known) {
                remarks.add(Remark::NoQuestion, u64::from(number), described);
            }
            if from_client {
                self.query(&message, brief, rows);
            } else {
                self.reply(&message, brief, known, rows);
            }
        }
    }

    fn query(&mut self, message: &Message, brief: Brief<'_>, rows: &mut CaptureChunk) {
        let (name, kind) = question(brief);
        self.names += name.len();
        self.queries.push_back(Query {
            id: brief.id(),
            first_ns: message.first_ns,
            bytes: message.length,
            name,
            kind,
            number: self.asked,
            before: [self.client.retransmissions, self.server.retransmissions],
        });
        self.asked += 1;
        if self.queries.len() > MAX_QUERIES {
            if let Some(oldest) = self.queries.pop_front() {
                let row = self.unanswered(oldest, "no-reply-seen", "");
                rows.exchange(row);
            }
        }
    }

    /// Makes a row of a reply. The first `known` bytes of its header were captured.
    fn reply(
        &mut self,
        message: &Message,
        brief: Brief<'_>,
        known: usize,
        rows: &mut CaptureChunk,
    ) {
        let place = self.queries.iter().position(|query| query.id == brief.id());
        let query = place.and_then(|place| self.queries.remove(place));
        let mut row = match query {
            Some(query) => {
                let (first_ns, before) = (query.first_ns, query.before);
                let row = self.asked(query);
                Exchange {
                    outcome: "answered",
                    first_byte_ns: span(first_ns, message.first_ns),
                    query_ns: span(first_ns, message.last_ns),
                    total_ns: span(row.started_ns, message.last_ns),
                    query_retransmissions: Some(self.client.retransmissions - before[0]),
                    reply_retransmissions: Some(self.server.retransmissions - before[1]),
                    ..row
                }
            }
            None => {
                // Zone transfers have many messages for one query. Each of the others gets a row of
                // its own.
                let (qname, qtype) = question(brief);
                let started_ns = message.first_ns;
                Exchange { qname, qtype, started_ns, ..self.exchange("no-query-seen") }
            }
        };
        let (rcode, site) = brief.rcode_and_site();
        row.rcode = (known > RCODE).then_some(rcode);
        row.site = site.unwrap_or_default();
        row.truncated = (known > FLAGS).then(|| brief.truncated());
        row.answers = (known > ANSWERS).then(|| brief.answers());
        row.reply_bytes = Some(message.length as u32);
        if !message.gaps {
            row.segments = Some(message.segments);
            row.sizes = message.sizes;
        }
        row.prefix = message.cut();
        rows.exchange(row);
    }

    /// Returns what all rows of this connection have in common.
    fn exchange(&self, outcome: &'static str) -> Exchange {
        Exchange {
            client: self.row.client,
            server: self.row.server,
            transport: "tcp",
            connection: Some(self.row.number),
            outcome,
            ..Exchange::default()
        }
    }

    /// Returns a row for a query, with all that the query alone determines.
    fn asked(&mut self, query: Query) -> Exchange {
        self.names -= query.name.len();
        let first = query.number == 0;
        // If the beginning was not seen, it is unknown whether other queries came before.
        let reused = if first { self.syn.map(|_| false) } else { Some(true) };
        let fresh = reused == Some(false);
        let fast = self.row.fast_open == Some(true);
        let started_ns = match self.syn {
            Some((_, at)) if fresh => at,
            _ => query.first_ns,
        };
        let handshake = (fresh && !fast).then(|| span(self.syn?.1, self.ack_ns?)).flatten();
        Exchange {
            reused,
            started_ns,
            connect_ns: handshake,
            attempts: Some(1),
            qname: query.name,
            qtype: query.kind,
            query_bytes: Some(query.bytes as u32),
            ..self.exchange("")
        }
    }

    fn unanswered(&mut self, query: Query, outcome: &'static str, stage: &'static str) -> Exchange {
        let repeated = Some(self.client.retransmissions - query.before[0]);
        let row = self.asked(query);
        Exchange { outcome, stage, query_retransmissions: repeated, ..row }
    }

    /// Ends the connection, or what was seen of it.
    pub(super) fn finish(mut self, rows: &mut CaptureChunk, remarks: &mut Skipped<Remark>) {
        let mut whole = Vec::new();
        self.client.let_go(false, &mut whole);
        self.messages(&mut whole, true, rows, remarks);
        self.server.let_go(true, &mut whole);
        self.messages(&mut whole, false, rows, remarks);
        let stage = if self.server.unfinished().begun() { "reply" } else { "query" };
        // If the capture lacks bytes, there may have been a reply that was not recognised.
        let known = self.server.framed() || self.server.bytes == 0;
        let outcome = match self.end {
            Some((Side::Server, true)) if known => "reset",
            Some((Side::Server, false)) if known => "closed",
            Some((Side::Client, _)) if known => "timeout",
            _ => "no-reply-seen",
        };
        while let Some(query) = self.queries.pop_front() {
            let row = self.unanswered(query, outcome, stage);
            rows.exchange(row);
        }
        let unframed = self.client.unframed + self.server.unframed;
        if unframed > 0 && !self.tls {
            remarks.add(Remark::Unframed, u64::from(self.row.number), || {
                format!("{unframed} bytes on connection {}", self.row.number)
            });
        }
        self.row.syn_ns = self.syn.and_then(|(_, at)| span(at, self.syn_ack_ns?));
        self.row.ack_ns = self.syn_ack_ns.and_then(|at| span(at, self.ack_ns?));
        self.row.exchanges = self.asked;
        self.row.bytes = [self.client.bytes, self.server.bytes];
        self.row.segments = [self.client.segments, self.server.segments];
        self.row.retransmissions = [self.client.retransmissions, self.server.retransmissions];
        (self.row.ending, self.row.closed_by) = match self.end {
            _ if self.refused => ("refused", "server"),
            Some((side, reset)) => (
                if reset { "reset" } else { "fin" },
                if side == Side::Client { "client" } else { "server" },
            ),
            None if self.syn.is_some() && self.syn_ack_ns.is_none() && self.server.bytes == 0 => {
                ("timeout", "neither")
            }
            None => ("open", "neither"),
        };
        rows.connection(self.row);
    }
}

/// Returns whether the capture cut a message before the end of its question. The first `known`
/// bytes of its header were captured.
pub(super) fn is_cut(brief: Brief<'_>, known: usize) -> bool {
    known <= QUESTIONS || (brief.questions() > 0 && brief.question(&mut String::new()).is_none())
}

/// Returns the name and type of a message's question; empty if it has none.
pub(super) fn question(brief: Brief<'_>) -> (String, Option<u16>) {
    let mut name = String::with_capacity(USUAL_NAME);
    let kind = brief.question(&mut name).map(|(kind, _)| kind);
    (name, kind)
}

/// Returns whether these bytes begin with the record of a ClientHello (RFC 8446, sections 4 and 5.1).
/// As DNS over TCP they would begin a message of 5,635 bytes.
fn begins_tls(payload: &[u8]) -> bool {
    matches!(payload, [22, 3, 0..=4, _, _, 1, ..])
}

/// The most queries of one connection that wait for replies at a time.
const MAX_QUERIES: usize = 4_096;
/// Most names fit into this many bytes.
const USUAL_NAME: usize = 32;
/// The last byte of each field in a header (RFC 1035, section 4.1.1).
const FLAGS: usize = 2;
const RCODE: usize = 3;
const QUESTIONS: usize = 5;
const ANSWERS: usize = 7;
