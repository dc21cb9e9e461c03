//! The agenda: what happens next.
//!
//! A calendar queue (Brown, "Calendar Queues", CACM 31(10), 1988): a wheel of buckets, each a
//! short list in order of time, and a heap for what lies beyond the wheel. The width of a bucket
//! follows the observed distance between events, so that a bucket holds about one; the number of
//! buckets grows as long as many events lie beyond the wheel.
//!
//! Simultaneous events run in the order in which they were scheduled. That needs no sequence
//! number inside the wheel, because equal times fall into one bucket and are put behind each
//! other there; only the heap carries one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use narrows_units::Time;

/// What an entry stands for; the engine gives it its meaning. Four bits of kind, 28 of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event(u32);

impl Event {
    /// The largest index that fits.
    pub(crate) const MAX_INDEX: u32 = (1 << 28) - 1;

    #[inline]
    pub(crate) const fn new(kind: u32, index: u32) -> Self {
        Self(kind << 28 | index)
    }

    #[inline]
    pub(crate) const fn kind(self) -> u32 {
        self.0 >> 28
    }

    #[inline]
    pub(crate) const fn index(self) -> u32 {
        self.0 & Self::MAX_INDEX
    }
}

/// A priority queue of events by time, first in, first out among equals.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// First node of each bucket, or `NONE`.
    heads: Vec<u32>,
    /// Last node of each bucket that has a first.
    tails: Vec<u32>,
    /// One bit for each bucket that holds something.
    occupied: Vec<u64>,
    nodes: Vec<Node>,
    free: u32,
    /// Entries in the wheel.
    in_wheel: usize,
    /// A bucket spans 2^shift picoseconds.
    shift: u32,
    /// Number of the bucket in which the wheel stands: the last popped time, shifted.
    current: u64,
    /// What lies beyond the wheel.
    later: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
    /// Pops since the last look at the wheel's shape, and what `scheduled` and the time were then.
    pops: u32,
    scheduled_then: u64,
    /// Entries passed in buckets since then, to find a new one's place.
    steps: u32,
    looked_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    at: Time,
    event: Event,
    next: u32,
}

const NONE: u32 = u32::MAX;
const FEWEST_BUCKETS: usize = 1 << 12;
const MOST_BUCKETS: usize = 1 << 18;
/// Pops between two looks at the wheel's shape.
const LOOK_INTERVAL: u32 = 1 << 14;
/// Entries passed between two looks, above which buckets are too wide: 16 a pop.
const MOST_STEPS: u32 = 16 * LOOK_INTERVAL;
/// Narrowest buckets: 2^10 ps, a nanosecond.
const NARROWEST: u32 = 10;
/// Width to start with: 2^24 ps, 17 us.
const INITIAL_SHIFT: u32 = 24;

