//! BBR v3 (draft-ietf-ccwg-bbr-06): the path's bandwidth, its shortest round trip, and how much it
//! carries without losses, set the pace and the window.
//!
//! Written from the draft, with its sections and names. Differences:
//!
//! - Volumes count segments. A volume that comes from a product is rounded up.
//! - What the draft draws at random (5.3.3.8) follows from the initial sequence number and the number
//!   of draws, so that a run can be repeated.
//! - An acknowledgement that delivers nothing changes nothing.
//! - A reported mark counts as losses above the threshold. The draft asks for a response to marks and
//!   leaves it open (3.7).
//! - The state that an undo restores is saved at the first loss of a round, and not once more in the
//!   same round: by then the loss may have changed it.

mod loss;
mod probe_bw;
mod probe_rtt;
mod window;

use narrows_units::{Span, Time};

use self::loss::Undo;
use super::bbr::{BANDWIDTH_SCALE, BANDWIDTH_UNIT};
use super::filter::MaxFilter;
use super::moment::Moment;
use super::path::Path;
use super::sample::{Newest, RateSample};
use super::state::State as Recovery;

/// BBR.state (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// BBR.ack_phase (section 2.14): what acknowledgements say of a probe for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The state of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Bbr3 {
    state: State,
    /// BBR.round_count, BBR.next_round_delivered, BBR.round_start.
    round: u32,
    next_round_delivered: u32,
    round_start: bool,
    /// BBR.max_bw_filter: the most of this cycle of probes and of the one before.
    most: [u64; 2],
    /// BBR.bw.
    bandwidth: u64,
    /// BBR.bw_shortterm and BBR.inflight_shortterm; the largest number is infinity.
    bandwidth_shortterm: u64,
    inflight_shortterm: u32,
    /// BBR.inflight_longterm.
    inflight_longterm: u32,
    /// BBR.bw_latest and BBR.inflight_latest.
    bandwidth_latest: u64,
    inflight_latest: u32,
    /// BBR.loss_round_delivered, BBR.loss_round_start, BBR.is_loss_in_round.
    loss_round_delivered: u32,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// The ranges of segments lost in this round, up to 255, and where the last one ends.
    lost_ranges: u8,
    lost_end: u32,
    /// BBR.full_bw, BBR.full_bw_count, BBR.full_bw_now, BBR.full_bw_reached.
    full_bandwidth: u64,
    full_rounds: u8,
    full_now: bool,
    full_reached: bool,
    /// BBR.drain_start_round.
    drain_round: u32,
    /// BBR.cycle_stamp, BBR.bw_probe_wait, BBR.rounds_since_probe_up.
    cycle_at: Time,
    probe_wait: Span,
    rounds_since_up: u32,
    ack_phase: AckPhase,
    is_probe_sample: bool,
    prev_too_high: bool,
    prev_precautionary: bool,
    /// BBR.bw_probe_up_rounds, BBR.bw_probe_up_acked, BBR.probe_up_acked_per_inc; the last two in parts
    /// of a segment.
    up_rounds: u8,
    up_acked: u64,
    up_acked_per_inc: u64,
    /// BBR.min_rtt in microseconds and BBR.min_rtt_stamp; `None`: not measured yet.
    min_rtt_us: Option<u32>,
    min_rtt_at: Time,
    /// BBR.probe_rtt_min_delay, BBR.probe_rtt_min_stamp, BBR.probe_rtt_expired.
    recent_rtt_us: Option<u32>,
    recent_rtt_at: Time,
    rtt_expired: bool,
    /// BBR.probe_rtt_done_stamp, BBR.probe_rtt_round_done.
    probe_rtt_ends: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,
    /// BBR.extra_acked_filter, BBR.extra_acked_interval_start, BBR.extra_acked_delivered.
    extra_acked: MaxFilter<u64>,
    extra_since: Time,
    extra_delivered: u32,
    /// BBR.prior_cwnd.
    prior_cwnd: u32,
    prior_recovery: Recovery,
    undo: Undo,
    /// C.InitialCwnd.
    first_window: u32,
    /// Whether the pace comes from a measured round trip.
    has_seen_rtt: bool,
    /// The bursts in BBR.offload_budget, and the segments of one (C.send_quantum).
    quanta: u32,
    quantum: u32,
    seed: u32,
    draws: u32,
}

