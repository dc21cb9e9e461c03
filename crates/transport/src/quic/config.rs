//! Settings of a QUIC endpoint.

use narrows_units::Span;

/// The settings of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Config {
    /// The longest UDP payload that it sends in bytes, if the first link takes as much.
    pub payload: u16,
    /// The payload up to which it searches for a larger path MTU; `None`: it does not search.
    #[cfg_attr(feature = "serde", serde(default))]
    pub search_to: Option<u16>,
    /// The datagrams of its first congestion window. `None`: as RFC 9002, 7.2, recommends: ten, but
    /// at most 14720 bytes or two datagrams.
    #[cfg_attr(feature = "serde", serde(default))]
    pub initial_window: Option<u16>,
    /// Its congestion control.
    pub congestion: Congestion,
    /// The number of packets after which it acknowledges at once (RFC 9000, 13.2.2).
    pub ack_every: u8,
    /// The time after which it acknowledges each packet at the latest (RFC 9000, 18.2).
    pub max_ack_delay: Span,
    /// How many packets of each kind it keeps that arrive before their keys (RFC 9001, 5.7). With
    /// zero, it drops them, as the simulator did before plans had this key.
    #[cfg_attr(feature = "serde", serde(default))]
    pub undecryptable_packets: u8,
    /// The silence after which a connection ends (RFC 9000, 10.1). The shorter one of both ends
    /// applies.
    pub idle_timeout: Span,
    /// Whether its packets are ECN-capable (RFC 9000, 13.4).
    pub ecn: bool,
    /// The bytes of the connection ID that it chooses for itself.
    pub id: u8,
    /// The bytes of its transport parameters (RFC 9000, 18).
    pub parameters: u16,
    /// Whether a client's application may write only after the server has confirmed the handshake
    /// (RFC 9001, 4.1.2), a round trip later than possible.
    #[cfg_attr(feature = "serde", serde(default))]
    pub waits: bool,
    /// The bytes that a server sends with the confirmation: new connection IDs and a token (RFC
    /// 9000, 19.7 and 19.15).
    #[cfg_attr(feature = "serde", serde(default))]
    pub extras: u16,
}

/// The congestion control of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Congestion {
    /// RFC 9002, 7.
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// The payload that every path takes (RFC 9000, 14).
pub const LEAST_PAYLOAD: u16 = 1200;

impl Config {
    /// The values of RFC 9000 and RFC 9002 wherever they recommend one.
    ///
    /// RFC 9001 allows an end to keep undecryptable packets, but names no number. ngtcp2, which
    /// Knot DNS and kdig use, keeps four of each kind (`NGTCP2_MAX_NUM_BUFFED_RX_PKTS`).
    pub const RECOMMENDED: Self = Self {
        payload: LEAST_PAYLOAD,
        search_to: None,
        initial_window: None,
        congestion: Congestion::NewReno,
        ack_every: 2,
        max_ack_delay: Span::from_ms(25),
        undecryptable_packets: 4,
        idle_timeout: Span::from_secs(30),
        ecn: false,
        id: 8,
        parameters: 60,
        waits: false,
        extras: 0,
    };

    /// Checks that the settings are possible.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line that begins with the setting.
    pub fn check(&self) -> Result<(), String> {
        within("payload", self.payload.into(), LEAST_PAYLOAD.into(), 65_507)?;
        if let Some(most) = self.search_to {
            within("search_to", most.into(), u32::from(self.payload) + 1, 65_507)?;
        }
        within("initial_window", self.initial_window.unwrap_or(1).into(), 1, 1_000)?;
        within("ack_every", self.ack_every.into(), 1, 255)?;
        within("id", self.id.into(), 0, 20)?;
        within("parameters", self.parameters.into(), 1, 1_000)?;
        within("extras", self.extras.into(), 0, 1_000)?;
        // 18.2: values of 2^14 ms or more are invalid.
        if self.max_ack_delay >= Span::from_ms(1 << 14) {
            return Err("max_ack_delay: must be below 16384 ms".into());
        }
        if self.idle_timeout == Span::ZERO {
            return Err("idle_timeout: must be above zero".into());
        }
        Ok(())
    }
}

fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name}: must be {least} to {most}"))
    }
}
