//! A packet number space (RFC 9000, 12.3): what was sent and is not yet acknowledged, and what
//! arrived.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use narrows_units::{Span, Time};

use super::frames::{Ack, Frame};
use super::ranges::Ranges;
use super::streams::{Receiving, Sending};

#[derive(Debug, Default)]
pub(super) struct Space {
    /// The number of the next packet.
    pub(super) next: u64,
    /// Packets that are neither acknowledged nor lost, in order.
    pub(super) sent: VecDeque<Sent>,
    pub(super) largest_acked: Option<u64>,
    /// When the last ack-eliciting packet was sent.
    pub(super) last_eliciting_at: Option<Time>,
    /// When the next packet counts as lost (RFC 9002, 6.1.2).
    pub(super) loss_at: Option<Time>,
    /// The number of packets to be sent whatever the congestion window allows (RFC 9002, 6.2.4).
    pub(super) probes: u8,
    /// The packet number below which probes have repeated everything.
    pub(super) repeated: u64,
    /// The packets that have arrived.
    pub(super) received: Ranges,
    pub(super) largest_at: Time,
    /// The number of ack-eliciting packets among them that are not yet acknowledged.
    pub(super) unacknowledged: u8,
    /// When these have to be acknowledged.
    pub(super) ack_at: Option<Time>,
    /// The number of packets that arrived with a mark.
    pub(super) marked: u64,
    /// The number of such packets at the peer, as last reported.
    pub(super) marked_there: u64,
    pub(super) crypto: Sending,
    pub(super) crypto_received: Receiving,
    /// Whether its keys are gone (RFC 9001, 4.9).
    pub(super) is_over: bool,
}

/// A packet under way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) at: Time,
    pub(super) bytes: u32,
    pub(super) eliciting: bool,
    /// Whether it counts towards the congestion window: it is ack-eliciting or has padding.
    pub(super) in_flight: bool,
    pub(super) frames: Vec<Frame>,
}

/// The most ranges in an acknowledgement (RFC 9000, 13.2.3).
const MOST_RANGES: usize = 64;

impl Space {
    /// Notes a packet that has arrived (RFC 9000, 13.2). `every`: how many packets are acknowledged
    /// together, and after which time at the latest.
    pub(super) fn note_received(
        &mut self,
        now: Time,
        number: u64,
        marked: bool,
        eliciting: bool,
        every: (u8, Span),
    ) {
        let expected = self.received.largest().map_or(0, |largest| largest + 1);
        if number >= expected {
            self.largest_at = now;
        }
        self.received.insert(number, number + 1);
        self.marked += u64::from(marked);
        if !eliciting {
            return;
        }
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        // 13.2.1: at once if packets are missing or marked.
        let due = if self.unacknowledged >= every.0 || number != expected || marked {
            now
        } else {
            now + every.1
        };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
    }

    /// Returns the acknowledgement of everything that has arrived. `counts`: whether it also counts
    /// marks.
    pub(super) fn acknowledgement(&self, now: Time, counts: bool) -> Option<Frame> {
        (!self.received.is_empty()).then(|| {
            Frame::Ack(Ack {
                received: self.received.newest(MOST_RANGES),
                delay: now.since(self.largest_at),
                marked: counts.then_some(self.marked),
            })
        })
    }

    /// Removes and returns the packets that an acknowledgement covers, in order. The cost depends
    /// only on their number, not on how many others are under way.
    pub(super) fn take_acked(&mut self, received: &Ranges) -> Vec<Sent> {
        let mut acked = Vec::new();
        for (start, end) in received.descending() {
            let from = self.sent.partition_point(|sent| sent.number < start);
            let to = self.sent.partition_point(|sent| sent.number < end);
            acked.extend(self.sent.drain(from..to).rev());
            if from == 0 {
                break;
            }
        }
        acked.reverse();
        acked
    }

    pub(super) fn note_acknowledged(&mut self) {
        (self.unacknowledged, self.ack_at) = (0, None);
    }

