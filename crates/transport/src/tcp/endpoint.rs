//! One end of a connection: its handshake, its two halves, and its close.
//!
//! Source: RFC 9293, 3.5 and 3.6; Linux 6.1 `tcp_rcv_synsent_state_process`, `tcp_rcv_established`,
//! `tcp_init_transfer`. Differences: there is no simultaneous open and no TIME-WAIT timer (a closed
//! end still acknowledges a repeated FIN). The passive end closes when it has read the other's FIN.
//!
//! The handshake and Fast Open are in `endpoint/handshake.rs`, ECN on SYN and SYN-ACK in
//! `handshake_ecn.rs`, connections without a handshake of this end in
//! `endpoint/without_handshake.rs`, and segments after the handshake in `endpoint/established.rs`.
//! They know the state of an end, but not its settings, which they get with the time.

mod established;
mod handshake;
mod without_handshake;

use alloc::sync::Arc;

use narrows_units::{Ecn, MaybeTime, Span, Time};

pub use self::without_handshake::Adopted;
use super::accurate_ecn::WHOLE_OPTION;
use super::clock::Context;
use super::handshake_ecn::HandshakeEcn;
use super::receiver::{Decision, Receiver};
use super::segment::Header;
use super::sender::{Half, Outgoing};
use super::{AccurateEcn, Config, Counters, Flags, SackBlocks, Segment, Seq};
use crate::prefetch::{Prefetch, Step};
use crate::{Closed, FlowSample};

/// One end of a connection.
///
/// Events go in with [`connect`](Self::connect), [`write`](Self::write), [`close`](Self::close),
/// [`handle_segment`](Self::handle_segment) and [`handle_timeout`](Self::handle_timeout). After
/// each of them, call [`poll_transmit`](Self::poll_transmit) at the same time until it returns
/// `None`. Then call [`next_timeout`](Self::next_timeout), because sending arms timers.
#[derive(Debug)]
#[repr(C)]
pub struct Endpoint {
    config: Arc<Config>,
    state: State,
}

/// The state of an end.
#[derive(Debug)]
#[repr(C)]
pub(super) struct State {
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
const _: () = assert!(size_of::<Endpoint>() <= 120);

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
    /// It takes no notice of what a SYN asks or shows.
    Ignores,
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
    /// Creates the end that will open the connection, with its initial sequence number. Endpoints
    /// can share their settings: pass an [`Arc`].
    pub fn client(config: impl Into<Arc<Config>>, isn: Seq) -> Self {
        Self::new(config.into(), isn, Phase::Closed)
    }

    /// Creates the end that waits for a SYN, with its initial sequence number.
    pub fn server(config: impl Into<Arc<Config>>, isn: Seq) -> Self {
        Self::new(config.into(), isn, Phase::Listen)
    }

    fn new(config: Arc<Config>, isn: Seq, phase: Phase) -> Self {
        let isn = if config.skip_handshake { Seq(0) } else { isn };
        let state = State {
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
            receiver: Receiver::new(&config),
            sender: Half::new(&config, isn + 1),
        };
        let mut endpoint = Self { config, state };
        if endpoint.config.skip_handshake && phase == Phase::Listen {
            let (state, cx) = endpoint.at(Time::ZERO);
            state.skip_handshake(&cx);
        }
        endpoint
    }

    /// Returns the state, and what a step of it at `now` needs.
    #[inline(always)]
    fn at(&mut self, now: Time) -> (&mut State, Context<'_>) {
        (&mut self.state, Context::new(&self.config, now))
    }

    /// Returns the settings.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Handles a router's message that the segment at `seq` was longer than a link's `mtu`
    /// (`tcp_v4_err`, `tcp_v4_mtu_reduced`).
    pub fn handle_too_big(&mut self, now: Time, seq: Seq, mtu: u16) {
        let (state, cx) = self.at(now);
        let options = if state.receiver.is_accurate() { WHOLE_OPTION } else { 0 };
        let mss = payload(mtu - IP_TCP_HEADERS, state.receiver.timestamps) - options;
        state.sender.handle_too_big(&cx, seq, mss);
    }

    /// Opens the connection: [`poll_transmit`](Self::poll_transmit) will return the SYN.
    pub fn connect(&mut self, now: Time) {
        let (state, cx) = self.at(now);
        if state.phase != Phase::Closed {
            return;
        }
        if cx.config.skip_handshake {
            state.skip_handshake(&cx);
        } else {
            state.phase = Phase::SynSent;
            state.send_syn(&cx);
        }
    }

