//! Delivery rate samples: how fast the path has delivered what was sent.
//!
//! Written from draft-cheng-iccrg-delivery-rate-estimation-00, with its steps and variables, in
//! segments and microseconds. As in Linux 6.1, a sample comes from the most recently sent of the
//! delivered segments, and each write first checks whether the application limits the sender.
//! Difference: a host has no queue of its own here, so only what TCP has not sent yet counts.

use alloc::vec::Vec;

use super::moment::elapsed_us;
use super::sample::{Newest, Rate, RateSample, SentState};
use crate::seq::Seq;

/// The state of a connection (section 3.2), and that of its segments in flight, in the order of the
/// scoreboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    in_flight: Ring,
    /// C.first_sent_time: when the newest delivered segment was sent.
    first_sent_us: u32,
    /// C.delivered_time: when something was last delivered.
    pub delivered_us: u32,
    /// C.app_limited: the application limits the sender until more segments than this are delivered;
    /// 0: it does not.
    app_limited: u32,
    /// The newest segment that the current acknowledgement delivers.
    newest: Option<Arrived>,
    /// The segments in flight before this acknowledgement.
    prior_in_flight: u32,
}

/// What was true when a segment was sent (P.first_sent_time, P.delivered_time, P.is_app_limited).
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    first_sent_us: u32,
    delivered_us: u32,
    /// The segments in flight, this one included, and the segments lost on the connection until then.
    in_flight: u32,
    lost: u32,
    is_app_limited: bool,
    /// Whether a SACK has reported it, so that its acknowledgement says nothing new.
    is_used: bool,
}

impl Sent {
    /// Returns what a control may know. `lost`: the segments lost on the whole connection.
    fn state(&self, lost: u32) -> SentState {
        SentState {
            in_flight: self.in_flight,
            lost: lost.wrapping_sub(self.lost),
            is_app_limited: self.is_app_limited,
        }
    }
}

/// A queue in a ring whose length is a power of two, so that a place costs no comparison.
#[derive(Clone, Debug, Default)]
struct Ring {
    slots: Vec<Sent>,
    head: u32,
    len: u32,
}

impl Ring {
    #[inline]
    fn slot(&self, index: u32) -> usize {
        self.head.wrapping_add(index) as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn get(&self, index: u32) -> Option<&Sent> {
        if index < self.len { self.slots.get(self.slot(index)) } else { None }
    }

    #[inline]
    fn get_mut(&mut self, index: u32) -> Option<&mut Sent> {
        let slot = self.slot(index);
        if index < self.len { self.slots.get_mut(slot) } else { None }
    }

    #[inline]
    fn push(&mut self, sent: Sent) {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.len);
        self.slots[slot] = sent;
        self.len += 1;
    }

    #[inline]
    fn pop(&mut self) {
        if self.len > 0 {
            self.head = self.head.wrapping_add(1);
            self.len -= 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.slot(0);
        self.slots.rotate_left(first);
        self.head = 0;
        let room = (2 * self.slots.len()).max(4);
        self.slots.reserve_exact(room - self.slots.len());
        self.slots.resize(room, Sent::default());
    }
}

/// The newest segment that an acknowledgement has delivered, with the time that sending took.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    segment: Delivered,
    sent: Sent,
    send_elapsed_us: u32,
}

/// A segment that was delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    /// Where it ends, and when it was last sent.
    pub end: Seq,
    pub sent_us: u32,
    /// The segments delivered when it was last sent.
    pub prior_delivered: u32,
}

impl Delivered {
    /// Returns whether it was sent after `other` (RFC 8985, RACK_sent_after).
    #[inline]
    fn is_after(&self, other: &Self) -> bool {
        let later = self.sent_us.wrapping_sub(other.sent_us) as i32;
        later > 0 || (later == 0 && self.end.after(other.end))
    }
}

impl Rates {
    /// Notes that the segment at `index` of the scoreboard is sent at `us` (section 3.2). `idle`:
    /// nothing else is in flight. `in_flight` counts it, and `lost` what the connection has lost.
    #[inline]
    pub(crate) fn note_sent(
        &mut self,
        index: u32,
        us: u32,
        idle: bool,
        (in_flight, lost): (u32, u32),
    ) {
        if idle {
            self.first_sent_us = us;
            self.delivered_us = us;
        }
        let sent = Sent {
            first_sent_us: self.first_sent_us,
            delivered_us: self.delivered_us,
            in_flight,
            lost,
            is_app_limited: self.app_limited != 0,
            is_used: false,
        };
        match self.in_flight.get_mut(index) {
            Some(again) => *again = sent,
            None => self.in_flight.push(sent),
        }
    }

    /// Notes that the scoreboard cuts each segment into so many parts, which keep what was true when
    /// the whole was sent (`tcp_fragment`).
    pub(crate) fn cut(&mut self, parts: impl Iterator<Item = usize>) {
        let whole = core::mem::take(&mut self.in_flight);
        for (index, parts) in (0..whole.len).zip(parts) {
            (0..parts).for_each(|_| self.in_flight.push(whole.slots[whole.slot(index)]));
        }
    }

    /// Begins with an acknowledgement.
    pub(crate) fn begin_ack(&mut self, in_flight: u32) {
        self.newest = None;
        self.prior_in_flight = in_flight;
    }

