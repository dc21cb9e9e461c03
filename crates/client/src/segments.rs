//! How a reply over TCP was cut into segments.
//!
//! There are two ways to know. A raw socket (which needs CAP_NET_RAW) gets a copy of every TCP
//! segment from the server, with its stamp: [`Watch`] keeps those of our connection, and [`cut`]
//! finds out how they make up the reply. Without it, `tcp_info` counts data segments:
//! [`cut_by_reads`] compares it with what each read returned, and knows the sizes if one segment
//! arrived between two reads.
//!
//! Generic receive offload may have joined segments before either way sees them. It does not join
//! segments with PSH, so two writes stay two.

use std::io::Result;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use nix::sys::socket::{SockProtocol, SockType, setsockopt, sockopt};

use crate::exchange::{Prefix, Segments};
use crate::{socket, stamps};

/// A segment that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When.
    pub(crate) at: SystemTime,
    /// Its sequence number.
    pub(crate) sequence: u32,
    /// Its payload.
    pub(crate) bytes: u32,
    /// SYN, FIN, RST.
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) reset: bool,
}

/// A raw socket that receives everything from the server.
#[derive(Debug)]
pub(crate) struct Watch {
    raw: OwnedFd,
    server: SocketAddr,
}

impl Watch {
    /// Opens the socket. Fails if this process is not allowed to.
    pub(crate) fn open(server: SocketAddr, source: Option<IpAddr>) -> Result<Self> {
        let raw = socket::towards(server, source, SockType::Raw, Some(SockProtocol::Tcp))?;
        // The socket is connected so that the kernel filters out other sources. A raw socket's port
        // is a protocol's number, and must be 0 for IPv6.
        socket::start_connect(&raw, SocketAddr::new(server.ip(), 0))?;
        setsockopt(&raw, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        Ok(Self { raw, server })
    }

    /// Takes what has arrived for this port since the last call, in order of arrival.
    pub(crate) fn take(&self, port: u16, seen: &mut Vec<Seen>) {
        // For IPv6, the length of a packet shows only in how much of it is read.
        let mut packet = vec![0; 1 << 16];
        while let Ok(arrival) = stamps::receive(&self.raw, &mut packet) {
            let length = arrival.bytes.min(packet.len());
            if let Some(segment) = self.read(&packet[..length], port, arrival)
                && seen.len() < MOST_SEGMENTS
            {
                seen.push(segment);
            }
        }
    }

    /// Discards what has arrived.
    pub(crate) fn clear(&self) {
        self.take(0, &mut Vec::new());
    }

    /// Parses a segment. IPv4's raw sockets include the IP header, IPv6's do not.
    fn read(&self, packet: &[u8], port: u16, arrival: stamps::Arrival) -> Option<Seen> {
        let (header, total) = if self.server.is_ipv4() {
            let header = usize::from(packet.first()? & 0xf) * 4;
            (header, usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?)))
        } else {
            (0, arrival.bytes)
        };
        let tcp = packet.get(header..)?;
        let u16_at = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
        if u16_at(0)? != self.server.port() || u16_at(2)? != port {
            return None;
        }
        // RFC 9293, section 3.1: sequence number, data offset, flags.
        let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
        let offset = usize::from(tcp.get(12)? >> 4) * 4;
        let flags = *tcp.get(13)?;
        // Offloaded segments above 64 kB have a length of 0.
        let total = if total == 0 { arrival.bytes } else { total };
        let bytes = u32::try_from(total.checked_sub(header + offset)?).ok()?;
        Some(Seen {
            at: arrival.at,
            sequence,
            bytes,
            fin: flags & 1 != 0,
            syn: flags & 2 != 0,
            reset: flags & 4 != 0,
        })
    }
}

/// Returns how the `length` bytes from `start` on arrived; the two bytes of the length field count
/// too. `seen` holds all segments of the connection, and `start` counts from its first byte.
/// Returns `None` if some bytes are missing.
pub(crate) fn cut(seen: &[Seen], start: u32, length: u32) -> Option<Segments> {
    let first = seen.iter().find(|segment| segment.syn)?.sequence.wrapping_add(1);
    let end = start.checked_add(length)?;
    // The parts that arrived for the first time, as (from, to), and how much of the reply was
    // repeated.
    let mut parts: Vec<(u32, u32)> = Vec::new();
    let mut again = 0;
    for segment in seen.iter().filter(|segment| segment.bytes > 0) {
        let from = segment.sequence.wrapping_sub(first);
        let to = from.wrapping_add(segment.bytes);
        if to <= from || to <= start || from >= end {
            continue;
        }
        if parts.iter().any(|(low, high)| from < *high && *low < to) {
            again += 1;
        } else {
            parts.push((from, to));
        }
    }
    parts.sort_unstable();
    let mut reached = start;
    for (from, to) in &parts {
        if *from > reached {
            return None;
        }
        reached = *to;
    }
    if reached < end {
        return None;
    }
    let (_, to) = *parts.first()?;
    Some(Segments {
        count: u32::try_from(parts.len()).ok(),
        sizes: parts.iter().take(SHOWN).map(|(from, to)| to - from).collect(),
        prefix: Some(prefix(to - start)),
        again: Some(again),
        query_again: None,
    })
}

