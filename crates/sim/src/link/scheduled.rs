//! Scheduled mode: links whose discipline decides at dequeue. What leaves next, or is dropped
//! instead, is not known before.
//!
//! The discipline holds the packets themselves, as [`QueuedPacket`]. The transmitter, or the ring
//! above it, takes one whenever it has room. An event ([`Event::Departure`](crate::agenda::Event))
//! marks when the next packet is due: one for each packet that finds the link busy, none for a
//! packet that does not. Everything else is as in clock mode ([`super`]): when the ring takes a
//! packet, the order of departures and arrivals at the same time (departures first), and each
//! packet's loss and delay. A discipline that can run in either mode gives the same tables in both;
//! tests compare them (`tests/modes.rs`).
//!
//! - A packet's loss is drawn when it arrives, even if it is dropped later, so it does not depend
//!   on the discipline.
//! - After the last packet the discipline is asked once more and finds nothing, as in the kernel
//!   (`qdisc_run` runs until the driver stops the queue). Idle times start here.
//! - Whether a ring of bytes has room depends on the packet. A FIFO shows its next packet and keeps
//!   it until there is room. Nobody knows the next packet of other disciplines, so they are asked
//!   when there is room for the link's longest frame, as below a class of `htb`. Below a `tbf`,
//!   Linux takes a packet out of them early and puts it aside (`qdisc_peek_dequeued`). CoDel then
//!   judges every packet one departure too early. This link does not do that, and no driver does.
//! - A shaper that returns no packet says when to ask again. It is asked then, and whenever a
//!   packet arrives.

use narrows_apps::stream_seed;
use narrows_qdisc::{AnyQdisc, Dropped, Ecn, Protocol, Qdisc};
use narrows_units::{MaybeTime, Span, Time};

use super::changes::{Changes, Sent};
use super::impairment::Impairment;
use super::observed::{InRing, Observed, QueueState};
use super::ring::{Entry, RingState};
use super::{Link, Mode, Passage};
use crate::packet::{Packet, PacketKind};
use crate::plan::Link as LinkPlan;

/// A packet in a discipline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueuedPacket {
    pub(crate) packet: Packet,
    arrived_at: Time,
    /// The field of [`Framing`](crate::plan::Framing) of the same name.
    queue_overhead: u16,
    /// Whether the wire will lose it.
    lost: bool,
    /// Its ECN field on arrival.
    ecn: Ecn,
    /// The source and the destination port.
    ports: (u16, u16),
}

const _: () = assert!(size_of::<QueuedPacket>() == 48);

impl narrows_qdisc::Packet for QueuedPacket {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.packet.bytes) + u32::from(self.queue_overhead)
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }

    #[inline]
    fn mark(&mut self) {
        self.packet.set_ce();
    }

    #[inline]
    fn flow_hash(&self) -> u64 {
        self.packet.flow_hash()
    }

    #[inline]
    fn protocol(&self) -> Protocol {
        match self.packet.kind() {
            PacketKind::Tcp => Protocol::Tcp,
            PacketKind::Datagram | PacketKind::Fragment => Protocol::Udp,
            PacketKind::TooBig | PacketKind::Arp(_) => Protocol::Other,
        }
    }

    #[inline]
    fn ports(&self) -> (u16, u16) {
        self.ports
    }
}

/// The state that a link has only in this mode.
#[derive(Debug)]
pub(super) struct Scheduled {
    queue: AnyQdisc<QueuedPacket>,
    /// When to ask the queue for a packet; none: when one arrives.
    ask_at: MaybeTime,
    /// Whether `ask_at` comes from a shaper. A packet that arrives may then leave sooner.
    shaped: bool,
    /// When the pending event is due.
    armed: MaybeTime,
    ring: RingState,
    /// The bytes of the link's longest frame.
    longest: u32,
    /// The rate, the delay and the state, if they change.
    changes: Option<Changes>,
    queue_overhead: u16,
    /// Whether the queue has filters, which read ports.
    reads_ports: bool,
    impairment: Option<Impairment>,
    pub(super) observed: Option<Observed>,
}

/// A packet that a link has released or dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) packet: Packet,
    /// Which link.
    pub(crate) link: u32,
    pub(crate) passage: Passage,
    /// When its transmission ends.
    pub(crate) transmitted_at: Time,
}

/// Packets that have gone and are not yet handled, in order of time for each link.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) gone: Vec<Gone>,
    dropped: Dropped<QueuedPacket>,
}

