//! Rate-limited classes: each has its own token bucket and discipline. The first class that has
//! both a packet and the tokens for it sends.
//!
//! Source: the token bucket of Linux 6.1, `net/sched/sch_tbf.c` and tc-tbf(8). `rate` and `burst`
//! of a class are those of tc-htb(8), without borrowing.
//!
//! Guarantee: in any interval of length t, a class sends at most `burst + rate t`.
//!
//! Differences from tbf and htb:
//!
//! - Classes do not borrow: there are no `ceil`, no parents, no quantum. Among classes with tokens,
//!   the first listed goes first (htb: `prio`, then in turn).
//! - A packet leaves when its class has tokens for all of it, as in tbf. In htb it leaves when
//!   there are any tokens at all, so a class may be in debt.
//! - A packet longer than `burst`, which could never leave, is dropped as an overflow, as in tbf.
//! - There is no `peakrate` and no `mpu`; lengths are those of [`Packet::bytes`].
//! - The inner discipline is asked for its next packet when the class wants to send it, and the
//!   packet is kept until there are tokens, as below tbf. But an empty one is asked as well, so RED
//!   learns that it is idle, which it never does below tbf.
//! - Times are in picoseconds, rounded so that no class sends more than its share.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Bytes, Pace, Rate, Span, Time};

use crate::disciplines::inner_seed;
use crate::filter::{Filter, MOST_ENTRIES, check_entries, classify, entry, inner};
use crate::settings::{MOST_BYTES, Settings, any, entries, settings, size};
use crate::{
    Ack, AnyConfig, AnyQdisc, Backlog, ConfigError, Counters, Discipline, DropReason, Dropped,
    Levels, Packet, Qdisc, Verdict, assert_possible,
};

settings! {
    /// Rate-limited classes with filters: the first class that may send does so.
    ///
    /// Each is a token bucket (tc-tbf(8)); they do not borrow from each other as in tc-htb(8).
    pub struct Config {
        /// The classes, in the order in which they are served.
        classes: Vec<Class> = vec![Class { name: "all".into(), ..Class::default() }], entries(1, MOST_ENTRIES).required();
    }
}

entry! {
    /// A class of `classes`.
    pub struct Class {
        /// The class's highest rate, with `framing.queue_overhead` counted; without it, the class
        /// may send as fast as the line.
        rate: Option<Rate> = None, any();
        /// Bytes that it may send at once after a silence; goes with `rate`. A packet longer than
        /// this is dropped.
        burst: Option<Bytes> = None, size(1500, MOST_BYTES);
    }
}

impl Settings for Class {
    fn check_together(&self) -> Result<(), ConfigError> {
        match (self.rate, self.burst) {
            (None, Some(_)) => Err(ConfigError::new("burst", "goes with rate")
                .or("such as rate = \"1 Mbit/s\", or leave burst out")),
            (Some(_), None) => {
                Err(ConfigError::new("burst", "is missing beside rate")
                    .or("such as burst = \"10 kB\""))
            }
            _ => Ok(()),
        }
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        check_entries("classes", &self.classes)
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "Classful";
    const READS_PORTS: bool = true;
    type Queue<P> = Classes<P>;

    fn build<P: Packet>(&self, seed: u64) -> Classes<P> {
        Classes::new(self, seed)
    }

    /// The classes have levels of their own.
    fn levels(&self) -> Levels {
        Levels::default().in_several_lines()
    }

    fn settled(self, rate: Rate) -> Self {
        let settled = |class: Class| {
            let served = class.rate.map_or(rate, |own| own.min(rate));
            Class { queue: class.queue.settled(served), ..class }
        };
        Self { classes: self.classes.into_iter().map(settled).collect() }
    }

    fn classes(&self) -> Vec<String> {
        self.classes.iter().map(|entry| entry.name.clone()).collect()
    }

    fn class_of<P: Packet>(&self, packet: &P) -> usize {
        classify(packet, self.classes.iter().map(|entry| entry.filters.as_slice()))
    }

    fn inner(&self) -> Vec<(String, &AnyConfig)> {
        inner("classes", &self.classes)
    }

    fn reads_hosts(&self) -> bool {
        true
    }

    fn inner_mut(&mut self) -> Vec<&mut AnyConfig> {
        self.classes.iter_mut().map(|entry| &mut entry.queue).collect()
    }
}

/// Classes with token buckets.
#[derive(Debug)]
pub struct Classes<P> {
    classes: Vec<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    filters: Vec<Filter>,
    bucket: Option<Bucket>,
    queue: AnyQdisc<P>,
    /// The packet that waits for tokens. The inner discipline has already handed it out.
    next: Option<Next<P>>,
    /// Packets that were longer than the burst.
    refused: Counters,
}

#[derive(Debug)]
struct Next<P> {
    packet: P,
    bytes: u32,
    /// How often the inner discipline marked it at dequeue.
    marked_early: u64,
    marked_forced: u64,
}

impl<P: Packet> Classes<P> {
    /// Creates empty classes with full buckets. Their random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config, seed: u64) -> Self {
        assert_possible(config.check());
        let classes = config.classes.iter().enumerate().map(|(index, class)| State {
            filters: class.filters.clone(),
            bucket: class.rate.zip(class.burst).map(|(rate, burst)| Bucket::new(rate, burst)),
            queue: class.queue.build(inner_seed(seed, index)),
            next: None,
            refused: Counters::ZERO,
        });
        Self { classes: classes.collect() }
    }

