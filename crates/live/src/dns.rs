//! The bytes of DNS messages. The simulator counts only their length, which these have exactly.
//!
//! A query asks for the TXT record of a name that says what the query asks for, in the form of a
//! [`Message`], and the number of its attempt, so that captures show which queries belong together:
//! `48q17` is the attempt 17, with a reply of 0x48 bytes. A server elsewhere reads it ([`read`]). A
//! query has EDNS (RFC 6891) if it accepts more than 512 B over UDP and
//! has room to say so, and the padding option (RFC 7830) if its client pads, or if it is longer
//! than a name should be. A reply has one TXT record that makes up its length. A query for a zone
//! asks for AXFR (RFC 5936), and each message of the zone has one record too.
//!
//! No message can have some lengths, such as 3 bytes more than a question. Such a message ends
//! early, and zeros follow, which readers ignore.

use std::collections::BTreeMap;

use narrows_apps::Message;
use narrows_apps::dns::{PADDED, TRUNCATED, WITHOUT_EDNS, is_padded, is_transfer, is_truncated};
use narrows_wire::dns::{
    self, CLASS_IN, Data, Edns, HEADER_BYTES, Name, OPT_BYTES, OPTION_BYTES, Question, Record, kind,
};

/// A query that has been asked, from which its reply is made.
pub(crate) type Asked = dns::Message;

/// The queries of a connection, by tag.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    asked: BTreeMap<u32, Asked>,
    /// Whether queries have the ID 0, because their streams identify them (RFC 9250, 4.2.1).
    numberless: bool,
}

impl Exchanges {
    /// Creates an empty set for a QUIC connection.
    pub(crate) fn over_quic() -> Self {
        Self { numberless: true, ..Self::default() }
    }

    /// Returns a message from an end, with the length field in front (RFC 1035, 4.2.2).
    pub(crate) fn write(&mut self, side: usize, message: &Message) -> Vec<u8> {
        let length = (message.bytes as usize).saturating_sub(LENGTH);
        let mut written = (length as u16).to_be_bytes().to_vec();
        if side == 0 {
            let mut query = query(message, length);
            if self.numberless {
                query.id = 0;
            }
            written.extend(bytes(&query, length));
            self.asked.insert(message.tag, query);
        } else {
            let none = Asked::default();
            let query = self.asked.get(&message.tag).unwrap_or(&none);
            written.extend(reply(query, message, length));
        }
        written
    }

    /// Notes a query that has arrived.
    pub(crate) fn ask(&mut self, tag: u32, asked: Asked) {
        self.asked.insert(tag, asked);
    }

    /// Forgets a query whose reply is complete.
    pub(crate) fn forget(&mut self, tag: u32) {
        self.asked.remove(&tag);
    }
}

/// Creates a query of `length` bytes.
pub(crate) fn query(meant: &Message, length: usize) -> Asked {
    let zone = is_transfer(meant);
    let takes = if zone { 0 } else { meant.notes[1] as u16 };
    let room = length.saturating_sub(HEADER_BYTES + QUESTION_BYTES);
    let padded = is_padded(meant) && room >= OPT_BYTES + OPTION_BYTES + SHORTEST_NAME;
    let edns = padded
        || room > LONGEST_NAME
        || (takes > WITHOUT_EDNS && room >= OPT_BYTES + SHORTEST_NAME);
    let room = if edns { room - OPT_BYTES } else { room };
    let (name, padding) = if padded || (edns && room > LONGEST_USUAL) {
        let name = USUAL_NAME.min(room - OPTION_BYTES);
        (name, Some((room - OPTION_BYTES - name) as u16))
    } else {
        (room, None)
    };
    Asked {
        // Unique among the last 65,536 attempts.
        id: meant.tag as u16,
        recursion_desired: !zone,
        question: Some(Question {
            name: filled_name(&format!("{}{}", says(meant), meant.tag), name),
            kind: if zone { AXFR } else { kind::TXT },
            class: CLASS_IN,
        }),
        edns: edns.then_some(Edns { udp_payload: takes.max(WITHOUT_EDNS), padding, ..EDNS }),
        ..Asked::default()
    }
}

/// Reads a query that was written by [`query`], without the tag, of which the ID has a part.
pub(crate) fn read(bytes: &[u8]) -> Option<(Message, Asked)> {
    let asked = Asked::read(bytes).ok().filter(|asked| !asked.reply)?;
    let name = asked.question.as_ref()?.name.as_slice();
    let label = name.get(1..1 + usize::from(*name.first()?))?;
    let (says, _) = std::str::from_utf8(label).ok()?.split_once(END)?;
    let (says, padded) = says.strip_suffix(PADS).map_or((says, 0), |says| (says, PADDED));
    let (says, cut) = says.strip_suffix(CUT).map_or((says, 0), |says| (says, TRUNCATED));
    let takes = asked.edns.map_or(WITHOUT_EDNS, |edns| edns.udp_payload);
    let notes = [u32::from_str_radix(says, 16).ok()?, u32::from(takes) | cut | padded];
    let message =
        Message { bytes: bytes.len() as u32, tag: ELSEWHERE | u32::from(asked.id), notes };
    Some((message, asked))
}

