//! Loss recovery: when it begins, what counts as lost, and when it ends.
//!
//! Written from RFC 5681 (3.2), RFC 6582 (NewReno), RFC 6675 (SACK) and RFC 8985 (RACK), with their
//! terms: `high_seq` is the recovery point, `reordering` is DupThresh. Differences, which are Linux
//! 6.1's, as replays on a kernel show them:
//!
//! - `lost` is a mark of a segment, not a property that is computed from the scoreboard.
//! - Without SACK, a duplicate counts as a segment that has arrived, and a partial acknowledgement
//!   marks only the next one.
//! - The window shrinks by RFC 6937 (reduction.rs). Counters of segments stand for `pipe`, so there
//!   is no `SetPipe()`.
//! - A receiver that takes back what it has SACKed is noticed only at the timeout.
//!
//! With these rules for the window (classic.rs has others), `Recovery::Reno` ends recovery with the
//! first new acknowledgement.

use core::num::NonZeroU32;

use super::ack::{Ack, Resend, flag};
use super::scoreboard::{LOST, RETRANSMITTED, SACKED};
use super::{Sender, State};
use crate::congestion::Signal;
use crate::tcp::Recovery;
use crate::tcp::clock::Context;

impl Sender {
    /// Handles an acknowledgement that is a duplicate, that has SACKs or an ECN echo, or that comes
    /// while something is being repaired. `duplicates` is 1 if it is a duplicate.
    pub(super) fn handle_dubious_ack(
        &mut self,
        cx: &Context,
        ack: &mut Ack,
        duplicates: u32,
    ) -> Resend {
        let mut suspicious =
            duplicates > 0 || (ack.has(flag::SACKS_DATA) && self.sacks_far_above(cx));
        if self.packets_out == 0 {
            self.sacked_out = 0;
        }
        if ack.has(flag::ECE) {
            // The path is congested, whether or not the loss was one.
            self.undo.ssthresh = None;
        }
        if self.pass_recovery_point(cx, ack) {
            return Resend::Nothing;
        }
        let begun = match self.state {
            State::Recovery => {
                if !self.continue_recovery(cx, ack, duplicates, &mut suspicious) {
                    return Resend::Nothing;
                }
                false
            }
            State::Loss => {
                let resend = self.continue_after_timeout(cx, ack, duplicates);
                self.find_lost(cx, ack);
                let waits = self.state != State::Open && !ack.has(flag::LOST_REPAIR);
                if waits || !self.consider_recovery(cx, ack, duplicates) {
                    return resend;
                }
                true
            }
            State::Open | State::Disorder | State::Cwr => {
                if !self.consider_recovery(cx, ack, duplicates) {
                    return Resend::Nothing;
                }
                true
            }
        };
        if suspicious && !self.uses_rack(cx) {
            self.mark_below_sacks(cx, begun);
        }
        Resend::Lost
    }

    /// Ends the state if its recovery point is acknowledged (RFC 6675, section 5 (A); RFC 6582, 3.2
    /// step 3, full acknowledgements). Returns whether there is nothing more to do.
    fn pass_recovery_point(&mut self, cx: &Context, ack: &Ack) -> bool {
        let passed = !self.snd_una.before(self.high_seq);
        match self.state {
            State::Open => self.undo.first_stamp = None,
            // Only an acknowledgement above it shows that the peer has seen CWR.
            State::Cwr if self.snd_una.after(self.high_seq) => {
                self.end_reduction(cx);
                self.state = State::Open;
            }
            State::Recovery if passed => {
                if !self.uses_sack(cx) {
                    self.sacked_out = 0;
                }
                if self.leave_recovery(cx, ack) {
                    return true;
                }
                self.end_reduction(cx);
            }
            State::Recovery if cx.config.recovery == Recovery::Reno && ack.has(flag::ADVANCED) => {
                self.sacked_out = 0;
                self.end_reduction(cx);
                self.state = State::Open;
            }
            State::Disorder | State::Cwr | State::Recovery | State::Loss => {}
        }
        false
    }

