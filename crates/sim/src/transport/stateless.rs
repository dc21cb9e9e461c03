//! Stateless TCP: a server's end of a connection that keeps nothing until the query arrives.
//!
//! Source: gateway/PROTOCOL.md, whose rows this follows; it is based on Hayes, Rossi and
//! Armitage 2010. A SYN is answered with a cookie, the query goes to the server as a datagram
//! would, and the reply leaves in segments at once. Only the client recovers losses; the only timer
//! here is the idle time. Ordinary TCP *adopts* whatever is unusual: a second query, a zone
//! transfer, a query in pieces, a reply that UDP does not hold, a slow server.
//!
//! Differences: the cookie is always right. Timestamps are the clock's; the gateway's encode what
//! its cookie needs. Replies are never forgotten, rates are not limited, names with large replies
//! are not remembered, and routers' messages about long segments change nothing.
//!
//! This file is the state machine; `segments.rs` builds what it sends.
//!
//! ```text
//!          SYN -> SYN-ACK         query -> server          reply           ACK of it
//!   Fresh ----------------- Fresh ---------------- Asked ------- Replied ------------ Idle
//!                                                                  FIN -> FIN, ACK: Closing, Over
//! ```

mod segments;

use narrows_apps::Message;
use narrows_apps::relay::LONGEST;
use narrows_transport::tcp::{Adopted, Config, Flags, Segment, Seq};
use narrows_units::{Span, Time};

/// The server's end. Sequence numbers are named as in PROTOCOL.md.
#[derive(Debug)]
pub(crate) struct Stateless {
    phase: Phase,
    /// The SYN-ACK's sequence number.
    cookie: Seq,
    /// The longest payload without options, and the window scale that it offers.
    mss: u16,
    scale: u8,
    /// The client's SYN, for its options.
    syn: Segment,
    /// The client's latest timestamp.
    heard: u32,
    query_seq: Seq,
    client_next: Seq,
    query_length: u16,
    server_seq: Seq,
    end: Seq,
    /// The position up to which the client has acknowledged the reply, and how often it has done
    /// so.
    acked: Seq,
    repeats: u8,
    /// Whether the server is asked once more, for a reply that was lost.
    again: bool,
    /// Whether the client has sent its FIN.
    fin_noted: bool,
    /// Whether our FIN is on the reply's last segment.
    fin_on_reply: bool,
    /// Whether the reply has several segments and the query is not yet acknowledged.
    query_open: bool,
    /// The bytes that followed the query before the client had the reply.
    ahead: u16,
    /// What the server was asked, and when.
    pub(crate) asked: Option<Message>,
    asked_at: Time,
    /// When the idle time ends.
    idle_until: Option<Time>,
    out: Vec<Segment>,
}

/// The states of PROTOCOL.md, except those of adopted connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no entry.
    Fresh,
    /// QUERY: the server was asked.
    Asked,
    Replied,
    Idle,
    Closing,
    /// The entry is gone.
    Over,
}

/// The effect of a segment, besides the segments that [`Stateless::take_out`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    /// The query has to go to the server.
    Ask,
    /// Ordinary TCP takes the connection over, starting with this segment.
    Adopt(Segment),
}

/// What happened to a server's reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// It was sent, with this length.
    Sent(Message),
    /// The part that the client lacks was sent once more.
    Repeated,
    /// Nobody waits for it.
    Dropped,
    /// Ordinary TCP takes the connection over, with the query.
    Adopt(Segment),
}

impl Stateless {
    /// Creates an end for a connection whose SYN-ACK has the number `cookie`. `scale` is the window
    /// scale that ordinary TCP would offer.
    pub(crate) fn new(config: &Config, cookie: Seq, scale: u8) -> Self {
        Self {
            phase: Phase::Fresh,
            cookie,
            mss: config.mss,
            scale,
            syn: Segment::default(),
            heard: 0,
            query_seq: Seq(0),
            client_next: Seq(0),
            query_length: 0,
            server_seq: Seq(0),
            end: Seq(0),
            acked: Seq(0),
            repeats: 0,
            again: false,
            fin_noted: false,
            fin_on_reply: false,
            query_open: false,
            ahead: 0,
            asked: None,
            asked_at: Time::ZERO,
            idle_until: None,
            out: Vec::new(),
        }
    }

