//! Prefetching: reading ahead what the next events need.
//!
//! With many flows, almost no packet finds its flow's state in a cache, and each waits for memory a
//! dozen times. A processor can wait for many memory reads at once if it knows them in advance.
//!
//! So every few dozen events, we list the next ones and read everything that they will need before
//! the first of them runs. We read step by step, for all events together, because each step (a
//! link) shows where the next one lies (the packet that arrives there, and then its connection).
//! Prefetching changes nothing, and no result depends on it. Events that are scheduled in between
//! are not prefetched for; they run as slowly as without it.
//!
//! Source: S. Chen, A. Ailamaki, P. Gibbons, T. Mowry, "Improving Hash Join Performance through
//! Prefetching", ICDE 2004, section 4 (group prefetching), with reads in place of prefetches.
//!
//! This module knows what to read and in which order. The types that it reads implement
//! [`Prefetch`], and take no other part.

use std::hint::black_box;

use narrows_qdisc::{Coming, Qdisc};
use narrows_transport::prefetch::{Prefetch, Step};
use narrows_units::{MaybeTime, Time};

use crate::agenda::Event;
use crate::flow::Flows;
use crate::maybe_index::MaybeIndex;
use crate::network::Network;
use crate::packet::Packet;

/// The state of prefetching, and its scratch lists.
#[derive(Debug)]
pub(crate) struct Prefetcher {
    /// It prefetches next at the first event from this time on. None: never.
    due_at: MaybeTime,
    /// For each link: the number of departures until its queue is asked again for the packets that
    /// come next.
    departures: Vec<u32>,
    /// Scratch lists, used again every time.
    lists: Lists,
}

#[derive(Debug, Default)]
struct Lists {
    events: Vec<Event>,
    landings: Vec<Landing>,
    /// Directions of the TCP packets that reach their hosts.
    directions: Vec<u32>,
    /// Flow hashes of the packets that reach a scheduled link.
    flow_hashes: Vec<u64>,
    leaving: Vec<Packet>,
    /// The next links of the packets that leave a queue.
    links: Vec<u32>,
}

/// A packet that reaches the end of a link.
#[derive(Clone, Copy, Debug)]
struct Landing {
    link: u32,
    /// Its place in the store of packets under way.
    place: MaybeIndex,
    /// The place of the packet behind it.
    behind: MaybeIndex,
    /// The direction, for a TCP packet.
    direction: Option<u32>,
    /// Where it goes next: a link, or a host.
    next: MaybeIndex,
}

/// With this many flows or more, their state no longer fits into a processor's nearest caches.
const FEWEST_FLOWS: usize = 4096;
/// How many departures pass before a queue that shows no packets is asked again.
const DEPARTURES: u32 = 16;

impl Prefetcher {
    pub(crate) fn off() -> Self {
        Self { due_at: MaybeTime::NONE, departures: Vec::new(), lists: Lists::default() }
    }

    pub(crate) fn on() -> Self {
        Self { due_at: Time::ZERO.into(), ..Self::off() }
    }

    /// Returns whether reading ahead saves time in a run with this many flows.
    pub(crate) fn pays_for(flows: usize) -> bool {
        flows >= FEWEST_FLOWS
    }

    fn is_off(&self) -> bool {
        self.due_at == MaybeTime::NONE
    }

