//! Deficit round robin: a queue for each flow, served in turn, with a quantum of bytes in each
//! turn.
//!
//! Each flow gets the same share of the line, whatever its packets' sizes and however fast it
//! sends. The members of the family differ in the queue that loses a packet when the buffer is
//! full: the longest ([`plain`]), the one with the highest throughput ([`tdrr`]), or the same as
//! last time ([`qsdrr`]).
//!
//! Source: M. Shreedhar and G. Varghese, "Efficient Fair Queueing using Deficit Round Robin", ACM
//! SIGCOMM 1995; P. McKenney, "Stochastic Fairness Queueing", Internetworking: Research and
//! Experience 2, 1991, for the buffer that all flows share and the longest queue; A. Kantawala and
//! J. Turner, "Queue Management for Short-Lived TCP Flows in Backbone Routers", 2002.
//!
//! Differences from the sources:
//!
//! - Each flow has its own queue, found by its 64-bit hash. With `buckets`, all flows share a
//!   number of queues, as in the papers.
//! - An arriving packet is queued before the victim is chosen, so its own queue may be the victim.
//!   The papers do not say which comes first.
//! - A packet without bytes costs one byte; otherwise a flow of such packets would never end its
//!   turn.
//! - The quantum is at least a 64th of the largest packet so far, whatever the settings say. A
//!   packet therefore waits at most 64 turns of its flow for its deficit. (The paper asks for a
//!   quantum of the largest packet, because with less a turn may send nothing.)
//! - A queue that is emptied by a drop ends its turn, and its deficit is forgotten, just as when it
//!   is emptied by service.

/// Implements [`Qdisc`](crate::Qdisc) for a member of the family by its scheduler.
macro_rules! scheduled {
    ($name:ident) => {
        impl<P: $crate::Packet> $crate::Qdisc<P> for $name<P> {
            #[inline]
            fn enqueue(
                &mut self,
                now: narrows_units::Time,
                packet: P,
                dropped: &mut $crate::Dropped<P>,
            ) -> $crate::Verdict {
                self.scheduler.enqueue(now, packet, dropped)
            }

            #[inline]
            fn dequeue(
                &mut self,
                now: narrows_units::Time,
                dropped: &mut $crate::Dropped<P>,
            ) -> Option<P> {
                self.scheduler.dequeue(now, dropped)
            }

            fn prefetch(&self, coming: $crate::Coming<'_, P>) {
                self.scheduler.prefetch(coming);
            }

            #[inline]
            fn backlog(&self) -> $crate::Backlog {
                self.scheduler.backlog()
            }

            #[inline]
            fn counters(&self) -> $crate::Counters {
                self.scheduler.counters()
            }
        }
    };
}

mod flows;
pub(crate) mod heap;
mod length;
pub mod plain;
pub mod qsdrr;
pub(crate) mod round;
mod scaled;
mod scheduler;
pub(crate) mod slab;
mod table;
pub mod tdrr;

use crate::settings::words;

pub(crate) use self::flows::Flows;
pub(crate) use self::length::Lengths;

words! {
    /// Which end of a queue loses a packet.
    pub enum End {
        /// The packet that has waited longest: its sender learns of the drop sooner.
        Front = "front",
        /// The packet that came last.
        Tail = "tail",
    }
}

words! {
    /// What the length of a queue is counted in.
    pub enum By {
        /// Bytes, as ns-2's DRR does.
        Bytes = "bytes",
        /// Packets, as Linux's SFQ does.
        Packets = "packets",
    }
}

words! {
    /// Which of several queues counts as the longest when they are equally long.
    ///
    /// It matters where the buffer holds little more than a packet of each flow.
    pub enum Ties {
        /// The one that reached this length first. If each queue has one packet, it is the queue
        /// of the flow whose turn is next. ns-2 and Linux's SFQ drop from that queue, too.
        Oldest = "oldest",
        /// The one that reached this length last. It may be the queue of the packet that arrives.
        Newest = "newest",
    }
}

#[cfg(test)]
mod tests;