impl Scheduled {
    pub(super) fn new(
        plan: &LinkPlan,
        changes: Option<Changes>,
        seed: u64,
        observed: bool,
    ) -> Self {
        let queue_seed = stream_seed(seed, &format!("{}/queue", plan.name));
        Self {
            queue: plan.queue.build(queue_seed),
            ask_at: MaybeTime::NONE,
            shaped: false,
            armed: MaybeTime::NONE,
            ring: RingState::new(plan.ring, changes.is_some()),
            longest: (u32::from(plan.mtu) + plan.framing.overhead).max(plan.framing.min),
            changes,
            queue_overhead: plan.framing.queue_overhead.try_into().expect("the plan was checked"),
            reads_ports: plan.queue.reads_ports(),
            impairment: Impairment::new(plan, seed),
            observed: observed.then(Observed::default),
        }
    }

    #[cfg(test)]
    pub(super) fn replace_queue(&mut self, queue: AnyQdisc<QueuedPacket>) {
        self.queue = queue;
    }

    pub(super) fn queue_state(&self) -> QueueState {
        QueueState::of(&self.queue)
    }

    /// Counts what has been transmitted by `now`.
    pub(super) fn settle(&mut self, now: Time) {
        if let Some(observed) = &mut self.observed {
            observed.settle(now);
        }
    }

    /// Returns when the next event is needed, unless it is already pending.
    #[inline]
    fn arm(&mut self) -> Option<Time> {
        if self.ask_at >= self.armed {
            return None;
        }
        self.armed = self.ask_at;
        self.ask_at.get()
    }

    /// Reports what a call has dropped.
    #[cold]
    fn report(&mut self, at: Time, link: u32, released: &mut Released) {
        for (waiting, reason) in released.dropped.drain(..) {
            let packet = waiting.packet;
            if let Some(observed) = &mut self.observed {
                observed.dropped[reason as usize] += 1;
                observed.dropped_foreground += u64::from(packet.is_foreground());
                if let Some(delays) = &mut observed.delays {
                    delays.note_dropped(at, waiting.ecn);
                }
            }
            let passage = Passage::Dropped(reason);
            released.gone.push(Gone { packet, link, passage, transmitted_at: at });
        }
    }
}

