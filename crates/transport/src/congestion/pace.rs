//! Pacing: segments leave at a rate, one by one or in small bursts, and not as fast as the windows
//! allow.
//!
//! Source: the behaviour of Linux 6.1 without the queue `fq`, where TCP paces by itself
//! (`SK_PACING_NEEDED`); `tcp_update_pacing_rate`, `tcp_update_skb_after_send`, `tcp_pacing_check`
//! and `tcp_tso_autosize` decide there. The first ten data segments of a connection leave at once.
//! Each segment takes its length divided by the rate. If it leaves late, the next one may leave
//! earlier, by this lateness but at most by half of that time.

use narrows_units::{MaybeTime, Span, Time};

use super::rate::Rates;
use super::window::Window;

/// The pacing of a sender. Only connections that pace have it.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// `sk_pacing_rate` in bytes a second; `None`: as fast as the windows allow.
    pub rate: Option<u64>,
    /// The segments of a burst, if the control decides on it.
    pub quantum: Option<u32>,
    /// `tcp_wstamp_ns`: when the next segment may leave, in whole nanoseconds.
    next_at: Time,
    /// How much later than it might have the current burst has left, in nanoseconds.
    late_ns: u64,
    /// The number of segments of the current burst that may still leave.
    burst: u32,
    /// The number of data segments sent, up to ten.
    sent: u8,
    /// When the sender goes on, if only its pace holds it back.
    pub resumes_at: MaybeTime,
    /// Whether the caller knows this time.
    is_known: bool,
    /// The delivery rate samples, for a control that needs them.
    pub rates: Option<Rates>,
}

impl Pace {
    pub(crate) fn new(samples: bool) -> Self {
        Self {
            rate: None,
            quantum: None,
            next_at: Time::ZERO,
            late_ns: 0,
            burst: 0,
            sent: 0,
            resumes_at: MaybeTime::NONE,
            is_known: true,
            rates: samples.then(Rates::default),
        }
    }

    /// Returns whether the next segment has to wait, and notes until when (`tcp_pacing_check`).
    #[inline]
    pub(crate) fn holds(&mut self, now: Time) -> bool {
        if self.burst > 0 || self.next_at <= now {
            return false;
        }
        let resumes_at = self.next_at.into();
        if self.resumes_at != resumes_at {
            self.resumes_at = resumes_at;
            self.is_known = false;
        }
        true
    }

    /// Returns when the sender goes on, if it is held back and nobody has asked yet.
    #[inline]
    pub(crate) fn take_departure(&mut self) -> Option<Time> {
        if core::mem::replace(&mut self.is_known, true) { None } else { self.resumes_at.get() }
    }

    /// Returns whether the time has come to go on, and forgets it.
    #[inline]
    pub(crate) fn resumes(&mut self, now: Time) -> bool {
        let due = !self.resumes_at.is_after(now);
        if due {
            self.resumes_at = MaybeTime::NONE;
        }
        due
    }

    /// Notes that a segment of `len` payload bytes leaves. `burst`: the number of segments in a burst,
    /// if it is the first of one.
    #[inline]
    pub(crate) fn note_sent(&mut self, now: Time, len: u16, burst: u32) {
        if self.burst == 0 {
            self.late_ns = 0;
            if now > self.next_at {
                self.late_ns = now.since(self.next_at).as_ps() / PS_PER_NS;
                self.next_at += Span::from_ns(self.late_ns);
            }
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
        self.next_at += Span::from_ns(ns - early);
    }

    /// Ends the current burst, because nothing more may be sent now.
    pub(crate) fn end_burst(&mut self) {
        self.burst = 0;
    }

    /// Returns how much later than now the next segment may leave, in microseconds.
    pub(crate) fn ahead_us(&self, now: Time) -> u32 {
        let ahead = self.next_at.as_ps().saturating_sub(now.as_ps());
        ((ahead + PS_PER_NS - 1) / (1000 * PS_PER_NS)) as u32
    }

    /// Returns the number of segments that leave together: what segmentation offload would take at
    /// once (`tcp_tso_autosize`: about a millisecond at the pacing rate, and more on short paths), or
    /// 1 without it. `shortest_us`: the shortest round trip in microseconds.
    #[inline]
    pub(crate) fn burst_size(&self, offload: bool, mss: u16, shortest_us: u32) -> u32 {
        if !offload {
            return 1;
        }
        if let Some(segments) = self.quantum {
            return segments;
        }
        let more = LARGEST_BURST.checked_shr(shortest_us >> 9).unwrap_or(0);
        let bytes = self.rate.map_or(LARGEST_BURST, |rate| (rate >> 10) + more).min(LARGEST_BURST);
        ((bytes / u64::from(mss.max(1))) as u32).max(self.least_burst())
    }

    /// Returns the smallest number of segments that leave together with segmentation offload: two, or
    /// one if BBR is slow (`bbr_min_tso_segs`).
    pub(crate) fn least_burst(&self) -> u32 {
        let is_slow = self.rates.is_some() && self.rate.is_some_and(|rate| rate < SLOW);
        if is_slow { 1 } else { 2 }
    }

    /// Returns the heap bytes in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.rates.as_ref().map_or(0, Rates::heap_bytes)
    }
}

/// Returns the pacing rate of a control that has none of its own, in bytes a second
/// (`tcp_update_pacing_rate`): twice the window in a round trip while the window is below half of
/// ssthresh, afterwards `percent` of it. `mss`: the bytes that count of each segment; `out`: the
/// segments sent and not acknowledged; `eighths`: eight times the smoothed round trip, in
/// microseconds.
pub(crate) fn window_rate(
    window: Window,
    (percent, mss): (u64, u16),
    out: u32,
    eighths: u32,
) -> u64 {
    let percent = if window.cwnd < window.ssthresh / 2 { 200 } else { percent };
    let bytes = u64::from(mss) * u64::from(window.cwnd.max(out));
    bytes * percent * (1_000_000 / 100 * 8) / u64::from(eighths.max(1))
}

const PS_PER_NS: u64 = 1000;
const NS_PER_S: u64 = 1_000_000_000;
/// The data segments that leave before pacing begins.
const AT_ONCE: u8 = 10;
/// The longest burst in bytes (`GSO_MAX_SIZE`).
const LARGEST_BURST: u64 = 65_536;
/// The rate below which BBR sends segments one by one: 1.2 Mbit/s, in bytes a second.
const SLOW: u64 = 150_000;
