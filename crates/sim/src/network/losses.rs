//! Datagrams that are lost, until their loss happens.
//!
//! A link often knows ahead that a packet will be lost: when it joins the queue, or even before
//! that. A loss counts from the time at which it happens: a drop when the packet is dropped, a loss
//! on the wire when the transmission ends. What still waits at the end of a run is not lost. The
//! engine reports a loss before the first event that comes after it. Losses at the same time come
//! in the order of links. The records therefore do not depend on how far ahead a link has computed.

use std::collections::VecDeque;

use narrows_units::{MaybeTime, Time};

use super::Loss;

/// The losses that have not been reported, in order of time.
#[derive(Debug)]
pub(crate) struct Losses {
    /// When the first one happens.
    due: MaybeTime,
    losses: VecDeque<(Time, Loss)>,
}

impl Losses {
    pub(super) const fn new() -> Self {
        Self { due: MaybeTime::NONE, losses: VecDeque::new() }
    }

    /// Adds a loss that happens at `at`.
    pub(super) fn push(&mut self, at: Time, loss: Loss) {
        // Almost all come in order.
        let before = |&&(other, ref known): &&(Time, Loss)| (other, known.link) > (at, loss.link);
        let later = self.losses.iter().rev().take_while(before).count();
        self.losses.insert(self.losses.len() - later, (at, loss));
        self.due = self.losses[0].0.into();
    }

    /// Lets the engine look at `at`, before anything later happens.
    #[cold]
    pub(super) fn wake(&mut self, at: Time) {
        self.due = self.due.get().map_or(at, |due| due.min(at)).into();
    }

    /// Returns when the first one happens.
    #[inline(always)]
    pub(crate) const fn due(&self) -> MaybeTime {
        self.due
    }

    /// Removes the first one if it happens before `until`.
    pub(super) fn pop_before(&mut self, until: Time) -> Option<(Time, Loss)> {
        if self.due >= until.into() {
            return None;
        }
        let is_due = self.losses.front().is_some_and(|&(at, _)| at < until);
        let first = if is_due { self.losses.pop_front() } else { None };
        self.due = self.losses.front().map(|&(at, _)| at).into();
        first
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Span;

    use super::*;
    use crate::packet::Packet;
    use narrows_apps::LossReason;

    #[test]
    fn losses_come_in_order_of_time_and_then_of_links() {
        let at = |us| Time::ZERO + Span::from_us(us);
        let mut losses = Losses::new();
        assert_eq!(losses.due().get(), None);
        for (number, (us, link)) in [(3, 1), (1, 2), (3, 0), (2, 5), (3, 1)].into_iter().enumerate()
        {
            let packet = Packet::of_bytes(number as u32, 40);
            losses.push(at(us), Loss { packet, link, reason: LossReason::Wire });
        }
        assert!(losses.pop_before(at(1)).is_none(), "it has not happened");
        let mut seen = Vec::new();
        while let Some(due) = losses.due().get() {
            let (at, loss) = losses.pop_before(due + Span::from_ps(1)).expect("one is due");
            seen.push((at.as_ps() / 1_000_000, loss.link, loss.packet.socket()));
        }
        assert_eq!(seen, [(1, 2, 1), (2, 5, 3), (3, 0, 2), (3, 1, 0), (3, 1, 4)]);
    }
}
