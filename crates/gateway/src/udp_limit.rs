//! How long the server's replies over UDP may be. It truncates longer ones, mostly without a record
//! in them. The gateway has then asked over UDP in vain and hands the query over to the kernel's
//! TCP, which costs more than the kernel's TCP alone.
//!
//! DNS has no question for this limit, so two sources stand in for it:
//!
//! - The OPT record of any reply has the server's payload size. By RFC 6891 (6.2.3) it is what the
//!   server can receive. NSD, Knot and PowerDNS have one setting for both directions, so it is also
//!   what they send. BIND and Unbound have two settings, and state the other one.
//! - A long reply of the server. This is certain for every server, but only an operator knows a
//!   name that has one.
//!
//! The server's own `version.bind` (RFC 4892) says which of them it is, unless that is hidden.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What a server is asked for: a name and a type, such as `example.com DNSKEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    text: String,
    /// Name, type and class, as in a message.
    wire: Vec<u8>,
}

impl Question {
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

/// A server's software, as far as the limit depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// Its name.
    pub name: &'static str,
    /// How its `version.bind` begins.
    version: &'static str,
    /// Its payload size in EDNS is also the most that it sends.
    states: bool,
    /// The most that it can be set to.
    most: u16,
    /// The setting for what it may send.
    setting: &'static str,
}

/// The servers that were tried: NSD 4.6, BIND 9.18, Knot 3.2, Unbound 1.17, PowerDNS 4.7.
const KNOWN: [Software; 5] = [
    Software {
        name: "NSD",
        version: "NSD ",
        states: true,
        most: u16::MAX,
        setting: "ipv4-edns-size and ipv6-edns-size",
    },
    Software {
        name: "Knot",
        version: "Knot DNS ",
        states: true,
        most: 4096,
        setting: "udp-max-payload",
    },
    Software {
        name: "PowerDNS",
        version: "PowerDNS ",
        states: true,
        most: u16::MAX,
        setting: "udp-truncation-threshold",
    },
    Software { name: "BIND", version: "9.", states: false, most: 4096, setting: "max-udp-size" },
    Software {
        name: "Unbound",
        version: "unbound ",
        states: false,
        most: u16::MAX,
        setting: "max-udp-size",
    },
];

/// What a server said of its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it is, if it says so.
    pub software: Option<Software>,
    /// Its payload size in EDNS.
    pub stated: Option<u16>,
    /// Its reply to the operator's question.
    pub asked: Option<Asked>,
}

/// A reply to the operator's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A reply over UDP of this many bytes.
    Whole(usize),
    /// A truncated reply over UDP; how many bytes it has over TCP, if that was answered.
    Truncated(Option<usize>),
    /// No reply over UDP, or one without an answer, with its RCODE.
    Nothing(Option<u8>),
}

impl Limit {
    /// Asks a server, with the payload size that the gateway puts into queries.
    pub fn ask(server: SocketAddr, edns_size: u16, question: Option<&Question>) -> Self {
        let root = Question { text: ".".into(), wire: vec![0, 0, 6, 0, 1] };
        let over_udp = |question: &Question| Reply::read(&udp(server, question, edns_size).ok()?);
        let stated = over_udp(&root).and_then(|reply| reply.payload_size);
        let version = Question::new("version.bind", TXT, CH).ok();
        let version = version.and_then(|question| over_udp(&question)?.text);
        let software = version
            .and_then(|text| KNOWN.into_iter().find(|software| text.starts_with(software.version)));
        let asked = question.map(|question| match over_udp(question) {
            Some(reply) if reply.truncated => {
                Asked::Truncated(tcp(server, question, edns_size).ok())
            }
            Some(reply) if reply.rcode == 0 && reply.answers > 0 => Asked::Whole(reply.length),
            reply => Asked::Nothing(reply.map(|reply| reply.rcode)),
        });
        Self { software, stated, asked }
    }

    /// The limit in words; `None` if nothing is known.
    pub fn words(&self) -> Option<String> {
        let most = self.stated.filter(|_| self.software.is_none_or(|software| software.states));
        match (&self.asked, most) {
            (Some(Asked::Whole(length)), _) => Some(format!("{length} bytes whole")),
            (Some(Asked::Truncated(Some(length))), _) => Some(format!("{length} bytes truncated")),
            (_, Some(most)) => Some(format!("up to {most} bytes")),
            _ => None,
        }
    }