    /// Notes that the segment at `index` of the scoreboard was delivered (section 3.3,
    /// UpdateRateSample).
    #[inline]
    pub(crate) fn note_delivered(&mut self, index: u32, segment: Delivered) {
        let Some(sent) = self.in_flight.get_mut(index) else { return };
        if core::mem::replace(&mut sent.is_used, true) {
            return;
        }
        if self.newest.is_none_or(|newest| segment.is_after(&newest.segment)) {
            self.first_sent_us = segment.sent_us;
            let send_elapsed_us = elapsed_us(segment.sent_us, sent.first_sent_us);
            self.newest = Some(Arrived { segment, sent: *sent, send_elapsed_us });
        }
    }

    /// Returns what was true when the segment at `index` of the scoreboard was sent. `lost`: the
    /// segments lost on the whole connection.
    pub(crate) fn sent_state(&self, index: u32, lost: u32) -> Option<SentState> {
        Some(self.in_flight.get(index)?.state(lost))
    }

    /// Notes that the first segment has left the scoreboard.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.in_flight.pop();
    }

    /// Returns whether the application limits the sender.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Notes that the application, and nothing else, limits the sender: the next samples of
    /// `delivered` plus what is in flight say little about the path (section 3.4).
    pub(crate) fn limit_by_application(&mut self, delivered: u32, in_flight: u32) {
        self.app_limited = delivered.wrapping_add(in_flight).max(1);
    }

    /// Returns the sample of an acknowledgement (section 3.3, GenerateRateSample). `delivered` and
    /// `total` count the segments that it and the whole connection have delivered, and `lost` and
    /// `total_lost` those that it shows to be lost, and all that are. An interval below `shortest_us`, the shortest round trip, gives no
    /// rate.
    #[inline]
    pub(crate) fn sample(
        &mut self,
        us: u32,
        (delivered, total): (u32, u32),
        (lost, total_lost): (u32, u32),
        shortest_us: u32,
        rtt_us: Option<u32>,
    ) -> RateSample {
        if self.app_limited != 0 && (total.wrapping_sub(self.app_limited) as i32) > 0 {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_us = us;
        }
        let mut sample = RateSample {
            acked: delivered,
            lost,
            prior_in_flight: self.prior_in_flight,
            rtt_us,
            delivered_us: self.delivered_us,
            rate: None,
            newest: None,
        };
        if let Some(newest) = self.newest {
            let prior_delivered = newest.segment.prior_delivered;
            sample.newest = Some(Newest {
                delivered: total.wrapping_sub(prior_delivered),
                prior_delivered,
                sent: newest.sent.state(total_lost),
            });
            let ack_elapsed_us = elapsed_us(us, newest.sent.delivered_us);
            let interval_us = newest.send_elapsed_us.max(ack_elapsed_us);
            if interval_us >= shortest_us && interval_us > 0 {
                sample.rate = Some(Rate {
                    delivered: total.wrapping_sub(prior_delivered),
                    interval_us,
                    prior_delivered,
                    is_app_limited: newest.sent.is_app_limited,
                });
            }
        }
        sample
    }

    /// Returns the segments in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len as usize
    }

    /// Returns the heap bytes in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.in_flight.slots.capacity() * size_of::<Sent>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First in, first out, while it grows with its head in the middle.
    #[test]
    fn a_ring_keeps_the_order() {
        let mut ring = Ring::default();
        let (mut pushed, mut popped) = (0, 0);
        for (pushes, pops) in [(3, 2), (3, 0), (1, 3), (40, 20), (9, 29), (0, 5)] {
            for _ in 0..pushes {
                ring.push(Sent { lost: pushed, ..Sent::default() });
                pushed += 1;
            }
            for _ in 0..pops {
                let first = ring.get(0).map(|sent| sent.lost);
                assert_eq!(first, (popped < pushed).then_some(popped));
                ring.pop();
                popped = pushed.min(popped + 1);
            }
            assert_eq!(ring.len, pushed - popped);
            for index in 0..ring.len {
                assert_eq!(ring.get_mut(index).map(|sent| sent.lost), Some(popped + index));
            }
            assert!(ring.get(ring.len).is_none() && ring.get_mut(ring.len).is_none());
        }
    }

    /// Three segments, sent at 1, 2 and 3 ms. The first is cut into two parts. The third part is the
    /// second segment, and its sample begins when the first one was sent.
    #[test]
    fn parts_of_a_segment_keep_its_times() {
        let mut rates = Rates::default();
        for (index, us) in [(0, 1000), (1, 2000), (2, 3000)] {
            rates.note_sent(index, us, index == 0, (index + 1, 0));
            rates.first_sent_us = us;
        }
        rates.cut([2, 1, 1].into_iter());
        rates.begin_ack(4);
        rates.note_delivered(2, Delivered { end: Seq(3000), sent_us: 2000, prior_delivered: 0 });
        let sample = rates.sample(2500, (1, 1), (0, 0), 100, None);
        assert_eq!(sample.rate.map(|rate| rate.interval_us), Some(1500));
        assert_eq!(rates.newest.map(|newest| newest.send_elapsed_us), Some(1000));
        assert_eq!(rates.in_flight(), 4);
        // Of a segment that has told what it knows, the parts tell nothing more.
        rates.cut([1, 1, 2, 1].into_iter());
        rates.begin_ack(5);
        rates.note_delivered(3, Delivered { end: Seq(3000), sent_us: 2000, prior_delivered: 0 });
        assert!(rates.newest.is_none());
    }
}
