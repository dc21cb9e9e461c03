//! A directed link: a queue, the network card's ring below it, a transmitter, and the wire.
//!
//! ```text
//!  enqueue -> [ queue discipline ] -> [ ring ] -> transmitter -> delay, jitter, loss -> arrival
//! ```
//!
//! A discipline that takes all its decisions at enqueue (FIFO, RED) needs no event for a
//! departure: the moment at which a packet leaves the queue follows from the packets before it.
//! So the packet itself goes straight on to the wire's flight list with its time of arrival, and
//! what waits in the discipline is a [`Slot`]: its length and the moment it leaves. Before each
//! decision the slots that have left by then are taken out, so the discipline sees the backlog
//! that it would see on a real link. Disciplines are used as they are, with their own code; only
//! FIFOs at which nobody looks, before a wire that does nothing but delay, have a short form
//! ([`simple`]). That is *clock mode*. Disciplines that decide at dequeue have a mode of their own
//! ([`scheduled`]).

mod changes;
mod flight;
mod jitter;
mod ring;
mod scheduled;
mod simple;

use std::collections::VecDeque;
use std::hint::black_box;

use narrows_qdisc::{
    DropReason, Dropped, Ecn, Qdisc, Verdict,
    blue::Blue,
    fifo::{Bfifo, Pfifo},
    pie::Pie,
    red,
};
use narrows_units::{Bytes, Pace, Rate, Span, Time};

use self::changes::Changes;
use self::flight::Flight;
pub(crate) use self::flight::Flights;
use self::jitter::JitterState;
use self::ring::RingState;
use self::scheduled::Scheduled;
pub(crate) use self::scheduled::{Fate, Gone, Released};
use self::simple::{Limit, Waiting};
use crate::packet::Packet;
use crate::paths::VARIES;
use crate::plan::{Link as LinkPlan, LinkChange, Queue as QueuePlan};
use crate::random::{Random, stream_seed};

/// A packet's place in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// When it leaves the queue for the ring.
    leaves_at: Time,
    /// From its arrival to the end of its transmission, in microseconds (saturating).
    sojourn_us: u32,
    /// Length as the queue counts it, and flags above.
    packed: u32,
}

const LENGTH: u32 = (1 << 20) - 1;
const MARKABLE: u32 = 1 << 20;
const LOST: u32 = 1 << 21;

/// So many slots of packets that have left may lie in a FIFO.
const MOST_UNDRAINED: u32 = 64;

impl Slot {
    fn is_lost(&self) -> bool {
        self.packed & LOST != 0
    }
}

