//! The state of RACK: what was delivered last, and how long to wait for what was sent before.
//!
//! Source: RFC 8985, 5.3, with its variables. detection.rs has the steps.

use super::scoreboard::Record;
use crate::tcp::Seq;
use crate::tcp::clock::{Context, elapsed_us};

/// The state of RACK (RFC 8985, 5.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rack {
    /// RACK.xmit_ts, RACK.end_seq: of the delivered segments, the one that was sent last.
    pub newest: Sent,
    /// RACK.rtt: the round trip of the segment that was delivered last.
    pub rtt_us: u32,
    /// RACK.dsack_round: the sender's `delivered` at the last D-SACK that widened the window.
    pub round_delivered: u32,
    /// DupThresh, at most `MOST_REORDERING`: how many segments have to overtake one before that
    /// is a sign of loss.
    pub reordering: u16,
    /// RACK.reo_wnd_mult: the reordering window in quarters of the shortest round trip.
    pub reo_wnd_mult: u8,
    /// RACK.reo_wnd_persist: the recoveries after which the window is a quarter again.
    pub reo_wnd_persist: u8,
    /// RACK.reordering_seen.
    pub reordering_seen: bool,
    /// Whether something was delivered since the last search for losses.
    pub advanced: bool,
    /// Whether a D-SACK came that has not widened the window yet.
    pub dsack_seen: bool,
    /// Whether anything was delivered, so that `newest` has a meaning.
    pub started: bool,
}

/// When a segment was sent, and where it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    at_us: u32,
    end: Seq,
}

impl Sent {
    #[inline]
    pub(super) fn of(record: &Record) -> Self {
        Self { at_us: record.sent_us, end: record.end() }
    }

    /// RACK_sent_after: of two that were sent at once, the one that ends later is the later one.
    #[inline]
    pub(super) fn is_after(self, other: Self) -> bool {
        let later = self.at_us.wrapping_sub(other.at_us) as i32;
        later > 0 || (later == 0 && self.end.after(other.end))
    }
}

/// Returns whether `one` was sent after `other`.
#[inline]
pub(super) fn sent_after(one: &Record, other: &Record) -> bool {
    Sent::of(one).is_after(Sent::of(other))
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: Sent::default(),
            rtt_us: 0,
            round_delivered: 0,
            reordering: DEFAULT_REORDERING,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            reordering_seen: false,
            advanced: false,
            dsack_seen: false,
            started: false,
        }
    }
}

impl Rack {
    /// Notes a D-SACK for a needless retransmission. It counts only if reordering was seen before.
    pub(super) fn note_dsack(&mut self) {
        self.dsack_seen |= self.reordering_seen;
    }

    /// Counts a recovery that was not needless (step 4).
    pub(super) fn end_recovery(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
    }

    /// Takes back the count of a recovery that D-SACKs show to be needless.
    pub(super) fn count_needless_recovery(&mut self) {
        self.reo_wnd_persist = (self.reo_wnd_persist + 1).min(PERSISTENCE);
    }

    /// Returns how long `record` may still take before it counts as lost, in microseconds (zero or
    /// less: it does).
    pub(super) fn remaining_us(&self, cx: &Context, record: &Record, window_us: u32) -> i64 {
        let most_us = i64::from(self.rtt_us) + i64::from(window_us);
        most_us - i64::from(elapsed_us(cx.us, record.sent_us))
    }
}

/// The recoveries for which the window stays wide after a D-SACK (step 4).
pub(super) const PERSISTENCE: u8 = 16;
/// `sysctl_tcp_reordering`: duplicate acknowledgements that mean a loss (RFC 5681).
pub(super) const DEFAULT_REORDERING: u16 = 3;
