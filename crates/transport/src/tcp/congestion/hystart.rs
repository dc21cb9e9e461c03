//! HyStart: leaves slow start before the queue overflows.
//!
//! Written from Ha and Rhee, "Taming the elephants: New TCP slow start" (Computer Networks 55, 2011):
//! the length of trains of acknowledgements, and the growth of the round-trip time, each within a
//! round. The thresholds are those of Linux 6.1, as facts. RFC 9406 describes the second rule with a
//! gentler exit, which is in [`HystartPlusPlus`](crate::congestion::HystartPlusPlus).

use super::cubic::Progress;
use crate::tcp::Seq;
use crate::tcp::clock::Context;

/// The state of a connection: its current round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hystart {
    round: Round,
    ended: bool,
}

/// A round ends when something beyond its end is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    end: Seq,
    /// When it began, and the last acknowledgement of its train.
    start_us: u32,
    train_us: u32,
    /// The shortest round trip, of the first samples of the round and of all later ones.
    shortest_us: u32,
    samples: u8,
}

impl Hystart {
    /// Returns the state of a connection whose first round begins.
    pub(crate) fn at(now_us: u32, snd_nxt: Seq) -> Self {
        Self { round: Round::new(now_us, snd_nxt), ended: false }
    }

    /// Returns whether it has ended slow start already.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether slow start should end with a window of `cwnd`. `shortest_us` is the shortest
    /// round trip of all, and `rtt_us` the latest one.
    pub(crate) fn ends(
        &mut self,
        cx: &Context,
        cwnd: u32,
        (shortest_us, rtt_us): (u32, u32),
        progress: Progress,
    ) -> bool {
        if progress.snd_una.after(self.round.end) {
            self.round = Round::new(cx.us, progress.snd_nxt);
        }
        if cwnd >= SMALLEST_WINDOW {
            // Half of the round trip is the delay in one direction. With pacing, acknowledgements
            // keep apart that much anyway.
            let all = shortest_us + bursts_us(cwnd, progress);
            let longest_us = if cx.config.paces() { all } else { all / 2 };
            self.ended = self.round.is_train_longer(cx.us, longest_us)
                | self.round.is_slower(rtt_us, shortest_us);
        }
        self.ended
    }
}

impl Round {
    fn new(start_us: u32, end: Seq) -> Self {
        Self { end, start_us, train_us: start_us, shortest_us: u32::MAX, samples: 0 }
    }

    /// Adds an acknowledgement to the train, if it is close to the last one. Returns whether the
    /// train is then longer than `longest_us`.
    fn is_train_longer(&mut self, now_us: u32, longest_us: u32) -> bool {
        let close = now_us.wrapping_sub(self.train_us) <= TRAIN_GAP_US;
        if close {
            self.train_us = now_us;
        }
        close && now_us.wrapping_sub(self.start_us) > longest_us
    }

    /// Adds a round trip. Returns whether those of this round are longer than `shortest_us` by an
    /// eighth (4 to 16 ms).
    fn is_slower(&mut self, rtt_us: u32, shortest_us: u32) -> bool {
        self.shortest_us = self.shortest_us.min(rtt_us);
        let enough = self.samples >= FIRST_SAMPLES;
        self.samples += u8::from(!enough);
        enough && self.shortest_us > shortest_us + (shortest_us / 8).clamp(4_000, 16_000)
    }
}

/// Returns how long four bursts of 64 KB take at the rate of slow start, at most 1 ms. A sender in
/// bursts makes trains longer by that.
fn bursts_us(cwnd: u32, progress: Progress) -> u32 {
    // Slow start paces twice the window in a round trip.
    let per_round_trip = 2 * u64::from(progress.mss) * u64::from(cwnd);
    let us = (u64::from(progress.srtt_us) * (4 << 16)).checked_div(per_round_trip);
    us.map_or(1000, |us| us.min(1000) as u32)
}

