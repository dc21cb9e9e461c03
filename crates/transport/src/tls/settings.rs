//! How clients and servers speak TLS.

use narrows_units::Span;

use super::{AROUND_IDENTITY, RECORD};

/// The behaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Client {
    /// The bytes of a ClientHello that offers no session, with its record.
    pub hello: u32,
    /// Whether a ClientHello of 256 to 511 bytes is padded to 512 (RFC 7685).
    pub pads_hello: bool,
    /// The bytes of its public key: 32 (X25519), 65 (P-256).
    pub key_share: u32,
    /// The length of the application protocol's name that it offers; zero: none.
    pub alpn: u32,
    /// Whether ChangeCipherSpec is a write of its own. Otherwise it leaves with Finished.
    pub apart: bool,
    /// Whether it offers the session of an earlier connection to the server if it has one.
    pub resume: bool,
    /// Whether its first message follows the hello directly if the session allows it.
    pub early_data: bool,
    /// Whether it announces that it closes (`close_notify`, 6.1).
    pub close_notify: bool,
}

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Server {
    /// The bytes of its Certificate message (4.4.2).
    pub certificate: u32,
    /// The bytes of a signature with its key: 256 (RSA of 2048 bits), about 71 (ECDSA with P-256).
    pub signature: u32,
    /// The bytes of the suite's hash: 32, 48.
    pub hash: u32,
    /// The bytes of its list of groups, which it adds to EncryptedExtensions if the client's key is
    /// not of its preferred group.
    pub groups: u32,
    /// Whether it selects the application protocol that the client offers.
    pub alpn: bool,
    /// The bytes of a ticket (NewSessionTicket, 4.6.1), with its record.
    pub ticket: u32,
    /// The number of tickets after a full handshake.
    pub tickets: u32,
    /// The number of tickets after a handshake that resumed a session.
    pub tickets_resumed: u32,
    /// Whether each ticket is a write of its own.
    pub tickets_apart: bool,
    /// Whether its sessions allow early data.
    pub early_data: bool,
    /// The most bytes in a write of its flight; `None`: the flight is a single write.
    pub write: Option<u32>,
    /// Whether it announces that it closes (`close_notify`, 6.1).
    pub close_notify: bool,
    /// The time that it takes to answer a ClientHello that offers no session; most of it goes into
    /// the signature.
    #[cfg_attr(feature = "serde", serde(default))]
    pub service: Span,
}

impl Client {
    /// Checks that the lengths are possible.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line that begins with the setting.
    pub fn check(&self) -> Result<(), String> {
        within("hello", self.hello, LEAST_HELLO, 16_000)?;
        within("key_share", self.key_share, 1, 2_000)?;
        within("alpn", self.alpn, 0, 255)?;
        if self.early_data && !self.resume {
            return Err("early_data: needs resume".into());
        }
        Ok(())
    }
}

impl Server {
    /// Checks that the lengths are possible.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line that begins with the setting.
    pub fn check(&self) -> Result<(), String> {
        within("certificate", self.certificate, 8, 1 << 20)?;
        within("signature", self.signature, 1, 16_000)?;
        within("hash", self.hash, 32, 64)?;
        within("groups", self.groups, 0, 1_000)?;
        within("ticket", self.ticket, AROUND_IDENTITY + 1, 16_000)?;
        within("tickets", self.tickets, 0, 100)?;
        within("tickets_resumed", self.tickets_resumed, 0, 100)?;
        within("write", self.write.unwrap_or(LEAST_WRITE), LEAST_WRITE, u32::MAX)
    }
}

fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name}: must be {least} to {most}"))
    }
}

/// The smallest write: every program sends a full handshake in a few writes.
const LEAST_WRITE: u32 = 512;
/// A ClientHello without any extension (4.1.2).
const LEAST_HELLO: u32 = RECORD + 4 + 2 + 32 + 33 + 4 + 2 + 2;
