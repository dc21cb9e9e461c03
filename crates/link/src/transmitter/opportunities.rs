//! Links that send at listed moments, as cellular links do: Mahimahi's traces.
//!
//! Source: mm-link(1) and `src/frontend/link_queue.cc` of Mahimahi 0.98. Each entry is a
//! millisecond at which 1500 bytes may leave. Bytes count, not packets: small packets share an
//! opportunity, a large packet continues with the next, and unused bytes are lost. After the last
//! entry the list starts again; its time zero is then the time of the last entry.
//!
//! Differences: an opportunity's bytes leave one after the other, a byte each picosecond, and
//! opportunities of the same millisecond follow each other. So an opportunity takes 1.5 ns instead
//! of no time. In return, the end of a transmission follows from its start alone, without an
//! account of unused bytes, and the link can stay in whichever mode its queue has. A packet that
//! arrives at the very moment of an opportunity can use it. A packet of more than 1500 bytes with
//! framing takes several (Mahimahi refuses it).

use alloc::boxed::Box;
use alloc::vec;

use narrows_units::Time;

/// The times at which bytes may leave.
#[derive(Debug)]
pub(super) struct Opportunities {
    /// The moments of one pass through the list with their bytes, in order. The first one is its
    /// start.
    groups: Box<[Group]>,
    /// The bytes of a pass.
    bytes: u64,
    /// The duration of a pass in picoseconds.
    period: u64,
    /// The bytes that the start of the very first pass lacks. The end of a pass falls on the start
    /// of the next and adds its bytes there, but no pass ends before the first.
    missing: u64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// Picoseconds since the start of the pass.
    at: u64,
    /// The bytes of the pass before this moment.
    before: u64,
}

/// The bytes that may leave at an opportunity (mm-link(1)).
pub const BYTES: u64 = 1500;

const PS_PER_MS: u64 = 1_000_000_000;

/// The number of opportunities that fit into a millisecond, with room to spare.
const MOST_IN_A_MS: usize = 600_000;

/// The highest rate at which bytes leave: one each picosecond.
pub const HIGHEST_BPS: u64 = 8_000_000_000_000;

/// Checks whether a link can send at these moments.
///
/// # Errors
///
/// Says what is wrong with them.
pub fn check(ms: &[u32], has_ring: bool) -> Result<(), &'static str> {
    if ms.last().is_none_or(|&last| last == 0) {
        return Err("must last for some time");
    }
    if !ms.is_sorted() {
        return Err("must not fall");
    }
    // The end of one pass and the start of the next may fall on the same moment.
    let fits = ms.len() / 2 < MOST_IN_A_MS
        || ms.chunk_by(|one, other| one == other).all(|same| same.len() <= MOST_IN_A_MS / 2);
    if !fits {
        return Err("has too many in one millisecond");
    }
    if has_ring { Err("a link that follows a trace has no ring") } else { Ok(()) }
}

impl Opportunities {
    /// Creates the list from `ms`, which never decreases and ends above zero ([`check`]).
    pub(super) fn new(ms: &[u32]) -> Self {
        let last = ms.last().copied().unwrap_or(1);
        let in_last = ms.iter().rev().take_while(|&&at| at == last).count();
        // Whatever falls on the end of a pass belongs to the start of the next.
        let rest = &ms[..ms.len() - in_last];
        let mut groups = vec![Group { at: 0, before: 0 }];
        let mut before = BYTES * in_last as u64;
        for &at in rest {
            let at = u64::from(at) * PS_PER_MS;
            if groups.last().is_some_and(|group| group.at != at) {
                groups.push(Group { at, before });
            }
            before += BYTES;
        }
        Self {
            groups: groups.into(),
            bytes: before,
            period: u64::from(last) * PS_PER_MS,
            missing: BYTES * in_last as u64,
        }
    }

    /// Returns when a transmission that is ready at `at` starts.
    pub(super) fn start(&self, at: Time) -> Time {
        // The first byte takes a picosecond.
        Time::from_ps(self.end(at, 1).as_ps() - 1)
    }