/// A read, and the data segments that have arrived since the last one according to `tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The number of bytes read.
    pub(crate) bytes: usize,
    /// The segments since the last read; `None` if the kernel does not count them.
    pub(crate) segments: Option<u32>,
}

/// Returns the same from reads alone.
pub(crate) fn cut_by_reads(reads: &[Read]) -> Segments {
    let counts: Option<Vec<u32>> = reads.iter().map(|read| read.segments).collect();
    let Some(counts) = counts else { return Segments::default() };
    let single = counts.iter().all(|count| *count == 1);
    let sizes = reads.iter().filter_map(|read| u32::try_from(read.bytes).ok());
    let first = reads.first().filter(|read| read.segments == Some(1));
    Segments {
        count: Some(counts.iter().fold(0, |sum: u32, count| sum.saturating_add(*count))),
        sizes: if single { sizes.take(SHOWN).collect() } else { Vec::new() },
        prefix: first.and_then(|read| u32::try_from(read.bytes).ok()).map(prefix),
        again: None,
        query_again: None,
    }
}

/// Classifies how the length field was cut, by the bytes in the first segment.
fn prefix(bytes: u32) -> Prefix {
    match bytes {
        0 | 1 => Prefix::Split,
        2 => Prefix::Alone,
        _ => Prefix::Joined,
    }
}

/// The number of sizes that are kept for a reply.
const SHOWN: usize = 8;

/// The number of segments that are kept for a connection: more than 64 kB in the smallest usual
/// segments, twice.
const MOST_SEGMENTS: usize = 512;

/// The bytes that may wait: several hundred packets.
const RECEIVE_BUFFER: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, bytes: u32) -> Seen {
        let at = SystemTime::UNIX_EPOCH;
        Seen { at, sequence, bytes, syn: false, fin: false, reset: false }
    }

    fn connection(isn: u32, data: &[(u32, u32)]) -> Vec<Seen> {
        let mut seen = vec![Seen { syn: true, ..segment(isn, 0) }];
        seen.extend(data.iter().map(|(at, bytes)| segment(isn.wrapping_add(1 + at), *bytes)));
        seen
    }

    /// The paper's captures: BIND's 1:748, NSD's 1:3 and 3:748.
    #[test]
    fn the_papers_two_captures_are_told_apart() {
        let bind = cut(&connection(1_909_669_925, &[(0, 747)]), 0, 747).expect("all came");
        assert_eq!(
            (bind.count, bind.sizes, bind.prefix),
            (Some(1), vec![747], Some(Prefix::Joined))
        );
        let nsd = cut(&connection(u32::MAX - 1, &[(0, 2), (2, 745)]), 0, 747).expect("all came");
        assert_eq!(
            (nsd.count, nsd.sizes, nsd.prefix),
            (Some(2), vec![2, 745], Some(Prefix::Alone))
        );
        let bytewise = cut(&connection(7, &[(0, 1), (1, 746)]), 0, 747).expect("all came");
        assert_eq!(bytewise.prefix, Some(Prefix::Split));
    }

    #[test]
    fn what_comes_again_or_in_another_order_is_counted_once() {
        let late = cut(&connection(9, &[(2, 745), (0, 2), (2, 745)]), 0, 747).expect("all came");
        assert_eq!((late.count, late.again, late.sizes), (Some(2), Some(1), vec![2, 745]));
    }

    #[test]
    fn a_later_reply_of_the_connection_is_looked_at_alone() {
        let seen = connection(0, &[(0, 2), (2, 745), (747, 2), (749, 745)]);
        let second = cut(&seen, 747, 747).expect("all came");
        assert_eq!(second.sizes, [2, 745]);
    }

    #[test]
    fn a_gap_is_no_answer() {
        assert_eq!(cut(&connection(0, &[(2, 745)]), 0, 747), None);
        assert_eq!(cut(&connection(0, &[(0, 2)]), 0, 747), None);
        assert_eq!(cut(&[segment(1, 747)], 0, 747), None, "no SYN/ACK was seen");
    }

    #[test]
    fn reads_tell_sizes_where_one_segment_came_between_them() {
        let one = |bytes| Read { bytes, segments: Some(1) };
        let two = cut_by_reads(&[one(2), one(745)]);
        assert_eq!((two.sizes, two.prefix), (vec![2, 745], Some(Prefix::Alone)));
        let both = cut_by_reads(&[Read { bytes: 747, segments: Some(2) }]);
        assert_eq!((both.count, both.sizes, both.prefix), (Some(2), vec![], None));
        let old = cut_by_reads(&[Read { bytes: 747, segments: None }]);
        assert_eq!(old, Segments::default());
    }
}
