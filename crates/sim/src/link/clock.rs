//! A link whose discipline takes all its decisions at enqueue (FIFO, RED, Blue, PIE): departures are
//! arithmetic.
//!
//! The moment at which a packet leaves the queue follows from the packets before it. So the packet
//! itself goes straight on to the wire's flight list with its time of arrival, and what waits in the
//! discipline is a [`Slot`]: its length and the moment it leaves. Before each decision the slots that
//! have left by then are taken out, so the discipline sees the backlog that it would see on a real
//! link. Disciplines are used as they are, with their own code.

use narrows_qdisc::{AtEnqueue, DropReason, Dropped, Ecn, Qdisc, Verdict, Visit};
use narrows_units::{Pace, Span, Time};

use super::changes::{Changes, Sent};
use super::impairment::Impairment;
use super::observed::{InRing, Observed, QueueState};
use super::ring::RingState;
use super::short::FifoLimit;
use super::{Link, Mode, Passage};
use crate::packet::Packet;
use crate::plan::Link as LinkPlan;
use crate::random::stream_seed;

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

/// What a link of this mode has besides what all have.
#[derive(Debug)]
pub(super) struct Clock {
    queue: AtEnqueue<Slot>,
    /// A FIFO's limit: as long as it is far, nothing depends on what has left meanwhile.
    limit: Option<FifoLimit>,
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
    pub(super) observed: Option<Observed>,
}

impl Link {
    /// Takes a packet in at `at` and says what becomes of it; marks it where the queue does.
    ///
    /// Calls come in order of time.
    pub(crate) fn enqueue(
        &mut self,
        at: Time,
        packet: &mut Packet,
        dropped: &mut Dropped<Slot>,
    ) -> Passage {
        let has_room = match &mut self.mode {
            Mode::Clock(clock) => clock.has_room_anyway(packet.bytes),
            Mode::Short(_) | Mode::Scheduled(_) => true,
        };
        if !has_room {
            self.drain(at);
        }
        let framed = self.framed(packet.bytes);
        let Mode::Clock(clock) = &mut self.mode else {
            // It goes through, or there is no room.
            return match self.pass(at, packet.bytes) {
                Some(arrives_at) => Passage::Arrives(arrives_at),
                None => Passage::Dropped(DropReason::Overflow),
            };
        };
        let (leaves_at, ring_undo) = clock.ring.admit(at, framed, self.free_at, self.pace);
        let leaves_at = clock.changes.as_ref().map_or(leaves_at, |it| it.start(leaves_at));
        let starts_at = leaves_at.max(self.free_at);
        let Sent { ends_at, delay, .. } = match &clock.changes {
            Some(changes) => changes.send(starts_at, framed),
            None => Sent::at(self.pace, self.delay, starts_at, framed),
        };
        let capable = packet.ecn().is_capable();
        let lost = match &mut clock.impairment {
            Some(impairment) => impairment.loses(packet),
            None => false,
        };
        let counted = u32::from(packet.bytes) + clock.queue_overhead;
        let slot = Slot {
            leaves_at,
            sojourn_us: match &clock.observed {
                Some(_) => u32::try_from(ends_at.since(at).as_us()).unwrap_or(u32::MAX),
                None => 0,
            },
            packed: counted | if capable { MARKABLE } else { 0 } | if lost { LOST } else { 0 },
        };
        let verdict = clock.queue.enqueue(at, slot, dropped);
        if let Some(observed) = &mut clock.observed {
            observed.arrived_packets += 1;
            observed.arrived_bytes += u64::from(counted);
        }
        match verdict {
            Verdict::Dropped => {
                let reason = dropped.pop().expect("a dropped packet is on the list").1;
                clock.ring.undo(ring_undo);
                if let Some(observed) = &mut clock.observed {
                    observed.dropped[reason as usize] += 1;
                    observed.dropped_dns += u64::from(packet.is_dns());
                }
                clock.ask_again(at);
                return Passage::Dropped(reason);
            }
            Verdict::Marked => packet.set_ce(),
            Verdict::Queued => {}
        }
        clock.ring.transmit(starts_at, ends_at, framed);
        self.free_at = ends_at;
        if lost {
            return Passage::Lost;
        }
        Passage::Arrives(match &mut clock.impairment {
            Some(impairment) => impairment.arrival(ends_at, delay, packet),
            None => ends_at + delay,
        })
    }

