//! Events beyond the wheel: lists by time, finer for nearer times.
//!
//! Source: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987, scheme 7, as a
//! radix tree. Time is counted in ticks, and a tick is a number with digits of six bits. An entry
//! is on the list of the highest digit in which its tick differs from the current one. When the
//! current tick reaches that digit, the list's entries move to lower lists. Inserting an entry
//! therefore costs the same however many there are, and needs no memory.
//!
//! All entries of one tick are on the same list at any moment, in the order of their insertion.

use super::store::{List, NONE, Store};
use crate::maybe_index::MaybeIndex;

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 64_usize.div_ceil(DIGIT_BITS as usize);

#[derive(Debug)]
pub(super) struct Far {
    /// The current tick: the first at which entries may still be inserted.
    now: u64,
    levels: Box<[Level; LEVELS]>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    lists: [List; DIGITS],
    /// One bit for each list, set if the list is not empty.
    occupied: u64,
}

impl Far {
    pub(super) fn new(now: u64) -> Self {
        let level = Level { lists: [List::EMPTY; DIGITS], occupied: 0 };
        Self { now, levels: Box::new([level; LEVELS]) }
    }

    /// Inserts an entry without a successor at a tick that is not before the current one.
    pub(super) fn put(&mut self, tick: u64, entry: MaybeIndex, store: &mut Store) {
        debug_assert!(tick >= self.now, "a tick in the past");
        let level = level_of(tick ^ self.now);
        let digit = digit_of(tick, level);
        let level = &mut self.levels[level];
        level.lists[digit].append(entry, store);
        level.occupied |= 1 << digit;
    }

    /// Takes the list of the current tick, and goes on to the next tick. `tick_of` returns an
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

    /// Returns the next tick that may have entries, or `None` if there are no entries.
    pub(super) fn next(&self) -> Option<u64> {
        self.levels.iter().enumerate().find_map(|(number, level)| {
            // On all levels but 0, the list of the current tick's own digit is empty.
            let digit = digit_of(self.now, number);
            let ahead = level.occupied >> digit;
            (ahead != 0).then(|| {
                let shift = number as u32 * DIGIT_BITS;
                ((self.now >> shift) + u64::from(ahead.trailing_zeros())) << shift
            })
        })
    }

    /// Goes on to `tick`. There must be no entries before it.
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

    /// Returns the lists that are not empty, in no particular order.
    pub(super) fn lists(&self) -> impl Iterator<Item = List> + '_ {
        self.levels.iter().flat_map(|level| level.lists).filter(|list| !list.is_empty())
    }

    fn take_list(&mut self, level: usize, digit: usize) -> List {
        let level = &mut self.levels[level];
        level.occupied &= !(1 << digit);
        std::mem::replace(&mut level.lists[digit], List::EMPTY)
    }
}

/// Returns the highest digit in which two ticks differ, given their exclusive or.
fn level_of(difference: u64) -> usize {
    ((63 - (difference | 1).leading_zeros()) / DIGIT_BITS) as usize
}

fn digit_of(tick: u64, level: usize) -> usize {
    (tick >> (level as u32 * DIGIT_BITS)) as usize % DIGITS
}
