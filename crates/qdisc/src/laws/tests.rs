//! The laws must be able to fail.

use super::*;
use crate::fifo::{Pfifo, PfifoConfig};
use crate::{Counters, Dropped};

/// It loses every hundredth packet.
#[test]
#[should_panic(expected = "assertion")]
fn a_leaking_queue_breaks_the_laws() {
    struct Leaky(Pfifo<TestPacket>, u32);

    impl Qdisc<TestPacket> for Leaky {
        fn enqueue(
            &mut self,
            now: Time,
            packet: TestPacket,
            dropped: &mut Dropped<TestPacket>,
        ) -> Verdict {
            self.1 += 1;
            if self.1.is_multiple_of(100) {
                return Verdict::Queued;
            }
            self.0.enqueue(now, packet, dropped)
        }

        fn dequeue(&mut self, now: Time, dropped: &mut Dropped<TestPacket>) -> Option<TestPacket> {
            self.0.dequeue(now, dropped)
        }

        fn backlog(&self) -> Backlog {
            self.0.backlog()
        }

        fn counters(&self) -> Counters {
            self.0.counters()
        }
    }

    check(|| Leaky(Pfifo::new(PfifoConfig { limit: 20 }), 0));
}

/// A queue that lets a packet go every 100 us at most, and names a time that is too late by
/// `error`.
struct Paced {
    queue: Pfifo<TestPacket>,
    next_at: Time,
    error: Span,
}

impl Paced {
    fn new(error: Span) -> Self {
        let queue = Pfifo::new(PfifoConfig { limit: 20 });
        Self { queue, next_at: Time::ZERO, error }
    }
}

impl Qdisc<TestPacket> for Paced {
    fn enqueue(
        &mut self,
        now: Time,
        packet: TestPacket,
        dropped: &mut Dropped<TestPacket>,
    ) -> Verdict {
        self.queue.enqueue(now, packet, dropped)
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<TestPacket>) -> Option<TestPacket> {
        if self.next_at > now {
            return None;
        }
        let packet = self.queue.dequeue(now, dropped)?;
        self.next_at = now + Span::from_us(100);
        Some(packet)
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        let waits = self.backlog().packets > 0 && self.next_at > now;
        waits.then_some(self.next_at + self.error)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn counters(&self) -> Counters {
        self.queue.counters()
    }
}

#[test]
fn a_paced_queue_obeys_the_laws_of_shaping() {
    check_shaping(|| Paced::new(Span::ZERO));
}

#[test]
#[should_panic(expected = "a packet came out before the time that ready_at returned")]
fn a_queue_that_names_the_wrong_time_breaks_the_laws_of_shaping() {
    check_shaping(|| Paced::new(Span::from_ps(1)));
}

#[test]
#[should_panic(expected = "the queue does not shape")]
fn a_queue_that_holds_back_breaks_the_laws_of_others() {
    check(|| Paced::new(Span::ZERO));
}
