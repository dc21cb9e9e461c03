//! The settings of a TCP endpoint, with one field for each choice that an implementation makes.
//!
//! The named profiles (`linux-6`, `legacy`, `linux-2.6.30`, `ns-2`) are values of this struct; see
//! [`Config::profile`]. Field names follow the sysctl or the RFC.

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
    /// The largest payload of a segment without options, which the SYN offers (RFC 9293, 3.7.1).
    /// With timestamps, each data segment carries 12 bytes less.
    pub mss: u16,
    /// The initial window in segments (RFC 6928: 10; RFC 3390: 3 for an MSS of 1460).
    pub initial_window: u32,
    /// The initial slow-start threshold in segments; `None`: unbounded.
    pub initial_ssthresh: Option<u32>,
    /// Congestion control.
    pub congestion: Congestion,
    /// Whether HyStart leaves slow start before the first loss (RFC 9406; CUBIC in Linux). CUBIC
    /// only.
    pub hystart: bool,
    /// Loss recovery.
    pub recovery: Recovery,
    /// How the window shrinks during recovery.
    pub reduction: Reduction,
    /// RACK (RFC 8985): loss detection by time, with Linux's adaptive reordering window.
    pub rack: bool,
    /// Tail loss probe (RFC 8985, section 7).
    pub tlp: bool,
    /// F-RTO (RFC 5682): detection of spurious timeouts.
    pub frto: bool,
    /// Undo of reductions that D-SACK or timestamps (RFC 3522) show to be needless.
    pub undo: bool,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Whether SACK is offered (RFC 2018).
    pub sack: bool,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: bool,
    /// Whether window scaling is offered (RFC 7323).
    pub window_scaling: bool,
    /// The largest window that is advertised, in bytes (Linux: half of `tcp_rmem[2]`).
    pub receive_buffer: Bytes,
    /// Whether the window starts at 64 KB and grows with what the application reads, and data out
    /// of order make it smaller, as in Linux. `false`: it is always `receive_buffer`.
    pub receive_autotuning: bool,
    /// When acknowledgements are sent.
    pub acks: AckPolicy,
    /// Nagle's algorithm (RFC 9293, 3.7.4, with Minshall's change as in Linux); `false` is
    /// TCP_NODELAY.
    pub nagle: bool,
    /// Whether ECN is negotiated (RFC 3168).
    pub ecn: bool,
    /// Packets besides new data that may be marked rather than dropped.
    pub ecn_control: EcnControl,
    /// The reaction to an ECN echo.
    pub ecn_response: EcnResponse,
    /// The retransmission timeout before the first measurement (RFC 6298: 1 s).
    pub initial_rto: Span,
    /// The lower bound of the retransmission timeout (Linux: 200 ms; RFC 6298: 1 s).
    pub min_rto: Span,
    /// The upper bound of the retransmission timeout (Linux: 120 s).
    pub max_rto: Span,
    /// The granularity of the retransmission timer (ns-2: 10 ms ticks; Linux: a jiffy).
    pub timer_granularity: Span,
    /// How the end of a timer is rounded to that granularity.
    pub timer_rounding: TimerRounding,
    /// What happens to the window after an idle time.
    pub restart_after_idle: RestartAfterIdle,
    /// How often one segment is retransmitted by timeout before the connection is given up (Linux:
    /// 15).
    pub max_retries: u8,
    /// How many repetitions of a SYN leave its timeout as it is; each later one doubles it
    /// (`tcp_syn_linear_timeouts`: 4 in Linux since 6.5; 0 gives the behaviour of earlier kernels).
    /// The connection is given up after this many more repetitions than with 0, or at the first
    /// timeout after the time that it takes with 0 (127 s by default). SYN-ACKs are not affected.
    #[cfg_attr(feature = "serde", serde(default))]
    pub syn_linear_timeouts: u8,
    /// Whether a connection starts established, without SYN and FIN (ns-2's one-way agents).
    pub skip_handshake: bool,
    /// TCP Fast Open (RFC 7413): an end that opens connections asks for cookies and sends its first
    /// data in the SYN; an end that listens gives cookies and accepts such data.
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
    /// One from outside this crate. It cannot appear in a written plan.
    #[cfg_attr(feature = "serde", serde(skip))]
    Custom(super::Custom),
}

/// How lost segments are found and retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Recovery {
    /// The third duplicate restarts from a window of one segment, as a timeout does; there is no
    /// fast recovery (Jacobson 1988; Fall and Floyd 1996, section 2; ns-2's `Agent/TCP`).
    Tahoe,
    /// Fast recovery ends with the first new acknowledgement (RFC 2581).
    Reno,
    /// Fast recovery continues at partial acknowledgements (RFC 6582).
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
    /// Linux: quick acknowledgements at the start and after trouble, adaptive delay of 40 to 200
    /// ms.
    Linux,
    /// Linux before 3.7: the same, except that a mark (CE) or CWR triggers no quick
    /// acknowledgement. This matters for tiny windows, whose sender waits for every
    /// acknowledgement.
    #[cfg_attr(feature = "serde", serde(rename = "linux-2.6"))]
    Linux26,
}

/// The reaction to an ECN echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EcnResponse {
    /// The same as to a loss (RFC 3168, 6.1.2).
    AsLoss,
    /// Alternative backoff (RFC 8511): a factor of 0.8 for Reno, 0.85 for CUBIC.
    Abe,
}

/// Packets besides new data that are ECN-capable (RFC 8311, section 4.3, allows such experiments).
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
    /// The SYN-ACK (RFC 5562). A marked one is repeated without ECT.
    SynAck,
    /// SYN, SYN-ACK, FIN and retransmissions (ECN++: draft-ietf-tcpm-generalized-ecn).
    PlusPlus,
}

/// When a timer fires whose duration is a number of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TimerRounding {
    /// Exactly that long after it was armed (ns-2).
    Exact,
    /// At a tick of the host's clock, counted from the tick in which it was armed (Linux before
    /// 4.8).
    Jiffy,
    /// At the next slot of the timer wheel: one tick later, and coarser for long timers (Linux
    /// since 4.8).
    Wheel,
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
    /// It is halved for every RTO of idle time, but not below the restart window (RFC 2861, Linux).
    Decay,
    /// It returns to the initial window (RFC 5681, 4.1); ssthresh stays.
    SlowStart,
    /// It returns to the initial window, with a new slow start and an unbounded threshold, whenever
    /// data is written with nothing in flight, however short the silence. Every burst starts as on
    /// a new connection.
    Fresh,
}
