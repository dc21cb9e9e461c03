//! One end of a TCP connection that is taken over in mid-stream: segments and the time in, segments and
//! the next timeout out, no I/O.
//!
//! The stateless part of the gateway answers a connection's first query. What it cannot answer goes on
//! here, with ordinary TCP: retransmission, flow control, orderly close in both directions. There is no
//! handshake, since that has been; [`Start`] says where both sides are.
//!
//! Sources: RFC 9293 (section 3.10.7 for arriving segments), RFC 5681 and 6582 (congestion control and
//! NewReno recovery), RFC 6298 (the retransmission timer), RFC 6928 (initial window), RFC 7323
//! (timestamps, window scale), RFC 5961 (resets and SYNs inside the window).
//!
//! Differences from the sources:
//! - Of segments that come before their turn at most [`AHEAD`] are kept (RFC 9293, 3.10.7.4 allows less), and no FIN.
//! - Round trips are measured with one segment at a time and Karn's algorithm, also where there are timestamps:
//!   after lost ACKs these measure the time-out (RFC 7323, 4.1 allows either).
//! - Every segment with data is acknowledged at once (RFC 9293, 3.8.6.3 lets it wait).
//! - SACK blocks that the client sends are not used; recovery is NewReno's, one segment each round trip.
//! - The timer's least value is Linux's 200 ms (`TCP_RTO_MIN`) and not one second (RFC 6298, 2.4).
//! - A connection on which nothing moves for [`STALLED`] is given up, also while the client acknowledges probes of
//!   a closed window (RFC 9293, 3.8.6.1 would go on for ever): a server cannot let clients hold its memory.
//! - No TIME-WAIT: the stateless part acknowledges FINs of connections that nobody knows.

use std::collections::VecDeque;
use std::time::Duration;

/// Bytes from the client that wait for the server, and so our largest window.
pub const RECEIVE_BUFFER: usize = 65_535;

/// Bytes from the server that wait for the client's acknowledgement. Two of the largest DNS messages.
pub const SEND_BUFFER: usize = 131_072;

/// A connection that has something to say, and whose client acknowledges nothing new for so long, is given up.
pub const STALLED: Duration = Duration::from_secs(120);

/// Segments kept that came before their turn.
pub const AHEAD: usize = 64;

/// Our window scale where the client offers one (PROTOCOL.md).
const OUR_SCALE: u8 = 7;
/// Initial window in segments (RFC 6928, 2).
const INITIAL_WINDOW: u32 = 10;
/// `TCP_RTO_MIN` and `TCP_RTO_MAX` of Linux 6.1, `include/net/tcp.h`, the latter lowered: a client of a DNS
/// server has gone long before 120 s.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(10);
/// RFC 6298 (2.1).
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// Where a connection is when it is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The client's next byte.
    pub client_next: u32,
    /// Our next byte, which is also what the client has acknowledged.
    pub server_next: u32,
    /// The client's window in bytes.
    pub window: u32,
    /// Bytes of TCP header options and payload in our largest segment.
    pub mss: u16,
    /// The client's window scale; `None` where it offered none, and then ours is not used either.
    pub scale: Option<u8>,
    /// Our and the client's latest timestamp value, where they are in use.
    pub timestamps: Option<(u32, u32)>,
}

/// A segment without the addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// TCP's flags, as in the header's octet 13.
    pub flags: u8,
    /// The window as in the header, unscaled.
    pub window: u16,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// The data. Two pieces, as what we send comes from a ring; what arrives is all in the first.
    pub payload: (&'a [u8], &'a [u8]),
}

