//! The rules that a plan must meet.

use narrows_units::{Bytes, Span, Time};

use super::{Kind, Link, Plan, PlanError, Ring};
use crate::application::Settings;
use crate::link::MOST_IN_A_MS;
use crate::network::check_neighbours;

impl Plan {
    /// Checks everything that the simulator relies on: valid indices, connected paths, settings in
    /// range, and counts that its tables can hold.
    ///
    /// # Errors
    ///
    /// Returns the first violation.
    pub fn check(&self) -> Result<(), PlanError> {
        /// Half the largest index of an event, because connections have two ends.
        const MOST: usize = (crate::agenda::Event::MAX_INDEX / 2) as usize;
        ensure(self.end > Time::ZERO && self.end < Time::MAX, || "end: must be above zero".into())?;
        ensure(self.event_limit > 0, || "event_limit: must be above zero".into())?;
        let counts = [
            ("links", self.links.len()),
            ("paths", self.paths.len()),
            ("queue_monitors", self.queue_monitors.len()),
            ("link_monitors", self.link_monitors.len()),
        ];
        for (name, count) in counts {
            ensure(count <= MOST, || format!("{name}: {count} are more than the limit of {MOST}"))?;
        }
        for link in &self.links {
            link.check(self.nodes.len()).map_err(|why| why.inside(&link.name))?;
        }
        ensure(self.tcp.len() <= usize::from(u16::MAX), || "tcp: too many settings".into())?;
        for (index, config) in self.tcp.iter().enumerate() {
            config.check().map_err(|why| PlanError(format!("tcp {index}: {why}")))?;
        }
        for path in &self.paths {
            self.check_route(path.from, path.to, &path.links)?;
        }
        check_neighbours(self).map_err(PlanError)?;
        let mut flows = self.neighbours.len();
        for application in &self.applications {
            let uses = application
                .kind
                .check(self)
                .map_err(|why| PlanError(why).inside(&application.name))?;
            flows = flows.saturating_add(uses);
        }
        ensure(flows <= MOST, || format!("{flows} flows are more than the limit of {MOST}"))?;
        for monitor in self.queue_monitors.iter().chain(&self.link_monitors) {
            ensure(monitor.link < self.links.len(), || "monitor: no such link".into())?;
            ensure(monitor.interval > Span::ZERO, || {
                "monitor: interval must be above zero".into()
            })?;
        }
        ensure(self.goodput_interval != Some(Span::ZERO), || {
            "goodput_interval: must be above zero".into()
        })?;
        for change in &self.changes {
            ensure(change.link < self.links.len(), || "changes: no such link".into())?;
            let link = &self.links[change.link];
            ensure(link.opportunities_ms.is_none(), || {
                format!("changes: {} follows a trace", link.name)
            })?;
        }
        for capture in &self.captures {
            for link in capture.links() {
                ensure(link < self.links.len(), || "captures: no such link".into())?;
            }
            let there = &self.links[capture.link];
            ensure(
                capture
                    .back
                    .map(|back| &self.links[back])
                    .is_none_or(|back| (back.from, back.to) == (there.to, there.from)),
                || "captures: back: does not lead back".into(),
            )?;
        }
        Ok(())
    }

    /// Checks that `there` and `back` are paths between the same two nodes, in opposite directions.
    pub(crate) fn check_round_trip(&self, there: usize, back: usize) -> Result<(), String> {
        let path = |index: usize| self.paths.get(index).ok_or("path: no such path");
        let (there, back) = (path(there)?, path(back)?);
        if (there.from, there.to) != (back.to, back.from) {
            return Err("path: the way back does not lead back".into());
        }
        Ok(())
    }

    /// Checks that `server` is an application that answers; `answers` tells this from its kind.
    pub(crate) fn check_server(
        &self,
        server: usize,
        answers: impl FnOnce(&Kind) -> bool,
    ) -> Result<(), String> {
        match self.applications.get(server) {
            None => Err("server: no such application".into()),
            Some(application) if !answers(&application.kind) => {
                Err(format!("server: {:?} answers nothing like this", application.name))
            }
            Some(_) => Ok(()),
        }
    }

    fn check_route(&self, from: usize, to: usize, route: &[usize]) -> Result<(), PlanError> {
        ensure(from < self.nodes.len() && to < self.nodes.len(), || "no such node".into())?;
        ensure(!route.is_empty() && route.len() <= 255, || {
            format!("route from {} to {}: needs 1 to 255 links", self.nodes[from], self.nodes[to])
        })?;
        let mut at = from;
        for &index in route {
            let link = self.links.get(index);
            let link = link.ok_or_else(|| PlanError("route: no such link".into()))?;
            ensure(link.from == at, || {
                format!("route: {} does not start where it should", link.name)
            })?;
            at = link.to;
        }
        ensure(at == to, || format!("route does not end at {}", self.nodes[to]))
    }
}

impl Link {
    fn check(&self, nodes: usize) -> Result<(), PlanError> {
        ensure(self.from < nodes && self.to < nodes, || "no such node".into())?;
        ensure((0.0..=1.0).contains(&self.loss), || "loss: must be from 0 to 1".into())?;
        ensure(self.framing.overhead <= 1000 && self.framing.min <= 65_535, || {
            "framing: overhead is at most 1000 bytes, min at most 65535".into()
        })?;
        ensure(self.framing.queue_overhead <= 1000, || {
            "framing: queue_overhead is at most 1000 bytes".into()
        })?;
        if let Some(jitter) = &self.jitter {
            ensure((0.0..=1.0).contains(&jitter.correlation), || {
                "jitter: correlation must be from 0 to 1".into()
            })?;
            ensure(jitter.deviation <= Span::from_ms(2147), || {
                "jitter: deviation is at most 2.147 s (netem's own limit)".into()
            })?;
        }
        let ring_fits = match self.ring {
            None => true,
            Some(Ring::Packets(packets)) => packets > 0,
            Some(Ring::Bytes(bytes)) => bytes > Bytes::ZERO,
        };
        ensure(ring_fits, || "ring: must hold something".into())?;
        ensure(self.mtu >= SMALLEST_MTU, || {
            format!("mtu: must be {SMALLEST_MTU} to 65535 bytes (every host takes {SMALLEST_MTU})")
        })?;
        if let Some(ms) = &self.opportunities_ms {
            check_opportunities(ms, self.ring.is_some())?;
        }
        let queue = self.queue.clone().settled(self.rate);
        queue.check().map_err(|why| PlanError(format!("queue: {why}")))
    }
}

/// The MTU that every IPv4 host must accept (RFC 791, 3.1).
const SMALLEST_MTU: u16 = 576;

fn check_opportunities(ms: &[u32], has_ring: bool) -> Result<(), PlanError> {
    let at = |why: &str| format!("opportunities_ms: {why}");
    ensure(ms.last().is_some_and(|&last| last > 0), || at("must last for some time"))?;
    ensure(ms.is_sorted(), || at("must not fall"))?;
    // The end of one pass and the start of the next may fall on the same moment.
    let fits = ms.len() / 2 < MOST_IN_A_MS
        || ms.chunk_by(|one, other| one == other).all(|same| same.len() <= MOST_IN_A_MS / 2);
    ensure(fits, || at("has too many in one millisecond"))?;
    ensure(!has_ring, || at("a link that follows a trace has no ring"))
}

impl PlanError {
    fn inside(self, name: &str) -> Self {
        Self(format!("{name}: {}", self.0))
    }
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), PlanError> {
    if holds { Ok(()) } else { Err(PlanError(why())) }
}
