//! One end of a connection: its handshake, its two halves, and its close.
//!
//! Source: RFC 9293, 3.5 and 3.6; Linux 6.1 `tcp_rcv_synsent_state_process`, `tcp_rcv_established`,
//! `tcp_init_transfer`. Differences: there is no simultaneous open and no TIME-WAIT timer (a closed
//! end still acknowledges a repeated FIN). The passive end closes when it has read the other's FIN.
//!
//! The handshake and Fast Open are in `endpoint/handshake.rs`, ECN on SYN and SYN-ACK in
//! `handshake_ecn.rs`, connections without a handshake of this end in
//! `endpoint/without_handshake.rs`, and segments after the handshake in `endpoint/established.rs`.

mod established;
mod handshake;
mod without_handshake;

use narrows_units::{MaybeTime, Span, Time};

pub use self::without_handshake::Adopted;
use super::clock::Context;
use super::handshake_ecn::HandshakeEcn;
use super::receiver::{Decision, Receiver};
use super::segment::Header;
use super::sender::{Half, Outgoing};
use super::{Config, Counters, Flags, SackBlocks, Segment, Seq};
use crate::Closed;
use crate::prefetch::{Prefetch, Step};

/// One end of a connection.
///
/// Events go in with [`connect`](Self::connect), [`write`](Self::write), [`close`](Self::close),
/// [`handle_segment`](Self::handle_segment) and [`handle_timeout`](Self::handle_timeout). After
/// each of them, call [`poll_transmit`](Self::poll_transmit) at the same time until it returns
/// `None`. Then call [`next_timeout`](Self::next_timeout), because sending arms timers. Pass the
/// same [`Config`] to every call.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Endpoint {
    pub(super) phase: Phase,
    /// Whether the SYN or SYN-ACK has to be sent.
    pub(super) syn_due: bool,
    pub(super) syn_retries: u8,
    closing: Closing,
    fast_open: FastOpen,
    /// Whether the SYN-ACK gave a cookie that nobody has taken yet.
    cookie_given: bool,
    pub(super) handshake_ecn: HandshakeEcn,
    /// Set if the other end has reset or refused the connection.
    reset: Option<Closed>,
    /// When the SYN or SYN-ACK was first sent.
    syn_sent_us: u32,
    marks_received: u32,
    segments_sent: u64,
    pub(super) receiver: Receiver,
    pub(super) sender: Half,
}

// Every flow has two endpoints.
const _: () = assert!(size_of::<Endpoint>() <= 160);

/// The state of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before `connect`.
    Closed,
    /// Waits for a SYN.
    Listen,
    SynSent,
    SynReceived,
    /// The SYN had the right cookie: data may flow, although the SYN-ACK is not yet acknowledged.
    FastOpened,
    /// Data may flow. The FINs show whether the connection is closing.
    Established,
}

/// The part that this end takes in Fast Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FastOpen {
    Off,
    /// Its first SYN asks for a cookie.
    Asks,
    /// Its first SYN shows a cookie, and carries data.
    Shows,
    /// The other end accepted these data.
    Taken,
    /// Its SYN-ACK gives a cookie.
    Gives,
}

/// What an end does when the other end has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    /// It closes too.
    WithPeer,
    /// Its application decides when to close.
    ByApplication,
}

impl Endpoint {
    /// Creates the end that will open the connection, with its initial sequence number.
    pub fn client(config: &Config, isn: Seq) -> Self {
        Self::new(config, isn, Phase::Closed)
    }

    /// Creates the end that waits for a SYN, with its initial sequence number.
    pub fn server(config: &Config, isn: Seq) -> Self {
        Self::new(config, isn, Phase::Listen)
    }

    fn new(config: &Config, isn: Seq, phase: Phase) -> Self {
        let isn = if config.skip_handshake { Seq(0) } else { isn };
        let mut endpoint = Self {
            phase,
            syn_due: false,
            syn_retries: 0,
            closing: Closing::WithPeer,
            fast_open: FastOpen::Off,
            cookie_given: false,
            handshake_ecn: HandshakeEcn::Nothing,
            reset: None,
            syn_sent_us: 0,
            marks_received: 0,
            segments_sent: 0,
            receiver: Receiver::new(config),
            sender: Half::new(config, isn + 1),
        };
        if config.skip_handshake && phase == Phase::Listen {
            endpoint.skip_handshake(&Context::new(config, Time::ZERO));
        }
        endpoint
    }

