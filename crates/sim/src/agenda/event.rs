//! Events, and their packed form of 32 bits on the agenda's lists.

/// Something that happens at some time of the run. The number says where, or to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A packet reaches the end of a link: which link.
    Landing(u32),
    /// A queue's next packet may leave its link: which link.
    Departure(u32),
    /// The timer of a TCP or QUIC connection at one end: twice the flow, plus one for the second
    /// end.
    Timer(u32),
    /// An application's timer: its index in the list of timers that are set.
    Wake(u32),
    /// A queue's sample is due: which monitor.
    QueueSample(u32),
    /// A link's sample is due: which monitor.
    LinkSample(u32),
    /// A listener has to repeat SYN-ACKs: which listener.
    HalfOpen(u32),
    /// The timer of a neighbour entry: which entry.
    Neighbour(u32),
    /// A server has finished computing a TLS handshake: which end, numbered as for a connection's
    /// timer.
    Handshake(u32),
    /// The next segment of a sender that paces may leave: which end, numbered as for its timer.
    Pace(u32),
}

impl Event {
    /// The largest number that fits.
    pub(crate) const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;
}

/// An event packed into four bits of kind and 28 bits of number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed(u32);

const INDEX_BITS: u32 = 28;

impl Packed {
    #[inline(always)]
    pub(super) const fn new(event: Event) -> Self {
        let (kind, index) = match event {
            Event::Landing(index) => (0, index),
            Event::Departure(index) => (1, index),
            Event::Timer(index) => (2, index),
            Event::Wake(index) => (3, index),
            Event::QueueSample(index) => (4, index),
            Event::LinkSample(index) => (5, index),
            Event::HalfOpen(index) => (6, index),
            Event::Neighbour(index) => (7, index),
            Event::Handshake(index) => (8, index),
            Event::Pace(index) => (9, index),
        };
        Self(kind << INDEX_BITS | index)
    }

    #[inline(always)]
    pub(super) const fn event(self) -> Event {
        let index = self.0 & Event::MAX_INDEX;
        match self.0 >> INDEX_BITS {
            0 => Event::Landing(index),
            1 => Event::Departure(index),
            2 => Event::Timer(index),
            3 => Event::Wake(index),
            4 => Event::QueueSample(index),
            5 => Event::LinkSample(index),
            6 => Event::HalfOpen(index),
            7 => Event::Neighbour(index),
            8 => Event::Handshake(index),
            _ => Event::Pace(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_their_packed_form() {
        for index in [0, 1, 12_345, Event::MAX_INDEX] {
            for event in [
                Event::Landing(index),
                Event::Departure(index),
                Event::Timer(index),
                Event::Wake(index),
                Event::QueueSample(index),
                Event::LinkSample(index),
                Event::HalfOpen(index),
                Event::Neighbour(index),
                Event::Handshake(index),
                Event::Pace(index),
            ] {
                assert_eq!(Packed::new(event).event(), event);
            }
        }
    }
}