impl Link {
    /// Returns whether packets have to go to [`Link::arrive`].
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        matches!(self.mode, Mode::Scheduled(_))
    }

    /// Returns whether [`Link::arrive`] needs a packet's ports.
    #[inline]
    pub(crate) fn reads_ports(&self) -> bool {
        matches!(&self.mode, Mode::Scheduled(scheduled) if scheduled.reads_ports)
    }

    /// Takes in a packet at `at`. Packets that leave the queue by then join `released`. Returns
    /// when an event is needed for the next departure, if one is. `index` is this link's; `ports`
    /// are the packet's.
    ///
    /// Calls of this function and of [`Link::release`] must come in order of time.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        at: Time,
        packet: Packet,
        ports: (u16, u16),
        index: u32,
        released: &mut Released,
    ) -> Option<Time> {
        // Packets that leave at the time of an arrival leave before it, as in clock mode.
        self.run(at, index, released);
        let scheduled = self.scheduled();
        let queue_overhead = scheduled.queue_overhead;
        let lost = match &mut scheduled.impairment {
            Some(impairment) => impairment.loses(&packet),
            None => false,
        };
        if let Some(observed) = &mut scheduled.observed {
            observed.arrived_packets += 1;
            observed.arrived_bytes += u64::from(packet.bytes) + u64::from(queue_overhead);
        }
        let ecn = packet.ecn();
        let waiting = QueuedPacket { packet, arrived_at: at, queue_overhead, lost, ecn, ports };
        scheduled.queue.enqueue(at, waiting, &mut released.dropped);
        if !released.dropped.is_empty() {
            scheduled.report(at, index, released);
        }
        if scheduled.ask_at == MaybeTime::NONE || scheduled.shaped {
            self.ask_from(at);
            self.run(at, index, released);
        }
        self.scheduled().arm()
    }

    /// Handles the pending event: releases what is due. Returns when the next event is needed.
    #[inline]
    pub(crate) fn release(
        &mut self,
        now: Time,
        index: u32,
        released: &mut Released,
    ) -> Option<Time> {
        let scheduled = self.scheduled();
        if scheduled.armed.is(now) {
            scheduled.armed = MaybeTime::NONE;
        }
        self.run(now, index, released);
        self.scheduled().arm()
    }

    /// Returns the discipline, if the link is in this mode.
    #[inline]
    pub(crate) fn scheduled_queue(&self) -> Option<&AnyQdisc<QueuedPacket>> {
        match &self.mode {
            Mode::Scheduled(scheduled) => Some(&scheduled.queue),
            Mode::Short(_) | Mode::Clock(_) => None,
        }
    }

    fn scheduled(&mut self) -> &mut Scheduled {
        match &mut self.mode {
            Mode::Scheduled(scheduled) => scheduled,
            Mode::Short(_) | Mode::Clock(_) => unreachable!("the caller looked at the mode"),
        }
    }

    /// Takes packets out of the queue as long as one is due by `until`.
    #[inline]
    fn run(&mut self, until: Time, index: u32, released: &mut Released) {
        while let Some(ask_at) = self.scheduled().ask_at.by(until) {
            self.pull(ask_at, index, released);
        }
    }

    /// Asks the queue for a packet at `at`, when there is room for it, and transmits it.
    #[inline]
    fn pull(&mut self, at: Time, index: u32, released: &mut Released) {
        let scheduled = self.scheduled();
        let waiting = scheduled.queue.dequeue(at, &mut released.dropped);
        if !released.dropped.is_empty() {
            scheduled.report(at, index, released);
        }
        let Some(waiting) = waiting else {
            scheduled.wait_for_shaper(at);
            return;
        };
        self.transmit(at, waiting, index, released);
        self.ask_from(at);
    }

    /// Sends a packet to the ring at `at`.
    #[inline]
    fn transmit(&mut self, at: Time, waiting: QueuedPacket, index: u32, released: &mut Released) {
        let QueuedPacket { packet, arrived_at, lost, ecn, .. } = waiting;
        let framed = self.framed(packet.bytes);
        let free_at = self.free_at.max(at);
        let (pace, delay) = (self.pace, self.delay);
        let sent = match &self.scheduled().changes {
            Some(changes) => changes.send(free_at, framed),
            None => Sent::at(pace, delay, free_at, framed),
        };
        let Sent { starts_at, ends_at, busy: span, delay, is_cut } = sent;
        let lost = lost || is_cut;
        self.free_at = ends_at;
        let scheduled = self.scheduled();
        scheduled.ring.transmit(Entry { leaves_at: at, starts_at, ends_at, framed });
        if let Some(observed) = &mut scheduled.observed {
            observed.settle(at);
            observed.enter_ring(InRing { ends_at, span, framed, lost }, at);
            let sojourn_us = ends_at.since(arrived_at).as_us();
            observed.sojourn.add(u32::try_from(sojourn_us).unwrap_or(u32::MAX));
            if let Some(delays) = &mut observed.delays {
                delays.note_sent(starts_at, starts_at.since(arrived_at), ecn, packet.ecn());
            }
        }
        let passage = if lost {
            Passage::Lost
        } else {
            Passage::Arrives(match &mut scheduled.impairment {
                Some(impairment) => impairment.arrival(ends_at, delay, &packet),
                None => ends_at + delay,
            })
        };
        released.gone.push(Gone { packet, link: index, passage, transmitted_at: ends_at });
    }

    /// Determines when to ask the queue next, from `at` on.
    #[inline]
    fn ask_from(&mut self, at: Time) {
        let (free_at, pace) = (self.free_at, self.pace);
        let scheduled = self.scheduled();
        scheduled.shaped = false;
        if scheduled.queue.backlog().packets == 0 {
            // The card asks again and finds nothing: RED's idle time starts here, or goes on.
            scheduled.queue.dequeue(at, &mut Vec::new());
            scheduled.ask_at = MaybeTime::NONE;
        } else if scheduled.ring.counts_bytes() {
            let head = scheduled.queue.head().map(|waiting| waiting.packet.bytes);
            let framed = head.map_or(scheduled.longest, |ip_bytes| self.framed(ip_bytes));
            let ask_at = self.scheduled().ring.room_at(framed, free_at, pace).max(at);
            self.scheduled().ask_when_up(ask_at);
        } else {
            let ask_at = scheduled.ring.room_at(0, free_at, pace).max(at);
            scheduled.ask_when_up(ask_at);
        }
    }
}

impl Scheduled {
    /// Lets the queue be asked at `at`, or later if nothing may leave it then.
    #[inline]
    fn ask_when_up(&mut self, at: Time) {
        self.ask_at = self.changes.as_ref().map_or(at, |changes| changes.start(at)).into();
    }

    /// Determines when to ask again after the queue has returned nothing at `at`: it is empty, or a
    /// shaper holds its packets back.
    #[cold]
    fn wait_for_shaper(&mut self, at: Time) {
        self.shaped = true;
        // Never ask at the same time again.
        match self.queue.ready_at(at) {
            Some(ready_at) => self.ask_when_up(ready_at.max(at + Span::from_ps(1))),
            None => self.ask_at = MaybeTime::NONE,
        }
    }
}

#[cfg(test)]
mod tests;
