//! A small but complete client TCP (RFC 9293, 6298). It opens a connection, sends one query or
//! several in turn, assembles the replies, closes, and sends again what is not acknowledged. It
//! keeps segments that arrive out of order, and compares every byte with earlier copies of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use super::packets::{ACK, FIN, PSH, RST, SYN, Segment};

/// What the client does with its end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Closes when it has the reply.
    AfterReply,
    /// Sends its FIN with the query.
    WithQuery,
    /// Sends its FIN right behind the query.
    BehindQuery,
    /// Leaves the connection open.
    Never,
}

/// How a client's TCP is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub isn: u32,
    pub mss: u16,
    pub timestamps: bool,
    pub wscale: Option<u8>,
    pub closing: Closing,
}

/// Where a client is. Times are milliseconds.
#[derive(Clone)]
pub struct Client {
    setup: Setup,
    /// All queries that it has sent.
    query: Vec<u8>,
    /// The number of these queries.
    asked: usize,
    /// The queries that it asks when it has all replies.
    more: VecDeque<Vec<u8>>,
    /// Sequence numbers relative to the first byte of either side.
    peer: Option<u32>,
    tsecr: u32,
    acked: u32,
    sent: u32,
    /// The received bytes by position; in order up to `received`.
    pieces: BTreeMap<u32, Vec<u8>>,
    pub received: Vec<u8>,
    /// The position of the other side's FIN.
    peer_fin: Option<u32>,
    rto: u64,
    pub timer: Option<u64>,
    /// A valid RST has arrived.
    pub reset: bool,
    gave_up: bool,
}

/// The first timeout, and the longest.
const RTO: (u64, u64) = (250, 60_000);

impl Client {
    /// A client that sends these queries, at least one, each after the reply to the one before.
    pub fn new(setup: Setup, queries: Vec<Vec<u8>>) -> Self {
        let mut more = VecDeque::from(queries);
        Self {
            setup,
            query: more.pop_front().expect("one at least"),
            asked: 1,
            more,
            peer: None,
            tsecr: 0,
            acked: 0,
            sent: 0,
            pieces: BTreeMap::new(),
            received: Vec::new(),
            peer_fin: None,
            rto: RTO.0,
            timer: None,
            reset: false,
            gave_up: false,
        }
    }

    /// Whether it has all replies.
    pub fn has_reply(&self) -> bool {
        self.more.is_empty() && self.replies() == self.asked
    }

    /// How many whole replies it has, judging by their two bytes of length.
    fn replies(&self) -> usize {
        let (mut rest, mut replies) = (&self.received[..], 0);
        while let [high, low, message @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(behind) = message.get(length..) else { break };
            (rest, replies) = (behind, replies + 1);
        }
        replies
    }

    /// Its state, in a few words.
    pub fn state(&self) -> String {
        let (acked, sent, received) = (self.acked, self.sent, self.received.len());
        let pieces: Vec<_> = self.pieces.iter().map(|(at, piece)| (at, piece.len())).collect();
        format!(
            "{acked} of {sent} acknowledged, {received} received, FIN {:?}, {pieces:?}",
            self.peer_fin
        )
    }

    /// Whether there is nothing left to do.
    pub fn is_done(&self) -> bool {
        let closed = self.setup.closing == Closing::Never
            || (self.peer_fin.is_some_and(|fin| fin < self.expected())
                // Without timestamps, nothing tells a closing client that the entry is gone, so it
                // gives up by itself.
                && (self.acked == self.length() + 1 || !self.setup.timestamps));
        self.reset || self.gave_up || (self.has_reply() && closed)
    }

    /// The user stops waiting.
    pub fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// Opens the connection, or sends again what is not acknowledged.
    pub fn on_timer(&mut self, now: u64, out: &mut Vec<Segment>) {
        self.timer = Some(now + self.rto);
        self.rto = (self.rto * 2).min(RTO.1);
        if self.peer.is_none() {
            let mss = Some(self.setup.mss);
            let syn = self.segment(now, SYN, self.setup.isn, &[]);
            let (wscale, sack) = (self.setup.wscale, self.setup.timestamps);
            out.push(Segment { mss, wscale, sack, ack: 0, ..syn });
        } else if self.acked < self.length() {
            let fin = if self.setup.closing == Closing::WithQuery { FIN } else { 0 };
            let unacked = self.query[self.acked as usize..].to_vec();
            out.push(self.segment(now, ACK | PSH | fin, self.at(self.acked), &unacked));
        } else if self.acked < self.sent {
            out.push(self.segment(now, ACK | FIN, self.at(self.acked), &[]));
        } else {
            self.timer = None;
        }
    }

