//! First in, first out, with tail drop: counted in packets (`pfifo`) or in bytes (`bfifo`).
//!
//! Source: Linux 6.1, `net/sched/sch_fifo.c`; tc-pfifo(8), tc-bfifo(8).
//!
//! Differences from the source: `check` refuses a limit of zero, which the kernel accepts (and
//! which drops every packet). The default limits are those that tc-pfifo(8) takes from an Ethernet
//! interface: a transmit queue of 1000 packets of 1514 bytes each.

use alloc::vec;

use narrows_units::{Bytes, Time};

use crate::settings::{MOST_BYTES, MOST_PACKETS, keys, size, whole};
use crate::storage::Storage;
use crate::{Backlog, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict};

keys! {
    /// Tail drop, counted in packets: tc-pfifo(8).
    pub struct PfifoConfig {
        /// Packets that the queue holds.
        limit: u32 = 1000, whole(1, MOST_PACKETS).required();
    }
}

keys! {
    /// Tail drop, counted in bytes: tc-bfifo(8).
    pub struct BfifoConfig {
        /// Bytes that the queue holds, the link's `framing.queue_overhead` included.
        limit: Bytes = Bytes::new(1000 * 1514), size(1, MOST_BYTES).required();
    }
}

impl Discipline for PfifoConfig {
    const LABEL: &'static str = "FIFO";
    const NOTICES_IDLENESS: bool = false;
    type Queue<P> = Pfifo<P>;

    fn build<P: Packet>(&self, _seed: u64) -> Pfifo<P> {
        Pfifo::new(self.clone())
    }

    fn levels(&self) -> Levels {
        Levels::packets(self.limit)
    }
}

impl Discipline for BfifoConfig {
    const LABEL: &'static str = "FIFO";
    const NOTICES_IDLENESS: bool = false;
    type Queue<P> = Bfifo<P>;

    fn build<P: Packet>(&self, _seed: u64) -> Bfifo<P> {
        Bfifo::new(self.clone())
    }

    fn levels(&self) -> Levels {
        Levels { backlogs: vec![("limit", self.limit.get() as f64)], ..Levels::default() }
    }
}

/// A first-in, first-out queue with room for a number of packets.
#[derive(Clone, Debug)]
pub struct Pfifo<P>(Fifo<P, Packets>);

/// A first-in, first-out queue with room for a number of bytes.
#[derive(Clone, Debug)]
pub struct Bfifo<P>(Fifo<P, Octets>);

macro_rules! fifo {
    ($name:ident, $config:ident, $limit:ident) => {
        impl<P: Packet> $name<P> {
            /// Creates an empty queue.
            pub const fn new(config: $config) -> Self {
                Self(Fifo {
                    limit: $limit(config.limit),
                    storage: Storage::new(),
                    counters: Counters::ZERO,
                })
            }
        }

        impl<P> $name<P> {
            /// Changes the settings. What waits stays, even above the limit (`fifo_change`).
            pub const fn change(&mut self, config: &$config) {
                self.0.limit = $limit(config.limit);
            }
        }

        impl<P: Packet> Qdisc<P> for $name<P> {
            #[inline]
            fn enqueue(&mut self, _now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
                self.0.enqueue(packet, dropped)
            }

            #[inline]
            fn dequeue(&mut self, _now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
                self.0.dequeue()
            }

            #[inline]
            fn head(&self) -> Option<&P> {
                self.0.storage.head()
            }

            #[inline]
            fn backlog(&self) -> Backlog {
                self.0.storage.backlog()
            }

            #[inline]
            fn counters(&self) -> Counters {
                self.0.counters
            }
        }
    };
}

fifo!(Pfifo, PfifoConfig, Packets);
fifo!(Bfifo, BfifoConfig, Octets);

/// The common part of both.
#[derive(Clone, Debug)]
struct Fifo<P, L> {
    limit: L,
    storage: Storage<P>,
    counters: Counters,
}

impl<P: Packet, L: Capacity> Fifo<P, L> {
    #[inline]
    fn enqueue(&mut self, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let bytes = packet.bytes();
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(bytes);
        if self.limit.admits(&self.storage, bytes) {
            self.storage.push(packet);
            Verdict::Queued
        } else {
            self.counters.on_drop(bytes, DropReason::Overflow);
            dropped.push((packet, DropReason::Overflow));
            Verdict::Dropped
        }
    }

    #[inline]
    fn dequeue(&mut self) -> Option<P> {
        let packet = self.storage.pop()?;
        self.counters.on_departure(packet.bytes());
        Some(packet)
    }
}

/// How much fits into the queue.
trait Capacity {
    fn admits<P: Packet>(&self, storage: &Storage<P>, bytes: u32) -> bool;
}

/// A limit in packets: `pfifo_enqueue`.
#[derive(Clone, Copy, Debug)]
struct Packets(u32);

