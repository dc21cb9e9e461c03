//! DNS over HTTP/3 (RFC 8484, RFC 9114): what it puts around messages and beside them.
//!
//! ```text
//!   client                                                server
//!   control: SETTINGS; QPACK's two streams       ----->
//!   stream 0: HEADERS, DATA                      ----->
//!                                                <-----   control: SETTINGS; QPACK's two streams
//!                                                <-----   stream 0: HEADERS, DATA
//! ```
//! Each end opens three streams beside those of its messages, and never ends them: a control stream
//! that begins with SETTINGS, and QPACK's encoder and decoder streams (RFC 9114, 6.2.1; RFC 9204,
//! 4.2). Each begins with a byte for its type. A server writes its own as soon as it may send (RFC
//! 9114, 7.2.4.2), and a client with its first request.
//!
//! Fields use QPACK's static table and literals alone, so those of a later request are as long as
//! those of the first. Captures show these lengths (docs/dns-quic.md).
//!
//! Differences: one request is one HEADERS and one DATA frame, whatever the message's length. There
//! is no GOAWAY, no reserved frame and no reserved stream.

use narrows_transport::quic::varint;
use narrows_units::keys;
use narrows_units::settings::size;

keys! {
    #[derive(Copy, Eq)]
    /// The bytes that a client adds to its queries.
    pub struct Requests as "Http3Requests" {
        /// The bytes of its control stream: type and SETTINGS.
        settings: u32 = 14, size(1, MOST);
        /// The compressed header fields of a request, in bytes.
        fields: u32 = 33, size(1, MOST);
    }
}

keys! {
    #[derive(Copy, Eq)]
    /// The bytes that a server adds to its replies.
    pub struct Responses as "Http3Responses" {
        /// The bytes of its control stream: type and SETTINGS.
        settings: u32 = 11, size(1, MOST);
        /// The compressed header fields of a response, in bytes.
        fields: u32 = 20, size(1, MOST);
    }
}

impl Requests {
    /// Returns the bytes that the client writes beside its first request, stream by stream.
    pub(super) fn beside(&self) -> [u32; 3] {
        beside(self.settings)
    }

    /// Returns the length of a request with this query.
    pub(super) fn written(&self, query: u32) -> u32 {
        frame(self.fields) + frame(query)
    }
}

impl Responses {
    /// Returns the bytes that the server writes when a connection begins, stream by stream.
    pub(super) fn beside(&self) -> [u32; 3] {
        beside(self.settings)
    }

    /// Returns the length of a response with this reply.
    pub(super) fn written(&self, reply: u32) -> u32 {
        frame(self.fields) + frame(reply)
    }
}

/// The control stream, and QPACK's two, which have only their types.
fn beside(settings: u32) -> [u32; 3] {
    [settings, 1, 1]
}

/// Returns the length of a frame: type, length, content (RFC 9114, 7.1).
fn frame(content: u32) -> u32 {
    1 + varint(content.into()) as u32 + content
}

/// More than any end's fields or settings.
const MOST: u64 = 16_383;

#[cfg(test)]
mod tests {
    use super::*;

    /// The streams of aioquic at both ends: a query of 128 bytes, a reply of 468.
    #[test]
    fn streams_have_the_lengths_of_real_ones() {
        let (asks, answers) = (Requests::default(), Responses::default());
        assert_eq!((asks.beside(), answers.beside()), ([14, 1, 1], [11, 1, 1]));
        assert_eq!((asks.written(128), answers.written(468)), (166, 493));
    }
}
