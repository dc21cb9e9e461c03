//! Neighbours: two routers that resolve each other's link-layer addresses by ARP (RFC 826).
//!
//! The states of an entry are those of Linux 6.1 (`net/core/neighbour.c`, `net/ipv4/arp.c`), with
//! the default settings of arp(7):
//!
//! - The first packet waits for an answer to a broadcast, which is sent three times, a second
//!   apart.
//! - An entry is *reachable* for 15 to 45 s after its confirmation. This time is drawn again every
//!   five minutes.
//! - Then it is *stale* until a packet needs it, and 5 s later it is *probed*: three requests to
//!   the old address, a second apart. Packets pass meanwhile.
//! - If no answer comes, it has *failed*: the next packet starts from the beginning.
//! - A request from the neighbour makes an entry without an address stale, and changes no other.
//!
//! Requests and replies are packets of 28 bytes that pass the link's queue like any other. They are
//! not ECN-capable, so an AQM drops them where it would mark ECN traffic.
//!
//! Differences:
//!
//! - Both ends are routers, so nothing above IP confirms an entry. Linux does that on hosts, when
//!   TCP makes progress (`sk_dst_confirm`).
//! - Up to 101 packets wait for an address. Linux limits their memory instead: `unres_qlen_bytes`
//!   is enough for 101 packets of full length.
//! - The sender of a packet that found no address is not told. ICMP's "host unreachable" is not
//!   modelled.

use std::collections::VecDeque;

use narrows_apps::{LossReason, Random, check_round_trip};
use narrows_units::{Span, Time};

use super::Network;
use crate::agenda::Event;
use crate::maybe_index::MaybeIndex;
use crate::packet::{Arp, Packet, PacketKind};
use crate::plan::{NeighbourPair, Topology};

/// `base_reachable_time_ms`. The time in use is half to one and a half of it.
const BASE_REACHABLE: Span = Span::from_secs(30);
/// How often the reachable time is drawn (`neigh_periodic_work`).
const REDRAW: Span = Span::from_secs(300);
/// `delay_first_probe_time`.
const DELAY_FIRST_PROBE: Span = Span::from_secs(5);
/// `retrans_time_ms`.
const RETRANSMIT: Span = Span::from_secs(1);
/// `ucast_solicit` and `mcast_solicit`.
const MOST_PROBES: u8 = 3;
/// `unres_qlen`.
const MOST_HELD: usize = 101;

/// The state of an entry, in Linux's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody has asked for the address.
    None,
    /// A broadcast asks for the address.
    Incomplete,
    /// The address is confirmed.
    Reachable,
    /// The address is known, and its confirmation too old.
    Stale,
    /// A packet has used a stale address.
    Delay,
    /// The old address is asked whether it still holds.
    Probe,
    /// Nobody has answered.
    Failed,
}

impl State {
    /// Its name as `ip neighbour` prints it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Delay => "delay",
            Self::Probe => "probe",
            Self::Failed => "failed",
        }
    }

    /// Whether packets can be sent (`NUD_VALID`).
    const fn has_address(self) -> bool {
        matches!(self, Self::Reachable | Self::Stale | Self::Delay | Self::Probe)
    }
}

/// A change of an entry's state: a row of the table `neighbours`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    /// The link that leads to the neighbour.
    pub(crate) link: u32,
    pub(crate) state: State,
}

/// All entries. Those of two neighbours are adjacent: an even index and the next.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    entries: Vec<Entry>,
    /// The entry that packets to each link need.
    of_link: Vec<MaybeIndex>,
    pub(crate) changes: Vec<Change>,
}

/// What a router knows of its neighbour at the end of a link.
#[derive(Debug)]
struct Entry {
    link: u32,
    /// The direction of ARP packets on that link.
    direction: u32,
    state: State,
    /// When the current timer is due. Earlier timer events are out of date.
    due_at: Option<Time>,
    confirmed_at: Time,
    used_at: Time,
    probes: u8,
    reachable: Span,
    drawn_at: Time,
    random: Random,
    /// Packets that wait for the address, the oldest first.
    held: VecDeque<Packet>,
}

impl Entry {
    fn new(link: usize, plan: &Topology<'_>) -> Self {
        let name = format!("neighbour of {}", plan.links[link].name);
        let mut random = Random::new(plan.seed, &name);
        Self {
            link: link as u32,
            direction: 0,
            state: State::None,
            due_at: None,
            confirmed_at: Time::ZERO,
            used_at: Time::ZERO,
            probes: 0,
            reachable: draw_reachable(&mut random),
            drawn_at: Time::ZERO,
            random,
            held: VecDeque::new(),
        }
    }

