//! Rows that applications leave: bursts, queries and their attempts, in the order of the events.

use narrows_units::{Span, Time};

use crate::application::LossReason;

/// What was recorded so far.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Bursts that are over; at the end of a run also those that are going on.
    pub bursts: Vec<BurstRow>,
    /// DNS queries.
    pub queries: Vec<QueryRow>,
    /// Attempts at them.
    pub attempts: Vec<AttemptRow>,
}

/// A burst: a row of the table `bursts`.
#[derive(Clone, Copy, Debug)]
pub struct BurstRow {
    /// Row of its connection in the table `flows`.
    pub flow: u32,
    /// Its number within the connection, from 0.
    pub burst: u32,
    /// When the application wrote it.
    pub start: Time,
    /// When its last byte was acknowledged; `None`: not yet.
    pub end: Option<Time>,
    /// Its size.
    pub bytes: u64,
    /// Segments of it that were sent again.
    pub retransmitted: u32,
}

/// A query: a row of the table `queries`.
#[derive(Clone, Copy, Debug)]
pub struct QueryRow {
    /// The client that asks: an index into the plan's applications.
    pub client: u32,
    /// The worker's number in its group.
    pub worker: u32,
    /// The query's number within its worker.
    pub index: u32,
    /// It is no warm-up.
    pub measured: bool,
    /// When its first attempt was sent.
    pub start: Time,
    /// When it was answered or given up.
    pub end: Option<Time>,
    /// The attempt that succeeded, from one; zero: none.
    pub attempt: u8,
    /// Attempts made.
    pub attempts: u8,
    /// Round-trip time of the attempt that succeeded.
    pub rtt: Option<Span>,
    /// Answers that came after their attempt had timed out.
    pub late_answers: u8,
}

/// An attempt: a row of the table `attempts`.
#[derive(Clone, Copy, Debug)]
pub struct AttemptRow {
    /// Row of its query.
    pub query: u32,
    /// Its number within the query, from one.
    pub attempt: u8,
    /// When it was sent.
    pub sent: Time,
    /// What became of it.
    pub fate: Fate,
    /// When the first byte of its answer came.
    pub first_byte: Option<Time>,
    /// When its answer came.
    pub received: Option<Time>,
    /// What carried it.
    pub transport: Transport,
    /// It went over a connection that had carried a query before.
    pub reused: bool,
    /// Round trips before the query could leave.
    pub handshakes: u8,
    /// The time that they took; `None`: there were none, or they did not end.
    pub handshake: Option<Span>,
    /// IP packets that the client sent for it: over UDP the query; of a connection for one query all
    /// its packets; of a kept one those from the query to its answer.
    pub packets_sent: u32,
    /// Bytes of these.
    pub bytes_sent: u32,
    /// IP packets that the server sent for it, whatever became of them.
    pub packets_received: u32,
    /// Bytes of these.
    pub bytes_received: u32,
    /// IP packet length of the query over UDP.
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
    /// QUIC, which has TLS in it (RFC 9250).
    Quic,
}

impl Transport {
    /// Its name in the table `attempts`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
        }
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet.
    Pending,
    /// Its answer ended the query.
    Answered,
    /// Its answer came too late.
    Late,
    /// The query was lost: at which link, and why.
    QueryLost(u32, LossReason),
    /// The reply was lost.
    ReplyLost(u32, LossReason),
    /// The reply came, and did not fit.
    Truncated,
    /// The connection was refused.
    Refused,
    /// The server closed the connection before it answered.
    Closed,
    /// The server reset the connection.
    Reset,
    /// Nothing came in time, and nothing is known to be lost.
    TimedOut,
}
