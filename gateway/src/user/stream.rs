//! One end of a TCP connection that is taken over in the middle of its stream. Segments and the
//! time go in, segments and the next timeout come out; there is no I/O.
//!
//! The stateless part of the gateway answers the first query of a connection. What it cannot answer
//! continues here with ordinary TCP: retransmission, flow control, orderly close in both
//! directions. The handshake is over already; [`Start`] says where both sides are.
//!
//! Sources: RFC 9293 (section 3.10.7 for arriving segments), RFC 5681 and 6582 (congestion control
//! and NewReno recovery), RFC 6298 (the retransmission timer), RFC 6928 (initial window), RFC 7323
//! (timestamps, window scale), RFC 5961 (resets and SYNs inside the window), RFC 1191 and 8201
//! (path MTU).
//!
//! Differences from the sources:
//! - Of segments that arrive out of order, at most [`AHEAD`] are kept (RFC 9293, 3.10.7.4 allows
//!   fewer), and no FIN.
//! - Round trips are measured with one segment at a time and Karn's algorithm, even with
//!   timestamps: after lost ACKs, timestamps would measure the timeout (RFC 7323, 4.1 allows
//!   either).
//! - Every segment with data is acknowledged at once (RFC 9293, 3.8.6.3 allows a delay).
//! - The client's SACK blocks are not used. Recovery is NewReno's, with one segment per round trip.
//! - The minimum of the timer is Linux's 200 ms (`TCP_RTO_MIN`), not one second (RFC 6298, 2.4).
//! - A connection without progress for [`STALLED`] is given up, even if the client acknowledges
//!   probes of a closed window (RFC 9293, 3.8.6.1 would continue for ever). A server cannot let
//!   clients hold its memory.
//! - There is no TIME-WAIT: the stateless part acknowledges the FINs of unknown connections.

mod arrive;
mod timer;
mod transmit;

use std::collections::VecDeque;
use std::time::Duration;

/// Bytes from the client that wait for the server; this limits our window.
pub const RECEIVE_BUFFER: usize = 65_535;

/// Bytes from the server that wait for the client's acknowledgement: two of the largest DNS
/// messages.
pub const SEND_BUFFER: usize = 131_072;

/// A connection that has data to send is given up if the client acknowledges nothing new for this
/// long.
pub const STALLED: Duration = Duration::from_secs(120);

/// How many out-of-order segments are kept.
pub const AHEAD: usize = 64;

/// Our window scale if the client offers one (PROTOCOL.md).
const OUR_SCALE: u8 = 7;
/// Initial window in segments (RFC 6928, 2).
const INITIAL_WINDOW: u32 = 10;
/// `TCP_RTO_MIN` and `TCP_RTO_MAX` of Linux 6.1, `include/net/tcp.h`. The latter is lowered: a
/// client of a DNS server is gone long before 120 s.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(10);
/// RFC 6298 (2.1).
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// The state of a connection when it is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The client's next byte.
    pub client_next: u32,
    /// Our next byte, up to which the client has acknowledged everything.
    pub server_next: u32,
    /// The client's window in bytes.
    pub window: u32,
    /// The bytes of TCP options and payload in our largest segment.
    pub mss: u16,
    /// The client's window scale; `None` if it offered none, and then ours is not used either.
    pub scale: Option<u8>,
    /// Our latest timestamp value and the client's, if timestamps are used.
    pub timestamps: Option<(u32, u32)>,
}

/// A segment without addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// TCP's flags, as in the header's octet 13.
    pub flags: u8,
    /// The window field, unscaled.
    pub window: u16,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// The data. It has two pieces because what we send comes from a ring; arriving data is all in
    /// the first.
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

/// One end of a connection. After any `handle_*`, `read`, `write`, `finish` or `abort`, call
/// [`Stream::transmit`], then check [`Stream::timeout`] and [`Stream::is_closed`].
#[derive(Debug)]
pub struct Stream {
    // The variables of RFC 9293, 3.3.1, under its names.
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

