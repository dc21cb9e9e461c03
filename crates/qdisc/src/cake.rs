//! CAKE: a shaper, tins for classes of packets, fair parts for hosts and their flows, and COBALT for
//! each flow.
//!
//! Source: Høiland-Jørgensen, Täht, Morton, "Piece of CAKE", LANMAN 2018 (arXiv 1804.07617);
//! tc-cake(8); the behaviour of Linux 6.12. Names in code style are those of `sch_cake.c`.
//!
//! Kernels differ: those before January 2025 may miscount the bulk flows of a host when flows share a
//! queue. 6.1.192 and 7.3 do not, nor does this. 7.3 is the same for a device with one queue.
//!
//! Differences from Linux:
//!
//! - Packets are not segments of a larger one that the network card would cut (GSO), so there is
//!   nothing to split.
//! - `memory_limit` counts the packets' lengths. Linux counts the memory of their buffers, which
//!   depends on the driver: about 768 bytes for a small packet and 2304 for a full one.
//! - Among equally long queues, an overflow drops from the one that was used first.
//! - Hashes follow from [`Packet::flow_hash`], [`Packet::hosts`] and a seed; in Linux, from
//!   addresses and ports with a key chosen at boot. There is no `nat`: hosts are those of the
//!   packet.
//! - Clocks count picoseconds, and rates are not rounded to a power of two.
//! - Linux's clock has run for long when a queue is made. BLUE here acts from the first overflow on
//!   in the same way.
//! - There is no `autorate-ingress`, no `fwmark`, and no filters choose tins or flows.
//!
//! An acknowledgement that the filter drops, and what COBALT drops, count as
//! [`DropReason::Early`].

mod ack_filter;
mod cobalt;
mod flows;
mod hash;
mod hosts;
mod shaper;
mod tins;

use alloc::string::String;
use alloc::vec::Vec;

