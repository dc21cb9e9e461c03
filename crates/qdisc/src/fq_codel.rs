//! FQ-CoDel: hashes flows to queues, serves the queues in turn with new flows first, and lets CoDel
//! control each queue.
//!
//! Source: Linux 6.1.192, `net/sched/sch_fq_codel.c`; RFC 8290, which describes it; tc-fq_codel(8).
//! CoDel is in [`crate::codel`], with its own differences.
//!
//! Differences of Linux from the RFC, followed here:
//!
//! - CoDel leaves a packet alone if no more than an MTU is left in all queues together, not in its
//!   own.
//! - An overflow drops half of the bytes of the fattest flow, not half of its packets, and at most
//!   `drop_batch` packets.
//!
//! Differences between kernels, a setting here ([`WhenEmpty`]):
//!
//! - When a flow's queue becomes empty, the flow forgets since when its packets have waited for
//!   more than `target`, as in the RFC. Kernels before March 2026 kept that time ("net_sched:
//!   codel: fix stale state for empty flows in fq_codel", 815980fe6dbb; that is mainline's date,
//!   and stable kernels have the fix since 6.1.191 and 6.12.115). If a packet of a sparse flow
//!   arrived much later and waited too long, it was then taken for the end of a standing queue and
//!   dropped.
//!
//! Differences from Linux:
//!
//! - The fattest flow is found by a heap, not by a search through all flows. The result is the
//!   same: among equals, the flow with the lowest index.
//! - `memory_limit` counts the packets' lengths. Linux counts the memory of their buffers, which
//!   depends on the driver: about 768 bytes for a small packet and 2304 for a full one.
//! - A flow's index follows from [`Packet::flow_hash`] and a seed; in Linux, from the kernel's hash
//!   of addresses and ports, with a key chosen at boot.
//! - Deficits have 64 bits. If many rounds pass before a flow may send again, because its last
//!   packet was far larger than the quantum, they pass in one step.
//! - Settings that Linux corrects silently (a quantum below 256, a batch of 0) are refused. So is a
//!   limit of zero.
//! - There are no filters (a `prio` above has them).

use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};

pub use crate::codel::WhenEmpty;
use crate::codel::{Books, Control, Controlled, Params};
use crate::drr::heap::Heap;
use crate::drr::round::{Linked, NewFirst, Turn};
use crate::drr::slab::{List, NIL, Slab};
use crate::settings::{MOST_BYTES, MOST_PACKETS, Settings, any, positive, settings, size, whole};
use crate::stamped::Stamped;
use crate::{
    Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc,
    Verdict, assert_possible, mix,
};

