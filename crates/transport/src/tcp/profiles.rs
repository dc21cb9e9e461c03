//! The named profiles, and the rules for a configuration.
//!
//! `linux-6`: a current kernel with its defaults. `legacy`: the same with `tcp_recovery = 0`,
//! `tcp_early_retrans = 0` and initial window 3. `linux-2.6.30`: Linux in 2009, before proportional
//! rate reduction (3.2), an initial window of 10 (2.6.39), an initial RTO of 1 s (3.1) and today's
//! timer wheel (4.8). `ns-2`: `Agent/TCP/Reno` with the defaults that ns-2.35 prints, including
//! limited transmit (`singledup_`).

use core::fmt;

use narrows_units::{Bytes, Span};

use super::{
    AckPolicy, Config, Congestion, EcnControl, EcnResponse, Recovery, Reduction, RestartAfterIdle,
    TimerRounding,
};

impl Config {
    /// The names of all profiles, for [`Config::profile`].
    pub const PROFILES: [&'static str; 4] = ["linux-6", "legacy", "linux-2.6.30", "ns-2"];

    /// Returns the settings of a named profile, or `None` if there is no such profile.
    pub fn profile(name: &str) -> Option<Self> {
        let linux_6 = Self {
            mss: 1460,
            initial_window: 10,
            initial_ssthresh: None,
            congestion: Congestion::Cubic,
            hystart: true,
            recovery: Recovery::Sack,
            reduction: Reduction::Prr,
            rack: true,
            tlp: true,
            frto: true,
            undo: true,
            limited_transmit: true,
            sack: true,
            timestamps: true,
            window_scaling: true,
            receive_buffer: Bytes::new(3_145_728),
            receive_autotuning: true,
            acks: AckPolicy::Linux,
            nagle: true,
            ecn: false,
            ecn_control: EcnControl::Data,
            ecn_response: EcnResponse::AsLoss,
            initial_rto: Span::from_secs(1),
            min_rto: Span::from_ms(200),
            max_rto: Span::from_secs(120),
            timer_granularity: Span::from_ms(4),
            timer_rounding: TimerRounding::Wheel,
            restart_after_idle: RestartAfterIdle::Decay,
            max_retries: 15,
            syn_linear_timeouts: 0,
            skip_handshake: false,
            fast_open: false,
        };
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

    /// Checks whether an endpoint can work with these settings.
    ///
    /// # Errors
    ///
    /// Returns the first setting that breaks a rule, and the rule.
    pub fn check(&self) -> Result<(), ConfigError> {
        let error = |field, message| Err(ConfigError { field, message });
        if !(88..=65_495).contains(&self.mss) {
            return error("mss", "must lie between 88 and 65495 bytes");
        }
        if !(1..=65_535).contains(&self.initial_window) {
            return error("initial_window", "must lie between 1 and 65535 segments");
        }
        if self.initial_ssthresh.is_some_and(|ssthresh| ssthresh < 2) {
            return error("initial_ssthresh", "must be at least 2 segments");
        }
        if self.receive_buffer.get() < 2 * u64::from(self.mss) {
            return error("receive_buffer", "must hold at least two segments");
        }
        let tick = self.timer_granularity;
        if !(Span::from_us(1)..=Span::from_secs(1)).contains(&tick) {
            return error("timer_granularity", "must lie between 1 us and 1 s");
        }
        if self.min_rto < tick || self.min_rto > self.max_rto {
            return error("min_rto", "must lie between timer_granularity and max_rto");
        }
        if self.initial_rto < tick || self.initial_rto > self.max_rto {
            return error("initial_rto", "must lie between timer_granularity and max_rto");
        }
        if self.max_rto > Span::from_secs(LONGEST_RTO_S) {
            return error("max_rto", "must be at most 1000 s");
        }
        if self.acks == AckPolicy::Delayed(Span::ZERO) {
            return error("acks", "must delay by more than 0; every-segment does not delay");
        }
        if self.max_retries == 0 {
            return error("max_retries", "must be at least 1");
        }
        if self.syn_linear_timeouts > MOST_LINEAR_TIMEOUTS {
            return error("syn_linear_timeouts", "must be at most 127");
        }
        if self.ecn_control != EcnControl::Data && !self.ecn {
            return error("ecn_control", "needs ecn");
        }
        if self.fast_open && self.skip_handshake {
            return error("fast_open", "needs a handshake");
        }
        if self.recovery == Recovery::Sack && self.is_classic() {
            return error("reduction", "is at-once, which goes with tahoe, reno or new-reno");
        }
        if self.recovery == Recovery::Tahoe && !self.is_classic() {
            return error("recovery", "is tahoe, which goes with reduction at-once");
        }
        Ok(())
    }

    /// Returns whether this is the textbook's Tahoe, Reno or NewReno. The latter two inflate the
    /// window (RFC 5681, 3.2; ns-2).
    #[inline]
    pub fn is_classic(&self) -> bool {
        self.reduction == Reduction::AtOnce
    }
}

const LONGEST_RTO_S: u64 = 1000;

/// `MAX_TCP_SYNCNT`, the bound of `tcp_syn_linear_timeouts`.
const MOST_LINEAR_TIMEOUTS: u8 = 127;

/// A setting that an endpoint cannot work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field of [`Config`].
    pub field: &'static str,
    /// The rule that it breaks.
    pub message: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.message)
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
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
        let field = |config: Config| config.check().expect_err("impossible").field;
        assert_eq!(field(Config { mss: 12, ..config.clone() }), "mss");
        assert_eq!(field(Config { initial_window: 0, ..config.clone() }), "initial_window");
        let tahoe = Config { recovery: Recovery::Tahoe, ..config.clone() };
        assert_eq!(field(tahoe), "recovery");
        assert_eq!(field(Config { reduction: Reduction::AtOnce, ..config.clone() }), "reduction");
        assert_eq!(field(Config { min_rto: Span::from_secs(200), ..config }), "min_rto");
    }
}
