//! dnstap: what DNS software says about its own messages.
//!
//! Sources: dnstap.pb (dnstap.info, 2023), the Frame Streams format (fstrm's control.h), and the
//! wire format of Protocol Buffers. dnstap has no segments and no handshake, and often one of the
//! two times is missing. Over TCP, the time of a query is after the handshake, so `total_ms` stays
//! empty.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::net::IpAddr;

use narrows_wire::brief::Brief;

use super::connection::question;
use super::file::{Buffered, FileError};
use super::rows::{CaptureChunk, Exchange};
use crate::Skipped;

/// Reads a file of dnstap frames.
pub struct DnstapReader<R> {
    bytes: Buffered<R>,
    count: u64,
    ended: bool,
    waiting: HashMap<Key, (i64, Exchange)>,
    order: VecDeque<(i64, Key)>,
    skipped: Skipped,
}

type Key = (Option<(IpAddr, u16)>, Option<(IpAddr, u16)>, &'static str, u8, u16);

/// A dnstap message, as far as it matters here.
#[derive(Debug, Default)]
struct Tapped<'a> {
    kind: u64,
    protocol: u64,
    addresses: [Option<IpAddr>; 2],
    ports: [u16; 2],
    times: [Option<u64>; 2],
    fractions: [u32; 2],
    messages: [Option<&'a [u8]>; 2],
}

impl<R: Read> DnstapReader<R> {
    /// Creates a reader at the start of a file that is already decompressed.
    pub fn new(file: R) -> Result<Self, FileError> {
        let mut bytes = Buffered::new(file);
        if bytes.peek(8)?.is_none_or(|start| start[..4] != [0; 4]) {
            return Err(FileError::NoCapture);
        }
        Ok(Self {
            bytes,
            count: 0,
            ended: false,
            waiting: HashMap::new(),
            order: VecDeque::new(),
            skipped: Skipped::default(),
        })
    }

    /// Returns the rows of the next frames, about `most`; `None` after the last.
    pub fn next_chunk(&mut self, most: usize) -> Option<CaptureChunk> {
        let mut rows = CaptureChunk::default();
        self.fill(&mut rows, most).then_some(rows)
    }

    /// Reads the rows of the next frames, about `most`, into `rows`, which must be empty. Returns
    /// whether there may be more.
    pub(super) fn fill(&mut self, rows: &mut CaptureChunk, most: usize) -> bool {
        // A file without rows also has to give the caller a turn now and then.
        let mut left = FRAMES;
        while !self.ended && rows.len() < most && left > 0 {
            left -= 1;
            match self.next_frame(rows) {
                Ok(true) => {}
                Ok(false) => self.finish(rows),
                Err(error) => {
                    let number = self.count + 1;
                    self.skipped.add(DAMAGED, number, || error.to_string());
                    self.finish(rows);
                }
            }
        }
        !self.ended || !rows.is_empty()
    }

    /// Returns the number of data frames so far.
    pub fn frames(&self) -> u64 {
        self.count
    }

    /// Returns what was skipped so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn next_frame(&mut self, rows: &mut CaptureChunk) -> Result<bool, FileError> {
        let Some(length) = self.word()? else { return Ok(false) };
        if length == 0 {
            // A control frame: its length, and in it its type.
            let length = self.word()?.ok_or(FileError::Cut)?;
            if length < 4 {
                return Err(FileError::Damaged("a control frame has no type"));
            }
            if length > MAX_CONTROL {
                return Err(FileError::Damaged("a control frame is longer than 512 bytes"));
            }
            let frame = self.bytes.take(length)?.ok_or(FileError::Cut)?;
            // STOP and FINISH end the stream.
            return Ok(!matches!(frame, [0, 0, 0, 3 | 5, ..]));
        }
        if length > MAX_FRAME {
            return Err(FileError::Damaged("a frame is longer than 1 MB"));
        }
        let frame = self.bytes.take(length)?.ok_or(FileError::Cut)?;
        self.count += 1;
        let number = self.count;
        let Some(tapped) = tapped(frame) else {
            self.skipped.add(NO_DNSTAP, number, || "no dnstap message".to_owned());
            return Ok(true);
        };
        match row(&tapped) {
            Ok((key, at_ns, row)) => {
                take(&mut self.waiting, &mut self.order, key, at_ns, row, rows);
            }
            Err(why) => self.skipped.add(why, number, || format!("message type {}", tapped.kind)),
        }
        Ok(true)
    }

    fn word(&mut self) -> Result<Option<usize>, FileError> {
        let Some(bytes) = self.bytes.take(4)? else { return Ok(None) };
        Ok(Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize))
    }

    fn finish(&mut self, rows: &mut CaptureChunk) {
        self.ended = true;
        while let Some((_, key)) = self.order.pop_front() {
            if let Some((_, row)) = self.waiting.remove(&key) {
                rows.exchange(row);
            }
        }
    }
}

