//! DNS messages of a given length.
//!
//! Query 123 asks for the TXT record of `q000123.narrows.example.`; TXT, because its answer may
//! have any length. Queries reach their length in the first of three ways that fits: more leading
//! zeros in the name, an OPT record (RFC 6891), or an OPT record with the padding option (RFC
//! 7830). The server answers in kind: with an OPT record only if there was one in the query (RFC
//! 6891, section 6.1.1), and with padding only if there was padding. The reply's text makes up its
//! length.
//!
//! The simulator counts bytes and knows no messages. [`errors`] names lengths that no message can
//! have; if they are written all the same, they become the shortest possible message. Over TCP,
//! bytes have their places in a stream, so a message that is too short becomes a header and zeros.

use core::fmt;

use narrows_sim::captured::Content;
use narrows_sim::plan::dns::client::Client;
use narrows_sim::plan::{Application, Kind, Plan};
use narrows_wire::dns::{
    CLASS_IN, Data, Edns, HEADER_BYTES, Message, OPT_BYTES, OPTION_BYTES, Question, Record,
    WriteError, kind,
};
use narrows_wire::{Ipv4, Udp};

/// Why a plan's DNS packets cannot be messages of their length. Lengths are those of IP packets, in
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Queries are too short: `query_bytes` is too small.
    Query {
        /// The group of resolvers.
        resolvers: String,
        /// The length that they have.
        bytes: u16,
        /// The least length that they need.
        min: u16,
    },
    /// Replies are too short: `reply_bytes` is too small.
    Reply {
        /// The group of resolvers.
        resolvers: String,
        /// The length that they have.
        bytes: u16,
        /// The least length that they need.
        min: u16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resolvers, what, bytes, min) = match self {
            Self::Query { resolvers, bytes, min } => (resolvers, "queries", bytes, min),
            Self::Reply { resolvers, bytes, min } => (resolvers, "replies", bytes, min),
        };
        write!(
            f,
            "resolvers {resolvers:?}: {what} of {bytes} B cannot be captured as DNS messages"
        )?;
        write!(f, "; they need {min} B")
    }
}

impl core::error::Error for Error {}

/// Returns the groups whose queries or replies cannot be DNS messages of their length, with one
/// error for each.
pub fn errors(plan: &Plan) -> Vec<Error> {
    let messages = Messages::for_queries(plan.queries());
    let of_one = |application: &Application| match &application.kind {
        Kind::DnsClient(client) => messages.check(&application.name, client).err(),
        _ => None,
    };
    plan.applications.iter().filter_map(of_one).collect()
}

/// What the messages of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    /// Digits of the query's number in the shortest name, so that all names are equally long.
    digits: usize,
}

impl Messages {
    /// Returns the messages of a run that has `queries` queries altogether.
    pub fn for_queries(queries: u64) -> Self {
        // Queries are numbered in 32 bits.
        let last = queries.saturating_sub(1).min(u64::from(u32::MAX));
        Self { digits: last.to_string().len().max(6) }
    }

    /// Checks that a group's queries and replies can be DNS messages of their length.
    fn check(self, name: &str, group: &Client) -> Result<(), Error> {
        let Some(udp) = &group.udp else { return Ok(()) };
        let packet =
            |message: u32| message.saturating_add(BELOW_DNS as u32).min(u32::from(u16::MAX)) as u16;
        let (query, reply) = group.sizes.shortest();
        // A reply that does not fit the client is truncated.
        let (query, reply) = (packet(query), packet(reply.min(u32::from(udp.payload))));
        let resolvers = || name.to_owned();
        let min = self.min_query_bytes(reply);
        if query < min {
            return Err(Error::Query { resolvers: resolvers(), bytes: query, min });
        }
        let min = self.min_reply_bytes(query);
        if reply < min {
            return Err(Error::Reply { resolvers: resolvers(), bytes: reply, min });
        }
        Ok(())
    }

