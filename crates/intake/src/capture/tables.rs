//! The tables `exchanges` and `connections`, column by column.
//!
//! Rows are put into their columns a few hundred at a time, while they are still in the processor's
//! cache: a row is some 300 bytes, and most of its columns need eight.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use narrows_wire::brief::{type_name, write_code_name};

use super::rows::{CaptureChunk, ConnectionRow, Exchange};
use crate::target::target as target_name;
use crate::{Column, Columns, Names};

/// Rows of both tables as columns.
pub struct CaptureTables {
    exchanges: Vec<(&'static str, Building<Exchange>)>,
    connections: Vec<(&'static str, Building<ConnectionRow>)>,
    sizes: Vec<u32>,
    sizes_end: Vec<u32>,
    rows: usize,
}

/// A column under construction, and what it takes from a row.
enum Building<T> {
    Number(fn(&T) -> Option<f64>, Vec<f64>),
    Text(fn(&T) -> &str, Names),
    Address(fn(&T) -> Option<IpAddr>, Written<IpAddr>),
    Target(fn(&T) -> (End, &'static str), Written<(IpAddr, u16, &'static str)>),
    /// A number that has a name.
    Named(fn(&T) -> Option<u16>, fn(u16) -> String, Written<u16>),
}

/// Names of values, each stored once.
struct Written<K> {
    names: Names,
    known: HashMap<K, u32, RandomState>,
}

impl Default for CaptureTables {
    fn default() -> Self {
        Self {
            exchanges: exchanges(),
            connections: connections(),
            sizes: Vec::new(),
            sizes_end: Vec::new(),
            rows: 0,
        }
    }
}

impl CaptureTables {
    /// Appends rows.
    pub fn add(&mut self, rows: &CaptureChunk) {
        self.rows += rows.len();
        for (_, column) in &mut self.exchanges {
            column.add(rows.exchanges());
        }
        for (_, column) in &mut self.connections {
            column.add(rows.connections());
        }
        for row in rows.exchanges() {
            self.sizes.extend_from_slice(&row.sizes);
            self.sizes_end.push(self.sizes.len() as u32);
        }
    }

    /// Returns the number of rows in both tables.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the bytes of the texts, which are as long as the packets make them.
    pub fn text_bytes(&self) -> usize {
        self.exchanges.iter().map(|(_, column)| column.text_bytes()).sum()
    }

    /// Returns the columns of `exchanges` and of `connections` by name. Empty texts and NaN are
    /// nulls. `sizes` holds the segments' payloads of all rows, one after the other; `sizes_end`
    /// holds where those of each row end.
    pub fn into_columns(self) -> (Columns, Columns) {
        let mut exchanges: Columns =
            self.exchanges.into_iter().map(|(name, column)| (name, column.done())).collect();
        exchanges.push(("sizes_end", Column::U32(self.sizes_end)));
        exchanges.push(("sizes", Column::U32(self.sizes)));
        let connections =
            self.connections.into_iter().map(|(name, column)| (name, column.done())).collect();
        (exchanges, connections)
    }
}

impl<T> Building<T> {
    fn add(&mut self, rows: &[T]) {
        match self {
            Self::Number(of, values) => {
                values.extend(rows.iter().map(|row| of(row).unwrap_or(f64::NAN)));
            }
            Self::Text(of, names) => {
                for row in rows {
                    names.push(of(row));
                }
            }
            Self::Address(of, written) => {
                for row in rows {
                    written.push(of(row), |address| address.to_string());
                }
            }
            Self::Target(of, written) => {
                for row in rows {
                    let (server, transport) = of(row);
                    let known = server.map(|(address, port)| (address, port, transport));
                    written.push(known, |(address, port, transport)| {
                        target_name(&address.to_string(), port, transport).into_owned()
                    });
                }
            }
            Self::Named(of, name, written) => {
                for row in rows {
                    written.push(of(row), *name);
                }
            }
        }
    }

    fn text_bytes(&self) -> usize {
        match self {
            Self::Number(..) => 0,
            Self::Text(_, names) => names.text_bytes(),
            Self::Address(_, written) => written.names.text_bytes(),
            Self::Target(_, written) => written.names.text_bytes(),
            Self::Named(_, _, written) => written.names.text_bytes(),
        }
    }

    fn done(self) -> Column {
        match self {
            Self::Number(_, values) => Column::F64(values),
            Self::Text(_, names) => Column::Names(names),
            Self::Address(_, written) => Column::Names(written.names),
            Self::Target(_, written) => Column::Names(written.names),
            Self::Named(_, _, written) => Column::Names(written.names),
        }
    }
}

impl<K: Copy + Eq + Hash> Written<K> {
    fn new() -> Self {
        Self { names: Names::default(), known: HashMap::default() }
    }

    fn push(&mut self, value: Option<K>, name: impl Fn(K) -> String) {
        let Some(value) = value else {
            self.names.push("");
            return;
        };
        if let Some(code) = self.known.get(&value) {
            self.names.repeat(*code);
        } else {
            self.names.push(&name(value));
            self.known.extend(self.names.last().map(|code| (value, code)));
        }
    }
}

fn exchanges() -> Vec<(&'static str, Building<Exchange>)> {
    vec![
        ("vantage", address(|row| row.client.map(|(address, _)| address))),
        ("target", target(|row| (row.server, row.transport))),
        ("server", address(|row| row.server.map(|(address, _)| address))),
        ("port", number(|row| port(row.server))),
        ("family", number(|row| family(row.client, row.server))),
        ("transport", text(|row| row.transport)),
        ("connection", number(|row| row.connection.map(f64::from))),
        ("reused", number(|row| row.reused.map(flag))),
        ("started_s", number(|row| Some(seconds(row.started_ns)))),
        ("connect_ms", number(|row| row.connect_ns.map(milliseconds))),
        ("first_byte_ms", number(|row| row.first_byte_ns.map(milliseconds))),
        ("query_ms", number(|row| row.query_ns.map(milliseconds))),
        ("total_ms", number(|row| row.total_ns.map(milliseconds))),
        ("outcome", text(|row| row.outcome)),
        ("stage", text(|row| row.stage)),
        ("attempts", number(|row| row.attempts.map(|count| f64::from(count.min(255))))),
        ("replies", number(|row| row.replies.map(|count| f64::from(count.min(255))))),
        ("qname", text(|row| &row.qname)),
        ("qtype", named(|row| row.qtype, type_name)),
        ("rcode", named(|row| row.rcode, code_name)),
        ("truncated", number(|row| row.truncated.map(flag))),
        ("answers", number(|row| row.answers.map(f64::from))),
        ("query_bytes", number(|row| row.query_bytes.map(f64::from))),
        ("reply_bytes", number(|row| row.reply_bytes.map(f64::from))),
        ("segments", number(|row| row.segments.map(f64::from))),
        ("prefix", text(|row| row.prefix)),
        ("query_retransmissions", number(|row| row.query_retransmissions.map(f64::from))),
        ("reply_retransmissions", number(|row| row.reply_retransmissions.map(f64::from))),
        ("site", text(|row| &row.site)),
    ]
}

fn connections() -> Vec<(&'static str, Building<ConnectionRow>)> {
    vec![
        ("vantage", address(|row| row.client.map(|(address, _)| address))),
        ("target", target(|row| (row.server, "tcp"))),
        ("server", address(|row| row.server.map(|(address, _)| address))),
        ("port", number(|row| port(row.server))),
        ("family", number(|row| family(row.client, row.server))),
        ("connection", number(|row| Some(f64::from(row.number)))),
        ("transport", text(|_| "tcp")),
        ("started_s", number(|row| Some(seconds(row.started_ns)))),
        ("ended_s", number(|row| row.ended_ns.map(seconds))),
        ("syn_ms", number(|row| row.syn_ns.map(milliseconds))),
        ("ack_ms", number(|row| row.ack_ns.map(milliseconds))),
        ("syn_retransmissions", number(|row| row.syn_retransmissions.map(f64::from))),
        ("fast_open", number(|row| row.fast_open.map(flag))),
        ("exchanges", number(|row| Some(f64::from(row.exchanges)))),
        ("ending", text(|row| row.ending)),
        ("closed_by", text(|row| row.closed_by)),
        ("client_bytes", number(|row| Some(row.bytes[0] as f64))),
        ("server_bytes", number(|row| Some(row.bytes[1] as f64))),
        ("client_segments", number(|row| Some(f64::from(row.segments[0])))),
        ("server_segments", number(|row| Some(f64::from(row.segments[1])))),
        ("client_retransmissions", number(|row| Some(f64::from(row.retransmissions[0])))),
        ("server_retransmissions", number(|row| Some(f64::from(row.retransmissions[1])))),
        ("mss_bytes", number(|row| row.mss.map(f64::from))),
    ]
}

type End = Option<(IpAddr, u16)>;

fn number<T>(of: fn(&T) -> Option<f64>) -> Building<T> {
    Building::Number(of, Vec::new())
}

fn text<T>(of: fn(&T) -> &str) -> Building<T> {
    Building::Text(of, Names::default())
}

fn address<T>(of: fn(&T) -> Option<IpAddr>) -> Building<T> {
    Building::Address(of, Written::new())
}

fn target<T>(of: fn(&T) -> (End, &'static str)) -> Building<T> {
    Building::Target(of, Written::new())
}

fn named<T>(of: fn(&T) -> Option<u16>, name: fn(u16) -> String) -> Building<T> {
    Building::Named(of, name, Written::new())
}

/// Returns the server's port; dnstap may leave it out, which gives 0.
fn port(server: End) -> Option<f64> {
    server.map(|(_, port)| port).filter(|&port| port != 0).map(f64::from)
}

fn family(client: End, server: End) -> Option<f64> {
    let (address, _) = server.or(client)?;
    Some(if address.is_ipv4() { 4.0 } else { 6.0 })
}

fn code_name(number: u16) -> String {
    let mut name = String::new();
    write_code_name(number, &mut name);
    name
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 * 1e-6
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 * 1e-9
}