/// Keeps a query until its response arrives. A response that does not say when its query was sent
/// takes the time of the query that was kept. `at_ns` is the message's own time, which a response
/// may lack.
fn take(
    waiting: &mut HashMap<Key, (i64, Exchange)>,
    order: &mut VecDeque<(i64, Key)>,
    key: Key,
    at_ns: Option<i64>,
    row: Exchange,
    rows: &mut CaptureChunk,
) {
    if row.outcome == "no-reply-seen" {
        let asked_ns = row.started_ns;
        if let Some((_, before)) = waiting.insert(key, (asked_ns, row)) {
            rows.exchange(before);
        }
        order.push_back((asked_ns, key));
        if order.len() > MAX_WAITING {
            if let Some((at, oldest)) = order.pop_front() {
                if waiting.get(&oldest).is_some_and(|(since, _)| *since == at) {
                    if let Some((_, row)) = waiting.remove(&oldest) {
                        rows.exchange(row);
                    }
                }
            }
        }
        return;
    }
    let mut row = row;
    if let Some((asked_ns, query)) = waiting.remove(&key) {
        if row.query_ns.is_none() {
            row.started_ns = asked_ns;
            row.query_ns = at_ns.map(|at| at - asked_ns);
        }
        row.outcome = "answered";
        if row.qname.is_empty() {
            (row.qname, row.qtype) = (query.qname, query.qtype);
        }
        row.query_bytes = row.query_bytes.or(query.query_bytes);
    }
    if row.transport == "udp" {
        (row.total_ns, row.first_byte_ns) = (row.query_ns, row.query_ns);
    }
    rows.exchange(row);
}

fn row(tapped: &Tapped<'_>) -> Result<(Key, Option<i64>, Exchange), &'static str> {
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
    let reply = tapped.kind.is_multiple_of(2);
    let [query, response] = tapped.messages;
    let bytes = if reply { response } else { query };
    let Some(brief) = bytes.and_then(Brief::read) else { return Err(NO_MESSAGE) };
    let [asked, answered] = [0, 1].map(|which| {
        let whole = i64::try_from(tapped.times[which]?).ok()?.checked_mul(1_000_000_000)?;
        whole.checked_add(i64::from(tapped.fractions[which]))
    });
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
        row.query_ns = asked.and_then(|asked| Some(answered? - asked));
        row.reply_bytes = response.map(|message| message.len() as u32);
        let (rcode, site) = brief.rcode_and_site();
        row.rcode = Some(rcode);
        row.site = site.unwrap_or_default();
        row.truncated = Some(brief.truncated());
        row.answers = Some(brief.answers());
    }
    // A query's type is an odd number, and its response's type is the next one.
    let pair = (tapped.kind as u8).div_ceil(2);
    Ok(((ends[0], ends[1], transport, pair, brief.id()), at_ns, row))
}

fn tapped(frame: &[u8]) -> Option<Tapped<'_>> {
    let mut message = None;
    for field in Fields(frame) {
        if let (14, Value::Bytes(bytes)) = field? {
            message = Some(bytes);
        }
    }
    let mut found = Tapped::default();
    for field in Fields(message?) {
        match field? {
            (1, Value::Number(kind)) => found.kind = kind,
            (3, Value::Number(protocol)) => found.protocol = protocol,
            (4, Value::Bytes(octets)) => found.addresses[0] = address(octets),
            (5, Value::Bytes(octets)) => found.addresses[1] = address(octets),
            (6, Value::Number(port)) => found.ports[0] = port as u16,
            (7, Value::Number(port)) => found.ports[1] = port as u16,
            (8, Value::Number(seconds)) => found.times[0] = Some(seconds),
            (9, Value::Fixed(fraction)) => found.fractions[0] = fraction,
            (10, Value::Bytes(bytes)) => found.messages[0] = Some(bytes),
            (12, Value::Number(seconds)) => found.times[1] = Some(seconds),
            (13, Value::Fixed(fraction)) => found.fractions[1] = fraction,
            (14, Value::Bytes(bytes)) => found.messages[1] = Some(bytes),
            _ => {}
        }
    }
    Some(found)
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(<[u8; 4]>::try_from(octets).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(octets).ok()?.into()),
        _ => None,
    }
}

/// The fields of a Protocol Buffers message. Gives `None` once if it is not such a message.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Fixed(u32),
    Bytes(&'a [u8]),
    Other,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => {
                self.bytes(8)?;
                Value::Other
            }
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => Value::Fixed(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// The most frames that are read before the caller gets a turn.
const FRAMES: usize = 100_000;
const MAX_CONTROL: usize = 512;
const MAX_FRAME: usize = 1 << 20;
const MAX_WAITING: usize = 100_000;

const DAMAGED: &str = "the file is damaged from there on";
const NO_DNSTAP: &str = "a frame that is no dnstap message";
const NO_TRANSPORT: &str = "an unknown transport";
const NO_KIND: &str = "an unknown type of dnstap message";
const NO_MESSAGE: &str = "no DNS message in it";
const NO_TIME: &str = "a message without time";
