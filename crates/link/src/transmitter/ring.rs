//! A network card's ring buffer. It holds packets that have left the queue discipline, out of reach
//! of any AQM.
//!
//! A packet leaves the queue as soon as the ring has room for it. If the ring counts packets, the
//! end of each transmission makes room, unless the driver waits until more have ended
//! ([`Ring::wake`]). If it counts bytes, every transmitted byte makes room, like the tokens
//! of a bucket: on Linux, such a ring is a `tbf` above another one of the same rate
//! (net/sched/sch_tbf.c, `tbf_dequeue`). In all cases,
//! the time is known when a packet is enqueued, from the packets before it.

use alloc::collections::VecDeque;

use narrows_units::{Bytes, Pace, Span, Time};

use crate::Ring;

/// The state of the ring.
#[derive(Debug)]
pub(super) struct RingState {
    room: Room,
    /// When the last packet left the queue. No later packet leaves before this.
    last_leaves_at: Time,
}

#[derive(Debug)]
enum Room {
    /// Takes one packet at a time: the queue is asked when the transmitter is free.
    Single,
    Packets(Packets),
    Bytes(u64),
    /// Counts bytes on a link whose rate changes: how long bytes take depends on when they are
    /// sent.
    BytesAtRates(u64, Sent),
}

/// A ring that counts packets.
#[derive(Debug)]
struct Packets {
    /// The driver stops the queue when it holds this many.
    stop: usize,
    /// The driver wakes the queue when no more than these are left.
    wake: usize,
    /// When the driver wakes the queue; a time that has passed if it has not stopped it.
    wakes_at: Time,
    /// The ends of transmission of those that were in it after the last packet came, oldest first.
    ends: VecDeque<Time>,
}

/// The most recent packets, as many as the ring may hold.
#[derive(Debug, Default)]
struct Sent {
    /// The start and the end of each transmission, and its length in bytes.
    packets: VecDeque<(Time, Time, u32)>,
    /// The sum of their lengths.
    bytes: u64,
}

/// A packet that enters the ring.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// When it leaves the queue.
    pub(super) leaves_at: Time,
    /// When its transmission starts.
    pub(super) starts_at: Time,
    /// When its transmission ends.
    pub(super) ends_at: Time,
    /// Its bytes on the wire.
    pub(super) framed: u32,
}

/// The value that [`RingState::undo`] needs.
#[derive(Clone, Copy)]
pub(super) struct Undo(Time);

impl RingState {
    /// Creates an empty ring. `rate_changes`: whether the link's rate changes during the run.
    pub(super) fn new(ring: Option<Ring>, rate_changes: bool) -> Self {
        let room = match ring {
            None => Room::Single,
            Some(Ring { bytes: Some(bytes), .. }) if rate_changes => {
                Room::BytesAtRates(bytes.get(), Sent::default())
            }
            Some(Ring { bytes: Some(bytes), .. }) => Room::Bytes(bytes.get()),
            Some(Ring { packets, wake, .. }) => {
                let packets = packets.expect("`Config::check` refuses a ring without both");
                Room::packets(packets, wake.unwrap_or(packets - 1))
            }
        };
        Self { room, last_leaves_at: Time::ZERO }
    }

    /// Returns when a packet of `framed` bytes that is enqueued at `at` leaves the queue. The
    /// transmitter sends at `pace` and is free at `free_at`.
    ///
    /// Afterwards call [`RingState::transmit`] if the packet is accepted, or [`RingState::undo`] if
    /// not.
    #[inline]
    pub(super) fn admit(
        &mut self,
        at: Time,
        framed: u32,
        free_at: Time,
        pace: Pace,
    ) -> (Time, Undo) {
        let undo = Undo(self.last_leaves_at);
        let leaves_at = at.max(self.last_leaves_at).max(self.room_at(framed, free_at, pace));
        self.last_leaves_at = leaves_at;
        (leaves_at, undo)
    }

    /// Returns from when on there is room for a packet of `framed` bytes behind those already
    /// accepted.
    #[inline(always)]
    pub(super) fn room_at(&self, framed: u32, free_at: Time, pace: Pace) -> Time {
        match &self.room {
            Room::Single => free_at,
            room => self.room_in(room, framed, free_at, pace),
        }
    }

