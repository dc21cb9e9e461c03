//! The full form: a queue that chooses which of its packets leaves, and when.

use narrows_qdisc::{Actions, AnyConfig, CannotGoOn, Chooser, Decision, PacketView};
use narrows_units::Time;

use crate::short::Checked;
use crate::{Faults, FromOutside};

/// Keeps the handles of the packets of a queue.
pub trait Full: Send + Sync {
    /// Decides about a packet that arrives. If it passes, the queue has it.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn enqueue(
        &mut self,
        now: Time,
        packet: &PacketView,
        actions: &mut Actions,
    ) -> Result<Decision, FromOutside>;

    /// Returns the handle of the packet that leaves now.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn dequeue(&mut self, now: Time, actions: &mut Actions) -> Result<Option<u64>, FromOutside>;

    /// Returns when to ask again, after `dequeue` returned `None` at `now` although packets wait.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn ready_at(&self, now: Time) -> Result<Option<Time>, FromOutside>;
}

/// Returns a queue as settings of a link. `make` returns what chooses, or why there is none.
pub fn full_queue<F: Full + 'static>(
    name: &str,
    faults: &Faults,
    make: impl Fn(u64) -> Result<F, FromOutside> + Send + Sync + 'static,
) -> AnyConfig {
    let make = Checked::maker(name, faults, make);
    AnyConfig::full(name, move |seed| Box::new(make(seed)))
}

impl<F: Full> Chooser for Checked<F> {
    fn enqueue(
        &mut self,
        now: Time,
        packet: &PacketView,
        actions: &mut Actions,
    ) -> Result<Decision, CannotGoOn> {
        self.ask(|full| full.enqueue(now, packet, actions))
    }

    fn dequeue(&mut self, now: Time, actions: &mut Actions) -> Result<Option<u64>, CannotGoOn> {
        self.ask(|full| full.dequeue(now, actions))
    }

    fn ready_at(&mut self, now: Time) -> Result<Option<Time>, CannotGoOn> {
        self.ask(|full| full.ready_at(now))
    }

    fn fail(&mut self, why: &str) {
        self.report(why);
    }
}
