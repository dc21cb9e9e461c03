//! A packet number space (RFC 9000, 12.3): what was sent and is not yet acknowledged, and what
//! arrived.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use narrows_units::{Span, Time};

use super::frames::{Ack, Frame};
use super::ranges::Ranges;
use super::streams::{Receiving, Sending};

#[derive(Debug, Default)]
pub(super) struct Space {
    /// The number of the next packet.
    pub(super) next: u64,
    /// Packets that are neither acknowledged nor lost, in order.
    pub(super) sent: VecDeque<Sent>,
    pub(super) largest_acked: Option<u64>,
    /// When the last ack-eliciting packet was sent.
    pub(super) last_eliciting_at: Option<Time>,
    /// When the next packet counts as lost (RFC 9002, 6.1.2).
    pub(super) loss_at: Option<Time>,
    /// The number of packets to be sent whatever the congestion window allows (RFC 9002, 6.2.4).
    pub(super) probes: u8,
    /// The packet number below which probes have repeated everything.
    pub(super) repeated: u64,
    /// The packets that have arrived.
    pub(super) received: Ranges,
    pub(super) largest_at: Time,
    /// The number of ack-eliciting packets among them that are not yet acknowledged.
    pub(super) unacknowledged: u8,
    /// When these have to be acknowledged.
    pub(super) ack_at: Option<Time>,
    /// The number of packets that arrived with a mark.
    pub(super) marked: u64,
    /// The number of such packets at the peer, as last reported.
    pub(super) marked_there: u64,
    pub(super) crypto: Sending,
    pub(super) crypto_received: Receiving,
    /// Whether its keys are gone (RFC 9001, 4.9).
    pub(super) is_over: bool,
}

/// A packet under way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) at: Time,
    pub(super) bytes: u32,
    pub(super) eliciting: bool,
    /// Whether it counts towards the congestion window: it is ack-eliciting or has padding.
    pub(super) in_flight: bool,
    pub(super) frames: Vec<Frame>,
}

/// The most ranges in an acknowledgement (RFC 9000, 13.2.3).
const MOST_RANGES: usize = 64;

impl Space {
    /// Notes a packet that has arrived (RFC 9000, 13.2). `every`: how many packets are acknowledged
    /// together, and after which time at the latest.
    pub(super) fn note_received(
        &mut self,
        now: Time,
        number: u64,
        marked: bool,
        eliciting: bool,
        every: (u8, Span),
    ) {
        let expected = self.received.largest().map_or(0, |largest| largest + 1);
        if number >= expected {
            self.largest_at = now;
        }
        self.received.insert(number, number + 1);
        self.marked += u64::from(marked);
        if !eliciting {
            return;
        }
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        // 13.2.1: at once if packets are missing or marked.
        let due = if self.unacknowledged >= every.0 || number != expected || marked {
            now
        } else {
            now + every.1
        };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
    }

    /// Returns the acknowledgement of everything that has arrived. `counts`: whether it also counts
    /// marks.
    pub(super) fn acknowledgement(&self, now: Time, counts: bool) -> Option<Frame> {
        (!self.received.is_empty()).then(|| {
            Frame::Ack(Ack {
                received: self.received.newest(MOST_RANGES),
                delay: now.since(self.largest_at),
                marked: counts.then_some(self.marked),
            })
        })
    }

    /// Removes and returns the packets that an acknowledgement covers, in order. The cost depends
    /// only on their number, not on how many others are under way.
    pub(super) fn take_acked(&mut self, received: &Ranges) -> Vec<Sent> {
        let mut acked = Vec::new();
        for (start, end) in received.descending() {
            let from = self.sent.partition_point(|sent| sent.number < start);
            let to = self.sent.partition_point(|sent| sent.number < end);
            acked.extend(self.sent.drain(from..to).rev());
            if from == 0 {
                break;
            }
        }
        acked.reverse();
        acked
    }

    pub(super) fn note_acknowledged(&mut self) {
        (self.unacknowledged, self.ack_at) = (0, None);
    }

    pub(super) fn has_eliciting(&self) -> bool {
        self.sent.iter().any(|sent| sent.eliciting)
    }
}