use narrows_units::{Bytes, Rate, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

pub use self::ack_filter::AckFilter;
use self::flows::{Flow, State};
pub use self::hosts::Isolation;
use self::hosts::{Ends, Hashes};
pub use self::shaper::LinkLayer;
use self::shaper::{Length, Shaper};
use self::tins::Tin;
pub use self::tins::Tins;
use crate::drr::heap::Heap;
use crate::drr::slab::{NIL, Slab};
use crate::settings::{MOST_BYTES, Rule, any, keys, positive, size, whole};
use crate::{
    Ack, Backlog, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict,
    assert_possible,
};

keys! {
    /// CAKE: tc-cake(8).
    pub struct Config {
        /// The rate to send at; without it, as fast as the line.
        rate: Option<Rate> = None, any();
        /// The tins, and which code points belong to them.
        tins: Tins = Tins::Diffserv3, any();
        /// What packets are told apart by, and who gets an equal part.
        isolation: Isolation = Isolation::Triple, any();
        /// The usual round-trip time, COBALT's interval. Its target is a twentieth.
        rtt: Span = Span::from_ms(100), positive();
        /// Bytes that may wait in all queues together; by default what four times `rtt` takes at
        /// `rate`, at least 4 MiB.
        memory_limit: Option<Bytes> = None, size(1, MOST_BYTES);
        /// Bytes that the shaper adds to each IP packet; by default, it counts what
        /// `framing.queue_overhead` adds.
        overhead: Option<i32> = None, Rule { least: Some(-64.0), ..whole(0, 256) };
        /// The least length that the shaper counts, before `link_layer`.
        mpu: u32 = 0, size(0, 256);
        /// How the link carries packets: as they are, in ATM cells, or with PTM's code words.
        link_layer: LinkLayer = LinkLayer::Plain, any();
        /// Whether acknowledgements that later ones make redundant are dropped.
        ack_filter: AckFilter = AckFilter::Off, any();
        /// Counts packets that were dropped as if they had been sent: for a queue behind the
        /// bottleneck.
        ingress: bool = false, any();
        /// Clears the code point of each packet.
        wash: bool = false, any();
        /// The size of the largest packet.
        mtu: Bytes = Bytes::new(1514), size(1, MOST_BYTES);
    }
}

impl Config {
    /// Returns COBALT's target at rates at which packets take no time.
    fn target(&self) -> Span {
        // tc counts in microseconds.
        Span::from_us(self.rtt.as_us().div_ceil(20).max(1))
    }

    /// `cake_reconfigure`
    fn buffer_limit(&self) -> u64 {
        let usual = self.rate.map_or(u64::MAX, |rate| {
            let in_rtt = u128::from(rate.as_bps() / 8) * u128::from(self.rtt.as_us()) / 1_000_000;
            u64::try_from(in_rtt * 4).unwrap_or(u64::MAX).max(4 << 20)
        });
        self.memory_limit.map_or(usual.min(MOST_WAITING * self.mtu.get()), Bytes::get)
    }
}

/// Packets of full size that may wait, whatever the rate.
const MOST_WAITING: u64 = 10_240;

impl Discipline for Config {
    const LABEL: &'static str = "CAKE";
    type Queue<P> = Cake<P>;

    fn build<P: Packet>(&self, seed: u64) -> Cake<P> {
        Cake::new(self.clone(), seed)
    }

    fn reads_hosts(&self) -> bool {
        true
    }

    fn levels(&self) -> Levels {
        Levels::target(self.target()).in_several_lines()
    }

    fn held(&self) -> u64 {
        (self.tins.count() * hash::QUEUES) as u64
    }

    fn classes(&self) -> Vec<String> {
        self.tins.names().iter().map(|&name| name.into()).collect()
    }

    fn class_of<P: Packet>(&self, packet: &P) -> usize {
        self.tins.of(packet.dscp().into()).into()
    }

    fn reads_acks(&self) -> bool {
        self.ack_filter != AckFilter::Off
    }
}

/// CAKE's queues.
#[derive(Clone, Debug)]
pub struct Cake<P> {
    config: Config,
    seed: u64,
    random: Pcg32,
    ends: Option<Ends>,
    /// The tin of each code point.
    map: [u8; 64],
    tins: Vec<Tin>,
    /// Without a rate: the tin whose turn it is.
    current: usize,
    shaper: Option<Shaper>,
    length: Length,
    slab: Slab<Node<P>>,
    /// The flows of all tins.
    flows: Vec<Flow>,
    buffer_limit: u64,
    /// Flows by backlog, while there are overflows.
    longest: Option<Longest>,
    packets: u32,
    bytes: u64,
    /// What the next packet acknowledges, and what packets that wait acknowledge.
    announced: Option<Ack>,
    acks: ack_filter::Waiting,
    counters: Counters,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Node<P> {
    packet: P,
    arrived_at: Time,
    /// Its length on the wire.
    length: u32,
    /// The place of its acknowledgement, or [`NIL`].
    ack: u32,
}

/// The flows by backlog. It is kept for some time after an overflow.
#[derive(Clone, Debug)]
struct Longest {
    /// Among equals, the lowest index comes first.
    heap: Heap<(u64, u32)>,
    /// How many more packets leave before it is given up.
    left: u32,
}

/// `overflow_timeout`
const OVERFLOW_TIMEOUT: u32 = 65_535;

/// What a flow gives when its turn comes.
enum Taken<P> {
    Packet(P),
    /// Its packet was dropped, and in ingress mode that was its turn.
    Dropped,
    Nothing,
}

impl<P: Packet> Cake<P> {
    /// Creates empty queues. Which flows share one, and which packets BLUE drops, follows from
    /// `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        Self {
            seed,
            random: Pcg32::seed_from_u64(seed),
            ends: config.isolation.hosts(),
            map: config.tins.map(),
            tins: Tin::all(&config),
            current: 0,
            shaper: config.rate.map(Shaper::new),
            length: Length::new(&config),
            slab: Slab::new(),
            flows: Vec::new(),
            buffer_limit: config.buffer_limit(),
            longest: None,
            packets: 0,
            bytes: 0,
            announced: None,
            acks: ack_filter::Waiting::default(),
            counters: Counters::ZERO,
            config,
        }
    }

    /// Returns the packets that wait in each tin.
    pub fn in_tins(&self) -> impl ExactSizeIterator<Item = u32> {
        self.tins.iter().map(|tin| tin.packets)
    }

    /// `cake_get_flow_quantum`: a flow's part of its host's quantum, with a random fraction of a
    /// byte.
    #[inline]
    fn quantum(&mut self, index: u32) -> i64 {
        let flow = &self.flows[index as usize];
        let tin = &self.tins[usize::from(flow.tin)];
        let load = match (self.ends, &tin.table.hosts) {
            (Some(ends), Some(hosts)) => hosts.load(flow, ends),
            _ => 1,
        };
        let fraction = self.random.next_u32() >> 16;
        i64::from((tin.flow_quantum * (0xFFFF / load) + fraction) >> 16)
    }

    /// Lets a flow count as a bulk flow of its hosts.
    #[inline]
    fn join_bulk(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let tin = &mut self.tins[usize::from(flow.tin)];
        flow.state = State::Bulk;
        tin.sparse -= 1;
        tin.bulk += 1;
        if let (Some(ends), Some(hosts)) = (self.ends, &mut tin.table.hosts) {
            hosts.join(flow, ends);
        }
    }

    /// Puts a flow that has got a packet into its rotation.
    #[inline]
    fn activate(&mut self, index: u32) {
        let tin = &mut self.tins[usize::from(self.flows[index as usize].tin)];
        match self.flows[index as usize].state {
            State::Idle => {}
            State::Decaying => tin.decaying.remove(index, &mut self.flows),
            State::SparseWait => return self.join_bulk(index),
            State::Sparse | State::Bulk => return,
        }
        tin.new.push(index, &mut self.flows);
        tin.sparse += 1;
        self.flows[index as usize].state = State::Sparse;
        self.flows[index as usize].deficit = self.quantum(index);
    }

    /// Removes the oldest packet of a flow.
    #[inline]
    fn take(&mut self, index: u32) -> Option<Node<P>> {
        let flow = &mut self.flows[index as usize];
        let node = self.slab.pop_front(&mut flow.packets)?;
        self.removed(index, &node);
        Some(node)
    }

    #[inline]
    fn removed(&mut self, index: u32, node: &Node<P>) {
        let flow = &mut self.flows[index as usize];
        let bytes = u64::from(node.packet.bytes());
        flow.backlog -= bytes;
        self.tins[usize::from(flow.tin)].packets -= 1;
        self.packets -= 1;
        self.bytes -= bytes;
        self.acks.release(node.ack);
        if self.longest.is_some() {
            self.weigh(index);
        }
    }

    /// Drops a packet that has been removed.
    fn discard(
        &mut self,
        now: Time,
        tin: usize,
        node: Node<P>,
        reason: DropReason,
        dropped: &mut Dropped<P>,
    ) {
        if self.config.ingress {
            self.charge(now, tin, node.length, true);
        }
        self.counters.on_drop(node.packet.bytes(), reason);
        dropped.push((node.packet, reason));
    }

    /// `cake_advance_shaper`
    #[inline]
    fn charge(&mut self, now: Time, tin: usize, length: u32, was_dropped: bool) {
        self.tins[tin].charge(now, length);
        if let Some(shaper) = &mut self.shaper {
            shaper.charge(length, was_dropped);
        }
    }

    /// Takes a flow's next packet that COBALT lets pass.
    #[inline]
    fn serve(&mut self, now: Time, index: u32, dropped: &mut Dropped<P>) -> Taken<P> {
        let tin = usize::from(self.flows[index as usize].tin);
        loop {
            let Some(mut node) = self.take(index) else { return Taken::Nothing };
            let flow = &mut self.flows[index as usize];
            let Tin { params, bulk, .. } = &self.tins[tin];
            let bulk = if self.config.ingress { *bulk } else { 0 };
            let waited = (&mut node.packet, now.since(node.arrived_at));
            let decision = flow.cobalt.judge(now, params, waited, bulk, &mut self.random);
            // The last packet of a flow stays.
            if !decision.drop || flow.packets.is_empty() {
                flow.deficit -= i64::from(node.length);
                self.counters.marked_early += u64::from(decision.marked);
                self.counters.on_departure(node.packet.bytes());
                self.charge(now, tin, node.length, false);
                return Taken::Packet(node.packet);
            }
            if self.config.ingress {
                flow.deficit -= i64::from(node.length);
            }
            self.discard(now, tin, node, DropReason::Early, dropped);
            if self.config.ingress {
                return Taken::Dropped;
            }
        }
    }

    /// Takes a flow without packets out of its rotation, unless COBALT remembers something of it.
    fn rest(&mut self, now: Time, index: u32) {
        let flow = &mut self.flows[index as usize];
        let tin = &mut self.tins[usize::from(flow.tin)];
        flow.cobalt.on_empty(now, &tin.params);
        let rests = !flow.cobalt.remembers(now);
        let state =
            core::mem::replace(&mut flow.state, if rests { State::Idle } else { State::Decaying });
        let rotation = match state {
            State::Sparse => {
                tin.sparse -= 1;
                &mut tin.new
            }
            State::SparseWait => {
                tin.sparse -= 1;
                &mut tin.old
            }
            State::Bulk => {
                tin.bulk -= 1;
                if let (Some(ends), Some(hosts)) = (self.ends, &mut tin.table.hosts) {
                    hosts.leave(flow, ends);
                }
                &mut tin.old
            }
            State::Decaying | State::Idle => &mut tin.decaying,
        };
        rotation.remove(index, &mut self.flows);
        if !rests {
            tin.decaying.push(index, &mut self.flows);
        }
    }

    /// Ends a flow's turn because it has used its deficit.
    fn end_turn(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let tin = &mut self.tins[usize::from(flow.tin)];
        let rotation = match flow.state {
            State::Sparse => &mut tin.new,
            State::SparseWait | State::Bulk => &mut tin.old,
            State::Decaying | State::Idle => &mut tin.decaying,
        };
        rotation.remove(index, &mut self.flows);
        tin.old.push(index, &mut self.flows);
        let flow = &mut self.flows[index as usize];
        if flow.state == State::Sparse {
            if flow.packets.is_empty() {
                flow.state = State::SparseWait;
            } else {
                self.join_bulk(index);
            }
        }
        let quantum = self.quantum(index);
        self.flows[index as usize].deficit += quantum;
    }

    /// Drops an acknowledgement that `new` makes redundant, if one waits in the flow.
    #[cold]
    fn filter_acks(&mut self, now: Time, index: u32, new: &Ack, dropped: &mut Dropped<P>) {
        let flow = &mut self.flows[index as usize];
        let waiting = self.slab.iter(flow.packets).map(|node| node.ack);
        let Some(position) = self.acks.redundant(new, waiting, self.config.ack_filter) else {
            return;
        };
        let tin = usize::from(flow.tin);
        let removed = self.slab.remove(&mut flow.packets, position);
        let node = removed.expect("the filter returns the position of a packet that waits");
        self.removed(index, &node);
        self.discard(now, tin, node, DropReason::Early, dropped);
    }

    /// Updates a flow's backlog in the heap.
    #[cold]
    fn weigh(&mut self, index: u32) {
        let Some(longest) = &mut self.longest else { return };
        match self.flows[index as usize].backlog {
            0 => longest.heap.remove(index),
            backlog => longest.heap.set(index, (backlog, !index)),
        }
    }

    /// Drops packets from the front of the longest queues until there is room. Returns whether the
    /// packet that has come last, in the queue `index`, is among them; it is then the last one.
    #[cold]
    fn make_room(&mut self, now: Time, index: u32, dropped: &mut Dropped<P>) -> bool {
        if self.longest.is_none() {
            self.longest = Some(Longest { heap: Heap::new(), left: 0 });
            (0..self.flows.len() as u32).for_each(|index| self.weigh(index));
        }
        let mut last = None;
        while self.bytes > self.buffer_limit
            && let Some(longest) = &mut self.longest
            && let Some(from) = longest.heap.first()
            && let Some(node) = self.take(from)
        {
            let flow = &mut self.flows[from as usize];
            let tin = usize::from(flow.tin);
            flow.cobalt.on_full(now, &self.tins[tin].params);
            if from == index && flow.packets.is_empty() {
                last = Some(dropped.len());
            }
            self.discard(now, tin, node, DropReason::Overflow, dropped);
        }
        if let Some(longest) = &mut self.longest {
            longest.left = OVERFLOW_TIMEOUT;
        }
        if let Some(last) = last {
            dropped[last..].rotate_left(1);
        }
        last.is_some()
    }
}

