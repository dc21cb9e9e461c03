//! DNS over UDP: queries that wait for their replies.
//!
//! A client that gets no reply in time asks again, often from the same port with the same number. A
//! reply then does not say which attempt it answers (Karn and Partridge 1987 have the same problem
//! with TCP's round trips). So a row has both times: `total_ns` counts from the first attempt, which
//! is what the user waited, and `query_ns` from the last attempt before the reply. If every attempt
//! gets its own reply, the first reply answers the first attempt. The row therefore waits for the
//! other replies, and counts them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use narrows_wire::brief::Brief;

use super::connection::question;
use super::rows::{CaptureChunk, Exchange};

type End = (IpAddr, u16);
type Key = (End, End, u16);

/// Queries without replies so far.
#[derive(Debug, Default)]
pub(super) struct PendingQueries {
    queries: HashMap<Key, Query, RandomState>,
    /// Keys in the order of their queries. A query that was asked again is listed again.
    order: VecDeque<(i64, Key)>,
    /// The bytes of the names of queries that wait.
    text_bytes: usize,
    /// How many rows wait for further replies.
    held: usize,
}

#[derive(Debug)]
struct Query {
    first_ns: i64,
    last_ns: i64,
    attempts: u32,
    bytes: usize,
    /// Empty after the reply.
    name: String,
    kind: Option<u16>,
    answered: bool,
    /// The row of a query that was answered after several attempts, until each has its reply.
    row: Option<Box<Exchange>>,
}

impl PendingQueries {
    /// Takes a message from a client.
    pub(super) fn query(
        &mut self,
        client: End,
        server: End,
        brief: Brief<'_>,
        bytes: usize,
        now_ns: i64,
        rows: &mut CaptureChunk,
    ) {
        self.expire(now_ns, rows);
        let key = (client, server, brief.id());
        let (name, kind) = question(brief);
        let query = Query {
            first_ns: now_ns,
            last_ns: now_ns,
            attempts: 1,
            bytes,
            name,
            kind,
            answered: false,
            row: None,
        };
        match self.queries.entry(key) {
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                if !known.answered && known.name == query.name {
                    // The same question from the same port was asked again.
                    known.attempts += 1;
                    known.last_ns = now_ns;
                } else {
                    self.text_bytes += query.name.len();
                    let before = std::mem::replace(known, query);
                    self.give_up(&key, before, rows);
                }
            }
            Entry::Vacant(place) => {
                self.text_bytes += query.name.len();
                place.insert(query);
            }
        }
        self.order.push_back((now_ns, key));
    }

    /// Takes a message of `bytes` bytes from a server. Returns whether it is a further reply to a query
    /// of which every attempt had its reply.
    pub(super) fn reply(
        &mut self,
        client: End,
        server: End,
        brief: Brief<'_>,
        bytes: usize,
        now_ns: i64,
        rows: &mut CaptureChunk,
    ) -> bool {
        let key = (client, server, brief.id());
        let mut several = false;
        let mut found = match self.queries.get_mut(&key) {
            Some(query) if query.answered => {
                // The reply to another attempt, or a reply that came twice.
                let Some(held) = &mut query.row else { return true };
                let replies = held.replies.unwrap_or(0) + 1;
                held.replies = Some(replies);
                if replies >= query.attempts {
                    if let Some(held) = query.row.take() {
                        self.text_bytes -= held.qname.len();
                        self.held -= 1;
                        rows.exchange(*held);
                    }
                }
                return false;
            }
            Some(query) => {
                query.answered = true;
                several = query.attempts > 1 && self.held < MAX_HELD;
                let took = span(query.last_ns, now_ns);
                let total_ns = span(query.first_ns, now_ns);
                if !several {
                    self.text_bytes -= query.name.len();
                }
                let query = Query { name: std::mem::take(&mut query.name), row: None, ..*query };
                Exchange {
                    first_byte_ns: took,
                    query_ns: took,
                    total_ns,
                    replies: Some(1),
                    ..row(&key, query, "answered")
                }
            }
            None => {
                let (qname, qtype) = question(brief);
                Exchange {
                    client: Some(client),
                    server: Some(server),
                    transport: "udp",
                    started_ns: now_ns,
                    outcome: "no-query-seen",
                    qname,
                    qtype,
                    ..Exchange::default()
                }
            }
        };
        let (rcode, site) = brief.rcode_and_site();
        found.rcode = Some(rcode);
        found.site = site.unwrap_or_default();
        found.truncated = Some(brief.truncated());
        found.answers = Some(brief.answers());
        found.reply_bytes = Some(bytes as u32);
        match self.queries.get_mut(&key) {
            Some(query) if several => {
                self.held += 1;
                query.row = Some(Box::new(found));
            }
            _ => rows.exchange(found),
        }
        false
    }

    /// Ends the capture.
    pub(super) fn finish(&mut self, rows: &mut CaptureChunk) {
        while let Some((_, key)) = self.order.pop_front() {
            if let Some(query) = self.queries.remove(&key) {
                self.give_up(&key, query, rows);
            }
        }
    }

    fn expire(&mut self, now_ns: i64, rows: &mut CaptureChunk) {
        while let Some(&(at, key)) = self.order.front() {
            let old = now_ns.saturating_sub(at) > PATIENCE_NS;
            let full = self.order.len() >= MAX_WAITING || self.text_bytes > MAX_TEXT;
            if !old && !full {
                break;
            }
            self.order.pop_front();
            if let Entry::Occupied(entry) = self.queries.entry(key) {
                // If it was asked again since, its later entry counts.
                if full || entry.get().last_ns <= at {
                    let query = entry.remove();
                    self.give_up(&key, query, rows);
                }
            }
        }
    }

    fn give_up(&mut self, key: &Key, mut query: Query, rows: &mut CaptureChunk) {
        self.text_bytes -= query.name.len();
        if let Some(held) = query.row.take() {
            self.text_bytes -= held.qname.len();
            self.held -= 1;
            rows.exchange(*held);
        } else if !query.answered {
            rows.exchange(row(key, query, "no-reply-seen"));
        }
    }
}

/// Returns the time between two instants; `None` if a clock went back in between.
pub(super) fn span(from_ns: i64, to_ns: i64) -> Option<i64> {
    to_ns.checked_sub(from_ns).filter(|span| *span >= 0)
}

fn row(key: &Key, query: Query, outcome: &'static str) -> Exchange {
    let (client, server, _) = *key;
    Exchange {
        client: Some(client),
        server: Some(server),
        transport: "udp",
        started_ns: query.first_ns,
        outcome,
        attempts: Some(query.attempts),
        qname: query.name,
        qtype: query.kind,
        query_bytes: Some(query.bytes as u32),
        ..Exchange::default()
    }
}

/// No client waits longer for a reply.
const PATIENCE_NS: i64 = 60_000_000_000;
/// The most queries that are remembered at a time, some 200 bytes each.
const MAX_WAITING: usize = 400_000;
/// The most rows that wait for further replies, some 400 bytes each.
const MAX_HELD: usize = 50_000;
/// The bytes of their names. A name has up to a thousand characters if its octets are odd ones;
/// most have twenty.
const MAX_TEXT: usize = 64 << 20;
