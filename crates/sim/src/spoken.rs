//! Which message lies where in the streams of captured connections.
//!
//! Packets have sequence numbers but no bytes. So if links are captured, each message over TCP is
//! noted when its application writes it. Afterwards, a segment's sequence numbers tell what it
//! carries. A retransmitted segment carries the same again.
//!
//! Sequence numbers start again after 4 GiB; messages beyond that are not found.

use narrows_apps::{Message, Socket};
use narrows_transport::tcp::Seq;
use narrows_units::Time;

/// The messages of all connections, including closed ones.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    /// For each flow: its connections, the oldest first.
    flows: Vec<Vec<Conversation>>,
}

/// A connection.
#[derive(Debug)]
struct Conversation {
    generation: u8,
    opened_at: Time,
    sides: [Stream; 2],
}

/// What one end writes.
#[derive(Debug)]
struct Stream {
    /// The sequence number of the first byte.
    first: Seq,
    written: u64,
    messages: Vec<Place>,
}

/// A message in a stream.
#[derive(Clone, Copy, Debug)]
struct Place {
    begin: u64,
    end: u64,
    tag: u32,
}

/// A message of which a segment carries a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where the message begins in the segment's payload. Negative: in an earlier segment.
    pub(crate) at: i64,
    /// The length of the whole message.
    pub(crate) bytes: u32,
    /// The sender's number for it.
    pub(crate) tag: u32,
}

/// The bytes of a stream that a segment carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// The end that sends them. Its flow's number may belong to another connection by now.
    pub(crate) from: Socket,
    /// When they were sent, or a later time.
    pub(crate) at: Time,
    /// The sequence number of the first byte.
    pub(crate) first: Seq,
    pub(crate) bytes: u16,
}

impl Spoken {
    /// Notes that a connection begins with these initial sequence numbers.
    pub(crate) fn begin(&mut self, now: Time, socket: Socket, isns: [u32; 2]) {
        let flow = socket.flow() as usize;
        if self.flows.len() <= flow {
            self.flows.resize_with(flow + 1, Vec::new);
        }
        // The first byte follows the SYN (RFC 9293, 3.4).
        let stream = |isn| Stream { first: Seq(isn) + 1, written: 0, messages: Vec::new() };
        self.flows[flow].push(Conversation {
            generation: socket.generation,
            opened_at: now,
            sides: isns.map(stream),
        });
    }

    /// Notes that an end writes bytes that belong to its next message.
    pub(crate) fn write_part(&mut self, socket: Socket, bytes: u32) {
        if let Some(stream) = self.stream(socket) {
            stream.written += u64::from(bytes);
        }
    }

    /// Notes that an end writes a message, or the rest of one.
    pub(crate) fn write(&mut self, socket: Socket, message: &Message) {
        let Some(stream) = self.stream(socket) else { return };
        stream.written += u64::from(message.bytes);
        let begin = stream.messages.last().map_or(0, |last| last.end);
        stream.messages.push(Place { begin, end: stream.written, tag: message.tag });
    }

    /// Returns the messages of which a segment carries a part, in order.
    pub(crate) fn pieces(&self, carried: &Carried) -> impl Iterator<Item = Piece> + '_ {
        let Socket { generation, .. } = carried.from;
        let conversations = self.flows.get(carried.from.flow() as usize);
        let conversation = conversations.and_then(|all| {
            let of_it = |c: &&Conversation| c.generation == generation && c.opened_at <= carried.at;
            all.iter().rev().find(of_it)
        });
        let stream = conversation.map(|c| &c.sides[carried.from.side()]);
        let begin = stream.map_or(0, |stream| u64::from(carried.first.distance(stream.first)));
        let end = begin + u64::from(carried.bytes);
        let messages = stream.map_or(&[][..], |stream| &stream.messages);
        let skipped = messages.partition_point(|place| place.end <= begin);
        messages[skipped..].iter().take_while(move |place| place.begin < end).map(move |place| {
            Piece {
                at: place.begin as i64 - begin as i64,
                bytes: (place.end - place.begin) as u32,
                tag: place.tag,
            }
        })
    }

    fn stream(&mut self, socket: Socket) -> Option<&mut Stream> {
        let last = self.flows.get_mut(socket.flow() as usize)?.last_mut()?;
        (last.generation == socket.generation).then(|| &mut last.sides[socket.side()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Socket = Socket { end: 6, generation: 2 };
    const SERVER: Socket = CLIENT.other();
    /// The server's sequence numbers wrap around within its first message.
    const ISNS: [u32; 2] = [99, u32::MAX - 10];

    fn spoken() -> Spoken {
        let mut spoken = Spoken::default();
        spoken.begin(Time::from_ps(10), CLIENT, ISNS);
        let message = |bytes, tag| Message { bytes, tag, notes: [0; 2] };
        spoken.write(CLIENT, &message(30, 7));
        spoken.write(CLIENT, &message(40, 8));
        // The length precedes the message.
        spoken.write_part(SERVER, 2);
        spoken.write(SERVER, &message(98, 7));
        spoken
    }

    fn pieces(spoken: &Spoken, from: Socket, first: u32, bytes: u16) -> Vec<(i64, u32, u32)> {
        let carried = Carried { from, at: Time::from_ps(20), first: Seq(first), bytes };
        spoken.pieces(&carried).map(|piece| (piece.at, piece.bytes, piece.tag)).collect()
    }

    #[test]
    fn segments_carry_what_lies_at_their_sequence_numbers() {
        let spoken = spoken();
        assert_eq!(pieces(&spoken, CLIENT, 100, 30), [(0, 30, 7)]);
        assert_eq!(pieces(&spoken, CLIENT, 100, 70), [(0, 30, 7), (30, 40, 8)]);
        assert_eq!(pieces(&spoken, CLIENT, 129, 2), [(-29, 30, 7), (1, 40, 8)]);
        assert_eq!(pieces(&spoken, CLIENT, 130, 1), [(0, 40, 8)]);
        assert_eq!(pieces(&spoken, CLIENT, 170, 10), []);
    }

    #[test]
    fn a_length_in_a_segment_of_its_own_belongs_to_its_message() {
        let spoken = spoken();
        assert_eq!(pieces(&spoken, SERVER, u32::MAX - 9, 2), [(0, 100, 7)]);
        assert_eq!(pieces(&spoken, SERVER, u32::MAX - 7, 98), [(-2, 100, 7)]);
        assert_eq!(pieces(&spoken, SERVER, 0, 5), [(-10, 100, 7)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_connection() {
        let mut spoken = spoken();
        let later = Socket { generation: 3, ..CLIENT };
        spoken.begin(Time::from_ps(15), later, [0, 0]);
        spoken.write(later, &Message { bytes: 12, tag: 9, notes: [0; 2] });
        // This comes too late for the first connection.
        spoken.write(CLIENT, &Message { bytes: 12, tag: 10, notes: [0; 2] });
        assert_eq!(pieces(&spoken, later, 1, 12), [(0, 12, 9)]);
        assert_eq!(pieces(&spoken, CLIENT, 100, 30), [(0, 30, 7)]);
        assert_eq!(pieces(&spoken, Socket { generation: 4, ..CLIENT }, 1, 12), []);
        // The generations have wrapped around.
        spoken.begin(Time::from_ps(30), CLIENT, [0, 0]);
        assert_eq!(pieces(&spoken, CLIENT, 100, 30), [(0, 30, 7)]);
    }
}
