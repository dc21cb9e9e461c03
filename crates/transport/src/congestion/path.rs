//! What a control that models the path knows of a connection, and what it sets.

use super::moment::Moment;
use super::pace::Pace;
use super::rate::Rates;
use super::state::State;
use super::window::Window;

/// What a control that models the path knows and sets.
pub(crate) struct Path<'a> {
    pub window: &'a mut Window,
    pub pace: &'a mut Pace,
    /// The segments delivered and lost on the whole connection.
    pub delivered: u32,
    pub lost: u32,
    /// The segments in flight.
    pub in_flight: u32,
    /// The payload of a full segment in bytes.
    pub mss: u32,
    /// The smoothed and the shortest round trip in microseconds; `None` before the first one.
    pub srtt_us: Option<u32>,
    pub shortest_us: Option<u32>,
    pub recovery: State,
    /// Whether the window was full when something was last sent.
    pub is_cwnd_limited: bool,
    /// Whether acknowledgements tell which segments are missing (C.has_selective_acks).
    pub has_selective_acks: bool,
    /// Whether the current acknowledgement was probably delayed.
    pub ack_is_delayed: bool,
}

impl Path<'_> {
    /// Returns the pacing rate in bytes a second.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.pace.rate
    }

    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.pace.rate = Some(rate);
    }

    /// Sets the number of segments that leave together with segmentation offload.
    pub(crate) fn set_burst(&mut self, segments: u32) {
        self.pace.quantum = Some(segments);
    }

    /// Returns whether the application limits the sender.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.pace.rates.as_ref().is_some_and(Rates::is_app_limited)
    }

    /// Lets the samples of what is in flight count as limited by the application.
    pub(crate) fn limit_by_application(&mut self) {
        if let Some(rates) = &mut self.pace.rates {
            rates.limit_by_application(self.delivered, self.in_flight);
        }
    }

    /// Returns the number of segments that leave in a millisecond, which is what segmentation offload
    /// takes at once, from one or two to 127 (`bbr_tso_segs_goal`).
    #[inline]
    pub(crate) fn burst_goal(&self) -> u32 {
        let rate = self.pace.rate.unwrap_or(0);
        let segments = ((rate >> 10).min(LARGEST_BURST) / u64::from(self.mss.max(1))) as u32;
        segments.max(self.pace.least_burst()).min(127)
    }

    /// Returns how much later than now the next segment may leave, in microseconds.
    pub(crate) fn ahead_us(&self, moment: &Moment) -> u32 {
        self.pace.ahead_us(moment.now)
    }
}

/// The most payload bytes that Linux sends at once: 64 KiB without the room that it reserves for
/// headers.
const LARGEST_BURST: u64 = 65_215;