impl narrows_qdisc::Packet for Slot {
    #[inline]
    fn bytes(&self) -> u32 {
        self.packed & LENGTH
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        if self.packed & MARKABLE != 0 { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// The packet has gone on; the verdict tells the link to mark it there.
    #[inline]
    fn mark(&mut self) {}
}

/// The queue disciplines that decide at enqueue.
#[derive(Debug)]
enum Queue {
    Pfifo(Pfifo<Slot>),
    Bfifo(Bfifo<Slot>),
    Red(Box<red::linux::Red<Slot>>),
    Red1993(Box<red::classic::Red<Slot>>),
    Pie(Box<Pie<Slot>>),
    Blue(Box<Blue<Slot>>),
}

/// One direction of a link. What every packet touches comes first and fits a cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link {
    pace: Pace,
    delay: Span,
    /// The last packet's transmission ends here.
    free_at: Time,
    /// No packet gets here sooner after the event that sends it.
    pub(crate) lookahead: Span,
    /// When the pending event for the first packet of `flight` is due; `Time::MAX`: there is none.
    pub(crate) armed: Time,
    /// Packets of other links' flight lists that this link's queue comes next for.
    pub(crate) expected: u32,
    /// [`Framing`](crate::plan::Framing)'s.
    overhead: u16,
    min_frame: u16,
    /// What follows on every path over this link, or [`VARIES`].
    pub(crate) next: u32,
    /// Packets come from one place in order, and nobody looks: arrivals may be handled ahead.
    pub(crate) inline: bool,
    entry: Entry,
    /// Packets under way, by time of arrival, each on its way to what follows this link.
    flight: Flight,
}

/// What a packet has to pass before it is on the wire.
#[derive(Debug)]
enum Entry {
    /// A FIFO that takes any packet when it is empty, and nothing else.
    Simple(Box<Waiting>),
    Full(Box<Full>),
    /// A discipline that decides at dequeue.
    Scheduled(Box<Scheduled>),
}

/// Everything that a link can have.
#[derive(Debug)]
struct Full {
    queue: Queue,
    /// A FIFO's limit: as long as it is far, nothing depends on what has left meanwhile.
    limit: Option<Limit>,
    /// Packets enqueued since what has left was last taken out.
    undrained: u32,
    /// When the packet in front of the queue may leave.
    ring: RingState,
    /// Rate and delay, where they change.
    changes: Option<Changes>,
    /// [`Framing`](crate::plan::Framing)'s.
    queue_overhead: u32,
    impairment: Option<Impairment>,
    /// What a monitor or a capture wants to know; `None` where nobody looks.
    observed: Option<Observed>,
}

/// Delay variation and loss.
#[derive(Debug)]
struct Impairment {
    loss: f64,
    random: Random,
    jitter: Option<JitterState>,
    dns_exempt: bool,
}

/// What became of a packet at a link.
pub(crate) enum Passage {
    /// It will arrive at the other end.
    Arrives(Time),
    /// The queue dropped it.
    Dropped(DropReason),
    /// The wire loses it.
    Lost,
}

/// Counters and occupancy of a link that somebody looks at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    in_ring: VecDeque<InRing>,
    ring_bytes: u64,
    ring_free_at: Time,
    pub(crate) arrived_packets: u64,
    pub(crate) arrived_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) busy: Span,
    pub(crate) lost: u64,
    pub(crate) dropped: [u64; DropReason::ALL.len()],
    pub(crate) dropped_dns: u64,
    pub(crate) sojourn: SojournSum,
    /// Keep a copy of each packet that is transmitted.
    pub(crate) capture: bool,
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
struct InRing {
    ends_at: Time,
    /// Time that its transmission takes.
    span: Span,
    framed: u32,
    /// The wire will lose it.
    lost: bool,
}

/// Sojourn times since the last sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SojournSum {
    packets: u64,
    total_us: u64,
    max_us: u32,
}

impl SojournSum {
    fn add(&mut self, us: u32) {
        self.packets += 1;
        self.total_us += u64::from(us);
        self.max_us = self.max_us.max(us);
    }

    /// Mean in milliseconds; NaN without packets.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.total_us as f64 / self.packets as f64 / 1e3
    }

    /// Maximum in milliseconds; NaN without packets.
    pub(crate) fn max_ms(&self) -> f64 {
        if self.packets == 0 { f64::NAN } else { f64::from(self.max_us) / 1e3 }
    }
}

/// What a queue monitor reads.
pub(crate) struct QueueState {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
    pub(crate) average: f64,
    pub(crate) marked_early: u64,
    pub(crate) marked_forced: u64,
}

impl Link {
    /// `changes`: those of this link. `observed`: somebody looks at it.
    pub(crate) fn new(plan: &LinkPlan, changes: &[&LinkChange], seed: u64, observed: bool) -> Self {
        let changes = Changes::new(plan, changes);
        let framing = plan.framing;
        let octets = |bytes: u32| u16::try_from(bytes).expect("the plan was checked");
        let entry = match Waiting::new(plan) {
            Some(waiting) if !(observed || plan.scheduled) && changes.is_none() => {
                Entry::Simple(Box::new(waiting))
            }
            _ if plan.scheduled || !plan.queue.decides_at_enqueue() => {
                Entry::Scheduled(Box::new(Scheduled::new(plan, changes, seed, observed)))
            }
            _ => Entry::Full(Box::new(Full::new(plan, changes, seed, observed))),
        };
        Self {
            pace: plan.rate.pace(),
            delay: plan.delay,
            free_at: Time::ZERO,
            lookahead: Span::ZERO,
            armed: Time::MAX,
            expected: 0,
            overhead: octets(framing.overhead),
            min_frame: octets(framing.min),
            next: VARIES,
            inline: false,
            entry,
            flight: Flight::EMPTY,
        }
    }

