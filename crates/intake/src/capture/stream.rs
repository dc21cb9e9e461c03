//! One direction of a TCP connection: from segments in any order to DNS messages.
//!
//! Two bytes of length precede a message (RFC 1035, section 4.2.2). This file finds out how
//! segments cut them: `joined`, `alone` or `split`.
//!
//! Captures miss segments, begin in the middle and hold junk. If the other side acknowledges bytes
//! that the capture lacks, they count as arrived but unknown. Within a message, the framing goes
//! on; elsewhere, it is lost until a segment begins with what looks like a message. The same holds
//! for bytes that a snap length cut off. The known part of a message ends at its first unknown
//! byte.

use std::borrow::Cow;

use narrows_wire::dns::HEADER_BYTES;

use super::rows::Sizes;

/// A segment of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) time_ns: i64,
    pub(super) seq: u32,
    /// As much of the payload as was captured.
    pub(super) payload: &'a [u8],
    /// The payload's length on the wire.
    pub(super) length: usize,
}

/// A message and how it arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// Its first bytes, up to [`KEPT`] or to the first unknown one.
    pub(super) head: Vec<u8>,
    /// Its length, without the two bytes before it.
    pub(super) length: usize,
    /// The segments that brought bytes of it or of its length field.
    pub(super) segments: u32,
    /// The payloads of the first eight of them.
    pub(super) sizes: Sizes,
    /// The segments that brought each byte of the length field, and the first byte of the message.
    places: [u64; 3],
    /// Whether the capture lacks a packet with some of its bytes.
    pub(super) gaps: bool,
    /// Whether the capture cut off some of its bytes that would be in `head`.
    pub(super) snapped: bool,
    got: usize,
    prefix: [u8; 2],
    counted: u64,
}

impl Message {
    /// Returns how the two bytes of length arrived; the empty text if the capture lacks bytes.
    pub(super) fn cut(&self) -> &'static str {
        let [first, second, body] = self.places;
        match (self.gaps, first == second, second == body) {
            (true, _, _) => "",
            (false, false, _) => "split",
            (false, true, false) => "alone",
            (false, true, true) => "joined",
        }
    }

    /// Returns the header, with zeros for its unknown bytes, and how many of its bytes are known.
    /// Returns `None` if not even the message's number is known.
    pub(super) fn header(&self) -> (Option<Cow<'_, [u8]>>, usize) {
        let known = self.head.len().min(HEADER_BYTES);
        let header = match known {
            HEADER_BYTES => Some(Cow::Borrowed(self.head.as_slice())),
            2.. => {
                let mut padded = self.head.clone();
                padded.resize(HEADER_BYTES, 0);
                Some(Cow::Owned(padded))
            }
            _ => None,
        };
        (header, known)
    }

    /// Returns whether any byte has arrived.
    pub(super) fn begun(&self) -> bool {
        self.got > 0
    }

    fn declared(&self) -> usize {
        usize::from(u16::from_be_bytes(self.prefix))
    }
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The sequence number of the next byte; `None` before the first segment.
    next: Option<u32>,
    waiting: Vec<OutOfOrder>,
    /// The memory that the waiting segments take, in bytes.
    waiting_bytes: usize,
    /// The end of what has been seen, and when it was seen.
    highest: Option<(u32, i64)>,
    message: Message,
    lost: bool,
    serial: u64,
    pub(super) segments: u32,
    pub(super) retransmissions: u32,
    pub(super) bytes: u64,
    /// The bytes that belong to no recognisable message.
    pub(super) unframed: u64,
}

#[derive(Debug)]
struct OutOfOrder {
    seq: u32,
    time_ns: i64,
    bytes: Vec<u8>,
    length: usize,
}

impl Stream {
    /// Sets the sequence number of the direction's first byte: its SYN was seen.
    pub(super) fn starts_at(&mut self, seq: u32) {
        if self.next.is_none() {
            self.next = Some(seq);
        }
    }

    /// Returns whether messages can be told apart at this point.
    pub(super) fn framed(&self) -> bool {
        !self.lost && self.next.is_some()
    }

    /// Returns the message of which some bytes have arrived.
    pub(super) fn unfinished(&self) -> &Message {
        &self.message
    }

    /// Returns the bytes that this holds in memory.
    pub(super) fn held(&self) -> usize {
        self.message.head.capacity() + self.waiting_bytes
    }

