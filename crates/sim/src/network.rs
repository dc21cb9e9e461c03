//! The network: links, routes and what is on its way.

mod foresight;

use narrows_qdisc::Dropped;
use narrows_units::Time;

use self::foresight::Foresight;
use crate::agenda::{Agenda, Event};
use crate::captured::{Captured, Frame};
use crate::link::{Fate, Flights, Gone, Link, Passage, Released, Slot};
use crate::packet::{Packet, SackPool};
use crate::plan::Plan;
use crate::topology::{END, Routes, VARIES, find_shortcuts};

/// Kinds of events; see [`Event`].
pub(crate) mod kind {
    /// A packet comes to the end of a link (index: link).
    pub(crate) const FLIGHT: u32 = 0;
    /// A TCP timer (index: twice the connection, plus one for the receiver).
    pub(crate) const TIMER: u32 = 1;
    /// An application starts, or ends its idle time (index: connection).
    pub(crate) const SOURCE: u32 = 2;
    /// A resolver worker (index: worker).
    pub(crate) const WORKER: u32 = 3;
    /// A DNS server's reply is ready (index: slot).
    pub(crate) const REPLY: u32 = 4;
    /// A queue is sampled (index: monitor).
    pub(crate) const QUEUE_SAMPLE: u32 = 5;
    /// A link is sampled (index: monitor).
    pub(crate) const LINK_SAMPLE: u32 = 6;
    /// A queue's next packet may leave (index: link).
    pub(crate) const DEQUEUE: u32 = 7;
    /// An application stops (index: connection).
    pub(crate) const STOP: u32 = 8;
}

/// Why a DNS packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossReason {
    Queue(narrows_qdisc::DropReason),
    Wire,
}

/// A DNS packet that was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DnsLoss {
    pub(crate) attempt_row: u32,
    pub(crate) reply: bool,
    pub(crate) link: u32,
    pub(crate) reason: LossReason,
}

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) agenda: Agenda,
    pub(crate) links: Vec<Link>,
    flights: Flights,
    pub(crate) routes: Routes,
    pub(crate) pool: SackPool,
    /// DNS packets lost since the list was last emptied.
    pub(crate) dns_losses: Vec<DnsLoss>,
    pub(crate) captured: Vec<Captured>,
    /// Routes from this one on carry DNS.
    first_dns_route: u32,
    dropped: Dropped<Slot>,
    /// What scheduled links have let go, in order; handled to the end before anything else.
    released: Released,
    releasing: bool,
    foresight: Foresight,
}