    /// Handles an acknowledgement below the recovery point. Returns whether there may be something
    /// to repair. If the acknowledgement is partial, SACKs far above make it `suspicious`.
    fn continue_recovery(
        &mut self,
        cx: &Context,
        ack: &mut Ack,
        duplicates: u32,
        suspicious: &mut bool,
    ) -> bool {
        if !ack.has(flag::ADVANCED) {
            if !self.uses_sack(cx) {
                self.add_duplicates(duplicates);
            }
        } else if self.undo.episode.is_some() && self.answers_original(ack) {
            // The original was late and has filled the hole, so segments overtake each other.
            self.note_reordering(ack.prior_una);
            if self.retrans_out > 0 {
                return false;
            }
            self.take_back_during_recovery(cx);
        } else {
            *suspicious = self.sacks_far_above(cx);
        }
        if self.take_back_explained(cx) {
            self.settle(cx, ack);
        }
        self.find_lost(cx, ack);
        if self.state != State::Recovery {
            if !self.must_recover(cx) {
                return false;
            }
            self.begin_recovery(cx, ack.has(flag::ECE));
        }
        true
    }

    /// Handles an acknowledgement outside recovery. Returns whether recovery begins.
    fn consider_recovery(&mut self, cx: &Context, ack: &mut Ack, duplicates: u32) -> bool {
        if !self.uses_sack(cx) {
            if ack.has(flag::ADVANCED) {
                self.sacked_out = 0;
            }
            self.add_duplicates(duplicates);
        }
        if self.state <= State::Disorder {
            self.take_back_explained(cx);
        }
        self.find_lost(cx, ack);
        let begins = self.must_recover(cx);
        if begins {
            self.begin_recovery(cx, ack.has(flag::ECE));
        } else {
            self.settle(cx, ack);
        }
        begins
    }

    /// Begins recovery (RFC 6675, section 5, step 4). `marked`: whether the acknowledgement has an
    /// ECN echo, which makes the reduction final.
    pub(super) fn begin_recovery(&mut self, cx: &Context, marked: bool) {
        self.undo.ssthresh = None;
        self.begin_episode(cx);
        if !self.in_reduction() {
            if !marked {
                self.undo.ssthresh = NonZeroU32::new(self.current_ssthresh());
            }
            self.begin_reduction(cx, Signal::Loss);
        }
        self.state = State::Recovery;
        self.tally().fast_recoveries += 1;
    }

    /// Chooses a state outside recovery. An ECN echo also begins a reduction of the window.
    pub(super) fn settle(&mut self, cx: &Context, ack: &Ack) {
        self.forget_repairs();
        if ack.has(flag::ECE) {
            self.enter_cwr(cx);
        }
        if self.state != State::Cwr {
            self.return_to_normal();
        }
    }

    /// Returns to `Open`, or to `Disorder` while something is still dubious.
    pub(super) fn return_to_normal(&mut self) {
        let clear = self.sacked_out == 0 && self.lost_out == 0 && !self.repairs_are_in_flight();
        let state = if clear { State::Open } else { State::Disorder };
        if core::mem::replace(&mut self.state, state) != state {
            self.high_seq = self.snd_nxt;
        }
    }
}

/// What counts as lost.
impl Sender {
    /// Returns whether recovery has to begin: something is lost, or enough may be.
    fn must_recover(&self, cx: &Context) -> bool {
        // RFC 5681, 3.2: DupThresh duplicates. RACK tells by time instead.
        self.lost_out > 0 || (!self.uses_rack(cx) && self.sacked_out >= self.reordering())
    }

    /// Returns whether something further than DupThresh segments above `snd_una` is SACKed.
    pub(super) fn sacks_far_above(&self, cx: &Context) -> bool {
        let far = self.snd_una + self.reordering() * u32::from(self.mss);
        self.uses_sack(cx) && self.highest_sack_seq().after(far)
    }

