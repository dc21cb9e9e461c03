//! Settings of any of our disciplines, as one type.

use crate::drr::mix;
use crate::{
    AnyQdisc, ConfigError, Packet, blue, classes, codel, drr, fifo, fq_codel, pie, prio, red, sfq,
};

/// Settings from which a discipline can be made, with its name.
///
/// To add a discipline: a variant with its `Config` here and a line in each function, and a variant
/// of [`AnyQdisc`]. One that decides everything at enqueue may run in the simulator's clock mode,
/// which is faster: a line in [`AnyConfig::decides_at_enqueue`], and a variant of `Queue` in the
/// simulator's `link/mod.rs`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AnyConfig {
    /// Tail drop counted in packets.
    Pfifo(fifo::PfifoConfig),
    /// Tail drop counted in bytes.
    Bfifo(fifo::BfifoConfig),
    /// RED as in the Linux kernel.
    Red(red::linux::Config),
    /// RED as in the paper of 1993.
    Red1993(red::classic::Config),
    /// CoDel.
    Codel(codel::Config),
    /// FQ-CoDel.
    FqCodel(fq_codel::Config),
    /// PIE.
    Pie(pie::Config),
    /// Blue.
    Blue(blue::Config),
    /// Deficit round robin with drops from the longest queue.
    Drr(drr::plain::Config),
    /// Deficit round robin with drops from the queue with the highest throughput.
    Tdrr(drr::tdrr::Config),
    /// Deficit round robin with drops from the same queue as before.
    Qsdrr(drr::qsdrr::Config),
    /// Stochastic fairness queueing.
    Sfq(sfq::Config),
    /// Bands by strict priority.
    Prio(prio::Config),
    /// Rate-limited classes.
    Classes(classes::Config),
}

impl AnyConfig {
    /// Whether every decision falls when a packet comes, so that what waits leaves in the order of
    /// arrival and at moments that the caller can compute ahead.
    pub const fn decides_at_enqueue(&self) -> bool {
        matches!(
            self,
            Self::Pfifo(_)
                | Self::Bfifo(_)
                | Self::Red(_)
                | Self::Red1993(_)
                | Self::Pie(_)
                | Self::Blue(_)
        )
    }

    /// Whether the discipline looks at a packet's [ports](Packet::ports).
    pub const fn reads_ports(&self) -> bool {
        matches!(self, Self::Prio(_) | Self::Classes(_))
    }

    /// Whether a queue can have these settings.
    ///
    /// # Errors
    ///
    /// The first setting that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Pfifo(config) => config.check(),
            Self::Bfifo(config) => config.check(),
            Self::Red(config) => config.check(),
            Self::Red1993(config) => config.check(),
            Self::Codel(config) => config.check(),
            Self::FqCodel(config) => config.check(),
            Self::Pie(config) => config.check(),
            Self::Blue(config) => config.check(),
            Self::Drr(config) => config.check(),
            Self::Tdrr(config) => config.check(),
            Self::Qsdrr(config) => config.check(),
            Self::Sfq(config) => config.check(),
            Self::Prio(config) => config.check(),
            Self::Classes(config) => config.check(),
        }
    }

    /// An empty queue with these settings, whose random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Where [`AnyConfig::check`] refuses the settings.
    pub fn build<P: Packet>(&self, seed: u64) -> AnyQdisc<P> {
        match self {
            Self::Pfifo(config) => fifo::Pfifo::new(config.clone()).into(),
            Self::Bfifo(config) => fifo::Bfifo::new(config.clone()).into(),
            Self::Red(config) => red::linux::Red::new(config.clone(), seed).into(),
            Self::Red1993(config) => red::classic::Red::new(config.clone(), seed).into(),
            Self::Codel(config) => codel::Codel::new(config).into(),
            Self::FqCodel(config) => fq_codel::FqCodel::new(config.clone(), seed).into(),
            Self::Pie(config) => pie::Pie::new(config, seed).into(),
            Self::Blue(config) => blue::Blue::new(config.clone(), seed).into(),
            Self::Drr(config) => drr::plain::Drr::new(config.clone(), seed).into(),
            Self::Tdrr(config) => drr::tdrr::Tdrr::new(config.clone(), seed).into(),
            Self::Qsdrr(config) => drr::qsdrr::Qsdrr::new(config.clone(), seed).into(),
            Self::Sfq(config) => sfq::Sfq::new(config.clone(), seed).into(),
            Self::Prio(config) => prio::Prio::new(config, seed).into(),
            Self::Classes(config) => classes::Classes::new(config, seed).into(),
        }
    }
}

/// The seed of the discipline in band `index` of one with `seed`.
pub(crate) const fn inner_seed(seed: u64, index: usize) -> u64 {
    mix(index as u64, seed)
}
