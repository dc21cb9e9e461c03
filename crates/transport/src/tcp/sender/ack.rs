//! Processing of acknowledgements.
//!
//! Source: Linux 6.1 `tcp_ack`, `tcp_clean_rtx_queue`, `tcp_ack_update_rtt`, `tcp_ack_is_dubious`,
//! `tcp_cong_control`, in this order.

use super::rack::{DEFAULT_REORDERING, sent_after};
use super::scoreboard::{FIN, LOST, RETRANS, RETRANSMITTED, Record, SACKED};
use super::{Sender, State, Timer, todo};
use crate::tcp::clock::{Context, elapsed_us};
use crate::tcp::congestion::Progress;
use crate::tcp::segment::Header;
use crate::tcp::{Flags, Seq};

/// What one acknowledgement has told so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    flags: u16,
    /// The echoed timestamp; 0: none.
    pub(super) echo: u32,
    /// `snd_una` before this acknowledgement.
    pub(super) prior_una: Seq,
    /// When the first and the last of the newly SACKed originals were sent.
    pub(super) first_sacked_us: Option<u32>,
    pub(super) last_sacked_us: u32,
    /// The lowest sequence number that arrived out of order.
    pub(super) reordered: Seq,
    pub(super) sack_delivered: u32,
    /// The round trip for congestion controls (`rs->rtt_us`).
    control_rtt_us: Option<u32>,
    /// The packets that it reports as marked (Accurate ECN).
    pub(super) marked: u32,
    /// The most recently sent of the delivered segments, for the rate sample.
    newest: Option<Record>,
}

/// Flags of an acknowledgement, named as in the kernel.
pub(super) mod flag {
    /// The segment carries data.
    pub(in crate::tcp) const DATA: u16 = 1;
    pub(in crate::tcp) const WINDOW_UPDATE: u16 = 2;
    pub(in crate::tcp) const DATA_ACKED: u16 = 4;
    pub(in crate::tcp) const RETRANS_ACKED: u16 = 8;
    pub(in crate::tcp) const DATA_SACKED: u16 = 16;
    pub(in crate::tcp) const ECE: u16 = 32;
    pub(in crate::tcp) const LOST_RETRANS: u16 = 64;
    /// An original was acknowledged or SACKed (`FLAG_ORIG_SACK_ACKED`).
    pub(in crate::tcp) const ORIGINAL_ACKED: u16 = 128;
    pub(in crate::tcp) const ADVANCED: u16 = 256;
    pub(in crate::tcp) const DSACKING: u16 = 512;
    pub(in crate::tcp) const SET_TIMER: u16 = 1024;
    pub(in crate::tcp) const DSACK_TLP: u16 = 2048;
    pub(in crate::tcp) const MAYBE_DELAYED: u16 = 4096;

    pub(in crate::tcp) const NOT_DUP: u16 = DATA | WINDOW_UPDATE | DATA_ACKED;
    pub(in crate::tcp) const CA_ALERT: u16 = DATA_SACKED | ECE | DSACKING;
    pub(in crate::tcp) const FORWARD_PROGRESS: u16 = DATA_ACKED | DATA_SACKED;
}

/// What may be retransmitted after an acknowledgement (`REXMIT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    Nothing,
    Lost,
    /// New data first, or lost segments if there is none.
    NewFirst,
}

impl Ack {
    pub(super) fn empty(prior_una: Seq) -> Self {
        Self {
            flags: 0,
            echo: 0,
            prior_una,
            first_sacked_us: None,
            last_sacked_us: 0,
            reordered: prior_una,
            sack_delivered: 0,
            control_rtt_us: None,
            marked: 0,
            newest: None,
        }
    }

    /// Returns whether any of `flags` is set.
    #[inline]
    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    #[inline]
    pub(super) fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    #[inline]
    pub(super) fn clear(&mut self, flags: u16) {
        self.flags &= !flags;
    }

