//! How a reply over TCP was cut into segments.
//!
//! Two ways to know. A raw socket (which needs CAP_NET_RAW) is given a copy of every TCP segment
//! that comes from the server, with its stamp: [`Watch`] keeps those of our connection, and
//! [`cut`] says how they make up the reply. Without it there is `tcp_info`, which counts data
//! segments: [`cut_by_reads`] compares it with what each read gave, and knows sizes where one
//! segment came between two reads.
//!
//! Generic receive offload may have joined segments before either looks. It does not join what was
//! pushed (PSH), so two writes stay two.

use std::io::Result;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use nix::sys::socket::{SockProtocol, SockType, setsockopt, sockopt};

use crate::exchange::{Prefix, Segments};
use crate::{socket, stamps};

/// A segment that came.
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

/// A raw socket that is given what comes from the server.
#[derive(Debug)]
pub(crate) struct Watch {
    raw: OwnedFd,
    server: SocketAddr,
}

impl Watch {
    /// An error where this process may not.
    pub(crate) fn open(server: SocketAddr, source: Option<IpAddr>) -> Result<Self> {
        let raw = socket::towards(server, source, SockType::Raw, Some(SockProtocol::Tcp))?;
        // Connected, so that the kernel leaves out what comes from elsewhere. A raw socket's port
        // is a protocol's number, and must be 0 for IPv6.
        socket::start_connect(&raw, SocketAddr::new(server.ip(), 0))?;
        setsockopt(&raw, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        Ok(Self { raw, server })
    }

    /// What came since the last call for this port, in the order of arrival.
    pub(crate) fn take(&self, port: u16, seen: &mut Vec<Seen>) {
        // IPv6 packets say how long they were by how much of them is read.
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

    /// Forgets what came.
    pub(crate) fn clear(&self) {
        self.take(0, &mut Vec::new());
    }

    /// IPv4's raw sockets give the IP header too, IPv6's do not.
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
        // Offloaded segments above 64 kB say 0.
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

/// How the bytes from `start` on, `length` of them and the length's two included, came: `seen` is
/// all of the connection, and `start` counts from its first byte. `None` where some did not show.
pub(crate) fn cut(seen: &[Seen], start: u32, length: u32) -> Option<Segments> {
    let first = seen.iter().find(|segment| segment.syn)?.sequence.wrapping_add(1);
    let end = start.checked_add(length)?;
    // What came for the first time, as (from, to), and how much of the reply came again.
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

/// A read, and the data segments that had come since the last, as `tcp_info` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// What it gave.
    pub(crate) bytes: usize,
    /// Segments since the last read; `None` where the kernel does not count them.
    pub(crate) segments: Option<u32>,
}

/// The same by what reads gave.
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

/// By how many bytes of length and message the first segment has.
fn prefix(bytes: u32) -> Prefix {
    match bytes {
        0 | 1 => Prefix::Split,
        2 => Prefix::Alone,
        _ => Prefix::Joined,
    }
}

/// Sizes that are kept of a reply.
const SHOWN: usize = 8;

/// Segments that are kept of a connection: more than 64 kB in the smallest usual segments, twice.
const MOST_SEGMENTS: usize = 512;

/// Bytes that may wait: some hundred packets.
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
