//! Counters of a link that a monitor or a capture observes.

use alloc::collections::VecDeque;

use alloc::boxed::Box;

use narrows_qdisc::{AverageQueue, DropReason, Ecn, Packet, Qdisc};
use narrows_units::{Span, Time};

use super::delays::Delays;

/// The counters and the occupancy of an observed link.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    in_ring: VecDeque<InRing>,
    ring_bytes: u64,
    /// When the last packet's transmission ends, according to the ring's entries.
    pub(super) ring_free_at: Time,
    /// Packets that came to the queue.
    pub arrived_packets: u64,
    /// Their bytes, as the queue counts them.
    pub arrived_bytes: u64,
    /// Packets whose transmission has ended.
    pub sent_packets: u64,
    /// Their bytes on the wire.
    pub sent_bytes: u64,
    /// How long the transmission of these packets took.
    pub busy: Span,
    /// Of these packets, those that the wire loses.
    pub lost: u64,
    /// Packets that the queue dropped, by reason.
    pub dropped: [u64; DropReason::ALL.len()],
    /// Of these, foreground packets.
    pub dropped_foreground: u64,
    /// Sojourn times since the caller last took them.
    pub sojourn: SojournSum,
    /// How long packets waited, if that was asked for.
    pub delays: Option<Box<Delays>>,
}

impl Observed {
    /// Counts a packet that was dropped before the wire.
    #[inline]
    pub(super) fn note_dropped(
        &mut self,
        at: Time,
        reason: DropReason,
        foreground: bool,
        ecn: Ecn,
        class: u8,
    ) {
        self.dropped[reason as usize] += 1;
        self.dropped_foreground += u64::from(foreground);
        if let Some(delays) = &mut self.delays {
            delays.note_dropped(at, ecn, class);
        }
    }
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct InRing {
    pub(super) ends_at: Time,
    /// How long its transmission takes.
    pub(super) span: Span,
    pub(super) framed: u32,
    /// Whether the wire will lose it.
    pub(super) lost: bool,
}

/// Sojourn times since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct SojournSum {
    packets: u64,
    total_us: u64,
    max_us: u32,
}

impl SojournSum {
    #[inline]
    pub(super) fn add(&mut self, us: u32) {
        self.packets += 1;
        self.total_us += u64::from(us);
        self.max_us = self.max_us.max(us);
    }

    /// Returns the mean in milliseconds; NaN without packets.
    pub fn mean_ms(&self) -> f64 {
        self.total_us as f64 / self.packets as f64 / 1e3
    }

    /// Returns the maximum in milliseconds; NaN without packets.
    pub fn max_ms(&self) -> f64 {
        if self.packets == 0 { f64::NAN } else { f64::from(self.max_us) / 1e3 }
    }
}

/// The state of a queue as a monitor reads it.
pub struct QueueState {
    /// Packets that wait.
    pub packets: u32,
    /// Their bytes, as the queue counts them.
    pub bytes: u64,
    /// The average queue, if the discipline keeps one.
    pub average: Option<AverageQueue>,
    /// Packets that were marked early.
    pub marked_early: u64,
    /// Packets that were marked above an upper threshold.
    pub marked_forced: u64,
}

impl QueueState {
    #[inline]
    pub(super) fn of<P: Packet>(queue: &impl Qdisc<P>) -> Self {
        let (backlog, counters) = (queue.backlog(), queue.counters());
        Self {
            packets: backlog.packets,
            bytes: backlog.bytes.get(),
            average: queue.average_queue(),
            marked_early: counters.marked_early,
            marked_forced: counters.marked_forced,
        }
    }
}

impl Observed {
    /// Removes from the ring what has been transmitted by `now`.
    #[inline]
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(&packet) = self.in_ring.front()
            && packet.ends_at <= now
        {
            self.in_ring.pop_front();
            self.ring_bytes -= u64::from(packet.framed);
            self.count_sent(packet);
        }
    }

    /// Notes that a packet has left the queue for the ring.
    #[inline]
    pub(super) fn enter_ring(&mut self, packet: InRing, now: Time) {
        if packet.ends_at <= now && self.in_ring.is_empty() {
            self.count_sent(packet);
        } else {
            self.in_ring.push_back(packet);
            self.ring_bytes += u64::from(packet.framed);
        }
    }

    #[inline]
    fn count_sent(&mut self, packet: InRing) {
        self.sent_packets += 1;
        self.sent_bytes += u64::from(packet.framed);
        self.busy += packet.span;
        self.lost += u64::from(packet.lost);
    }

    /// Returns the packets and the bytes in the ring.
    #[inline]
    pub fn ring(&self) -> (u32, u64) {
        (self.in_ring.len() as u32, self.ring_bytes)
    }

    /// Returns the time spent transmitting up to `now`, including the packet in transmission.
    pub fn busy_until(&self, now: Time) -> Span {
        match self.in_ring.front() {
            Some(first) => self.busy + first.span.saturating_sub(first.ends_at.since(now)),
            None => self.busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sojourn_times_have_a_mean_and_a_maximum_once_a_packet_has_left() {
        let mut sum = SojournSum::default();
        assert!(sum.mean_ms().is_nan() && sum.max_ms().is_nan());
        sum.add(3_000);
        sum.add(500);
        assert_eq!((sum.mean_ms(), sum.max_ms()), (1.75, 3.0));
    }
}