    /// Marks what an acknowledgement shows to be lost: by RACK, or by RFC 6582 if neither RACK nor
    /// SACK is in use.
    fn find_lost(&mut self, cx: &Context, ack: &mut Ack) {
        if self.board.is_empty() {
            return;
        }
        if self.uses_rack(cx) {
            let repairs = self.retrans_out;
            if self.rack_find_lost(cx) {
                ack.clear(flag::RESTART_TIMER);
            }
            if self.retrans_out < repairs {
                ack.set(flag::LOST_REPAIR);
            }
        } else if !self.uses_sack(cx) {
            let head = self.board.head();
            let is_lost = if self.state == State::Recovery {
                // RFC 6582, 3.2 step 3: a partial acknowledgement.
                ack.has(flag::ADVANCED)
            } else {
                self.state < State::Recovery && self.sacked_out >= self.reordering()
            };
            if is_lost && !self.board.at(head).has(LOST) {
                self.mark_lost(cx, head);
            }
        }
    }

    /// Marks a segment lost. If it was sent again, the retransmission is lost, too.
    pub(super) fn mark_lost(&mut self, cx: &Context, position: u32) {
        let record = self.board.at_mut(position);
        let again = record.has(RETRANSMITTED);
        if record.has(SACKED) || (record.has(LOST) && !again) {
            return;
        }
        if record.has(LOST) {
            record.flags &= !RETRANSMITTED;
            self.retrans_out -= 1;
        } else {
            record.flags |= LOST;
            self.lost_out += 1;
        }
        self.lost = self.lost.wrapping_add(1);
        self.retransmit_from(position);
        self.tell_loss(cx, position);
    }

    /// Marks by count (RFC 6675, IsLost): a segment is lost if DupThresh segments above it are
    /// SACKed. `begun`: recovery has just begun, so at least the first segment is lost.
    fn mark_below_sacks(&mut self, cx: &Context, begun: bool) {
        if !self.uses_sack(cx) {
            return;
        }
        let Some(mut above) = self.sacked_out.checked_sub(self.reordering()) else {
            let head = self.board.head();
            if begun && !self.board.at(head).has(SACKED | LOST) {
                self.mark_lost(cx, head);
            }
            return;
        };
        let mut position = self.board.head();
        while position != self.board.tail() {
            let record = self.board.at(position);
            if record.has(SACKED) {
                let Some(left) = above.checked_sub(1) else { return };
                above = left;
            } else if !record.has(LOST) {
                self.mark_lost(cx, position);
            }
            position = position.wrapping_add(1);
        }
    }
}

/// Duplicates without SACK: each stands for a segment that has arrived (RFC 6582, section 3).
impl Sender {
    pub(super) fn add_duplicates(&mut self, duplicates: u32) {
        if duplicates == 0 {
            return;
        }
        let before = self.sacked_out;
        self.sacked_out += duplicates;
        self.limit_duplicates(0);
        self.delivered = self.delivered.wrapping_add(self.sacked_out.saturating_sub(before));
    }

    /// Takes away the duplicates that `acked` newly acknowledged segments have caused.
    pub(super) fn remove_duplicates(&mut self, acked: u32) {
        // The first was missing, so it caused none.
        let fresh = acked.saturating_sub(self.sacked_out).max(1);
        self.delivered = self.delivered.wrapping_add(fresh);
        self.sacked_out = self.sacked_out.saturating_sub(acked - 1);
        self.limit_duplicates(acked);
    }

    /// At least one segment is missing, so more duplicates mean that segments overtake each other.
    /// `acked`: segments that are no longer in flight.
    fn limit_duplicates(&mut self, acked: u32) {
        let most = self.packets_out.saturating_sub(self.lost_out.max(1));
        if self.sacked_out > most {
            self.sacked_out = most;
            self.set_reordering((self.packets_out + acked).max(1));
            self.rack.reordering_seen = true;
        }
    }
}
