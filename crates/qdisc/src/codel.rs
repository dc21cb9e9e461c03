//! CoDel: keeps the minimum sojourn time of an interval near a target, by dropping or marking at
//! the head. The rate of drops rises until the target is met.
//!
//! Source: RFC 8289; Linux 6.1.192, `include/net/codel.h`, `codel_impl.h` and
//! `net/sched/sch_codel.c`; tc-codel(8). Where the two differ, this follows Linux. They agree on
//! where a new dropping state starts: at `count - lastcount`, the drops of the previous one (the
//! paper of 2012 and ns-2 go on from `count - 2`).
//!
//! Differences of Linux from the RFC, followed here:
//!
//! - The dropping state is entered strictly after an interval above the target, not at its end.
//! - 1 / sqrt(count) is a 16-bit fraction, improved by one step of Newton's method for each drop:
//!   0.5 for 2 (not 0.707), 0.563 for 3 (not 0.577), and within 3 % from 4 on.
//! - The size of the largest packet, below which CoDel leaves the queue alone, is the device's MTU
//!   with its header (`mtu`), not the largest packet seen.
//! - Linux adds ECN, and `ce_threshold`, which marks whatever has waited longer, above target or
//!   not.
//!
//! Differences from Linux:
//!
//! - Times are in picoseconds and never wrap. Linux counts 32 bits of 1024 ns, so an idle time of
//!   37 minutes may look short to it. For the same reason it takes a queue that has never dropped
//!   for one that dropped at time 0 of its clock. Here such a queue has no time of a last drop.
//! - A packet that CoDel has just marked is not counted again by `ce_threshold`.
//! - `mtu` is a setting, because there is no device to ask.
//! - A limit of zero is refused. Linux accepts it, and drops every packet.
//!
//! Kept on purpose, though it looks like a mistake: if FQ-CoDel has added a batch of drops to the
//! count, the fraction is too large for Newton's method to converge. The kernel's 64 bits then
//! wrap, and the fraction wanders until it comes close enough to the root again.

mod control;

use narrows_units::{Bytes, Span, Time};

pub use self::control::WhenEmpty;
pub(crate) use self::control::{Books, Control, Controlled, Params};
use crate::settings::{MOST_BYTES, MOST_PACKETS, any, keys, positive, size, whole};
use crate::stamped::Stamped;
use crate::storage::Storage;
use crate::{
    Backlog, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict,
    assert_possible,
};

keys! {
    /// CoDel: tc-codel(8), RFC 8289.
    pub struct Config {
        /// Packets that may wait.
        limit: u32 = 1000, whole(1, MOST_PACKETS);
        /// The acceptable waiting time in a standing queue.
        target: Span = Span::from_ms(5), positive();
        /// How long the waiting time may stay above `target`; about the longest round-trip time.
        interval: Span = Span::from_ms(100), positive();
        /// Marks packets of ECN-capable transports instead of dropping them.
        ecn: bool = false, any();
        /// Waiting time above which every ECN-capable packet is marked; none by default.
        ce_threshold: Option<Span> = None, any();
        /// The size of the largest packet. Nothing is dropped if a packet leaves at most this much
        /// behind.
        mtu: Bytes = Bytes::new(1514), size(1, MOST_BYTES);
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "CoDel";
    type Queue<P> = Codel<P>;

    fn build<P: Packet>(&self, _seed: u64) -> Codel<P> {
        Codel::new(self)
    }

    fn levels(&self) -> Levels {
        Levels::target(self.target)
    }
}

/// CoDel over one FIFO.
#[derive(Clone, Debug)]
pub struct Codel<P> {
    limit: usize,
    params: Params,
    control: Control,
    storage: Storage<Stamped<P>>,
    counters: Counters,
}

impl<P: Packet> Codel<P> {
    /// Creates an empty queue.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config) -> Self {
        assert_possible(config.check());
        Self {
            limit: config.limit as usize,
            params: params(config),
            control: Control::default(),
            storage: Storage::new(),
            counters: Counters::ZERO,
        }
    }

    /// Changes the settings. What waits stays, as far as the limit admits it: the packets at the
    /// front are dropped (`codel_change`).
    pub fn change(&mut self, config: &Config, dropped: &mut Dropped<P>) {
        (self.limit, self.params) = (config.limit as usize, params(config));
        while self.storage.packets() > self.limit {
            let Some(Stamped { packet, .. }) = self.storage.pop() else { break };
            self.counters.on_drop(packet.bytes(), DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
        }
    }
}

fn params(config: &Config) -> Params {
    Params {
        target: config.target,
        interval: config.interval,
        ce_threshold: config.ce_threshold.unwrap_or(Span::MAX),
        ce_selector: (0, 0),
        mtu: config.mtu.get(),
        ecn: config.ecn,
        // With a single queue, a packet that empties it leaves less than an MTU behind, so there is
        // nothing to keep.
        when_empty: WhenEmpty::Forget,
    }
}

impl<P: Packet> Qdisc<P> for Codel<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        if self.storage.packets() < self.limit {
            self.storage.push(Stamped { packet, arrived_at: now });
            Verdict::Queued
        } else {
            self.counters.on_drop(bytes, DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
            Verdict::Dropped
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        let Self { params, control, storage, counters, .. } = self;
        let packet = control.dequeue(now, params, storage, &mut Books { counters, dropped })?;
        self.counters.on_departure(packet.bytes());
        Some(packet)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.storage.backlog()
    }

    #[inline]
    fn counters(&self) -> Counters {
        self.counters
    }
}

impl<P: Packet> Controlled<P> for Storage<Stamped<P>> {
    #[inline]
    fn take(&mut self) -> Option<Stamped<P>> {
        self.pop()
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.bytes()
    }
}

#[cfg(test)]
mod tests;
