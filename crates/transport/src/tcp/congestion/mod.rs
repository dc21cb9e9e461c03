//! Congestion control: how the window grows, and how far it falls.
//!
//! The calls are those with which Linux' controls are plugged in (`tcp_congestion_ops`), and each says
//! which one it is. The window is counted in segments. A control knows the window and the clock, but
//! nothing about packets.

mod cubic;
mod hystart;
mod outside;

use alloc::boxed::Box;

use narrows_units::Span;

use super::clock::{Context, elapsed_us};
use super::{Config, Congestion, EcnResponse, Seq};
use crate::congestion::{
    Dctcp, Delivery, HystartPlusPlus, MOST_SEGMENTS, Model, Prague, Scaling, Signal, Step, Window,
    reno,
};
use crate::flow_sample::CONSERVATIVE;
pub(super) use cubic::Progress;
use cubic::{Cubic, Exit};
pub use outside::{Acknowledgement, CongestionControl, Custom, DeliveryRate};

/// The bursts for which BBR v3's window has room (draft-ietf-ccwg-bbr-06, 5.5.8.1).
const QUANTA: u32 = 3;
/// The length in bytes of the headers of IPv4, and of TCP with timestamps and the AccECN option.
const HEADERS: u16 = 64;

/// The congestion control of one sender, with its state.
#[derive(Debug)]
pub(super) enum Control {
    /// With HyStart++, if the settings say so.
    Reno(Option<Box<HystartPlusPlus>>),
    Cubic(Cubic),
    Bbr(Model),
    Dctcp(Dctcp),
    Prague(Box<Prague>),
    Custom(Box<dyn CongestionControl>),
}

impl Control {
    /// Creates the control of a connection whose first sequence number is `first`.
    pub(super) fn new(config: &Config, first: Seq) -> Self {
        let gentle = || config.slow_start.state(first).map(Box::new);
        match &config.congestion {
            Congestion::Reno => Self::Reno(gentle()),
            Congestion::Cubic => Self::Cubic(Cubic::new(gentle())),
            Congestion::Bbr => Self::Bbr(Model::v1(first.0)),
            Congestion::BbrV3 => Self::Bbr(Model::v3(first.0, QUANTA)),
            Congestion::Dctcp => Self::Dctcp(Dctcp::new(first)),
            Congestion::Prague => Self::Prague(Box::new(Prague::new(first))),
            Congestion::Custom(custom) => Self::Custom(custom.make(first.0)),
        }
    }

    /// Returns the model of the path, if it sets the pace and the window (`cong_control`).
    #[inline]
    pub(super) fn model(&mut self) -> Option<&mut Model> {
        match self {
            Self::Bbr(bbr) => Some(bbr),
            Self::Reno(_) | Self::Cubic(_) | Self::Dctcp(_) | Self::Prague(_) | Self::Custom(_) => {
                None
            }
        }
    }

