//! What an exchange was: outcome, times, segments. Plain values.

use std::time::{Duration, SystemTime};

use domain::base::iana::OptRcode;

/// A query, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// What became of it.
    pub outcome: Outcome,
    /// How far it came; `None` where it was answered.
    pub stage: Option<Stage>,
    /// The system's or the server's own words for a failure; empty without one.
    pub detail: String,
    /// When it began: the SYN, or the query without one. The process's clock.
    pub started: SystemTime,
    /// How long what took.
    pub times: Times,
    /// Bytes of the query's message.
    pub query_bytes: usize,
    /// The reply, where a DNS message came.
    pub reply: Option<Reply>,
    /// How a reply over TCP was cut.
    pub segments: Segments,
    /// Whether the connection had carried a query before; `None` over UDP.
    pub reused: Option<bool>,
    /// The connection that carried it: counted from 0 by the client; `None` over UDP.
    pub connection: Option<u32>,
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A DNS message came that answers it.
    Answered,
    /// Nothing more came in time.
    Timeout,
    /// A reset to the SYN, or ICMP port unreachable.
    Refused,
    /// No way there, says the network.
    Unreachable,
    /// The connection was reset after its handshake.
    Reset,
    /// The server closed before the reply was whole.
    Closed,
    /// What came is no DNS message.
    Malformed,
    /// A DNS message came that answers something else.
    Mismatched,
    /// TLS or QUIC did not come about.
    HandshakeFailed,
    /// This machine could not ask.
    NotAsked,
}

impl Outcome {
    /// Its name in tables.
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

/// How far a query came that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the connection was there.
    Connect,
    /// During the TLS handshake.
    Secure,
    /// Before the first byte of the reply.
    Query,
    /// After the first byte of the reply.
    Reply,
}

impl Stage {
    /// Its name in tables.
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

/// How long the parts of an exchange took; `None` for what there was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// TCP's or QUIC's handshake.
    pub connect: Option<Duration>,
    /// TLS's handshake over TCP.
    pub secure: Option<Duration>,
    /// From the query to the first byte of the reply.
    pub first_byte: Option<Duration>,
    /// From the query to the last byte of the reply.
    pub query: Option<Duration>,
    /// From the beginning to the last byte of the reply.
    pub total: Option<Duration>,
    /// Whether the kernel stamped both the query and the reply.
    pub by_kernel: bool,
}

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its bytes, without TCP's length.
    pub bytes: usize,
    /// The response code, EDNS's upper bits included.
    pub rcode: u16,
    /// Whether it was cut short (TC).
    pub truncated: bool,
    /// Records of the answer section, as the header counts them.
    pub answers: u16,
    /// The server's name for itself (RFC 5001); `None` where it gives none.
    pub nsid: Option<Vec<u8>>,
}

impl Reply {
    /// The response code's name, such as `NOERROR`; `RCODE23` for one without a name.
    #[must_use]
    pub fn rcode_name(&self) -> String {
        OptRcode::checked_from_int(self.rcode)
            .and_then(OptRcode::to_mnemonic_str)
            .map_or_else(|| format!("RCODE{}", self.rcode), str::to_owned)
    }
}

/// How a reply over TCP arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Data segments that brought it, each once.
    pub count: Option<u32>,
    /// Payloads of the first eight; empty where several came between two looks and no raw socket
    /// told them apart.
    pub sizes: Vec<u32>,
    /// How the two-byte length was cut.
    pub prefix: Option<Prefix>,
    /// Segments of the reply that came again; `None` without a raw socket.
    pub again: Option<u32>,
    /// Segments of the query that were sent again.
    pub query_again: Option<u32>,
}

/// How the two-byte length of a reply over TCP was cut (RFC 1035, section 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// In one segment with at least the first byte of the message.
    Joined,
    /// In a segment of its own.
    Alone,
    /// In two segments.
    Split,
}

impl Prefix {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Alone => "alone",
            Self::Split => "split",
        }
    }
}

/// A connection that is over, or that is being left.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionFacts {
    /// Its number, counted from 0 by the client.
    pub number: u32,
    /// When it began.
    pub started: SystemTime,
    /// When it ended.
    pub ended: Option<SystemTime>,
    /// From the first SYN to the SYN/ACK.
    pub syn: Option<Duration>,
    /// SYNs sent again.
    pub syn_again: Option<u32>,
    /// TLS's handshake.
    pub secure: Option<Duration>,
    /// Queries that it carried.
    pub exchanges: u32,
    /// How it ended.
    pub ending: Ending,
    /// Who ended it.
    pub closer: Option<Closer>,
    /// Payload from here, each byte once.
    pub client_bytes: Option<u64>,
    /// Payload from the server, each byte once.
    pub server_bytes: Option<u64>,
    /// Data segments from here.
    pub client_segments: Option<u32>,
    /// Data segments from the server.
    pub server_segments: Option<u32>,
    /// Segments from here that were sent again.
    pub client_again: Option<u32>,
    /// Largest payload that the server may send.
    pub mss: Option<u32>,
    /// Smallest round-trip time that TCP has measured.
    pub rtt: Option<Duration>,
}

impl ConnectionFacts {
    /// Of a connection that is begun, and that has not come about.
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
    /// It never came about: refused.
    Refused,
    /// It never came about: no answer.
    Timeout,
}

impl Ending {
    /// Its name in tables.
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
    /// The other.
    Server,
}

impl Closer {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}
