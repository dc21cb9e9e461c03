//! TLS 1.3 (RFC 8446) as rustls speaks it, on the stream of a connection.
//!
//! Nobody checks certificates (RFC 7858, 4.1: opportunistic privacy). rustls decides how long the
//! messages of the handshake are. [`refused_client`] and [`refused_server`] name the settings of a
//! plan that it does not follow.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use narrows_client::Anybody;
use narrows_transport::tls;
use narrows_units::Span;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ServerSessionMemoryCache;
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection, version,
};

use crate::certificate::Certificate;

/// The TLS of one end of a connection.
#[derive(Debug)]
pub(crate) struct Secure {
    tls: Connection,
    /// The most bytes of a server's flight in one write.
    most: Option<u32>,
    close_notify: bool,
    /// Whether a client's data leave with its ClientHello (2.3).
    takes_early_data: bool,
    /// The data that left with it, to be sent again if the server does not read them.
    early: Vec<u8>,
    /// Whether the handshake is complete at this end.
    pub(crate) is_ready: bool,
}

/// The result of bytes that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The bytes of messages among them.
    pub(crate) bytes: u64,
    /// What this end answers, write by write.
    pub(crate) writes: Vec<Vec<u8>>,
    /// Whether a flight of the handshake is complete.
    pub(crate) flight: bool,
    /// Whether these bytes have completed the handshake.
    pub(crate) opened: bool,
}

/// What applications have in common for their connections.
#[derive(Debug, Default)]
pub(crate) struct Configs {
    /// By client, server, and the client's number for a set of sessions.
    clients: HashMap<(u32, u32, u32, u32), Arc<ClientConfig>>,
    /// By application and port; without a port, those of its other ports.
    servers: HashMap<(u32, Option<u16>), (Arc<ServerConfig>, tls::Server)>,
}

impl Configs {
    /// Lets an application serve TLS, at this port or at all others.
    pub(crate) fn serve(
        &mut self,
        application: u32,
        port: Option<u16>,
        server: tls::Server,
    ) -> Result<(), Error> {
        let config = server_config(&server, &PROTOCOLS)?;
        self.servers.insert((application, port), (Arc::new(config), server));
        Ok(())
    }

    /// Returns how an application serves TLS at most of its ports.
    pub(crate) fn server(&self, application: u32) -> Option<&tls::Server> {
        self.servers.get(&(application, None)).map(|(_, server)| server)
    }

    /// Creates both ends of a connection between two applications. `None`: the server has no TLS.
    pub(crate) fn open(
        &mut self,
        [client, server]: [u32; 2],
        port: u16,
        jar: u32,
        settings: tls::Client,
    ) -> Option<[Secure; 2]> {
        let at_port = self.servers.get(&(server, Some(port)));
        let (of_server, serving) = at_port.or_else(|| self.servers.get(&(server, None)))?;
        let key = (client, server, jar, settings.alpn);
        let of_client = self
            .clients
            .entry(key)
            .or_insert_with(|| Arc::new(client_config(settings, &PROTOCOLS)));
        let mut of_client = of_client.clone();
        if !settings.resume {
            let mut fresh = ClientConfig::clone(&of_client);
            fresh.resumption = rustls::client::Resumption::disabled();
            of_client = Arc::new(fresh);
        }
        let mut one = ClientConnection::new(of_client, name()).ok()?;
        let other = ServerConnection::new(of_server.clone()).ok()?;
        let takes_early_data = one.early_data().is_some();
        let one = Secure {
            tls: Connection::Client(one),
            most: None,
            close_notify: settings.close_notify,
            takes_early_data,
            early: Vec::new(),
            is_ready: false,
        };
        let other = Secure {
            tls: Connection::Server(other),
            most: serving.write,
            close_notify: serving.close_notify,
            takes_early_data: false,
            early: Vec::new(),
            is_ready: false,
        };
        Some([one, other])
    }
}

