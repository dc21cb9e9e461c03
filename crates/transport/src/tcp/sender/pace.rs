//! Pacing: segments leave one by one at a rate, or in small bursts, and not as fast as the windows
//! allow.
//!
//! Source: Linux 6.1 `tcp_update_pacing_rate`, `tcp_update_skb_after_send`, `tcp_pacing_check`,
//! `tcp_tso_autosize`: a sender that paces itself (`SK_PACING_NEEDED`). The first ten data segments
//! of a connection leave at once. A segment that leaves late gives the next one up to half of its
//! time back.

use narrows_units::{MaybeTime, Time};

use super::ack::{Ack, flag};
use super::rate::Rates;
use super::{Sender, todo};
use crate::tcp::clock::Context;
use crate::tcp::congestion::{Bbr, Path, Window};

/// The pacing of a sender. Only connections that pace have it.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Pace {
    /// `sk_pacing_rate` in bytes a second; `None`: as fast as the windows allow.
    pub rate: Option<u64>,
    /// `tcp_wstamp_ns`: when the next segment may leave, in nanoseconds since the start.
    next_ns: u64,
    /// How much later than it might the burst at hand has left, in nanoseconds.
    late_ns: u64,
    /// The segments of the burst at hand that may still leave.
    burst: u32,
    /// The data segments sent, up to the first ten.
    sent: u8,
    /// When the sender goes on, if only its pace holds it back.
    pub resumes_at: MaybeTime,
    /// Whether the caller knows this time.
    is_known: bool,
    /// The delivery rate samples, for a control that needs them.
    pub rates: Option<Rates>,
}

impl Pace {
    pub(super) fn new(samples: bool) -> Self {
        Self {
            rate: None,
            next_ns: 0,
            late_ns: 0,
            burst: 0,
            sent: 0,
            resumes_at: MaybeTime::NONE,
            is_known: true,
            rates: samples.then(Rates::default),
        }
    }

    /// Returns whether the next segment has to wait, and notes until when (`tcp_pacing_check`).
    fn holds(&mut self, cx: &Context) -> bool {
        if self.burst > 0 || self.next_ns <= now_ns(cx) {
            return false;
        }
        let resumes_at = Time::from_ps(self.next_ns * PS_PER_NS).into();
        if self.resumes_at != resumes_at {
            self.resumes_at = resumes_at;
            self.is_known = false;
        }
        true
    }

    /// Returns when the sender goes on, if it is held back and nobody has asked yet.
    #[inline]
    pub(super) fn take_departure(&mut self) -> Option<Time> {
        if core::mem::replace(&mut self.is_known, true) { None } else { self.resumes_at.get() }
    }

    /// Returns whether the time has come to go on, and forgets it.
    fn resumes(&mut self, now: Time) -> bool {
        let due = !self.resumes_at.is_after(now);
        if due {
            self.resumes_at = MaybeTime::NONE;
        }
        due
    }

    /// Notes that a segment of `len` payload bytes leaves. `burst`: the segments of which it may be
    /// the first.
    fn note_sent(&mut self, cx: &Context, len: u16, burst: u32) {
        if self.burst == 0 {
            let now_ns = now_ns(cx);
            self.late_ns = now_ns.saturating_sub(self.next_ns);
            self.next_ns = self.next_ns.max(now_ns);
            self.burst = burst;
        }
        self.burst -= 1;
        if self.sent < AT_ONCE {
            self.sent += u8::from(len > 0);
            if self.sent < AT_ONCE {
                return;
            }
        }
        let Some(rate) = self.rate else { return };
        let ns = u64::from(len) * NS_PER_S / rate.max(1);
        let early = (ns / 2).min(self.late_ns);
        self.late_ns -= early;
        self.next_ns += ns - early;
    }

    /// Ends the burst at hand, because nothing more may be sent now.
    pub(super) fn end_burst(&mut self) {
        self.burst = 0;
    }

    /// Returns how much later than now the next segment may leave, in microseconds.
    pub(in crate::tcp) fn ahead_us(&self, cx: &Context) -> u32 {
        (self.next_ns.saturating_sub(now_ns(cx)) / 1000) as u32
    }

    /// Returns the segments that leave together: what segmentation offload would take at once
    /// (`tcp_tso_autosize`: a millisecond at the pacing rate, and more on short paths), or 1
    /// without it.
    fn burst_size(&self, offload: bool, mss: u16, shortest_us: u32) -> u32 {
        if !offload {
            return 1;
        }
        let more = LARGEST_BURST.checked_shr(shortest_us >> 9).unwrap_or(0);
        let bytes = self.rate.map_or(LARGEST_BURST, |rate| (rate >> 10) + more).min(LARGEST_BURST);
        ((bytes / u64::from(mss.max(1))) as u32).max(self.least_burst())
    }