    /// Returns when a confirmation at `now` becomes too old.
    fn reachable_until(&mut self, now: Time) -> Time {
        if now.since(self.drawn_at) >= REDRAW {
            self.drawn_at = now;
            self.reachable = draw_reachable(&mut self.random);
        }
        self.confirmed_at + self.reachable
    }
}

/// `neigh_rand_reach_time`.
fn draw_reachable(random: &mut Random) -> Span {
    Span::from_secs_f64(BASE_REACHABLE.as_secs_f64() * (0.5 + random.uniform()))
}

/// Returns which links lead to a neighbour whose address has to be resolved.
pub(crate) fn find_neighbours(plan: &Topology<'_>) -> Vec<bool> {
    let mut found = vec![false; plan.links.len()];
    for &NeighbourPair { there, back } in plan.neighbours {
        for path in [there, back] {
            found[plan.paths[path].links[0]] = true;
        }
    }
    found
}

impl Neighbours {
    pub(crate) fn new(plan: &Topology<'_>) -> Self {
        let paths = plan.neighbours.iter().flat_map(|pair| [pair.there, pair.back]);
        let links: Vec<usize> = paths.map(|path| plan.paths[path].links[0]).collect();
        let mut of_link = vec![MaybeIndex::NONE; plan.links.len()];
        for (number, &link) in links.iter().enumerate() {
            of_link[link] = MaybeIndex::some(number as u32);
        }
        let entries = links.iter().map(|&link| Entry::new(link, plan)).collect();
        Self { entries, of_link, changes: Vec::new() }
    }

    /// Sets the flow that a pair uses along its paths there and back.
    pub(crate) fn set_flow(&mut self, pair: usize, flow: u32) {
        for side in 0..2 {
            self.entries[2 * pair + side].direction = 2 * flow + side as u32;
        }
    }

    /// Returns whether the plan has neighbours.
    pub(crate) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    fn enter(&mut self, now: Time, entry: usize, state: State) {
        let entry = &mut self.entries[entry];
        if entry.state != state {
            entry.state = state;
            self.changes.push(Change { at: now, link: entry.link, state });
        }
    }
}

impl Network {
    /// Returns whether a packet that reaches a link may leave. If not, it waits for the neighbour's
    /// address.
    pub(super) fn resolve(&mut self, now: Time, packet: Packet, link: u32) -> bool {
        if let PacketKind::Arp(_) = packet.kind() {
            return true;
        }
        let Some(number) = self.neighbours.of_link[link as usize].get() else { return true };
        let number = number as usize;
        let entry = &mut self.neighbours.entries[number];
        entry.used_at = now;
        match entry.state {
            State::Reachable | State::Delay | State::Probe => true,
            State::Stale => {
                self.neighbours.enter(now, number, State::Delay);
                self.set_neighbour_timer(number, now + DELAY_FIRST_PROBE);
                true
            }
            State::None | State::Failed => {
                entry.probes = 0;
                entry.held.push_back(packet);
                self.neighbours.enter(now, number, State::Incomplete);
                self.probe(now, number);
                false
            }
            State::Incomplete => {
                entry.held.push_back(packet);
                // Linux drops the packet that has waited longest.
                if entry.held.len() > MOST_HELD
                    && let Some(oldest) = entry.held.pop_front()
                {
                    self.lose(now, oldest, link, LossReason::NoNeighbour);
                }
                false
            }
        }
    }

    /// Handles the timer of an entry (`neigh_timer_handler`).
    pub(crate) fn handle_neighbour_timer(&mut self, now: Time, number: u32) {
        let number = number as usize;
        let entry = &mut self.neighbours.entries[number];
        if entry.due_at != Some(now) {
            return;
        }
        entry.due_at = None;
        match entry.state {
            State::Reachable => {
                let until = entry.reachable_until(now);
                if now < until {
                    self.set_neighbour_timer(number, until);
                } else if now <= entry.used_at + DELAY_FIRST_PROBE {
                    self.neighbours.enter(now, number, State::Delay);
                    self.set_neighbour_timer(number, now + DELAY_FIRST_PROBE);
                } else {
                    self.neighbours.enter(now, number, State::Stale);
                }
            }
            State::Delay => {
                entry.probes = 0;
                self.neighbours.enter(now, number, State::Probe);
                self.probe(now, number);
            }
            State::Probe | State::Incomplete if entry.probes < MOST_PROBES => {
                self.probe(now, number);
            }
            State::Probe | State::Incomplete => {
                self.neighbours.enter(now, number, State::Failed);
                let entry = &mut self.neighbours.entries[number];
                let link = entry.link;
                for packet in std::mem::take(&mut entry.held) {
                    self.lose(now, packet, link, LossReason::NoNeighbour);
                }
            }
            State::None | State::Stale | State::Failed => {}
        }
        self.pass_on(now);
    }

