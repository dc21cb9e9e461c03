//! When acknowledgements are sent: at once, with the second segment, or after a delay; and how
//! SACKs are combined.
//!
//! Written from RFC 5681 (4.2), RFC 1122 (4.2.3.2), and from Sarolahti and Kuznetsov, "Congestion
//! control in Linux TCP" (USENIX, 2002), which describes quick acknowledgements, conversations and
//! the estimate of the delay. The numbers are those of Linux 6.1 (with the change of 6.1.57 for full
//! segments with PSH), as facts, and replays on a kernel check when it acknowledges. Differences: the
//! application reads each segment at once. Without autotuning, the RTT that bounds SACK compression
//! is the sending half's, which the handshake has measured.

use narrows_units::{MaybeTime, Span};

use super::{MOST_QUICK, Receiver};
use crate::tcp::clock::Context;
use crate::tcp::segment::Header;
use crate::tcp::{AckPolicy, Flags};

/// What to do about an acknowledgement that may be owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Nothing,
    Send,
}

impl Receiver {
    /// Handles data in order.
    #[inline(always)]
    pub(super) fn on_data(&mut self, cx: &Context, header: &Header, rto: u32) {
        self.scheduled = true;
        let longest = header.len > self.rcv_mss;
        if cx.config.acks != AckPolicy::EverySegment {
            self.observe(cx, header, rto);
        }
        self.check_ce(cx, header);
        if cx.config.receive_autotuning {
            self.fill(cx, header, longest);
        }
    }

    /// Updates what delayed acknowledgements depend on: full segments, and the time between them.
    #[inline(never)]
    fn observe(&mut self, cx: &Context, header: &Header, rto: u32) {
        self.find_full_segments(header);
        let now = cx.jiffies();
        let gap = now.wrapping_sub(core::mem::replace(&mut self.last_data, now));
        let shortest = cx.span_to_jiffies(SHORTEST_DELAY);
        // The estimate settles at twice the gap.
        match self.ato {
            0 => {
                self.ato = shortest;
                self.add_quick(MOST_QUICK);
            }
            ato if gap <= shortest / 2 => self.ato = ato / 2 + shortest / 2,
            ato if gap < ato => self.ato = rto.min(ato / 2 + gap),
            // The sender may be restarting after a long silence.
            _ if gap > rto => self.add_quick(MOST_QUICK),
            _ => {}
        }
    }

    /// Tells a full segment from the end of what the application wrote. A shorter one may be full on
    /// a path with a smaller MTU: it is, if the next one is as long.
    #[inline]
    fn find_full_segments(&mut self, header: &Header) {
        let before = core::mem::take(&mut self.last_small);
        let is_full = header.len >= self.rcv_mss;
        if !is_full && header.len >= SMALLEST_FULL {
            self.last_small = header.len;
        }
        if is_full || (self.last_small > 0 && self.last_small == before) {
            self.rcv_mss = header.len;
            self.pushed |= is_full && header.flags.contains(Flags::PSH);
        } else {
            self.pushed_again |= self.pushed;
            self.pushed = true;
        }
    }

    /// Lets the next acknowledgements be quick ones: enough for half of the window, at most `most`.
    fn add_quick(&mut self, most: u32) {
        let segments = match self.window / (2 * u32::from(self.rcv_mss)) {
            0 => 2,
            segments => segments,
        };
        self.quick = self.quick.max(segments.min(most) as u8);
    }

    /// Ends delays for a while.
    pub(super) fn enter_quick_mode(&mut self, cx: &Context, most: u32) {
        self.add_quick(most);
        self.pingpong = false;
        self.ato = cx.span_to_jiffies(SHORTEST_DELAY);
    }

    /// Sends an acknowledgement at the next opportunity.
    pub(crate) fn acknowledge_now(&mut self) {
        self.scheduled = true;
        self.now = true;
    }

    /// Notes that data was sent. Soon after data came, that is a conversation: answers carry the
    /// acknowledgements.
    #[inline]
    pub(crate) fn on_data_sent(&mut self, cx: &Context) {
        if self.ato > 0 && cx.jiffies().wrapping_sub(self.last_data) < self.ato {
            self.pingpong = true;
        }
    }

