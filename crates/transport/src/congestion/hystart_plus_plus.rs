//! HyStart++ (RFC 9406): slow start slows down when round trips grow, and ends if they stay long.
//!
//! The window grows as in slow start until the shortest round trip of a round exceeds that of the
//! round before by an eighth (4 to 16 ms). Then it grows a quarter as fast (conservative slow start,
//! CSS). If a round trip below the one that began CSS turns up, slow start goes on; otherwise it ends
//! after five rounds. Only the first slow start of a connection does this (4.3).
//!
//! Linux's own HyStart, which CUBIC has, is another one ([`tcp`](crate::tcp)): it leaves slow start
//! at once.

use narrows_units::words;

use crate::seq::Seq;

words! {
    /// How slow start grows, and what ends it before a loss or ECN mark does.
    pub enum SlowStart {
        /// RFC 5681, 3.1. Over TCP, `hystart` may end it for CUBIC.
        Standard = "standard",
        /// HyStart++ (RFC 9406), in the first slow start of a connection. Over TCP, `hystart` then
        /// changes nothing.
        HystartPlusPlus = "hystart++",
    }
}

/// The state of a connection (RFC 9406, 4.2).
#[derive(Clone, Debug)]
pub(crate) struct HystartPlusPlus {
    phase: Phase,
    /// windowEnd: the acknowledgement of what ends here ends the round.
    round_end: Seq,
    /// lastRoundMinRTT and currentRoundMinRTT in microseconds; `NEVER`: no sample.
    last_us: u32,
    current_us: u32,
    /// rttSampleCount, up to 255.
    samples: u8,
    /// What was acknowledged in CSS and has not made the window grow yet.
    rest: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Standard,
    /// CSS: cssBaselineMinRtt, and the rounds that have ended.
    Conservative {
        baseline_us: u32,
        rounds: u8,
    },
    Over,
}

impl SlowStart {
    /// Returns the state of a connection whose first sequence or packet number is `first`, if it has
    /// HyStart++.
    pub(crate) fn state(self, first: Seq) -> Option<HystartPlusPlus> {
        (self == Self::HystartPlusPlus).then(|| HystartPlusPlus::new(first))
    }
}

impl HystartPlusPlus {
    fn new(first: Seq) -> Self {
        Self {
            phase: Phase::Standard,
            round_end: first,
            last_us: NEVER,
            current_us: NEVER,
            samples: 0,
            rest: 0,
        }
    }

    /// Returns whether slow start is in its slower phase (CSS).
    pub(crate) fn is_conservative(&self) -> bool {
        matches!(self.phase, Phase::Conservative { .. })
    }

    /// Returns by how much the window grows in slow start after `acked` more segments or bytes, of
    /// which `most` count (L: [`MOST_SEGMENTS`] for an acknowledgement, all for a sender that paces).
    pub(crate) fn growth(&mut self, acked: u64, most: u64) -> u64 {
        let counted = match self.phase {
            // Another slow start of the connection is the usual one.
            Phase::Over => return acked,
            Phase::Standard => return acked.min(most),
            Phase::Conservative { .. } => self.rest + acked.min(most),
        };
        self.rest = counted % CSS_GROWTH_DIVISOR;
        counted / CSS_GROWTH_DIVISOR
    }

    /// Takes the round trip that an acknowledgement in slow start measures. `una` and `next` are the
    /// numbers up to which data are acknowledged and sent. Returns whether slow start is over; then
    /// the threshold becomes the window.
    pub(crate) fn on_round_trip(&mut self, rtt_us: u32, una: Seq, next: Seq) -> bool {
        if self.phase == Phase::Over {
            return false;
        }
        if !una.before(self.round_end) && self.starts_round(next) {
            self.phase = Phase::Over;
            return true;
        }
        self.current_us = self.current_us.min(rtt_us);
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return false;
        }
        match self.phase {
            Phase::Standard if self.last_us != NEVER => {
                let more_us =
                    (self.last_us / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US);
                if self.current_us >= self.last_us.saturating_add(more_us) {
                    self.phase = Phase::Conservative { baseline_us: self.current_us, rounds: 0 };
                }
            }
            Phase::Conservative { baseline_us, .. } if self.current_us < baseline_us => {
                self.phase = Phase::Standard;
                self.rest = 0;
            }
            Phase::Standard | Phase::Conservative { .. } | Phase::Over => {}
        }
        false
    }

    /// Begins a round. Returns whether the last one of CSS has ended.
    fn starts_round(&mut self, next: Seq) -> bool {
        self.round_end = next;
        (self.last_us, self.current_us, self.samples) = (self.current_us, NEVER, 0);
        let Phase::Conservative { rounds, .. } = &mut self.phase else { return false };
        *rounds += 1;
        *rounds >= CSS_ROUNDS
    }

    /// Notes that a loss or a mark has ended slow start.
    pub(crate) fn end(&mut self) {
        self.phase = Phase::Over;
    }
}

const NEVER: u32 = u32::MAX;

