//! RED as in the paper of 1993.

use narrows_units::Rate;

/// Settings of [`Red`], as the paper and ns-2 name them.
///
/// `limit`, `min` and `max` are counted in `unit`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Config {
    /// What the queue and its average are counted in.
    pub unit: Unit,
    /// What may wait, whatever the average.
    pub limit: u64,
    /// Average queue from which packets are marked at random (`minthresh`).
    pub min: f64,
    /// Average queue from which every packet is marked (`maxthresh`).
    pub max: f64,
    /// Weight of a new sample in the average (`wq`).
    pub weight: f64,
    /// Marking probability where the average reaches `max` (`maxp`).
    pub max_p: f64,
    /// Above `max` the probability rises to 1 at twice `max`, instead of at once.
    pub gentle: bool,
    /// Waits between drops until 1/p packets have passed at least (ns-2's `wait_`).
    pub wait: bool,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Marks also above the upper threshold; ns-2's default and RFC 3168's advice is to drop there.
    pub mark_above_max: bool,
    /// The link's rate, from which the average decays while the queue is idle.
    pub bandwidth: Rate,
}

/// What the queue and its average are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes; a packet is then marked in proportion to its size.
    Bytes {
        /// The size at which a packet is marked with the stated probability.
        mean_packet: u32,
    },
}