/// Slow start with a smaller window, in segments, goes on.
const SMALLEST_WINDOW: u32 = 16;
/// The acknowledgements of a train are at most as far apart.
const TRAIN_GAP_US: u32 = 2000;
/// The samples of a round before one that may end slow start.
const FIRST_SAMPLES: u8 = 8;

#[cfg(test)]
mod tests {
    use narrows_units::{Span, Time};

    use super::*;
    use crate::tcp::Config;

    fn progress(srtt_us: u32) -> Progress {
        Progress { snd_una: Seq(1000), snd_nxt: Seq(90_000), srtt_us, mss: 1448 }
    }

    fn cx(config: &Config, us: u64) -> Context<'_> {
        Context::new(config, Time::ZERO + Span::from_us(us))
    }

    /// Four bursts of 64 KB at twice the window in a round trip, at most a
    /// millisecond.
    #[test]
    fn bursts_of_the_sender_take_a_millisecond_at_most() {
        for (cwnd, srtt_us, expected) in
            [(1000, 10_000, 905), (1000, 5000, 452), (20, 10_000, 1000), (1000, 11_048, 1000)]
        {
            assert_eq!(bursts_us(cwnd, progress(srtt_us)), expected, "{cwnd} {srtt_us}");
        }
    }

    /// Acknowledgements at most 2 ms apart, for more than half of the smallest
    /// round trip (20 ms, and a millisecond for bursts), from 16 segments on.
    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        let config = Config::profile("linux-6").expect("a known profile");
        for (cwnd, last_us, now_us, leaves) in [
            (20, 18_501, 20_501, true),
            (20, 18_501, 20_500, false),
            (20, 18_500, 20_501, false),
            (16, 20_000, 20_501, true),
            (15, 20_000, 20_501, false),
        ] {
            let mut hystart = Hystart::at(10_000, Seq(1000));
            hystart.round.train_us = last_us;
            let ends = hystart.ends(&cx(&config, now_us), cwnd, (20_000, 20_000), progress(20_000));
            assert_eq!(ends, leaves, "{cwnd} {last_us} {now_us}");
            assert_eq!(hystart.has_ended(), leaves);
            let continues = cwnd >= 16 && now_us as u32 - last_us <= 2000;
            assert_eq!(hystart.round.train_us, if continues { now_us as u32 } else { last_us });
        }
    }

    /// RFC 9406, 4.2, in Linux's form: the smallest of more than eight samples exceeds the minimum
    /// by an eighth, between 4 and 16 ms.
    #[test]
    fn round_trips_that_grow_end_slow_start() {
        let config = Config::profile("linux-6").expect("a known profile");
        for (least_us, sample_us, leaves) in [
            (80_000, 90_000, false),
            (80_000, 90_001, true),
            (20_000, 24_000, false),
            (20_000, 24_001, true),
            (200_000, 216_000, false),
            (200_000, 216_001, true),
        ] {
            let mut hystart = Hystart::at(10_000, Seq(1000));
            for n in 1..=9 {
                assert!(!hystart.has_ended(), "{n}");
                // One larger sample changes nothing.
                let times = (least_us, sample_us + u32::from(n == 3));
                hystart.ends(&cx(&config, 500_000), 20, times, progress(100_000));
            }
            assert_eq!(hystart.has_ended(), leaves, "{least_us} {sample_us}");
        }
    }

    /// A round ends when something above its end is acknowledged.
    #[test]
    fn a_round_begins_beyond_the_end_of_the_last() {
        let config = Config::profile("linux-6").expect("a known profile");
        for (end, begins) in [(999, true), (1000, false)] {
            let mut hystart = Hystart::at(10_000, Seq(1000));
            let round = &mut hystart.round;
            (round.end, round.samples, round.shortest_us) = (Seq(end), 5, 7);
            hystart.ends(&cx(&config, 60_000), 20, (50_000, 50_000), progress(50_000));
            let expected =
                if begins { (60_000, Seq(90_000), 1, 50_000) } else { (10_000, Seq(end), 6, 7) };
            let Round { start_us, end, samples, shortest_us, .. } = hystart.round;
            assert_eq!((start_us, end, samples, shortest_us), expected);
        }
    }
}
