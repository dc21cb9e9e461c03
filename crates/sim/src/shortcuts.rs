//! Which links may be handled ahead of time, and how far: computed from the plan's paths before the
//! run starts.
//!
//! A packet that will reach a link at a known later time needs no event there if nothing else can
//! get in before it and nobody looks at the link meanwhile. There are two cases:
//!
//! - *inline*: every packet comes from the same link, in order. Packets then arrive in the order in
//!   which that link took them in.
//! - *lookahead*: packets come from several places, but none sooner than some span after the event
//!   that sends them (Chandy and Misra's lookahead, CACM 24(4), 1981). A packet that arrives within
//!   that span comes before all that are sent later.
//!
//! The results are the same as with an event at every hop; a test compares them.

use narrows_apps::Use;
use narrows_link::transmitter::HIGHEST_BPS;
use narrows_units::{Rate, Span};

use crate::link::Link;
use crate::network::answers;
use crate::packet::{ARP_BYTES, SHORTEST_FRAGMENT};
use crate::paths::Paths;
use crate::plan::Topology;

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

/// Returns the uses of paths by ARP packets between neighbours.
pub(crate) fn neighbour_uses<'a>(plan: &Topology<'a>) -> impl Iterator<Item = Use> + use<'a> {
    let paths = plan.neighbours.iter().flat_map(|pair| [pair.there, pair.back]);
    paths.map(|path| Use { path, bytes: ARP_BYTES, dns: false })
}

/// Returns the smallest MTU of a path's links.
fn mtu(plan: &Topology<'_>, path: usize) -> u16 {
    let links = plan.paths[path].links.iter();
    links.map(|&link| plan.links[link].mtu).min().unwrap_or(u16::MAX)
}

/// Sets `inline` and `lookahead` of every link. Links that are observed keep an event for each
/// packet.
pub(crate) fn find_shortcuts(
    plan: &Topology<'_>,
    uses: &[Use],
    paths: &Paths,
    obstacles: &[bool],
    links: &mut [Link],
) {
    let extremes = Extremes::of_links(plan);
    let mut feeders = vec![Feeder::Nothing; links.len()];
    for path in uses.iter().map(|using| using.path) {
        let mut from = Feeder::Host;
        for link in paths.links(path) {
            feeders[link as usize] = feeders[link as usize].and(from);
            from = Feeder::Link(link);
        }
    }
    // An obstacle that answers creates packets at times that cannot be known ahead. They mix with
    // the others on the links that begin at its node.
    let answering: Vec<bool> = plan
        .links
        .iter()
        .zip(obstacles)
        .map(|(link, &has_obstacle)| answers(link, has_obstacle))
        .collect();
    let mut gets_answers = vec![false; links.len()];
    if answering.contains(&true) {
        let mut answers_at = vec![false; plan.nodes.len()];
        for (link, _) in plan.links.iter().zip(&answering).filter(|&(_, &answers)| answers) {
            answers_at[link.from] = true;
        }
        for (gets, link) in gets_answers.iter_mut().zip(plan.links) {
            *gets = answers_at[link.from];
        }
    }
    for (feeder, _) in feeders.iter_mut().zip(&gets_answers).filter(|&(_, &gets)| gets) {
        *feeder = Feeder::Several;
    }
    for (link, feeder) in links.iter_mut().zip(&feeders) {
        if let Feeder::Link(from) = feeder {
            let from = *from as usize;
            let reorders = Link::reorders(&plan.links[from]) || extremes[from].delay_varies;
            link.inline = link.transmitter.observed().is_none() && !reorders;
        }
    }
    let mut lookahead: Vec<Option<Span>> = vec![None; links.len()];
    for &Use { path, bytes, dns } in uses {
        let bytes = if bytes > mtu(plan, path) { SHORTEST_FRAGMENT } else { bytes };
        let mut since_event = Span::ZERO;
        for link in paths.links(path) {
            let at = link as usize;
            if !links[at].inline {
                let least = lookahead[at].map_or(since_event, |span| span.min(since_event));
                lookahead[at] = Some(least);
            }
            // A scheduled link sends each packet at an event of its own.
            if !links[at].inline || links[at].transmitter.is_scheduled() {
                since_event = Span::ZERO;
            }
            let Extremes { rate, delay, lead, .. } = extremes[at];
            since_event += Link::shortest_passage(&plan.links[at], (rate, delay, lead), bytes, dns);
        }
    }
    for ((link, lookahead), gets_answers) in links.iter_mut().zip(lookahead).zip(gets_answers) {
        if link.transmitter.observed().is_none() && !gets_answers {
            link.lookahead = lookahead.unwrap_or(Span::ZERO);
        }
    }
}

/// The extreme values of a link over all its changes.
#[derive(Clone, Copy)]
struct Extremes {
    /// The highest rate.
    rate: Rate,
    /// The shortest delay.
    delay: Span,
    /// The longest time by which jitter lets a packet arrive early.
    lead: Span,
    /// Whether the delay or the jitter changes: if it falls, a packet may overtake an earlier one.
    delay_varies: bool,
}

impl Extremes {
    fn of_links(plan: &Topology<'_>) -> Vec<Self> {
        let mut extremes: Vec<Self> = plan
            .links
            .iter()
            .map(|link| Self {
                rate: match link.opportunities_ms {
                    Some(_) => Rate::from_bps(HIGHEST_BPS).expect("it is above zero"),
                    None => link.rate,
                },
                delay: link.delay,
                lead: Link::lead(link.jitter.as_ref()),
                delay_varies: false,
            })
            .collect();
        for change in plan.changes {
            let of_link = &mut extremes[change.link];
            of_link.rate = of_link.rate.max(change.rate);
            if let Some(delay) = change.delay {
                of_link.delay = of_link.delay.min(delay);
                of_link.delay_varies = true;
            }
            if change.jitter.is_some() {
                of_link.lead = of_link.lead.max(Link::lead(change.jitter.as_ref()));
                of_link.delay_varies = true;
            }
        }
        extremes
    }
}
