//! What a measurement notes about a DNS message, from as many of its bytes as there are.
//!
//! [`dns::Message`](crate::dns::Message) reads a whole message or none. A network monitor sees
//! messages that were cut short or are invalid beyond their header, and wants whatever can be read.
//! It reads millions of them, so nothing here allocates except the texts that it asks for.

use core::fmt::Write as _;

use domain::base::Message;
use domain::base::iana::{Class, OptRcode, Rtype};
use domain::base::opt::{Nsid, OptRecord};
use domain::rdata::Txt;

/// The header and the question of a DNS message, from which the rest can be read.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    message: &'a Message<[u8]>,
}

impl<'a> Brief<'a> {
    /// Reads a message that has at least a header (RFC 1035, section 4.1.1).
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        Message::from_slice(bytes).ok().map(|message| Self { message })
    }

    /// Returns the number that tells replies to different queries apart.
    pub fn id(&self) -> u16 {
        self.message.header().id()
    }

    /// Returns whether it is a reply (QR).
    pub fn reply(&self) -> bool {
        self.message.header().qr()
    }

    /// Returns the kind of query; 0 is a standard one.
    pub fn opcode(&self) -> u8 {
        self.message.header().opcode().to_int()
    }

    /// Returns whether it was cut short for UDP (TC).
    pub fn truncated(&self) -> bool {
        self.message.header().tc()
    }

    /// Returns the number of records in the answer section, according to the header.
    pub fn answers(&self) -> u16 {
        self.message.header_counts().ancount()
    }

    /// Returns the number of questions, according to the header.
    pub fn questions(&self) -> u16 {
        self.message.header_counts().qdcount()
    }

    /// Appends the response code's name (IANA's), or `RCODE3000` if it has none. The code includes
    /// the upper bits from EDNS if the OPT record can be read.
    pub fn write_rcode(&self, to: &mut String) {
        write_code_name(self.rcode_with(self.edns().as_ref()), to);
    }

    /// Returns the response code that [`Brief::write_rcode`] names, and the text of
    /// [`Brief::site`].
    pub fn rcode_and_site(&self) -> (u16, Option<String>) {
        let edns = self.edns();
        (self.rcode_with(edns.as_ref()), self.site_with(edns.as_ref()))
    }

    /// Returns the OPT record. The search goes through all records before it.
    fn edns(&self) -> Option<OptRecord<&'a [u8]>> {
        if self.message.header_counts().arcount() == 0 {
            return None;
        }
        self.message.opt()
    }

    fn rcode_with(&self, edns: Option<&OptRecord<&'a [u8]>>) -> u16 {
        let header = self.message.header();
        let code = edns.map_or(header.rcode().into(), |record| record.rcode(header));
        code.to_int()
    }

    /// Appends the first question's name, with its final dot. Returns the numbers of its type and
    /// class. If no question can be read, returns `None` and appends nothing.
    pub fn question(&self, name: &mut String) -> Option<(u16, u16)> {
        if let Some(found) = self.plain_question(name) {
            return Some(found);
        }
        let question = self.message.first_question()?;
        let start = name.len();
        write!(name, "{}", question.qname()).expect("a string takes everything");
        if !name[start..].ends_with('.') || name[start..].ends_with("\\.") {
            name.push('.');
        }
        Some((question.qtype().to_int(), question.qclass().to_int()))
    }

    /// Returns which machine answered: the text of `hostname.bind`, `id.server` and similar names
    /// (RFC 4892), or the name server identifier (RFC 5001).
    pub fn site(&self) -> Option<String> {
        self.site_with(self.edns().as_ref())
    }

    fn site_with(&self, edns: Option<&OptRecord<&'a [u8]>>) -> Option<String> {
        let counts = self.message.header_counts();
        if counts.ancount() > 0 {
            let question = self.message.first_question()?;
            if question.qclass() == Class::CH && question.qtype() == Rtype::TXT {
                let answer = self.message.answer().ok()?;
                let record = answer.limit_to::<Txt<_>>().next()?.ok()?;
                return Some(printable(&record.data().text::<Vec<u8>>()));
            }
        }
        let nsid = edns?.opt().first::<Nsid<_>>()?;
        let octets: &[u8] = nsid.as_slice();
        (!octets.is_empty()).then(|| printable(octets))
    }

    /// Reads the question as [`Brief::question`] does, if its name has only letters, digits,
    /// hyphens and underscores, as nearly all names do. Returns `None` for other names, and if the
    /// question is damaged.
    fn plain_question(&self, name: &mut String) -> Option<(u16, u16)> {
        if self.questions() == 0 {
            return None;
        }
        let start = name.len();
        let found = plain_question(self.message.as_slice().get(12..)?, name);
        if found.is_none() {
            name.truncate(start);
        }
        found
    }
}

