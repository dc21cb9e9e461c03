//! Scheduled mode: links whose discipline decides at dequeue. What leaves next, or is dropped
//! instead, is not known before.
//!
//! The discipline holds the packets themselves, as [`Waiting`]. The transmitter, or the ring
//! above it, takes one whenever it has room. The caller's event
//! marks when the next packet is due: one for each packet that finds the link busy, none for a
//! packet that does not. Everything else is as in clock mode ([`super`]): when the ring takes a
//! packet, the order of departures and arrivals at the same time (departures first), and each
//! packet's loss and delay. A discipline that can run in either mode gives the same tables in both;
//! tests compare them.
//!
//! - A packet's loss is drawn when it arrives, even if it is dropped later, so it does not depend
//!   on the discipline. Losses in bursts are an exception ([`loss`](super::loss)).
//! - After the last packet the discipline is asked once more and finds nothing, as in the kernel
//!   (`qdisc_run` runs until the driver stops the queue). Idle times start here.
//! - Whether a ring of bytes has room depends on the packet. A FIFO shows its next packet and keeps
//!   it until there is room. Nobody knows the next packet of other disciplines, so they are asked
//!   when there is room for the link's longest frame, as below a class of `htb`. Below a `tbf`,
//!   Linux takes a packet out of them early and puts it aside (`qdisc_peek_dequeued`). CoDel then
//!   judges every packet one departure too early. This link does not do that, and no driver does.
//! - A shaper that returns no packet says when to ask again. It is asked then, and whenever a
//!   packet arrives.

use alloc::collections::VecDeque;

use alloc::format;
use alloc::vec::Vec;

use narrows_qdisc::{
    Ack, AnyConfig, AnyQdisc, Backlog, DropReason, Dropped, Ecn, Protocol, Qdisc, mix, stream_seed,
};
use narrows_units::{MaybeTime, Span, Time};

use super::changes::{Changes, Sent};
use super::impairment::Impairment;
use super::observed::{InRing, Observed, QueueState};
use super::ring::{Entry, RingState};
use super::{Mode, Passage, Transmitter};
use crate::transmitter::packet::Packet;
use crate::{Change, Config};

/// A packet in a discipline.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<P> {
    /// The packet.
    pub packet: P,
    arrived_at: Time,
    /// The field of [`Framing`](crate::Framing) of the same name.
    queue_overhead: u16,
    /// The place of its class in [`Delays`](super::Delays), and above it whether the wire will lose it.
    class_and_lost: u8,
    /// The type of service on arrival: its code point, if the discipline asks for it, and below
    /// it the ECN field.
    tos: u8,
    ports: (u16, u16),
    hosts: (u32, u32),
}

/// The bit of [`Waiting`] that says that the wire will lose the packet.
const LOST: u8 = 1 << 7;

/// What the packet itself does not hold, for disciplines that ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The source and the destination port.
    pub ports: (u16, u16),
    /// Numbers of the source and the destination host.
    pub hosts: (u32, u32),
    /// The Differentiated Services code point.
    pub dscp: u8,
}

/// What of [`Seen`] a discipline asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asks {
    /// The ports.
    pub ports: bool,
    /// The hosts and the code point.
    pub hosts: bool,
    /// What segments acknowledge.
    pub acks: bool,
}

impl<P: Packet> narrows_qdisc::Packet for Waiting<P> {
    #[inline]
    fn bytes(&self) -> u32 {
        u32::from(self.packet.bytes()) + u32::from(self.queue_overhead)
    }

    #[inline]
    fn header_bytes(&self) -> u32 {
        self.queue_overhead.into()
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }

    #[inline]
    fn mark(&mut self) {
        self.packet.mark();
    }

    #[inline]
    fn flow_hash(&self) -> u64 {
        self.packet.flow_hash()
    }

    #[inline]
    fn protocol(&self) -> Protocol {
        self.packet.protocol()
    }

    #[inline]
    fn ports(&self) -> (u16, u16) {
        self.ports
    }

    #[inline]
    fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Notes that the packet is washed: no discipline sets another code point than 0.
    fn set_dscp(&mut self, dscp: u8) {
        debug_assert_eq!(dscp, 0, "the packet has only a bit for it");
        self.tos &= 0b11;
        self.packet.wash();
    }