impl Segment<'_> {
    /// Bytes of payload.
    fn len(&self) -> usize {
        self.payload.0.len() + self.payload.1.len()
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Flag FIN.
pub const FIN: u8 = 0x01;
/// Flag SYN.
pub const SYN: u8 = 0x02;
/// Flag RST.
pub const RST: u8 = 0x04;
/// Flag PSH.
pub const PSH: u8 = 0x08;
/// Flag ACK.
pub const ACK: u8 = 0x10;

/// One end of a connection. After any `handle_*`, `read`, `write`, `finish` or `abort`: call
/// [`Stream::transmit`], then look at [`Stream::timeout`] and [`Stream::is_closed`].
#[derive(Debug)]
pub struct Stream {
    // RFC 9293, 3.3.1, with its names.
    snd_una: u32,
    snd_nxt: u32,
    /// The highest `snd_nxt` so far; after a timeout `snd_nxt` goes back.
    snd_max: u32,
    snd_wnd: u32,
    snd_wl1: u32,
    snd_wl2: u32,
    rcv_nxt: u32,

    mss: u32,
    scale: Option<u8>,
    timestamps: Option<Timestamps>,

    /// From the client, in order, not yet read.
    received: VecDeque<u8>,
    /// What came before its turn: sequence numbers and bytes.
    ahead: Vec<(u32, Vec<u8>)>,
    /// To the client, from `snd_una` on.
    unsent: VecDeque<u8>,
    client_fin: bool,
    /// Our FIN comes after `unsent`.
    finishing: bool,
    fin_acked: bool,
    reset: Option<Reset>,

    cwnd: u32,
    ssthresh: u32,
    duplicates: u32,
    /// In fast recovery until this is acknowledged (RFC 6582, `recover`).
    recover: Option<u32>,
    /// The segment at `snd_una` goes out at the next `transmit`, whatever the windows say.
    resend: bool,
    /// One byte may go beyond a closed window.
    probe: bool,
    ack_due: bool,

    rtt: Option<(Duration, Duration)>,
    rto: Duration,
    timer: Option<Duration>,
    /// The end and the moment of the segment that is being timed; none that was sent twice (Karn's algorithm).
    timed: Option<(u32, Duration)>,
    /// When the client last acknowledged anything new, or had nothing to acknowledge before.
    moved_at: Duration,
}

/// RFC 7323, section 4.
#[derive(Clone, Copy, Debug)]
struct Timestamps {
    /// Our value at `since`; it counts milliseconds.
    ours: u32,
    since: Duration,
    /// TS.Recent.
    recent: u32,
}

/// How a connection ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reset {
    /// A RST of ours is to be sent.
    Due,
    /// The client's has come, or ours is sent.
    Done,
}

