//! What a TCP endpoint is told: one field for each choice that an implementation makes.
//!
//! The named profiles (`linux-6`, `legacy`, `linux-2.6.30`, `ns-2`) are values of this struct;
//! see [`Config::profile`]. Field names are sysctl's or the RFC's.

use narrows_units::{Bytes, Span};

/// An endpoint's settings.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Config {
    /// Largest payload of a segment without options, offered in the SYN (RFC 9293, 3.7.1). With
    /// timestamps each data segment carries 12 bytes less.
    pub mss: u16,
    /// Initial window in segments (RFC 6928: 10; RFC 3390: 3 for an MSS of 1460).
    pub initial_window: u32,
    /// Initial slow-start threshold in segments; `None`: unbounded.
    pub initial_ssthresh: Option<u32>,
    /// Congestion control.
    pub congestion: Congestion,
    /// HyStart leaves slow start before the first loss (RFC 9406; CUBIC in Linux). CUBIC only.
    pub hystart: bool,
    /// Loss recovery.
    pub recovery: Recovery,
    /// How the window shrinks in recovery.
    pub reduction: Reduction,
    /// RACK (RFC 8985): loss detection by time, with Linux's adaptive reordering window.
    pub rack: bool,
    /// Tail loss probe (RFC 8985, section 7).
    pub tlp: bool,
    /// F-RTO (RFC 5682): detection of spurious time-outs.
    pub frto: bool,
    /// Undo of reductions that D-SACK or timestamps (RFC 3522) show to be needless.
    pub undo: bool,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Offers SACK (RFC 2018).
    pub sack: bool,
    /// Offers timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offers window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Receive buffer: the largest window that is advertised.
    pub receive_buffer: Bytes,
    /// When acknowledgements are sent.
    pub acks: AckPolicy,
    /// Nagle's algorithm (RFC 9293, 3.7.4, with Minshall's change as in Linux); `false` is TCP_NODELAY.
    pub nagle: bool,
    /// Negotiates ECN (RFC 3168).
    pub ecn: bool,
    /// Which packets may be marked rather than dropped, beside new data.
    pub ecn_control: EcnControl,
    /// The answer to an ECN echo.
    pub ecn_response: EcnResponse,
    /// Retransmission time-out before the first measurement (RFC 6298: 1 s).
    pub initial_rto: Span,
    /// Lower bound of the retransmission time-out (Linux: 200 ms; RFC 6298: 1 s).
    pub min_rto: Span,
    /// Upper bound of the retransmission time-out (Linux: 120 s).
    pub max_rto: Span,
    /// Granularity of the retransmission timer (ns-2: 10 ms ticks; Linux: a jiffy).
    pub timer_granularity: Span,
    /// What happens to the window after an idle time.
    pub restart_after_idle: RestartAfterIdle,
    /// Retransmissions of one segment by time-out before the connection is given up (Linux: 15).
    pub max_retries: u8,
    /// A connection starts established, without SYN and FIN (ns-2's one-way agents).
    pub skip_handshake: bool,
    /// TCP Fast Open (RFC 7413): an end that opens connections asks for cookies and sends its first data
    /// in the SYN; one that listens gives cookies and takes such data.
    pub fast_open: bool,
}

/// Congestion control algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Congestion {
    /// RFC 5681.
    Reno,
    /// RFC 9438, as Linux does it.
    Cubic,
    /// One that is not ours; it has no form in a plan that is written down.
    #[cfg_attr(feature = "serde", serde(skip))]
    Custom(super::Custom),
}

/// How lost segments are found and sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Recovery {
    /// The third duplicate starts again from a window of one segment, as a time-out does; there is
    /// no fast recovery (Jacobson 1988; Fall and Floyd 1996, section 2; ns-2's `Agent/TCP`).
    Tahoe,
    /// Fast recovery ends with the first new acknowledgement (RFC 2581).
    Reno,
    /// Partial acknowledgements continue it (RFC 6582).
    NewReno,
    /// The scoreboard decides (RFC 6675, in Linux's form).
    Sack,
}

/// How the congestion window shrinks during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Reduction {
    /// Halved at once and inflated by duplicate ACKs (RFC 5681).
    AtOnce,
    /// One segment for every second acknowledgement (Linux before 3.2).
    RateHalving,
    /// Proportional rate reduction (RFC 6937, as Linux does it).
    Prr,
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AckPolicy {
    /// Every segment at once.
    EverySegment,
    /// Every second segment, or after the span (RFC 1122, 4.2.3.2).
    Delayed(Span),
    /// Linux: quick acknowledgements at the start and after trouble, adaptive delay of 40 to 200 ms.
    Linux,
    /// Linux before 3.7: the same, but a mark (CE) or CWR is no reason to hurry. It matters for tiny
    /// windows, whose sender waits for every acknowledgement.
    #[cfg_attr(feature = "serde", serde(rename = "linux-2.6"))]
    Linux26,
}

/// The answer to an ECN echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EcnResponse {
    /// As to a loss (RFC 3168, 6.1.2).
    AsLoss,
    /// Alternative backoff (RFC 8511): a factor of 0.8 for Reno, 0.85 for CUBIC.
    Abe,
}

/// Packets beside new data that are capable of ECN (RFC 8311, section 4.3, lets experiments do so).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum EcnControl {
    /// None (RFC 3168).
    #[default]
    Data,
    /// The SYN-ACK (RFC 5562): a marked one is sent again without ECT.
    SynAck,
    /// SYN, SYN-ACK, FIN and retransmissions (ECN++: draft-ietf-tcpm-generalized-ecn).
    PlusPlus,
}

/// What happens to the congestion window after an idle time longer than the RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RestartAfterIdle {
    /// It stays.
    Keep,
    /// Halved for every RTO of idle time, not below the restart window (RFC 2861, Linux).
    Decay,
    /// Back to the initial window (RFC 5681, 4.1), ssthresh as it was.
    SlowStart,
    /// Back to the initial window, and a new slow start whose threshold is unbounded, whenever data
    /// is written with nothing in flight, however short the silence: every burst starts as on a new
    /// connection.
    Fresh,
}
