//! Ports that no application chooses, for filters in queues and for captures.
//!
//! They follow from the order in which flows and sockets are created. So captures of different
//! links of one run agree, and a filter written for one run also works for the next.

/// Returns the ports of connection `connection`: the data sender's and the data receiver's.
///
/// The sender's port is 5001, and the receiver's tells connections apart. After every 9000
/// connections the sender's port goes up by one. The ports 35000 to 43999 lie in Linux's range of
/// ephemeral ports. Wireshark assigns neither these nor 5001 to 5009 to other protocols.
pub const fn tcp(connection: u32) -> (u16, u16) {
    const FIRST: u32 = 35_000;
    const COUNT: u32 = 9_000;
    (5001u16.wrapping_add((connection / COUNT) as u16), (FIRST + connection % COUNT) as u16)
}

/// The DNS server's port.
pub const DNS: u16 = 53;

/// Returns the port of a client's UDP socket. Sockets are numbered over the whole run; each of the
/// first 64,512 has a port of its own, from 49152 upward and then from 1024.
pub const fn socket(socket: u32) -> u16 {
    const FIRST: u32 = 49_152 - LOWEST;
    const LOWEST: u32 = 1_024;
    const COUNT: u32 = 65_536 - LOWEST;
    (LOWEST + (FIRST + socket % COUNT) % COUNT) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn connections_differ_in_their_ports() {
        let ports: BTreeSet<_> = (0..200_000).map(tcp).collect();
        assert_eq!(ports.len(), 200_000);
        assert_eq!(tcp(0), (5001, 35_000));
        assert_eq!(tcp(9_000), (5002, 35_000));
    }

    #[test]
    fn sockets_differ_in_their_ports() {
        let ports: BTreeSet<_> = (0..64_512).map(socket).collect();
        assert_eq!(ports.len(), 64_512);
        assert_eq!((socket(0), socket(16_383), socket(16_384)), (49_152, 65_535, 1024));
    }
}
