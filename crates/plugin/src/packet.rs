//! What a queue from outside sees of a packet.

use narrows_qdisc::{Backlog, Ecn, Packet, Protocol};
use narrows_units::{Bytes, Time};

/// What a queue from outside may know about a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketView {
    /// Which packet it is, among those that wait in one queue.
    pub handle: u64,
    /// A hash of its addresses, protocol and ports.
    pub flow: u64,
    /// When it was passed to the queue.
    pub arrived: Time,
    /// The length that counts in queues.
    pub bytes: u32,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Its transport protocol.
    pub protocol: Protocol,
    /// Source and destination port; zero if it has none.
    pub ports: (u16, u16),
    /// Its DSCP, 0 to 63.
    pub dscp: u8,
    /// Numbers of the sending and of the receiving host.
    pub hosts: (u32, u32),
}

impl PacketView {
    #[inline]
    pub(crate) fn of(packet: &impl Packet, handle: u64, arrived: Time) -> Self {
        Self {
            handle,
            flow: packet.flow_hash(),
            arrived,
            bytes: packet.bytes(),
            ecn: packet.ecn(),
            protocol: packet.protocol(),
            ports: packet.ports(),
            dscp: packet.dscp(),
            hosts: packet.hosts(),
        }
    }
}

/// A decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is.
    Pass,
    /// It is marked, or dropped if it is not ECN-capable.
    Mark,
    /// It is dropped.
    Drop,
}

impl Decision {
    /// Returns what becomes of a packet with this ECN field.
    pub(crate) fn on(self, ecn: Ecn) -> Self {
        if self == Self::Mark && !ecn.is_capable() { Self::Drop } else { self }
    }
}

/// Takes a packet out of a backlog.
pub(crate) fn less(backlog: &mut Backlog, bytes: u32) {
    backlog.packets -= 1;
    backlog.bytes = Bytes::new(backlog.bytes.get() - u64::from(bytes));
}

/// Adds a packet to a backlog.
pub(crate) fn more(backlog: &mut Backlog, bytes: u32) {
    backlog.packets += 1;
    backlog.bytes = Bytes::new(backlog.bytes.get() + u64::from(bytes));
}
