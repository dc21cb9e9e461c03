//! The short form: a queue that decides about packets, which wait first in, first out.

use narrows_qdisc::{AnyConfig, Backlog, CannotGoOn, Decider, Decision, PacketView};
use narrows_units::Time;

use crate::{Faults, FromOutside, Part};

/// Decides about the packets of a queue that is first in, first out.
pub trait Short: Send + Sync {
    /// Decides about a packet that arrives. `backlog` is what waits without it.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn admit(
        &mut self,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside>;

    /// Decides about the packet in front when it could leave. `backlog` counts it too.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn release(
        &mut self,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside>;
}

/// Returns a queue for at most `limit` packets as settings of a link. `make` returns what decides, or
/// why there is none. `releases`: whether [`Short::release`] decides anything.
pub fn short_queue<S: Short + 'static>(
    name: &str,
    limit: u32,
    releases: bool,
    faults: &Faults,
    make: impl Fn(u64) -> Result<S, FromOutside> + Send + Sync + 'static,
) -> AnyConfig {
    let make = Checked::maker(name, faults, make);
    AnyConfig::short(name, limit, releases, move |seed| Box::new(make(seed)))
}

/// A part whose errors are reported. After the first fault of a run it is not asked any more.
pub(crate) struct Checked<S> {
    name: String,
    /// None: it could not be made, which is reported.
    part: Option<S>,
    faults: Faults,
}

impl<S> Checked<S> {
    /// Returns what makes a part from a seed.
    pub(crate) fn maker(
        name: &str,
        faults: &Faults,
        make: impl Fn(u64) -> Result<S, FromOutside> + Send + Sync + 'static,
    ) -> impl Fn(u64) -> Self + Send + Sync + 'static {
        let (name, faults) = (name.to_owned(), faults.clone());
        move |seed| {
            let mut made = Self { name: name.clone(), part: None, faults: faults.clone() };
            match make(seed) {
                Ok(part) => made.part = Some(part),
                Err(why) => made.report(why),
            }
            made
        }
    }

    pub(crate) fn report(&self, why: impl Into<FromOutside>) {
        self.faults.report(Part::Queue, &self.name, why);
    }

    #[inline]
    pub(crate) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut S) -> Result<T, FromOutside>,
    ) -> Result<T, CannotGoOn> {
        let Some(part) = self.part.as_mut().filter(|_| !self.faults.any()) else {
            return Err(CannotGoOn);
        };
        ask(part).map_err(|why| {
            self.report(why);
            CannotGoOn
        })
    }
}

impl<S: Short> Decider for Checked<S> {
    fn admit(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision {
        self.ask(|short| short.admit(backlog, now, packet)).unwrap_or(Decision::Pass)
    }

    fn release(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision {
        self.ask(|short| short.release(backlog, now, packet)).unwrap_or(Decision::Pass)
    }
}