    /// Uses Fast Open; call before [`connect`](Self::connect). The SYN asks for a cookie. Or it
    /// shows the one that this host has (`cookie`) and carries what is [written](Self::write)
    /// before it leaves.
    pub fn use_fast_open(&mut self, cookie: bool) {
        if self.state.phase == Phase::Closed {
            self.state.fast_open = if cookie { FastOpen::Shows } else { FastOpen::Asks };
        }
    }

    /// Lets the end that waits for a SYN ignore Fast Open, whatever its settings.
    pub fn ignore_fast_open(&mut self) {
        self.state.fast_open = FastOpen::Ignores;
    }

    /// Returns whether its first SYN shows a Fast Open cookie, and so carries data.
    pub fn shows_cookie(&self) -> bool {
        self.state.fast_open == FastOpen::Shows
    }

    /// Returns whether the other end accepted the data in the SYN.
    pub fn syn_data_taken(&self) -> bool {
        self.state.fast_open == FastOpen::Taken
    }

    /// Returns whether the other end gave a Fast Open cookie. Returns true only once.
    pub fn take_cookie(&mut self) -> bool {
        core::mem::take(&mut self.state.cookie_given)
    }

    /// Writes `bytes` bytes from the application.
    pub fn write(&mut self, now: Time, bytes: u64) {
        let (state, cx) = self.at(now);
        state.sender.write(&cx, bytes);
    }

    /// Lets the application write without end.
    pub fn write_forever(&mut self, now: Time) {
        self.write(now, u64::MAX);
    }

    /// Ends the data of [`write_forever`](Self::write_forever): what has not been sent by now is
    /// not written.
    pub fn end_forever(&mut self) {
        self.state.sender.end_forever();
    }

    /// Notes that the application has written its last byte; a FIN follows it.
    pub fn close(&mut self) {
        self.state.sender.close(&self.config);
    }

