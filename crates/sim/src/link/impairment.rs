//! What the wire does to packets besides delaying them: loss, and varying delay
//! ([`jitter`](super::jitter)).

use narrows_apps::Random;
use narrows_units::{Span, Time};

use super::jitter::JitterState;
use crate::packet::Packet;
use crate::plan::Link as LinkPlan;

/// Delay variation and loss.
#[derive(Debug)]
pub(super) struct Impairment {
    loss: f64,
    random: Random,
    jitter: Option<JitterState>,
    /// Whether foreground traffic is exempt.
    exempt: bool,
}

impl Impairment {
    /// Returns `None` if the wire only delays all packets alike.
    pub(super) fn new(plan: &LinkPlan, seed: u64) -> Option<Self> {
        let impaired = plan.loss > 0.0 || plan.jitter.is_some() || plan.dns_exempt;
        impaired.then(|| Self {
            loss: plan.loss,
            random: Random::new(seed, &format!("{}/loss", plan.name)),
            jitter: plan.jitter.map(|jitter| {
                let random = Random::new(seed, &format!("{}/jitter", plan.name));
                JitterState::new(jitter, random)
            }),
            exempt: plan.dns_exempt,
        })
    }

    pub(super) fn loses(&mut self, packet: &Packet) -> bool {
        self.loss > 0.0
            && !(self.exempt && packet.is_foreground())
            && self.random.uniform() < self.loss
    }

    pub(super) fn arrival(&mut self, ends_at: Time, delay: Span, packet: &Packet) -> Time {
        if self.exempt && packet.is_foreground() {
            return ends_at;
        }
        match &mut self.jitter {
            Some(jitter) => jitter.arrival(ends_at, delay),
            None => ends_at + delay,
        }
    }
}
