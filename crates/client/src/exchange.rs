//! The results of an exchange: outcome, times, segments. Plain values.

use std::time::{Duration, SystemTime};

use narrows_wire::brief::write_code_name;

/// A query and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The result.
    pub outcome: Outcome,
    /// How far it got; `None` if it was answered.
    pub stage: Option<Stage>,
    /// The system's or the server's own words for a failure; empty if there was none.
    pub detail: String,
    /// When it began, by the process's clock: at the SYN, or at the query if there was none.
    pub started: SystemTime,
    /// How long each part took.
    pub times: Times,
    /// The bytes of the query's message.
    pub query_bytes: usize,
    /// The reply, if a DNS message arrived.
    pub reply: Option<Reply>,
    /// How a reply over TCP was cut into segments.
    pub segments: Segments,
    /// Whether the connection had carried a query before; `None` over UDP.
    pub reused: Option<bool>,
    /// The connection that carried it, numbered from 0 by the client; `None` over UDP.
    pub connection: Option<u32>,
}

/// The result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A DNS message arrived that answers it.
    Answered,
    /// Nothing more arrived in time.
    Timeout,
    /// The SYN was answered by a reset, or ICMP reported that the port is unreachable.
    Refused,
    /// The network reported that there is no way there.
    Unreachable,
    /// The connection was reset after its handshake.
    Reset,
    /// The server closed the connection before the reply was complete.
    Closed,
    /// The data that arrived is not a DNS message.
    Malformed,
    /// A DNS message arrived that answers something else.
    Mismatched,
    /// The handshake of TLS or QUIC failed.
    HandshakeFailed,
    /// This machine was unable to ask.
    NotAsked,
}

impl Outcome {
    /// Returns its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Malformed => "malformed",
            Self::Mismatched => "mismatched",
            Self::HandshakeFailed => "handshake-failed",
            Self::NotAsked => "not-asked",
        }
    }
}

/// How far an unanswered query got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the connection was established.
    Connect,
    /// During the TLS handshake.
    Secure,
    /// Before the first byte of the reply.
    Query,
    /// After the first byte of the reply.
    Reply,
}

impl Stage {
    /// Returns its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Secure => "secure",
            Self::Query => "query",
            Self::Reply => "reply",
        }
    }
}

/// How long the parts of an exchange took; `None` for parts that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The handshake of TCP or QUIC.
    pub connect: Option<Duration>,
    /// The TLS handshake over TCP.
    pub secure: Option<Duration>,
    /// The time from the query to the first byte of the reply.
    pub first_byte: Option<Duration>,
    /// The time from the query to the last byte of the reply.
    pub query: Option<Duration>,
    /// The time from the beginning to the last byte of the reply.
    pub total: Option<Duration>,
    /// Whether the kernel stamped both the query and the reply.
    pub by_kernel: bool,
}

/// The content of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its bytes, without TCP's length field.
    pub bytes: usize,
    /// The response code, including EDNS's upper bits.
    pub rcode: u16,
    /// Whether it was cut short (TC).
    pub truncated: bool,
    /// The number of records in the answer section, according to the header.
    pub answers: u16,
    /// The server's name for itself (RFC 5001); `None` if it gives none.
    pub nsid: Option<Vec<u8>>,
}

impl Reply {
    /// Returns the response code's name, such as `REFUSED`; `RCODE3000` for one without a name.
    #[must_use]
    pub fn rcode_name(&self) -> String {
        let mut name = String::new();
        write_code_name(self.rcode, &mut name);
        name
    }
}

/// How a reply over TCP arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// The number of data segments that brought it, each counted once.
    pub count: Option<u32>,
    /// The payloads of the first eight. Empty if several arrived between two reads and no raw
    /// socket told them apart.
    pub sizes: Vec<u32>,
    /// How the two-byte length was cut.
    pub prefix: Option<Prefix>,
    /// The segments of the reply that arrived again; `None` without a raw socket.
    pub again: Option<u32>,
    /// The segments of the query that were retransmitted.
    pub query_again: Option<u32>,
}

/// How the two-byte length of a reply over TCP was cut (RFC 1035, section 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// It was in one segment with at least the first byte of the message.
    Joined,
    /// It was in a segment of its own.
    Alone,
    /// It was in two segments.
    Split,
}

impl Prefix {
    /// Returns its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Alone => "alone",
            Self::Split => "split",
        }
    }
}

/// What is known about a connection that has ended or is being closed.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionFacts {
    /// Its number, counted from 0 by the client.
    pub number: u32,
    /// When it began.
    pub started: SystemTime,
    /// When it ended.
    pub ended: Option<SystemTime>,
    /// The time from the first SYN to the SYN/ACK.
    pub syn: Option<Duration>,
    /// The SYNs that were retransmitted.
    pub syn_again: Option<u32>,
    /// The duration of the TLS handshake.
    pub secure: Option<Duration>,
    /// The number of queries that it carried.
    pub exchanges: u32,
    /// How it ended.
    pub ending: Ending,
    /// Who ended it.
    pub closer: Option<Closer>,
    /// The payload from this side, each byte counted once.
    pub client_bytes: Option<u64>,
    /// The payload from the server, each byte counted once.
    pub server_bytes: Option<u64>,
    /// The data segments from this side, including retransmitted ones.
    pub client_segments: Option<u32>,
    /// The data segments from the server, including repeated ones.
    pub server_segments: Option<u32>,
    /// The segments from this side that were retransmitted.
    pub client_again: Option<u32>,
    /// The largest payload that the server may send.
    pub mss: Option<u32>,
    /// The smallest round-trip time that TCP has measured.
    pub rtt: Option<Duration>,
}

impl ConnectionFacts {
    /// Describes a connection that has begun but is not established.
    pub(crate) fn begun(number: u32, started: SystemTime) -> Self {
        Self {
            number,
            started,
            ended: None,
            syn: None,
            syn_again: None,
            secure: None,
            exchanges: 0,
            ending: Ending::Timeout,
            closer: None,
            client_bytes: None,
            server_bytes: None,
            client_segments: None,
            server_segments: None,
            client_again: None,
            mss: None,
            rtt: None,
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Closed in order.
    Fin,
    /// By a reset.
    Reset,
    /// It was never established: refused.
    Refused,
    /// It was never established: no answer.
    Timeout,
}

impl Ending {
    /// Returns its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::Reset => "reset",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
        }
    }
}

/// Who ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// This side.
    Client,
    /// The other side.
    Server,
}

impl Closer {
    /// Returns its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_codes_have_their_registered_names() {
        // IANA's registry of DNS RCODEs (RFC 6895, section 2.3).
        let names = [
            (0, "NOERROR"),
            (2, "SERVFAIL"),
            (3, "NXDOMAIN"),
            (5, "REFUSED"),
            (23, "BADCOOKIE"),
            (3000, "RCODE3000"),
        ];
        for (rcode, name) in names {
            let reply = Reply { bytes: 12, rcode, truncated: false, answers: 0, nsid: None };
            assert_eq!(reply.rcode_name(), name);
        }
    }
}
