//! The transmitter and the ring below disciplines that decide at dequeue.

use alloc::boxed::Box;

use narrows_qdisc::fifo::{Pfifo, PfifoConfig};
use narrows_qdisc::{Backlog, Counters, Verdict, codel};
use narrows_units::Rate;

use super::*;
use crate::transmitter::Looks;
use crate::transmitter::packet::TestPacket;
use crate::{Change, LinkState, Ring};

type QueuedPacket = Waiting<TestPacket>;
type Link = Transmitter<TestPacket>;

/// A discipline that releases a packet every 3 ms, and none sooner than `hold` after its arrival.
struct Paced {
    queue: Pfifo<QueuedPacket>,
    hold: Span,
    next_at: Time,
}

impl Paced {
    fn head_at(&self) -> Option<Time> {
        let head = self.queue.head()?;
        // Short packets need not wait.
        let hold = if head.packet.bytes < 100 { Span::ZERO } else { self.hold };
        Some(self.next_at.max(head.arrived_at + hold))
    }
}

impl Qdisc<QueuedPacket> for Paced {
    fn enqueue(
        &mut self,
        now: Time,
        packet: QueuedPacket,
        dropped: &mut Dropped<QueuedPacket>,
    ) -> Verdict {
        self.queue.enqueue(now, packet, dropped)
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<QueuedPacket>) -> Option<QueuedPacket> {
        if self.head_at().is_none_or(|at| at > now) {
            return None;
        }
        self.next_at = now + Span::from_ms(3);
        self.queue.dequeue(now, dropped)
    }

