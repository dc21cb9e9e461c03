//! The handshake of an end: SYN, SYN-ACK, their options, and Fast Open.
//!
//! Fast Open (RFC 7413; Linux 6.1 `tcp_send_syn_data`, `tcp_rcv_fastopen_synack`,
//! `tcp_fastopen_create_child`, `tcp_rcv_synrecv_state_fastopen`): the first SYN asks for a cookie,
//! or shows one and carries data; a repeated SYN does neither. A listener that accepts the data may
//! send its own before the handshake is complete. As in Linux 6.1 with its defaults, the loss of a
//! SYN with data does not keep the next connection from trying again
//! (`tcp_fastopen_blackhole_timeout_sec = 0`). Linux's limit of such connections per listener, and
//! its second attempt with the experimental option, are not modelled.

use core::num::NonZeroU32;

use narrows_units::Ecn;

use super::super::clock::{Context, elapsed_us};
use super::super::handshake_ecn::HandshakeEcn;
use super::super::sender::{Half, Silent, Start};
use super::super::{AccurateEcn, Config, FastOpenOption, Flags, Segment, Seq, SynOptions};
use super::without_handshake::NEVER_SENT;
use super::{FastOpen, Phase, State, payload};
use crate::Closed;

impl State {
    #[cold]
    pub(super) fn handle_handshake(&mut self, cx: &Context, segment: &Segment) {
        let flags = segment.flags;
        if segment.ecn == Ecn::Ce && flags.contains(Flags::SYN) {
            self.marks_received += 1;
        }
        let acceptable = flags.contains(Flags::ACK) && self.may_acknowledge(cx, segment.ack);
        match self.phase {
            Phase::Listen | Phase::SynReceived | Phase::FastOpened
                if flags.contains(Flags::SYN) =>
            {
                if flags.contains(Flags::ACK) {
                    return;
                }
                if self.phase == Phase::Listen {
                    self.take_syn(cx, segment);
                    self.phase = Phase::SynReceived;
                    self.take_cookie_option(cx, segment);
                    self.send_syn(cx);
                } else if self.receiver.may_answer(cx) {
                    // `tcp_check_req`: the SYN-ACK was probably lost.
                    self.take_repeated_syn_ecn(segment);
                    self.repeat_syn_ack_ecn(cx.config);
                    self.send_syn(cx);
                }
            }
            Phase::SynSent if flags.contains(Flags::SYN) && acceptable => {
                self.take_syn(cx, segment);
                if self.refuses_mark(cx, segment) {
                    return;
                }
                let data_refused = self.take_fast_syn_ack(segment);
                self.establish(cx, segment);
                self.receiver.acknowledge_now();
                // `tcp_rcv_fastopen_synack`: data that were not accepted are sent again, and
                // acknowledge the SYN-ACK.
                self.receiver.first = !data_refused;
                if !data_refused {
                    self.echo_marked_syn_ack(cx, segment);
                }
            }
            Phase::SynReceived if acceptable => {
                if self.repeats_marked_syn_ack(cx, segment) {
                    return;
                }
                let header = self.take_syn_ack_echo(cx, segment);
                self.establish(cx, segment);
                self.handle_established(cx, &header, segment.sack.as_slice());
            }
            Phase::FastOpened if acceptable && !flags.contains(Flags::RST) => {
                self.phase = Phase::Established;
                let rtt_us = self.handshake_rtt(cx, segment);
                self.sender.confirm(cx, rtt_us);
                self.take_third_segment(segment);
                self.handle_established(cx, &segment.header(), segment.sack.as_slice());
            }
            Phase::SynSent | Phase::SynReceived | Phase::FastOpened
                if flags.contains(Flags::RST) && (acceptable || self.phase != Phase::SynSent) =>
            {
                let refused = self.phase == Phase::SynSent;
                self.fail_by(cx, if refused { Closed::Refused } else { Closed::Reset });
            }
            _ => {}
        }
    }

