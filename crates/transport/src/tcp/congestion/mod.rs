//! Congestion control: how the window grows, and how far it falls.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cong.c. The window is counted in segments. A control knows the
//! window and the clock, but nothing about packets.

mod bbr;
mod cubic;
mod dctcp;
mod hystart;
mod outside;
mod prague;
mod reno;

use alloc::boxed::Box;

use narrows_units::Span;

use super::clock::{Context, elapsed_us};
use super::sender::{Pace, State};
use super::{Config, Congestion, EcnResponse, Seq};
pub(super) use bbr::Bbr;
use cubic::Cubic;
pub(super) use cubic::Progress;
use dctcp::Dctcp;
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

/// What an acknowledgement tells Prague.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// The segments that it delivers, and those of them that were marked.
    pub delivered: u32,
    pub marked: u32,
    pub snd_una: Seq,
    pub snd_nxt: Seq,
    /// The smoothed round trip in microseconds; 0 before the first one.
    pub srtt_us: u32,
    /// Whether the window limits the sender.
    pub is_limited: bool,
    /// Whether nothing is being repaired or reduced.
    pub is_open: bool,
}

/// What an acknowledgement tells of the path (`struct rate_sample`).
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSample {
    /// The segments that it acknowledges or SACKs.
    pub acked: u32,
    /// The segments that it shows to be lost.
    pub lost: u32,
    /// The segments in flight before it.
    pub prior_in_flight: u32,
    /// The round trip of the newest segment that it acknowledges, in microseconds.
    pub rtt_us: Option<u32>,
    /// When something was last delivered (`delivered_mstamp`).
    pub delivered_us: u32,
    /// How fast the path delivered; `None` if it does not say.
    pub rate: Option<Rate>,
}

/// A delivery rate (draft-cheng-iccrg-delivery-rate-estimation-00, 3.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// The segments delivered in the interval.
    pub delivered: u32,
    pub interval_us: u32,
    /// The connection's count of delivered segments when the newest of them was sent.
    pub prior_delivered: u32,
    /// Whether the application limited the sender then.
    pub is_app_limited: bool,
}

/// What a control that models the path knows and sets.
pub(super) struct Path<'a> {
    pub window: &'a mut Window,
    pub pace: &'a mut Pace,
    /// The segments delivered and lost on the whole connection.
    pub delivered: u32,
    pub lost: u32,
    pub in_flight: u32,
    pub mss: u32,
    pub srtt_us: Option<u32>,
    pub shortest_us: Option<u32>,
    pub recovery: State,
    /// Whether the acknowledgement at hand was probably delayed.
    pub ack_is_delayed: bool,
}

impl Path<'_> {
    /// Returns the pacing rate in bytes a second.
    fn rate(&self) -> Option<u64> {
        self.pace.rate
    }

    fn set_rate(&mut self, rate: u64) {
        self.pace.rate = Some(rate);
    }

    /// Returns whether the application limits the sender.
    fn is_app_limited(&self) -> bool {
        self.pace.rates.as_ref().is_some_and(super::sender::Rates::is_app_limited)
    }

    /// Lets the samples of what is in flight count as limited by the application.
    fn limit_by_application(&mut self) {
        if let Some(rates) = &mut self.pace.rates {
            rates.limit_by_application(self.delivered, self.in_flight);
        }
    }

    /// Returns the segments that leave in a millisecond, which is what segmentation offload takes
    /// at once (`bbr_tso_segs_goal`).
    fn burst_goal(&self) -> u32 {
        let rate = self.pace.rate.unwrap_or(0);
        let segments = ((rate >> 10).min(LARGEST_BURST) / u64::from(self.mss.max(1))) as u32;
        segments.max(self.pace.least_burst()).min(127)
    }

    /// Returns how much later than now the next segment may leave, in microseconds.
    fn ahead_us(&self, cx: &Context) -> u32 {
        self.pace.ahead_us(cx)
    }
}

/// The most bytes that Linux sends at once: 64 KiB with the headers.
const LARGEST_BURST: u64 = 65_215;

/// The headers of IPv4, and of TCP with timestamps and the AccECN option.
const HEADERS: u16 = 64;

/// The congestion control of one sender, with its state.
#[derive(Clone, Debug)]
pub(super) enum Control {
    Reno,
    Cubic(Cubic),
    Bbr(Box<Bbr>),
    Dctcp(Dctcp),
    Prague(Box<prague::Prague>),
    Custom(Box<dyn CongestionControl>),
}

