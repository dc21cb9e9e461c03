//! The congestion window, and why it shrinks.
//!
//! Written from RFC 5681 (3.1), in whole segments, as RFC 3465 counts what is acknowledged.

/// The congestion window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The window, in segments.
    pub cwnd: u32,
    /// The threshold of slow start, in segments.
    pub ssthresh: u32,
    /// Segments acknowledged towards the next increase.
    pub count: u32,
}

/// "Unbounded".
pub(crate) const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl Window {
    /// The threshold of a window that nothing has reduced yet, and the largest window.
    pub const UNBOUNDED: u32 = INFINITE_SSTHRESH;

    /// Returns the window of a new connection.
    pub(crate) fn new(cwnd: u32, ssthresh: Option<u32>) -> Self {
        Self { cwnd, ssthresh: ssthresh.unwrap_or(INFINITE_SSTHRESH), count: 0 }
    }

    /// Returns whether the window is below the threshold up to which it grows with every segment.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by one segment for each acknowledged one, up to the threshold. Returns the acknowledged
    /// segments that are left over.
    #[inline]
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let growth = acked.min(self.ssthresh.saturating_sub(self.cwnd));
        self.cwnd += growth;
        acked - growth
    }

    /// Grows by one segment for every `per_increase` acknowledged ones. If that was more until now,
    /// what was counted may exceed it, and counts as one segment.
    #[inline]
    pub fn additive_increase(&mut self, per_increase: u32, acked: u32) {
        let per_increase = per_increase.max(1);
        if self.count >= per_increase {
            (self.cwnd, self.count) = (self.cwnd + 1, 0);
        }
        let counted = self.count + acked;
        let (segments, rest) = if counted < per_increase {
            (0, counted)
        } else {
            (counted / per_increase, counted % per_increase)
        };
        (self.cwnd, self.count) = (self.cwnd + segments, rest);
    }
}

/// Why the window shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A segment was lost.
    Loss,
    /// The receiver reports that a router has marked a segment.
    EcnEcho,
}
