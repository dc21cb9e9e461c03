//! A connection's entry: `struct flow` of `bpf/types.h`, from the client's query on.

use std::net::IpAddr;

use narrows_wire::tcp::Flags;

use super::cookie::{NO_SCALE, Offer};
use super::packet::Segment;

/// A connection's key: the client, and which of the server's addresses it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The client's address.
    pub client: IpAddr,
    /// The client's port.
    pub port: u16,
    /// The server's address, by its index in `Settings::servers`.
    pub server: u8,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// SYN-cache mode: SYN seen.
    Syn,
    /// The query is with the server.
    Query,
    /// The reply is sent, not yet acknowledged as a whole.
    Replied,
    /// The reply is acknowledged.
    Idle,
    /// We sent our FIN.
    Closing,
    /// The kernel will adopt the connection from its query on.
    Slow,
    /// The kernel has adopted it; the entry keeps the server's late datagrams from the client.
    Kernel,
}

/// A connection's entry. Sequence numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Milliseconds of the boot clock, modulo 2^32, when its last packet came or left.
    pub seen_ms: u32,
    /// The query's first byte. In state SYN: the client's initial sequence number plus one.
    pub query_seq: u32,
    /// What we expect and acknowledge next.
    pub client_next: u32,
    /// The reply's first byte.
    pub server_seq: u32,
    /// The client's last acknowledgement.
    pub acked: u32,
    /// The client's window in bytes.
    pub window: u32,
    /// Our timestamp, which never changes.
    pub tsval: u32,
    /// The client's timestamp, to be echoed.
    pub client_tsval: u32,
    /// Where the ring has its query, later its reply.
    pub stored: u32,
    /// The query's length, with the two bytes of length.
    pub query_length: u16,
    /// The reply's length, with the two bytes of length; 0 before the reply.
    pub reply_length: u16,
    /// The largest payload that the client accepts.
    pub mss: u16,
    /// The query's ID.
    pub dns_id: u16,
    /// The state.
    pub state: State,
    /// Whether timestamps were agreed.
    pub timestamps: bool,
    /// Whether selective acknowledgements were agreed.
    pub sack: bool,
    /// Whether the query's datagram has an OPT record that the client did not send.
    pub edns_added: bool,
    /// Whether the client's FIN has come.
    pub client_fin: bool,
    /// Whether the reply has several segments, so that the query is acknowledged after them.
    pub query_unacked: bool,
    /// Whether the server's next reply brings the missing part of this one.
    pub again: bool,
    /// Whether the query is acknowledged before its reply.
    pub at_once: bool,
    /// Whether [`super::Core::acknowledge`] still has to do that.
    pub ack_due: bool,
    /// The client's window scale; 15: none.
    pub client_wscale: u8,
    /// How often `acked` was repeated. From 252 to 255, it counts how often a segment was sent
    /// again.
    pub repeats: u8,
    /// Microseconds of the boot clock, modulo 2^32, when the server got the query.
    pub asked_us: u32,
    /// A keyed hash of its question.
    pub question: u32,
    /// Where the ring has what came behind the query before the client had the reply.
    pub ahead: u32,
    /// The length of that; 0: nothing came.
    pub ahead_length: u16,
    /// How many bytes the client sent before the query; 65535: that many or more.
    pub earlier: u16,
}

/// The most bytes kept of what comes behind the query before the client has the reply.
pub(super) const AHEAD_MAX: usize = 4096;

/// How far behind the reply's end the acknowledgement of an old query's copy may be. The odds that
/// it is the first segment of a new connection are 2^-26.
const EARLIER_REPLIES: u32 = 1 << 22;

/// In `Flow::repeats`, from here on: each acknowledgement of a part sends the next segment again
/// (RFC 6582, section 3.2, step 3).
pub(super) const RECOVERING: u8 = 252;
/// In `Flow::repeats`: the segment at `acked` was sent again four times or more.
pub(super) const BLACK_HOLE: u8 = 255;

impl Flow {
    /// Makes the entry for a client's first data, or for its SYN.
    pub(super) fn new(state: State, query_seq: u32, server_seq: u32, offer: Offer) -> Self {
        Self {
            seen_ms: 0,
            query_seq,
            client_next: query_seq,
            server_seq,
            acked: server_seq,
            window: 0,
            tsval: 0,
            client_tsval: 0,
            stored: 0,
            query_length: 0,
            reply_length: 0,
            mss: offer.mss,
            dns_id: 0,
            state,
            timestamps: offer.timestamps,
            sack: offer.sack,
            edns_added: false,
            client_fin: false,
            query_unacked: false,
            again: false,
            at_once: false,
            ack_due: false,
            client_wscale: offer.wscale,
            repeats: 0,
            asked_us: 0,
            question: 0,
            ahead: 0,
            ahead_length: 0,
            earlier: 0,
        }
    }

    /// Returns the sequence number after the reply's last byte.
    pub(super) fn end(&self) -> u32 {
        self.server_seq.wrapping_add(self.reply_length.into())
    }

