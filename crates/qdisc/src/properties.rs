//! What a discipline says about itself: its properties, and what plots show beside its queue.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Rate, Span};

use crate::settings::Declared;
use crate::{AnyConfig, ConfigError, Packet};

/// The properties of a discipline, attached to its settings.
pub trait Discipline: Declared {
    /// Its name in titles, such as `FQ-CoDel`.
    const LABEL: &'static str;
    /// Whether it wants to know when it becomes idle: it is then asked for a packet when none is
    /// left, and again if it refused one while none waits. Matters only to callers that compute
    /// departures.
    const NOTICES_IDLENESS: bool = true;
    /// Whether it looks at a packet's [ports](Packet::ports).
    const READS_PORTS: bool = false;

    /// The discipline.
    type Queue<P>;

    /// Creates an empty queue with these settings. Its random numbers follow from `seed`.
    fn build<P: Packet>(&self, seed: u64) -> Self::Queue<P>;

    /// Returns what a plot shows beside the queue.
    fn levels(&self) -> Levels;

    /// Returns the settings after filling in each open value that follows from other settings, or
    /// from the rate at which the queue is served.
    #[must_use]
    fn settled(self, _rate: Rate) -> Self {
        self
    }

    /// Returns whether it, or a discipline inside it, wants to know what segments acknowledge
    /// ([`Qdisc::announce`](crate::Qdisc::announce)).
    fn reads_acks(&self) -> bool {
        self.inner().iter().any(|(_, inner)| inner.reads_acks())
    }

    /// Returns whether it, or a discipline inside it, looks at a packet's [hosts](Packet::hosts) or
    /// [code point](Packet::dscp).
    fn reads_hosts(&self) -> bool {
        self.inner().iter().any(|(_, inner)| inner.reads_hosts())
    }

    /// Returns how many queues of its own it holds from the start.
    fn held(&self) -> u64 {
        0
    }

    /// Returns the names of its classes: bands, tins, or the queues for L4S and for others. Empty: it
    /// has none.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the class of a packet that arrives, an index of [`Discipline::classes`].
    fn class_of<P: Packet>(&self, _packet: &P) -> usize {
        0
    }

    /// Returns the disciplines inside it, each with the path to its key.
    fn inner(&self) -> Vec<(String, &AnyConfig)> {
        Vec::new()
    }

    /// Returns the same disciplines, to be changed.
    fn inner_mut(&mut self) -> Vec<&mut AnyConfig> {
        Vec::new()
    }
}

/// What a plot shows beside a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels {
    /// Whether the backlog is counted in packets, not in bytes.
    pub in_packets: bool,
    /// Backlogs at which the queue changes its behaviour, in that unit.
    pub backlogs: Vec<(&'static str, f64)>,
    /// The waiting time that it aims at.
    pub target: Option<Span>,
    /// Whether packets wait in several lines, so that their waiting times differ.
    pub several_lines: bool,
}

impl Levels {
    /// Describes a limit in packets.
    pub fn packets(limit: impl Into<u64>) -> Self {
        let backlogs = vec![("limit", limit.into() as f64)];
        Self { in_packets: true, backlogs, ..Self::default() }
    }

    /// Adds that packets wait in several lines.
    #[must_use]
    pub fn in_several_lines(self) -> Self {
        Self { several_lines: true, ..self }
    }

    /// Describes a target waiting time. The limit is far above the backlog that it leads to.
    pub fn target(target: Span) -> Self {
        Self { target: Some(target), ..Self::default() }
    }
}

/// Panics if a discipline is made with settings that their check refuses.
pub(crate) fn assert_possible(checked: Result<(), ConfigError>) {
    if let Err(error) = checked {
        panic!("settings that check() refuses: {error}");
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Bytes;

    use super::*;
    use crate::drr::{plain, qsdrr, tdrr};
    use crate::fifo::{BfifoConfig, PfifoConfig};
    use crate::{blue, cake, codel, dualpi2, fq, fq_codel, fq_pie, pie, prio, red, sfq};

    #[test]
    fn plots_show_the_limit_or_the_target() {
        let target = Span::from_ms(7);
        let levels: Vec<Levels> = [
            AnyConfig::from(PfifoConfig { limit: 7 }),
            AnyConfig::from(BfifoConfig { limit: Bytes::new(7) }),
            AnyConfig::from(blue::Config { limit: 7, ..Default::default() }),
            AnyConfig::from(plain::Config { limit: 7, ..Default::default() }),
            AnyConfig::from(qsdrr::Config { limit: 7, ..Default::default() }),
            AnyConfig::from(tdrr::Config { limit: 7, ..Default::default() }),
            AnyConfig::from(sfq::Config { limit: 7, ..Default::default() }),
            AnyConfig::from(fq::Config { limit: 7, ..Default::default() }),
            AnyConfig::from(codel::Config { target, ..Default::default() }),
            AnyConfig::from(pie::Config { target, ..Default::default() }),
            AnyConfig::from(fq_codel::Config { target, ..Default::default() }),
            AnyConfig::from(fq_pie::Config { target, ..Default::default() }),
            AnyConfig::from(dualpi2::Config { target, ..Default::default() }),
            AnyConfig::from(cake::Config { rtt: Span::from_ms(140), ..Default::default() }),
            AnyConfig::from(prio::Config { bands: Vec::new() }),
        ]
        .map(|config| config.levels())
        .into();
        let bytes = Levels { backlogs: vec![("limit", 7.0)], ..Levels::default() };
        let packets = Levels { in_packets: true, ..bytes.clone() };
        let flows = Levels { several_lines: true, ..packets.clone() };
        let waits = Levels { target: Some(target), ..Levels::default() };
        assert_eq!(levels[..3], [packets.clone(), bytes, packets]);
        assert_eq!(levels[3..8], vec![flows; 5]);
        assert_eq!(levels[8..10], [waits.clone(), waits.clone()]);
        assert_eq!(levels[10..14], vec![Levels { several_lines: true, ..waits }; 4]);
        assert_eq!(levels[14], Levels { several_lines: true, ..Levels::default() });
    }

    #[test]
    fn plots_show_reds_thresholds() {
        let packets = red::classic::Config {
            min: 5.0,
            max: 15.0,
            limit: 60,
            unit: red::classic::Unit::Packets,
            ..Default::default()
        };
        let backlogs = vec![("min", 5.0), ("max", 15.0), ("limit", 60.0)];
        let expected = Levels { in_packets: true, backlogs, ..Levels::default() };
        assert_eq!(packets.levels(), expected);
        let octets = red::classic::Config { unit: red::classic::Unit::Bytes, ..packets };
        assert_eq!(octets.levels(), Levels { in_packets: false, ..expected });
        // tc-red(8): max is limit / 4, and min is max / 3.
        let linux = red::linux::Config { limit: Bytes::new(1200), ..Default::default() };
        let backlogs = vec![("min", 100.0), ("max", 300.0), ("limit", 1200.0)];
        assert_eq!(linux.levels(), Levels { backlogs, ..Levels::default() });
    }
}
