//! What lies beyond the wheel: lists by time, finer the nearer.
//!
//! Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 7, as a
//! radix tree: time is counted in ticks, a tick in digits of six bits, and an entry is on the list
//! of the highest digit in which it differs from now. When now comes to that digit, its list is
//! dealt out to lower ones. So putting an entry costs the same whatever lies there, and no memory.
//!
//! All entries of one tick are on the same list at any moment, in the order in which they were put.

use super::store::{List, NONE, Store};
use crate::maybe_index::MaybeIndex;

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);

#[derive(Debug)]
pub(super) struct Far {
    /// The first tick that may still be put.
    now: u64,
    levels: Box<[Level; LEVELS]>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    lists: [List; DIGITS],
    /// One bit for each list that holds something.
    occupied: u64,
}

impl Far {
    pub(super) fn new(now: u64) -> Self {
        let level = Level { lists: [List::EMPTY; DIGITS], occupied: 0 };
        Self { now, levels: Box::new([level; LEVELS]) }
    }

    /// Puts an entry, which nothing follows, at a tick that is not before now.
    pub(super) fn put(&mut self, tick: u64, entry: MaybeIndex, store: &mut Store) {
        debug_assert!(tick >= self.now, "a tick in the past");
        let level = level_of(tick ^ self.now);
        let digit = digit_of(tick, level);
        let level = &mut self.levels[level];
        level.lists[digit].append(entry, store);
        level.occupied |= 1 << digit;
    }

    /// Takes the list of the tick that is now, and goes on to the next tick. `tick_of` gives an
    /// entry's tick.
    pub(super) fn take(
        &mut self,
        store: &mut Store,
        tick_of: impl Fn(&Store, MaybeIndex) -> u64,
    ) -> List {
        let list = self.take_list(0, digit_of(self.now, 0));
        self.skip_to(self.now + 1, store, tick_of);
        list
    }

    /// The next tick at which there may be something; `None`: nothing lies here.
    pub(super) fn next(&self) -> Option<u64> {
        self.levels.iter().enumerate().find_map(|(number, level)| {
            // Lower lists are empty where the digit is now's, but at level 0.
            let digit = digit_of(self.now, number);
            let ahead = level.occupied >> digit;
            (ahead != 0).then(|| {
                let shift = number as u32 * DIGIT_BITS;
                ((self.now >> shift) + u64::from(ahead.trailing_zeros())) << shift
            })
        })
    }

    /// Goes on to `tick`, before which there is nothing.
    pub(super) fn skip_to(
        &mut self,
        tick: u64,
        store: &mut Store,
        tick_of: impl Fn(&Store, MaybeIndex) -> u64,
    ) {
        let level = level_of(tick ^ self.now);
        self.now = tick;
        if level > 0 {
            let mut entry = self.take_list(level, digit_of(tick, level)).first;
            while !entry.is_none() {
                let next = store.next(entry);
                store.set_next(entry, NONE);
                self.put(tick_of(store, entry), entry, store);
                entry = next;
            }
        }
    }

    /// The lists that hold something, in no order.
    pub(super) fn lists(&self) -> impl Iterator<Item = List> + '_ {
        self.levels.iter().flat_map(|level| level.lists).filter(|list| !list.is_empty())
    }

    fn take_list(&mut self, level: usize, digit: usize) -> List {
        let level = &mut self.levels[level];
        level.occupied &= !(1 << digit);
        std::mem::replace(&mut level.lists[digit], List::EMPTY)
    }
}

/// The highest digit in which two ticks differ, of which this is the exclusive or.
fn level_of(difference: u64) -> usize {
    ((63 - (difference | 1).leading_zeros()) / DIGIT_BITS) as usize
}

fn digit_of(tick: u64, level: usize) -> usize {
    (tick >> (level as u32 * DIGIT_BITS)) as usize % DIGITS
}