    fn ready_at(&self, _now: Time) -> Option<Time> {
        self.head_at()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn counters(&self) -> Counters {
        self.queue.counters()
    }
}

const WATCHED: Looks = Looks { observed: true, at_head: false };

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// Creates a link that takes 1 ms for 1000 bytes and has a delay of 10 ms. Nobody observes it.
fn link(queue: impl Qdisc<QueuedPacket> + Send + Sync + 'static, ring: Option<Ring>) -> Link {
    changing(queue, ring, &[])
}

/// Creates the same link with changes.
fn changing(
    queue: impl Qdisc<QueuedPacket> + Send + Sync + 'static,
    ring: Option<Ring>,
    changes: &[Change],
) -> Link {
    let config = Config {
        rate: Rate::from_bps(8_000_000).expect("not zero"),
        delay: Span::from_ms(10),
        scheduled: true,
        ring,
        ..Config::default()
    };
    let mut link = Link::new(&config, changes, 1, "bottleneck", WATCHED);
    link.scheduled().replace_queue(AnyQdisc::Custom(Box::new(queue)));
    link
}

fn pfifo() -> Pfifo<QueuedPacket> {
    Pfifo::new(PfifoConfig::default())
}

/// Runs a link to its end with packets that arrive at the given milliseconds and have the given
/// bytes. Returns when each reaches the other end, and how many events it took.
fn arrivals(link: &mut Link, packets: &[(u64, u16)]) -> (Vec<Time>, usize) {
    let mut released = Released::default();
    let mut due_at = None;
    let mut events = 0;
    let mut packets = packets.iter().peekable();
    loop {
        let next = packets.peek().map(|&&(at, _)| ms(at));
        match (next, due_at) {
            (None, None) => break,
            (Some(at), due) if due.is_none_or(|due| due > at) => {
                let &(_, bytes) = packets.next().expect("it was there");
                let packet = TestPacket::of_bytes(bytes);
                // An earlier event replaces a later one.
                due_at = link.arrive(at, packet, Seen::default(), 0, &mut released).or(due);
            }
            (_, Some(due)) => {
                events += 1;
                due_at = link.release(due, 0, &mut released);
            }
            (Some(_), None) => unreachable!("the packet comes first"),
        }
    }
    let arrivals = released
        .gone
        .iter()
        .map(|gone| match gone.passage {
            Passage::Arrives(at) => at,
            other => panic!("{other:?}"),
        })
        .collect();
    (arrivals, events)
}

#[test]
fn what_a_shaper_releases_while_the_link_is_down_waits_in_the_queue() {
    let turn = |at, state| {
        let rate = Rate::from_bps(8_000_000).expect("not zero");
        Change { at: ms(at), rate: Some(rate), state: Some(state), ..Change::default() }
    };
    let changes = [turn(2, LinkState::Down), turn(10, LinkState::Up)];
    let paced = Paced { queue: pfifo(), hold: Span::ZERO, next_at: Time::ZERO };
    let mut link = changing(paced, None, &changes);
    // The shaper would let packets go at 0, 3 and 6 ms. It counts its 3 ms from 10 ms on.
    let (times, _) = arrivals(&mut link, &[(0, 1000), (0, 1000), (0, 1000)]);
    assert_eq!(times, [11, 21, 24].map(ms));
}

#[test]
fn one_event_for_each_packet_that_finds_the_link_busy() {
    let (times, events) =
        arrivals(&mut link(pfifo(), None), &[(0, 1000), (0, 1000), (0, 1000), (7, 1000)]);
    assert_eq!(times, [11, 12, 13, 18].map(ms));
    assert_eq!(events, 2);
}

#[test]
fn a_shaper_is_asked_when_it_said() {
    let paced = Paced { queue: pfifo(), hold: Span::ZERO, next_at: Time::ZERO };
    let packets = [(0, 1000), (0, 1000), (0, 1000), (20, 1000)];
    let (times, events) = arrivals(&mut link(paced, None), &packets);
    assert_eq!(times, [11, 14, 17, 31].map(ms));
    // It is asked twice when the transmitter is free, and twice when the shaper said so.
    assert_eq!(events, 4);
}

#[test]
fn a_packet_that_comes_may_go_before_what_a_shaper_said() {
    /// A discipline that sends short packets first.
    struct ShortFirst(Paced, Pfifo<QueuedPacket>);
    impl Qdisc<QueuedPacket> for ShortFirst {
        fn enqueue(
            &mut self,
            now: Time,
            packet: QueuedPacket,
            dropped: &mut Dropped<QueuedPacket>,
        ) -> Verdict {
            let short = packet.packet.bytes < 100;
            let queue = if short { &mut self.1 } else { &mut self.0.queue };
            queue.enqueue(now, packet, dropped)
        }
        fn dequeue(
            &mut self,
            now: Time,
            dropped: &mut Dropped<QueuedPacket>,
        ) -> Option<QueuedPacket> {
            self.1.dequeue(now, dropped).or_else(|| self.0.dequeue(now, dropped))
        }
        fn ready_at(&self, now: Time) -> Option<Time> {
            self.0.ready_at(now)
        }
        fn backlog(&self) -> Backlog {
            let (long, short) = (self.0.backlog(), self.1.backlog());
            Backlog { packets: long.packets + short.packets, bytes: long.bytes + short.bytes }
        }
        fn counters(&self) -> Counters {
            self.0.counters()
        }
    }
    let paced = Paced { queue: pfifo(), hold: Span::from_ms(9), next_at: Time::ZERO };
    let queue = ShortFirst(paced, pfifo());
    let (times, _) = arrivals(&mut link(queue, None), &[(0, 1000), (4, 50)]);
    let us = Span::from_us;
    assert_eq!(times, [ms(14) + us(50), ms(20)]);
}

#[test]
fn a_ring_of_bytes_asks_a_discipline_when_there_is_room_for_the_longest_frame() {
    let ring = Some(Ring::bytes(2999));
    // A discipline that does not show its next packet, on a link with an MTU of 1500.
    let mut link = link(codel::Codel::new(&codel::Config::default()), ring);
    let mut released = Released::default();
    let packet = TestPacket::of_bytes(1000);
    for _ in 0..5 {
        link.arrive(Time::ZERO, packet, Seen::default(), 0, &mut released);
    }
    let waiting = |link: &mut Link, at| {
        let state = link.queue_state(at).expect("it is observed");
        (state.packets, state.bytes, link.observed().expect("it is observed").ring())
    };
    assert_eq!(waiting(&mut link, Time::ZERO), (3, 3000, (2, 2000)));
    // There is room for the third, but not for the longest.
    let at = Time::ZERO + Span::from_us(500);
    link.release(at, 0, &mut released);
    assert_eq!(waiting(&mut link, at), (3, 3000, (2, 2000)));
    // Now there is, because 501 of the first packet's bytes have been transmitted.
    let at = Time::ZERO + Span::from_us(501);
    link.release(at, 0, &mut released);
    assert_eq!(waiting(&mut link, at), (2, 2000, (3, 3000)));
    assert_eq!(released.gone.len(), 3);
}
