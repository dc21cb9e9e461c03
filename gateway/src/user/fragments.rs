//! Reassembles TCP segments from IP fragments (RFC 791, section 3.2; RFC 8200, section 4.5). On
//! this path, the kernel does not do it.
//!
//! Two things are stricter than in the RFCs:
//!
//! - A segment whose fragments overlap is forgotten, for IPv4 too (RFC 5722 demands it for IPv6).
//! - Segments longer than the link's MTU are ignored. Our MSS allows none. So a flood of fragments
//!   fills little memory. It displaces the oldest segments.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lru::LruCache;

use crate::core::checksum;
use crate::core::packet::{Ip, TCP, V4_BYTES};

/// The most segments that wait for more of their fragments.
const SEGMENTS_MAX: usize = 1024;
/// How long a segment waits for its fragments, as in Linux (`net.ipv4.ipfrag_time`). Later, another
/// segment may have its identification.
const LIFE: Duration = Duration::from_secs(30);

/// The fragments of segments that are not whole yet.
#[derive(Debug)]
pub(super) struct Fragments {
    waiting: LruCache<Key, Segment>,
    longest: usize,
}

/// What the fragments of a segment share, besides their protocol.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
}

#[derive(Debug)]
struct Segment {
    /// When its first fragment came.
    since: Duration,
    /// The fragments that have come, by their offset in bytes.
    pieces: BTreeMap<usize, Vec<u8>>,
    /// Its length in bytes, once the last fragment has come.
    length: Option<usize>,
}

/// Fragments that contradict each other.
struct Overlap;

impl Fragments {
    /// Creates an empty store. It takes segments of up to `longest` bytes, TCP header included.
    pub(super) fn new(longest: u16) -> Self {
        Self { waiting: LruCache::unbounded(), longest: longest.into() }
    }

    /// Takes a fragment. If this completes a segment, returns its IP packet, without options and
    /// extension headers.
    pub(super) fn take(&mut self, now: Duration, ip: &Ip<'_>) -> Option<Vec<u8>> {
        let fragment = ip.fragment?;
        let end = fragment.offset + ip.payload.len();
        let aligned = !fragment.more || ip.payload.len().is_multiple_of(8);
        if !ip.holds || ip.payload.is_empty() || end > self.longest || !aligned {
            return None;
        }
        let key = Key { source: ip.source, destination: ip.destination, id: fragment.id };
        let mut segment = self
            .waiting
            .pop(&key)
            .filter(|segment| now.saturating_sub(segment.since) <= LIFE)
            .unwrap_or(Segment { since: now, pieces: BTreeMap::new(), length: None });
        if !fragment.more {
            segment.length = Some(end);
        }
        match segment.add(fragment.offset, ip.payload) {
            Ok(true) => Some(whole(ip, &segment.pieces)),
            Ok(false) => {
                self.waiting.put(key, segment);
                if self.waiting.len() > SEGMENTS_MAX {
                    self.waiting.pop_lru();
                }
                None
            }
            Err(Overlap) => None,
        }
    }
}

impl Segment {
    /// Adds a fragment, and returns whether the segment is whole. A copy of a fragment adds nothing.
    fn add(&mut self, offset: usize, bytes: &[u8]) -> Result<bool, Overlap> {
        if self.pieces.entry(offset).or_insert_with(|| bytes.to_vec()) != bytes {
            return Err(Overlap);
        }
        let mut end = 0;
        for (&offset, piece) in &self.pieces {
            if offset > end {
                return Ok(false);
            }
            if offset < end {
                return Err(Overlap);
            }
            end += piece.len();
        }
        match self.length {
            Some(length) if end > length => Err(Overlap),
            length => Ok(length == Some(end)),
        }
    }
}

