//! A link whose discipline decides at dequeue: what leaves next, or what is dropped instead, is not
//! known before.
//!
//! The discipline holds the packets themselves, as [`Waiting`]. The transmitter, or the ring above
//! it, takes one whenever it has room, so there is an event ([`Event::Departure`](crate::agenda::Event)) where the next packet
//! is due: one for each packet that finds the link busy, none for one that does not. Everything
//! else is as in clock mode ([`super`]): the moments at which the ring takes a packet, the order of
//! departures and arrivals at the same moment (departures first), the loss and delay that a packet
//! draws. So a discipline that could run in either mode gives the same tables in both; tests
//! compare them (`tests/modes.rs`).
//!
//! - A packet's luck (loss) is drawn as it comes, also if it is dropped later: so it does not
//!   depend on the discipline.
//! - After the last packet the discipline is asked again at once and finds nothing, as the kernel
//!   does (`qdisc_run`, until the driver stops the queue); here idle times start.
//! - Room in a ring of bytes depends on the packet. A FIFO shows the one that is next and keeps it
//!   until there is room. Other disciplines hand theirs out early, and it waits outside, as in
//!   Linux below a `tbf` (`qdisc_peek_dequeued`). It still counts as waiting, but no longer against
//!   the discipline's own limit, as it does in Linux.
//! - After a shaper has given nothing, it is asked when it said, and whenever a packet comes.

use narrows_qdisc::{AnyQdisc, DropReason, Dropped, Ecn, Protocol, Qdisc};
use narrows_units::{Span, Time};

use super::{Changes, Entry, Impairment, InRing, Link, Observed, QueueState, RingState};
use crate::packet::Packet;
use crate::plan::Link as LinkPlan;
use crate::random::stream_seed;

/// A packet in a discipline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    packet: Packet,
    arrived_at: Time,
    /// [`Framing`](crate::plan::Framing)'s.
    queue_overhead: u16,
    /// The wire will lose it.
    lost: bool,
    /// Source and destination port.
    ports: (u16, u16),
}

const _: () = assert!(size_of::<Waiting>() == 48);

impl narrows_qdisc::Packet for Waiting {
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
        if self.packet.is_udp() { Protocol::Udp } else { Protocol::Tcp }
    }

    #[inline]
    fn ports(&self) -> (u16, u16) {
        self.ports
    }
}

/// What a link of this mode has besides what all have.
#[derive(Debug)]
pub(super) struct Scheduled {
    queue: AnyQdisc<Waiting>,
    /// Handed out by the queue, and waiting for room in a ring of bytes.
    held: Option<Waiting>,
    /// When the queue is to be asked for a packet; `Time::MAX`: when one comes.
    ask_at: Time,
    /// `ask_at` is what a shaper said: a packet that comes may go sooner.
    shaped: bool,
    /// When the pending event is due; `Time::MAX`: there is none.
    armed: Time,
    ring: RingState,
    /// Rate and delay, where they change.
    changes: Option<Changes>,
    queue_overhead: u16,
    /// The queue has filters, which look at ports.
    reads_ports: bool,
    /// So many events are to pass until the queue is asked again what comes.
    foreseen: u32,
    impairment: Option<Impairment>,
    pub(super) observed: Option<Observed>,
}

/// A packet that a link has let go, or dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) packet: Packet,
    /// The link.
    pub(crate) link: u32,
    pub(crate) fate: Fate,
    /// When its transmission ends.
    pub(crate) transmitted_at: Time,
}

/// What becomes of a packet that waits no longer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It will arrive at the other end.
    Arrives(Time),
    /// The wire loses it.
    Lost,
    /// The queue dropped it, when it came or later.
    Dropped(DropReason),
}

/// A queue that foresees nothing is asked after so many departures.
const FORESEEN: u32 = 16;

