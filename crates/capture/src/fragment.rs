//! Fragments and routers' messages, made from whole packets that the crate `narrows-wire` writes.
//!
//! Sources: RFC 791, 3.1 and 3.2; RFC 792; RFC 1191, section 4.

use narrows_sim::captured::Part;
use narrows_wire::Ipv4;

/// Offsets in a frame: Ethernet, and IPv4 without options.
const IP: usize = 14;
const TOTAL_LENGTH: usize = IP + 2;
const IDENTIFICATION: usize = IP + 4;
const FLAGS: usize = IP + 6;
const PROTOCOL: usize = IP + 9;
const IP_CHECKSUM: usize = IP + 10;
const PAYLOAD: usize = IP + Ipv4::BYTES;
const MORE_FRAGMENTS: u16 = 1 << 13;
/// In the TCP header: data offset and reserved bits, and the checksum.
const TCP_OFFSET: usize = 12;
const TCP_CHECKSUM: usize = 16;
const ICMP: u8 = 1;
/// Destination unreachable: fragmentation needed and DF set.
const TYPE_AND_CODE: [u8; 2] = [3, 4];

/// Cuts `frame`, which holds the whole datagram, down to one fragment of it.
pub(crate) fn cut(frame: &mut Vec<u8>, part: &Part) {
    let bytes = usize::from(part.ip_bytes) - Ipv4::BYTES;
    let from = PAYLOAD + usize::from(part.offset);
    frame.copy_within(from..from + bytes, PAYLOAD);
    frame.truncate(PAYLOAD + bytes);
    let more = if part.more { MORE_FRAGMENTS } else { 0 };
    put(frame, TOTAL_LENGTH, part.ip_bytes);
    put(frame, IDENTIFICATION, part.number);
    put(frame, FLAGS, (part.offset / 8) | more);
    set_ip_checksum(frame);
}

/// Turns `frame` into a router's message that the segment in the frame `dropped` was longer than
/// `mtu`. The message quotes as much of the segment as `frame` has room for.
pub(crate) fn make_too_big(frame: &mut [u8], dropped: &[u8], mtu: u16) {
    frame[PROTOCOL] = ICMP;
    set_ip_checksum(frame);
    let icmp = &mut frame[PAYLOAD..];
    icmp.fill(0);
    icmp[..2].copy_from_slice(&TYPE_AND_CODE);
    put(icmp, 6, mtu);
    for (quoted, &byte) in icmp[8..].iter_mut().zip(&dropped[IP..]) {
        *quoted = byte;
    }
    let sum = checksum(icmp);
    put(icmp, 2, sum);
}

/// Sets AE, the lowest of the TCP header's reserved bits (RFC 9768, 3.1), in a frame without it.
pub(crate) fn set_accurate_ecn(frame: &mut [u8]) {
    let tcp = &mut frame[PAYLOAD..];
    tcp[TCP_OFFSET] |= 1;
    // RFC 1624, eqn. 3: the word that holds the bit has grown by 0x0100.
    let sum = !u16::from_be_bytes([tcp[TCP_CHECKSUM], tcp[TCP_CHECKSUM + 1]]);
    let (sum, carry) = sum.overflowing_add(0x0100);
    put(tcp, TCP_CHECKSUM, !(sum + u16::from(carry)));
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn set_ip_checksum(frame: &mut [u8]) {
    put(frame, IP_CHECKSUM, 0);
    let sum = checksum(&frame[IP..PAYLOAD]);
    put(frame, IP_CHECKSUM, sum);
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3: the sum of 0001 f203 f4f5 f6f7 is ddf2.
    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }
}
