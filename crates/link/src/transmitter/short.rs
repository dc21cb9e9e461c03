//! The short form of a link: only a FIFO that nobody observes, and a wire that only delays. Most
//! links of most networks are of this form, such as the hosts' own links.
//!
//! A packet waits here from its arrival until the transmission before it ends. So it is enough to
//! keep the times at which packets leave the queue. Past ones are removed only when room matters.
//! The decisions are those of [`narrows_qdisc::fifo`]; a test compares them.

use alloc::collections::VecDeque;

use narrows_qdisc::{AnyConfig, Backlog};
use narrows_units::{Bytes, Time};

use crate::Config;

/// Packets that found the transmitter busy. Some may have left since.
#[derive(Debug)]
pub(super) struct ShortQueue {
    limit: FifoLimit,
    /// When each packet leaves the queue, and its length as the queue counts it.
    packets: VecDeque<(Time, u32)>,
    /// The sum of these lengths.
    bytes: u64,
    queue_overhead: u32,
}

/// Up to this length the list doubles, which wastes little.
const DOUBLING_ENDS: usize = 1024;

/// The limit of a FIFO.
#[derive(Clone, Copy, Debug)]
pub(super) enum FifoLimit {
    Packets(u32),
    Bytes(u64),
}

impl FifoLimit {
    /// Returns `None` if the queue decides by more than its length.
    pub(super) fn new(queue: &AnyConfig) -> Option<Self> {
        match queue {
            AnyConfig::Pfifo(config) => Some(Self::Packets(config.limit)),
            AnyConfig::Bfifo(config) => Some(Self::Bytes(config.limit.get())),
            _ => None,
        }
    }

    /// Returns whether a packet of `counted` bytes may wait behind this much.
    #[inline]
    pub(super) fn admits(self, packets: usize, bytes: u64, counted: u32) -> bool {
        match self {
            Self::Packets(limit) => (packets as u64) < u64::from(limit),
            Self::Bytes(limit) => bytes + u64::from(counted) <= limit,
        }
    }
}

impl ShortQueue {
    /// Returns the queue of a link, or `None` if that link has more than the short form.
    pub(super) fn new(config: &Config) -> Option<Self> {
        const LONGEST_PACKET: u64 = u16::MAX as u64;
        let queue_overhead = config.framing.queue_overhead;
        let limit = FifoLimit::new(&config.queue)?;
        // If even an empty queue may refuse a packet, the queue has to be asked.
        if let FifoLimit::Bytes(limit) = limit
            && limit < LONGEST_PACKET + u64::from(queue_overhead)
        {
            return None;
        }
        let only_delays = config.ring.is_none()
            && config.loss.is_none()
            && config.jitter.is_none()
            && !config.exempt_foreground;
        only_delays.then(|| Self { limit, packets: VecDeque::new(), bytes: 0, queue_overhead })
    }

    /// Takes in a packet of `ip_bytes` that arrives at `at` and leaves at `leaves_at`. Returns
    /// false if it is dropped.
    #[inline]
    pub(super) fn enqueue(&mut self, at: Time, leaves_at: Time, ip_bytes: u16) -> bool {
        let counted = u32::from(ip_bytes) + self.queue_overhead;
        let full = self.packets.len() == self.packets.capacity();
        if (full || !self.admits(counted)) && !self.make_room(at, counted) {
            return false;
        }
        self.packets.push_back((leaves_at, counted));
        self.bytes += u64::from(counted);
        true
    }

    /// Returns what waits at `now`.
    pub(super) fn backlog(&mut self, now: Time) -> Backlog {
        self.forget(now);
        Backlog { packets: self.packets.len() as u32, bytes: Bytes::new(self.bytes) }
    }

    #[inline]
    fn admits(&self, counted: u32) -> bool {
        self.limit.admits(self.packets.len(), self.bytes, counted)
    }

    /// Forgets the packets that have left. If all still wait and the limit admits more, the list
    /// grows by a sixteenth, so that little memory lies idle. Returns false if there is no room for
    /// the packet.
    #[inline(never)]
    fn make_room(&mut self, at: Time, counted: u32) -> bool {
        self.forget(at);
        if !self.admits(counted) {
            return false;
        }
        let capacity = self.packets.capacity();
        if self.packets.len() == capacity && capacity >= DOUBLING_ENDS {
            self.packets.reserve_exact(capacity / 16);
        }
        true
    }

    /// Forgets the packets that have left.
    fn forget(&mut self, now: Time) {
        while let Some(&(leaves_at, counted)) = self.packets.front()
            && leaves_at <= now
        {
            self.packets.pop_front();
            self.bytes -= u64::from(counted);
        }
    }
}

impl ShortQueue {
    /// Reads what the next call will need.
    #[inline(always)]
    pub(super) fn read(&self) -> u32 {
        self.packets.back().map_or(0, |&(_, counted)| self.bytes as u32 ^ counted)
    }
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::fifo::{BfifoConfig, PfifoConfig};
    use narrows_units::{Rate, Span};

    use super::super::{Looks, Passage, Seen, Transmitter};
    use super::*;
    use crate::Framing;
    use crate::transmitter::packet::TestPacket;
    use alloc::vec::Vec;
    use narrows_qdisc::Random;

    fn config(queue: AnyConfig) -> Config {
        Config {
            rate: Rate::from_bps(10_000_000).expect("not zero"),
            delay: Span::from_ms(1),
            framing: Framing { overhead: 38, min: 84, queue_overhead: 14 },
            queue,
            ..Config::default()
        }
    }

    /// Returns when each of many packets of random lengths arrives; `None`: dropped.
    fn arrivals(config: &Config, observed: bool) -> Vec<Option<Time>> {
        let mut link =
            Transmitter::new(config, &[], 1, "access", Looks { observed, at_head: false });
        let mut random = Random::new(1, "test");
        let mut at = Time::ZERO;
        (0..5_000)
            .map(|round| {
                // Quiet and busy periods alternate.
                let gap = Span::from_us(if round / 500 % 2 == 0 { 400 } else { 1_200 });
                at += random.exponential(gap);
                let bytes = 40 + (random.bits() % 1461) as u16;
                let mut packet = TestPacket::of_bytes(bytes);
                match link.enqueue(at, &mut packet, |_| Seen::default(), &mut Vec::new()) {
                    Passage::Arrives(at) => Some(at),
                    Passage::Dropped(_) | Passage::Lost => None,
                }
            })
            .collect()
    }

    #[test]
    fn the_short_form_decides_as_the_disciplines_do() {
        let queues = [
            AnyConfig::Pfifo(PfifoConfig { limit: 1 }),
            AnyConfig::Pfifo(PfifoConfig { limit: 30 }),
            AnyConfig::Bfifo(BfifoConfig { limit: Bytes::new(66_000) }),
        ];
        for queue in queues {
            let config = config(queue);
            assert!(ShortQueue::new(&config).is_some());
            let (short, full) = (arrivals(&config, false), arrivals(&config, true));
            let dropped = full.iter().filter(|arrival| arrival.is_none()).count();
            assert!((1..4_000).contains(&dropped), "{dropped} dropped, so nothing was tested");
            assert_eq!(short, full);
        }
    }
}
