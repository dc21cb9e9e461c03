//! What a sender that paces does: when it waits, what it notes, and what its control hears.
//!
//! Written from draft-cheng-iccrg-delivery-rate-estimation-00 (application-limited samples); when a
//! held-back sender goes on is as in Linux 6.1, as replays on a kernel show it.

use narrows_units::Time;

use super::ack::{Ack, flag};
use super::{Sender, todo};
use crate::congestion::{Lost, Model, Path, Rates, window_rate};
use crate::tcp::clock::Context;

/// What a sender does with its pacing.
impl Sender {
    /// Begins to pace: the connection is established.
    pub(super) fn start_pace(&mut self, cx: &Context) {
        if self.pace.is_none() || self.start_own(cx) {
            return;
        }
        if !self.with_model(false, |bbr, path| bbr.start(&cx.moment(), path)) {
            self.follow_window();
        }
    }

    /// Returns whether the pace holds the next segment back.
    #[inline(always)]
    pub(super) fn is_held_back(&mut self, cx: &Context) -> bool {
        self.pace.as_mut().is_some_and(|pace| pace.holds(cx.now))
    }

    /// Goes on, if only the pace has held the sender back until now (`tcp_tsq_write`).
    #[inline]
    pub(crate) fn resume(&mut self, now: Time) -> bool {
        let resumes = self.pace.as_mut().is_some_and(|pace| pace.resumes(now));
        if resumes {
            let lost = self.lost_out > self.retrans_out;
            self.todo |= todo::NEW | if lost { todo::RETRANSMIT } else { 0 };
        }
        resumes
    }

    /// Notes that the segment at `index` of the scoreboard leaves. `in_flight` counts it. `idle`:
    /// nothing else was in flight.
    #[inline]
    pub(super) fn note_paced(
        &mut self,
        cx: &Context,
        (index, in_flight): (u32, u32),
        len: u16,
        idle: bool,
    ) {
        let Some(pace) = &mut self.pace else { return };
        let shortest_us = self.rtt.shortest_us().unwrap_or(0);
        let offload = cx.config.segmentation_offload;
        let burst = pace.burst_size(offload, self.mss, shortest_us);
        pace.note_sent(cx.now, len, burst);
        if let Some(rates) = &mut pace.rates {
            rates.note_sent(index, cx.us, idle, (in_flight, self.lost));
        }
    }

    /// Returns the rate samples, if the control needs them.
    #[inline]
    pub(super) fn rates(&mut self) -> Option<&mut Rates> {
        self.pace.as_mut()?.rates.as_mut()
    }

    /// Begins the rate sample of an acknowledgement.
    #[inline]
    pub(super) fn begin_sample(&mut self) {
        let in_flight = self.in_flight();
        if let Some(rates) = self.rates() {
            rates.begin_ack(in_flight);
        }
    }

    /// Notes, before a write, whether the application has kept the sender waiting
    /// (`tcp_rate_check_app_limited`): it has less than a segment to send, though the window has
    /// room, and nothing has to be sent again.
    pub(super) fn check_application_limit(&mut self) {
        let (in_flight, delivered) = (self.in_flight(), self.delivered);
        let waits = self.unsent.up_to(self.mss) < self.mss
            && in_flight < self.window.cwnd
            && self.lost_out <= self.retrans_out;
        if waits && let Some(rates) = self.rates() {
            rates.limit_by_application(delivered, in_flight);
        }
    }

    /// `tcp_cong_control` of a sender that paces.
    #[inline(never)]
    pub(super) fn control_paced(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if self.control.is_own() {
            self.control_own(cx, ack, delivered, lost);
            return;
        }
        if self.steer(cx, ack, delivered) {
            self.follow_window();
            return;
        }
        if !self.control.sets_window() {
            self.control_window(cx, ack, delivered, lost);
            self.follow_window();
            return;
        }
        let shortest_us = self.rtt.shortest_us().unwrap_or(u32::MAX);
        let (counts, losses) = ((delivered, self.delivered), (lost, self.lost));
        let Some(rates) = self.rates() else { return };
        let sample = rates.sample(cx.us, counts, losses, shortest_us, ack.control_rtt_us());
        let delayed = ack.has(flag::MAYBE_DELAYED);
        self.with_model(delayed, |bbr, path| bbr.on_ack(&cx.moment(), path, &sample));
    }

    /// Tells a model of the path that the segment at `position` of the scoreboard was lost.
    #[inline]
    pub(super) fn tell_loss(&mut self, cx: &Context, position: u32) {
        let (head, lost) = (self.board.head(), self.lost);
        let Some(rates) = self.rates() else { return };
        if let Some(sent) = rates.sent_state(position.wrapping_sub(head), lost) {
            let record = self.board.at(position);
            let lost = Lost { begin: record.seq, end: record.end(), sent };
            self.with_model(false, |bbr, path| bbr.on_lost(&cx.moment(), path, &lost));
        }
    }

    /// Sets the pace of a control that has none of its own.
    pub(super) fn follow_window(&mut self) {
        let Some(pace) = &mut self.pace else { return };
        if let Some(eighths) = self.rtt.smoothed_eighths_us() {
            let pace_of_control = self.control.pace(self.mss);
            let rate = window_rate(self.window, pace_of_control, self.packets_out, eighths);
            pace.rate = Some(rate);
        }
    }

    /// Lets `f` use the control's model of the path. Returns false if it has none.
    #[inline]
    pub(super) fn with_model(
        &mut self,
        ack_is_delayed: bool,
        f: impl FnOnce(&mut Model, &mut Path),
    ) -> bool {
        let in_flight = self.in_flight();
        let (Some(bbr), Some(pace)) = (self.control.model(), &mut self.pace) else { return false };
        let mut path = Path {
            window: &mut self.window,
            pace,
            delivered: self.delivered,
            lost: self.lost,
            in_flight,
            mss: self.mss.into(),
            srtt_us: self.rtt.smoothed_us(),
            shortest_us: self.rtt.shortest_us(),
            recovery: self.state,
            is_cwnd_limited: self.cwnd_limited,
            has_selective_acks: self.sack,
            ack_is_delayed,
        };
        f(bbr, &mut path);
        true
    }
}