/// Returns the least length of a query that says everything of a message.
pub(crate) fn least(meant: &Message) -> usize {
    let edns = is_padded(meant) || meant.notes[1] as u16 > WITHOUT_EDNS;
    let edns = if edns { OPT_BYTES } else { 0 };
    let option = if is_padded(meant) { OPTION_BYTES } else { 0 };
    HEADER_BYTES + QUESTION_BYTES + edns + option + 2 + says(meant).len()
}

/// Returns what a query's name says of it.
fn says(meant: &Message) -> String {
    let [lengths, takes] = meant.notes;
    let cut = if takes & TRUNCATED != 0 { CUT } else { "" };
    let pads = if is_padded(meant) { PADS } else { "" };
    format!("{lengths:x}{cut}{pads}{END}")
}

/// Creates a reply of `length` bytes.
pub(crate) fn reply(asked: &Asked, meant: &Message, length: usize) -> Vec<u8> {
    let mut reply = Asked {
        reply: true,
        authoritative: true,
        truncated: is_truncated(meant),
        edns: asked.edns.map(|_| Edns { udp_payload: SERVER_PAYLOAD, ..EDNS }),
        ..asked.clone()
    };
    if reply.truncated && asked.edns.is_some() && bytes(&reply, 0).len() < length {
        // As long as the query.
        reply.edns = asked.edns;
    }
    if bytes(&reply, 0).len() > length {
        reply.edns = None;
    }
    let with_record = |reply: &Asked, text: usize| {
        let name = reply.question.as_ref().map(|question| question.name.clone());
        let name = name.unwrap_or_else(Name::root_vec);
        let record = Record { name, class: CLASS_IN, ttl: 0, data: Data::Txt(strings(text)) };
        Asked { answers: vec![record], ..reply.clone() }
    };
    let least = bytes(&with_record(&reply, 0), 0).len();
    match length.checked_sub(least) {
        Some(text) => bytes(&with_record(&reply, text), length),
        None => bytes(&reply, length),
    }
}

/// Returns a message as `length` bytes, or as many as it needs if `length` is zero.
pub(crate) fn bytes(message: &Asked, length: usize) -> Vec<u8> {
    let mut bytes = message.write().unwrap_or_default();
    if length > 0 {
        if bytes.len() > length {
            bytes.truncate(HEADER_BYTES);
            bytes[COUNTS].fill(0);
        }
        bytes.resize(length, 0);
    }
    bytes
}

/// Returns the number of a message.
pub(crate) fn id(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?))
}

/// Returns a name of `length` bytes, or of one byte less if there is none. It begins with a text, as
/// far as that has room.
fn filled_name(text: &str, length: usize) -> Name {
    let mut rest = length.clamp(1, LONGEST_NAME) - 1;
    let mut octets = Vec::with_capacity(length);
    let mut text = text.as_bytes().to_vec();
    while rest > 1 {
        let mut label = (rest - 1).min(LONGEST_LABEL);
        if rest - 1 - label == 1 {
            // One byte cannot be a label.
            label -= 1;
        }
        text.resize(label, b'n');
        octets.push(label as u8);
        octets.append(&mut text);
        rest -= 1 + label;
    }
    octets.push(0);
    Name::from_octets(octets).expect("labels of at most 63 bytes, 255 bytes in all")
}

/// Returns TXT strings that take `text` bytes beyond those of an empty one.
fn strings(text: usize) -> Vec<Vec<u8>> {
    let mut rest = text + 1;
    let mut strings = Vec::with_capacity(rest.div_ceil(LONGEST_STRING + 1));
    while rest > 0 {
        let string = (rest - 1).min(LONGEST_STRING);
        strings.push(vec![b'n'; string]);
        rest -= 1 + string;
    }
    strings
}

/// In the tags of queries that clients elsewhere have asked: the rows of their attempts are not here.
const ELSEWHERE: u32 = 1 << 31;

/// In a query's name: the shorter reply over UDP is truncated, the client pads, and what follows is
/// the number of the attempt.
const CUT: &str = "t";
const PADS: &str = "p";
const END: &str = "q";

