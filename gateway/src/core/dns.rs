//! DNS messages (RFC 1035, section 4), as far as the gateway looks at them: whether a segment is
//! one whole query, its OPT record (RFC 6891, section 6.1), and what a truncated reply keeps.
//!
//! This does not use `narrows_wire::dns`, which reads a message's meaning. Here the bytes stay as
//! they are.

use super::CookieKey;
use super::cookie::siphash;
use super::packet::u16_at;

/// A DNS header.
pub(super) const HEADER: usize = 12;
/// An OPT record without options.
pub(super) const OPT: usize = 11;
/// The two bytes of length before a message over TCP (RFC 7766, section 8).
pub(super) const PREFIX: usize = 2;
/// Header, root name, type, class.
const QUERY_MIN: usize = PREFIX + HEADER + 5;
pub(super) const QUERY_MAX: usize = 1024;
const NAME_MAX: usize = 255;

const TYPE_OPT: u16 = 41;
/// RFC 7828, section 3.1.
const OPTION_KEEPALIVE: u16 = 11;
/// The most options that are looked at.
const OPTIONS_MAX: usize = 32;
const TYPE_IXFR: u16 = 251;
const TYPE_AXFR: u16 = 252;

/// Where fields of the header are.
const FLAGS: usize = 2;
const QDCOUNT: usize = 4;
const ANCOUNT: usize = 6;
const ARCOUNT: usize = 10;

const QR: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const TC: u16 = 0x0200;
const RCODE: u16 = 0x000f;
/// The lower four bits of BADCOOKIE (RFC 7873, section 8). Alone they mean YXRRSET, which answers
/// only updates.
const BADCOOKIE: u16 = 7;

/// One whole query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'a> {
    message: &'a [u8],
    question_end: usize,
}

impl<'a> Query<'a> {
    /// Reads a segment's payload. Returns `None` if it is not what PROTOCOL.md calls a whole query.
    pub(super) fn read(payload: &'a [u8]) -> Option<Self> {
        if !(QUERY_MIN..=QUERY_MAX).contains(&payload.len())
            || usize::from(u16_at(payload, 0)) != payload.len() - PREFIX
        {
            return None;
        }
        let message = &payload[PREFIX..];
        let counts = [QDCOUNT, ANCOUNT, ANCOUNT + 2, ARCOUNT].map(|at| u16_at(message, at));
        if u16_at(message, FLAGS) & (QR | OPCODE | TC) != 0 {
            return None;
        }
        let question_end = question_end(message)?;
        let rest = &message[question_end..];
        match counts {
            [1, 0, 0, 0] if rest.is_empty() => {}
            [1, 0, 0, 1] if is_opt(rest) => {}
            _ => return None,
        }
        Some(Self { message, question_end })
    }

    /// Returns its ID.
    pub(super) fn id(&self) -> u16 {
        u16_at(self.message, 0)
    }

    /// Returns whether it asks for a zone transfer.
    pub(super) fn is_transfer(&self) -> bool {
        matches!(u16_at(self.message, self.question_end - 4), TYPE_AXFR | TYPE_IXFR)
    }

    /// Returns whether it has the edns-tcp-keepalive option.
    pub(super) fn asks_for_keepalive(&self) -> bool {
        let mut options = self.message.get(self.question_end + OPT..).unwrap_or_default();
        for _ in 0..OPTIONS_MAX {
            let [code @ .., a, b] = options.first_chunk::<4>().copied().unwrap_or_default();
            if options.len() < 4 || u16::from_be_bytes(code) == OPTION_KEEPALIVE {
                return options.len() >= 4;
            }
            options =
                options.get(4 + usize::from(u16::from_be_bytes([a, b]))..).unwrap_or_default();
        }
        false
    }

    /// Returns a hash of its name (in lower case), type and class. It stands for the question in an
    /// entry and on the list of large replies.
    pub(super) fn hash(&self, key: CookieKey) -> u64 {
        hash(key, &self.message[HEADER..self.question_end])
    }

    /// Returns whether it has an OPT record.
    pub(super) fn has_opt(&self) -> bool {
        self.question_end < self.message.len()
    }

    /// Returns the message for the server, which asks for payloads of at least `edns_size` bytes.
    pub(super) fn for_server(&self, edns_size: u16) -> Vec<u8> {
        let mut message = self.message.to_vec();
        if self.has_opt() {
            let size = self.question_end + 3;
            let raised = u16_at(&message, size).max(edns_size);
            message[size..size + 2].copy_from_slice(&raised.to_be_bytes());
        } else {
            set(&mut message, ARCOUNT, 1);
            message.extend(bare_opt(edns_size));
        }
        message
    }
}