    /// Returns the name of its phase, if it has phases of its own.
    pub(super) fn phase(&self) -> Option<&'static str> {
        match self {
            Self::Bbr(bbr) => Some(bbr.phase()),
            Self::Custom(control) => control.phase(),
            Self::Reno(Some(gentle)) | Self::Cubic(Cubic { exit: Exit::Gentle(gentle), .. }) => {
                gentle.is_conservative().then_some(CONSERVATIVE)
            }
            Self::Reno(None) | Self::Cubic(_) | Self::Dctcp(_) | Self::Prague(_) => None,
        }
    }

    /// Returns the state of HyStart++, if the control has it.
    #[inline]
    fn gentle(&mut self) -> Option<&mut HystartPlusPlus> {
        match self {
            Self::Reno(Some(gentle)) | Self::Cubic(Cubic { exit: Exit::Gentle(gentle), .. }) => {
                Some(gentle)
            }
            Self::Reno(None)
            | Self::Cubic(_)
            | Self::Bbr(_)
            | Self::Dctcp(_)
            | Self::Prague(_)
            | Self::Custom(_) => None,
        }
    }

    /// Returns the share of packets, 0 to 1, that it takes to be marked, if it estimates one.
    pub(super) fn alpha(&self) -> Option<f64> {
        match self {
            Self::Dctcp(dctcp) => Some(dctcp.alpha()),
            Self::Prague(prague) => Some(prague.alpha()),
            Self::Reno(_) | Self::Cubic(_) | Self::Bbr(_) | Self::Custom(_) => None,
        }
    }

    /// Returns whether it sets the window with every acknowledgement. TCP itself then does not change
    /// the window.
    #[inline]
    pub(super) fn sets_window(&self) -> bool {
        match self {
            Self::Bbr(_) | Self::Prague(_) => true,
            Self::Custom(control) => control.owns_window(),
            Self::Reno(_) | Self::Cubic(_) | Self::Dctcp(_) => false,
        }
    }

    /// Returns whether it is one from outside.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Custom(_))
    }

    /// `ca_ops->init`: the connection is established. What the handshake measured is forgotten
    /// (`bictcp_reset`).
    pub(super) fn start(&mut self, now_us: u32, snd_nxt: Seq) {
        match self {
            Self::Cubic(cubic) => cubic.reset(now_us, snd_nxt),
            Self::Dctcp(dctcp) => dctcp.start(snd_nxt),
            Self::Prague(prague) => prague.start(now_us, snd_nxt),
            Self::Reno(_) | Self::Bbr(_) | Self::Custom(_) => {}
        }
    }

    /// `ca_ops->ssthresh`: returns the window to which it has to fall.
    pub(super) fn ssthresh(&mut self, cx: &Context, window: Window, signal: Signal) -> u32 {
        let cwnd = window.cwnd;
        let gentle = signal == Signal::EcnEcho && cx.config.ecn_response == EcnResponse::Abe;
        if let Some(hystart) = self.gentle() {
            hystart.end();
        }
        match self {
            Self::Reno(_) => reno::ssthresh(cwnd, gentle),
            Self::Cubic(cubic) => cubic.ssthresh(cwnd, gentle),
            Self::Bbr(bbr) => {
                bbr.on_recovery(cwnd);
                window.ssthresh
            }
            Self::Dctcp(dctcp) => dctcp.ssthresh(cwnd, signal == Signal::EcnEcho),
            Self::Prague(prague) => match signal {
                Signal::Loss => prague.on_loss(window),
                Signal::EcnEcho => {
                    prague.on_mark(&step(cx), window);
                    window.ssthresh
                }
            },
            Self::Custom(control) => control.ssthresh(cx.now, cwnd, signal).max(2),
        }
    }

    /// Returns whether [`on_delivered`](Self::on_delivered) has to tell it about marks. Prague hears of
    /// them by [`steer`](Self::steer).
    #[inline]
    pub(super) fn counts_marks(&self) -> bool {
        matches!(self, Self::Dctcp(_))
    }

    /// `ca_ops->in_ack_event`: an acknowledgement delivers segments, of which some were marked.
    #[inline]
    pub(super) fn on_delivered(&mut self, delivered: u32, marked: u32, snd_una: Seq, snd_nxt: Seq) {
        if let Self::Dctcp(dctcp) = self {
            dctcp.on_delivered(delivered, marked, snd_una, snd_nxt);
        }
    }

    /// Lets Prague change the window. Returns false if it is another control.
    #[inline]
    pub(super) fn steer(&mut self, cx: &Context, window: &mut Window, ack: &Delivery) -> bool {
        let Self::Prague(prague) = self else { return false };
        prague.on_ack(&step(cx), window, ack);
        true
    }

    /// Returns how fast it sends after slow start if it paces, in percent of the window in a round
    /// trip, and the bytes that it counts of a segment of `mss` bytes of payload. Prague's pacing rate
    /// counts headers as well, so it exceeds the window by 4.5 % and lets the window grow.
    pub(super) fn pace(&self, mss: u16) -> (u64, u16) {
        if matches!(self, Self::Prague(_)) { (100, mss + HEADERS) } else { (120, mss) }
    }

    /// `ca_ops->cong_avoid`: grows the window after `acked` segments. Call only if the window
    /// limited the sender.
    #[inline]
    pub(super) fn avoid(&mut self, cx: &Context, window: &mut Window, mut acked: u32) {
        if window.in_slow_start()
            && let Some(hystart) = self.gentle()
        {
            let most = if cx.config.paces() { u64::MAX } else { MOST_SEGMENTS };
            acked = hystart.growth(acked.into(), most) as u32;
        }
        match self {
            Self::Reno(_) | Self::Dctcp(_) => reno::avoid(window, acked),
            Self::Cubic(cubic) => cubic.avoid(cx, window, acked),
            Self::Bbr(_) | Self::Prague(_) => {}
            Self::Custom(control) => control.grow(cx.now, window, acked),
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
        if window.in_slow_start()
            && let Some(hystart) = self.gentle()
            && hystart.on_round_trip(delay_us, progress.snd_una, progress.snd_nxt)
        {
            window.ssthresh = window.cwnd;
        }
        match self {
            Self::Reno(_) | Self::Bbr(_) | Self::Dctcp(_) | Self::Prague(_) => {}
            Self::Cubic(cubic) => cubic.on_delay(cx, window, delay_us, progress),
            Self::Custom(control) => {
                control.on_round_trip(cx.now, Span::from_us(delay_us.into()));
            }
        }
    }

    /// `ca_ops->set_state` with `TCP_CA_Loss`.
    pub(super) fn on_timeout(&mut self, cx: &Context, snd_nxt: Seq) {
        match self {
            Self::Reno(_) | Self::Bbr(_) | Self::Dctcp(_) | Self::Custom(_) => {}
            Self::Prague(prague) => prague.on_timeout(),
            Self::Cubic(cubic) => cubic.reset(cx.us, snd_nxt),
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

/// Returns what Prague needs of a step.
fn step(cx: &Context) -> Step {
    let scaling = Scaling {
        is_on: cx.config.prague_rtt_scaling,
        target: cx.config.prague_rtt_target,
        transition: cx.config.prague_rtt_transition,
    };
    Step { us: cx.us, scaling }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow start goes up to the threshold, which it may already exceed.
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
