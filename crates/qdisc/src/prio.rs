//! Strict priority: bands with a discipline each, the first band served first.
//!
//! Source: Linux 6.1, `net/sched/sch_prio.c`; tc-prio(8).
//!
//! Differences from the source:
//!
//! - Only filters choose the band; there is no map from the type of service. In Linux, bands are
//!   numbered and filters point at them. Here each band has its filters, tried in order of the
//!   bands.
//! - Packets that no filter matches go to the last band.
//! - A band can have any discipline from the start; Linux begins with FIFOs.
//! - There may be more than 16 bands.
//!
//! As in Linux, every band above the one that sends is asked first, and so learns that it is idle.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use narrows_units::{Rate, Time};

use crate::disciplines::inner_seed;
use crate::filter::{Filter, MOST_ENTRIES, check_entries, classify, entry, inner};
use crate::settings::{Settings, entries, settings};
use crate::{
    Ack, AnyConfig, AnyQdisc, Backlog, ConfigError, Counters, Discipline, Dropped, Levels, Packet,
    Qdisc, Verdict, assert_possible,
};

settings! {
    /// Strict priority with filters: the first band that has a packet sends (tc-prio(8)).
    pub struct Config {
        /// The bands, in the order in which they are served.
        bands: Vec<Band> = vec![Band { name: "all".into(), ..Band::default() }], entries(1, MOST_ENTRIES).required();
    }
}

entry! {
    /// A band of `prio`.
    pub struct Band {}
}

impl Settings for Band {}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        check_entries("bands", &self.bands)
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "Priority";
    const READS_PORTS: bool = true;
    type Queue<P> = Prio<P>;

    fn build<P: Packet>(&self, seed: u64) -> Prio<P> {
        Prio::new(self, seed)
    }

    /// The bands have levels of their own.
    fn levels(&self) -> Levels {
        Levels::default().in_several_lines()
    }

    fn settled(self, rate: Rate) -> Self {
        let settled = |band: Band| Band { queue: band.queue.settled(rate), ..band };
        Self { bands: self.bands.into_iter().map(settled).collect() }
    }

    fn classes(&self) -> Vec<String> {
        self.bands.iter().map(|entry| entry.name.clone()).collect()
    }

    fn class_of<P: Packet>(&self, packet: &P) -> usize {
        classify(packet, self.bands.iter().map(|entry| entry.filters.as_slice()))
    }

    fn inner(&self) -> Vec<(String, &AnyConfig)> {
        inner("bands", &self.bands)
    }

    fn reads_hosts(&self) -> bool {
        true
    }

    fn inner_mut(&mut self) -> Vec<&mut AnyConfig> {
        self.bands.iter_mut().map(|entry| &mut entry.queue).collect()
    }
}

/// Bands that are served by strict priority.
#[derive(Debug)]
pub struct Prio<P> {
    bands: Vec<(Vec<Filter>, AnyQdisc<P>)>,
}

impl<P: Packet> Prio<P> {
    /// Creates empty bands. Their random numbers follow from `seed`.
    ///
    /// # Panics
    ///
    /// Panics if [`Config::check`] refuses the settings.
    pub fn new(config: &Config, seed: u64) -> Self {
        assert_possible(config.check());
        let bands = config.bands.iter().enumerate();
        let bands = bands
            .map(|(index, band)| (band.filters.clone(), band.queue.build(inner_seed(seed, index))));
        Self { bands: bands.collect() }
    }

    /// Returns the disciplines of the bands, in order.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = &AnyQdisc<P>> {
        self.bands.iter().map(|(_, queue)| queue)
    }
}

