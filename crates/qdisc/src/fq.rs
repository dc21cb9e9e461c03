//! fq: a queue for each flow, served in turn, each no faster than a rate or than its packets'
//! departure times.
//!
//! Source: tc-fq(8); what Linux 6.1 does (`sch_fq`), as facts: its defaults, and the rules listed
//! here; for `bands`, the messages of 6.7's commits and response times on Linux 7.3. Rounds are those
//! of deficit round robin ([`crate::drr`]), with new flows first.
//!
//! A flow that has sent its credit waits for the next round, where it gets `quantum` more bytes. With
//! `maxrate`, it also waits until `quantum` would have been sent at that rate. If the flow sent
//! later than it might have, this wait is shorter by as much, but at least half as long. At a rate
//! of at most `low_rate_threshold`, each packet is followed by its own wait.
//!
//! Differences from Linux:
//!
//! - Flows are hashed ([`Packet::flow_hash`]) to `orphan_mask` + 1 queues, as Linux does with
//!   forwarded packets. A host's own packets have a queue for each socket there.
//! - The rate of a flow is `maxrate`. In Linux, a socket may have a lower one.
//! - A flow's packets leave in order of arrival. Linux sorts them by departure time.
//! - Flows are never forgotten, so only their first packets have `initial_quantum`. Linux forgets
//!   flows that have been idle for three seconds if there are very many.
//! - A queue that holds packets back becomes ready exactly in time. Linux's timer may fire 10 us
//!   late (`timer_slack`).
//! - Nothing has priority. Linux 6.1 sends control packets first.
//!
//! With `bands`, it is Linux 6.7's and later. Bands take turns, each with the bytes of its weight, and
//! packets that find no flow with a packet pass by the flows, up to eight at a time. Linux has three
//! bands for packets of different priority, and two of them matter here: a flow that Linux sees for
//! the first time is in band 0, and from its next turn on in that of its packets, band 1 (as Linux 7.3
//! behaves: until the turn of band 1 ends, new flows wait). `limit` does not count packets that pass.

use core::cmp::Reverse;

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Bytes, Pace, Rate, Span, Time};

use crate::drr::heap::Heap;
use crate::drr::round::{Linked, Round};
use crate::drr::slab::{List, NIL, Slab};
use crate::settings::{MOST_BYTES, MOST_PACKETS, Settings, any, positive, settings, size, whole};
use crate::stamped::Stamped;
use crate::{
    Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc,
    Verdict, assert_possible, mix,
};

