//! Congestion controls from outside: what a [`Steer`] sets is checked, and becomes TCP's window and
//! pace.

use std::fmt;

use narrows_transport::tcp::{Acknowledgement, CongestionControl, Signal, State, Window, reno};
use narrows_units::{Rate, Span, Time};

use crate::abi::NONE;
use crate::{CAck, Faults, FromOutside, Part};

/// A call of a congestion control from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The connection is established.
    Start,
    /// An acknowledgement of something in flight.
    Ack,
    /// The window may grow after this acknowledgement.
    Grow,
    /// A loss reduces the window.
    Loss,
    /// An ECN echo reduces the window.
    Ecn,
    /// A retransmission timeout.
    Timeout,
    /// A reduction was needless.
    Undo,
    /// Something is sent after a time in which nothing was in flight.
    Restart,
}

impl Call {
    /// All of them, in the order of `narrows.h`.
    pub const ALL: [Self; 8] = [
        Self::Start,
        Self::Ack,
        Self::Grow,
        Self::Loss,
        Self::Ecn,
        Self::Timeout,
        Self::Undo,
        Self::Restart,
    ];

    /// Returns the name of the function or method.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "on_start",
            Self::Ack => "on_ack",
            Self::Grow => "grow",
            Self::Loss => "on_loss",
            Self::Ecn => "on_ecn",
            Self::Timeout => "on_timeout",
            Self::Undo => "on_undo",
            Self::Restart => "on_restart",
        }
    }

    /// Returns what is wrong with a control that `handles` these calls alone.
    pub fn wrong(owns_window: bool, handles: impl Fn(Self) -> bool) -> Option<&'static str> {
        if owns_window && !handles(Self::Ack) {
            Some("owns its window, but has no on_ack")
        } else if owns_window && handles(Self::Grow) {
            Some("owns its window, so grow is never called; leave it out")
        } else if !Self::ALL.into_iter().any(handles) {
            Some("has none of on_ack, grow, on_loss and the others")
        } else {
            None
        }
    }
}

/// What a congestion control sets (`narrows_sending`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sending {
    /// The window in segments, of which TCP uses the whole part.
    pub cwnd: f64,
    /// The slow-start threshold in segments, of which less than two count as two; infinite: unbounded.
    pub ssthresh: f64,
    /// How fast payload leaves, in bit/s; infinite: as fast as the windows allow.
    pub pacing_rate: f64,
}

impl Sending {
    /// Returns what is wrong with it, if a control may not set this.
    fn wrong(&self) -> Option<String> {
        let Self { cwnd, ssthresh, pacing_rate } = *self;
        if !(1.0..=f64::from(Window::UNBOUNDED)).contains(&cwnd) {
            return Some(format!("cwnd to {cwnd}; a window has 1 to 2147483647 segments"));
        }
        if ssthresh.is_nan() || ssthresh <= 0.0 {
            return Some(format!("ssthresh to {ssthresh}; a threshold is above 0 segments"));
        }
        if !pacing_rate.is_infinite() && !(SLOWEST..=FASTEST).contains(&pacing_rate)
            || pacing_rate < 0.0
        {
            return Some(format!(
                "pacing_rate to {pacing_rate}; a pace has 1e3 to 1e15 bit/s, or none"
            ));
        }
        None
    }
}

/// Leaves the initial window and threshold to TCP.
pub(crate) const NOTHING_SET: Sending =
    Sending { cwnd: f64::NAN, ssthresh: f64::NAN, pacing_rate: f64::INFINITY };

/// The bounds of a pacing rate in bit/s: a segment in 12 s, and a thousand times today's fastest links.
const SLOWEST: f64 = 1e3;
const FASTEST: f64 = 1e15;

/// Decides about the window and the pace of a sender.
pub trait Steer: Send + Sync {
    /// Handles a call, and changes what it sets. `heard` is what TCP knew at the last
    /// acknowledgement, and the present time.
    ///
    /// # Errors
    ///
    /// An error ends the run.
    fn call(&mut self, call: Call, heard: &CAck, sending: &mut Sending) -> Result<(), FromOutside>;

    /// Returns whether it handles such calls. What it does not handle, Reno does.
    fn handles(&self, call: Call) -> bool;

    /// Returns whether TCP leaves the window to it in every state.
    fn owns_window(&self) -> bool;
}

/// The congestion control of a [`Steer`].
pub struct SteeredControl<S> {
    name: String,
    steer: S,
    sending: Sending,
    heard: CAck,
    faults: Faults,
}

impl<S: Steer> SteeredControl<S> {
    /// Creates the control of an end of a connection. What `sending` has in place of NaN replaces
    /// TCP's own initial window and threshold.
    pub fn new(name: &str, steer: S, sending: Sending, faults: Faults) -> Self {
        Self { name: name.to_owned(), steer, sending, heard: CAck::default(), faults }
    }

    /// Makes a call, and checks what it has set. After a fault of any part, nothing more is called (it
    /// might not return after an interrupt), and what was set last stays.
    fn call(&mut self, call: Call) {
        if self.faults.any() || !self.steer.handles(call) {
            return;
        }
        let before = self.sending;
        let answer = self.steer.call(call, &self.heard, &mut self.sending);
        let wrong = answer.and_then(|()| match self.sending.wrong() {
            Some(what) => Err(format!("{} set {what}", call.name()).into()),
            None => Ok(()),
        });
        if let Err(why) = wrong {
            self.sending = before;
            self.faults.report(Part::Control, &self.name, why);
        }
    }

