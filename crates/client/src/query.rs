//! Queries, and whether a message answers one.

use core::fmt;

use domain::base::Message;
use domain::base::iana::Rtype;
use domain::base::message_builder::MessageBuilder;
use domain::base::opt::nsid::Nsid;

use narrows_wire::dns::{self, Name};

use crate::exchange::{Outcome, Reply};
use crate::failed::Failed;

/// A query without its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The name asked for.
    pub name: Name,
    /// The type's number.
    pub kind: u16,
    /// Whether recursion is asked for (RD).
    pub recursion: bool,
    /// The UDP payload that EDNS offers; `None` asks without EDNS.
    pub edns: Option<u16>,
    /// Whether to ask which machine it is (NSID, RFC 5001); needs EDNS.
    pub nsid: bool,
}

/// The part of a query that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The name.
    Name,
    /// The type.
    Kind,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(f, "is no domain name"),
            Self::Kind => write!(f, "is no type of record"),
        }
    }
}

impl core::error::Error for QueryError {}

impl Query {
    /// Creates a query like RIPE Atlas's for the root's SOA: without recursion, and with EDNS of
    /// 1232 bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the name or the type cannot be read. Types are names such as `SOA`, or
    /// `TYPE65`.
    pub fn new(name: &str, kind: &str) -> Result<Self, QueryError> {
        let name = name.parse::<Name>().map_err(|_| QueryError::Name)?;
        let kind = kind.parse::<Rtype>().map_err(|_| QueryError::Kind)?.to_int();
        Ok(Self { name, kind, recursion: false, edns: Some(1232), nsid: false })
    }

    /// Returns the message with this number.
    #[must_use]
    pub fn message(&self, id: u16) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_rd(self.recursion);
        let mut builder = builder.question();
        let full = "a name and an OPT record fit into 65535 bytes";
        builder.push((&self.name, Rtype::from_int(self.kind))).expect(full);
        let mut builder = builder.additional();
        if let Some(payload) = self.edns {
            builder
                .opt(|opt| {
                    opt.set_udp_payload_size(payload);
                    if self.nsid {
                        opt.push(&Nsid::from_octets(&[]).expect("no bytes are few enough"))?;
                    }
                    Ok(())
                })
                .expect(full);
        }
        builder.finish()
    }

    /// Reads `bytes` as a reply to this query with this number.
    pub(crate) fn judge(&self, id: u16, bytes: &[u8]) -> Result<Reply, NoAnswer> {
        let message =
            dns::Message::read(bytes).map_err(|error| NoAnswer::Malformed(error.to_string()))?;
        if !message.reply {
            return Err(NoAnswer::Other("a query, not a reply"));
        }
        if message.id != id {
            return Err(NoAnswer::Other("a reply with another number"));
        }
        if message.opcode != QUERY {
            return Err(NoAnswer::Other("a reply to another kind of request"));
        }
        // Some servers omit the question in an error (FORMERR, NOTIMP).
        if let Some(question) = &message.question
            && (question.kind != self.kind
                || question.class != dns::CLASS_IN
                || question.name != self.name)
        {
            return Err(NoAnswer::Other("a reply to another question"));
        }
        if message.question.is_none() && message.rcode == 0 {
            return Err(NoAnswer::Other("a reply without a question"));
        }
        Ok(Reply {
            bytes: bytes.len(),
            rcode: message.rcode,
            truncated: message.truncated,
            answers: u16::from_be_bytes([bytes[6], bytes[7]]),
            nsid: nsid(bytes),
        })
    }
}

/// The opcode of a query (RFC 1035, section 4.1.1).
const QUERY: u8 = 0;

/// Why a message is not an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It is not a DNS message.
    Malformed(String),
    /// It answers something else, in these words.
    Other(&'static str),
}

impl NoAnswer {
    /// Returns the outcome of an exchange that ends with this message.
    pub(crate) fn failed(&self) -> Failed {
        match self {
            Self::Malformed(why) => Failed::new(Outcome::Malformed, why),
            Self::Other(what) => Failed::new(Outcome::Mismatched, what),
        }
    }
}

fn nsid(bytes: &[u8]) -> Option<Vec<u8>> {
    let opt = Message::from_octets(bytes).ok()?.opt()?;
    let found = opt.opt().iter::<Nsid<_>>().next()?.ok()?;
    let name: &[u8] = found.as_slice();
    (!name.is_empty()).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1035, section 4.1: a header, and one question of 5 bytes for the root. Wijnen's capture
    /// shows the same 17 bytes, after TCP's two.
    #[test]
    fn the_roots_soa_is_the_papers_query() {
        let query = Query { edns: None, ..Query::new(".", "SOA").expect("a query") };
        let expected = [0xcb, 0x13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1];
        assert_eq!(query.message(0xcb13), expected);
    }

    #[test]
    fn edns_and_nsid_are_asked_for_as_their_rfcs_say() {
        let query = Query { nsid: true, ..Query::new(".", "SOA").expect("a query") };
        let message = query.message(1);
        // RFC 6891, section 6.1.2: root name, type 41, payload, TTL, length; RFC 5001: option 3.
        assert_eq!(message[17..], [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 4, 0, 3, 0, 0]);
    }

    #[test]
    fn a_reply_must_have_the_number_and_the_question() {
        let query = Query::new("example.", "SOA").expect("a query");
        let mut reply = query.message(7);
        let other = |words| Err(NoAnswer::Other(words));
        assert_eq!(query.judge(7, &reply), other("a query, not a reply"));
        reply[2] |= 0x82; // QR and TC
        let judged = query.judge(7, &reply).expect("a reply");
        assert!(judged.truncated);
        assert_eq!(judged.rcode, 0);
        assert_eq!(query.judge(8, &reply), other("a reply with another number"));
        let server = Query::new("example.", "NS").expect("a query");
        assert_eq!(server.judge(7, &reply), other("a reply to another question"));
        let class = 12 + b"\x07example\0".len() + 3;
        let mut chaos = reply.clone();
        chaos[class] = 3;
        assert_eq!(query.judge(7, &chaos), other("a reply to another question"));
        let mut update = reply.clone();
        update[2] |= 5 << 3; // the opcode of RFC 2136
        assert_eq!(query.judge(7, &update), other("a reply to another kind of request"));
        let mut bare = reply[..12].to_vec();
        bare[4..12].fill(0);
        assert_eq!(query.judge(7, &bare), other("a reply without a question"));
        bare[3] |= 1; // FORMERR, by a server that does not know EDNS
        assert_eq!(query.judge(7, &bare).map(|reply| reply.rcode), Ok(1));
        assert!(matches!(query.judge(7, &reply[..11]), Err(NoAnswer::Malformed(_))));
    }

    #[test]
    fn what_is_no_name_and_no_type_is_told_apart() {
        assert_eq!(Query::new("a..b", "SOA"), Err(QueryError::Name));
        assert_eq!(Query::new("a.b", "SO A"), Err(QueryError::Kind));
    }
}
