//! The congestion window, and why it shrinks.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cong.c (`tcp_slow_start`, `tcp_cong_avoid_ai`).

/// The congestion window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// `snd_cwnd`, in segments.
    pub cwnd: u32,
    /// `snd_ssthresh`, in segments.
    pub ssthresh: u32,
    /// `snd_cwnd_cnt`: segments acknowledged towards the next increase.
    pub count: u32,
}

/// "Unbounded" (`TCP_INFINITE_SSTHRESH`).
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

    /// `tcp_slow_start`: grows by one segment for each acknowledged one, up to ssthresh. Returns
    /// the acknowledged segments that are left over.
    #[inline]
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh).max(self.cwnd);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// `tcp_cong_avoid_ai`: grows by one segment for every `per_increase` acknowledged ones.
    #[inline]
    pub fn additive_increase(&mut self, per_increase: u32, acked: u32) {
        let per_increase = per_increase.max(1);
        if self.count >= per_increase {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        if self.count >= per_increase {
            let delta = self.count / per_increase;
            self.count -= delta * per_increase;
            self.cwnd += delta;
        }
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