    /// Takes a segment. Each message that it completes goes to `whole`.
    pub(super) fn push(&mut self, segment: Segment<'_>, reply: bool, whole: &mut Vec<Message>) {
        if segment.length == 0 {
            return;
        }
        let Some(next) = self.next else {
            // The capture begins in the middle of the connection.
            self.lost = true;
            self.next = Some(segment.seq);
            return self.push(segment, reply, whole);
        };
        let ahead = distance(next, segment.seq);
        let end = distance(next, segment.seq.wrapping_add(segment.length as u32));
        if end <= 0 || (end == 1 && ahead < 0 && segment.length == 1) {
            // A keep-alive probe repeats one byte (RFC 9293, section 3.8.4).
            if segment.length > 1 {
                self.retransmissions += 1;
            }
            return;
        }
        if let Some((highest, at)) = self.highest {
            // It fills a gap so late that it cannot just have been overtaken.
            let late = segment.time_ns.saturating_sub(at) > OVERTAKING_NS;
            if distance(highest, segment.seq) < 0 && late {
                self.retransmissions += 1;
            }
        }
        let highest = segment.seq.wrapping_add(segment.length as u32);
        if self.highest.is_none_or(|(known, _)| distance(known, highest) > 0) {
            self.highest = Some((highest, segment.time_ns));
        }
        if ahead > 0 {
            let place = self.waiting.partition_point(|part| distance(next, part.seq) < ahead);
            if self.waiting.get(place).is_some_and(|part| part.seq == segment.seq) {
                self.retransmissions += 1;
                return;
            }
            if self.waiting.len() < MAX_WAITING {
                let (seq, time_ns, length) = (segment.seq, segment.time_ns, segment.length);
                let bytes = segment.payload.to_vec();
                self.waiting_bytes += bytes.len() + WAITING_BYTES;
                self.waiting.insert(place, OutOfOrder { seq, time_ns, bytes, length });
            }
            return;
        }
        self.take(segment, reply, whole);
        self.take_waiting(reply, whole);
    }

    /// Notes that the other side has everything before `ack`.
    pub(super) fn acknowledged(&mut self, ack: u32, reply: bool, whole: &mut Vec<Message>) {
        while let (Some(next), Some(first)) = (self.next, self.first_waiting()) {
            let gap = distance(next, first);
            if gap <= 0 || distance(first, ack) < 0 {
                break;
            }
            self.skip(gap as usize);
            self.next = Some(first);
            self.take_waiting(reply, whole);
        }
    }

    /// Gives up waiting for missing bytes.
    pub(super) fn let_go(&mut self, reply: bool, whole: &mut Vec<Message>) {
        while let (Some(next), Some(first)) = (self.next, self.first_waiting()) {
            self.skip(distance(next, first).max(0) as usize);
            self.next = Some(first);
            self.take_waiting(reply, whole);
        }
    }

    fn first_waiting(&self) -> Option<u32> {
        self.waiting.first().map(|part| part.seq)
    }

    fn take_waiting(&mut self, reply: bool, whole: &mut Vec<Message>) {
        while let (Some(next), Some(first)) = (self.next, self.waiting.first()) {
            if distance(next, first.seq) > 0 {
                break;
            }
            let OutOfOrder { seq, time_ns, bytes, length } = self.waiting.remove(0);
            self.waiting_bytes -= bytes.len() + WAITING_BYTES;
            if distance(next, seq.wrapping_add(length as u32)) > 0 {
                self.take(Segment { time_ns, seq, payload: &bytes, length }, reply, whole);
            }
        }
    }

    /// Takes a segment that begins at or before the next byte and ends after it.
    fn take(&mut self, segment: Segment<'_>, reply: bool, whole: &mut Vec<Message>) {
        let next = self.next.unwrap_or(segment.seq);
        let known = distance(segment.seq, next).max(0) as usize;
        let mut length = segment.length - known;
        let mut payload = segment.payload.get(known..).unwrap_or_default();
        self.next = Some(segment.seq.wrapping_add(segment.length as u32));
        self.segments += 1;
        self.serial += 1;
        self.bytes += length as u64;
        if self.lost {
            if !looks_like_a_message(payload, reply) {
                self.unframed += length as u64;
                return;
            }
            self.lost = false;
            self.message = Message::default();
        }
        while length > 0 {
            if self.message.got < 2 && payload.is_empty() {
                // The capture cut off the length, so nothing says where the message ends.
                self.unframed += (self.message.got + length) as u64;
                self.lost = true;
                self.message = Message::default();
                return;
            }
            let taken = self.feed(payload, length, segment.time_ns, segment.length);
            payload = payload.get(taken..).unwrap_or_default();
            length -= taken;
            let message = &self.message;
            if message.got >= 2 && message.declared() < 12 {
                // Too short for a DNS header: no message begins here.
                self.unframed += (2 + length) as u64;
                self.lost = true;
                self.message = Message::default();
                return;
            }
            if message.got >= 2 && message.got == 2 + message.declared() {
                let mut done = std::mem::take(&mut self.message);
                done.length = done.declared();
                whole.push(done);
            }
        }
    }