impl<P: Packet> Qdisc<P> for Prio<P> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: P, dropped: &mut Dropped<P>) -> Verdict {
        let band = classify(&packet, self.bands.iter().map(|(filters, _)| filters.as_slice()));
        self.bands[band].1.enqueue(now, packet, dropped)
    }

    fn announce(&mut self, ack: Option<&Ack>) {
        self.bands.iter_mut().for_each(|(_, queue)| queue.announce(ack));
    }

    /// `prio_dequeue`
    #[inline]
    fn dequeue(&mut self, now: Time, dropped: &mut Dropped<P>) -> Option<P> {
        self.bands.iter_mut().find_map(|(_, queue)| queue.dequeue(now, dropped))
    }

    fn ready_at(&self, now: Time) -> Option<Time> {
        self.queues().filter_map(|queue| queue.ready_at(now)).min()
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog::sum(self.queues().map(Qdisc::backlog))
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::ZERO;
        self.queues().for_each(|queue| sum.add(&queue.counters()));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes;
    use crate::codel;
    use crate::fifo::PfifoConfig;
    use crate::fq_codel;
    use crate::laws;
    use crate::red;
    use crate::traffic::TestPacket;
    use crate::{DropReason, Protocol};
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;

    fn pfifo(limit: u32) -> AnyConfig {
        AnyConfig::Pfifo(PfifoConfig { limit })
    }

    fn band(name: &str, filter: Option<Filter>, queue: AnyConfig) -> Band {
        Band { name: name.into(), filters: filter.into_iter().collect(), queue }
    }

    fn port(port: u16) -> Option<Filter> {
        Some(Filter { port: Some(port), ..Filter::default() })
    }

    fn dns_first() -> Config {
        Config { bands: vec![band("dns", port(53), pfifo(5)), band("rest", None, pfifo(10))] }
    }

    fn to(port: u16, number: u64) -> TestPacket {
        TestPacket { ports: (1, port), number, ..TestPacket::default() }
    }

    #[test]
    fn it_obeys_the_laws_with_any_disciplines() {
        laws::check(|| Prio::new(&dns_first(), 1));
        let red = red::linux::Config { ecn: true, ..red::linux::Config::default() };
        let tcp = Some(Filter { protocol: Some(Protocol::Tcp), ..Filter::default() });
        let codel = codel::Config { ecn: true, ..codel::Config::default() };
        let config = Config {
            bands: vec![
                band("dns", port(53), AnyConfig::Red(red)),
                band("nested", tcp, AnyConfig::Prio(dns_first())),
                band("codel", port(80), AnyConfig::Codel(codel)),
                band("rest", None, AnyConfig::FqCodel(fq_codel::Config::default())),
            ],
        };
        laws::check(|| Prio::new(&config, 1));
    }

    #[test]
    fn it_obeys_the_laws_of_shaping_over_classes() {
        let class = classes::Class {
            name: "slow".into(),
            filters: Vec::new(),
            rate: narrows_units::Rate::from_bps(1_000_000),
            burst: Some(narrows_units::Bytes::new(3_000)),
            queue: pfifo(10),
        };
        let slow = AnyConfig::Classes(classes::Config { classes: vec![class] });
        let config =
            Config { bands: vec![band("dns", port(53), slow), band("rest", None, pfifo(10))] };
        laws::check_shaping(|| Prio::new(&config, 1));
    }

    #[test]
    fn the_first_band_goes_first() {
        let mut queue = Prio::new(&dns_first(), 1);
        let mut dropped = Vec::new();
        for (number, port) in [80, 80, 53, 80, 53].into_iter().enumerate() {
            queue.enqueue(Time::ZERO, to(port, number as u64), &mut dropped);
        }
        let order: Vec<u64> = core::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut dropped))
            .map(|packet| packet.number)
            .collect();
        assert_eq!(order, [2, 4, 0, 1, 3]);
    }

    #[test]
    fn each_band_has_its_own_limit_and_counters_add_up() {
        let mut queue = Prio::new(&dns_first(), 1);
        let mut dropped = Vec::new();
        for number in 0..20 {
            queue.enqueue(Time::ZERO, to(80, number), &mut dropped);
        }
        assert_eq!(queue.enqueue(Time::ZERO, to(53, 20), &mut dropped), Verdict::Queued);
        assert_eq!((dropped.len(), queue.backlog().packets), (10, 11));
        let per_band: Vec<u64> =
            queue.queues().map(|queue| queue.counters().dropped(DropReason::Overflow)).collect();
        assert_eq!(per_band, [0, 10]);
        assert_eq!(queue.counters().dropped_overflow, 10);
        assert_eq!(queue.counters().arrived_packets, 21);
    }

    #[test]
    fn errors_name_the_band() {
        let mut config = dns_first();
        config.bands[1].queue = pfifo(0);
        let error = config.check().expect_err("a limit of zero");
        assert_eq!(error.to_string(), "bands[1].queue.limit: must be above zero");
        config.bands[1] = band("nested", None, AnyConfig::Prio(Config { bands: Vec::new() }));
        let error = config.check().expect_err("no bands");
        assert_eq!(error.key(), "bands[1].queue.bands");
    }

    #[test]
    fn bands_can_be_told_apart_and_reached() {
        let refused = |bands: Vec<Band>| {
            let error = Config { bands }.check().expect_err("no such bands");
            (error.key().to_owned(), error.what().to_owned())
        };
        let twice = vec![band("a", port(53), pfifo(5)), band("a", None, pfifo(5))];
        assert_eq!(refused(twice), ("bands[1].name".into(), "\"a\" is taken".into()));
        let unreachable = vec![band("a", None, pfifo(5)), band("b", port(53), pfifo(5))];
        let (key, what) = refused(unreachable);
        assert_eq!(key, "bands[0].match");
        assert_eq!(what, "is missing, so that nothing comes here");
        let mut deep = pfifo(5);
        for _ in 0..3 {
            deep = AnyConfig::Prio(Config { bands: vec![band("a", None, deep)] });
        }
        let (key, what) = refused(vec![band("a", None, deep)]);
        assert_eq!(key, "bands[0]");
        assert_eq!(what, "has disciplines inside each other more than 4 deep");
    }
}
