//! The network: links, paths and the packets on their way.

mod fragments;
mod losses;
mod marks;
mod neighbours;
mod obstacles;
mod one_way;

use narrows_apps::{LossReason, Use};
use narrows_link::transmitter::{Delays, Gone, Looks, Passage, Released, Seen, Slot};
use narrows_qdisc::Dropped;
use narrows_transport::tcp::Segment;
use narrows_units::Time;

use self::fragments::{Assembly, Fragments};
use self::losses::Losses;
use self::marks::Marks;
pub(crate) use self::neighbours::Neighbours;
pub(crate) use self::neighbours::check as check_neighbours;
use self::neighbours::find_neighbours;
pub(crate) use self::obstacles::answers;
use self::obstacles::{Obstacles, find_obstacles};
pub(crate) use self::one_way::OneWay;
pub use self::one_way::{MOST_FLOWS, MOST_PACKETS};
use crate::agenda::{Agenda, Event};
use crate::link::{Flights, Link};
use crate::maybe_index::MaybeIndex;
use crate::packet::{OptionPool, Packet, PacketKind};
use crate::paths::Paths;
use crate::plan::{Capture, Topology};
use crate::shortcuts::find_shortcuts;

/// A datagram that is lost, or one of its fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) packet: Packet,
    pub(crate) link: u32,
    pub(crate) reason: LossReason,
}

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) agenda: Agenda,
    pub(crate) links: Vec<Link>,
    pub(crate) flights: Flights,
    pub(crate) paths: Paths,
    /// The ports of each flow's two ends.
    pub(crate) ports: Vec<[u16; 2]>,
    pub(crate) marks: Marks,
    pub(crate) pool: OptionPool,
    /// Losses that have not been reported.
    pub(crate) losses: Losses,
    pub(crate) captured: Vec<Taken>,
    obstacles: Obstacles,
    pub(crate) neighbours: Neighbours,
    pub(crate) fragments: Fragments,
    /// How long packets take from host to host, if somebody asks.
    pub(crate) one_way: Option<Box<OneWay>>,
    dropped: Dropped<Slot>,
    /// Packets that scheduled links have released, in order. They are handled completely before
    /// anything else.
    released: Released<Packet>,
}

/// A packet kept for a capture file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// When its transmission ended.
    pub(crate) at: Time,
    /// When it arrives at the end of the link; `None`: the wire loses it.
    pub(crate) arrives_at: Option<Time>,
    pub(crate) link: u32,
    /// The first and the last link of its path.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The source and the destination port.
    pub(crate) ports: (u16, u16),
    pub(crate) dscp: u8,
    pub(crate) packet: Packet,
    /// For a fragment: the datagram it belongs to.
    pub(crate) whole: Option<Packet>,
    /// A TCP packet's segment.
    pub(crate) segment: Option<Segment>,
}

impl Network {
    /// Creates the network. `uses` lists who sends along which path.
    pub(crate) fn new(plan: &Topology<'_>, uses: &[Use]) -> Self {
        let mut observed = vec![false; plan.links.len()];
        let monitors = plan.queue_monitors.iter().chain(plan.link_monitors);
        let captured = || plan.captures.iter().flat_map(Capture::links);
        let delayed = plan.delay_monitors.iter().map(|monitor| monitor.link);
        for link in monitors.map(|monitor| monitor.link).chain(captured()).chain(delayed) {
            observed[link] = true;
        }
        let mut changes = vec![Vec::new(); plan.links.len()];
        for change in plan.changes {
            changes[change.link].push(change);
        }
        let obstacles = find_obstacles(plan);
        let resolved = find_neighbours(plan);
        let mut links: Vec<Link> = Vec::with_capacity(plan.links.len());
        for index in 0..plan.links.len() {
            let at_head = obstacles[index] || resolved[index];
            let looks = Looks { observed: observed[index], at_head };
            let mut link = Link::new(plan, index, &changes[index], looks);
            link.has_obstacle = at_head;
            links.push(link);
        }
        for link in captured() {
            links[link].is_captured = true;
        }
        for monitor in plan.delay_monitors {
            let queue = &plan.links[monitor.link].queue;
            let observed = links[monitor.link].transmitter.observed_mut().expect("it is observed");
            observed.delays = Some(Box::new(Delays::new(monitor.from, monitor.to, queue)));
        }
        let paths = Paths::new(plan);
        paths.tell(&mut links);
        if plan.modes.collapse {
            find_shortcuts(plan, uses, &paths, &obstacles, &mut links);
        }
        Self {
            agenda: Agenda::new(),
            links,
            flights: Flights::new(),
            paths,
            ports: Vec::new(),
            marks: Marks::new(plan),
            pool: OptionPool::default(),
            losses: Losses::new(),
            captured: Vec::new(),
            obstacles: Obstacles::new(plan, &obstacles),
            neighbours: Neighbours::new(plan),
            fragments: Fragments::default(),
            one_way: OneWay::new(plan),
            dropped: Vec::new(),
            released: Released::default(),
        }
    }