/// What an acknowledgement says (RS).
#[derive(Clone, Copy, Debug)]
struct Ack {
    now: Time,
    /// RS.newly_acked.
    acked: u32,
    newest: Newest,
    /// RS.delivery_rate; 0: it does not say.
    bandwidth: u64,
    rtt_us: Option<u32>,
}

impl Bbr3 {
    /// Section 5.2.1, OnInit.
    pub(crate) fn new(seed: u32, quanta: u32) -> Self {
        Self {
            state: State::Startup,
            round: 0,
            next_round_delivered: 0,
            round_start: false,
            most: [0; 2],
            bandwidth: 0,
            bandwidth_shortterm: u64::MAX,
            inflight_shortterm: u32::MAX,
            inflight_longterm: u32::MAX,
            bandwidth_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            lost_ranges: 0,
            lost_end: 0,
            full_bandwidth: 0,
            full_rounds: 0,
            full_now: false,
            full_reached: false,
            drain_round: 0,
            cycle_at: Time::ZERO,
            probe_wait: Span::ZERO,
            rounds_since_up: 0,
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            prev_too_high: false,
            prev_precautionary: false,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_inc: u64::MAX,
            min_rtt_us: None,
            min_rtt_at: Time::ZERO,
            recent_rtt_us: None,
            recent_rtt_at: Time::ZERO,
            rtt_expired: false,
            probe_rtt_ends: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            extra_acked: MaxFilter::default(),
            extra_since: Time::ZERO,
            extra_delivered: 0,
            prior_cwnd: 0,
            prior_recovery: Recovery::Open,
            undo: Undo::default(),
            first_window: 0,
            has_seen_rtt: false,
            quanta,
            quantum: LEAST_QUANTUM,
            seed,
            draws: 0,
        }
    }

    pub(crate) fn set_seed(&mut self, seed: u32) {
        self.seed = seed;
    }

    /// Begins: the connection is established.
    pub(crate) fn start(&mut self, cx: &Moment, path: &mut Path) {
        self.next_round_delivered = path.delivered;
        self.loss_round_delivered = path.delivered;
        (self.min_rtt_us, self.min_rtt_at) = (path.srtt_us, cx.now);
        (self.recent_rtt_us, self.recent_rtt_at) = (path.srtt_us, cx.now);
        self.extra_since = cx.now;
        self.first_window = path.window.cwnd;
        self.set_first_rate(path);
    }

    /// Returns the name of the phase.
    pub(crate) fn phase(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "probe-bw-down",
            State::Cruise => "probe-bw-cruise",
            State::Refill => "probe-bw-refill",
            State::Up => "probe-bw-up",
            State::ProbeRtt => "probe-rtt",
        }
    }

    /// Returns BBR.pacing_gain and BBR.cwnd_gain in per cent (section 5.6.1).
    fn gains(&self) -> (u64, u64) {
        match self.state {
            State::Startup => (277, 200),
            State::Drain => (50, 200),
            State::Down => (90, 200),
            State::Cruise | State::Refill => (100, 200),
            State::Up => (125, 225),
            State::ProbeRtt => (100, PROBE_RTT_GAIN),
        }
    }

    /// Handles an acknowledgement (section 5.2.3, UpdateOnACK).
    pub(crate) fn on_ack(&mut self, cx: &Moment, path: &mut Path, sample: &RateSample) {
        self.leave_recovery(path);
        let Some(newest) = sample.newest else { return };
        let bandwidth = sample.rate.map_or(0, |rate| {
            u64::from(rate.delivered) * BANDWIDTH_UNIT / u64::from(rate.interval_us)
        });
        let (acked, rtt_us) = (sample.acked, sample.rtt_us);
        let ack = Ack { now: cx.now, acked, newest, bandwidth, rtt_us };
        self.update_latest(path, &ack);
        self.update_round_and_bandwidth(path, &ack);
        let lossy_round = self.adapt_to_losses(path);
        self.note_aggregation(path, &ack);
        self.check_full_bandwidth(&ack);
        self.check_startup(path, &ack, lossy_round);
        self.check_drain(path, &ack);
        self.update_probe_bw(path, &ack);
        self.update_min_rtt(&ack);
        self.check_probe_rtt(path, &ack);
        if self.loss_round_start {
            (self.bandwidth_latest, self.inflight_latest) = (bandwidth, newest.delivered);
        }
        self.bandwidth = self.max_bandwidth().min(self.bandwidth_shortterm);
        self.set_rate(path, self.gains().0);
        self.set_window(path, &ack);
    }
}

