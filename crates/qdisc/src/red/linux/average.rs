//! The average queue, the chance of a mark, and the decision about a packet.
//!
//! Written from Floyd and Jacobson, "Random early detection gateways for congestion avoidance"
//! (1993), with method 2 of its section 7 in the efficient form that it gives for implementations,
//! and from Floyd, Gummadi and Shenker, "Adaptive RED" (2001). Variables have the papers' names.
//! The fixed-point arithmetic is that of Linux 6.1, as its counters show it.

use narrows_units::{Span, Time};
use rand_core::Rng;
use rand_pcg::Pcg32;

use super::Config;
use super::tc::Derived;

/// RED's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Pass,
    /// It is marked or dropped by chance, between `min` and `max`.
    Early,
    /// It is marked or dropped because the average has reached `max`.
    Forced,
}

/// The fixed parameters, and `max_p`, which adaptation moves.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    /// min_th and max_th in bytes, times 2^`w`, as [`State::average`] is.
    min_th: u64,
    max_th: u64,
    /// The average's weight w_q is 2^-`w`.
    pub(super) w: u8,
    /// max_th - min_th, in bytes.
    width: u32,
    /// In units of 2^-32.
    pub(super) max_p: u32,
    /// `max_p` / `width`. A random number of 32 bits is divided by this, and then compared with a
    /// number of packets times the bytes above min_th.
    pub(super) divisor: u32,
    /// The average in bytes below which `max_p` falls, and the one above which it rises.
    pub(super) low: u64,
    high: u64,
    decay: Decay,
}

/// How much of the average is left after an idle time.
#[derive(Clone, Debug)]
struct Decay {
    /// For each cell of idle time: by how many bits the average shrinks.
    shifts: [u8; 256],
    /// A cell lasts 2^`cell` microseconds.
    cell: u8,
}

/// The variables that packets change.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// avg, in bytes, times 2^`w`.
    pub(super) average: u64,
    /// q_time: since when the queue has been empty; `None` from an arrival on.
    pub(super) idle_since: Option<Time>,
    /// count: the packets since R was drawn; `None` outside the thresholds.
    pub(super) count: Option<u32>,
    /// R: a random number, divided by `divisor`.
    pub(super) random: u32,
}

impl Parameters {
    pub(super) fn new(config: &Config, derived: &Derived) -> Self {
        // The check admits only what fits in 32 bits.
        let [min, max] = [config.lower(), config.upper()].map(|bytes| bytes.get() as u32);
        let width = max - min;
        let max_p = match derived.max_p {
            // tc cannot express it, and sends only a power of two.
            0 => (u32::MAX >> derived.plog).wrapping_mul(width),
            max_p => max_p,
        };
        Self {
            min_th: u64::from(min) << derived.wlog,
            max_th: u64::from(max) << derived.wlog,
            w: derived.wlog,
            width,
            max_p,
            divisor: (max_p / width).max(1),
            // From two to three fifths of the way from min to max.
            low: u64::from(min + 2 * (width / 5)),
            high: u64::from(min + 3 * (width / 5)),
            decay: Decay { shifts: derived.stab, cell: derived.scell_log },
        }
    }

    /// Returns the average at an arrival that finds `backlog` bytes, without an idle time before.
    #[inline]
    pub(super) fn average_busy(&self, average: u64, backlog: u64) -> u64 {
        average - (average >> self.w) + backlog
    }

    /// Returns the average after the queue was empty for `idle`.
    pub(super) fn average_idle(&self, average: u64, idle: Span) -> u64 {
        self.decay.after(average, idle)
    }

    /// Returns R for the next interval between marks.
    #[inline]
    fn draw(&self, random: &mut Pcg32) -> u32 {
        random.next_u32() / self.divisor
    }

    /// Adapts `max_p` (Adaptive RED, Figure 1: interval, alpha and beta). Returns the average in
    /// bytes that it saw.
    pub(super) fn adapt(&mut self, state: &State, now: Time) -> u64 {
        let average = match state.idle_since {
            Some(since) => self.average_idle(state.average, now.since(since)),
            None => state.average,
        } >> self.w;
        if average > self.high && self.max_p <= MOST {
            self.max_p += (self.max_p / 4).min(PERCENT);
        } else if average < self.low && self.max_p >= PERCENT {
            self.max_p = self.max_p / 10 * 9;
        }
        let width = u64::from(self.width);
        self.divisor = (((u64::from(self.max_p) + width / 2) / width) as u32).max(1);
        average
    }
}

impl Decay {
    fn after(&self, average: u64, idle: Span) -> u64 {
        let idle_us = idle.as_us().min(255 << self.cell);
        let shift = self.shifts[(idle_us >> self.cell) as usize];
        if shift > 0 {
            return average >> shift;
        }
        // Shifts are too coarse for a loss of less than a half, so the decay is linear up to there.
        let gone = average.wrapping_mul(idle_us) >> self.cell;
        if gone < average >> 1 { average - gone } else { average >> 1 }
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self { average: 0, idle_since: Some(Time::ZERO), count: None, random: 0 }
    }

    /// Takes an arrival that finds `backlog` bytes into the average.
    #[inline]
    pub(super) fn see(&mut self, parameters: &Parameters, backlog: u64, now: Time) {
        self.average = match self.idle_since.take() {
            None => parameters.average_busy(self.average, backlog),
            Some(since) => parameters.average_idle(self.average, now.since(since)),
        };
    }

    /// Decides about the packet that has arrived.
    #[inline]
    pub(super) fn decide(&mut self, parameters: &Parameters, random: &mut Pcg32) -> Decision {
        let Some(above) = self.average.checked_sub(parameters.min_th) else {
            self.count = None;
            return Decision::Pass;
        };
        if self.average >= parameters.max_th {
            self.count = None;
            return Decision::Forced;
        }
        let Some(count) = self.count else {
            self.count = Some(0);
            self.random = parameters.draw(random);
            return Decision::Pass;
        };
        // With method 2, marks are evenly spread over 1 to 1 / p_b packets, where p_b is max_p
        // times the share of the way from min_th to max_th.
        let count = count.saturating_add(1);
        if (above >> parameters.w) * u64::from(count) < u64::from(self.random) {
            self.count = Some(count);
            return Decision::Pass;
        }
        self.count = Some(0);
        self.random = parameters.draw(random);
        Decision::Early
    }
}

/// One percent, as a 32-bit fraction.
const PERCENT: u32 = 42_949_673;
/// The largest `max_p`: fifty percent.
const MOST: u32 = 50 * PERCENT;
