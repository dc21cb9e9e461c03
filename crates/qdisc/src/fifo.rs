//! First in, first out, with tail drop: counted in packets (`pfifo`) or in bytes (`bfifo`).
//!
//! Source: Linux 6.1, `net/sched/sch_fifo.c`; tc-pfifo(8), tc-bfifo(8).

use narrows_units::Bytes;

/// Settings of [`Pfifo`], as tc-pfifo(8) names them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct PfifoConfig {
    /// Packets that may wait; above zero.
    pub limit: u32,
}

/// Settings of [`Bfifo`], as tc-bfifo(8) names them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct BfifoConfig {
    /// Bytes that may wait; above zero. A packet is admitted if the sum with it is at most this.
    pub limit: Bytes,
}
