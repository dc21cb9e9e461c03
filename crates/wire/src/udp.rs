//! The UDP header (RFC 768).

/// A UDP header. Length and checksum follow from the rest of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
}

impl Udp {
    /// The length of the header in bytes.
    pub const BYTES: usize = 8;
}
