//! What is sent, and in which order.
//!
//! Written from RFC 9293 (3.7.4, Nagle's algorithm; 3.8.6, the window), Minshall, Saito, Mogul and
//! Verghese, "Application performance pitfalls and TCP's Nagle algorithm" (1999), RFC 3042 and RFC 3168
//! (6.1). What goes first, and what waits, is as in Linux 6.1, as replays on a kernel show it. Each
//! call of `poll` returns one segment. What a kernel does at the end of a burst is done when `poll`
//! has no more segments.

use narrows_units::Ecn;

use super::scoreboard::{
    EVER_RETRANSMITTED, FIN, LOST, PSH, RETRANSMITTED, Record, SACKED, UNLISTED,
};
use super::{Sender, State, Timer, todo};
use crate::tcp::clock::{Context, elapsed_us};
use crate::tcp::{AckPolicy, EcnControl, Flags, Seq};

/// A segment to be sent. The endpoint adds the receiving half's fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub seq: Seq,
    pub len: u16,
    /// FIN, PSH and CWR.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
}

impl Sender {
    /// Writes `bytes` from the application; `u64::MAX`: without end.
    pub(crate) fn write(&mut self, cx: &Context, bytes: u64) {
        self.restart_after_idle(cx);
        self.check_application_limit();
        self.unsent.write(bytes);
        self.todo |= todo::NEW;
    }

    /// Ends data that was written without end.
    pub(crate) fn end_forever(&mut self) {
        self.unsent.end_forever();
    }

    /// Notes that nothing more will be written.
    pub(crate) fn close(&mut self) {
        self.fin_queued = true;
        self.todo |= todo::NEW;
    }

    /// Returns the next segment, if anything may be sent now.
    #[inline(always)]
    pub(crate) fn poll(&mut self, cx: &Context) -> Option<Outgoing> {
        match self.todo {
            0 => None,
            todo::NEW => self.poll_burst(cx),
            _ => self.poll_steps(cx),
        }
    }

    #[inline(never)]
    fn poll_steps(&mut self, cx: &Context) -> Option<Outgoing> {
        if self.todo & (todo::HEAD | todo::PROBE | todo::PERSIST) != 0 {
            let sent = self.poll_forced(cx);
            if sent.is_some() {
                return sent;
            }
        }
        if self.todo & todo::NEW_FIRST != 0 {
            let sent = if self.must_look_for_lost() { None } else { self.poll_new(cx) };
            if sent.is_some() {
                return sent;
            }
            self.todo &= !todo::NEW_FIRST;
            if !self.snd_nxt.after(self.high_seq) {
                self.frto = false;
                self.todo |= todo::RETRANSMIT;
            }
        }
        if self.todo & todo::RETRANSMIT != 0 {
            if let Some(position) = self.next_lost(cx) {
                return Some(self.retransmit(cx, position));
            }
            self.todo &= !todo::RETRANSMIT;
        }
        if self.todo & todo::NEW != 0 { self.poll_burst(cx) } else { None }
    }

    /// Returns whether lost segments go before the next new one. After two segments of a burst,
    /// Linux waits until they have left the host, and then looks for lost ones first.
    #[inline]
    fn must_look_for_lost(&self) -> bool {
        self.burst >= AT_ONCE && self.lost_out > self.retrans_out
    }

    /// Returns new data, and handles the end of a burst.
    #[inline(always)]
    fn poll_burst(&mut self, cx: &Context) -> Option<Outgoing> {
        if self.must_look_for_lost()
            && let Some(position) = self.next_lost(cx)
        {
            return Some(self.retransmit(cx, position));
        }
        let sent = self.poll_new(cx);
        if sent.is_none() {
            self.todo &= !todo::NEW;
            self.end_burst(cx);
        }
        sent
    }

    /// Returns what has to be sent whatever the windows allow.
    #[cold]
    fn poll_forced(&mut self, cx: &Context) -> Option<Outgoing> {
        if self.todo & todo::HEAD != 0 {
            self.todo &= !todo::HEAD;
            if !self.board.is_empty() {
                let head = self.board.head();
                if cx.config.is_classic() && !self.board.at(head).has(LOST) {
                    return Some(self.send_again(cx, head));
                }
                return Some(self.retransmit_forced(cx, head));
            }
        }
        if self.todo & todo::PROBE != 0 {
            self.todo &= !todo::PROBE;
            let sent = self.send_probe(cx);
            if sent.is_some() {
                return sent;
            }
        }
        if self.todo & todo::PERSIST != 0 {
            self.todo &= !todo::PERSIST;
            // An old sequence number makes the other end answer (RFC 9293, 3.8.6.1).
            let seq = Seq(self.snd_una.0.wrapping_sub(1));
            return Some(Outgoing { seq, len: 0, flags: Flags(0), ecn: Ecn::NotEct });
        }
        None
    }