impl Network {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut observed = vec![false; plan.links.len()];
        let monitors = plan.queue_monitors.iter().chain(&plan.link_monitors);
        for link in monitors.map(|monitor| monitor.link).chain(plan.captures.iter().copied()) {
            observed[link] = true;
        }
        let mut changes = vec![Vec::new(); plan.links.len()];
        for change in &plan.changes {
            changes[change.link].push(change);
        }
        let mut links: Vec<Link> = plan
            .links
            .iter()
            .zip(observed)
            .zip(changes)
            .map(|((link, observed), changes)| Link::new(link, &changes, plan.seed, observed))
            .collect();
        for &link in &plan.captures {
            links[link].observed_mut().expect("a captured link is observed").capture = true;
        }
        let routes = Routes::new(plan);
        routes.tell(&mut links);
        if plan.collapse {
            find_shortcuts(plan, &routes, &mut links);
        }
        Self {
            agenda: Agenda::new(),
            links,
            flights: Flights::new(),
            routes,
            pool: SackPool::default(),
            dns_losses: Vec::new(),
            captured: Vec::new(),
            first_dns_route: 2 * plan.connections.len() as u32,
            dropped: Vec::new(),
            released: Released::default(),
            releasing: false,
            foresight: Foresight::new(plan),
        }
    }

    /// A host sends a packet.
    ///
    /// This and [`Network::land`] are in line where they are called, so that a packet's fields stay
    /// in registers from where it is made, or lies, to the flight list that it goes to. Copies of a
    /// value that was just written in parts cost more than the rest of the way.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, packet: Packet) {
        let first = self.routes.hop(packet.route, 0);
        // The first link is entered at once, so it is never parked where it came from.
        self.forward(now, now, packet, first, END);
    }

    /// [`Network::send`] where it is rare: the packets of handshakes.
    #[inline(never)]
    pub(crate) fn send_first(&mut self, now: Time, packet: Packet) {
        self.send(now, packet);
    }

    /// A packet comes to the end of `link`, if the event is not out of date: gives it if a host
    /// is there, and sends it on if not.
    #[inline(always)]
    pub(crate) fn land(&mut self, now: Time, link: u32) -> Option<Packet> {
        let landing = &mut self.links[link as usize];
        if landing.armed != now {
            return None;
        }
        let (packet, next) = landing.land(&mut self.flights);
        let next_link = match landing.next {
            VARIES => self.routes.hop(packet.route, packet.hop),
            next => next,
        };
        if let Some(next) = next {
            self.agenda.schedule(next, Event::new(kind::FLIGHT, link));
        }
        if next_link == END {
            return Some(packet);
        }
        self.links[next_link as usize].expected -= 1;
        self.forward(now, now, packet, next_link, link);
        None
    }

    /// The next packet in a scheduled link's queue may leave.
    pub(crate) fn release(&mut self, now: Time, link: u32) {
        self.foresee_departures(link);
        let due_at = self.links[link as usize].release(now, link, &mut self.released);
        self.pass_on(now, link, due_at);
    }

    /// Brings a link that is to be looked at up to `now`.
    pub(crate) fn settle(&mut self, now: Time, link: u32) {
        if self.links[link as usize].is_scheduled() {
            self.release(now, link);
        }
        self.links[link as usize].drain(now);
    }

    /// Takes a packet that is at link `index` at `at` as far as can be told now; it comes from
    /// link `from`.
    #[inline(always)]
    fn forward(
        &mut self,
        now: Time,
        mut at: Time,
        mut packet: Packet,
        mut index: u32,
        mut from: u32,
    ) {
        while index != END {
            let link = &mut self.links[index as usize];
            if at > now && !link.inline && (link.expected > 0 || at.since(now) > link.lookahead) {
                link.expected += 1;
                break;
            }
            let next = link.next;
            at = match link.pass(at, packet.bytes) {
                Some(arrives_at) => arrives_at,
                None => match self.enqueue(now, at, packet, index) {
                    Some((arrives_at, marked)) => {
                        if marked {
                            packet.set_ce();
                        }
                        arrives_at
                    }
                    None => return,
                },
            };
            packet.hop += 1;
            from = index;
            index = match next {
                VARIES => self.routes.hop(packet.route, packet.hop),
                next => next,
            };
        }
        if let Some(event_at) = self.links[from as usize].fly(at, packet, &mut self.flights) {
            self.agenda.schedule(event_at, Event::new(kind::FLIGHT, from));
        }
    }

    /// When a packet that comes to a link at `at` gets to the other end, and whether it is marked
    /// on the way; `None`: it is lost.
    #[inline(never)]
    fn enqueue(
        &mut self,
        now: Time,
        at: Time,
        mut packet: Packet,
        index: u32,
    ) -> Option<(Time, bool)> {
        let link = &mut self.links[index as usize];
        if link.is_scheduled() {
            let due_at = link.arrive(at, packet, index, &mut self.released);
            self.pass_on(now, index, due_at);
            return None;
        }
        let ecn = packet.ecn();
        let passage = link.enqueue(at, &mut packet, &mut self.dropped);
        if link.is_captured() && !matches!(passage, Passage::Dropped(_)) {
            self.capture(index, packet, self.links[index as usize].transmitted_at());
        }
        match passage {
            Passage::Arrives(arrives_at) => return Some((arrives_at, packet.ecn() != ecn)),
            Passage::Lost => self.lose(packet, index, LossReason::Wire),
            Passage::Dropped(reason) => self.lose(packet, index, LossReason::Queue(reason)),
        }
        None
    }

    /// Schedules the next departure from `link`, if it needs an event, and takes the packets that
    /// scheduled links have let go as far as can be told now.
    ///
    /// These may come to other such links and make them let go packets: those are handled here
    /// too, behind the rest, so that each link sees packets in order of time.
    fn pass_on(&mut self, now: Time, link: u32, due_at: Option<Time>) {
        if let Some(due_at) = due_at {
            self.agenda.schedule(due_at, Event::new(kind::DEQUEUE, link));
        }
        if self.releasing {
            return;
        }
        self.releasing = true;
        let mut handled = 0;
        while let Some(&gone) = self.released.gone.get(handled) {
            handled += 1;
            let Gone { mut packet, link, fate, transmitted_at } = gone;
            let dropped = matches!(fate, Fate::Dropped(_));
            if !dropped && self.links[link as usize].is_captured() {
                self.capture(link, packet, transmitted_at);
            }
            match fate {
                Fate::Arrives(at) => {
                    packet.hop += 1;
                    let next = match self.links[link as usize].next {
                        VARIES => self.routes.hop(packet.route, packet.hop),
                        next => next,
                    };
                    self.forward(now, at, packet, next, link);
                }
                Fate::Lost => self.lose(packet, link, LossReason::Wire),
                Fate::Dropped(reason) => self.lose(packet, link, LossReason::Queue(reason)),
            }
        }
        self.released.gone.clear();
        self.releasing = false;
    }

    #[cold]
    fn lose(&mut self, packet: Packet, link: u32, reason: LossReason) {
        if packet.is_dns() {
            self.dns_losses.push(DnsLoss {
                attempt_row: packet.attempt_row(),
                reply: packet.route % 2 == 1,
                link,
                reason,
            });
        }
        packet.discard(&mut self.pool);
    }

    #[cold]
    fn capture(&mut self, link: u32, packet: Packet, at: Time) {
        let frame = if packet.is_dns() {
            Frame::Dns {
                resolvers: (packet.route - self.first_dns_route) / 2,
                worker: packet.worker(),
                // The attempt's row, until the resolvers' tables replace it.
                query: packet.attempt_row(),
                attempt: 0,
                reply: packet.route % 2 == 1,
                ip_bytes: packet.bytes,
                ce: packet.ecn() == narrows_qdisc::Ecn::Ce,
            }
        } else {
            Frame::Tcp {
                connection: packet.route / 2,
                from_sender: packet.route.is_multiple_of(2),
                segment: packet.peek_segment(&self.pool),
            }
        };
        self.captured.push(Captured { at, link, frame });
    }
}