    /// Returns the length in bytes of the shortest IP packet for a query whose reply has
    /// `reply_bytes`: replies of more than 512 bytes of UDP payload need EDNS (RFC 1035, section
    /// 4.2.1; RFC 6891, section 6.2.5).
    pub fn min_query_bytes(&self, reply_bytes: u16) -> u16 {
        let edns = if usize::from(reply_bytes) > BELOW_DNS + 512 { OPT_BYTES } else { 0 };
        (BELOW_DNS + self.question_bytes() + edns) as u16
    }

    /// Returns the length in bytes of the shortest IP packet for the reply to a query of
    /// `query_bytes`.
    pub fn min_reply_bytes(&self, query_bytes: u16) -> u16 {
        let shape = self.shape(query_bytes);
        (BELOW_DNS + self.question_bytes() + shape.widening + shape.opt_bytes() + TXT_BYTES + 1)
            as u16
    }

    /// Returns the message in an IP packet of `ip_bytes`, or of the least possible length above
    /// that.
    pub fn message(&self, packet: &DnsPacket) -> Message {
        let shape = self.shape(packet.query_bytes);
        let name =
            format!("q{:0width$}{SUFFIX}", packet.query, width = self.digits + shape.widening);
        let name: narrows_wire::dns::Name =
            name.parse().expect("a first label of at most 21 bytes: q, 10 digits, 10 more zeros");
        let question = Question { name: name.clone(), kind: kind::TXT, class: CLASS_IN };
        let edns = Edns {
            udp_payload: u16::try_from(packet.ip_bytes.saturating_sub(BELOW_DNS as u32))
                .map_or(u16::MAX, |bytes| bytes.max(UDP_PAYLOAD)),
            version: 0,
            dnssec_ok: false,
            padding: None,
        };
        let mut message = Message {
            id: packet.id(),
            recursion_desired: true,
            question: Some(question),
            ..Message::default()
        };
        if packet.reply && packet.truncated {
            message.reply = true;
            message.recursion_available = true;
            message.truncated = true;
            // As long as the query, so with the query's padding.
            message.edns = shape.edns.then_some(Edns { padding: shape.padding, ..edns });
        } else if packet.reply {
            message.reply = true;
            message.recursion_available = true;
            message.edns = shape.edns.then_some(Edns { padding: shape.padding.map(|_| 0), ..edns });
            let text = (packet.ip_bytes as usize)
                .saturating_sub(usize::from(self.min_reply_bytes(packet.query_bytes)) - 1);
            let data = Data::Txt(strings(text));
            message.answers.push(Record { name, class: CLASS_IN, ttl: 0, data });
        } else {
            message.edns = shape.edns.then_some(Edns { padding: shape.padding, ..edns });
        }
        message
    }

    /// Returns a message of `bytes` over TCP, including the two bytes of its length (RFC 1035,
    /// 4.2.2).
    pub fn over_tcp(&self, content: &Content, bytes: u32) -> Result<Vec<u8>, WriteError> {
        let Content { query, attempt, reply, truncated, query_bytes } = *content;
        let length = bytes.saturating_sub(PREFIX as u32) as usize;
        let ip_bytes = (BELOW_DNS + length) as u32;
        let packet = DnsPacket { query, attempt, reply, truncated, ip_bytes, query_bytes };
        let mut message = self.message(&packet).write()?;
        if message.len() > length {
            message.truncate(HEADER_BYTES);
            message[COUNTS..].fill(0);
        }
        message.resize(length, 0);
        let mut prefixed = Vec::with_capacity(PREFIX + length);
        // Messages have at most 65,535 bytes.
        prefixed.extend_from_slice(&(length as u16).to_be_bytes());
        prefixed.append(&mut message);
        Ok(prefixed)
    }

    /// Header and question with the shortest name.
    fn question_bytes(&self) -> usize {
        // Length, `q`, digits; the suffix's dots stand for lengths, the last one for the root's.
        HEADER_BYTES + 2 + self.digits + SUFFIX.len() + 4
    }

