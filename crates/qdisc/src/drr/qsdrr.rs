//! QSDRR, queue state DRR: the queue that lost a packet to a full buffer keeps losing packets, so
//! that few flows lose packets at a time.
//!
//! Source: Kantawala and Turner 2002, section II.3 and figure 1. [The module above](super)
//! describes what the family shares, and how it differs from the sources.
//!
//! The paper leaves three things open, which are settings here: what becomes of Q when it has no
//! packets, the unit of length, and which of several longest queues is chosen. Figure 1 says
//! "shorter than all active queues", and the text says "the smallest". This follows the figure: if
//! another queue is as short as Q, Q stays.

use narrows_units::Bytes;

use super::flows::{Flow, Flows};
use super::length::{Lengths, Shortest};
use super::scheduler::{Scheduler, Shares, Victim};
use super::{By, End, Ties};
use crate::settings::{MOST_BYTES, MOST_PACKETS, any, keys, size, whole, words};
use crate::{Discipline, Levels, Packet, assert_possible};

keys! {
    /// Queue state DRR (Kantawala and Turner 2002): keeps dropping from the queue that was the
    /// longest.
    ///
    /// It goes on dropping from the queue that was the longest, until that queue is the shortest
    /// or empty.
    pub struct Config {
        /// Packets that may wait, of all flows together.
        limit: u32 = 1000, whole(1, MOST_PACKETS);
        /// Bytes that a flow may send in its turn. The paper wants it no smaller than a packet.
        quantum: Bytes = Bytes::new(1500), size(1, MOST_BYTES);
        /// Number of queues that the flows share by a hash; by default each flow has its own.
        buckets: Option<u32> = None, whole(1, 1_000_000);
        /// What the length of a flow's queue is counted in (ns-2: bytes; Linux's SFQ: packets).
        longest_by: By = By::Bytes, any();
        /// Which of several longest queues loses a packet: the one that reached this length first,
        /// or the one that reached it last.
        ties: Ties = Ties::Oldest, any();
        /// Which end of the queue loses packets.
        drop_from: End = End::Front, any();
        /// Whether the queue that loses packets is forgotten when it is empty, or keeps its role.
        when_empty: WhenEmpty = WhenEmpty::Undefine, any();
    }
}