impl Secure {
    /// Returns a client's ClientHello.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        self.pending()
    }

    /// Returns whether what a client writes now leaves with its ClientHello.
    pub(crate) fn takes_early_data(&self) -> bool {
        self.takes_early_data && !self.is_ready
    }

    /// Takes bytes that have arrived.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Taken, Error> {
        let mut taken = Taken::default();
        while !bytes.is_empty() {
            let read = self.tls.read_tls(&mut bytes);
            let Ok(1..) = read else { break };
            let state = self.tls.process_new_packets()?;
            if let Connection::Server(server) = &mut self.tls
                && let Some(mut early) = server.early_data()
            {
                // The reader ends where the data that have arrived end.
                taken.bytes += io::copy(&mut early, &mut io::sink()).unwrap_or(0);
            }
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            if self.tls.reader().read_exact(&mut plain).is_ok() {
                taken.bytes += plain.len() as u64;
            }
        }
        let was_ready = std::mem::replace(&mut self.is_ready, !self.tls.is_handshaking());
        taken.opened = self.is_ready && !was_ready;
        if taken.opened {
            self.repeat_early();
        }
        let answer = self.pending();
        taken.flight = !was_ready && (taken.opened || !answer.is_empty());
        if !answer.is_empty() {
            let most = self.most.map_or(answer.len(), |most| most as usize);
            taken.writes = answer.chunks(most).map(<[u8]>::to_vec).collect();
        }
        Ok(taken)
    }

    /// Returns the records that carry these bytes.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.tls.set_buffer_limit(None);
        let mut early = 0;
        if self.takes_early_data()
            && let Connection::Client(client) = &mut self.tls
            && let Some(mut data) = client.early_data()
        {
            // What exceeds the server's limit waits for the end of the handshake.
            early = data.write(bytes).unwrap_or(0);
            self.early.extend(&bytes[..early]);
        }
        // Its buffer has no limit, so nothing fails.
        let _ = self.tls.writer().write_all(&bytes[early..]);
        self.pending()
    }

    /// Writes a client's early data again if the server has not read them.
    fn repeat_early(&mut self) {
        let early = std::mem::take(&mut self.early);
        if let Connection::Client(client) = &mut self.tls
            && !client.is_early_data_accepted()
        {
            let _ = client.writer().write_all(&early);
        }
    }

    /// Returns what this end says before it closes (6.1).
    pub(crate) fn goodbye(&mut self) -> Vec<u8> {
        if !std::mem::take(&mut self.close_notify) || !self.is_ready {
            return Vec::new();
        }
        self.tls.send_close_notify();
        self.pending()
    }

    fn pending(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut all).is_err() {
                break;
            }
        }
        all
    }
}

/// Returns the first of a client's settings that rustls does not follow, and why.
pub(crate) fn refused_client(settings: &tls::Client) -> Option<String> {
    let config = Arc::new(client_config(*settings, &PROTOCOLS));
    let mut hello = Vec::new();
    ClientConnection::new(config, name()).ok()?.write_tls(&mut hello).ok()?;
    unlike_client(settings, &PROTOCOLS, hello.len() as u32)
}

/// Names the first setting that differs from what rustls does with a ClientHello of this length.
pub(crate) fn unlike_client(
    settings: &tls::Client,
    protocols: &[&[u8]],
    hello: u32,
) -> Option<String> {
    if settings.alpn > 0 && protocol(protocols, settings.alpn).is_none() {
        return Some(format!("alpn: no protocol known here has {} letters", settings.alpn));
    }
    [
        ("hello", settings.hello, hello),
        ("pads_hello", settings.pads_hello.into(), 0),
        ("key_share", settings.key_share, 32),
        ("apart", settings.apart.into(), 0),
    ]
    .into_iter()
    .find_map(unlike)
}

/// Returns the first of a server's settings that rustls does not follow, and why.
pub(crate) fn refused_server(settings: &tls::Server) -> Option<String> {
    let length = settings.certificate.checked_sub(AROUND_CERTIFICATE);
    if length.is_none_or(|length| Certificate::of_length(length as usize).is_none()) {
        return Some(format!("certificate: {} B are too few", settings.certificate));
    }
    if settings.service > Span::ZERO {
        return Some("service: it takes what this machine takes".into());
    }
    [
        ("signature", settings.signature, ECDSA),
        ("hash", settings.hash, SHA384),
        ("groups", settings.groups, 0),
        ("ticket", settings.ticket, ticket(settings).unwrap_or(settings.ticket)),
        ("tickets_apart", settings.tickets_apart.into(), 0),
        ("tickets_resumed", settings.tickets_resumed, settings.tickets),
    ]
    .into_iter()
    .find_map(unlike)
}

