//! RACK (RFC 8985): a segment is lost if one sent later has arrived and some time has passed.
//!
//! Source: Linux 6.1.60 and later, net/ipv4/tcp_recovery.c. Before 6.1.60 the reordering timer had
//! a slack of two jiffies instead of 2 ms. Differences: the scoreboard is walked in order of
//! sequence. The kernel keeps a list in order of sending, and finds the same segments.

use super::ack::Ack;
use super::scoreboard::{LOST, RETRANS, RETRANSMITTED, Record, SACKED, UNLISTED};
use super::undo::PERSIST_ROUNDS;
use super::{SLACK_US, Sender, State, Timer, todo};
use crate::tcp::Seq;
use crate::tcp::clock::{Context, elapsed_us};

/// `tcp_skb_sent_after`.
#[inline]
pub(super) fn sent_after(sent_us: u32, other_us: u32, end: Seq, other_end: Seq) -> bool {
    let later = sent_us.wrapping_sub(other_us) as i32;
    later > 0 || (later == 0 && end.after(other_end))
}

impl Sender {
    /// `tcp_rack_advance`: `record` has been delivered.
    #[inline]
    pub(super) fn rack_advance(&mut self, cx: &Context, record: &Record) {
        let rtt_us = elapsed_us(cx.us, record.sent_us);
        if rtt_us < self.min_rtt_us && record.has(RETRANS) && self.min_rtt_us != u32::MAX {
            // Too early for an answer to the retransmission: the original arrived.
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt_us = rtt_us;
        if !self.rack.started
            || sent_after(record.sent_us, self.rack.sent_us, record.end(), self.rack.end)
        {
            self.rack.started = true;
            self.rack.sent_us = record.sent_us;
            self.rack.end = record.end();
        }
    }

    /// `tcp_rack_reo_wnd`.
    fn reordering_window_us(&self) -> u32 {
        if !self.reord_seen {
            // Do not wait during recovery, or once three segments have arrived above the hole.
            if self.state >= State::Recovery || self.sacked_out >= self.reordering() {
                return 0;
            }
        }
        if self.min_rtt_us == u32::MAX {
            return 0;
        }
        ((self.min_rtt_us >> 2).saturating_mul(u32::from(self.rack.reo_wnd_steps)))
            .min(self.srtt_us >> 3)
    }

    /// `tcp_rack_skb_timeout`: returns the time until `record` counts as lost; zero or less: it
    /// does now.
    pub(super) fn rack_remaining_us(&self, cx: &Context, record: &Record, window_us: u32) -> i64 {
        i64::from(self.rack.rtt_us) + i64::from(window_us)
            - i64::from(elapsed_us(cx.us, record.sent_us))
    }

    /// `tcp_rack_detect_loss`: marks what is lost. Returns how long the rest may still take (0: no
    /// rest).
    fn rack_detect_loss(&mut self, cx: &Context) -> u32 {
        let window_us = self.reordering_window_us();
        let mut longest = 0;
        let mut position = self.board.head();
        while position != self.board.tail() {
            let record = *self.board.at(position);
            let waits =
                record.has(SACKED | UNLISTED) || (record.has(LOST) && !record.has(RETRANSMITTED));
            if !waits && sent_after(self.rack.sent_us, record.sent_us, self.rack.end, record.end())
            {
                let remaining = self.rack_remaining_us(cx, &record, window_us);
                if remaining <= 0 {
                    self.mark_lost(position);
                    self.board.at_mut(position).flags |= UNLISTED;
                } else {
                    longest = longest.max(remaining as u32);
                }
            } else if !waits && !record.has(RETRANS) {
                // It was never retransmitted, so everything after it was sent even later.
                break;
            }
            position = position.wrapping_add(1);
        }
        longest
    }

    /// `tcp_rack_mark_lost`. Returns whether the reordering timer is armed.
    pub(super) fn rack_mark_lost(&mut self, cx: &Context) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let timeout_us = self.rack_detect_loss(cx);
        if timeout_us > 0 {
            let jiffies = cx.jiffies_in(timeout_us.saturating_add(SLACK_US));
            self.arm(cx, Timer::Reordering, jiffies.min(self.rto));
        }
        timeout_us > 0
    }

    /// `tcp_rack_reo_timeout`.
    pub(super) fn on_reordering_timeout(&mut self, cx: &Context) {
        let (prior, prior_lost) = (self.in_flight(), self.lost);
        self.rack_detect_loss(cx);
        if self.in_flight() != prior {
            if self.state != State::Recovery {
                self.enter_recovery(cx, false);
                let ack = Ack::empty(self.snd_una);
                self.reduce(cx, &ack, 1, self.lost.wrapping_sub(prior_lost));
            }
            self.todo |= todo::RETRANSMIT;
        }
        if self.timer != Timer::Retransmission {
            self.rearm_rto(cx);
        }
    }

    /// `tcp_rack_update_reo_wnd`: the window widens by one step for each round trip with a D-SACK.
    #[inline]
    pub(super) fn rack_update_window(&mut self, ack: &Ack) {
        let Some(prior_delivered) = ack.prior_delivered() else { return };
        let rack = &mut self.rack;
        if (prior_delivered.wrapping_sub(rack.last_delivered) as i32) < 0 {
            rack.dsack_seen = false;
        }
        if rack.dsack_seen {
            rack.reo_wnd_steps = rack.reo_wnd_steps.saturating_add(1);
            rack.dsack_seen = false;
            rack.last_delivered = self.delivered;
            rack.reo_wnd_persist = PERSIST_ROUNDS;
        } else if rack.reo_wnd_persist == 0 {
            rack.reo_wnd_steps = 1;
        }
    }
}