/// Rounds and the bandwidth (sections 5.5.1 to 5.5.6).
impl Bbr3 {
    /// BBR.max_bw.
    fn max_bandwidth(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// StartRound.
    fn start_round(&mut self, path: &Path) {
        self.next_round_delivered = path.delivered;
    }

    /// UpdateRound, UpdateMaxBw.
    fn update_round_and_bandwidth(&mut self, path: &Path, ack: &Ack) {
        self.round_start =
            ack.newest.prior_delivered.wrapping_sub(self.next_round_delivered) as i32 >= 0;
        if self.round_start {
            self.start_round(path);
            self.round += 1;
            self.rounds_since_up += 1;
        }
        if ack.bandwidth > 0
            && (ack.bandwidth >= self.max_bandwidth() || !ack.newest.sent.is_app_limited)
        {
            self.most[0] = self.most[0].max(ack.bandwidth);
        }
    }

    /// AdvanceMaxBwFilter. A cycle without a sample does not count.
    fn advance_bandwidth(&mut self) {
        if self.most[0] > 0 {
            self.most = [0, self.most[0]];
        }
    }
}

/// STARTUP and DRAIN (sections 5.3.1 and 5.3.2).
impl Bbr3 {
    /// ResetFullBW, with the baseline from which growth counts.
    fn look_for_full_bandwidth(&mut self, baseline: u64) {
        self.full_bandwidth = baseline;
        self.full_rounds = 0;
        self.full_now = false;
    }

    /// CheckFullBWReached.
    fn check_full_bandwidth(&mut self, ack: &Ack) {
        if self.full_now || !self.round_start || ack.newest.sent.is_app_limited {
            return;
        }
        if 4 * ack.bandwidth >= 5 * self.full_bandwidth {
            self.look_for_full_bandwidth(ack.bandwidth);
            return;
        }
        self.full_rounds += 1;
        self.full_now = self.full_rounds >= FULL_ROUNDS;
        self.full_reached |= self.full_now;
    }

    /// CheckStartupDone, CheckStartupHighLoss. `lossy`: a round with losses has just ended.
    fn check_startup(&mut self, path: &Path, ack: &Ack, lossy: bool) {
        if self.state == State::Startup
            && !self.full_reached
            && self.loses_too_much(path, ack, lossy)
        {
            self.undo.state = Some(State::Startup);
            (self.full_now, self.full_reached) = (true, true);
            self.inflight_longterm = self.product(self.bandwidth, 100).max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.lost_ranges = 0;
        }
        if self.state == State::Startup && self.full_reached {
            self.state = State::Drain;
            self.drain_round = self.round;
        }
    }

    /// Returns whether losses end STARTUP (section 5.3.1.3).
    fn loses_too_much(&self, path: &Path, ack: &Ack, lossy: bool) -> bool {
        if !path.has_selective_acks {
            return path.recovery == Recovery::Recovery && ack.newest.sent.lost > 0;
        }
        lossy
            && path.recovery != Recovery::Loss
            && self.lost_ranges >= FULL_LOSS_RANGES
            && ack.newest.sent.loses_too_much(true)
    }

    /// CheckDrainDone.
    fn check_drain(&mut self, path: &Path, ack: &Ack) {
        if self.state == State::Drain
            && (path.in_flight <= self.inflight_for(self.bandwidth)
                || self.round.wrapping_sub(self.drain_round) > DRAIN_ROUNDS)
        {
            self.start_down(path, ack.now);
        }
    }
}

// The draft's constants.
/// BBR.ProbeRTTCwndGain in per cent.
const PROBE_RTT_GAIN: u64 = 50;
/// Rounds with less than 25 % growth, and BBRStartupFullLossCnt.
const FULL_ROUNDS: u8 = 3;
const FULL_LOSS_RANGES: u8 = 6;
const DRAIN_ROUNDS: u32 = 3;
/// BBR.MinPipeCwnd.
const LEAST_WINDOW: u32 = 4;
/// The least C.send_quantum, in segments.
const LEAST_QUANTUM: u32 = 2;

#[cfg(test)]
mod tests;