    /// Gives the message as many bytes as it still needs. Returns how many those were.
    fn feed(&mut self, payload: &[u8], length: usize, time_ns: i64, size: usize) -> usize {
        let serial = self.serial;
        let message = &mut self.message;
        if message.got == 0 {
            message.first_ns = time_ns;
        }
        if message.counted != serial {
            message.counted = serial;
            message.segments += 1;
            message.sizes.push(size as u32);
        }
        message.last_ns = time_ns;
        if message.got < 2 {
            message.prefix[message.got] = payload.first().copied().unwrap_or(0);
            message.places[message.got] = serial;
            message.got += 1;
            return 1;
        }
        if message.got == 2 {
            message.places[2] = serial;
        }
        let taken = length.min(2 + message.declared() - message.got);
        if message.head.len() == message.got - 2 {
            let kept = taken.min(KEPT.saturating_sub(message.head.len()));
            let there = kept.min(payload.len());
            message.head.extend_from_slice(&payload[..there]);
            message.snapped |= there < kept;
        }
        message.got += taken;
        taken
    }

    /// Passes over `gap` bytes that the capture lacks.
    fn skip(&mut self, gap: usize) {
        let message = &mut self.message;
        if message.got >= 2 && gap <= 2 + message.declared() - message.got {
            message.got += gap;
            message.gaps = true;
            if message.got == 2 + message.declared() {
                // The time of its end is unknown, so it is dropped; the next message begins in
                // order.
                self.message = Message::default();
            }
        } else {
            self.lost = true;
            self.message = Message::default();
        }
    }
}

/// Returns whether these bytes begin with a length and a DNS header of this direction.
fn looks_like_a_message(payload: &[u8], reply: bool) -> bool {
    let Some(&[high, low, _, _, flags, codes, questions_high, questions]) = payload.first_chunk()
    else {
        return false;
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let opcode = flags >> 3 & 0xf;
    length >= 12
        && (flags & 0x80 != 0) == reply
        && matches!(opcode, 0 | 4 | 5 | 6)
        && codes & 0x40 == 0
        && questions_high == 0
        && questions <= 1
}

/// Returns how far `to` is after `from`, in sequence numbers; negative if it is before.
fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from) as i32)
}

