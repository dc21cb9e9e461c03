//! Bytes to values and back, for the headers that narrows writes and reads: Ethernet II, ARP, IPv4,
//! TCP with its options, UDP, and DNS messages.
//!
//! A value holds the meaning, not the bytes: lengths, offsets and checksums are computed when it is
//! written and checked when it is read. Invalid bytes from others cause an error, never a panic.
//! The octets themselves are left to etherparse and domain, which are fuzzed and well maintained.
//! This crate adds what they lack: unknown TCP options, payloads of zeros that need no bytes, and
//! captures that were cut short.
//!
//! ```
//! use narrows_wire::{Ethernet, Ipv4, Mac, Packet, Payload, Transport, Udp};
//!
//! let packet = Packet {
//!     ethernet: Ethernet { destination: Mac([2, 0, 0, 0, 0, 2]), source: Mac([2, 0, 0, 0, 0, 1]) },
//!     ip: Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
//!     transport: Transport::Udp(Udp { source_port: 40_000, destination_port: 53 }),
//! };
//! let mut frame = Vec::new();
//! packet.write(Payload::Bytes(b"hello"), usize::MAX, &mut frame)?;
//!
//! let received = narrows_wire::read(&frame)?;
//! assert_eq!(received.packet, packet);
//! assert_eq!(received.payload, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arp;
pub mod brief;
pub mod dns;
mod ethernet;
mod ipv4;
mod packet;
pub mod tcp;
mod udp;

pub use arp::Arp;
pub use ethernet::{Ethernet, Mac};
pub use ipv4::Ipv4;
pub use packet::{
    Packet, Payload, ReadError, Received, Transport, WriteError, checksums_hold, read,
};
pub use tcp::Tcp;
pub use udp::Udp;
