//! The short form: a queue that decides about packets, which wait first in, first out.

use std::collections::VecDeque;
use std::fmt;

use narrows_qdisc::{Backlog, Counters, DropReason, Dropped, Packet, Qdisc, Verdict};
use narrows_units::Time;

use crate::packet::{less, more};
use crate::{Decision, Faults, FromOutside, PacketView, Part};

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

    /// Returns whether [`release`](Self::release) can decide anything.
    fn releases(&self) -> bool {
        true
    }
}

struct Waiting<P> {
    packet: P,
    arrived: Time,
    marked: bool,
}

/// The queue of a [`Short`].
pub struct ShortQueue<P, S> {
    name: String,
    short: S,
    /// The most packets that wait.
    limit: u32,
    packets: VecDeque<Waiting<P>>,
    backlog: Backlog,
    counters: Counters,
    /// Packets that have been let in.
    admitted: u64,
    releases: bool,
    faults: Faults,
}

impl<P: Packet, S: Short> ShortQueue<P, S> {
    /// Creates an empty queue for at most `limit` packets.
    pub fn new(name: &str, short: S, limit: u32, faults: Faults) -> Self {
        Self {
            name: name.to_owned(),
            releases: short.releases(),
            short,
            limit,
            packets: VecDeque::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            admitted: 0,
            faults,
        }
    }

    fn decided(&mut self, decision: Result<Decision, FromOutside>, packet: &P) -> Decision {
        match decision {
            Ok(decision) => decision.on(packet.ecn()),
            Err(why) => {
                self.faults.report(Part::Queue, &self.name, why);
                Decision::Pass
            }
        }
    }
}

impl<P: Packet, S: Short> Qdisc<P> for ShortQueue<P, S> {
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.on_arrival(bytes);
        if self.backlog.packets >= self.limit {
            self.counters.on_drop(bytes, DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
            return Verdict::Dropped;
        }
        let mut decision = Decision::Pass;
        if !self.faults.any() {
            let view = PacketView::of(&packet, self.admitted, now);
            let answer = self.short.admit(self.backlog, now, &view);
            decision = self.decided(answer, &packet);
        }
        if decision == Decision::Drop {
            self.counters.on_drop(bytes, DropReason::Early);
            dropped.push((packet, DropReason::Early));
            return Verdict::Dropped;
        }
        let marked = decision == Decision::Mark;
        if marked {
            packet.mark();
            self.counters.marked_early += 1;
        }
        self.admitted += 1;
        more(&mut self.backlog, bytes);
        self.packets.push_back(Waiting { packet, arrived: now, marked });
        if marked { Verdict::Marked } else { Verdict::Queued }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        loop {
            let Waiting { mut packet, arrived, marked } = self.packets.pop_front()?;
            let bytes = packet.bytes();
            let mut decision = Decision::Pass;
            if self.releases && !self.faults.any() {
                let number = self.admitted - u64::from(self.backlog.packets);
                let view = PacketView::of(&packet, number, arrived);
                let answer = self.short.release(self.backlog, now, &view);
                decision = self.decided(answer, &packet);
            }
            less(&mut self.backlog, bytes);
            if decision == Decision::Drop {
                self.counters.on_drop(bytes, DropReason::Early);
                dropped.push((packet, DropReason::Early));
                continue;
            }
            if decision == Decision::Mark && !marked {
                packet.mark();
                self.counters.marked_early += 1;
            }
            self.counters.on_departure(bytes);
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P, S> fmt::Debug for ShortQueue<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
