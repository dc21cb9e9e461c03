//! Congestion controls from outside this crate.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use narrows_units::settings::{Given, Words};
use narrows_units::{Rate, Span, Time};

use crate::congestion::{Signal, State, Window, reno};
use crate::tcp::Congestion;

/// A congestion control from outside this crate: how the window grows, how far it falls, and how
/// fast segments leave.
///
/// It begins as Reno (RFC 5681): implement what differs. Each method says which member of Linux's
/// `struct tcp_congestion_ops` (include/net/tcp.h, 6.1) it stands for; of `set_state`, it sees
/// [`Acknowledgement::state`]. TCP decides which segments are lost, and shrinks the window to what
/// [`ssthresh`](Self::ssthresh) returns within a round trip (RFC 6937), unless the control
/// [owns](Self::owns_window) the window. Each object belongs to one end of a connection.
///
/// TCP keeps the window between 1 and 2^31 - 1 segments, whatever a control writes into it.
pub trait CongestionControl: fmt::Debug + Send + Sync {
    /// Returns whether TCP leaves the window to it in every state, as Linux does for BBR
    /// (`cong_control`): [`grow`](Self::grow) is not called, nothing shrinks the window after a loss
    /// or an idle time, and only a timeout makes it what is in flight plus one.
    fn owns_window(&self) -> bool {
        false
    }

    /// Begins: the connection is established (`init`). `mss`: the payload of a full segment in
    /// bytes; `rtt`: the handshake's round trip, if it was measured.
    fn start(&mut self, _window: &mut Window, _mss: u16, _rtt: Option<Span>) {}

    /// Handles a round trip that was measured (`pkts_acked`), before TCP looks for losses.
    fn on_round_trip(&mut self, _now: Time, _rtt: Span) {}

    /// Handles an acknowledgement of something in flight (`in_ack_event`, and `cong_control` if it
    /// owns the window), after TCP has looked for losses.
    fn on_ack(&mut self, _now: Time, _window: &mut Window, _ack: &Acknowledgement) {}

    /// Grows the window after `acked` segments (`cong_avoid`). Follows [`on_ack`](Self::on_ack) if the
    /// window limited the sender and is not shrinking.
    fn grow(&mut self, _now: Time, window: &mut Window, acked: u32) {
        reno::avoid(window, acked);
    }

    /// Returns the size to which a window of `cwnd` segments has to fall (`ssthresh`), at most once
    /// for each window. Less than two counts as two.
    fn ssthresh(&mut self, _now: Time, cwnd: u32, _signal: Signal) -> u32 {
        reno::ssthresh(cwnd, false)
    }

    /// Handles a retransmission timeout, after [`ssthresh`](Self::ssthresh): nothing was acknowledged
    /// for so long that the window restarts from one segment (`CA_EVENT_LOSS`).
    fn on_timeout(&mut self, _now: Time, _window: &mut Window) {}

    /// Handles a reduction that turned out to be needless (`undo_cwnd`): TCP has put the window and
    /// its threshold back to what they were.
    fn on_undo(&mut self, _now: Time, _window: &mut Window) {}

    /// Handles the first segment after a time in which nothing was in flight (`CA_EVENT_TX_START`).
    fn on_restart(&mut self, _now: Time, _window: &mut Window, _idle: Span) {}

    /// Returns how fast payload leaves (`sk_pacing_rate`); asked after each of the calls that get a
    /// window. `None`: as fast as the windows allow, or at the usual pace if the settings ask for it.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Returns the name of the phase that it is in, if it has phases of its own. Samples of flows
    /// show it instead of TCP's state.
    fn phase(&self) -> Option<&'static str> {
        None
    }
}

