//! Packets that were captured more than once: by a bridge and its ports, on both sides of a router,
//! by a mirror port that copies both directions of a packet's way through a switch, or on Linux's
//! `any` interface.
//!
//! Two packets are copies if they agree in all bytes that routers leave alone, and come shortly
//! after one another. IPv4's identification tells a copy from a retransmission or a repeated query,
//! which get a new one ([RFC 6864], section 4.1). Some senders give every packet the same one, so
//! even then a copy must come within [`IDENTIFIED_NS`]. IPv6 has no identification, and many IPv4
//! senders write 0 into packets that must not be fragmented. Such a copy must come within
//! [`UNIDENTIFIED_NS`], which is shorter than any timer that sends the same bytes again.
//!
//! [RFC 6864]: https://www.rfc-editor.org/rfc/rfc6864

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::RandomState;

/// The packets of the last milliseconds.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// When the packet with this hash was seen first.
    seen: HashMap<u64, i64, RandomState>,
    order: VecDeque<(i64, u64)>,
}

impl Copies {
    /// Returns whether an IP packet is a copy of another. Bytes behind the packet do not matter.
    pub(super) fn is_copy(&mut self, ip: &[u8], now_ns: i64) -> bool {
        let Some((hash, window_ns)) = self.hash(ip) else { return false };
        while let Some(&(at, old)) = self.order.front() {
            let recent = (0..=IDENTIFIED_NS).contains(&now_ns.saturating_sub(at));
            if recent && self.order.len() < MAX_SEEN {
                break;
            }
            self.order.pop_front();
            if self.seen.get(&old) == Some(&at) {
                self.seen.remove(&old);
            }
        }
        match self.seen.entry(hash) {
            Entry::Occupied(first)
                if (0..=window_ns).contains(&now_ns.saturating_sub(*first.get())) =>
            {
                true
            }
            entry => {
                entry.insert_entry(now_ns);
                self.order.push_back((now_ns, hash));
                false
            }
        }
    }

    /// Returns a hash of what routers leave alone, and how late a copy may come.
    fn hash(&self, ip: &[u8]) -> Option<(u64, i64)> {
        let length = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
        let mut hasher = self.seen.hasher().build_hasher();
        let window_ns = if ip[0] >> 4 == 4 {
            let (header, payload) = ip.split_at_checked(20)?;
            // Type of service, time to live and checksum may change.
            hasher.write(&header[2..8]);
            hasher.write(&[header[0], header[9]]);
            hasher.write(&header[12..20]);
            // Cards that cut segments later leave a length of 0.
            let rest = if length == 0 { payload.len() } else { length.saturating_sub(20) };
            hasher.write(&payload[..payload.len().min(rest)]);
            if header[4..6] == [0, 0] { UNIDENTIFIED_NS } else { IDENTIFIED_NS }
        } else {
            let (header, payload) = ip.split_at_checked(40)?;
            // Traffic class, flow label and hop limit may change.
            hasher.write(&header[4..7]);
            hasher.write(&header[8..40]);
            let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let rest = if length == 0 { payload.len() } else { length };
            hasher.write(&payload[..payload.len().min(rest)]);
            UNIDENTIFIED_NS
        };
        Some((hasher.finish(), window_ns))
    }
}

/// Copies in switches and bridges come within microseconds, behind busy mirror ports within
/// milliseconds. No stub asks again so soon.
const IDENTIFIED_NS: i64 = 10_000_000;
/// Linux waits at least two jiffies before it sends a segment again (TCP_TIMEOUT_MIN in tcp.h), 2 ms
/// at the shortest.
const UNIDENTIFIED_NS: i64 = 1_500_000;
/// The most packets that are remembered, some 40 bytes each.
const MAX_SEEN: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(id: u16, ttl: u8, payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 20 + payload.len() as u8];
        ip.extend(id.to_be_bytes());
        ip.extend([0x40, 0, ttl, 17, ttl, 0xab, 192, 0, 2, 1, 192, 0, 2, 53]);
        ip.extend(payload);
        ip
    }

    fn v6(hops: u8, payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x60, 0, 0, 0, 0, payload.len() as u8, 17, hops];
        ip.extend([9; 32]);
        ip.extend(payload);
        ip
    }

    /// Returns which packets, each with its time in microseconds, are copies.
    fn copies(packets: &[(i64, Vec<u8>)]) -> Vec<bool> {
        let mut known = Copies::default();
        packets.iter().map(|(us, ip)| known.is_copy(ip, us * 1_000)).collect()
    }

    #[test]
    fn routers_change_the_ttl_and_links_pad() {
        let mut padded = v4(7, 63, b"query");
        padded.extend([0; 6]);
        assert_eq!(copies(&[(0, v4(7, 64, b"query")), (20, padded)]), [false, true]);
        assert_eq!(copies(&[(0, v6(64, b"query")), (20, v6(63, b"query"))]), [false, true]);
    }

    #[test]
    fn what_was_sent_again_is_no_copy() {
        let again = |first: Vec<u8>, second: Vec<u8>, us| copies(&[(0, first), (us, second)])[1];
        // Another identification, another payload, or later than any copy.
        assert!(!again(v4(7, 64, b"query"), v4(8, 64, b"query"), 20));
        assert!(!again(v4(7, 64, b"query"), v4(7, 64, b"other"), 20));
        assert!(!again(v4(7, 64, b"query"), v4(7, 64, b"query"), 31_000));
        assert!(again(v4(7, 64, b"query"), v4(7, 64, b"query"), 5_000));
        // Without identification, only the time tells.
        assert!(!again(v4(0, 64, b"query"), v4(0, 64, b"query"), 2_000));
        assert!(!again(v6(64, b"query"), v6(64, b"query"), 2_000));
        assert!(again(v6(64, b"query"), v6(64, b"query"), 1_000));
    }

    #[test]
    fn three_copies_are_one_packet_and_clocks_may_jump() {
        let packet = || v4(7, 64, b"query");
        assert_eq!(copies(&[(0, packet()), (9, packet()), (20, packet())]), [false, true, true]);
        let jumps = [(1_000_000, packet()), (0, packet()), (1_000_000, packet())];
        assert!(!copies(&jumps)[2]);
    }
}
