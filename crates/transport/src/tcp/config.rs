//! The settings of a TCP endpoint, with one field for each choice that an implementation makes.
//!
//! The named profiles (`linux-6`, `linux-7`, `legacy`, `linux-2.6.30`, `ns-2`) are values of this
//! struct; see [`Config::profile`]. Field names follow the sysctl or the RFC.

use crate::congestion::{Scaling, SlowStart};
use narrows_units::settings::{
    Kind, Rule, Setting, Settings, Value, Words, any, size, span, whole,
};
use narrows_units::{Bytes, ConfigError, Span, settings, words};

settings! {
    /// The settings of a TCP endpoint.
    pub struct Config as "Tcp" {
        /// Largest payload of a segment without options, in bytes; with timestamps each data segment
        /// carries 12 bytes less.
        mss: u16 = 1460, whole(88, 8960);
        /// Initial window in segments (RFC 6928: 10).
        initial_window: u32 = 10, whole(1, 65_535);
        /// Initial slow-start threshold in segments; `None`: unbounded.
        initial_ssthresh: Option<u32> = None, whole(2, 1_000_000);
        /// Congestion control: Reno (RFC 5681), CUBIC (RFC 9438), BBR v1 or v3, which pace,
        /// DCTCP (RFC 8257), which negotiates ECN, or Prague, which does both and sends ECT(1).
        congestion: Congestion = Congestion::Cubic, any();
        /// Paces: segments leave at 1.2 times the window in a round trip (twice in slow start), and
        /// not as fast as the window allows, as a socket of Linux does that has a highest pacing rate.
        /// BBR and Prague always pace.
        pacing: bool = false, any();
        /// A sender that paces sends about a millisecond's segments at once, at least two, as
        /// segmentation offload makes Linux do. `false`: one at a time.
        segmentation_offload: bool = false, any();
        /// Prague treats a round trip below `prague_rtt_target` as if it were that long, like the
        /// Prague of 2022. `false`: it does not, like that of 2020.
        prague_rtt_scaling: bool = Scaling::USUAL.is_on, any();
        /// The round trip as which Prague treats shorter ones.
        prague_rtt_target: Span = Scaling::USUAL.target, span(Span::from_us(1), Span::from_secs(1));
        /// The number of rounds after slow start from which Prague treats round trips so.
        prague_rtt_transition: u32 = Scaling::USUAL.transition, whole(0, 1_000_000);
        /// How slow start grows, and what ends it before a loss or a mark does: `standard` (RFC 5681,
        /// and `hystart` for CUBIC), or `hystart++` (RFC 9406), for Reno and CUBIC.
        slow_start: SlowStart = SlowStart::Standard, any();
        /// Linux's HyStart: leaves slow start before the first loss; CUBIC only, and not with
        /// `slow_start = "hystart++"`.
        hystart: bool = true, any();
        /// How lost segments are found and sent again. `tahoe`: fast retransmit, then slow start
        /// (Jacobson 1988); `reno`: fast recovery until the first new acknowledgement (RFC 2581);
        /// `new-reno`: fast recovery over partial acknowledgements too (RFC 6582); `sack`: by a
        /// scoreboard (RFC 6675).
        recovery: Recovery = Recovery::Sack, any();
        /// How the window shrinks in recovery: `at-once` (RFC 5681), `rate-halving` (Linux before
        /// 3.2), or `prr` (RFC 6937).
        reduction: Reduction = Reduction::Prr, any();
        /// Loss detection by time (RFC 8985).
        rack: bool = true, any();
        /// Tail loss probes (RFC 8985).
        tlp: bool = true, any();
        /// Detection of spurious timeouts (RFC 5682).
        frto: bool = true, any();
        /// Undoes window reductions that turn out to be needless.
        undo: bool = true, any();
        /// Limited transmit (RFC 3042).
        limited_transmit: bool = true, any();
        /// Offers selective acknowledgements (RFC 2018).
        sack: bool = true, any();
        /// Offers timestamps (RFC 7323).
        timestamps: bool = true, any();
        /// Offers window scaling (RFC 7323).
        window_scaling: bool = true, any();
        /// The largest window that is advertised; at most 1 GiB (RFC 7323). With autotuning, the buffer
        /// grows up to twice as many bytes. With `window_growth = "linux-7.3"`, more than half of these
        /// can be window.
        receive_buffer: Bytes = Bytes::new(3_145_728), size(1, 1 << 30);
        /// The window starts at 64 KB and grows with what the application reads, and every segment
        /// is acknowledged at once while it grows, as in Linux. `false`: the whole window is
        /// advertised from the start.
        receive_autotuning: bool = true, any();
        /// How fast the window grows with `receive_autotuning`: as in Linux 6.1, where half of the
        /// buffer is overhead, or as in Linux 7.3, which learns the overhead from full segments.
        window_growth: WindowGrowth = WindowGrowth::Linux61, any();
        /// When a receiver acknowledges: `"every-segment"`, `"linux"` (quick at the start, then a
        /// delay that adapts), `"linux-2.6"` (the same, but not quick after marks), or
        /// `{ delayed = "200 ms" }`.
        acks: AckPolicy = AckPolicy::Linux, span(Span::from_ps(1), Span::from_secs(1));
        /// For how long `acks = "linux"` holds acknowledgements back while data are missing, from the
        /// fourth on: this share of the round trip, in per cent, but at most a millisecond
        /// (`tcp_comp_sack_rtt_percent`). 5 is Linux before it had this sysctl, and 33 the default of
        /// Linux 7.3.
        comp_sack_rtt_percent: u16 = 5, whole(1, 1000);
        /// Nagle's algorithm; false means TCP_NODELAY.
        nagle: bool = true, any();
        /// Negotiates ECN, so that data are marked rather than dropped (RFC 3168).
        ecn: bool = false, any();
        /// Negotiates Accurate ECN, and with it ECN: the receiver counts marked packets and bytes on
        /// every segment (RFC 9768). If the other end does not, feedback is that of RFC 3168.
        accurate_ecn: bool = false, any();
        /// Packets besides new data that may be marked rather than dropped.
        ecn_control: EcnControl = EcnControl::Data, any();
        /// A server whose timer has repeated the SYN-ACK leaves ECE out of all later ones, but sends
        /// ECN-capable data all the same, as Linux 7.3 does: the client then has no ECN, and reports no
        /// marks. `false`: every SYN-ACK agrees to ECN (RFC 3168).
        syn_ack_ecn_fallback: bool = false, any();
        /// The response to an ECN echo: as to a loss (RFC 3168), or a smaller reduction (RFC 8511).
        ecn_response: EcnResponse = EcnResponse::AsLoss, any();
        /// Retransmission timeout before the first measurement (RFC 6298: 1 s).
        initial_rto: Span = Span::from_secs(1), span(Span::from_ps(1), LONGEST_RTO);
        /// Lower bound of the retransmission timeout (Linux: 200 ms).
        min_rto: Span = Span::from_ms(200), span(Span::from_ps(1), LONGEST_RTO);
        /// Upper bound of the retransmission timeout (Linux: 120 s).
        max_rto: Span = Span::from_secs(120), span(Span::from_ps(1), LONGEST_RTO);
        /// Granularity of the retransmission timer, 1 us to 1 s.
        timer_granularity: Span = Span::from_ms(4), span(Span::from_us(1), Span::from_secs(1));
        /// When a timer fires: exactly when its time is over (ns-2), at a tick of the host's clock
        /// (Linux before 4.8), or at a slot of the timer wheel, one tick later and coarser for long
        /// timers (Linux since 4.8).
        timer_rounding: TimerRounding = TimerRounding::Wheel, any();
        /// The window after an idle time: it stays, decays (RFC 2861, Linux), goes back to the
        /// initial window (RFC 5681, 4.1), or starts as on a new connection.
        restart_after_idle: RestartAfterIdle = RestartAfterIdle::Decay, any();
        /// How often a segment is sent again after a timeout before the connection is given up.
        max_retries: u8 = 15, whole(1, 255);
        /// How many repetitions of a lost SYN leave its timeout as it is; each later one doubles it
        /// (`tcp_syn_linear_timeouts`). With 0, a lost SYN is sent again after 1, 3, 7, 15, 31 and
        /// 63 s, as before Linux 6.5. With 4, the default since then, it is sent again after 1, 2,
        /// 3, 4, 5, 7, 11, 19, 35 and 67 s. SYN-ACKs are not affected.
        syn_linear_timeouts: u8 = 0, whole(0, 127);
        /// The connection starts established, without SYN and FIN.
        skip_handshake: bool = false, any();
        /// TCP Fast Open (RFC 7413): an end that opens connections asks for cookies and sends its
        /// first data in the SYN; an end that listens gives cookies and accepts such data.
        fast_open: bool = false, any();
    }
}

