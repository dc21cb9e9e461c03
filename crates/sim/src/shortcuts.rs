//! What follows from the plan's paths before a run starts: which links may be handled ahead of
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
use crate::paths::Paths;
use crate::plan::Plan;

/// A path, and the shortest IP packet that some application sends along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    /// An index into the plan's paths.
    pub(crate) path: usize,
    /// Length of the IP packet.
    pub(crate) bytes: u16,
    /// It is DNS, which some links spare their delay.
    pub(crate) dns: bool,
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
pub(crate) fn find_shortcuts(plan: &Plan, uses: &[Use], paths: &Paths, links: &mut [Link]) {
    let extremes = Extremes::of_links(plan);
    let mut feeders = vec![Feeder::Nothing; links.len()];
    for path in uses.iter().map(|using| using.path) {
        let mut from = Feeder::Host;
        for link in paths.links(path) {
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
    for &Use { path, bytes, dns } in uses {
        let mut since_event = Span::ZERO;
        for link in paths.links(path) {
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
