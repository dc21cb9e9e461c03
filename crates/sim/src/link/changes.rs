//! Links whose rate or delay varies.
//!
//! A link may change at given times. A packet is then transmitted completely at the rate that holds
//! when its transmission starts; packets behind it, in the queue or in the ring, get the rate of
//! their own start. Or a link sends at [listed moments](super::opportunities). Both are known
//! before the run, so the end of each transmission still follows from the one before. Such a link
//! therefore stays in clock mode and needs no event for a change.

use narrows_units::{Pace, Span, Time};

use super::opportunities::Opportunities;
use crate::plan::{Link as LinkPlan, LinkChange};

/// How a link varies over time.
#[derive(Debug)]
pub(super) enum Changes {
    /// Changes in order of time; the first entry is the link's initial state.
    Steps(Box<[Step]>),
    /// Bytes leave at listed moments, at this pace on average.
    Listed(Opportunities, Pace, Span),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    from: Time,
    pace: Pace,
    delay: Span,
}

/// The transmission of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// When it ends.
    pub(super) ends_at: Time,
    /// How long it keeps the link busy; an average if bytes leave at listed moments.
    pub(super) busy: Span,
    /// The propagation delay that follows.
    pub(super) delay: Span,
}

impl Changes {
    /// Returns `None` if nothing changes. `changes` are those of this link; of two at the same
    /// time, the later in the list counts.
    pub(super) fn new(plan: &LinkPlan, changes: &[&LinkChange]) -> Option<Self> {
        if let Some(ms) = &plan.opportunities_ms {
            return Some(Self::Listed(Opportunities::new(ms), plan.rate.pace(), plan.delay));
        }
        if changes.is_empty() {
            return None;
        }
        let mut changes = changes.to_vec();
        changes.sort_by_key(|change| change.at);
        let mut step = Step { from: Time::ZERO, pace: plan.rate.pace(), delay: plan.delay };
        let mut steps = vec![step];
        for change in changes {
            let delay = change.delay.unwrap_or(step.delay);
            step = Step { from: change.at, pace: change.rate.pace(), delay };
            steps.push(step);
        }
        Some(Self::Steps(steps.into()))
    }

    /// Returns when a transmission starts if it may start from `at` on. A packet waits in the queue
    /// until then.
    pub(super) fn start(&self, at: Time) -> Time {
        match self {
            Self::Steps(_) => at,
            Self::Listed(opportunities, ..) => opportunities.start(at),
        }
    }

    /// Returns the transmission of a frame that may start at `starts_at`.
    pub(super) fn send(&self, starts_at: Time, framed: u32) -> Sent {
        match self {
            Self::Steps(steps) => {
                let index = steps.partition_point(|step| step.from <= starts_at);
                // The first step holds from time zero on.
                let Step { pace, delay, .. } = steps[index - 1];
                Sent::at(pace, delay, starts_at, framed)
            }
            Self::Listed(opportunities, pace, delay) => Sent {
                ends_at: opportunities.end(starts_at, framed.max(1)),
                busy: pace.time_for_frame(framed),
                delay: *delay,
            },
        }
    }
}