/// The length field of DNS over TCP and QUIC, in bytes.
const LENGTH: usize = 2;
const EDNS: Edns = Edns { udp_payload: 0, version: 0, dnssec_ok: false, padding: None };
const SERVER_PAYLOAD: u16 = 1232;
/// The counts in a header.
const COUNTS: std::ops::Range<usize> = 4..HEADER_BYTES;
/// A question after its name.
const QUESTION_BYTES: usize = 4;
const AXFR: u16 = 252;
/// One label of two characters.
const SHORTEST_NAME: usize = 4;
const USUAL_NAME: usize = 40;
/// The room from which on a query is padded.
const LONGEST_USUAL: usize = 100;
/// RFC 1035, 2.3.4 and 3.3.
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;
const LONGEST_STRING: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_apps::dns::exchange::Wanted;

    fn asked(takes: u16) -> Message {
        let wanted = Wanted::of(&Message { notes: [100, 0], ..Message::default() });
        Message { bytes: 0, tag: 70_123, notes: wanted.taking(takes).notes() }
    }

    #[test]
    fn queries_of_every_length_can_be_read() {
        for takes in [0, 512, 1232, 4096] {
            for length in HEADER_BYTES..2000 {
                let message = bytes(&query(&asked(takes), length), length);
                assert_eq!(message.len(), length);
                let read = Asked::read(&message).expect("a message");
                assert_eq!(read.id, 70_123_u32 as u16);
                let says = read.edns.map(|edns| edns.udp_payload);
                if takes > 512 && length >= 31 {
                    assert_eq!(says, Some(takes), "of {length} B");
                }
                // 17 B is a query for the root; a name of two bytes does not exist.
                assert_eq!(read.question.is_some(), length >= 17, "of {length} B");
            }
        }
    }

    #[test]
    fn a_query_says_what_it_asks_for_if_it_has_room() {
        for notes in [
            [72, 0],
            [0xffff, 65_507],
            [1964 | 1001 << 16, 1232],
            [1964 | 1180 << 16, 1232 | TRUNCATED],
            [500, PADDED],
            [1964 | 1180 << 16, 4096 | PADDED | TRUNCATED],
        ] {
            let meant = Message { bytes: 0, tag: 70_123, notes };
            let least = least(&meant);
            for length in (least..least + 400).chain([65_000]) {
                let (read, asked) = read(&bytes(&query(&meant, length), length)).expect("a query");
                assert_eq!((read.bytes, read.tag), (length as u32, (1 << 31) | (70_123 % 65_536)));
                assert_eq!(u32::from(asked.id), 70_123 % 65_536);
                let takes = notes[1].max(u32::from(WITHOUT_EDNS));
                let expected = [notes[0], if notes[1] as u16 == 0 { takes | 512 } else { takes }];
                assert_eq!(read.notes, expected, "of {length} B");
            }
            let short = bytes(&query(&meant, least - 1), least - 1);
            assert_ne!(super::read(&short).map(|(read, _)| read.notes[0]), Some(notes[0]));
        }
        let reply = reply(&query(&asked(512), 42), &Message::default(), 72);
        assert_eq!(super::read(&reply), None);
        assert_eq!(super::read(b"GET / HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn replies_have_their_length_and_answer_their_query() {
        // A record needs 12 B and its name: one byte for the root, or two that point at another.
        // Padding makes room for it.
        for (query_length, takes, room) in
            [(17, 512, 12), (41, 1232, 13), (41, 512, 13), (300, 4096, 0)]
        {
            let asked = query(&asked(takes), query_length);
            for length in (query_length..3000).chain([65_535]) {
                let meant = Message { notes: [0, 0], ..Message::default() };
                let message = reply(&asked, &meant, length);
                assert_eq!(message.len(), length);
                let read = Asked::read(&message).expect("a message");
                assert!(read.reply && !read.truncated);
                assert_eq!((read.id, &read.question), (asked.id, &asked.question));
                assert_eq!(read.answers.len(), usize::from(length >= query_length + room));
            }
        }
    }

    #[test]
    fn a_truncated_reply_is_as_long_as_its_query() {
        for length in [41, 300] {
            let asked = query(&asked(1232), length);
            let meant = Message { notes: [0, 1 << 16], ..Message::default() };
            let message = reply(&asked, &meant, length);
            let read = Asked::read(&message).expect("a message");
            assert!(read.truncated && read.answers.is_empty());
            assert_eq!(read.write().expect("written").len(), length, "without zeros at its end");
        }
    }

    #[test]
    fn a_client_that_pads_uses_the_option() {
        let mut meant = asked(0);
        meant.notes[1] |= 1 << 30;
        let read = Asked::read(&bytes(&query(&meant, 128), 128)).expect("a message");
        assert_eq!(read.edns.and_then(|edns| edns.padding), Some(128 - 12 - 4 - 11 - 4 - 40));
    }

    #[test]
    fn a_query_for_a_zone_says_so() {
        let meant = Message { bytes: 40, tag: u32::MAX, notes: [10_000, 1 << 31 | 4000] };
        let read = Asked::read(&bytes(&query(&meant, 38), 38)).expect("a message");
        assert_eq!(read.question.map(|question| question.kind), Some(252));
        assert!(!read.recursion_desired && read.edns.is_none());
    }
}