impl Control {
    /// Creates the control of a connection whose first sequence number is `first`.
    pub(super) fn new(congestion: &Congestion, first: Seq) -> Self {
        match congestion {
            Congestion::Reno => Self::Reno,
            Congestion::Cubic => Self::Cubic(Cubic::default()),
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new(first.0))),
            Congestion::Dctcp => Self::Dctcp(Dctcp::new(first)),
            Congestion::Prague => Self::Prague(Box::new(prague::Prague::new(first))),
            Congestion::Custom(custom) => Self::Custom(custom.make()),
        }
    }

    /// Returns the model of the path, if it sets the pace and the window (`cong_control`).
    #[inline]
    pub(super) fn model(&mut self) -> Option<&mut Bbr> {
        match self {
            Self::Bbr(bbr) => Some(bbr),
            Self::Reno | Self::Cubic(_) | Self::Dctcp(_) | Self::Prague(_) | Self::Custom(_) => {
                None
            }
        }
    }

    /// Returns the name of its phase, if it has phases of its own.
    pub(super) fn phase(&self) -> Option<&'static str> {
        match self {
            Self::Bbr(bbr) => Some(bbr.phase()),
            Self::Custom(control) => control.phase(),
            Self::Reno | Self::Cubic(_) | Self::Dctcp(_) | Self::Prague(_) => None,
        }
    }

    /// Returns whether it sets the window with every acknowledgement. TCP then changes no window by
    /// itself.
    #[inline]
    pub(super) fn has_model(&self) -> bool {
        matches!(self, Self::Bbr(_) | Self::Prague(_))
    }

    /// `ca_ops->init`: the connection is established. What the handshake measured is forgotten
    /// (`bictcp_reset`).
    pub(super) fn start(&mut self, now_us: u32, snd_nxt: Seq) {
        match self {
            Self::Cubic(cubic) => cubic.reset(now_us, snd_nxt),
            Self::Dctcp(dctcp) => dctcp.start(snd_nxt),
            Self::Prague(prague) => prague.start(now_us, snd_nxt),
            Self::Reno | Self::Bbr(_) | Self::Custom(_) => {}
        }
    }

    /// `ca_ops->ssthresh`: returns the window to which it has to fall.
    pub(super) fn ssthresh(&mut self, cx: &Context, window: Window, signal: Signal) -> u32 {
        let cwnd = window.cwnd;
        let gentle = signal == Signal::EcnEcho && cx.config.ecn_response == EcnResponse::Abe;
        match self {
            Self::Reno => reno::ssthresh(cwnd, gentle),
            Self::Cubic(cubic) => cubic.ssthresh(cwnd, gentle),
            Self::Bbr(bbr) => {
                bbr.on_loss(cwnd);
                window.ssthresh
            }
            Self::Dctcp(dctcp) => dctcp.ssthresh(cwnd, signal == Signal::EcnEcho),
            Self::Prague(prague) => match signal {
                Signal::Loss => prague.on_loss(window),
                Signal::EcnEcho => {
                    prague.on_mark(cx, window);
                    window.ssthresh
                }
            },
            Self::Custom(control) => control.ssthresh(cx.now, cwnd, signal).max(2),
        }
    }

    /// Returns whether it counts marks.
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
        prague.on_ack(cx, window, ack);
        true
    }

    /// Returns how fast it sends after slow start if it paces, in percent of the window in a round
    /// trip, and the bytes that it counts of a segment of `mss` bytes of payload. Prague's pace
    /// counts headers as well, so it exceeds the window by 4.5 % and lets the window grow.
    pub(super) fn pace(&self, mss: u16) -> (u64, u16) {
        if matches!(self, Self::Prague(_)) { (100, mss + HEADERS) } else { (120, mss) }
    }

    /// `ca_ops->cong_avoid`: grows the window after `acked` segments. Call only if the window
    /// limited the sender.
    #[inline]
    pub(super) fn avoid(&mut self, cx: &Context, window: &mut Window, acked: u32) {
        match self {
            Self::Reno | Self::Dctcp(_) => reno::avoid(window, acked),
            Self::Cubic(cubic) => cubic.avoid(cx, window, acked),
            Self::Bbr(_) | Self::Prague(_) => {}
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
            Self::Reno | Self::Bbr(_) | Self::Dctcp(_) | Self::Prague(_) => {}
            Self::Cubic(cubic) => cubic.on_delay(cx, window, delay_us, progress),
            Self::Custom(control) => {
                control.on_round_trip(cx.now, Span::from_us(delay_us.into()));
            }
        }
    }

    /// `ca_ops->set_state` with `TCP_CA_Loss`.
    pub(super) fn on_timeout(&mut self, cx: &Context, snd_nxt: Seq) {
        match self {
            Self::Reno | Self::Bbr(_) | Self::Dctcp(_) => {}
            Self::Prague(prague) => prague.on_timeout(),
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
