//! ARP for Ethernet and IPv4 (RFC 826).

use std::net::Ipv4Addr;

use etherparse::{ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header};

use crate::Mac;

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it is a reply. Otherwise it is a request.
    pub reply: bool,
    /// The sender's addresses.
    pub sender: (Mac, Ipv4Addr),
    /// The addresses of the host that it asks or answers. In a request, the MAC address asked for
    /// is zero.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Appends the frame to `out`, without padding and frame check sequence. A request whose target
    /// has no MAC address is broadcast.
    pub fn write(&self, out: &mut Vec<u8>) {
        let nobody = self.target.0 == Mac::default();
        let ethernet = Ethernet2Header {
            source: self.sender.0.0,
            destination: if nobody { [0xff; 6] } else { self.target.0.0 },
            ether_type: EtherType::ARP,
        };
        let arp = ArpEthIpv4Packet {
            operation: if self.reply { ArpOperation::REPLY } else { ArpOperation::REQUEST },
            sender_mac: self.sender.0.0,
            sender_ipv4: self.sender.1.octets(),
            target_mac: self.target.0.0,
            target_ipv4: self.target.1.octets(),
        };
        out.extend_from_slice(&ethernet.to_bytes());
        out.extend_from_slice(&arp.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_all_and_its_reply() {
        let (left, right) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let (here, there) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut frame = Vec::new();
        Arp { reply: false, sender: (left, here), target: (Mac::default(), there) }
            .write(&mut frame);
        // RFC 826: hardware 1, protocol 0x0800, lengths 6 and 4, operation 1.
        let head = [0xff; 6].into_iter().chain(left.0).chain([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        assert!(frame.iter().copied().take(22).eq(head));
        assert_eq!(frame[22..], [&left.0[..], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat());
        let mut frame = Vec::new();
        Arp { reply: true, sender: (right, there), target: (left, here) }.write(&mut frame);
        assert_eq!((&frame[..6], frame[21], frame.len()), (&left.0[..], 2, 42));
    }
}
