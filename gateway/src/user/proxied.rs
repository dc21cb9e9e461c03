//! The header of the PROXY protocol, version 2 (HAProxy, "The PROXY protocol", 2020/03/05, section
//! 2.2). It tells the server whose query or connection it gets.
//!
//! Over UDP it precedes each query; on a connection it comes once, before the first byte. Its
//! transport is STREAM, because the client came over TCP and has proven its address. Knot 3.2
//! accepts only DGRAM, and no header on connections.
//!
//! ```text
//! signature (12) | version 2, PROXY | family, transport | length (2)
//!     | client, server | client's port, server's port
//! ```

use std::net::{IpAddr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const PROXY: u8 = 0x21;
const OVER_IPV4: u8 = 0x10;
const OVER_IPV6: u8 = 0x20;

/// The transport that the header gives for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP.
    Stream = 1,
    /// Over UDP.
    Datagram = 2,
}

/// Returns the header for what `client` sends to `server`. If one has IPv4 and the other IPv6, both
/// are written as IPv6.
pub(crate) fn header(transport: Transport, client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.push(PROXY);
    if let (IpAddr::V4(client), IpAddr::V4(server)) = (client.ip(), server.ip()) {
        header.extend([OVER_IPV4 | transport as u8, 0, 12]);
        header.extend(client.octets());
        header.extend(server.octets());
    } else {
        header.extend([OVER_IPV6 | transport as u8, 0, 36]);
        header.extend(sixteen(client.ip()));
        header.extend(sixteen(server.ip()));
    }
    header.extend(client.port().to_be_bytes());
    header.extend(server.port().to_be_bytes());
    header
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::Transport::{Datagram, Stream};
    use super::*;

    fn socket(text: &str) -> SocketAddr {
        text.parse().expect("an address and a port")
    }

    #[test]
    fn a_header_has_the_specifications_bytes() {
        // Section 2.2: the signature, 0x21, AF_INET and STREAM, 12 bytes of addresses and ports in
        // network order.
        let signature = [0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a];
        let four = header(Stream, socket("192.0.2.7:4660"), socket("198.51.100.53:53"));
        let mut expected = signature.to_vec();
        expected.extend([0x21, 0x11, 0, 12, 192, 0, 2, 7, 198, 51, 100, 53, 0x12, 0x34, 0, 53]);
        assert_eq!(four, expected);

        let six = header(Stream, socket("[2001:db8::7]:1"), socket("[2001:db8::53]:53"));
        assert_eq!(six[..16], [&signature[..], &[0x21, 0x21, 0, 36]].concat());
        assert_eq!(six.len(), 16 + 36);
        assert_eq!(six[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(six[31..33], [7, 0x20]);
        assert_eq!(six[48..], [0, 1, 0, 53]);
        // DGRAM is 2.
        assert_eq!(header(Datagram, socket("192.0.2.7:1"), socket("192.0.2.53:53"))[13], 0x12);
    }

    #[test]
    fn addresses_of_two_families_are_written_as_ipv6() {
        let mixed = header(Stream, socket("192.0.2.7:1"), socket("[2001:db8::53]:53"));
        assert_eq!(mixed[13], 0x21);
        assert_eq!(mixed[16..32], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7]);
    }
}
