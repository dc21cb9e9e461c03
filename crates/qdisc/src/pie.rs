//! PIE: keeps the queueing delay near a target by dropping or marking arrivals with a probability
//! that a controller adjusts every few milliseconds.
//!
//! Source: Linux 6.1, `include/net/pie.h` and `net/sched/sch_pie.c`; RFC 8033; tc-pie(8). Where the
//! two differ, this follows Linux, with its integers: times in ticks of 64 ns, probabilities in
//! units of 2^-56. The controller is in `control`.
//!
//! Differences of Linux from the RFC, followed here:
//!
//! - The burst allowance shrinks by the time between departures, not by `tupdate` at each update.
//! - The safeguard against drops at low delays looks at the current delay, not at the last
//!   update's.
//! - While idle, the probability shrinks by 1/64 at each update, not by 1/50.
//! - The delay is that of the packet that left last, and zero once the queue is empty. The rate
//!   estimator of the RFC is the option `dq_rate_estimator`.
//!
//! Differences from Linux:
//!
//! - There is no timer. The next call makes the updates that were due. The result is the same,
//!   because nothing that an update looks at changes in between.
//! - Without `jiffy`, the timer fires every `tupdate`. With it, it fires as in Linux: every
//!   `tupdate` rounded up to jiffies plus one jiffy (`kernel/time/timer.c`, `calc_index`): 15 ms
//!   become 16 ms at HZ 1000, 20 ms at 250, 30 ms at 100. Linux's timer wheel rounds further from 64
//!   jiffies on, which is not modelled. Linux's first update comes half a second after the queue is
//!   set up, and here as if it had been set up long before.
//! - Numbers saturate here where Linux wraps 32 bits (275 s between departures, 16 MB of backlog
//!   with the estimator) or overflows 64 bits (a delay of more than 15 min).
//! - Random numbers come from a seeded PCG.
//! - The MTU is a setting, because there is no device to ask. Nothing is dropped below twice the
//!   MTU.
//!
//! Kept on purpose, though they look like mistakes:
//!
//! - The probability grows beyond 1, where the RFC's stops. Linux checks for an overflow of 64 bits,
//!   and a probability of 1 has 56. So after a long time above the target, PIE goes on dropping all
//!   packets beyond two for about as long. Behind FQ-PIE, this happens to flows whose fair share
//!   sends one packet in more time than the target.
//! - When the accumulated probability has reached 8.5 and the packet can be marked, the sum is not
//!   reset: every packet is marked until one is dropped, the probability is zero, or 64 bits are
//!   full.
//! - The estimator's rate is an integer in units of 1/256 byte per 64 ns. At 10 Mbit/s it is 20
//!   (20.48). Below 0.49 Mbit/s it is 0, and the delay then counts as zero: PIE does nothing.
//! - A drop at the limit resets the accumulated probability, as a random one does.

pub(crate) mod control;