// RFC 9406, 4.3.
const MIN_RTT_THRESH_US: u32 = 4_000;
const MAX_RTT_THRESH_US: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE.
const SAMPLES: u8 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u8 = 5;
/// L: the most segments of an acknowledgement that count if nothing paces.
pub(crate) const MOST_SEGMENTS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that has had one round of eight samples of `rtt_us`. Its second round begins with
    /// the next sample, at number 100, and ends at 200.
    fn after_a_round(rtt_us: u32) -> HystartPlusPlus {
        let mut hystart = HystartPlusPlus::new(Seq(0));
        for _ in 0..8 {
            assert!(!hystart.on_round_trip(rtt_us, Seq(0), Seq(100)));
            hystart.round_end = Seq(100);
        }
        hystart
    }

    /// RFC 9406, 4.2: RttThresh is an eighth of lastRoundMinRTT, from 4 to 16 ms, and reaching it is
    /// enough.
    #[test]
    fn rfc9406_4_2_an_eighth_more_begins_the_conservative_phase() {
        for (last_us, current_us, begins) in [
            (80_000, 90_000, true),
            (80_000, 89_999, false),
            (20_000, 24_000, true),
            (20_000, 23_999, false),
            (1_000, 5_000, true),
            (1_000, 4_999, false),
            (200_000, 216_000, true),
            (200_000, 215_999, false),
        ] {
            let mut hystart = after_a_round(last_us);
            for sample in 1..=8 {
                assert!(!hystart.is_conservative(), "sample {sample} is not enough");
                // The shortest one of a round counts.
                let rtt_us = if sample == 5 { current_us } else { current_us + 50_000 };
                assert!(!hystart.on_round_trip(rtt_us, Seq(100), Seq(200)));
                hystart.round_end = Seq(200);
            }
            assert_eq!(hystart.is_conservative(), begins, "{last_us} {current_us}");
        }
    }

    /// RFC 9406, 4.2: seven samples in the last round are valid, but seven in this one say nothing.
    #[test]
    fn rfc9406_4_2_only_the_current_round_needs_eight_samples() {
        for (last, current, begins) in [(1, 8, true), (7, 8, true), (8, 7, false), (0, 8, false)] {
            let mut hystart = HystartPlusPlus::new(Seq(0));
            hystart.round_end = Seq(100);
            for _ in 0..last {
                hystart.on_round_trip(50_000, Seq(0), Seq(100));
            }
            for _ in 0..current {
                hystart.on_round_trip(90_000, Seq(100), Seq(200));
            }
            assert_eq!(hystart.is_conservative(), begins, "{last} {current}");
        }
    }

    /// RFC 9406, 4.2: cwnd grows by min(N, L * SMSS), in CSS by a quarter of it.
    #[test]
    fn rfc9406_4_2_growth_is_a_quarter_in_the_conservative_phase() {
        let mut hystart = after_a_round(50_000);
        assert_eq!([1, 8, 9, 100].map(|acked| hystart.growth(acked, MOST_SEGMENTS)), [1, 8, 8, 8]);
        assert_eq!(hystart.growth(100, u64::MAX), 100, "L is infinite for a sender that paces");
        hystart.phase = Phase::Conservative { baseline_us: 60_000, rounds: 0 };
        // Twelve segments, of which nothing is lost to rounding.
        assert_eq!([3, 3, 3, 3].map(|acked| hystart.growth(acked, MOST_SEGMENTS)), [0, 1, 1, 1]);
        assert_eq!(hystart.growth(100, MOST_SEGMENTS), 2);
        assert_eq!(hystart.growth(10_000, u64::MAX), 2500);
        hystart.end();
        assert_eq!(hystart.growth(100, MOST_SEGMENTS), 100, "a later slow start is the usual one");
    }

    /// A connection in CSS since a sample in the middle of the round that ends at 200.
    fn conservative() -> HystartPlusPlus {
        let mut hystart = after_a_round(50_000);
        for _ in 0..8 {
            hystart.on_round_trip(60_000, Seq(100), Seq(200));
        }
        assert!(hystart.is_conservative());
        hystart
    }

    /// RFC 9406, 4.2: CSS lasts five rounds, of which the first may be a part of one.
    #[test]
    fn rfc9406_4_2_slow_start_ends_after_five_conservative_rounds() {
        let mut hystart = conservative();
        for round in 2..=6 {
            let (una, next) = (Seq(100 * round), Seq(100 * round + 100));
            let ends = hystart.on_round_trip(61_000, una, next);
            assert_eq!(ends, round == 6, "round {round}");
            for _ in 0..9 {
                assert!(!hystart.on_round_trip(61_000, una, next));
            }
        }
        assert!(!hystart.is_conservative());
    }

    /// RFC 9406, 4.2: a shorter round trip than the one that began CSS shows that it was needless.
    #[test]
    fn rfc9406_4_2_a_shorter_round_trip_resumes_slow_start() {
        for (rtt_us, samples, resumes) in
            [(59_999, 8, true), (60_000, 8, false), (59_999, 7, false)]
        {
            let mut hystart = conservative();
            for _ in 0..samples {
                hystart.on_round_trip(rtt_us, Seq(200), Seq(300));
            }
            assert_eq!(hystart.phase == Phase::Standard, resumes, "{rtt_us} {samples}");
        }
        // It may begin again, compared with the round in which it ended.
        let mut hystart = conservative();
        for (rtt_us, una) in [(55_000, 200), (63_000, 300)] {
            for _ in 0..8 {
                hystart.on_round_trip(rtt_us, Seq(una), Seq(una + 100));
            }
            assert_eq!(hystart.is_conservative(), rtt_us == 63_000);
        }
    }

    /// RFC 9406, 4.2 and 4.3: a loss or a mark ends it for the rest of the connection.
    #[test]
    fn rfc9406_4_3_only_the_first_slow_start_does_this() {
        let mut hystart = conservative();
        hystart.end();
        for round in 2..20 {
            for _ in 0..9 {
                assert!(!hystart.on_round_trip(500_000, Seq(100 * round), Seq(100 * round + 100)));
            }
        }
        assert!(!hystart.is_conservative());
    }
}
