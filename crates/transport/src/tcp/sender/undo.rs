//! Taking back a reduction of the window that turns out to be needless.
//!
//! Written from RFC 3522 (the Eifel detection, by timestamps), RFC 3708 (detection by D-SACK) and
//! RFC 4015 (the response). Each choice that they leave open is Linux 6.1's, as replays on a kernel
//! show it. Differences from RFC 4015: the window returns to what it was at once and is not limited
//! to what is in flight, and the timeout stays as it is.

use super::ack::Ack;
use super::episode::Episode;
use super::scoreboard::{EVER_RETRANSMITTED, LOST};
use super::{Sender, State};
use crate::tcp::clock::Context;

/// Detection.
impl Sender {
    /// Begins an episode. A retransmission or a probe in flight belongs to it, because a D-SACK may
    /// still report it.
    pub(super) fn begin_episode(&mut self, cx: &Context) {
        let probes = u32::from(self.probe.is_some_and(|probe| probe.is_retransmission));
        let outstanding = self.retrans_out + probes;
        self.undo.episode = cx.config.undo.then_some(Episode {
            start: self.snd_una,
            unexplained: (outstanding > 0).then_some(outstanding),
        });
    }

    /// Returns whether an acknowledgement answers what was sent before the first retransmission
    /// (RFC 3522, 3.2 step 4). Before the first one, every acknowledgement does.
    pub(super) fn answers_original(&self, ack: &Ack) -> bool {
        match self.undo.first_stamp {
            Some(stamp) => ack.echoes_before(stamp.get()),
            // Without SACK, it may repeat the one that ended an earlier recovery (RFC 6582, 3.2).
            None => self.sack || self.snd_una.before(self.high_seq),
        }
    }

    fn was_needless(&self, ack: &Ack) -> bool {
        self.undo.is_explained() || (self.undo.episode.is_some() && self.answers_original(ack))
    }

    /// Returns whether something that was ever retransmitted is still in flight.
    pub(super) fn repairs_are_in_flight(&self) -> bool {
        self.retrans_out > 0
            || self.board.front().is_some_and(|record| record.has(EVER_RETRANSMITTED))
    }

    /// Once all retransmissions are acknowledged, forgets when the first of them was sent.
    pub(super) fn forget_repairs(&mut self) {
        if !self.repairs_are_in_flight() {
            self.undo.first_stamp = None;
        }
    }
}

/// The response.
impl Sender {
    /// Ends recovery, also after a timeout, because `snd_una` has reached the recovery point.
    /// Returns whether the state stays until something above that point is acknowledged.
    pub(super) fn leave_recovery(&mut self, cx: &Context, ack: &Ack) -> bool {
        if self.was_needless(ack) {
            self.take_back(cx);
        } else {
            self.rack.end_recovery();
        }
        if self.snd_una == self.high_seq && !self.uses_sack(cx) {
            // RFC 6582, 3.2: duplicates of this acknowledgement must not start recovery again.
            self.forget_repairs();
            return true;
        }
        self.state = State::Open;
        false
    }

    /// Takes the reduction back if D-SACKs explain every retransmission (RFC 3708).
    pub(super) fn take_back_explained(&mut self, cx: &Context) -> bool {
        let explained = self.undo.is_explained();
        if explained {
            self.rack.count_needless_recovery();
            self.take_back(cx);
        }
        explained
    }

    /// Takes a timeout back if it was needless, or if F-RTO has found it to be `spurious`. Returns
    /// whether it did.
    pub(super) fn take_back_timeout(&mut self, cx: &Context, ack: &Ack, spurious: bool) -> bool {
        if !spurious && !self.was_needless(ack) {
            return false;
        }
        self.unmark_lost();
        self.take_back(cx);
        self.tally().spurious_timeouts += u32::from(spurious);
        self.retransmits = 0;
        if spurious || self.uses_sack(cx) {
            self.state = State::Open;
        }
        true
    }

    /// Takes the reduction back, at an acknowledgement below the recovery point that answers an
    /// original, once no retransmission is in flight.
    pub(super) fn take_back_during_recovery(&mut self, cx: &Context) {
        self.forget_repairs();
        self.unmark_lost();
        self.take_back(cx);
        self.return_to_normal();
    }

    /// RFC 4015, 3.2: the window and its threshold return to what they were.
    fn take_back(&mut self, cx: &Context) {
        if let Some(ssthresh) = self.undo.ssthresh {
            if !self.with_model(false, |bbr, path| bbr.on_undo(path)) {
                self.window.cwnd = self.window.cwnd.max(self.reduction.prior_cwnd);
            }
            let window = &mut self.window;
            if ssthresh.get() > window.ssthresh {
                window.ssthresh = ssthresh.get();
                self.queue_cwr = false;
            }
        }
        self.with_own(cx, |control, now, window| control.on_undo(now, window));
        self.cwnd_stamp_us = cx.us;
        self.undo.rule_out();
        self.rack.advanced = true;
        self.tally().undos += 1;
    }

    fn unmark_lost(&mut self) {
        let mut position = self.board.head();
        while position != self.board.tail() {
            self.board.at_mut(position).flags &= !LOST;
            position = position.wrapping_add(1);
        }
        self.lost_out = 0;
        self.retransmit_from_head();
    }
}