/// `a < b` modulo 2^32 (RFC 9293, 3.4).
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Stream {
    /// Takes over a connection.
    pub fn adopt(at: &Start, now: Duration) -> Self {
        let options = if at.timestamps.is_some() { 12 } else { 0 };
        let mss = u32::from(at.mss.max(64)) - options;
        Self {
            snd_una: at.server_next,
            snd_nxt: at.server_next,
            snd_max: at.server_next,
            snd_wnd: at.window,
            snd_wl1: at.client_next.wrapping_sub(1),
            snd_wl2: at.server_next,
            rcv_nxt: at.client_next,
            mss,
            scale: at.scale.map(|scale| scale.min(14)), // RFC 7323, 2.3
            timestamps: at.timestamps.map(|(ours, recent)| Timestamps { ours, since: now, recent }),
            received: VecDeque::new(),
            ahead: Vec::new(),
            unsent: VecDeque::new(),
            client_fin: false,
            finishing: false,
            fin_acked: false,
            reset: None,
            cwnd: INITIAL_WINDOW * mss,
            ssthresh: u32::MAX,
            duplicates: 0,
            recover: None,
            resend: false,
            probe: false,
            ack_due: false,
            rtt: None,
            rto: RTO_INITIAL,
            timer: None,
            timed: None,
            moved_at: now,
        }
    }

    /// Whether a segment with this sequence number can belong to this connection: within a window of what
    /// is expected, on either side.
    pub fn fits(&self, seq: u32) -> bool {
        let reach = RECEIVE_BUFFER as i32;
        (-reach..=reach).contains(&(seq.wrapping_sub(self.rcv_nxt) as i32))
    }

    /// RFC 9293, 3.10.7.4, for a connection that is established or closing.
    pub fn handle_segment(&mut self, segment: &Segment<'_>, now: Duration) {
        if self.is_closed() {
            return;
        }
        // RFC 7323, 5.3 (R1): an old duplicate.
        if let (Some(ours), Some((value, _))) = (&self.timestamps, segment.timestamps) {
            if before(value, ours.recent) && !segment.has(RST) {
                self.ack_due = true;
                return;
            }
        }
        let length = segment.len() as u32 + u32::from(segment.has(FIN));
        if !self.acceptable(segment.seq, length) {
            self.ack_due |= !segment.has(RST);
            return;
        }
        if segment.has(RST) {
            if segment.seq == self.rcv_nxt {
                self.reset = Some(Reset::Done);
            } else {
                self.ack_due = true; // RFC 5961, 3.2
            }
            return;
        }
        if segment.has(SYN) {
            self.ack_due = true; // RFC 5961, 4.2
            return;
        }
        if !segment.has(ACK) {
            return;
        }
        if let (Some(ours), Some((value, _))) = (&mut self.timestamps, segment.timestamps) {
            // RFC 7323, 4.3 (2); everything is acknowledged at once, so that Last.ACK.sent is RCV.NXT.
            if !before(self.rcv_nxt, segment.seq) {
                ours.recent = value;
            }
        }
        if before(self.snd_max, segment.ack) {
            self.ack_due = true; // of what we have not sent yet
            return;
        }
        self.handle_ack(segment, now);
        self.handle_data(segment);
    }

    /// RFC 9293, 3.10.7.4, first step, but for a closed window: what lies before RCV.NXT is let in, to be cut off.
    fn acceptable(&self, seq: u32, length: u32) -> bool {
        let end = seq.wrapping_add(length);
        // Its right edge never goes back: RCV.NXT moves by what comes into the buffer.
        let limit = self.rcv_nxt.wrapping_add(self.window());
        if length == 0 {
            return !before(seq, self.rcv_nxt) && !before(limit, seq);
        }
        before(seq, limit) && before(self.rcv_nxt, end) || seq == self.rcv_nxt
    }

    fn handle_ack(&mut self, segment: &Segment<'_>, now: Duration) {
        let window = u32::from(segment.window) << self.scale.unwrap_or(0);
        let grown = window != self.snd_wnd;
        if before(self.snd_una, segment.ack) {
            self.handle_new_ack(segment, now);
        } else if segment.ack == self.snd_una
            && segment.len() == 0
            && !segment.has(FIN)
            && !grown
            && self.flight() > 0
            && self.snd_wnd > 0
        {
            self.handle_duplicate_ack();
        }
        // RFC 9293, 3.10.7.4: SND.WL1 and SND.WL2 keep old segments from setting the window.
        let newer = before(self.snd_wl1, segment.seq)
            || self.snd_wl1 == segment.seq && !before(segment.ack, self.snd_wl2);
        if newer && !before(segment.ack, self.snd_una) {
            let closed = self.snd_wnd == 0;
            self.snd_wnd = window;
            self.snd_wl1 = segment.seq;
            self.snd_wl2 = segment.ack;
            if closed && window > 0 {
                // What went as a probe goes again, as part of a segment.
                self.snd_nxt = self.snd_una;
                self.rto = self.base_rto();
                self.timer = None;
                self.moved_at = now;
            }
        }
    }

    fn handle_new_ack(&mut self, segment: &Segment<'_>, now: Duration) {
        let acked = segment.ack.wrapping_sub(self.snd_una);
        let data = (acked as usize).min(self.unsent.len());
        self.unsent.drain(..data);
        if acked as usize > data {
            self.fin_acked = true; // what was acknowledged beyond the data is our FIN
        }
        self.snd_una = segment.ack;
        if before(self.snd_nxt, self.snd_una) {
            self.snd_nxt = self.snd_una;
        }
        self.moved_at = now;
        self.measure(segment, now);

        match self.recover {
            Some(recover) if before(segment.ack, recover) => {
                // RFC 6582, 3.2 (3): a partial acknowledgement; the next segment is lost too.
                self.resend = true;
                self.cwnd = self.cwnd.saturating_sub(acked).max(self.mss);
                if acked >= self.mss {
                    self.cwnd = self.cwnd.saturating_add(self.mss);
                }
            }
            Some(_) => {
                self.recover = None;
                self.duplicates = 0;
                self.cwnd = self.ssthresh.min(self.flight().max(self.mss) + self.mss);
            }
            None => {
                self.duplicates = 0;
                // RFC 5681, 3.1; all that is acknowledged counts, as in Linux (`tcp_slow_start`), since clients
                // that merge segments (GRO) send one ACK for many.
                self.cwnd = if self.cwnd < self.ssthresh {
                    self.cwnd.saturating_add(acked)
                } else {
                    self.cwnd.saturating_add((self.mss * self.mss / self.cwnd).max(1))
                };
            }
        }
        self.rto = self.base_rto();
        // RFC 6298 (5.2), (5.3).
        self.timer = (self.flight() > 0).then(|| now + self.rto);
    }

    fn handle_duplicate_ack(&mut self) {
        self.duplicates += 1;
        if self.recover.is_some() {
            self.cwnd = self.cwnd.saturating_add(self.mss); // RFC 6582, 3.2 (4 of RFC 5681)
        } else if self.duplicates == 3 {
            self.ssthresh = (self.flight() / 2).max(2 * self.mss);
            self.cwnd = self.ssthresh + 3 * self.mss;
            self.recover = Some(self.snd_max);
            self.resend = true;
            self.timed = None;
        }
    }

    fn handle_data(&mut self, segment: &Segment<'_>) {
        if segment.len() == 0 && !segment.has(FIN) {
            return;
        }
        self.ack_due = true;
        if self.client_fin {
            return;
        }
        let bytes = [segment.payload.0, segment.payload.1].concat();
        if before(self.rcv_nxt, segment.seq) {
            let known = self.ahead.iter().any(|(seq, _)| *seq == segment.seq);
            if !known && !bytes.is_empty() && self.ahead.len() < AHEAD {
                self.ahead.push((segment.seq, bytes));
            }
            return;
        }
        let whole = self.receive(segment.seq, &bytes);
        if segment.has(FIN) && whole {
            self.client_fin = true;
            self.ahead.clear();
            self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
            return;
        }
        while let Some(at) = self.ahead.iter().position(|(seq, _)| !before(self.rcv_nxt, *seq)) {
            let (seq, bytes) = self.ahead.swap_remove(at);
            self.receive(seq, &bytes);
        }
    }

    /// Takes bytes that begin at RCV.NXT or before it, as far as there is room. Says whether nothing is left out.
    fn receive(&mut self, seq: u32, bytes: &[u8]) -> bool {
        let known = self.rcv_nxt.wrapping_sub(seq) as usize;
        let fresh = bytes.get(known..).unwrap_or_default();
        let taken = fresh.len().min(RECEIVE_BUFFER - self.received.len());
        self.received.extend(&fresh[..taken]);
        self.rcv_nxt = self.rcv_nxt.wrapping_add(taken as u32);
        taken == fresh.len()
    }

    /// RFC 6298, 2 and 3.
    fn measure(&mut self, segment: &Segment<'_>, now: Duration) {
        let Some((_, sent_at)) = self.timed.take_if(|(end, _)| !before(segment.ack, *end)) else {
            return;
        };
        let sample = now.saturating_sub(sent_at);
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                ((smoothed * 7 + sample) / 8, (variation * 3 + smoothed.abs_diff(sample)) / 4)
            }
        });
    }

    fn base_rto(&self) -> Duration {
        match self.rtt {
            None => RTO_INITIAL,
            Some((smoothed, variation)) => (smoothed + variation * 4).clamp(RTO_MIN, RTO_MAX),
        }
    }

    fn timestamp(&self, ours: &Timestamps, now: Duration) -> u32 {
        ours.ours.wrapping_add(now.saturating_sub(ours.since).as_millis() as u32)
    }

    /// The retransmission timer (RFC 6298, 5), which also probes a closed window (RFC 9293, 3.8.6.1).
    /// Does nothing before [`Stream::timeout`].
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.timer.is_none_or(|at| now < at) || self.is_closed() {
            return;
        }
        if now.saturating_sub(self.moved_at) >= STALLED {
            self.abort();
            self.timer = None;
            return;
        }
        self.rto = (self.rto * 2).min(RTO_MAX);
        self.timer = Some(now + self.rto);
        self.timed = None;
        if self.snd_wnd == 0 && !self.unsent.is_empty() {
            self.probe = true;
            return;
        }
        // RFC 5681, 3.1 (4), once for each loss; RFC 6582, 4 (no fast retransmit until that is acknowledged).
        if self.snd_nxt == self.snd_max {
            self.ssthresh = (self.flight() / 2).max(2 * self.mss);
        }
        self.cwnd = self.mss;
        self.recover = None;
        self.duplicates = 0;
        self.snd_nxt = self.snd_una;
        self.resend = true;
    }

    /// Hands all that is to be sent now to `send`, in order.
    pub fn transmit(&mut self, now: Duration, mut send: impl FnMut(&Segment<'_>)) {
        match self.reset {
            Some(Reset::Due) => {
                let rst =
                    Segment { payload: (&[], &[]), ..self.header(RST | ACK, self.snd_max, now) };
                send(&rst);
                self.reset = Some(Reset::Done);
                return;
            }
            Some(Reset::Done) => return,
            None => {}
        }
        if self.resend {
            self.resend = false;
            self.send_one(self.snd_una, self.mss, now, &mut send);
            if self.snd_nxt == self.snd_una {
                self.snd_nxt = self.sent_end(self.snd_una, self.mss);
            }
        }
        loop {
            let usable = self.cwnd.min(self.snd_wnd).saturating_sub(self.outstanding());
            let waits = self.end().wrapping_sub(self.snd_nxt);
            if waits == 0 {
                break;
            }
            let room = usable.min(self.mss);
            // RFC 9293, 3.8.6.2.1: no small segments because of the window, but for the last one. A FIN needs no window.
            let rest = (self.unsent.len() as u32).saturating_sub(self.outstanding());
            let fits = rest <= room || room == self.mss || room > 0 && self.outstanding() == 0;
            if !fits {
                break;
            }
            let from = self.snd_nxt;
            self.send_one(from, room, now, &mut send);
            self.snd_nxt = self.sent_end(from, room);
        }
        if self.probe {
            self.probe = false;
            if self.snd_wnd == 0 && !self.unsent.is_empty() {
                self.send_one(self.snd_una, 1, now, &mut send);
            }
        }
        if self.ack_due {
            self.ack_due = false;
            send(&self.header(ACK, self.snd_max, now));
        }
        if self.end() == self.snd_una {
            self.timer = None;
        } else if self.timer.is_none() {
            self.timer = Some(now + self.rto); // RFC 6298 (5.1)
            self.moved_at = now;
        }
    }

    /// The end, in sequence numbers, of a segment of at most `room` bytes at `from`, with our FIN if it reaches it.
    fn sent_end(&self, from: u32, room: u32) -> u32 {
        let rest = (self.unsent.len() as u32).saturating_sub(from.wrapping_sub(self.snd_una));
        let fin = self.finishing && rest <= room;
        from.wrapping_add(rest.min(room)).wrapping_add(u32::from(fin))
    }

    fn send_one(
        &mut self,
        from: u32,
        room: u32,
        now: Duration,
        send: &mut impl FnMut(&Segment<'_>),
    ) {
        let start = (from.wrapping_sub(self.snd_una) as usize).min(self.unsent.len());
        let end = self.sent_end(from, room);
        let stop = (start + room as usize).min(self.unsent.len());
        let fin = self.finishing && stop == self.unsent.len();
        if stop == start && !fin {
            return;
        }
        let flags =
            ACK | if stop == self.unsent.len() { PSH } else { 0 } | if fin { FIN } else { 0 };
        if before(self.snd_max, end) {
            self.snd_max = end;
            self.timed.get_or_insert((end, now));
        }
        let (first, second) = self.unsent.as_slices();
        let split = first.len();
        let payload = (
            &first[start.min(split)..stop.min(split)],
            &second[start.max(split) - split..stop.max(split) - split],
        );
        send(&Segment { payload, ..self.header(flags, from, now) });
        self.ack_due = false;
    }

    fn header(&self, flags: u8, seq: u32, now: Duration) -> Segment<'static> {
        let shift = if self.scale.is_some() { OUR_SCALE } else { 0 };
        Segment {
            seq,
            ack: self.rcv_nxt,
            flags,
            window: (self.window() >> shift) as u16, // RECEIVE_BUFFER fits without a scale
            timestamps: self.timestamps.map(|ours| (self.timestamp(&ours, now), ours.recent)),
            payload: (&[], &[]),
        }
    }

    /// What we can take from the client.
    fn window(&self) -> u32 {
        (RECEIVE_BUFFER - self.received.len()) as u32
    }

    /// Sequence numbers that were sent and are not acknowledged.
    fn flight(&self) -> u32 {
        self.snd_max.wrapping_sub(self.snd_una)
    }

    /// The same, of what was sent since the last timeout.
    fn outstanding(&self) -> u32 {
        self.snd_nxt.wrapping_sub(self.snd_una)
    }

    /// The sequence number after all that is to be sent.
    fn end(&self) -> u32 {
        let fin = self.finishing && !self.fin_acked;
        self.snd_una.wrapping_add(self.unsent.len() as u32).wrapping_add(u32::from(fin))
    }

    /// When [`Stream::handle_timeout`] is to be called.
    pub fn timeout(&self) -> Option<Duration> {
        if self.is_closed() { None } else { self.timer }
    }

    /// What the client sent, up to a whole ring's first piece; take it with [`Stream::consume`].
    pub fn received(&self) -> &[u8] {
        self.received.as_slices().0
    }

    /// `bytes` of [`Stream::received`] are done with. The window opens.
    pub fn consume(&mut self, bytes: usize) {
        let closed = self.window() < self.mss;
        self.received.drain(..bytes);
        // RFC 9293, 3.8.6.2.2: tell the client once it is worth it.
        self.ack_due |= closed && self.window() >= self.mss;
    }

    /// Whether all that the client will ever send has been read.
    pub fn client_finished(&self) -> bool {
        self.client_fin && self.received.is_empty()
    }

    /// Bytes that [`Stream::write`] would take.
    pub fn room(&self) -> usize {
        if self.finishing { 0 } else { SEND_BUFFER.saturating_sub(self.unsent.len()) }
    }

    /// Adds the server's bytes, at most [`Stream::room`] of them; returns how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.unsent.extend(&bytes[..taken]);
        taken
    }

    /// The server has no more: a FIN follows what was written.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Ends the connection with a RST.
    pub fn abort(&mut self) {
        self.reset.get_or_insert(Reset::Due);
    }

    /// Both FINs are acknowledged, or there was a reset.
    pub fn is_closed(&self) -> bool {
        self.reset == Some(Reset::Done) || self.fin_acked && self.client_fin && !self.ack_due
    }

    /// The client has acknowledged our FIN.
    pub fn server_finished(&self) -> bool {
        self.fin_acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: u32 = 0xffff_ff00; // so that sequence numbers wrap on the way
    const SERVER: u32 = 0xffff_0000;

    fn start(timestamps: bool) -> Start {
        Start {
            client_next: CLIENT,
            server_next: SERVER,
            window: 65_535,
            mss: 1460,
            scale: None,
            timestamps: timestamps.then_some((500, 900)),
        }
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// What a stream sends now, with payloads as owned bytes.
    fn sent(stream: &mut Stream, now: Duration) -> Vec<(Segment<'static>, Vec<u8>)> {
        let mut out = Vec::new();
        stream.transmit(now, |segment| {
            let bytes = [segment.payload.0, segment.payload.1].concat();
            out.push((Segment { payload: (&[], &[]), ..*segment }, bytes));
        });
        out
    }

    fn from_client(seq: u32, ack: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
        Segment { seq, ack, flags, window: 65_535, timestamps: None, payload: (payload, &[]) }
    }

    #[test]
    fn data_in_order_is_given_on_and_acknowledged_at_once() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.handle_segment(&from_client(CLIENT, SERVER, ACK, b"abc"), ms(1));
        assert_eq!(stream.received(), b"abc");
        let out = sent(&mut stream, ms(1));
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].0.flags, out[0].0.ack), (ACK, CLIENT.wrapping_add(3)));
    }

    #[test]
    fn an_overlap_is_cut_off_and_a_gap_is_told() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.handle_segment(&from_client(CLIENT, SERVER, ACK, b"abc"), ms(1));
        stream.handle_segment(&from_client(CLIENT.wrapping_add(1), SERVER, ACK, b"bcde"), ms(1));
        assert_eq!(stream.received(), b"abcde");
        stream.handle_segment(&from_client(CLIENT.wrapping_add(7), SERVER, ACK, b"hi"), ms(1));
        assert_eq!(stream.received(), b"abcde");
        assert_eq!(sent(&mut stream, ms(1))[0].0.ack, CLIENT.wrapping_add(5));
        stream.handle_segment(&from_client(CLIENT.wrapping_add(4), SERVER, ACK, b"efg"), ms(1));
        assert_eq!(stream.received(), b"abcdefghi", "what came before its turn has been kept");
        assert_eq!(sent(&mut stream, ms(1))[0].0.ack, CLIENT.wrapping_add(9));
    }

    /// RFC 6928: ten segments, and no more until an acknowledgement comes.
    #[test]
    fn the_initial_window_is_ten_segments() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        assert_eq!(stream.write(&[7; 40_000]), 40_000);
        let out = sent(&mut stream, ms(0));
        assert_eq!(out.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [1460; 10]);
        assert!(sent(&mut stream, ms(1)).is_empty());
    }

    #[test]
    fn the_clients_window_is_kept() {
        let at = Start { window: 3000, ..start(false) };
        let mut stream = Stream::adopt(&at, ms(0));
        stream.write(&[7; 10_000]);
        let out = sent(&mut stream, ms(0));
        // RFC 9293, 3.8.6.2.1: the 80 bytes that are left of the window are not worth a segment.
        assert_eq!(out.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [1460, 1460]);
    }

    /// RFC 5681, 3.2: the third duplicate sends the lost segment again, before any time-out.
    #[test]
    fn three_duplicates_send_again() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.write(&[7; 14_600]);
        sent(&mut stream, ms(0));
        for n in 0..3 {
            stream.handle_segment(&from_client(CLIENT, SERVER, ACK, b""), ms(20 + n));
            let again = sent(&mut stream, ms(20 + n));
            assert_eq!(again.first().map(|(segment, _)| segment.seq), (n == 2).then_some(SERVER));
        }
    }

    /// RFC 6298 (5.5): the time-out doubles.
    #[test]
    fn time_outs_double() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.write(b"answer");
        sent(&mut stream, ms(0));
        let mut at = Vec::new();
        for _ in 0..4 {
            let due = stream.timeout().expect("something is in flight");
            at.push(due.as_millis());
            stream.handle_timeout(due);
            let out = sent(&mut stream, due);
            assert_eq!((out.len(), out[0].0.seq, &out[0].1[..]), (1, SERVER, &b"answer"[..]));
        }
        assert_eq!(at, [1000, 3000, 7000, 15_000]);
    }

    #[test]
    fn a_silent_client_is_given_up_with_a_reset() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.write(b"answer");
        sent(&mut stream, ms(0));
        let mut last = Vec::new();
        let mut end = ms(0);
        while let Some(due) = stream.timeout() {
            stream.handle_timeout(due);
            last = sent(&mut stream, due);
            end = due;
        }
        assert!(stream.is_closed());
        assert_eq!(last[0].0.flags & RST, RST);
        assert!(end >= STALLED && end < STALLED * 2, "{end:?}");
    }

    /// RFC 9293, 3.8.6.1; the window opens with the answer to a probe.
    #[test]
    fn a_closed_window_is_probed() {
        let at = Start { window: 0, ..start(false) };
        let mut stream = Stream::adopt(&at, ms(0));
        stream.write(b"answer");
        assert!(sent(&mut stream, ms(0)).is_empty());
        let due = stream.timeout().expect("a probe is due");
        stream.handle_timeout(due);
        let probe = sent(&mut stream, due);
        assert_eq!((probe.len(), &probe[0].1[..]), (1, &b"a"[..]));
        let opens = from_client(CLIENT, SERVER.wrapping_add(1), ACK, b"");
        stream.handle_segment(&opens, due + ms(5));
        let rest = sent(&mut stream, due + ms(5));
        assert_eq!((rest.len(), &rest[0].1[..]), (1, &b"nswer"[..]));
    }

    /// RFC 5961, 3.2: only the exact number resets; others inside the window are asked back.
    #[test]
    fn only_an_exact_reset_resets() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.handle_segment(&from_client(CLIENT.wrapping_add(100), 0, RST, b""), ms(0));
        assert!(!stream.is_closed());
        assert_eq!(sent(&mut stream, ms(0))[0].0.flags, ACK);
        stream.handle_segment(&from_client(CLIENT, 0, RST, b""), ms(0));
        assert!(stream.is_closed());
    }

    #[test]
    fn half_close_still_answers_and_then_closes() {
        let mut stream = Stream::adopt(&start(false), ms(0));
        stream.handle_segment(&from_client(CLIENT, SERVER, ACK | FIN, b"query"), ms(0));
        assert!(!stream.client_finished(), "the query is not read yet");
        stream.consume(5);
        assert!(stream.client_finished());
        stream.write(b"answer");
        stream.finish();
        let out = sent(&mut stream, ms(1));
        assert_eq!(out.len(), 1, "the FIN rides on the answer");
        assert_eq!(out[0].0.flags, ACK | PSH | FIN);
        assert_eq!(out[0].0.ack, CLIENT.wrapping_add(6));
        let last = from_client(CLIENT.wrapping_add(6), SERVER.wrapping_add(7), ACK, b"");
        stream.handle_segment(&last, ms(2));
        sent(&mut stream, ms(2));
        assert!(stream.is_closed());
        assert_eq!(stream.timeout(), None);
    }

    /// RFC 7323: our clock goes on from where it was, the client's value is echoed, old ones are refused.
    #[test]
    fn timestamps_go_on() {
        let mut stream = Stream::adopt(&start(true), ms(100));
        let data =
            Segment { timestamps: Some((950, 500)), ..from_client(CLIENT, SERVER, ACK, b"q") };
        stream.handle_segment(&data, ms(140));
        stream.write(&[1; 1460]);
        let out = sent(&mut stream, ms(150));
        assert_eq!(out[0].0.timestamps, Some((550, 950)));
        assert_eq!(out[0].1.len(), 1448, "12 bytes of options");
        let old = Segment {
            timestamps: Some((949, 500)),
            ..from_client(CLIENT.wrapping_add(1), SERVER, ACK, b"r")
        };
        stream.handle_segment(&old, ms(160));
        assert_eq!(stream.received(), b"q");
    }

    /// A small generator (xorshift64*, Marsaglia 2003, Vigna 2016) for the lossy link.
    struct Chance(u64);
    impl Chance {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
        }
    }

    /// Whatever comes, nothing panics, buffers keep their bounds, and what was acknowledged once stays so.
    #[test]
    fn any_segment_is_survived() {
        for seed in 1..=300 {
            let mut chance = Chance(seed * 0x9e37_79b9);
            let at = Start { window: chance.below(3) as u32 * 3000, ..start(seed % 2 == 0) };
            let mut stream = Stream::adopt(&at, ms(0));
            let bytes = vec![7; 3000];
            let (mut now, mut known) = (ms(0), SERVER);
            for _ in 0..200 {
                now += ms(chance.below(400));
                let near = |chance: &mut Chance, number: u32| match chance.below(8) {
                    0 => chance.below(1 << 32) as u32,
                    _ => number.wrapping_add(chance.below(4000) as u32).wrapping_sub(1000),
                };
                let payload = &bytes[..chance.below(4) as usize * chance.below(1000) as usize];
                let segment = Segment {
                    seq: near(&mut chance, stream.rcv_nxt),
                    ack: near(&mut chance, stream.snd_una),
                    // No RST or SYN in most of them.
                    flags: chance.below(256) as u8 & if chance.below(20) > 0 { 0x19 } else { 0xff },
                    window: chance.below(65_536) as u16 * chance.below(2) as u16,
                    timestamps: (chance.below(2) == 0).then(|| (near(&mut chance, 900), 500)),
                    payload: (payload, &[]),
                };
                stream.handle_segment(&segment, now);
                match chance.below(6) {
                    0 => drop(stream.write(&bytes)),
                    1 => stream.consume(stream.received().len()),
                    2 if chance.below(20) == 0 => stream.finish(),
                    _ => {}
                }
                stream.handle_timeout(now);
                for (out, data) in sent(&mut stream, now) {
                    assert!(data.len() <= 1460 && !before(out.seq, known), "{seed}: {out:?}");
                }
                assert!(stream.received.len() <= RECEIVE_BUFFER && stream.ahead.len() <= AHEAD);
                assert!(stream.unsent.len() <= SEND_BUFFER && !before(stream.snd_una, known));
                known = stream.snd_una;
            }
        }
    }

    /// A link of 5 ms and up to `jitter` more, each way.
    #[derive(Clone, Copy, Debug)]
    struct Link {
        seed: u64,
        loss_percent: u64,
        duplicate_percent: u64,
        jitter: u64,
    }

    /// Each end sends its bytes and a FIN. Gives what each received, and when both were closed.
    fn exchange(link: Link, timestamps: bool, bytes: [&[u8]; 2]) -> ([Vec<u8>; 2], Duration) {
        let Link { seed, loss_percent, duplicate_percent, jitter } = link;
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let there = start(timestamps);
        let here = Start {
            client_next: SERVER,
            server_next: CLIENT,
            timestamps: there.timestamps.map(|(a, b)| (b, a)),
            ..there
        };
        let mut ends = [Stream::adopt(&there, ms(0)), Stream::adopt(&here, ms(0))];
        let mut rest = bytes;
        let mut got = [Vec::new(), Vec::new()];
        let mut wire: Vec<(Duration, usize, Segment<'static>, Vec<u8>)> = Vec::new();
        let mut now = ms(0);
        for _ in 0..1_000_000 {
            for side in 0..2 {
                let taken = ends[side].write(rest[side]);
                rest[side] = &rest[side][taken..];
                if rest[side].is_empty() {
                    ends[side].finish();
                }
                let piece = ends[side].received().to_vec();
                ends[side].consume(piece.len());
                got[side].extend(piece);
                ends[side].handle_timeout(now);
                for (segment, payload) in sent(&mut ends[side], now) {
                    for _ in 0..1 + u64::from(chance.below(100) < duplicate_percent) {
                        let arrives = now + ms(5 + chance.below(jitter + 1));
                        if chance.below(100) >= loss_percent {
                            wire.push((arrives, 1 - side, segment, payload.clone()));
                        }
                    }
                }
            }
            let arrival = wire.iter().map(|(at, ..)| *at).min();
            let timer = ends.iter().filter_map(Stream::timeout).min();
            let unread = ends.iter().any(|end| !end.received().is_empty());
            match arrival.into_iter().chain(timer).min() {
                _ if unread => {}
                Some(next) => now = now.max(next),
                None => return (got, now),
            }
            let due: Vec<_> = wire.extract_if(.., |(at, ..)| *at <= now).collect();
            for (_, to, segment, payload) in due {
                ends[to].handle_segment(&Segment { payload: (&payload, &[]), ..segment }, now);
            }
        }
        panic!("{link:?}: still not closed at {now:?}: {ends:?}");
    }

    /// Whatever is lost, doubled or overtaken, both sides get every byte, once and in order, and close. What the last
    /// ACK is for may be lost: a side may end by giving up after it has everything.
    #[test]
    fn every_byte_arrives_at_any_loss() {
        let long: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        for (loss, size) in [(0, 300_000), (1, 300_000), (10, 100_000), (25, 40_000)] {
            for seed in 1..=20 {
                for timestamps in [false, true] {
                    let bytes = [&long[..size], &long[size / 3..size / 2]];
                    let link = Link { seed, loss_percent: loss, duplicate_percent: 2, jitter: 10 };
                    let (got, _) = exchange(link, timestamps, bytes);
                    assert!(got[1] == bytes[0], "{link:?}: the answer, {}", got[1].len());
                    assert!(got[0] == bytes[1], "{link:?}: the query, {}", got[0].len());
                }
            }
        }
    }

    /// 60 kB in windows that double from ten segments of 1448 bytes (14, 29 kB, ...) are three round trips of 10 ms, and
    /// the FIN's acknowledgement is the last of them.
    #[test]
    fn without_loss_slow_start_sets_the_time() {
        let link = Link { seed: 7, loss_percent: 0, duplicate_percent: 0, jitter: 0 };
        let (_, end) = exchange(link, true, [&[3; 60_000], b""]);
        assert_eq!(end, ms(30));
    }
}