    /// `tcp_tsopt_ecr_before`.
    #[inline]
    pub(super) fn echoes_before(&self, stamp: u32) -> bool {
        self.echo != 0 && (self.echo.wrapping_sub(stamp) as i32) < 0
    }

    /// `tcp_rate_skb_delivered`.
    #[inline]
    pub(super) fn note_delivered(&mut self, record: &Record) {
        if self.newest.is_none_or(|newest| sent_after(record, &newest)) {
            self.newest = Some(*record);
        }
    }

    /// `rs->prior_delivered`: the segments delivered when the newest delivered one was sent.
    #[inline]
    pub(super) fn prior_delivered(&self) -> Option<u32> {
        self.newest.map(|record| record.delivered)
    }

    /// Returns the round trip for congestion controls, in microseconds.
    pub(super) fn control_rtt_us(&self) -> Option<u32> {
        self.control_rtt_us
    }
}

impl Sender {
    /// Returns whether an acknowledgement with nothing else is plain: it covers data in flight, and
    /// nothing is lost, SACKed, retransmitted or sent as a probe.
    #[inline(always)]
    pub(crate) fn predicts(&self, header: &Header) -> bool {
        self.state == State::Open
            && self.sacked_out | self.lost_out | self.retrans_out == 0
            && self.probe.is_none()
            && header.ack.after(self.snd_una)
            && !header.ack.after(self.snd_nxt)
    }

    /// `tcp_ack` for an acknowledgement that [`predicts`](Self::predicts) has found plain: it is
    /// not dubious, and nothing has to be retransmitted.
    #[inline(always)]
    pub(crate) fn take_predicted_ack(&mut self, cx: &Context, header: &Header) {
        let mut ack = Ack::empty(self.snd_una);
        ack.set(flag::ADVANCED);
        self.retransmits = 0;
        self.update_window(header, &mut ack);
        self.todo |= todo::NEW;
        if cx.config.is_classic() {
            self.take_new_ack(cx, &ack);
        } else {
            self.take_plain_ack(cx, header, ack);
        }
    }

    /// Does the rest of [`take_predicted_ack`](Self::take_predicted_ack) as Linux does it.
    fn take_plain_ack(&mut self, cx: &Context, header: &Header, mut ack: Ack) {
        ack.echo = header.timestamps.map_or(0, |(_, echo)| echo);
        let (prior_delivered, prior_lost) = (self.delivered, self.lost);
        let prior_fack = ack.prior_una;
        self.begin_sample();
        self.clean_queue(cx, &mut ack, prior_fack);
        self.rack_adapt_window(&ack);
        if ack.has(flag::SET_TIMER) && !self.schedule_probe(cx, true) {
            self.rearm_rto(cx);
        }
        let delivered = self.delivered.wrapping_sub(prior_delivered);
        self.control(cx, &ack, delivered, self.lost.wrapping_sub(prior_lost));
    }

