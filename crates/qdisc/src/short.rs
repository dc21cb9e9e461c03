//! The short form of a discipline from outside: it decides about packets, and this file keeps them,
//! first in, first out.
//!
//! Whoever decides is compiled once and sees a [`PacketView`]; the queue is compiled for each packet
//! type, like built-in ones. If it decides only about arrivals, it can stand wherever a built-in
//! discipline of that kind can.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;

use narrows_units::{Bytes, Time};

use crate::{Backlog, Counters, DropReason, Dropped, Ecn, Packet, Protocol, Qdisc, Verdict};

/// Decides about the packets of a queue that is first in, first out.
pub trait Decider: Send + Sync {
    /// Decides about a packet that arrives. `backlog` is what waits without it.
    fn admit(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision;

    /// Decides about the packet in front when it could leave. `backlog` counts it too.
    fn release(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision;
}

/// What a discipline from outside may know about a packet. C sees it as it lies in memory, as
/// `narrows_packet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PacketView {
    /// Which packet it is, among those that wait in one queue.
    pub handle: u64,
    /// A hash of its addresses, protocol and ports.
    pub flow: u64,
    /// When it was passed to the queue.
    pub arrived: Time,
    /// The length that counts in queues.
    pub bytes: u32,
    /// Numbers of the sending and of the receiving host.
    pub hosts: [u32; 2],
    /// Source and destination port; zero if it has none.
    pub ports: [u16; 2],
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Its transport protocol.
    pub protocol: Protocol,
    /// Its DSCP, 0 to 63.
    pub dscp: u8,
    /// For what may come.
    pub reserved: [u8; 5],
}

impl PacketView {
    /// Returns what a discipline may see of a packet.
    #[inline]
    pub fn of(packet: &impl Packet, handle: u64, arrived: Time) -> Self {
        Self {
            handle,
            flow: packet.flow_hash(),
            arrived,
            bytes: packet.bytes(),
            hosts: packet.hosts().into(),
            ports: packet.ports().into(),
            ecn: packet.ecn(),
            protocol: packet.protocol(),
            dscp: packet.dscp(),
            reserved: [0; 5],
        }
    }
}

/// A decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is.
    Pass,
    /// It is marked, or dropped if it is not ECN-capable.
    Mark,
    /// It is dropped.
    Drop,
}

impl Decision {
    /// Returns what becomes of a packet with this ECN field.
    #[inline]
    pub fn on(self, ecn: Ecn) -> Self {
        if self == Self::Mark && !ecn.is_capable() { Self::Drop } else { self }
    }
}

/// The queue of a [`Decider`].
pub struct ShortQueue<P> {
    decider: Box<dyn Decider>,
    releases: bool,
    /// The most packets that wait.
    limit: u32,
    packets: VecDeque<Waiting<P>>,
    bytes: u64,
    counters: Counters,
    /// Packets that have been let in.
    admitted: u64,
}

struct Waiting<P> {
    packet: P,
    arrived: Time,
    marked: bool,
}

impl<P: Packet> ShortQueue<P> {
    /// Creates an empty queue for at most `limit` packets. `releases`: whether `release` decides
    /// anything.
    pub(crate) fn new(decider: Box<dyn Decider>, limit: u32, releases: bool) -> Self {
        Self {
            decider,
            releases,
            limit,
            packets: VecDeque::new(),
            bytes: 0,
            counters: Counters::default(),
            admitted: 0,
        }
    }

    /// Takes in a packet of which `view` shows everything but the handle. Callers that compute
    /// departures put a packet's place into the queue instead of it.
    pub(crate) fn enqueue_as(
        &mut self,
        now: Time,
        mut packet: P,
        mut view: PacketView,
        dropped: &mut Dropped<P>,
    ) -> Verdict {
        let bytes = view.bytes;
        self.counters.on_arrival(bytes);
        let backlog = self.backlog();
        if backlog.packets >= self.limit {
            return self.refuse(packet, bytes, DropReason::Overflow, dropped);
        }
        view.handle = self.admitted;
        let decision = self.decider.admit(backlog, now, &view).on(view.ecn);
        if decision == Decision::Drop {
            return self.refuse(packet, bytes, DropReason::Early, dropped);
        }
        let marked = decision == Decision::Mark;
        if marked {
            packet.mark();
            self.counters.marked_early += 1;
        }
        self.admitted += 1;
        self.bytes += u64::from(bytes);
        self.packets.push_back(Waiting { packet, arrived: now, marked });
        if marked { Verdict::Marked } else { Verdict::Queued }
    }

    fn refuse(
        &mut self,
        packet: P,
        bytes: u32,
        reason: DropReason,
        dropped: &mut Dropped<P>,
    ) -> Verdict {
        self.counters.on_drop(bytes, reason);
        dropped.push((packet, reason));
        Verdict::Dropped
    }
}

impl<P: Packet> Qdisc<P> for ShortQueue<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let view = PacketView::of(&packet, 0, now);
        self.enqueue_as(now, packet, view, dropped)
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        loop {
            let backlog = self.backlog();
            let Waiting { mut packet, arrived, marked } = self.packets.pop_front()?;
            let bytes = packet.bytes();
            self.bytes -= u64::from(bytes);
            if self.releases {
                let number = self.admitted - u64::from(backlog.packets);
                let view = PacketView::of(&packet, number, arrived);
                match self.decider.release(backlog, now, &view).on(view.ecn) {
                    Decision::Pass => {}
                    Decision::Mark if marked => {}
                    Decision::Mark => {
                        packet.mark();
                        self.counters.marked_early += 1;
                    }
                    Decision::Drop => {
                        self.refuse(packet, bytes, DropReason::Early, dropped);
                        continue;
                    }
                }
            }
            self.counters.on_departure(bytes);
            return Some(packet);
        }
    }

    #[inline]
    fn head(&self) -> Option<&P> {
        // With `release`, another one may leave.
        self.packets.front().filter(|_| !self.releases).map(|waiting| &waiting.packet)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: Bytes::new(self.bytes) }
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P> fmt::Debug for ShortQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShortQueue")
    }
}
