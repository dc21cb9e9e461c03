//! FQ-PIE: hashes flows to queues, serves the queues in turn with new flows first, and lets PIE
//! control each queue.
//!
//! Source: tc-fq_pie(8); the behaviour of Linux 6.1 and 6.12; RFC 8033 for PIE, which is in
//! [`crate::pie`] with its own differences, and RFC 8290, section 4, for the order of service.
//! Unlike CoDel, PIE decides when a packet arrives.
//!
//! Of Linux, followed here:
//!
//! - With `jiffy`, more than 2048 queues are updated less often, a jiffy for each further 2048.
//! - PIE looks at the backlog of the flow's own queue, also for its safeguard of two packets.
//! - Packets are marked up to a probability of `ecn_prob`, not of 10 %.
//!
//! Differences from Linux:
//!
//! - A flow's index follows from [`Packet::flow_hash`] and a seed; in Linux, from the kernel's hash
//!   of addresses and ports, with a key chosen at boot.
//! - There is no `memory_limit`: Linux counts how often it is exceeded, but drops nothing then.
//! - There is one timer for each queue, with the same times as Linux's single one.
//! - Deficits have 64 bits, and a quantum below 256 or a limit of zero is refused.
//! - There are no filters (a `prio` above has them).

use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::drr::round::{Linked, NewFirst, Turn};
use crate::drr::slab::{List, NIL, Slab};
use crate::pie;
use crate::pie::control::{CERTAIN, Control, Params};
use crate::settings::{MOST_BYTES, MOST_PACKETS, any, keys, positive, share, size, whole};
use crate::stamped::Stamped;
use crate::{
    Backlog, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict,
    assert_possible, mix,
};

keys! {
    /// FQ-PIE: tc-fq_pie(8).
    pub struct Config {
        /// Packets that may wait in all queues together.
        limit: u32 = 10_240, whole(1, MOST_PACKETS);
        /// Number of queues; a hash assigns flows to them.
        flows: u32 = 1024, whole(1, 65_536);
        /// Bytes that a flow may send in its turn; 256 B to 1 MiB.
        quantum: u32 = 1514, size(256, 1 << 20);
        /// The delay to aim for.
        target: Span = Span::from_ms(15), positive();
        /// Time between updates of the probabilities.
        tupdate: Span = Span::from_ms(15), positive();
        /// The jiffy of the kernel whose timer is modelled: each `tupdate` is rounded up to whole
        /// jiffies, plus one. Without it, the timer is exact.
        jiffy: Option<Span> = None, positive();
        /// Weight of the distance from the target, in sixteenths.
        alpha: u32 = 2, whole(0, 32);
        /// Weight of the delay's change since the last update, in sixteenths.
        beta: u32 = 20, whole(0, 32);
        /// Marks packets of ECN-capable transports, while the probability is at most `ecn_prob`.
        ecn: bool = false, any();
        /// The probability up to which packets are marked instead of dropped (tc: in per cent).
        ecn_prob: f64 = 0.1, share();
        /// Scales the probability by the packet's size over `mtu`.
        bytemode: bool = false, any();
        /// Computes the delay from the backlog and an estimate of the departure rate, instead of
        /// measuring it.
        dq_rate_estimator: bool = false, any();
        /// The size of the largest packet. Nothing is dropped early while less than twice this size
        /// waits in the flow's queue.
        mtu: Bytes = Bytes::new(1514), size(1, MOST_BYTES);
        /// Whether a flow that has sent all it had leaves its turn once all queues are empty, so that
        /// its next packet makes it a new flow again. In Linux it does directly above a device, but
        /// not below the shaper `htb`, which never asks an empty queue for a packet.
        idles: bool = true, any();
    }
}

impl Config {
    /// Returns how much longer than PIE's the timer of a kernel takes: it updates the queues in
    /// batches, and each further one waits for the next jiffy.
    fn batches(&self) -> Span {
        self.jiffy.map_or(Span::ZERO, |jiffy| {
            let more = u64::from(self.flows.div_ceil(BATCH) - 1);
            Span::from_ps(jiffy.as_ps().saturating_mul(more))
        })
    }

    /// Returns the settings of the controller of one queue.
    fn of_one(&self) -> pie::Config {
        pie::Config {
            limit: self.limit,
            target: self.target,
            tupdate: self.tupdate,
            jiffy: self.jiffy,
            alpha: self.alpha,
            beta: self.beta,
            ecn: self.ecn,
            bytemode: self.bytemode,
            dq_rate_estimator: self.dq_rate_estimator,
            mtu: self.mtu,
        }
    }
}

/// How many queues one run of Linux's timer updates.
const BATCH: u32 = 2048;