    /// Handles a segment from the client. `whole` is the length of the next query with its prefix,
    /// if the server can be asked by a datagram.
    pub(crate) fn handle(&mut self, now: Time, segment: &Segment, whole: Option<u32>) -> Outcome {
        let flags = segment.flags;
        if flags.contains(Flags::SYN) {
            if flags.without(Flags::ECE).without(Flags::CWR).without(Flags::AE) == Flags::SYN {
                self.syn = *segment;
                self.note_stamp(segment);
                self.send_syn_ack(now);
            }
            return Outcome::Nothing;
        }
        if flags.contains(Flags::RST) {
            let last = self.client_next + u32::from(self.ahead);
            if self.has_entry() && in_order(self.query_seq, segment.seq, last) {
                self.phase = Phase::Over;
            }
            return Outcome::Nothing;
        }
        if !flags.contains(Flags::ACK) {
            return Outcome::Nothing;
        }
        let fin = flags.contains(Flags::FIN);
        if segment.len == 0 && !fin {
            return self.handle_ack(now, segment);
        }
        match self.phase {
            Phase::Fresh => self.handle_first_data(now, segment, whole),
            Phase::Over => {
                // The client has reset its connection, so nothing is left of it.
                self.out.push(Segment {
                    seq: segment.ack,
                    flags: Flags::RST,
                    ..Segment::default()
                });
                Outcome::Nothing
            }
            Phase::Asked => self.handle_before_reply(now, segment),
            Phase::Replied | Phase::Idle | Phase::Closing if segment.len == 0 => {
                self.handle_fin(now, segment);
                Outcome::Nothing
            }
            Phase::Replied | Phase::Idle | Phase::Closing => self.handle_after_reply(now, segment),
        }
    }

    /// Sends the server's reply as it goes over the stream; `None`: only a connection can carry it.
    pub(crate) fn reply(&mut self, now: Time, whole: Option<Message>) -> Answer {
        if self.again && matches!(self.phase, Phase::Replied | Phase::Closing) {
            self.again = false;
            let first = self.send_from(now, self.acked);
            if let (Some(segment), 1) = (first, self.out.len()) {
                // A single segment is sent twice if it is all that is sent again.
                self.out.push(segment);
            }
            return Answer::Repeated;
        }
        if self.phase != Phase::Asked {
            return Answer::Dropped;
        }
        let most = u32::from(self.payload()) * MOST_SEGMENTS;
        let Some(reply) = whole.filter(|reply| reply.bytes <= most) else {
            return Answer::Adopt(self.query_again());
        };
        let length = reply.bytes;
        self.end = self.server_seq + length;
        self.acked = self.server_seq;
        self.repeats = 0;
        self.fin_on_reply = self.fin_noted;
        self.query_open = length > u32::from(self.payload());
        self.phase = if self.fin_noted { Phase::Closing } else { Phase::Replied };
        self.idle_until = Some(now + IDLE);
        self.send_from(now, self.server_seq);
        Answer::Sent(reply)
    }

    /// Returns what has to be sent to the client.
    pub(crate) fn take_out(&mut self) -> Vec<Segment> {
        core::mem::take(&mut self.out)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.idle_until
    }

