//! Queue disciplines, generic over the packet, with time passed in.
//!
//! A discipline decides which packets wait, in which order they leave, and which are marked or
//! dropped instead. It needs nothing from its surroundings: the caller passes in the packet and the
//! time, and gets back the packets and their fates. There is no clock, no thread and no global
//! state, so the same code serves a simulator, a user-space transport, or a test.
#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod blue;
pub mod cake;
pub mod classes;
pub mod codel;
mod counters;
mod custom;
mod disciplines;
pub mod drr;
pub mod dualpi2;
pub mod fifo;
pub mod filter;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
mod full;
mod hash;
pub mod laws;
mod packet;
pub mod pie;
pub mod prio;
mod properties;
mod random;
pub mod red;
pub mod sfq;
mod short;
mod stamped;
mod storage;
pub mod traffic;

pub use counters::Counters;
pub use custom::{Custom, Item, Outside};
pub use disciplines::{AnyConfig, AnyQdisc, AtEnqueue, Listed, Visit};
pub use filter::{Filter, Host};
pub use full::{Actions, CannotGoOn, Chooser, FullQueue, Watched};
pub use hash::mix;
pub use packet::{Ack, DropReason, Dropped, Packet, Protocol, Verdict};
use properties::assert_possible;
pub use properties::{Discipline, Levels};
pub use random::{Random, stream_seed};
pub use short::{Decider, Decision, PacketView, ShortQueue};

use narrows_units::{Bytes, Time};
pub use narrows_units::{ConfigError, Ecn, settings};

/// A digest of this crate's sources, which `build.rs` makes.
#[doc(hidden)]
pub const SOURCES: &str = env!("NARROWS_SOURCES");

/// A queue discipline.
///
/// # Call order
///
/// `now` never decreases from one call to the next. A packet passed to [`Qdisc::enqueue`] leaves
/// exactly once: through [`Qdisc::dequeue`], or through `dropped`, with its reason.
///
/// # Invariants
///
/// These hold for every discipline at every time (the `laws` test suite checks them):
///
/// - Packets in = packets out + packets dropped + packets waiting, and the same in bytes.
/// - A discipline that does not shape returns a packet from `dequeue` whenever one waits.
/// - A discipline that shapes returns it at the time that `ready_at` named, and not before.
pub trait Qdisc<P: Packet> {
    /// Accepts a packet or refuses it.
    ///
    /// Appends whatever is dropped, this packet or another, to `dropped`.
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict;

    /// Tells what the packet that is passed to [`Qdisc::enqueue`] next acknowledges, or `None` if it
    /// is no TCP segment with ACK and without SYN. Callers may leave this out if
    /// [`AnyConfig::reads_acks`] is false.
    ///
    /// This is apart from [`Packet`] because SACK blocks would make every packet longer.
    fn announce(&mut self, _ack: Option<&Ack>) {}

    /// Returns the next packet to send, or `None` if none waits.
    ///
    /// Disciplines that drop at dequeue (CoDel) append to `dropped`. If packets wait and the result
    /// is `None`, the discipline shapes, and [`Qdisc::ready_at`] says when to ask again.
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P>;

    /// Returns when to ask a shaping discipline again, after `dequeue` returned `None` at `now`
    /// although packets wait: the earliest time, later than `now`, at which it returns one if
    /// nothing arrives in between.
    ///
    /// Returns `None` if nothing waits, and for disciplines that never hold back.
    fn ready_at(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Returns a reference to the packet that leaves next, or `None` if none waits or the
    /// discipline chooses at dequeue.
    fn head(&self) -> Option<&P> {
        None
    }

    /// Returns the average queue, or `None` for disciplines that keep none.
    fn average_queue(&self) -> Option<AverageQueue> {
        None
    }

    /// Reads what the next calls will need, and changes nothing.
    ///
    /// This is for callers that know which calls come next: fetching uncached memory takes hardly
    /// longer for many packets at once than for one. Disciplines that gain nothing from this do
    /// nothing.
    fn prefetch(&self, _coming: Coming<'_, P>) {}

    /// Returns what waits now.
    fn backlog(&self) -> Backlog;

    /// Returns what has become of every packet so far.
    fn counters(&self) -> Counters;
}

/// The calls that a caller of [`Qdisc::prefetch`] expects to make next.
pub enum Coming<'a, P> {
    /// [`enqueue`](Qdisc::enqueue), for packets with these [hashes](Packet::flow_hash).
    Enqueue(&'a [u64]),
    /// [`dequeue`](Qdisc::dequeue). The discipline shows the packets that it will probably return.
    Dequeue(&'a mut dyn FnMut(&P)),
}

/// The average of what waits, in the unit in which a discipline counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AverageQueue {
    /// In packets.
    Packets(f64),
    /// In bytes, as [`Packet::bytes`] counts them.
    Bytes(f64),
}

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// Bytes, as [`Packet::bytes`] counts them.
    pub bytes: Bytes,
}

impl Backlog {
    /// Returns what waits in several queues together.
    pub(crate) fn sum(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            packets: sum.packets.saturating_add(part.packets),
            bytes: sum.bytes + part.bytes,
        })
    }
}