/// Appends the name that precedes its type and class, as long as it is plain.
fn plain_question(mut rest: &[u8], name: &mut String) -> Option<(u16, u16)> {
    let start = name.len();
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            rest = after;
            break;
        }
        let (label, after) = after.split_at_checked(usize::from(length))?;
        let plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        let written = name.len() - start;
        if length > 63 || written + label.len() > MAX_TEXT || !label.iter().all(plain) {
            return None;
        }
        name.extend(label.iter().map(|octet| char::from(*octet)));
        name.push('.');
        rest = after;
    }
    let &[a, b, c, d] = rest.first_chunk()?;
    if name.len() == start {
        name.push('.');
    }
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Returns a record type's name, or `TYPE65280` if it has none (RFC 3597).
pub fn type_name(number: u16) -> String {
    Rtype::from_int(number).to_string()
}

/// Appends a response code's name, or `RCODE3000` if it has none.
///
/// Notify and update use the same numbers with other names; these are RFC 1035's.
pub fn write_code_name(number: u16, to: &mut String) {
    match OptRcode::masked_from_int(number).to_mnemonic_str() {
        Some(name) => to.push_str(name),
        None => write!(to, "RCODE{number}").expect("a string takes everything"),
    }
}

/// The longest name as text, without its final dot. A name has at most 255 octets (RFC 1035,
/// section 2.3.4), including one for the length of each label and of the root.
const MAX_TEXT: usize = 253;

/// Returns ASCII unchanged, and other octets as `\ddd` (RFC 1035, section 5.1).
fn printable(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    for &octet in octets {
        if octet.is_ascii_graphic() || octet == b' ' {
            text.push(char::from(octet));
        } else {
            write!(text, "\\{octet:03}").expect("a string takes everything");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 4892 describes it; this one is K-root's of 2015-01-31 (Atlas measurement 11501).
    const VERSION_SERVER: &[u8] = b"\x92\x6a\x80\x00\x00\x01\x00\x01\x00\x00\x00\x00\
        \x07version\x06server\x00\x00\x10\x00\x03\
        \xc0\x0c\x00\x10\x00\x03\x00\x00\x00\x00\x00\x0b\x0aNSD 3.2.14";

    #[test]
    fn a_reply_in_the_chaos_class_says_who_answered() {
        let brief = Brief::read(VERSION_SERVER).expect("it has a header");
        let mut name = String::new();
        assert_eq!(brief.question(&mut name), Some((16, 3)));
        assert_eq!(name, "version.server.");
        assert_eq!(brief.site().as_deref(), Some("NSD 3.2.14"));
        assert_eq!((brief.id(), brief.reply(), brief.answers()), (0x926a, true, 1));
    }

    #[test]
    fn a_message_that_was_cut_still_has_what_is_there() {
        for length in 0..VERSION_SERVER.len() {
            let brief = Brief::read(&VERSION_SERVER[..length]);
            assert_eq!(brief.is_some(), length >= 12);
            let Some(brief) = brief else { continue };
            let mut name = String::new();
            let question = brief.question(&mut name);
            assert_eq!(question.is_some(), length >= 32, "{length}");
            assert_eq!(name.is_empty(), question.is_none());
            assert!(length < VERSION_SERVER.len() && brief.site().is_none());
            let mut code = String::new();
            brief.write_rcode(&mut code);
            assert_eq!(code, "NOERROR");
        }
    }

    #[test]
    fn plain_names_are_written_as_domain_writes_them() {
        let long = [b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(3);
        let fits = [&long, b"\x3d".as_slice(), &[b'b'; 61], b"\0"].concat();
        let over = [&long, b"\x3e".as_slice(), &[b'b'; 62], b"\0"].concat();
        let names: [&[u8]; 6] =
            [b"\x03www\x07Ex-mp1e\x03_dk\0", b"\0", &fits, &over, b"\x04a.b \0", b"\xc0\x0c"];
        for (number, bytes) in names.into_iter().enumerate() {
            let header = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0";
            let message = [header, bytes, b"\0\x1c\0\x01"].concat();
            let brief = Brief::read(&message).expect("it has a header");
            let mut name = "before ".to_owned();
            let found = brief.question(&mut name);
            let question = brief.message.first_question();
            let written = question.map_or(String::new(), |known| format!("{}", known.qname()));
            let known = written.trim_end_matches('.').to_owned() + ".";
            let wanted = if found.is_none() { "" } else { &known };
            assert_eq!(name, format!("before {wanted}"), "{number}");
            assert_eq!(found.is_some(), number != 3 && number != 5, "{number}");
            let plain = brief.plain_question(&mut String::new());
            assert_eq!(plain.is_some(), number < 3, "{number}");
        }
    }

    #[test]
    fn the_root_is_one_dot() {
        let query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
        let mut name = String::new();
        let question = Brief::read(query).expect("it has a header").question(&mut name);
        assert_eq!((question, name.as_str()), (Some((6, 1)), "."));
        assert_eq!(type_name(6), "SOA");
        assert_eq!(type_name(65280), "TYPE65280");
    }
}
