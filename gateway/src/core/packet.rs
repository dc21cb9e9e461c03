//! Foreign bytes to values: IPv4 (RFC 791), IPv6 with its extension headers (RFC 8200), TCP (RFC
//! 9293).
//!
//! `narrows-wire` reads whole frames for captures, and requires more of them than a host may
//! require of the network. This module requires exactly what PROTOCOL.md says about every packet
//! that may come. Nothing here panics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use narrows_wire::tcp::{Flags, Options};

use super::checksum;

/// The number of ICMP as a protocol of IP.
pub(crate) const ICMP: u8 = 1;
/// The number of ICMPv6 as a protocol of IP.
pub(crate) const ICMPV6: u8 = 58;
/// The number of TCP as a protocol of IP.
pub(crate) const TCP: u8 = 6;
/// The number of UDP as a protocol of IP.
pub(crate) const UDP: u8 = 17;

/// Headers that make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// An IP packet, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The protocol of the payload, which follows the extension headers.
    pub(crate) protocol: u8,
    /// The fixed part of the header.
    pub(crate) header: &'a [u8],
    /// The payload, without what follows the packet's own end.
    pub(crate) payload: &'a [u8],
    /// Which part of a datagram it is; `None` for a whole one.
    pub(crate) fragment: Option<Fragment>,
    /// Whether the checksum of an IPv4 header with its options is right; always true for IPv6.
    pub(crate) holds: bool,
}

/// Which part of a datagram an IPv4 or IPv6 packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The identification that all parts share.
    pub(crate) id: u32,
    /// Where the part belongs, in bytes.
    pub(crate) offset: usize,
    /// Whether it is not the last.
    pub(crate) more: bool,
}

impl<'a> Ip<'a> {
    /// Reads an IP packet. Returns `None` for another version of IP, or for more extension headers
    /// than anybody sends.
    pub(crate) fn read(packet: &'a [u8]) -> Result<Option<Self>, Malformed> {
        match packet.first().ok_or(Malformed)? >> 4 {
            4 => Self::read_v4(packet).map(Some),
            6 => Self::read_v6(packet),
            _ => Ok(None),
        }
    }

    fn read_v4(packet: &'a [u8]) -> Result<Self, Malformed> {
        let header = packet.get(..V4_BYTES).ok_or(Malformed)?;
        let header_bytes = usize::from(header[0] & 0xf) * 4;
        let whole = usize::from(u16_at(header, 2));
        if header_bytes < V4_BYTES {
            return Err(Malformed);
        }
        let payload = packet.get(header_bytes..whole).ok_or(Malformed)?;
        let field = u16_at(header, 6);
        let (offset, more) = (usize::from(field & 0x1fff) * 8, field & 0x2000 != 0);
        let id = u32::from(u16_at(header, 4));
        Ok(Self {
            source: Ipv4Addr::from_bits(u32_at(header, 12)).into(),
            destination: Ipv4Addr::from_bits(u32_at(header, 16)).into(),
            protocol: header[9],
            header,
            payload,
            fragment: (more || offset > 0).then_some(Fragment { id, offset, more }),
            holds: checksum::fold(checksum::sum(&packet[..header_bytes])) == 0xffff,
        })
    }