settings! {
    /// FQ-CoDel: tc-fq_codel(8), RFC 8290.
    pub struct Config {
        /// Packets that may wait in all queues together.
        limit: u32 = 10_240, whole(1, MOST_PACKETS);
        /// Bytes that may wait in all queues together.
        memory_limit: Bytes = Bytes::new(32 << 20), size(1, MOST_BYTES);
        /// Number of queues; a hash assigns flows to them.
        flows: u32 = 1024, whole(1, 65_536);
        /// Bytes that a flow may send in its turn; 256 B to 1 MiB.
        quantum: u32 = 1514, size(256, 1 << 20);
        /// The acceptable waiting time in a standing queue.
        target: Span = Span::from_ms(5), positive();
        /// How long the waiting time may stay above `target`; about the longest round-trip time.
        interval: Span = Span::from_ms(100), positive();
        /// Marks packets of ECN-capable transports instead of dropping them.
        ecn: bool = true, any();
        /// Waiting time above which every ECN-capable packet is marked; none by default.
        ce_threshold: Option<Span> = None, any();
        /// `ce_threshold` is for packets whose byte of DSCP and ECN has this value in the bits of
        /// `ce_threshold_mask`: 1 with the mask 3 is ECT(1), 184 with the mask 252 is EF.
        ce_threshold_selector: u32 = 0, whole(0, 255);
        /// The bits of that byte to look at; none by default, which selects all packets.
        ce_threshold_mask: u32 = 0, whole(0, 255);
        /// The most packets of the fattest flow that one overflow drops.
        drop_batch: u32 = 64, whole(1, 65_536);
        /// The size of the largest packet. Nothing is dropped if a packet leaves at most this much
        /// behind.
        mtu: Bytes = Bytes::new(1514), size(1, MOST_BYTES);
        /// Whether a flow's queue, once empty, forgets when its packets began to wait for more than
        /// `target`. Linux has forgotten it since March 2026 (stable kernels since 6.1.191 and
        /// 6.12.115), and kept it before.
        when_empty: WhenEmpty = WhenEmpty::Forget, any();
        /// Whether a flow that has sent all it had leaves its turn once all queues are empty, so that
        /// its next packet makes it a new flow again. In Linux it does directly above a device, but
        /// not below the shaper `htb`, which never asks an empty queue for a packet.
        idles: bool = true, any();
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        if self.ce_threshold_mask != 0 && self.ce_threshold.is_none() {
            return Err(ConfigError::new("ce_threshold_mask", "goes with ce_threshold")
                .or("such as ce_threshold = \"1 ms\", or leave the mask out"));
        }
        let (mask, value) = (self.ce_threshold_mask, self.ce_threshold_selector);
        if value & !mask != 0 {
            return Err(ConfigError::new(
                "ce_threshold_selector",
                "has bits that ce_threshold_mask lacks, so it would select no packet",
            )
            .or("ce_threshold_selector = 1 and ce_threshold_mask = 3 select ECT(1)"));
        }
        Ok(())
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "FQ-CoDel";
    type Queue<P> = FqCodel<P>;

    fn build<P: Packet>(&self, seed: u64) -> FqCodel<P> {
        FqCodel::new(self.clone(), seed)
    }

    fn reads_hosts(&self) -> bool {
        self.ce_threshold_mask > u32::from(ECN_BITS)
    }

    fn levels(&self) -> Levels {
        Levels::target(self.target).in_several_lines()
    }

    fn held(&self) -> u64 {
        self.flows.into()
    }
}

/// The ECN field, in the byte that it shares with the DSCP.
const ECN_BITS: u8 = 3;

/// CoDel over many queues that are served in turn.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    config: Config,
    seed: u64,
    params: Params,
    slab: Slab<Stamped<P>>,
    flows: Vec<Flow>,
    rounds: NewFirst,
    /// The flows that have packets, by backlog. Among equals, the lowest index comes first.
    fattest: Heap<(u64, u32)>,
    total: Total,
    counters: Counters,
}

/// A flow with its queue and its CoDel.
#[derive(Clone, Debug)]
struct Flow {
    packets: List,
    backlog: u64,
    /// The bytes that the flow may still send in its turn.
    deficit: i64,
    control: Control,
    /// The flow after it in its round.
    next: u32,
    /// Whether it is in a round, possibly without packets.
    in_round: bool,
}

/// The backlog of all queues.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    packets: u32,
    bytes: u64,
}

