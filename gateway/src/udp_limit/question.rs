//! What a server is asked for.

use std::fmt;
use std::str::FromStr;

use super::message::TXT;

/// What a server is asked for: a name and a type, such as `example.com DNSKEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    text: String,
    /// Name, type and class, as in a message.
    pub(super) wire: Vec<u8>,
}

impl Question {
    /// The root's SOA record, which any server can be asked for.
    pub(super) fn root() -> Self {
        Self { text: ".".into(), wire: vec![0, 0, 6, 0, 1] }
    }

    /// The version of the server's software (RFC 4892).
    pub(super) fn version() -> Option<Self> {
        Self::new("version.bind", TXT, CH).ok()
    }

    fn new(text: &str, kind: u16, class: u16) -> Result<Self, String> {
        let name = text.split_whitespace().next().unwrap_or_default();
        let labels = name.strip_suffix('.').unwrap_or(name);
        let mut wire = Vec::new();
        for label in labels.split('.').filter(|_| !labels.is_empty()) {
            // RFC 1035 (2.3.4).
            if !(1..=63).contains(&label.len()) || label.contains('\\') {
                return Err(format!("{name:?} is not a name that can be asked for"));
            }
            wire.push(label.len() as u8);
            wire.extend(label.bytes());
        }
        wire.push(0);
        if wire.len() > 255 {
            return Err(format!("{name:?} has more than 255 bytes"));
        }
        wire.extend(kind.to_be_bytes());
        wire.extend(class.to_be_bytes());
        Ok(Self { text: text.to_owned(), wire })
    }
}

impl FromStr for Question {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [_, kind] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err("takes a name and a type, such as \"example.com DNSKEY\"".into());
        };
        let kind = kind.to_ascii_uppercase();
        let named = TYPES.iter().find(|(name, _)| *name == kind).map(|(_, number)| *number);
        // RFC 3597 (5).
        let number = named.or_else(|| kind.strip_prefix("TYPE")?.parse().ok());
        let number = number.ok_or_else(|| {
            format!("{kind} is not a type that it knows; TYPE and its number will do")
        })?;
        Self::new(text, number, IN)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Classes (RFC 1035, 3.2.4).
const IN: u16 = 1;
const CH: u16 = 3;

/// The types with long replies, and others that are often asked for.
const TYPES: [(&str, u16); 14] = [
    ("A", 1),
    ("NS", 2),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", TXT),
    ("AAAA", 28),
    ("SRV", 33),
    ("NAPTR", 35),
    ("DS", 43),
    ("RRSIG", 46),
    ("DNSKEY", 48),
    ("HTTPS", 65),
    ("ANY", 255),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_a_name_and_a_type() {
        let wire = |text: &str| text.parse::<Question>().map(|question| question.wire);
        assert_eq!(wire("a.bc TXT"), Ok(b"\x01a\x02bc\0\0\x10\0\x01".to_vec()));
        assert_eq!(wire("a.bc. txt"), wire("a.bc TYPE16"));
        assert_eq!(wire(". DNSKEY"), Ok(b"\0\0\x30\0\x01".to_vec()));
        for text in ["", "example.com", "a..b A", "a A B", "a NONE", "a\\.b A"] {
            assert!(wire(text).is_err(), "{text}");
        }
        assert!(wire(&format!("{} A", "a".repeat(64))).is_err());
        assert!(wire(&format!("{}a A", "a.".repeat(127))).is_err());
    }
}