    /// From the client, in order and not yet read.
    received: VecDeque<u8>,
    /// Out-of-order data: sequence numbers and bytes.
    ahead: Vec<(u32, Vec<u8>)>,
    /// For the client, from `snd_una` on.
    unsent: VecDeque<u8>,
    client_fin: bool,
    /// Our FIN follows `unsent`.
    finishing: bool,
    fin_acked: bool,
    reset: Option<Reset>,

    cwnd: u32,
    ssthresh: u32,
    duplicates: u32,
    /// In fast recovery until this is acknowledged (RFC 6582, `recover`).
    recover: Option<u32>,
    /// The next `transmit` sends the segment at `snd_una`, whatever the windows allow.
    resend: bool,
    /// One byte may go beyond a closed window.
    probe: bool,
    ack_due: bool,

    rtt: Option<(Duration, Duration)>,
    rto: Duration,
    timer: Option<Duration>,
    /// The end and the time of the segment that is being timed; never one that was sent twice
    /// (Karn's algorithm).
    timed: Option<(u32, Duration)>,
    /// When the client last acknowledged something new, or had nothing left to acknowledge.
    moved_at: Duration,
}

/// RFC 7323, section 4.
#[derive(Clone, Copy, Debug)]
struct Timestamps {
    /// Our value at `since`; it counts milliseconds from there.
    ours: u32,
    since: Duration,
    /// TS.Recent.
    recent: u32,
}

/// A reset that ends the connection early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reset {
    /// We have to send a RST.
    Due,
    /// The client's RST has come, or ours is sent.
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

    /// Returns whether a segment with this sequence number can belong to this connection. It can if
    /// the number is within one receive buffer of the expected number, on either side.
    pub fn fits(&self, seq: u32) -> bool {
        let reach = RECEIVE_BUFFER as i32;
        (-reach..=reach).contains(&(seq.wrapping_sub(self.rcv_nxt) as i32))
    }

    /// Returns how much we can accept from the client.
    fn window(&self) -> u32 {
        (RECEIVE_BUFFER - self.received.len()) as u32
    }

    /// Sequence numbers that were sent and are not yet acknowledged.
    fn flight(&self) -> u32 {
        self.snd_max.wrapping_sub(self.snd_una)
    }

    /// Sequence numbers that were sent since the last timeout and are not yet acknowledged.
    fn outstanding(&self) -> u32 {
        self.snd_nxt.wrapping_sub(self.snd_una)
    }

    /// Returns the sequence number after everything that is to be sent.
    fn end(&self) -> u32 {
        let fin = self.finishing && !self.fin_acked;
        self.snd_una.wrapping_add(self.unsent.len() as u32).wrapping_add(u32::from(fin))
    }

    /// Returns the client's data, up to the end of the ring's first piece. Remove it with
    /// [`Stream::consume`].
    pub fn received(&self) -> &[u8] {
        self.received.as_slices().0
    }

    /// Removes the first `bytes` of [`Stream::received`], which opens the window.
    pub fn consume(&mut self, bytes: usize) {
        let closed = self.window() < self.mss;
        self.received.drain(..bytes);
        // RFC 9293, 3.8.6.2.2: tell the client as soon as a full segment fits.
        self.ack_due |= closed && self.window() >= self.mss;
    }

    /// Returns whether everything that the client will ever send has been read.
    pub fn client_finished(&self) -> bool {
        self.client_fin && self.received.is_empty()
    }

    /// Returns how many bytes [`Stream::write`] would accept.
    pub fn room(&self) -> usize {
        if self.finishing { 0 } else { SEND_BUFFER.saturating_sub(self.unsent.len()) }
    }

    /// Takes bytes of the server, at most [`Stream::room`] of them, and returns how many it took.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.unsent.extend(&bytes[..taken]);
        taken
    }

    /// Notes that the server has no more data: a FIN follows what was written.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Ends the connection with a RST.
    pub fn abort(&mut self) {
        self.reset.get_or_insert(Reset::Due);
    }

    /// Returns whether both FINs are acknowledged, or there was a reset.
    pub fn is_closed(&self) -> bool {
        self.reset == Some(Reset::Done) || self.fin_acked && self.client_fin && !self.ack_due
    }

    /// Returns whether the client has acknowledged our FIN.
    pub fn server_finished(&self) -> bool {
        self.fin_acked
    }
}

#[cfg(test)]
mod tests;
