//! The IPv4 header (RFC 791), without options; ECN is RFC 3168, section 5.

use std::net::Ipv4Addr;

/// An IPv4 header. Total length, protocol and checksum follow from the rest of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Who is to have it.
    pub destination: Ipv4Addr,
    /// The octet that holds the DS field (RFC 2474) and, in its two low bits, the ECN field.
    pub tos: u8,
    /// Hops that are left.
    pub ttl: u8,
    /// Identification; without meaning where fragmentation is forbidden (RFC 6864, section 4.1).
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
}

impl Ipv4 {
    /// The header's length in bytes.
    pub const BYTES: usize = 20;

    /// A header as hosts send it: TTL 64, not to be fragmented, not ECN-capable.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        Self { source, destination, tos: 0, ttl: 64, identification: 0, dont_fragment: true }
    }

    /// The ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub const fn ecn(self) -> u8 {
        self.tos & 0b11
    }
}