    /// Returns whether an acknowledgement during the handshake covers something that this end has
    /// sent.
    fn may_acknowledge(&self, cx: &Context, ack: Seq) -> bool {
        let first = self.sender.snd_una();
        match self.phase {
            Phase::FastOpened => !ack.before(first) && !ack.after(self.sender.snd_nxt()),
            Phase::SynSent if self.fast_open == FastOpen::Shows => {
                !ack.before(first) && !ack.after(first + u32::from(self.syn_data(cx.config)))
            }
            _ => ack == first,
        }
    }

    /// Returns the payload bytes of the first SYN (`tcp_send_syn_data`): what was written, as far
    /// as it fits beside all options.
    fn syn_data(&self, config: &Config) -> u16 {
        match &self.sender {
            Half::Silent(silent) if self.fast_open == FastOpen::Shows => {
                silent.unsent().up_to(config.mss.saturating_sub(MOST_OPTIONS))
            }
            _ => 0,
        }
    }

    /// Takes the Fast Open option of the other end's SYN, and data that came with it.
    fn take_cookie_option(&mut self, cx: &Context, segment: &Segment) {
        let takes = cx.config.fast_open && self.fast_open != FastOpen::Ignores;
        match segment.syn.and_then(|syn| syn.fast_open).filter(|_| takes) {
            None => {}
            Some(FastOpenOption::Request) => self.fast_open = FastOpen::Gives,
            Some(FastOpenOption::Cookie) => {
                self.receiver.take_syn_data(segment.len);
                let start = self.start_of(cx, segment, None);
                self.sender.start_unconfirmed(cx, start);
                self.phase = Phase::FastOpened;
            }
        }
    }

    /// Takes what a SYN-ACK says about Fast Open. Returns whether it refused data that the SYN
    /// carried.
    fn take_fast_syn_ack(&mut self, segment: &Segment) -> bool {
        // A cookie that this end has not asked for is ignored.
        let asked = matches!(self.fast_open, FastOpen::Asks | FastOpen::Shows);
        let given = segment.syn.is_some_and(|syn| syn.fast_open == Some(FastOpenOption::Cookie));
        self.cookie_given = asked && given;
        if self.fast_open != FastOpen::Shows {
            return false;
        }
        let taken = segment.ack.distance(self.sender.snd_una());
        let opening = self.opening();
        let refused = taken == 0 && !opening.unsent().is_empty();
        opening.take_early_ack(taken);
        self.fast_open = if taken > 0 { FastOpen::Taken } else { FastOpen::Off };
        refused
    }

    /// Takes the options of the other end's SYN or SYN-ACK.
    pub(super) fn take_syn(&mut self, cx: &Context, segment: &Segment) {
        let config = cx.config;
        let options = segment.syn.unwrap_or_default();
        let scaled = config.window_scaling && options.window_scale.is_some();
        let receiver = &mut self.receiver;
        receiver.timestamps = config.timestamps && segment.timestamps.is_some();
        receiver.ts_recent = segment.timestamps.map_or(0, |(stamp, _)| stamp);
        receiver.sack = config.sack && options.sack_permitted;
        receiver.start(segment.seq + 1, scaled);
        if self.phase == Phase::Listen {
            let stamps = if receiver.timestamps { TIMESTAMPS_OPTION } else { 0 };
            receiver.offer_first_window(config, config.mss - stamps);
        }
        let mss = payload(config.mss.min(options.offered_mss()), self.receiver.timestamps);
        let start = &mut self.opening().start;
        start.mss = mss;
        start.peer_scale = if scaled { options.window_scale.unwrap_or(0).min(14) } else { 0 };
        self.take_syn_ecn(cx, segment);
    }

    fn establish(&mut self, cx: &Context, segment: &Segment) {
        self.phase = Phase::Established;
        let rtt_us = self.handshake_rtt(cx, segment);
        let start = self.start_of(cx, segment, rtt_us);
        self.sender.start(cx, start);
    }