    /// What was counted; `None` where nobody looks.
    #[inline]
    pub(crate) fn observed(&self) -> Option<&Observed> {
        match &self.entry {
            Entry::Simple(_) => None,
            Entry::Full(full) => full.observed.as_ref(),
            Entry::Scheduled(scheduled) => scheduled.observed.as_ref(),
        }
    }

    /// What was counted, to be changed.
    pub(crate) fn observed_mut(&mut self) -> Option<&mut Observed> {
        match &mut self.entry {
            Entry::Simple(_) => None,
            Entry::Full(full) => full.observed.as_mut(),
            Entry::Scheduled(scheduled) => scheduled.observed.as_mut(),
        }
    }

    /// Whether packets that are transmitted are to be captured.
    #[inline]
    pub(crate) fn is_captured(&self) -> bool {
        self.observed().is_some_and(|observed| observed.capture)
    }

    /// When a packet that comes at `at` arrives at the other end, if the link is a simple one and
    /// has room; if not, ask [`Link::enqueue`].
    ///
    /// Calls come in order of time.
    #[inline(always)]
    pub(crate) fn pass(&mut self, at: Time, ip_bytes: u16) -> Option<Time> {
        let Entry::Simple(waiting) = &mut self.entry else { return None };
        // A link that is idle takes any packet, and nothing waits there.
        if self.free_at > at && !waiting.enqueue(at, self.free_at, ip_bytes) {
            return None;
        }
        let span = self.pace.time_for_frame(self.framed(ip_bytes));
        self.free_at = self.free_at.max(at) + span;
        Some(self.free_at + self.delay)
    }

    /// Takes a packet in at `at` and says what becomes of it; marks it where the queue does.
    ///
    /// Calls come in order of time.
    pub(crate) fn enqueue(
        &mut self,
        at: Time,
        packet: &mut Packet,
        dropped: &mut Dropped<Slot>,
    ) -> Passage {
        let has_room = match &mut self.entry {
            Entry::Full(full) => full.has_room_anyway(packet.bytes),
            Entry::Simple(_) | Entry::Scheduled(_) => true,
        };
        if !has_room {
            self.drain(at);
        }
        let framed = self.framed(packet.bytes);
        let Entry::Full(full) = &mut self.entry else {
            // It goes through, or there is no room.
            return match self.pass(at, packet.bytes) {
                Some(arrives_at) => Passage::Arrives(arrives_at),
                None => Passage::Dropped(DropReason::Overflow),
            };
        };
        let (leaves_at, ring_undo) = full.ring.admit(at, framed, self.free_at, self.pace);
        let starts_at = leaves_at.max(self.free_at);
        let (pace, delay) = match &full.changes {
            Some(changes) => changes.at(starts_at),
            None => (self.pace, self.delay),
        };
        let ends_at = starts_at + pace.time_for_frame(framed);
        let capable = packet.ecn().is_capable();
        let lost = match &mut full.impairment {
            Some(impairment) => impairment.loses(packet),
            None => false,
        };
        let counted = u32::from(packet.bytes) + full.queue_overhead;
        let slot = Slot {
            leaves_at,
            sojourn_us: match &full.observed {
                Some(_) => u32::try_from(ends_at.since(at).as_us()).unwrap_or(u32::MAX),
                None => 0,
            },
            packed: counted | if capable { MARKABLE } else { 0 } | if lost { LOST } else { 0 },
        };
        let verdict = match &mut full.queue {
            Queue::Pfifo(queue) => queue.enqueue(at, slot, dropped),
            Queue::Bfifo(queue) => queue.enqueue(at, slot, dropped),
            Queue::Red(queue) => queue.enqueue(at, slot, dropped),
            Queue::Red1993(queue) => queue.enqueue(at, slot, dropped),
            Queue::Pie(queue) => queue.enqueue(at, slot, dropped),
            Queue::Blue(queue) => queue.enqueue(at, slot, dropped),
        };
        if let Some(observed) = &mut full.observed {
            observed.arrived_packets += 1;
            observed.arrived_bytes += u64::from(counted);
        }
        match verdict {
            Verdict::Dropped => {
                let reason = dropped.pop().expect("a dropped packet is on the list").1;
                full.ring.undo(ring_undo);
                if let Some(observed) = &mut full.observed {
                    observed.dropped[reason as usize] += 1;
                    observed.dropped_dns += u64::from(packet.is_dns());
                }
                full.ask_again(at);
                return Passage::Dropped(reason);
            }
            Verdict::Marked => packet.set_ce(),
            Verdict::Queued => {}
        }
        full.ring.transmit(starts_at, ends_at, framed);
        self.free_at = ends_at;
        if lost {
            return Passage::Lost;
        }
        Passage::Arrives(match &mut full.impairment {
            Some(impairment) => impairment.arrival(ends_at, delay, packet),
            None => ends_at + delay,
        })
    }

