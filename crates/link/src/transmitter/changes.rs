//! Links whose rate or delay varies, or that are down at times.
//!
//! A link may change at given times. A packet is then transmitted completely at the rate that holds
//! when its transmission starts; packets behind it, in the queue or in the ring, get the rate of
//! their own start. If the link goes down, the transmission ends there, and the packet is lost; the
//! others wait until the link is up. Or a link sends at [listed moments](super::opportunities). All
//! this is known before the run, so the end of each transmission still follows from the one before.
//! Such a link therefore stays in clock mode and needs no event for a change.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Pace, Rate, Span, Time};

use super::opportunities::Opportunities;
use crate::{Change, Config, LinkState};

/// How a link varies over time.
#[derive(Debug)]
pub(super) enum Changes {
    /// Changes in order of time, one for each moment; the first is the link's initial state.
    Steps(Box<[Step]>),
    /// Bytes leave at listed moments, at this pace on average.
    Listed(Opportunities, Pace, Span),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    from: Time,
    pace: Pace,
    delay: Span,
    state: LinkState,
}

/// The transmission of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) starts_at: Time,
    /// When it ends.
    pub(super) ends_at: Time,
    /// How long it keeps the link busy; an average if bytes leave at listed moments.
    pub(super) busy: Span,
    /// The propagation delay that follows.
    pub(super) delay: Span,
    /// Whether the link goes down before the whole frame is sent, and the packet is lost.
    pub(super) is_cut: bool,
}

impl Changes {
    /// Returns `None` if nothing changes. Of two changes at the same time, the later in the list
    /// counts.
    pub(super) fn new(config: &Config, changes: &[Change]) -> Option<Self> {
        if let Some(ms) = &config.opportunities_ms {
            return Some(Self::Listed(Opportunities::new(ms), config.rate.pace(), config.delay));
        }
        if changes.is_empty() {
            return None;
        }
        let mut changes: Vec<&Change> = changes.iter().collect();
        changes.sort_by_key(|change| change.at);
        let (pace, delay, state) = (config.rate.pace(), config.delay, LinkState::Up);
        let mut step = Step { from: Time::ZERO, pace, delay, state };
        let mut steps = vec![step];
        for change in changes {
            if change.at == step.from {
                steps.pop();
            }
            step = Step {
                from: change.at,
                pace: change.rate.map_or(step.pace, Rate::pace),
                delay: change.delay.unwrap_or(step.delay),
                state: change.state.unwrap_or(step.state),
            };
            steps.push(step);
        }
        Some(Self::Steps(steps.into()))
    }

    /// Returns when a transmission starts if it may start from `at` on; `Time::MAX` if the link
    /// stays down. A packet waits in the queue until then.
    #[inline]
    pub(super) fn start(&self, at: Time) -> Time {
        match self {
            Self::Steps(steps) => {
                let (now, later) = split(steps, at);
                match now.state {
                    LinkState::Up => at,
                    LinkState::Down => first(later, LinkState::Up),
                }
            }
            Self::Listed(opportunities, ..) => opportunities.start(at),
        }
    }

    /// Returns the transmission of a frame that may start at `at`, after what is sent before it.
    #[inline]
    pub(super) fn send(&self, at: Time, framed: u32) -> Sent {
        match self {
            Self::Steps(steps) => {
                // Packets in the ring may start no earlier than those in the queue.
                let starts_at = self.start(at);
                let (now, later) = split(steps, starts_at);
                let sent = Sent::at(now.pace, now.delay, starts_at, framed);
                let down_at = first(later, LinkState::Down);
                if down_at >= sent.ends_at {
                    return sent;
                }
                Sent { ends_at: down_at, busy: down_at.since(starts_at), is_cut: true, ..sent }
            }
            Self::Listed(opportunities, pace, delay) => Sent {
                starts_at: at,
                ends_at: opportunities.end(at, framed.max(1)),
                busy: pace.time_for_frame(framed),
                delay: *delay,
                is_cut: false,
            },
        }
    }
}

/// Returns the step that holds at `at`, and those after it.
#[inline]
fn split(steps: &[Step], at: Time) -> (Step, &[Step]) {
    // The first step holds from time zero on.
    let (past, later) = steps.split_at(steps.partition_point(|step| step.from <= at));
    (past[past.len() - 1], later)
}

