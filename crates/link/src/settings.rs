//! The settings of a link's parts: framing, the card's ring, losses and delay variation.

use narrows_units::settings::{
    Declared, Kind, MOST_BYTES, MOST_PACKETS, Rule, Setting, Settings, Value, any, share, size,
    span, whole,
};
use narrows_units::{Bytes, ConfigError, Span, keys, settings, words};

keys! {
    #[derive(Copy, Eq)]
    /// What the link layer adds to IP packets; `"ethernet"` sets 38 B, 84 B, 14 B in this order.
    pub struct Framing {
        /// Added to an IP packet's length on the wire (Ethernet: 14 of header, 4 of checksum, 20 of
        /// preamble and gap).
        overhead: u32 = 0, size(0, 1000);
        /// Shortest frame on the wire, `overhead` included (Ethernet: 84).
        min: u32 = 0, size(0, 65_535);
        /// Added to an IP packet's length where queues count bytes (Linux counts Ethernet's 14).
        // Linux does not count what tc-tbf(8)'s `overhead` adds.
        queue_overhead: u32 = 0, size(0, 1000);
    }
}

settings! {
    #[derive(Copy, Eq)]
    /// A network card's ring buffer. Packets in it have left the queue, so no AQM sees them.
    pub struct Ring {
        /// Packets that it holds, including the one in transmission.
        packets: Option<u32> = None, whole(1, MOST_PACKETS);
        /// Packets left at which a full ring takes more, so that it refills in bursts. By default,
        /// the end of each transmission makes room. (e1000 with 80 descriptors: `packets = 60, wake
        /// = 47`.)
        // e1000's `e1000_maybe_stop_tx` and `TX_WAKE_THRESHOLD`.
        wake: Option<u32> = None, whole(1, MOST_PACKETS);
        /// Bytes that it holds, including `framing`; every transmitted byte makes room.
        bytes: Option<Bytes> = None, size(1, MOST_BYTES);
    }
}

impl Ring {
    /// Creates a ring that holds this many packets.
    pub const fn packets(packets: u32) -> Self {
        Self { packets: Some(packets), wake: None, bytes: None }
    }

    /// Creates a ring of a driver that stops the queue at `stop` packets, and wakes it at `wake`.
    pub const fn thresholds(stop: u32, wake: u32) -> Self {
        Self { wake: Some(wake), ..Self::packets(stop) }
    }

    /// Creates a ring that holds this many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, wake: None, bytes: Some(Bytes::new(bytes)) }
    }
}

impl Settings for Ring {
    fn check_together(&self) -> Result<(), ConfigError> {
        match (self.packets, self.wake, self.bytes) {
            (None, _, None) | (Some(_), _, Some(_)) => {
                let why = ConfigError::new("", "needs either packets or bytes");
                Err(why.or("such as { packets = 80 }"))
            }
            (None, Some(_), _) => Err(ConfigError::new("wake", "is for a ring of packets")
                .or("leave it out, or give packets")),
            (Some(packets), Some(wake), _) if wake >= packets => {
                Err(ConfigError::new("wake", "must be below packets")
                    .or("such as { packets = 60, wake = 47 }"))
            }
            _ => Ok(()),
        }
    }
}

/// How the wire loses packets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(untagged))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Loss {
    /// Each packet with this probability.
    Each(f64),
    /// In bursts.
    Bursts {
        /// The states of the line, and what it loses in each.
        #[cfg_attr(feature = "serde", serde(rename = "gilbert-elliott"))]
        states: GilbertElliott,
    },
}

impl Loss {
    /// Returns whether no packet is ever lost.
    pub fn is_none(self) -> bool {
        self == Self::Each(0.0)
    }
}

impl From<f64> for Loss {
    fn from(share: f64) -> Self {
        Self::Each(share)
    }
}

impl Setting for Loss {
    const KIND: Kind = Kind::Choice(&[GilbertElliott::TABLE]);

    fn value(&self) -> Value {
        match self {
            Self::Each(share) => share.value(),
            Self::Bursts { .. } => Value::Table,
        }
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        match self {
            Self::Each(share) => share.check(key, rule),
            Self::Bursts { states } => Setting::check(states, key, rule),
        }
    }
}

keys! {
    #[derive(Copy)]
    /// Losses that come in bursts: netem's `loss gemodel`, tc-netem(8). The line is good or bad. It
    /// starts good, and may turn behind each packet that it sends. On average it loses p / (p + r)
    /// of the packets if only the bad state loses any, and a burst has 1 / r of them.
    pub struct GilbertElliott {
        /// Probability that a good line turns bad.
        p: f64 = 0.0, share().required();
        /// Probability that a bad line turns good; by default 1 - `p`, so that nothing comes in
        /// bursts.
        r: Option<f64> = None, share();
        /// Probability that a bad line loses a packet (1 - h in tc-netem(8)).
        loss_bad: f64 = 1.0, share();
        /// Probability that a good line loses a packet (1 - k there).
        loss_good: f64 = 0.0, share();
    }
}

keys! {
    #[derive(Copy)]
    /// Delay variation as netem computes it: tc-netem(8).
    // net/sched/sch_netem.c, Linux 6.1, `tabledist`.
    pub struct Jitter {
        /// Half the width of the uniform distribution, or the standard deviation of the normal one;
        /// at most 2147 ms, as in netem.
        deviation: Span = Span::ZERO, span(Span::ZERO, Span::from_ms(2147)).required();
        /// Correlation of successive values, 0 to 1 (netem's 25 % is 0.25).
        correlation: f64 = 0.0, share();
        /// The distribution's shape.
        distribution: Distribution = Distribution::Uniform, any();
        /// Whether a packet may overtake another, as in netem.
        reorder: bool = true, any();
    }
}

words! {
    /// The shape of delay variation.
    pub enum Distribution {
        /// Uniform.
        Uniform = "uniform",
        /// Normal, from a table of quantiles like netem's.
        Normal = "normal",
    }
}

words! {
    /// Whether a link sends.
    pub enum LinkState {
        /// It sends.
        Up = "up",
        /// It does not.
        Down = "down",
    }
}
