//! What a measurement notes of a DNS message, from as many of its bytes as there are.
//!
//! [`dns::Message`](crate::dns::Message) reads a whole message or none. A watcher of the network has
//! messages that were cut short or that make no sense beyond their header, and wants what can be
//! read. It reads millions, so nothing here allocates but the texts that it is asked for.

use core::fmt::Write as _;

use domain::base::Message;
use domain::base::iana::{Class, OptRcode, Rtype};
use domain::base::opt::Nsid;
use domain::rdata::Txt;

/// The header and the question of a DNS message, and where its rest can be read.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    message: &'a Message<[u8]>,
}

impl<'a> Brief<'a> {
    /// A message of at least a header (RFC 1035, section 4.1.1).
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        Message::from_slice(bytes).ok().map(|message| Self { message })
    }

    /// Tells replies to different queries apart.
    pub fn id(&self) -> u16 {
        self.message.header().id()
    }

    /// Whether it is a reply (QR).
    pub fn reply(&self) -> bool {
        self.message.header().qr()
    }

    /// The kind of query; 0 is a standard one.
    pub fn opcode(&self) -> u8 {
        self.message.header().opcode().to_int()
    }

    /// Whether it was cut short for UDP (TC).
    pub fn truncated(&self) -> bool {
        self.message.header().tc()
    }

    /// Records in the answer section, as the header says.
    pub fn answers(&self) -> u16 {
        self.message.header_counts().ancount()
    }

    /// Questions, as the header says.
    pub fn questions(&self) -> u16 {
        self.message.header_counts().qdcount()
    }

    /// Appends the response code's name (IANA's): the upper bits of EDNS included where the OPT
    /// record can be read, `RCODE23` where it has no name.
    pub fn write_rcode(&self, to: &mut String) {
        let header = self.message.header();
        let code = match self.message.header_counts().arcount() {
            0 => OptRcode::from_rcode(header.rcode()),
            _ => self.message.opt_rcode(),
        };
        match code.to_mnemonic_str() {
            // Notify and update use the same numbers under other names; these are RFC 1035's.
            Some(name) => to.push_str(name),
            None => write!(to, "RCODE{}", code.to_int()).expect("a string takes everything"),
        }
    }

    /// Appends the first question's name, with its last dot, and gives its type's number and its
    /// class's. `None`, and nothing is appended, where there is none that can be read.
    pub fn question(&self, name: &mut String) -> Option<(u16, u16)> {
        let question = self.message.first_question()?;
        let start = name.len();
        write!(name, "{}", question.qname()).expect("a string takes everything");
        if !name[start..].ends_with('.') || name[start..].ends_with("\\.") {
            name.push('.');
        }
        Some((question.qtype().to_int(), question.qclass().to_int()))
    }

    /// Which machine answered: the text of `hostname.bind`, `id.server` and their like (RFC 4892),
    /// or the name server identifier (RFC 5001).
    pub fn site(&self) -> Option<String> {
        let counts = self.message.header_counts();
        if counts.ancount() > 0 {
            let question = self.message.first_question()?;
            if question.qclass() == Class::CH && question.qtype() == Rtype::TXT {
                let answer = self.message.answer().ok()?;
                let record = answer.limit_to::<Txt<_>>().next()?.ok()?;
                return Some(printable(&record.data().text::<Vec<u8>>()));
            }
        }
        if counts.arcount() > 0 {
            let nsid = self.message.opt()?.opt().first::<Nsid<_>>()?;
            let octets: &[u8] = nsid.as_slice();
            return (!octets.is_empty()).then(|| printable(octets));
        }
        None
    }
}

/// A record type's name, `TYPE65280` where it has none (RFC 3597).
pub fn type_name(number: u16) -> String {
    Rtype::from_int(number).to_string()
}

/// ASCII as it is; other octets as `\ddd` (RFC 1035, section 5.1).
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
    fn the_root_is_one_dot() {
        let query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01";
        let mut name = String::new();
        let question = Brief::read(query).expect("it has a header").question(&mut name);
        assert_eq!((question, name.as_str()), (Some((6, 1)), "."));
        assert_eq!(type_name(6), "SOA");
        assert_eq!(type_name(65280), "TYPE65280");
    }
}