/// Returns when the first of these steps with `state` begins; `Time::MAX`: there is none.
#[inline]
fn first(steps: &[Step], state: LinkState) -> Time {
    steps.iter().find(|step| step.state == state).map_or(Time::MAX, |step| step.from)
}

impl Sent {
    /// Returns the transmission of a frame at a constant pace.
    #[inline]
    pub(super) fn at(pace: Pace, delay: Span, starts_at: Time, framed: u32) -> Self {
        let busy = pace.time_for_frame(framed);
        Self { starts_at, ends_at: starts_at + busy, busy, delay, is_cut: false }
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::AnyQdisc;
    use narrows_qdisc::fifo::{Pfifo, PfifoConfig};

    use super::super::{Looks, Mode, Passage, Released, Seen, Transmitter};
    use super::*;
    use crate::Ring;
    use crate::transmitter::packet::TestPacket;

    const WATCHED: Looks = Looks { observed: true, at_head: false };

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// A link that sends 1000 bytes in a millisecond and has a delay of 10 ms.
    fn config(ring: Option<Ring>) -> Config {
        Config { rate: rate(8_000_000), delay: Span::from_ms(10), ring, ..Config::default() }
    }

    fn link(config: &Config, changes: &[Change]) -> Transmitter<TestPacket> {
        Transmitter::new(config, changes, 1, "access", WATCHED)
    }

    fn rate(bps: u64) -> Rate {
        Rate::from_bps(bps).expect("not zero")
    }

    fn change(at: Time, bps: u64, delay: Option<Span>) -> Change {
        Change { at, rate: Some(rate(bps)), delay, ..Change::default() }
    }

    fn turn(at: Time, state: LinkState) -> Change {
        Change { state: Some(state), ..change(at, 8_000_000, None) }
    }

    /// Returns when packets of 1000 bytes sent at time 0 arrive, in clock mode. Checks that
    /// scheduled mode agrees.
    fn arrivals(changes: &[Change], ring: Option<Ring>, packets: usize) -> Vec<Time> {
        let arrivals = outcomes(changes, ring, packets).into_iter();
        arrivals.map(|arrival| arrival.expect("nothing is lost")).collect()
    }

    /// Returns what [`arrivals`] does; `None`: the wire loses the packet.
    fn outcomes(changes: &[Change], ring: Option<Ring>, packets: usize) -> Vec<Option<Time>> {
        let mut config = config(ring);
        let mut clocked = link(&config, changes);
        let packet = TestPacket::of_bytes(1000);
        let outcome = |passage| match passage {
            Passage::Arrives(at) => Some(at),
            Passage::Lost => None,
            Passage::Dropped(_) => panic!("there is room"),
        };
        let times: Vec<_> = (0..packets)
            .map(|_| {
                outcome(clocked.enqueue(
                    Time::ZERO,
                    &mut packet.clone(),
                    |_| Seen::default(),
                    &mut Vec::new(),
                ))
            })
            .collect();
        config.scheduled = true;
        let mut scheduled = link(&config, changes);
        let mut released = Released::default();
        for _ in 0..packets {
            scheduled.arrive(Time::ZERO, packet, Seen::default(), 0, &mut released);
        }
        scheduled.release(us(1_000_000), 0, &mut released);
        let same: Vec<_> = released.gone.iter().map(|gone| outcome(gone.passage)).collect();
        assert_eq!(times, same);
        times
    }

    #[test]
    fn a_packet_is_sent_to_the_end_at_the_rate_at_which_it_started() {
        let changes = [change(us(2_500), 4_000_000, None), change(us(9_000), 16_000_000, None)];
        for ring in [None, Some(Ring::packets(4)), Some(Ring::bytes(3_000))] {
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

    const RINGS: [Option<Ring>; 3] = [None, Some(Ring::packets(4)), Some(Ring::bytes(3_000))];

    #[test]
    fn a_link_that_goes_down_loses_the_packet_in_transmission_and_the_others_wait() {
        let changes = [turn(us(2_500), LinkState::Down), turn(us(20_000), LinkState::Up)];
        for ring in RINGS {
            let expected = [Some(11_000), Some(12_000), None, Some(31_000), Some(32_000)];
            assert_eq!(outcomes(&changes, ring, 5), expected.map(|at| at.map(us)), "{ring:?}");
        }
    }

    #[test]
    fn a_packet_that_ends_as_the_link_goes_down_arrives_and_one_that_waits_starts_as_it_is_up() {
        // The second change says nothing new, and the rate holds from the moment it is up.
        let changes = [
            turn(us(2_000), LinkState::Down),
            turn(us(3_000), LinkState::Down),
            Change { state: Some(LinkState::Up), ..change(us(4_000), 4_000_000, None) },
        ];
        for ring in RINGS {
            let times = arrivals(&changes, ring, 4);
            assert_eq!(times, [11_000, 12_000, 16_000, 18_000].map(us), "{ring:?}");
        }
    }

    #[test]
    fn a_link_that_is_up_at_the_moment_at_which_it_goes_down_was_never_down() {
        let changes = [turn(us(1_500), LinkState::Down), turn(us(1_500), LinkState::Up)];
        assert_eq!(arrivals(&changes, None, 3), [11_000, 12_000, 13_000].map(us));
        let last_down = [changes[1].clone(), changes[0].clone()];
        assert_eq!(outcomes(&last_down, None, 2), [Some(us(11_000)), None]);
    }

    #[test]
    fn a_link_that_is_down_sends_nothing_and_keeps_what_waits() {
        let changes = [turn(us(2_500), LinkState::Down), turn(us(20_000), LinkState::Up)];
        for (ring, in_ring) in RINGS.into_iter().zip([0, 3, 2]) {
            let mut modes = [false, true].map(|scheduled| {
                let config = Config { scheduled, ..config(ring) };
                link(&config, &changes)
            });
            let [clocked, scheduled] = &mut modes;
            let mut released = Released::default();
            for _ in 0..8 {
                let mut packet = TestPacket::of_bytes(1000);
                scheduled.arrive(Time::ZERO, packet, Seen::default(), 0, &mut released);
                clocked.enqueue(Time::ZERO, &mut packet, |_| Seen::default(), &mut Vec::new());
            }
            for at in [us(2_500), us(10_000), us(19_999)] {
                scheduled.release(at, 0, &mut released);
                for link in [&mut *clocked, &mut *scheduled] {
                    let state = link.queue_state(at).expect("it is observed");
                    // Three have gone, and the ring has refilled until the link went down.
                    assert_eq!(state.packets, 5 - in_ring, "{ring:?} at {at}");
                    assert_eq!(link.busy_until(at), Span::from_us(2_500), "{ring:?} at {at}");
                    let observed = link.observed().expect("it is observed");
                    assert_eq!((observed.sent_packets, observed.lost), (3, 1));
                }
            }
        }
    }

    #[test]
    fn room_in_a_ring_of_bytes_comes_back_at_the_rate_of_the_packet_in_transmission() {
        // The ring takes 2500 bytes, and the link sends at half speed from 1 ms on. Half of the
        // first packet is sent after half a millisecond, half of the second after 1 ms of its 2 ms,
        // and so on.
        let changes = [change(us(1_000), 4_000_000, None)];
        let config = config(Some(Ring::bytes(2_500)));
        let mut clocked = link(&config, &changes);
        let scheduled_config = Config { scheduled: true, ..config };
        let mut scheduled = link(&scheduled_config, &changes);
        let mut released = Released::default();
        for _ in 0..5 {
            let mut packet = TestPacket::of_bytes(1000);
            scheduled.arrive(Time::ZERO, packet, Seen::default(), 0, &mut released);
            clocked.enqueue(Time::ZERO, &mut packet, |_| Seen::default(), &mut Vec::new());
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
        let mut other = link(&scheduled_config, &changes);
        let Mode::Scheduled(_, mode) = &mut other.mode else { panic!("it is scheduled") };
        mode.replace_queue(AnyQdisc::Custom(Box::new(Pfifo::new(PfifoConfig::default()))));
        for _ in 0..5 {
            other.arrive(Time::ZERO, TestPacket::of_bytes(1000), Seen::default(), 0, &mut released);
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
        let mut link = link(&config(None), &changes);
        let looks = [
            (0, [(0, 0), (700, 700)]),
            (1_000, [(1_700, 1_700), (9_000, 2_000)]),
            (10_000, [(11_000, 3_000), (20_000, 4_000)]),
        ];
        for (comes_at, looks) in looks {
            link.enqueue(
                us(comes_at),
                &mut TestPacket::of_bytes(1000),
                |_| Seen::default(),
                &mut Vec::new(),
            );
            for (at, busy) in looks {
                link.drain(us(at));
                assert_eq!(link.busy_until(us(at)), Span::from_us(busy), "at {at} us");
            }
        }
    }
}