    /// Makes a call that may set the window.
    fn call_with(&mut self, call: Call, window: &mut Window) {
        self.follow(*window);
        self.call(call);
        self.show(window);
    }

    fn show(&self, window: &mut Window) {
        window.cwnd = whole(self.sending.cwnd);
        window.ssthresh = whole(self.sending.ssthresh).max(2);
    }

    /// Takes over what TCP has set itself. Fractions of segments stay.
    fn follow(&mut self, window: Window) {
        if whole(self.sending.cwnd) != window.cwnd && !self.steer.owns_window() {
            self.sending.cwnd = window.cwnd.into();
        }
        if whole(self.sending.ssthresh) != window.ssthresh {
            self.sending.ssthresh = threshold(window.ssthresh);
        }
    }
}

/// Returns the whole segments of a number above zero.
fn whole(segments: f64) -> u32 {
    segments.min(Window::UNBOUNDED.into()) as u32
}

fn threshold(segments: u32) -> f64 {
    if segments == Window::UNBOUNDED { f64::INFINITY } else { segments.into() }
}

impl<S: Steer> CongestionControl for SteeredControl<S> {
    fn owns_window(&self) -> bool {
        self.steer.owns_window()
    }

    fn start(&mut self, window: &mut Window, mss: u16, rtt: Option<Span>) {
        self.heard.mss = mss.into();
        self.heard.smoothed_rtt = ps(rtt);
        self.heard.shortest_rtt = ps(rtt);
        let own = |own: f64, tcp: f64| if own.is_nan() { tcp } else { own };
        self.sending.cwnd = own(self.sending.cwnd, window.cwnd.into());
        self.sending.ssthresh = own(self.sending.ssthresh, threshold(window.ssthresh));
        match self.sending.wrong() {
            None => self.show(window),
            Some(what) => {
                self.sending = Sending {
                    cwnd: window.cwnd.into(),
                    ssthresh: threshold(window.ssthresh),
                    pacing_rate: f64::INFINITY,
                };
                self.faults.report(Part::Control, &self.name, format!("began by setting {what}"));
            }
        }
        self.call_with(Call::Start, window);
    }

    fn on_ack(&mut self, now: Time, window: &mut Window, ack: &Acknowledgement) {
        self.heard = heard(now, ack);
        self.call_with(Call::Ack, window);
    }

    fn grow(&mut self, now: Time, window: &mut Window, acked: u32) {
        if self.steer.handles(Call::Grow) {
            self.heard.now = now.as_ps();
            self.call_with(Call::Grow, window);
        } else {
            reno::avoid(window, acked);
        }
    }

    /// The window falls to the threshold or the window that the control sets, whichever is less.
    fn ssthresh(&mut self, now: Time, cwnd: u32, signal: Signal) -> u32 {
        self.heard.now = now.as_ps();
        let echo = signal == Signal::EcnEcho && self.steer.handles(Call::Ecn);
        let call = if echo { Call::Ecn } else { Call::Loss };
        let owns = self.steer.owns_window();
        if !self.steer.handles(call) || self.faults.any() {
            return if owns { whole(self.sending.ssthresh) } else { reno::ssthresh(cwnd, false) };
        }
        if owns {
            self.call(call);
            return whole(self.sending.ssthresh);
        }
        self.follow(Window { cwnd, ssthresh: Window::UNBOUNDED, count: 0 });
        self.call(call);
        let target = self.sending.ssthresh.min(self.sending.cwnd).min(cwnd.into());
        self.sending.cwnd = cwnd.into();
        whole(target)
    }

    fn on_timeout(&mut self, now: Time, window: &mut Window) {
        self.heard.now = now.as_ps();
        self.sending.cwnd = window.cwnd.into();
        self.call_with(Call::Timeout, window);
    }

    fn on_undo(&mut self, now: Time, window: &mut Window) {
        self.heard.now = now.as_ps();
        self.call_with(Call::Undo, window);
    }

    fn on_restart(&mut self, now: Time, window: &mut Window, idle: Span) {
        self.heard.now = now.as_ps();
        self.heard.idle = idle.as_ps();
        self.call_with(Call::Restart, window);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.sending.pacing_rate;
        if rate.is_finite() { Rate::from_bps(rate as u64) } else { None }
    }
}

/// What serves a connection whose control cannot be made, until the run has been ended.
#[derive(Debug)]
pub struct Reno;

impl CongestionControl for Reno {}

fn ps(span: Option<Span>) -> u64 {
    span.map_or(NONE, Span::as_ps)
}

fn heard(now: Time, ack: &Acknowledgement) -> CAck {
    CAck {
        now: now.as_ps(),
        rtt: ps(ack.rtt),
        smoothed_rtt: ps(ack.smoothed_rtt),
        shortest_rtt: ps(ack.shortest_rtt),
        idle: 0,
        delivery_rate: ack.rate.map_or(f64::NAN, |rate| rate.bits_per_second(ack.mss)),
        acked: ack.acked,
        lost: ack.lost,
        marked: ack.marked,
        in_flight: ack.in_flight,
        prior_in_flight: ack.prior_in_flight,
        delivered: ack.delivered,
        prior_delivered: ack.rate.map_or(ack.delivered, |rate| rate.prior_delivered),
        mss: ack.mss.into(),
        state: match ack.state {
            State::Open => 0,
            State::Disorder => 1,
            State::Cwr => 2,
            State::Recovery => 3,
            State::Loss => 4,
        },
        app_limited: ack.rate.is_some_and(|rate| rate.is_app_limited).into(),
        window_limited: ack.is_window_limited.into(),
        reserved: [0; 5],
    }
}

impl<S> fmt::Debug for SteeredControl<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