    /// Returns the round trip from the SYN or SYN-ACK to the segment that acknowledges it; at least
    /// a microsecond.
    fn handshake_rtt(&self, cx: &Context, segment: &Segment) -> Option<NonZeroU32> {
        let rtt_us = if self.syns_repeated() == 0 {
            Some(elapsed_us(cx.us, self.syn_sent_us))
        } else {
            // RFC 7323: the echo tells which SYN was answered.
            let stamps =
                segment.timestamps.filter(|&(_, echo)| self.receiver.timestamps && echo != 0);
            stamps.map(|(_, echo)| cx.timestamp().wrapping_sub(echo).max(1).saturating_mul(1000))
        };
        rtt_us.map(|rtt_us| NonZeroU32::new(rtt_us).unwrap_or(NonZeroU32::MIN))
    }

    /// Returns what the sending half learns from the handshake's last segment.
    pub(super) fn start_of(
        &mut self,
        cx: &Context,
        segment: &Segment,
        rtt_us: Option<NonZeroU32>,
    ) -> Start {
        let repeated = self.syns_repeated();
        let Start { mss, peer_scale, restart_window, ecn, .. } = self.opening().start;
        let scale = if segment.flags.contains(Flags::SYN) { 0 } else { peer_scale };
        Start {
            at: cx.now,
            mss,
            peer_scale,
            sack: self.receiver.sack,
            ecn,
            window: u32::from(segment.window) << scale,
            peer_seq: segment.seq,
            rtt_us,
            handshake_lost: repeated > 0,
            restart_window: restart_window
                || repeated > 1 && !self.repeated_needlessly(cx, segment),
        }
    }

    /// Returns whether Linux forgives the repetitions of the SYN or SYN-ACK. Otherwise the second
    /// repetition costs the initial window (RFC 5681, 3.1; `tcp_init_transfer`). Linux forgives
    /// them if no timeout caused them (`undo_marker` in `tcp_create_openreq_child`), or if
    /// `segment` answers the first SYN or SYN-ACK (`tcp_try_undo_spurious_syn`).
    fn repeated_needlessly(&self, cx: &Context, segment: &Segment) -> bool {
        let first = || cx.timestamp_before(elapsed_us(cx.us, self.syn_sent_us));
        let echo = segment.timestamps.filter(|_| self.receiver.timestamps).map(|(_, echo)| echo);
        cx.config.undo && (self.syn_retries == 0 || echo.is_some_and(|echo| echo == first()))
    }

    /// Returns the sending half before the connection is established.
    pub(in super::super) fn opening(&mut self) -> &mut Silent {
        self.sender.silent_mut().expect("nothing is sent before the handshake is over")
    }

    /// Returns how often the SYN or SYN-ACK was repeated, after a timeout or for a repeated SYN
    /// (`total_retrans`).
    pub(in super::super) fn syns_repeated(&self) -> u32 {
        match &self.sender {
            Half::Silent(silent) => silent.syns_repeated(),
            Half::Active(_) => u32::from(self.syn_retries),
        }
    }

    pub(super) fn send_syn(&mut self, cx: &Context) {
        self.syn_due = true;
        if self.segments_sent == 0 {
            self.syn_sent_us = cx.us.min(NEVER_SENT - 1);
        }
        let timeout = cx.span_to_jiffies(cx.config.initial_rto);
        let doublings = self.syn_retries.saturating_sub(self.linear_timeouts(cx)).min(16);
        let timeout = timeout.saturating_mul(1 << doublings);
        self.sender.repeat_syn_at(cx.deadline(cx.bounded_timeout(timeout)).into());
    }

    /// Returns how many repetitions of a SYN do not double the timeout; 0 for a SYN-ACK (Linux 6.12
    /// `tcp_retransmit_timer`, `tcp_write_timeout`).
    fn linear_timeouts(&self, cx: &Context) -> u8 {
        if self.phase == Phase::SynSent { cx.config.syn_linear_timeouts } else { 0 }
    }

