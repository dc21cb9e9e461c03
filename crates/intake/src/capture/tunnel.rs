//! Packets in packets: the tunnels by which practitioners mirror and carry traffic.
//!
//! | tunnel | source | recognised by |
//! |---|---|---|
//! | IP in IP, 6in4 | RFC 2003, RFC 4213 | IP protocols 4, 41 and 94 |
//! | GRE, NVGRE | RFC 2784, RFC 2890, RFC 2637 (version 1, PPTP), RFC 7637 | IP protocol 47 |
//! | ERSPAN I, II, III | draft-foschiano-erspan-03 | GRE's 0x88be and 0x22eb |
//! | GRE and MPLS in UDP | RFC 8086, RFC 7510 | ports 4754 and 6635 |
//! | EtherIP, MPLS in IP | RFC 3378, RFC 4023 | IP protocols 97 and 137 |
//! | VXLAN, VXLAN-GPE | RFC 7348, draft-ietf-nvo3-vxlan-gpe-12 | ports 4789, 8472 (Linux before the RFC), 4790 |
//! | Geneve | RFC 8926 | port 6081 |
//! | GTP-U | 3GPP TS 29.281 | port 2152 |
//! | TZSP | Wireshark's packet-tzsp.c | port 37008 |
//!
//! A UDP port alone proves nothing: a resolver may send its query from such a port, and somebody may
//! run a DNS server there. So a header must also make sense as the tunnel's. Own code, because
//! etherparse 0.21 reads none of these.

use super::ip::Datagram;
use super::link::{NoIp, half, of_ethernet, of_kind, of_mpls, of_ppp, of_version};

/// The ports of tunnels over UDP, at the receiver.
pub(super) const PORTS: [u16; 8] =
    [VXLAN, VXLAN_LINUX, VXLAN_GPE, GENEVE, GRE_IN_UDP, MPLS_IN_UDP, GTP, TZSP];

/// Returns the IP packet that a datagram carries, or why there is none. `None`: it is no tunnel. DNS
/// servers listen on the ports `servers`.
pub(super) fn inside<'a>(
    datagram: &'a Datagram<'_>,
    servers: &[u16],
) -> Option<Result<&'a [u8], NoIp>> {
    let bytes = &*datagram.payload;
    match datagram.protocol {
        4 | 41 | 94 => Some(of_version(bytes)),
        47 => Some(of_gre(bytes)),
        97 => Some(bytes.get(2..).ok_or(NoIp::Short).and_then(of_ethernet)),
        137 => Some(of_mpls(bytes)),
        17 => {
            let (header, payload) = bytes.split_at_checked(8)?;
            // A server's reply goes to whatever port the client chose.
            if servers.contains(&half(&header[..2])) {
                return None;
            }
            of_udp(half(&header[2..4]), payload)
        }
        _ => None,
    }
}

fn of_udp(port: u16, bytes: &[u8]) -> Option<Result<&[u8], NoIp>> {
    match port {
        // Flags, of which one says that the network's number is valid; reserved or a group; the
        // number; reserved, or the next protocol.
        VXLAN | VXLAN_LINUX | VXLAN_GPE => {
            let (&[flags, _, _, next, .., last], frame) = bytes.split_first_chunk::<8>()?;
            // The number is valid; no reserved bits, version 0, no management frame.
            if flags & 0x08 == 0 || flags & 0x71 != 0 || last != 0 {
                return None;
            }
            Some(match (flags & 0x04 != 0, next) {
                (false, _) | (true, 3) => of_ethernet(frame),
                (true, 1 | 2) => of_version(frame),
                (true, other) => Err(NoIp::Other(None, u16::from(other))),
            })
        }
        // Version and options' length, flags, protocol, the network's number, reserved.
        GENEVE => {
            let &[first, flags, high, low, .., last] = bytes.first_chunk::<8>()?;
            if first >> 6 != 0 || flags & 0x3f != 0 || last != 0 {
                return None;
            }
            let rest = bytes.get(8 + 4 * usize::from(first & 0x3f)..);
            let kind = u16::from_be_bytes([high, low]);
            Some(rest.ok_or(NoIp::Short).and_then(|rest| of_protocol(kind, rest)))
        }
        GRE_IN_UDP => {
            // A version of 0 and no reserved bits (RFC 8086, section 2.2.2).
            (half(bytes.get(..2)?) & 0x4fff == 0).then(|| of_gre(bytes))
        }
        MPLS_IN_UDP => Some(of_mpls(bytes)),
        GTP => {
            let &[flags, kind, ..] = bytes.first_chunk::<8>()?;
            // Version 1, GTP (not GTP'), a packet of a user.
            (flags >> 4 == 3 && kind == 255).then(|| of_gtp(flags, bytes))
        }
        TZSP => {
            let &[version, kind, high, low] = bytes.first_chunk::<4>()?;
            (version == 1 && kind == 0).then(|| of_tzsp(u16::from_be_bytes([high, low]), bytes))
        }
        _ => None,
    }
}

