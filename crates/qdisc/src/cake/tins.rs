//! Tins: classes of packets by their DSCP, each with a share of the rate.

use narrows_units::{Pace, Rate, Span, Time};

use super::Config;
use super::cobalt::Params;
use super::flows::Chain;
use super::hash::Table;
use crate::settings::words;

words! {
    /// Which tins there are, and which code points belong to them.
    pub enum Tins {
        /// Best effort, bulk (CS1, LE) and voice (EF, VA, CS6, CS7, TOS4).
        Diffserv3 = "diffserv3",
        /// Best effort, bulk, video (CS2, CS3, AF2x to AF4x, TOS4) and voice (CS4 to CS7, VA, EF).
        Diffserv4 = "diffserv4",
        /// Eight, from background traffic (LE) to network control (CS6, CS7).
        Diffserv8 = "diffserv8",
        /// Eight, by the upper three bits (RFC 791).
        Precedence = "precedence",
        /// One for all packets.
        Besteffort = "besteffort",
    }
}

impl Tins {
    /// Returns the tin of each code point: `diffserv3[]` and its like.
    pub(super) fn map(self) -> [u8; 64] {
        core::array::from_fn(|dscp| self.of(dscp))
    }

    /// Returns the tin of a code point.
    pub(super) const fn of(self, dscp: usize) -> u8 {
        match self {
            Self::Besteffort => 0,
            Self::Precedence => dscp as u8 >> 3,
            Self::Diffserv3 => match dscp {
                LE | CS1 => 1,
                TOS4 | VA | EF | CS6 | CS7 => 2,
                _ => 0,
            },
            Self::Diffserv4 => match dscp {
                LE | CS1 => 1,
                VA | EF | CS4 | CS5 | CS6 | CS7 => 3,
                TOS4 | CS2 | CS3 => 2,
                _ if matches!(assured(dscp), Some(2..=4)) => 2,
                _ => 0,
            },
            Self::Diffserv8 => match dscp {
                LE => 0,
                TOS2 | CS1 => 1,
                CS3 => 3,
                TOS4 => 4,
                CS2 => 5,
                VA | EF | CS4 | CS5 => 6,
                CS6 | CS7 => 7,
                _ => match assured(dscp) {
                    Some(1) => 1,
                    Some(2) => 4,
                    Some(_) => 3,
                    None => 2,
                },
            },
        }
    }

    /// Returns the names of the tins, as tc shows them.
    pub(super) const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Besteffort => &[],
            Self::Diffserv3 => &["best-effort", "bulk", "voice"],
            Self::Diffserv4 => &["best-effort", "bulk", "video", "voice"],
            Self::Diffserv8 | Self::Precedence => {
                &["tin-0", "tin-1", "tin-2", "tin-3", "tin-4", "tin-5", "tin-6", "tin-7"]
            }
        }
    }

    /// Returns the number of tins.
    pub(super) const fn count(self) -> usize {
        match self {
            Self::Besteffort => 1,
            Self::Diffserv3 => 3,
            Self::Diffserv4 => 4,
            Self::Diffserv8 | Self::Precedence => 8,
        }
    }

    /// Returns, for each tin, the share of the rate that it may take before others, and the bytes
    /// of its turn when there is no rate.
    fn shares(self, rate: u64) -> ([u64; 8], [u32; 8]) {
        let mut rates = [rate; 8];
        let mut quanta = [1_024; 8];
        match self {
            Self::Besteffort => quanta[0] = 65_535,
            Self::Diffserv3 => {
                (rates[1], rates[2]) = (rate >> 4, rate >> 2);
                (quanta[1], quanta[2]) = (64, 256);
            }
            Self::Diffserv4 => {
                (rates[1], rates[2], rates[3]) = (rate >> 4, rate >> 1, rate >> 2);
                (quanta[1], quanta[2], quanta[3]) = (64, 512, 256);
            }
            Self::Diffserv8 | Self::Precedence => {
                quanta[0] = 256;
                for tin in 1..8 {
                    rates[tin] = rates[tin - 1] * 7 / 8;
                    quanta[tin] = quanta[tin - 1] * 7 / 8;
                }
            }
        }
        (rates, quanta)
    }
}

/// Returns the class of an Assured Forwarding code point: 2 for AF21 (RFC 2597, section 6).
const fn assured(dscp: usize) -> Option<usize> {
    match (dscp >> 3, dscp & 7) {
        (class @ 1..=4, 2 | 4 | 6) => Some(class),
        _ => None,
    }
}

