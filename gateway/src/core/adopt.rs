//! What the machine's own TCP takes over: PROTOCOL.md, "Adoption (tc ingress)".

use narrows_wire::tcp::{Flags, Options};

use super::cookie::{NO_SCALE, Offer};
use super::flow::{Flow, State};
use super::packet::Segment;
use super::segment::Outgoing;
use super::{Core, Counter, Now};

/// What was agreed in the handshake of a connection that is taken over. Sequence numbers are those
/// of the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The largest payload that the client takes.
    pub mss: u16,
    /// The client's window scale; ours is then 7. `None`: neither side scales.
    pub wscale: Option<u8>,
    /// Whether selective acknowledgements were agreed.
    pub sack: bool,
    /// Our timestamp and the client's.
    pub timestamps: Option<(u32, u32)>,
    /// The IP packet to begin with instead of the one that came: its payload has the stored query
    /// in front, or lacks the bytes that were received before.
    pub joined: Option<Vec<u8>>,
}

impl Core {
    /// Takes an IP packet that [`Core::on_client`] handed off, or that [`Core::on_reply`] put out
    /// to be handed off. The machine's own TCP does not have its connection yet. Returns what that
    /// TCP must know to continue from this segment; `None` if it cannot take the segment.
    /// Afterwards the entry is removed or in state KERNEL.
    pub fn adopt(&mut self, now: Now, packet: &[u8]) -> Option<Adoption> {
        let (key, segment) = self.read(packet).ok()??;
        let refused = segment.has(Flags::SYN) || segment.has(Flags::RST);
        if refused || !segment.has(Flags::ACK) {
            return None;
        }
        let entry = self.flows.get(&key);
        let received = entry.map_or(0, |flow| flow.received(&segment));
        let segment = segment.trimmed(received);
        let mut joined = None;
        let offer = match entry.and_then(|flow| Some((flow, part_for_kernel(&flow, &segment)?))) {
            Some((mut flow, part)) => {
                if part != Part::Whole || received > 0 {
                    let Some(packet) = self.join(&flow, &segment, part) else {
                        self.count(Counter::XdpError);
                        return None;
                    };
                    joined = Some(packet);
                }
                if flow.is_left() {
                    flow.state = State::Kernel;
                    self.keep(now, key, flow);
                } else {
                    self.remove(&key);
                }
                Offer {
                    mss: flow.mss,
                    timestamps: flow.timestamps,
                    wscale: flow.client_wscale,
                    sack: flow.sack,
                }
            }
            None => {
                let others = entry.is_none_or(|flow| flow.query_seq != segment.seq);
                let offer =
                    self.cookie(now, &segment).filter(|_| others && !segment.payload.is_empty());
                let Some(offer) = offer else {
                    // The kernel must get something else first.
                    if entry.is_some_and(|flow| flow.state == State::Slow) {
                        self.count(Counter::Strange);
                    }
                    return None;
                };
                self.remove(&key);
                offer
            }
        };
        self.count(Counter::Adopted);
        let timestamps = segment.options.timestamps.map(|(tsval, tsecr)| (tsecr, tsval));
        Some(Adoption {
            mss: offer.mss,
            wscale: Some(offer.wscale).filter(|&wscale| wscale != NO_SCALE),
            sack: offer.sack,
            timestamps: timestamps.filter(|_| offer.timestamps),
            joined,
        })
    }

    /// Returns the segment with what the ring has for it in front of its payload, if anything;
    /// `None` if that is no longer there.
    fn join(&self, flow: &Flow, segment: &Segment<'_>, part: Part) -> Option<Vec<u8>> {
        let (seq, stored) = match part {
            Part::Ahead => (flow.client_next, self.ring.at(flow.ahead, flow.ahead_length.into())?),
            Part::Second => (flow.query_seq, self.stored(flow)?),
            Part::Whole => (segment.seq, &[][..]),
        };
        let payload = [stored, segment.payload].concat();
        let header = Outgoing {
            from: segment.client(),
            to: segment.server(),
            seq,
            ack: segment.ack,
            flags: segment.flags.0,
            window: segment.window,
            options: Options { timestamps: segment.options.timestamps, ..Options::default() },
        };
        (payload.len() <= JOINED_MAX).then(|| header.packet(&payload))
    }
}

/// Which part of the stream the segment is with which the kernel's TCP takes over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The segment begins what the kernel has to answer.
    Whole,
    /// The segment follows the query, which the ring has.
    Second,
    /// The segment follows data that was kept until the client had the reply.
    Ahead,
}

/// Returns which part of the client's stream the segment is, if the kernel may begin with it.
fn part_for_kernel(flow: &Flow, segment: &Segment<'_>) -> Option<Part> {
    let next = segment.seq == flow.client_next;
    match flow.state {
        State::Replied | State::Idle
            if flow.ahead_length > 0
                && segment.seq == flow.behind_ahead()
                && segment.ack == flow.end() =>
        {
            Some(Part::Ahead)
        }
        _ if segment.payload.is_empty() => None,
        State::Slow | State::Kernel if segment.ack == flow.server_seq => {
            if segment.seq == flow.query_seq {
                Some(Part::Whole)
            } else {
                (next && !flow.client_fin).then_some(Part::Second)
            }
        }
        State::Replied | State::Idle => (next && segment.ack == flow.end()).then_some(Part::Whole),
        _ => None,
    }
}

/// The most bytes of a joined payload: no packet is longer.
const JOINED_MAX: usize = 65_000;
