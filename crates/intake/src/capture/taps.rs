//! Rows from dnstap's messages: queries and responses are paired.
//!
//! dnstap has no segments and no handshake, and often one of the two times is missing. Over TCP, the
//! time of a query is after the handshake, so `total_ns` stays empty.
//!
//! A query and a response belong together if they agree in addresses, ports, transport, number and
//! question. Their types need not agree: an authoritative BIND 9.18 writes AUTH_QUERY and then
//! CLIENT_RESPONSE. Threads write independently, so a response may also precede its query.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use narrows_wire::brief::Brief;

use super::connection::question;
use super::datagrams::span;
use super::dnstap::{Tapped, tapped};
use super::merge::Record;
use super::reader::Out;
use super::remark::Remark;
use super::rows::{CaptureChunk, Exchange};

/// Messages that wait for their other half.
#[derive(Debug, Default)]
pub(super) struct Taps {
    waiting: HashMap<Key, Vec<Half>, RandomState>,
    /// Serial numbers of the halves, in order.
    order: VecDeque<(u64, Key)>,
    serial: u64,
}

type End = (IpAddr, u16);
type Key = (Option<End>, Option<End>, &'static str, u16);

/// A query, or a response that does not say when its query was sent.
#[derive(Debug)]
struct Half {
    serial: u64,
    reply: bool,
    /// The types of a query and of its response have the same.
    class: u64,
    /// When its last attempt passed.
    at_ns: Option<i64>,
    /// When the query was sent, according to the response.
    asked_ns: Option<i64>,
    row: Exchange,
}

impl Taps {
    /// Takes a data frame.
    pub(super) fn take(&mut self, record: &Record, out: &mut Out<'_>) {
        let Some(tapped) = tapped(&record.data) else {
            return out.skip(NO_DNSTAP, || "no dnstap message".to_owned());
        };
        if tapped.version.starts_with(b"BIND ") {
            out.remark(Remark::Coarse, || String::from_utf8_lossy(tapped.version).into_owned());
        }
        match half(&tapped) {
            Ok((key, half)) => self.pair(key, half, out.rows),
            Err(why) => out.skip(why, || format!("message type {}", tapped.kind)),
        }
    }

    /// Ends the capture.
    pub(super) fn finish(&mut self, rows: &mut CaptureChunk) {
        while self.give_up_oldest(rows) {}
    }

    fn pair(&mut self, key: Key, half: Half, rows: &mut CaptureChunk) {
        let known = self.waiting.entry(key).or_default();
        let other = known
            .iter()
            .enumerate()
            .filter(|(_, other)| other.reply != half.reply && fits(other, &half))
            .min_by_key(|(place, other)| (other.class != half.class, *place))
            .map(|(place, _)| place);
        if let Some(place) = other {
            let other = known.remove(place);
            if known.is_empty() {
                self.waiting.remove(&key);
            }
            let (query, reply) = if half.reply { (other, half) } else { (half, other) };
            return rows.exchange(paired(query, reply));
        }
        if half.reply && half.asked_ns.is_some() {
            // It says itself when its query was sent.
            if known.is_empty() {
                self.waiting.remove(&key);
            }
            return rows.exchange(alone(half));
        }
        if !half.reply && key.2 == "udp" {
            let again = known.iter_mut().find(|other| {
                !other.reply && other.class == half.class && other.row.qname == half.row.qname
            });
            if let Some(first) = again {
                // The same question was asked again.
                first.at_ns = half.at_ns;
                first.row.attempts = first.row.attempts.map(|count| count + 1);
                return;
            }
        }
        if known.len() >= MAX_ALIKE {
            rows.exchange(alone(known.remove(0)));
        }
        self.serial += 1;
        known.push(Half { serial: self.serial, ..half });
        self.order.push_back((self.serial, key));
        if self.order.len() > MAX_WAITING {
            self.give_up_oldest(rows);
        }
    }

    /// Makes a row of the half that has waited for longest. Returns whether there was one.
    fn give_up_oldest(&mut self, rows: &mut CaptureChunk) -> bool {
        let Some((serial, key)) = self.order.pop_front() else { return false };
        let Some(known) = self.waiting.get_mut(&key) else { return true };
        if let Some(place) = known.iter().position(|half| half.serial == serial) {
            rows.exchange(alone(known.remove(place)));
        }
        if known.is_empty() {
            self.waiting.remove(&key);
        }
        true
    }
}

/// Returns whether a query and a response may belong together.
fn fits(one: &Half, other: &Half) -> bool {
    let (query, reply) = if one.reply { (other, one) } else { (one, other) };
    // Some errors repeat no question.
    let alike = reply.row.qname.is_empty()
        || query.row.qname.is_empty()
        || (query.row.qtype == reply.row.qtype
            && query.row.qname.eq_ignore_ascii_case(&reply.row.qname));
    // A response that came before is that of an earlier query with the same number.
    let later = match (query.at_ns, reply.at_ns) {
        (Some(query), Some(reply)) => query <= reply,
        _ => true,
    };
    alike && later
}

/// Returns the row of a query and its response.
fn paired(query: Half, reply: Half) -> Exchange {
    let mut row = reply.row;
    let asked_ns = reply.asked_ns.or(query.at_ns);
    row.outcome = "answered";
    row.query_ns = asked_ns.zip(reply.at_ns).and_then(|(asked, at)| span(asked, at));
    row.started_ns = query.row.started_ns;
    if row.transport != "udp" {
        row.started_ns = asked_ns.unwrap_or(row.started_ns);
    } else {
        row.attempts = query.row.attempts;
        row.replies = Some(1);
    }
    if row.qname.is_empty() {
        (row.qname, row.qtype) = (query.row.qname, query.row.qtype);
    }
    row.query_bytes = row.query_bytes.or(query.row.query_bytes);
    timed(row, reply.at_ns)
}

/// Returns the row of a query or a response without its other half.
fn alone(half: Half) -> Exchange {
    timed(half.row, half.at_ns)
}

/// Notes the whole time of a reply over UDP, which is known without a handshake.
fn timed(mut row: Exchange, at_ns: Option<i64>) -> Exchange {
    if row.transport == "udp" && row.query_ns.is_some() {
        row.total_ns = at_ns.and_then(|at| span(row.started_ns, at));
        row.first_byte_ns = row.query_ns;
    }
    row
}

fn half(tapped: &Tapped<'_>) -> Result<(Key, Half), &'static str> {
    let transport = match tapped.protocol {
        1 => "udp",
        2 => "tcp",
        3 => "tls",
        4 => "https",
        7 => "quic",
        _ => return Err(NO_TRANSPORT),
    };
    if tapped.kind == 0 || tapped.kind > 14 {
        return Err(NO_KIND);
    }
    let reply = tapped.reply();
    let [query, response] = tapped.messages;
    let bytes = if reply { response } else { query };
    let Some(brief) = bytes.and_then(Brief::read) else { return Err(NO_MESSAGE) };
    let [asked, answered] = tapped.times_ns();
    let at_ns = if reply { answered } else { asked };
    let Some(started_ns) = asked.or(at_ns) else { return Err(NO_TIME) };
    let ends = [0, 1].map(|which| tapped.addresses[which].map(|end| (end, tapped.ports[which])));
    let (qname, qtype) = question(brief);
    let mut row = Exchange {
        client: ends[0],
        server: ends[1],
        transport,
        started_ns,
        outcome: "no-reply-seen",
        qname,
        qtype,
        query_bytes: query.map(|message| message.len() as u32),
        ..Exchange::default()
    };
    if reply {
        row.outcome = if asked.is_some() { "answered" } else { "no-query-seen" };
        row.query_ns = asked.zip(answered).and_then(|(asked, answered)| span(asked, answered));
        row.reply_bytes = response.map(|message| message.len() as u32);
        let (rcode, site) = brief.rcode_and_site();
        row.rcode = Some(rcode);
        row.site = site.unwrap_or_default();
        row.truncated = Some(brief.truncated());
        row.answers = Some(brief.answers());
    } else if transport == "udp" {
        row.attempts = Some(1);
    }
    let asked_ns = if reply { asked } else { None };
    let class = tapped.kind.div_ceil(2);
    let key = (ends[0], ends[1], transport, brief.id());
    Ok((key, Half { serial: 0, reply, class, at_ns, asked_ns, row }))
}

/// The most messages that wait.
const MAX_WAITING: usize = 100_000;
/// The most of them between the same ends with the same number.
const MAX_ALIKE: usize = 64;

const NO_DNSTAP: &str = "a frame that is no dnstap message";
const NO_TRANSPORT: &str = "an unknown transport";
const NO_KIND: &str = "an unknown type of dnstap message";
const NO_MESSAGE: &str = "no DNS message in it";
const NO_TIME: &str = "a message without time";