/// A server's reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reply<'a> {
    message: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads a datagram's payload. Returns `None` if it is not a reply.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        (message.len() >= HEADER && u16_at(message, FLAGS) & QR != 0).then_some(Self { message })
    }

    /// Returns its ID.
    pub(super) fn id(&self) -> u16 {
        u16_at(self.message, 0)
    }

    /// Returns whether it was cut short (TC).
    pub(super) fn is_truncated(&self) -> bool {
        u16_at(self.message, FLAGS) & TC != 0
    }

    /// Returns whether it answers the question with this hash by one of these keys. A reply without
    /// a question may answer any.
    pub(super) fn is_about(&self, question: u32, keys: &[CookieKey]) -> bool {
        match u16_at(self.message, QDCOUNT) {
            0 => true,
            1 => question_end(self.message).is_some_and(|end| {
                let ours = &self.message[HEADER..end];
                keys.iter().any(|&key| hash(key, ours) as u32 == question)
            }),
            _ => false,
        }
    }

    /// Returns whether it says only that the server will not answer over UDP: it is truncated and
    /// has no record, as rate limits send it, its code is BADCOOKIE, or it lacks the question.
    pub(super) fn is_refusal(&self) -> bool {
        let bare = u16_at(self.message, ANCOUNT) == 0 && u16_at(self.message, ANCOUNT + 2) == 0;
        u16_at(self.message, QDCOUNT) == 0
            || (self.is_truncated() && bare)
            || u16_at(self.message, FLAGS) & RCODE == BADCOOKIE
    }

    /// Returns its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.message.len()
    }

    /// Returns the header and the rest of the message, `without_opt` or with it. Returns `None` if
    /// the OPT record has to go but is not a bare one at the message's end.
    pub(super) fn parts(&self, without_opt: bool) -> Option<([u8; HEADER], &'a [u8])> {
        let (&header, rest) = self.message.split_first_chunk()?;
        if !without_opt {
            return Some((header, rest));
        }
        let mut header = header;
        let bare = self.ends_with_bare_opt(HEADER);
        let records = u16_at(&header, ARCOUNT).checked_sub(1).filter(|_| bare)?;
        set(&mut header, ARCOUNT, records);
        Some((header, &rest[..rest.len() - OPT]))
    }

    /// Returns header, question and, if it has additional records, OPT, with TC set (S9). The OPT
    /// is the message's own if the message is `whole` and its last record is a bare OPT; otherwise
    /// it is a new one with this payload size. Returns `None` if there is not exactly one question,
    /// or it cannot be read.
    pub(super) fn truncated(&self, whole: bool, size: u16) -> Option<Vec<u8>> {
        let end = (u16_at(self.message, QDCOUNT) == 1).then(|| question_end(self.message))??;
        let mut short = self.message[..end].to_vec();
        let opt = u16_at(self.message, ARCOUNT) > 0;
        if opt && whole && self.ends_with_bare_opt(end) {
            short.extend(&self.message[self.len() - OPT..]);
        } else if opt {
            short.extend(bare_opt(size));
        }
        let flags = u16_at(&short, FLAGS) | TC;
        set(&mut short, FLAGS, flags);
        set(&mut short, ANCOUNT, 0);
        set(&mut short, ANCOUNT + 2, 0);
        set(&mut short, ARCOUNT, opt.into());
        Some(short)
    }

    /// Returns whether the message's last 11 bytes, which lie after `from`, are an OPT record
    /// without options.
    fn ends_with_bare_opt(&self, from: usize) -> bool {
        let opt = self.message[from..].last_chunk::<OPT>();
        opt.is_some_and(|opt| opt[..3] == [0, 0, TYPE_OPT as u8] && opt[9..] == [0, 0])
    }
}

/// Returns SipHash-2-4 of a question, with its name in lower case.
fn hash(key: CookieKey, question: &[u8]) -> u64 {
    let mut question = question.to_vec();
    let name = question.len() - 4;
    // Length octets are at most 63, so they are no letters.
    question[..name].make_ascii_lowercase();
    siphash(key, &question)
}

/// Returns whether this is one OPT record of version 0 and nothing else.
fn is_opt(record: &[u8]) -> bool {
    record.len() >= OPT
        && record[..3] == [0, 0, TYPE_OPT as u8]
        && record[6] == 0
        && usize::from(u16_at(record, OPT - 2)) == record.len() - OPT
}

/// Returns an OPT record of version 0 without options, with DO = 0 and this payload size.
fn bare_opt(size: u16) -> [u8; OPT] {
    let [high, low] = size.to_be_bytes();
    [0, 0, TYPE_OPT as u8, high, low, 0, 0, 0, 0, 0, 0]
}

/// Returns where a message's first question ends, if its name is whole and uncompressed.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        // RFC 1035, section 2.3.4: labels of at most 63 bytes, names of at most 255.
        let length = usize::from(*message.get(at)?);
        if length > 63 || at + 1 + length > HEADER + NAME_MAX {
            return None;
        }
        at += 1 + length;
        if length == 0 {
            break;
        }
    }
    (at + 4 <= message.len()).then_some(at + 4)
}

fn set(message: &mut [u8], at: usize, value: u16) {
    message[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
