//! Names for protocols that are not read, so that a refusal says what a file holds.

/// Returns what to call packets of an IP protocol (IANA's "Protocol Numbers").
pub(super) fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "ICMP",
        2 => "IGMP",
        33 => "DCCP, which is not read",
        50 => "ESP (IPsec), which is encrypted",
        51 => "AH over IPv4, which is not read",
        58 => "ICMPv6",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        115 => "L2TPv3, a tunnel that is not read",
        132 => "SCTP, which is not read",
        136 => "UDP-Lite, which is not read",
        _ => return None,
    })
}

/// Returns what to call frames of an EtherType (IANA's "IEEE 802 Numbers").
pub(super) fn ether_type_name(number: u16) -> Option<&'static str> {
    Some(match number {
        0..=1500 => "802.2 frames, such as spanning tree",
        0x0806 => "ARP",
        0x8863 => "PPPoE discovery",
        0x888e => "802.1X",
        0x88cc => "LLDP",
        0x88e5 => "MACsec, which is not read",
        0x88e7 => "802.1ah (MAC in MAC), which is not read",
        0x88f7 => "PTP",
        0x894f => "NSH, which is not read",
        _ => return None,
    })
}