words! {
    /// What becomes of the state variable Q when its queue has no packets.
    pub enum WhenEmpty {
        /// Q becomes undefined, so the next drop is from the queue that is then the longest.
        Undefine = "undefine",
        /// Q stays. If its flow has packets again at the next drop, that flow loses one, unless its
        /// queue is shorter than all others.
        Keep = "keep",
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "QSDRR";
    type Queue<P> = Qsdrr<P>;

    fn build<P: Packet>(&self, seed: u64) -> Qsdrr<P> {
        Qsdrr::new(self.clone(), seed)
    }

    fn levels(&self) -> Levels {
        Levels::packets(self.limit).in_several_lines()
    }
}

/// DRR with drops from the same queue as before.
#[derive(Clone, Debug)]
pub struct Qsdrr<P> {
    config: Config,
    scheduler: Scheduler<P, Same>,
}

impl<P: Packet> Qsdrr<P> {
    /// Creates an empty queue. Its hash of flows follows from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: Config, seed: u64) -> Self {
        assert_possible(config.check());
        let Config { limit, quantum, buckets, longest_by, ties, drop_from, when_empty } = config;
        let settings = Shares { limit, quantum: quantum.get(), buckets, drop_from, seed };
        let victim = Same {
            q: None,
            lengths: Lengths::new(longest_by, ties),
            shortest: Shortest::new(longest_by),
            when_empty,
        };
        Self { scheduler: Scheduler::new(settings, victim), config }
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of flows, or buckets, that have packets.
    pub const fn active(&self) -> u32 {
        self.scheduler.active()
    }
}

scheduled!(Qsdrr);

/// The queue that lost the last packet, until it is the shortest.
#[derive(Clone, Debug)]
struct Same {
    /// The state variable Q, as the key of its flow.
    q: Option<u64>,
    lengths: Lengths,
    shortest: Shortest,
    when_empty: WhenEmpty,
}

impl Victim for Same {
    #[inline]
    fn on_length(&mut self, index: u32, flow: &Flow) {
        self.lengths.set(index, flow);
        self.shortest.set(index, flow);
        if flow.packets() == 0
            && self.when_empty == WhenEmpty::Undefine
            && self.q == Some(flow.key())
        {
            self.q = None;
        }
    }

    /// Figure 1.
    fn choose<P: Packet>(&mut self, flows: &Flows<P>) -> u32 {
        let q = self.q.and_then(|key| flows.find(key));
        let index = match q {
            Some(q) if !self.shortest.is_shortest(q) => q,
            _ => self.lengths.longest().expect("packets wait"),
        };
        self.q = Some(flows.flow(index).key());
        index
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use narrows_units::Time;

    use super::*;
    use crate::traffic::TestPacket;
    use crate::{Dropped, Qdisc};

    fn config(limit: u32) -> Config {
        Config { limit, ..Config::default() }
    }

    /// Enqueues packets of these flows. Returns the flows that lost one.
    fn lost(queue: &mut Qsdrr<TestPacket>, flows: &[u8]) -> Vec<u8> {
        let mut dropped = Dropped::new();
        for &flow in flows {
            let packet = TestPacket { flow, ..TestPacket::default() };
            queue.enqueue(Time::ZERO, packet, &mut dropped);
        }
        dropped.iter().map(|(packet, _)| packet.flow).collect()
    }

    fn send(queue: &mut Qsdrr<TestPacket>, packets: usize) {
        for _ in 0..packets {
            assert!(queue.dequeue(Time::ZERO, &mut Dropped::new()).is_some());
        }
    }

    /// Figure 1: Q is undefined at first and becomes the longest queue. It stays even if another is
    /// longer, until it is shorter than all active queues.
    #[test]
    fn q_stays_until_it_is_shorter_than_all_active_queues() {
        let mut queue = Qsdrr::new(config(9), 1);
        assert!(lost(&mut queue, &[1, 1, 1, 1, 2, 2, 2, 3, 3]).is_empty());
        // Lengths 4, 3, 2. Flow 1 is the longest and pays for everything that arrives, while 2
        // grows.
        assert_eq!(lost(&mut queue, &[2, 2]), [1, 1]);
        // 2, 5, 2: as short as flow 3, not shorter.
        assert_eq!(lost(&mut queue, &[2]), [1]);
        // 1, 6, 2: it is the shortest; flow 2 is the longest.
        assert_eq!(lost(&mut queue, &[3, 3]), [2, 2]);
    }

    #[test]
    fn packets_are_dropped_from_the_front_of_q() {
        for (drop_from, first) in [(End::Front, 1), (End::Tail, 3)] {
            let mut queue = Qsdrr::new(Config { drop_from, ..config(2) }, 1);
            let mut dropped = Dropped::new();
            for number in 1..=3 {
                let packet = TestPacket { number, ..TestPacket::default() };
                queue.enqueue(Time::ZERO, packet, &mut dropped);
            }
            assert_eq!(
                dropped.iter().map(|(packet, _)| packet.number).collect::<Vec<_>>(),
                [first]
            );
        }
    }

    #[test]
    fn an_empty_q_is_undefined_or_comes_back_with_its_flow() {
        for (when_empty, pays) in [(WhenEmpty::Undefine, 2), (WhenEmpty::Keep, 1)] {
            let mut queue = Qsdrr::new(Config { when_empty, ..config(3) }, 1);
            assert_eq!(lost(&mut queue, &[1, 1, 1, 1]), [1]);
            send(&mut queue, 3);
            // Flow 1 returns with the same length as flow 3, shorter than flow 2.
            assert!(lost(&mut queue, &[2, 1, 2]).is_empty());
            assert_eq!(lost(&mut queue, &[3]), [pays], "{when_empty:?}");
        }
    }

    /// The purpose: few flows lose packets in one episode of congestion.
    #[test]
    fn fewer_flows_lose_packets_than_with_plain_drr() {
        use crate::drr::plain;
        fn flows_hit(mut queue: impl Qdisc<TestPacket>) -> usize {
            let mut dropped = Dropped::new();
            for number in 0..300u32 {
                // Twenty flows send in turn, twice as fast as the line.
                let packet = TestPacket { flow: (number % 20) as u8, ..TestPacket::default() };
                queue.enqueue(Time::ZERO, packet, &mut dropped);
                if number % 2 == 0 {
                    queue.dequeue(Time::ZERO, &mut Dropped::new());
                }
            }
            let mut flows: Vec<u8> = dropped.iter().map(|(packet, _)| packet.flow).collect();
            assert_eq!(flows.len(), 300 - 150 - 100);
            flows.sort_unstable();
            flows.dedup();
            flows.len()
        }
        let plain =
            flows_hit(plain::Drr::new(plain::Config { limit: 100, ..Default::default() }, 1));
        let same = flows_hit(Qsdrr::new(config(100), 1));
        assert!(plain == 20 && same <= 15, "{plain} against {same}");
    }
}
