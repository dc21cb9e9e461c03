//! Clock mode: links whose discipline decides everything at enqueue (FIFO, RED, Blue, PIE), so that
//! departures are arithmetic.
//!
//! The time at which a packet leaves the queue follows from the packets before it. So the packet
//! itself goes directly to the wire's flight list, with its time of arrival, and the discipline
//! holds a [`Slot`]: the packet's length and the time at which it leaves. Before each decision,
//! slots that have left by then are removed, so the discipline sees the same backlog as on a real
//! link. Disciplines run their own code, unchanged.

use alloc::format;
use alloc::vec::Vec;

use narrows_qdisc::{
    AtEnqueue, Backlog, DropReason, Dropped, Ecn, PacketView, Qdisc, Verdict, Visit, stream_seed,
};
use narrows_units::{Pace, Span, Time};

use super::changes::{Changes, Sent};
use super::delays::NO_CLASS;
use super::impairment::Impairment;
use super::observed::{InRing, Observed, QueueState};
use super::ring::{Entry, RingState};
use super::short::FifoLimit;
use super::{Mode, Passage, Seen, Transmitter};
use crate::transmitter::packet::Packet;
use crate::{Change, Config};

/// A packet's place in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// When it leaves the queue for the ring.
    leaves_at: Time,
    /// The time from its arrival to the end of its transmission, in microseconds (saturating).
    sojourn_us: u32,
    /// The length as the queue counts it, with flags in the upper bits.
    packed: u32,
}

const LENGTH: u32 = (1 << 20) - 1;
const MARKABLE: u32 = 1 << 20;
const LOST: u32 = 1 << 21;

/// How many slots of packets that have left may remain in a FIFO.
const MOST_UNDRAINED: u32 = 64;

impl Slot {
    #[inline]
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

    /// Does nothing: the packet has gone on, and the link marks it there if the verdict says so.
    #[inline]
    fn mark(&mut self) {}
}

/// The state that a link has only in this mode.
#[derive(Debug)]
pub(super) struct Clock {
    queue: AtEnqueue<Slot>,
    /// A FIFO's limit. As long as it is far away, departed slots can stay without changing any
    /// result.
    limit: Option<FifoLimit>,
    /// Packets enqueued since departed slots were last removed.
    undrained: u32,
    /// When the packet at the head of the queue may leave.
    ring: RingState,
    /// The rate, the delay and the state, if they change.
    changes: Option<Changes>,
    /// The field of [`Framing`](crate::Framing) of the same name.
    queue_overhead: u32,
    impairment: Option<Impairment>,
    /// Counters for a monitor or a capture; `None`: nobody looks.
    pub(super) observed: Option<Observed>,
}

impl<P: Packet> Transmitter<P> {
    /// Takes in a packet at `at` and returns what becomes of it. Marks it if the queue does. `seen`
    /// returns what only queues from outside ask about it.
    ///
    /// Calls must come in order of time.
    pub fn enqueue(
        &mut self,
        at: Time,
        packet: &mut P,
        seen: impl FnOnce(&P) -> Seen,
        dropped: &mut Dropped<Slot>,
    ) -> Passage {
        let has_room = match &mut self.mode {
            Mode::Clock(_, clock) => clock.has_room_anyway(packet.bytes()),
            Mode::Short(..) | Mode::Scheduled(..) => true,
        };
        if !has_room {
            self.drain(at);
        }
        let framed = self.framed(packet.bytes());
        let Mode::Clock(_, clock) = &mut self.mode else {
            // A link of the short form lets the packet pass, or has no room for it.
            return match self.pass(at, packet.bytes()) {
                Some(arrives_at) => Passage::Arrives(arrives_at),
                None => Passage::Dropped(DropReason::Overflow),
            };
        };
        let (leaves_at, ring_undo) = clock.ring.admit(at, framed, self.free_at, self.pace);
        let leaves_at = clock.changes.as_ref().map_or(leaves_at, |it| it.start(leaves_at));
        let free_at = leaves_at.max(self.free_at);
        let Sent { starts_at, ends_at, delay, is_cut, .. } = match &clock.changes {
            Some(changes) => changes.send(free_at, framed),
            None => Sent::at(self.pace, self.delay, free_at, framed),
        };
        let ecn = packet.ecn();
        let capable = ecn.is_capable();
        let lost = match &mut clock.impairment {
            Some(impairment) => impairment.loses_from(starts_at, packet) || is_cut,
            None => is_cut,
        };
        let counted = u32::from(packet.bytes()) + clock.queue_overhead;
        let slot = Slot {
            leaves_at,
            sojourn_us: match &clock.observed {
                Some(_) => u32::try_from(ends_at.since(at).as_us()).unwrap_or(u32::MAX),
                None => 0,
            },
            packed: counted | if capable { MARKABLE } else { 0 } | if lost { LOST } else { 0 },
        };
        let view = || view(at, packet, counted, seen(packet));
        let verdict = clock.queue.enqueue_as(at, slot, view, dropped);
        if let Some(observed) = &mut clock.observed {
            observed.arrived_packets += 1;
            observed.arrived_bytes += u64::from(counted);
        }
        match verdict {
            Verdict::Dropped => {
                let reason = dropped.pop().expect("a dropped packet is on the list").1;
                clock.ring.undo(ring_undo);
                if let Some(observed) = &mut clock.observed {
                    observed.note_dropped(at, reason, packet.is_foreground(), ecn, NO_CLASS);
                }
                clock.ask_again(at);
                return Passage::Dropped(reason);
            }
            Verdict::Marked => packet.mark(),
            Verdict::Queued => {}
        }
        if let Some(Observed { delays: Some(delays), .. }) = &mut clock.observed {
            delays.note_sent(starts_at, starts_at.since(at), ecn, packet.ecn(), NO_CLASS);
        }
        clock.ring.transmit(Entry { leaves_at, starts_at, ends_at, framed });
        self.free_at = ends_at;
        let impairment = &mut clock.impairment;
        if let Some(impairment) = impairment {
            impairment.note_sent(packet);
        }
        if lost {
            return Passage::Lost;
        }
        Passage::Arrives(match impairment {
            Some(impairment) => impairment.arrival(ends_at, delay, packet),
            None => ends_at + delay,
        })
    }

