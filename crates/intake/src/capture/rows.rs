//! Rows of the tables `exchanges` and `connections`, as columns.

use std::net::IpAddr;

use crate::{Column, Columns, Names};

/// A DNS query and what became of it, as a watcher knows it. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// Who asked, and its port.
    pub client: Option<(IpAddr, u16)>,
    /// Who was asked.
    pub server: Option<(IpAddr, u16)>,
    /// `udp`, `tcp`, `tls` or `https`.
    pub transport: &'static str,
    /// The connection's number.
    pub connection: Option<u32>,
    /// Whether the connection had carried a query before.
    pub reused: Option<bool>,
    /// When it began: the SYN, or the query.
    pub started_ns: i64,
    /// How long the handshake took.
    pub connect_ns: Option<i64>,
    /// From the query to the reply's first byte.
    pub first_byte_ns: Option<i64>,
    /// From the query to the reply's last byte.
    pub query_ns: Option<i64>,
    /// From the start to the reply's last byte.
    pub total_ns: Option<i64>,
    /// One of the names of docs/measurements.md.
    pub outcome: &'static str,
    /// How far it came.
    pub stage: &'static str,
    /// How often it was asked.
    pub attempts: Option<u32>,
    /// The name asked for, empty for none.
    pub qname: String,
    /// The type asked for.
    pub qtype: String,
    /// The reply's code.
    pub rcode: String,
    /// Whether the reply has TC set.
    pub truncated: Option<bool>,
    /// Records in the reply's answer section.
    pub answers: Option<u16>,
    /// The query's length.
    pub query_bytes: Option<u32>,
    /// The reply's length.
    pub reply_bytes: Option<u32>,
    /// Segments that brought the reply.
    pub segments: Option<u32>,
    /// Payloads of the first of them.
    pub sizes: Vec<u32>,
    /// How the reply's length was cut.
    pub prefix: &'static str,
    /// Segments of the query that were sent again.
    pub query_retransmissions: Option<u32>,
    /// Segments of the reply that were sent again.
    pub reply_retransmissions: Option<u32>,
    /// Which machine answered.
    pub site: String,
}

/// A connection as a watcher knows it.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRow {
    /// Its number.
    pub number: u32,
    /// Who opened it.
    pub client: Option<(IpAddr, u16)>,
    /// To whom.
    pub server: Option<(IpAddr, u16)>,
    /// When its first packet was seen.
    pub started_ns: i64,
    /// When its first FIN or RST was.
    pub ended_ns: Option<i64>,
    /// From the first SYN to the SYN/ACK.
    pub syn_ns: Option<i64>,
    /// From the SYN/ACK to the ACK.
    pub ack_ns: Option<i64>,
    /// SYNs sent again.
    pub syn_retransmissions: Option<u32>,
    /// Whether the SYN carried data.
    pub fast_open: Option<bool>,
    /// Queries that it carried.
    pub exchanges: u32,
    /// How it ended.
    pub ending: &'static str,
    /// Who ended it.
    pub closed_by: &'static str,
    /// Bytes, data segments and retransmissions of client and server.
    pub bytes: [u64; 2],
    /// Data segments.
    pub segments: [u32; 2],
    /// Segments sent again.
    pub retransmissions: [u32; 2],
    /// What the client's SYN allows the server to send at once.
    pub mss: Option<u16>,
}

/// Rows of both tables.
#[derive(Debug, Default)]
pub struct CaptureChunk {
    exchanges: Vec<Exchange>,
    connections: Vec<ConnectionRow>,
}

impl CaptureChunk {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.exchanges.len() + self.connections.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The exchanges.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The connections.
    pub fn connections(&self) -> &[ConnectionRow] {
        &self.connections
    }

    pub(super) fn exchange(&mut self, row: Exchange) {
        self.exchanges.push(row);
    }

    pub(super) fn connection(&mut self, row: ConnectionRow) {
        self.connections.push(row);
    }

    /// Columns of `exchanges` and of `connections` by name. Empty texts and NaN are nulls.
    /// `sizes` holds the segments' payloads of all rows one after the other, `sizes_end` where each
    /// row's end.
    pub fn into_columns(self) -> (Columns, Columns) {
        (exchange_columns(&self.exchanges), connection_columns(&self.connections))
    }
}

