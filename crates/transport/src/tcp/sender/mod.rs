//! The sending half of an endpoint. It behaves like Linux 6.1.
//!
//! This file holds its state, how it starts, and what others read of it. Each mechanism that
//! changes the state has a file of its own.
//!
//! Differences, each kept small on purpose:
//!
//! - Segments are not split or joined; a record is a packet. The reference test beds turn offload
//!   off. With `segmentation_offload`, a sender that paces sends several segments at once.
//! - There are no TCP small queues, because there is no queue between an endpoint and its caller.
//! - There is no metrics cache between connections, no MTU probing, no thin-stream timeout and no
//!   urgent data.
//! - The send buffer is unlimited. PSH is set where the application's data end, and while windows
//!   are small also before (`forced_push`), as if the application wrote 64 KiB at a time.
//! - A receiver never takes back what it has SACKed. If the scoreboard suggests that it did, it is
//!   repaired only at the timeout.

mod accurate;
mod ack;
mod chrono;
mod classic;
mod cwnd;
mod detection;
mod episode;
mod flow_sample;
mod frto;
mod half;
mod output;
mod own;
mod pace;
mod path_mtu;
mod rack;
mod recovery;
mod reduction;
mod reports;
mod rto;
mod rtt;
mod sack;
mod scoreboard;
mod tlp;
mod undo;
mod unsent;

use alloc::boxed::Box;
use core::num::NonZeroU32;

use narrows_units::{Ecn, MaybeTime, Span, Time};

use self::accurate::Accurate;
use self::chrono::Stopwatch;
use self::episode::Undo;
use self::rack::Rack;
use self::rtt::Rtt;
use self::scoreboard::Scoreboard;
use self::unsent::Unsent;
use super::clock::Context;
use super::congestion::Control;
use super::{Config, Congestion, Recovery, Seq};
use crate::congestion::{Pace, State, Window};
use crate::prefetch::{Prefetch, Step};
pub(super) use half::{Half, Silent};
pub(super) use output::Outgoing;

/// What the retransmission timer waits for (`icsk_pending`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Timer {
    #[default]
    Idle,
    /// `ICSK_TIME_RETRANS`.
    Retransmission,
    /// `ICSK_TIME_LOSS_PROBE`.
    LossProbe,
    /// `ICSK_TIME_REO_TIMEOUT`.
    Reordering,
    /// `ICSK_TIME_PROBE0`.
    Persist,
}

/// The sending half. The most-used fields come first, and memory has them in this order.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Sender {
    // Used for every acknowledgement and every segment.
    pub snd_una: Seq,
    pub snd_nxt: Seq,
    snd_wnd: u32,
    snd_wl1: Seq,
    pub window: Window,
    packets_out: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// Steps that `poll` has to take, as bits of `todo`.
    todo: u8,
    state: State,
    timer: Timer,
    /// The number of timeouts of the same segment.
    retransmits: u8,
    /// The payload bytes of a full segment.
    pub mss: u16,
    pub peer_scale: u8,
    pub sack: bool,
    rtt: Rtt,
    delivered: u32,
    /// Pacing; `None`: segments leave as fast as the windows allow.
    pace: Option<Box<Pace>>,
    /// When the timer fires.
    timer_at: MaybeTime,
    board: Scoreboard,
    unsent: Unsent,
    pub bytes_acked: u64,
    probe: Option<Probe>,
    last_sent_us: u32,
    cwnd_usage_seq: Seq,
    max_packets_out: u32,
    cwnd_used: u32,
    cwnd_stamp_us: u32,
    small_end: Seq,
    high_seq: Seq,
    /// Runs while there is something to send or to be acknowledged (`TCP_CHRONO_BUSY`).
    busy: Stopwatch,
    /// Runs while nothing but the receiver's window holds it back (`TCP_CHRONO_RWND_LIMITED`).
    rwnd_limited: Stopwatch,
    /// The segments that duplicate acknowledgements add to the window (classic).
    inflation: u16,
    /// Consecutive duplicate acknowledgements, up to 255 (classic).
    dupacks: u8,
    /// New segments since `poll` began a burst, up to 255.
    burst: u8,
    cwnd_limited: bool,
    fin_queued: bool,
    fin_sent: bool,
    /// The ECN field of new data; Not-ECT without ECN.
    pub ect: Ecn,
    queue_cwr: bool,
    frto: bool,
    /// Whether the SYN-ACK is not yet acknowledged, so that the timer serves it (Fast Open).
    unconfirmed: bool,
    /// Whether the connection was given up.
    pub failed: bool,
    // What only some settings need.
    /// Segments marked lost, retransmissions included.
    lost: u32,
    rack: Rack,
    highest_sack: Seq,
    // Needed only after trouble.
    undo: Undo,
    reduction: Reduction,
    retransmit_hint: u32,
    dsack_dups: u32,
    control: Control,
    /// The counters of Accurate ECN, if both ends use it.
    accurate: Option<Box<Accurate>>,
    /// Its counters; `None`: nothing has happened that they count.
    tally: Option<Box<Tally>>,
}