    /// Returns when the last of `bytes` bytes (at least one) leaves, if they are ready at `at`.
    pub(super) fn end(&self, at: Time, bytes: u32) -> Time {
        let at = at.as_ps().max(self.missing);
        let (pass, within) = (at / self.period, at % self.period);
        let group = &self.groups[self.groups.partition_point(|group| group.at <= within) - 1];
        let next = self.groups.get(self.groups.partition_point(|group| group.at <= within));
        let of_group = next.map_or(self.bytes, |next| next.before) - group.before;
        let last = group.before + (within - group.at).min(of_group) + u64::from(bytes);
        let (more, last) = ((last - 1) / self.bytes, (last - 1) % self.bytes + 1);
        let group = &self.groups[self.groups.partition_point(|group| group.before < last) - 1];
        let begin = (pass + more).saturating_mul(self.period);
        Time::from_ps(begin.saturating_add(group.at + (last - group.before)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use narrows_units::Span;

    use super::*;
    use narrows_qdisc::Random;

    /// Returns the moment in millisecond `ms` at which `bytes` bytes of its opportunities are used.
    fn at(ms: u64, bytes: u64) -> Time {
        Time::ZERO + Span::from_ms(ms) + Span::from_ps(bytes)
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        let trace = Opportunities::new(&[2, 5, 5, 9]);
        assert_eq!(trace.end(at(0, 0), 1500), at(2, 1500));
        assert_eq!(trace.end(at(0, 0), 500), at(2, 500));
        assert_eq!(trace.end(at(2, 500), 500), at(2, 1000));
        assert_eq!(trace.end(at(2, 1000), 1000), at(5, 500));
        assert_eq!(trace.end(at(5, 500), 2500), at(5, 3000));
        assert_eq!(trace.end(at(0, 0), 4500), at(5, 3000));
    }

    #[test]
    fn what_nobody_uses_is_lost() {
        let trace = Opportunities::new(&[2, 5]);
        assert_eq!(trace.end(at(2, 0), 1500), at(2, 1500));
        assert_eq!(trace.end(at(2, 1), 1500), at(5, 1));
        assert_eq!(trace.end(at(3, 0), 100), at(5, 100));
        assert_eq!(trace.start(at(3, 0)), at(5, 0));
        assert_eq!(trace.start(at(2, 700)), at(2, 700));
        assert_eq!(trace.start(at(2, 1500)), at(5, 0));
    }

    /// `link_queue.cc` adds the list's last time to all entries of the next pass.
    #[test]
    fn the_list_begins_again_at_the_time_of_its_last_entry() {
        // The first pass has one opportunity at 0. Later passes start with three, two of them from
        // the end of the pass before.
        let trace = Opportunities::new(&[0, 3, 3]);
        let first = trace.end(at(0, 0), 1500);
        assert!(first < at(1, 0));
        assert_eq!(trace.end(first, 4500), at(3, 4500));
        assert_eq!(trace.end(at(3, 4500), 1500), at(6, 1500));
        let constant = Opportunities::new(&[1]);
        for ms in 1..50 {
            assert_eq!(constant.end(at(ms - 1, 1500), 1500), at(ms, 1500), "{ms}");
        }
        assert_eq!(constant.end(at(7, 0), 15_000), at(16, 1500));
    }

    /// Runs the loop of `link_queue.cc` as it is written: each opportunity in turn takes waiting
    /// packets. Returns the millisecond in which each packet leaves.
    fn by_turns(ms: &[u32], packets: &[(u64, u32)]) -> Vec<u64> {
        let period = u64::from(ms[ms.len() - 1]);
        let moments =
            (0..).flat_map(|pass| ms.iter().map(move |&at| pass * period + u64::from(at)));
        let mut left = packets.to_vec();
        left.reverse();
        let mut times = Vec::new();
        for now in moments {
            let mut bytes = 1500;
            while let Some((comes_at, size)) = left.last_mut()
                && *comes_at <= now
                && bytes > 0
            {
                let used = bytes.min(*size);
                bytes -= used;
                *size -= used;
                if *size == 0 {
                    times.push(now);
                    left.pop();
                }
            }
            if left.is_empty() {
                return times;
            }
        }
        times
    }

    #[test]
    fn packets_leave_in_the_milliseconds_of_mahimahi_s_own_loop() {
        let mut random = Random::new(5, "opportunities");
        let mut draw = |most: u32| (random.uniform() * f64::from(most)) as u32;
        for _ in 0..300 {
            let mut ms: Vec<u32> = (0..=draw(12)).map(|_| draw(30)).collect();
            ms.push(1 + draw(30));
            ms.sort_unstable();
            let mut packets: Vec<(u64, u32)> =
                (0..40).map(|_| (u64::from(draw(200)), 40 + draw(1461))).collect();
            packets.sort_unstable();
            let trace = Opportunities::new(&ms);
            let mut free_at = Time::ZERO;
            let times: Vec<u64> = packets
                .iter()
                .map(|&(comes_at, size)| {
                    free_at = trace.end(free_at.max(at(comes_at, 0)), size);
                    (free_at.as_ps() - 1) / PS_PER_MS
                })
                .collect();
            assert_eq!(times, by_turns(&ms, &packets), "{ms:?} {packets:?}");
        }
    }
}