/// What has gone and is not yet handled, in order of time for each link.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) gone: Vec<Gone>,
    dropped: Dropped<Waiting>,
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
            held: None,
            ask_at: Time::MAX,
            shaped: false,
            armed: Time::MAX,
            ring: RingState::new(plan.ring, changes.is_some()),
            changes,
            queue_overhead: plan.framing.queue_overhead.try_into().expect("the plan was checked"),
            reads_ports: plan.queue.reads_ports(),
            foreseen: 0,
            impairment: Impairment::new(plan, seed),
            observed: observed.then(Observed::default),
        }
    }

    #[cfg(test)]
    pub(super) fn replace_queue(&mut self, queue: AnyQdisc<Waiting>) {
        self.queue = queue;
    }

    pub(super) fn queue_state(&self) -> QueueState {
        let (backlog, counters) = (self.queue.backlog(), self.queue.counters());
        let held = self.held.as_ref().map_or(0, narrows_qdisc::Packet::bytes);
        QueueState {
            packets: backlog.packets + u32::from(self.held.is_some()),
            bytes: backlog.bytes.get() + u64::from(held),
            average: self.queue.average().unwrap_or(f64::NAN),
            marked_early: counters.marked_early,
            marked_forced: counters.marked_forced,
        }
    }

    /// Counts what has been transmitted by `now`.
    pub(super) fn settle(&mut self, now: Time) {
        if let Some(observed) = &mut self.observed {
            observed.settle(now);
        }
    }

    /// When the next event is needed, if it is not pending.
    #[inline]
    fn arm(&mut self) -> Option<Time> {
        (self.ask_at < self.armed).then(|| {
            self.armed = self.ask_at;
            self.ask_at
        })
    }

    /// Hands on what a call has dropped.
    #[cold]
    fn report(&mut self, at: Time, link: u32, released: &mut Released) {
        for (waiting, reason) in released.dropped.drain(..) {
            let packet = waiting.packet;
            if let Some(observed) = &mut self.observed {
                observed.dropped[reason as usize] += 1;
                observed.dropped_dns += u64::from(packet.is_dns());
            }
            let fate = Fate::Dropped(reason);
            released.gone.push(Gone { packet, link, fate, transmitted_at: at });
        }
    }
}