settings! {
    /// Fair queueing with pacing: tc-fq(8).
    pub struct Config {
        /// Packets that may wait in all queues together.
        limit: u32 = 10_000, whole(1, MOST_PACKETS);
        /// Packets that may wait of one flow.
        flow_limit: u32 = 100, whole(1, MOST_PACKETS);
        /// Bytes that a flow may send in its turn; 256 B to 1 MiB.
        quantum: u32 = 3028, size(256, 1 << 20);
        /// Bytes that a flow may send in its first turn.
        initial_quantum: u32 = 15_140, size(0, MOST_BYTES);
        /// The highest rate of a flow, with `framing.queue_overhead` counted; none by default.
        maxrate: Option<Rate> = None, any();
        /// A flow with a `maxrate` up to this waits after each packet, not after each `quantum`.
        low_rate_threshold: Rate = LOW_RATE, any();
        /// A flow without packets for longer than this has at least a `quantum` when it returns.
        refill_delay: Span = Span::from_ms(40), any();
        /// The number of queues, less one; a hash assigns flows to them. One less than a power of
        /// two, at most 65535.
        orphan_mask: u32 = 1023, whole(0, 65_535);
        /// Waiting time above which every ECN-capable packet is marked; none by default. It does not
        /// include the time for which the flow was held back.
        ce_threshold: Option<Span> = None, any();
        /// How far a packet's departure time may lie ahead. Only packets of a program of your own
        /// have departure times.
        horizon: Span = Span::from_secs(10), positive();
        /// Drops packets whose departure time lies further ahead. Otherwise they leave at the
        /// horizon.
        horizon_drop: bool = true, any();
        /// Whether it works as in Linux since 6.7, with three bands that take turns, and packets that
        /// pass by the flows. Linux 6.1 has neither.
        bands: bool = false, any();
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        let queues = self.orphan_mask + 1;
        if queues.is_power_of_two() {
            return Ok(());
        }
        let below = (1 << queues.ilog2()) - 1;
        Err(ConfigError::new("orphan_mask", "is not one less than a power of two")
            .or(format!("{below} or {}", 2 * below + 1)))
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "FQ";
    const NOTICES_IDLENESS: bool = false;
    type Queue<P> = Fq<P>;

    fn build<P: Packet>(&self, seed: u64) -> Fq<P> {
        Fq::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        Levels::packets(self.limit).in_several_lines()
    }

    fn held(&self) -> u64 {
        u64::from(self.orphan_mask) + 1
    }
}

/// The bytes that a band may send in its turn; its flows are served meanwhile. `FIRST` is tc's band 0,
/// and `USUAL` its band 1.
const WEIGHTS: [i64; 2] = [589_824, 196_608];
const FIRST: usize = 0;
const USUAL: usize = 1;
/// A weight whose turn never ends.
const WHOLE: i64 = i64::MAX / 4;

/// The most packets that pass by the flows at a time.
const MOST_PASSING: u32 = 8;

const LOW_RATE: Rate = Rate::from_bps(550_000).expect("it is not zero");

/// What a packet costs of the credit at most, so that its flow has it back after some rounds. Linux
/// has no larger packets.
const LARGEST: u32 = 1 << 16;

/// The longest wait between two packets of a flow.
const LONGEST: Span = Span::from_secs(1);

/// Queues that are served in turn, and paced.
#[derive(Clone, Debug)]
pub struct Fq<P> {
    config: Config,
    seed: u64,
    ce_threshold: Span,
    /// Seconds for each byte at `maxrate`.
    pace: Option<Pace>,
    /// Whether each packet of a flow is followed by its own wait.
    is_slow: bool,
    slab: Slab<Stamped<P>>,
    flows: Vec<Flow>,
    bands: [Band; 2],
    weights: [i64; 2],
    /// The band whose turn it is.
    turn: usize,
    /// Packets that pass by the flows, and leave before theirs.
    passing: List,
    passing_count: u32,
    /// How many flows have packets and are not held back.
    active: u32,
    /// The flows that are held back, by when they may send, and then by when they were.
    held: Heap<(Reverse<Time>, Reverse<u64>)>,
    /// How many flows have been held back.
    held_count: u64,
    packets: u32,
    bytes: u64,
    counters: Counters,
}

/// Flows that are served in the same turn.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// Flows that are served first.
    new_flows: Round,
    old_flows: Round,
    /// The bytes that they may still send in this turn.
    credit: i64,
}

/// `struct fq_flow`
#[derive(Clone, Debug)]
struct Flow {
    /// Packets with the times from which they may leave.
    packets: List,
    count: u32,
    state: State,
    /// The flow after it in its round.
    next: u32,
    /// The bytes that the flow may still send in its turn.
    credit: i64,
    /// When its next packet may leave; zero: any time.
    next_at: Time,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In no round and without packets, and since when, if it ever had some.
    Idle(Option<Time>),
    /// In a round, possibly without packets.
    InRound,
    /// Held back.
    Held,
}

