//! BBR v1 (draft-cardwell-iccrg-bbr-congestion-control-00): a model of the path, its bandwidth and
//! its shortest round trip, sets the pace and the window.
//!
//! Written from the draft, with its sections and names. Where Linux differs from it, this follows
//! Linux 6.1 (net/ipv4/tcp_bbr.c, version 1 as in 7.3), whose constants, units and additions are:
//!
//! - Bandwidth is counted in segments, and gains in 1/256.
//! - PROBE_RTT and the filter of the shortest round trip count jiffies.
//! - The window has room for three bursts and for what aggregated acknowledgements release at once
//!   (`extra_acked`; draft version 01, 4.5).
//! - A path with a token bucket that drops (a policer) is paced at its long-term rate.
//! - A timeout restarts the search for the full pipe, which ends STARTUP (4.3.2.2).
//!
//! Difference: the phase in which PROBE_BW begins comes from the initial sequence number and the
//! number of such beginnings, so that a run can be repeated.

mod aggregation;
mod policer;

use self::aggregation::Aggregation;
use self::policer::Policer;
use super::filter::MaxFilter;
use super::moment::{Moment, elapsed_us};
use super::path::Path;
use super::sample::RateSample;
use super::state::State as Recovery;

/// The phases (section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Doubles the rate each round trip, until the bandwidth grows no more.
    Startup,
    /// Lets the queue drain that startup has built.
    Drain,
    /// Paces at the bandwidth, and probes for more in one of eight phases.
    ProbeBw,
    /// Keeps four segments in flight, to see the path without a queue.
    ProbeRtt,
}

/// The state of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    /// BBR.BtlBwFilter, over ten rounds.
    bandwidth: MaxFilter<u64>,
    /// BBR.round_count.
    round: u32,
    /// BBR.next_round_delivered.
    next_round_delivered: u32,
    /// BBR.round_start.
    round_start: bool,
    /// BBR.RTprop in microseconds; `None`: not measured yet.
    min_rtt_us: Option<u32>,
    /// BBR.rtprop_stamp, in jiffies.
    min_rtt_at: u32,
    /// When the connection was established, until the first acknowledgement has set the stamp.
    established_us: Option<u32>,
    /// BBR.probe_rtt_done_stamp, in jiffies.
    probe_rtt_ends: Option<u32>,
    probe_rtt_round_done: bool,
    /// BBR.pacing_gain and BBR.cwnd_gain in 1/256.
    pacing_gain: u64,
    cwnd_gain: u64,
    /// BBR.cycle_index and BBR.cycle_stamp.
    phase: usize,
    phase_since_us: u32,
    /// The number of times that PROBE_BW has begun, for its first phase.
    beginnings: u32,
    seed: u32,
    /// BBR.full_bw, BBR.full_bw_count, BBR.filled_pipe.
    full_bandwidth: u64,
    full_rounds: u8,
    pipe_is_filled: bool,
    idle_restart: bool,
    /// Whether the pace comes from a measured round trip.
    rate_is_measured: bool,
    /// BBR.prior_cwnd.
    prior_cwnd: u32,
    prior_recovery: Recovery,
    packet_conservation: bool,
    aggregation: Aggregation,
    policer: Policer,
}

impl Bbr {
    /// Creates the control of a connection with this initial sequence number.
    pub(crate) fn new(seed: u32) -> Self {
        Self {
            mode: Mode::Startup,
            bandwidth: MaxFilter::default(),
            round: 0,
            next_round_delivered: 0,
            round_start: false,
            min_rtt_us: None,
            min_rtt_at: 0,
            established_us: None,
            probe_rtt_ends: None,
            probe_rtt_round_done: false,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            phase: 0,
            phase_since_us: 0,
            beginnings: 0,
            seed,
            full_bandwidth: 0,
            full_rounds: 0,
            pipe_is_filled: false,
            idle_restart: false,
            rate_is_measured: false,
            prior_cwnd: 0,
            prior_recovery: Recovery::Open,
            packet_conservation: false,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
        }
    }

