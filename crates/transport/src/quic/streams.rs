//! Bytes in order: what an end sends on a stream, and what it has received on one (RFC 9000, 2.2).

use super::ranges::Ranges;

/// The bytes that an end sends, each kept until it is acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Sending {
    /// The number of bytes written.
    pub(super) written: u64,
    /// The bytes to be sent, for the first time or again.
    unsent: Ranges,
    acked: Ranges,
    /// Whether the stream ends after what was written.
    pub(super) ends: bool,
}

/// The bytes that have arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiving {
    received: Ranges,
    /// The stream's length, if it is known.
    pub(super) length: Option<u64>,
}

impl Sending {
    pub(super) fn write(&mut self, bytes: u64) {
        self.unsent.insert(self.written, self.written + bytes);
        self.written += bytes;
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns where the next bytes to send begin, and how many there are in a row.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.unsent.first().map(|(start, end)| (start, end - start))
    }

    pub(super) fn note_sent(&mut self, offset: u64, bytes: u64) {
        self.unsent.remove(offset, offset + bytes);
    }

    pub(super) fn note_acked(&mut self, offset: u64, bytes: u64) {
        self.acked.insert(offset, offset + bytes);
        self.unsent.remove(offset, offset + bytes);
    }

    /// Marks bytes for retransmission, as far as they are not acknowledged.
    pub(super) fn send_again(&mut self, offset: u64, bytes: u64) {
        self.unsent.insert(offset, offset + bytes);
        for (start, end) in self.acked.descending() {
            self.unsent.remove(start, end);
        }
    }

    /// Returns whether the peer has everything.
    pub(super) fn is_done(&self) -> bool {
        self.ends && self.acked.covers(self.written)
    }
}

impl Receiving {
    /// Takes bytes. Returns true if some are new.
    pub(super) fn take(&mut self, offset: u64, bytes: u64) -> bool {
        self.received.insert(offset, offset + bytes)
    }

    pub(super) fn has(&self, bytes: u64) -> bool {
        self.received.covers(bytes)
    }

    /// Returns the bytes that have arrived in order.
    pub(super) fn in_order(&self) -> u64 {
        self.received.first().filter(|&(start, _)| start == 0).map_or(0, |(_, end)| end)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.length.is_some_and(|length| self.received.covers(length))
    }
}
