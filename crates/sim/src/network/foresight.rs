//! With many flows almost every packet finds its flow's state in no cache, and waits for memory a
//! dozen times. A processor can wait for many things at once, if it knows them.
//!
//! So a look at the agenda every few dozen events says what these will need, and all of it is read
//! before the first of them: step by step, for all events together, because what is read in one step
//! (a link) shows where the next lies (the packet that arrives there, and then its connection).
//! Nothing is changed, and nothing depends on it. What is scheduled in between is not foreseen, and
//! takes its time as it would without.
//!
//! Source: S. Chen, A. Ailamaki, P. Gibbons, T. Mowry, "Improving Hash Join Performance through
//! Prefetching", ICDE 2004, section 4 (group prefetching), with reads in place of prefetches.

use std::hint::black_box;

use super::Network;
use crate::agenda::Event;
use crate::packet::Packet;
use crate::paths::{END, VARIES};

/// Lists that are used again at every look.
#[derive(Debug)]
pub(super) struct Foresight {
    /// There are enough flows for it.
    pays: bool,
    events: Vec<Event>,
    landings: Vec<Landing>,
    /// Ways of TCP's packets that come to their hosts.
    ways: Vec<u32>,
    /// Flows of the packets that come to a scheduled link.
    flow_hashes: Vec<u64>,
    departures: Vec<Packet>,
}

/// A packet that comes to the end of a link.
#[derive(Clone, Copy, Debug)]
struct Landing {
    link: u32,
    /// Its place among those under way.
    place: u32,
    /// The place of the packet behind it.
    behind: u32,
    /// The way of a TCP packet.
    way: Option<u32>,
    /// What follows: a link, or [`END`].
    next: u32,
}

/// From so many flows on what they need is more than the caches near a processor hold.
const FEWEST_FLOWS: usize = 4096;

impl Foresight {
    pub(super) fn new() -> Self {
        Self {
            pays: false,
            events: Vec::new(),
            landings: Vec::new(),
            ways: Vec::new(),
            flow_hashes: Vec::new(),
            departures: Vec::new(),
        }
    }
}

impl Network {
    pub(crate) fn set_foresight(&mut self, on: bool) {
        self.foresight.pays = on;
    }

    /// A run begins with so many flows.
    pub(crate) fn foresee_from(&mut self, flows: usize) {
        self.foresight.pays = flows >= FEWEST_FLOWS;
    }

    /// Whether it is time to [`foresee`](Self::foresee).
    #[inline(always)]
    pub(crate) fn is_unforeseen(&self) -> bool {
        self.foresight.pays && self.agenda.is_unforeseen()
    }

    /// Reads what the next events will need of the network. Gives the ways of TCP's packets that
    /// come to their hosts.
    #[inline(never)]
    pub(crate) fn foresee(&mut self) -> &[u32] {
        let Self { agenda, links, flights, paths, foresight, .. } = self;
        let Foresight { events, landings, ways: ends, flow_hashes, .. } = foresight;
        events.clear();
        agenda.foresee(events);
        landings.clear();
        for event in events {
            if let &mut Event::Landing(link) = event {
                let (place, _) = links[link as usize].touch();
                landings.push(Landing { link, place, behind: 0, way: None, next: END });
            }
        }
        for landing in landings.iter_mut() {
            // Without a packet the event is out of date.
            let Some((packet, behind)) = flights.first(landing.place) else { continue };
            landing.behind = behind;
            landing.way = (!packet.is_udp()).then_some(packet.way);
            black_box(packet.bytes);
            landing.next = match links[landing.link as usize].next {
                VARIES => paths.hop(packet.way, packet.hop),
                next => next,
            };
        }
        ends.clear();
        flow_hashes.clear();
        let mut entered = END;
        for &Landing { place, behind, way, next, .. } in landings.iter() {
            black_box(flights.touch(behind));
            if next == END {
                ends.extend(way);
                continue;
            }
            black_box(links[next as usize].touch());
            if entered == END && links[next as usize].is_scheduled() {
                entered = next;
            }
            if entered == next
                && let Some((packet, _)) = flights.first(place)
            {
                flow_hashes.push(packet.flow_hash());
            }
        }
        if entered != END {
            links[entered as usize].foresee_arrivals(flow_hashes);
        }
        // What the hosts answer takes the other way.
        for answers in [false, true] {
            for way in ends.iter() {
                let mut hop = 0;
                while let link = paths.hop(way ^ 1, hop)
                    && link != END
                {
                    let link = &links[link as usize];
                    if answers {
                        link.touch_further(flights);
                    } else {
                        black_box(link.touch());
                    }
                    if link.is_scheduled() {
                        break;
                    }
                    hop += 1;
                }
            }
        }
        ends
    }

    /// Reads what packets will need that leave a scheduled link, every so many packets.
    #[inline(always)]
    pub(super) fn foresee_departures(&mut self, link: u32) {
        if self.foresight.pays {
            self.foresight.departures.clear();
            self.links[link as usize].foresee_departures(&mut self.foresight.departures);
            if !self.foresight.departures.is_empty() {
                self.foresee_passages();
            }
        }
    }

    /// Reads what departing packets will need where they go.
    #[inline(never)]
    fn foresee_passages(&mut self) {
        let Self { links, flights, paths, foresight, .. } = self;
        let Foresight { departures, ways: next, .. } = foresight;
        next.clear();
        next.extend(departures.iter().map(|packet| paths.hop(packet.way, packet.hop + 1)));
        next.retain(|&link| link != END);
        for &link in next.iter() {
            black_box(links[link as usize].touch());
        }
        for &link in next.iter() {
            links[link as usize].touch_further(flights);
        }
    }
}
