//! HyStart++ over QUIC (RFC 9406; RFC 9002, 7.3.1, allows it): the window counts bytes, and the numbers
//! of packets with application data mark the rounds.

use super::packets::Acknowledged;
use crate::congestion::{HystartPlusPlus, MOST_SEGMENTS};
use crate::quic::config::Config;
use crate::seq::Seq;

/// The state of a connection.
#[derive(Clone, Debug)]
pub(super) struct Gentle {
    hystart: HystartPlusPlus,
    /// The most bytes of an acknowledgement that count; without a limit if the end paces.
    most: u64,
    /// Those that still count of the current one.
    left: u64,
}

impl Gentle {
    /// Creates the state of a connection, if the settings ask for it.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let hystart = config.slow_start.state(Seq(0))?;
        let datagrams = if config.paces() { u64::MAX } else { MOST_SEGMENTS };
        let most = datagrams.saturating_mul(config.payload.into());
        Some(Self { hystart, most, left: most })
    }

    /// Returns whether slow start is in its slower phase.
    pub(super) fn is_conservative(&self) -> bool {
        self.hystart.is_conservative()
    }

    /// Begins with an acknowledgement.
    pub(super) fn begin_ack(&mut self) {
        self.left = self.most;
    }

    /// Returns by how many bytes the window grows for a packet of `bytes` that was acknowledged.
    pub(super) fn growth(&mut self, bytes: u64) -> u64 {
        let grown = self.hystart.growth(bytes, self.left);
        self.left = self.left.saturating_sub(bytes);
        grown
    }

    /// Ends with an acknowledgement in slow start. Returns whether slow start is over.
    pub(super) fn finish_ack(&mut self, ack: &Acknowledged) -> bool {
        let (Some(rtt), Some(largest)) = (ack.rtt, ack.largest) else { return false };
        let rtt_us = u32::try_from(rtt.as_us()).unwrap_or(u32::MAX);
        // A number is acknowledged as a byte is: the next one is awaited.
        self.hystart.on_round_trip(rtt_us, Seq(largest as u32 + 1), Seq(ack.next as u32))
    }

    /// Notes that a loss or a mark has ended slow start.
    pub(super) fn end(&mut self) {
        self.hystart.end();
    }
}