// A flow with everything that belongs to it takes about 1000 bytes.
const _: () = assert!(size_of::<Sender>() <= 368);

/// The state of a proportional rate reduction (RFC 6937, section 3).
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    /// The window before it, in segments, in place of RecoverFS. An undo needs it, too.
    pub prior_cwnd: u32,
    /// prr_delivered, in segments.
    delivered: u32,
    /// prr_out, in segments.
    pub sent: u32,
}

/// A tail loss probe that is not answered yet (RFC 8985, 7.1).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// TLP.end_seq: `snd_nxt` when it was sent.
    pub end: Seq,
    /// TLP.is_retrans: whether it repeated the last segment, because there were no new data.
    pub is_retransmission: bool,
}

/// Bits of `todo`.
mod todo {
    /// Retransmit the first segment, whatever the window allows (timeout, fast retransmit).
    pub(super) const HEAD: u8 = 1;
    /// Send a tail loss probe.
    pub(super) const PROBE: u8 = 2;
    /// Send F-RTO's two new segments before any retransmission.
    pub(super) const NEW_FIRST: u8 = 4;
    /// Retransmit lost segments, as far as the window allows.
    pub(super) const RETRANSMIT: u8 = 8;
    /// Send new data, as far as the windows allow.
    pub(super) const NEW: u8 = 16;
    /// Probe a closed window.
    pub(super) const PERSIST: u8 = 32;
}

impl Sender {
    pub(super) fn new(config: &Config, first: Seq) -> Self {
        Self {
            snd_una: first,
            snd_nxt: first,
            snd_wnd: 0,
            snd_wl1: Seq::default(),
            window: Window::new(config.initial_window, config.initial_ssthresh),
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            todo: 0,
            state: State::Open,
            timer: Timer::Idle,
            retransmits: 0,
            mss: config.mss,
            peer_scale: 0,
            sack: false,
            pace: config.paces().then(|| Box::new(Pace::new(config.congestion.models_path()))),
            timer_at: MaybeTime::NONE,
            board: Scoreboard::default(),
            unsent: Unsent::default(),
            bytes_acked: 0,
            rtt: Rtt::new(first),
            delivered: 1,
            lost: 0,
            cwnd_usage_seq: first,
            max_packets_out: 0,
            cwnd_used: 0,
            cwnd_stamp_us: 0,
            last_sent_us: 0,
            burst: 0,
            rack: Rack::default(),
            busy: Stopwatch::default(),
            rwnd_limited: Stopwatch::default(),
            cwnd_limited: false,
            fin_queued: false,
            fin_sent: false,
            ect: Ecn::NotEct,
            queue_cwr: false,
            frto: false,
            unconfirmed: false,
            failed: false,
            highest_sack: first,
            small_end: first,
            high_seq: Seq(first.0.wrapping_sub(1)),
            undo: Undo::default(),
            reduction: Reduction::default(),
            probe: None,
            retransmit_hint: 0,
            dsack_dups: 0,
            dupacks: 0,
            inflation: 0,
            control: Control::new(config, first),
            accurate: None,
            tally: None,
        }
    }

    /// Starts sending: the connection is established (`tcp_init_transfer`).
    pub(super) fn start(&mut self, config: &Config, start: Start) {
        let cx = &Context::new(config, start.at);
        self.mss = start.mss;
        self.peer_scale = start.peer_scale;
        self.sack = start.sack && cx.config.recovery == Recovery::Sack;
        (self.ect, self.accurate) = match start.ecn {
            Negotiated::Nothing => (Ecn::NotEct, None),
            Negotiated::Classic => (Ecn::Ect0, None),
            Negotiated::Accurate(ace) => (config.ect(), Some(Accurate::new(ace))),
        };
        if config.congestion == Congestion::Prague && self.accurate.is_none() {
            // Without exact counts it must not be Prague.
            self.control = Control::Reno(None);
        }
        self.snd_wnd = start.window;
        self.snd_wl1 = start.peer_seq;
        self.last_sent_us = cx.us;
        self.cwnd_stamp_us = cx.us;
        let rtt_us = start.rtt_us.map(NonZeroU32::get);
        match rtt_us {
            Some(rtt_us) => self.take_rtt_sample(cx, rtt_us),
            None if start.handshake_lost => {
                // RFC 6298 (5.7): back to 3 s if the handshake gave no sample.
                let fallback = FALLBACK_RTO.max(cx.config.initial_rto);
                self.rtt.rto = cx.span_to_jiffies(fallback);
            }
            None => self.rtt.rto = cx.span_to_jiffies(cx.config.initial_rto),
        }
        if start.restart_window {
            self.window.cwnd = 1;
        }
        self.control.start(cx.us, self.snd_nxt);
        self.start_pace(cx);
        self.todo |= todo::NEW;
    }

