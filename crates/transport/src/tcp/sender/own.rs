//! What a sender does with a congestion control from outside.

use narrows_units::{Rate, Span, Time};

use super::Sender;
use super::ack::Ack;
use crate::congestion::{INFINITE_SSTHRESH, Window};
use crate::tcp::clock::Context;
use crate::tcp::congestion::{Acknowledgement, CongestionControl, Control, DeliveryRate};

impl Sender {
    /// Lets `f` use a control from outside, and takes over what it sets. Returns false if the control
    /// is another one.
    pub(super) fn with_own(
        &mut self,
        cx: &Context,
        f: impl FnOnce(&mut dyn CongestionControl, Time, &mut Window),
    ) -> bool {
        let Control::Custom(control) = &mut self.control else { return false };
        f(&mut **control, cx.now, &mut self.window);
        self.window.cwnd = self.window.cwnd.clamp(1, INFINITE_SSTHRESH);
        let rate = control.pacing_rate().map(Rate::as_bps);
        if rate.is_none() && cx.config.pacing {
            self.follow_window();
        } else if let Some(pace) = &mut self.pace {
            pace.rate = rate.map(|bps| bps / 8);
        }
        true
    }

    /// Lets a control from outside begin: the connection is established.
    pub(super) fn start_own(&mut self, cx: &Context) -> bool {
        let (mss, rtt) = (self.mss, self.rtt.smoothed_us().map(in_us));
        self.with_own(cx, |control, _, window| control.start(window, mss, rtt))
    }

    /// Lets a control from outside hear that something is sent although nothing was in flight.
    #[cold]
    pub(super) fn restart_own(&mut self, cx: &Context, idle_us: u32) {
        self.with_own(cx, |control, now, window| control.on_restart(now, window, in_us(idle_us)));
    }

    /// `tcp_cong_control` of a control from outside.
    pub(super) fn control_own(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        let shortest_us = self.rtt.shortest_us();
        let (counts, losses) = ((delivered, self.delivered), (lost, self.lost));
        let rtt_us = ack.control_rtt_us();
        let is_window_limited = self.is_cwnd_limited();
        let Some(rates) = self.rates() else { return };
        let sample = rates.sample(cx.us, counts, losses, shortest_us.unwrap_or(u32::MAX), rtt_us);
        let acknowledged = Acknowledgement {
            acked: delivered,
            lost,
            marked: ack.marked,
            rtt: rtt_us.map(in_us),
            smoothed_rtt: self.rtt.smoothed_us().map(in_us),
            shortest_rtt: shortest_us.map(in_us),
            rate: sample.rate.map(|rate| DeliveryRate {
                delivered: rate.delivered,
                interval: in_us(rate.interval_us),
                prior_delivered: rate.prior_delivered,
                is_app_limited: rate.is_app_limited,
            }),
            prior_in_flight: sample.prior_in_flight,
            in_flight: self.in_flight(),
            delivered: self.delivered,
            mss: self.mss,
            state: self.state,
            is_window_limited,
        };
        self.with_own(cx, |control, now, window| control.on_ack(now, window, &acknowledged));
        if !self.control.sets_window() {
            self.control_window(cx, ack, delivered, lost);
            // The pace follows what has just grown.
            self.with_own(cx, |_, _, _| {});
        }
    }
}

fn in_us(us: u32) -> Span {
    Span::from_us(us.into())
}
