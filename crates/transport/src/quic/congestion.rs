//! Congestion control in bytes: NewReno (RFC 9002, 7 and appendix B) and CUBIC (RFC 9438).
//!
//! TCP's own controls ([`tcp`](crate::tcp)) count segments as Linux does; these follow the RFCs.
//! Those that both transports share count packets (`packets`). Fast convergence is RFC 9438's, without the `W_last_max` of RFC 8312.

mod gentle;
mod paced;
mod packets;

use alloc::boxed::Box;

use narrows_units::{Span, Time};

use self::gentle::Gentle;
pub(super) use self::packets::Acknowledged;
use self::packets::Packets;
use super::config::{Config, Congestion};
use crate::congestion::Pace;
use crate::flow_sample::{AVOIDANCE, CONSERVATIVE, RECOVERY, SLOW_START};

#[derive(Clone, Debug)]
pub(super) struct Window {
    kind: Congestion,
    datagram: u64,
    pub(super) bytes: u64,
    in_flight: u64,
    /// Where slow start ends; `None`: nothing has been lost or marked yet.
    threshold: Option<u64>,
    /// When the last reduction began. Packets sent before then cause no other (RFC 9002, 7.3.2).
    recovery_since: Option<Time>,
    /// Whether nothing that was sent since then is acknowledged yet.
    recovers: bool,
    cubic: Cubic,
    /// HyStart++, if the settings say so.
    gentle: Option<Box<Gentle>>,
    /// A control that counts packets, and then sets `bytes`.
    packets: Option<Box<Packets>>,
    pace: Option<Box<Pace>>,
}

/// The state of CUBIC (RFC 9438), in datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Cubic {
    most: f64,
    /// Seconds until the window is back at its old size.
    k: f64,
    epoch: Option<Time>,
    /// The window that Reno would have.
    estimate: f64,
}

/// The constant C (RFC 9438, 5.1).
const C: f64 = 0.4;
/// The factor of a reduction (RFC 9438, 4.6).
const BETA_CUBIC: f64 = 0.7;

impl Window {
    pub(super) fn new(config: &Config) -> Self {
        let datagram = u64::from(config.payload);
        let bytes = match config.initial_window {
            Some(datagrams) => datagram * u64::from(datagrams),
            // RFC 9002, 7.2.
            None => (10 * datagram).min((2 * datagram).max(14_720)),
        };
        Self {
            kind: config.congestion,
            datagram,
            bytes,
            in_flight: 0,
            threshold: None,
            recovery_since: None,
            recovers: false,
            cubic: Cubic::default(),
            gentle: Gentle::new(config).map(Box::new),
            packets: Packets::new(config, (bytes / datagram) as u32).map(Box::new),
            pace: config.paces().then(|| Box::new(Pace::new(config.congestion.models_path()))),
        }
    }

    /// Returns whether `bytes` more bytes, or one more packet, may be in flight.
    pub(super) fn allows(&self, bytes: u64) -> bool {
        match &self.packets {
            Some(packets) => packets.has_room(),
            None => self.in_flight + bytes <= self.bytes,
        }
    }

    /// Notes that the path takes longer datagrams.
    pub(super) fn lengthen_datagrams(&mut self, bytes: u64) {
        self.datagram = bytes;
        self.bytes = self.bytes.max(self.least());
        self.follow_packets();
    }

    /// Returns the bytes of a full datagram.
    pub(super) fn datagram(&self) -> u64 {
        self.datagram
    }

    /// Returns the bytes in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns where slow start ends; `None`: nothing has been lost or marked yet.
    pub(super) fn threshold(&self) -> Option<u64> {
        self.threshold
    }

