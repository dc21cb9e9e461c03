//! What a receiver reports beyond RFC 3168, on every segment: Accurate ECN, or DCTCP's state of
//! marks. Both also choose the ECN field of every segment.
//!
//! With both, Accurate ECN reports the marks, and DCTCP still hurries acknowledgements.

use narrows_units::Ecn;

use super::accurate::Accurate;
use super::dctcp::Dctcp;
use crate::tcp::{Flags, Seq};

/// A receiver's feedback beyond RFC 3168.
#[derive(Clone, Debug)]
pub(super) struct Feedback {
    /// The ECN field of every segment after the handshake.
    pub(super) ect: Ecn,
    /// RFC 9768.
    pub(super) accurate: Option<Accurate>,
    /// RFC 8257.
    pub(super) dctcp: Option<Dctcp>,
}

/// A bit of `Receiver::echo`: segments carry ECE (RFC 3168).
pub(super) const ECHO: u8 = 1;
/// A bit of `Receiver::echo`: [`Feedback`] has something to say on every segment.
pub(super) const FEEDBACK: u8 = 2;

/// What a segment says of ECN, and what it acknowledges. It fits into a register, because most
/// segments say nothing special.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    /// The ECN field of the IP header.
    pub(crate) ecn: Ecn,
}
