//! Rows of the tables `exchanges` and `connections`.

use std::net::IpAddr;
use std::ops::Deref;

use super::tables::CaptureTables;
use crate::Columns;

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
    /// The number of the type asked for.
    pub qtype: Option<u16>,
    /// The reply's code, with EDNS's upper bits.
    pub rcode: Option<u16>,
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
    pub sizes: Sizes,
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

    /// The rows as columns; see [`CaptureTables`].
    pub fn into_columns(self) -> (Columns, Columns) {
        let mut tables = CaptureTables::default();
        tables.add(&self);
        tables.into_columns()
    }

    pub(super) fn clear(&mut self) {
        self.exchanges.clear();
        self.connections.clear();
    }
}

/// The first eight of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    values: [u32; 8],
    count: u8,
}

impl Sizes {
    /// Notes a number, unless there are eight.
    pub fn push(&mut self, value: u32) {
        if let Some(place) = self.values.get_mut(usize::from(self.count)) {
            *place = value;
            self.count += 1;
        }
    }
}

impl Deref for Sizes {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.values[..usize::from(self.count)]
    }
}
