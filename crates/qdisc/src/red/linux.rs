//! RED as in the Linux kernel.

use narrows_units::{Bytes, Rate};

/// Settings of [`Red`], as tc-red(8) names them.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Config {
    /// Bytes that may wait, whatever the average.
    pub limit: Bytes,
    /// Average queue, in bytes, from which packets are marked at random.
    pub min: Bytes,
    /// Average queue, in bytes, from which every packet is marked.
    pub max: Bytes,
    /// Average packet size; with `burst` it sets the average's time constant.
    pub avpkt: Bytes,
    /// Packets of size `avpkt` that may arrive in one burst at an empty queue unharmed.
    pub burst: u32,
    /// Marking probability where the average reaches `max`.
    pub probability: f64,
    /// The link's rate, from which the average decays while the queue is idle.
    pub bandwidth: Rate,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Drops above `max` instead of marking, also with `ecn`.
    pub harddrop: bool,
    /// Queues, instead of dropping, packets that are not ECN-capable; needs `ecn`.
    pub nodrop: bool,
    /// Adapts `probability` every 500 ms, so that the average stays near the middle.
    pub adaptive: bool,
}