    /// Handles a segment of the other side.
    pub fn on_segment(&mut self, now: u64, segment: &Segment, out: &mut Vec<Segment>) {
        if self.reset {
            return;
        }
        if let Some((tsval, _)) = segment.timestamps {
            assert!(
                self.setup.timestamps,
                "the segment has timestamps, which the client did not offer"
            );
            // RFC 7323, section 5.3: older segments are answered but not accepted.
            if self.peer.is_some() && (tsval.wrapping_sub(self.tsecr) as i32) < 0 {
                out.push(self.segment(now, ACK, self.at(self.sent), &[]));
                return;
            }
            self.tsecr = tsval;
        }
        let Some(peer) = self.peer else {
            if segment.flags == SYN | ACK && segment.ack == self.at(0) {
                self.peer = Some(segment.seq);
                self.rto = RTO.0;
                out.push(self.segment(now, ACK, self.at(0), &[]));
                self.ask(now, out);
            }
            return;
        };
        let place = segment.seq.wrapping_sub(peer).wrapping_sub(1);
        if segment.flags & RST != 0 {
            // RFC 9293, section 3.10.7.4: elsewhere in the window, it would be challenged.
            self.reset = place == self.expected();
            return;
        }
        if segment.flags & SYN != 0 {
            out.push(self.segment(now, ACK, self.at(self.sent), &[]));
            return;
        }
        let acked = segment.ack.wrapping_sub(self.at(0));
        assert!(acked <= self.sent, "{acked} bytes acknowledged of {}", self.sent);
        if acked > self.acked {
            self.acked = acked;
            self.rto = RTO.0;
            self.timer = (acked < self.sent).then_some(now + self.rto);
        }
        if segment.flags & FIN != 0 {
            let fin = place + segment.payload.len() as u32;
            assert!(
                self.peer_fin.is_none_or(|before| before == fin),
                "the FIN came at two different places"
            );
            self.peer_fin = Some(fin);
        }
        self.take(place, &segment.payload);
        if self.replies() == self.asked && self.sent == self.length() {
            if let Some(next) = self.more.pop_front() {
                self.asked += 1;
                // The reply is acknowledged with the next query, or before it.
                if self.asked.is_multiple_of(2) {
                    out.push(self.segment(now, ACK, self.at(self.sent), &[]));
                }
                out.push(self.segment(now, ACK | PSH, self.at(self.sent), &next));
                self.query.extend(next);
                self.sent = self.length();
                self.timer = Some(now + self.rto);
                return;
            }
        }
        if !segment.payload.is_empty() || segment.flags & FIN != 0 {
            out.push(self.segment(now, ACK, self.at(self.sent), &[]));
        }
        let close = self.setup.closing == Closing::AfterReply && self.has_reply();
        if close && self.sent == self.length() {
            self.sent += 1;
            out.push(self.segment(now, ACK | FIN, self.at(self.length()), &[]));
            self.timer = Some(now + self.rto);
        }
    }

    fn ask(&mut self, now: u64, out: &mut Vec<Segment>) {
        let fin = if self.setup.closing == Closing::WithQuery { FIN } else { 0 };
        out.push(self.segment(now, ACK | PSH | fin, self.at(0), &self.query.clone()));
        if self.setup.closing == Closing::BehindQuery {
            out.push(self.segment(now, ACK | FIN, self.at(self.length()), &[]));
        }
        let fins = matches!(self.setup.closing, Closing::WithQuery | Closing::BehindQuery);
        self.sent = self.length() + u32::from(fins);
        self.timer = Some(now + self.rto);
    }

    /// Stores data, which must equal earlier data at the same place.
    fn take(&mut self, place: u32, payload: &[u8]) {
        // Data outside the window belongs to an old connection.
        if place > 1 << 20 {
            return;
        }
        for (&other, piece) in &self.pieces {
            let (from, to) = (
                place.max(other),
                (place as usize + payload.len()).min(other as usize + piece.len()) as u32,
            );
            // Data that was in order is with the application, and TCP ignores copies of it.
            let from = from.max(self.received.len() as u32);
            if from < to {
                let ours = &payload[(from - place) as usize..(to - place) as usize];
                let theirs = &piece[(from - other) as usize..(to - other) as usize];
                assert!(ours == theirs, "the bytes at {from} differ from the earlier copy");
            }
        }
        let piece = self.pieces.entry(place).or_default();
        if piece.len() < payload.len() {
            *piece = payload.to_vec();
        }
        for (&place, piece) in &self.pieces {
            let have = self.received.len();
            if (place as usize) <= have && place as usize + piece.len() > have {
                self.received.extend(&piece[have - place as usize..]);
            }
        }
    }

    /// The next expected number, behind the FIN once everything before has arrived.
    fn expected(&self) -> u32 {
        let received = self.received.len() as u32;
        received + u32::from(self.peer_fin == Some(received))
    }

    fn length(&self) -> u32 {
        self.query.len() as u32
    }

    /// The sequence number of this byte of the query.
    fn at(&self, place: u32) -> u32 {
        self.setup.isn.wrapping_add(1).wrapping_add(place)
    }

    fn segment(&self, now: u64, flags: u8, seq: u32, payload: &[u8]) -> Segment {
        let peer = self.peer.unwrap_or(0);
        Segment {
            from: self.setup.client,
            to: self.setup.server,
            seq,
            ack: peer.wrapping_add(1).wrapping_add(self.expected()),
            flags,
            window: 65_535,
            mss: None,
            wscale: None,
            sack: false,
            timestamps: self.setup.timestamps.then_some((now as u32, self.tsecr)),
            payload: payload.to_vec(),
        }
    }
}
