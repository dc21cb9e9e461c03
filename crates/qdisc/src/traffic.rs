//! Packets and arrivals for tests of disciplines, built-in and others.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use narrows_units::{Bytes, Rate, Span, Time};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::random::uniform;
use crate::{AnyConfig, Backlog, Decider, Decision, Ecn, Packet, PacketView, Protocol, Qdisc, mix};

/// A packet with everything that a test may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// Its flow, and the flow's hash.
    pub flow: u8,
    /// Its number.
    pub number: u64,
    /// Its length.
    pub bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// How often it was marked.
    pub marks: u8,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its ports.
    pub ports: (u16, u16),
    /// Its Differentiated Services code point.
    pub dscp: u8,
    /// Its source and destination host.
    pub hosts: (u32, u32),
    /// The time from which it may leave.
    pub departure_at: Option<Time>,
}

/// Drops and marks by a hash of all that it has seen. The more packets wait, the more it drops.
#[derive(Clone, Debug)]
pub struct Whim(u64);

impl Whim {
    /// Returns the settings of a queue for 40 packets that decides about arrivals, and with
    /// `releases` also about departures.
    pub fn config(releases: bool) -> AnyConfig {
        AnyConfig::short("whim", 40, releases, |seed| Box::new(Self(seed)))
    }

    fn decide(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision {
        for byte in format!("{backlog:?} {now:?} {packet:?}").bytes() {
            self.0 = mix(self.0, byte.into());
        }
        match self.0 % 1000 {
            0..4 => Decision::Mark,
            random if random < u64::from(backlog.packets) => Decision::Drop,
            _ => Decision::Pass,
        }
    }
}

impl Decider for Whim {
    fn admit(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision {
        self.decide(backlog, now, packet)
    }

    fn release(&mut self, backlog: Backlog, now: Time, packet: &PacketView) -> Decision {
        // By the laws, a packet comes out whenever one waits.
        if backlog.packets > 1 { self.decide(backlog, now, packet) } else { Decision::Pass }
    }
}

impl Default for TestPacket {
    fn default() -> Self {
        Self {
            flow: 0,
            number: 0,
            bytes: 1000,
            ecn: Ecn::NotEct,
            marks: 0,
            protocol: Protocol::Other,
            ports: (0, 0),
            dscp: 0,
            hosts: (0, 0),
            departure_at: None,
        }
    }
}

impl Packet for TestPacket {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        assert!(self.ecn.is_capable(), "a packet that is not ECN-capable was marked");
        self.ecn = Ecn::Ce;
        self.marks += 1;
    }

    fn flow_hash(&self) -> u64 {
        u64::from(self.flow)
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn ports(&self) -> (u16, u16) {
        self.ports
    }

    fn dscp(&self) -> u8 {
        self.dscp
    }

    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }

    fn hosts(&self) -> (u32, u32) {
        self.hosts
    }

    fn departure_at(&self) -> Option<Time> {
        self.departure_at
    }
}

/// Poisson arrivals of packets of one size.
#[derive(Debug)]
pub struct Poisson {
    random: Pcg32,
    mean_gap: Span,
    bytes: u32,
    at: Time,
}

impl Poisson {
    /// Creates packets of `bytes` at random times, `mean_gap` apart on average.
    pub fn new(seed: u64, mean_gap: Span, bytes: u32) -> Self {
        Self { random: Pcg32::seed_from_u64(seed), mean_gap, bytes, at: Time::ZERO }
    }
}

impl Iterator for Poisson {
    type Item = (Time, TestPacket);

    fn next(&mut self) -> Option<Self::Item> {
        // 1 - u is never zero.
        let gap = -libm::log(1.0 - uniform(&mut self.random)) * self.mean_gap.as_secs_f64();
        self.at += Span::from_secs_f64(gap);
        Some((self.at, TestPacket { bytes: self.bytes, ..TestPacket::default() }))
    }
}

/// Sends `count` of the arrivals through `queue` and over a line. Returns each packet's wait in the
/// queue.
///
/// A packet leaves the queue when its transmission starts, and the line asks for the next at its
/// end.
pub fn transmit(
    queue: &mut impl Qdisc<TestPacket>,
    line: Rate,
    arrivals: impl Iterator<Item = (Time, TestPacket)>,
    count: usize,
) -> Vec<Span> {
    let mut waits = Vec::with_capacity(count);
    let mut dropped = Vec::new();
    let mut arrived_at = alloc::collections::VecDeque::new();
    let mut free_at = None;
    let mut start = |queue: &mut dyn Qdisc<TestPacket>,
                     arrived_at: &mut alloc::collections::VecDeque<Time>,
                     now: Time| {
        let packet = queue.dequeue(now, &mut Vec::new())?;
        waits.push(now.since(arrived_at.pop_front().expect("the queue gave a packet")));
        Some(now + line.time_for(Bytes::from(packet.bytes)))
    };
    for (at, packet) in arrivals.take(count) {
        while let Some(end) = free_at.filter(|&end| end <= at) {
            free_at = start(queue, &mut arrived_at, end);
        }
        if queue.enqueue(at, packet, &mut dropped) != crate::Verdict::Dropped {
            arrived_at.push_back(at);
        }
        if free_at.is_none() {
            free_at = start(queue, &mut arrived_at, at);
        }
    }
    waits
}
