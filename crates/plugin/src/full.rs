//! The full form: a queue that chooses which of its packets leaves, and when.

use narrows_qdisc::{Actions, AnyConfig, CannotGoOn, Chooser, Decision, PacketView, Watched};
use narrows_units::Time;

use crate::short::Checked;
use crate::{Faults, FromOutside};

/// Returns a queue as settings of a link. `make` returns what chooses, or why there is none.
pub fn full_queue<F: Chooser<Fault = FromOutside> + 'static>(
    name: &str,
    faults: &Faults,
    make: impl Fn(u64) -> Result<F, FromOutside> + Send + Sync + 'static,
) -> AnyConfig {
    let make = Checked::maker(name, faults, make);
    AnyConfig::full(name, move |seed| Box::new(make(seed)))
}

impl<F: Chooser<Fault = FromOutside>> Chooser for Checked<F> {
    type Fault = CannotGoOn;

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
}

impl<F: Chooser<Fault = FromOutside>> Watched for Checked<F> {
    fn fail(&mut self, why: &str) {
        self.report(why);
    }
}