    /// Begins: the connection is established (section 4.1.1, BBRInit).
    pub(crate) fn start(&mut self, cx: &Moment, path: &mut Path) {
        self.next_round_delivered = path.delivered;
        self.min_rtt_us = path.shortest_us;
        self.established_us = Some(cx.us);
        self.aggregation.restart(cx.us);
        self.policer = Policer::default();
        self.set_first_rate(path);
    }

    /// Returns the name of the phase.
    pub(crate) fn phase(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe-bw",
            Mode::ProbeRtt => "probe-rtt",
        }
    }

    /// Handles an acknowledgement (section 4.1.2, BBRUpdateOnACK).
    pub(crate) fn on_ack(&mut self, cx: &Moment, path: &mut Path, sample: &RateSample) {
        self.update_model(cx, path, sample);
        let bandwidth = self.bandwidth();
        self.set_rate(path, bandwidth, self.pacing_gain);
        self.set_window(path, sample, bandwidth);
    }

    fn update_model(&mut self, cx: &Moment, path: &mut Path, sample: &RateSample) {
        self.update_bandwidth(path, sample);
        if sample.rate.is_some() && sample.acked > 0 {
            let bandwidth = self.bandwidth();
            self.aggregation.note(self.round_start, sample, bandwidth, path.window.cwnd);
        }
        self.update_phase(cx, path, sample);
        self.check_full_pipe(sample);
        self.check_drain(cx, path, sample.delivered_us);
        self.update_min_rtt(cx, path, sample);
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.is_found() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.phase], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}

/// The bandwidth (section 4.2.1).
impl Bbr {
    /// Returns the bandwidth that sets the pace and the window.
    fn bandwidth(&self) -> u64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.max())
    }

    /// BBRUpdateRound, BBRUpdateBtlBw.
    fn update_bandwidth(&mut self, path: &mut Path, sample: &RateSample) {
        self.round_start = false;
        let Some(rate) = sample.rate else { return };
        if rate.prior_delivered.wrapping_sub(self.next_round_delivered) as i32 >= 0 {
            self.next_round_delivered = path.delivered;
            self.round += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.watch_policer(path, sample.lost, sample.delivered_us);
        let bandwidth = u64::from(rate.delivered) * BANDWIDTH_UNIT / u64::from(rate.interval_us);
        if !rate.is_app_limited || bandwidth >= self.bandwidth.max() {
            self.bandwidth.note(self.round, bandwidth, BANDWIDTH_ROUNDS);
        }
    }

    fn watch_policer(&mut self, path: &Path, lost: u32, now_us: u32) {
        let in_probe_bw = self.mode == Mode::ProbeBw;
        if self.policer.note(path, self.round_start, lost, now_us, in_probe_bw) {
            self.begin_probe_bw(now_us);
        }
    }

    /// Section 4.3.2.2, BBRCheckFullPipe.
    fn check_full_pipe(&mut self, sample: &RateSample) {
        let app_limited = sample.rate.is_some_and(|rate| rate.is_app_limited);
        if self.pipe_is_filled || !self.round_start || app_limited {
            return;
        }
        let most = self.bandwidth.max();
        if most >= (self.full_bandwidth * FULL_GROWTH) >> SCALE {
            self.full_bandwidth = most;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.pipe_is_filled = self.full_rounds >= FULL_ROUNDS;
    }

    /// Section 4.3.3, BBRCheckDrain.
    fn check_drain(&mut self, cx: &Moment, path: &mut Path, delivered_us: u32) {
        let most = self.bandwidth.max();
        if self.mode == Mode::Startup && self.pipe_is_filled {
            self.mode = Mode::Drain;
            path.window.ssthresh = self.in_flight_for(path, most, UNIT);
        }
        if self.mode == Mode::Drain {
            let in_flight = self.in_flight_at_departure(cx, path, path.in_flight);
            if in_flight <= self.in_flight_for(path, most, UNIT) {
                self.begin_probe_bw(delivered_us);
            }
        }
    }
}

/// PROBE_BW (section 4.3.4).
impl Bbr {
    /// Begins the cycle in any phase but that of 3/4.
    fn begin_probe_bw(&mut self, now_us: u32) {
        self.mode = Mode::ProbeBw;
        self.beginnings += 1;
        let random = spread(self.seed.wrapping_add(self.beginnings));
        let phases = CYCLE.len() as u64;
        let skipped = (u64::from(random) * (phases - 1)) >> 32;
        self.phase = (phases - 1 - skipped) as usize;
        self.advance_phase(now_us);
    }

    fn advance_phase(&mut self, now_us: u32) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_since_us = now_us;
    }

    /// BBRCheckCyclePhase.
    fn update_phase(&mut self, cx: &Moment, path: &Path, sample: &RateSample) {
        if self.mode == Mode::ProbeBw && self.is_next_phase(cx, path, sample) {
            self.advance_phase(sample.delivered_us);
        }
    }

    /// BBRIsNextCyclePhase. The gain is that of the last acknowledgement.
    fn is_next_phase(&self, cx: &Moment, path: &Path, sample: &RateSample) -> bool {
        let since_us = elapsed_us(sample.delivered_us, self.phase_since_us);
        let is_full_length = since_us > self.min_rtt_us.unwrap_or(u32::MAX);
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let in_flight = self.in_flight_at_departure(cx, path, sample.prior_in_flight);
        let most = self.bandwidth.max();
        if self.pacing_gain > UNIT {
            is_full_length
                && (sample.lost > 0
                    || in_flight >= self.in_flight_for(path, most, self.pacing_gain))
        } else {
            is_full_length || in_flight <= self.in_flight_for(path, most, UNIT)
        }
    }
}

