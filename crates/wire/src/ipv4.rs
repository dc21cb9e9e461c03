//! The IPv4 header (RFC 791), without options; ECN is RFC 3168, section 5.

use std::net::Ipv4Addr;

/// An IPv4 header. Total length, protocol and checksum follow from the rest of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub destination: Ipv4Addr,
    /// The octet with the DS field (RFC 2474) and, in its two low bits, the ECN field.
    pub tos: u8,
    /// The hops that are left.
    pub ttl: u8,
    /// The identification, which has no meaning if fragmentation is forbidden (RFC 6864, section
    /// 4.1).
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
}

impl Ipv4 {
    /// The length of the header in bytes.
    pub const BYTES: usize = 20;

    /// Creates a header as hosts send it: TTL 64, not to be fragmented, not ECN-capable.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        Self { source, destination, tos: 0, ttl: 64, identification: 0, dont_fragment: true }
    }

    /// Returns the ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub const fn ecn(self) -> u8 {
        self.tos & 0b11
    }
}