    /// How queries of `query_bytes` reach their length.
    fn shape(&self, query_bytes: u16) -> Shape {
        let room = usize::from(query_bytes).saturating_sub(BELOW_DNS + self.question_bytes());
        match room.checked_sub(OPT_BYTES) {
            None => Shape { widening: room, edns: false, padding: None },
            Some(room) => match room.checked_sub(OPTION_BYTES) {
                None => Shape { widening: room, edns: true, padding: None },
                // Less than the packet's length, which is a u16.
                Some(room) => Shape { widening: 0, edns: true, padding: Some(room as u16) },
            },
        }
    }
}

/// A DNS packet of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsPacket {
    /// The query's number in the whole run.
    pub query: u32,
    /// The number of the attempt at the query, counted from 1.
    pub attempt: u8,
    /// The server's reply; otherwise the client's query.
    pub reply: bool,
    /// The reply is truncated: it has no answer, and the length of its query.
    pub truncated: bool,
    /// Length of the IP packet; over TCP, the length that it would have over UDP.
    pub ip_bytes: u32,
    /// Length of the IP packets of the group's queries.
    pub query_bytes: u16,
}

impl DnsPacket {
    /// Returns the message's ID. Attempts at a query have different IDs. So do successive queries
    /// of a worker, and each worker has a port of its own.
    pub fn id(&self) -> u16 {
        self.query.wrapping_mul(8).wrapping_add(u32::from(self.attempt)) as u16
    }
}

/// How queries reach their length.
struct Shape {
    /// Additional leading zeros.
    widening: usize,
    edns: bool,
    padding: Option<u16>,
}

impl Shape {
    /// Returns the OPT record of the reply, whose padding is empty.
    fn opt_bytes(&self) -> usize {
        match (self.edns, self.padding) {
            (false, _) => 0,
            (true, None) => OPT_BYTES,
            (true, Some(_)) => OPT_BYTES + OPTION_BYTES,
        }
    }
}

/// Returns strings that take `bytes`, but at least one, as the data of a TXT record.
fn strings(bytes: usize) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    let mut left = bytes.max(1);
    while left > 0 {
        let length = left.min(256);
        strings.push(vec![b'.'; length - 1]);
        left -= length;
    }
    strings
}