// RFC 8622, RFC 2474 (4.2.2), RFC 5865, RFC 3246; TOS2 and TOS4 are bits of RFC 1349.
const LE: usize = 1;
const TOS2: usize = 2;
const TOS4: usize = 4;
const CS1: usize = 8;
const CS2: usize = 16;
const CS3: usize = 24;
const CS4: usize = 32;
const CS5: usize = 40;
const VA: usize = 44;
const EF: usize = 46;
const CS6: usize = 48;
const CS7: usize = 56;

/// A tin: `struct cake_tin_data`.
#[derive(Clone, Debug)]
pub(super) struct Tin {
    pub(super) params: Params,
    /// The bytes that a flow may send in its turn.
    pub(super) flow_quantum: u32,
    pace: Option<Pace>,
    /// When the tin has used its share of the rate.
    pub(super) due_at: Time,
    /// The bytes of its turn without a rate, and what is left of them.
    quantum: u32,
    pub(super) deficit: i64,
    /// The numbers of flows in each state; a flow that waits in the bulk rotation without packets
    /// counts as sparse.
    pub(super) sparse: u32,
    pub(super) bulk: u32,
    pub(super) packets: u32,
    pub(super) new: Chain,
    pub(super) old: Chain,
    pub(super) decaying: Chain,
    pub(super) table: Table,
}

impl Tin {
    /// Creates the tins of a queue with these settings.
    pub(super) fn all(config: &Config) -> alloc::vec::Vec<Self> {
        // Linux counts rates in bytes per second.
        let rate = config.rate.map_or(0, |rate| rate.as_bps() / 8);
        let (rates, quanta) = config.tins.shares(rate);
        let each = rates.into_iter().zip(quanta).take(config.tins.count());
        each.map(|(rate, quantum)| Self::new(config, rate, quantum)).collect()
    }

    /// `cake_set_rate`
    fn new(config: &Config, rate: u64, quantum: u32) -> Self {
        let rate = config.rate.and(Rate::from_bps(rate.max(LEAST_RATE) * 8));
        let bytes_per_s = rate.map_or(u64::MAX, |rate| rate.as_bps() / 8);
        let mtu_time = rate.map_or(Span::ZERO, |rate| rate.time_for(config.mtu));
        let usual = config.target();
        let target = usual.max(Span::from_ps(mtu_time.as_ps() / 2 * 3));
        let longer = config.rtt + target.saturating_sub(usual);
        let interval = longer.max(target + target);
        Self {
            params: Params::new(target, interval, mtu_time),
            flow_quantum: (bytes_per_s >> 12).clamp(300, 1_514) as u32,
            pace: rate.map(Rate::pace),
            due_at: Time::ZERO,
            quantum,
            deficit: 0,
            sparse: 0,
            bulk: 0,
            packets: 0,
            new: Chain::EMPTY,
            old: Chain::EMPTY,
            decaying: Chain::EMPTY,
            table: Table::new(config.isolation.hosts().is_some()),
        }
    }

    /// Returns whether a flow may have packets.
    #[inline]
    pub(super) const fn is_busy(&self) -> bool {
        self.sparse + self.bulk > 0
    }

    /// Charges a packet of this adjusted length: `cake_advance_shaper`. The tin's clock is never
    /// more than this packet ahead, so a tin pays nothing later for what nobody else wanted.
    #[inline]
    pub(super) fn charge(&mut self, now: Time, length: u32) {
        self.deficit -= i64::from(length);
        let Some(pace) = self.pace else { return };
        let lasts = pace.time_for(length.into());
        if self.due_at < now {
            self.due_at += lasts;
        } else {
            self.due_at = self.due_at.max(now + lasts);
        }
    }
}

/// Returns the tin that sends next, if there is a rate: the highest-numbered one that has not used
/// its share, else the one that is due first.
#[inline]
pub(super) fn choose_scheduled(tins: &[Tin], now: Time) -> Option<usize> {
    let mut best = None;
    let mut best_at = Time::MAX;
    for (index, tin) in tins.iter().enumerate() {
        if tin.is_busy() && (tin.due_at <= now || tin.due_at <= best_at) {
            best_at = tin.due_at;
            best = Some(index);
        }
    }
    best
}

/// Returns the tin that sends next, if there is no rate: they take turns (DRR), from `current` on.
#[inline]
pub(super) fn choose_in_turn(tins: &mut [Tin], mut current: usize) -> Option<usize> {
    if !tins.iter().any(Tin::is_busy) {
        return None;
    }
    loop {
        let tin = &mut tins[current];
        if tin.deficit >= 0 && tin.is_busy() {
            return Some(current);
        }
        if tin.deficit <= 0 {
            tin.deficit += i64::from(tin.quantum);
        }
        current = if current + 1 == tins.len() { 0 } else { current + 1 };
    }
}

/// Bytes per second.
const LEAST_RATE: u64 = 64;
