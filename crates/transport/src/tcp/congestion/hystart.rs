//! HyStart: leaves slow start before the queue overflows.
//!
//! Source: Linux 6.1 net/ipv4/tcp_cubic.c (`hystart_update`): acknowledgement train and delay. RFC
//! 9406 describes the delay part with a gentler exit, which Linux does not have. Differences: none.
//! There is no pacing, as for CUBIC without the fq qdisc.

use super::Window;
use super::cubic::Progress;
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
            let threshold = (delay_min_us + ack_delay_us(window.cwnd, progress)) / 2;
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
