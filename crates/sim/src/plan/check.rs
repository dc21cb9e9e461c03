//! The rules that a plan must meet.

use narrows_apps::Settings;
use narrows_units::{Span, Time};

use super::{Link, Path, Plan, PlanError};
use crate::network::check_neighbours;

impl Plan {
    /// Checks everything that the simulator relies on: valid indices, connected paths, settings in
    /// range, and counts that its tables can hold.
    ///
    /// # Errors
    ///
    /// Returns the first of [`Plan::errors`].
    pub fn check(&self) -> Result<(), PlanError> {
        self.errors().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all violations of what [`Plan::check`] checks that do not follow from each other.
    ///
    /// It returns the first violation of each link's settings, of each set of TCP settings and of
    /// each application. Paths are checked only if all links connect nodes, and applications and
    /// neighbours only if all paths and the end of the run are sound.
    pub fn errors(&self) -> Vec<PlanError> {
        /// Half the largest index of an event, because connections have two ends.
        const MOST: usize = (crate::agenda::Event::MAX_INDEX / 2) as usize;
        let mut found = Found::default();
        let ends = self.end > Time::ZERO && self.end < Time::MAX;
        found.unless(ends, || "end: must be above zero".into());
        found.unless(self.event_limit > 0, || "event_limit: must be above zero".into());
        let counts = [
            ("links", self.links.len()),
            ("paths", self.paths.len()),
            ("queue_monitors", self.queue_monitors.len()),
            ("link_monitors", self.link_monitors.len()),
        ];
        for (name, count) in counts {
            found.unless(count <= MOST, || {
                format!("{name}: {count} are more than the limit of {MOST}")
            });
        }
        for link in &self.links {
            link.check_in(self.nodes.len(), &mut found);
        }
        found.unless(self.tcp.len() <= usize::from(u16::MAX), || "tcp: too many settings".into());
        for (index, config) in self.tcp.iter().enumerate() {
            found.take(config.check().map_err(|why| format!("tcp[{index}]: {why}")));
        }
        if self.links.iter().all(|link| link.connects(self.nodes.len())) {
            let before = found.0.len();
            for (index, path) in self.paths.iter().enumerate() {
                found.take(self.check_path(index, path));
            }
            if ends && found.0.len() == before {
                self.check_applications(MOST, &mut found);
            }
        }
        self.check_monitors(&mut found);
        self.check_changes(&mut found);
        self.check_captures(&mut found);
        self.check_codepoints(&mut found);
        found.0
    }

    /// Checks what relies on the paths and on the end of the run.
    fn check_applications(&self, most_flows: usize, found: &mut Found) {
        found.take(check_neighbours(&self.topology()));
        let environment = self.environment();
        let mut flows = self.neighbours.len();
        for application in &self.applications {
            match application.kind.check(&environment) {
                Ok(uses) => flows = flows.saturating_add(uses),
                Err(why) => found.add(format!("{}: {why}", application.name)),
            }
        }
        found.unless(flows <= most_flows, || {
            format!("{flows} flows are more than the limit of {most_flows}")
        });
    }

    fn check_monitors(&self, found: &mut Found) {
        let lists =
            [("queue_monitors", &self.queue_monitors), ("link_monitors", &self.link_monitors)];
        for (name, monitors) in lists {
            for (index, monitor) in monitors.iter().enumerate() {
                found.unless(monitor.link < self.links.len(), || {
                    format!("{name}[{index}]: no such link")
                });
                found.take(monitor.check().map_err(|why| format!("{name}[{index}]: {why}")));
            }
        }
        let mut measured = vec![false; self.links.len()];
        for (index, monitor) in self.delay_monitors.iter().enumerate() {
            let twice = measured.get_mut(monitor.link).map(|seen| std::mem::replace(seen, true));
            found.unless(twice == Some(false), || {
                let what = if twice.is_none() { "no such link" } else { "the same link again" };
                format!("delay_monitors[{index}]: {what}")
            });
        }
        found.unless(self.goodput_interval != Some(Span::ZERO), || {
            "goodput_interval: must be above zero".into()
        });
        if let Some(monitor) = &self.one_way_monitor {
            found.unless(monitor.from < monitor.to, || {
                "one_way_monitor.from: must be before to".into()
            });
            for (index, group) in monitor.groups.iter().enumerate() {
                let key = format!("one_way_monitor.groups[{index}]");
                let is_known = self.applications.iter().any(|each| each.name == *group);
                found.unless(is_known, || format!("{key}: no application has this name"));
                let is_new = !monitor.groups[..index].contains(group);
                found.unless(is_new, || format!("{key}: the same application again"));
            }
        }
        if let Some(monitor) = &self.flow_monitor {
            found.unless(monitor.interval > Span::ZERO, || {
                "flow_monitor.interval: must be above zero".into()
            });
            for (index, group) in monitor.groups.iter().enumerate() {
                let is_known = self.applications.iter().any(|each| each.name == *group);
                found.unless(is_known, || {
                    format!("flow_monitor.groups[{index}]: no application has this name")
                });
            }
        }
    }

    fn check_changes(&self, found: &mut Found) {
        for (index, change) in self.changes.iter().enumerate() {
            match self.links.get(change.link) {
                None => found.add(format!("changes[{index}]: no such link")),
                Some(link) => found.unless(link.opportunities_ms.is_none(), || {
                    format!("changes[{index}]: {} follows a trace", link.name)
                }),
            }
        }
    }

    fn check_codepoints(&self, found: &mut Found) {
        let mut known = vec![false; self.applications.len()];
        for (index, codepoint) in self.codepoints.iter().enumerate() {
            let name = |why: &str| format!("codepoints[{index}]: {why}");
            match known.get_mut(codepoint.application) {
                None => found.add(name("no such application")),
                Some(known) => {
                    found.unless(!*known, || name("the application has another one"));
                    *known = true;
                }
            }
            found.take(codepoint.check().map_err(|why| name(&why.to_string())));
        }
    }

    fn check_captures(&self, found: &mut Found) {
        let nodes = self.nodes.len();
        for (index, capture) in self.captures.iter().enumerate() {
            found.take(capture.check().map_err(|why| format!("captures[{index}]: {why}")));
            let back = capture.back.map(|back| self.links.get(back));
            match (self.links.get(capture.link), back) {
                (None, _) | (_, Some(None)) => {
                    found.add(format!("captures[{index}]: no such link"));
                }
                (Some(there), Some(Some(back))) => {
                    let connect = [there, back].iter().all(|link| link.connects(nodes));
                    let leads_back = (back.from, back.to) == (there.to, there.from);
                    found.unless(leads_back || !connect, || {
                        format!("captures[{index}]: back: does not lead back")
                    });
                }
                (Some(_), None) => {}
            }
        }
    }

    fn check_path(&self, index: usize, path: &Path) -> Result<(), String> {
        let name = |node: usize| self.nodes.get(node);
        let (Some(from), Some(to)) = (name(path.from), name(path.to)) else {
            return Err(format!("paths[{index}]: no such node"));
        };
        let broken = |why: &str| Err(format!("route from {from} to {to}: {why}"));
        if path.links.is_empty() || path.links.len() > 255 {
            return broken("needs 1 to 255 links");
        }
        let mut at = path.from;
        for &link in &path.links {
            let Some(link) = self.links.get(link) else { return broken("no such link") };
            if link.from != at {
                return broken(&format!("{} does not start where it should", link.name));
            }
            at = link.to;
        }
        if at == path.to { Ok(()) } else { broken("does not end there") }
    }
}

impl Link {
    /// Returns whether its ends are nodes.
    fn connects(&self, nodes: usize) -> bool {
        self.from < nodes && self.to < nodes
    }

