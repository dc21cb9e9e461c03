//! DNS over UDP: queries that wait for their replies.

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
}

#[derive(Debug)]
struct Query {
    last_ns: i64,
    attempts: u32,
    bytes: usize,
    /// Empty after the reply.
    name: String,
    kind: Option<u16>,
    answered: bool,
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
        let query = Query { last_ns: now_ns, attempts: 1, bytes, name, kind, answered: false };
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
                    self.text_bytes -= before.name.len();
                    if !before.answered {
                        rows.exchange(row(&key, before, "no-reply-seen"));
                    }
                }
            }
            Entry::Vacant(place) => {
                self.text_bytes += query.name.len();
                place.insert(query);
            }
        }
        self.order.push_back((now_ns, key));
    }

    /// Takes a message of `bytes` bytes from a server.
    pub(super) fn reply(
        &mut self,
        client: End,
        server: End,
        brief: Brief<'_>,
        bytes: usize,
        now_ns: i64,
        rows: &mut CaptureChunk,
    ) {
        let key = (client, server, brief.id());
        let mut found = match self.queries.get_mut(&key) {
            // A reply that came twice, or was captured twice.
            Some(query) if query.answered => return,
            Some(query) => {
                query.answered = true;
                let took = now_ns - query.last_ns;
                self.text_bytes -= query.name.len();
                let query = Query { name: std::mem::take(&mut query.name), ..*query };
                Exchange {
                    first_byte_ns: Some(took),
                    query_ns: Some(took),
                    total_ns: Some(took),
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
        rows.exchange(found);
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

    fn give_up(&mut self, key: &Key, query: Query, rows: &mut CaptureChunk) {
        self.text_bytes -= query.name.len();
        if !query.answered {
            rows.exchange(row(key, query, "no-reply-seen"));
        }
    }
}

fn row(key: &Key, query: Query, outcome: &'static str) -> Exchange {
    let (client, server, _) = *key;
    Exchange {
        client: Some(client),
        server: Some(server),
        transport: "udp",
        started_ns: query.last_ns,
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
/// The bytes of their names. A name has up to a thousand characters if its octets are odd ones;
/// most have twenty.
const MAX_TEXT: usize = 64 << 20;
