//! RACK: a segment is lost if one that was sent later has arrived and some time has passed since.
//!
//! Written from RFC 8985, section 6, with its steps. Differences, which are Linux 6.1's (6.1.60 and
//! later), as replays on a kernel show them:
//!
//! - A count of deliveries, not SND.NXT, tells when a D-SACK round has ended.
//! - The timer adds 2 ms to the time that is left. Before 6.1.60, it added two jiffies.
//! - Without SACK, NewReno's count of duplicates can show reordering, too.
//! - A segment that was found lost once is not looked at again before it is sent again, even if an
//!   undo has taken its mark away.

use super::ack::Ack;
use super::rack::{PERSISTENCE, Sent};
use super::scoreboard::{LOST, RETRANS, RETRANSMITTED, Record, SACKED, UNLISTED};
use super::{SLACK_US, Sender, State, Timer, todo};
use crate::tcp::clock::{Context, elapsed_us};

impl Sender {
    /// Step 2: `record` has been delivered.
    #[inline]
    pub(super) fn rack_note_delivered(&mut self, cx: &Context, record: &Record) {
        let rtt_us = elapsed_us(cx.us, record.sent_us);
        let too_early = || self.rtt.shortest_us().is_some_and(|shortest_us| rtt_us < shortest_us);
        if record.has(RETRANS) && too_early() {
            // The original arrived, not the retransmission.
            return;
        }
        let rack = &mut self.rack;
        rack.advanced = true;
        rack.rtt_us = rtt_us;
        let sent = Sent::of(record);
        if !rack.started || sent.is_after(rack.newest) {
            rack.started = true;
            rack.newest = sent;
        }
    }

    /// Step 4, the part about D-SACK: the window widens at most once in a round trip.
    #[inline]
    pub(super) fn rack_adapt_window(&mut self, ack: &Ack) {
        let Some(prior_delivered) = ack.prior_delivered() else { return };
        let rack = &mut self.rack;
        // The segment was sent after the window was last widened.
        let begins_round = prior_delivered.wrapping_sub(rack.round_delivered) as i32 >= 0;
        if core::mem::take(&mut rack.dsack_seen) && begins_round {
            rack.round_delivered = self.delivered;
            rack.reo_wnd_mult = rack.reo_wnd_mult.saturating_add(1);
            rack.reo_wnd_persist = PERSISTENCE;
        } else if rack.reo_wnd_persist == 0 {
            rack.reo_wnd_mult = 1;
        }
    }

    /// Step 4, RACK_update_reo_wnd: the reordering window in microseconds.
    fn reordering_window_us(&self) -> u32 {
        let urgent = self.state >= State::Recovery || self.sacked_out >= self.reordering();
        match self.rtt.shortest_us() {
            Some(shortest_us) if self.rack.reordering_seen || !urgent => (shortest_us >> 2)
                .saturating_mul(self.rack.reo_wnd_mult.into())
                .min(self.rtt.smoothed_us().unwrap_or(0)),
            _ => 0,
        }
    }

    /// Step 5, RACK_detect_loss: marks what is lost. Returns how long the rest may still take, in
    /// microseconds; `None` if nothing else was sent before `newest`.
    fn rack_detect_loss(&mut self, cx: &Context) -> Option<u32> {
        let window_us = self.reordering_window_us();
        let mut longest_us = None;
        let mut position = self.board.head();
        while position != self.board.tail() {
            let record = *self.board.at(position);
            let is_settled =
                record.has(SACKED | UNLISTED) || (record.has(LOST) && !record.has(RETRANSMITTED));
            if !is_settled {
                if self.rack.newest.is_after(Sent::of(&record)) {
                    let remaining_us = self.rack.remaining_us(cx, &record, window_us);
                    if remaining_us <= 0 {
                        self.mark_lost(cx, position);
                        self.board.at_mut(position).flags |= UNLISTED;
                    } else {
                        longest_us = longest_us.max(Some(remaining_us as u32));
                    }
                } else if !record.has(RETRANS) {
                    // It was sent once, so everything above it was sent even later.
                    break;
                }
            }
            position = position.wrapping_add(1);
        }
        longest_us
    }

    /// RACK_detect_loss_and_arm_timer. Returns whether the reordering timer is armed.
    pub(super) fn rack_find_lost(&mut self, cx: &Context) -> bool {
        if !core::mem::take(&mut self.rack.advanced) {
            return false;
        }
        let Some(longest_us) = self.rack_detect_loss(cx) else { return false };
        let jiffies = cx.jiffies_in(longest_us.saturating_add(SLACK_US));
        self.arm(cx, Timer::Reordering, jiffies.min(self.rtt.rto));
        true
    }

    /// Handles the reordering timer (section 6.2, step 5).
    pub(super) fn on_reordering_timeout(&mut self, cx: &Context) {
        let (in_flight_before, lost_before) = (self.in_flight(), self.lost);
        self.rack_detect_loss(cx);
        let found = self.in_flight() != in_flight_before;
        if found {
            self.todo |= todo::RETRANSMIT;
        }
        if found && self.state != State::Recovery {
            self.begin_recovery(cx, false);
            let lost = self.lost.wrapping_sub(lost_before);
            self.reduce(cx, &Ack::empty(self.snd_una), 1, lost);
        }
        if self.timer != Timer::Retransmission {
            self.rearm_rto(cx);
        }
    }
}
