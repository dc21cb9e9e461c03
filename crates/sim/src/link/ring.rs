//! A network card's ring buffer: what the queue discipline has let go and no AQM sees.
//!
//! A packet leaves the queue as soon as the ring has room for it; room comes back when a packet's
//! transmission ends. Both are known when a packet is enqueued, from the packets before it.

use std::collections::VecDeque;

use narrows_units::Time;

use crate::plan::Ring;

/// The ring's memory: ends of transmission of the packets that may still be in it.
#[derive(Debug)]
pub(crate) struct RingState {
    limit: Limit,
    /// End of transmission and framed length, oldest first.
    ends: VecDeque<(Time, u32)>,
    bytes: u64,
    /// When the last packet left the queue: none leaves before it.
    last_leaves_at: Time,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    /// One packet at a time: the queue is asked when the transmitter is free.
    Single,
    Packets(usize),
    Bytes(u64),
}

/// What [`RingState::undo`] needs.
#[derive(Clone, Copy)]
pub(crate) struct Undo(Time);

impl RingState {
    pub(crate) fn new(ring: Option<Ring>) -> Self {
        let limit = match ring {
            None => Limit::Single,
            Some(Ring::Packets(packets)) => Limit::Packets(packets as usize),
            Some(Ring::Bytes(bytes)) => Limit::Bytes(bytes.get()),
        };
        Self { limit, ends: VecDeque::new(), bytes: 0, last_leaves_at: Time::ZERO }
    }

    /// When a packet of `framed` bytes that is enqueued at `at` leaves the queue; the transmitter
    /// is free at `free_at`.
    ///
    /// Follow with [`RingState::transmit`] if it is accepted, or [`RingState::undo`] if not.
    #[inline]
    pub(crate) fn admit(&mut self, at: Time, framed: u32, free_at: Time) -> (Time, Undo) {
        let undo = Undo(self.last_leaves_at);
        let leaves_at = match self.limit {
            Limit::Single => free_at.max(at),
            Limit::Packets(limit) => {
                let mut leaves_at = at.max(self.last_leaves_at);
                if self.ends.len() >= limit {
                    let (room_at, _) = self.ends[self.ends.len() - limit];
                    leaves_at = leaves_at.max(room_at);
                }
                leaves_at
            }
            Limit::Bytes(limit) => {
                let mut leaves_at = at.max(self.last_leaves_at);
                let mut bytes = self.bytes;
                for &(ends_at, length) in &self.ends {
                    // A packet longer than the ring goes through an empty one.
                    if ends_at > leaves_at && bytes + u64::from(framed) <= limit {
                        break;
                    }
                    leaves_at = leaves_at.max(ends_at);
                    bytes -= u64::from(length);
                }
                leaves_at
            }
        };
        self.last_leaves_at = leaves_at;
        (leaves_at, undo)
    }

    /// The packet was accepted; its transmission ends at `ends_at`.
    #[inline]
    pub(crate) fn transmit(&mut self, ends_at: Time, framed: u32) {
        match self.limit {
            Limit::Single => {}
            Limit::Packets(limit) => {
                if self.ends.len() == limit {
                    self.ends.pop_front();
                }
                self.ends.push_back((ends_at, framed));
            }
            Limit::Bytes(_) => {
                while let Some(&(front, length)) = self.ends.front() {
                    if front > self.last_leaves_at {
                        break;
                    }
                    self.ends.pop_front();
                    self.bytes -= u64::from(length);
                }
                self.ends.push_back((ends_at, framed));
                self.bytes += u64::from(framed);
            }
        }
    }

    /// The packet was dropped after all.
    #[inline]
    pub(crate) fn undo(&mut self, Undo(last_leaves_at): Undo) {
        self.last_leaves_at = last_leaves_at;
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::{Bytes, Span};

    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Enqueues packets at 0 that take 1 ms each; gives the moments at which they leave the queue.
    fn leave_times(ring: Option<Ring>, packets: u64) -> Vec<Time> {
        let mut state = RingState::new(ring);
        let mut free_at = Time::ZERO;
        (0..packets)
            .map(|_| {
                let (leaves_at, _) = state.admit(Time::ZERO, 1000, free_at);
                free_at = free_at.max(leaves_at) + Span::from_ms(1);
                state.transmit(free_at, 1000);
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
        let times = leave_times(Some(Ring::Packets(3)), 6);
        assert_eq!(times, [ms(0), ms(0), ms(0), ms(1), ms(2), ms(3)]);
    }

    #[test]
    fn a_ring_of_bytes_takes_what_fits() {
        let times = leave_times(Some(Ring::Bytes(Bytes::new(2999))), 5);
        assert_eq!(times, [ms(0), ms(0), ms(1), ms(2), ms(3)]);
    }

    #[test]
    fn a_packet_longer_than_the_ring_goes_through_an_empty_one() {
        let times = leave_times(Some(Ring::Bytes(Bytes::new(10))), 3);
        assert_eq!(times, [ms(0), ms(1), ms(2)]);
    }

    #[test]
    fn a_dropped_packet_leaves_no_trace() {
        let mut state = RingState::new(Some(Ring::Packets(1)));
        let (leaves_at, _) = state.admit(ms(0), 1000, ms(0));
        state.transmit(leaves_at + Span::from_ms(1), 1000);
        let (blocked, undo) = state.admit(ms(0), 1000, ms(1));
        assert_eq!(blocked, ms(1));
        state.undo(undo);
        assert_eq!(state.admit(ms(0), 1000, ms(1)).0, ms(1));
    }
}