    /// Returns whether Linux would give up the connection (`tcp_write_timeout`). Linear timeouts
    /// allow as many more repetitions, but none after the time that the doubled timeouts alone take
    /// (`tcp_model_timeout`). That time is ignored if it exceeds the clock's range of 35 minutes.
    fn has_repeated_enough(&self, cx: &Context) -> bool {
        let retries = cx.config.max_retries.min(MOST_SYN_RETRIES);
        let linear = self.linear_timeouts(cx);
        if self.syn_retries >= retries + linear {
            return true;
        }
        if linear == 0 {
            return false;
        }
        let first = cx.span_to_jiffies(cx.config.initial_rto);
        let doubled = (0..=retries).map(|doublings| first.saturating_mul(1 << doublings));
        let longest = doubled
            .fold(0, |sum: u32, jiffies| sum.saturating_add(cx.us_in(cx.bounded_timeout(jiffies))));
        elapsed_us(cx.us, self.syn_sent_us) >= longest
    }

    #[cold]
    pub(super) fn handle_syn_timeout(&mut self, cx: &Context) {
        self.sender.resume(cx.now);
        if self.sender.deadline().is_after(cx.now) {
            return;
        }
        if self.has_repeated_enough(cx) {
            self.sender.fail(cx);
            return;
        }
        self.repeat_syn_ack_ecn(cx.config);
        self.syn_retries += 1;
        self.sender.count_syn_timeout();
        self.send_syn(cx);
    }

    #[cold]
    pub(super) fn poll_syn(&mut self, cx: &Context) -> Option<Segment> {
        if !core::mem::take(&mut self.syn_due) {
            return None;
        }
        if self.segments_sent > 0 {
            self.sender.count_syn_repeated();
        }
        self.segments_sent += 1;
        let config = cx.config;
        if self.handshake_ecn == HandshakeEcn::Refuse {
            return Some(self.mark_refusal(cx));
        }
        let answer = self.phase != Phase::SynSent;
        let (flags, ecn) = self.syn_ecn(config);
        let receiver = &self.receiver;
        let stamps = if answer { receiver.timestamps } else { config.timestamps };
        let scales = config.window_scaling && (!answer || receiver.scaled);
        let fast_open = match self.fast_open {
            // Repeated SYNs have no such option (`tcp_send_syn_data`).
            FastOpen::Asks if self.syn_retries == 0 => Some(FastOpenOption::Request),
            FastOpen::Shows if self.syn_retries == 0 => Some(FastOpenOption::Cookie),
            FastOpen::Gives => Some(FastOpenOption::Cookie),
            _ => None,
        };
        let len = if fast_open.is_some() { self.syn_data(config) } else { 0 };
        // Beside a cookie there is no room. A repeated SYN-ACK has no such option either (Linux).
        let accurate = matches!(self.handshake_ecn, HandshakeEcn::Accurate(_))
            && fast_open.is_none()
            && self.syn_retries == 0;
        Some(Segment {
            seq: Seq(self.sender.snd_una().0.wrapping_sub(1)),
            ack: if answer { receiver.rcv_nxt } else { Seq(0) },
            window: receiver.syn_window_field(),
            len,
            flags,
            ecn,
            timestamps: stamps.then(|| (cx.timestamp(), receiver.ts_recent)),
            syn: Some(SynOptions {
                mss: config.mss,
                window_scale: scales.then(|| receiver.scale()),
                sack_permitted: if answer { receiver.sack } else { config.sack },
                fast_open,
            }),
            accurate: accurate.then_some(AccurateEcn::INITIAL),
            ..Segment::default()
        })
    }
}

/// `TCPOLEN_TSTAMP_ALIGNED`.
const TIMESTAMPS_OPTION: u16 = 12;
/// `MAX_TCP_OPTION_SPACE`.
const MOST_OPTIONS: u16 = 40;
/// `tcp_syn_retries`.
const MOST_SYN_RETRIES: u8 = 6;
