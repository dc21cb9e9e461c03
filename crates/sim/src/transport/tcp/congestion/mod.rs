//! Congestion control: how the window grows, and how far it falls.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cong.c. The window is counted in segments.
//! A control knows the window and the clock, nothing of packets.

mod cubic;
mod hystart;
mod reno;

pub(crate) use cubic::{Cubic, Progress};

use super::clock::Context;
use super::{Congestion, EcnResponse};

/// The congestion window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// `snd_cwnd`, in segments.
    pub(crate) cwnd: u32,
    /// `snd_ssthresh`, in segments.
    pub(crate) ssthresh: u32,
    /// `snd_cwnd_cnt`: segments acknowledged towards the next increase.
    pub(crate) count: u32,
}

/// "Unbounded" (`TCP_INFINITE_SSTHRESH`).
pub(crate) const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

impl Window {
    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// `tcp_slow_start`: one segment for each acknowledged one, up to ssthresh; gives back the
    /// acknowledged segments that are left over.
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// `tcp_cong_avoid_ai`: one segment more for every `per_increase` acknowledged ones.
    #[inline]
    pub(crate) fn additive_increase(&mut self, per_increase: u32, acked: u32) {
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
pub(crate) enum Signal {
    Loss,
    EcnEcho,
}

/// `ca_ops->ssthresh`: where the window has to go.
pub(crate) fn ssthresh(cx: &Context, cubic: &mut Cubic, cwnd: u32, signal: Signal) -> u32 {
    let gentle = signal == Signal::EcnEcho && cx.config.ecn_response == EcnResponse::Abe;
    match cx.config.congestion {
        Congestion::Reno => reno::ssthresh(cwnd, gentle),
        Congestion::Cubic => cubic.ssthresh(cwnd, gentle),
    }
}

/// `ca_ops->cong_avoid`: the window grows after `acked` segments; call only where the window
/// limited the sender.
#[inline]
pub(crate) fn avoid(cx: &Context, cubic: &mut Cubic, window: &mut Window, acked: u32) {
    match cx.config.congestion {
        Congestion::Reno => reno::avoid(window, acked),
        Congestion::Cubic => cubic.avoid(cx, window, acked),
    }
}
