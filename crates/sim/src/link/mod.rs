//! A directed link: a queue, the network card's ring below it, a transmitter, and the wire.
//!
//! ```text
//!  enqueue -> [ queue discipline ] -> [ ring ] -> transmitter -> delay, jitter, loss -> arrival
//! ```
//!
//! A link runs in one of three modes. They differ in cost, not in results:
//!
//! - The *short form* ([`short`]): a FIFO that nobody observes, before a wire that only delays.
//!   Most links of most scenarios are of this form, such as the hosts' own links.
//! - *Clock mode* ([`clock`]): a discipline that decides everything at enqueue. Departures are
//!   computed and need no events.
//! - *Scheduled mode* ([`scheduled`]): a discipline that decides at dequeue. There is an event when
//!   the next packet is due.

mod changes;
mod clock;
mod delays;
mod flight;
mod impairment;
mod jitter;
mod observed;
mod opportunities;
mod ring;
mod scheduled;
mod short;

use narrows_qdisc::DropReason;
use narrows_transport::prefetch::{Prefetch, Step};
use narrows_units::{Bytes, MaybeTime, Pace, Rate, Span, Time};

use self::changes::Changes;
use self::clock::Clock;
pub(crate) use self::clock::Slot;
pub(crate) use self::delays::Delays;
use self::flight::Flight;
pub(crate) use self::flight::Flights;
use self::observed::{Observed, QueueState};
pub(crate) use self::opportunities::{HIGHEST_BPS, MOST_IN_A_MS};
use self::scheduled::Scheduled;
pub(crate) use self::scheduled::{Gone, Released};
use self::short::ShortQueue;
use crate::maybe_index::MaybeIndex;
use crate::packet::Packet;
use crate::paths::Next;
use crate::plan::{Link as LinkPlan, LinkChange};

/// One direction of a link. The fields that every packet touches come first and fit a cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link {
    pace: Pace,
    delay: Span,
    /// When the last packet's transmission ends.
    free_at: Time,
    /// The shortest time from the event that sends a packet to the packet's arrival here.
    pub(crate) lookahead: Span,
    /// When the pending event for the first packet of `flight` is due.
    pub(crate) armed: MaybeTime,
    /// How many packets on other links' flight lists have this link as their next hop.
    pub(crate) expected: u32,
    /// The field of [`Framing`](crate::plan::Framing) of the same name.
    overhead: u16,
    min_frame: u16,
    /// The next hop after this link.
    pub(crate) next: Next,
    /// Whether packets come from one place in order and nobody observes the link. Arrivals may then
    /// be handled ahead of time.
    pub(crate) inline: bool,
    /// Whether an MTU or a middlebox at its head may drop packets.
    has_obstacle: bool,
    mode: Mode,
    /// Packets under way to the next hop, by time of arrival.
    flight: Flight,
}

/// What a packet has to pass before it is on the wire.
#[derive(Debug)]
enum Mode {
    Short(Box<ShortQueue>),
    Clock(Box<Clock>),
    Scheduled(Box<Scheduled>),
}

/// Who inspects a link's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    /// A monitor or a capture.
    pub(crate) observed: bool,
    /// An MTU limit or a middlebox at its head.
    pub(crate) obstacle: bool,
}

/// What became of a packet at a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passage {
    /// It will arrive at the other end at this time.
    Arrives(Time),
    /// The queue dropped it, on arrival or later.
    Dropped(DropReason),
    /// The wire will lose it.
    Lost,
}

impl Link {
    /// Creates a link. `changes` are those of this link.
    pub(crate) fn new(plan: &LinkPlan, changes: &[&LinkChange], seed: u64, looks: Looks) -> Self {
        let Looks { observed, obstacle } = looks;
        let changes = Changes::new(plan, changes);
        let framing = plan.framing;
        let octets = |bytes: u32| u16::try_from(bytes).expect("the plan was checked");
        let mode = match ShortQueue::new(plan) {
            Some(queue) if !(observed || obstacle || plan.scheduled) && changes.is_none() => {
                Mode::Short(Box::new(queue))
            }
            _ if plan.scheduled || !plan.queue.decides_at_enqueue() => {
                Mode::Scheduled(Box::new(Scheduled::new(plan, changes, seed, observed)))
            }
            _ => Mode::Clock(Box::new(Clock::new(plan, changes, seed, observed))),
        };
        Self {
            pace: plan.rate.pace(),
            delay: plan.delay,
            free_at: Time::ZERO,
            lookahead: Span::ZERO,
            armed: MaybeTime::NONE,
            expected: 0,
            overhead: octets(framing.overhead),
            min_frame: octets(framing.min),
            next: Next::VARIES,
            inline: false,
            has_obstacle: obstacle,
            mode,
            flight: Flight::EMPTY,
        }
    }

    /// Returns the counters, or `None` if nobody looks.
    #[inline]
    pub(crate) fn observed(&self) -> Option<&Observed> {
        match &self.mode {
            Mode::Short(_) => None,
            Mode::Clock(clock) => clock.observed.as_ref(),
            Mode::Scheduled(scheduled) => scheduled.observed.as_ref(),
        }
    }

