//! Ethernet II framing (RFC 894), without the frame check sequence, which captures leave out.

use core::fmt;

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The header of a frame that carries IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// The next hop.
    pub destination: Mac,
    /// The last hop.
    pub source: Mac,
}

impl Ethernet {
    /// The length of the header in bytes.
    pub const BYTES: usize = 14;
}
