//! Values to bytes: the packets that the core sends.

use std::net::{IpAddr, SocketAddr};

use narrows_wire::tcp::Options;

use super::checksum;
use super::packet::{Ip, TCP, TCP_BYTES, UDP, UDP_BYTES, V4_BYTES, V6_BYTES};

/// The window that we offer, in bytes.
pub(crate) const WINDOW: u16 = 65_535;
/// Our window scale.
pub(crate) const WSCALE: u8 = 7;

/// The headers of a segment to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: Options,
}

impl Outgoing {
    /// Returns the IP packet with this payload, which must fit into one.
    pub(crate) fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let header = TCP_BYTES + self.options.bytes();
        let mut packet = ip_header(self.from.ip(), self.to.ip(), header + payload.len());
        let at = packet.len();
        packet.extend(self.from.port().to_be_bytes());
        packet.extend(self.to.port().to_be_bytes());
        packet.extend(self.seq.to_be_bytes());
        packet.extend(self.ack.to_be_bytes());
        packet.extend([(header / 4 * 16) as u8, self.flags]);
        packet.extend(self.window.to_be_bytes());
        packet.extend([0; 4]);
        self.options.write(&mut packet);
        packet.extend(payload);
        let length = packet.len() - at;
        let sum = checksum::pseudo_header(self.from.ip(), self.to.ip(), TCP, length)
            + checksum::sum(&packet[at..]);
        packet[at + 16..at + 18].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
        packet
    }
}

/// Returns the IP packet of a datagram between these ports. Its addresses, and whatever else fits,
/// are those of `ip`.
pub(crate) fn datagram(ip: &Ip<'_>, from: u16, to: u16, message: &[u8]) -> Vec<u8> {
    let length = UDP_BYTES + message.len();
    let mut packet = ip.header.to_vec();
    set_length(&mut packet, length);
    match ip.source {
        IpAddr::V4(_) => {
            packet[0] = 0x45;
            // The datagram is whole, even if it replaces a fragment.
            packet[6] &= 0x40;
            packet[7] = 0;
            packet[9] = UDP;
            set_v4_checksum(&mut packet);
        }
        IpAddr::V6(_) => packet[6] = UDP,
    }
    let at = packet.len();
    packet.extend(from.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.extend((length as u16).to_be_bytes());
    packet.extend([0; 2]);
    packet.extend(message);
    let sum = checksum::pseudo_header(ip.source, ip.destination, UDP, length)
        + checksum::sum(&packet[at..]);
    // RFC 768: zero would mean that there is no checksum.
    let sum = match !checksum::fold(sum) {
        0 => 0xffff,
        sum => sum,
    };
    packet[at + 6..at + 8].copy_from_slice(&u16::to_be_bytes(sum));
    packet
}

/// Returns the IP header of one of our segments, of which `length` bytes follow.
fn ip_header(from: IpAddr, to: IpAddr, length: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(V6_BYTES + length);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Version and length, TOS, two lengths, ID, DF, TTL, protocol, checksum.
            header.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, TCP, 0, 0]);
            header.extend(from.octets());
            header.extend(to.octets());
            set_length(&mut header, length);
            set_v4_checksum(&mut header);
        }
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            header.extend([0x60, 0, 0, 0, 0, 0, TCP, HOPS]);
            header.extend(octets(from));
            header.extend(octets(to));
            set_length(&mut header, length);
        }
    }
    header
}

/// Sets the length in an IP header without options that `payload` bytes follow.
fn set_length(header: &mut [u8], payload: usize) {
    let (at, length) =
        if header.len() == V4_BYTES { (2, V4_BYTES + payload) } else { (4, payload) };
    header[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
}

fn set_v4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = !checksum::fold(checksum::sum(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The hop limit of our packets.
const HOPS: u8 = 64;