    /// Bytes on the wire of an IP packet.
    #[inline]
    fn framed(&self, ip_bytes: u16) -> u32 {
        (u32::from(ip_bytes) + u32::from(self.overhead)).max(u32::from(self.min_frame))
    }

    /// When the transmission of the packet that came last ends.
    pub(crate) fn transmitted_at(&self) -> Time {
        self.free_at
    }

    /// Takes out of the queue what has left it by `now`.
    #[inline]
    pub(crate) fn drain(&mut self, now: Time) {
        let full = match &mut self.entry {
            Entry::Simple(_) => return,
            Entry::Full(full) => full,
            Entry::Scheduled(scheduled) => return scheduled.settle(now),
        };
        let Full { queue, queue_overhead, observed, changes, undrained, .. } = &mut **full;
        *undrained = 0;
        let context = Drain {
            now,
            pace: self.pace,
            changes: changes.as_ref(),
            // From the length that the queue counts to the length on the wire.
            overhead: i64::from(self.overhead) - i64::from(*queue_overhead),
            min_frame: self.min_frame,
            has_idle_time: !matches!(queue, Queue::Pfifo(_) | Queue::Bfifo(_) | Queue::Pie(_)),
            observed: observed.as_mut(),
        };
        match queue {
            Queue::Pfifo(queue) => context.run(queue, Pfifo::head),
            Queue::Bfifo(queue) => context.run(queue, Bfifo::head),
            Queue::Red(queue) => context.run(&mut **queue, red::linux::Red::head),
            Queue::Red1993(queue) => context.run(&mut **queue, red::classic::Red::head),
            Queue::Pie(queue) => context.run(&mut **queue, Pie::head),
            Queue::Blue(queue) => context.run(&mut **queue, Blue::head),
        }
    }

    /// Reads what every packet needs of the link, but the flight list; gives the places of the first
    /// and the last packet on that.
    #[inline(always)]
    pub(crate) fn touch(&self) -> (u32, u32) {
        black_box((self.free_at, matches!(self.entry, Entry::Simple(_))));
        self.flight.ends()
    }

    /// Reads what a packet needs that the link takes in, beyond [`touch`](Self::touch).
    #[inline(always)]
    pub(crate) fn touch_further(&self, flights: &Flights) {
        black_box(flights.touch(self.flight.ends().1));
        if let Entry::Simple(waiting) = &self.entry {
            black_box(waiting.touch());
        }
    }

    /// Puts a packet on the flight list. Says when an event is needed, if one is.
    #[inline(always)]
    pub(crate) fn fly(
        &mut self,
        arrives_at: Time,
        packet: Packet,
        flights: &mut Flights,
    ) -> Option<Time> {
        self.flight.push(arrives_at, packet, flights);
        (arrives_at < self.armed).then(|| {
            self.armed = arrives_at;
            arrives_at
        })
    }

    /// Takes the packet that arrives now; gives it and when the next event is needed.
    #[inline(always)]
    pub(crate) fn land(&mut self, flights: &mut Flights) -> (Packet, Option<Time>) {
        let (packet, next) = self.flight.pop(flights).expect("an event is pending for a packet");
        self.armed = next.unwrap_or(Time::MAX);
        (packet, next)
    }

    /// Shortest time from a packet's arrival at the queue to its arrival at the other end, with
    /// the highest `rate` and the shortest `delay` that the link ever has.
    pub(crate) fn shortest_passage(
        plan: &LinkPlan,
        (rate, delay): (Rate, Span),
        ip_bytes: u16,
        dns: bool,
    ) -> Span {
        let framed = (u32::from(ip_bytes) + plan.framing.overhead).max(plan.framing.min);
        let span = rate.time_for(Bytes::from(framed));
        if dns && plan.dns_exempt {
            return span;
        }
        let deviation = plan.jitter.map_or(Span::ZERO, |jitter| jitter::largest_lead(&jitter));
        span + delay.saturating_sub(deviation)
    }