    pub(super) fn has_eliciting(&self) -> bool {
        self.sent.iter().any(|sent| sent.eliciting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const DELAY: Span = Span::from_ms(25);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// RFC 9000, 13.2.1 and 13.2.2: at once if it is the second that asks for it, if it is out of
    /// order, or if it is marked.
    #[test]
    fn an_acknowledgement_waits_for_an_ordinary_packet_alone() {
        for (before, number, marked, eliciting, due) in [
            (&[][..], 0, false, true, Some(35)),
            (&[], 0, true, true, Some(10)),
            (&[], 1, false, true, Some(10)),
            (&[], 0, false, false, None),
            (&[], 5, true, false, None),
            (&[(0, 5)], 1, false, true, Some(10)),
            (&[(0, 5)], 1, false, false, Some(30)),
            (&[(3, 5)], 2, false, true, Some(5)),
        ] {
            let mut space = Space::default();
            for &(number, ms) in before {
                space.note_received(at(ms), number, false, true, (2, DELAY));
            }
            space.note_received(at(10), number, marked, eliciting, (2, DELAY));
            assert_eq!(space.ack_at, due.map(at), "{before:?} {number} {marked} {eliciting}");
            assert_eq!(space.marked, u64::from(marked));
            assert!(space.received.contains(number));
            let asked = before.len() as u8 + u8::from(eliciting);
            assert_eq!(space.unacknowledged, asked);
            space.note_acknowledged();
            assert_eq!((space.unacknowledged, space.ack_at), (0, None));
        }
    }

    /// RFC 9000, 13.2.5: the delay counts from the packet with the largest number.
    #[test]
    fn the_delay_of_an_acknowledgement_counts_from_the_largest_packet() {
        let mut space = Space::default();
        assert!(space.acknowledgement(at(1), true).is_none());
        for (number, ms) in [(0, 10), (4, 20), (2, 30)] {
            space.note_received(at(ms), number, true, true, (2, DELAY));
        }
        for (counts, marked) in [(true, Some(3)), (false, None)] {
            let Some(Frame::Ack(ack)) = space.acknowledgement(at(50), counts) else {
                panic!("something has arrived")
            };
            assert_eq!((ack.delay, ack.marked), (Span::from_ms(30), marked));
            let ranges: Vec<_> = ack.received.descending().collect();
            assert_eq!(ranges, [(4, 5), (2, 3), (0, 1)]);
        }
        space.note_received(at(60), 5, false, true, (2, DELAY));
        let Some(Frame::Ack(ack)) = space.acknowledgement(at(61), false) else {
            panic!("something has arrived")
        };
        assert_eq!(ack.delay, Span::from_ms(1));
    }

    /// An acknowledgement has the newest 64 ranges.
    #[test]
    fn an_acknowledgement_has_a_bounded_number_of_ranges() {
        let mut space = Space::default();
        for number in 0..70 {
            space.note_received(at(number), 2 * number, false, true, (2, DELAY));
        }
        let Some(Frame::Ack(ack)) = space.acknowledgement(at(99), false) else {
            panic!("something has arrived")
        };
        let ranges: Vec<_> = ack.received.descending().collect();
        assert_eq!((ranges.len(), ranges[0], ranges[63]), (64, (138, 139), (12, 13)));
    }

    #[test]
    fn packets_leave_when_they_are_acknowledged() {
        let sent = |number| Sent {
            number,
            at: at(number),
            bytes: 100,
            eliciting: number == 3,
            in_flight: true,
            frames: vec![],
        };
        let numbers = |sent: &[Sent]| sent.iter().map(|sent| sent.number).collect::<Vec<_>>();
        for (ranges, taken, left) in [
            (&[(0, 9)][..], vec![1, 2, 3, 5, 6], vec![]),
            (&[(2, 3), (5, 6)], vec![2, 5], vec![1, 3, 6]),
            (&[(3, 6)], vec![3, 5], vec![1, 2, 6]),
            (&[(0, 1), (4, 5)], vec![], vec![1, 2, 3, 5, 6]),
            (&[(0, 2), (6, 7)], vec![1, 6], vec![2, 3, 5]),
        ] {
            let mut space = Space::default();
            space.sent.extend([1, 2, 3, 5, 6].map(sent));
            assert!(space.has_eliciting());
            let mut received = Ranges::default();
            for &(start, end) in ranges {
                received.insert(start, end);
            }
            assert_eq!(numbers(&space.take_acked(&received)), taken, "{ranges:?}");
            assert_eq!(numbers(space.sent.make_contiguous()), left, "{ranges:?}");
            assert_eq!(space.has_eliciting(), left.contains(&3));
        }
    }
}
