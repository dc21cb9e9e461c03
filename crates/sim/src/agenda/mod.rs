//! The agenda: what happens next.
//!
//! It is a calendar queue (Brown, "Calendar Queues", CACM 31(10), 1988): a wheel of buckets, each a
//! short list in order of time. The width of a bucket follows the observed distance between events,
//! so that a bucket holds about one event. The number of buckets grows as long as many events lie
//! beyond the wheel. Events beyond the wheel are on coarser lists ([`far`]).
//!
//! Simultaneous events run in the order in which they were scheduled. This needs no sequence
//! numbers: events with equal times are always on the same list, and new ones are appended.

mod event;
mod far;
mod store;

use narrows_units::Time;

pub(crate) use self::event::Event;
use self::event::Packed;
use self::far::Far;
use self::store::{List, NONE, Store};
use crate::maybe_index::MaybeIndex;

/// A priority queue of events by time, first in, first out among equals.
#[derive(Debug)]
pub(crate) struct Agenda {
    buckets: Vec<List>,
    /// One bit for each bucket, set if the bucket is not empty.
    occupied: Vec<u64>,
    store: Store,
    /// Entries in the wheel.
    in_wheel: usize,
    /// A bucket spans 2^shift picoseconds.
    shift: u32,
    /// The number of the wheel's current bucket: the last popped time, shifted.
    current: u64,
    /// The number of the first bucket beyond the wheel. Its start is a whole number of ticks.
    reach: u64,
    /// Events beyond the wheel, by ticks.
    far: Far,
    /// Entries put there since the wheel's shape was last checked.
    put_far: u32,
    /// Pops since then.
    pops: u32,
    /// Entries passed since then while searching buckets for the place of a new one.
    steps: u32,
    looked_at: Time,
}

const FEWEST_BUCKETS: usize = 1 << 12;
const MOST_BUCKETS: usize = 1 << 18;
/// Ticks in the wheel's width. The wheel takes in events from beyond it one tick at a time.
const TICKS: u64 = 16;
/// Pops between two checks of the wheel's shape.
const LOOK_INTERVAL: u32 = 1 << 14;
/// The number of entries passed between two checks above which buckets are too wide: 16 for each
/// pop.
const MOST_STEPS: u32 = 16 * LOOK_INTERVAL;
/// The narrowest bucket: 2^10 ps, about a nanosecond.
const NARROWEST: u32 = 10;
/// The number of buckets that are foreseen at once. Only the first few entries of each are listed,
/// up to the same number.
const FORESEEN: usize = 32;
const FORESEEN_DEPTH: usize = 4;
/// The initial width of a bucket: 2^24 ps, about 17 us.
const INITIAL_SHIFT: u32 = 24;