impl<P: Packet> FqCodel<P> {
    /// Creates empty queues. Which flows share one follows from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        let flow = Flow {
            packets: List::EMPTY,
            backlog: 0,
            deficit: 0,
            control: Control::default(),
            next: NIL,
            in_round: false,
        };
        Self {
            seed,
            params: Params {
                target: config.target,
                interval: config.interval,
                ce_threshold: config.ce_threshold.unwrap_or(Span::MAX),
                ce_selector: (config.ce_threshold_mask as u8, config.ce_threshold_selector as u8),
                mtu: config.mtu.get(),
                ecn: config.ecn,
                when_empty: config.when_empty,
            },
            slab: Slab::new(),
            flows: vec![flow; config.flows as usize],
            rounds: NewFirst::new(config.quantum),
            fattest: Heap::new(),
            total: Total::default(),
            counters: Counters::ZERO,
            config,
        }
    }

    /// Returns the index of a packet's flow (RFC 8290, 4.1.1).
    #[inline]
    fn flow_of(&self, packet: &P) -> u32 {
        let hash = mix(packet.flow_hash(), self.seed) >> 32;
        ((hash * u64::from(self.config.flows)) >> 32) as u32
    }

    /// Updates a flow's queue length in the heap.
    #[inline]
    fn weigh(&mut self, index: u32) {
        let flow = &self.flows[index as usize];
        if flow.packets.is_empty() {
            self.fattest.remove(index);
        } else {
            self.fattest.set(index, (flow.backlog, !index));
        }
    }

    /// Drops packets from the front of the fattest flow, until half of its bytes or `drop_batch`
    /// packets are gone. Returns that flow.
    #[cold]
    fn drop_from_fattest(&mut self, dropped: &mut Dropped<P>) -> Option<u32> {
        let index = self.fattest.first()?;
        let flow = &mut self.flows[index as usize];
        let other_half = flow.backlog.div_ceil(2);
        let mut queue = Queue {
            slab: &mut self.slab,
            list: &mut flow.packets,
            backlog: &mut flow.backlog,
            total: &mut self.total,
        };
        let mut count = 0;
        while count < self.config.drop_batch
            && (count == 0 || *queue.backlog > other_half)
            && let Some(Stamped { packet, .. }) = queue.take()
        {
            count += 1;
            self.counters.on_drop(packet.bytes(), DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
        }
        // CoDel should count them as drops of its own.
        flow.control.count = flow.control.count.wrapping_add(count);
        self.weigh(index);
        Some(index)
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    /// RFC 8290, section 4.1.
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = u64::from(packet.bytes());
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += bytes;
        let index = self.flow_of(&packet);
        let flow = &mut self.flows[index as usize];
        self.slab.push_back(&mut flow.packets, Stamped { packet, arrived_at: now });
        flow.backlog += bytes;
        if !flow.in_round {
            flow.in_round = true;
            self.rounds.add(index, &mut self.flows);
        }
        self.total.packets += 1;
        self.total.bytes += bytes;
        self.weigh(index);
        if self.total.packets <= self.config.limit
            && self.total.bytes <= self.config.memory_limit.get()
        {
            return Verdict::Queued;
        }
        let fattest = self.drop_from_fattest(dropped);
        // Earlier packets of its flow were dropped before it.
        let gone = fattest == Some(index) && self.flows[index as usize].packets.is_empty();
        if gone { Verdict::Dropped } else { Verdict::Queued }
    }

    /// RFC 8290, section 4.2.
    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        if self.total.packets == 0 && !self.config.idles {
            return None;
        }
        loop {
            let (index, is_new) = self.rounds.turn(&mut self.flows)?;
            let flow = &mut self.flows[index as usize];
            let Self { slab, total, params, counters, .. } = self;
            let mut queue =
                Queue { slab, list: &mut flow.packets, backlog: &mut flow.backlog, total };
            let mut books = Books { counters, dropped };
            let packet = flow.control.dequeue(now, params, &mut queue, &mut books);
            self.weigh(index);
            if let Some(packet) = packet {
                let bytes = packet.bytes();
                self.flows[index as usize].deficit -= i64::from(bytes);
                self.counters.on_departure(bytes);
                return Some(packet);
            }
            let stays = self.rounds.end(index, is_new, &mut self.flows);
            self.flows[index as usize].in_round = stays;
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.total.packets, bytes: Bytes::new(self.total.bytes) }
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

/// One flow's queue, as CoDel sees it.
struct Queue<'a, P> {
    slab: &'a mut Slab<Stamped<P>>,
    list: &'a mut List,
    backlog: &'a mut u64,
    total: &'a mut Total,
}

impl<P: Packet> Controlled<P> for Queue<'_, P> {
    #[inline]
    fn take(&mut self) -> Option<Stamped<P>> {
        let packet = self.slab.pop_front(self.list)?;
        let bytes = u64::from(packet.bytes());
        *self.backlog -= bytes;
        self.total.packets -= 1;
        self.total.bytes -= bytes;
        Some(packet)
    }

    /// The backlog of all flows.
    #[inline]
    fn backlog(&self) -> u64 {
        self.total.bytes
    }
}

impl Linked for Flow {
    #[inline]
    fn next(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Turn for Flow {
    #[inline]
    fn deficit(&mut self) -> &mut i64 {
        &mut self.deficit
    }
}

#[cfg(test)]
mod tests;