    /// Returns whether data or a FIN waits to be sent.
    #[inline]
    pub(super) fn has_new_data(&self) -> bool {
        !self.unsent.is_empty() || (self.fin_queued && !self.fin_sent)
    }

    /// Returns the end of the window that the peer offers.
    #[inline]
    pub(super) fn window_end(&self) -> Seq {
        self.snd_una + self.snd_wnd
    }

    /// Returns whether the next new segment fits into it.
    #[inline]
    pub(super) fn fits_peer_window(&self) -> bool {
        let len = self.unsent.up_to(self.mss);
        !(self.snd_nxt + u32::from(len)).after(self.window_end())
    }

    /// Returns the next new segment, if nothing holds it back.
    #[inline(always)]
    fn poll_new(&mut self, cx: &Context) -> Option<Outgoing> {
        if !self.has_new_data() || !self.fits_congestion_window(cx) || !self.fits_peer_window() {
            return None;
        }
        if self.unsent.up_to(self.mss) < self.mss && !self.may_send_small(cx) {
            return None;
        }
        if self.is_held_back(cx) { None } else { self.send_new(cx) }
    }

    /// Returns whether the next segment carries the FIN, with data or alone.
    #[inline]
    fn ends_with_next(&self) -> bool {
        self.fin_queued && self.unsent.up_to(self.mss + 1) <= self.mss
    }

    /// Returns whether the congestion window has room. The segment with the FIN needs none.
    #[inline]
    fn fits_congestion_window(&self, cx: &Context) -> bool {
        let mut in_flight = self.in_flight();
        if self.state == State::Disorder && !cx.config.limited_transmit {
            in_flight += self.sacked_out;
        }
        in_flight < self.window.cwnd + u32::from(self.inflation) || self.ends_with_next()
    }

    /// Nagle's algorithm with Minshall's change: one small segment in flight at a time.
    fn may_send_small(&self, cx: &Context) -> bool {
        let small_in_flight =
            self.small_end.after(self.snd_una) && !self.small_end.after(self.snd_nxt);
        !cx.config.nagle || self.fin_queued || self.packets_out == 0 || !small_in_flight
    }

    /// Returns whether a segment carries PSH: with it, more than half of the window was written since
    /// the last PSH, or since the application's last write, which ends with PSH too. The receiver
    /// acknowledges such a segment at once. Linux takes the largest window so far; SYNs offer 64 KB.
    #[inline]
    fn pushes(&self, cx: &Context, record: &Record) -> bool {
        let half = self.snd_wnd.max(u16::MAX.into()) / 2;
        if half >= WRITE || cx.config.acks != AckPolicy::Linux {
            return false;
        }
        let mss = u32::from(self.mss);
        let end = (self.bytes_acked as u32).wrapping_add(record.end().distance(self.snd_una));
        (end % WRITE).div_ceil(mss).is_multiple_of(half / mss + 1)
    }

    /// Sends the next new segment, whatever the windows allow.
    #[inline(always)]
    pub(super) fn send_new(&mut self, cx: &Context) -> Option<Outgoing> {
        let len = self.unsent.up_to(self.mss);
        self.unsent.take(len);
        let mut record =
            Record { seq: self.snd_nxt, sent_us: cx.us, delivered: self.delivered, len, flags: 0 };
        if self.unsent.is_empty() {
            record.flags |= if len > 0 { PSH } else { 0 };
            if self.fin_queued {
                if cx.config.skip_handshake {
                    if len == 0 {
                        self.fin_sent = true;
                        return None;
                    }
                } else {
                    record.flags |= FIN;
                }
                self.fin_sent = true;
            }
        } else if self.pushes(cx, &record) {
            record.flags |= PSH;
        }
        if self.packets_out == 0 {
            if self.control.is_own() {
                self.restart_own(cx, elapsed_us(cx.us, self.last_sent_us));
            }
            self.control.on_restart(cx, self.last_sent_us);
            self.with_model(false, |bbr, path| bbr.on_restart(&cx.moment(), path));
        }
        self.last_sent_us = cx.us;
        self.snd_nxt = record.end();
        if len < self.mss {
            self.small_end = self.snd_nxt;
        }
        let was_empty = self.packets_out == 0;
        self.packets_out += 1;
        self.board.push(record);
        self.note_paced(cx, (self.packets_out - 1, self.in_flight()), len, was_empty);
        // If a probe is scheduled at the end of the burst, that arms the timer.
        if (was_empty || self.timer == Timer::LossProbe) && !self.schedules_probes(cx) {
            self.rearm_rto(cx);
        }
        self.burst = self.burst.saturating_add(1);
        if self.in_reduction() {
            self.reduction.sent += 1;
        }
        let mut outgoing = self.outgoing(&record);
        if len > 0 || cx.config.ecn_control == EcnControl::PlusPlus {
            outgoing.ecn = self.ect;
        }
        if len > 0 && self.queue_cwr && self.ect.is_capable() {
            self.queue_cwr = false;
            outgoing.flags = outgoing.flags.with(Flags::CWR);
        }
        Some(outgoing)
    }

