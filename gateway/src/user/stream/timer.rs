//! The retransmission timer (RFC 6298).

use std::time::Duration;

use super::{RTO_INITIAL, RTO_MAX, RTO_MIN, STALLED, Segment, Stream, before};

impl Stream {
    /// Handles the retransmission timer (RFC 6298, 5), which also probes a closed window (RFC 9293,
    /// 3.8.6.1). Does nothing before [`Stream::timeout`].
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.timer.is_none_or(|at| now < at) || self.is_closed() {
            return;
        }
        if now.saturating_sub(self.moved_at) >= STALLED {
            self.abort();
            self.timer = None;
            return;
        }
        self.rto = (self.rto * 2).min(RTO_MAX);
        self.timer = Some(now + self.rto);
        self.timed = None;
        if self.snd_wnd == 0 && !self.unsent.is_empty() {
            self.probe = true;
            return;
        }
        // RFC 5681, 3.1 (4), once for each loss; RFC 6582, 4 (no fast retransmit until that is
        // acknowledged).
        if self.snd_nxt == self.snd_max {
            self.ssthresh = (self.flight() / 2).max(2 * self.mss);
        }
        self.cwnd = self.mss;
        self.recover = None;
        self.duplicates = 0;
        self.snd_nxt = self.snd_una;
        self.resend = true;
    }

    /// Handles a router's report that the segment with this sequence number was too long for the
    /// path, which carries `mss` bytes of TCP options and payload. Returns whether the segment is
    /// in flight (RFC 5927, 7) and segments are shorter now. In that case all unacknowledged data
    /// is sent again. The segment was not lost to congestion (RFC 1191, 6.5), so the windows stay.
    pub fn shorten(&mut self, seq: u32, mss: u16, now: Duration) -> bool {
        let options = if self.timestamps.is_some() { 12 } else { 0 };
        let mss = u32::from(mss.max(64)) - options;
        if seq.wrapping_sub(self.snd_una) >= self.flight() || mss >= self.mss {
            return false;
        }
        self.mss = mss;
        self.timed = None;
        self.recover = None;
        self.duplicates = 0;
        self.snd_nxt = self.snd_una;
        self.timer = Some(now + self.rto);
        true
    }

    /// Returns when [`Stream::handle_timeout`] must be called.
    pub fn timeout(&self) -> Option<Duration> {
        if self.is_closed() { None } else { self.timer }
    }

    /// RFC 6298, 2 and 3.
    pub(super) fn measure(&mut self, segment: &Segment<'_>, now: Duration) {
        let Some((_, sent_at)) = self.timed.take_if(|(end, _)| !before(segment.ack, *end)) else {
            return;
        };
        let sample = now.saturating_sub(sent_at);
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                ((smoothed * 7 + sample) / 8, (variation * 3 + smoothed.abs_diff(sample)) / 4)
            }
        });
    }

    pub(super) fn base_rto(&self) -> Duration {
        match self.rtt {
            None => RTO_INITIAL,
            Some((smoothed, variation)) => (smoothed + variation * 4).clamp(RTO_MIN, RTO_MAX),
        }
    }
}