/// A limit in bytes: `bfifo_enqueue`.
#[derive(Clone, Copy, Debug)]
struct Octets(Bytes);

impl Capacity for Packets {
    #[inline]
    fn admits<P: Packet>(&self, storage: &Storage<P>, _bytes: u32) -> bool {
        (storage.packets() as u64) < u64::from(self.0)
    }
}

impl Capacity for Octets {
    #[inline]
    fn admits<P: Packet>(&self, storage: &Storage<P>, bytes: u32) -> bool {
        storage.bytes() + u64::from(bytes) <= self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use narrows_units::{Rate, Span};

    use super::*;
    use crate::laws;
    use crate::traffic::{Poisson, TestPacket, transmit};

    #[test]
    fn pfifo_obeys_the_laws() {
        laws::check(|| Pfifo::new(PfifoConfig { limit: 20 }));
    }

    #[test]
    fn bfifo_obeys_the_laws() {
        laws::check(|| Bfifo::new(BfifoConfig { limit: Bytes::new(15_000) }));
    }

    #[test]
    fn pfifo_holds_limit_packets_of_any_size() {
        let mut queue = Pfifo::new(PfifoConfig { limit: 3 });
        let mut dropped = Vec::new();
        for bytes in [1, 1_000_000, 1] {
            let packet = TestPacket { bytes, ..TestPacket::default() };
            assert_eq!(queue.enqueue(Time::ZERO, packet, &mut dropped), Verdict::Queued);
        }
        let verdict = queue.enqueue(Time::ZERO, TestPacket::default(), &mut dropped);
        assert_eq!(verdict, Verdict::Dropped);
        assert_eq!(dropped.len(), 1);
        assert_eq!(dropped[0].1, DropReason::Overflow);
        assert_eq!(queue.counters().dropped(DropReason::Overflow), 1);
    }

    #[test]
    fn bfifo_admits_a_packet_that_just_fits_and_a_small_one_after_a_large_one_did_not() {
        let mut queue = Bfifo::new(BfifoConfig { limit: Bytes::new(3_000) });
        let mut dropped = Vec::new();
        let verdicts = [1500, 1400, 101, 100, 1].map(|bytes| {
            let packet = TestPacket { bytes, ..TestPacket::default() };
            queue.enqueue(Time::ZERO, packet, &mut dropped)
        });
        use Verdict::{Dropped, Queued};
        assert_eq!(verdicts, [Queued, Queued, Dropped, Queued, Dropped]);
        assert_eq!(queue.backlog(), Backlog { packets: 3, bytes: Bytes::new(3_000) });
    }

    #[test]
    fn limit_zero_is_refused() {
        let refused =
            [PfifoConfig { limit: 0 }.check(), BfifoConfig { limit: Bytes::ZERO }.check()];
        for error in refused {
            let error = error.expect_err("nothing could wait");
            assert_eq!(error.to_string(), "limit: must be above zero");
        }
        assert_eq!(PfifoConfig::default().check(), Ok(()));
        assert_eq!(BfifoConfig::default().check(), Ok(()));
    }

    /// M/D/1: the mean number of customers that wait, not counting the one in service, is rho^2 /
    /// (2 (1 - rho)) (Pollaczek and Khinchine; Kleinrock, Queueing Systems I, 5.6). By Little's
    /// law, the mean wait is that number times the mean time between arrivals.
    #[test]
    fn poisson_arrivals_wait_as_long_as_pollaczek_and_khinchine_say() {
        let rate = Rate::from_bps(10_000_000).expect("not zero");
        let service = rate.time_for(Bytes::new(1250)).as_secs_f64();
        for rho in [0.3, 0.6, 0.8] {
            let expected = rho * service / (2.0 * (1.0 - rho));
            // Batches that are long compared with the correlation time are nearly independent; 30
            // of them give an interval by Student's t (29 degrees of freedom, 99.99 % two-sided:
            // 4.506).
            let batches: Vec<f64> = (0..30)
                .map(|seed| {
                    let mut queue = Pfifo::new(PfifoConfig { limit: u32::MAX });
                    let gap = Span::from_secs_f64(service / rho);
                    let waits = transmit(&mut queue, rate, Poisson::new(seed, gap, 1250), 20_000);
                    waits.iter().map(|wait| wait.as_secs_f64()).sum::<f64>() / waits.len() as f64
                })
                .collect();
            let n = batches.len() as f64;
            let mean = batches.iter().sum::<f64>() / n;
            let variance = batches.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
            let bound = 4.506 * (variance / n).sqrt();
            assert!(bound < 0.05 * expected, "{rho}: the interval is too wide to tell anything");
            assert!((mean - expected).abs() < bound, "{rho}: {mean} s, not {expected} s");
        }
    }
}
