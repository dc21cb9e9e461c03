//! Rows that applications record: bursts, queries and their attempts, in the order of the events.

mod content;
mod tables;

use narrows_units::{Span, Time};

pub use self::content::Content;
use crate::LossReason;

/// The most queries that a run records. With more, it stops.
pub const MOST_QUERIES: u64 = 50_000_000;

/// What has been recorded so far.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Bursts that have ended. At the end of a run, those still going on are added.
    pub bursts: Vec<BurstRow>,
    /// DNS queries.
    pub queries: Vec<QueryRow>,
    /// Attempts at these queries.
    pub attempts: Vec<AttemptRow>,
}

/// A burst: a row of the table `bursts`.
#[derive(Clone, Copy, Debug)]
pub struct BurstRow {
    /// The row of its connection in the table `flows`.
    pub flow: u32,
    /// Its number within the connection, from 0.
    pub burst: u32,
    /// When the application wrote it.
    pub start: Time,
    /// When its last byte was acknowledged; `None`: not yet.
    pub end: Option<Time>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its segments that were retransmitted.
    pub retransmitted: u32,
}

/// A query: a row of the table `queries`.
#[derive(Clone, Copy, Debug)]
pub struct QueryRow {
    /// The client that asked: an index into the plan's applications.
    pub client: u32,
    /// The worker's number in its group; of an arrival, the place that it took.
    pub worker: u32,
    /// The query's number at this worker; of an arrival, in its group.
    pub index: u32,
    /// Whether it counts: it is not a warm-up query.
    pub measured: bool,
    /// When its first attempt was sent.
    pub start: Time,
    /// When it was answered or abandoned.
    pub end: Option<Time>,
    /// The attempt that succeeded, counted from one; zero: none.
    pub attempt: u8,
    /// The number of attempts; zero: it arrived when no place was free.
    pub attempts: u8,
    /// The round-trip time of the attempt that succeeded.
    pub rtt: Option<Span>,
    /// Answers that came after their attempt had timed out.
    pub late_answers: u8,
}

/// An attempt: a row of the table `attempts`.
#[derive(Clone, Copy, Debug)]
pub struct AttemptRow {
    /// The row of its query.
    pub query: u32,
    /// Its number within the query, from one.
    pub attempt: u8,
    /// When it was sent.
    pub sent: Time,
    /// How it ended.
    pub fate: Fate,
    /// When the first byte of its answer arrived.
    pub first_byte: Option<Time>,
    /// When its answer was complete.
    pub received: Option<Time>,
    /// What carried it.
    pub transport: Transport,
    /// Whether its connection had carried a query before.
    pub reused: bool,
    /// Round trips before the query could be sent.
    pub handshakes: u8,
    /// How long these round trips took; `None`: there were none, or they did not complete.
    pub handshake: Option<Span>,
    /// IP packets that the client sent for it. Over UDP: the query. Over a connection for one
    /// query: all its packets. Over a persistent connection: those from the query to its answer.
    pub packets_sent: u32,
    /// Their bytes.
    pub bytes_sent: u32,
    /// IP packets that the server sent for it, including those that were lost.
    pub packets_received: u32,
    /// Their bytes.
    pub bytes_received: u32,
    /// The length of the query as an IP packet over UDP.
    pub query_bytes: u16,
}

/// What carries an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A TCP connection.
    Tcp,
    /// TLS on a TCP connection (RFC 7858).
    Tls,
    /// HTTP/2 over TLS (RFC 8484).
    Https,
    /// QUIC, which includes TLS (RFC 9250).
    Quic,
    /// HTTP/3 over QUIC (RFC 8484, RFC 9114).
    Http3,
}

impl Transport {
    /// Returns its name in the table `attempts`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
            Self::Http3 => "http3",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is still going on.
    Pending,
    /// Its answer completed the query.
    Answered,
    /// Its answer came too late.
    Late,
    /// The query was lost: at which link, and why.
    QueryLost(u32, LossReason),
    /// The reply was lost.
    ReplyLost(u32, LossReason),
    /// The reply came truncated, because it did not fit.
    Truncated,
    /// The connection was refused.
    Refused,
    /// The server closed the connection before it answered.
    Closed,
    /// The server reset the connection.
    Reset,
    /// No answer came in time, though nothing is known to be lost.
    TimedOut,
}