    /// Lets data leave before the SYN-ACK is acknowledged. The SYN-ACK is repeated at `syn_at`.
    fn await_confirmation(&mut self, syn_at: MaybeTime) {
        self.unconfirmed = true;
        self.repeat_syn_at(syn_at);
    }

    /// Sets when to repeat the SYN-ACK. Nothing else is sent again before it.
    fn repeat_syn_at(&mut self, at: MaybeTime) {
        (self.timer, self.timer_at) = (Timer::Retransmission, at);
    }

    /// Notes that the SYN-ACK is acknowledged (`tcp_rcv_synrecv_state_fastopen`): the timer now
    /// serves the data.
    fn confirm(&mut self, cx: &Context, rtt_us: Option<NonZeroU32>) {
        self.unconfirmed = false;
        if let Some(rtt_us) = rtt_us {
            self.take_rtt_sample(cx, rtt_us.get());
        }
        self.rearm_rto(cx);
    }

    /// Returns the counters.
    fn counted(&self) -> Tally {
        self.tally.as_deref().copied().unwrap_or_default()
    }

    /// Returns the counters, to count something.
    fn tally(&mut self) -> &mut Tally {
        self.tally.get_or_insert_default()
    }

    /// Returns whether everything written is acknowledged, including the FIN.
    pub(super) fn is_done(&self) -> bool {
        self.unsent.is_empty() && self.board.is_empty() && (!self.fin_queued || self.fin_sent)
    }

    /// Returns whether our FIN is acknowledged; without FINs, whether everything is acknowledged
    /// after `close`.
    pub(super) fn is_fin_acked(&self) -> bool {
        self.fin_queued && self.is_done()
    }

    /// Returns whether our FIN has been sent.
    pub(super) fn is_fin_sent(&self) -> bool {
        self.fin_sent
    }

    #[inline]
    pub(super) fn deadline(&self) -> MaybeTime {
        self.timer_at
    }

    /// Returns how long there was something to send or to be acknowledged, up to `now`
    /// (`tcpi_busy_time`).
    pub(crate) fn busy(&self, now: Time) -> Span {
        self.busy.read(now)
    }

    /// Returns how long nothing but the receiver's window held it back, up to `now`
    /// (`tcpi_rwnd_limited`).
    pub(crate) fn rwnd_limited(&self, now: Time) -> Span {
        self.rwnd_limited.read(now)
    }

