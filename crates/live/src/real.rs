//! Real DNS servers: programs of their own that answer a plan's clients.
//!
//! The server of the plan then has no sockets. A zone has a name for each pair of lengths, so what a
//! client asks is given with the plan ([`Query`]). A reply is matched with its query by its ID, and
//! its length and its TC bit are its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use narrows_apps::Message;
use narrows_apps::dns::exchange::Wanted;
use narrows_apps::dns::{LENGTH, TRUNCATED};
use narrows_sim::plan::{Kind, Plan};
use serde::{Deserialize, Deserializer, de};

/// Which servers of a plan are real, and what their clients ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// The servers: indices into the plan's applications.
    pub servers: BTreeSet<u32>,
    /// The queries of each client, which is an index into the plan's applications.
    pub queries: BTreeMap<u32, Vec<Query>>,
}

/// A query to a real server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The length of the whole reply in the plan.
    pub reply: u32,
    /// The message, as hexadecimal digits. It has the length of the query in the plan.
    #[serde(deserialize_with = "bytes")]
    pub bytes: Vec<u8>,
}

fn bytes<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
    let digits = String::deserialize(from)?;
    let pair = |at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let found: Option<_> = (0..digits.len()).step_by(2).map(pair).collect();
    found.ok_or_else(|| de::Error::custom("not hexadecimal digits"))
}

/// The same, ready to be asked.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    servers: BTreeSet<u32>,
    /// By client, and the lengths of query and reply.
    queries: HashMap<(u32, u32, u32), Vec<u8>>,
}

impl Asking {
    pub(crate) fn new(real: Real) -> Self {
        let mut queries = HashMap::new();
        for (client, all) in real.queries {
            for Query { reply, bytes } in all {
                queries.insert((client, bytes.len() as u32, reply), bytes);
            }
        }
        Self { servers: real.servers, queries }
    }

    /// Lets all servers be programs of their own, without queries of their own.
    pub(crate) fn ask_elsewhere(&mut self, plan: &Plan) {
        let all = (0_u32..).zip(&plan.applications);
        let servers = all.filter(|(_, one)| matches!(one.kind, Kind::DnsServer(_)));
        self.servers.extend(servers.map(|(number, _)| number));
    }

    pub(crate) fn is_real(&self, server: u32) -> bool {
        self.servers.contains(&server)
    }

    /// Returns the bytes of a client's query, which has this length without its length field.
    pub(crate) fn query(&self, client: u32, length: u32, message: &Message) -> Option<Vec<u8>> {
        let reply = Wanted::of(message).whole;
        let mut bytes = self.queries.get(&(client, length, reply))?.clone();
        // Unique among the last 65,536 attempts.
        bytes.get_mut(..2)?.copy_from_slice(&(message.tag as u16).to_be_bytes());
        Some(bytes)
    }
}

/// Returns what a reply of `length` bytes means, of which `head` has the first ones.
pub(crate) fn reply(tag: u32, length: usize, head: &[u8]) -> Message {
    let is_truncated = head.get(FLAGS).is_some_and(|flags| flags & TC != 0);
    let note = if is_truncated { TRUNCATED } else { 0 };
    Message { bytes: length as u32, tag, notes: [0, note] }
}

/// Replies on a connection, each after a length field (RFC 1035, 4.2.2).
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// The tags of queries, by ID.
    asked: BTreeMap<u16, u32>,
    /// The bytes read so far, and the first one of the next reply.
    read: u64,
    next: u64,
    /// The first bytes of that reply.
    head: Vec<u8>,
}

impl Replies {
    pub(crate) fn ask(&mut self, tag: u32) {
        self.asked.insert(tag as u16, tag);
    }

    /// Takes bytes that were read. Returns the replies that begin in them, each with the number of
    /// the byte after its last.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Vec<(u64, Message)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let skipped = (self.next - self.read).min(bytes.len() as u64) as usize;
            self.read += skipped as u64;
            bytes = &bytes[skipped..];
            let length = self.head.first_chunk().map(|length| u16::from_be_bytes(*length));
            let wanted = length.map_or(LENGTH, |length| LENGTH + HEAD.min(length.into())) as usize;
            let part = (wanted - self.head.len()).min(bytes.len());
            self.head.extend(&bytes[..part]);
            (self.read, self.next) = (self.read + part as u64, self.next + part as u64);
            bytes = &bytes[part..];
            let Some(length) = length.filter(|_| self.head.len() == wanted) else { continue };
            self.next += u64::from(length).saturating_sub(HEAD.into());
            let head = &self.head[LENGTH as usize..];
            let id = head.first_chunk().map(|id| u16::from_be_bytes(*id));
            if let Some(tag) = id.and_then(|id| self.asked.remove(&id)) {
                let whole = usize::from(length) + LENGTH as usize;
                found.push((self.next, reply(tag, whole, head)));
            }
            self.head.clear();
        }
        found
    }
}

/// Where a message has its first flags, and the bit that says that it is truncated.
const FLAGS: usize = 2;
const TC: u8 = 2;

/// An ID and the first flags.
const HEAD: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_found_however_the_stream_is_cut() {
        let message = |id: u8, flags: u8, length: u8| {
            let mut bytes = vec![0, length, 0, id, flags];
            bytes.resize(2 + usize::from(length), 7);
            bytes
        };
        // Nobody asked the second one, and the others before the last are too short.
        let short = vec![0, 0, 0, 1, 9, 0, 2, 0, 9];
        let others = [message(9, 0x84, 20 - short.len() as u8), short].concat();
        let stream = [message(2, 0x84, 12), others, message(1, 0x86, 30)].concat();
        for step in [1, 2, 3, 5, 14, 60, stream.len()] {
            let mut replies = Replies::default();
            replies.ask(65_536 + 1);
            replies.ask(2);
            let found: Vec<_> = stream.chunks(step).flat_map(|part| replies.take(part)).collect();
            let truncated = Message { bytes: 32, tag: 65_537, notes: [0, TRUNCATED] };
            let whole = Message { bytes: 14, tag: 2, notes: [0, 0] };
            assert_eq!(found, [(14, whole), (14 + 22 + 32, truncated)], "{step}");
        }
    }

    #[test]
    fn queries_are_found_by_their_lengths() {
        let real = r#"{"servers": [3], "queries": {"2": [{"reply": 200, "bytes": "0000ab"}]}}"#;
        let asking = Asking::new(serde_json::from_str(real).expect("it is sound"));
        assert!(asking.is_real(3) && !asking.is_real(2));
        let message = Message { bytes: 5, tag: 0x0102, notes: [200, 1232] };
        assert_eq!(asking.query(2, 3, &message), Some(vec![1, 2, 0xab]));
        assert_eq!(asking.query(3, 3, &message), None);
        let wrong = real.replace("ab", "xy");
        serde_json::from_str::<Real>(&wrong).expect_err("these are no digits");
    }
}
