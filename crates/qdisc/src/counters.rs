//! Counts of what a discipline has done with its packets.

use crate::{Backlog, DropReason};

/// Counts since the discipline was created.
///
/// [`Counters::balance`] states the identities that hold after every call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets passed to `enqueue`.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets returned by `dequeue`.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Bytes dropped for any reason.
    pub dropped_bytes: u64,
    /// Packets dropped at the queue's limit (Linux RED: `pdrop`).
    pub dropped_overflow: u64,
    /// Packets dropped by an AQM's decision before the queue is full (Linux RED: `prob_drop`).
    pub dropped_early: u64,
    /// Packets dropped above an AQM's upper threshold (Linux RED: `forced_drop`).
    pub dropped_forced: u64,
    /// Packets marked by such a decision (Linux RED: `prob_mark`; CoDel, PIE: `ecn_mark`).
    pub marked_early: u64,
    /// Packets marked above an AQM's upper threshold (Linux RED: `forced_mark`; CoDel: `ce_mark`).
    pub marked_forced: u64,
    /// Marked packets that were nevertheless dropped at the queue's limit.
    pub marked_then_dropped: u64,
}

impl Counters {
    pub(crate) const ZERO: Self = Self {
        arrived_packets: 0,
        arrived_bytes: 0,
        sent_packets: 0,
        sent_bytes: 0,
        dropped_bytes: 0,
        dropped_overflow: 0,
        dropped_early: 0,
        dropped_forced: 0,
        marked_early: 0,
        marked_forced: 0,
        marked_then_dropped: 0,
    };

    /// Returns the packets dropped for any reason.
    #[inline]
    pub const fn dropped_packets(&self) -> u64 {
        self.dropped_overflow + self.dropped_early + self.dropped_forced
    }

    /// Returns the packets dropped for `reason`.
    #[inline]
    pub const fn dropped(&self, reason: DropReason) -> u64 {
        match reason {
            DropReason::Overflow => self.dropped_overflow,
            DropReason::Early => self.dropped_early,
            DropReason::Forced => self.dropped_forced,
        }
    }

    /// Returns the packets that were marked and accepted, or marked at dequeue. At enqueue, the
    /// verdict for them is `Marked`.
    #[inline]
    pub const fn marked_packets(&self) -> u64 {
        self.marked_early + self.marked_forced - self.marked_then_dropped
    }

    /// Returns whether everything that arrived was sent, was dropped, or waits, in packets and in
    /// bytes.
    pub const fn balance(&self, backlog: Backlog) -> bool {
        let waiting = backlog.packets as u64;
        self.arrived_packets == self.sent_packets + self.dropped_packets() + waiting
            && self.arrived_bytes == self.sent_bytes + self.dropped_bytes + backlog.bytes.get()
    }

    /// Adds another discipline's counts.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.arrived_packets += other.arrived_packets;
        self.arrived_bytes += other.arrived_bytes;
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.dropped_bytes += other.dropped_bytes;
        self.dropped_overflow += other.dropped_overflow;
        self.dropped_early += other.dropped_early;
        self.dropped_forced += other.dropped_forced;
        self.marked_early += other.marked_early;
        self.marked_forced += other.marked_forced;
        self.marked_then_dropped += other.marked_then_dropped;
    }

    /// Counts a packet of this many bytes that was passed to `enqueue`.
    #[inline]
    pub fn on_arrival(&mut self, bytes: u32) {
        self.arrived_packets += 1;
        self.arrived_bytes += u64::from(bytes);
    }

    /// Counts a packet of this many bytes that `dequeue` returns.
    #[inline]
    pub fn on_departure(&mut self, bytes: u32) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(bytes);
    }

    /// Counts a packet of this many bytes that was dropped.
    #[inline]
    pub fn on_drop(&mut self, bytes: u32, reason: DropReason) {
        self.dropped_bytes += u64::from(bytes);
        match reason {
            DropReason::Overflow => self.dropped_overflow += 1,
            DropReason::Early => self.dropped_early += 1,
            DropReason::Forced => self.dropped_forced += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns counts that are all different.
    fn counted(n: u64) -> Counters {
        Counters {
            arrived_packets: 2 * n,
            arrived_bytes: 3 * n,
            sent_packets: 5 * n,
            sent_bytes: 7 * n,
            dropped_bytes: 11 * n,
            dropped_overflow: 13 * n,
            dropped_early: 17 * n,
            dropped_forced: 19 * n,
            marked_early: 23 * n,
            marked_forced: 29 * n,
            marked_then_dropped: 31 * n,
        }
    }

    #[test]
    fn counts_add_up_one_by_one() {
        let mut sum = counted(10);
        sum.add(&counted(3));
        assert_eq!(sum, counted(13));
        assert_eq!(sum.dropped_packets(), 13 * (13 + 17 + 19));
        assert_eq!(sum.marked_packets(), 13 * (23 + 29 - 31));
        let reasons = [DropReason::Overflow, DropReason::Early, DropReason::Forced];
        assert_eq!(reasons.map(|reason| sum.dropped(reason)), [13 * 13, 13 * 17, 13 * 19]);
    }

    #[test]
    fn each_event_counts_a_packet_and_its_bytes() {
        let mut counters = counted(100);
        counters.on_arrival(40);
        counters.on_departure(50);
        counters.on_drop(60, DropReason::Early);
        counters.on_drop(70, DropReason::Forced);
        counters.on_drop(80, DropReason::Overflow);
        let expected = Counters {
            arrived_packets: 201,
            arrived_bytes: 340,
            sent_packets: 501,
            sent_bytes: 750,
            dropped_bytes: 1310,
            dropped_overflow: 1301,
            dropped_early: 1701,
            dropped_forced: 1901,
            ..counted(100)
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn what_arrived_was_sent_was_dropped_or_waits() {
        let mut counters = Counters::ZERO;
        counters.on_arrival(40);
        counters.on_arrival(50);
        counters.on_arrival(60);
        counters.on_departure(40);
        counters.on_drop(50, DropReason::Early);
        let waiting = |packets, bytes| Backlog { packets, bytes: narrows_units::Bytes::new(bytes) };
        assert!(counters.balance(waiting(1, 60)));
        for (packets, bytes) in [(0, 60), (2, 60), (1, 59), (1, 61)] {
            assert!(!counters.balance(waiting(packets, bytes)));
        }
    }
}
