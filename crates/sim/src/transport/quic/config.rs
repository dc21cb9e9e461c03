//! Settings of QUIC's ends.

use narrows_units::Span;

/// How an end speaks QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Config {
    /// The longest UDP payload that it sends, in bytes, where the first link takes as much.
    pub payload: u16,
    /// Datagrams of its first congestion window.
    pub initial_window: u16,
    /// Its congestion control.
    pub congestion: Congestion,
    /// It acknowledges every so many packets at once (RFC 9000, 13.2.2).
    pub ack_every: u8,
    /// And each packet after this time at the latest (RFC 9000, 18.2).
    pub max_ack_delay: Span,
    /// A silent connection is over after this time (RFC 9000, 10.1); the lesser one of both ends holds.
    pub idle_timeout: Span,
    /// Its packets say that they understand marks (RFC 9000, 13.4).
    pub ecn: bool,
    /// Bytes of the connection ID that it gives itself.
    pub id: u8,
    /// Bytes of its transport parameters (RFC 9000, 18).
    pub parameters: u16,
}

/// Which congestion control an end has.
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

/// RFC 9000, 14: what every path takes.
pub const LEAST_PAYLOAD: u16 = 1200;

impl Config {
    /// RFC 9000 and RFC 9002 where they recommend something.
    pub const RECOMMENDED: Self = Self {
        payload: LEAST_PAYLOAD,
        initial_window: 10,
        congestion: Congestion::NewReno,
        ack_every: 2,
        max_ack_delay: Span::from_ms(25),
        idle_timeout: Span::from_secs(30),
        ecn: false,
        id: 8,
        parameters: 60,
    };

    /// Checks that the settings are possible.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line that begins with the setting.
    pub fn check(&self) -> Result<(), String> {
        within("payload", self.payload.into(), LEAST_PAYLOAD.into(), 65_507)?;
        within("initial_window", self.initial_window.into(), 1, 1_000)?;
        within("ack_every", self.ack_every.into(), 1, 255)?;
        within("id", self.id.into(), 0, 20)?;
        within("parameters", self.parameters.into(), 1, 1_000)?;
        // 18.2: 2^14 ms and more are invalid.
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