    /// Whether packets may leave in another order than they came.
    pub(crate) fn reorders(plan: &LinkPlan) -> bool {
        plan.dns_exempt || plan.jitter.is_some_and(|jitter| jitter.reorder)
    }

    /// The queue as it is at `now`; `None` where nobody looks.
    pub(crate) fn queue_state(&mut self, now: Time) -> Option<QueueState> {
        self.drain(now);
        let full = match &self.entry {
            Entry::Simple(_) => return None,
            Entry::Full(full) => full,
            Entry::Scheduled(scheduled) => return Some(scheduled.queue_state()),
        };
        let (backlog, counters, average) = match &full.queue {
            Queue::Pfifo(queue) => (queue.backlog(), queue.counters(), f64::NAN),
            Queue::Bfifo(queue) => (queue.backlog(), queue.counters(), f64::NAN),
            Queue::Red(queue) => (queue.backlog(), queue.counters(), queue.average()),
            Queue::Red1993(queue) => (queue.backlog(), queue.counters(), queue.average()),
            Queue::Pie(queue) => (queue.backlog(), queue.counters(), f64::NAN),
            Queue::Blue(queue) => (queue.backlog(), queue.counters(), f64::NAN),
        };
        Some(QueueState {
            packets: backlog.packets,
            bytes: backlog.bytes.get(),
            average,
            marked_early: counters.marked_early,
            marked_forced: counters.marked_forced,
        })
    }
}

impl Full {
    fn new(plan: &LinkPlan, changes: Option<Changes>, seed: u64, observed: bool) -> Self {
        let queue_seed = stream_seed(seed, &format!("{}/queue", plan.name));
        let queue = match &plan.queue {
            QueuePlan::Pfifo(config) => Queue::Pfifo(Pfifo::new(config.clone())),
            QueuePlan::Bfifo(config) => Queue::Bfifo(Bfifo::new(config.clone())),
            QueuePlan::Red(config) => {
                Queue::Red(Box::new(red::linux::Red::new(config.clone(), queue_seed)))
            }
            QueuePlan::Red1993(config) => {
                Queue::Red1993(Box::new(red::classic::Red::new(config.clone(), queue_seed)))
            }
            QueuePlan::Pie(config) => Queue::Pie(Box::new(Pie::new(config, queue_seed))),
            QueuePlan::Blue(config) => Queue::Blue(Box::new(Blue::new(config.clone(), queue_seed))),
            _ => unreachable!("a queue that is not clocked is scheduled"),
        };
        Self {
            queue,
            limit: Limit::new(&plan.queue),
            undrained: 0,
            ring: RingState::new(plan.ring, changes.is_some()),
            changes,
            queue_overhead: plan.framing.queue_overhead,
            impairment: Impairment::new(plan, seed),
            observed: observed.then(Observed::default),
        }
    }

    /// Whether the queue takes a packet even if it still holds what has left meanwhile.
    ///
    /// Then there is no need to take that out: many at once cost less than one at a time.
    #[inline]
    fn has_room_anyway(&mut self, ip_bytes: u16) -> bool {
        let backlog = match &self.queue {
            Queue::Pfifo(queue) => queue.backlog(),
            Queue::Bfifo(queue) => queue.backlog(),
            _ => return false,
        };
        let counted = u32::from(ip_bytes) + self.queue_overhead;
        self.undrained += 1;
        self.undrained < MOST_UNDRAINED
            && self.limit.is_some_and(|limit| {
                limit.admits(backlog.packets as usize, backlog.bytes.get(), counted)
            })
    }

    /// A drop at an empty queue: the card asks again and finds nothing, so RED's idle time goes on.
    fn ask_again(&mut self, at: Time) {
        match &mut self.queue {
            Queue::Pfifo(_) | Queue::Bfifo(_) | Queue::Pie(_) => {}
            Queue::Red(queue) => {
                if queue.head().is_none() {
                    queue.dequeue(at, &mut Vec::new());
                }
            }
            Queue::Red1993(queue) => {
                if queue.head().is_none() {
                    queue.dequeue(at, &mut Vec::new());
                }
            }
            Queue::Blue(queue) => {
                if queue.head().is_none() {
                    queue.dequeue(at, &mut Vec::new());
                }
            }
        }
    }
}

