//! What a link needs to know about a packet.

use narrows_qdisc::{Ecn, Protocol};

/// A packet, as far as a link is concerned.
pub trait Packet {
    /// Returns the length of the IP packet in bytes. It must not change on the link.
    fn bytes(&self) -> u16;

    /// Returns the ECN field of the IP header.
    fn ecn(&self) -> Ecn;

    /// Sets Congestion Experienced. Called only if [`Packet::ecn`] allows it.
    fn mark(&mut self);

    /// Notes that a queue has set the code point to 0 (tc-cake(8), `wash`).
    fn wash(&mut self) {}

    /// Returns a hash of the flow's addresses and ports, for disciplines that tell flows apart. Its
    /// bits must be well mixed ([`narrows_qdisc::mix`]).
    fn flow_hash(&self) -> u64 {
        0
    }

    /// Returns the transport protocol, for filters.
    fn protocol(&self) -> Protocol {
        Protocol::Other
    }

    /// Returns whether it is foreground traffic: counters count its drops apart, and a link can
    /// exempt it from delay and losses ([`Config::exempt_foreground`](crate::Config)).
    fn is_foreground(&self) -> bool {
        false
    }
}

/// A packet of tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestPacket {
    pub(crate) bytes: u16,
    ecn: Ecn,
}

#[cfg(test)]
impl TestPacket {
    pub(crate) fn of_bytes(bytes: u16) -> Self {
        Self { bytes, ecn: Ecn::NotEct }
    }
}

#[cfg(test)]
impl Packet for TestPacket {
    fn bytes(&self) -> u16 {
        self.bytes
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }
}
