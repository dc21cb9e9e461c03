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
    fn header_bytes(&self) -> u32 {
        self.packet.header_bytes()
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

    #[inline]
    fn dscp(&self) -> u8 {
        self.packet.dscp()
    }

    #[inline]
    fn set_dscp(&mut self, dscp: u8) {
        self.packet.set_dscp(dscp);
    }

    #[inline]
    fn hosts(&self) -> (u32, u32) {
        self.packet.hosts()
    }

    #[inline]
    fn departure_at(&self) -> Option<Time> {
        self.packet.departure_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::TestPacket;

    #[test]
    fn shows_what_its_packet_shows() {
        let packet = TestPacket {
            flow: 7,
            bytes: 90,
            ecn: Ecn::Ect0,
            protocol: Protocol::Udp,
            ports: (53, 5353),
            dscp: 46,
            hosts: (1, 2),
            departure_at: Some(Time::from_ps(9)),
            ..TestPacket::default()
        };
        let mut stamped = Stamped { packet, arrived_at: Time::ZERO };
        assert_eq!((stamped.bytes(), stamped.ecn(), stamped.flow_hash()), (90, Ecn::Ect0, 7));
        assert_eq!((stamped.protocol(), stamped.ports()), (Protocol::Udp, (53, 5353)));
        assert_eq!(stamped.departure_at(), packet.departure_at);
        assert_eq!((stamped.dscp(), stamped.hosts()), (46, (1, 2)));
        stamped.mark();
        stamped.set_dscp(0);
        assert_eq!((stamped.packet.marks, stamped.packet.dscp), (1, 0));
    }
}