    /// Makes room for the paths of this many flows.
    pub(crate) fn reserve(&mut self, flows: usize) {
        self.paths.reserve(flows);
        self.ports.reserve_exact(flows.saturating_sub(self.ports.len()));
    }

    /// Notes a flow between two applications: its path, and the ports of its two ends.
    pub(crate) fn note_flow(
        &mut self,
        flow: u32,
        applications: [u32; 2],
        (there, back): (u32, u32),
        ports: [u16; 2],
    ) {
        self.paths.assign(flow, there, back);
        self.marks.note(flow, applications, self.paths.nodes(there));
        if let Some(one_way) = &mut self.one_way {
            one_way.note_flow(flow, applications[0]);
        }
        if self.ports.len() <= flow as usize {
            self.ports.resize(flow as usize + 1, [0; 2]);
        }
        self.ports[flow as usize] = ports;
    }

    /// Sends a packet from a host.
    ///
    /// This function and [`Network::land`] are inlined at their callers. A packet's fields then
    /// stay in registers from the place where they are built or read to the flight list that the
    /// packet joins. Copying a value right after writing it piece by piece would cost more than
    /// everything else here.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, mut packet: Packet) {
        if let Some(one_way) = &mut self.one_way {
            packet.extra = if packet.is_of_host() {
                let Packet { direction, extra, bytes, .. } = packet;
                one_way.give_ticket(now, direction, extra, (bytes, packet.ecn()))
            } else {
                one_way.give_blank_ticket(packet.extra)
            };
            if one_way.is_full() {
                self.losses.wake(now);
            }
        }
        let first = self.paths.hop(packet.direction, 0);
        debug_assert!(!first.is_none(), "the plan was checked: a path has links");
        // The packet enters its first link at once, so nobody asks which link it came from.
        self.forward(now, packet, first, first.place());
    }

    /// Sends a packet as [`Network::send`] does, but is not inlined. It is for rare packets:
    /// handshakes, dialogues and datagrams.
    #[inline(never)]
    pub(crate) fn send_seldom(&mut self, now: Time, packet: Packet) {
        self.send(now, packet);
    }

    /// Handles the arrival of a packet at the end of `link`, unless the event is out of date.
    /// Returns the packet if a host is there; otherwise forwards it.
    #[inline(always)]
    pub(crate) fn land(&mut self, now: Time, link: u32) -> Option<Packet> {
        let landing = &mut self.links[link as usize];
        if !landing.armed.is(now) {
            return None;
        }
        let (packet, next) = landing.land(&mut self.flights);
        let hop = self.paths.after(landing.next, &packet);
        if let Some(next) = next {
            self.agenda.schedule(next, Event::Landing(link));
        }
        if hop.is_none() {
            let mut packet = packet;
            if let Some(one_way) = &mut self.one_way {
                packet.extra = one_way.take_ticket(now, packet.extra, packet.ecn(), false);
            }
            return Some(packet);
        }
        self.links[hop.place()].expected -= 1;
        self.forward(now, packet, hop, link as usize);
        None
    }

    /// Releases the next packet in a scheduled link's queue.
    pub(crate) fn release(&mut self, now: Time, link: u32) {
        let due_at = self.links[link as usize].transmitter.release(now, link, &mut self.released);
        self.schedule_departure(link, due_at);
        self.pass_on(now);
    }

    /// Brings a link up to date at `now` before somebody looks at it.
    pub(crate) fn settle(&mut self, now: Time, link: u32) {
        if self.links[link as usize].transmitter.is_scheduled() {
            self.release(now, link);
        }
        self.links[link as usize].transmitter.drain(now);
    }

    /// Takes a packet as far as can be computed now. The packet is at `hop` at `now`, and came from
    /// link `from`. Does the same for the packets that scheduled links release because of it.
    #[inline(always)]
    fn forward(&mut self, now: Time, packet: Packet, hop: MaybeIndex, from: usize) {
        if self.carry(now, now, packet, hop, from) == Carried::Within {
            self.pass_on(now);
        }
    }

    /// Takes a packet as far as can be computed now. The packet is at `hop` at `at`, and came from
    /// link `from`.
    #[inline(always)]
    fn carry(
        &mut self,
        now: Time,
        mut at: Time,
        mut packet: Packet,
        mut hop: MaybeIndex,
        mut from: usize,
    ) -> Carried {
        while let Some(index) = hop.get() {
            let link = &mut self.links[index as usize];
            if at > now && !link.inline && (link.expected > 0 || at.since(now) > link.lookahead) {
                link.expected += 1;
                break;
            }
            let next = link.next;
            at = match link.transmitter.pass(at, packet.bytes) {
                Some(arrives_at) => arrives_at,
                None => match self.enqueue(at, packet, index) {
                    Some((arrives_at, marked)) => {
                        if marked {
                            packet.set_ce();
                        }
                        arrives_at
                    }
                    None => return Carried::Within,
                },
            };
            packet.hop += 1;
            from = index as usize;
            hop = self.paths.after(next, &packet);
        }
        if let Some(event_at) = self.links[from].fly(at, packet, &mut self.flights) {
            self.agenda.schedule(event_at, Event::Landing(from as u32));
        }
        Carried::OnItsWay
    }

    /// Puts a packet on a link at `at`. Returns when it reaches the other end, and whether it is
    /// marked on the way. Returns `None` if it is lost, waits for an address, is held by a
    /// scheduled link, or has been released.
    #[inline(never)]
    fn enqueue(&mut self, at: Time, packet: Packet, index: u32) -> Option<(Time, bool)> {
        if self.links[index as usize].has_obstacle {
            return self.enqueue_at_head(at, &packet, index);
        }
        self.enter_queue(at, packet, index)
    }

    /// Puts a packet on a link as `enqueue` does, after what happens at the link's head.
    #[inline(never)]
    fn enqueue_at_head(&mut self, at: Time, packet: &Packet, index: u32) -> Option<(Time, bool)> {
        if let Some(reason) = self.obstruct(at, &self.without_ticket(packet), index) {
            self.lose(at, *packet, index, reason);
            return None;
        }
        if !self.resolve(at, *packet, index) {
            return None;
        }
        self.enter_queue(at, *packet, index)
    }

    /// Puts a packet into a link's queue as `enqueue` does, after everything at the link's head has
    /// let it pass.
    #[inline(always)]
    fn enter_queue(&mut self, at: Time, mut packet: Packet, index: u32) -> Option<(Time, bool)> {
        let link = &mut self.links[index as usize].transmitter;
        if link.is_scheduled() {
            let asks = link.asks();
            let mut seen = Seen::default();
            if asks.ports {
                seen.ports = packet.ports(self.ports[packet.flow() as usize]);
            }
            if asks.hosts {
                seen.dscp = self.marks.dscp(&packet);
                seen.hosts = self.marks.hosts(&packet);
            }
            if asks.acks {
                let ack = match &self.one_way {
                    Some(one_way) => one_way.without_ticket(&packet).ack(&self.pool),
                    None => packet.ack(&self.pool),
                };
                link.announce(ack.as_ref());
            }
            let due_at = link.arrive(at, packet, seen, index, &mut self.released);
            self.schedule_departure(index, due_at);
            return None;
        }
        let ecn = packet.ecn();
        let (ports, marks) = (&self.ports, &self.marks);
        let seen = |packet: &Packet| Seen {
            ports: packet.ports(ports[packet.flow() as usize]),
            hosts: marks.hosts(packet),
            dscp: marks.dscp(packet),
        };
        let passage = link.enqueue(at, &mut packet, seen, &mut self.dropped);
        let sent_at = link.transmitted_at();
        if self.links[index as usize].is_captured && !matches!(passage, Passage::Dropped(_)) {
            self.capture(index, self.without_ticket(&packet), sent_at, passage);
        }
        match passage {
            // It waits for a link that stays down.
            Passage::Arrives(Time::MAX) => {}
            Passage::Arrives(arrives_at) => return Some((arrives_at, packet.ecn() != ecn)),
            Passage::Lost => {
                self.lose(sent_at, packet, index, LossReason::Wire);
            }
            Passage::Dropped(reason) => self.lose(at, packet, index, LossReason::Queue(reason)),
        }
        None
    }

    /// Schedules an event at `due_at` for the next departure from `link`.
    fn schedule_departure(&mut self, link: u32, due_at: Option<Time>) {
        if let Some(due_at) = due_at {
            self.agenda.schedule(due_at, Event::Departure(link));
        }
    }

    /// Takes the packets that scheduled links have released as far as can be computed now.
    ///
    /// They may reach other scheduled links and make those release packets too. Such packets join
    /// the end of the list, so each link sees packets in order of time.
    fn pass_on(&mut self, now: Time) {
        let mut handled = 0;
        while let Some(&gone) = self.released.gone.get(handled) {
            handled += 1;
            let Gone { mut packet, link, passage, transmitted_at } = gone;
            if self.links[link as usize].is_captured && !matches!(passage, Passage::Dropped(_)) {
                self.capture(link, self.without_ticket(&packet), transmitted_at, passage);
            }
            match passage {
                // It waits in the ring of a link that stays down.
                Passage::Arrives(Time::MAX) => {}
                Passage::Arrives(at) => {
                    packet.hop += 1;
                    let hop = self.paths.after(self.links[link as usize].next, &packet);
                    // Packets that this makes other links release join this list too.
                    self.carry(now, at, packet, hop, link as usize);
                }
                Passage::Lost => self.lose(transmitted_at, packet, link, LossReason::Wire),
                Passage::Dropped(reason) => {
                    self.lose(transmitted_at, packet, link, LossReason::Queue(reason));
                }
            }
        }
        self.released.gone.clear();
    }

    #[cold]
    fn lose(&mut self, at: Time, mut packet: Packet, link: u32, reason: LossReason) {
        if let Some(one_way) = &mut self.one_way {
            packet.extra = one_way.take_ticket(at, packet.extra, packet.ecn(), true);
        }
        match packet.kind() {
            PacketKind::Fragment | PacketKind::Datagram => {
                self.losses.push(at, Loss { packet, link, reason });
            }
            PacketKind::Tcp | PacketKind::TooBig | PacketKind::Arp(_) => {}
        }
        packet.discard(&mut self.pool);
    }

    /// Returns the first datagram lost before `until` that has not been reported, and when its loss
    /// was certain: with fragments, when none was under way any more.
    pub(crate) fn next_loss(&mut self, until: Time) -> Option<(Time, Loss)> {
        while let Some((at, loss)) = self.losses.pop_before(until) {
            let Loss { packet, link, reason } = loss;
            if packet.kind() != PacketKind::Fragment {
                return Some((at, loss));
            }
            // The whole datagram is lost with it, which is reported only once.
            if let Some(whole) = self.fragments.lose(at, &packet, link, reason) {
                return Some((at, whole));
            }
        }
        None
    }

    /// Handles a fragment that has reached its host. Returns the datagram once it is complete.
    pub(crate) fn assemble(&mut self, now: Time, fragment: &Packet) -> Option<Packet> {
        let (_, link) = self.paths.ends(fragment.direction);
        match self.fragments.arrive(now, fragment, link) {
            Assembly::Incomplete => None,
            Assembly::Whole(whole) => Some(whole),
            Assembly::Lost(loss) => {
                self.losses.push(now, loss);
                None
            }
        }
    }

    /// Returns a packet that no host has sent with a ticket, since all packets under way have one.
    fn with_blank_ticket(&mut self, mut packet: Packet) -> Packet {
        if let Some(one_way) = &mut self.one_way {
            packet.extra = one_way.give_blank_ticket(packet.extra);
        }
        packet
    }

    /// Returns a packet under way as its ends see it.
    fn without_ticket(&self, packet: &Packet) -> Packet {
        match &self.one_way {
            Some(one_way) => one_way.without_ticket(packet),
            None => *packet,
        }
    }

    /// Captures a packet whose transmission by a link ends at `at`.
    #[cold]
    fn capture(&mut self, link: u32, packet: Packet, at: Time, passage: Passage) {
        let arrives_at = match passage {
            Passage::Arrives(arrives_at) => Some(arrives_at),
            Passage::Lost | Passage::Dropped(_) => None,
        };
        let (first, last) = self.paths.ends(packet.direction);
        let kind = packet.kind();
        let whole = (kind == PacketKind::Fragment).then(|| *self.fragments.whole(&packet));
        let shown = whole.unwrap_or(packet);
        let of_flow = self.ports[packet.flow() as usize];
        let ports = match kind {
            PacketKind::TooBig => packet.quoted_ports(of_flow),
            _ => shown.ports(of_flow),
        };
        let segment = packet.is_tcp().then(|| packet.peek_segment(&self.pool));
        self.captured.push(Taken {
            at,
            arrives_at,
            link,
            first,
            last,
            ports,
            dscp: self.marks.dscp(&packet),
            packet,
            whole,
            segment,
        });
    }
}

/// How far a packet was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// The packet is on a link's wire.
    OnItsWay,
    /// A scheduled link holds the packet, and may have released others. Or the packet is lost, or
    /// waits for an address.
    Within,
}
