//! From results to rows of the table `exchanges`, a chunk at a time.
//!
//! The names of outcomes and stages are those of docs/measurements.md.

use std::io::Read;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use narrows_wire::brief::{Brief, type_name};

use super::meaning::{failure, family, text, transport, whole};
use super::record::{Answer, Elements, Kind, Number, Object, Record, Text, shortened};
use crate::json::{Fault, Item, MAX_DEPTH, MAX_GAP, MAX_OBJECT, Objects};
use crate::target::target;
use crate::{Column, Columns, Names, Skipped};

/// Reads a file of results.
pub struct AtlasReader<R> {
    objects: Objects<R>,
    ended: bool,
    records: u64,
    skipped: Skipped,
    remarks: Skipped,
}

/// Rows of a file: the columns of `exchanges` that an Atlas result can fill.
#[derive(Debug, Default)]
pub struct AtlasChunk {
    vantage: Names,
    target: Names,
    server: Names,
    port: Vec<f64>,
    family: Vec<f64>,
    transport: Names,
    started_s: Vec<f64>,
    connect_ms: Vec<f64>,
    query_ms: Vec<f64>,
    total_ms: Vec<f64>,
    outcome: Names,
    stage: Names,
    detail: Names,
    attempts: Vec<f64>,
    qname: Names,
    qtype: Names,
    rcode: Names,
    truncated: Vec<f64>,
    answers: Vec<f64>,
    query_bytes: Vec<f64>,
    reply_bytes: Vec<f64>,
    site: Names,
    measurement: Vec<f64>,
    firmware: Vec<f64>,
    element: Vec<f64>,
}

impl<R: Read> AtlasReader<R> {
    /// Creates a reader at the start of a file that is already decompressed.
    pub fn new(file: R) -> Self {
        Self {
            objects: Objects::new(file),
            ended: false,
            records: 0,
            skipped: Skipped::default(),
            remarks: Skipped::default(),
        }
    }

    /// Returns the next rows: about `most`, or fewer if texts are long or few records are usable.
    /// Returns `None` after the last.
    ///
    /// If the file cannot be read further, it ends there and counts as damaged.
    pub fn next_chunk(&mut self, most: usize) -> Option<AtlasChunk> {
        let mut chunk = AtlasChunk::default();
        let mut scratch = Scratch::default();
        let mut left = RECORDS;
        while !self.ended && left > 0 && chunk.len() < most && chunk.text_bytes() < TEXT_BYTES {
            left -= 1;
            let number = self.records + 1;
            let item = match self.objects.next_item() {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(error) => {
                    self.skipped.add(DAMAGED, number, || error.to_string());
                    self.ended = true;
                    break;
                }
            };
            self.records = number;
            match item {
                Item::Broken(fault) => {
                    let (kind, why) = described(fault);
                    self.skipped.add(kind, number, || why);
                }
                Item::Object(bytes) => {
                    let mut note = Notes {
                        number,
                        skipped: &mut self.skipped,
                        remarks: &mut self.remarks,
                        scratch: &mut scratch,
                    };
                    note.object(bytes, &mut chunk);
                }
            }
        }
        (!self.ended || !chunk.is_empty()).then_some(chunk)
    }

    /// Returns the number of objects found so far, usable or not.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns what was skipped so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Returns what was odd in rows that were kept.
    pub fn remarks(&self) -> &Skipped {
        &self.remarks
    }
}

impl AtlasChunk {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.started_s.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn text_bytes(&self) -> usize {
        [&self.vantage, &self.target, &self.server, &self.detail, &self.qname, &self.site]
            .map(Names::text_bytes)
            .iter()
            .sum()
    }