    /// Returns how many bytes of the reply `ack` acknowledges; more than there are if it lies
    /// outside the reply.
    pub(super) fn offset(&self, ack: u32) -> usize {
        ack.wrapping_sub(self.server_seq) as usize
    }

    /// Returns the acknowledgement to send while the client may lack part of the reply. It does not
    /// cover the query, so that the client keeps repeating the query. If the query was acknowledged
    /// at once, it covers everything but the client's FIN, which is acknowledged with ours.
    pub(crate) fn acknowledged(&self) -> u32 {
        if self.at_once {
            self.client_next.wrapping_sub(self.client_fin.into())
        } else {
            self.query_seq
        }
    }

    /// Returns whether window scales were agreed.
    pub(super) fn scaled(&self) -> bool {
        self.client_wscale != NO_SCALE
    }

    /// Returns the client's next sequence number, after what was kept of its data.
    pub(super) fn behind_ahead(&self) -> u32 {
        self.client_next.wrapping_add(self.ahead_length.into())
    }

    /// Returns whether the connection was left to the kernel from its query on.
    pub(super) fn is_left(&self) -> bool {
        matches!(self.state, State::Slow | State::Kernel)
    }

    /// Returns whether `seq` lies between the query's first byte and the byte expected next.
    pub(super) fn is_current(&self, seq: u32) -> bool {
        let range = self.behind_ahead().wrapping_sub(self.query_seq);
        seq.wrapping_sub(self.query_seq) <= range
    }

    /// Returns how many bytes the client sent before a query that begins at `seq`.
    pub(super) fn before(&self, seq: u32) -> u16 {
        let bytes = seq.wrapping_sub(self.query_seq).saturating_add(self.earlier.into());
        bytes.min(u16::MAX.into()) as u16
    }

    /// Returns whether data at `seq` belongs to a query before this one, so that it is a copy.
    pub(super) fn is_earlier(&self, seq: u32, ack: u32) -> bool {
        let behind = self.query_seq.wrapping_sub(seq);
        let last = self.end().wrapping_add(1);
        (1..=u32::from(self.earlier)).contains(&behind) && last.wrapping_sub(ack) <= EARLIER_REPLIES
    }

    /// Returns how many bytes at a segment's front were received before, if the segment also has
    /// something new. RFC 9293, section 3.10.7.4, cuts them off. The new part begins at
    /// `client_next` if the client has the whole reply, otherwise at `query_seq`.
    pub(super) fn received(&self, segment: &Segment<'_>) -> usize {
        let (offset, reply) = (self.offset(segment.ack), usize::from(self.reply_length));
        let length = segment.payload.len() as u32;
        let flags = segment.has(Flags::ACK) && !segment.has(Flags::SYN) && !segment.has(Flags::RST);
        if !flags || length == 0 || self.state == State::Syn || offset > reply + 1 {
            return 0;
        }
        let has_reply = match self.state {
            State::Replied | State::Idle => offset == reply,
            State::Closing => offset >= reply,
            _ => false,
        };
        let query = self.query_seq.wrapping_sub(segment.seq);
        let next = self.client_next.wrapping_sub(segment.seq);
        let known = u32::from(self.earlier) + self.client_next.wrapping_sub(self.query_seq);
        let end = length + u32::from(segment.has(Flags::FIN));
        if has_reply && (1..=known).contains(&next) && next < end {
            return next as usize;
        }
        let earlier = (1..=u32::from(self.earlier)).contains(&query) && query < length;
        if earlier { query as usize } else { 0 }
    }

    /// Returns whether the segment is a keep-alive probe of this connection: it asks for an
    /// acknowledgement of what was received before. Behind a FIN, an ACK with this number is only
    /// late.
    pub(super) fn is_probe(&self, segment: &Segment<'_>) -> bool {
        let closing = usize::from(self.state == State::Closing);
        segment.may_probe()
            && segment.seq == self.client_next.wrapping_sub(1)
            && !self.client_fin
            && !matches!(self.state, State::Syn | State::Kernel)
            && self.offset(segment.ack) <= usize::from(self.reply_length) + closing
    }

    /// Notes the client's window, and its timestamp if it is later.
    pub(super) fn note(&mut self, segment: &Segment<'_>) {
        let scale = if self.scaled() { self.client_wscale } else { 0 };
        self.window = u32::from(segment.window) << scale;
        if let (true, Some((tsval, _))) = (self.timestamps, segment.options.timestamps) {
            // RFC 7323, section 5.2: modulo 2^32.
            if tsval.wrapping_sub(self.client_tsval) as i32 >= 0 {
                self.client_tsval = tsval;
            }
        }
    }

    /// Notes the client's FIN, which takes a sequence number.
    pub(super) fn note_fin(&mut self) {
        if !self.client_fin {
            self.client_fin = true;
            self.client_next = self.client_next.wrapping_add(1);
        }
    }
}
