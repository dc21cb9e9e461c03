//! Early Random Drop: above a level of the queue each packet that comes is dropped with a fixed
//! probability.
//!
//! Source: E. Hashem, "Analysis of random drop for gateway congestion control", MIT technical
//! report LCS/TR-465, 1989, as Floyd and Jacobson (1993, section 2) tell it.
//!
//! A test copies this file into a copy of the crate: it is all that a discipline takes.

use alloc::vec;

use narrows_units::Time;
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use crate::random::uniform;
use crate::settings::{MOST_PACKETS, Settings, any, probability, settings, whole};
use crate::storage::Storage;
use crate::{
    Backlog, ConfigError, Counters, Discipline, DropReason, Dropped, Levels, Packet, Qdisc, Verdict,
};

settings! {
    /// Early Random Drop (Hashem 1989).
    pub struct Config {
        /// Packets that may wait.
        limit: u32 = 100, whole(1, MOST_PACKETS);
        /// Packets from which on some are dropped; half of `limit` by default.
        level: Option<u32> = None, whole(1, MOST_PACKETS);
        /// Probability of a drop from there on.
        probability: f64 = 0.02, probability();
        /// Marks packets of ECN-capable transports instead of dropping them.
        ecn: bool = false, any();
    }
}

impl Config {
    fn level(&self) -> u32 {
        self.level.unwrap_or(self.limit.div_ceil(2))
    }
}

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        if self.level() <= self.limit {
            return Ok(());
        }
        Err(ConfigError::new("level", "is above limit").or("lower it"))
    }
}

impl Discipline for Config {
    const LABEL: &'static str = "Early Random Drop";
    type Queue<P> = EarlyDrop<P>;

    fn build<P: Packet>(&self, seed: u64) -> EarlyDrop<P> {
        EarlyDrop {
            config: self.clone(),
            random: Pcg32::seed_from_u64(seed),
            storage: Storage::new(),
            counters: Counters::default(),
        }
    }

    fn levels(&self) -> Levels {
        let backlogs = vec![("level", self.level().into()), ("limit", self.limit.into())];
        Levels { in_packets: true, backlogs, ..Levels::default() }
    }
}

/// Drops at random above a level.
#[derive(Clone, Debug)]
pub struct EarlyDrop<P> {
    config: Config,
    random: Pcg32,
    storage: Storage<P>,
    counters: Counters,
}

impl<P: Packet> Qdisc<P> for EarlyDrop<P> {
    fn enqueue(&mut self, _now: Time, mut packet: P, dropped: &mut Dropped<P>) -> Verdict {
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(packet.bytes());
        let waiting = self.storage.backlog().packets;
        let is_hit = waiting >= self.config.level()
            && uniform(&mut self.random) < self.config.probability;
        let fate = match (waiting >= self.config.limit, is_hit) {
            (true, _) => Some(DropReason::Overflow),
            (false, true) if self.config.ecn && packet.ecn().is_capable() => {
                packet.mark();
                self.counters.marked_early += 1;
                self.storage.push(packet);
                return Verdict::Marked;
            }
            (false, hit) => hit.then_some(DropReason::Early),
        };
        if let Some(reason) = fate {
            self.counters.on_drop(packet.bytes(), reason);
            dropped.push((packet, reason));
            return Verdict::Dropped;
        }
        self.storage.push(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, _now: Time, _dropped: &mut Dropped<P>) -> Option<P> {
        let packet = self.storage.pop()?;
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += u64::from(packet.bytes());
        Some(packet)
    }

    fn head(&self) -> Option<&P> {
        self.storage.head()
    }

    fn backlog(&self) -> Backlog {
        self.storage.backlog()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::{AnyConfig, laws};

    #[test]
    fn it_is_in_the_list_and_obeys_the_laws() {
        let listed = AnyConfig::LISTED.iter().find(|listed| listed.name == "early-drop");
        let config = (listed.expect("it has its line").default)();
        assert!(config.decides_at_enqueue());
        laws::check(|| config.build(1));
        let ecn = Config { limit: 20, level: Some(5), probability: 0.2, ecn: true };
        laws::check(|| ecn.build(1));
        let wrong = Config { level: Some(21), ..ecn }.check().expect_err("above limit");
        assert_eq!(wrong.to_string(), "level: is above limit; hint: lower it");
    }
}
