//! Encryption between applications: TLS 1.3 on TCP (RFC 8446), or QUIC (RFC 9001), which includes
//! TLS's handshake.

use narrows_transport::{quic, tls};

use crate::environment::{IP_HEADER, UDP_HEADER};
use crate::{Dial, Environment, Host, Random, Service, Socket};

/// How a client encrypts.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecureClient {
    /// Its handshake.
    pub handshake: tls::Client,
    /// Its QUIC settings; `None`: it uses TLS on TCP.
    #[cfg_attr(feature = "serde", serde(default))]
    pub quic: Option<quic::Config>,
}

/// How a server encrypts.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecureServer {
    /// Its handshake.
    pub handshake: tls::Server,
    /// Its QUIC settings; `None`: it uses only TLS on TCP.
    #[cfg_attr(feature = "serde", serde(default))]
    pub quic: Option<quic::Config>,
}

impl SecureClient {
    /// Checks that it can reach this server along these paths.
    pub(crate) fn check(
        &self,
        environment: &Environment<'_>,
        server: Service,
        ways: impl Iterator<Item = usize>,
    ) -> Result<(), String> {
        self.handshake.check()?;
        if !server.tls {
            return Err("the server has none".into());
        }
        let Some(quic) = &self.quic else { return Ok(()) };
        quic.check().map_err(|why| format!("quic: {why}"))?;
        if !server.quic {
            return Err("quic: the server has none".into());
        }
        for way in ways {
            check_first_link(environment, way)?;
        }
        Ok(())
    }

    /// Opens a connection. It may resume the session of an earlier connection with the same `jar`.
    pub(crate) fn open(
        &self,
        host: &mut dyn Host,
        dial: &Dial,
        jar: u32,
        random: &mut Random,
    ) -> Socket {
        match self.quic {
            Some(quic) => host.open_quic(dial, self.handshake, quic, jar),
            None => host.open_securely(dial, self.handshake, jar, random),
        }
    }
}

impl SecureServer {
    pub(crate) fn check(&self) -> Result<(), String> {
        self.handshake.check()?;
        let Some(quic) = &self.quic else { return Ok(()) };
        quic.check().map_err(|why| format!("quic: {why}"))
    }

    /// Lets clients use this encryption with the application's listener.
    pub(crate) fn serve(&self, host: &mut dyn Host) {
        host.serve_securely(self.handshake);
        if let Some(quic) = self.quic {
            host.serve_quic(quic);
        }
    }
}

/// Checks that a path's first link takes packets as long as QUIC needs (RFC 9000, 14).
pub(crate) fn check_first_link(environment: &Environment<'_>, path: usize) -> Result<(), String> {
    let least = quic::LEAST_PAYLOAD + IP_HEADER + UDP_HEADER;
    let (link, mtu) = environment.links[environment.paths[path].links[0]];
    if mtu >= least {
        return Ok(());
    }
    let what = format!("quic: {link} takes packets of {mtu} B, and QUIC needs {least} B");
    Err(format!("{what}; hint: give the link a larger mtu"))
}
