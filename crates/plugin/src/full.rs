//! The full form: a queue that chooses which of its packets leaves, and when.

use std::fmt;

use narrows_qdisc::{Backlog, Counters, DropReason, Dropped, Packet, Qdisc, Verdict};
use narrows_units::Time;

use crate::packet::{less, more};
use crate::{Decision, Faults, FromOutside, PacketView, Part};

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

/// What becomes of packets that wait, by their handles.
#[derive(Debug, Default)]
pub struct Actions {
    /// Packets to be dropped.
    pub dropped: Vec<u64>,
    /// Packets to be marked, which must be ECN-capable.
    pub marked: Vec<u64>,
}

struct Waiting<P> {
    packet: P,
    marked: bool,
    /// Its number among all arrivals: after a fault, packets leave in this order.
    turn: u64,
}

/// The queue of a [`Full`].
pub struct FullQueue<P, F> {
    name: String,
    full: F,
    /// Places by the low half of a handle; the high half tells apart packets that had one place.
    places: Vec<(u32, Option<Waiting<P>>)>,
    free: Vec<u32>,
    backlog: Backlog,
    counters: Counters,
    actions: Actions,
    arrivals: u64,
    /// When to ask again for a packet, if none could leave.
    again: Option<Time>,
    faults: Faults,
}

impl<P: Packet, F: Full> FullQueue<P, F> {
    /// Creates an empty queue.
    pub fn new(name: &str, full: F, faults: Faults) -> Self {
        Self {
            name: name.to_owned(),
            full,
            places: Vec::new(),
            free: Vec::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            actions: Actions::default(),
            arrivals: 0,
            again: None,
            faults,
        }
    }

    fn fail(&mut self, why: impl Into<FromOutside>) {
        self.faults.report(Part::Queue, &self.name, why);
    }

    fn keep(&mut self, packet: P) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let (uses, held) = &mut self.places[place as usize];
        *uses += 1;
        *held = Some(Waiting { packet, marked: false, turn: self.arrivals });
        u64::from(*uses) << 32 | u64::from(place)
    }

    fn held(&mut self, handle: u64) -> Option<&mut Waiting<P>> {
        match self.places.get_mut(handle as u32 as usize) {
            Some((uses, held)) if u64::from(*uses) == handle >> 32 => held.as_mut(),
            _ => None,
        }
    }

    fn take(&mut self, handle: u64) -> Option<P> {
        self.held(handle)?;
        let place = handle as u32;
        self.free.push(place);
        let waiting = self.places[place as usize].1.take()?;
        less(&mut self.backlog, waiting.packet.bytes());
        Some(waiting.packet)
    }

    fn drop(&mut self, handle: u64, dropped: &mut Dropped<P>) -> bool {
        let Some(packet) = self.take(handle) else { return false };
        self.counters.on_drop(packet.bytes(), DropReason::Early);
        dropped.push((packet, DropReason::Early));
        true
    }

    fn refuse(&mut self, handle: u64, dropped: &mut Dropped<P>) -> Verdict {
        self.drop(handle, dropped);
        Verdict::Dropped
    }

    /// Marks a packet. Returns whether it waits and is ECN-capable.
    fn mark(&mut self, handle: u64) -> bool {
        let Some(waiting) = self.held(handle) else { return false };
        if !waiting.packet.ecn().is_capable() {
            return false;
        }
        if !waiting.marked {
            waiting.marked = true;
            waiting.packet.mark();
            self.counters.marked_early += 1;
        }
        true
    }

    /// Carries out what a call has asked for.
    fn act(&mut self, dropped: &mut Dropped<P>) {
        let mut actions = std::mem::take(&mut self.actions);
        for handle in actions.marked.drain(..) {
            if !self.mark(handle) {
                self.fail("marked a packet that does not wait or is not ECN-capable");
            }
        }
        for handle in actions.dropped.drain(..) {
            if !self.drop(handle, dropped) {
                self.fail("dropped a packet that does not wait");
            }
        }
        self.actions = actions;
    }

    /// Returns the packet that came first.
    fn first(&mut self) -> Option<P> {
        let oldest = self.places.iter().enumerate().filter_map(|(place, (uses, held))| {
            held.as_ref().map(|held| (held.turn, u64::from(*uses) << 32 | place as u64))
        });
        let (_, handle) = oldest.min()?;
        self.take(handle)
    }
}

impl<P: Packet, F: Full> Qdisc<P> for FullQueue<P, F> {
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let (bytes, ecn) = (packet.bytes(), packet.ecn());
        self.counters.on_arrival(bytes);
        self.arrivals += 1;
        more(&mut self.backlog, bytes);
        let view = PacketView::of(&packet, 0, now);
        let handle = self.keep(packet);
        if self.faults.any() {
            return Verdict::Queued;
        }
        let answer = self.full.enqueue(now, &PacketView { handle, ..view }, &mut self.actions);
        // To drop the packet by its handle is the same as to answer so. It is the last drop then.
        let own = self.actions.dropped.iter().position(|&other| other == handle);
        own.map(|at| self.actions.dropped.swap_remove(at));
        let marked = self.actions.marked.contains(&handle);
        self.act(dropped);
        let decision = answer.unwrap_or_else(|why| {
            self.fail(why);
            Decision::Pass
        });
        match decision.on(ecn) {
            _ if own.is_some() => self.refuse(handle, dropped),
            Decision::Drop => self.refuse(handle, dropped),
            Decision::Mark => {
                self.mark(handle);
                Verdict::Marked
            }
            Decision::Pass if marked && ecn.is_capable() => Verdict::Marked,
            Decision::Pass => Verdict::Queued,
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        self.again = None;
        if self.backlog.packets == 0 {
            return None;
        }
        if !self.faults.any() {
            let handle = self.full.dequeue(now, &mut self.actions);
            self.act(dropped);
            match handle {
                Ok(Some(handle)) => match self.take(handle) {
                    Some(packet) => {
                        self.counters.on_departure(packet.bytes());
                        return Some(packet);
                    }
                    None => self.fail("gave a packet that does not wait: twice, or one it dropped"),
                },
                Ok(None) if self.backlog.packets == 0 => return None,
                Ok(None) => match self.full.ready_at(now) {
                    Ok(Some(at)) if at > now => {
                        self.again = Some(at);
                        return None;
                    }
                    Ok(Some(at)) => {
                        let (at, now) = (at.as_secs_f64(), now.as_secs_f64());
                        self.fail(format!("asked at {now} s to be asked again at {at} s"));
                    }
                    Ok(None) => {
                        let waiting = self.backlog.packets;
                        self.fail(format!(
                            "{waiting} packets wait, but none leaves and ready_at names no time"
                        ));
                    }
                    Err(why) => self.fail(why),
                },
                Err(why) => self.fail(why),
            }
        }
        let packet = self.first()?;
        self.counters.on_departure(packet.bytes());
        Some(packet)
    }

    fn ready_at(&self, _now: Time) -> Option<Time> {
        self.again
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P, F> fmt::Debug for FullQueue<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
