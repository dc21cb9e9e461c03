//! One-way delays: from the time at which a host sends a packet until its last bit reaches the host
//! at the other end of its path.
//!
//! A packet's 32 bytes have no room for the time at which it was sent. So a packet under way has a
//! *ticket* in place of its field `extra`: a number under which the time, and what the field held,
//! are kept. It gets the ticket from the host that sends it, and gives it back to the host that it
//! reaches, or where it is lost. In between, whoever reads the field asks for the packet [without
//! it](OneWay::without_ticket).
//!
//! Links are computed ahead of time, so a loss may be known before it comes about. It counts once the
//! run has come that far.

use narrows_link::transmitter::Histogram;
use narrows_units::{Ecn, Time};

use crate::packet::Packet;
use crate::plan::{OneWayMonitor, Topology};

/// The delays of a run.
#[derive(Debug)]
pub(crate) struct OneWay {
    monitor: OneWayMonitor,
    /// By application, its group: a place in the monitor's list.
    of_application: Vec<Option<u32>>,
    /// The flows of each group so far.
    flows_of_group: Vec<u32>,
    /// By flow, the class of its packets from its first end; those from the second have the next.
    /// `NOBODY` if they do not count.
    of_flow: Vec<u32>,
    classes: Vec<Class>,
    tickets: Vec<Ticket>,
    /// Tickets that no packet has.
    free: Vec<u32>,
    /// When packets are lost, in no order, and their classes, as far as they are not counted.
    losses: Vec<(Time, u32)>,
    /// How many losses may be known before they are counted.
    most_known: usize,
    packets: Vec<Sent>,
    /// Whether there were more flows or packets than can be kept.
    is_full: bool,
}

/// The packets of a group, or of one flow, in one direction.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// A place in the monitor's list.
    pub(crate) group: u32,
    /// The number of the flow in its group; `None`: all flows of the group.
    pub(crate) flow: Option<u32>,
    /// Whether they go from the flow's second end to its first.
    pub(crate) goes_back: bool,
    /// Packets that were sent.
    pub(crate) sent: u64,
    /// Packets that were lost.
    pub(crate) lost: u64,
    /// The delays of packets that arrived.
    pub(crate) delays: Histogram,
}

/// A packet of the table `packet_delays`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) sent_at: Time,
    /// When it arrives or is lost; the end of time: not known.
    pub(crate) ends_at: Time,
    pub(crate) class: u32,
    pub(crate) bytes: u16,
    /// Its ECN field when it was sent.
    pub(crate) ecn: Ecn,
    /// Whether it has become CE.
    pub(crate) marked: bool,
    pub(crate) lost: bool,
}

/// What is kept of a packet under way.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    sent_at: Time,
    /// The packet's own `extra`.
    extra: u32,
    /// `NOBODY` if the packet does not count.
    class: u32,
    /// Its place in `packets`, if these are kept.
    packet: u32,
}

/// The class of packets that do not count.
const NOBODY: u32 = u32::MAX;
/// The most packets that the table `packet_delays` can have.
pub const MOST_PACKETS: usize = 2_000_000;
/// The most flows that can have rows of their own.
pub const MOST_FLOWS: usize = 50_000;
/// Losses are counted at least this many at a time.
const AT_ONCE: usize = 1024;

impl OneWay {
    /// Returns `None` if nobody asks for delays.
    pub(super) fn new(plan: &Topology<'_>) -> Option<Box<Self>> {
        let monitor = plan.one_way_monitor?.clone();
        let group = |name: &str| monitor.groups.iter().position(|group| group == name);
        let of_application = plan
            .applications
            .iter()
            .map(|one| group(&one.name).map(|place| place as u32))
            .collect();
        let mut classes = Vec::new();
        for group in 0..monitor.groups.len() as u32 {
            classes.extend([false, true].map(|goes_back| Class::new(group, None, goes_back)));
        }
        Some(Box::new(Self {
            flows_of_group: vec![0; monitor.groups.len()],
            monitor,
            of_application,
            of_flow: Vec::new(),
            classes,
            tickets: Vec::new(),
            free: Vec::new(),
            losses: Vec::new(),
            most_known: AT_ONCE,
            packets: Vec::new(),
            is_full: false,
        }))
    }

    /// Notes a flow whose first end belongs to an application.
    pub(super) fn note_flow(&mut self, flow: u32, application: u32) {
        let place = flow as usize;
        if place >= self.of_flow.len() {
            self.of_flow.resize(place + 1, NOBODY);
        }
        let group = self.of_application.get(application as usize).copied().flatten();
        self.of_flow[place] = group.map_or(NOBODY, |group| {
            if !self.monitor.flows {
                return 2 * group;
            }
            let number = self.flows_of_group[group as usize];
            self.flows_of_group[group as usize] += 1;
            let class = self.classes.len() as u32;
            self.is_full |= self.classes.len() / 2 >= self.monitor.groups.len() + MOST_FLOWS;
            let of_flow = |goes_back| Class::new(group, Some(number), goes_back);
            self.classes.extend([false, true].map(of_flow));
            class
        });
    }