    /// Returns what [`RingState::room_at`] does, for a ring with room for more than one packet.
    #[inline(never)]
    fn room_in(&self, room: &Room, framed: u32, free_at: Time, pace: Pace) -> Time {
        match room {
            Room::Single => free_at,
            Room::Packets(packets) => packets.wakes_at,
            &Room::Bytes(limit) => {
                // When the packet leaves the queue, the bytes ahead of it may take this long to
                // transmit. A packet longer than the ring leaves when the ring is empty.
                let ahead = pace.time_for(Bytes::new(limit.saturating_sub(u64::from(framed))));
                Time::ZERO + free_at.since(Time::ZERO).saturating_sub(ahead)
            }
            Room::BytesAtRates(limit, sent) => {
                sent.left_at(limit.saturating_sub(u64::from(framed)))
            }
        }
    }

    /// Returns whether a packet's length decides when there is room for it.
    #[inline]
    pub(super) fn counts_bytes(&self) -> bool {
        matches!(self.room, Room::Bytes(_) | Room::BytesAtRates(..))
    }

    /// Notes that a packet was accepted.
    #[inline(always)]
    pub(super) fn transmit(&mut self, entry: Entry) {
        if !matches!(self.room, Room::Single | Room::Bytes(_)) {
            self.remember(entry);
        }
    }

    #[inline(never)]
    fn remember(&mut self, entry: Entry) {
        match &mut self.room {
            Room::Single | Room::Bytes(_) => {}
            Room::Packets(packets) => packets.push(entry),
            Room::BytesAtRates(limit, sent) => {
                sent.push(entry.starts_at, entry.ends_at, entry.framed, *limit);
            }
        }
    }

    /// Notes that the packet was dropped after all.
    #[inline]
    pub(super) fn undo(&mut self, Undo(last_leaves_at): Undo) {
        self.last_leaves_at = last_leaves_at;
    }
}

impl Room {
    fn packets(stop: u32, wake: u32) -> Self {
        let (stop, wake) = (stop as usize, wake as usize);
        Self::Packets(Packets { stop, wake, wakes_at: Time::ZERO, ends: VecDeque::new() })
    }
}

impl Packets {
    /// Adds a packet, and stops the queue if the ring is then full.
    fn push(&mut self, entry: Entry) {
        while self.ends.front().is_some_and(|&ends_at| ends_at <= entry.leaves_at) {
            self.ends.pop_front();
        }
        self.ends.push_back(entry.ends_at);
        if self.ends.len() == self.stop {
            self.wakes_at = self.ends[self.stop - self.wake - 1];
        }
    }
}

impl Sent {
    /// Adds a packet, and forgets those that `limit` bytes have followed.
    fn push(&mut self, starts_at: Time, ends_at: Time, framed: u32, limit: u64) {
        self.packets.push_back((starts_at, ends_at, framed));
        self.bytes += u64::from(framed);
        while let Some(&(.., oldest)) = self.packets.front()
            && self.bytes - u64::from(oldest) >= limit
        {
            self.packets.pop_front();
            self.bytes -= u64::from(oldest);
        }
    }