    /// Returns the columns under their names in `exchanges`. Empty texts and NaN are nulls.
    /// `element` is the number of the row in its `resultset`.
    pub fn into_columns(self) -> Columns {
        vec![
            ("vantage", Column::Names(self.vantage)),
            ("target", Column::Names(self.target)),
            ("server", Column::Names(self.server)),
            ("port", Column::F64(self.port)),
            ("family", Column::F64(self.family)),
            ("transport", Column::Names(self.transport)),
            ("started_s", Column::F64(self.started_s)),
            ("connect_ms", Column::F64(self.connect_ms)),
            ("query_ms", Column::F64(self.query_ms)),
            ("total_ms", Column::F64(self.total_ms)),
            ("outcome", Column::Names(self.outcome)),
            ("stage", Column::Names(self.stage)),
            ("detail", Column::Names(self.detail)),
            ("attempts", Column::F64(self.attempts)),
            ("qname", Column::Names(self.qname)),
            ("qtype", Column::Names(self.qtype)),
            ("rcode", Column::Names(self.rcode)),
            ("truncated", Column::F64(self.truncated)),
            ("answers", Column::F64(self.answers)),
            ("query_bytes", Column::F64(self.query_bytes)),
            ("reply_bytes", Column::F64(self.reply_bytes)),
            ("site", Column::Names(self.site)),
            ("measurement", Column::F64(self.measurement)),
            ("firmware", Column::F64(self.firmware)),
            ("element", Column::F64(self.element)),
        ]
    }
}

/// Buffers that are reused.
#[derive(Default)]
struct Scratch {
    octets: Vec<u8>,
    name: String,
    code: String,
}

/// Turns one record into rows, or counts it as skipped.
struct Notes<'a> {
    number: u64,
    skipped: &'a mut Skipped,
    remarks: &'a mut Skipped,
    scratch: &'a mut Scratch,
}

/// What an element of a `resultset` takes from the result around it.
struct Around<'a> {
    vantage: &'a str,
    measurement: f64,
    firmware: f64,
    started: Option<f64>,
}

