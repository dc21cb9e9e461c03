//! Laws that hold for every discipline, built-in or not, under random traffic.
//!
//! For tests: if you write a discipline, call [`check`] or [`check_shaping`] in one of its tests.

use alloc::vec::Vec;

use narrows_units::{Bytes, Span, Time};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use crate::random::uniform;
pub use crate::traffic::TestPacket;
use crate::{Backlog, DropReason, Ecn, Packet, Protocol, Qdisc, Verdict};

const FLOWS: usize = 8;
const STEPS: usize = 20_000;

/// Checks the laws for a discipline that does not shape. `make` returns an empty one.
///
/// - Packets and bytes in = out + dropped + waiting, by `backlog` and by `counters`.
/// - Each packet comes out once, the packets of a flow in order, and only its ECN field changes.
///   Flows are not ECN-capable, or send ECT(0), or ECT(1) and CE: a discipline may sort by that.
/// - A packet comes out whenever one waits, and none if none does; nothing is held back.
/// - Only ECN-capable packets are marked, each once, and at enqueue the verdict says so.
/// - The counters of drops and marks agree with the verdicts, the packets and the lists of drops.
///
/// # Panics
///
/// Panics if a law is broken.
pub fn check<Q: Qdisc<TestPacket>>(make: impl Fn() -> Q) {
    for seed in 0..8 {
        Run::new(make(), seed, Line::NeverIdle).run();
    }
}

/// Checks the same for a discipline that shapes. Such a discipline may hold packets back, but:
///
/// - If packets wait and none comes out, `ready_at` returns a later time. At that time one comes
///   out, and none a picosecond before.
/// - If nothing waits, there is no such time.
///
/// # Panics
///
/// Panics if a law is broken.
pub fn check_shaping<Q: Qdisc<TestPacket>>(make: impl Fn() -> Q) {
    for seed in 0..8 {
        Run::new(make(), seed, Line::Shaped).run();
    }
}

/// When a waiting packet comes out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Whenever it is asked for.
    NeverIdle,
    /// When `ready_at` says.
    Shaped,
}

struct Run<Q> {
    queue: Q,
    random: Pcg32,
    now: Time,
    /// The packets inside for each flow, oldest first.
    inside: [alloc::collections::VecDeque<TestPacket>; FLOWS],
    arrived: (u64, u64),
    sent: (u64, u64),
    drops: [u64; 3],
    dropped_bytes: u64,
    marked: u64,
    line: Line,
}

impl<Q: Qdisc<TestPacket>> Run<Q> {
    fn new(queue: Q, seed: u64, line: Line) -> Self {
        Self {
            queue,
            random: Pcg32::seed_from_u64(seed),
            now: Time::ZERO,
            inside: Default::default(),
            arrived: (0, 0),
            sent: (0, 0),
            drops: [0; 3],
            dropped_bytes: 0,
            marked: 0,
            line,
        }
    }

    fn run(mut self) {
        // The load changes from time to time between nothing and twice what the line can carry, so
        // that the queue overflows, runs empty, and sees everything in between.
        let mut load = 1.0;
        for step in 0..STEPS {
            if step % 500 == 0 {
                load = 2.0 * uniform(&mut self.random);
            }
            if step % 2_500 == 0 {
                self.empty();
                self.now += Span::from_ms(u64::from(self.random.next_u32() % 3_000));
            }
            self.now += Span::from_us(u64::from(self.random.next_u32() % 1_000));
            if uniform(&mut self.random) * (1.0 + load) < load {
                self.enqueue();
            } else {
                self.dequeue();
            }
        }
        self.empty();
        assert_eq!(self.queue.backlog(), Backlog::default());
        assert!(self.inside.iter().all(alloc::collections::VecDeque::is_empty));
        assert!(self.sent.0 > STEPS as u64 / 10, "the traffic did not get through at all");
    }

    /// Takes everything out of the queue, and waits for it if the discipline shapes.
    fn empty(&mut self) {
        loop {
            while self.dequeue() {}
            let Some(at) = self.queue.ready_at(self.now) else { break };
            self.now = at - Span::from_ps(1);
            assert!(!self.dequeue(), "a packet came out before the time that ready_at returned");
            assert_eq!(
                self.queue.ready_at(self.now),
                Some(at),
                "a call of dequeue changed the time that ready_at returns"
            );
            self.now = at;
            assert!(self.dequeue(), "no packet came out at the time that ready_at returned");
        }
    }