    /// `tcp_ack`. Returns false if the segment is not acceptable and its data must be ignored.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        cx: &Context,
        header: &Header,
        sack: &[(Seq, Seq)],
    ) -> bool {
        if self.is_silent()
            && header.ack == self.snd_una
            && sack.is_empty()
            && !header.flags.contains(Flags::ECE)
        {
            // Header prediction: data for an end that sends none. Only its window can be new.
            self.update_window(header, &mut Ack::empty(self.snd_una));
            return true;
        }
        self.handle_telling_ack(cx, header, sack)
    }

    /// Returns whether nothing is in flight and nothing waits to be sent.
    #[inline]
    fn is_silent(&self) -> bool {
        self.packets_out == 0 && self.probe.is_none() && !self.has_new_data()
    }

    /// `tcp_ack`, if there is something to learn or to send.
    #[inline(never)]
    fn handle_telling_ack(&mut self, cx: &Context, header: &Header, sack: &[(Seq, Seq)]) -> bool {
        let prior_una = self.snd_una;
        if header.ack.before(prior_una) {
            return self.handle_old_ack(cx, header, sack);
        }
        if header.ack.after(self.snd_nxt) {
            return false;
        }
        let mut ack = Ack::empty(prior_una);
        ack.echo = header.timestamps.map_or(0, |(_, echo)| echo);
        let prior_packets = self.packets_out;
        let (prior_delivered, prior_lost) = (self.delivered, self.lost);
        let mut prior_fack = self.snd_una;
        self.begin_sample();
        if header.ack != prior_una {
            ack.set(flag::ADVANCED);
            self.retransmits = 0;
        }
        if self.sacked_out > 0 && self.sack {
            prior_fack = self.highest_sack;
        }
        if header.len > 0 || header.flags.contains(Flags::FIN) {
            ack.set(flag::DATA);
        }
        self.update_window(header, &mut ack);
        if header.flags.contains(Flags::ECE) && self.ect.is_capable() && !self.is_accurate() {
            ack.set(flag::ECE);
        }
        if cx.config.is_classic() {
            self.handle_ack_classic(cx, header, &mut ack);
            return true;
        }
        if !sack.is_empty() && self.uses_sack(cx) {
            self.tag_sacked(cx, header.ack, sack, &mut ack);
            self.delivered = self.delivered.wrapping_add(ack.sack_delivered);
        }
        if prior_packets == 0 {
            if self.is_accurate() {
                // Only acknowledgements of ours can have been marked.
                self.take_report(header, &mut Ack::empty(prior_una), 0);
            }
            if ack.has(flag::DSACKING) {
                self.handle_dubious_ack(cx, &mut ack, 0);
            }
            self.process_probe_ack(cx, header.ack, &ack);
            self.todo |= todo::NEW;
            return true;
        }

        self.clean_queue(cx, &mut ack, prior_fack);
        self.rack_adapt_window(&ack);
        if self.is_accurate() {
            let delivered = self.delivered.wrapping_sub(prior_delivered);
            self.take_report(header, &mut ack, delivered);
        }
        if self.control.counts_marks() {
            self.note_marks(&ack, prior_delivered);
        }
        self.process_probe_ack(cx, header.ack, &ack);
        let mut resend = Resend::Nothing;
        let dubious =
            !ack.has(flag::NOT_DUP) || ack.has(flag::CA_ALERT) || self.state != State::Open;
        if dubious {
            let duplicate = !ack.has(flag::ADVANCED | flag::NOT_DUP | flag::DSACKING);
            resend = self.handle_dubious_ack(cx, &mut ack, u32::from(duplicate));
        }
        if ack.has(flag::SET_TIMER) && !self.schedule_probe(cx, true) {
            self.rearm_rto(cx);
        }
        let delivered = self.delivered.wrapping_sub(prior_delivered);
        self.control(cx, &ack, delivered, self.lost.wrapping_sub(prior_lost));
        self.resend(resend);
        self.todo |= todo::NEW;
        true
    }

    /// `old_ack` in `tcp_ack`: only its SACK blocks can be new.
    fn handle_old_ack(&mut self, cx: &Context, header: &Header, sack: &[(Seq, Seq)]) -> bool {
        if !sack.is_empty() && self.uses_sack(cx) && !cx.config.is_classic() {
            let mut ack = Ack::empty(self.snd_una);
            ack.echo = header.timestamps.map_or(0, |(_, echo)| echo);
            self.tag_sacked(cx, header.ack, sack, &mut ack);
            self.delivered = self.delivered.wrapping_add(ack.sack_delivered);
            let resend = self.handle_dubious_ack(cx, &mut ack, 0);
            self.resend(resend);
            self.todo |= todo::NEW;
        }
        true
    }

    /// `tcp_ack_update_window`, `tcp_may_update_window`, `tcp_snd_una_update`.
    #[inline(always)]
    fn update_window(&mut self, header: &Header, ack: &mut Ack) {
        if self.may_update_window(header) {
            ack.set(flag::WINDOW_UPDATE);
            self.snd_wl1 = header.seq;
            self.snd_wnd = self.window_in(header);
        }
        self.bytes_acked += u64::from(header.ack.distance(self.snd_una));
        self.snd_una = header.ack;
    }

    /// `tcp_may_update_window`.
    #[inline(always)]
    pub(crate) fn may_update_window(&self, header: &Header) -> bool {
        let window = self.window_in(header);
        header.ack.after(self.snd_una)
            || header.seq.after(self.snd_wl1)
            || (header.seq == self.snd_wl1 && (window > self.snd_wnd || window == 0))
    }

    #[inline]
    fn window_in(&self, header: &Header) -> u32 {
        u32::from(header.window) << self.peer_scale
    }

    /// `tcp_clean_rtx_queue`.
    // Long: what the loop has counted decides the rest, and each acknowledgement runs it.
    #[inline]
    fn clean_queue(&mut self, cx: &Context, ack: &mut Ack, prior_fack: Seq) {
        let uses_sack = self.uses_sack(cx);
        let prior_sacked = self.sacked_out;
        let mut first_us = None;
        let mut last_us = 0;
        let mut reordered = prior_fack;
        let mut acked = 0;
        while let Some(&record) = self.board.front() {
            if record.end().after(self.snd_una) {
                break;
            }
            acked += 1;
            if record.has(RETRANS) {
                if record.has(RETRANSMITTED) {
                    self.retrans_out -= 1;
                }
                ack.set(flag::RETRANS_ACKED);
            } else if !record.has(SACKED) {
                last_us = record.sent_us;
                first_us = first_us.or(Some(record.sent_us));
                if record.seq.before(reordered) {
                    reordered = record.seq;
                }
                if !record.end().after(self.high_seq) {
                    ack.set(flag::ORIGINAL_ACKED);
                }
            }
            if record.has(SACKED) {
                self.sacked_out -= 1;
            } else if uses_sack {
                self.delivered = self.delivered.wrapping_add(1);
                let spurious =
                    record.has(RETRANS) && ack.echoes_before(stamp_of(cx, record.sent_us));
                if !spurious {
                    self.rack_note_delivered(cx, &record);
                }
            }
            self.lost_out -= u32::from(record.has(LOST));
            self.packets_out -= 1;
            ack.note_delivered(&record);
            if let Some(rates) = self.rates() {
                rates.note_delivered(0, record.to_delivered());
                rates.pop();
            }
            self.bytes_acked -= u64::from(record.has(FIN));
            self.board.pop();
        }
        if acked > 0 {
            ack.set(flag::DATA_ACKED);
        }
        let mut rtt_us = None;
        let mut control_rtt_us = None;
        if let Some(first_us) = first_us
            && !ack.has(flag::RETRANS_ACKED)
        {
            rtt_us = Some(elapsed_us(cx.us, first_us));
            control_rtt_us = Some(elapsed_us(cx.us, last_us));
            if acked == 1
                && prior_sacked == 0
                && self.snd_una.distance(ack.prior_una) < u32::from(self.mss)
                && ack.prior_delivered().is_some_and(|d| d.wrapping_add(1) == self.delivered)
                && !ack.has(flag::CA_ALERT)
            {
                // A lone small segment: the acknowledgement was probably delayed.
                ack.set(flag::MAYBE_DELAYED);
            }
        }
        let sack_rtt_us = ack.first_sacked_us.map(|first| elapsed_us(cx.us, first));
        if sack_rtt_us.is_some() {
            control_rtt_us = Some(elapsed_us(cx.us, ack.last_sacked_us));
        }
        let sampled = self.update_rtt(cx, ack, rtt_us.or(sack_rtt_us), &mut control_rtt_us);

        if acked > 0 {
            ack.set(flag::SET_TIMER);
            if !uses_sack {
                self.remove_duplicates(acked);
                if ack.has(flag::RETRANS_ACKED) {
                    ack.clear(flag::ORIGINAL_ACKED);
                }
            } else if reordered.before(prior_fack) {
                self.check_reordering(reordered);
            }
        } else if sampled
            && let (Some(head), Some(sack_rtt_us)) = (self.board.front(), sack_rtt_us)
            && sack_rtt_us > elapsed_us(cx.us, head.sent_us)
        {
            // The sample comes from data sent before the head was retransmitted, so the head may
            // wait longer.
            ack.set(flag::SET_TIMER);
        }
        ack.control_rtt_us = control_rtt_us;
        let Some(delay_us) = control_rtt_us else { return };
        let progress = self.progress();
        self.control.on_delay(cx, &mut self.window, delay_us, progress);
    }

    /// `tcp_ack_update_rtt`. Returns whether there was a sample.
    #[inline]
    fn update_rtt(
        &mut self,
        cx: &Context,
        ack: &Ack,
        mut rtt_us: Option<u32>,
        control_rtt_us: &mut Option<u32>,
    ) -> bool {
        if rtt_us.is_none() && ack.echo != 0 && ack.has(flag::DATA_ACKED) {
            // Karn's algorithm, helped by timestamps: RFC 7323, 4.
            let delta_ms = cx.timestamp().wrapping_sub(ack.echo);
            if delta_ms < i32::MAX as u32 / 1000 {
                rtt_us = Some(delta_ms.max(1) * 1000);
                *control_rtt_us = rtt_us;
            }
        }
        let Some(rtt_us) = rtt_us else { return false };
        if let Some(control_rtt_us) = *control_rtt_us
            && !(ack.has(flag::MAYBE_DELAYED)
                && self.rtt.shortest_us().is_some_and(|shortest| control_rtt_us > shortest))
        {
            self.rtt.note_shortest(control_rtt_us);
        }
        self.estimate_and_set_rto(cx, rtt_us);
        true
    }

    /// `tcp_cong_control`.
    #[inline]
    fn control(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if self.pace.is_some() {
            self.control_paced(cx, ack, delivered, lost);
        } else {
            self.control_window(cx, ack, delivered, lost);
        }
    }

    #[inline]
    pub(super) fn control_window(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if self.in_reduction() {
            self.reduce(cx, ack, delivered, lost);
            return;
        }
        // `tcp_may_raise_cwnd`: with much reordering, SACKed segments count as well.
        let raising = if self.reordering() > DEFAULT_REORDERING.into() {
            flag::FORWARD_PROGRESS
        } else {
            flag::DATA_ACKED
        };
        if ack.has(raising) && self.is_cwnd_limited() {
            self.control.avoid(cx, &mut self.window, delivered);
        }
    }

    /// Returns what congestion controls may know besides the window.
    #[inline]
    pub(super) fn progress(&self) -> Progress {
        Progress {
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            srtt_us: self.rtt.smoothed_us().unwrap_or(0),
            mss: u32::from(self.mss),
        }
    }

    /// `tcp_xmit_recovery`.
    #[inline]
    fn resend(&mut self, resend: Resend) {
        match resend {
            Resend::Nothing => {}
            Resend::Lost => self.todo |= todo::RETRANSMIT,
            Resend::NewFirst => self.todo |= todo::NEW_FIRST,
        }
    }

    /// Returns whether the retransmission timer is the pending one.
    #[inline]
    pub(super) fn timer_is(&self, timer: Timer) -> bool {
        self.timer == timer
    }
}

/// Returns the timestamp that a segment sent at `sent_us` carried (`tcp_skb_timestamp`).
#[inline]
pub(super) fn stamp_of(cx: &Context, sent_us: u32) -> u32 {
    let sent_us = cx.now.as_ps() / 1_000_000 - u64::from(elapsed_us(cx.us, sent_us));
    ((sent_us / 1000) as u32).wrapping_add(1)
}