    fn check_in(&self, nodes: usize, found: &mut Found) {
        let name = |why: &str| format!("{}: {why}", self.name);
        found.unless(self.connects(nodes), || name("no such node"));
        if let Some(ms) = &self.opportunities_ms {
            let checked = narrows_link::transmitter::check_opportunities(ms, self.ring.is_some());
            found.take(checked.map_err(|why| name(&format!("opportunities_ms: {why}"))));
        }
        if let Some(queue) = self.queue.unbound() {
            found.add(name(&if queue == "tc" {
                "only kernels have queues of kind tc; run it with --backend kernel".into()
            } else {
                format!("no plugin offers the queue \"{queue}\"; load it with --plugin")
            }));
            return;
        }
        let settled = || self.queue.clone().settled(self.rate).check();
        let checked = self.check().and_then(|()| settled().map_err(|why| why.inside("queue")));
        found.take(checked.map_err(|why| name(&why.to_string())));
    }
}

/// What is wrong with a plan.
#[derive(Default)]
struct Found(Vec<PlanError>);

impl Found {
    fn add(&mut self, why: String) {
        self.0.push(PlanError(why));
    }

    fn unless(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.add(why());
        }
    }

    fn take(&mut self, checked: Result<(), String>) {
        if let Err(why) = checked {
            self.add(why);
        }
    }
}
