//! One end of a TCP connection that is taken over in mid-stream: segments and the time in, segments and
//! the next timeout out, no I/O.
//!
//! The stateless part of the gateway answers a connection's first query. What it cannot answer goes on
//! here, with ordinary TCP: retransmission, flow control, orderly close in both directions. There is no
//! handshake, since that has been; [`Start`] says where both sides are.
//!
//! Sources: RFC 9293 (section 3.10.7 for arriving segments), RFC 5681 and 6582 (congestion control and
//! NewReno recovery), RFC 6298 (the retransmission timer), RFC 6928 (initial window), RFC 7323
//! (timestamps, window scale), RFC 5961 (resets and SYNs inside the window), RFC 1191 and 8201 (path MTU).
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

mod arrive;
mod timer;
mod transmit;

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
mod tests;
