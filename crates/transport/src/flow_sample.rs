//! What the sender of a connection knows about its window and its path at one time.

use narrows_units::{Rate, Span};

/// A sender's state, the same for TCP and QUIC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSample {
    /// The congestion window in bytes. TCP counts payload: its window in segments, times `segment`.
    /// QUIC counts whole packets.
    pub cwnd: u64,
    /// The slow-start threshold in the same bytes; `None`: it is unbounded.
    pub ssthresh: Option<u64>,
    /// The bytes of a full segment (TCP: the payload) or datagram (QUIC: the UDP payload).
    pub segment: u32,
    /// The smoothed round trip; `None` before the first measurement.
    pub srtt: Option<Span>,
    /// The shortest round trip; `None` before the first measurement.
    pub min_rtt: Option<Span>,
    /// The rate to which the sender spreads its packets, or for TCP that does not, the rate that
    /// Linux computes all the same; `None`: unknown, or there is no pacing.
    pub pacing_rate: Option<Rate>,
    /// The bytes in flight, counted as in `cwnd`. What is known to have arrived or to be lost does
    /// not count.
    pub in_flight: u64,
    /// The segments that were sent again (TCP), or the packets whose frames had to be (QUIC), since
    /// the start.
    pub retransmissions: u64,
    /// What the congestion control does: [`SLOW_START`], [`CONSERVATIVE`], [`AVOIDANCE`],
    /// [`RECOVERY`], [`LOSS`], [`CWR`], or a word of the control's own.
    pub state: &'static str,
    /// DCTCP.Alpha (RFC 8257, 3.3), or Prague's: the share of packets, 0 to 1, that the control takes
    /// to be marked; `None`: the control has none.
    pub alpha: Option<f64>,
}

/// The window grows by what is acknowledged.
pub const SLOW_START: &str = "slow-start";
/// The window grows by a quarter of it (HyStart++, RFC 9406).
pub const CONSERVATIVE: &str = "conservative-slow-start";
/// The window grows as the control says.
pub const AVOIDANCE: &str = "avoidance";
/// Losses are being repaired, and the window has fallen.
pub const RECOVERY: &str = "recovery";
/// A timeout has ended, and what was in flight is sent again.
pub const LOSS: &str = "loss";
/// The window falls because of an ECN mark (congestion window reduced).
pub const CWR: &str = "cwr";