use narrows_units::{Bytes, Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use self::control::{CERTAIN, Control, Params};
use crate::settings::{MOST_BYTES, MOST_PACKETS, any, keys, positive, size, whole};
use crate::stamped::Stamped;
use crate::storage::Storage;
use crate::{
    Backlog, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict,
    assert_possible,
};

keys! {
    /// PIE: tc-pie(8), RFC 8033.
    pub struct Config {
        /// Packets that may wait.
        limit: u32 = 1000, whole(1, MOST_PACKETS);
        /// The delay to aim for.
        target: Span = Span::from_ms(15), positive();
        /// Time between updates of the probability.
        tupdate: Span = Span::from_ms(15), positive();
        /// The jiffy of the kernel whose timer is modelled: each `tupdate` is rounded up to whole
        /// jiffies, plus one. Without it, the timer is exact.
        jiffy: Option<Span> = None, positive();
        /// Weight of the distance from the target, in sixteenths.
        alpha: u32 = 2, whole(0, 32);
        /// Weight of the delay's change since the last update, in sixteenths.
        beta: u32 = 20, whole(0, 32);
        /// Marks packets of ECN-capable transports, while the probability is at most 10 %.
        ecn: bool = false, any();
        /// Scales the probability by the packet's size over `mtu`.
        bytemode: bool = false, any();
        /// Computes the delay from the backlog and an estimate of the departure rate, instead of
        /// measuring it.
        dq_rate_estimator: bool = false, any();
        /// The size of the largest packet. Nothing is dropped early while less than twice this size
        /// waits.
        mtu: Bytes = Bytes::new(1514), size(1, MOST_BYTES);
    }
}

impl Config {
    /// Returns how long the timer takes if it is set for `wanted`.
    fn on_timer(&self, wanted: Span) -> Span {
        let Some(jiffy) = self.jiffy else { return wanted };
        let jiffies = wanted.as_ps().div_ceil(jiffy.as_ps()).saturating_add(1);
        Span::from_ps(jiffies.saturating_mul(jiffy.as_ps()))
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "PIE";
    const NOTICES_IDLENESS: bool = false;
    type Queue<P> = Pie<P>;

    fn build<P: Packet>(&self, seed: u64) -> Pie<P> {
        Pie::new(self, seed)
    }

    fn levels(&self) -> Levels {
        Levels::target(self.target)
    }
}

/// PIE over one FIFO.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    limit: usize,
    ecn: bool,
    params: Params,
    control: Control,
    random: Pcg32,
    storage: Storage<Stamped<P>>,
    counters: Counters,
}

impl<P: Packet> Pie<P> {
    /// Creates an empty queue. Its random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config, seed: u64) -> Self {
        assert_possible(config.check());
        let params = Params::new(config, Span::ZERO);
        Self {
            limit: config.limit as usize,
            ecn: config.ecn,
            control: Control::new(&params),
            params,
            random: Pcg32::seed_from_u64(seed),
            storage: Storage::new(),
            counters: Counters::ZERO,
        }
    }

    /// Changes the settings. What waits stays, as far as the limit admits it: the packets at the
    /// front are dropped (`pie_change`).
    pub fn change(&mut self, config: &Config, dropped: &mut Dropped<P>) {
        (self.limit, self.ecn) = (config.limit as usize, config.ecn);
        self.params = Params::new(config, Span::ZERO);
        while self.storage.packets() > self.limit {
            let Some(Stamped { packet, .. }) = self.storage.pop() else { break };
            self.counters.on_drop(packet.bytes(), DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
        }
    }

    /// Returns the drop probability after the last call. It can exceed 1, as in Linux.
    pub fn probability(&self) -> f64 {
        self.control.vars.drop_prob as f64 / CERTAIN as f64
    }
}

impl<P: Packet> Qdisc<P> for Pie<P> {
    /// `pie_qdisc_enqueue`
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let Self { params, control, random, storage, counters, .. } = self;
        control.catch_up(now, params, storage.bytes());
        let bytes = packet.bytes();
        counters.arrived_packets += 1;
        counters.arrived_bytes += u64::from(bytes);
        let reason = if storage.packets() >= self.limit {
            DropReason::Overflow
        } else if !control.vars.hits(params, storage.bytes(), bytes, random) {
            storage.push(Stamped { packet, arrived_at: now });
            return Verdict::Queued;
        } else if self.ecn && control.vars.drop_prob <= CERTAIN / 10 && packet.ecn().is_capable() {
            packet.mark();
            counters.marked_early += 1;
            storage.push(Stamped { packet, arrived_at: now });
            return Verdict::Marked;
        } else {
            DropReason::Early
        };
        control.vars.accu_prob = 0;
        counters.on_drop(bytes, reason);
        dropped.push((packet, reason));
        Verdict::Dropped
    }

    #[inline]
    fn dequeue(&mut self, now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let Self { params, control, storage, counters, .. } = self;
        control.catch_up(now, params, storage.bytes());
        let Stamped { packet, arrived_at } = storage.pop()?;
        let bytes = packet.bytes();
        control.vars.on_departure(params, now, arrived_at, bytes, storage.bytes());
        counters.on_departure(bytes);
        Some(packet)
    }

    #[inline]
    fn head(&self) -> Option<&P> {
        self.storage.head().map(|head| &head.packet)
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

#[cfg(test)]
mod tests;
