//! The plan's paths, and the path that each flow takes.

use crate::link::Link;
use crate::maybe_index::MaybeIndex;
use crate::packet::Packet;
use crate::plan::Topology;

/// Paths as lists of links, one after another. Each list ends with an empty entry, which stands for
/// the host.
#[derive(Debug)]
pub(crate) struct Paths {
    hops: Vec<MaybeIndex>,
    /// Where each path begins in `hops`.
    starts: Vec<u32>,
    /// The nodes at the start and at the end of each path.
    nodes: Vec<[u32; 2]>,
    /// Where the path of each direction begins in `hops`. A flow has two directions: one from its
    /// first end to its second, and one back.
    of_direction: Vec<u32>,
}

/// Where packets go from the end of a link: the same hop on all paths, or different ones. Takes
/// four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next(MaybeIndex);

impl Next {
    pub(crate) const VARIES: Self = Self(MaybeIndex::some(u32::MAX - 1));

    /// Creates the value for a link whose packets all go to the same link or host.
    pub(crate) const fn always(hop: MaybeIndex) -> Self {
        Self(hop)
    }

    /// Returns the next hop if it is the same on all paths.
    #[inline(always)]
    pub(crate) fn get(self) -> Option<MaybeIndex> {
        (self != Self::VARIES).then_some(self.0)
    }
}

impl Paths {
    pub(crate) fn new(plan: &Topology<'_>) -> Self {
        let mut hops = Vec::with_capacity(plan.paths.iter().map(|path| path.links.len() + 1).sum());
        let mut starts = Vec::with_capacity(plan.paths.len());
        for path in plan.paths {
            starts.push(hops.len() as u32);
            hops.extend(path.links.iter().map(|&link| MaybeIndex::some(link as u32)));
            hops.push(MaybeIndex::NONE);
        }
        let nodes = plan.paths.iter().map(|path| [path.from as u32, path.to as u32]).collect();
        Self { hops, starts, nodes, of_direction: Vec::new() }
    }

    /// Makes room for the directions of this many flows.
    pub(crate) fn reserve(&mut self, flows: usize) {
        self.of_direction.reserve_exact((2 * flows).saturating_sub(self.of_direction.len()));
    }

    /// Sets the paths that a flow takes, there and back: indices into the plan's paths. Flows are
    /// numbered from 0; a number may be used again.
    pub(crate) fn assign(&mut self, flow: u32, there: u32, back: u32) {
        let directions = 2 * flow as usize;
        if self.of_direction.len() < directions + 2 {
            self.of_direction.resize(directions + 2, 0);
        }
        self.of_direction[directions] = self.starts[there as usize];
        self.of_direction[directions + 1] = self.starts[back as usize];
    }

    /// Returns hop number `hop` of a direction: a link, or a host.
    #[inline(always)]
    pub(crate) fn hop(&self, direction: u32, hop: u8) -> MaybeIndex {
        self.hops[self.of_direction[direction as usize] as usize + usize::from(hop)]
    }

    /// Returns the next hop of a packet that has reached the end of a link.
    #[inline(always)]
    pub(crate) fn after(&self, link: Next, packet: &Packet) -> MaybeIndex {
        match link.get() {
            Some(hop) => hop,
            None => self.hop(packet.direction, packet.hop),
        }
    }

    /// Returns the links of a direction, in order.
    pub(crate) fn links_of(&self, direction: u32) -> impl Iterator<Item = u32> + '_ {
        self.hops[self.of_direction[direction as usize] as usize..]
            .iter()
            .map_while(|hop| hop.get())
    }

    /// Returns the first and the last link of a direction.
    pub(crate) fn ends(&self, direction: u32) -> (u32, u32) {
        let mut links = self.links_of(direction);
        let first = links.next().expect("the plan was checked: a path has links");
        (first, links.last().unwrap_or(first))
    }

    /// Returns where a path of the plan begins in `hops`. It is the same for all directions along
    /// that path.
    pub(crate) fn start(&self, path: u32) -> u32 {
        self.starts[path as usize]
    }

    /// Returns where the path of a direction begins in `hops`.
    pub(crate) fn start_of(&self, direction: u32) -> u32 {
        self.of_direction[direction as usize]
    }

    /// Returns the nodes at the start and at the end of a path of the plan.
    pub(crate) fn nodes(&self, path: u32) -> [u32; 2] {
        self.nodes[path as usize]
    }

    /// Returns the links of a path of the plan.
    pub(crate) fn links(&self, path: usize) -> impl Iterator<Item = u32> + '_ {
        self.hops[self.starts[path] as usize..].iter().map_while(|hop| hop.get())
    }

    /// Tells each link its next hop if that is the same on all paths. Most links then need no look
    /// at the paths.
    pub(crate) fn tell(&self, links: &mut [Link]) {
        let mut next: Vec<Option<Next>> = vec![None; links.len()];
        for pair in self.hops.windows(2) {
            let Some(link) = pair[0].get() else { continue };
            let follows = Next::always(pair[1]);
            let known = &mut next[link as usize];
            *known = match *known {
                Some(other) if other != follows => Some(Next::VARIES),
                _ => Some(follows),
            };
        }
        for (link, next) in links.iter_mut().zip(next) {
            link.next = next.unwrap_or(Next::VARIES);
        }
    }
}
