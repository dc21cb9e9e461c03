//! Isolation: what counts as a flow, and whose flows share one host's part.

use super::flows::Flow;
use crate::settings::words;
use crate::{Packet, mix};

words! {
    /// What packets are told apart by, and who shares the rate.
    pub enum Isolation {
        /// Flows, in equal parts for the busier of their source and destination host.
        Triple = "triple-isolate",
        /// Flows, in equal parts for source hosts.
        DualSource = "dual-srchost",
        /// Flows, in equal parts for destination hosts.
        DualDestination = "dual-dsthost",
        /// Flows alone.
        Flows = "flows",
        /// Source hosts: all flows of a host share a queue.
        Source = "srchost",
        /// Destination hosts.
        Destination = "dsthost",
        /// Pairs of hosts.
        Hosts = "hosts",
        /// Nothing: there is one queue.
        Blind = "flowblind",
    }
}

/// The hosts whose load divides a flow's quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) source: bool,
    pub(super) destination: bool,
}

impl Isolation {
    /// Returns the hosts that share out their part among their flows, if flows are told apart at
    /// all.
    #[inline]
    pub(super) const fn hosts(self) -> Option<Ends> {
        match self {
            Self::Triple => Some(Ends { source: true, destination: true }),
            Self::DualSource => Some(Ends { source: true, destination: false }),
            Self::DualDestination => Some(Ends { source: false, destination: true }),
            Self::Flows | Self::Source | Self::Destination | Self::Hosts | Self::Blind => None,
        }
    }
}

/// The hashes of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes {
    pub(super) flow: u32,
    pub(super) source: u32,
    pub(super) destination: u32,
}

impl Hashes {
    /// Returns the hashes of `packet`, which differ for each seed.
    #[inline]
    pub(super) fn of<P: Packet>(packet: &P, isolation: Isolation, seed: u64) -> Self {
        let hash = |key: u64, stream: u64| (mix(key, seed ^ stream) >> 32) as u32;
        let hosts = || {
            let (source, destination) = packet.hosts();
            (hash(source.into(), SOURCE), hash(destination.into(), DESTINATION))
        };
        let flow = || hash(packet.flow_hash(), 0);
        let (flow, (source, destination)) = match isolation {
            Isolation::Blind => (0, (0, 0)),
            Isolation::Flows => (flow(), (0, 0)),
            Isolation::Source => (hosts().0, (0, 0)),
            Isolation::Destination => (hosts().1, (0, 0)),
            Isolation::Hosts => {
                let (source, destination) = hosts();
                (source ^ destination, (0, 0))
            }
            Isolation::DualSource | Isolation::DualDestination | Isolation::Triple => {
                (flow(), hosts())
            }
        };
        Self { flow, source, destination }
    }
}

/// Source and destination hosts of the same number have different hashes.
const SOURCE: u64 = 0x5352_4300;
const DESTINATION: u64 = 0x4453_5400;

/// A place in the table of hosts: `struct cake_host`. Source and destination are independent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    source: End,
    destination: End,
}

/// A host as the source, or as the destination, of flows.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    tag: u32,
    /// Its flows in the bulk rotation.
    bulk: u16,
}

/// The hosts of a tin's flows.
#[derive(Clone, Debug)]
pub(super) struct Hosts(alloc::boxed::Box<[Place]>);

impl Hosts {
    pub(super) fn new(queues: usize) -> Self {
        Self(alloc::vec![Place::default(); queues].into())
    }

    /// Finds the source of these hashes, or a place for it: one without bulk flows in the set, else
    /// the first.
    pub(super) fn source(&mut self, hash: u32) -> u16 {
        find(&mut self.0, hash, |place| &mut place.source)
    }

    /// Finds the destination in the same way.
    pub(super) fn destination(&mut self, hash: u32) -> u16 {
        find(&mut self.0, hash, |place| &mut place.destination)
    }

    /// Counts a flow that has joined the bulk rotation.
    #[inline]
    pub(super) fn join(&mut self, flow: &Flow, ends: Ends) {
        if ends.source {
            self.0[usize::from(flow.source)].source.bulk += 1;
        }
        if ends.destination {
            self.0[usize::from(flow.destination)].destination.bulk += 1;
        }
    }

    /// Counts a flow that has left it.
    #[inline]
    pub(super) fn leave(&mut self, flow: &Flow, ends: Ends) {
        if ends.source {
            self.0[usize::from(flow.source)].source.bulk -= 1;
        }
        if ends.destination {
            self.0[usize::from(flow.destination)].destination.bulk -= 1;
        }
    }

    /// Returns how many bulk flows share the quantum of a flow: those of its busier host. At least
    /// 1.
    #[inline]
    pub(super) fn load(&self, flow: &Flow, ends: Ends) -> u32 {
        let mut load = 1;
        if ends.source {
            load = load.max(self.0[usize::from(flow.source)].source.bulk);
        }
        if ends.destination {
            load = load.max(self.0[usize::from(flow.destination)].destination.bulk);
        }
        load.into()
    }
}

fn find(places: &mut [Place], hash: u32, end: impl Fn(&mut Place) -> &mut End) -> u16 {
    let ways = super::hash::ways(hash);
    let known = ways.clone().find(|&way| end(&mut places[way]).tag == hash);
    let found = known
        .or_else(|| ways.clone().find(|&way| end(&mut places[way]).bulk == 0))
        .unwrap_or(super::hash::bucket(hash));
    end(&mut places[found]).tag = hash;
    found as u16
}
