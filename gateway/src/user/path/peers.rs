//! Where the clients are, and how much each asks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::time::Duration;

use super::super::peer::Peer;

/// A client address at a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its entries.
    pub connections: u64,
    /// Its queries since it was last silent for the lifetime of an entry.
    pub asked: u64,
}

/// Which peers the clients with entries are behind. The core needs this for FINs that it sends on
/// its own.
///
/// There are two generations. The older one is dropped when the younger one reaches the maximum age
/// of an entry.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) young: HashMap<IpAddr, Known>,
    pub(super) old: HashMap<IpAddr, Known>,
    born_at: Duration,
    limit: usize,
    life: Duration,
}

/// A client in [`Peers`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    peer: Peer,
    /// Its queries.
    pub(super) asked: u64,
}

impl Peers {
    pub(super) fn new(limit: usize, life: Duration) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), born_at: Duration::ZERO, limit, life }
    }

    pub(super) fn note(&mut self, client: IpAddr, peer: Peer) {
        let full = self.young.len() >= self.limit;
        match self.young.entry(client) {
            Entry::Occupied(mut known) => {
                let asked = known.get().asked + 1;
                known.insert(Known { peer, asked });
            }
            Entry::Vacant(place) if !full => {
                let asked = self.old.get(&client).map_or(0, |known| known.asked) + 1;
                place.insert(Known { peer, asked });
            }
            Entry::Vacant(_) => {}
        }
    }

    pub(super) fn find(&self, client: IpAddr) -> Option<Peer> {
        self.known(client).map(|known| known.peer)
    }

    fn known(&self, client: IpAddr) -> Option<&Known> {
        self.young.get(&client).or_else(|| self.old.get(&client))
    }

    pub(super) fn age(&mut self, now: Duration) {
        if now.saturating_sub(self.born_at) >= self.life {
            self.old = std::mem::take(&mut self.young);
            self.born_at = now;
        }
    }
}