    /// Takes out of the queue what has left it by `now`.
    #[inline]
    pub(crate) fn drain(&mut self, now: Time) {
        let clock = match &mut self.mode {
            Mode::Short(_) => return,
            Mode::Clock(clock) => clock,
            Mode::Scheduled(scheduled) => return scheduled.settle(now),
        };
        let Clock { queue, queue_overhead, observed, changes, undrained, .. } = &mut **clock;
        *undrained = 0;
        let context = Drain {
            now,
            pace: self.pace,
            changes: changes.as_ref(),
            // From the length that the queue counts to the length on the wire.
            overhead: i64::from(self.overhead) - i64::from(*queue_overhead),
            min_frame: self.min_frame,
            observed: observed.as_mut(),
        };
        queue.visit(context);
    }
}

impl Clock {
    pub(super) fn new(
        plan: &LinkPlan,
        changes: Option<Changes>,
        seed: u64,
        observed: bool,
    ) -> Self {
        let queue_seed = stream_seed(seed, &format!("{}/queue", plan.name));
        let queue = plan.queue.build_at_enqueue(queue_seed);
        let queue = queue.expect("a queue that is not clocked is scheduled");
        Self {
            queue,
            limit: FifoLimit::new(&plan.queue),
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
            AtEnqueue::Pfifo(queue) => queue.backlog(),
            AtEnqueue::Bfifo(queue) => queue.backlog(),
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
        self.queue.visit(AskAgain(at));
    }

    /// The queue as it is after [`Link::drain`].
    pub(super) fn queue_state(&self) -> QueueState {
        let (backlog, counters) = (self.queue.backlog(), self.queue.counters());
        QueueState {
            packets: backlog.packets,
            bytes: backlog.bytes.get(),
            average: self.queue.average_queue().unwrap_or(f64::NAN),
            marked_early: counters.marked_early,
            marked_forced: counters.marked_forced,
        }
    }
}

/// The loop that takes departed slots out of a queue.
struct Drain<'a> {
    now: Time,
    pace: Pace,
    changes: Option<&'a Changes>,
    overhead: i64,
    min_frame: u16,
    observed: Option<&'a mut Observed>,
}

impl Visit<Slot> for Drain<'_> {
    #[inline]
    fn visit<Q: Qdisc<Slot>>(mut self, queue: &mut Q, notices_idleness: bool) {
        if let Some(observed) = &mut self.observed {
            observed.settle(self.now);
        }
        while let Some(leaves_at) = queue.head().map(|slot| slot.leaves_at)
            && leaves_at <= self.now
        {
            let slot = queue.dequeue(leaves_at, &mut Vec::new());
            if let (Some(slot), Some(observed)) = (slot, self.observed.as_deref_mut()) {
                let counted = i64::from(narrows_qdisc::Packet::bytes(&slot));
                let framed = ((counted + self.overhead) as u32).max(u32::from(self.min_frame));
                let starts_at = observed.ring_free_at.max(leaves_at);
                let Sent { ends_at, busy: span, .. } = match self.changes {
                    Some(changes) => changes.send(starts_at, framed),
                    None => Sent::at(self.pace, Span::ZERO, starts_at, framed),
                };
                observed.ring_free_at = ends_at;
                let packet = InRing { ends_at, span, framed, lost: slot.is_lost() };
                observed.enter_ring(packet, self.now);
                observed.sojourn.add(slot.sojourn_us);
            }
            if notices_idleness && queue.head().is_none() {
                // The card asks again and finds nothing: here RED's idle time starts.
                queue.dequeue(leaves_at, &mut Vec::new());
            }
        }
    }
}

/// Asks an empty queue for a packet.
struct AskAgain(Time);

impl Visit<Slot> for AskAgain {
    #[inline]
    fn visit<Q: Qdisc<Slot>>(self, queue: &mut Q, notices_idleness: bool) {
        if notices_idleness && queue.head().is_none() {
            queue.dequeue(self.0, &mut Vec::new());
        }
    }
}
