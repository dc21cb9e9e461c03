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

mod caveat;
mod exchange;
mod message;
mod question;
mod software;

use std::net::SocketAddr;

pub use caveat::Wanted;
pub use question::Question;
pub use software::Software;

use message::Reply;

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
        let root = Question::root();
        let over_udp =
            |question: &Question| Reply::read(&exchange::udp(server, question, edns_size).ok()?);
        let stated = over_udp(&root).and_then(|reply| reply.payload_size);
        let version = Question::version().and_then(|question| over_udp(&question)?.text);
        let software = version.and_then(|text| Software::of(&text));
        let asked = question.map(|question| match over_udp(question) {
            Some(reply) if reply.truncated => {
                Asked::Truncated(exchange::tcp(server, question, edns_size).ok())
            }
            Some(reply) if reply.rcode == 0 && reply.answers > 0 => Asked::Whole(reply.length),
            reply => Asked::Nothing(reply.map(|reply| reply.rcode)),
        });
        Self { software, stated, asked }
    }

    /// Returns the limit in words; `None` if nothing is known.
    pub fn words(&self) -> Option<String> {
        let most = self.stated.filter(|_| self.software.is_none_or(|software| software.states));
        match (&self.asked, most) {
            (Some(Asked::Whole(length)), _) => Some(format!("{length} bytes, whole")),
            (Some(Asked::Truncated(Some(length))), _) => Some(format!("{length} bytes, truncated")),
            (_, Some(most)) => Some(format!("up to {most} bytes")),
            _ => None,
        }
    }
}
