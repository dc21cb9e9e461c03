//! What follows from the plan's routes before a run starts: which links may be handled ahead of
//! time, and how far.
//!
//! A packet that will reach a link at a known later time needs no event there if nothing else can
//! get in before it and nobody looks at the link meanwhile. Two cases:
//!
//! - *inline*: every packet comes from the same link, in order. Then the order of arrivals is
//!   the order in which that link took them in.
//! - *lookahead*: packets come from several places, but none sooner than some span after the event
//!   that sends them (Chandy and Misra's lookahead, CACM 24(4), 1981). A packet that arrives within
//!   that span comes before all that are sent later.
//!
//! The results are the same as with an event at every hop; a test compares them.

use narrows_units::{Rate, Span};

use crate::link::Link;
use crate::packet::IP_HEADER;
use crate::plan::Plan;

/// Routes as lists of links, one after another, each closed by [`END`].
#[derive(Debug)]
pub(crate) struct Routes {
    hops: Vec<u32>,
    /// Places that each route takes, the shorter ones with more marks at the end; 0: their lengths
    /// differ so much that `starts` tells where each begins.
    stride: u32,
    starts: Vec<u32>,
    /// Number of routes.
    len: usize,
}

/// Follows the last link of a route: there is a host.
pub(crate) const END: u32 = u32::MAX;

/// Routes go on from a link in several ways.
pub(crate) const VARIES: u32 = u32::MAX - 1;

impl Routes {
    /// Two routes for each connection (data, then acknowledgements), then two for each group of
    /// resolvers (queries, then replies).
    pub(crate) fn new(plan: &Plan) -> Self {
        let connections = plan.connections.iter().map(|c| [&c.forward, &c.backward]);
        let resolvers = plan.resolvers.iter().map(|r| [&r.forward, &r.backward]);
        let routes = || connections.clone().chain(resolvers.clone()).flatten();
        // Each route ends with a mark.
        let longest = routes().map(|links| links.len() + 1).max().unwrap_or(0);
        let sum: usize = routes().map(|links| links.len() + 1).sum();
        let len = routes().count();
        let alike = longest * len <= 2 * sum;
        let mut all = Self {
            hops: Vec::with_capacity(if alike { longest * len } else { sum }),
            stride: if alike { longest as u32 } else { 0 },
            starts: Vec::with_capacity(if alike { 0 } else { len }),
            len,
        };
        for links in routes() {
            all.push(links);
        }
        all
    }

    fn push(&mut self, links: &[usize]) {
        let start = self.hops.len();
        self.hops.extend(links.iter().map(|&link| link as u32));
        self.hops.push(END);
        if self.stride == 0 {
            self.starts.push(start as u32);
        } else {
            self.hops.resize(start + self.stride as usize, END);
        }
    }

    /// Where a route begins in `hops`.
    #[inline(always)]
    fn start(&self, route: u32) -> usize {
        match self.stride {
            0 => self.starts[route as usize] as usize,
            stride => route as usize * stride as usize,
        }
    }

    /// Hop number `hop` of a route: a link, or [`END`].
    #[inline]
    pub(crate) fn hop(&self, route: u32, hop: u8) -> u32 {
        self.hops[self.start(route) + usize::from(hop)]
    }

    /// Tells each link what follows it, where that is the same on all routes: most links need no
    /// look at the routes then.
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

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len as u32).map(|route| {
            let links = &self.hops[self.start(route)..];
            let end = links.iter().position(|&link| link == END);
            &links[..end.expect("each route ends with a mark")]
        })
    }
}

/// Where a link's packets come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feeder {
    Nothing,
    Host,
    Link(u32),
    Several,
}

impl Feeder {
    fn and(self, other: Self) -> Self {
        match self {
            Self::Nothing => other,
            _ if self == other => self,
            _ => Self::Several,
        }
    }
}

/// Sets `inline` and `lookahead` of every link. Links that are observed keep an event for each
/// packet.
pub(crate) fn find_shortcuts(plan: &Plan, routes: &Routes, links: &mut [Link]) {
    let extremes = Extremes::of_links(plan);
    let mut feeders = vec![Feeder::Nothing; links.len()];
    for route in routes.iter() {
        let mut from = Feeder::Host;
        for &link in route {
            feeders[link as usize] = feeders[link as usize].and(from);
            from = Feeder::Link(link);
        }
    }
    for (link, feeder) in links.iter_mut().zip(&feeders) {
        if let Feeder::Link(from) = feeder {
            let from = *from as usize;
            let reorders = Link::reorders(&plan.links[from]) || extremes[from].delay_varies;
            link.inline = link.observed().is_none() && !reorders;
        }
    }
    let mut lookahead: Vec<Option<Span>> = vec![None; links.len()];
    for (index, route) in routes.iter().enumerate() {
        let (bytes, dns) = smallest_packet(plan, index);
        let mut since_event = Span::ZERO;
        for &link in route {
            let at = link as usize;
            if !links[at].inline {
                let least = lookahead[at].map_or(since_event, |span| span.min(since_event));
                lookahead[at] = Some(least);
            }
            // A scheduled link sends at an event of its own.
            if !links[at].inline || links[at].is_scheduled() {
                since_event = Span::ZERO;
            }
            let Extremes { rate, delay, .. } = extremes[at];
            since_event += Link::shortest_passage(&plan.links[at], (rate, delay), bytes, dns);
        }
    }
    for (link, lookahead) in links.iter_mut().zip(lookahead) {
        if link.observed().is_none() {
            link.lookahead = lookahead.unwrap_or(Span::ZERO);
        }
    }
}

/// What a link has at most and at least, over all its changes.
#[derive(Clone, Copy)]
struct Extremes {
    /// The highest rate.
    rate: Rate,
    /// The shortest delay.
    delay: Span,
    /// A packet may overtake an earlier one, if the delay falls.
    delay_varies: bool,
}

impl Extremes {
    fn of_links(plan: &Plan) -> Vec<Self> {
        let mut extremes: Vec<Self> = plan
            .links
            .iter()
            .map(|link| Self { rate: link.rate, delay: link.delay, delay_varies: false })
            .collect();
        for change in &plan.changes {
            let of_link = &mut extremes[change.link];
            of_link.rate = of_link.rate.max(change.rate);
            if let Some(delay) = change.delay {
                of_link.delay = of_link.delay.min(delay);
                of_link.delay_varies = true;
            }
        }
        extremes
    }
}

/// The shortest IP packet that uses a route, and whether it is DNS.
fn smallest_packet(plan: &Plan, route: usize) -> (u16, bool) {
    const TCP_HEADER: u16 = 20;
    const TIMESTAMPS: u16 = 12;
    match plan.connections.get(route / 2) {
        Some(connection) => {
            let options = if plan.tcp[connection.tcp].timestamps { TIMESTAMPS } else { 0 };
            (IP_HEADER + TCP_HEADER + options, false)
        }
        None => {
            let route = route - 2 * plan.connections.len();
            let resolvers = &plan.resolvers[route / 2];
            (
                if route.is_multiple_of(2) { resolvers.query_bytes } else { resolvers.reply_bytes },
                true,
            )
        }
    }
}