impl<P: Packet> Fq<P> {
    /// Creates empty queues. Which flows share one follows from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        let flow = Flow {
            packets: List::EMPTY,
            count: 0,
            state: State::Idle(None),
            next: NIL,
            credit: i64::from(config.initial_quantum),
            next_at: Time::ZERO,
        };
        let (weights, turn) = if config.bands { (WEIGHTS, FIRST) } else { ([WHOLE; 2], USUAL) };
        let band = Band { new_flows: Round::EMPTY, old_flows: Round::EMPTY, credit: 0 };
        Self {
            seed,
            ce_threshold: config.ce_threshold.unwrap_or(Span::MAX),
            pace: config.maxrate.map(Rate::pace),
            is_slow: config.maxrate.is_some_and(|rate| rate <= config.low_rate_threshold),
            slab: Slab::new(),
            flows: vec![flow; config.orphan_mask as usize + 1],
            bands: [band; 2],
            weights,
            turn,
            passing: List::EMPTY,
            passing_count: 0,
            active: 0,
            held: Heap::new(),
            held_count: 0,
            packets: 0,
            bytes: 0,
            counters: Counters::ZERO,
            config,
        }
    }

    /// Returns the queue of a packet's flow.
    #[inline]
    fn flow_of(&self, packet: &P) -> u32 {
        mix(packet.flow_hash(), self.seed) as u32 & self.config.orphan_mask
    }

    /// Returns the earliest time at which a flow that is held back may send.
    #[inline]
    fn first_held(&self) -> Option<(u32, Time)> {
        let index = self.held.first()?;
        self.held.key(index).map(|(Reverse(at), _)| (index, at))
    }

    /// Puts flows that may send again at the end of the old ones.
    #[inline]
    fn wake(&mut self, now: Time) {
        while let Some((index, at)) = self.first_held()
            && at <= now
        {
            self.held.remove(index);
            self.flows[index as usize].state = State::InRound;
            self.active += 1;
            self.bands[USUAL].old_flows.push_back(index, &mut self.flows);
        }
    }

    /// Returns the band whose turn it is, if one has flows.
    #[inline]
    fn next_band(&mut self) -> Option<usize> {
        for _ in 0..=self.bands.len() {
            let band = &self.bands[self.turn];
            let has_flows = !band.new_flows.is_empty() || !band.old_flows.is_empty();
            if band.credit > 0 && has_flows {
                return Some(self.turn);
            }
            self.turn = (self.turn + 1) % self.bands.len();
            let weight = self.weights[self.turn];
            let credit = &mut self.bands[self.turn].credit;
            *credit = (*credit + weight).min(weight);
        }
        None
    }

    /// Returns whether a packet that may leave from then on passes by the flows: none of them has one
    /// that may leave now, and few packets pass already.
    #[inline]
    fn passes(&self, now: Time, leaves_from: Time) -> bool {
        self.config.bands
            && self.config.maxrate.is_none()
            && leaves_from <= now
            && (self.packets == 0
                || self.active == 0
                    && self.passing_count < MOST_PASSING
                    && self.first_held().is_none_or(|(_, at)| at > now))
    }

    /// Returns from when a packet that comes at `now` may leave, or `None` if that is beyond the
    /// horizon and it is dropped.
    #[inline]
    fn leaves_from(&self, now: Time, packet: &P) -> Option<Time> {
        let Some(departure_at) = packet.departure_at() else { return Some(now) };
        let horizon = now + self.config.horizon;
        if departure_at > horizon && self.config.horizon_drop {
            return None;
        }
        Some(departure_at.min(horizon))
    }

    /// Determines when a flow may send again after a packet at `now`.
    #[inline]
    fn hold_back(&mut self, index: u32, now: Time, bytes: u32, has_departure: bool) {
        let flow = &mut self.flows[index as usize];
        let Some(pace) = self.pace else { return };
        let mut length = bytes;
        if !has_departure {
            if self.is_slow {
                flow.credit = 0;
            } else if flow.credit > 0 {
                return;
            } else {
                length = bytes.max(self.config.quantum);
            }
        }
        let wait = pace.time_for(Bytes::from(length)).min(LONGEST);
        let late = if flow.next_at == Time::ZERO { Span::ZERO } else { now.since(flow.next_at) };
        flow.next_at = now + wait.saturating_sub(late.min(wait / 2));
    }
}

