//! Encryption between applications: TLS 1.3 on TCP (RFC 8446), or QUIC (RFC 9001), which includes
//! TLS's handshake.

use narrows_transport::{quic, tls};
use narrows_units::keys;
use narrows_units::settings::any;

use crate::environment::{IP_HEADER, UDP_HEADER};
use crate::{Dial, Environment, Host, Random, Service, Socket};

keys! {
    #[derive(Copy)]
    /// How a client encrypts.
    pub struct SecureClient {
        /// Its handshake.
        handshake: tls::Client = tls::Client::default(), any();
        /// Its QUIC settings; `None`: it uses TLS on TCP.
        quic: Option<quic::Config> = None, any();
    }
}

keys! {
    #[derive(Copy)]
    /// How a server encrypts.
    pub struct SecureServer {
        /// Its handshake.
        handshake: tls::Server = tls::Server::default(), any();
        /// Its QUIC settings; `None`: it uses only TLS on TCP.
        quic: Option<quic::Config> = None, any();
    }
}

impl SecureClient {
    /// Checks that it can reach this server along these paths.
    pub(crate) fn check_paths(
        &self,
        environment: &Environment<'_>,
        server: Service,
        paths: impl Iterator<Item = usize>,
    ) -> Result<(), String> {
        if !server.tls {
            return Err("the server has none".into());
        }
        if self.quic.is_none() {
            return Ok(());
        }
        if !server.quic {
            return Err("quic: the server has none".into());
        }
        for path in paths {
            check_first_link(environment, path)?;
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
