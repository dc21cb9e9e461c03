//! What a sender shows of itself: window, round trips, rate and state.
//!
//! Source: Linux 6.1 `tcp_get_info` and `tcp_update_pacing_rate`. Differences: Linux counts each
//! segment in flight as a full one; here the bytes in flight never exceed those that were sent and
//! are not acknowledged. The rate of a sender that does not pace is what Linux would compute now,
//! not at the last acknowledgement.

use narrows_units::{Rate, Span};

use super::{Sender, State};
use crate::congestion::INFINITE_SSTHRESH;
use crate::congestion::window_rate;
use crate::flow_sample::{AVOIDANCE, CWR, FlowSample, LOSS, RECOVERY, SLOW_START};

impl Sender {
    /// Returns what it knows.
    pub(super) fn sample(&self) -> FlowSample {
        let of_segments = |segments: u32| u64::from(segments) * u64::from(self.mss);
        let ssthresh = self.window.ssthresh;
        let us = |us: u32| Span::from_us(us.into());
        FlowSample {
            cwnd: of_segments(self.window.cwnd),
            ssthresh: (ssthresh < INFINITE_SSTHRESH).then(|| of_segments(ssthresh)),
            segment: self.mss.into(),
            srtt: self.rtt.smoothed_us().map(us),
            min_rtt: self.rtt.shortest_us().map(us),
            pacing_rate: match &self.pace {
                Some(pace) => Rate::from_bps(pace.rate.unwrap_or(0).saturating_mul(8)),
                None => self.usual_rate(),
            },
            in_flight: of_segments(self.in_flight())
                .min(u64::from(self.snd_nxt.0.wrapping_sub(self.snd_una.0))),
            retransmissions: self.counted().retransmitted.into(),
            state: self.control.phase().unwrap_or_else(|| self.word()),
            alpha: self.control.alpha(),
        }
    }

    /// Returns the rate that Linux computes for a sender that does not pace, too.
    fn usual_rate(&self) -> Option<Rate> {
        let eighths = self.rtt.smoothed_eighths_us()?;
        let rate = window_rate(self.window, (120, self.mss), self.packets_out, eighths);
        Rate::from_bps(8 * rate)
    }

    fn word(&self) -> &'static str {
        match self.state {
            State::Open | State::Disorder if self.window.in_slow_start() => SLOW_START,
            State::Open | State::Disorder => AVOIDANCE,
            State::Cwr => CWR,
            State::Recovery => RECOVERY,
            State::Loss => LOSS,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;
    use crate::congestion::Window;
    use crate::tcp::sender::Start;
    use crate::tcp::{Config, Congestion, Seq};

    fn sender(config: &Config) -> Sender {
        let mut sender = Sender::new(config, Seq(1));
        let rtt_us = NonZeroU32::new(100_000);
        sender.start(config, Start { mss: 1448, rtt_us, ..Start::default() });
        sender
    }

    /// A window of ten segments and a round trip of 100 ms: 20 segments in 100 ms are 2.3168 Mbit/s.
    #[test]
    fn a_sender_before_its_first_segment() {
        let config = Config::profile("linux-6").expect("a known profile");
        let sample = FlowSample {
            cwnd: 14_480,
            ssthresh: None,
            segment: 1448,
            srtt: Some(Span::from_ms(100)),
            min_rtt: Some(Span::from_ms(100)),
            pacing_rate: Rate::from_bps(2_316_800),
            in_flight: 0,
            retransmissions: 0,
            state: SLOW_START,
            alpha: None,
        };
        let sender = sender(&config);
        assert_eq!(sender.sample(), sample);
        let before = Sender::new(&config, Seq(1)).sample();
        assert_eq!((before.srtt, before.min_rtt, before.pacing_rate), (None, None, None));
    }

    /// `tcp_update_pacing_rate`: the ratio falls at half of ssthresh, and more segments than the
    /// window may be out.
    #[test]
    fn the_rate_is_twice_the_window_in_slow_start_and_later_a_fifth_more_than_it() {
        let config = Config::profile("linux-6").expect("a known profile");
        let segment = 1448 * 8 * 10;
        for (cwnd, ssthresh, packets_out, bits_per_s) in [
            (10, 21, 0, 12 * segment),
            (10, 22, 0, 20 * segment),
            (10, 22, 12, 24 * segment),
            (10, 20, 0, 12 * segment),
            (30, 20, 0, 36 * segment),
            (30, 20, 40, 48 * segment),
        ] {
            let mut sender = sender(&config);
            sender.window = Window { cwnd, ssthresh, count: 0 };
            sender.packets_out = packets_out;
            let found = sender.sample().pacing_rate;
            assert_eq!(found, Rate::from_bps(bits_per_s), "{cwnd} {ssthresh} {packets_out}");
        }
    }

    /// A sender that paces shows its own rate, and BBR its phase: 2.89 windows in a round trip
    /// (draft-cardwell-iccrg-bbr-congestion-control-00, 4.3.2.2).
    #[test]
    fn a_sender_that_paces_shows_its_own_rate() {
        let linux = Config::profile("linux-6").expect("a known profile");
        let config = Config { congestion: Congestion::Bbr, ..linux };
        let sample = sender(&config).sample();
        assert_eq!((sample.state, sample.cwnd), ("startup", 14_480));
        let rate = sample.pacing_rate.map_or(0.0, |rate| rate.as_bps() as f64);
        assert!((rate / (2.89 * 1_158_400.0) - 1.0).abs() < 0.02, "{rate}");
        let paced = Config { pacing: true, congestion: Congestion::Cubic, ..config };
        let mut sender = sender(&paced);
        let own = |sender: &Sender| sender.sample().pacing_rate.map(Rate::as_bps);
        assert_eq!(own(&sender), Some(2_316_800));
        sender.window.cwnd = 20;
        assert_eq!(own(&sender), Some(2_316_800), "until the next acknowledgement");
    }

    /// Segments that were SACKed or lost are not in flight, and a short one counts as it is.
    #[test]
    fn what_is_in_flight_is_bounded_by_what_was_sent() {
        let config = Config::profile("linux-6").expect("a known profile");
        let mut sender = sender(&config);
        sender.snd_nxt = Seq(1 + 9 * 1448 + 100);
        sender.packets_out = 10;
        assert_eq!(sender.sample().in_flight, 9 * 1448 + 100);
        (sender.sacked_out, sender.lost_out, sender.retrans_out) = (4, 2, 1);
        assert_eq!(sender.sample().in_flight, 5 * 1448);
        sender.tally().retransmitted = 3;
        assert_eq!(sender.sample().retransmissions, 3);
    }

    /// Disorder alone is no reason to reduce the window.
    #[test]
    fn the_state_is_a_word() {
        let config = Config::profile("linux-6").expect("a known profile");
        for (state, cwnd, word) in [
            (State::Open, 19, SLOW_START),
            (State::Open, 20, AVOIDANCE),
            (State::Disorder, 19, SLOW_START),
            (State::Disorder, 20, AVOIDANCE),
            (State::Cwr, 19, CWR),
            (State::Recovery, 19, RECOVERY),
            (State::Loss, 19, LOSS),
        ] {
            let mut sender = sender(&config);
            sender.window = Window { cwnd, ssthresh: 20, count: 0 };
            sender.state = state;
            assert_eq!(sender.sample().state, word, "{state:?} {cwnd}");
        }
    }
}
