//! The full form of a discipline from outside: it chooses which of its packets leaves, and when. It
//! has their handles, and this file keeps the packets and checks each answer.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use narrows_units::{Bytes, Time};

use crate::{Backlog, Counters, Decision, DropReason, Dropped, Packet, PacketView, Qdisc, Verdict};

/// Keeps the handles of the packets of a queue, and chooses which of them leaves, and when.
pub trait Chooser: Send + Sync {
    /// Why it cannot go on.
    type Fault;

    /// Decides about a packet that arrives. If it passes, the chooser has it.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot go on. All packets pass then, in order of arrival. An error of a
    /// part from outside ends the run.
    fn enqueue(
        &mut self,
        now: Time,
        packet: &PacketView,
        actions: &mut Actions,
    ) -> Result<Decision, Self::Fault>;

    /// Returns the handle of the packet that leaves now.
    ///
    /// # Errors
    ///
    /// As for `enqueue`.
    fn dequeue(&mut self, now: Time, actions: &mut Actions) -> Result<Option<u64>, Self::Fault>;

    /// Returns when to ask again, after `dequeue` returned `None` at `now` although packets wait.
    ///
    /// # Errors
    ///
    /// As for `enqueue`.
    fn ready_at(&mut self, now: Time) -> Result<Option<Time>, Self::Fault>;
}

/// A [`Chooser`] whose faults are kept elsewhere.
pub trait Watched: Chooser<Fault = CannotGoOn> {
    /// Hears that an answer broke a rule. Every later call has to return an error.
    fn fail(&mut self, why: &str);
}

/// A [`Watched`] chooser has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotGoOn;

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

/// The queue of a [`Chooser`].
pub struct FullQueue<P> {
    chooser: Box<dyn Watched>,
    /// Places by the low half of a handle; the high half tells apart packets that had one place.
    places: Vec<(u32, Option<Waiting<P>>)>,
    free: Vec<u32>,
    backlog: Backlog,
    counters: Counters,
    actions: Actions,
    arrivals: u64,
    /// When to ask again for a packet, if none could leave.
    again: Option<Time>,
}

impl<P: Packet> FullQueue<P> {
    /// Creates an empty queue.
    pub(crate) fn new(chooser: Box<dyn Watched>) -> Self {
        Self {
            chooser,
            places: Vec::new(),
            free: Vec::new(),
            backlog: Backlog::default(),
            counters: Counters::default(),
            actions: Actions::default(),
            arrivals: 0,
            again: None,
        }
    }

    /// Adds a packet to the backlog.
    fn count(&mut self, bytes: u32) {
        self.backlog.packets += 1;
        self.backlog.bytes += Bytes::from(bytes);
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
        let bytes = u64::from(waiting.packet.bytes());
        self.backlog.packets -= 1;
        self.backlog.bytes = Bytes::new(self.backlog.bytes.get() - bytes);
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
    #[inline]
    fn act(&mut self, dropped: &mut Dropped<P>) {
        if !self.actions.marked.is_empty() || !self.actions.dropped.is_empty() {
            self.act_on_some(dropped);
        }
    }

    fn act_on_some(&mut self, dropped: &mut Dropped<P>) {
        let mut actions = core::mem::take(&mut self.actions);
        for handle in actions.marked.drain(..) {
            if !self.mark(handle) {
                self.chooser.fail("marked a packet that does not wait or is not ECN-capable");
            }
        }
        for handle in actions.dropped.drain(..) {
            if !self.drop(handle, dropped) {
                self.chooser.fail("dropped a packet that does not wait");
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

impl<P: Packet> Qdisc<P> for FullQueue<P> {
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let mut view = PacketView::of(&packet, 0, now);
        self.counters.on_arrival(view.bytes);
        self.arrivals += 1;
        self.count(view.bytes);
        view.handle = self.keep(packet);
        let (handle, ecn) = (view.handle, view.ecn);
        let answer = self.chooser.enqueue(now, &view, &mut self.actions);
        // To drop the packet by its handle is the same as to answer so. It is the last drop then.
        let own = self.actions.dropped.iter().position(|&other| other == handle);
        own.map(|at| self.actions.dropped.swap_remove(at));
        let marked = self.actions.marked.contains(&handle);
        self.act(dropped);
        if own.is_some() {
            return self.refuse(handle, dropped);
        }
        let Ok(answer) = answer else { return Verdict::Queued };
        match answer.on(ecn) {
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
        let answer = self.chooser.dequeue(now, &mut self.actions);
        self.act(dropped);
        let packet = match answer {
            Ok(Some(handle)) => match self.take(handle) {
                Some(packet) => packet,
                None => {
                    let why = "gave a packet that does not wait: twice, or one it dropped";
                    self.chooser.fail(why);
                    self.first()?
                }
            },
            Ok(None) if self.backlog.packets == 0 => return None,
            Ok(None) => {
                self.again = self.later(now);
                if self.again.is_some() {
                    return None;
                }
                self.first()?
            }
            Err(CannotGoOn) => self.first()?,
        };
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

impl<P> FullQueue<P> {
    /// Returns when to ask again, although packets wait at `now`.
    fn later(&mut self, now: Time) -> Option<Time> {
        let why = match self.chooser.ready_at(now).ok()? {
            Some(at) if at > now => return Some(at),
            Some(at) => {
                let (at, now) = (at.as_secs_f64(), now.as_secs_f64());
                format!("asked at {now} s to be asked again at {at} s")
            }
            None => {
                let waiting = self.backlog.packets;
                format!("{waiting} packets wait, but none leaves and ready_at names no time")
            }
        };
        self.chooser.fail(&why);
        None
    }
}

impl<P> fmt::Debug for FullQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FullQueue")
    }
}