    /// Handles the end of the idle time, if it has come: sends our FIN, alone, after the reply.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.idle_until.is_none_or(|until| until > now) {
            return;
        }
        self.idle_until = None;
        if matches!(self.phase, Phase::Replied | Phase::Idle) {
            let ack = if self.phase == Phase::Replied { self.query_seq } else { self.client_next };
            self.send(now, self.end, ack, 0, Flags::FIN);
            self.phase = Phase::Closing;
        }
    }

    /// Returns the state that ordinary TCP needs to go on from `first`, the first segment that it
    /// gets.
    pub(crate) fn adopted(&self, first: &Segment) -> Adopted {
        let server_next = if self.has_reply() { self.end } else { self.cookie + 1 };
        let taken = first.seq.distance(self.syn.seq + 1);
        Adopted { syn: self.syn, client_next: first.seq, taken: u64::from(taken), server_next }
    }

    /// Handles the first data of a connection: the table "The first data" of PROTOCOL.md.
    fn handle_first_data(&mut self, now: Time, segment: &Segment, whole: Option<u32>) -> Outcome {
        if segment.seq != self.syn.seq + 1 || segment.ack != self.cookie + 1 {
            return Outcome::Nothing;
        }
        self.note_stamp(segment);
        if segment.len == 0 {
            self.client_next = segment.seq + 1;
            self.send(now, segment.ack, self.client_next, 0, Flags::FIN);
            self.phase = Phase::Over;
            return Outcome::Nothing;
        }
        if whole != Some(u32::from(segment.len)) {
            return Outcome::Adopt(*segment);
        }
        self.phase = Phase::Asked;
        self.query_seq = segment.seq;
        self.query_length = segment.len;
        self.server_seq = segment.ack;
        self.client_next = segment.end();
        self.fin_noted = segment.flags.contains(Flags::FIN);
        self.asked_at = now;
        Outcome::Ask
    }

    /// Handles data before the reply: the table "Data on an entry" in state QUERY.
    fn handle_before_reply(&mut self, now: Time, segment: &Segment) -> Outcome {
        let fin = segment.flags.contains(Flags::FIN);
        if segment.len == 0 {
            if segment.seq == self.client_next && !self.fin_noted {
                // A half-close: the reply acknowledges it and carries our FIN.
                self.fin_noted = true;
                self.client_next = self.client_next + 1;
            }
            return Outcome::Nothing;
        }
        if segment.ack != self.server_seq {
            return Outcome::Nothing;
        }
        if segment.seq == self.query_seq {
            let same = segment.len == self.query_length;
            if same && now.since(self.asked_at) < PATIENCE {
                if fin && !self.fin_noted {
                    self.fin_noted = true;
                    self.client_next = self.client_next + 1;
                }
                return Outcome::Nothing;
            }
            return Outcome::Adopt(*segment);
        }
        if segment.seq == self.client_next && !self.fin_noted {
            // A pipelined query: ordinary TCP gets the first query in front of it.
            let len = self.query_length + segment.len;
            return Outcome::Adopt(Segment { seq: self.query_seq, len, ..*segment });
        }
        Outcome::Nothing
    }

    /// Handles data after the reply: the table "Data on an entry" in states REPLIED, IDLE and
    /// CLOSING.
    fn handle_after_reply(&mut self, now: Time, segment: &Segment) -> Outcome {
        let fin = segment.flags.contains(Flags::FIN);
        let missing = in_order(self.server_seq, segment.ack, self.end) && segment.ack != self.end;
        let behind = self.client_next + u32::from(self.ahead);
        self.note_stamp(segment);
        if segment.seq == self.query_seq {
            if missing && self.phase != Phase::Idle {
                let same = segment.len == self.query_length;
                self.note_repair(segment.ack);
                if same && !self.again {
                    self.again = true;
                    return Outcome::Ask;
                }
                self.send_one(now, segment.ack);
            } else if segment.ack == self.end && self.phase == Phase::Closing {
                self.send_fin(now);
            } else if segment.ack == self.end || segment.ack == self.end + 1 {
                self.send(now, segment.ack, self.client_next, 0, Flags(0));
                if self.phase == Phase::Replied {
                    self.phase = Phase::Idle;
                }
            } else if self.phase != Phase::Idle {
                self.send_one(now, self.server_seq);
            }
            return Outcome::Nothing;
        }
        if self.phase == Phase::Closing {
            if segment.seq == self.client_next && !segment.ack.before(self.end) {
                self.out.push(Segment {
                    seq: segment.ack,
                    flags: Flags::RST,
                    ..Segment::default()
                });
                self.phase = Phase::Over;
            }
            return Outcome::Nothing;
        }
        if segment.ack == self.end {
            if segment.seq == behind && self.ahead > 0 {
                // Ordinary TCP gets the kept bytes in front of this segment.
                let len = self.ahead + segment.len;
                return Outcome::Adopt(Segment { seq: self.client_next, len, ..*segment });
            }
            if segment.seq == self.client_next {
                return Outcome::Adopt(*segment);
            }
        } else if missing && !fin && segment.len <= LONGEST && self.phase == Phase::Replied {
            // The client sent this before it had the reply, so it is kept.
            if segment.seq == self.client_next {
                self.ahead = segment.len;
            } else if segment.seq == behind {
                self.ahead += segment.len;
            }
        }
        Outcome::Nothing
    }

    /// Handles a bare FIN after the query.
    fn handle_fin(&mut self, now: Time, segment: &Segment) {
        self.note_stamp(segment);
        let at_next = segment.seq == self.client_next && !self.fin_noted;
        let again = self.fin_noted && segment.seq + 1 == self.client_next;
        match self.phase {
            Phase::Closing if at_next || again => {
                if segment.ack != self.end && segment.ack != self.end + 1 {
                    return;
                }
                self.note_fin();
                if segment.ack == self.end {
                    self.send(now, segment.ack, self.client_next, 0, Flags::FIN);
                } else {
                    self.send(now, segment.ack, self.client_next, 0, Flags(0));
                    self.phase = Phase::Over;
                }
            }
            Phase::Replied | Phase::Idle if at_next && segment.ack == self.end => {
                self.note_fin();
                self.query_open = false;
                self.send(now, segment.ack, self.client_next, 0, Flags::FIN);
                self.phase = Phase::Closing;
            }
            Phase::Replied if at_next && in_order(self.server_seq, segment.ack, self.end) => {
                // A client that lacks the reply should go on asking for it.
                self.note_fin();
                self.query_open = true;
                self.send(now, self.end, self.query_seq, 0, Flags::FIN);
                self.phase = Phase::Closing;
            }
            _ => {}
        }
    }

    /// Handles a segment that only acknowledges: the table "Acknowledgements".
    fn handle_ack(&mut self, now: Time, segment: &Segment) -> Outcome {
        let (seq, ack) = (segment.seq, segment.ack);
        let behind = self.client_next + u32::from(self.ahead);
        let counts = self.has_reply()
            && in_order(self.query_seq, seq, behind)
            && in_order(self.server_seq, ack, self.end + 1);
        if !counts {
            return Outcome::Nothing;
        }
        self.note_stamp(segment);
        if ack.before(self.end) || (ack == self.end && self.phase == Phase::Closing) {
            self.count_repeat(now, ack);
        }
        if ack == self.end && self.ahead > 0 && seq == behind && self.phase != Phase::Closing {
            let flags = segment.flags.with(Flags::PSH);
            return Outcome::Adopt(Segment {
                seq: self.client_next,
                len: self.ahead,
                flags,
                ..*segment
            });
        }
        if ack == self.end && self.phase == Phase::Replied {
            self.phase = Phase::Idle;
            self.idle_until = Some(now + IDLE);
        }
        let whole = if self.phase == Phase::Closing { self.end + 1 } else { self.end };
        if self.query_open && ack == whole {
            self.query_open = false;
            self.send(now, ack, self.client_next, 0, Flags(0));
            return Outcome::Nothing;
        }
        if self.phase == Phase::Closing && ack == self.end + 1 && self.fin_noted {
            self.phase = Phase::Over;
        }
        Outcome::Nothing
    }

    /// Counts an acknowledgement that repeats an earlier one. The third repeat sends again what
    /// follows the acknowledged position. After such a repair, each new position does so.
    fn count_repeat(&mut self, now: Time, ack: Seq) {
        if ack.after(self.acked) {
            self.acked = ack;
            if self.repeats >= REPAIRING {
                self.repeats = REPAIRING;
                self.send_one(now, ack);
            } else {
                self.repeats = 0;
            }
        } else if ack == self.acked && self.repeats < REPAIRING {
            self.repeats += 1;
            if self.repeats == 3 {
                self.repeats = REPAIRING;
                self.send_one(now, ack);
            }
        }
    }

    /// Notes that the client has sent its query again, and so asked for the reply from `place` on.
    fn note_repair(&mut self, place: Seq) {
        self.acked = place;
        self.repeats = REPAIRING;
    }

    fn note_fin(&mut self) {
        if !self.fin_noted {
            self.fin_noted = true;
            self.client_next = self.client_next + 1;
        }
    }

    fn note_stamp(&mut self, segment: &Segment) {
        if let Some((stamp, _)) = segment.timestamps
            && (segment.flags.contains(Flags::SYN) || (stamp.wrapping_sub(self.heard) as i32) >= 0)
        {
            self.heard = stamp;
        }
    }

    fn has_entry(&self) -> bool {
        !matches!(self.phase, Phase::Fresh | Phase::Over)
    }

    fn has_reply(&self) -> bool {
        matches!(self.phase, Phase::Replied | Phase::Idle | Phase::Closing)
    }
}

/// Returns whether a number lies from `first` to `last`.
fn in_order(first: Seq, seq: Seq, last: Seq) -> bool {
    !seq.before(first) && !seq.after(last)
}

/// `max_segments`.
const MOST_SEGMENTS: u32 = 10;
/// `patience`: ordinary TCP takes a query that is repeated later than this.
const PATIENCE: Span = Span::from_ms(500);
/// `idle`.
const IDLE: Span = Span::from_secs(10);
/// The value of `repeats` once something was sent again.
const REPAIRING: u8 = 252;