impl Observed {
    /// Takes out of the ring what has been transmitted by `now`.
    fn settle(&mut self, now: Time) {
        while let Some(&packet) = self.in_ring.front()
            && packet.ends_at <= now
        {
            self.in_ring.pop_front();
            self.ring_bytes -= u64::from(packet.framed);
            self.count_sent(packet);
        }
    }

    /// A packet has left the queue for the ring.
    #[inline]
    fn enter_ring(&mut self, packet: InRing, now: Time) {
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

    /// Packets and bytes in the ring.
    pub(crate) fn ring(&self) -> (u32, u64) {
        (self.in_ring.len() as u32, self.ring_bytes)
    }

    /// Time spent transmitting up to `now`, the packet in transmission included.
    pub(crate) fn busy_until(&self, now: Time) -> Span {
        match self.in_ring.front() {
            Some(first) => self.busy + first.span.saturating_sub(first.ends_at.since(now)),
            None => self.busy,
        }
    }
}

impl Link {
    /// Time spent transmitting up to `now`; zero where nobody looks.
    pub(crate) fn busy_until(&self, now: Time) -> Span {
        self.observed().map_or(Span::ZERO, |observed| observed.busy_until(now))
    }
}

/// The loop that takes departed slots out of a queue.
struct Drain<'a> {
    now: Time,
    pace: Pace,
    changes: Option<&'a Changes>,
    overhead: i64,
    min_frame: u16,
    /// The discipline wants to know since when it is idle.
    has_idle_time: bool,
    observed: Option<&'a mut Observed>,
}

impl Drain<'_> {
    #[inline]
    fn run<Q: Qdisc<Slot>>(mut self, queue: &mut Q, head: impl Fn(&Q) -> Option<&Slot>) {
        if let Some(observed) = &mut self.observed {
            observed.settle(self.now);
        }
        while let Some(leaves_at) = head(queue).map(|slot| slot.leaves_at)
            && leaves_at <= self.now
        {
            let slot = queue.dequeue(leaves_at, &mut Vec::new());
            if let (Some(slot), Some(observed)) = (slot, self.observed.as_deref_mut()) {
                let counted = i64::from(narrows_qdisc::Packet::bytes(&slot));
                let framed = ((counted + self.overhead) as u32).max(u32::from(self.min_frame));
                let starts_at = observed.ring_free_at.max(leaves_at);
                let pace = self.changes.map_or(self.pace, |changes| changes.at(starts_at).0);
                let span = pace.time_for_frame(framed);
                let ends_at = starts_at + span;
                observed.ring_free_at = ends_at;
                let packet = InRing { ends_at, span, framed, lost: slot.is_lost() };
                observed.enter_ring(packet, self.now);
                observed.sojourn.add(slot.sojourn_us);
            }
            if self.has_idle_time && head(queue).is_none() {
                // The card asks again and finds nothing: here RED's idle time starts.
                queue.dequeue(leaves_at, &mut Vec::new());
            }
        }
    }
}

impl Impairment {
    /// `None` where `plan` wants none.
    fn new(plan: &LinkPlan, seed: u64) -> Option<Self> {
        let impaired = plan.loss > 0.0 || plan.jitter.is_some() || plan.dns_exempt;
        impaired.then(|| Self {
            loss: plan.loss,
            random: Random::new(seed, &format!("{}/loss", plan.name)),
            jitter: plan.jitter.map(|jitter| {
                let random = Random::new(seed, &format!("{}/jitter", plan.name));
                JitterState::new(jitter, random)
            }),
            dns_exempt: plan.dns_exempt,
        })
    }

    fn loses(&mut self, packet: &Packet) -> bool {
        self.loss > 0.0
            && !(self.dns_exempt && packet.is_dns())
            && self.random.uniform() < self.loss
    }

    fn arrival(&mut self, ends_at: Time, delay: Span, packet: &Packet) -> Time {
        if self.dns_exempt && packet.is_dns() {
            return ends_at;
        }
        match &mut self.jitter {
            Some(jitter) => jitter.arrival(ends_at, delay),
            None => ends_at + delay,
        }
    }
}