    /// Returns whether it is time to [`prefetch`](Self::prefetch), after the events up to `now`.
    #[inline(always)]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        !self.due_at.is_after(now)
    }

    /// Reads what the next events will need.
    #[inline(never)]
    pub(crate) fn prefetch(&mut self, network: &Network, flows: &Flows) {
        let Lists { events, landings, directions, flow_hashes, .. } = &mut self.lists;
        events.clear();
        self.due_at = network.agenda.foresee(events).into();
        find_packets(events, landings, network);
        read_where_they_go(landings, directions, flow_hashes, network);
        read_where_answers_go(directions, network);
        for step in [Step::First, Step::Second, Step::Third] {
            for &direction in directions.iter() {
                black_box(flows.prefetch(direction, step));
            }
        }
    }

    /// Reads what the next packets to leave a scheduled link's queue will need. Does so only every
    /// few departures, for all packets until the next time.
    #[inline(always)]
    pub(crate) fn prefetch_behind_queue(&mut self, link: u32, network: &Network) {
        if !self.is_off() {
            self.count_departure(link, network);
        }
    }

    #[inline(never)]
    fn count_departure(&mut self, link: u32, network: &Network) {
        self.departures.resize(network.links.len(), 0);
        let left = &mut self.departures[link as usize];
        if *left > 0 {
            *left -= 1;
            return;
        }
        let Lists { leaving, links, .. } = &mut self.lists;
        leaving.clear();
        if let Some(queue) = network.links[link as usize].transmitter.scheduled_queue() {
            queue.prefetch(Coming::Dequeue(&mut |waiting| leaving.push(waiting.packet)));
        }
        *left = DEPARTURES.max(leaving.len() as u32) - 1;
        links.clear();
        links.extend(leaving.iter().filter_map(|packet| {
            // The hop that the packet will have at the end of this link.
            network.paths.hop(packet.direction, packet.hop + 1).get()
        }));
        for &link in links.iter() {
            black_box(network.links[link as usize].prefetch((), Step::First));
        }
        for &link in links.iter() {
            prefetch_further(link, network);
        }
    }
}

/// Finds the packets that will reach the ends of links.
fn find_packets(events: &[Event], landings: &mut Vec<Landing>, network: &Network) {
    let (none, links) = (MaybeIndex::NONE, &network.links);
    landings.clear();
    for event in events {
        if let &Event::Landing(link) = event {
            black_box(links[link as usize].prefetch((), Step::First));
            let (place, _) = links[link as usize].flight_ends();
            landings.push(Landing { link, place, behind: none, direction: None, next: none });
        }
    }
    for landing in landings.iter_mut() {
        // Without a packet the event is out of date.
        let Some((packet, behind)) = network.flights.first(landing.place) else { continue };
        landing.behind = behind;
        landing.direction = packet.is_tcp().then_some(packet.direction);
        black_box(packet.bytes);
        landing.next = network.paths.after(links[landing.link as usize].next, packet);
    }
}

/// Reads the links that packets reach next, and lists the directions of TCP packets that reach
/// hosts.
fn read_where_they_go(
    landings: &[Landing],
    directions: &mut Vec<u32>,
    flow_hashes: &mut Vec<u64>,
    network: &Network,
) {
    directions.clear();
    flow_hashes.clear();
    let mut entered = None;
    for &Landing { place, behind, direction, next, .. } in landings {
        black_box(network.flights.prefetch(behind, Step::First));
        let Some(next) = next.get() else {
            directions.extend(direction);
            continue;
        };
        let link = &network.links[next as usize];
        black_box(link.prefetch((), Step::First));
        if entered.is_none() && link.transmitter.is_scheduled() {
            entered = Some(next);
        }
        if entered == Some(next)
            && let Some((packet, _)) = network.flights.first(place)
        {
            flow_hashes.push(packet.flow_hash());
        }
    }
    if let Some(entered) = entered
        && let Some(queue) = network.links[entered as usize].transmitter.scheduled_queue()
    {
        queue.prefetch(Coming::Enqueue(flow_hashes));
    }
}

/// Reads the links that the hosts' answers take, up to the first one that keeps packets.
fn read_where_answers_go(directions: &[u32], network: &Network) {
    for step in [Step::First, Step::Second] {
        for direction in directions {
            for link in network.paths.links_of(direction ^ 1) {
                if step == Step::First {
                    black_box(network.links[link as usize].prefetch((), step));
                } else {
                    prefetch_further(link, network);
                }
                if network.links[link as usize].transmitter.is_scheduled() {
                    break;
                }
            }
        }
    }
}

/// Reads what a link needs to take in a packet, beyond the link itself.
fn prefetch_further(link: u32, network: &Network) {
    let link = &network.links[link as usize];
    let (_, last) = link.flight_ends();
    black_box(network.flights.prefetch(last, Step::First));
    black_box(link.prefetch((), Step::Second));
}