impl Link {
    /// Whether packets are to go to [`Link::arrive`].
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        matches!(self.entry, Entry::Scheduled(_))
    }

    /// Whether [`Link::arrive`] has to know a packet's ports.
    #[inline]
    pub(crate) fn reads_ports(&self) -> bool {
        matches!(&self.entry, Entry::Scheduled(scheduled) if scheduled.reads_ports)
    }

    /// Takes a packet in at `at`; what leaves the queue by then is on the list. Says when an event
    /// is needed for the next to leave, if one is. `index`: this link's; `ports`: the packet's.
    ///
    /// Calls of this and of [`Link::release`] come in order of time.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        at: Time,
        packet: Packet,
        ports: (u16, u16),
        index: u32,
        released: &mut Released,
    ) -> Option<Time> {
        // What leaves when a packet comes leaves before it, as in clock mode.
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
        let waiting = Waiting { packet, arrived_at: at, queue_overhead, lost, ports };
        scheduled.queue.enqueue(at, waiting, &mut released.dropped);
        if !released.dropped.is_empty() {
            scheduled.report(at, index, released);
        }
        if scheduled.ask_at == Time::MAX || scheduled.shaped {
            self.ask_from(at);
            self.run(at, index, released);
        }
        self.scheduled().arm()
    }

    /// The pending event: lets go what is due. Says when the next event is needed.
    #[inline]
    pub(crate) fn release(
        &mut self,
        now: Time,
        index: u32,
        released: &mut Released,
    ) -> Option<Time> {
        let scheduled = self.scheduled();
        if scheduled.armed == now {
            scheduled.armed = Time::MAX;
        }
        self.run(now, index, released);
        self.scheduled().arm()
    }

    /// Reads what [`arrive`](Self::arrive) will need for packets of these flows, if that is for this mode.
    pub(crate) fn foresee_arrivals(&self, flow_hashes: &[u64]) {
        if let Entry::Scheduled(scheduled) = &self.entry {
            scheduled.queue.foresee_enqueue(flow_hashes);
        }
    }

    /// Reads what the next calls of [`release`](Self::release) will need, and puts the packets that
    /// will probably leave then on a list: every so many calls, for all calls until the next time.
    #[inline]
    pub(crate) fn foresee_departures(&mut self, packets: &mut Vec<Packet>) {
        let scheduled = self.scheduled();
        if scheduled.foreseen == 0 {
            scheduled.queue.foresee_dequeue(&mut |waiting| packets.push(waiting.packet));
            scheduled.foreseen = FORESEEN.max(packets.len() as u32);
        }
        scheduled.foreseen -= 1;
    }

    fn scheduled(&mut self) -> &mut Scheduled {
        match &mut self.entry {
            Entry::Scheduled(scheduled) => scheduled,
            Entry::Simple(_) | Entry::Full(_) => unreachable!("the caller looked at the mode"),
        }
    }

    /// Takes packets out of the queue as long as one is due by `until`.
    #[inline]
    fn run(&mut self, until: Time, index: u32, released: &mut Released) {
        while let ask_at = self.scheduled().ask_at
            && ask_at <= until
        {
            self.pull(ask_at, index, released);
        }
    }

    /// Asks the queue for a packet at `at`, and transmits it as soon as there is room.
    #[inline]
    fn pull(&mut self, at: Time, index: u32, released: &mut Released) {
        let scheduled = self.scheduled();
        let waiting = match scheduled.held.take() {
            Some(held) => held,
            None => {
                let waiting = scheduled.queue.dequeue(at, &mut released.dropped);
                if !released.dropped.is_empty() {
                    scheduled.report(at, index, released);
                }
                let Some(waiting) = waiting else {
                    scheduled.wait_for_shaper(at);
                    return;
                };
                if scheduled.ring.counts_bytes() && !self.has_room(at, &waiting) {
                    return;
                }
                waiting
            }
        };
        self.transmit(at, waiting, index, released);
        self.ask_from(at);
    }

    /// Whether the ring has room for a packet at `at`; if not, it is held until then.
    #[cold]
    fn has_room(&mut self, at: Time, waiting: &Waiting) -> bool {
        let framed = self.framed(waiting.packet.bytes);
        let (free_at, pace) = (self.free_at, self.pace);
        let scheduled = self.scheduled();
        let room_at = scheduled.ring.room_at(framed, free_at, pace);
        if room_at > at {
            scheduled.held = Some(*waiting);
            scheduled.ask_at = room_at;
            scheduled.shaped = false;
        }
        room_at <= at
    }

    /// A packet goes to the ring at `at`.
    #[inline]
    fn transmit(&mut self, at: Time, waiting: Waiting, index: u32, released: &mut Released) {
        let Waiting { packet, arrived_at, lost, .. } = waiting;
        let framed = self.framed(packet.bytes);
        let starts_at = self.free_at.max(at);
        let (pace, delay) = match &self.scheduled().changes {
            Some(changes) => changes.at(starts_at),
            None => (self.pace, self.delay),
        };
        let span = pace.time_for_frame(framed);
        let ends_at = starts_at + span;
        self.free_at = ends_at;
        let scheduled = self.scheduled();
        scheduled.ring.transmit(starts_at, ends_at, framed);
        if let Some(observed) = &mut scheduled.observed {
            observed.settle(at);
            observed.enter_ring(InRing { ends_at, span, framed, lost }, at);
            let sojourn_us = ends_at.since(arrived_at).as_us();
            observed.sojourn.add(u32::try_from(sojourn_us).unwrap_or(u32::MAX));
        }
        let fate = if lost {
            Fate::Lost
        } else {
            Fate::Arrives(match &mut scheduled.impairment {
                Some(impairment) => impairment.arrival(ends_at, delay, &packet),
                None => ends_at + delay,
            })
        };
        released.gone.push(Gone { packet, link: index, fate, transmitted_at: ends_at });
    }

    /// Finds out when the queue is to be asked next, from `at` on.
    #[inline]
    fn ask_from(&mut self, at: Time) {
        let (free_at, pace) = (self.free_at, self.pace);
        let scheduled = self.scheduled();
        scheduled.shaped = false;
        if scheduled.queue.backlog().packets == 0 {
            // The card asks again and finds nothing: here RED's idle time starts, or goes on.
            scheduled.queue.dequeue(at, &mut Vec::new());
            scheduled.ask_at = Time::MAX;
        } else if scheduled.ring.counts_bytes() {
            let head = scheduled.queue.head().map(|waiting| waiting.packet.bytes);
            self.scheduled().ask_at = match head.map(|ip_bytes| self.framed(ip_bytes)) {
                Some(framed) => self.scheduled().ring.room_at(framed, free_at, pace).max(at),
                None => at,
            };
        } else {
            scheduled.ask_at = scheduled.ring.room_at(0, free_at, pace).max(at);
        }
    }
}