/// Returns the length of one of a server's tickets, with its part of the record that they share.
fn ticket(settings: &tls::Server) -> Option<u32> {
    let each = TICKET + if settings.early_data { EARLY_DATA } else { 0 };
    (RECORD + settings.tickets * each).checked_div(settings.tickets)
}

fn unlike((key, asked, found): (&str, u32, u32)) -> Option<String> {
    (asked != found).then(|| format!("{key}: {asked}, but rustls has {found}"))
}

/// Returns a client's configuration. Of `protocols`, it asks for the one with the plan's length.
pub(crate) fn client_config(settings: tls::Client, protocols: &[&[u8]]) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .expect("the provider has suites of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody::new(provider())))
        .with_no_client_auth();
    config.alpn_protocols =
        protocol(protocols, settings.alpn).into_iter().map(<[u8]>::to_vec).collect();
    config.enable_early_data = settings.early_data;
    config
}

/// Returns a server's configuration, which accepts these protocols.
pub(crate) fn server_config(
    server: &tls::Server,
    protocols: &[&[u8]],
) -> Result<ServerConfig, Error> {
    let length = (server.certificate - AROUND_CERTIFICATE) as usize;
    let made = Certificate::of_length(length).ok_or(Error::NoCertificatesPresented)?;
    let key = PrivateKeyDer::Pkcs8(made.key.into());
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(made.certificate)], key)?;
    config.send_tls13_tickets = server.tickets as usize;
    config.session_storage = ServerSessionMemoryCache::new(MOST_SESSIONS);
    if server.alpn {
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    }
    if server.early_data {
        // QUIC allows no other limit (RFC 9001, 4.6.1).
        config.max_early_data_size = u32::MAX;
        config.send_half_rtt_data = true;
    }
    Ok(config)
}

/// Returns the one of these protocols whose name has this length.
fn protocol<'a>(protocols: &[&'a [u8]], length: u32) -> Option<&'a [u8]> {
    protocols.iter().copied().find(|name| name.len() as u32 == length)
}

/// A name under which clients keep their sessions. As an address, it is not in the ClientHello.
pub(crate) fn name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST).into())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// RFC 7858, RFC 9113, RFC 7301.
const PROTOCOLS: [&[u8]; 3] = [b"dot", b"h2", b"http/1.1"];