/// Reads a GRE header: flags, protocol, and the fields that the flags announce.
fn of_gre(bytes: &[u8]) -> Result<&[u8], NoIp> {
    let flags = half(bytes.get(..2).ok_or(NoIp::Short)?);
    let kind = half(bytes.get(2..4).ok_or(NoIp::Short)?);
    let version = flags & 7;
    if version > 1 || flags & ROUTING != 0 {
        return Err(NoIp::Other(None, kind));
    }
    let has = |flag| usize::from(flags & flag != 0);
    let fields =
        has(CHECKSUM) + has(KEY) + has(SEQUENCE) + usize::from(version) * has(ACKNOWLEDGED);
    let rest = bytes.get(4 + 4 * fields..).ok_or(NoIp::Short)?;
    match kind {
        // ERSPAN II has a sequence number and eight bytes; I has neither.
        ERSPAN if flags & SEQUENCE == 0 => of_ethernet(rest),
        ERSPAN => of_ethernet(rest.get(8..).ok_or(NoIp::Short)?),
        ERSPAN_III => {
            let (header, rest) = rest.split_at_checked(12).ok_or(NoIp::Short)?;
            let flags = half(&header[10..12]);
            // The last bit announces eight more bytes.
            let frame = rest.get(8 * usize::from(flags & 1)..).ok_or(NoIp::Short)?;
            if flags >> 10 & 0x1f == 2 { of_version(frame) } else { of_ethernet(frame) }
        }
        kind => of_protocol(kind, rest),
    }
}

/// Reads what GRE's and Geneve's protocols announce: EtherTypes, and Ethernet and PPP themselves.
fn of_protocol(kind: u16, rest: &[u8]) -> Result<&[u8], NoIp> {
    match kind {
        0x6558 => of_ethernet(rest),
        0x880b => of_ppp(rest),
        kind => of_kind(kind, rest, 0),
    }
}

/// Reads the header of GTP-U, and its extensions, each of which says its length in words.
fn of_gtp(flags: u8, bytes: &[u8]) -> Result<&[u8], NoIp> {
    if flags & 0x07 == 0 {
        return of_version(&bytes[8..]);
    }
    let mut at = 12;
    if flags & 0x04 != 0 {
        while *bytes.get(at - 1).ok_or(NoIp::Short)? != 0 {
            let words = usize::from(*bytes.get(at).ok_or(NoIp::Short)?);
            if words == 0 {
                return Err(NoIp::Short);
            }
            at += 4 * words;
        }
    }
    of_version(bytes.get(at..).ok_or(NoIp::Short)?)
}

/// Reads TZSP's tags: padding and the end are one byte, others say their length.
fn of_tzsp(kind: u16, bytes: &[u8]) -> Result<&[u8], NoIp> {
    let mut rest = &bytes[4..];
    loop {
        match rest {
            [0, after @ ..] => rest = after,
            [1, frame @ ..] if kind == 1 => return of_ethernet(frame),
            [1, ..] => return Err(NoIp::Other(None, kind)),
            [_, length, ..] => {
                rest = rest.get(2 + usize::from(*length)..).ok_or(NoIp::Short)?;
            }
            _ => return Err(NoIp::Short),
        }
    }
}

const VXLAN: u16 = 4789;
const VXLAN_LINUX: u16 = 8472;
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const GRE_IN_UDP: u16 = 4754;
const MPLS_IN_UDP: u16 = 6635;
const GTP: u16 = 2152;
const TZSP: u16 = 37008;

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACKNOWLEDGED: u16 = 0x0080;
const ERSPAN: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;
