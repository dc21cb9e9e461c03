//! Congestion controls from outside: the defaults are Reno, and what a control sets is what TCP does.

#![allow(clippy::disallowed_types, reason = "the test reads what a control has heard")]

use std::sync::{Arc, Mutex};

use narrows_transport::tcp::{
    Acknowledgement, Config, Congestion, CongestionControl, Signal, State, Window, laws,
};
use narrows_units::{Rate, Span, Time};

use crate::tcp_line::{Line, at_secs, linux};
use crate::tcp_pipe::{Path, Pipe};

#[derive(Debug)]
struct Plain;

impl CongestionControl for Plain {}

/// Every segment is the same, with and without pacing, losses, marks and segments that overtake
/// each other.
#[test]
fn a_control_that_overrides_nothing_is_reno() {
    for (pacing, accurate_ecn) in [(false, false), (true, false), (false, true)] {
        let digest = |congestion| {
            let config = Config { pacing, accurate_ecn, ecn: true, ..linux(congestion) };
            let path = Path {
                loss: 0.01,
                ack_loss: 0.02,
                mark: 0.005,
                jitter: Span::from_ms(5),
                ..Path::lossless(Span::from_ms(40))
            };
            let mut pipe = Pipe::new(&config, path, 5);
            pipe.write(5_000 * 1448);
            pipe.close();
            pipe.run(at_secs(600.0), |_, _| {});
            assert!(pipe.ends[0].is_closed());
            (pipe.digest, pipe.ends[0].counters())
        };
        assert_eq!(digest(Congestion::Reno), digest(Congestion::custom("plain", |_| Plain)));
    }
}

/// Rate in, window out: paces at the fastest delivery of the last ten samples, with room for two
/// round trips.
#[derive(Debug, Default)]
struct Follows {
    samples: Vec<f64>,
    rate: Option<Rate>,
}

impl CongestionControl for Follows {
    fn owns_window(&self) -> bool {
        true
    }

    fn start(&mut self, window: &mut Window, mss: u16, rtt: Option<Span>) {
        assert_eq!((window.cwnd, mss), (10, 1448));
        self.rate = rtt.and_then(|rtt| Rate::from_bps((115_840.0 / rtt.as_secs_f64()) as u64));
    }