    /// Returns a ticket for a packet that a host sends at `at` in exchange for its `extra`. It
    /// takes and returns numbers, so that the packet can stay in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn give_ticket(
        &mut self,
        at: Time,
        direction: u32,
        extra: u32,
        (bytes, ecn): (u16, Ecn),
    ) -> u32 {
        let of_flow = self.of_flow.get(direction as usize / 2).copied().unwrap_or(NOBODY);
        if of_flow == NOBODY || at < self.monitor.from || at >= self.monitor.to {
            return self.give_blank_ticket(extra);
        }
        let class = of_flow + direction % 2;
        self.classes[class as usize].sent += 1;
        let mut ticket = Ticket { sent_at: at, extra, class, packet: NOBODY };
        if self.monitor.packets {
            ticket.packet = self.packets.len() as u32;
            self.is_full |= self.packets.len() >= MOST_PACKETS;
            let (ends_at, marked, lost) = (Time::MAX, false, false);
            self.packets.push(Sent { sent_at: at, ends_at, class, bytes, ecn, marked, lost });
        }
        if self.losses.len() >= self.most_known {
            self.count_until(at);
        }
        self.put(ticket)
    }

    /// Returns a ticket for a packet that does not count, because all packets under way have one.
    pub(super) fn give_blank_ticket(&mut self, extra: u32) -> u32 {
        self.put(Ticket { sent_at: Time::ZERO, extra, class: NOBODY, packet: NOBODY })
    }

    fn put(&mut self, ticket: Ticket) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.tickets[number as usize] = ticket;
                number
            }
            None => {
                self.tickets.push(ticket);
                (self.tickets.len() - 1) as u32
            }
        }
    }

    /// Takes the ticket of a packet that arrives at its host at `at`, or is lost then. Returns the
    /// packet's `extra`.
    #[cold]
    #[inline(never)]
    pub(super) fn take_ticket(&mut self, at: Time, number: u32, ecn: Ecn, lost: bool) -> u32 {
        let Ticket { sent_at, extra, class, packet: place } = self.tickets[number as usize];
        self.free.push(number);
        if class == NOBODY {
            return extra;
        }
        if let Some(sent) = self.packets.get_mut(place as usize) {
            *sent = Sent { ends_at: at, marked: ecn != sent.ecn, lost, ..*sent };
        }
        if lost {
            self.losses.push((at, class));
        } else {
            self.classes[class as usize].delays.note(at.since(sent_at));
        }
        extra
    }

    /// Returns a packet under way as its ends see it.
    pub(super) fn without_ticket(&self, packet: &Packet) -> Packet {
        let mut packet = *packet;
        packet.extra = self.tickets[packet.extra as usize].extra;
        packet
    }

    /// Counts the losses up to `now`.
    fn count_until(&mut self, now: Time) {
        let Self { losses, classes, .. } = self;
        losses.retain(|&(at, class)| {
            let later = at > now;
            classes[class as usize].lost += u64::from(!later);
            later
        });
        self.most_known = AT_ONCE.max(2 * self.losses.len());
    }

    /// Returns whether there were more flows or packets than can be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the class of what a flow's first end sends, if the flow has one of its own.
    pub(crate) fn class_of(&self, flow: u32) -> Option<usize> {
        let class = self.of_flow.get(flow as usize).copied().filter(|&class| class != NOBODY);
        class.filter(|_| self.monitor.flows).map(|class| class as usize)
    }

    /// Returns the name of a class's group.
    pub(crate) fn group(&self, class: &Class) -> &str {
        &self.monitor.groups[class.group as usize]
    }

    /// Returns the classes, with what has come about up to `now`: those of groups before those of
    /// flows. The places of these are those of `packets`.
    pub(crate) fn classes(&self, now: Time) -> Vec<Class> {
        let mut classes = self.classes.clone();
        for &(_, class) in self.losses.iter().filter(|&&(at, _)| at <= now) {
            classes[class as usize].lost += 1;
        }
        if self.monitor.flows {
            let (groups, flows) = classes.split_at_mut(2 * self.monitor.groups.len());
            for flow in flows {
                groups[2 * flow.group as usize + usize::from(flow.goes_back)].add(flow);
            }
        }
        classes
    }

    /// Returns whether the packets are kept, and these in the order in which they were sent.
    pub(crate) fn packets(&self) -> Option<&[Sent]> {
        self.monitor.packets.then_some(&self.packets)
    }
}

impl Class {
    fn new(group: u32, flow: Option<u32>, goes_back: bool) -> Self {
        Self { group, flow, goes_back, sent: 0, lost: 0, delays: Histogram::default() }
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.delays.add(&other.delays);
    }
}