    /// What an operator should know of it, if a reply may cost more with the gateway than without.
    /// `who` names the addresses for which this holds.
    pub fn caveat(&self, who: &str, wanted: Wanted) -> Option<String> {
        let Wanted { edns_size, .. } = wanted;
        let size = edns_size.min(self.software.map_or(u16::MAX, |software| software.most));
        let server = match self.software {
            Some(software) => format!("the server at {who} ({})", software.name),
            None => format!("the server at {who}"),
        };
        let stated = usize::from(self.stated.unwrap_or(0));
        match (self.software, &self.asked) {
            (_, Some(Asked::Truncated(Some(length)))) if *length > edns_size.into() => {
                Some(format!(
                    "{server} truncates {} over UDP, as it has {length} bytes: {COSTS}; hint: its length is above edns_size ({edns_size}), too; raise both if many clients ask for such replies",
                    wanted.question()
                ))
            }
            (_, Some(Asked::Truncated(length))) => {
                let length =
                    length.map_or(String::new(), |n| format!(", though it has only {n} bytes"));
                Some(format!(
                    "{server} truncates {} over UDP{length}: {COSTS}; hint: {}",
                    wanted.question(),
                    self.remedy(size, wanted)
                ))
            }
            (_, Some(Asked::Nothing(rcode))) => {
                let how = rcode.map_or("no reply".into(), |rcode| match rcode {
                    0 => "no records".into(),
                    5 => "REFUSED".into(),
                    rcode => format!("RCODE {rcode}"),
                });
                Some(format!(
                    "{server} does not answer {} ({how}), so it shows nothing of its longest replies over UDP; hint: --long-reply takes a name and a type that the server has",
                    wanted.question()
                ))
            }
            // Longer than what the server states, so it states something else.
            (_, Some(Asked::Whole(length))) if *length > stated => None,
            (Some(software), _) if !software.states => Some(format!(
                "{server} does not tell how long its replies over UDP may be, and truncates longer ones: {COSTS}; hint: ask for a long one with --long-reply \"NAME TYPE\"; if it is truncated, {}",
                self.remedy(size, wanted)
            )),
            _ if self.stated.is_some_and(|stated| stated < size) => Some(format!(
                "{server} sends at most {stated} bytes over UDP, less than edns_size ({edns_size}), and truncates longer replies: {COSTS}; hint: {}",
                self.remedy(size, wanted)
            )),
            _ => None,
        }
    }

    fn remedy(&self, size: u16, wanted: Wanted) -> String {
        let setting = match self.software {
            Some(software) => format!("set {} to {size} in {}", software.setting, software.name),
            None => format!("let the server send {size} bytes over UDP"),
        };
        if !wanted.truncates {
            return setting;
        }
        let most = self.stated.unwrap_or(1232).max(512);
        format!(
            "{setting}, and truncate_over = \"{most} B\" here, so that UDP clients get no more than now"
        )
    }
}

/// What the gateway wants of the server.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The payload size in its queries.
    pub edns_size: u16,
    /// It could truncate longer replies to UDP clients, and does not yet.
    pub truncates: bool,
    /// What the operator named.
    pub question: Option<&'a Question>,
}

impl Wanted<'_> {
    fn question(&self) -> String {
        self.question.map_or("the reply".into(), |question| format!("its reply to {question}"))
    }
}

const COSTS: &str = "a client over TCP that asks for such a reply costs a query over UDP and then one over the kernel's TCP, more than without the gateway";

/// What counts of a reply.
#[derive(Debug)]
struct Reply {
    length: usize,
    truncated: bool,
    rcode: u8,
    answers: u16,
    payload_size: Option<u16>,
    /// The first string of the first TXT record.
    text: Option<String>,
}