/// Bytes that a Certificate message adds to its one certificate (4.4.2).
const AROUND_CERTIFICATE: u32 = 4 + 1 + 3 + 3 + 2;
/// An ECDSA signature on P-256, on average.
const ECDSA: u32 = 71;
/// TLS_AES_256_GCM_SHA384 is the suite that rustls prefers.
const SHA384: u32 = 48;
/// A ticket without a ticketer: it only names the session.
const TICKET: u32 = 81;
/// The extension that allows early data (4.2.10).
const EARLY_DATA: u32 = 8;
/// The most sessions that a server remembers. The simulator's servers forget none.
const MOST_SESSIONS: usize = 1 << 20;
/// What a record adds to its content (5.2): header, type and authentication.
const RECORD: u32 = 5 + 1 + 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> tls::Client {
        let mut found = tls::Client {
            hello: 0,
            pads_hello: false,
            key_share: 32,
            alpn: 3,
            apart: false,
            resume: true,
            early_data: false,
            close_notify: true,
        };
        let why = refused_client(&found).expect("no ClientHello is empty");
        found.hello = why.rsplit(' ').next().expect("a word").parse().expect("a number");
        found
    }

    fn server() -> tls::Server {
        tls::Server {
            certificate: 1000,
            signature: 71,
            hash: 48,
            groups: 0,
            alpn: true,
            ticket: 92,
            tickets: 2,
            tickets_resumed: 2,
            tickets_apart: false,
            early_data: false,
            write: Some(600),
            close_notify: false,
            service: Span::ZERO,
        }
    }

    fn handshake(configs: &mut Configs, settings: tls::Client) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let [mut one, mut other] = configs.open([0, 1], 853, 0, settings).expect("it serves TLS");
        let flight = other.take(&one.hello()).expect("a ClientHello");
        assert!(flight.flight && !flight.opened);
        let finished = one.take(&flight.writes.concat()).expect("the server's flight");
        assert!(finished.opened && one.is_ready);
        let tickets = other.take(&finished.writes.concat()).expect("Finished");
        assert!(tickets.opened && other.is_ready);
        assert_eq!(one.take(&tickets.writes.concat()).expect("tickets").bytes, 0);
        let query = one.give(&[7; 40]);
        assert_eq!(other.take(&query).expect("a record").bytes, 40);
        assert_eq!(other.give(&[7; 100_000]).len(), 100_000 + 7 * 22);
        assert!(!one.goodbye().is_empty() && one.goodbye().is_empty());
        assert!(other.goodbye().is_empty());
        (flight.writes, tickets.writes)
    }

    #[test]
    fn handshakes_have_the_lengths_that_settings_promise() {
        let mut configs = Configs::default();
        configs.serve(1, None, server()).expect("the settings are possible");
        assert_eq!(refused_client(&client()), None);
        assert_eq!(refused_server(&server()), None);
        let (flight, tickets) = handshake(&mut configs, client());
        assert_eq!(tickets.iter().map(Vec::len).collect::<Vec<_>>(), [2 * 92]);
        assert!(flight.len() > 1 && flight[0].len() == 600);
        // The second connection resumes the first one's session, and has no certificate.
        let whole: usize = flight.iter().map(Vec::len).sum();
        let (resumed, _) = handshake(&mut configs, client());
        let less = whole - resumed.iter().map(Vec::len).sum::<usize>();
        assert!((1000..1150).contains(&less), "{less}");
        let (again, _) = handshake(&mut configs, tls::Client { resume: false, ..client() });
        assert!(again.iter().map(Vec::len).sum::<usize>().abs_diff(whole) <= 2);
    }

    /// What a client writes early arrives with its ClientHello, or after the handshake if the server
    /// has forgotten the session.
    #[test]
    fn early_data_arrive_once() {
        let mut configs = Configs::default();
        let ticket = 92 + 8;
        let serving = tls::Server { early_data: true, ticket, ..server() };
        assert_eq!(refused_server(&serving), None);
        configs.serve(1, None, serving).expect("the settings are possible");
        let settings = tls::Client { early_data: true, ..client() };
        let (_, tickets) = handshake(&mut configs, settings);
        assert_eq!(tickets.concat().len(), 2 * ticket as usize);
        for forgets in [false, true] {
            if forgets {
                configs.serve(1, None, serving).expect("the settings are possible");
            }
            let [mut one, mut other] = configs.open([0, 1], 853, 0, settings).expect("TLS");
            assert!(one.takes_early_data() && !other.takes_early_data());
            let flight = other.take(&one.give(&[7; 300])).expect("a ClientHello");
            assert_eq!(flight.bytes, if forgets { 0 } else { 300 });
            let finished = one.take(&flight.writes.concat()).expect("the server's flight");
            assert!(finished.opened && !one.takes_early_data());
            let later = other.take(&finished.writes.concat()).expect("Finished");
            assert_eq!(later.bytes, if forgets { 300 } else { 0 });
        }
    }

    #[test]
    fn settings_that_rustls_does_not_follow_are_named() {
        let says = |why: Option<String>, key: &str| {
            let why = why.expect("it is refused");
            assert!(why.starts_with(&format!("{key}: ")), "{why}");
        };
        says(refused_client(&tls::Client { hello: 517, ..client() }), "hello");
        says(refused_client(&tls::Client { alpn: 5, ..client() }), "alpn");
        says(refused_server(&tls::Server { signature: 256, ..server() }), "signature");
        says(refused_server(&tls::Server { certificate: 100, ..server() }), "certificate");
        let service = Span::from_ms(1);
        says(refused_server(&tls::Server { service, ..server() }), "service");
    }
}