    #[inline]
    fn outgoing(&self, record: &Record) -> Outgoing {
        let mut flags = Flags(0);
        if record.has(FIN) {
            flags = flags.with(Flags::FIN);
        }
        if record.has(PSH) {
            flags = flags.with(Flags::PSH);
        }
        Outgoing { seq: record.seq, len: record.len, flags, ecn: Ecn::NotEct }
    }

    /// Ends a burst: notes what limited it, and sets the timer.
    #[inline(always)]
    fn end_burst(&mut self, cx: &Context) {
        let sent = self.burst;
        self.burst = 0;
        if let Some(pace) = &mut self.pace {
            pace.end_burst();
        }
        let limited = self.in_flight() >= self.window.cwnd + u32::from(self.inflation);
        self.time_states(cx, limited);
        if sent > 0 || limited {
            self.validate_cwnd(cx, limited);
        }
        if sent > 0 {
            self.schedule_probe(cx, false);
        } else if self.packets_out == 0 && self.has_new_data() && self.timer == Timer::Idle {
            // Only the peer's window stops the sender (RFC 9293, 3.8.6.1).
            self.arm_for_sending(cx, Timer::Persist, self.rtt.rto);
        }
    }

    /// Returns the next lost segment that the window allows (RFC 6675, NextSeg rule 1).
    fn next_lost(&mut self, cx: &Context) -> Option<u32> {
        if self.retrans_out >= self.lost_out {
            return None;
        }
        let head = self.board.head();
        let mut position = self.retransmit_hint;
        let past = (position.wrapping_sub(head) as i32) < 0
            || (self.board.tail().wrapping_sub(position) as i32) < 0;
        if past {
            position = head;
        }
        while position != self.board.tail() {
            if self.in_flight() >= self.window.cwnd + u32::from(self.inflation) {
                break;
            }
            let record = self.board.at(position);
            if record.has(LOST) && !record.has(SACKED | RETRANSMITTED) {
                self.retransmit_hint = position;
                return (!self.is_held_back(cx)).then_some(position);
            }
            position = position.wrapping_add(1);
        }
        None
    }

    /// Lets the search for lost segments begin at `position`, unless it begins below already.
    pub(super) fn retransmit_from(&mut self, position: u32) {
        if (position.wrapping_sub(self.retransmit_hint) as i32) < 0 {
            self.retransmit_hint = position;
        }
    }

    /// Lets the search for lost segments begin at the first one.
    pub(super) fn retransmit_from_head(&mut self) {
        self.retransmit_hint = self.board.head();
    }

    /// Retransmits a lost segment in its turn.
    fn retransmit(&mut self, cx: &Context, position: u32) -> Outgoing {
        let outgoing = self.retransmit_forced(cx, position);
        if self.in_reduction() {
            self.reduction.sent += 1;
        }
        if position == self.board.head() && !self.timer_is(Timer::Reordering) {
            self.arm_for_sending(cx, Timer::Retransmission, self.rtt.rto);
        }
        outgoing
    }

    /// Sends a lost segment again, whatever the windows allow.
    fn retransmit_forced(&mut self, cx: &Context, position: u32) -> Outgoing {
        let outgoing = self.send_again(cx, position);
        let record = self.board.at_mut(position);
        if !record.has(RETRANSMITTED) {
            record.flags |= RETRANSMITTED;
            self.retrans_out += 1;
        }
        self.undo.count_retransmission(cx.timestamp());
        outgoing
    }

    /// Sends a segment again, as a probe or a retransmission.
    pub(super) fn send_again(&mut self, cx: &Context, position: u32) -> Outgoing {
        let delivered = self.delivered;
        let record = self.board.at_mut(position);
        record.flags = (record.flags | EVER_RETRANSMITTED) & !UNLISTED;
        record.sent_us = cx.us;
        record.delivered = delivered;
        let record = *record;
        let in_flight = self.in_flight() + u32::from(!record.has(RETRANSMITTED));
        let index = position.wrapping_sub(self.board.head());
        self.note_paced(cx, (index, in_flight), record.len, false);
        self.last_sent_us = cx.us;
        self.tally().retransmitted += 1;
        let capable = cx.config.ecn_control == EcnControl::PlusPlus;
        let ecn = if capable { self.ect } else { Ecn::NotEct };
        Outgoing { ecn, ..self.outgoing(&record) }
    }
}

/// The segments of a burst that Linux hands to the device at once: its limit is two, or what the
/// pacing rate sends in a millisecond.
const AT_ONCE: u8 = 2;
/// The bytes that an application writes at a time.
const WRITE: u32 = 1 << 16;