/// The bytes of a message that are looked at.
const KEPT: usize = 4096;
/// The most segments that wait for missing ones.
const MAX_WAITING: usize = 256;
/// The memory that a waiting segment takes besides its bytes.
const WAITING_BYTES: usize = 64;
/// Packets that overtake each other are at most this far apart. Wireshark uses 3 ms too.
const OVERTAKING_NS: i64 = 3_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: [u8; 19] = [0, 17, 0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1];

    /// Returns the messages of segments, given as sequence number and bytes, a millisecond apart.
    fn messages(segments: &[(u32, &[u8])]) -> (Vec<Message>, Stream) {
        let mut stream = Stream::default();
        stream.starts_at(1000);
        let mut whole = Vec::new();
        for (index, (seq, payload)) in segments.iter().enumerate() {
            let time_ns = index as i64 * 1_000_000;
            let segment = Segment { time_ns, seq: *seq, payload, length: payload.len() };
            stream.push(segment, false, &mut whole);
        }
        (whole, stream)
    }

    #[test]
    fn the_length_comes_joined_alone_or_split() {
        let cut = |segments: &[(u32, &[u8])]| {
            let (whole, _) = messages(segments);
            assert_eq!(whole.len(), 1);
            assert_eq!(whole[0].head, QUERY[2..]);
            (whole[0].cut(), whole[0].segments, whole[0].sizes.to_vec())
        };
        assert_eq!(cut(&[(1000, &QUERY)]), ("joined", 1, vec![19]));
        assert_eq!(cut(&[(1000, &QUERY[..2]), (1002, &QUERY[2..])]), ("alone", 2, vec![2, 17]));
        let split = cut(&[(1000, &QUERY[..1]), (1001, &QUERY[1..])]);
        assert_eq!(split, ("split", 2, vec![1, 18]));
        let late = cut(&[(1000, &QUERY[..5]), (1005, &QUERY[5..])]);
        assert_eq!(late, ("joined", 2, vec![5, 14]));
    }

    #[test]
    fn several_messages_in_a_segment_and_one_over_many() {
        let two = [QUERY, QUERY].concat();
        assert_eq!(messages(&[(1000, &two)]).0.len(), 2);
        let bytes: Vec<(u32, &[u8])> =
            (0..19).map(|at| (1000 + at as u32, &QUERY[at..=at])).collect();
        let (whole, _) = messages(&bytes);
        assert_eq!((whole.len(), whole[0].segments, whole[0].sizes.len()), (1, 19, 8));
        assert_eq!((whole[0].first_ns, whole[0].last_ns), (0, 18_000_000));
    }

    #[test]
    fn segments_are_put_in_order_and_counted_once() {
        let (whole, stream) =
            messages(&[(1005, &QUERY[5..]), (1000, &QUERY[..5]), (1000, &QUERY[..5])]);
        assert_eq!(whole.len(), 1);
        assert_eq!((stream.segments, stream.retransmissions, stream.bytes), (2, 1, 19));
    }

    #[test]
    fn what_the_other_side_acknowledges_was_only_missed_by_the_capture() {
        let (mut whole, mut stream) = messages(&[(1000, &QUERY[..4]), (1010, &QUERY[10..])]);
        assert!(whole.is_empty());
        stream.acknowledged(1019, false, &mut whole);
        assert_eq!((whole.len(), whole[0].cut(), whole[0].gaps), (1, "", true));
        // Between messages, nothing tells how long the missing ones are. The next message begins at
        // bytes that look like one.
        let (mut whole, mut stream) = messages(&[(1000, &QUERY), (1100, &QUERY)]);
        stream.acknowledged(1119, false, &mut whole);
        assert_eq!(whole.len(), 2);
    }

    #[test]
    fn what_is_known_of_a_message_ends_where_the_capture_cut_it() {
        let cut = |kept: usize| {
            let mut stream = Stream::default();
            stream.starts_at(1000);
            let mut whole = Vec::new();
            let segment = |seq, payload| Segment { time_ns: 0, seq, payload, length: QUERY.len() };
            stream.push(segment(1000, &QUERY[..kept]), false, &mut whole);
            stream.push(segment(1019, &QUERY), false, &mut whole);
            (whole, stream.unframed)
        };
        for kept in 2..QUERY.len() {
            let (whole, unframed) = cut(kept);
            assert_eq!((whole.len(), unframed), (2, 0), "{kept}");
            assert_eq!(whole[0].head, QUERY[2..kept]);
            assert_eq!((whole[0].length, whole[0].cut(), whole[0].snapped), (17, "joined", true));
            assert_eq!((whole[1].head.as_slice(), whole[1].snapped), (&QUERY[2..], false));
        }
        // Without its length, a message has no end. The next segment begins a new one.
        for kept in 0..2 {
            let (whole, unframed) = cut(kept);
            assert_eq!((whole.len(), unframed), (1, 19), "{kept}");
            assert_eq!(whole[0].head, QUERY[2..]);
        }
    }

    #[test]
    fn what_comes_behind_a_gap_is_no_part_of_what_is_known() {
        let (mut whole, mut stream) = messages(&[(1000, &QUERY[..4]), (1010, &QUERY[10..])]);
        stream.acknowledged(1019, false, &mut whole);
        assert_eq!((whole.len(), whole[0].head.as_slice()), (1, &QUERY[2..4]));
    }

    #[test]
    fn junk_ends_the_framing_until_a_message_begins() {
        let (whole, stream) = messages(&[(1000, &[0, 3, 9, 9, 9]), (1005, &QUERY)]);
        assert_eq!(whole.len(), 1);
        assert_eq!(stream.unframed, 5);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut stream = Stream::default();
        let start = u32::MAX - 1;
        stream.starts_at(start);
        let mut whole = Vec::new();
        for (at, part) in [(0, &QUERY[..5]), (5, &QUERY[5..])] {
            let segment = Segment {
                time_ns: 0,
                seq: start.wrapping_add(at),
                payload: part,
                length: part.len(),
            };
            stream.push(segment, false, &mut whole);
        }
        assert_eq!(whole.len(), 1);
    }
}