/// What an acknowledgement tells a congestion control (`struct rate_sample`). All counts are
/// segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acknowledgement {
    /// What it acknowledges or SACKs.
    pub acked: u32,
    /// What it shows to be lost.
    pub lost: u32,
    /// What it reports as marked; 0 without Accurate ECN (RFC 9768).
    pub marked: u32,
    /// The round trip of the newest segment that it acknowledges.
    pub rtt: Option<Span>,
    /// The smoothed round trip (`srtt_us`).
    pub smoothed_rtt: Option<Span>,
    /// The shortest round trip of the connection.
    pub shortest_rtt: Option<Span>,
    /// How fast the path has delivered, unless it does not say.
    pub rate: Option<DeliveryRate>,
    /// What was in flight before it.
    pub prior_in_flight: u32,
    /// What is in flight after it.
    pub in_flight: u32,
    /// What the connection has delivered so far, modulo 2^32.
    pub delivered: u32,
    /// The payload of a full segment in bytes.
    pub mss: u16,
    /// The congestion state after it.
    pub state: State,
    /// Whether the window limited the sender, rather than the application or the receiver.
    pub is_window_limited: bool,
}

/// A sample of the delivery rate (draft-cheng-iccrg-delivery-rate-estimation-00, 3.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveryRate {
    /// The segments delivered in the interval.
    pub delivered: u32,
    /// How long that took.
    pub interval: Span,
    /// What the connection had delivered when the newest of them was sent, modulo 2^32. A round has
    /// passed once this reaches what was delivered when the round began.
    pub prior_delivered: u32,
    /// Whether the application limited the sender then.
    pub is_app_limited: bool,
}

impl DeliveryRate {
    /// Returns the rate of payload in bit/s, for full segments of `mss` bytes.
    pub fn bits_per_second(&self, mss: u16) -> f64 {
        f64::from(self.delivered) * f64::from(mss) * 8.0 / self.interval.as_secs_f64()
    }
}

/// A congestion control from outside: its name and settings, and how to create it.
///
/// A plan that was read from a file has no more than the name and the settings. Whoever has the
/// control puts it in with [`Congestion::bind`].
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Custom {
    /// Its name.
    name: String,
    /// Its settings, in the order in which they were given.
    #[cfg_attr(feature = "serde", serde(default))]
    settings: Vec<Given>,
    #[cfg_attr(feature = "serde", serde(skip))]
    make: Option<Arc<Make>>,
}

type Make = dyn Fn(u32) -> Box<dyn CongestionControl> + Send + Sync;

impl Congestion {
    /// Creates the setting for a congestion control from outside. `make` is called for each end of
    /// a connection, and for some ends once more; random numbers have to follow from the seed that
    /// it gets.
    pub fn custom<C: CongestionControl + 'static>(
        name: &str,
        make: impl Fn(u32) -> C + Send + Sync + 'static,
    ) -> Self {
        Self::custom_boxed(name, move |seed| Box::new(make(seed)))
    }

    /// Does the same for a function that chooses among several types.
    pub fn custom_boxed(
        name: &str,
        make: impl Fn(u32) -> Box<dyn CongestionControl> + Send + Sync + 'static,
    ) -> Self {
        Self::Custom(Custom { name: name.into(), settings: Vec::new(), make: Some(Arc::new(make)) })
    }

    /// Replaces a control from outside that is only named by what `find` returns for it.
    ///
    /// # Errors
    ///
    /// Returns the error of `find`.
    pub fn bind<E>(&mut self, find: impl FnOnce(&Custom) -> Result<Self, E>) -> Result<(), E> {
        if let Some(custom) = self.unbound() {
            *self = find(custom)?;
        }
        Ok(())
    }

    /// Returns its name, also if it is from outside.
    pub fn name(&self) -> &str {
        match self {
            Self::Custom(custom) => custom.name(),
            own => own.word(),
        }
    }

    /// Returns the control from outside, if it is only named. No connection can use it before it is
    /// [bound](Self::bind).
    pub fn unbound(&self) -> Option<&Custom> {
        match self {
            Self::Custom(custom) if custom.make.is_none() => Some(custom),
            _ => None,
        }
    }
}

impl Custom {
    /// Returns the name that it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its settings.
    pub fn settings(&self) -> &[Given] {
        &self.settings
    }

    /// Creates the control of an end whose first sequence number is `seed`.
    ///
    /// # Panics
    ///
    /// Panics if it is only named ([`Congestion::unbound`]).
    pub(crate) fn make(&self, seed: u32) -> Box<dyn CongestionControl> {
        (self.make.as_ref().expect("bound"))(seed)
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.make, &other.make) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same && self.name == other.name && self.settings == other.settings
    }
}

impl Eq for Custom {}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({})", self.name)
    }
}