    #[inline]
    fn hosts(&self) -> (u32, u32) {
        self.hosts
    }
}

/// The state that a link has only in this mode.
#[derive(Debug)]
pub(super) struct Scheduled<P> {
    queue: AnyQdisc<Waiting<P>>,
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
    asks: Asks,
    /// Queues that replace this one, in order of time.
    later: VecDeque<(Time, AnyConfig)>,
    /// When the first of them does.
    change_at: MaybeTime,
    /// The seed of the queue, and how many there were before it.
    queue_seed: (u64, u64),
    /// Packets that the queues before it have marked, early and forced.
    marked_before: [u64; 2],
    impairment: Option<Impairment>,
    pub(super) observed: Option<Observed>,
}

/// A packet that a link has released or dropped.
#[derive(Clone, Copy, Debug)]
pub struct Gone<P> {
    /// The packet.
    pub packet: P,
    /// Which link.
    pub link: u32,
    /// What becomes of it.
    pub passage: Passage,
    /// When its transmission ends.
    pub transmitted_at: Time,
}

/// Packets that have gone and are not yet handled, in order of time for each link.
#[derive(Debug)]
pub struct Released<P> {
    /// In the order in which they left. The caller empties the list.
    pub gone: Vec<Gone<P>>,
    dropped: Dropped<Waiting<P>>,
}

impl<P> Default for Released<P> {
    fn default() -> Self {
        Self { gone: Vec::new(), dropped: Vec::new() }
    }
}

impl<P: Packet> Scheduled<P> {
    pub(super) fn new(
        config: &Config,
        changes: &[Change],
        seed: u64,
        name: &str,
        observed: bool,
    ) -> Self {
        let queue_seed = stream_seed(seed, &format!("{name}/queue"));
        let later = new_queues(changes);
        let asks = |asks: fn(&AnyConfig) -> bool| {
            asks(&config.queue) || later.iter().any(|(_, queue)| asks(queue))
        };
        let asks = Asks {
            ports: asks(AnyConfig::reads_ports),
            hosts: asks(AnyConfig::reads_hosts),
            acks: asks(AnyConfig::reads_acks),
        };
        let impairment = Impairment::new(config, changes, seed, name);
        let changes = Changes::new(config, changes);
        Self {
            queue: config.queue.build(queue_seed),
            ask_at: MaybeTime::NONE,
            shaped: false,
            armed: MaybeTime::NONE,
            ring: RingState::new(config.ring, changes.is_some()),
            longest: (u32::from(config.longest) + config.framing.overhead).max(config.framing.min),
            changes,
            queue_overhead: config
                .framing
                .queue_overhead
                .try_into()
                .expect("the settings were checked"),
            asks,
            change_at: later.front().map(|&(at, _)| at).into(),
            later,
            queue_seed: (queue_seed, 0),
            marked_before: [0; 2],
            impairment,
            observed: observed.then(Observed::default),
        }
    }

    #[cfg(test)]
    pub(super) fn replace_queue(&mut self, queue: AnyQdisc<Waiting<P>>) {
        self.queue = queue;
    }

    pub(super) fn queue_state(&self) -> QueueState {
        let mut state = QueueState::of(&self.queue);
        state.marked_early += self.marked_before[0];
        state.marked_forced += self.marked_before[1];
        state
    }

    /// Returns what waits.
    pub(super) fn backlog(&self) -> Backlog {
        self.queue.backlog()
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
        let due_at = self.ask_at.min(self.change_at);
        if due_at >= self.armed {
            return None;
        }
        self.armed = due_at;
        due_at.get()
    }

    /// Reports what a call has dropped.
    #[cold]
    fn report(&mut self, at: Time, link: u32, released: &mut Released<P>) {
        for (waiting, reason) in released.dropped.drain(..) {
            let packet = waiting.packet;
            if let Some(observed) = &mut self.observed {
                let ecn = Ecn::from_bits(waiting.tos);
                let class = waiting.class_and_lost & !LOST;
                observed.note_dropped(at, reason, packet.is_foreground(), ecn, class);
            }
            let passage = Passage::Dropped(reason);
            released.gone.push(Gone { packet, link, passage, transmitted_at: at });
        }
    }
}

