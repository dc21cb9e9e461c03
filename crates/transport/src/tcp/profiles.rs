//! The named profiles.
//!
//! `linux-6`: Linux 6.1 with its defaults. `linux-7`: Linux 7.3. Its receive window grows differently, it
//! holds SACKs back for longer, repeats the first SYNs sooner (since 6.5), and leaves ECE out of SYN-ACKs
//! after its timer has repeated one. `legacy`: `linux-6` with `tcp_recovery = 0`,
//! `tcp_early_retrans = 0` and initial window 3. `linux-2.6.30`: Linux in 2009, before proportional
//! rate reduction (3.2), an initial window of 10 (2.6.39), an initial RTO of 1 s (3.1) and today's
//! timer wheel (4.8). `ns-2`: `Agent/TCP/Reno` with the defaults that ns-2.35 prints, including
//! limited transmit (`singledup_`).

use narrows_units::settings::Words;
use narrows_units::{Ecn, Span};

use super::{
    AckPolicy, Config, Congestion, Recovery, Reduction, RestartAfterIdle, TimerRounding,
    WindowGrowth,
};

impl Config {
    /// The names of all profiles, for [`Config::profile`].
    pub const PROFILES: [&'static str; 5] =
        ["linux-6", "linux-7", "legacy", "linux-2.6.30", "ns-2"];

    /// Returns the settings of a named profile, or `None` if there is no such profile.
    pub fn profile(name: &str) -> Option<Self> {
        let linux_6 = Self::default();
        Some(match name {
            "linux-6" => linux_6,
            "linux-7" => Self {
                window_growth: WindowGrowth::Linux73,
                comp_sack_rtt_percent: 33,
                syn_ack_ecn_fallback: true,
                syn_linear_timeouts: 4,
                ..linux_6
            },
            "legacy" => Self { rack: false, tlp: false, initial_window: 3, ..linux_6 },
            "linux-2.6.30" => Self {
                rack: false,
                tlp: false,
                initial_window: 3,
                reduction: Reduction::RateHalving,
                acks: AckPolicy::Linux26,
                initial_rto: Span::from_secs(3),
                timer_rounding: TimerRounding::Jiffy,
                ..linux_6
            },
            "ns-2" => Self {
                initial_window: 2,
                congestion: Congestion::Reno,
                hystart: false,
                recovery: Recovery::Reno,
                reduction: Reduction::AtOnce,
                rack: false,
                tlp: false,
                frto: false,
                undo: false,
                sack: false,
                timestamps: false,
                receive_autotuning: false,
                acks: AckPolicy::EverySegment,
                nagle: false,
                initial_rto: Span::from_secs(3),
                max_rto: Span::from_secs(60),
                timer_granularity: Span::from_ms(10),
                timer_rounding: TimerRounding::Exact,
                restart_after_idle: RestartAfterIdle::Fresh,
                max_retries: u8::MAX,
                skip_handshake: true,
                ..linux_6
            },
            _ => return None,
        })
    }

    /// Returns whether connections ask for Accurate ECN.
    pub(crate) fn is_accurate(&self) -> bool {
        self.accurate_ecn || self.congestion == Congestion::Prague
    }

    /// Returns whether connections negotiate ECN.
    pub(crate) fn wants_ecn(&self) -> bool {
        self.ecn || self.is_accurate() || self.sends_only_ect()
    }

    /// Returns whether every segment is ECN-capable, also SYN and SYN-ACK, because the congestion
    /// control counts marks.
    pub(crate) fn sends_only_ect(&self) -> bool {
        Congestion::COUNT_MARKS.contains(&self.congestion.word())
    }

    /// Returns the codepoint with which segments are ECN-capable, if the other end's feedback is
    /// the one asked for.
    pub(crate) fn ect(&self) -> Ecn {
        if self.congestion == Congestion::Prague { Ecn::Ect1 } else { Ecn::Ect0 }
    }

    /// Returns whether this is the textbook's Tahoe, Reno or NewReno. The latter two inflate the
    /// window (RFC 5681, 3.2; ns-2).
    #[inline]
    pub(crate) fn is_classic(&self) -> bool {
        self.reduction == Reduction::AtOnce
    }

    /// Returns whether senders pace: by this setting, or because their control always does. One from
    /// outside may do so at any time.
    pub fn paces(&self) -> bool {
        self.pacing
            || matches!(self.congestion, Congestion::Custom(_))
            || Congestion::PACED.contains(&self.congestion.word())
    }

    /// Returns whether senders can pace: TCP as in the textbook and of 2010 cannot.
    pub fn can_pace(&self) -> bool {
        !self.is_classic() && self.reduction != Reduction::RateHalving
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use narrows_units::Bytes;

    use super::*;
    use crate::tcp::EcnControl;

    #[test]
    fn every_profile_passes_its_own_check() {
        for name in Config::PROFILES {
            let config = Config::profile(name).expect("a listed profile");
            assert_eq!(config.check(), Ok(()), "{name}");
        }
        assert_eq!(Config::profile("linux-8"), None);
    }

    #[test]
    fn impossible_settings_are_named() {
        let config = Config::profile("linux-6").expect("a known profile");
        let field = |config: Config| config.check().expect_err("impossible").key().to_owned();
        assert_eq!(field(Config { mss: 12, ..config.clone() }), "mss");
        assert_eq!(field(Config { initial_window: 0, ..config.clone() }), "initial_window");
        let tahoe = Config { recovery: Recovery::Tahoe, ..config.clone() };
        assert_eq!(field(tahoe), "recovery");
        assert_eq!(field(Config { reduction: Reduction::AtOnce, ..config.clone() }), "reduction");
        assert_eq!(field(Config { min_rto: Span::from_secs(200), ..config }), "min_rto");
    }

    /// What the module's comment says, and ns-2.35's `ns-default.tcl`: `windowInit_` 2, `minrto_`
    /// 0.2, `maxrto_` 60, `rtxcur_init_` 3, `tcpTick_` 0.01, `timestamps_` and `ecn_` false. All
    /// other settings are the defaults.
    #[test]
    fn profiles_differ_from_the_defaults_where_they_say_so() {
        let defaults = Config::default();
        let profile = |name| Config::profile(name).expect("a listed profile");
        assert_eq!(profile("linux-6"), defaults);
        let mut linux_7 = defaults.clone();
        (linux_7.window_growth, linux_7.comp_sack_rtt_percent) = (WindowGrowth::Linux73, 33);
        (linux_7.syn_ack_ecn_fallback, linux_7.syn_linear_timeouts) = (true, 4);
        assert_eq!(profile("linux-7"), linux_7);
        let mut legacy = defaults.clone();
        (legacy.rack, legacy.tlp, legacy.initial_window) = (false, false, 3);
        assert_eq!(profile("legacy"), legacy);
        let mut linux_2_6 = legacy;
        linux_2_6.reduction = Reduction::RateHalving;
        linux_2_6.acks = AckPolicy::Linux26;
        linux_2_6.initial_rto = Span::from_secs(3);
        linux_2_6.timer_rounding = TimerRounding::Jiffy;
        assert_eq!(profile("linux-2.6.30"), linux_2_6);
        let mut ns_2 = defaults;
        (ns_2.initial_window, ns_2.congestion, ns_2.hystart) = (2, Congestion::Reno, false);
        (ns_2.recovery, ns_2.reduction) = (Recovery::Reno, Reduction::AtOnce);
        (ns_2.rack, ns_2.tlp, ns_2.frto, ns_2.undo) = (false, false, false, false);
        (ns_2.sack, ns_2.timestamps, ns_2.nagle) = (false, false, false);
        (ns_2.receive_autotuning, ns_2.acks) = (false, AckPolicy::EverySegment);
        (ns_2.initial_rto, ns_2.max_rto) = (Span::from_secs(3), Span::from_secs(60));
        (ns_2.timer_granularity, ns_2.timer_rounding) = (Span::from_ms(10), TimerRounding::Exact);
        (ns_2.restart_after_idle, ns_2.max_retries) = (RestartAfterIdle::Fresh, 255);
        ns_2.skip_handshake = true;
        assert_eq!(profile("ns-2"), ns_2);
        let classic = Config::PROFILES.map(|name| profile(name).is_classic());
        assert_eq!(classic, [false, false, false, false, true]);
    }

    /// What does not go together, on both sides of each bound.
    #[test]
    fn settings_must_go_together() {
        let said = |config: &Config| config.check().map_err(|error| error.key().to_owned());
        let (linux, ns_2) = (Config::default(), Config::profile("ns-2").expect("listed"));
        let ms = Span::from_ms;
        let buffer = |bytes| Config { receive_buffer: Bytes::new(bytes), ..linux.clone() };
        let min = |min_rto| Config { min_rto, max_rto: ms(2000), ..linux.clone() };
        let first = |initial_rto| Config { initial_rto, max_rto: ms(2000), ..linux.clone() };
        let control = |ecn, ecn_control| Config { ecn, ecn_control, ..linux.clone() };
        let open = |skip_handshake, fast_open| Config { skip_handshake, fast_open, ..ns_2.clone() };
        let recovers = |recovery, reduction| Config { recovery, reduction, ..linux.clone() };
        for (config, expected) in [
            (buffer(2920), None),
            (buffer(2919), Some("receive_buffer")),
            (min(ms(4)), None),
            (min(ms(3)), Some("min_rto")),
            (min(ms(2000)), None),
            (min(ms(2001)), Some("min_rto")),
            (first(ms(4)), None),
            (first(ms(3)), Some("initial_rto")),
            (first(ms(2000)), None),
            (first(ms(2001)), Some("initial_rto")),
            (control(true, EcnControl::SynAck), None),
            (control(false, EcnControl::SynAck), Some("ecn_control")),
            (control(false, EcnControl::Data), None),
            (open(true, false), None),
            (open(false, true), None),
            (open(true, true), Some("fast_open")),
            (recovers(Recovery::Sack, Reduction::AtOnce), Some("reduction")),
            (recovers(Recovery::Sack, Reduction::RateHalving), None),
            (recovers(Recovery::Tahoe, Reduction::AtOnce), None),
            (recovers(Recovery::Tahoe, Reduction::Prr), Some("recovery")),
            (recovers(Recovery::Reno, Reduction::Prr), None),
        ] {
            assert_eq!(said(&config), expected.map_or(Ok(()), |key| Err(key.to_owned())));
        }
        let delayed = |span| Config { acks: AckPolicy::Delayed(span), ..linux.clone() };
        assert_eq!(said(&delayed(Span::ZERO)), Err("acks".to_owned()));
        assert_eq!(said(&delayed(Span::from_ps(1))), Ok(()));
        assert_eq!(said(&delayed(Span::from_secs(1))), Ok(()));
        assert_eq!(said(&delayed(ms(1001))), Err("acks".to_owned()));
    }
}
