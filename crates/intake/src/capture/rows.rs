//! Rows of the tables `exchanges` and `connections`.

use std::net::IpAddr;
use std::ops::Deref;

use super::tables::CaptureTables;
use crate::Columns;

/// A DNS query and its result, as seen in a capture. Times are in nanoseconds; the starts and ends
/// are since 1970.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The client's address and port.
    pub client: Option<(IpAddr, u16)>,
    /// The server's address and port.
    pub server: Option<(IpAddr, u16)>,
    /// `udp`, `tcp`, `tls`, `https` or `quic`.
    pub transport: &'static str,
    /// The connection's number.
    pub connection: Option<u32>,
    /// Whether the connection had carried a query before.
    pub reused: Option<bool>,
    /// When it began: at the SYN if the connection was opened for it, otherwise at the query.
    pub started_ns: i64,
    /// How long the handshake took.
    pub connect_ns: Option<i64>,
    /// From the last attempt's query to the reply's first byte.
    pub first_byte_ns: Option<i64>,
    /// From the last attempt's query to the reply's last byte.
    pub query_ns: Option<i64>,
    /// From the start to the reply's last byte.
    pub total_ns: Option<i64>,
    /// One of the names of docs/measurements.md.
    pub outcome: &'static str,
    /// How far it got; empty if unknown or answered.
    pub stage: &'static str,
    /// How often it was asked.
    pub attempts: Option<u32>,
    /// How many replies over UDP its attempts got.
    pub replies: Option<u32>,
    /// The name asked for; empty if there is none.
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
    /// The payloads of the first eight of them, in bytes.
    pub sizes: Sizes,
    /// How the reply's length was cut.
    pub prefix: &'static str,
    /// The segments of the query that were retransmitted.
    pub query_retransmissions: Option<u32>,
    /// The segments of the reply that were retransmitted.
    pub reply_retransmissions: Option<u32>,
    /// Which machine answered.
    pub site: String,
}

/// A connection as seen in a capture. Times are in nanoseconds; the starts and ends are since 1970.
/// Pairs are of the client and the server.
#[derive(Clone, Debug, Default)]
pub struct ConnectionRow {
    /// Its number.
    pub number: u32,
    /// The address and port of its client.
    pub client: Option<(IpAddr, u16)>,
    /// The address and port of its server.
    pub server: Option<(IpAddr, u16)>,
    /// When its first packet was seen.
    pub started_ns: i64,
    /// When its first FIN or RST was seen.
    pub ended_ns: Option<i64>,
    /// From the first SYN to the SYN/ACK.
    pub syn_ns: Option<i64>,
    /// From the SYN/ACK to the ACK.
    pub ack_ns: Option<i64>,
    /// The SYNs that were retransmitted.
    pub syn_retransmissions: Option<u32>,
    /// Whether the SYN carried data.
    pub fast_open: Option<bool>,
    /// Queries that it carried.
    pub exchanges: u32,
    /// How it ended.
    pub ending: &'static str,
    /// Who ended it.
    pub closed_by: &'static str,
    /// Payload bytes, each counted once.
    pub bytes: [u64; 2],
    /// Data segments that brought new bytes.
    pub segments: [u32; 2],
    /// Data segments that were retransmitted.
    pub retransmissions: [u32; 2],
    /// The largest segment, in bytes, that the client's SYN allows the server to send.
    pub mss: Option<u16>,
}

/// Rows of both tables.
#[derive(Debug, Default)]
pub struct CaptureChunk {
    exchanges: Vec<Exchange>,
    connections: Vec<ConnectionRow>,
}

impl CaptureChunk {
    /// Returns the number of rows in both tables.
    pub fn len(&self) -> usize {
        self.exchanges.len() + self.connections.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the exchanges.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// Returns the connections.
    pub fn connections(&self) -> &[ConnectionRow] {
        &self.connections
    }

    pub(super) fn exchange(&mut self, row: Exchange) {
        self.exchanges.push(row);
    }

    pub(super) fn connection(&mut self, row: ConnectionRow) {
        self.connections.push(row);
    }

    /// Returns the rows as columns; see [`CaptureTables`].
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
    /// Notes a number, unless there are eight already.
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