const LONGEST_RTO: Span = Span::from_secs(1000);

impl Settings for Config {
    fn check_together(&self) -> Result<(), ConfigError> {
        let error = |key: &str, what: &str| Err(ConfigError::new(key, what));
        if let Some(custom) = self.congestion.unbound() {
            let what =
                alloc::format!("names {:?}, which no plugin and no class offers", custom.name());
            return Err(ConfigError::new("congestion", what));
        }
        if self.receive_buffer.get() < 2 * u64::from(self.mss) {
            return error("receive_buffer", "must hold at least two segments");
        }
        let tick = self.timer_granularity;
        if self.min_rto < tick || self.min_rto > self.max_rto {
            return error("min_rto", "must lie between timer_granularity and max_rto");
        }
        if self.initial_rto < tick || self.initial_rto > self.max_rto {
            return error("initial_rto", "must lie between timer_granularity and max_rto");
        }
        if self.slow_start != SlowStart::Standard
            && !matches!(self.congestion, Congestion::Reno | Congestion::Cubic)
        {
            return error("slow_start", "is hystart++, which goes with reno or cubic");
        }
        if self.segmentation_offload && !self.paces() {
            return error("segmentation_offload", "needs pacing, or a control that paces");
        }
        if self.paces() && !self.can_pace() {
            return error("reduction", "must be prr if a sender paces");
        }
        if self.ecn_control != EcnControl::Data && !self.wants_ecn() {
            return error("ecn_control", "needs ecn");
        }
        if self.ecn_control == EcnControl::SynAck && self.is_accurate() {
            return error("ecn_control", "is syn-ack, whose feedback is not that of accurate_ecn");
        }
        if self.sends_only_ect() && self.is_classic() {
            return error("congestion", "counts marks, which does not go with reduction at-once");
        }
        if self.accurate_ecn && self.is_classic() {
            return error("accurate_ecn", "does not go with reduction at-once");
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
}

/// Congestion control algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Congestion {
    /// RFC 5681.
    Reno,
    /// RFC 9438, as Linux does it.
    Cubic,
    /// draft-cardwell-iccrg-bbr-congestion-control-00 (BBR v1), as Linux does it.
    Bbr,
    /// draft-ietf-ccwg-bbr-06 (BBR v3).
    BbrV3,
    /// RFC 8257, as Linux does it.
    Dctcp,
    /// draft-briscoe-iccrg-prague-congestion-control-04, as the L4S team's Linux does it.
    Prague,
    /// One from outside this crate, by its name and settings.
    Custom(super::Custom),
}

impl Congestion {
    /// The controls that always pace.
    pub const PACED: &[&str] = &["bbr", "bbr-v3", "prague"];
    /// Those that model the path, from samples of delivery rates.
    pub const MODELS: &[&str] = &["bbr", "bbr-v3"];
    /// Those that always negotiate ECN, because they count marks.
    pub const COUNT_MARKS: &[&str] = &["dctcp", "prague"];