/// IPv4 and UDP headers.
const BELOW_DNS: usize = Ipv4::BYTES + Udp::BYTES;
/// The length before a message over TCP.
const PREFIX: usize = 2;
/// The offset of the record counts in the header (RFC 1035, 4.1.1).
const COUNTS: usize = 4;
/// A TXT record before its data: a compressed name, type, class, TTL, length.
const TXT_BYTES: usize = 12;
/// Behind the query's number. `example` is reserved (RFC 2606, section 2).
const SUFFIX: &str = ".narrows.example.";
/// The UDP payload size that is commonly advertised: it avoids fragments on IPv6's smallest links.
const UDP_PAYLOAD: u16 = 1232;

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: Messages = Messages { digits: 6 };

    fn packet(reply: bool, query_bytes: u16, ip_bytes: u16) -> DnsPacket {
        let ip_bytes = ip_bytes.into();
        DnsPacket { query: 123, attempt: 2, reply, truncated: false, ip_bytes, query_bytes }
    }

    #[track_caller]
    fn ip_bytes(packet: &DnsPacket) -> usize {
        let message = MESSAGES.message(packet);
        let bytes = message.write().expect("a sound message");
        assert_eq!(Message::read(&bytes), Ok(message));
        BELOW_DNS + bytes.len()
    }

    #[test]
    fn queries_have_every_length_from_the_least() {
        assert_eq!(MESSAGES.min_query_bytes(100), 69);
        for bytes in 69..2_000 {
            assert_eq!(ip_bytes(&packet(false, bytes, bytes)), usize::from(bytes));
        }
    }

    #[test]
    fn replies_have_every_length_from_the_least() {
        for query_bytes in [69, 70, 79, 80, 83, 84, 128, 1000] {
            let min = MESSAGES.min_reply_bytes(query_bytes);
            for bytes in min..min + 1_000 {
                assert_eq!(ip_bytes(&packet(true, query_bytes, bytes)), usize::from(bytes));
            }
        }
    }

    #[test]
    fn truncated_replies_are_as_long_as_their_queries() {
        for bytes in 69..200 {
            let reply = DnsPacket { truncated: true, ..packet(true, bytes, bytes) };
            assert_eq!(ip_bytes(&reply), usize::from(bytes));
            assert!(MESSAGES.message(&reply).truncated);
        }
    }

    #[test]
    fn packets_that_are_too_short_become_the_shortest_messages() {
        assert_eq!(ip_bytes(&packet(false, 40, 40)), 69);
        assert_eq!(ip_bytes(&packet(true, 40, 40)), 69 + 13);
    }

    #[test]
    fn a_reply_has_edns_only_if_its_query_has() {
        for query_bytes in 69..200 {
            let query = MESSAGES.message(&packet(false, query_bytes, query_bytes));
            let reply = MESSAGES.message(&packet(true, query_bytes, 300));
            assert_eq!(query.question, reply.question);
            assert_eq!(query.id, reply.id);
            assert_eq!(query.edns.is_some(), reply.edns.is_some());
            let padding = |message: &Message| message.edns.and_then(|edns| edns.padding).is_some();
            assert_eq!(padding(&query), padding(&reply));
        }
    }

    #[test]
    fn replies_above_512_bytes_need_edns_in_the_query() {
        assert_eq!(MESSAGES.min_query_bytes(28 + 512), 69);
        let min = MESSAGES.min_query_bytes(28 + 513);
        assert!(MESSAGES.message(&packet(false, min, min)).edns.is_some());
        assert!(MESSAGES.message(&packet(false, min - 1, min - 1)).edns.is_none());
    }

    fn dns(reply: bool, query_bytes: u16) -> Content {
        Content { query: 123, attempt: 2, reply, truncated: false, query_bytes }
    }

    #[test]
    fn over_tcp_a_length_stands_before_the_same_message() {
        // Of a query of 41 B: 69 B in an IP packet.
        for bytes in [41 + 13, 300, 1_500, 40_000, 65_535] {
            let tcp = MESSAGES.over_tcp(&dns(true, 69), 2 + bytes).expect("a sound message");
            assert_eq!(tcp.len() as u32, 2 + bytes);
            assert_eq!(u32::from(u16::from_be_bytes([tcp[0], tcp[1]])), bytes);
            let message = Message::read(&tcp[2..]).expect("a sound message");
            let DnsPacket { query, attempt, truncated, query_bytes, .. } = packet(true, 69, 0);
            let ip_bytes = bytes + 28;
            let packet =
                DnsPacket { query, attempt, reply: true, truncated, ip_bytes, query_bytes };
            assert_eq!(message, MESSAGES.message(&packet));
        }
    }

    #[test]
    fn over_tcp_messages_keep_lengths_that_no_message_has() {
        for (reply, bytes) in [(false, 12), (false, 40), (true, 12), (true, 53)] {
            let tcp = MESSAGES.over_tcp(&dns(reply, 69), 2 + bytes).expect("a header");
            assert_eq!(tcp.len() as u32, 2 + bytes);
            assert_eq!(tcp[..2], (bytes as u16).to_be_bytes());
            let header = Message::read(&tcp[2..2 + HEADER_BYTES]).expect("a header");
            let of = packet(reply, 69, 69);
            assert_eq!((header.id, header.reply, header.question), (of.id(), reply, None));
        }
    }

    #[test]
    fn attempts_have_ids_of_their_own() {
        let id = |query, attempt| DnsPacket { query, attempt, ..packet(false, 70, 70) }.id();
        assert_ne!(id(5, 1), id(5, 2));
        assert_ne!(id(5, 5), id(6, 1));
    }
}