impl Notes<'_> {
    fn object(&mut self, bytes: &[u8], rows: &mut AtlasChunk) {
        let record: Record<'_, Elements<'_>> = match serde_json::from_slice(bytes) {
            Ok(record) => record,
            Err(error) => return self.unread(bytes, &error),
        };
        if let Some(Text(kind)) = &record.kind {
            if kind != "dns" {
                return self.skip(OTHER_TYPE, || format!("it is of type {}", shortened(kind)));
            }
        }
        let probe = whole(record.prb_id.or(record.p_probe_id)).map(|number| number.to_string());
        let vantage = match (&probe, &record.src_addr) {
            (Some(number), _) => number.as_str(),
            (None, Some(Text(address))) => address,
            (None, None) => "unknown",
        };
        let around = Around {
            vantage,
            measurement: whole(record.msm_id).map_or(f64::NAN, |number| number as f64),
            firmware: whole(record.fw).map_or(f64::NAN, |number| number as f64),
            started: record.timestamp.or(record.time).map(|Number(at)| at),
        };
        match &record.resultset {
            Some(Elements(elements)) if elements.is_empty() => {
                self.skip(NOTHING, || "its resultset is empty".to_owned());
            }
            Some(Elements(elements)) => {
                for (index, Object(element)) in elements.iter().enumerate() {
                    self.element(element, &around, index, rows);
                }
            }
            None => self.element(&record, &around, 0, rows),
        }
    }

    /// Counts an object that is not a DNS result.
    fn unread(&mut self, bytes: &[u8], error: &serde_json::Error) {
        if !error.is_data() {
            return self.skip(NO_JSON, || error.to_string());
        }
        match serde_json::from_slice::<Kind<'_>>(bytes) {
            // A ping's `result` is a list.
            Ok(Kind { kind: Some(Text(kind)) }) if kind != "dns" => {
                self.skip(OTHER_TYPE, || format!("it is of type {}", shortened(&kind)));
            }
            _ => self.skip(WRONG_TYPE, || error.to_string()),
        }
    }

    fn element<S>(
        &mut self,
        record: &Record<'_, S>,
        around: &Around<'_>,
        index: usize,
        rows: &mut AtlasChunk,
    ) {
        let started = record.time.or(record.timestamp).map(|Number(at)| at).or(around.started);
        let Some(started) = started.filter(|at| *at > 0.0 && *at < LATEST) else {
            return self.skip(NO_TIME, || "timestamp is missing or makes no sense".to_owned());
        };
        let address = text(&record.dst_addr);
        let server = address.or(text(&record.dst_name)).or(text(&record.name));
        let port = whole(record.dst_port).filter(|port| (1..=65535).contains(port));
        let Some(transport) = transport(record, port) else {
            return self.skip(NO_TRANSPORT, || "proto is neither UDP nor TCP".to_owned());
        };
        // Early results have the reply's time beside the reply.
        let early = Answer { rt: record.result_rt, ..Answer::default() };
        let answer = match (&record.result, &record.error) {
            (_, Some(_)) => None,
            (Some(Object(answer)), None) => Some(answer),
            (None, None) if record.result_rt.is_some() => Some(&early),
            (None, None) => {
                return self.skip(NOTHING, || "it has neither result nor error".to_owned());
            }
        };
        let (total, query) = match answer {
            None => (f64::NAN, f64::NAN),
            Some(answer) => match times(answer) {
                Ok(both) => both,
                Err((kind, why)) => {
                    let kind = by_transport(kind, transport);
                    return self.skip(kind, || why);
                }
            },
        };
        if let Some(Number(age)) = record.lts {
            if !(0.0..=SYNCHRONISED_S).contains(&age) {
                self.remark(CLOCK, || format!("its lts is {age} s (-1: unknown)"));
            }
        }

        rows.vantage.push(around.vantage);
        let named = |server| target(server, port.map_or(0, |port| port as u16), transport);
        rows.target.push(&server.map_or("unknown".into(), named));
        rows.server.push(address.unwrap_or(""));
        rows.port.push(port.map_or(f64::NAN, |port| port as f64));
        rows.family.push(family(record, address));
        rows.transport.push(transport);
        rows.started_s.push(started);
        rows.total_ms.push(total);
        let connected = transport == "tcp" && query.is_finite();
        rows.connect_ms.push(if connected { total - query } else { f64::NAN });
        rows.query_ms.push(if transport == "udp" { total } else { query });
        let retries = answer.and_then(|answer| answer.retry).or(record.retry);
        rows.attempts.push(match (whole(retries), answer) {
            (Some(retries), _) if retries < 255 => (retries + 1) as f64,
            _ => f64::NAN,
        });
        let measurement = whole(record.msm_id).map(|number| number as f64);
        rows.measurement.push(measurement.unwrap_or(around.measurement));
        rows.firmware.push(around.firmware);
        rows.element.push(whole(record.subid).map_or(index as f64, |number| number as f64));
        let failed = record.error.as_ref().map(failure);
        let (outcome, stage) =
            failed.as_ref().map_or(("answered", ""), |meaning| (meaning.0, meaning.1));
        rows.outcome.push(outcome);
        rows.stage.push(stage);
        rows.detail.push(failed.as_ref().map_or("", |meaning| meaning.2.as_str()));
        let size = answer.and_then(|answer| whole(answer.size)).filter(|size| *size <= 65_535);
        rows.reply_bytes.push(size.map_or(f64::NAN, |size| size as f64));
        self.messages(record, answer, rows);
    }

    /// Adds what the messages say, if they are there.
    fn messages<S>(
        &mut self,
        record: &Record<'_, S>,
        answer: Option<&Answer<'_>>,
        rows: &mut AtlasChunk,
    ) {
        let counted = answer.and_then(|answer| whole(answer.ancount));
        let mut answers = counted.filter(|count| *count <= 65_535).map(|count| count as f64);
        let mut truncated = f64::NAN;
        let mut site = None;
        self.scratch.name.clear();
        self.scratch.code.clear();
        let mut question = None;
        if let Some(abuf) = answer.and_then(|answer| text(&answer.abuf)) {
            if self.decode(abuf, "abuf") {
                if let Some(brief) = Brief::read(&self.scratch.octets) {
                    question = brief.question(&mut self.scratch.name);
                    brief.write_rcode(&mut self.scratch.code);
                    truncated = f64::from(u8::from(brief.truncated()));
                    answers = Some(f64::from(brief.answers()));
                    site = brief.site();
                } else {
                    self.remark(NO_MESSAGE, || "its abuf is shorter than a header".to_owned());
                }
            }
        }
        let mut query_bytes = f64::NAN;
        if let Some(qbuf) = text(&record.qbuf) {
            if self.decode(qbuf, "qbuf") {
                query_bytes = self.scratch.octets.len() as f64;
                if question.is_none() {
                    let brief = Brief::read(&self.scratch.octets);
                    question = brief.and_then(|brief| brief.question(&mut self.scratch.name));
                }
            }
        }
        // If there are no messages, the records that the probe decoded tell the same.
        let decoded = answer.and_then(|answer| answer.answers.as_ref());
        let decoded = decoded.filter(|first| question.is_none() && !first.name.is_empty());
        if let Some(first) = decoded {
            let dot = if first.name.ends_with('.') { "" } else { "." };
            self.scratch.name.clear();
            self.scratch.name.push_str(&first.name);
            self.scratch.name.push_str(dot);
            if first.kind == "TXT" && SITE_NAMES.contains(&self.scratch.name.as_str()) {
                site = Some(first.data.to_string());
            }
        }
        rows.qname.push(&self.scratch.name);
        match (question, decoded) {
            (Some((kind, _)), _) => rows.qtype.push(&type_name(kind)),
            (None, Some(first)) => rows.qtype.push(&first.kind),
            (None, None) => rows.qtype.push(""),
        }
        rows.rcode.push(&self.scratch.code);
        rows.truncated.push(truncated);
        rows.answers.push(answers.unwrap_or(f64::NAN));
        rows.query_bytes.push(query_bytes);
        rows.site.push(site.as_deref().unwrap_or(""));
    }

    /// Decodes base64 into the scratch buffer. Returns whether it could.
    fn decode(&mut self, base64: &str, what: &'static str) -> bool {
        self.scratch.octets.clear();
        let done = BASE64.decode_vec(base64.trim_end(), &mut self.scratch.octets);
        if let Err(error) = &done {
            self.remark(NO_MESSAGE, || format!("its {what} is no base64: {error}"));
        }
        done.is_ok()
    }

    fn skip(&mut self, kind: &'static str, why: impl FnOnce() -> String) {
        self.skipped.add(kind, self.number, why);
    }

    fn remark(&mut self, kind: &'static str, why: impl FnOnce() -> String) {
        self.remarks.add(kind, self.number, why);
    }
}

