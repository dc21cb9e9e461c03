//! DNS over HTTPS (RFC 8484): what HTTP/2 puts around messages.
//!
//! ```text
//!   client                                        server
//!   preface, SETTINGS | HEADERS | DATA   ----->
//!                                        <-----   SETTINGS | ACK | HEADERS, DATA
//!   ACK | HEADERS | DATA                 ----->
//!                                        <-----   HEADERS, DATA
//! ```
//! Source: RFC 9113, 3.4 (preface), 4.1 (frames), 6.5 (SETTINGS); RFC 7541 (HPACK: the fields of a
//! second request are mostly indices). Captures show how kdig, BIND and dnsdist cut frames into
//! writes (tests/dns_behaviour). The bars above separate writes; over TLS each write is a record of
//! its own.
//!
//! Differences: one request is one HEADERS and one DATA frame, whatever the message's length. The
//! window of a stream (65535 bytes) never holds anything back. A client acknowledges the server's
//! SETTINGS when it asks again, as kdig does. There are no pings and no GOAWAY.

use narrows_units::keys;
use narrows_units::settings::{any, size};

keys! {
    #[derive(Copy, Eq)]
    /// The bytes that a client adds to its queries.
    pub struct Requests as "HttpsRequests" {
        /// The bytes before the first request: preface and SETTINGS.
        preface: u32 = 39, size(1, MOST);
        /// The compressed header fields of a connection's first request, in bytes.
        fields: u32 = 62, size(1, MOST);
        /// The compressed header fields of each later request, in bytes.
        fields_again: u32 = 20, size(1, MOST);
    }
}

keys! {
    #[derive(Copy, Eq)]
    /// The bytes that a server adds to its replies.
    pub struct Responses as "HttpsResponses" {
        /// The bytes of its SETTINGS and of everything sent with them.
        settings: u32 = 15, size(1, MOST);
        /// Whether it acknowledges the client's SETTINGS in a write of its own. Otherwise
        /// `settings` includes the acknowledgement.
        acknowledges_apart: bool = false, any();
        /// The compressed header fields of a connection's first response, in bytes.
        fields: u32 = 35, size(1, MOST);
        /// The compressed header fields of each later response, in bytes.
        fields_again: u32 = 8, size(1, MOST);
    }
}

/// A message as it is written: the parts that are writes of their own, and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) apart: [u32; 2],
    pub(super) last: u32,
}

impl Requests {
    /// Returns the connection's query number `turn`, counted from one.
    pub(super) fn written(&self, query: u32, turn: u32) -> Written {
        let (before, fields) = match turn {
            1 => (self.preface, self.fields),
            2 => (FRAME, self.fields_again),
            _ => (0, self.fields_again),
        };
        Written { apart: [before, FRAME + fields], last: FRAME + query }
    }
}

impl Responses {
    /// Returns what the server writes when a connection's first request arrives.
    pub(super) fn greeting(&self) -> [u32; 2] {
        [self.settings, if self.acknowledges_apart { FRAME } else { 0 }]
    }

    /// Returns the length of a reply in one write, for the connection's first reply or a later one.
    pub(super) fn written(&self, reply: u32, first: bool) -> u32 {
        2 * FRAME + if first { self.fields } else { self.fields_again } + reply
    }
}

/// The frame length that every end accepts (RFC 9113, 6.5.2).
const MOST: u64 = 16_384;
/// Length, type, flags, stream (RFC 9113, 4.1). An acknowledgement of SETTINGS has nothing else.
const FRAME: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_transport::tls::sealed;

    /// Records of kdig 3.2.6, BIND 9.18 and dnsdist 1.7, as captured.
    #[test]
    fn frames_have_the_lengths_of_real_ones() {
        let kdig = Requests { preface: 39, fields: 62, fields_again: 20 };
        let records = |written: Written| {
            let parts = written.apart.into_iter().chain([written.last]);
            parts.filter(|&part| part > 0).map(sealed).collect::<Vec<_>>()
        };
        assert_eq!(records(kdig.written(128, 1)), [61, 93, 159]);
        assert_eq!(records(kdig.written(128, 2)), [31, 51, 159]);
        assert_eq!(records(kdig.written(128, 3)), [51, 159]);
        let bind =
            Responses { settings: 15, acknowledges_apart: true, fields: 35, fields_again: 8 };
        assert_eq!(bind.greeting().map(sealed), [37, 31]);
        assert_eq!(sealed(bind.written(59, true)), 134);
        assert_eq!(sealed(bind.written(61, false)), 109);
        let dnsdist =
            Responses { settings: 43, acknowledges_apart: false, fields: 70, fields_again: 11 };
        assert_eq!(dnsdist.greeting(), [43, 0]);
        assert_eq!(sealed(dnsdist.written(183, true)), 293);
        assert_eq!(sealed(dnsdist.written(185, false)), 236);
    }

    #[test]
    fn impossible_lengths_are_named() {
        let requests = Requests { preface: 0, fields: 62, fields_again: 20 };
        let why = requests.check().expect_err("no preface");
        assert_eq!(why.to_string(), "preface: must be above zero");
    }
}