/// The shortest round trip, and PROBE_RTT (sections 4.2.2 and 4.3.5).
impl Bbr {
    fn update_min_rtt(&mut self, cx: &Moment, path: &mut Path, sample: &RateSample) {
        let now = cx.jiffies();
        if let Some(us) = self.established_us.take() {
            self.min_rtt_at = now.wrapping_sub(elapsed_us(cx.us, us) / cx.tick_us());
        }
        let window = cx.span_to_jiffies(narrows_units::Span::from_secs(MIN_RTT_WINDOW_S));
        let expired = now.wrapping_sub(self.min_rtt_at.wrapping_add(window)) as i32 > 0;
        if let Some(rtt_us) = sample.rtt_us
            && (self.min_rtt_us.is_none_or(|least| rtt_us < least)
                || (expired && !path.ack_is_delayed))
        {
            self.min_rtt_us = Some(rtt_us);
            self.min_rtt_at = now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(path.window.cwnd);
            self.probe_rtt_ends = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.stay_in_probe_rtt(cx, path, sample.delivered_us);
        }
        if sample.rate.is_some_and(|rate| rate.delivered > 0) {
            self.idle_restart = false;
        }
    }

    /// BBRHandleProbeRTT: 200 ms and a round with four segments in flight.
    fn stay_in_probe_rtt(&mut self, cx: &Moment, path: &mut Path, delivered_us: u32) {
        path.limit_by_application();
        if self.probe_rtt_ends.is_none() {
            if path.in_flight <= LEAST_WINDOW {
                let lasts = cx.span_to_jiffies(narrows_units::Span::from_ms(PROBE_RTT_MS));
                self.probe_rtt_ends = Some(cx.jiffies().wrapping_add(lasts));
                self.probe_rtt_round_done = false;
                self.next_round_delivered = path.delivered;
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.leave_probe_rtt(cx, path, delivered_us);
        }
    }

    /// BBRExitProbeRTT, if its time is over.
    fn leave_probe_rtt(&mut self, cx: &Moment, path: &mut Path, delivered_us: u32) {
        let is_over =
            self.probe_rtt_ends.is_some_and(|ends| cx.jiffies().wrapping_sub(ends) as i32 > 0);
        if !is_over {
            return;
        }
        self.min_rtt_at = cx.jiffies();
        path.window.cwnd = path.window.cwnd.max(self.prior_cwnd);
        if self.pipe_is_filled {
            self.begin_probe_bw(delivered_us);
        } else {
            self.mode = Mode::Startup;
        }
    }
}

/// The pace and the window (section 4.2.3).
impl Bbr {
    /// BBRInitPacingRate.
    fn set_first_rate(&mut self, path: &mut Path) {
        let rtt_us = path.srtt_us.unwrap_or(1000);
        self.rate_is_measured |= path.srtt_us.is_some();
        let bandwidth = u64::from(path.window.cwnd) * BANDWIDTH_UNIT / u64::from(rtt_us.max(1));
        path.set_rate(bytes_per_second(bandwidth, HIGH_GAIN, path.mss));
    }

