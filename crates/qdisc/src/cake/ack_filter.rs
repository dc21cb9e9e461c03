//! The filter of acknowledgements: a TCP acknowledgement makes earlier ones that wait in its queue
//! redundant.

use alloc::vec::Vec;

use crate::Ack;
use crate::drr::slab::NIL;
use crate::settings::words;

words! {
    /// Whether redundant acknowledgements are dropped.
    pub enum AckFilter {
        /// They stay.
        Off = "no-ack-filter",
        /// The oldest one is dropped if another redundant one waits.
        Conservative = "ack-filter",
        /// It is dropped also if it is the only one, right before the one that replaces it.
        Aggressive = "ack-filter-aggressive",
    }
}

/// The pure acknowledgements that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    acks: Vec<Ack>,
    free: Vec<u32>,
}

impl Waiting {
    /// Keeps an acknowledgement. Returns its place.
    pub(super) fn keep(&mut self, ack: Ack) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.acks[place as usize] = ack;
                place
            }
            None => {
                self.acks.push(ack);
                self.acks.len() as u32 - 1
            }
        }
    }

    /// Frees a place. For [`NIL`], which stands for no acknowledgement, it does nothing.
    #[inline]
    pub(super) fn release(&mut self, place: u32) {
        if place != NIL {
            self.free.push(place);
        }
    }

    /// Returns which of the packets that wait in a queue `new` makes redundant, if one may be
    /// dropped: `cake_ack_filter`. `queue` has the place of each packet's acknowledgement, oldest
    /// first, without the packet of `new`.
    pub(super) fn redundant(
        &self,
        new: &Ack,
        queue: impl Iterator<Item = u32>,
        filter: AckFilter,
    ) -> Option<usize> {
        let mut found = None;
        let mut packets = 0;
        for (position, place) in queue.enumerate() {
            packets = position + 1;
            let Some(old) = self.acks.get(place as usize) else { continue };
            if replaces(new, old) {
                // Another one that waits will do in its place.
                if found.is_some() {
                    return found;
                }
                found = Some(position);
            }
        }
        let is_next = found.is_some_and(|position| position + 1 == packets);
        found.filter(|_| filter == AckFilter::Aggressive && is_next)
    }
}

/// Returns whether `new` says everything that the earlier and pure acknowledgement `old` says.
fn replaces(new: &Ack, old: &Ack) -> bool {
    let is_after = |a: u32, b: u32| (a.wrapping_sub(b) as i32) > 0;
    if old.connection != new.connection
        || old.ecn_flags != new.ecn_flags
        || is_after(old.number, new.number)
    {
        return false;
    }
    if let Some((value, echo)) = old.timestamps {
        let (new_value, new_echo) = new.timestamps.unwrap_or_default();
        if is_after(value, new_value) || is_after(echo, new_echo) {
            return false;
        }
    }
    match sack_gain(new, old) {
        // A duplicate acknowledgement tells of a loss.
        Some(gain) => gain > 0 || old.number != new.number,
        None => false,
    }
}

