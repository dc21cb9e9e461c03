//! How clients and servers speak TLS. The defaults are those of OpenSSL 3.0.

use narrows_units::settings::{Settings, any, size, whole};
use narrows_units::{ConfigError, Span, keys, settings};

use super::{AROUND_IDENTITY, RECORD};

settings! {
    #[derive(Copy, Eq)]
    /// How a client begins a TLS connection.
    pub struct Client as "TlsClient" {
        /// The bytes of a ClientHello that offers no session, with its record.
        hello: u32 = 225, size(LEAST_HELLO, 16_000);
        /// Whether a ClientHello of 256 to 511 bytes is padded to 512 (RFC 7685).
        pads_hello: bool = true, any();
        /// The bytes of its public key: 32 (X25519), 65 (P-256).
        key_share: u32 = 32, size(1, 2_000);
        /// The length of the application protocol's name that it offers; zero: none.
        alpn: u32 = 0, size(0, 255);
        /// Whether ChangeCipherSpec is a write of its own. Otherwise it leaves with Finished.
        apart: bool = false, any();
        /// Whether it offers the session of an earlier connection to the server if it has one.
        resume: bool = false, any();
        /// Whether its first message follows the hello directly if the session allows it.
        early_data: bool = false, any();
        /// Whether it announces that it closes (`close_notify`, 6.1).
        close_notify: bool = false, any();
    }
}

impl Settings for Client {
    fn check_together(&self) -> Result<(), ConfigError> {
        if self.early_data && !self.resume {
            return Err(ConfigError::new("early_data", "needs resume"));
        }
        Ok(())
    }
}

keys! {
    #[derive(Copy, Eq)]
    /// How a server answers a TLS handshake.
    pub struct Server as "TlsServer" {
        /// The bytes of its Certificate message (4.4.2).
        certificate: u32 = 2390, size(8, 1 << 20);
        /// The bytes of a signature with its key: 256 (RSA of 2048 bits), about 71 (ECDSA with
        /// P-256).
        signature: u32 = 71, size(1, 16_000);
        /// The bytes of the suite's hash: 32, 48.
        hash: u32 = 48, size(32, 64);
        /// The bytes of its list of groups, which it adds to EncryptedExtensions if the client's
        /// key is not of its preferred group.
        groups: u32 = 26, size(0, 1_000);
        /// Whether it selects the application protocol that the client offers.
        alpn: bool = true, any();
        /// The bytes of a ticket (NewSessionTicket, 4.6.1), with its record.
        ticket: u32 = 255, size(AROUND_IDENTITY as u64 + 1, 16_000);
        /// The number of tickets after a full handshake.
        tickets: u32 = 2, whole(0, 100);
        /// The number of tickets after a handshake that resumed a session.
        tickets_resumed: u32 = 1, whole(0, 100);
        /// Whether each ticket is a write of its own.
        tickets_apart: bool = true, any();
        /// Whether its sessions allow early data.
        early_data: bool = false, any();
        /// The most bytes in a write of its flight; `None`: the flight is a single write.
        // Every program sends a full handshake in a few writes.
        write: Option<u32> = None, size(512, u32::MAX as u64);
        /// Whether it announces that it closes (`close_notify`, 6.1).
        close_notify: bool = false, any();
        /// Time to answer a ClientHello that offers no session, mostly for the signature. It is the
        /// same over TLS, HTTPS and QUIC.
        service: Span = Span::ZERO, any();
    }
}

/// A ClientHello without any extension (4.1.2).
const LEAST_HELLO: u64 = RECORD as u64 + 4 + 2 + 32 + 33 + 4 + 2 + 2;
