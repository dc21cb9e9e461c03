//! Waiting packets in order of arrival, and their bytes.

use alloc::collections::VecDeque;

use narrows_units::Bytes;

use crate::{Backlog, Packet};

/// A queue that knows its length in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Storage<P> {
    packets: VecDeque<P>,
    bytes: u64,
}

/// Up to this length the queue doubles, which wastes little; beyond, it grows by an eighth at a
/// time.
const DOUBLING_ENDS: usize = 1024;

impl<P: Packet> Storage<P> {
    pub(crate) const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: P) {
        if self.packets.len() == self.packets.capacity() {
            self.grow();
        }
        self.bytes += u64::from(packet.bytes());
        self.packets.push_back(packet);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.bytes());
        Some(packet)
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<&P> {
        self.packets.front()
    }

    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.packets.len()
    }

    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        // 2^32 packets would need at least 32 GB, so saturation never shows.
        let packets = u32::try_from(self.packets.len()).unwrap_or(u32::MAX);
        Backlog { packets, bytes: Bytes::new(self.bytes) }
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = self.packets.capacity();
        if capacity >= DOUBLING_ENDS {
            self.packets.reserve_exact(capacity / 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::TestPacket;

    #[test]
    fn a_long_queue_wastes_at_most_an_eighth() {
        let mut storage = Storage::new();
        for _ in 0..100_000 {
            storage.push(TestPacket::default());
            let slack = storage.packets.capacity() - storage.packets.len();
            assert!(storage.packets() < DOUBLING_ENDS || slack <= storage.packets() / 8 + 1);
        }
    }

    #[test]
    fn packets_leave_in_order_across_the_ring_s_seam() {
        let mut storage = Storage::new();
        let (mut next_in, mut next_out) = (0, 0);
        for round in 0..5_000 {
            for _ in 0..2 {
                storage.push(TestPacket {
                    number: next_in,
                    bytes: 1 + round,
                    ..TestPacket::default()
                });
                next_in += 1;
            }
            assert_eq!(storage.pop().map(|packet| packet.number), Some(next_out));
            next_out += 1;
        }
        while let Some(packet) = storage.pop() {
            assert_eq!(packet.number, next_out);
            next_out += 1;
        }
        assert_eq!((next_out, storage.bytes()), (next_in, 0));
    }
}