    fn read_v6(packet: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let header = packet.get(..V6_BYTES).ok_or(Malformed)?;
        let whole = V6_BYTES + usize::from(u16_at(header, 4));
        let mut payload = packet.get(V6_BYTES..whole).ok_or(Malformed)?;
        let mut protocol = header[6];
        let mut fragment = None;
        for skipped in 0.. {
            let bytes = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => {
                    let length = payload.get(1).ok_or(Malformed)?;
                    8 * (usize::from(*length) + 1)
                }
                // One with the whole packet is no fragment (RFC 6946, section 4).
                FRAGMENT if payload.len() >= 8 && u16_at(payload, 2) & 0xfff9 == 0 => 8,
                FRAGMENT if payload.len() >= 8 => {
                    let field = u16_at(payload, 2);
                    let offset = usize::from(field & 0xfff8);
                    let (id, more) = (u32_at(payload, 4), field & 1 != 0);
                    fragment = Some(Fragment { id, offset, more });
                    protocol = payload[0];
                    payload = &payload[8..];
                    // What follows in a later fragment is data.
                    break;
                }
                FRAGMENT => return Err(Malformed),
                _ => break,
            };
            if skipped == EXTENSIONS_MAX {
                return Ok(None);
            }
            protocol = payload[0];
            payload = payload.get(bytes..).ok_or(Malformed)?;
        }
        let source = Ipv6Addr::from_bits(u128_at(header, 8)).into();
        let destination = Ipv6Addr::from_bits(u128_at(header, 24)).into();
        Ok(Some(Self { source, destination, protocol, header, payload, fragment, holds: true }))
    }

    /// Returns the sum over the pseudo-header of a payload of `length` bytes.
    pub(crate) fn pseudo_header(&self, length: usize) -> u64 {
        checksum::pseudo_header(self.source, self.destination, self.protocol, length)
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) ip: Ip<'a>,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: Flags,
    /// The window field, unscaled.
    pub(crate) window: u16,
    pub(crate) options: Options,
    pub(crate) payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Returns the source port and the destination port of the segment that `ip` carries.
    pub(crate) fn ports(ip: &Ip<'a>) -> Result<(u16, u16), Malformed> {
        let header = ip.payload.get(..TCP_BYTES).ok_or(Malformed)?;
        Ok((u16_at(header, 0), u16_at(header, 2)))
    }

    /// Reads the segment that `ip` carries.
    pub(crate) fn read(ip: Ip<'a>) -> Result<Self, Malformed> {
        let (source_port, destination_port) = Self::ports(&ip)?;
        let header_bytes = usize::from(ip.payload[12] >> 4) * 4;
        let options = ip.payload.get(TCP_BYTES..header_bytes).ok_or(Malformed)?;
        Ok(Self {
            ip,
            source_port,
            destination_port,
            seq: u32_at(ip.payload, 4),
            ack: u32_at(ip.payload, 8),
            flags: Flags(ip.payload[13]),
            window: u16_at(ip.payload, 14),
            options: Options::read_leniently(options),
            payload: &ip.payload[header_bytes..],
        })
    }

    /// Returns its sender.
    pub(crate) fn client(&self) -> SocketAddr {
        SocketAddr::new(self.ip.source, self.source_port)
    }

    /// Returns its receiver.
    pub(crate) fn server(&self) -> SocketAddr {
        SocketAddr::new(self.ip.destination, self.destination_port)
    }

    /// Returns whether all of `flags` are set.
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags.has(flags)
    }

    /// Returns whether it can be a keep-alive probe: at most one byte (RFC 9293, section 3.8.4).
    pub(crate) fn may_probe(&self) -> bool {
        self.payload.len() <= 1 && !self.has(Flags::FIN) && !self.has(Flags::RST)
    }

    /// Returns the segment without the first bytes of its payload.
    pub(crate) fn trimmed(self, bytes: usize) -> Self {
        Self { seq: self.seq.wrapping_add(bytes as u32), payload: &self.payload[bytes..], ..self }
    }

    /// Returns whether the checksum is right, or is left for an offload to finish.
    pub(crate) fn checksum_holds(&self) -> bool {
        let bytes = self.ip.payload;
        let pseudo_header = self.ip.pseudo_header(bytes.len());
        let offloaded = u16_at(bytes, 16) == checksum::fold(pseudo_header);
        offloaded || checksum::fold(pseudo_header + checksum::sum(bytes)) == 0xffff
    }
}

/// A UDP datagram's ports and message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) message: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram.
    pub(crate) fn read(payload: &'a [u8]) -> Result<Self, Malformed> {
        let header = payload.get(..UDP_BYTES).ok_or(Malformed)?;
        let message = payload.get(UDP_BYTES..u16_at(header, 4).into()).ok_or(Malformed)?;
        Ok(Self { source_port: u16_at(header, 0), destination_port: u16_at(header, 2), message })
    }
}

/// Returns the two bytes at `at`, which must be there.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    (0..4).fold(0, |bits, word| bits << 32 | u128::from(u32_at(bytes, at + 4 * word)))
}

/// An IPv4 header without options.
pub(crate) const V4_BYTES: usize = 20;
/// An IPv6 header without extension headers.
pub(crate) const V6_BYTES: usize = 40;
/// A TCP header without options.
pub(crate) const TCP_BYTES: usize = 20;
/// A UDP header.
pub(crate) const UDP_BYTES: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The most extension headers that are skipped.
const EXTENSIONS_MAX: usize = 6;
