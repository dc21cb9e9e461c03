//! The plan's paths, and which of them each flow takes.

use crate::link::Link;
use crate::plan::Plan;

/// Paths as lists of links, one after another, each closed by [`END`].
#[derive(Debug)]
pub(crate) struct Paths {
    hops: Vec<u32>,
    /// Where each path begins in `hops`.
    starts: Vec<u32>,
    /// The nodes at the start and at the end of each path.
    nodes: Vec<[u32; 2]>,
    /// Where the path of each way begins in `hops`. A flow has two ways: from its first end to its
    /// second, and back.
    of_way: Vec<u32>,
}

/// Follows the last link of a path: there is a host.
pub(crate) const END: u32 = u32::MAX;

/// Paths go on from a link in several ways.
pub(crate) const VARIES: u32 = u32::MAX - 1;

impl Paths {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut hops = Vec::with_capacity(plan.paths.iter().map(|path| path.links.len() + 1).sum());
        let mut starts = Vec::with_capacity(plan.paths.len());
        for path in &plan.paths {
            starts.push(hops.len() as u32);
            hops.extend(path.links.iter().map(|&link| link as u32));
            hops.push(END);
        }
        let nodes = plan.paths.iter().map(|path| [path.from as u32, path.to as u32]).collect();
        Self { hops, starts, nodes, of_way: Vec::new() }
    }

    /// Makes room for the ways of so many flows.
    pub(crate) fn reserve(&mut self, flows: usize) {
        self.of_way.reserve_exact((2 * flows).saturating_sub(self.of_way.len()));
    }

    /// Says which paths a flow takes, there and back: indices into the plan's. Flows are numbered
    /// from 0; a number may be used again.
    pub(crate) fn assign(&mut self, flow: u32, there: u32, back: u32) {
        let ways = 2 * flow as usize;
        if self.of_way.len() < ways + 2 {
            self.of_way.resize(ways + 2, 0);
        }
        self.of_way[ways] = self.starts[there as usize];
        self.of_way[ways + 1] = self.starts[back as usize];
    }

    /// Hop number `hop` of a way: a link, or [`END`].
    #[inline(always)]
    pub(crate) fn hop(&self, way: u32, hop: u8) -> u32 {
        self.hops[self.of_way[way as usize] as usize + usize::from(hop)]
    }

    /// The first and the last link of a way.
    pub(crate) fn ends(&self, way: u32) -> (u32, u32) {
        let mut hop = 0;
        let mut last = END;
        while let link = self.hop(way, hop)
            && link != END
        {
            last = link;
            hop += 1;
        }
        (self.hop(way, 0), last)
    }

    /// The nodes at the start and at the end of a path of the plan.
    pub(crate) fn nodes(&self, path: u32) -> [u32; 2] {
        self.nodes[path as usize]
    }

    /// The links of a path of the plan.
    pub(crate) fn links(&self, path: usize) -> &[u32] {
        let links = &self.hops[self.starts[path] as usize..];
        let end = links.iter().position(|&link| link == END);
        &links[..end.expect("each path ends with a mark")]
    }

    /// Tells each link what follows it, where that is the same on all paths: most links need no
    /// look at the paths then.
    pub(crate) fn tell(&self, links: &mut [Link]) {
        let mut next: Vec<Option<u32>> = vec![None; links.len()];
        for pair in self.hops.windows(2).filter(|pair| pair[0] != END) {
            let known = &mut next[pair[0] as usize];
            *known = match *known {
                None => Some(pair[1]),
                Some(other) if other == pair[1] => Some(other),
                Some(_) => Some(VARIES),
            };
        }
        for (link, next) in links.iter_mut().zip(next) {
            link.next = next.unwrap_or(VARIES);
        }
    }
}