    /// BBRSetPacingRateWithGain: until the pipe is filled, the rate does not fall.
    fn set_rate(&mut self, path: &mut Path, bandwidth: u64, gain: u64) {
        if !self.rate_is_measured && path.srtt_us.is_some() {
            self.set_first_rate(path);
        }
        let rate = bytes_per_second(bandwidth, gain, path.mss);
        if self.pipe_is_filled || path.rate().is_some_and(|current| rate > current) {
            path.set_rate(rate);
        }
    }

    /// BBRSetCwnd.
    fn set_window(&mut self, path: &mut Path, sample: &RateSample, bandwidth: u64) {
        if sample.acked > 0 && !self.modulate_for_recovery(path, sample) {
            let target = self.target_window(path, bandwidth);
            let cwnd = path.window.cwnd;
            let grown = cwnd.saturating_add(sample.acked);
            let next = if self.pipe_is_filled {
                grown.min(target)
            } else if cwnd < target || path.delivered < FIRST_WINDOW {
                grown
            } else {
                cwnd
            };
            path.window.cwnd = next.max(LEAST_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            path.window.cwnd = path.window.cwnd.min(LEAST_WINDOW);
        }
    }

    /// BBRModulateCwndForRecovery (section 4.2.3.4). Returns whether the window follows what is
    /// delivered: in the first round of a recovery.
    fn modulate_for_recovery(&mut self, path: &mut Path, sample: &RateSample) -> bool {
        let delivering = path.in_flight + sample.acked;
        let cwnd = &mut path.window.cwnd;
        *cwnd = cwnd.saturating_sub(sample.lost).max(1);
        let before = core::mem::replace(&mut self.prior_recovery, path.recovery);
        match (before, path.recovery) {
            (Recovery::Recovery, Recovery::Recovery) => {}
            (_, Recovery::Recovery) => {
                // BBROnEnterFastRecovery.
                *cwnd = delivering;
                self.packet_conservation = true;
                self.next_round_delivered = path.delivered;
            }
            (
                Recovery::Recovery | Recovery::Loss,
                Recovery::Open | Recovery::Disorder | Recovery::Cwr,
            ) => {
                // BBRRestoreCwnd.
                *cwnd = self.prior_cwnd.max(*cwnd);
                self.packet_conservation = false;
            }
            _ => {}
        }
        if self.packet_conservation {
            *cwnd = delivering.max(*cwnd);
        }
        self.packet_conservation
    }

    /// BBRSaveCwnd.
    fn save_window(&mut self, cwnd: u32) {
        let is_reduced = self.prior_recovery >= Recovery::Recovery || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// BBRInflight: the bandwidth-delay product times `gain`, in segments, rounded up. Without a
    /// round trip it is the first window.
    fn product(&self, bandwidth: u64, gain: u64) -> u32 {
        let Some(min_rtt_us) = self.min_rtt_us else { return FIRST_WINDOW };
        let product = u128::from(bandwidth) * u128::from(min_rtt_us) * u128::from(gain);
        ((product >> SCALE).div_ceil(u128::from(BANDWIDTH_UNIT))).min(MOST_SEGMENTS.into()) as u32
    }

    fn target_window(&self, path: &Path, bandwidth: u64) -> u32 {
        let product = self.product(bandwidth, self.cwnd_gain);
        let extra = if self.pipe_is_filled { self.aggregation.extra(bandwidth) } else { 0 };
        self.with_room_for_bursts(path, product + extra)
    }

    fn in_flight_for(&self, path: &Path, bandwidth: u64, gain: u64) -> u32 {
        self.with_room_for_bursts(path, self.product(bandwidth, gain))
    }

    /// Adds three bursts, rounds up to an even number, and adds two in the phase that probes for
    /// more.
    fn with_room_for_bursts(&self, path: &Path, segments: u32) -> u32 {
        let even = (segments + 3 * path.burst_goal() + 1) & !1;
        even + if self.mode == Mode::ProbeBw && self.phase == 0 { 2 } else { 0 }
    }

    /// Returns what will be in flight when the next segment leaves.
    fn in_flight_at_departure(&self, cx: &Moment, path: &Path, in_flight: u32) -> u32 {
        let ahead_us = u64::from(path.ahead_us(cx));
        let delivered = (self.bandwidth() * ahead_us) >> BANDWIDTH_SCALE;
        let burst = if self.pacing_gain > UNIT { path.burst_goal() } else { 0 };
        (in_flight + burst).saturating_sub(delivered.min(u32::MAX.into()) as u32)
    }
}

/// What else may happen to a connection.
impl Bbr {
    /// Handles a loss: the window follows the model, and the threshold says nothing.
    pub(crate) fn on_loss(&mut self, cwnd: u32) {
        self.save_window(cwnd);
    }

    /// Handles a retransmission timeout (section 4.2.3.4, BBROnEnterRTO).
    pub(crate) fn on_timeout(&mut self, path: &Path, delivered_us: u32) {
        self.prior_recovery = Recovery::Loss;
        self.full_bandwidth = 0;
        self.round_start = true;
        self.watch_policer(path, 1, delivered_us);
    }

    /// Handles a reduction that was needless: startup and the policer's rate are judged anew.
    pub(crate) fn on_undo(&mut self) {
        self.full_bandwidth = 0;
        self.full_rounds = 0;
        self.policer = Policer::default();
    }

    /// Handles the first segment after an idle time (section 4.3.1, BBRHandleRestartFromIdle).
    pub(crate) fn on_restart(&mut self, cx: &Moment, path: &mut Path) {
        if !path.is_app_limited() {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(cx.us);
        match self.mode {
            Mode::ProbeBw => {
                let bandwidth = self.bandwidth();
                self.set_rate(path, bandwidth, UNIT);
            }
            Mode::ProbeRtt => self.leave_probe_rtt(cx, path, cx.us),
            Mode::Startup | Mode::Drain => {}
        }
    }
}

/// Returns the pacing rate for a bandwidth: 1 % less, to keep the queue short.
fn bytes_per_second(bandwidth: u64, gain: u64, mss: u32) -> u64 {
    let scaled = (u128::from(bandwidth) * u128::from(mss) * u128::from(gain)) >> SCALE;
    ((scaled * (1_000_000 / 100 * (100 - MARGIN_PERCENT))) >> BANDWIDTH_SCALE) as u64
}

/// Returns a number that looks random (the last step of MurmurHash3).
pub(super) fn spread(seed: u32) -> u32 {
    let mut x = seed;
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Bandwidths count segments in 2^24 microseconds.
pub(super) const BANDWIDTH_SCALE: u32 = 24;
pub(super) const BANDWIDTH_UNIT: u64 = 1 << BANDWIDTH_SCALE;
/// Gains count 1/256.
const SCALE: u32 = 8;
const UNIT: u64 = 1 << SCALE;
/// 2/ln 2 (section 4.3.2.1): 2885/1000.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Its inverse.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CWND_GAIN: u64 = 2 * UNIT;
/// The phases of PROBE_BW: probe for more, drain, cruise.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// 25 % growth.
const FULL_GROWTH: u64 = UNIT * 5 / 4;
const FULL_ROUNDS: u8 = 3;
const BANDWIDTH_ROUNDS: u32 = 10;
const MIN_RTT_WINDOW_S: u64 = 10;
const PROBE_RTT_MS: u64 = 200;
const LEAST_WINDOW: u32 = 4;
/// RFC 6928.
const FIRST_WINDOW: u32 = 10;
const MARGIN_PERCENT: u128 = 1;
/// More segments than any window has.
const MOST_SEGMENTS: u32 = 1 << 24;

#[cfg(test)]
mod tests;