    fn on_ack(&mut self, _now: Time, window: &mut Window, ack: &Acknowledgement) {
        let (Some(rate), Some(shortest)) = (ack.rate, ack.shortest_rtt) else { return };
        self.samples.push(rate.bits_per_second(ack.mss));
        let recent = &self.samples[self.samples.len().saturating_sub(50)..];
        let fastest = recent.iter().copied().fold(0.0, f64::max);
        // A quarter more in one of eight round trips finds more room.
        let probes = (ack.delivered / 100).is_multiple_of(8);
        self.rate = Rate::from_bps((fastest * if probes { 1.25 } else { 0.97 }) as u64);
        let fits = fastest * shortest.as_secs_f64() / 8.0 / f64::from(ack.mss);
        window.cwnd = (2.0 * fits).max(4.0) as u32;
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
}

#[test]
fn it_paces_at_what_it_has_measured() {
    let config = linux(Congestion::custom("follows", |_| Follows::default()));
    let mut line = Line::new(&config, 10e6, 400, Span::from_ms(40));
    line.run(at_secs(10.0), |_, _| {});
    let (before, departed) = (line.ends[1].bytes_received(), line.departures.len());
    line.longest_queue = 0;
    line.run(at_secs(20.0), |_, _| {});
    let share =
        (line.ends[1].bytes_received() - before) as f64 * 8.0 / 10.0 / (10e6 * 1448.0 / 1500.0);
    assert!(share > 0.95, "{share} of the link");
    assert!(line.longest_queue < 60, "{} packets queued", line.longest_queue);
    // Nothing leaves faster than 1.25 times the link: 0.96 ms, or 0.9 ms where a late one is made up for.
    let gaps = line.departures[departed..].windows(2).map(|two| two[1].since(two[0]));
    let short = gaps.filter(|gap| *gap < Span::from_us(450)).count();
    assert_eq!(short, 0);
}

/// What a control hears, as words.
#[derive(Clone, Debug, Default)]
struct Hears(Arc<Mutex<Vec<&'static str>>>);

impl Hears {
    fn note(&self, word: &'static str) {
        self.0.lock().expect("one thread").push(word);
    }
}

impl CongestionControl for Hears {
    fn start(&mut self, _window: &mut Window, _mss: u16, _rtt: Option<Span>) {
        self.note("start");
    }

    fn on_ack(&mut self, _now: Time, window: &mut Window, ack: &Acknowledgement) {
        // Overwritten by PRR while the window shrinks, and kept between 1 and 2^31 - 1 otherwise.
        if ack.state == State::Open && window.cwnd > 40 {
            window.cwnd = 0;
        }
    }

    fn ssthresh(&mut self, _now: Time, cwnd: u32, signal: Signal) -> u32 {
        self.note(if signal == Signal::Loss { "loss" } else { "echo" });
        cwnd * 3 / 4
    }

    fn on_timeout(&mut self, _now: Time, window: &mut Window) {
        assert_eq!(window.cwnd, 1);
        self.note("timeout");
    }

    fn on_undo(&mut self, _now: Time, _window: &mut Window) {
        self.note("undo");
    }

    fn on_restart(&mut self, _now: Time, _window: &mut Window, idle: Span) {
        self.note(if idle > Span::from_ms(500) { "restart" } else { "resume" });
    }
}

#[test]
fn it_hears_what_happens_to_the_connection() {
    let heard = Hears::default();
    let shared = heard.clone();
    let config =
        Config { ecn: true, ..linux(Congestion::custom("hears", move |_| shared.clone())) };
    let path = Path {
        loss: 0.15,
        ack_loss: 0.1,
        mark: 0.05,
        jitter: Span::from_ms(60),
        ..Path::lossless(Span::from_ms(40))
    };
    let mut pipe = Pipe::new(&config, path, 2);
    for second in [1.0, 90.0, 91.0] {
        pipe.run(at_secs(second), |_, end| assert!(end.cwnd() >= 1));
        pipe.now = at_secs(second);
        pipe.write(400 * 1448);
    }
    pipe.run(at_secs(300.0), |_, _| {});
    let heard = heard.0.lock().expect("one thread");
    let counters = pipe.ends[0].counters();
    let times = |word| heard.iter().filter(|heard| **heard == word).count() as u32;
    assert_eq!(heard[0], "start");
    assert!(counters.timeouts > 2 && counters.undos > 2 && counters.ecn_reductions > 2);
    assert_eq!((times("timeout"), times("undo")), (counters.timeouts, counters.undos));
    assert_eq!(times("echo"), counters.ecn_reductions);
    assert!(times("loss") > 10 && times("resume") > 0);
    assert_eq!(times("restart"), 2);
}

#[test]
fn the_laws_hold() {
    laws::check(&Congestion::custom("plain", |_| Plain));
    laws::check(&Congestion::custom("follows", |_| Follows::default()));
}

/// A control that breaks a law, in one of three ways.
#[derive(Debug)]
struct Breaks(u32);

impl CongestionControl for Breaks {
    fn on_ack(&mut self, _now: Time, window: &mut Window, _ack: &Acknowledgement) {
        if self.0 == 0 {
            window.cwnd = 0;
        }
    }

    fn ssthresh(&mut self, _now: Time, cwnd: u32, _signal: Signal) -> u32 {
        if self.0 == 1 { cwnd + 10 } else { cwnd / 2 }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Rate::from_bps(if self.0 > 1 { self.0.into() } else { 1_000_000 })
    }
}

#[test]
#[should_panic(expected = "on_ack left a window of 0 segments")]
fn no_window_breaks_a_law() {
    laws::check(&Congestion::custom("breaks", |_| Breaks(0)));
}

#[test]
#[should_panic(expected = "segments was to become")]
fn growth_after_a_loss_breaks_a_law() {
    laws::check(&Congestion::custom("breaks", |_| Breaks(1)));
}

#[test]
#[should_panic(expected = "or another pace")]
fn a_difference_from_nowhere_breaks_a_law() {
    let made = std::sync::atomic::AtomicU32::new(2);
    laws::check(&Congestion::custom("breaks", move |_| {
        Breaks(made.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }));
}

#[test]
fn a_control_needs_the_reduction_that_can_pace() {
    let mine = Congestion::custom("mine", |_| Plain);
    assert!(mine.unbound().is_none());
    let classic = Config { congestion: mine, ..Config::profile("ns-2").expect("listed") };
    let error = classic.check().expect_err("it cannot pace").to_string();
    assert_eq!(error, "reduction: must be prr if a sender paces");
}