    /// Handles a segment that has arrived.
    #[inline]
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        let (state, cx) = self.at(now);
        if state.phase == Phase::Established {
            state.hear_report(&segment.header(), segment.accurate);
            state.handle_established(&cx, &segment.header(), segment.sack.as_slice());
        } else {
            state.handle_handshake(&cx, segment);
        }
    }

    /// Handles a segment as [`handle_segment`](Self::handle_segment) does. The segment must not be
    /// a SYN, and must have no SACK blocks.
    #[inline(always)]
    pub fn handle_plain(&mut self, now: Time, header: &Header) {
        let (state, cx) = self.at(now);
        if !state.take_predicted(&cx, header) {
            state.handle_unpredicted(&cx, header);
        }
    }

    /// Handles a deadline: fires every timer that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        let (state, cx) = self.at(now);
        if state.phase != Phase::Established {
            state.handle_syn_timeout(&cx);
            return;
        }
        state.receiver.handle_timeout(&cx, state.sender.rto());
        state.sender.handle_timeout(&cx);
    }

    /// Returns the next segment to be sent, if any.
    #[inline(never)]
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if !self.is_established() {
            let (state, cx) = self.at(now);
            let syn = state.poll_syn(&cx);
            if syn.is_some() || state.phase != Phase::FastOpened {
                return syn;
            }
        }
        let mut segment = Segment::from(self.poll_established(now)?);
        if self.has_options(segment.len) {
            (segment.sack, segment.accurate) = self.take_options(segment.len);
        }
        Some(segment)
    }

    /// Returns the next segment as [`poll_transmit`](Self::poll_transmit) does, but without the
    /// SACK blocks, and only after the handshake.
    #[inline(always)]
    pub fn poll_established(&mut self, now: Time) -> Option<Header> {
        let (state, cx) = self.at(now);
        let outgoing = state.next_outgoing(&cx)?;
        Some(state.header(&cx, outgoing))
    }

    /// Returns whether this end sends only acknowledgements.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.state.sender.is_silent()
    }

    /// Returns the next segment as [`poll_established`](Self::poll_established) does, for a silent
    /// end.
    #[inline(always)]
    pub fn poll_acknowledgement(&mut self, now: Time) -> Option<Header> {
        let (state, cx) = self.at(now);
        let owed = state.receiver.decide(&cx, state.sender.srtt_us()) == Decision::Send;
        owed.then(|| {
            let seq = state.sender.snd_nxt();
            state.header(&cx, Outgoing { seq, len: 0, flags: Flags(0), ecn: Ecn::NotEct })
        })
    }

    /// Returns whether an acknowledgement without data has to carry SACK blocks.
    #[inline]
    pub fn has_sack_blocks(&self) -> bool {
        self.state.receiver.has_sack_blocks()
    }

    /// Returns the SACK blocks of the acknowledgement that was just polled.
    #[cold]
    pub fn take_sack_blocks(&mut self) -> SackBlocks {
        self.state.receiver.take_sack_blocks()
    }

    /// Returns whether the segment of `len` bytes that was just polled has to carry
    /// [options](Self::take_options) besides timestamps.
    #[inline]
    pub fn has_options(&self, len: u16) -> bool {
        (len == 0 && self.has_sack_blocks()) || self.state.receiver.is_accurate()
    }

    /// Returns the SACK blocks and the AccECN option of the segment of `len` bytes that was just
    /// polled.
    #[cold]
    pub fn take_options(&mut self, len: u16) -> (SackBlocks, Option<AccurateEcn>) {
        // Data segments are full, so SACK blocks do not fit there.
        let mut sack = if len == 0 { self.take_sack_blocks() } else { SackBlocks::default() };
        let accurate = self.state.receiver.accurate_option(&mut sack);
        (sack, accurate)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has to be called, or `None` if it need
    /// not be.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.timer_at().min(self.state.sender.resumes_at()).get()
    }

    /// Returns when the next timer fires, without the pace. A caller that uses this also calls
    /// [`take_departure`](Self::take_departure) and [`resume`](Self::resume). Timers move often,
    /// and the pace ends once for each segment, so the two need not share an event.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        self.timer_at().get()
    }

    #[inline]
    fn timer_at(&self) -> MaybeTime {
        self.state.sender.deadline().min(self.state.receiver.deadline())
    }

    /// Returns when the next segment may leave, if only the pace holds it back. Returns each such
    /// time only once.
    #[inline]
    pub fn take_departure(&mut self) -> Option<Time> {
        self.state.sender.take_departure()
    }

    /// Goes on, if only the pace has held it back until now. Returns whether it did; then
    /// [`poll_transmit`](Self::poll_transmit) may return segments.
    #[inline]
    pub fn resume(&mut self, now: Time) -> bool {
        self.state.sender.resume(now)
    }

    /// Returns the payload bytes that the other end has acknowledged.
    #[inline]
    pub fn bytes_acked(&self) -> u64 {
        self.state.sender.bytes_acked()
    }

    /// Returns the payload bytes that arrived in order.
    #[inline]
    pub fn bytes_received(&self) -> u64 {
        self.state.receiver.bytes_received
    }

    /// Returns whether the handshake is complete. Stays true afterwards.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.state.phase == Phase::Established
    }

    /// Returns whether the application may read and write: the handshake is complete, or data came
    /// with the SYN.
    pub fn is_open(&self) -> bool {
        matches!(self.state.phase, Phase::Established | Phase::FastOpened)
    }

    /// Returns whether both directions are closed and acknowledged, or the connection was given up.
    pub fn is_closed(&self) -> bool {
        self.state.sender.is_failed()
            || (self.state.sender.is_fin_acked()
                && (self.state.receiver.fin_received || self.state.skipped()))
    }

    /// Returns whether the other end has closed its direction.
    pub fn is_peer_closed(&self) -> bool {
        self.state.receiver.fin_received
    }

    /// Returns whether the connection was given up: too many timeouts, or a reset.
    pub fn is_failed(&self) -> bool {
        self.state.sender.is_failed()
    }

    /// Returns why the connection was given up, or `None` if it was not.
    pub fn failure(&self) -> Option<Closed> {
        self.state.reset.or_else(|| self.is_failed().then_some(Closed::TimedOut))
    }

    /// Returns whether it still waits for a SYN.
    pub fn is_listening(&self) -> bool {
        self.state.phase == Phase::Listen
    }

    /// Drops the SYN-ACK's timer, because the SYN was answered with a cookie: nothing remembers to
    /// repeat the answer.
    pub fn forget_handshake(&mut self) {
        self.state.sender.repeat_syn_at(MaybeTime::NONE);
    }

    /// Lets the application decide when this end closes, even after the other end has.
    pub fn keep_open(&mut self) {
        self.state.closing = Closing::ByApplication;
    }

    /// Returns the window that it last offered, in bytes.
    pub fn offered_window(&self) -> u32 {
        self.state.receiver.window()
    }

    /// Returns the largest window that it could offer, in bytes.
    pub fn largest_window(&self) -> u32 {
        u32::from(u16::MAX) << self.state.receiver.scale()
    }

    /// Returns the sequence number of the next byte that its application writes (`write_seq`).
    pub fn write_seq(&self) -> Seq {
        self.state.sender.write_seq()
    }

    /// Returns the window scale that its SYN-ACK offers.
    pub fn window_scale(&self) -> u8 {
        self.state.receiver.scale()
    }

    /// Gives the connection up at once (RFC 9293, 3.10.5). Returns the segment that tells the other
    /// end, if that may know of the connection.
    pub fn abort(&mut self, now: Time) -> Option<Segment> {
        let known = !matches!(self.state.phase, Phase::Closed | Phase::Listen) && !self.is_failed();
        let (state, cx) = self.at(now);
        let outgoing =
            Outgoing { seq: state.sender.snd_nxt(), len: 0, flags: Flags::RST, ecn: Ecn::NotEct };
        let reset = known.then(|| Segment::from(state.header(&cx, outgoing)));
        state.sender.fail(&cx);
        reset
    }

    /// Returns whether everything written is acknowledged, including the FIN.
    pub fn all_acked(&self) -> bool {
        self.state.sender.is_done()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters {
            segments_sent: self.state.segments_sent,
            marks_received: u64::from(self.state.marks_received),
            ..Counters::default()
        };
        self.state.sender.count(&mut counters);
        counters
    }

    /// Returns what it knows about its window and its path.
    pub fn sample(&self) -> FlowSample {
        self.state.sender.sample(&self.config)
    }

    /// Returns how long this end had something to send or to be acknowledged after the handshake,
    /// up to `now` (`tcpi_busy_time`).
    pub fn busy(&self, now: Time) -> Span {
        self.state.sender.busy(now)
    }

    /// Returns for how much of this time nothing but the other end's window held it back
    /// (`tcpi_rwnd_limited`).
    pub fn rwnd_limited(&self, now: Time) -> Span {
        self.state.sender.rwnd_limited(now)
    }

    /// Returns the smoothed round-trip time, or `None` before the first sample.
    pub fn srtt(&self) -> Option<Span> {
        self.state.sender.srtt_us().map(|us| Span::from_us(u64::from(us)))
    }

    /// Returns the shortest round-trip time, or `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Span> {
        self.state.sender.min_rtt_us().map(|us| Span::from_us(u64::from(us)))
    }

    /// Returns the congestion window in segments.
    #[inline]
    pub fn cwnd(&self) -> u32 {
        self.state.sender.window(&self.config).cwnd
    }

    /// Returns the slow-start threshold in segments, or `None` if it is unbounded.
    pub fn ssthresh(&self) -> Option<u32> {
        let ssthresh = self.state.sender.window(&self.config).ssthresh;
        (ssthresh < crate::congestion::INFINITE_SSTHRESH).then_some(ssthresh)
    }

    /// Returns the pacing rate in bytes a second, or `None` if nothing but the windows holds
    /// segments back.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.state.sender.pacing_rate()
    }

    /// Returns the phase of a congestion control that has phases of its own (BBR).
    pub fn control_phase(&self) -> Option<&'static str> {
        self.state.sender.control_phase()
    }

    /// Returns whether both ends agreed on ECN.
    pub fn ecn_negotiated(&self) -> bool {
        self.state.phase == Phase::Established && self.state.receiver.ecn
    }

    /// Frees the memory for segments in flight, if there are none. Useful when the application
    /// falls silent.
    pub fn release_memory(&mut self) {
        self.state.sender.release_memory();
    }

    /// Returns the heap bytes used for segments in flight and for data out of order.
    pub fn heap_bytes(&self) -> usize {
        self.state.sender.heap_bytes() + self.state.receiver.heap_bytes()
    }

    /// Panics if the state contradicts itself. For tests.
    pub fn check_invariants(&self) {
        if self.state.phase == Phase::Established {
            self.state.sender.check_invariants();
        }
    }
}

impl State {
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
            Step::First => self.state.segments_sent as u32 ^ self.state.receiver.prefetch((), step),
            Step::Second | Step::Third => 0,
        };
        own ^ self.state.sender.prefetch((), step)
    }
}
