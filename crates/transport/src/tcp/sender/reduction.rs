//! How the window shrinks: proportional rate reduction, and rate halving.
//!
//! Written from RFC 6937 (3, with the slow-start reduction bound), and from Mathis, Semke, Mahdavi and
//! Lahey, "The rate-halving algorithm for TCP congestion control" (1999). Differences, which are Linux
//! 6.1's and, of rate halving, Linux 2.6.30's, as replays on a kernel show them: the bound rises by a
//! segment only if an acknowledgement advances and shows no loss; the first retransmission leaves at
//! once; and rate halving has a floor, the threshold, or half of it with Reno.

use super::ack::{Ack, flag};
use super::{Reduction, Sender, State};
use crate::congestion::{INFINITE_SSTHRESH, Signal};
use crate::tcp::Reduction as ReductionRule;
use crate::tcp::clock::Context;
use crate::tcp::congestion::Control;

impl Sender {
    /// Begins a reduction, which ends when `high_seq` is acknowledged.
    pub(super) fn begin_reduction(&mut self, cx: &Context, signal: Signal) {
        // RecoverFS, prr_delivered and prr_out.
        self.reduction = Reduction { prior_cwnd: self.window.cwnd, delivered: 0, sent: 0 };
        self.window.ssthresh = self.control.ssthresh(cx, self.window, signal);
        self.window.count = 0;
        self.high_seq = self.snd_nxt;
        self.queue_cwr = self.announces_reductions();
        self.probe = None;
    }

    /// Sets the window after an acknowledgement that delivers `delivered` segments, and shows that
    /// `lost` are lost.
    #[inline]
    pub(super) fn reduce(&mut self, cx: &Context, ack: &Ack, delivered: u32, lost: u32) {
        if cx.config.reduction == ReductionRule::RateHalving {
            self.halve_rate(cx, ack);
        } else if delivered > 0 && self.reduction.prior_cwnd > 0 && !self.control.sets_window() {
            self.reduction.delivered += delivered;
            let grows = ack.has(flag::ADVANCED) && lost == 0;
            let room = self.proportional_room(delivered.into(), grows);
            let least = i64::from(self.reduction.sent == 0);
            self.window.cwnd = (i64::from(self.in_flight()) + room.max(least)).max(1) as u32;
        }
    }

    /// Returns how many segments may be sent now (`sndcnt`); below zero, too many were sent.
    #[inline]
    fn proportional_room(&self, delivered: i64, grows: bool) -> i64 {
        let Reduction { prior_cwnd, delivered: all, sent } = self.reduction;
        let (pipe, ssthresh) = (self.in_flight(), self.window.ssthresh);
        if pipe > ssthresh {
            let share = u64::from(all) * u64::from(ssthresh);
            share.div_ceil(u64::from(prior_cwnd)) as i64 - i64::from(sent)
        } else {
            let limit = delivered.max(i64::from(all) - i64::from(sent)) + i64::from(grows);
            limit.min(i64::from(ssthresh - pipe))
        }
    }

    /// Rate halving: one segment less for every second acknowledgement.
    fn halve_rate(&mut self, cx: &Context, ack: &Ack) {
        let tells = ack.has(flag::ADVANCED | flag::DELIVERS | flag::D_SACK);
        if !tells && (self.uses_sack(cx) || ack.has(flag::NO_DUPLICATE)) {
            return;
        }
        let divisor = if matches!(self.control, Control::Reno(_)) { 2 } else { 1 };
        let most = self.in_flight() + 1;
        let window = &mut self.window;
        window.count += 1;
        let pairs = window.count / 2;
        window.count %= 2;
        if window.cwnd > window.ssthresh / divisor {
            window.cwnd -= pairs;
        }
        window.cwnd = window.cwnd.min(most).max(1);
    }

    /// Ends a reduction: the window is as large as the threshold. After a recovery that was taken
    /// back, it already is what it was before.
    pub(super) fn end_reduction(&mut self, cx: &Context) {
        let ssthresh = self.window.ssthresh;
        if cx.config.reduction == ReductionRule::RateHalving {
            self.window.cwnd = self.window.cwnd.min(ssthresh);
            return;
        }
        let counts = self.state == State::Cwr || !cx.config.undo || self.undo.episode.is_some();
        if counts && ssthresh < INFINITE_SSTHRESH && !self.control.sets_window() {
            self.cwnd_stamp_us = cx.us;
            self.window.cwnd = ssthresh;
        }
    }

    /// Reacts to an ECN echo, once for each window (RFC 3168, 6.1.2).
    pub(super) fn enter_cwr(&mut self, cx: &Context) {
        self.undo.ssthresh = None;
        if self.state < State::Cwr {
            self.undo.rule_out();
            self.begin_reduction(cx, Signal::EcnEcho);
            self.with_model(false, |bbr, path| bbr.on_mark(&cx.moment(), path));
            self.state = State::Cwr;
            self.tally().ecn_reductions += 1;
        }
    }
}