    /// Returns the disciplines of the classes, in order.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = &AnyQdisc<P>> {
        self.classes.iter().map(|class| &class.queue)
    }
}

impl<P: Packet> State<P> {
    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        let Some(bucket) = &mut self.bucket else { return self.queue.dequeue(now, dropped) };
        if self.next.is_none() {
            let before = self.queue.counters();
            let packet = self.queue.dequeue(now, dropped)?;
            let after = self.queue.counters();
            self.next = Some(Next {
                bytes: packet.bytes(),
                packet,
                marked_early: after.marked_early - before.marked_early,
                marked_forced: after.marked_forced - before.marked_forced,
            });
        }
        let next = self.next.take_if(|next| bucket.ready_at(next.bytes) <= now)?;
        bucket.spend(now, next.bytes);
        Some(next.packet)
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        match (&self.next, &self.bucket) {
            (Some(next), Some(bucket)) => Some(bucket.ready_at(next.bytes)),
            _ => self.queue.ready_at(now),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        let next = self.next.as_ref();
        let next = next.map(|next| Backlog { packets: 1, bytes: Bytes::from(next.bytes) });
        Backlog::sum([self.queue.backlog(), next.unwrap_or_default()].into_iter())
    }

    fn counters(&self) -> Counters {
        let mut counters = self.queue.counters();
        counters.add(&self.refused);
        if let Some(next) = &self.next {
            counters.sent_packets -= 1;
            counters.sent_bytes -= u64::from(next.bytes);
            counters.marked_early -= next.marked_early;
            counters.marked_forced -= next.marked_forced;
        }
        counters
    }
}

impl<P: Packet> Qdisc<P> for Classes<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let index = classify(&packet, self.classes.iter().map(|class| class.filters.as_slice()));
        let class = &mut self.classes[index];
        let bytes = packet.bytes();
        if class.bucket.as_ref().is_some_and(|bucket| u64::from(bytes) > bucket.burst) {
            class.refused.arrived_packets += 1;
            class.refused.arrived_bytes += u64::from(bytes);
            class.refused.on_drop(bytes, DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
            return Verdict::Dropped;
        }
        class.queue.enqueue(now, packet, dropped)
    }

    fn announce(&mut self, ack: Option<&Ack>) {
        self.classes.iter_mut().for_each(|class| class.queue.announce(ack));
    }

    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        self.classes.iter_mut().find_map(|class| class.dequeue(now, dropped))
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        self.classes.iter().filter_map(|class| class.ready_at(now)).min()
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog::sum(self.classes.iter().map(State::backlog))
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::ZERO;
        self.classes.iter().for_each(|class| sum.add(&class.counters()));
        sum
    }
}

/// A token bucket, stored as the time at which it will be full.
#[derive(Clone, Debug)]
struct Bucket {
    pace: Pace,
    /// A picosecond if times are not whole, so that they are rounded up.
    up: Span,
    burst: u64,
    /// The time in which an empty bucket fills, rounded down.
    fills_in: Span,
    full_at: Time,
}

impl Bucket {
    fn new(rate: Rate, burst: Bytes) -> Self {
        const PS_BITS: u64 = 8_000_000_000_000;
        let whole = PS_BITS.is_multiple_of(rate.as_bps());
        let fills_in = u128::from(burst.get()) * u128::from(PS_BITS) / u128::from(rate.as_bps());
        Self {
            pace: rate.pace(),
            up: Span::from_ps(u64::from(!whole)),
            burst: burst.get(),
            fills_in: Span::from_ps(u64::try_from(fills_in).unwrap_or(u64::MAX)),
            full_at: Time::ZERO,
        }
    }

    /// Returns the time in which tokens for `bytes` arrive, rounded up.
    #[inline]
    fn time_for(&self, bytes: u32) -> Span {
        self.pace.time_for(Bytes::from(bytes)) + self.up
    }

    /// Returns when there are tokens for `bytes`, at most the burst.
    #[inline]
    fn ready_at(&self, bytes: u32) -> Time {
        // They take at most as long as the whole burst, apart from rounding.
        let span = self.time_for(bytes);
        self.full_at + span.saturating_sub(self.fills_in) - self.fills_in.saturating_sub(span)
    }

    #[inline]
    fn spend(&mut self, now: Time, bytes: u32) {
        self.full_at = self.full_at.max(now) + self.time_for(bytes);
    }
}

#[cfg(test)]
mod tests;
