//! A directed link: a [`Transmitter`] with its queue, and the packets on their way to the next hop.
//!
//! The crate `narrows-link` has the transmitter and the wire. Here is what a network adds: the next
//! hop, the event that is pending, and how far ahead of events a link may be handled.

mod flight;
#[cfg(test)]
mod tests;

use narrows_link::Jitter;
use narrows_link::transmitter::{self, Looks, Transmitter, Waiting};
use narrows_qdisc::{Ecn, Protocol};
use narrows_transport::prefetch::{Prefetch, Step};
use narrows_units::{Bytes, MaybeTime, Rate, Span, Time};

use self::flight::Flight;
pub(crate) use self::flight::Flights;
use crate::maybe_index::MaybeIndex;
use crate::packet::{Packet, PacketKind};
use crate::paths::Next;
use crate::plan::{Link as LinkPlan, LinkChange, Topology};

/// One direction of a link. The fields that every packet touches come first and fit a cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link {
    pub(crate) transmitter: Transmitter<Packet>,
    /// The shortest time from the event that sends a packet to the packet's arrival here.
    pub(crate) lookahead: Span,
    /// When the pending event for the first packet of `flight` is due.
    pub(crate) armed: MaybeTime,
    /// How many packets on other links' flight lists have this link as their next hop.
    pub(crate) expected: u32,
    /// The next hop after this link.
    pub(crate) next: Next,
    /// Whether packets come from one place in order and nobody observes the link. Arrivals may then
    /// be handled ahead of time.
    pub(crate) inline: bool,
    /// Whether an MTU or a middlebox at its head may drop packets.
    pub(crate) has_obstacle: bool,
    /// Whether packets that it has transmitted are captured.
    pub(crate) is_captured: bool,
    /// Packets under way to the next hop, by time of arrival.
    flight: Flight,
}

const _: () = assert!(size_of::<Waiting<Packet>>() == 56);

impl Link {
    /// Creates the link `index` of the plan. `changes` are those of this link.
    pub(crate) fn new(
        plan: &Topology<'_>,
        index: usize,
        changes: &[&LinkChange],
        looks: Looks,
    ) -> Self {
        let link = &plan.links[index];
        let scheduled = plan.modes.scheduled.contains(&index);
        let config = narrows_link::Config { scheduled, ..link.into() };
        let changes: Vec<_> = changes.iter().map(|&change| change.clone().into()).collect();
        Self {
            transmitter: Transmitter::new(&config, &changes, plan.seed, &link.name, looks),
            lookahead: Span::ZERO,
            armed: MaybeTime::NONE,
            expected: 0,
            next: Next::VARIES,
            inline: false,
            has_obstacle: looks.at_head,
            is_captured: false,
            flight: Flight::EMPTY,
        }
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
    /// end, given the highest `rate`, the shortest `delay` and the longest
    /// [`lead`](Link::lead) that the link ever has.
    pub(crate) fn shortest_passage(
        plan: &LinkPlan,
        (rate, delay, lead): (Rate, Span, Span),
        ip_bytes: u16,
        foreground: bool,
    ) -> Span {
        let framed = (u32::from(ip_bytes) + plan.framing.overhead).max(plan.framing.min);
        let span = rate.time_for(Bytes::from(framed));
        if foreground && plan.dns_exempt {
            return span;
        }
        span + delay.saturating_sub(lead)
    }

    /// Returns the longest time by which jitter lets a packet arrive early.
    pub(crate) fn lead(jitter: Option<&Jitter>) -> Span {
        jitter.map_or(Span::ZERO, Jitter::longest_lead)
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
}

impl Prefetch for Link {
    #[inline(always)]
    fn prefetch(&self, (): (), step: Step) -> u32 {
        match step {
            Step::First => self.transmitter.read_times(),
            _ => self.transmitter.read_queue(),
        }
    }
}

impl transmitter::Packet for Packet {
    #[inline(always)]
    fn bytes(&self) -> u16 {
        self.bytes
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        Packet::ecn(self)
    }

    #[inline]
    fn mark(&mut self) {
        self.set_ce();
    }

    fn wash(&mut self) {
        Packet::wash(self);
    }

    #[inline]
    fn flow_hash(&self) -> u64 {
        Packet::flow_hash(self)
    }

    #[inline]
    fn protocol(&self) -> Protocol {
        match self.kind() {
            PacketKind::Tcp => Protocol::Tcp,
            PacketKind::Datagram | PacketKind::Fragment => Protocol::Udp,
            PacketKind::TooBig | PacketKind::Arp(_) => Protocol::Other,
        }
    }

    #[inline]
    fn is_foreground(&self) -> bool {
        Packet::is_foreground(self)
    }
}
