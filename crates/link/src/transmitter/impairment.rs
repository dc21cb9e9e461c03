//! What the wire does to packets besides delaying them: [`loss`](super::loss), and varying delay
//! ([`jitter`](super::jitter)).

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use narrows_qdisc::Random;
use narrows_units::{Span, Time};

use super::jitter::JitterState;
use super::loss::Losses;
use crate::transmitter::packet::Packet;
use crate::{Change, Config, Jitter, Loss};

/// Delay variation and loss.
#[derive(Debug)]
pub(super) struct Impairment {
    losses: Losses,
    jitter: Option<JitterState>,
    /// Changes of either, in order of time.
    later: VecDeque<(Time, Option<Loss>, Option<Jitter>)>,
    /// Whether foreground traffic is exempt.
    exempt: bool,
}

impl Impairment {
    /// Returns `None` if the wire always delays all packets alike and loses none.
    pub(super) fn new(config: &Config, changes: &[Change], seed: u64, name: &str) -> Option<Self> {
        let mut later: Vec<_> = changes
            .iter()
            .filter(|change| change.loss.is_some() || change.jitter.is_some())
            .map(|change| (change.at, change.loss, change.jitter))
            .collect();
        later.sort_by_key(|&(at, ..)| at);
        let varies = !config.loss.is_none() || config.jitter.is_some() || !later.is_empty();
        let loss_changes = later.iter().any(|(_, loss, _)| loss.is_some());
        let jitter_changes = later.iter().any(|(.., jitter)| jitter.is_some());
        let first = config.jitter.or(jitter_changes.then(Jitter::default));
        (varies || config.exempt_foreground).then(|| Self {
            losses: Losses::new(config.loss, seed, name, loss_changes),
            jitter: first.map(|jitter| {
                let random = Random::new(seed, &format!("{name}/jitter"));
                JitterState::new(jitter, random)
            }),
            later: later.into(),
            exempt: config.exempt_foreground,
        })
    }

    /// Makes the changes that hold for a packet whose transmission starts at `at`. Calls must come
    /// in order of time.
    #[inline]
    pub(super) fn begin(&mut self, at: Time) {
        while let Some(&(due_at, loss, jitter)) = self.later.front()
            && due_at <= at
        {
            self.later.pop_front();
            if let (Some(loss), Losses::InTurn(line)) = (loss, &mut self.losses) {
                line.change(loss);
            }
            if let (Some(jitter), Some(state)) = (jitter, &mut self.jitter) {
                state.change(&jitter);
            }
        }
    }

    /// Returns whether the wire will lose a packet that arrives at the queue, as far as that does
    /// not depend on the packets before it.
    #[inline]
    pub(super) fn loses(&mut self, packet: &impl Packet) -> bool {
        match &mut self.losses {
            Losses::Each(share, random) => {
                *share > 0.0
                    && !(self.exempt && packet.is_foreground())
                    && random.uniform() < *share
            }
            Losses::InTurn(_) => false,
        }
    }

    /// Returns whether the wire loses this packet if it is the next on the wire.
    #[inline]
    pub(super) fn loses_next(&self, packet: &impl Packet) -> bool {
        match &self.losses {
            Losses::Each(..) => false,
            Losses::InTurn(line) => line.loses_next() && !(self.exempt && packet.is_foreground()),
        }
    }

    /// Does all of this at once, for a packet whose transmission begins at a time that is known when
    /// it arrives.
    #[inline]
    pub(super) fn loses_from(&mut self, starts_at: Time, packet: &impl Packet) -> bool {
        self.begin(starts_at);
        self.loses(packet) || self.loses_next(packet)
    }

    /// Notes that a packet is on the wire.
    #[inline]
    pub(super) fn note_sent(&mut self, packet: &impl Packet) {
        if let Losses::InTurn(line) = &mut self.losses
            && !(self.exempt && packet.is_foreground())
        {
            line.advance();
        }
    }

    #[inline]
    pub(super) fn arrival(&mut self, ends_at: Time, delay: Span, packet: &impl Packet) -> Time {
        if self.exempt && packet.is_foreground() {
            return ends_at;
        }
        match &mut self.jitter {
            Some(jitter) => jitter.arrival(ends_at, delay),
            None => ends_at + delay,
        }
    }
}