fn exchange_columns(rows: &[Exchange]) -> Columns {
    let mut columns = ends(rows, |row| row.client, |row| row.server);
    let number = |of: &dyn Fn(&Exchange) -> Option<f64>| numbers(rows, of);
    columns.extend([
        ("transport", texts(rows, |row| row.transport)),
        ("connection", number(&|row| row.connection.map(f64::from))),
        ("reused", number(&|row| row.reused.map(|is| f64::from(u8::from(is))))),
        ("started_s", number(&|row| Some(seconds(row.started_ns)))),
        ("connect_ms", number(&|row| row.connect_ns.map(milliseconds))),
        ("first_byte_ms", number(&|row| row.first_byte_ns.map(milliseconds))),
        ("query_ms", number(&|row| row.query_ns.map(milliseconds))),
        ("total_ms", number(&|row| row.total_ns.map(milliseconds))),
        ("outcome", texts(rows, |row| row.outcome)),
        ("stage", texts(rows, |row| row.stage)),
        ("attempts", number(&|row| row.attempts.map(|count| f64::from(count.min(255))))),
        ("qname", texts(rows, |row| &row.qname)),
        ("qtype", texts(rows, |row| &row.qtype)),
        ("rcode", texts(rows, |row| &row.rcode)),
        ("truncated", number(&|row| row.truncated.map(|is| f64::from(u8::from(is))))),
        ("answers", number(&|row| row.answers.map(f64::from))),
        ("query_bytes", number(&|row| row.query_bytes.map(f64::from))),
        ("reply_bytes", number(&|row| row.reply_bytes.map(f64::from))),
        ("segments", number(&|row| row.segments.map(f64::from))),
        ("prefix", texts(rows, |row| row.prefix)),
        ("query_retransmissions", number(&|row| row.query_retransmissions.map(f64::from))),
        ("reply_retransmissions", number(&|row| row.reply_retransmissions.map(f64::from))),
        ("site", texts(rows, |row| &row.site)),
    ]);
    let mut end = 0;
    let ends = rows.iter().map(|row| {
        end += row.sizes.len() as u32;
        end
    });
    columns.push(("sizes_end", Column::U32(ends.collect())));
    let sizes = rows.iter().flat_map(|row| row.sizes.iter().copied());
    columns.push(("sizes", Column::U32(sizes.collect())));
    columns
}

fn connection_columns(rows: &[ConnectionRow]) -> Columns {
    let mut columns = ends(rows, |row| row.client, |row| row.server);
    let number = |of: &dyn Fn(&ConnectionRow) -> Option<f64>| numbers(rows, of);
    columns.extend([
        ("connection", number(&|row| Some(f64::from(row.number)))),
        ("transport", texts(rows, |_| "tcp")),
        ("started_s", number(&|row| Some(seconds(row.started_ns)))),
        ("ended_s", number(&|row| row.ended_ns.map(seconds))),
        ("syn_ms", number(&|row| row.syn_ns.map(milliseconds))),
        ("ack_ms", number(&|row| row.ack_ns.map(milliseconds))),
        ("syn_retransmissions", number(&|row| row.syn_retransmissions.map(f64::from))),
        ("fast_open", number(&|row| row.fast_open.map(|is| f64::from(u8::from(is))))),
        ("exchanges", number(&|row| Some(f64::from(row.exchanges)))),
        ("ending", texts(rows, |row| row.ending)),
        ("closed_by", texts(rows, |row| row.closed_by)),
        ("client_bytes", number(&|row| Some(row.bytes[0] as f64))),
        ("server_bytes", number(&|row| Some(row.bytes[1] as f64))),
        ("client_segments", number(&|row| Some(f64::from(row.segments[0])))),
        ("server_segments", number(&|row| Some(f64::from(row.segments[1])))),
        ("client_retransmissions", number(&|row| Some(f64::from(row.retransmissions[0])))),
        ("server_retransmissions", number(&|row| Some(f64::from(row.retransmissions[1])))),
        ("mss_bytes", number(&|row| row.mss.map(f64::from))),
    ]);
    columns
}

type End = Option<(IpAddr, u16)>;

fn ends<T>(rows: &[T], client: impl Fn(&T) -> End, server: impl Fn(&T) -> End) -> Columns {
    let family = |row: &T| {
        let (address, _) = server(row).or(client(row))?;
        Some(if address.is_ipv4() { 4.0 } else { 6.0 })
    };
    vec![
        ("vantage", addresses(rows, &client)),
        ("server", addresses(rows, &server)),
        ("port", numbers(rows, &|row| server(row).map(|(_, port)| f64::from(port)))),
        ("family", numbers(rows, &family)),
    ]
}

/// Addresses as texts, each written once.
fn addresses<T>(rows: &[T], of: &dyn Fn(&T) -> End) -> Column {
    let mut names = Names::default();
    let mut last: Option<(IpAddr, String)> = None;
    for row in rows {
        match (of(row), &last) {
            (None, _) => names.push(""),
            (Some((address, _)), Some((known, text))) if address == *known => names.push(text),
            (Some((address, _)), _) => {
                let text = address.to_string();
                names.push(&text);
                last = Some((address, text));
            }
        }
    }
    Column::Names(names)
}

fn numbers<T>(rows: &[T], of: &dyn Fn(&T) -> Option<f64>) -> Column {
    Column::F64(rows.iter().map(|row| of(row).unwrap_or(f64::NAN)).collect())
}

fn texts<T>(rows: &[T], of: impl Fn(&T) -> &str) -> Column {
    let mut names = Names::default();
    for row in rows {
        names.push(of(row));
    }
    Column::Names(names)
}

fn milliseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 * 1e-6
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 * 1e-9
}