    /// `tcp_packets_in_flight`.
    #[inline]
    fn in_flight(&self) -> u32 {
        (self.packets_out + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    /// `tcp_is_sack`, for this endpoint's purposes.
    #[inline]
    fn uses_sack(&self, cx: &Context) -> bool {
        debug_assert!(!self.sack || cx.config.recovery == Recovery::Sack);
        self.sack
    }

    /// `tcp_is_rack`.
    #[inline]
    fn uses_rack(&self, cx: &Context) -> bool {
        cx.config.rack && self.uses_sack(cx)
    }

    /// `tcp_in_cwnd_reduction`.
    #[inline]
    fn in_reduction(&self) -> bool {
        matches!(self.state, State::Cwr | State::Recovery)
    }

    /// `tp->reordering`: how many segments may overtake one before that is a sign of loss.
    #[inline]
    fn reordering(&self) -> u32 {
        self.rack.reordering.into()
    }

    fn set_reordering(&mut self, segments: u32) {
        self.rack.reordering = segments.min(MOST_REORDERING.into()) as u16;
    }

    /// `inet_csk_reset_xmit_timer`.
    #[inline]
    fn arm(&mut self, cx: &Context, timer: Timer, jiffies: u32) {
        self.timer = timer;
        self.timer_at = cx.deadline(cx.bounded_timeout(jiffies)).into();
    }

    /// `tcp_reset_xmit_timer`: the timer waits for the pace as well, in whole jiffies.
    #[inline]
    fn arm_for_sending(&mut self, cx: &Context, timer: Timer, jiffies: u32) {
        let ahead = match &self.pace {
            None => 0,
            Some(pace) => pace.ahead_us(cx.now) / cx.tick_us(),
        };
        self.arm(cx, timer, jiffies.saturating_add(ahead));
    }

    #[inline]
    fn disarm(&mut self) {
        self.timer = Timer::Idle;
        self.timer_at = MaybeTime::NONE;
    }

    /// Panics if something that must hold between any two calls does not (`tcp_verify_left_out` and
    /// more).
    pub(super) fn check_invariants(&self) {
        use self::scoreboard::{LOST, RETRANSMITTED, SACKED};
        let (mut sacked, mut lost, mut retransmitted) = (0, 0, 0);
        let mut position = self.board.head();
        while position != self.board.tail() {
            let record = self.board.at(position);
            sacked += u32::from(record.has(SACKED));
            lost += u32::from(record.has(LOST));
            retransmitted += u32::from(record.has(RETRANSMITTED));
            assert!(!(record.has(SACKED) && record.has(LOST)), "a segment is SACKed and lost");
            position = position.wrapping_add(1);
        }
        assert_eq!(self.packets_out, self.board.len(), "packets_out");
        assert_eq!(self.lost_out, lost, "lost_out");
        assert_eq!(self.retrans_out, retransmitted, "retrans_out");
        if self.sack {
            assert_eq!(self.sacked_out, sacked, "sacked_out");
        }
        assert!(self.sacked_out + self.lost_out <= self.packets_out, "left_out");
        assert!(self.window.cwnd >= 1, "the window is never empty");
        let rates = self.pace.as_ref().and_then(|pace| pace.rates.as_ref());
        let timed = rates.map_or(self.packets_out as usize, |rates| rates.in_flight());
        assert_eq!(timed, self.packets_out as usize, "rate samples of what is in flight");
        assert!(!self.snd_nxt.before(self.snd_una), "snd_una <= snd_nxt");
        assert!(
            self.board.is_empty() || self.timer != Timer::Idle || self.failed,
            "what is in flight is watched by a timer"
        );
    }

    /// Returns the heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        let pace = self.pace.as_ref().map_or(0, |pace| pace.heap_bytes());
        let tally = self.tally.as_ref().map_or(0, |_| size_of::<Tally>());
        self.board.heap_bytes() + pace + tally
    }
}

/// The counters of a sender (see [`Counters`](super::Counters)).
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    retransmitted: u32,
    timeouts: u32,
    fast_recoveries: u32,
    ecn_reductions: u32,
    tail_probes: u32,
    undos: u32,
    spurious_timeouts: u32,
}

/// The use of ECN that the handshake has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Negotiated {
    #[default]
    Nothing,
    /// With the feedback of RFC 3168.
    Classic,
    /// With that of RFC 9768. It has the counter of marked packets that was reported last.
    Accurate(u8),
}

/// The results of the handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    /// When the connection was established.
    pub at: Time,
    pub mss: u16,
    pub peer_scale: u8,
    pub sack: bool,
    pub ecn: Negotiated,
    pub window: u32,
    pub peer_seq: Seq,
    /// The round trip that the handshake measured.
    pub rtt_us: Option<NonZeroU32>,
    /// Whether the SYN or SYN-ACK had to be repeated.
    pub handshake_lost: bool,
    /// Whether it had to be repeated twice, so that the path counts as bad.
    pub restart_window: bool,
}

/// `sysctl_tcp_max_reordering`.
const MOST_REORDERING: u16 = 300;
/// `TCP_TIMEOUT_FALLBACK`.
const FALLBACK_RTO: Span = Span::from_secs(3);
/// `TCP_TIMEOUT_MIN_US`: the time that RACK's timer and the tail loss probe's add to a round trip.
const SLACK_US: u32 = 2_000;

/// Reads ahead what an acknowledgement and a new segment need: a field of each cache line, and then
/// the scoreboard.
impl Prefetch for Sender {
    #[inline(always)]
    fn prefetch(&self, (): (), step: Step) -> u32 {
        match step {
            Step::First => {
                self.snd_una.0
                    ^ self.rtt.rto
                    ^ u32::from(self.burst)
                    ^ u32::from(self.probe.is_some())
            }
            Step::Second | Step::Third => self.board.prefetch((), step),
        }
    }
}

#[cfg(test)]
mod tests;