impl<P: Packet> Qdisc<P> for Fq<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.on_arrival(bytes);
        let index = self.flow_of(&packet);
        let full = self.packets - self.passing_count >= self.config.limit
            || self.flows[index as usize].count >= self.config.flow_limit;
        let leaves_from = if full { None } else { self.leaves_from(now, &packet) };
        let Some(leaves_from) = leaves_from else {
            self.counters.on_drop(bytes, DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
            return Verdict::Dropped;
        };
        let stamped = Stamped { packet, arrived_at: leaves_from };
        let passes = self.passes(now, leaves_from);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        if passes {
            self.slab.push_back(&mut self.passing, stamped);
            self.passing_count += 1;
            return Verdict::Queued;
        }
        let flow = &mut self.flows[index as usize];
        self.slab.push_back(&mut flow.packets, stamped);
        flow.count += 1;
        self.active += u32::from(flow.count == 1);
        if let State::Idle(since) = flow.state {
            flow.state = State::InRound;
            let mut band = USUAL;
            match since {
                None if self.config.bands => band = FIRST,
                Some(since) if now.since(since) > self.config.refill_delay => {
                    flow.credit = flow.credit.max(i64::from(self.config.quantum));
                }
                _ => {}
            }
            self.bands[band].new_flows.push_back(index, &mut self.flows);
        }
        Verdict::Queued
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        if self.packets == 0 {
            return None;
        }
        if let Some(Stamped { packet, .. }) = self.slab.pop_front(&mut self.passing) {
            self.passing_count -= 1;
            self.packets -= 1;
            self.bytes -= u64::from(packet.bytes());
            self.counters.on_departure(packet.bytes());
            return Some(packet);
        }
        self.wake(now);
        loop {
            let turn = self.next_band()?;
            let band = &mut self.bands[turn];
            let is_new = !band.new_flows.is_empty();
            let round = if is_new { &mut band.new_flows } else { &mut band.old_flows };
            let index = round.first();
            let flow = self.flows.get_mut(index as usize)?;
            if flow.credit <= 0 {
                flow.credit += i64::from(self.config.quantum);
                round.pop_front(&mut self.flows);
                self.bands[USUAL].old_flows.push_back(index, &mut self.flows);
                continue;
            }
            let Some(front) = self.slab.front(flow.packets) else {
                round.pop_front(&mut self.flows);
                // Flows that return again and again as new ones must not starve the old ones.
                let old_flows = &mut self.bands[USUAL].old_flows;
                if is_new && !old_flows.is_empty() {
                    old_flows.push_back(index, &mut self.flows);
                } else {
                    self.flows[index as usize].state = State::Idle(Some(now));
                }
                continue;
            };
            let due = front.arrived_at.max(flow.next_at);
            if due > now {
                flow.next_at = due;
                flow.state = State::Held;
                self.active -= 1;
                round.pop_front(&mut self.flows);
                self.held.set(index, (Reverse(due), Reverse(self.held_count)));
                self.held_count += 1;
                continue;
            }
            let Stamped { mut packet, .. } = self.slab.pop_front(&mut flow.packets)?;
            let bytes = packet.bytes();
            flow.count -= 1;
            self.active -= u32::from(flow.count == 0);
            let cost = i64::from(bytes.min(LARGEST));
            flow.credit -= cost;
            self.bands[turn].credit -= cost;
            self.packets -= 1;
            self.bytes -= u64::from(bytes);
            if now.since(due) > self.ce_threshold && packet.ecn().is_capable() {
                packet.mark();
                self.counters.marked_forced += 1;
            }
            self.counters.on_departure(bytes);
            self.hold_back(index, now, bytes, packet.departure_at().is_some());
            return Some(packet);
        }
    }

    /// If all flows with packets are held back, the next one's time.
    fn ready_at(&self, _now: Time) -> Option<Time> {
        if self.packets == 0 { None } else { self.first_held().map(|(_, at)| at) }
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

#[cfg(test)]
mod tests;