impl<P: Packet> Qdisc<P> for Cake<P> {
    fn announce(&mut self, ack: Option<&Ack>) {
        self.announced = ack.copied();
    }

    /// `cake_enqueue`
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.on_arrival(bytes);
        let tin_index = self.map[usize::from(packet.dscp() & 63)];
        if self.config.wash && packet.dscp() != 0 {
            packet.set_dscp(0);
        }
        let hashes = Hashes::of(&packet, self.config.isolation, self.seed);
        let tin = &mut self.tins[usize::from(tin_index)];
        let new = Flow::new(tin_index);
        let index = tin.table.find(hashes, self.ends, &mut self.flows, new);
        if tin.packets == 0 {
            tin.due_at = tin.due_at.max(now);
            if self.packets == 0
                && let Some(shaper) = &mut self.shaper
            {
                shaper.begin(now);
            }
        }
        tin.packets += 1;
        let length = self.length.on_wire(bytes, packet.header_bytes());
        let announced = self.announced.take().filter(|_| self.config.reads_acks());
        if let Some(new) = &announced {
            self.filter_acks(now, index, new, dropped);
        }
        let ack = match announced {
            Some(ack) if ack.is_pure => self.acks.keep(ack),
            _ => NIL,
        };
        let flow = &mut self.flows[index as usize];
        let node = Node { packet, arrived_at: now, length, ack };
        self.slab.push_back(&mut flow.packets, node);
        flow.backlog += u64::from(bytes);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        if self.longest.is_some() {
            self.weigh(index);
        }
        self.activate(index);
        if self.bytes > self.buffer_limit && self.make_room(now, index, dropped) {
            return Verdict::Dropped;
        }
        Verdict::Queued
    }

    /// `cake_dequeue`
    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        let mut looks_at_decaying = true;
        loop {
            if self.packets == 0 || self.shaper.as_ref().is_some_and(|s| s.due_at() > now) {
                return None;
            }
            let tin = match self.shaper {
                Some(_) => tins::choose_scheduled(&self.tins, now)?,
                None => tins::choose_in_turn(&mut self.tins, self.current)?,
            };
            self.current = tin;
            loop {
                let Tin { new, old, decaying, .. } = &self.tins[tin];
                // A flow that only remembers is looked at once for each call.
                let first = decaying.first().filter(|_| looks_at_decaying);
                looks_at_decaying = false;
                let Some(index) = first
                    .or_else(|| new.first())
                    .or_else(|| old.first())
                    .or_else(|| decaying.first())
                else {
                    break;
                };
                if self.flows[index as usize].deficit <= 0 {
                    self.end_turn(index);
                    continue;
                }
                match self.serve(now, index, dropped) {
                    Taken::Packet(packet) => {
                        self.on_departure();
                        return Some(packet);
                    }
                    Taken::Dropped => {}
                    Taken::Nothing => {
                        self.rest(now, index);
                        break;
                    }
                }
            }
        }
    }

    #[inline]
    fn ready_at(&self, now: Time) -> Option<Time> {
        let due_at = self.shaper.as_ref()?.due_at();
        (self.packets > 0 && due_at > now).then_some(due_at)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: Bytes::new(self.bytes) }
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P> Cake<P> {
    /// Gives up the order by backlog if there was no overflow for long.
    #[inline]
    fn on_departure(&mut self) {
        if let Some(longest) = &mut self.longest {
            longest.left = longest.left.saturating_sub(1);
            if longest.left == 0 {
                self.longest = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
