//! Frames and packets, with their lengths on the wire (RFC 9000, 17 and 19).

use alloc::vec::Vec;

use narrows_units::Span;

use super::ranges::Ranges;

/// A frame of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Ack(Ack),
    Crypto {
        offset: u64,
        bytes: u64,
    },
    Stream {
        id: u64,
        offset: u64,
        bytes: u64,
        fin: bool,
    },
    Ping,
    /// Confirms the handshake. Also stands for this many bytes of new connection IDs and a token.
    HandshakeDone {
        extras: u16,
    },
    Close,
}

/// An acknowledgement (19.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub received: Ranges,
    pub delay: Span,
    /// The number of packets received with a mark; `None`: the peer does not count them.
    pub marked: Option<u64>,
}

/// The keys that protect a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Initial,
    Handshake,
    ZeroRtt,
    OneRtt,
}

/// A packet. A datagram has one or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub level: Level,
    pub number: u64,
    pub frames: Vec<Frame>,
    /// The length, including padding.
    pub bytes: u32,
}

/// A UDP datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    pub(super) packets: Vec<Packet>,
}

impl Datagram {
    /// Returns the length of its payload.
    pub fn bytes(&self) -> u32 {
        self.packets.iter().map(|packet| packet.bytes).sum()
    }
}

impl Packet {
    pub(super) fn is_ack_eliciting(&self) -> bool {
        self.frames.iter().any(Frame::is_ack_eliciting)
    }
}

impl Frame {
    /// Returns whether it asks for an acknowledgement (RFC 9002, 2).
    pub(super) fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::Close)
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Ack(ack) => ack.length(),
            Self::Crypto { offset, bytes } => 1 + varint(*offset) + varint(*bytes) + bytes,
            Self::Stream { id, offset, bytes, .. } => stream_header(*id, *offset, *bytes) + bytes,
            Self::Ping => 1,
            Self::HandshakeDone { extras } => 1 + u64::from(*extras),
            // An application's close: a code, and an empty reason (19.19).
            Self::Close => 3,
        }
    }
}

impl Ack {
    fn length(&self) -> u64 {
        let mut ranges = self.received.descending();
        let Some((start, end)) = ranges.next() else { return 0 };
        // The unit is 8 microseconds (18.2, ack_delay_exponent).
        let delay = self.delay.as_ps() / 8_000_000;
        let mut length = 1 + varint(end - 1) + varint(delay) + varint(end - 1 - start);
        let (mut before, mut count) = (start, 0);
        for (start, end) in ranges {
            length += varint(before - end - 1) + varint(end - 1 - start);
            (before, count) = (start, count + 1);
        }
        // 19.3.2: the counts of packets with ECT(0), with ECT(1), and with a mark.
        let counts = self.marked.map_or(0, |marked| varint(end - 1) + 1 + varint(marked));
        length + varint(count) + counts
    }
}

/// Returns the length of a stream frame's header: type, ID, offset unless it is zero, length.
pub(super) fn stream_header(id: u64, offset: u64, bytes: u64) -> u64 {
    1 + varint(id) + if offset > 0 { varint(offset) } else { 0 } + varint(bytes)
}

/// Returns the length of a packet's header and of the tag after its frames. `ids`: the bytes of the
/// receiver's connection ID and of the sender's. `behind`: how many packets ago the last
/// acknowledged one was.
pub(super) fn around(level: Level, ids: [u8; 2], behind: u64) -> u32 {
    let [to, from] = ids.map(u32::from);
    let number = number_length(behind);
    let header = match level {
        // Form, version, IDs, and a length of two bytes (17.2); for Initial packets also an empty
        // token.
        Level::Initial => 7 + to + from + varint(0) as u32 + 2,
        Level::Handshake | Level::ZeroRtt => 7 + to + from + 2,
        Level::OneRtt => 1 + to,
    };
    header + number + TAG
}

/// Returns the length of a packet number (17.1): it must tell apart twice as many numbers as may be
/// missing.
fn number_length(behind: u64) -> u32 {
    match behind {
        0..0x80 => 1,
        0x80..0x8000 => 2,
        0x8000..0x80_0000 => 3,
        _ => 4,
    }
}

/// Returns the bytes of a number with variable length (RFC 9000, 16).
pub const fn varint(number: u64) -> u64 {
    match number {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// The length of the authentication tag (RFC 9001, 5.3).
const TAG: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(of: &[(u64, u64)]) -> Ranges {
        let mut ranges = Ranges::default();
        for &(start, end) in of {
            ranges.insert(start, end);
        }
        ranges
    }

    /// RFC 9000, 16 and appendix A.1: the samples have 1, 2, 4 and 8 bytes.
    #[test]
    fn numbers_have_the_lengths_of_the_rfc() {
        let samples = [37, 15_293, 494_878_333, 151_288_809_941_952_652];
        assert_eq!(samples.map(varint), [1, 2, 4, 8]);
    }

    /// RFC 9001, A.2: CRYPTO with the 241 bytes of a ClientHello takes 245. The header has 22
    /// bytes, of which the number takes 4 and an ID 8. With it and the tag of 16, 1162 bytes make
    /// 1200.
    #[test]
    fn an_initial_packet_has_the_length_of_the_rfcs() {
        assert_eq!(Frame::Crypto { offset: 0, bytes: 241 }.length(), 245);
        assert_eq!(around(Level::Initial, [8, 0], 1 << 30), 22 + 16);
        // A.3: a header of 20 bytes, of which the number takes 2 and an ID 8.
        assert_eq!(around(Level::Initial, [0, 8], 0x100), 20 + 16);
        // A.5: a short header with a number of 3 bytes and no ID.
        assert_eq!(around(Level::OneRtt, [0, 0], 0x8000), 4 + 16);
    }

    /// 19.3: type, largest, delay, count, first range; then gap and length.
    #[test]
    fn acknowledgements_tell_of_gaps() {
        let ack = |received, marked| Frame::Ack(Ack { received, delay: Span::ZERO, marked });
        assert_eq!(ack(ranges(&[(0, 3)]), None).length(), 5);
        assert_eq!(ack(ranges(&[(0, 3), (5, 9)]), None).length(), 7);
        assert_eq!(ack(ranges(&[(0, 100)]), None).length(), 7);
    }
}