impl Discipline for Config {
    const LABEL: &'static str = "FQ-PIE";
    type Queue<P> = FqPie<P>;

    fn build<P: Packet>(&self, seed: u64) -> FqPie<P> {
        FqPie::new(self, seed)
    }

    fn levels(&self) -> Levels {
        Levels::target(self.target).in_several_lines()
    }

    fn held(&self) -> u64 {
        self.flows.into()
    }
}

/// PIE over many queues that are served in turn.
#[derive(Clone, Debug)]
pub struct FqPie<P> {
    limit: u32,
    idles: bool,
    ecn: bool,
    /// The probability up to which packets are marked, in units of 1/[`CERTAIN`].
    most_marked: u64,
    seed: u64,
    params: Params,
    random: Pcg32,
    slab: Slab<Stamped<P>>,
    flows: Vec<Flow>,
    rounds: NewFirst,
    packets: u32,
    bytes: u64,
    counters: Counters,
}

#[derive(Clone, Debug)]
struct Flow {
    control: Control,
    packets: List,
    backlog: u64,
    /// The bytes that the flow may still send in its turn.
    deficit: i64,
    /// The flow after it in its round.
    next: u32,
    /// Whether it is in a round, possibly without packets.
    in_round: bool,
}

impl<P: Packet> FqPie<P> {
    /// Creates empty queues. Which flows share one, and which packets are dropped, follows from
    /// `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config, seed: u64) -> Self {
        assert_possible(config.check());
        let params = Params::new(&config.of_one(), config.batches());
        let flow = Flow {
            control: Control::new(&params),
            packets: List::EMPTY,
            backlog: 0,
            deficit: 0,
            next: NIL,
            in_round: false,
        };
        Self {
            limit: config.limit,
            idles: config.idles,
            ecn: config.ecn,
            most_marked: (config.ecn_prob * 100.0 * (CERTAIN / 100) as f64) as u64,
            seed,
            params,
            random: Pcg32::seed_from_u64(seed),
            slab: Slab::new(),
            flows: vec![flow; config.flows as usize],
            rounds: NewFirst::new(config.quantum),
            packets: 0,
            bytes: 0,
            counters: Counters::ZERO,
        }
    }

    #[inline]
    fn flow_of(&self, packet: &P) -> u32 {
        let hash = mix(packet.flow_hash(), self.seed) >> 32;
        ((hash * self.flows.len() as u64) >> 32) as u32
    }
}

impl<P: Packet> Qdisc<P> for FqPie<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let index = self.flow_of(&packet);
        let Self { params, counters, random, .. } = self;
        let flow = &mut self.flows[index as usize];
        flow.control.catch_up(now, params, flow.backlog);
        let vars = &mut flow.control.vars;
        let bytes = packet.bytes();
        counters.arrived_packets += 1;
        counters.arrived_bytes += u64::from(bytes);
        let verdict = if self.packets >= self.limit {
            Err(DropReason::Overflow)
        } else if !vars.hits(params, flow.backlog, bytes, random) {
            Ok(Verdict::Queued)
        } else if self.ecn && vars.drop_prob <= self.most_marked && packet.ecn().is_capable() {
            packet.mark();
            counters.marked_early += 1;
            Ok(Verdict::Marked)
        } else {
            Err(DropReason::Early)
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(reason) => {
                vars.accu_prob = 0;
                counters.on_drop(bytes, reason);
                dropped.push((packet, reason));
                return Verdict::Dropped;
            }
        };
        self.slab.push_back(&mut flow.packets, Stamped { packet, arrived_at: now });
        flow.backlog += u64::from(bytes);
        if !flow.in_round {
            flow.in_round = true;
            self.rounds.add(index, &mut self.flows);
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
        verdict
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        if self.packets == 0 && !self.idles {
            return None;
        }
        loop {
            let (index, is_new) = self.rounds.turn(&mut self.flows)?;
            let flow = &mut self.flows[index as usize];
            let Some(Stamped { packet, arrived_at }) = self.slab.pop_front(&mut flow.packets)
            else {
                let stays = self.rounds.end(index, is_new, &mut self.flows);
                self.flows[index as usize].in_round = stays;
                continue;
            };
            let bytes = packet.bytes();
            flow.control.catch_up(now, &self.params, flow.backlog);
            flow.backlog -= u64::from(bytes);
            flow.deficit -= i64::from(bytes);
            let vars = &mut flow.control.vars;
            vars.on_departure(&self.params, now, arrived_at, bytes, flow.backlog);
            self.packets -= 1;
            self.bytes -= u64::from(bytes);
            self.counters.on_departure(bytes);
            return Some(packet);
        }
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