    /// Returns whether it models the path, or may do so, and so needs samples of delivery rates.
    pub(crate) fn models_path(&self) -> bool {
        matches!(self, Self::Custom(_)) || Self::MODELS.contains(&self.word())
    }
}

impl Words for Congestion {
    const WORDS: &'static [&'static str] = &["reno", "cubic", "bbr", "bbr-v3", "dctcp", "prague"];

    fn word(&self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::BbrV3 => "bbr-v3",
            Self::Dctcp => "dctcp",
            Self::Prague => "prague",
            Self::Custom(_) => "custom",
        }
    }
}

words! {
    /// How lost segments are found and retransmitted.
    pub enum Recovery {
        /// The third duplicate restarts from a window of one segment, as a timeout does; there is no
        /// fast recovery (Jacobson 1988; Fall and Floyd 1996, section 2; ns-2's `Agent/TCP`).
        Tahoe = "tahoe",
        /// Fast recovery ends with the first new acknowledgement (RFC 2581).
        Reno = "reno",
        /// Fast recovery continues at partial acknowledgements (RFC 6582).
        NewReno = "new-reno",
        /// The scoreboard decides (RFC 6675, in Linux's form).
        Sack = "sack",
    }
}

words! {
    /// How the congestion window shrinks during recovery.
    pub enum Reduction {
        /// Halved at once and inflated by duplicate ACKs (RFC 5681).
        AtOnce = "at-once",
        /// One segment for every second acknowledgement (Linux before 3.2).
        RateHalving = "rate-halving",
        /// Proportional rate reduction (RFC 6937, as Linux does it).
        Prr = "prr",
    }
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AckPolicy {
    /// Every segment at once.
    EverySegment,
    /// Every second segment, or after the span (RFC 1122, 4.2.3.2).
    Delayed(Span),
    /// Linux: quick acknowledgements at the start and after trouble, adaptive delay of 40 to 200
    /// ms.
    Linux,
    /// Linux before 3.7: the same, except that a mark (CE) or CWR triggers no quick
    /// acknowledgement. This matters for tiny windows, whose sender waits for every
    /// acknowledgement.
    #[cfg_attr(feature = "serde", serde(rename = "linux-2.6"))]
    Linux26,
}

words! {
    /// How fast the receive window grows.
    pub enum WindowGrowth {
        /// Half of the buffer is window; from the second window on, the buffer holds four times what
        /// was read in a round trip.
        Linux61 = "linux-6.1",
        /// The window is as large a part of the buffer as payload is of a segment; the buffer holds
        /// less above what was read, and more above a hole.
        Linux73 = "linux-7.3",
    }
}

words! {
    /// The reaction to an ECN echo.
    pub enum EcnResponse {
        /// The same as to a loss (RFC 3168, 6.1.2).
        AsLoss = "as-loss",
        /// Alternative backoff (RFC 8511): a factor of 0.8 for Reno, 0.85 for CUBIC.
        Abe = "abe",
    }
}

words! {
    /// Packets besides new data that are ECN-capable (RFC 8311, section 4.3, allows such experiments).
    pub enum EcnControl {
        /// None (RFC 3168).
        Data = "data",
        /// The SYN-ACK (RFC 5562). A marked one is repeated without ECT.
        SynAck = "syn-ack",
        /// SYN, SYN-ACK, FIN and retransmissions (ECN++: draft-ietf-tcpm-generalized-ecn).
        PlusPlus = "plus-plus",
    }
}

words! {
    /// When a timer fires whose duration is a number of ticks.
    pub enum TimerRounding {
        /// Exactly that long after it was armed (ns-2).
        Exact = "exact",
        /// At a tick of the host's clock, counted from the tick in which it was armed (Linux before
        /// 4.8).
        Jiffy = "jiffy",
        /// At the next slot of the timer wheel: one tick later, and coarser for long timers (Linux
        /// since 4.8).
        Wheel = "wheel",
    }
}

words! {
    /// What happens to the congestion window after an idle time longer than the RTO.
    pub enum RestartAfterIdle {
        /// It stays.
        Keep = "keep",
        /// It is halved for every RTO of idle time, but not below the restart window (RFC 2861, Linux).
        Decay = "decay",
        /// It returns to the initial window (RFC 5681, 4.1); ssthresh stays.
        SlowStart = "slow-start",
        /// It returns to the initial window, with a new slow start and an unbounded threshold, whenever
        /// data is written with nothing in flight, however short the silence. Every burst starts as on
        /// a new connection.
        Fresh = "fresh",
    }
}

impl Setting for AckPolicy {
    const KIND: Kind = Kind::WordsOrSpan(&["every-segment", "linux", "linux-2.6"], "delayed");

    fn value(&self) -> Value {
        match self {
            Self::EverySegment => Value::Word("every-segment"),
            Self::Delayed(span) => Value::Whole(span.as_ps()),
            Self::Linux => Value::Word("linux"),
            Self::Linux26 => Value::Word("linux-2.6"),
        }
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        match self {
            Self::Delayed(Span::ZERO) => {
                let what = "must delay by more than 0; every-segment does not delay";
                Err(ConfigError::new(key, what))
            }
            Self::Delayed(span) => span.check(key, rule),
            Self::EverySegment | Self::Linux | Self::Linux26 => Ok(()),
        }
    }
}