    /// Returns the counters, to be changed.
    pub(crate) fn observed_mut(&mut self) -> Option<&mut Observed> {
        match &mut self.mode {
            Mode::Short(_) => None,
            Mode::Clock(clock) => clock.observed.as_mut(),
            Mode::Scheduled(scheduled) => scheduled.observed.as_mut(),
        }
    }

    /// Returns whether an MTU or a middlebox at its head may drop packets.
    #[inline]
    pub(crate) const fn has_obstacle(&self) -> bool {
        self.has_obstacle
    }

    /// Returns whether transmitted packets are captured.
    #[inline]
    pub(crate) fn is_captured(&self) -> bool {
        self.observed().is_some_and(|observed| observed.capture)
    }

    /// Returns when a packet that comes at `at` arrives at the other end, if the link is of the
    /// short form and has room. Otherwise call [`Link::enqueue`].
    ///
    /// Calls must come in order of time.
    #[inline(always)]
    pub(crate) fn pass(&mut self, at: Time, ip_bytes: u16) -> Option<Time> {
        let Mode::Short(queue) = &mut self.mode else { return None };
        // An idle link takes any packet, and none waits there.
        if self.free_at > at && !queue.enqueue(at, self.free_at, ip_bytes) {
            return None;
        }
        let span = self.pace.time_for_frame(self.framed(ip_bytes));
        self.free_at = self.free_at.max(at) + span;
        Some(self.free_at + self.delay)
    }

    /// Returns an IP packet's length on the wire in bytes.
    #[inline]
    fn framed(&self, ip_bytes: u16) -> u32 {
        (u32::from(ip_bytes) + u32::from(self.overhead)).max(u32::from(self.min_frame))
    }

    /// Returns when the transmission of the most recent packet ends.
    pub(crate) fn transmitted_at(&self) -> Time {
        self.free_at
    }

    /// Puts a packet on the flight list. Returns when an event is needed, if one is.
    #[inline(always)]
    pub(crate) fn fly(
        &mut self,
        arrives_at: Time,
        packet: Packet,
        flights: &mut Flights,
    ) -> Option<Time> {
        self.flight.push(arrives_at, packet, flights);
        self.armed.is_after(arrives_at).then(|| {
            self.armed = arrives_at.into();
            arrives_at
        })
    }

    /// Takes the packet that arrives now. Returns it, and when the next event is needed.
    #[inline(always)]
    pub(crate) fn land(&mut self, flights: &mut Flights) -> (Packet, Option<Time>) {
        let (packet, next) = self.flight.pop(flights).expect("an event is pending for a packet");
        self.armed = next.into();
        (packet, next)
    }

    /// Returns the shortest time from a packet's arrival at the queue to its arrival at the other
    /// end, given the highest `rate` and the shortest `delay` that the link ever has.
    pub(crate) fn shortest_passage(
        plan: &LinkPlan,
        (rate, delay): (Rate, Span),
        ip_bytes: u16,
        foreground: bool,
    ) -> Span {
        let framed = (u32::from(ip_bytes) + plan.framing.overhead).max(plan.framing.min);
        let span = rate.time_for(Bytes::from(framed));
        if foreground && plan.dns_exempt {
            return span;
        }
        let deviation = plan.jitter.map_or(Span::ZERO, |jitter| jitter::largest_lead(&jitter));
        span + delay.saturating_sub(deviation)
    }

    /// Returns whether packets may leave in a different order from the one in which they came.
    pub(crate) fn reorders(plan: &LinkPlan) -> bool {
        plan.dns_exempt || plan.jitter.is_some_and(|jitter| jitter.reorder)
    }

    /// Returns the places on the flight list of the packets that arrive first and last.
    #[inline(always)]
    pub(crate) const fn flight_ends(&self) -> (MaybeIndex, MaybeIndex) {
        self.flight.ends()
    }

    /// Returns the state of the queue at `now`, or `None` if nobody looks.
    pub(crate) fn queue_state(&mut self, now: Time) -> Option<QueueState> {
        self.drain(now);
        match &self.mode {
            Mode::Short(_) => None,
            Mode::Clock(clock) => Some(clock.queue_state()),
            Mode::Scheduled(scheduled) => Some(scheduled.queue_state()),
        }
    }

    /// Returns the time spent transmitting up to `now`; zero if nobody looks.
    pub(crate) fn busy_until(&self, now: Time) -> Span {
        self.observed().map_or(Span::ZERO, |observed| observed.busy_until(now))
    }
}

impl Prefetch for Link {
    #[inline(always)]
    fn prefetch(&self, (): (), step: Step) -> u32 {
        match (step, &self.mode) {
            (Step::First, mode) => {
                self.free_at.as_ps() as u32 ^ u32::from(matches!(mode, Mode::Short(_)))
            }
            (_, Mode::Short(queue)) => queue.prefetch((), step),
            (_, Mode::Clock(_) | Mode::Scheduled(_)) => 0,
        }
    }
}
