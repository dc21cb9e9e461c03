//! Which segments of long writes carry PSH, for captures.
//!
//! Source: Linux 6.1 `forced_push`, `tcp_mark_push` and `tcp_sendmsg_locked` (net/ipv4/tcp.c). The
//! end of a write gets PSH, which the sender sets by itself. Within a write, a segment gets it once
//! more than half of the largest window that the peer has offered lies behind the last one with
//! PSH. The receiver takes no notice of it on full segments, so it is added only where a capture
//! shows it.
//!
//! Differences: `max_window` is the window that the peer advertises when the data is written;
//! before the first acknowledgement, it is what fits a SYN's window field. Endless data is one
//! write, with the largest window that the peer's window scale allows. Linux also sets PSH at the
//! end of each batch that it hands to the card (TSO), and where an application waits for room in
//! its send buffer: there are no such batches here, and send buffers have no limit. Positions start
//! again after 4 GiB.

use narrows_apps::Socket;
use narrows_transport::tcp::Seq;
use narrows_units::Time;

/// The long writes of all connections, including closed ones.
#[derive(Debug, Default)]
pub(crate) struct LongWrites {
    /// For each flow: its writes, the oldest first.
    flows: Vec<Vec<LongWrite>>,
}

/// A write that is longer than half a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongWrite {
    /// The end that writes.
    pub(crate) from: Socket,
    pub(crate) at: Time,
    /// The sequence number of its first byte.
    pub(crate) first: Seq,
    /// `u64::MAX`: without end.
    pub(crate) bytes: u64,
    /// The largest window that the peer has offered.
    pub(crate) window: u32,
}

impl LongWrites {
    /// Notes a write, unless it is too short to matter.
    pub(crate) fn note(&mut self, write: LongWrite) {
        if write.bytes <= u64::from(write.window / 2) {
            return;
        }
        let flow = write.from.flow() as usize;
        if self.flows.len() <= flow {
            self.flows.resize_with(flow + 1, Vec::new);
        }
        self.flows[flow].push(write);
    }

    /// Returns whether the segment that `from` sends at `at`, with `len` bytes from `first` on, is
    /// pushed within a write.
    pub(crate) fn push(&self, from: Socket, at: Time, first: Seq, len: u16) -> bool {
        let writes = self.flows.get(from.flow() as usize).map_or(&[][..], Vec::as_slice);
        let covers = |write: &&LongWrite| {
            write.from == from
                && write.at <= at
                && u64::from(first.distance(write.first)) < write.bytes
        };
        let Some(write) = writes.iter().rev().find(covers) else { return false };
        let len = u32::from(len);
        // Segments are full up to the end of the write: this many bytes are between two with PSH.
        let Some(full) = (write.window / 2).checked_div(len) else { return false };
        let step = (full + 1) * len;
        (first.distance(write.first).wrapping_add(len)).is_multiple_of(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Socket = Socket { end: 7, generation: 1 };
    const MSS: u16 = 1460;

    fn write(bytes: u64, window: u32) -> LongWrite {
        LongWrite { from: SERVER, at: Time::from_ps(10), first: Seq(u32::MAX - 99), bytes, window }
    }

    fn pushed(writes: &LongWrites, from: Socket, at: u64, segments: u32) -> Vec<u32> {
        let first = |number: u32| Seq(u32::MAX - 99) + number * u32::from(MSS);
        let push = |number: &u32| writes.push(from, Time::from_ps(at), first(*number), MSS);
        (0..segments).filter(push).collect()
    }

    /// 22 segments of 1460 bytes are 32,120 bytes, 23 are more than half of 65,535.
    #[test]
    fn a_segment_is_pushed_once_more_than_half_a_window_is_behind_the_last() {
        let mut writes = LongWrites::default();
        writes.note(write(1 << 20, 65_535));
        assert_eq!(pushed(&writes, SERVER, 20, 100), [22, 45, 68, 91]);
        // Half of 64,240 is 22 segments exactly: one more is needed.
        let mut writes = LongWrites::default();
        writes.note(write(u64::MAX, 64_240));
        assert_eq!(pushed(&writes, SERVER, 20, 50), [22, 45]);
    }

    #[test]
    fn other_ends_times_and_connections_are_not_concerned() {
        let mut writes = LongWrites::default();
        writes.note(write(1 << 20, 65_535));
        let other = Socket { generation: 2, ..SERVER };
        assert!(pushed(&writes, SERVER.other(), 20, 100).is_empty());
        assert!(pushed(&writes, other, 20, 100).is_empty());
        assert!(pushed(&writes, SERVER, 5, 100).is_empty());
        // Behind the end of the write.
        assert_eq!(pushed(&writes, SERVER, 20, 2000).last(), Some(&(23 * 31 - 1)));
    }

    #[test]
    fn short_writes_are_not_kept() {
        let mut writes = LongWrites::default();
        writes.note(write(32_767, 65_535));
        assert!(writes.flows.is_empty());
        assert!(pushed(&writes, SERVER, 20, 100).is_empty());
    }
}
