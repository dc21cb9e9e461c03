//! Queue disciplines, generic over the packet, with time handed in.
//!
//! A discipline decides which packets wait, in which order they leave, and which are marked or
//! dropped instead. It asks nothing of its surroundings: the caller brings the packet and the
//! time, and takes back the packets and their fates. There is no clock, no thread and no global
//! state, so the same code serves a simulator, a user-space transport, or a test.
#![doc = include_str!("../README.md")]

pub mod blue;
pub mod classes;
pub mod codel;
mod config_error;
mod counters;
mod custom;
mod disciplines;
pub mod drr;
pub mod fifo;
pub mod filter;
pub mod fq_codel;
pub mod laws;
mod packet;
pub mod pie;
pub mod prio;
mod random;
pub mod red;
pub mod settings;
pub mod sfq;
mod stamped;
mod storage;
pub mod traffic;

pub use config_error::ConfigError;
pub use counters::Counters;
pub use custom::{Custom, Item, Outside};
pub use disciplines::{AnyConfig, AnyQdisc, AtEnqueue, Discipline, Levels, Listed, Visit};
pub use filter::Filter;
pub use packet::{DropReason, Dropped, Ecn, Packet, Protocol, Verdict};

use narrows_units::{Bytes, Time};

/// A queue discipline.
///
/// # Call order
///
/// `now` never decreases from one call to the next. A packet handed to [`Qdisc::enqueue`] leaves
/// exactly once: through [`Qdisc::dequeue`], or through `dropped`, with its reason.
///
/// # Invariants
///
/// For every discipline and at every moment (the `laws` test suite checks it):
/// packets in = packets out + packets dropped + packets waiting, and the same in bytes;
/// `dequeue` gives a packet whenever one waits and the discipline does not shape; one that shapes
/// gives it at the moment that `ready_at` named, and not before.
pub trait Qdisc<P: Packet> {
    /// Takes a packet in, or refuses it.
    ///
    /// Whatever is dropped, this packet or another, is appended to `dropped`.
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict;

    /// The next packet to send; `None` where none waits.
    ///
    /// Disciplines that drop at dequeue (CoDel) append to `dropped`. `None` although packets wait:
    /// the discipline shapes, and [`Qdisc::ready_at`] says when to ask again.
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P>;

    /// For disciplines that shape: after `dequeue` gave `None` at `now` although packets wait, the
    /// earliest moment at which it gives one if nothing arrives in between; later than `now`.
    ///
    /// `None` where nothing waits, and for disciplines that never hold back.
    fn ready_at(&self, _now: Time) -> Option<Time> {
        None
    }

    /// The packet that leaves next, left where it is; `None` where none waits, and for disciplines
    /// that choose at dequeue.
    fn head(&self) -> Option<&P> {
        None
    }

    /// The average queue, in its unit; `None` for disciplines that keep none.
    fn average_queue(&self) -> Option<f64> {
        None
    }

    /// Reads what the next calls will need, and changes nothing.
    ///
    /// For callers that know what comes: memory that no cache holds takes hardly longer for many
    /// packets at once than for one. Disciplines for which that is no gain do nothing.
    fn touch(&self, _coming: Coming<'_, P>) {}

    /// What waits now.
    fn backlog(&self) -> Backlog;

    /// What has become of every packet so far.
    fn counters(&self) -> Counters;
}

/// What a caller of [`Qdisc::touch`] expects to call next.
pub enum Coming<'a, P> {
    /// [`enqueue`](Qdisc::enqueue), for packets with these [hashes](Packet::flow_hash).
    Enqueue(&'a [u64]),
    /// [`dequeue`](Qdisc::dequeue). The discipline shows packets that it will probably give.
    Dequeue(&'a mut dyn FnMut(&P)),
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
    /// What waits in several queues together.
    pub(crate) fn sum(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            packets: sum.packets.saturating_add(part.packets),
            bytes: sum.bytes + part.bytes,
        })
    }
}
