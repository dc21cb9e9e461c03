//! Congestion control: how the window grows, and how far it falls.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cong.c. The window is counted in segments. A control knows the
//! window and the clock, but nothing about packets.

mod cubic;
mod hystart;
mod outside;
mod reno;

use alloc::boxed::Box;

use narrows_units::Span;

use super::clock::{Context, elapsed_us};
use super::{Config, Congestion, EcnResponse, Seq};
use cubic::Cubic;
pub(super) use cubic::Progress;
pub use outside::{CloneControl, CongestionControl, Custom};

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
pub(super) const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl Window {
    /// Returns the window of a new connection.
    pub(super) fn new(config: &Config) -> Self {
        let ssthresh = config.initial_ssthresh.unwrap_or(INFINITE_SSTHRESH);
        Self { cwnd: config.initial_window, ssthresh, count: 0 }
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

/// The congestion control of one sender, with its state.
#[derive(Clone, Debug)]
pub(super) enum Control {
    Reno,
    Cubic(Cubic),
    Custom(Box<dyn CongestionControl>),
}

impl Control {
    pub(super) fn new(congestion: &Congestion) -> Self {
        match congestion {
            Congestion::Reno => Self::Reno,
            Congestion::Cubic => Self::Cubic(Cubic::default()),
            Congestion::Custom(custom) => Self::Custom(custom.make()),
        }
    }

    /// `ca_ops->init`: the connection is established. What the handshake measured is forgotten
    /// (`bictcp_reset`).
    pub(super) fn start(&mut self, now_us: u32, snd_nxt: Seq) {
        if let Self::Cubic(cubic) = self {
            cubic.reset(now_us, snd_nxt);
        }
    }

    /// `ca_ops->ssthresh`: returns the window to which it has to fall.
    pub(super) fn ssthresh(&mut self, cx: &Context, cwnd: u32, signal: Signal) -> u32 {
        let gentle = signal == Signal::EcnEcho && cx.config.ecn_response == EcnResponse::Abe;
        match self {
            Self::Reno => reno::ssthresh(cwnd, gentle),
            Self::Cubic(cubic) => cubic.ssthresh(cwnd, gentle),
            Self::Custom(control) => control.ssthresh(cx.now, cwnd, signal).max(2),
        }
    }

    /// `ca_ops->cong_avoid`: grows the window after `acked` segments. Call only if the window
    /// limited the sender.
    #[inline]
    pub(super) fn avoid(&mut self, cx: &Context, window: &mut Window, acked: u32) {
        match self {
            Self::Reno => reno::avoid(window, acked),
            Self::Cubic(cubic) => cubic.avoid(cx, window, acked),
            Self::Custom(control) => {
                control.avoid(cx.now, window, acked);
                window.cwnd = window.cwnd.max(1);
            }
        }
    }

    /// `ca_ops->pkts_acked`: a delay sample.
    #[inline]
    pub(super) fn on_delay(
        &mut self,
        cx: &Context,
        window: &mut Window,
        delay_us: u32,
        progress: Progress,
    ) {
        match self {
            Self::Reno => {}
            Self::Cubic(cubic) => cubic.on_delay(cx, window, delay_us, progress),
            Self::Custom(control) => {
                control.on_round_trip(cx.now, Span::from_us(delay_us.into()));
            }
        }
    }

    /// `ca_ops->set_state` with `TCP_CA_Loss`.
    pub(super) fn on_timeout(&mut self, cx: &Context, snd_nxt: Seq) {
        match self {
            Self::Reno => {}
            Self::Cubic(cubic) => cubic.reset(cx.us, snd_nxt),
            Self::Custom(control) => control.on_timeout(cx.now),
        }
    }

    /// `ca_ops->cwnd_event` with `CA_EVENT_TX_START`: nothing has been in flight since
    /// `last_sent_us`.
    #[inline]
    pub(super) fn on_restart(&mut self, cx: &Context, last_sent_us: u32) {
        if let Self::Cubic(cubic) = self {
            cubic.on_restart(cx, elapsed_us(cx.us, last_sent_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tcp_slow_start`: up to the threshold, which it may already exceed.
    #[test]
    fn slow_start_returns_what_exceeds_the_threshold() {
        for (cwnd, ssthresh, acked, expected) in [
            (9, 20, 3, (12, 0)),
            (9, 11, 2, (11, 0)),
            (9, 11, 3, (11, 1)),
            (11, 11, 3, (11, 3)),
            (12, 11, 3, (12, 3)),
        ] {
            let mut window = Window { cwnd, ssthresh, count: 0 };
            assert_eq!(window.in_slow_start(), cwnd < ssthresh);
            let left = window.slow_start(acked);
            assert_eq!((window.cwnd, left), expected, "{cwnd} {ssthresh} {acked}");
        }
    }

    /// `tcp_cong_avoid_ai`.
    #[test]
    fn a_pace_of_n_adds_one_for_n_segments() {
        for (count, per_increase, acked, expected) in [
            (0, 10, 9, (20, 9)),
            (0, 10, 10, (21, 0)),
            (3, 10, 8, (21, 1)),
            (0, 10, 25, (22, 5)),
            // The pace has become faster: what was counted is one segment.
            (10, 10, 1, (21, 1)),
            (15, 10, 12, (22, 2)),
            (0, 0, 2, (22, 0)),
        ] {
            let mut window = Window { cwnd: 20, ssthresh: 5, count };
            window.additive_increase(per_increase, acked);
            assert_eq!((window.cwnd, window.count), expected, "{count} {per_increase} {acked}");
        }
    }
}