    /// Removes the slots that have left the queue by `now`.
    #[inline]
    pub fn drain(&mut self, now: Time) {
        let (lengths, clock) = match &mut self.mode {
            Mode::Short(..) => return,
            Mode::Clock(lengths, clock) => (*lengths, clock),
            Mode::Scheduled(_, scheduled) => return scheduled.settle(now),
        };
        let Clock { queue, queue_overhead, observed, changes, undrained, .. } = &mut **clock;
        *undrained = 0;
        let context = Drain {
            now,
            pace: self.pace,
            changes: changes.as_ref(),
            // The difference between a length on the wire and the length that the queue counts.
            overhead: i64::from(lengths.overhead) - i64::from(*queue_overhead),
            min_frame: lengths.min,
            observed: observed.as_mut(),
        };
        queue.visit(context);
    }
}

/// Returns what a queue from outside sees of a packet that is `counted` bytes long there.
fn view(at: Time, packet: &impl Packet, counted: u32, seen: Seen) -> PacketView {
    PacketView {
        flow: packet.flow_hash(),
        arrived: at,
        bytes: counted,
        hosts: seen.hosts.into(),
        ports: seen.ports.into(),
        ecn: packet.ecn(),
        protocol: packet.protocol(),
        dscp: seen.dscp,
        ..PacketView::default()
    }
}

impl Clock {
    pub(super) fn new(
        config: &Config,
        changes: &[Change],
        seed: u64,
        name: &str,
        observed: bool,
    ) -> Self {
        let impairment = Impairment::new(config, changes, seed, name);
        let changes = Changes::new(config, changes);
        let queue_seed = stream_seed(seed, &format!("{name}/queue"));
        let queue = config.queue.build_at_enqueue(queue_seed);
        let queue = queue.expect("a queue that is not clocked is scheduled");
        Self {
            queue,
            limit: FifoLimit::new(&config.queue),
            undrained: 0,
            ring: RingState::new(config.ring, changes.is_some()),
            changes,
            queue_overhead: config.framing.queue_overhead,
            impairment,
            observed: observed.then(Observed::default),
        }
    }

    /// Returns whether the queue certainly takes a packet, even while it still holds departed
    /// slots.
    ///
    /// These then need not be removed yet: removing many at once costs less than one at a time.
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

    /// Handles a drop at an empty queue: the card asks again and finds nothing, so RED's idle time
    /// goes on.
    fn ask_again(&mut self, at: Time) {
        self.queue.visit(AskAgain(at));
    }

    /// Returns what waits.
    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Returns the state of the queue after [`Transmitter::drain`].
    pub(super) fn queue_state(&self) -> QueueState {
        QueueState::of(&self.queue)
    }
}

/// The loop that removes departed slots from a queue.
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
                let free_at = observed.ring_free_at.max(leaves_at);
                let Sent { ends_at, busy: span, .. } = match self.changes {
                    Some(changes) => changes.send(free_at, framed),
                    None => Sent::at(self.pace, Span::ZERO, free_at, framed),
                };
                observed.ring_free_at = ends_at;
                let packet = InRing { ends_at, span, framed, lost: slot.is_lost() };
                observed.enter_ring(packet, self.now);
                observed.sojourn.add(slot.sojourn_us);
            }
            if notices_idleness && queue.head().is_none() {
                // The card asks again and finds nothing, so RED's idle time starts here.
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
