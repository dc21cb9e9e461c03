//! Answers requests for the hardware address of a service address: ARP (RFC 826) and neighbour
//! discovery (RFC 4861).
//!
//! The kernel does not answer for addresses that are not its own. This module answers only for the
//! service's addresses. It learns nothing, because answers to clients go to where their packets
//! come from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_wire::Mac;

use crate::core::checksum;

/// Returns the answer to an ARP request for one of `addresses`: the packet and its receiver.
pub(super) fn arp_reply(request: &[u8], addresses: &[IpAddr], ours: Mac) -> Option<(Vec<u8>, Mac)> {
    // Ethernet, IPv4, addresses of six and four bytes, a request.
    if request.get(..8)? != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let sender: [u8; 10] = request.get(8..18)?.try_into().ok()?;
    let target: [u8; 4] = request.get(24..28)?.try_into().ok()?;
    if !addresses.contains(&Ipv4Addr::from(target).into()) {
        return None;
    }
    let mut reply = Vec::with_capacity(28);
    reply.extend([0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend(ours.0);
    reply.extend(target);
    reply.extend(sender);
    let asker = <[u8; 6]>::try_from(&sender[..6]).ok()?;
    Some((reply, Mac(asker)))
}

/// Returns the answer to a neighbour solicitation for one of `addresses`: the IPv6 packet and its
/// receiver (`None`: all nodes, because the asker has no address yet).
pub(super) fn advertisement(
    solicitation: &[u8],
    addresses: &[IpAddr],
    ours: Mac,
) -> Option<(Vec<u8>, Option<Ipv6Addr>)> {
    let header = solicitation.get(..V6_BYTES)?;
    let message = solicitation.get(V6_BYTES..V6_BYTES + 24)?;
    // RFC 4861, 7.1.1: it must come from this link and be whole.
    let whole = V6_BYTES + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let body = solicitation.get(V6_BYTES..whole)?;
    if header[6] != ICMPV6 || header[7] != 255 || message[..2] != [SOLICITATION, 0] {
        return None;
    }
    let address =
        |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(header.get(at..at + 16)?).ok()?));
    let (from, to) = (address(8)?, address(24)?);
    let sum =
        checksum::pseudo_header(from.into(), to.into(), ICMPV6, body.len()) + checksum::sum(body);
    if checksum::fold(sum) != 0xffff {
        return None;
    }
    let target = Ipv6Addr::from(<[u8; 16]>::try_from(message.get(8..24)?).ok()?);
    if !addresses.contains(&target.into()) {
        return None;
    }
    let asker = (!from.is_unspecified()).then_some(from);
    let to = asker.unwrap_or(ALL_NODES);

    // RFC 4861, 4.4: "solicited" if somebody in particular asked; it overrides what was known.
    let flags = if asker.is_some() { 0x60 } else { 0x20 };
    let mut reply = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
    reply.extend(target.octets());
    reply.extend([2, 1]); // target link-layer address, in units of eight bytes
    reply.extend(ours.0);
    let sum = checksum::pseudo_header(target.into(), to.into(), ICMPV6, reply.len());
    let sum = !checksum::fold(sum + checksum::sum(&reply));
    reply[2..4].copy_from_slice(&sum.to_be_bytes());

    let mut packet = vec![0x60, 0, 0, 0, 0, reply.len() as u8, ICMPV6, 255];
    packet.extend(target.octets());
    packet.extend(to.octets());
    packet.extend(reply);
    Some((packet, asker))
}

/// Returns whether an IPv6 packet is a neighbour solicitation, among those that the filter accepts.
pub(super) fn is_solicitation(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 6)
        && packet.get(6) == Some(&ICMPV6)
        && packet.get(V6_BYTES) == Some(&SOLICITATION)
}

/// Returns the multicast hardware address for solicitations of `address` (RFC 4291, 2.7.1; RFC
/// 2464, 7).
pub(super) fn solicited_node(address: Ipv6Addr) -> Mac {
    let [.., a, b, c] = address.octets();
    Mac([0x33, 0x33, 0xff, a, b, c])
}