    /// Handles a router's message that the segment at `seq` was longer than a link's `mtu`
    /// (`tcp_v4_err`, `tcp_v4_mtu_reduced`).
    pub fn handle_too_big(&mut self, cx: &Context, seq: Seq, mtu: u16) {
        let mss = payload(mtu - IP_TCP_HEADERS, self.receiver.timestamps);
        self.sender.handle_too_big(cx, seq, mss);
    }

    /// Opens the connection: [`poll_transmit`](Self::poll_transmit) will return the SYN.
    pub fn connect(&mut self, config: &Config, now: Time) {
        if self.phase != Phase::Closed {
            return;
        }
        let cx = Context::new(config, now);
        if config.skip_handshake {
            self.skip_handshake(&cx);
        } else {
            self.phase = Phase::SynSent;
            self.send_syn(&cx);
        }
    }

    /// Uses Fast Open; call before [`connect`](Self::connect). The SYN asks for a cookie. Or it
    /// shows the one that this host has (`cookie`) and carries what is [written](Self::write)
    /// before it leaves.
    pub fn use_fast_open(&mut self, cookie: bool) {
        if self.phase == Phase::Closed {
            self.fast_open = if cookie { FastOpen::Shows } else { FastOpen::Asks };
        }
    }

    /// Returns whether its first SYN shows a Fast Open cookie, and so carries data.
    pub fn shows_cookie(&self) -> bool {
        self.fast_open == FastOpen::Shows
    }

    /// Returns whether the other end accepted the data in the SYN.
    pub fn syn_data_taken(&self) -> bool {
        self.fast_open == FastOpen::Taken
    }

    /// Returns whether the other end gave a Fast Open cookie. Returns true only once.
    pub fn take_cookie(&mut self) -> bool {
        core::mem::take(&mut self.cookie_given)
    }

    /// Writes `bytes` bytes from the application.
    pub fn write(&mut self, config: &Config, now: Time, bytes: u64) {
        self.sender.write(&Context::new(config, now), bytes);
    }

    /// Lets the application write without end.
    pub fn write_forever(&mut self, config: &Config, now: Time) {
        self.sender.write(&Context::new(config, now), u64::MAX);
    }

    /// Ends the data of [`write_forever`](Self::write_forever): what has not been sent by now is
    /// not written.
    pub fn end_forever(&mut self) {
        self.sender.end_forever();
    }

    /// Notes that the application has written its last byte; a FIN follows it.
    pub fn close(&mut self, config: &Config, now: Time) {
        let _ = now;
        self.sender.close(config);
    }

    /// Handles a segment that has arrived.
    #[inline]
    pub fn handle_segment(&mut self, config: &Config, now: Time, segment: &Segment) {
        let cx = Context::new(config, now);
        if self.phase == Phase::Established {
            self.handle_established(&cx, &segment.header(), segment.sack.as_slice());
        } else {
            self.handle_handshake(&cx, segment);
        }
    }

    /// Handles a segment as [`handle_segment`](Self::handle_segment) does. The segment must not be
    /// a SYN, and must have no SACK blocks.
    #[inline(always)]
    pub fn handle_plain(&mut self, cx: &Context, header: &Header) {
        if !self.take_predicted(cx, header) {
            self.handle_unpredicted(cx, header);
        }
    }

    /// Handles a deadline: fires every timer that is due.
    pub fn handle_timeout(&mut self, config: &Config, now: Time) {
        let cx = Context::new(config, now);
        if self.phase != Phase::Established {
            self.handle_syn_timeout(&cx);
            return;
        }
        self.receiver.handle_timeout(&cx, self.sender.rto());
        self.sender.handle_timeout(&cx);
    }

