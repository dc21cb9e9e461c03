//! The receiver of Accurate ECN: it counts marked packets and bytes, and reports the counts.
//!
//! Source: RFC 9768, 3.2; where the RFC leaves a choice, Linux 7.3 with `tcp_ecn_option = 2`: every
//! segment has the AccECN option if it fits, and data are acknowledged at once when marks begin and
//! when they end (the RFC asks only for the former). Differences from Linux: the option begins with
//! the counter of ECT(0) until ECT(1) arrives, so that a shortened option leaves out a counter that
//! does not change. `tcp_ecn_option_beacon` changes nothing, because every segment has the option
//! anyway. Nothing checks whether the path removes options, because no path here does.

use narrows_units::Ecn;

use crate::tcp::accurate_ecn::{
    AccurateEcn, EcnBytes, FIRST_PACKETS, Order, WHOLE_OPTION, ace_flags,
};
use crate::tcp::segment::Header;
use crate::tcp::{Flags, SackBlocks};

/// The counters of the receiver.
#[derive(Clone, Debug)]
pub(super) struct Accurate {
    /// r.cep: packets that arrived marked, from 5 on.
    packets: u32,
    /// r.e0b, r.ceb and r.e1b.
    bytes: EcnBytes,
    /// ACE on the handshake's third segment, until it is sent.
    third: Option<Flags>,
    /// Marked packets that no acknowledgement has reported.
    unreported: u32,
    /// Whether the latest packet was marked.
    marked: bool,
    /// Whether a byte counter has changed since the last option.
    changed: bool,
    order: Order,
}

impl Accurate {
    pub(super) fn new(third: Option<Flags>, marks: u32) -> Self {
        Self {
            packets: FIRST_PACKETS + marks,
            bytes: EcnBytes::INITIAL,
            third,
            unreported: 0,
            marked: false,
            changed: false,
            order: Order::Zero,
        }
    }

    /// Returns the ACE field of a segment (3.2.2), and notes that it is sent. `third`: it is the
    /// handshake's third segment (3.2.2.1).
    pub(super) fn ace(&mut self, third: bool) -> Flags {
        self.unreported = 0;
        let code = self.third.take().filter(|_| third);
        code.unwrap_or(ace_flags(self.packets))
    }
}

impl Accurate {
    /// Counts a packet that has arrived. Returns whether to report it at once (3.2.2.5.1). `owes`:
    /// it carries data, or other data wait for an acknowledgement.
    pub(super) fn count(&mut self, header: &Header, owes: bool) -> bool {
        let len = u32::from(header.len);
        let bytes = &mut self.bytes;
        match header.ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => bytes.ect0 = bytes.ect0.wrapping_add(len),
            Ecn::Ect1 => {
                bytes.ect1 = bytes.ect1.wrapping_add(len);
                self.order = Order::One;
            }
            Ecn::Ce => {
                bytes.ce = bytes.ce.wrapping_add(len);
                self.packets = self.packets.wrapping_add(1);
                self.unreported += 1;
            }
        }
        self.changed |= len > 0 && header.ecn != Ecn::NotEct;
        let marked = header.ecn == Ecn::Ce;
        let changes = marked != self.marked && len > 0;
        let most = if owes { MARKS_WITH_DATA } else { MARKS_WITHOUT_DATA };
        self.marked = marked;
        changes || self.unreported >= most
    }

    /// Returns the AccECN option of a segment with these SACK blocks, of which it takes one away if
    /// there is no room and a byte counter has changed. `stamps`: it has timestamps.
    pub(super) fn option(&mut self, sack: &mut SackBlocks, stamps: bool) -> Option<AccurateEcn> {
        let stamps = if stamps { 12 } else { 0 };
        let room = |blocks: usize| {
            let sack = if blocks == 0 { 0 } else { 4 + 8 * blocks };
            MOST_OPTIONS - stamps - sack
        };
        if room(sack.len()) < SMALLEST_USEFUL {
            if !self.changed {
                return None;
            }
            sack.pop();
        }
        let whole = room(sack.len()) >= usize::from(WHOLE_OPTION);
        let fields = if whole { AccurateEcn::MOST_FIELDS } else { 2 };
        self.changed = false;
        Some(AccurateEcn::new(self.order, self.bytes, fields))
    }
}

/// n of 3.2.2.5.1: this many marked packets are reported at once while data wait for an
/// acknowledgement ...
const MARKS_WITH_DATA: u32 = 2;
/// ... or not.
const MARKS_WITHOUT_DATA: u32 = 3;
/// The room for options in a TCP header, in bytes.
const MOST_OPTIONS: usize = 40;
/// The length of an option with two fields, in bytes.
const SMALLEST_USEFUL: usize = 8;
