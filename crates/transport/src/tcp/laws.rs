//! Laws that hold for every congestion control from outside, under random calls.
//!
//! For tests: if you write a control, call [`check`] in one of its tests.

use alloc::boxed::Box;

use narrows_units::{Span, Time};

use super::{Acknowledgement, Congestion, CongestionControl, DeliveryRate, Signal, State, Window};

const STEPS: u32 = 5_000;

/// Checks the laws for a congestion control from outside. The calls are those of a TCP whose path
/// changes at random, from a microsecond to ten seconds and from a segment in ten seconds to 100 Gbit/s.
///
/// - The window always has 1 to 2^31 - 1 segments.
/// - A loss and an ECN echo do not make the window grow, unless the control owns it.
/// - The same seed and calls give the same window and pace, also if connections take turns.
///
/// # Panics
///
/// Panics if a law is broken, or if it is no control from outside.
pub fn check(congestion: &Congestion) {
    let Congestion::Custom(custom) = congestion else { panic!("a control from outside") };
    for seed in 0..8 {
        let mut twins = [1, 1].map(|of| Connection::new(custom.make(of), seed));
        let mut other = Connection::new(custom.make(2), seed + 100);
        for _ in 0..STEPS {
            let states = [0, 1].map(|twin: usize| {
                other.step();
                twins[twin].step()
            });
            assert!(
                states[0] == states[1],
                "the same calls gave a window of {} segments and one of {}, or another pace",
                states[0].0,
                states[1].0
            );
        }
    }
}

/// A connection of which only the control is real.
struct Connection {
    control: Box<dyn CongestionControl>,
    random: Random,
    now: Time,
    window: Window,
    state: State,
    delivered: u32,
    /// The window and the threshold before the latest reduction.
    before: (u32, u32),
    shortest_us: u32,
    /// The round trips in microseconds, and the segments of a rate sample, as powers of two.
    path: (u32, u32),
}

impl Connection {
    fn new(mut control: Box<dyn CongestionControl>, seed: u64) -> Self {
        let mut window = Window::new(10, None);
        let rtt = seed.is_multiple_of(2).then_some(Span::from_ms(20));
        control.start(&mut window, 1448, rtt);
        bounded(&window, "start");
        Self {
            control,
            random: Random(seed),
            now: Time::ZERO + Span::from_ms(1),
            window,
            state: State::Open,
            // The counter wraps during the check.
            delivered: u32::MAX - 1_000,
            before: (window.cwnd, window.ssthresh),
            shortest_us: u32::MAX,
            path: (14, 10),
        }
    }

    /// Makes a call, and returns the window and the pace.
    fn step(&mut self) -> (u32, u32, Option<u64>) {
        if self.random.below(200) == 0 {
            self.path = (self.random.below(24), self.random.below(20));
        }
        self.now += Span::from_us(self.random.below(1 << self.path.0).into());
        match self.random.below(100) {
            0..=2 => self.reduce(Signal::Loss),
            3 => self.reduce(Signal::EcnEcho),
            4 => self.time_out(),
            5 => self.undo(),
            6 => {
                let idle = Span::from_us(self.random.bits().into());
                self.now += idle;
                self.control.on_restart(self.now, &mut self.window, idle);
                bounded(&self.window, "on_restart");
            }
            _ => self.acknowledge(),
        }
        let rate = self.control.pacing_rate().map(narrows_units::Rate::as_bps);
        (self.window.cwnd, self.window.ssthresh, rate)
    }

    fn acknowledge(&mut self) {
        let cwnd = self.window.cwnd;
        let acked = self.random.below(3) * (1 + self.random.below(cwnd.min(40)));
        self.delivered = self.delivered.wrapping_add(acked);
        let rtt_us = 1 + self.random.below(1 << self.path.0);
        let rtt = (self.random.below(10) > 0).then_some(Span::from_us(rtt_us.into()));
        if let Some(rtt) = rtt {
            self.shortest_us = self.shortest_us.min(rtt_us);
            self.control.on_round_trip(self.now, rtt);
        }
        let is_known = self.shortest_us < u32::MAX;
        let counted = 1 + self.random.below(1 << self.path.1);
        // A full segment takes an eighth of a microsecond at 100 Gbit/s.
        let took_us = (1 + self.random.below(1 << self.path.0)).max(counted / 8 + 1);
        let rate = (self.random.below(10) > 0).then(|| DeliveryRate {
            delivered: counted,
            interval: Span::from_us(took_us.into()),
            prior_delivered: self.delivered.wrapping_sub(self.random.below(cwnd.min(1000))),
            is_app_limited: self.random.below(4) == 0,
        });
        let in_flight = self.random.below(cwnd.min(1 << 20) + 1);
        let limited = self.random.below(3) > 0;
        let ack = Acknowledgement {
            acked,
            lost: if self.state == State::Open { 0 } else { self.random.below(3) },
            marked: self.random.below(acked + 1),
            rtt,
            smoothed_rtt: is_known.then_some(Span::from_us(rtt_us.into())),
            shortest_rtt: is_known.then_some(Span::from_us(self.shortest_us.into())),
            rate,
            prior_in_flight: in_flight.saturating_add(acked),
            in_flight,
            delivered: self.delivered,
            mss: 1448,
            state: self.state,
            is_window_limited: limited,
        };
        self.control.on_ack(self.now, &mut self.window, &ack);
        bounded(&self.window, "on_ack");
        if self.control.owns_window() {
            self.state = State::Open;
            return;
        }
        if self.state == State::Open && limited && acked > 0 {
            self.control.grow(self.now, &mut self.window, acked);
            bounded(&self.window, "grow");
        } else if matches!(self.state, State::Cwr | State::Recovery) {
            self.window.cwnd = self.window.ssthresh;
        }
        if self.random.below(4) == 0 {
            self.state = State::Open;
        }
    }

    fn reduce(&mut self, signal: Signal) {
        self.before = (self.window.cwnd, self.window.ssthresh);
        self.window.count = 0;
        let cwnd = self.window.cwnd;
        let target = self.control.ssthresh(self.now, cwnd, signal);
        assert!(
            self.control.owns_window() || target <= cwnd.max(2),
            "after a loss, a window of {cwnd} segments was to become {target}"
        );
        self.window.ssthresh = target.max(2);
        self.state = if signal == Signal::Loss { State::Recovery } else { State::Cwr };
    }

    fn time_out(&mut self) {
        self.reduce(Signal::Loss);
        self.window.cwnd = 1;
        self.state = State::Loss;
        self.control.on_timeout(self.now, &mut self.window);
        bounded(&self.window, "on_timeout");
    }

    fn undo(&mut self) {
        self.window.cwnd = self.window.cwnd.max(self.before.0);
        self.window.ssthresh = self.window.ssthresh.max(self.before.1);
        self.state = State::Open;
        self.control.on_undo(self.now, &mut self.window);
        bounded(&self.window, "on_undo");
    }
}

fn bounded(window: &Window, call: &str) {
    let cwnd = window.cwnd;
    let is_bounded = (1..=Window::UNBOUNDED).contains(&cwnd);
    assert!(is_bounded, "{call} left a window of {cwnd} segments");
}

/// A 64-bit linear congruential generator (Knuth's MMIX), enough for tests.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.bits()) * u64::from(n)) >> 32) as u32
    }
}