impl Sent {
    /// Returns the transmission of a frame at a constant pace.
    #[inline]
    pub(super) fn at(pace: Pace, delay: Span, starts_at: Time, framed: u32) -> Self {
        let busy = pace.time_for_frame(framed);
        Self { ends_at: starts_at + busy, busy, delay }
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::AnyQdisc;
    use narrows_qdisc::fifo::{Pfifo, PfifoConfig};
    use narrows_units::{Bytes, Rate};

    use super::super::{Link, Looks, Mode, Passage, Released};
    use super::*;
    use crate::packet::Packet;
    use crate::plan::{Framing, Queue, Ring};

    const WATCHED: Looks = Looks { observed: true, obstacle: false };

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// A link that sends 1000 bytes in a millisecond and has a delay of 10 ms.
    fn plan(ring: Option<Ring>) -> LinkPlan {
        LinkPlan {
            name: "access".into(),
            from: 0,
            to: 1,
            rate: rate(8_000_000),
            delay: Span::from_ms(10),
            jitter: None,
            loss: 0.0,
            dns_exempt: false,
            opportunities_ms: None,
            framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
            queue: Queue::Pfifo(PfifoConfig::default()),
            scheduled: false,
            ring,
            mtu: 1500,
            middlebox: None,
        }
    }

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).expect("not zero")
    }

    fn change(at: Time, bps: u64, delay: Option<Span>) -> LinkChange {
        LinkChange { at, link: 0, rate: rate(bps), delay }
    }

    /// Returns when packets of 1000 bytes sent at time 0 arrive, in clock mode. Checks that
    /// scheduled mode agrees.
    fn arrivals(changes: &[LinkChange], ring: Option<Ring>, packets: usize) -> Vec<Time> {
        let changes: Vec<&LinkChange> = changes.iter().collect();
        let mut plan = plan(ring);
        let mut clocked = Link::new(&plan, &changes, 1, WATCHED);
        let packet = Packet::of_bytes(0, 1000);
        let times: Vec<Time> = (0..packets)
            .map(|_| match clocked.enqueue(Time::ZERO, &mut packet.clone(), &mut Vec::new()) {
                Passage::Arrives(at) => at,
                Passage::Dropped(_) | Passage::Lost => panic!("there is room"),
            })
            .collect();
        plan.scheduled = true;
        let mut scheduled = Link::new(&plan, &changes, 1, WATCHED);
        let mut released = Released::default();
        for _ in 0..packets {
            scheduled.arrive(Time::ZERO, packet, (0, 0), 0, &mut released);
        }
        scheduled.release(us(1_000_000), 0, &mut released);
        let same: Vec<Time> = released
            .gone
            .iter()
            .map(|gone| match gone.passage {
                Passage::Arrives(at) => at,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(times, same);
        times
    }

    #[test]
    fn a_packet_is_sent_to_the_end_at_the_rate_at_which_it_started() {
        let changes = [change(us(2_500), 4_000_000, None), change(us(9_000), 16_000_000, None)];
        for ring in [None, Some(Ring::Packets(4)), Some(Ring::Bytes(Bytes::new(3_000)))] {
            // Three take 1 ms each, three take 2 ms, and the rest half a millisecond.
            let times = arrivals(&changes, ring, 8);
            let expected = [11_000, 12_000, 13_000, 15_000, 17_000, 19_000, 19_500, 20_000];
            assert_eq!(times, expected.map(us), "{ring:?}");
        }
    }

    #[test]
    fn the_later_of_two_changes_at_the_same_time_counts() {
        let changes = [change(us(1_000), 1, None), change(us(1_000), 4_000_000, None)];
        assert_eq!(arrivals(&changes, None, 2), [11_000, 13_000].map(us));
    }

    #[test]
    fn a_delay_changes_for_packets_that_start_later_which_may_overtake() {
        let changes = [change(us(1_000), 8_000_000, Some(Span::from_ms(2)))];
        assert_eq!(arrivals(&changes, None, 3), [11_000, 4_000, 5_000].map(us));
    }

    #[test]
    fn room_in_a_ring_of_bytes_comes_back_at_the_rate_of_the_packet_in_transmission() {
        // The ring takes 2500 bytes, and the link sends at half speed from 1 ms on. Half of the
        // first packet is sent after half a millisecond, half of the second after 1 ms of its 2 ms,
        // and so on.
        let changes = [change(us(1_000), 4_000_000, None)];
        let changes: Vec<&LinkChange> = changes.iter().collect();
        let plan = plan(Some(Ring::Bytes(Bytes::new(2_500))));
        let mut clocked = Link::new(&plan, &changes, 1, WATCHED);
        let scheduled_plan = LinkPlan { scheduled: true, ..plan };
        let mut scheduled = Link::new(&scheduled_plan, &changes, 1, WATCHED);
        let mut released = Released::default();
        for _ in 0..5 {
            let mut packet = Packet::of_bytes(0, 1000);
            scheduled.arrive(Time::ZERO, packet, (0, 0), 0, &mut released);
            clocked.enqueue(Time::ZERO, &mut packet, &mut Vec::new());
        }
        let expected = [(0, 3), (499, 3), (500, 2), (1_999, 2), (2_000, 1), (3_999, 1), (4_000, 0)];
        for (at, waiting) in expected {
            scheduled.release(us(at), 0, &mut released);
            for link in [&mut clocked, &mut scheduled] {
                let state = link.queue_state(us(at)).expect("it is observed");
                assert_eq!(state.packets, waiting, "at {at} us");
            }
        }
        // A discipline that shows no head hands out its packet, which waits for the same room.
        let mut other = Link::new(&scheduled_plan, &changes, 1, WATCHED);
        let Mode::Scheduled(mode) = &mut other.mode else { panic!("it is scheduled") };
        mode.replace_queue(AnyQdisc::Custom(Box::new(Pfifo::new(PfifoConfig::default()))));
        for _ in 0..5 {
            other.arrive(Time::ZERO, Packet::of_bytes(0, 1000), (0, 0), 0, &mut released);
        }
        for (at, waiting) in expected {
            other.release(us(at), 0, &mut released);
            let state = other.queue_state(us(at)).expect("it is observed");
            assert_eq!(state.packets, waiting, "at {at} us");
        }
    }

    #[test]
    fn time_spent_transmitting_is_counted_at_the_rate_of_each_packet() {
        let changes = [change(us(1_500), 4_000_000, None)];
        let changes: Vec<&LinkChange> = changes.iter().collect();
        let mut link = Link::new(&plan(None), &changes, 1, WATCHED);
        let looks = [
            (0, [(0, 0), (700, 700)]),
            (1_000, [(1_700, 1_700), (9_000, 2_000)]),
            (10_000, [(11_000, 3_000), (20_000, 4_000)]),
        ];
        for (comes_at, looks) in looks {
            link.enqueue(us(comes_at), &mut Packet::of_bytes(0, 1000), &mut Vec::new());
            for (at, busy) in looks {
                link.drain(us(at));
                assert_eq!(link.busy_until(us(at)), Span::from_us(busy), "at {at} us");
            }
        }
    }
}