    /// Returns the next segment to be sent, if any.
    #[inline(never)]
    pub fn poll_transmit(&mut self, config: &Config, now: Time) -> Option<Segment> {
        if !self.is_established() {
            let syn = self.poll_syn(&Context::new(config, now));
            if syn.is_some() || self.phase != Phase::FastOpened {
                return syn;
            }
        }
        let mut segment = Segment::from(self.poll_established(&Context::new(config, now))?);
        // Data segments are full, so SACK blocks do not fit there.
        if segment.len == 0 && self.has_sack_blocks() {
            segment.sack = self.take_sack_blocks();
        }
        Some(segment)
    }

    /// Returns the next segment as [`poll_transmit`](Self::poll_transmit) does, but without the
    /// SACK blocks, and only after the handshake.
    #[inline(always)]
    pub fn poll_established(&mut self, cx: &Context) -> Option<Header> {
        let outgoing = self.next_outgoing(cx)?;
        Some(self.header(cx, outgoing))
    }

    /// Returns whether this end sends only acknowledgements.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.sender.is_silent()
    }

    /// Returns the next segment as [`poll_established`](Self::poll_established) does, for a silent
    /// end.
    #[inline(always)]
    pub fn poll_acknowledgement(&mut self, cx: &Context) -> Option<Header> {
        let owed = self.receiver.decide(cx, self.sender.srtt_us()) == Decision::Send;
        owed.then(|| {
            let seq = self.sender.snd_nxt();
            self.header(cx, Outgoing { seq, len: 0, flags: Flags(0), ect: false })
        })
    }

    /// Returns whether an acknowledgement without data has to carry SACK blocks.
    #[inline]
    pub fn has_sack_blocks(&self) -> bool {
        self.receiver.has_sack_blocks()
    }

    /// Returns the SACK blocks of the acknowledgement that was just polled.
    #[cold]
    pub fn take_sack_blocks(&mut self) -> SackBlocks {
        self.receiver.take_sack_blocks()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has to be called, or `None` if it need
    /// not be.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.sender.deadline().min(self.receiver.deadline()).get()
    }

    /// Returns the payload bytes that the other end has acknowledged.
    #[inline]
    pub fn bytes_acked(&self) -> u64 {
        self.sender.bytes_acked()
    }

    /// Returns the payload bytes that arrived in order.
    #[inline]
    pub fn bytes_received(&self) -> u64 {
        self.receiver.bytes_received
    }

    /// Returns whether the handshake is complete. Stays true afterwards.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Returns whether the application may read and write: the handshake is complete, or data came
    /// with the SYN.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Established | Phase::FastOpened)
    }

    /// Returns whether both directions are closed and acknowledged, or the connection was given up.
    pub fn is_closed(&self) -> bool {
        self.sender.is_failed()
            || (self.sender.is_fin_acked() && (self.receiver.fin_received || self.skipped()))
    }

    /// Returns whether the other end has closed its direction.
    pub fn is_peer_closed(&self) -> bool {
        self.receiver.fin_received
    }

    /// Returns whether the connection was given up: too many timeouts, or a reset.
    pub fn is_failed(&self) -> bool {
        self.sender.is_failed()
    }

    /// Returns why the connection was given up, or `None` if it was not.
    pub fn failure(&self) -> Option<Closed> {
        self.reset.or_else(|| self.is_failed().then_some(Closed::TimedOut))
    }

    /// Returns whether it still waits for a SYN.
    pub fn is_listening(&self) -> bool {
        self.phase == Phase::Listen
    }

    /// Drops the SYN-ACK's timer, because the SYN was answered with a cookie: nothing remembers to
    /// repeat the answer.
    pub fn forget_handshake(&mut self) {
        self.sender.repeat_syn_at(MaybeTime::NONE);
    }

    /// Lets the application decide when this end closes, even after the other end has.
    pub fn keep_open(&mut self) {
        self.closing = Closing::ByApplication;
    }

    /// Returns the window that it last offered, in bytes.
    pub fn offered_window(&self) -> u32 {
        self.receiver.window()
    }

    /// Returns the largest window that it could offer, in bytes.
    pub fn largest_window(&self) -> u32 {
        u32::from(u16::MAX) << self.receiver.scale()
    }

    /// Returns the sequence number of the next byte that its application writes (`write_seq`).
    pub fn write_seq(&self) -> Seq {
        self.sender.write_seq()
    }

    /// Returns the window scale that its SYN-ACK offers.
    pub fn window_scale(&self) -> u8 {
        self.receiver.scale()
    }

    /// Gives the connection up at once (RFC 9293, 3.10.5). Returns the segment that tells the other
    /// end, if that may know of the connection.
    pub fn abort(&mut self, cx: &Context) -> Option<Segment> {
        let known = !matches!(self.phase, Phase::Closed | Phase::Listen) && !self.is_failed();
        let outgoing =
            Outgoing { seq: self.sender.snd_nxt(), len: 0, flags: Flags::RST, ect: false };
        let reset = known.then(|| Segment::from(self.header(cx, outgoing)));
        self.sender.fail(cx);
        reset
    }

    /// Returns whether everything written is acknowledged, including the FIN.
    pub fn all_acked(&self) -> bool {
        self.sender.is_done()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters {
            segments_sent: self.segments_sent,
            marks_received: u64::from(self.marks_received),
            ..Counters::default()
        };
        self.sender.count(&mut counters);
        counters
    }

    /// Returns how long this end had something to send or to be acknowledged after the handshake,
    /// up to `now` (`tcpi_busy_time`).
    pub fn busy(&self, now: Time) -> Span {
        self.sender.busy(now)
    }

    /// Returns for how much of this time nothing but the other end's window held it back
    /// (`tcpi_rwnd_limited`).
    pub fn rwnd_limited(&self, now: Time) -> Span {
        self.sender.rwnd_limited(now)
    }

    /// Returns the smoothed round-trip time, or `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        self.sender.srtt_us().map(|us| Span::from_us(u64::from(us)))
    }

    /// Returns the shortest round-trip time, or `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Span> {
        self.sender.min_rtt_us().map(|us| Span::from_us(u64::from(us)))
    }

    /// Returns the congestion window in segments.
    #[inline]
    pub fn cwnd(&self) -> u32 {
        self.sender.cwnd()
    }

    /// Returns the slow-start threshold in segments, or `None` if it is unbounded.
    pub fn ssthresh(&self) -> Option<u32> {
        let ssthresh = self.sender.ssthresh();
        (ssthresh < super::congestion::INFINITE_SSTHRESH).then_some(ssthresh)
    }

    /// Returns whether both ends agreed on ECN.
    pub fn ecn_negotiated(&self) -> bool {
        self.phase == Phase::Established && self.receiver.ecn
    }

    /// Frees the memory for segments in flight, if there are none. Useful when the application
    /// falls silent.
    pub fn release_memory(&mut self) {
        self.sender.release_memory();
    }

    /// Returns the heap bytes used for segments in flight and for data out of order.
    pub fn heap_bytes(&self) -> usize {
        self.sender.heap_bytes() + self.receiver.heap_bytes()
    }

    /// Panics if the state contradicts itself. For tests.
    pub fn check_invariants(&self) {
        if self.phase == Phase::Established {
            self.sender.check_invariants();
        }
    }

    #[cold]
    fn fail_by(&mut self, cx: &Context, why: Closed) {
        self.reset = Some(why);
        self.sender.fail(cx);
    }
}

/// Returns the payload of a full segment: the timestamps option takes 12 bytes.
fn payload(mss: u16, timestamps: bool) -> u16 {
    mss - if timestamps { 12 } else { 0 }
}

/// The IPv4 and TCP headers without options.
const IP_TCP_HEADERS: u16 = 40;

/// Reads ahead what a segment needs.
impl Prefetch for Endpoint {
    #[inline(always)]
    fn prefetch(&self, (): (), step: Step) -> u32 {
        let own = match step {
            Step::First => self.segments_sent as u32 ^ self.receiver.prefetch((), step),
            Step::Second | Step::Third => 0,
        };
        own ^ self.sender.prefetch((), step)
    }
}