impl Agenda {
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![NONE; FEWEST_BUCKETS],
            tails: vec![NONE; FEWEST_BUCKETS],
            occupied: vec![0; FEWEST_BUCKETS / 64],
            nodes: Vec::new(),
            free: NONE,
            in_wheel: 0,
            shift: INITIAL_SHIFT,
            current: 0,
            later: BinaryHeap::new(),
            scheduled: 0,
            pops: 0,
            scheduled_then: 0,
            steps: 0,
            looked_at: Time::ZERO,
        }
    }

    #[inline]
    fn buckets(&self) -> u64 {
        self.heads.len() as u64
    }

    /// The place of a bucket in the wheel.
    #[inline]
    fn slot(&self, bucket: u64) -> usize {
        (bucket & (self.buckets() - 1)) as usize
    }

    /// Puts `event` at `at`, which is not before the last popped time.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        let bucket = at.as_ps() >> self.shift;
        debug_assert!(bucket >= self.current, "an event in the past");
        if bucket - self.current < self.buckets() {
            self.insert(bucket, at, event);
            if self.steps > MOST_STEPS {
                self.thin_out();
            }
        } else {
            self.scheduled += 1;
            self.later.push(Reverse((at, self.scheduled, event)));
        }
    }

    /// Takes the next event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        let slot = self.slot(self.current);
        if self.heads[slot] == NONE {
            self.move_on()?;
        }
        let slot = self.slot(self.current);
        let index = self.heads[slot];
        let node = self.nodes[index as usize];
        self.heads[slot] = node.next;
        if node.next == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.nodes[index as usize].next = self.free;
        self.free = index;
        self.in_wheel -= 1;
        self.pops += 1;
        if self.pops == LOOK_INTERVAL {
            self.adapt(node.at);
        }
        Some((node.at, node.event))
    }

    fn insert(&mut self, bucket: u64, at: Time, event: Event) {
        let index = if self.free == NONE {
            self.nodes.push(Node { at, event, next: NONE });
            (self.nodes.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            index
        };
        let slot = self.slot(bucket);
        // Behind everything that is not later: first in, first out among equals.
        let head = self.heads[slot];
        if head == NONE {
            self.nodes[index as usize] = Node { at, event, next: NONE };
            self.heads[slot] = index;
            self.tails[slot] = index;
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else if self.nodes[self.tails[slot] as usize].at <= at {
            self.nodes[index as usize] = Node { at, event, next: NONE };
            self.nodes[self.tails[slot] as usize].next = index;
            self.tails[slot] = index;
        } else {
            let mut previous = NONE;
            let mut next = head;
            while self.nodes[next as usize].at <= at {
                previous = next;
                next = self.nodes[next as usize].next;
                self.steps += 1;
            }
            self.nodes[index as usize] = Node { at, event, next };
            if previous == NONE {
                self.heads[slot] = index;
            } else {
                self.nodes[previous as usize].next = index;
            }
        }
        self.in_wheel += 1;
    }

    /// Makes buckets narrower at once where many entries crowd into few.
    #[cold]
    fn thin_out(&mut self) {
        self.steps = 0;
        let now = Time::from_ps(self.current << self.shift);
        let shift = self.shift.saturating_sub(3).max(NARROWEST);
        if shift < self.shift {
            self.rebuild(now, shift, self.heads.len());
        }
    }

    /// Turns the wheel to the next bucket that holds something.
    #[cold]
    #[inline(never)]
    fn jump(&mut self) -> Option<()> {
        let Reverse((at, ..)) = self.later.peek()?;
        self.current = at.as_ps() >> self.shift;
        Some(())
    }

    fn move_on(&mut self) -> Option<()> {
        if self.in_wheel == 0 {
            self.jump()?;
        } else {
            self.current += self.distance_to_next();
        }
        // Entries of the heap that the wheel has reached come in before anything new does, so
        // that equal times keep the order in which they were scheduled.
        let horizon = self.current + self.buckets();
        while let Some(&Reverse((at, _, event))) = self.later.peek() {
            let bucket = at.as_ps() >> self.shift;
            if bucket >= horizon {
                break;
            }
            self.later.pop();
            self.insert(bucket, at, event);
        }
        Some(())
    }

    /// Buckets from the current one to the next that is occupied; the wheel is not empty.
    fn distance_to_next(&self) -> u64 {
        let start = self.slot(self.current);
        let words = self.occupied.len();
        let first = self.occupied[start / 64] >> (start % 64);
        if first != 0 {
            return u64::from(first.trailing_zeros());
        }
        let mut distance = 64 - (start % 64) as u64;
        for step in 1..=words {
            let word = self.occupied[(start / 64 + step) % words];
            if word != 0 {
                return distance + u64::from(word.trailing_zeros());
            }
            distance += 64;
        }
        unreachable!("the wheel holds an entry, so a bit is set")
    }

    /// Makes buckets about as wide as the mean distance between events, and enough of them.
    fn adapt(&mut self, now: Time) {
        let gap = now.since(self.looked_at).as_ps() / u64::from(LOOK_INTERVAL);
        let beyond = self.scheduled - self.scheduled_then;
        self.pops = 0;
        self.steps = 0;
        self.looked_at = now;
        self.scheduled_then = self.scheduled;
        let shift = (64 - gap.leading_zeros()).clamp(NARROWEST, 40);
        let shift = if shift.abs_diff(self.shift) > 1 { shift } else { self.shift };
        let too_few = beyond > u64::from(LOOK_INTERVAL / 16) && self.heads.len() < MOST_BUCKETS;
        let buckets = if too_few { self.heads.len() * 4 } else { self.heads.len() };
        if (shift, buckets) != (self.shift, self.heads.len()) {
            self.rebuild(now, shift, buckets);
        }
    }

    #[cold]
    fn rebuild(&mut self, now: Time, shift: u32, buckets: usize) {
        let mut entries = Vec::with_capacity(self.in_wheel + self.later.len());
        for offset in 0..self.buckets() {
            let mut next = self.heads[self.slot(self.current + offset)];
            while next != NONE {
                let node = self.nodes[next as usize];
                entries.push((node.at, node.event));
                next = node.next;
            }
        }
        while let Some(Reverse((at, _, event))) = self.later.pop() {
            entries.push((at, event));
        }
        self.heads.clear();
        self.heads.resize(buckets, NONE);
        self.tails.clear();
        self.tails.resize(buckets, NONE);
        self.occupied.clear();
        self.occupied.resize(buckets / 64, 0);
        self.nodes.clear();
        self.free = NONE;
        self.in_wheel = 0;
        self.shift = shift;
        self.current = now.as_ps() >> shift;
        for (at, event) in entries {
            self.schedule(at, event);
        }
        self.scheduled_then = self.scheduled;
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};

    use super::*;

    /// The agenda against a sorted list, with ties, far events and changing density.
    #[test]
    fn gives_events_by_time_and_then_in_the_order_of_scheduling() {
        for seed in 0..20 {
            let mut random = rand_pcg::Pcg32::seed_from_u64(seed);
            let mut agenda = Agenda::new();
            let mut model: std::collections::BTreeMap<(u64, u32), ()> = Default::default();
            let mut now = 0u64;
            let mut scheduled = 0u32;
            for round in 0..60_000u32 {
                let grow = if round % 20_000 < 10_000 { 3 } else { 1 };
                for _ in 0..random.next_u32() % (grow + 1) {
                    let scale = [0u64, 1, 1_000, 1 << 20, 1 << 26, 1 << 38, 1 << 44]
                        [(random.next_u32() % 7) as usize];
                    let delta = if scale == 0 { 0 } else { random.next_u64() % scale / 8 * 8 };
                    agenda.schedule(Time::from_ps(now + delta), Event::new(3, scheduled));
                    model.insert((now + delta, scheduled), ());
                    scheduled += 1;
                }
                let expected = model.pop_first().map(|((at, id), ())| (at, id));
                let popped = agenda.pop().map(|(at, event)| (at.as_ps(), event.index()));
                assert_eq!(popped, expected);
                now = expected.map_or(now, |(at, _)| at);
            }
        }
    }
}