/// The hardware address of all nodes.
pub(super) const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const V6_BYTES: usize = 40;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Mac = Mac([2, 0, 0, 0, 0, 0x53]);
    const ASKER: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn addresses() -> Vec<IpAddr> {
        ["192.0.2.53", "2001:db8::53"].map(|address| address.parse().expect("an address")).to_vec()
    }

    fn arp_request(target: [u8; 4]) -> Vec<u8> {
        let mut request = vec![0, 1, 8, 0, 6, 4, 0, 1];
        request.extend(ASKER.0);
        request.extend([192, 0, 2, 9]);
        request.extend([0; 6]);
        request.extend(target);
        request
    }

    #[test]
    fn arp_is_answered_for_the_service_alone() {
        let (reply, to) =
            arp_reply(&arp_request([192, 0, 2, 53]), &addresses(), OURS).expect("ours");
        assert_eq!(to, ASKER);
        assert_eq!(reply[6..8], [0, 2], "ares_op$REPLY");
        assert_eq!((&reply[8..14], &reply[14..18]), (&OURS.0[..], &[192, 0, 2, 53][..]));
        assert_eq!((&reply[18..24], &reply[24..28]), (&ASKER.0[..], &[192, 0, 2, 9][..]));
        assert_eq!(arp_reply(&arp_request([192, 0, 2, 54]), &addresses(), OURS), None);
        assert_eq!(arp_reply(&arp_request([192, 0, 2, 53])[..27], &addresses(), OURS), None);
    }

    fn solicitation(from: &str, target: &str) -> Vec<u8> {
        let from: Ipv6Addr = from.parse().expect("an address");
        let to: Ipv6Addr = "ff02::1:ff00:53".parse().expect("an address");
        let target: Ipv6Addr = target.parse().expect("an address");
        let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend(target.octets());
        let sum = checksum::pseudo_header(from.into(), to.into(), ICMPV6, message.len());
        let sum = !checksum::fold(sum + checksum::sum(&message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut packet = vec![0x60, 0, 0, 0, 0, message.len() as u8, ICMPV6, 255];
        packet.extend(from.octets());
        packet.extend(to.octets());
        packet.extend(message);
        packet
    }

    #[test]
    fn solicitations_are_answered_for_the_service_alone() {
        let asked = solicitation("fe80::9", "2001:db8::53");
        assert!(is_solicitation(&asked));
        let (reply, to) = advertisement(&asked, &addresses(), OURS).expect("ours");
        assert_eq!(to, Some("fe80::9".parse().expect("an address")));
        assert_eq!((reply[7], reply[40], reply[44]), (255, ADVERTISEMENT, 0x60));
        assert_eq!(reply[66..72], OURS.0);
        let (from, to) =
            ("2001:db8::53".parse().expect("an address"), "fe80::9".parse().expect("an address"));
        let sum = checksum::pseudo_header(from, to, ICMPV6, 32) + checksum::sum(&reply[40..]);
        assert_eq!(checksum::fold(sum), 0xffff);
        let other = solicitation("fe80::9", "2001:db8::54");
        assert_eq!(advertisement(&other, &addresses(), OURS), None);
    }

    /// Duplicate address detection (RFC 4862, 5.4): a node that wants our address learns that it is
    /// taken.
    #[test]
    fn who_has_no_address_yet_is_answered_to_all() {
        let asked = solicitation("::", "2001:db8::53");
        let (reply, to) = advertisement(&asked, &addresses(), OURS).expect("ours");
        assert_eq!((to, reply[44]), (None, 0x20));
    }

    #[test]
    fn what_came_through_a_router_or_is_damaged_is_not_answered() {
        let mut far = solicitation("fe80::9", "2001:db8::53");
        far[7] = 254;
        assert_eq!(advertisement(&far, &addresses(), OURS), None);
        let mut damaged = solicitation("fe80::9", "2001:db8::53");
        damaged[20] ^= 1;
        assert_eq!(advertisement(&damaged, &addresses(), OURS), None);
        for length in 0..damaged.len() {
            assert_eq!(advertisement(&damaged[..length], &addresses(), OURS), None);
        }
    }
}