    /// Handles an ARP packet that has reached the other end of its link.
    pub(crate) fn handle_arp(&mut self, now: Time, packet: &Packet, arp: Arp) {
        // The sender's entry and the receiver's are adjacent.
        let number = packet.arp_entry() as usize ^ 1;
        let state = self.neighbours.entries[number].state;
        match arp {
            Arp::Request { .. } => {
                if !state.has_address() {
                    self.neighbours.enter(now, number, State::Stale);
                    self.neighbours.entries[number].due_at = None;
                    self.release_held(now, number);
                }
                self.send_arp(now, number, Arp::Reply);
            }
            Arp::Reply => {
                let entry = &mut self.neighbours.entries[number];
                entry.confirmed_at = now;
                let until = entry.reachable_until(now);
                self.neighbours.enter(now, number, State::Reachable);
                self.set_neighbour_timer(number, until);
                self.release_held(now, number);
            }
        }
        self.pass_on(now);
    }

    /// Asks for the address, and again after a second.
    fn probe(&mut self, now: Time, number: usize) {
        let entry = &mut self.neighbours.entries[number];
        entry.probes += 1;
        let broadcast = entry.state == State::Incomplete;
        self.set_neighbour_timer(number, now + RETRANSMIT);
        self.send_arp(now, number, Arp::Request { broadcast });
    }

    fn set_neighbour_timer(&mut self, number: usize, due_at: Time) {
        self.neighbours.entries[number].due_at = Some(due_at);
        self.agenda.schedule(due_at, Event::Neighbour(number as u32));
    }

    fn send_arp(&mut self, now: Time, number: usize, arp: Arp) {
        let entry = &self.neighbours.entries[number];
        let (direction, link) = (entry.direction, entry.link);
        let packet = Packet::arp_message(direction, number as u32, arp);
        let packet = self.with_blank_ticket(packet);
        let hop = self.paths.hop(direction, 0);
        self.carry(now, now, packet, hop, link as usize);
    }

    /// Sends the packets that waited for an address.
    fn release_held(&mut self, now: Time, number: usize) {
        let entry = &mut self.neighbours.entries[number];
        let (held, link) = (std::mem::take(&mut entry.held), entry.link);
        for mut packet in held {
            // Sending uses the entry, which may be stale.
            if self.resolve(now, packet, link)
                && let Some((arrives_at, marked)) = self.enter_queue(now, packet, link)
            {
                if marked {
                    packet.set_ce();
                }
                packet.hop += 1;
                let hop = self.paths.after(self.links[link as usize].next, &packet);
                self.carry(now, arrives_at, packet, hop, link as usize);
            }
        }
    }
}

/// Checks the rules for neighbours in the plan.
pub(crate) fn check(plan: &Topology<'_>) -> Result<(), String> {
    let mut is_neighbours = vec![false; plan.paths.len()];
    let mut is_resolved = vec![false; plan.links.len()];
    for pair in plan.neighbours {
        check_round_trip(plan.paths, pair.there, pair.back)?;
        for index in [pair.there, pair.back] {
            let [link] = plan.paths[index].links[..] else {
                return Err("neighbours: their path is one link".into());
            };
            if is_resolved[link] {
                return Err(format!("neighbours: {} is named twice", plan.links[link].name));
            }
            is_resolved[link] = true;
            is_neighbours[index] = true;
        }
    }
    if plan.neighbours.is_empty() {
        return Ok(());
    }
    let mut is_end = vec![false; plan.nodes.len()];
    for (path, _) in plan.paths.iter().zip(&is_neighbours).filter(|&(_, &neighbours)| !neighbours) {
        is_end[path.from] = true;
        is_end[path.to] = true;
    }
    let ends = plan.neighbours.iter().flat_map(|pair| [pair.there, pair.back]);
    match ends.map(|path| plan.paths[path].from).find(|&node| is_end[node]) {
        Some(node) => {
            Err(format!("neighbours: {} is an end of traffic, and not a router", plan.nodes[node]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