    /// Returns what the control does, as a word.
    pub(super) fn state(&self) -> &'static str {
        if let Some(packets) = &self.packets {
            packets.state()
        } else if self.recovers {
            RECOVERY
        } else if self.in_slow_start() {
            let slowed = self.gentle.as_ref().is_some_and(|gentle| gentle.is_conservative());
            if slowed { CONSERVATIVE } else { SLOW_START }
        } else {
            AVOIDANCE
        }
    }

    fn in_slow_start(&self) -> bool {
        self.threshold.is_none_or(|threshold| self.bytes < threshold)
    }

    fn least(&self) -> u64 {
        2 * self.datagram
    }

    fn is_in_recovery(&self, sent_at: Time) -> bool {
        self.recovery_since.is_some_and(|since| sent_at <= since)
    }

    /// Notes that a packet was sent that counts towards the window.
    pub(super) fn note_sent(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// Notes that a packet was acknowledged and is no longer in flight. `limited`: the window held
    /// the end back.
    pub(super) fn note_acked(
        &mut self,
        now: Time,
        (bytes, sent_at): (u64, Time),
        limited: bool,
        rtt: Span,
    ) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if self.packets.is_some() {
            return;
        }
        let before = self.is_in_recovery(sent_at);
        self.recovers &= before;
        // 7.8: a window that was not used tells nothing.
        if !limited || before {
            return;
        }
        if self.in_slow_start() {
            self.bytes += match &mut self.gentle {
                Some(gentle) => gentle.growth(bytes),
                None => bytes,
            };
            return;
        }
        match self.kind {
            Congestion::NewReno => self.bytes += (self.datagram * bytes / self.bytes).max(1),
            Congestion::Cubic => self.grow_cubic(now, bytes, rtt),
            Congestion::Bbr | Congestion::BbrV3 | Congestion::Dctcp | Congestion::Prague => {}
        }
    }

    /// Grows the window as in RFC 9438, 4.2 to 4.5.
    fn grow_cubic(&mut self, now: Time, bytes: u64, rtt: Span) {
        let datagram = self.datagram as f64;
        let window = self.bytes as f64 / datagram;
        let cubic = &mut self.cubic;
        let epoch = *cubic.epoch.get_or_insert_with(|| {
            cubic.most = cubic.most.max(window);
            cubic.k = libm::cbrt((cubic.most - window) / C);
            cubic.estimate = window;
            now
        });
        let acked = bytes as f64 / datagram;
        // 4.3.
        let alpha = if cubic.estimate >= cubic.most {
            1.0
        } else {
            3.0 * (1.0 - BETA_CUBIC) / (1.0 + BETA_CUBIC)
        };
        cubic.estimate += alpha * acked / window;
        let at = now.since(epoch).as_secs_f64();
        let cube = |x: f64| x * x * x;
        let curve = |at: f64| C * cube(at - cubic.k) + cubic.most;
        let target = curve(at + rtt.as_secs_f64()).clamp(window, 1.5 * window);
        let grown = if curve(at) < cubic.estimate {
            cubic.estimate.max(window)
        } else {
            window + (target - window) / window * acked
        };
        self.bytes = ((grown * datagram) as u64).max(self.bytes);
    }

    /// Notes that a packet is no longer in flight because it was lost or its keys are gone.
    pub(super) fn forget(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Reduces the window because a packet sent at `sent_at` was lost or marked (RFC 9002, 7.3.2).
    fn reduce(&mut self, now: Time, sent_at: Time) {
        if self.is_in_recovery(sent_at) {
            return;
        }
        (self.recovery_since, self.recovers) = (Some(now), true);
        if let Some(gentle) = &mut self.gentle {
            gentle.end();
        }
        let factor = match self.kind {
            Congestion::Cubic => BETA_CUBIC,
            _ => 0.5,
        };
        let window = self.bytes as f64 / self.datagram as f64;
        // RFC 9438, 4.7: leave room to others sooner if the window did not come as far as before.
        let converged =
            if window < self.cubic.most { window * (1.0 + BETA_CUBIC) / 2.0 } else { window };
        self.cubic = Cubic { most: converged, ..Cubic::default() };
        self.bytes = ((self.bytes as f64 * factor) as u64).max(self.least());
        self.threshold = Some(self.bytes);
    }

    /// Handles persistent congestion: nothing got through for long (RFC 9002, 7.6.2).
    fn collapse_bytes(&mut self) {
        self.bytes = self.least();
        (self.recovery_since, self.recovers) = (None, false);
        self.cubic.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_ms(100);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// RFC 9002, 7.2: ten datagrams, at most 14720 bytes, but two datagrams in any case.
    #[test]
    fn the_first_window_is_the_rfcs() {
        for (payload, bytes) in [(1200, 12_000), (1472, 14_720), (9000, 18_000)] {
            let window = Window::new(&Config { payload, ..Config::default() });
            assert_eq!(window.bytes, bytes);
        }
        for datagrams in [9, 10, 11] {
            let config =
                Config { payload: 9000, initial_window: Some(datagrams), ..Config::default() };
            assert_eq!(Window::new(&config).bytes, u64::from(datagrams) * 9000);
        }
    }

    /// RFC 9002, 7.3.1 to 7.3.3: the window doubles, halves once in a round trip, and then grows by
    /// a datagram.
    #[test]
    fn new_reno_halves_and_grows_by_a_datagram() {
        let mut window = Window::new(&Config::default());
        for _ in 0..10 {
            window.note_acked(at(100), (1200, at(0)), true, RTT);
        }
        assert_eq!(window.bytes, 24_000);
        window.reduce(at(200), at(100));
        window.reduce(at(210), at(150));
        assert_eq!(window.bytes, 12_000);
        for _ in 0..10 {
            window.note_acked(at(400), (1200, at(300)), true, RTT);
        }
        assert!((13_100..=13_200).contains(&window.bytes), "{}", window.bytes);
        window.collapse_bytes();
        assert_eq!(window.bytes, 2400);
    }

    /// RFC 9438, 4.2: the window is back at its old size after K seconds.
    #[test]
    fn cubic_comes_back_after_k_seconds() {
        let config = Config {
            congestion: Congestion::Cubic,
            initial_window: Some(100),
            ..Config::default()
        };
        let mut window = Window::new(&config);
        window.reduce(at(0), at(0));
        assert_eq!(window.bytes, 84_000);
        // The cube root of (100 - 70) / 0.4 is 4.217.
        let mut now = 0;
        while window.bytes < 119_900 {
            now += 100;
            for _ in 0..window.bytes / 1200 {
                window.note_acked(at(now), (1200, at(now - 50)), true, RTT);
            }
            assert!(now < 10_000);
        }
        assert!((4_000..=4_500).contains(&now), "{now}");
    }

    /// RFC 9002, 7 and B.2: what is in flight fits the window to the byte.
    #[test]
    fn the_window_is_full_to_the_byte() {
        let mut window = Window::new(&Config::default());
        assert!(window.allows(12_000) && !window.allows(12_001));
        window.note_sent(10_000);
        assert!(window.allows(2000) && !window.allows(2001));
        window.forget(500);
        window.note_acked(at(1), (1500, at(0)), false, RTT);
        assert!(window.allows(4000) && !window.allows(4001));
        window.forget(100_000);
        assert!(window.allows(12_000) && !window.allows(12_001));
    }

    /// RFC 9002, 7.2 and 7.8, 14.1 of RFC 9000: longer datagrams raise the least window.
    #[test]
    fn two_datagrams_always_fit() {
        let mut window = Window::new(&Config { initial_window: Some(2), ..Config::default() });
        window.lengthen_datagrams(1400);
        assert_eq!(window.bytes, 2800);
        let mut window = Window::new(&Config::default());
        window.lengthen_datagrams(1400);
        assert_eq!(window.bytes, 12_000);
        for (since, bytes) in [(100, 6000), (200, 3000), (300, 2800), (400, 2800)] {
            window.reduce(at(since), at(since - 50));
            assert_eq!((window.bytes, window.threshold), (bytes, Some(bytes)));
        }
    }

    /// RFC 9002, 7.3.1 to 7.3.3 and 7.8: slow start adds what is acknowledged, avoidance a datagram
    /// for each window, and neither anything in recovery or for an end that was not held back.
    #[test]
    fn new_reno_grows_to_the_byte() {
        let reduced = || {
            let mut window = Window::new(&Config::default());
            window.reduce(at(200), at(100));
            assert_eq!((window.bytes, window.threshold), (6000, Some(6000)));
            window
        };
        for (bytes, sent_at, limited, threshold, expected) in [
            (1200, 201, true, 6000, 6000 + 1200 * 1200 / 6000),
            (600, 201, true, 6000, 6000 + 1200 * 600 / 6000),
            (1, 201, true, 6000, 6001),
            (1200, 200, true, 6000, 6000),
            (1200, 201, false, 6000, 6000),
            (1200, 201, true, 6001, 7200),
        ] {
            let mut window = reduced();
            window.threshold = Some(threshold);
            window.note_acked(at(300), (bytes, at(sent_at)), limited, RTT);
            assert_eq!(window.bytes, expected, "{bytes} {sent_at} {limited} {threshold}");
        }
        let mut window = reduced();
        window.reduce(at(300), at(200));
        assert_eq!(window.bytes, 6000, "sent before the reduction");
        window.reduce(at(300), at(201));
        assert_eq!(window.bytes, 3000);
        window.collapse_bytes();
        window.reduce(at(400), at(10));
        assert_eq!((window.bytes, window.recovery_since), (2400, Some(at(400))));
    }

    fn cubic(datagrams: u16) -> Window {
        Window::new(&Config {
            congestion: Congestion::Cubic,
            initial_window: Some(datagrams),
            ..Config::default()
        })
    }

    /// RFC 9438, 4.6 and 4.7: 0.7 of the window; below the last maximum, a maximum of 0.85.
    #[test]
    fn rfc9438_4_7_a_window_that_did_not_come_back_leaves_room() {
        let mut window = cubic(100);
        window.reduce(at(100), at(50));
        assert_eq!((window.bytes, window.cubic.most), (84_000, 100.0));
        window.reduce(at(200), at(150));
        assert!(window.bytes.abs_diff(58_800) <= 1, "{}", window.bytes);
        assert!((window.cubic.most - 59.5).abs() < 1e-9);
        let mut window = cubic(100);
        window.cubic.most = 100.0;
        window.reduce(at(100), at(50));
        assert_eq!(window.cubic.most, 100.0);
    }

    /// RFC 9438, 4.2 to 4.5, for an acknowledged datagram at some times after the reduction of 100
    /// datagrams to 70: W(t) = 0.4 (t - 4.217)^3 + 100, a round trip ahead, at most half more than
    /// the window, and what Reno would have if that is more.
    #[test]
    fn rfc9438_4_2_each_acknowledgement_grows_the_window_towards_the_cubic_function() {
        let k = libm::cbrt(75.0);
        let curve = |t: f64| 0.4 * libm::pow(t - k, 3.0) + 100.0;
        for (ms, window, rtt_ms) in
            [(1000, 86.0, 100), (3000, 99.0, 100), (6000, 102.0, 300), (20_000, 110.0, 100)]
        {
            let mut cubic = cubic(100);
            cubic.reduce(at(0), at(0));
            let rtt = Span::from_ms(rtt_ms);
            cubic.note_acked(at(10), (1200, at(5)), true, rtt);
            cubic.bytes = (window * 1200.0) as u64;
            cubic.cubic.estimate = 0.0;
            cubic.note_acked(at(10 + ms), (1200, at(5)), true, rtt);
            let t = ms as f64 / 1000.0;
            let target = curve(t + rtt.as_secs_f64()).clamp(window, 1.5 * window);
            let expected = window + (target - window) / window;
            let grown = cubic.bytes as f64 / 1200.0;
            assert!((grown - expected).abs() < 0.001, "{ms}: {grown}, not {expected}");
        }
    }

    /// RFC 9438, 4.3: Reno's window grows by 3 (1 - 0.7) / (1 + 0.7) for each window up to the old
    /// maximum, and by one beyond it. The larger of the two windows counts.
    #[test]
    fn rfc9438_4_3_the_window_is_at_least_renos() {
        for (most, alpha) in [(100.0, 0.9 / 1.7), (70.0, 1.0), (69.9, 1.0), (70.1, 0.9 / 1.7)] {
            let mut window = cubic(100);
            window.reduce(at(0), at(0));
            window.cubic = Cubic { most, k: 1000.0, epoch: Some(at(10)), estimate: 70.0 };
            for n in 1..=10 {
                window.note_acked(at(10), (1200, at(5)), true, RTT);
                // Far below the curve's maximum, nothing but Reno's window grows.
                if most == 100.0 {
                    let expected = 70.0 + alpha * f64::from(n) / 70.0;
                    assert!((window.bytes as f64 / 1200.0 - expected).abs() < 0.01, "{n}");
                }
            }
            let grown = window.cubic.estimate - 70.0;
            let expected = alpha * 10.0 / 70.0;
            assert!((grown / expected - 1.0).abs() < 0.02, "{most}: {grown}, not {expected}");
        }
    }

    /// RFC 9438, 4.3: Reno's window counts if the cubic function is *less* than it. Here both are 80
    /// datagrams, so the window of 70 grows by (80 - 70) / 70.
    #[test]
    fn rfc9438_4_3_reno_counts_only_above_the_cubic_function() {
        for (above, grown) in [(0.0, 70.0 + 10.0 / 70.0), (0.001, 80.001)] {
            let mut window = cubic(70);
            (window.threshold, window.kind) = (Some(0), Congestion::Cubic);
            let step = 3.0 * (1.0 - BETA_CUBIC) / (1.0 + BETA_CUBIC) / 70.0;
            let estimate = 80.0 - step + above;
            assert!(above > 0.0 || estimate + step == 80.0, "to the last bit");
            window.cubic = Cubic { most: 80.0, k: 0.0, epoch: Some(at(10)), estimate };
            window.note_acked(at(10), (1200, at(5)), true, Span::ZERO);
            let found = window.bytes as f64 / 1200.0;
            assert!((found - grown).abs() < 0.001, "{above}: {found}, not {grown}");
        }
    }
}