    /// Notes that a segment with an acknowledgement was sent.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self, cx: &Context) {
        if self.quick > 0 && self.scheduled {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = cx.span_to_jiffies(SHORTEST_DELAY);
            }
        }
        self.rcv_wup = self.rcv_nxt;
        self.scheduled = false;
        self.now = false;
        self.pushed = false;
        self.pushed_again = false;
        self.first = false;
        self.ack_at = MaybeTime::NONE;
        self.read_after_ack();
        self.calm_down();
    }

    /// Decides about an acknowledgement, after everything else was sent.
    #[inline(always)]
    pub(crate) fn decide(&mut self, cx: &Context, srtt_us: Option<u32>) -> Decision {
        if !self.scheduled {
            self.decide_on_window()
        } else if cx.config.acks == AckPolicy::EverySegment {
            Decision::Send
        } else {
            self.decide_on_delay(cx, srtt_us)
        }
    }

    fn decide_on_delay(&mut self, cx: &Context, srtt_us: Option<u32>) -> Decision {
        let unacknowledged = self.rcv_nxt.distance(self.rcv_wup);
        let gap = self.has_gap();
        if let AckPolicy::Delayed(delay) = cx.config.acks {
            if self.now
                || gap
                || unacknowledged == 0
                || unacknowledged >= 2 * u32::from(self.rcv_mss)
            {
                return Decision::Send;
            }
            if self.ack_at == MaybeTime::NONE {
                self.ack_at = (cx.now + delay).into();
            }
            return Decision::Nothing;
        }
        let enough = unacknowledged > u32::from(self.rcv_mss);
        if (enough && self.keeps_window()) || (self.quick > 0 && !self.pingpong) || self.now {
            return Decision::Send;
        }
        // The application reads at once, so the end of a write is acknowledged when it was read.
        self.read();
        let read_out = unacknowledged > 0 && (self.pushed_again || (self.pushed && !self.pingpong));
        if enough || (read_out && !gap) || (unacknowledged > 0 && self.has_opened()) {
            return Decision::Send;
        }
        if !gap {
            return self.delay(cx, srtt_us);
        }
        self.compress(cx, srtt_us)
    }

    /// Decides when no acknowledgement is owed: the window alone can be a reason for one.
    #[inline]
    fn decide_on_window(&mut self) -> Decision {
        if self.has_read_after_ack() && self.has_opened() {
            Decision::Send
        } else {
            Decision::Nothing
        }
    }

    /// Sets the timer for a delayed acknowledgement, or decides to send it now if the timer is about
    /// to fire.
    fn delay(&mut self, cx: &Context, srtt_us: Option<u32>) -> Decision {
        let (shortest, longest) =
            (cx.span_to_jiffies(SHORTEST_DELAY), cx.span_to_jiffies(LONGEST_DELAY));
        let round_trip = srtt_us.map_or(longest, |us| cx.jiffies_in(us));
        let delay = self.ato.max(1).min(round_trip.clamp(shortest, longest));
        let soon = cx.now + Span::from_us(cx.us_in(delay / 4).into());
        if self.ack_at != MaybeTime::NONE && !self.ack_at.is_after(soon) {
            return Decision::Send;
        }
        self.ack_at = self.ack_at.min(cx.deadline(delay).into());
        Decision::Nothing
    }

    /// SACK compression: after three duplicates, sends one acknowledgement in
    /// `comp_sack_rtt_percent` of a round trip, or in a millisecond if that is shorter.
    fn compress(&mut self, cx: &Context, srtt_us: Option<u32>) -> Decision {
        let rtt_us = match self.rtt_us() {
            Some(rtt_us) => srtt_us.map_or(rtt_us, |srtt_us| rtt_us.min(srtt_us)),
            None => srtt_us.unwrap_or(0),
        };
        let (next, sack) = (self.rcv_nxt, self.sack);
        let Some(trouble) = self.trouble_mut().filter(|_| sack) else {
            return Decision::Send;
        };
        if trouble.compressed >= MOST_COMPRESSED {
            return Decision::Send;
        }
        if trouble.compressed_nxt != Some(next) {
            trouble.compressed_nxt = Some(next);
            trouble.duplicates = 0;
        }
        if trouble.duplicates < UNCOMPRESSED {
            trouble.duplicates += 1;
            return Decision::Send;
        }
        trouble.compressed += 1;
        let first = trouble.compressed == 1;
        self.scheduled = false;
        if first {
            let percent = u64::from(cx.config.comp_sack_rtt_percent);
            let delay = Span::from_us(u64::from(rtt_us) * percent / 100).min(COMPRESSION);
            self.ack_at = self.ack_at.min((cx.now + delay).into());
        }
        Decision::Nothing
    }

    /// Sends what was held back by SACK compression.
    pub(super) fn flush_compressed(&mut self) {
        if self.trouble().is_some_and(|trouble| trouble.compressed > 0) {
            self.acknowledge_now();
        }
    }

    /// Returns when the delayed or compressed acknowledgement is sent.
    #[inline]
    pub(crate) fn deadline(&self) -> MaybeTime {
        self.ack_at
    }

    /// Handles the timer, if it has fired. A delay that nothing has used was in vain: the next one is
    /// twice as long, or the conversation is over.
    pub(crate) fn handle_timeout(&mut self, cx: &Context, rto: u32) {
        if self.ack_at.is_after(cx.now) {
            return;
        }
        self.ack_at = MaybeTime::NONE;
        if !self.scheduled {
            self.flush_compressed();
            return;
        }
        self.now = true;
        self.ato = if core::mem::take(&mut self.pingpong) {
            cx.span_to_jiffies(SHORTEST_DELAY)
        } else {
            rto.min(self.ato.saturating_mul(2))
        };
    }
}

/// `TCP_ATO_MIN`, `TCP_DELACK_MIN`.
const SHORTEST_DELAY: Span = Span::from_ms(40);
/// `TCP_DELACK_MAX`.
const LONGEST_DELAY: Span = Span::from_ms(200);
/// `sysctl_tcp_comp_sack_nr`.
const MOST_COMPRESSED: u8 = 44;
/// `sysctl_tcp_comp_sack_delay_ns`.
const COMPRESSION: Span = Span::from_ms(1);
/// `TCP_FASTRETRANS_THRESH`.
const UNCOMPRESSED: u8 = 3;
/// The payload of the smallest segment that may be full on its path (`TCP_MSS_DEFAULT`).
const SMALLEST_FULL: u16 = 536;

#[cfg(test)]
mod tests;