/// Returns `rt` and `qt` in milliseconds; NaN for a missing `qt`.
fn times(answer: &Answer<'_>) -> Result<(f64, f64), (Times, String)> {
    let Some(Number(total)) = answer.rt else {
        return Err((Times::None, "its result has no rt".to_owned()));
    };
    // Until 2015-06 the probes' clock could step during a query.
    if !(total > 0.0 && total.is_finite()) {
        return Err((Times::NotPositive, format!("its rt is {total} ms")));
    }
    let query = answer.qt.map_or(f64::NAN, |Number(query)| query);
    // A part that is longer than the whole counts as missing.
    Ok((total, if query > 0.0 && query <= total { query } else { f64::NAN }))
}

enum Times {
    None,
    NotPositive,
}

fn by_transport(times: Times, transport: &str) -> &'static str {
    match (times, transport) {
        (Times::None, "udp") => "udp: no response time",
        (Times::None, _) => "tcp: no response time",
        (Times::NotPositive, "udp") => "udp: response time not above 0",
        (Times::NotPositive, _) => "tcp: response time not above 0",
    }
}

fn described(fault: Fault) -> (&'static str, String) {
    match fault {
        Fault::Cut => ("cut short", "it does not end: its line or the file was cut".to_owned()),
        Fault::TooLong => ("too long", format!("it is longer than {} MB", MAX_OBJECT >> 20)),
        Fault::TooDeep => ("nested too deep", format!("it is nested deeper than {MAX_DEPTH}")),
        Fault::NoObjects => {
            ("no JSON", format!("{} MB without an object, the rest is not read", MAX_GAP >> 20))
        }
    }
}

/// Names whose TXT record says which machine answers (RFC 4892).
const SITE_NAMES: [&str; 4] = ["hostname.bind.", "id.server.", "version.bind.", "version.server."];

/// The year 2500: no clock of a probe is there.
const LATEST: f64 = 16_725_225_600.0;

/// Probes set their clocks at least every few hours. After a day without that, a clock is odd.
const SYNCHRONISED_S: f64 = 86_400.0;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    // Early firmware leaves out the padding, or leaves stray bits in the last digit.
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The most records that are read before the caller gets a turn.
const RECORDS: usize = 1_000_000;
/// The most bytes of texts in a chunk. A usual chunk has a twentieth of this.
const TEXT_BYTES: usize = 32 << 20;
/// The rest of a file that cannot be read or decompressed.
const DAMAGED: &str = "the file is damaged from there on";
const WRONG_TYPE: &str = "a key of a wrong type";
const NO_JSON: &str = "no JSON";
const OTHER_TYPE: &str = "not a DNS result";
const NOTHING: &str = "neither result nor error";
const NO_TIME: &str = "no usable timestamp";
const NO_TRANSPORT: &str = "neither UDP nor TCP";
const NO_MESSAGE: &str = "a message that cannot be read";
const CLOCK: &str = "a clock that was not set for a day";