/// Returns the IP packet with this header and these pieces.
fn whole(ip: &Ip<'_>, pieces: &BTreeMap<usize, Vec<u8>>) -> Vec<u8> {
    let mut packet = ip.header.to_vec();
    let length: usize = pieces.values().map(Vec::len).sum();
    if ip.source.is_ipv4() {
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&((V4_BYTES + length) as u16).to_be_bytes());
        packet[6..8].fill(0);
        packet[10..12].fill(0);
        let sum = !checksum::fold(checksum::sum(&packet));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        packet[6] = TCP;
    }
    packet.extend(pieces.values().flatten());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(9);
    const BYTES: [u8; 40] = *b"the bytes of a segment, forty in all....";

    fn fragment(version: u8, id: u8, offset: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; if version == 4 { 20 } else { 48 }];
        packet[0] = version << 4 | 5;
        if version == 4 {
            packet[2..4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
            packet[5] = id;
            let field = (offset / 8) as u16 | u16::from(more) << 13;
            packet[6..8].copy_from_slice(&field.to_be_bytes());
            packet[9] = TCP;
            let sum = !checksum::fold(checksum::sum(&packet));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
            (packet[6], packet[40], packet[47]) = (44, TCP, id);
            let field = offset as u16 | u16::from(more);
            packet[42..44].copy_from_slice(&field.to_be_bytes());
        }
        packet.extend(bytes);
        packet
    }

    /// Takes fragments with these parts of [`BYTES`]; returns the payload of what becomes whole.
    fn take(fragments: &mut Fragments, version: u8, parts: &[(usize, usize)]) -> Option<Vec<u8>> {
        let mut made = None;
        for &(from, to) in parts {
            let packet = fragment(version, 7, from, to < BYTES.len(), &BYTES[from..to]);
            made = take_at(fragments, NOW, &packet);
        }
        made
    }

    fn take_at(fragments: &mut Fragments, now: Duration, packet: &[u8]) -> Option<Vec<u8>> {
        let made = fragments.take(now, &Ip::read(packet).ok()??)?;
        let ip = Ip::read(&made).expect("well-formed").expect("IP");
        assert!(ip.fragment.is_none() && ip.holds && ip.protocol == TCP);
        Some(ip.payload.to_vec())
    }

    #[test]
    fn a_segment_is_whole_with_its_last_missing_fragment() {
        for version in [4, 6] {
            for parts in [
                &[(0, 24), (24, 40)][..],
                &[(24, 40), (0, 24)],
                &[(16, 24), (24, 40), (0, 16)],
                &[(0, 24), (0, 24), (24, 40)],
            ] {
                let mut fragments = Fragments::new(1500);
                let made = take(&mut fragments, version, parts);
                assert_eq!(made.as_deref(), Some(&BYTES[..]), "{version}, {parts:?}");
                assert!(fragments.waiting.is_empty());
            }
        }
    }

    #[test]
    fn holes_overlaps_and_what_is_too_long_make_no_segment() {
        for version in [4, 6] {
            for (longest, parts) in [
                (1500, &[(0, 16), (24, 40)][..]),
                (1500, &[(0, 24), (16, 40)]),
                (1500, &[(16, 40), (0, 24)]),
                (1500, &[(0, 16), (0, 24), (24, 40)]),
                (1500, &[(0, 20), (20, 40)]),
                (39, &[(0, 24), (24, 40)]),
            ] {
                let made = take(&mut Fragments::new(longest), version, parts);
                assert_eq!(made, None, "{version}, {parts:?}");
            }
        }
    }

    #[test]
    fn other_segments_and_old_fragments_are_no_part_of_it() {
        let mut fragments = Fragments::new(1500);
        let (first, last) = ((0, true, &BYTES[..24]), (24, false, &BYTES[24..]));
        let mut take = |id, (offset, more, bytes), now| {
            take_at(&mut fragments, now, &fragment(4, id, offset, more, bytes))
        };
        assert_eq!(take(1, first, NOW), None);
        assert_eq!(take(2, last, NOW), None, "another identification");
        assert_eq!(take(1, last, NOW + LIFE + Duration::from_millis(1)), None, "too late");
        assert!(take(2, first, NOW + LIFE).is_some());
    }

    #[test]
    fn a_flood_leaves_the_newest() {
        let mut fragments = Fragments::new(1500);
        let from = |host: u16| {
            let mut packet = fragment(6, 1, 0, true, &BYTES[..24]);
            packet[8..10].copy_from_slice(&host.to_be_bytes());
            packet
        };
        for host in 0..3000 {
            take_at(&mut fragments, NOW, &from(host));
        }
        assert_eq!(fragments.waiting.len(), SEGMENTS_MAX);
        let mut last = fragment(6, 1, 24, false, &BYTES[24..]);
        last[8..10].copy_from_slice(&2999_u16.to_be_bytes());
        assert!(take_at(&mut fragments, NOW, &last).is_some());
    }
}