/// Returns how many bytes more the SACK blocks of `new` cover, or `None` if they do not cover those
/// of `old`.
fn sack_gain(new: &Ack, old: &Ack) -> Option<u32> {
    let blocks = |ack: &Ack| ack.sack.into_iter().filter(|(left, right)| left != right);
    let offset = |edge: u32| edge.wrapping_sub(old.number) as i32;
    let mut covered = 0u32;
    for (left, right) in blocks(old) {
        // A block below the acknowledgement number tells of a segment that came twice (RFC 2883).
        let is_duplicate = offset(left) < 0;
        let mut news = blocks(new);
        let inside =
            news.any(|(from, to)| offset(from) <= offset(left) && offset(right) <= offset(to));
        if is_duplicate || !inside {
            return None;
        }
        covered = covered.saturating_add(right.wrapping_sub(left));
    }
    let all =
        blocks(new).fold(0u32, |sum, (left, right)| sum.saturating_add(right.wrapping_sub(left)));
    Some(all.saturating_sub(covered))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(number: u32) -> Ack {
        Ack { connection: 1, number, is_pure: true, ..Ack::default() }
    }

    fn with_sack<const N: usize>(number: u32, blocks: [(u32, u32); N]) -> Ack {
        let mut sack = [(0, 0); 4];
        sack[..N].copy_from_slice(&blocks);
        Ack { sack, ..ack(number) }
    }

    fn redundant(waiting: &[Option<Ack>], new: Ack, filter: AckFilter) -> Option<usize> {
        let mut acks = Waiting::default();
        let places: Vec<u32> =
            waiting.iter().map(|ack| ack.map_or(NIL, |ack| acks.keep(ack))).collect();
        acks.redundant(&new, places.into_iter(), filter)
    }

    #[test]
    fn the_oldest_goes_if_another_redundant_one_waits() {
        use AckFilter::{Aggressive, Conservative};
        let data = None;
        let other = Some(Ack { connection: 2, ..ack(150) });
        for (waiting, conservative, aggressive) in [
            (&[][..], None, None),
            (&[Some(ack(100))], None, Some(0)),
            (&[Some(ack(100)), Some(ack(200))], Some(0), Some(0)),
            (&[data, Some(ack(100)), data, Some(ack(200))], Some(1), Some(1)),
            // It is the only one, and not right before the new one.
            (&[Some(ack(100)), data], None, None),
            (&[Some(ack(100)), other], None, None),
            (&[other, Some(ack(100))], None, Some(1)),
            // Those of the other connection, and later ones, are not redundant.
            (&[other, Some(ack(400)), Some(ack(300))], None, None),
        ] {
            assert_eq!(redundant(waiting, ack(300), Conservative), conservative, "{waiting:?}");
            assert_eq!(redundant(waiting, ack(300), Aggressive), aggressive, "{waiting:?}");
        }
    }

    #[test]
    fn what_says_more_than_the_new_one_stays() {
        let old = ack(100);
        assert!(replaces(&ack(101), &old));
        assert!(!replaces(&ack(100), &old), "a duplicate acknowledgement");
        assert!(!replaces(&ack(99), &old));
        assert!(replaces(&ack(5), &ack(u32::MAX - 5)), "numbers wrap");
        assert!(!replaces(&ack(101), &Ack { ecn_flags: (true, false), ..old }));
        let stamped = |value, echo, number| Ack { timestamps: Some((value, echo)), ..ack(number) };
        assert!(replaces(&stamped(7, 7, 101), &stamped(7, 7, 100)));
        assert!(!replaces(&stamped(6, 8, 101), &stamped(7, 7, 100)));
        assert!(!replaces(&stamped(8, 6, 101), &stamped(7, 7, 100)));
    }

    #[test]
    fn sack_blocks_have_to_be_covered() {
        let old = with_sack(100, [(200, 300), (400, 500)]);
        for (new, expected) in [
            (with_sack(100, [(400, 600), (200, 300)]), true),
            (with_sack(100, [(200, 500)]), true),
            (with_sack(100, [(200, 300), (400, 500)]), false),
            (with_sack(150, [(200, 300), (400, 500)]), true),
            (with_sack(100, [(200, 300), (450, 600)]), false),
            (with_sack(100, [(200, 300)]), false),
            (ack(600), false),
        ] {
            assert_eq!(replaces(&new, &old), expected, "{new:?}");
        }
        let duplicate = with_sack(100, [(50, 60)]);
        assert!(!replaces(&with_sack(200, [(50, 60)]), &duplicate));
        assert!(replaces(&with_sack(100, [(200, 300)]), &ack(100)));
    }

    #[test]
    fn places_are_used_again() {
        let mut waiting = Waiting::default();
        let place = waiting.keep(ack(1));
        waiting.release(place);
        waiting.release(NIL);
        assert_eq!(waiting.keep(ack(2)), place);
        assert_eq!(waiting.acks.len(), 1);
    }
}