    /// Returns when only the last `bytes` bytes remain to be transmitted.
    fn left_at(&self, bytes: u64) -> Time {
        let mut bytes = bytes;
        for &(starts_at, ends_at, framed) in self.packets.iter().rev() {
            let framed = u64::from(framed);
            if bytes < framed {
                let span = ends_at.since(starts_at).as_ps();
                let left = u128::from(span) * u128::from(bytes) / u128::from(framed);
                // This is less than `span`.
                return starts_at + Span::from_ps(span - left as u64);
            }
            bytes -= framed;
        }
        Time::ZERO
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use narrows_units::Rate;

    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// 1000 bytes in a millisecond.
    fn pace() -> Pace {
        Rate::from_bps(8_000_000).expect("not zero").pace()
    }

    /// Enqueues packets at time 0 that take 1 ms each. Returns when they leave the queue.
    fn leave_times(ring: Option<Ring>, packets: u64) -> Vec<Time> {
        let mut state = RingState::new(ring, false);
        let mut free_at = Time::ZERO;
        (0..packets)
            .map(|_| {
                let (leaves_at, _) = state.admit(Time::ZERO, 1000, free_at, pace());
                let starts_at = free_at.max(leaves_at);
                free_at = starts_at + Span::from_ms(1);
                state.transmit(Entry { leaves_at, starts_at, ends_at: free_at, framed: 1000 });
                leaves_at
            })
            .collect()
    }

    #[test]
    fn without_a_ring_a_packet_leaves_when_the_one_before_is_sent() {
        assert_eq!(leave_times(None, 3), [ms(0), ms(1), ms(2)]);
    }

    #[test]
    fn a_ring_of_packets_takes_that_many_at_once() {
        let times = leave_times(Some(Ring::packets(3)), 6);
        assert_eq!(times, [ms(0), ms(0), ms(0), ms(1), ms(2), ms(3)]);
    }

    #[test]
    fn a_stopped_ring_takes_packets_when_few_enough_are_left() {
        // It stops at 4 packets and takes 3 more when 1 is left.
        let times = leave_times(Some(Ring::thresholds(4, 1)), 11);
        let bursts = [0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9].map(ms);
        assert_eq!(times, bursts);
        for (stop, packets) in [(1, 4), (3, 9)] {
            let plain = leave_times(Some(Ring::packets(stop)), packets);
            let same = Ring::thresholds(stop, stop - 1);
            assert_eq!(leave_times(Some(same), packets), plain);
        }
    }

    #[test]
    fn a_ring_that_is_not_full_takes_a_packet_at_once() {
        // After the stop, 3 of 4 have ended; then it holds 2 packets, more than `wake`, and room.
        let mut state = RingState::new(Some(Ring::thresholds(4, 1)), false);
        let mut free_at = Time::ZERO;
        let mut leaves = |at| {
            let (leaves_at, _) = state.admit(at, 1000, free_at, pace());
            let starts_at = free_at.max(leaves_at);
            free_at = starts_at + Span::from_ms(1);
            state.transmit(Entry { leaves_at, starts_at, ends_at: free_at, framed: 1000 });
            leaves_at
        };
        let times = [0, 0, 0, 0, 1, 4, 4].map(|at| leaves(ms(at)));
        assert_eq!(times, [0, 0, 0, 0, 3, 4, 4].map(ms));
    }

    #[test]
    fn room_in_bytes_comes_back_byte_by_byte() {
        // Two fit at once. The third fits when 1 of the 2000 bytes ahead of it has been
        // transmitted.
        let times = leave_times(Some(Ring::bytes(2999)), 5);
        let us = |us| Time::ZERO + Span::from_us(us);
        assert_eq!(times, [us(0), us(0), us(1), us(1001), us(2001)]);
    }

    #[test]
    fn in_a_full_ring_of_bytes_a_packet_follows_the_last_after_its_own_length() {
        // A long, a short and a long packet: the times do not depend on when earlier transmissions
        // end.
        let mut state = RingState::new(Some(Ring::bytes(3000)), false);
        let mut free_at = Time::ZERO;
        let mut times = Vec::new();
        for framed in [1000, 1000, 1000, 1000, 100, 1000] {
            let (leaves_at, _) = state.admit(Time::ZERO, framed, free_at, pace());
            let starts_at = free_at;
            free_at += Span::from_us(u64::from(framed));
            state.transmit(Entry { leaves_at, starts_at, ends_at: free_at, framed });
            times.push(leaves_at.since(Time::ZERO));
        }
        let us = [0, 0, 0, 1000, 1100, 2100].map(Span::from_us);
        assert_eq!(times, us);
    }

    #[test]
    fn a_packet_longer_than_the_ring_goes_through_an_empty_one() {
        let times = leave_times(Some(Ring::bytes(10)), 3);
        assert_eq!(times, [ms(0), ms(1), ms(2)]);
    }

    #[test]
    fn a_dropped_packet_leaves_no_trace() {
        let mut state = RingState::new(Some(Ring::packets(1)), false);
        let (leaves_at, _) = state.admit(ms(0), 1000, ms(0), pace());
        let ends_at = leaves_at + Span::from_ms(1);
        state.transmit(Entry { leaves_at, starts_at: leaves_at, ends_at, framed: 1000 });
        let (blocked, undo) = state.admit(ms(0), 1000, ms(1), pace());
        assert_eq!(blocked, ms(1));
        state.undo(undo);
        assert_eq!(state.admit(ms(0), 1000, ms(1), pace()).0, ms(1));
    }
}