    /// Returns the least segments that leave together with segmentation offload: two, or one if a
    /// control with a rate of its own is slow (`bbr_min_tso_segs`).
    pub(in crate::tcp) fn least_burst(&self) -> u32 {
        let is_slow = self.rates.is_some() && self.rate.is_some_and(|rate| rate < SLOW);
        if is_slow { 1 } else { 2 }
    }

    /// Returns the heap bytes in use.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.rates.as_ref().map_or(0, Rates::heap_bytes)
    }

    /// Sets the rate of a control that has none of its own (`tcp_update_pacing_rate`): twice the
    /// window in a round trip in slow start, afterwards `percent` of it. `out`: the segments in
    /// flight; `eighths`: eight times the smoothed round trip, in microseconds.
    fn follow_window(
        &mut self,
        window: Window,
        (percent, mss): (u64, u16),
        out: u32,
        eighths: u32,
    ) {
        let percent = if window.cwnd < window.ssthresh / 2 { 200 } else { percent };
        let bytes = u64::from(mss) * u64::from(window.cwnd.max(out));
        self.rate = Some(bytes * percent * (1_000_000 / 100 * 8) / u64::from(eighths.max(1)));
    }
}

/// What a sender does with its pacing.
impl Sender {
    /// Begins to pace: the connection is established.
    pub(super) fn start_pace(&mut self, cx: &Context) {
        if self.pace.is_some() && !self.with_model(false, |bbr, path| bbr.start(cx, path)) {
            self.follow_window();
        }
    }

    /// Returns whether the pace holds the next segment back.
    #[inline(always)]
    pub(super) fn is_held_back(&mut self, cx: &Context) -> bool {
        self.pace.as_mut().is_some_and(|pace| pace.holds(cx))
    }

    /// Goes on, if only the pace has held the sender back until now (`tcp_tsq_write`).
    #[inline]
    pub(crate) fn resume(&mut self, cx: &Context) -> bool {
        let resumes = self.pace.as_mut().is_some_and(|pace| pace.resumes(cx.now));
        if resumes {
            let lost = self.lost_out > self.retrans_out;
            self.todo |= todo::NEW | if lost { todo::RETRANSMIT } else { 0 };
        }
        resumes
    }

    /// Notes that the segment at `index` of the scoreboard leaves. `idle`: nothing else was in
    /// flight.
    #[inline]
    pub(super) fn note_paced(&mut self, cx: &Context, index: u32, len: u16, idle: bool) {
        let Some(pace) = &mut self.pace else { return };
        let shortest_us = self.rtt.shortest_us().unwrap_or(0);
        let offload = cx.config.segmentation_offload;
        let burst = pace.burst_size(offload, self.mss, shortest_us);
        pace.note_sent(cx, len, burst);
        if let Some(rates) = &mut pace.rates {
            rates.note_sent(index, cx.us, idle);
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
        if self.steer(cx, ack, delivered) {
            self.follow_window();
            return;
        }
        if !self.control.has_model() {
            self.control_window(cx, ack, delivered, lost);
            self.follow_window();
            return;
        }
        let shortest_us = self.rtt.shortest_us().unwrap_or(u32::MAX);
        let counts = (delivered, self.delivered, lost);
        let Some(rates) = self.rates() else { return };
        let sample = rates.sample(cx.us, counts, shortest_us, ack.control_rtt_us());
        let delayed = ack.has(flag::MAYBE_DELAYED);
        self.with_model(delayed, |bbr, path| bbr.on_ack(cx, path, &sample));
    }

    /// Sets the pace of a control that has none of its own.
    fn follow_window(&mut self) {
        let Some(pace) = &mut self.pace else { return };
        if let Some(eighths) = self.rtt.smoothed_eighths_us() {
            let pace_of_control = self.control.pace(self.mss);
            pace.follow_window(self.window, pace_of_control, self.packets_out, eighths);
        }
    }

    /// Lets `f` use the control's model of the path. Returns false if it has none.
    #[inline]
    pub(super) fn with_model(
        &mut self,
        ack_is_delayed: bool,
        f: impl FnOnce(&mut Bbr, &mut Path),
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
            ack_is_delayed,
        };
        f(bbr, &mut path);
        true
    }
}

fn now_ns(cx: &Context) -> u64 {
    cx.now.as_ps() / PS_PER_NS
}

const PS_PER_NS: u64 = 1000;
const NS_PER_S: u64 = 1_000_000_000;
/// The data segments that leave before pacing begins.
const AT_ONCE: u8 = 10;
/// `GSO_MAX_SIZE`.
const LARGEST_BURST: u64 = 65_536;
/// 1.2 Mbit/s, in bytes a second.
const SLOW: u64 = 150_000;
