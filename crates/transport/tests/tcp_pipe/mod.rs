//! Two endpoints and a path of constant delay that loses, marks or reorders data at random.

#![allow(unreachable_pub, reason = "a module of tests")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use narrows_transport::tcp::{Config, Endpoint, Segment, Seq};
use narrows_units::{Ecn, Span, Time};

/// A 64-bit linear congruential generator (Knuth's MMIX), enough for tests.
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.bits()) * u64::from(n)) >> 32) as u32
    }

    pub fn chance(&mut self, p: f64) -> bool {
        f64::from(self.bits()) < p * 4_294_967_296.0
    }
}

/// What the path does to segments.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub one_way: Span,
    /// Probability that a data segment is lost.
    pub loss: f64,
    /// Probability that an acknowledgement is lost.
    pub ack_loss: f64,
    /// Probability that an ECN-capable segment is marked.
    pub mark: f64,
    /// Largest additional delay; segments overtake one another.
    pub jitter: Span,
}

impl Path {
    pub fn lossless(rtt: Span) -> Self {
        Self { one_way: rtt / 2, loss: 0.0, ack_loss: 0.0, mark: 0.0, jitter: Span::ZERO }
    }
}

/// A client that sends, a server that receives.
pub struct Pipe {
    pub ends: [Endpoint; 2],
    pub now: Time,
    path: Path,
    random: Random,
    queue: BinaryHeap<Reverse<(Time, u64, usize)>>,
    segments: Vec<Segment>,
    /// All segments that were sent, as a digest.
    pub digest: u64,
}

impl Pipe {
    pub fn new(config: &Config, path: Path, seed: u64) -> Self {
        let config = Arc::new(config.clone());
        let ends = [
            Endpoint::client(Arc::clone(&config), Seq(u32::MAX - 5000)),
            Endpoint::server(config, Seq(77)),
        ];
        let mut pipe = Self {
            ends,
            now: Time::ZERO,
            path,
            random: Random(seed),
            queue: BinaryHeap::new(),
            segments: Vec::new(),
            digest: 0,
        };
        pipe.ends[0].connect(Time::ZERO);
        pipe.flush(0);
        pipe
    }

    pub fn write(&mut self, bytes: u64) {
        self.ends[0].write(self.now, bytes);
        self.flush(0);
    }

    pub fn close(&mut self) {
        self.ends[0].close();
        self.flush(0);
    }

    /// Runs until `until`, or until nothing can happen any more. `look` sees the sender after each
    /// event.
    pub fn run(&mut self, until: Time, mut look: impl FnMut(Time, &Endpoint)) {
        loop {
            let arrival = self.queue.peek().map_or(Time::MAX, |Reverse((at, _, _))| *at);
            let timers =
                [0, 1].map(|end: usize| self.ends[end].next_timeout().unwrap_or(Time::MAX));
            let next = arrival.min(timers[0]).min(timers[1]);
            if next > until || next == Time::MAX {
                self.now = if next == Time::MAX { self.now } else { until };
                return;
            }
            self.now = next;
            if arrival == next {
                let Some(Reverse((_, id, end))) = self.queue.pop() else { return };
                let segment = self.segments[id as usize];
                self.ends[end].handle_segment(next, &segment);
                self.flush(end);
            } else {
                let end = usize::from(timers[0] != next);
                self.ends[end].handle_timeout(next);
                self.flush(end);
            }
            look(next, &self.ends[0]);
        }
    }

    fn flush(&mut self, end: usize) {
        while let Some(mut segment) = self.ends[end].poll_transmit(self.now) {
            let digest = format!("{:?} {segment:?}", self.now);
            for byte in digest.bytes() {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
            let loss = if segment.len > 0 { self.path.loss } else { self.path.ack_loss };
            if self.random.chance(loss) && segment.syn.is_none() {
                continue;
            }
            if segment.ecn.is_capable() && self.random.chance(self.path.mark) {
                segment.ecn = Ecn::Ce;
            }
            let jitter = self.path.jitter.as_ps() / 1000 * u64::from(self.random.below(1000));
            let at = self.now + self.path.one_way + Span::from_ps(jitter);
            let id = self.segments.len() as u64;
            self.segments.push(segment);
            self.queue.push(Reverse((at, id, 1 - end)));
        }
        self.ends[end].check_invariants();
    }
}
