//! From a frame to the IP packet in it, by the capture's link type.
//!
//! Numbers are those of tcpdump.org's list of link types; EtherTypes are those of IEEE.

use super::names::ether_type_name;

/// Why there is no IP packet to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoIp {
    /// The frame carries something else, such as ARP: its name, if it has one here, and its number.
    Other(Option<&'static str>, u16),
    /// The frame ends within its headers.
    Short,
    /// This reader does not know the link type.
    UnknownLink(u16),
}

/// Returns the IP packet of a frame, with whatever trails it.
pub(super) fn ip_of(link: u16, frame: &[u8]) -> Result<&[u8], NoIp> {
    let behind = |bytes: usize| frame.get(bytes..).ok_or(NoIp::Short);
    match link {
        1 => of_ethernet(frame),
        // Four bytes give the family, in the byte order of some machine. The packet gives it too.
        0 | 108 => of_version(behind(4)?),
        9 | 50 => of_ppp(frame),
        // PPP behind a byte that says who sent it.
        204 => of_ppp(behind(1)?),
        12 | 14 | 101 | 228 | 229 => of_version(frame),
        // PPPoE without Ethernet.
        51 => of_kind(0x8864, frame, 0),
        // Cisco HDLC; its protocols are EtherTypes.
        104 => of_ether_type(behind(2)?, 0),
        // OpenBSD's decrypted IPsec: family, SPI and flags.
        109 => of_version(behind(12)?),
        // Linux cooked, versions 1 and 2.
        113 => of_ether_type(behind(14)?, 0),
        276 => of_kind(half(behind(0)?.get(0..2).ok_or(NoIp::Short)?), behind(20)?, 0),
        // OpenBSD's packet filter: the first byte gives the header's length, which is padded.
        117 => of_version(behind(usize::from(behind(0)?[0]).next_multiple_of(4))?),
        239 => of_nflog(frame),
        // Apple's PKTAP: its length, the type of record, and the link type of the packet.
        258 => match frame.first_chunk::<12>() {
            Some(&[a, b, c, d, .., e, f, g, h]) => {
                let length = u32::from_le_bytes([a, b, c, d]) as usize;
                let inner = u16::try_from(u32::from_le_bytes([e, f, g, h]));
                match inner.unwrap_or(PKTAP) {
                    PKTAP => Err(NoIp::UnknownLink(PKTAP)),
                    inner => ip_of(inner, behind(length)?),
                }
            }
            _ => Err(NoIp::Short),
        },
        other => Err(NoIp::UnknownLink(other)),
    }
}

/// Reads an Ethernet frame.
pub(super) fn of_ethernet(frame: &[u8]) -> Result<&[u8], NoIp> {
    of_ether_type(frame.get(12..).ok_or(NoIp::Short)?, 0)
}

/// Reads what begins with an EtherType.
fn of_ether_type(bytes: &[u8], depth: u8) -> Result<&[u8], NoIp> {
    let kind = half(bytes.get(0..2).ok_or(NoIp::Short)?);
    of_kind(kind, &bytes[2..], depth)
}

/// Reads what an EtherType announces, behind `depth` tags.
pub(super) fn of_kind(kind: u16, rest: &[u8], depth: u8) -> Result<&[u8], NoIp> {
    let behind = |bytes: usize| rest.get(bytes..).ok_or(NoIp::Short);
    match kind {
        0x0800 | 0x86dd => of_version(rest),
        // VLAN tags, one inside the other, and Cisco's VN-tag.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 if depth < MAX_TAGS => {
            of_ether_type(behind(2)?, depth + 1)
        }
        0x8926 if depth < MAX_TAGS => of_ether_type(behind(4)?, depth + 1),
        // PPPoE: version, code, session, length.
        0x8864 => of_ppp(behind(6)?),
        0x8847 | 0x8848 => of_mpls(rest),
        // A length, and then LLC and SNAP with an EtherType.
        0..=1500 if rest.starts_with(&[0xaa, 0xaa, 0x03, 0, 0, 0]) && depth < MAX_TAGS => {
            of_ether_type(behind(6)?, depth + 1)
        }
        other => Err(NoIp::Other(ether_type_name(other), other)),
    }
}

/// Reads MPLS: labels up to the one with the bottom bit set, and then IP, or Ethernet, perhaps
/// behind a control word (RFC 4448, section 4.6).
pub(super) fn of_mpls(mut rest: &[u8]) -> Result<&[u8], NoIp> {
    while let [_, _, third, _, after @ ..] = rest {
        if third & 1 == 1 {
            return match after.first() {
                Some(first) if first >> 4 == 0 => of_ethernet(after.get(4..).ok_or(NoIp::Short)?),
                _ => of_version(after),
            };
        }
        rest = after;
    }
    Err(NoIp::Short)
}

pub(super) fn of_ppp(bytes: &[u8]) -> Result<&[u8], NoIp> {
    // Address and control may be left out, and so may the leading zero of the protocol (RFC 1661,
    // section 6.5).
    let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
    match bytes {
        [0x00, 0x21 | 0x57, rest @ ..] | [0x21 | 0x57, rest @ ..] => of_version(rest),
        [] | [_] => Err(NoIp::Short),
        [high, low, ..] => Err(NoIp::Other(None, u16::from_be_bytes([*high, *low]))),
    }
}

/// Reads Linux's NFLOG: family, version, group, and then attributes with length and type in the byte
/// order of the machine that wrote them, padded to four bytes. One of them is the packet.
fn of_nflog(frame: &[u8]) -> Result<&[u8], NoIp> {
    let mut rest = frame.get(4..).ok_or(NoIp::Short)?;
    while let [a, b, c, d, ..] = *rest {
        let (mut length, mut kind) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        if kind & 0x7fff > 255 || length < 4 {
            (length, kind) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        }
        let length = usize::from(length);
        if length < 4 {
            break;
        }
        if kind & 0x7fff == NFULA_PAYLOAD {
            return of_version(&rest[4..length.min(rest.len())]);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Err(NoIp::Short)
}

pub(super) fn of_version(bytes: &[u8]) -> Result<&[u8], NoIp> {
    match bytes.first() {
        Some(first) if matches!(first >> 4, 4 | 6) => Ok(bytes),
        Some(first) => Err(NoIp::Other(None, u16::from(*first))),
        None => Err(NoIp::Short),
    }
}

pub(super) fn half(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// More tags than any real frame has.
const MAX_TAGS: u8 = 8;
const PKTAP: u16 = 258;
/// linux/netfilter/nfnetlink_log.h.
const NFULA_PAYLOAD: u16 = 9;
