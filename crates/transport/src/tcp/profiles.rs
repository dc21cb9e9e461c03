//! The named profiles.
//!
//! `linux-6`: a current kernel with its defaults. `legacy`: the same with `tcp_recovery = 0`,
//! `tcp_early_retrans = 0` and initial window 3. `linux-2.6.30`: Linux in 2009, before proportional
//! rate reduction (3.2), an initial window of 10 (2.6.39), an initial RTO of 1 s (3.1) and today's
//! timer wheel (4.8). `ns-2`: `Agent/TCP/Reno` with the defaults that ns-2.35 prints, including
//! limited transmit (`singledup_`).

use narrows_units::Span;

use super::{AckPolicy, Config, Congestion, Recovery, Reduction, RestartAfterIdle, TimerRounding};

impl Config {
    /// The names of all profiles, for [`Config::profile`].
    pub const PROFILES: [&'static str; 4] = ["linux-6", "legacy", "linux-2.6.30", "ns-2"];

    /// Returns the settings of a named profile, or `None` if there is no such profile.
    pub fn profile(name: &str) -> Option<Self> {
        let linux_6 = Self::default();
        Some(match name {
            "linux-6" => linux_6,
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

    /// Returns whether this is the textbook's Tahoe, Reno or NewReno. The latter two inflate the
    /// window (RFC 5681, 3.2; ns-2).
    #[inline]
    pub(crate) fn is_classic(&self) -> bool {
        self.reduction == Reduction::AtOnce
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn every_profile_passes_its_own_check() {
        for name in Config::PROFILES {
            let config = Config::profile(name).expect("a listed profile");
            assert_eq!(config.check(), Ok(()), "{name}");
        }
        assert_eq!(Config::profile("linux-7"), None);
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
}