impl<P: Packet> Transmitter<P> {
    /// Returns whether packets have to go to [`Transmitter::arrive`].
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        matches!(self.mode, Mode::Scheduled(..))
    }

    /// Returns what [`Transmitter::arrive`] needs to know of a packet.
    #[inline]
    pub fn asks(&self) -> Asks {
        match &self.mode {
            Mode::Scheduled(_, scheduled) => scheduled.asks,
            Mode::Short(..) | Mode::Clock(..) => Asks::default(),
        }
    }

    /// Tells the discipline what the packet of the next [`Transmitter::arrive`] acknowledges.
    #[cold]
    pub fn announce(&mut self, ack: Option<&Ack>) {
        self.scheduled().queue.announce(ack);
    }

    /// Takes in a packet at `at`. Packets that leave the queue by then join `released`. Returns
    /// when an event is needed for the next departure, if one is. `index` is this link's; `seen` is
    /// what it [asks](Transmitter::asks) for.
    ///
    /// Calls of this function and of [`Transmitter::release`] must come in order of time.
    #[inline]
    pub fn arrive(
        &mut self,
        at: Time,
        packet: P,
        seen: Seen,
        index: u32,
        released: &mut Released<P>,
    ) -> Option<Time> {
        // Packets that leave at the time of an arrival leave before it, as in clock mode.
        self.run(at, index, released);
        let scheduled = self.scheduled();
        let queue_overhead = scheduled.queue_overhead;
        let lost = match &mut scheduled.impairment {
            Some(impairment) => impairment.loses(&packet),
            None => false,
        };
        let Seen { ports, hosts, dscp } = seen;
        let tos = dscp << 2 | packet.ecn() as u8;
        let class_and_lost = if lost { LOST } else { 0 };
        let mut waiting =
            Waiting { packet, arrived_at: at, queue_overhead, class_and_lost, tos, ports, hosts };
        if let Some(observed) = &mut scheduled.observed {
            observed.arrived_packets += 1;
            observed.arrived_bytes += u64::from(waiting.packet.bytes()) + u64::from(queue_overhead);
            if let Some(delays) = &observed.delays {
                waiting.class_and_lost |= delays.place_of(&waiting);
            }
        }
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
    pub fn release(&mut self, now: Time, index: u32, released: &mut Released<P>) -> Option<Time> {
        let scheduled = self.scheduled();
        if scheduled.armed.is(now) {
            scheduled.armed = MaybeTime::NONE;
        }
        self.run(now, index, released);
        self.scheduled().arm()
    }

    /// Returns the discipline, if the link is in this mode.
    #[inline]
    pub fn scheduled_queue(&self) -> Option<&AnyQdisc<Waiting<P>>> {
        match &self.mode {
            Mode::Scheduled(_, scheduled) => Some(&scheduled.queue),
            Mode::Short(..) | Mode::Clock(..) => None,
        }
    }

    #[inline]
    fn scheduled(&mut self) -> &mut Scheduled<P> {
        match &mut self.mode {
            Mode::Scheduled(_, scheduled) => scheduled,
            Mode::Short(..) | Mode::Clock(..) => unreachable!("the caller looked at the mode"),
        }
    }

    /// Takes packets out of the queue as long as one is due by `until`.
    #[inline]
    fn run(&mut self, until: Time, index: u32, released: &mut Released<P>) {
        loop {
            let scheduled = self.scheduled();
            if scheduled.change_at <= scheduled.ask_at
                && let Some(at) = scheduled.change_at.by(until)
            {
                scheduled.change_queue(at, index, released);
                continue;
            }
            let Some(ask_at) = scheduled.ask_at.by(until) else { break };
            self.pull(ask_at, index, released);
        }
    }

    /// Asks the queue for a packet at `at`, when there is room for it, and transmits it.
    #[inline]
    fn pull(&mut self, at: Time, index: u32, released: &mut Released<P>) {
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
    fn transmit(&mut self, at: Time, waiting: Waiting<P>, index: u32, released: &mut Released<P>) {
        let Waiting { packet, arrived_at, class_and_lost, tos, .. } = waiting;
        let framed = self.framed(packet.bytes());
        let free_at = self.free_at.max(at);
        let (pace, delay) = (self.pace, self.delay);
        let sent = match &self.scheduled().changes {
            Some(changes) => changes.send(free_at, framed),
            None => Sent::at(pace, delay, free_at, framed),
        };
        let Sent { starts_at, ends_at, busy: span, delay, is_cut } = sent;
        self.free_at = ends_at;
        let scheduled = self.scheduled();
        let mut lost = class_and_lost & LOST != 0 || is_cut;
        if let Some(impairment) = &mut scheduled.impairment {
            impairment.begin(starts_at);
            lost |= impairment.loses_next(&packet);
            impairment.note_sent(&packet);
        }
        scheduled.ring.transmit(Entry { leaves_at: at, starts_at, ends_at, framed });
        if let Some(observed) = &mut scheduled.observed {
            observed.settle(at);
            observed.enter_ring(InRing { ends_at, span, framed, lost }, at);
            let sojourn_us = ends_at.since(arrived_at).as_us();
            observed.sojourn.add(u32::try_from(sojourn_us).unwrap_or(u32::MAX));
            if let Some(delays) = &mut observed.delays {
                let ecn = Ecn::from_bits(tos);
                let class = class_and_lost & !LOST;
                delays.note_sent(starts_at, starts_at.since(arrived_at), ecn, packet.ecn(), class);
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
            let head = scheduled.queue.head().map(|waiting| waiting.packet.bytes());
            let framed = head.map_or(scheduled.longest, |ip_bytes| self.framed(ip_bytes));
            let ask_at = self.scheduled().ring.room_at(framed, free_at, pace).max(at);
            self.scheduled().ask_when_up(ask_at);
        } else {
            let ask_at = scheduled.ring.room_at(0, free_at, pace).max(at);
            scheduled.ask_when_up(ask_at);
        }
    }
}

/// Returns the queues that replace a link's first, in order of time.
fn new_queues(changes: &[Change]) -> VecDeque<(Time, AnyConfig)> {
    let new = |change: &Change| Some((change.at, change.queue.clone()?));
    let mut found: Vec<_> = changes.iter().filter_map(new).collect();
    found.sort_by_key(|&(at, _)| at);
    found.into()
}

impl<P: Packet> Scheduled<P> {
    /// Changes the queue's settings, or replaces it and drops what waits there.
    #[cold]
    fn change_queue(&mut self, at: Time, index: u32, released: &mut Released<P>) {
        let Some((_, config)) = self.later.pop_front() else { return };
        self.change_at = self.later.front().map(|&(at, _)| at).into();
        if let Some(Observed { delays: Some(delays), .. }) = &mut self.observed {
            delays.change_queue(&config);
        }
        if !self.queue.change(&config, &mut released.dropped) {
            empty(&mut self.queue, at, &mut released.dropped);
            let counters = self.queue.counters();
            self.marked_before[0] += counters.marked_early;
            self.marked_before[1] += counters.marked_forced;
            self.queue_seed.1 += 1;
            self.queue = config.build(mix(self.queue_seed.0, self.queue_seed.1));
        }
        if !released.dropped.is_empty() {
            self.report(at, index, released);
        }
        if self.queue.backlog().packets == 0 {
            (self.ask_at, self.shaped) = (MaybeTime::NONE, false);
        }
    }

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

/// Takes everything out of a queue that is to go, as dropped at its limit. The times at which it
/// is asked do not matter any more.
fn empty<P: Packet>(queue: &mut AnyQdisc<Waiting<P>>, at: Time, dropped: &mut Dropped<Waiting<P>>) {
    let mut at = at;
    while queue.backlog().packets > 0 {
        match queue.dequeue(at, dropped) {
            Some(packet) => dropped.push((packet, DropReason::Overflow)),
            // A shaper holds it back.
            None => at = queue.ready_at(at).unwrap_or(at).max(at + Span::from_ms(1)),
        }
    }
    dropped.iter_mut().for_each(|(_, reason)| *reason = DropReason::Overflow);
}

#[cfg(test)]
mod tests;
