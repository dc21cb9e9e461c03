//! HyStart: leaves slow start before the queue overflows.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cubic.c (`hystart_update`): acknowledgement train and delay. RFC
//! 9406 describes the delay part with a gentler exit, which Linux does not have. Differences: none.

use super::cubic::Progress;
use crate::congestion::Window;
use crate::tcp::Seq;
use crate::tcp::clock::Context;

/// The state of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hystart {
    round_start_us: u32,
    last_ack_us: u32,
    end_seq: Seq,
    /// The smallest delay of the round.
    round_rtt_us: u32,
    samples: u8,
    found: bool,
}

impl Hystart {
    /// Returns whether slow start is over.
    #[inline]
    pub(crate) fn found(&self) -> bool {
        self.found
    }

    /// `bictcp_hystart_reset`.
    pub(crate) fn start_round(&mut self, now_us: u32, snd_nxt: Seq) {
        self.round_start_us = now_us;
        self.last_ack_us = now_us;
        self.end_seq = snd_nxt;
        self.round_rtt_us = u32::MAX;
        self.samples = 0;
    }

    /// `hystart_update`.
    pub(crate) fn update(
        &mut self,
        cx: &Context,
        window: &mut Window,
        delay_min_us: u32,
        delay_us: u32,
        progress: Progress,
    ) {
        if progress.snd_una.after(self.end_seq) {
            self.start_round(cx.us, progress.snd_nxt);
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        if cx.us.wrapping_sub(self.last_ack_us) <= ACK_DELTA_US {
            self.last_ack_us = cx.us;
            let mut threshold = delay_min_us + ack_delay_us(window.cwnd, progress);
            if !cx.config.paces() {
                // Pacing may spread a window over half a round trip.
                threshold /= 2;
            }
            if cx.us.wrapping_sub(self.round_start_us) > threshold {
                self.leave(window);
            }
        }
        self.round_rtt_us = self.round_rtt_us.min(delay_us);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
        } else if self.round_rtt_us > delay_min_us + (delay_min_us >> 3).clamp(4_000, 16_000) {
            self.leave(window);
        }
    }

    fn leave(&mut self, window: &mut Window) {
        self.found = true;
        window.ssthresh = window.cwnd;
    }
}

/// `hystart_ack_delay`: the time that four of the largest GSO bursts take at the pacing rate, at
/// most 1 ms.
fn ack_delay_us(cwnd: u32, progress: Progress) -> u32 {
    // In slow start, the pacing rate is twice the window for each round trip.
    let window_bytes = 2 * u64::from(cwnd) * u64::from(progress.mss);
    (4 * 65_536 * u64::from(progress.srtt_us) / window_bytes.max(1)).min(1000) as u32
}

const LOW_WINDOW: u32 = 16;
const ACK_DELTA_US: u32 = 2000;
const MIN_SAMPLES: u8 = 8;

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

    fn in_round() -> (Hystart, Window) {
        let mut hystart = Hystart::default();
        hystart.start_round(10_000, Seq(1000));
        (hystart, Window { cwnd: 20, ssthresh: 1000, count: 0 })
    }

    /// `hystart_ack_delay`: four bursts of 64 KB at twice the window in a round trip, at most a
    /// millisecond.
    #[test]
    fn bursts_of_the_sender_take_a_millisecond_at_most() {
        for (cwnd, srtt_us, expected) in
            [(1000, 10_000, 905), (1000, 5000, 452), (20, 10_000, 1000), (1000, 11_048, 1000)]
        {
            assert_eq!(ack_delay_us(cwnd, progress(srtt_us)), expected, "{cwnd} {srtt_us}");
        }
    }

    /// `hystart_update`: acknowledgements at most 2 ms apart, for more than half of the smallest
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
            let (mut hystart, mut window) = in_round();
            (hystart.last_ack_us, window.cwnd) = (last_us, cwnd);
            hystart.update(&cx(&config, now_us), &mut window, 20_000, 20_000, progress(20_000));
            assert_eq!(hystart.found(), leaves, "{cwnd} {last_us} {now_us}");
            assert_eq!(window.ssthresh, if leaves { cwnd } else { 1000 });
            let continues = cwnd >= 16 && now_us as u32 - last_us <= 2000;
            assert_eq!(hystart.last_ack_us, if continues { now_us as u32 } else { last_us });
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
            let (mut hystart, mut window) = in_round();
            for n in 1..=9 {
                assert!(!hystart.found(), "{n}");
                hystart.update(
                    &cx(&config, 500_000),
                    &mut window,
                    least_us,
                    // One larger sample changes nothing.
                    sample_us + u32::from(n == 3),
                    progress(100_000),
                );
            }
            assert_eq!(hystart.found(), leaves, "{least_us} {sample_us}");
        }
    }

    /// `bictcp_hystart_reset`: a round ends when something above its end is acknowledged.
    #[test]
    fn a_round_begins_beyond_the_end_of_the_last() {
        let config = Config::profile("linux-6").expect("a known profile");
        for (end, begins) in [(999, true), (1000, false)] {
            let (mut hystart, mut window) = in_round();
            (hystart.end_seq, hystart.samples, hystart.round_rtt_us) = (Seq(end), 5, 7);
            hystart.update(&cx(&config, 60_000), &mut window, 50_000, 50_000, progress(50_000));
            let expected =
                if begins { (60_000, Seq(90_000), 1, 50_000) } else { (10_000, Seq(end), 6, 7) };
            let state =
                (hystart.round_start_us, hystart.end_seq, hystart.samples, hystart.round_rtt_us);
            assert_eq!(state, expected);
        }
    }
}
