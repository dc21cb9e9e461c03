//! The receiver of DCTCP: ECE says whether the latest data were marked.
//!
//! With Accurate ECN, ACE and its option report the marks instead, and the acknowledgements are the same.
//!
//! Source: RFC 8257, 3.2 and its figure 1. When the state changes while an acknowledgement is
//! delayed, that acknowledgement is sent at once with the old state. The segment that changed the
//! state is acknowledged at once, too, as Linux 6.12 does. CWR does not change the state, but as in
//! Linux, data with CWR are acknowledged at once.

use crate::tcp::Seq;

/// The state of the receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Dctcp {
    /// DCTCP.CE.
    marked: bool,
    /// An acknowledgement with the old state that has to be sent before all others.
    earlier: Option<Earlier>,
}

/// An acknowledgement of what had arrived before the state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    /// Its acknowledgement number.
    pub(super) next: Seq,
    /// Whether it carries ECE.
    pub(super) marked: bool,
}

impl Dctcp {
    /// Returns the acknowledgement that has to be sent before all others, and forgets it.
    pub(super) fn take_earlier(&mut self) -> Option<Earlier> {
        self.earlier.take()
    }

    /// Notes whether data were marked. Returns `None` if that is as before, and otherwise whether an
    /// acknowledgement with the old state has to go first: data before `next`, the first byte of the
    /// new ones, wait for one (`waits`).
    pub(super) fn note(&mut self, marked: bool, next: Seq, waits: bool) -> Option<bool> {
        let before = core::mem::replace(&mut self.marked, marked);
        if before == marked {
            return None;
        }
        let first = waits && self.earlier.is_none();
        if first {
            self.earlier = Some(Earlier { next, marked: before });
        }
        Some(first)
    }
}
