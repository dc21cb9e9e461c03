//! How the window shrinks: proportional rate reduction (RFC 6937) and rate halving.
//!
//! Source: Linux 6.1 `tcp_init_cwnd_reduction`, `tcp_cwnd_reduction`, `tcp_end_cwnd_reduction`,
//! `tcp_enter_cwr`; rate halving: Linux 2.6.30 `tcp_cwnd_down`, `tcp_complete_cwr`.

use super::ack::{Ack, flag};
use super::{Reduction, Sender, State};
use crate::congestion::{INFINITE_SSTHRESH, Signal};
use crate::tcp::Reduction as ReductionRule;
use crate::tcp::clock::Context;
use crate::tcp::congestion::Control;

impl Sender {
    /// `tcp_init_cwnd_reduction`.
    pub(super) fn begin_reduction(&mut self, cx: &Context, signal: Signal) {
        self.high_seq = self.snd_nxt;
        self.probe = None;
        self.window.count = 0;
        self.reduction = Reduction { prior_cwnd: self.window.cwnd, delivered: 0, sent: 0 };
        self.window.ssthresh = self.control.ssthresh(cx, self.window, signal);
        self.queue_cwr = self.announces_reductions();
    }

    /// `tcp_cwnd_reduction`: RFC 6937 with the slow-start bound.
    #[inline]
    pub(super) fn reduce(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if cx.config.reduction == ReductionRule::RateHalving {
            self.halve_rate(cx, ack);
            return;
        }
        if delivered == 0 || self.reduction.prior_cwnd == 0 || self.control.sets_window() {
            return;
        }
        self.reduction.delivered += delivered;
        let in_flight = self.in_flight();
        let ssthresh = self.window.ssthresh;
        let mut send = if in_flight > ssthresh {
            let dividend = u64::from(ssthresh) * u64::from(self.reduction.delivered);
            dividend.div_ceil(u64::from(self.reduction.prior_cwnd)) as i64
                - i64::from(self.reduction.sent)
        } else {
            let banked = i64::from(self.reduction.delivered) - i64::from(self.reduction.sent);
            let mut send = banked.max(i64::from(delivered));
            if ack.has(flag::ADVANCED) && lost == 0 {
                send += 1;
            }
            send.min(i64::from(ssthresh - in_flight))
        };
        // The first retransmission leaves at once.
        send = send.max(i64::from(self.reduction.sent == 0));
        self.window.cwnd = (i64::from(in_flight) + send).max(1) as u32;
    }

    /// `tcp_cwnd_down` of Linux 2.6: one segment less for every second acknowledgement.
    fn halve_rate(&mut self, cx: &Context, ack: &Ack) {
        let counts = ack.has(flag::FORWARD_PROGRESS | flag::ADVANCED | flag::DSACKING)
            || (!self.uses_sack(cx) && !ack.has(flag::NOT_DUP));
        if !counts {
            return;
        }
        let count = self.window.count + 1;
        self.window.count = count & 1;
        let floor = match self.control {
            Control::Reno(_) => self.window.ssthresh / 2,
            _ => self.window.ssthresh,
        };
        if self.window.cwnd > floor {
            self.window.cwnd -= count >> 1;
        }
        self.window.cwnd = self.window.cwnd.min(self.in_flight() + 1).max(1);
    }

    /// `tcp_end_cwnd_reduction`.
    pub(super) fn end_reduction(&mut self, cx: &Context) {
        if cx.config.reduction == ReductionRule::RateHalving {
            self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
            return;
        }
        if self.window.ssthresh < INFINITE_SSTHRESH
            && !self.control.sets_window()
            && (self.state == State::Cwr || self.undo.episode.is_some() || !cx.config.undo)
        {
            self.window.cwnd = self.window.ssthresh;
            self.cwnd_stamp_us = cx.us;
        }
    }

    /// `tcp_enter_cwr`: reacts to an ECN echo, once for each window.
    pub(super) fn enter_cwr(&mut self, cx: &Context) {
        self.undo.ssthresh = None;
        if self.state < State::Cwr {
            self.undo.rule_out();
            self.begin_reduction(cx, Signal::EcnEcho);
            self.with_model(false, |bbr, path| bbr.on_mark(&cx.moment(), path));
            self.state = State::Cwr;
            self.tally.ecn_reductions += 1;
        }
    }
}
