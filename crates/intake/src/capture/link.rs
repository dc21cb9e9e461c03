//! From a frame to the IP packet in it, by the capture's link type.
//!
//! Numbers are those of tcpdump.org's list of link types; EtherTypes are those of IEEE.

/// Why there is no IP packet to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoIp {
    /// The frame carries something else, such as ARP.
    Other,
    /// The frame ends within its headers.
    Short,
    /// This reader does not know the link type.
    UnknownLink(u16),
}

/// Returns the IP packet of a frame, with whatever trails it.
pub(super) fn ip_of(link: u16, frame: &[u8]) -> Result<&[u8], NoIp> {
    match link {
        1 => of_ether_type(frame.get(12..).ok_or(NoIp::Short)?, 0),
        // Four bytes give the family, in the byte order of some machine. The packet gives it too.
        0 | 108 => of_version(frame.get(4..).ok_or(NoIp::Short)?),
        9 | 50 => of_ppp(frame),
        12 | 14 | 101 | 228 | 229 => of_version(frame),
        // Cisco HDLC; its protocols are EtherTypes.
        104 => of_ether_type(frame.get(2..).ok_or(NoIp::Short)?, 0),
        // Linux cooked, versions 1 and 2.
        113 => of_ether_type(frame.get(14..).ok_or(NoIp::Short)?, 0),
        276 => {
            let kind = frame.get(0..2).ok_or(NoIp::Short)?;
            of_kind(half(kind), frame.get(20..).ok_or(NoIp::Short)?, 0)
        }
        other => Err(NoIp::UnknownLink(other)),
    }
}

/// Reads what begins with an EtherType.
fn of_ether_type(bytes: &[u8], depth: u8) -> Result<&[u8], NoIp> {
    let kind = half(bytes.get(0..2).ok_or(NoIp::Short)?);
    of_kind(kind, &bytes[2..], depth)
}

fn of_kind(kind: u16, rest: &[u8], depth: u8) -> Result<&[u8], NoIp> {
    match kind {
        0x0800 | 0x86dd => of_version(rest),
        // VLAN tags, one inside the other.
        0x8100 | 0x88a8 | 0x9100 if depth < MAX_TAGS => {
            of_ether_type(rest.get(2..).ok_or(NoIp::Short)?, depth + 1)
        }
        // PPPoE: version, code, session, length.
        0x8864 => of_ppp(rest.get(6..).ok_or(NoIp::Short)?),
        // MPLS: labels up to the one with the bottom bit set.
        0x8847 => {
            let mut rest = rest;
            while let [_, _, third, _, after @ ..] = rest {
                if third & 1 == 1 {
                    return of_version(after);
                }
                rest = after;
            }
            Err(NoIp::Short)
        }
        _ => Err(NoIp::Other),
    }
}

fn of_ppp(bytes: &[u8]) -> Result<&[u8], NoIp> {
    // Address and control may be left out, and so may the leading zero of the protocol (RFC 1661,
    // section 6.5).
    let bytes = bytes.strip_prefix(&[0xff, 0x03]).unwrap_or(bytes);
    match bytes {
        [0x00, 0x21 | 0x57, rest @ ..] | [0x21 | 0x57, rest @ ..] => of_version(rest),
        [] | [_] => Err(NoIp::Short),
        _ => Err(NoIp::Other),
    }
}

fn of_version(bytes: &[u8]) -> Result<&[u8], NoIp> {
    match bytes.first() {
        Some(first) if matches!(first >> 4, 4 | 6) => Ok(bytes),
        Some(_) => Err(NoIp::Other),
        None => Err(NoIp::Short),
    }
}

fn half(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// More tags than any real frame has.
const MAX_TAGS: u8 = 8;
