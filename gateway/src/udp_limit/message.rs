//! The DNS messages that a server is asked with, and what counts of its replies.

use super::Question;

/// Returns a query without recursion, with an OPT record (RFC 6891, 6.1.2) that asks for
/// signatures, as those of resolvers do.
pub(super) fn query(question: &Question, edns_size: u16) -> Vec<u8> {
    let id = (std::process::id() as u16).to_be_bytes();
    let mut message = vec![id[0], id[1], 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend(&question.wire);
    let [high, low] = edns_size.to_be_bytes();
    message.extend([0, 0, OPT as u8, high, low, 0, 0, 0x80, 0, 0, 0]);
    message
}

/// Returns whether a message is a reply to this query.
pub(super) fn is_reply(reply: &[u8], query: &[u8]) -> bool {
    reply.len() >= 12 && reply[..2] == query[..2] && reply[2] & 0x80 != 0
}

/// What counts of a reply.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) length: usize,
    pub(super) truncated: bool,
    pub(super) rcode: u8,
    pub(super) answers: u16,
    pub(super) payload_size: Option<u16>,
    /// The first string of the first TXT record.
    pub(super) text: Option<String>,
}

impl Reply {
    /// `None` if the message is cut short.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
        let (questions, answers) = (number(4)?, number(6)?);
        let records = u32::from(answers) + u32::from(number(8)?) + u32::from(number(10)?);
        let (mut payload_size, mut text) = (None, None);
        let mut at = 12;
        for _ in 0..questions {
            at = name_end(message, at)? + 4;
        }
        for _ in 0..records {
            at = name_end(message, at)?;
            let (kind, class, length) = (number(at)?, number(at + 2)?, number(at + 8)?);
            let data = message.get(at + 10..at + 10 + usize::from(length))?;
            if kind == OPT {
                payload_size = Some(class);
            } else if kind == TXT && text.is_none() {
                let string = data.split_first().and_then(|(n, rest)| rest.get(..usize::from(*n)));
                text = string.map(|string| String::from_utf8_lossy(string).into_owned());
            }
            at += 10 + usize::from(length);
        }
        let (truncated, rcode) = (message[2] & 2 != 0, message[3] & 15);
        Some(Self { length: message.len(), truncated, rcode, answers, payload_size, text })
    }
}

/// Returns where a name ends: RFC 1035 (4.1.4).
fn name_end(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*message.get(at)?) {
            0 => return Some(at + 1),
            length if length < 64 => at += 1 + length,
            length if length >= 192 => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Record types (RFC 1035, 3.2.2; RFC 6891, 6.1.1).
pub(super) const TXT: u16 = 16;
const OPT: u16 = 41;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_to_its_opt_record() {
        // version.bind CH TXT "NSD 4.6.1", with a compressed name (RFC 1035, 4.1.4) and OPT.
        let mut reply = vec![0, 1, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 1];
        reply.extend(b"\x07version\x04bind\0\0\x10\0\x03");
        reply.extend(b"\xc0\x0c\0\x10\0\x03\0\0\0\0\0\x0a\x09NSD 4.6.1");
        reply.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
        let read = Reply::read(&reply).expect("it is whole");
        assert_eq!((read.payload_size, read.text.as_deref()), (Some(1232), Some("NSD 4.6.1")));
        assert_eq!((read.truncated, read.rcode, read.answers), (false, 0, 1));
        for length in 0..reply.len() {
            assert!(Reply::read(&reply[..length]).is_none(), "{length}");
        }
    }
}