impl Agenda {
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![List::EMPTY; FEWEST_BUCKETS],
            occupied: vec![0; FEWEST_BUCKETS / 64],
            store: Store::new(),
            in_wheel: 0,
            shift: INITIAL_SHIFT,
            current: 0,
            reach: FEWEST_BUCKETS as u64,
            far: Far::new(TICKS),
            put_far: 0,
            pops: 0,
            steps: 0,
            looked_at: Time::ZERO,
        }
    }

    /// Schedules `event` at `at`, which must not lie before the last popped time.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        let entry = self.store.put(at, Packed::new(event));
        self.put(at, entry);
    }

    /// Takes the next event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        let mut slot = self.slot(self.current);
        // A loop, because buckets may have become narrower while the wheel took in more.
        while self.buckets[slot].is_empty() {
            self.move_on()?;
            slot = self.slot(self.current);
        }
        let bucket = &mut self.buckets[slot];
        let node = self.store.take(bucket.first);
        bucket.first = node.next;
        if node.next.is_none() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.in_wheel -= 1;
        self.pops += 1;
        if self.pops == LOOK_INTERVAL {
            self.adapt(node.at);
        }
        Some((node.at, node.event.event()))
    }

    /// Lists the next events, as far as they are scheduled by now: almost all of them, roughly in
    /// order. Returns the time up to which the list goes.
    ///
    /// Reads the entries step by step for all buckets together: fetching many places from memory
    /// takes hardly longer than fetching one.
    pub(crate) fn foresee(&self, events: &mut Vec<Event>) -> Time {
        let mut entries = [NONE; FORESEEN];
        let mut count = 0;
        let mut bucket = self.current;
        while count < FORESEEN && bucket < self.reach {
            let slot = self.slot(bucket);
            let ahead = self.occupied[slot / 64] >> (slot % 64);
            if ahead == 0 {
                bucket += 64 - slot as u64 % 64;
                continue;
            }
            bucket += u64::from(ahead.trailing_zeros());
            entries[count] = self.buckets[self.slot(bucket)].first;
            count += 1;
            bucket += 1;
        }
        for _ in 0..FORESEEN_DEPTH {
            let mut more = 0;
            for at in 0..count {
                let entry = entries[at];
                events.push(self.store.event(entry).event());
                // No branch here, because the processor could not predict it.
                let next = self.store.next(entry);
                entries[more] = next;
                more += usize::from(!next.is_none());
            }
            count = more;
        }
        Time::from_ps(bucket << self.shift)
    }

    /// Returns the index of a bucket in the wheel.
    #[inline(always)]
    fn slot(&self, bucket: u64) -> usize {
        bucket as usize & (self.buckets.len() - 1)
    }

    /// Inserts an entry that has no successor.
    fn put(&mut self, at: Time, entry: MaybeIndex) {
        let bucket = at.as_ps() >> self.shift;
        debug_assert!(bucket >= self.current, "an event in the past");
        if bucket >= self.reach {
            self.put_far += 1;
            self.far.put(bucket / self.buckets_a_tick(), entry, &mut self.store);
            return;
        }
        self.in_wheel += 1;
        let slot = self.slot(bucket);
        let list = &mut self.buckets[slot];
        if list.is_empty() {
            *list = List { first: entry, last: entry };
            self.occupied[slot / 64] |= 1 << (slot % 64);
        } else if self.store.at(list.last) <= at {
            // It goes behind everything that is not later: first in, first out among equals.
            self.store.set_next(list.last, entry);
            list.last = entry;
        } else {
            self.put_between(slot, at, entry);
        }
    }

    /// Inserts an entry into a bucket whose last entry is later.
    #[inline(never)]
    fn put_between(&mut self, slot: usize, at: Time, entry: MaybeIndex) {
        let list = &mut self.buckets[slot];
        let mut previous = NONE;
        let mut next = list.first;
        while self.store.at(next) <= at {
            previous = next;
            next = self.store.next(next);
            self.steps += 1;
        }
        self.store.set_next(entry, next);
        if previous.is_none() {
            list.first = entry;
        } else {
            self.store.set_next(previous, entry);
        }
        if self.steps > MOST_STEPS {
            self.thin_out();
        }
    }

    /// Makes buckets narrower at once if many entries crowd into a few of them.
    #[cold]
    fn thin_out(&mut self) {
        self.steps = 0;
        let now = Time::from_ps(self.current << self.shift);
        let shift = self.shift.saturating_sub(3).max(NARROWEST);
        if shift < self.shift {
            self.rebuild(now, shift, self.buckets.len());
        }
    }

    /// Turns the wheel to the next bucket that is not empty. Returns `None` if nothing is pending.
    #[inline(never)]
    fn move_on(&mut self) -> Option<()> {
        while self.in_wheel == 0 {
            let tick = self.far.next()?;
            let (ticks, shift) = (self.buckets_a_tick(), self.shift);
            self.far.skip_to(tick, &mut self.store, |store, entry| {
                (store.at(entry).as_ps() >> shift) / ticks
            });
            self.reach = tick * ticks;
            self.current = self.reach;
            self.take_in();
        }
        self.current += self.distance_to_next();
        if self.current + self.buckets.len() as u64 >= self.reach + self.buckets_a_tick() {
            self.take_in();
        }
        Some(())
    }

    /// Moves the entries that the wheel now reaches into it. This happens before anything new is
    /// put there, so equal times keep their order.
    #[inline(never)]
    fn take_in(&mut self) {
        let (ticks, shift) = (self.buckets_a_tick(), self.shift);
        while self.reach + ticks <= self.current + self.buckets.len() as u64 {
            let list = self
                .far
                .take(&mut self.store, |store, entry| (store.at(entry).as_ps() >> shift) / ticks);
            self.reach += ticks;
            let mut entry = list.first;
            while !entry.is_none() {
                let next = self.store.next(entry);
                self.store.set_next(entry, NONE);
                self.put(self.store.at(entry), entry);
                entry = next;
            }
        }
    }

    #[inline]
    fn buckets_a_tick(&self) -> u64 {
        self.buckets.len() as u64 / TICKS
    }

    /// Returns how many buckets after the current one the next occupied one lies. The wheel must
    /// not be empty.
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

    /// Makes buckets about as wide as the mean distance between events, and provides enough of
    /// them.
    #[cold]
    fn adapt(&mut self, now: Time) {
        let gap = now.since(self.looked_at).as_ps() / u64::from(LOOK_INTERVAL);
        // Entries far away cost a few steps each; empty buckets cost memory and cache.
        let most = MOST_BUCKETS.min(2 * self.store.most_entries());
        let too_few = self.put_far > LOOK_INTERVAL / 16 && 4 * self.buckets.len() <= most;
        self.put_far = 0;
        self.pops = 0;
        self.steps = 0;
        self.looked_at = now;
        let shift = (64 - gap.leading_zeros()).clamp(NARROWEST, 40);
        let shift = if shift.abs_diff(self.shift) > 1 { shift } else { self.shift };
        let buckets = if too_few { self.buckets.len() * 4 } else { self.buckets.len() };
        if (shift, buckets) != (self.shift, self.buckets.len()) {
            self.rebuild(now, shift, buckets);
        }
    }

    #[cold]
    fn rebuild(&mut self, now: Time, shift: u32, buckets: usize) {
        let in_order = (self.current..self.reach).map(|bucket| self.buckets[self.slot(bucket)]);
        let lists: Vec<List> =
            in_order.filter(|list| !list.is_empty()).chain(self.far.lists()).collect();
        self.buckets.clear();
        self.buckets.resize(buckets, List::EMPTY);
        self.occupied.clear();
        self.occupied.resize(buckets / 64, 0);
        self.in_wheel = 0;
        self.shift = shift;
        self.current = now.as_ps() >> shift;
        let tick = self.current / self.buckets_a_tick() + TICKS;
        self.reach = tick * self.buckets_a_tick();
        self.far = Far::new(tick);
        for list in lists {
            let mut entry = list.first;
            while !entry.is_none() {
                let next = self.store.next(entry);
                self.store.set_next(entry, NONE);
                self.put(self.store.at(entry), entry);
                entry = next;
            }
        }
        self.put_far = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};

    use super::*;

    /// The events foreseen are those that then come, until the next look.
    #[test]
    fn foresees_what_comes() {
        let mut random = rand_pcg::Pcg32::seed_from_u64(1);
        let mut agenda = Agenda::new();
        let mut at = 0;
        for number in 0..20_000 {
            at += u64::from(random.next_u32() >> 6);
            agenda.schedule(Time::from_ps(at), Event::Wake(number));
        }
        let mut foreseen = Vec::new();
        let (mut looks, mut surprises, mut popped) = (0, 0, 0);
        let (mut now, mut until) = (Time::ZERO, Time::ZERO);
        loop {
            if now >= until {
                foreseen.clear();
                until = agenda.foresee(&mut foreseen);
                looks += 1;
            }
            let Some((at, event)) = agenda.pop() else { break };
            now = at;
            popped += 1;
            surprises += u32::from(!foreseen.contains(&event));
        }
        assert_eq!(popped, 20_000);
        // Surprises are events that were not foreseen. They come after the wheel moved on before a
        // look, or after it was rebuilt.
        assert!(looks < popped / 8 && surprises < popped / 16, "{looks} looks, {surprises}");
    }

    /// When the wheel turns to the first event, it takes in a crowd of others, so the buckets
    /// become narrower and the first event is in a later bucket.
    #[test]
    fn finds_an_event_whose_bucket_was_cut_meanwhile() {
        let mut agenda = Agenda::new();
        let near = (300 << INITIAL_SHIFT) + (15 << (INITIAL_SHIFT - 4));
        agenda.schedule(Time::from_ps(near), Event::Wake(0));
        let crowd = 2000;
        // Each one except the first finds its place behind those before it.
        for number in std::iter::once(crowd).chain(1..crowd) {
            let at = (4100 << INITIAL_SHIFT) + u64::from(number);
            agenda.schedule(Time::from_ps(at), Event::Wake(number));
        }
        for number in 0..=crowd {
            assert_eq!(agenda.pop().map(|(_, event)| event), Some(Event::Wake(number)));
        }
        assert_eq!(agenda.pop(), None);
    }

    /// Compares the agenda with a sorted list, with ties, far events and changing density.
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
                    agenda.schedule(Time::from_ps(now + delta), Event::Wake(scheduled));
                    model.insert((now + delta, scheduled), ());
                    scheduled += 1;
                }
                let expected = model.pop_first().map(|((at, id), ())| (at, id));
                let popped = agenda.pop().map(|(at, event)| (at.as_ps(), event));
                assert_eq!(popped, expected.map(|(at, id)| (at, Event::Wake(id))));
                now = expected.map_or(now, |(at, _)| at);
            }
        }
    }
}
