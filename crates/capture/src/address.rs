//! Addresses and ports of things that have only indices in the simulator.
//!
//! They follow from the plan alone, so that captures of different links of a run agree, and a
//! filter that was written for one run does for the next.

use std::net::Ipv4Addr;

use narrows_wire::Mac;

/// The address of node `node`: 10.0.0.1 and on.
pub fn ip(node: usize) -> Ipv4Addr {
    let [_, a, b, c] = (node as u32).wrapping_add(1).to_be_bytes();
    Ipv4Addr::new(10, a, b, c)
}

/// The MAC address of node `node`, on all its links: 02:00:00:00:00:01 and on, locally administered
/// (IEEE 802, section 8.4).
pub fn mac(node: usize) -> Mac {
    let [a, b, c, d] = (node as u32).wrapping_add(1).to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

/// The ports of connection `connection`: the data sender's, and the data receiver's.
///
/// The sender's is 5001, the receiver's tells connections apart; after 9000 connections the
/// sender's port goes up by one. 35000 to 43999 lies in Linux's range of ephemeral ports and is free
/// of ports that Wireshark takes for other protocols, as are 5001 to 5009.
pub fn tcp_ports(connection: u32) -> (u16, u16) {
    const FIRST: u32 = 35_000;
    const COUNT: u32 = 9_000;
    (5001u16.wrapping_add((connection / COUNT) as u16), (FIRST + connection % COUNT) as u16)
}

/// The DNS server's port.
pub const DNS_PORT: u16 = 53;

/// The port of a resolver worker, numbered over all groups: one for each of the first 64,512, from
/// 49152 on, then from 1024.
pub fn worker_port(worker: u32) -> u16 {
    const FIRST: u32 = 49_152 - LOWEST;
    const LOWEST: u32 = 1_024;
    const COUNT: u32 = 65_536 - LOWEST;
    (LOWEST + (FIRST + worker % COUNT) % COUNT) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nodes() {
        assert_eq!(ip(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(ip(70_000), Ipv4Addr::new(10, 1, 17, 113));
        assert_eq!(mac(255).to_string(), "02:00:00:00:01:00");
    }

    #[test]
    fn connections_differ_in_their_ports() {
        let ports: BTreeSet<_> = (0..200_000).map(tcp_ports).collect();
        assert_eq!(ports.len(), 200_000);
        assert_eq!(tcp_ports(0), (5001, 35_000));
        assert_eq!(tcp_ports(9_000), (5002, 35_000));
    }

    #[test]
    fn workers_differ_in_their_ports() {
        let ports: BTreeSet<_> = (0..64_512).map(worker_port).collect();
        assert_eq!(ports.len(), 64_512);
        assert_eq!(
            (worker_port(0), worker_port(16_383), worker_port(16_384)),
            (49_152, 65_535, 1024)
        );
    }
}
