//! The sender of a packet, as its link knows it.

use narrows_wire::Mac;

/// The sender of a frame, so that the answer goes back the same way. TUN devices have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The hardware address, of which `length` bytes count.
    pub(super) address: [u8; 8],
    pub(super) length: u8,
}

impl Peer {
    pub(super) fn of(mac: Mac) -> Self {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&mac.0);
        Self { address, length: 6 }
    }
}