impl Reply {
    /// `None` if the message is cut short.
    fn read(message: &[u8]) -> Option<Self> {
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

/// Where a name ends: RFC 1035 (4.1.4).
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

/// A query without recursion, with an OPT record (RFC 6891, 6.1.2) that asks for signatures, as
/// those of resolvers do.
fn message(question: &Question, edns_size: u16) -> Vec<u8> {
    let id = (std::process::id() as u16).to_be_bytes();
    let mut message = vec![id[0], id[1], 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend(&question.wire);
    let [high, low] = edns_size.to_be_bytes();
    message.extend([0, 0, OPT as u8, high, low, 0, 0, 0x80, 0, 0, 0]);
    message
}

fn is_reply(reply: &[u8], query: &[u8]) -> bool {
    reply.len() >= 12 && reply[..2] == query[..2] && reply[2] & 0x80 != 0
}

/// The reply over UDP. A lost query is sent once more.
fn udp(server: SocketAddr, question: &Question, edns_size: u16) -> io::Result<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let query = message(question, edns_size);
    let mut reply = vec![0; 65_535];
    for _ in 0..2 {
        // One socket each, so that a late reply to another question is not taken for this one's.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(WAIT))?;
        socket.send(&query)?;
        let end = Instant::now() + WAIT;
        while Instant::now() < end {
            let Ok(length) = socket.recv(&mut reply) else { break };
            if is_reply(&reply[..length], &query) {
                reply.truncate(length);
                return Ok(reply);
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// The length of the reply over TCP.
fn tcp(server: SocketAddr, question: &Question, edns_size: u16) -> io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&server, WAIT)?;
    stream.set_read_timeout(Some(WAIT * 2))?;
    let query = message(question, edns_size);
    stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut reply)?;
    let whole = is_reply(&reply, &query) && reply[3] & 15 == 0;
    if whole { Ok(reply.len()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// How long the server may take: it is on this machine, or near.
const WAIT: Duration = Duration::from_millis(500);

const TXT: u16 = 16;
const OPT: u16 = 41;
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

    fn software(name: &str) -> Option<Software> {
        KNOWN.into_iter().find(|software| software.name == name)
    }

    /// The caveat with edns_size 4096, without truncate_over.
    fn caveat(name: &str, stated: Option<u16>, asked: Option<Asked>) -> Option<String> {
        let question = "example.com DNSKEY".parse().expect("a question");
        let wanted = Wanted {
            edns_size: 4096,
            truncates: true,
            question: asked.as_ref().map(|_| &question),
        };
        Limit { software: software(name), stated, asked }.caveat("192.0.2.53:53", wanted)
    }

    #[test]
    fn a_limit_below_edns_size_is_told_with_its_remedy() {
        for (name, setting) in [
            ("NSD", "ipv4-edns-size"),
            ("Knot", "udp-max-payload"),
            ("PowerDNS", "udp-truncation-threshold"),
        ] {
            let said = caveat(name, Some(1232), None).expect("a caveat");
            assert!(said.contains("sends at most 1232 bytes"), "{said}");
            assert!(said.contains(&format!("set {setting}")) && said.contains("to 4096"), "{said}");
            assert!(said.contains("truncate_over = \"1232 B\""), "{said}");
            assert_eq!(caveat(name, Some(4096), None), None);
        }
        assert!(caveat("", Some(1232), None).is_some_and(|said| said.contains("sends at most")));
        assert_eq!(caveat("", None, None), None, "nothing is known");
    }

    #[test]
    fn what_bind_and_unbound_state_is_not_their_limit() {
        for name in ["BIND", "Unbound"] {
            for stated in [1232, 4096] {
                let said = caveat(name, Some(stated), None).expect("a caveat");
                assert!(said.contains("--long-reply") && said.contains("max-udp-size"), "{said}");
                assert!(!said.contains("at most"), "{said}");
            }
            assert_eq!(caveat(name, Some(1232), Some(Asked::Whole(2000))), None);
            // Such a reply any server sends.
            assert!(caveat(name, Some(1232), Some(Asked::Whole(700))).is_some());
        }
    }

    #[test]
    fn a_long_reply_decides() {
        let said = caveat("BIND", Some(1232), Some(Asked::Truncated(Some(1731))));
        let said = said.expect("a caveat");
        assert!(said.contains("truncates its reply to example.com DNSKEY over UDP"), "{said}");
        assert!(said.contains("1731 bytes") && said.contains("max-udp-size to 4096"), "{said}");
        let said = caveat("NSD", Some(4096), Some(Asked::Truncated(Some(5000)))).expect("a caveat");
        assert!(said.contains("above edns_size (4096)"), "{said}");
        let said = caveat("NSD", Some(4096), Some(Asked::Nothing(Some(5)))).expect("a caveat");
        assert!(said.contains("REFUSED"), "{said}");
    }

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
