//! The store of queries and replies: bytes that stay until newer ones need the room.
//!
//! As in `bpf/ring.h`, the ring is filled in units of 64 bytes and has room at its end, so that no
//! item is split. An item at position `p` (in units, ever growing) is there while
//! `head - p < size - slack`. The programs need the slack because their writers may be interrupted.
//! Here it only makes both forget alike.

/// The unit of room in bytes.
const UNIT: usize = 64;
/// The longest item in bytes: two bytes of length and a message.
const LONGEST: usize = 65_536;
/// How far before its bytes are overwritten an item counts as gone, in units (`RING_SLACK_UNITS`).
const SLACK: u32 = 2048;
/// The smallest ring in bytes: it still holds an item when another one is stored.
const SMALLEST: usize = SLACK as usize * UNIT + 4 * LONGEST;

/// Queries and replies, as bytes.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    /// In units; a power of two.
    units: u32,
    /// Where the next item goes, in units; modulo 2^32.
    head: u32,
}

impl Ring {
    /// Creates a ring of at least `bytes`, and large enough to be useful.
    pub(super) fn new(bytes: usize) -> Self {
        let bytes = bytes.clamp(SMALLEST, 1 << 30).next_power_of_two();
        Self { bytes: vec![0; bytes + LONGEST], units: (bytes / UNIT) as u32, head: 0 }
    }

    /// Stores the concatenation of `parts`, at most 65536 bytes, and returns its position.
    pub(super) fn store(&mut self, parts: &[&[u8]]) -> u32 {
        let position = self.head;
        let mut at = self.start(position);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(length <= LONGEST);
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.head = position.wrapping_add(length.div_ceil(UNIT) as u32);
        position
    }

    /// Returns the `length` bytes stored at `position`; `None` if newer ones have taken their room.
    pub(super) fn at(&self, position: u32, length: usize) -> Option<&[u8]> {
        if self.head.wrapping_sub(position) >= self.units - SLACK {
            return None;
        }
        let start = self.start(position);
        self.bytes.get(start..start + length)
    }

    fn start(&self, position: u32) -> usize {
        (position & (self.units - 1)) as usize * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_stays_until_newer_ones_need_its_room() {
        let mut ring = Ring::new(0);
        let first = ring.store(&[b"fir", b"st"]);
        let second = ring.store(&[&[7; 65]]);
        assert_eq!((first, second), (0, 1));
        assert_eq!(ring.at(first, 5), Some(&b"first"[..]));
        // The first and the second item took three units. This fills the rest before the slack,
        // except one unit.
        for _ in 3..ring.units - SLACK - 1 {
            ring.store(&[&[1; UNIT]]);
        }
        assert_eq!(ring.at(first, 5), Some(&b"first"[..]), "full, but for one");
        ring.store(&[b"x"]);
        assert_eq!(ring.at(first, 5), None);
        assert_eq!(ring.at(second, 65), Some(&[7; 65][..]));
    }

    #[test]
    fn an_item_that_passes_the_end_is_whole() {
        let mut ring = Ring::new(0);
        for _ in 1..ring.units {
            ring.store(&[&[1; UNIT]]);
        }
        let long: Vec<u8> = (0..LONGEST).map(|i| i as u8).collect();
        let position = ring.store(&[&long]);
        assert_eq!(ring.at(position, LONGEST), Some(&long[..]));
    }

    #[test]
    fn positions_wrap() {
        let mut ring = Ring::new(0);
        ring.head = u32::MAX;
        let position = ring.store(&[b"last"]);
        assert_eq!(position, u32::MAX);
        let next = ring.store(&[b"first"]);
        assert_eq!((next, ring.at(position, 4)), (0, Some(&b"last"[..])));
    }
}