impl Scheduled {
    /// The queue gave nothing at `at`: it is empty, or it shapes.
    #[cold]
    fn wait_for_shaper(&mut self, at: Time) {
        self.shaped = true;
        self.ask_at = match self.queue.ready_at(at) {
            // Never at the same moment again.
            Some(ready_at) => ready_at.max(at + Span::from_ps(1)),
            None => Time::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::fifo::{Pfifo, PfifoConfig};
    use narrows_qdisc::{Backlog, Counters, Verdict, codel};
    use narrows_units::{Bytes, Rate};

    use super::*;
    use crate::agenda::Event;
    use crate::network::Network;
    use crate::packet::Stamp;
    use crate::plan::{Framing, Path, Plan, Queue, Ring};
    use crate::shortcuts::Use;
    use crate::transport::tcp::{Flags, SackBlocks, Segment, Seq};

    /// A discipline that lets a packet go every 3 ms, and none sooner than `hold` after it came.
    struct Paced {
        queue: Pfifo<Waiting>,
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

    impl Qdisc<Waiting> for Paced {
        fn enqueue(
            &mut self,
            now: Time,
            packet: Waiting,
            dropped: &mut Dropped<Waiting>,
        ) -> Verdict {
            self.queue.enqueue(now, packet, dropped)
        }

        fn dequeue(&mut self, now: Time, dropped: &mut Dropped<Waiting>) -> Option<Waiting> {
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

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// A link that takes 1 ms for 1000 bytes and delays by 10 ms; nobody asks the queue anything.
    fn link(queue: impl Qdisc<Waiting> + Send + Sync + 'static, ring: Option<Ring>) -> Link {
        let plan = LinkPlan {
            name: "bottleneck".into(),
            from: 0,
            to: 1,
            rate: Rate::from_bps(8_000_000).expect("not zero"),
            delay: Span::from_ms(10),
            jitter: None,
            loss: 0.0,
            dns_exempt: false,
            framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
            queue: Queue::Pfifo(PfifoConfig::default()),
            scheduled: true,
            ring,
        };
        let mut link = Link::new(&plan, &[], 1, true);
        link.scheduled().replace_queue(AnyQdisc::Custom(Box::new(queue)));
        link
    }

    fn pfifo() -> Pfifo<Waiting> {
        Pfifo::new(PfifoConfig::default())
    }

    /// Runs a link to its end, with packets of some bytes that come at some milliseconds: the
    /// moments at which each arrives at the other end, and how many events it took.
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
                    let packet = Packet::of_bytes(0, bytes);
                    // An earlier event takes the place of a later one.
                    due_at = link.arrive(at, packet, (0, 0), 0, &mut released).or(due);
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
            .map(|gone| match gone.fate {
                Fate::Arrives(at) => at,
                other => panic!("{other:?}"),
            })
            .collect();
        (arrivals, events)
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
        // Twice when the transmitter is free, twice when the shaper said.
        assert_eq!(events, 4);
    }

    #[test]
    fn a_packet_that_comes_may_go_before_what_a_shaper_said() {
        /// Short packets first.
        struct ShortFirst(Paced, Pfifo<Waiting>);
        impl Qdisc<Waiting> for ShortFirst {
            fn enqueue(
                &mut self,
                now: Time,
                packet: Waiting,
                dropped: &mut Dropped<Waiting>,
            ) -> Verdict {
                let short = packet.packet.bytes < 100;
                let queue = if short { &mut self.1 } else { &mut self.0.queue };
                queue.enqueue(now, packet, dropped)
            }
            fn dequeue(&mut self, now: Time, dropped: &mut Dropped<Waiting>) -> Option<Waiting> {
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
    fn a_packet_that_is_out_of_the_queue_waits_for_room_in_a_ring_of_bytes() {
        let ring = Some(Ring::Bytes(Bytes::new(2999)));
        let mut link = link(pfifo(), ring);
        let mut released = Released::default();
        let packet = Packet::of_bytes(0, 1000);
        for _ in 0..5 {
            link.arrive(Time::ZERO, packet, (0, 0), 0, &mut released);
        }
        let waiting = |link: &mut Link, at| {
            let state = link.queue_state(at).expect("it is observed");
            (state.packets, state.bytes, link.observed().expect("it is observed").ring())
        };
        // Two go to the ring, one waits before it, two in the queue.
        assert_eq!(waiting(&mut link, Time::ZERO), (3, 3000, (2, 2000)));
        assert_eq!(link.scheduled().queue.backlog().packets, 2);
        // One byte is transmitted: there is room for the third.
        let at = Time::ZERO + Span::from_us(1);
        link.release(at, 0, &mut released);
        assert_eq!(waiting(&mut link, at), (2, 2000, (3, 3000)));
        assert_eq!(released.gone.len(), 3);
    }

    #[test]
    fn dropped_packets_give_back_their_sack_blocks() {
        let link = |name: &str, from, to, queue| LinkPlan {
            name: name.into(),
            from,
            to,
            rate: Rate::from_bps(8_000_000).expect("not zero"),
            delay: Span::from_ms(10),
            jitter: None,
            loss: 0.0,
            dns_exempt: false,
            framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
            queue,
            scheduled: false,
            ring: None,
        };
        // CoDel that drops at the first chance.
        let codel = Queue::Codel(codel::Config {
            limit: 20,
            target: Span::from_us(1),
            interval: Span::from_us(2),
            mtu: Bytes::ZERO,
            ..codel::Config::default()
        });
        let plan = Plan {
            seed: 1,
            end: ms(1000),
            end_with_dns: false,
            event_limit: 1000,
            nodes: vec!["a".into(), "b".into()],
            links: vec![link("a->b", 0, 1, codel.clone()), link("b->a", 1, 0, codel)],
            tcp: Vec::new(),
            paths: vec![
                Path { from: 0, to: 1, links: vec![0] },
                Path { from: 1, to: 0, links: vec![1] },
            ],
            applications: Vec::new(),
            queue_monitors: Vec::new(),
            link_monitors: Vec::new(),
            captures: Vec::new(),
            changes: Vec::new(),
            collapse: true,
        };
        plan.check().expect("the plan is sound");
        let uses = [0, 1].map(|path| Use { path, bytes: 40, dns: false });
        let mut network = Network::new(&plan, &uses);
        network.paths.assign(0, 0, 1);
        let mut sack = SackBlocks::default();
        assert!(sack.push(Seq(5), Seq(9)));
        let segment = Segment { flags: Flags::ACK, sack, ..Segment::default() };
        for _ in 0..30 {
            let packet = Packet::from_segment(Stamp::new(1, 0, false), &segment, &mut network.pool);
            network.send(Time::ZERO, packet);
        }
        // One is on the wire, 20 wait.
        assert_eq!(network.pool.in_use(), 21);
        let mut landed = 0;
        while let Some((now, event)) = network.agenda.pop() {
            match event {
                Event::Landing(link) => {
                    if let Some(packet) = network.land(now, link) {
                        assert_eq!(packet.into_segment(&mut network.pool).sack, sack);
                        landed += 1;
                    }
                }
                Event::Departure(link) => network.release(now, link),
                other => panic!("no {other:?} is expected"),
            }
        }
        assert!((2..20).contains(&landed), "{landed}");
        assert_eq!(network.pool.in_use(), 0);
    }
}
