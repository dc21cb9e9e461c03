//! A packet number space (RFC 9000, 12.3): what was sent and not yet acknowledged, and what came.

use std::collections::VecDeque;

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
    /// When the last packet left that asks for an acknowledgement.
    pub(super) last_eliciting_at: Option<Time>,
    /// When the next packet counts as lost (RFC 9002, 6.1.2).
    pub(super) loss_at: Option<Time>,
    /// Packets to be sent whatever the congestion window says (RFC 9002, 6.2.4).
    pub(super) probes: u8,
    /// Packets that have come.
    pub(super) received: Ranges,
    pub(super) largest_at: Time,
    /// Those that ask for an acknowledgement and have none.
    pub(super) unacknowledged: u8,
    /// When they are to have it.
    pub(super) ack_at: Option<Time>,
    /// Packets that came with a mark.
    pub(super) marked: u64,
    /// The same at the peer, as far as it has said.
    pub(super) marked_there: u64,
    pub(super) crypto: Sending,
    pub(super) crypto_received: Receiving,
    /// Its keys are gone (RFC 9001, 4.9).
    pub(super) is_over: bool,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) at: Time,
    pub(super) bytes: u32,
    pub(super) eliciting: bool,
    /// It counts for the congestion window: it asks for an acknowledgement, or has padding.
    pub(super) in_flight: bool,
    pub(super) frames: Vec<Frame>,
}

/// What an acknowledgement tells of at most (RFC 9000, 13.2.3).
const MOST_RANGES: usize = 64;

impl Space {
    /// Takes note of a packet that has come (RFC 9000, 13.2): `every`: how many are acknowledged
    /// together, and when at the latest.
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
        // 13.2.1: at once where packets are missing, or marked.
        let due = if self.unacknowledged >= every.0 || number != expected || marked {
            now
        } else {
            now + every.1
        };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
    }

    /// The acknowledgement of all that has come. `counts`: of marks, too.
    pub(super) fn acknowledgement(&self, now: Time, counts: bool) -> Option<Frame> {
        (!self.received.is_empty()).then(|| {
            Frame::Ack(Ack {
                received: self.received.newest(MOST_RANGES),
                delay: now.since(self.largest_at),
                marked: counts.then_some(self.marked),
            })
        })
    }

    pub(super) fn note_acknowledged(&mut self) {
        (self.unacknowledged, self.ack_at) = (0, None);
    }

    pub(super) fn has_eliciting(&self) -> bool {
        self.sent.iter().any(|sent| sent.eliciting)
    }
}