    fn enqueue(&mut self) {
        let flow = (self.random.next_u32() as usize) % FLOWS;
        let bytes = [40, 576, 1500, 1500][(self.random.next_u32() % 4) as usize];
        // A discipline may sort by this field, with CE beside ECT(1) (RFC 9332). So a flow that has
        // CE has no ECT(0).
        let ecn = match flow / 2 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect0,
            _ => [Ecn::Ect1, Ecn::Ce][(self.random.next_u32() % 2) as usize],
        };
        let packet = TestPacket {
            flow: flow as u8,
            number: self.arrived.0,
            bytes,
            ecn,
            protocol: [Protocol::Udp, Protocol::Tcp][flow % 2],
            ports: ([53, 80, 443][flow % 3], 50_000 + flow as u16),
            dscp: [0, 8, 34, 46][flow % 4],
            hosts: (flow as u32 / 3, flow as u32 % 3),
            ..TestPacket::default()
        };
        self.arrived.0 += 1;
        self.arrived.1 += u64::from(bytes);
        self.inside[flow].push_back(packet);

        let mut dropped = Vec::new();
        let verdict = self.queue.enqueue(self.now, packet, &mut dropped);
        let refused = dropped.last().is_some_and(|(last, _)| last.number == packet.number);
        assert_eq!(verdict == Verdict::Dropped, refused, "the verdict and the drops disagree");
        if verdict == Verdict::Marked {
            assert!(ecn.is_capable());
            self.marked += 1;
            if let Some(inside) = self.inside[flow].back_mut() {
                inside.ecn = Ecn::Ce;
                inside.marks = 1;
            }
        }
        self.account(&dropped);
        self.compare();
    }

    fn dequeue(&mut self) -> bool {
        let waited = self.queue.backlog().packets > 0;
        let mut dropped = Vec::new();
        let packet = self.queue.dequeue(self.now, &mut dropped);
        self.account(&dropped);
        if let Some(packet) = packet {
            let mut expected = self.inside[usize::from(packet.flow)].pop_front();
            if let Some(expected) = &mut expected
                && expected.marks == 0
                && packet.marks == 1
            {
                // It was marked at dequeue.
                expected.mark();
                self.marked += 1;
            }
            assert_eq!(expected, Some(packet), "a flow's packets left in another order or form");
            self.sent.0 += 1;
            self.sent.1 += u64::from(packet.bytes);
        }
        assert!(waited || packet.is_none(), "a packet came out although none was waiting");
        let ready_at = self.queue.ready_at(self.now);
        match self.line {
            Line::NeverIdle => {
                assert!(!waited || packet.is_some(), "a packet was waiting, but none came out");
                assert_eq!(ready_at, None, "the queue does not shape, but ready_at returns a time");
            }
            Line::Shaped if packet.is_none() => {
                assert_eq!(ready_at.is_some(), self.queue.backlog().packets > 0);
                let later = ready_at.is_none_or(|at| at > self.now && at < Time::MAX);
                assert!(later, "no packet came out, and ready_at returns no later time");
            }
            Line::Shaped => {}
        }
        self.compare();
        packet.is_some()
    }

    fn account(&mut self, dropped: &[(TestPacket, DropReason)]) {
        for (packet, reason) in dropped {
            self.drops[*reason as usize] += 1;
            self.dropped_bytes += u64::from(packet.bytes);
            let inside = &mut self.inside[usize::from(packet.flow)];
            let place = inside.iter().position(|other| other.number == packet.number);
            let before = inside.remove(place.expect("a packet is dropped once"));
            let same = before.is_some_and(|before| {
                let marked = TestPacket { ecn: Ecn::Ce, marks: 1, ..before };
                before == *packet || (before.ecn.is_capable() && marked == *packet)
            });
            assert!(same, "a dropped packet changed");
        }
    }

    fn compare(&self) {
        let waiting = self.inside.iter().flatten();
        let bytes = waiting.clone().map(|packet| u64::from(packet.bytes)).sum();
        let backlog = Backlog { packets: waiting.count() as u32, bytes: Bytes::new(bytes) };
        assert_eq!(self.queue.backlog(), backlog);
        let counters = self.queue.counters();
        assert!(counters.balance(backlog), "{counters:?} does not balance with {backlog:?}");
        assert_eq!((counters.arrived_packets, counters.arrived_bytes), self.arrived);
        assert_eq!((counters.sent_packets, counters.sent_bytes), self.sent);
        assert_eq!(DropReason::ALL.map(|reason| counters.dropped(reason)), self.drops);
        assert_eq!(counters.dropped_bytes, self.dropped_bytes);
        assert_eq!(counters.marked_packets(), self.marked);
        assert!(counters.marked_then_dropped <= counters.dropped_overflow);
    }
}

#[cfg(test)]
mod tests;
