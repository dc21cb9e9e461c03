//! What the machine's own TCP takes over: PROTOCOL.md, "Adoption (tc ingress)".

use narrows_wire::tcp::Flags;

use super::cookie::{NO_SCALE, Offer};
use super::flow::{Flow, State};
use super::packet::Segment;
use super::{Core, Counter, Now};

/// What was agreed in the handshake of a connection that is taken over; sequence numbers are those of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The largest payload that the client takes.
    pub mss: u16,
    /// The client's window scale; ours is 7 then. `None`: neither scales.
    pub wscale: Option<u8>,
    /// Selective acknowledgements were agreed.
    pub sack: bool,
    /// Our timestamp and the client's.
    pub timestamps: Option<(u32, u32)>,
}

impl Core {
    /// Takes an IP packet that [`Core::on_client`] handed off, or that [`Core::on_reply`] put out to be handed off, and
    /// whose connection the machine's own TCP does not have. Gives what that TCP must know to go on from this segment;
    /// `None` where it is not for it. An entry is removed.
    pub fn adopt(&mut self, now: Now, packet: &[u8]) -> Option<Adoption> {
        let (key, segment) = self.read(packet).ok()??;
        let refused = segment.has(Flags::SYN) || segment.has(Flags::RST);
        if refused || !segment.has(Flags::ACK) || segment.payload.is_empty() {
            return None;
        }
        let offer = match self.flows.get(&key) {
            Some(flow) if is_for_kernel(&flow, &segment) => Offer {
                mss: flow.mss,
                timestamps: flow.timestamps,
                wscale: flow.client_wscale,
                sack: flow.sack,
            },
            Some(flow) if flow.query_seq == segment.seq => return None,
            _ => self.cookie(now, &segment)?,
        };
        self.remove(&key);
        self.count(Counter::Adopted);
        let timestamps = segment.options.timestamps.map(|(tsval, tsecr)| (tsecr, tsval));
        Some(Adoption {
            mss: offer.mss,
            wscale: Some(offer.wscale).filter(|&wscale| wscale != NO_SCALE),
            sack: offer.sack,
            timestamps: timestamps.filter(|_| offer.timestamps),
        })
    }
}

/// Whether the segment is where the kernel's TCP takes over from this entry.
fn is_for_kernel(flow: &Flow, segment: &Segment<'_>) -> bool {
    match flow.state {
        State::Slow => segment.seq == flow.query_seq,
        State::Replied | State::Idle => {
            segment.seq == flow.client_next && segment.ack == flow.end()
        }
        State::Syn | State::Query | State::Closing => false,
    }
}
