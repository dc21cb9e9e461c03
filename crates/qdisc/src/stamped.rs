//! A packet with its time of arrival.

use narrows_units::Time;

use crate::{Ecn, Packet, Protocol};

/// A packet in a discipline that measures sojourn times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamped<P> {
    pub(crate) packet: P,
    pub(crate) arrived_at: Time,
}

impl<P: Packet> Packet for Stamped<P> {
    #[inline]
    fn bytes(&self) -> u32 {
        self.packet.bytes()
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }

    #[inline]
    fn mark(&mut self) {
        self.packet.mark();
    }

    #[inline]
    fn flow_hash(&self) -> u64 {
        self.packet.flow_hash()
    }

    #[inline]
    fn protocol(&self) -> Protocol {
        self.packet.protocol()
    }

    #[inline]
    fn ports(&self) -> (u16, u16) {
        self.packet.ports()
    }
}
