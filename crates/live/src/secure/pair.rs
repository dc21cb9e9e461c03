//! A client and a server whose handshakes have the lengths of a plan.
//!
//! rustls decides what its messages say, but some of them can be longer: a ClientHello can name
//! certificate authorities, and the protocol's name and the certificate can have any length. rustls
//! sends EncryptedExtensions to Finished in one record, and all tickets in one, where a plan has a
//! record for each. Its signature (Ed25519) is shorter, too. The protocol's name and the certificate
//! make up for these bytes, so each flight has the plan's length.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use narrows_client::Anybody;
use narrows_transport::tls::{self, Flight, Tls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionStore, Resumption, Tls13ClientSessionValue};
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384};
use rustls::crypto::ring::kx_group::{SECP256R1, SECP384R1, X25519};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ServerSessionMemoryCache;
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error, NamedGroup,
    ServerConfig, SignatureScheme, quic, version,
};

use crate::certificate::{self, Certificate};

/// The configuration of a client whose server is a program of its own. Only the lengths of what the
/// client says are the plan's.
#[derive(Debug)]
pub(crate) struct Alone {
    settings: (tls::Client, tls::Server),
    config: ClientConfig,
}

/// What carries a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// TLS's own records.
    Tcp,
    /// QUIC's CRYPTO frames. The first ticket is this much longer.
    Quic(i32),
}

/// The configurations of a client and of a server.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) settings: (tls::Client, tls::Server),
    client: ClientConfig,
    verifier: Arc<Verifier>,
    /// Of a handshake without and with a session.
    servers: [Arc<ServerConfig>; 2],
    fillings: [[u32; 2]; 2],
}

/// The configurations of one connection.
#[derive(Debug)]
pub(crate) struct PairConfigs {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    /// The lengths of its messages.
    pub(crate) tls: Tls,
    /// What the server's tickets lack: over TCP, the bytes of data that follow them; over QUIC, the
    /// bytes that the first ticket and the others lack.
    pub(crate) filling: [u32; 2],
}

impl Pair {
    /// Creates the configurations.
    ///
    /// # Errors
    ///
    /// Returns the first setting that rustls cannot follow, and why.
    pub(crate) fn new(
        client: tls::Client,
        server: tls::Server,
        carrier: Carrier,
    ) -> Result<Self, String> {
        let provider = Arc::new(provider(&client, &server)?);
        let name = protocol(&client, &server, carrier)?;
        let protocols: Vec<Vec<u8>> = name.iter().map(|&length| vec![b'n'; length]).collect();
        let made = Certificate::of_length(certificate(&client, &server, carrier, name)?);
        let made = made.ok_or_else(|| {
            let more = server.certificate + 1;
            format!("certificate: none is this long; {more} B are possible")
        })?;
        let mut found = client_config(&client, provider.clone(), &protocols);
        let own = hello(&found, carrier);
        let psk = PSK + server.hash;
        let mut names = [Vec::new(), Vec::new()];
        for (names, resumed) in names.iter_mut().zip([false, true]) {
            let tls = Tls::new(client, server, resumed);
            if tls.is_resumed() != resumed {
                continue;
            }
            let early = if tls.takes_early_data() { 4 } else { 0 };
            let asked = match carrier {
                Carrier::Tcp => tls.open().bytes - if early > 0 { CHANGE_CIPHER_SPEC } else { 0 },
                Carrier::Quic(_) => tls.messages([0; 2]).hello as u32 - NO_PARAMETERS,
            };
            let own = own + if resumed { psk + early } else { 0 };
            *names = asked.checked_sub(own).and_then(authorities).ok_or_else(|| {
                let more = (own + LEAST_AUTHORITIES).saturating_sub(asked);
                let with = if resumed { " to resume sessions" } else { "" };
                let least = client.hello + more;
                format!("hello: {} B, but rustls needs {least} B{with}", client.hello)
            })?;
        }
        let verifier = Arc::new(Verifier { names, ..Verifier::new(&provider, OWN_KEYS) });
        found.dangerous().set_certificate_verifier(verifier.clone());
        let chain = vec![CertificateDer::from(made.certificate)];
        let of_server = server_config(&server, provider, &protocols, chain, made.key);
        let mut full = of_server.map_err(|why| why.to_string())?;
        full.send_tls13_tickets = server.tickets as usize;
        let mut resumed = full.clone();
        resumed.send_tls13_tickets = server.tickets_resumed as usize;
        let fillings = [server.tickets, server.tickets_resumed]
            .map(|tickets| filling(&server, tickets, carrier));
        let [Ok(of_full), Ok(of_resumed)] = fillings else {
            let least = fillings.into_iter().filter_map(Result::err).max();
            let least = least.expect("one of them is an error");
            return Err(format!("ticket: {} B, but rustls needs {least} B", server.ticket));
        };
        Ok(Self {
            settings: (client, server),
            client: found,
            verifier,
            servers: [Arc::new(full), Arc::new(resumed)],
            fillings: [of_full, of_resumed],
        })
    }

    /// Returns the configurations of the next connection of a client with these sessions. It has to
    /// begin before the next call.
    pub(crate) fn begin(&self, sessions: &Arc<Sessions>) -> PairConfigs {
        self.begin_with(sessions, !sessions.is_empty())
    }

    /// Returns the same for a client that has a session or not.
    pub(crate) fn begin_with(&self, sessions: &Arc<Sessions>, has_session: bool) -> PairConfigs {
        let (of_client, of_server) = self.settings;
        let tls = Tls::new(of_client, of_server, has_session);
        self.verifier.resumes.store(tls.is_resumed(), Relaxed);
        let client = resuming(&self.client, of_client, sessions);
        let which = usize::from(tls.is_resumed());
        let server = self.servers[which].clone();
        PairConfigs { client, server, tls, filling: self.fillings[which] }
    }
}

impl Alone {
    /// Creates the configuration. Of the server's settings, only its suite counts.
    ///
    /// # Errors
    ///
    /// Returns the first setting that rustls cannot follow, and why.
    pub(crate) fn new(client: tls::Client, server: tls::Server) -> Result<Self, String> {
        let provider = Arc::new(provider(&client, &server)?);
        let protocols = if client.alpn > 0 { vec![DOT.to_vec()] } else { Vec::new() };
        let mut config = client_config(&client, provider.clone(), &protocols);
        config.dangerous().set_certificate_verifier(Arc::new(Verifier::new(&provider, KEYS)));
        let own = hello(&config, Carrier::Tcp);
        let more = client.hello.checked_sub(own);
        // Other servers read the names.
        let more = more.filter(|&more| more == 0 || more >= LEAST_AUTHORITIES + LEAST_CONTENT);
        let names = more.and_then(authorities).ok_or_else(|| {
            let least = own + LEAST_AUTHORITIES + LEAST_CONTENT;
            format!("hello: {} B, but rustls needs {least} B", client.hello)
        })?;
        // A session makes the ClientHello as much longer as the server's ticket is.
        let names = [names.clone(), names];
        let verifier = Verifier { names, ..Verifier::new(&provider, KEYS) };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        Ok(Self { settings: (client, server), config })
    }

    /// Returns the configuration of the next connection of a client with these sessions, and the
    /// lengths of its messages.
    pub(crate) fn begin(&self, sessions: &Arc<Sessions>) -> (Arc<ClientConfig>, Tls) {
        let (client, server) = self.settings;
        let tls = Tls::new(client, server, !sessions.is_empty());
        (resuming(&self.config, client, sessions), tls)
    }
}

/// Returns a client's configuration with these sessions, if it resumes any.
fn resuming(config: &ClientConfig, client: tls::Client, own: &Arc<Sessions>) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.resumption =
        if client.resume { Resumption::store(own.clone()) } else { Resumption::disabled() };
    Arc::new(config)
}

/// Returns the length of the protocol's name (RFC 7301); `None`: there is none.
fn protocol(
    client: &tls::Client,
    server: &tls::Server,
    carrier: Carrier,
) -> Result<Option<usize>, String> {
    let own = if server.alpn && client.alpn > 0 { AROUND_ALPN + client.alpn } else { 0 };
    let groups = if client.key_share == 32 { 0 } else { server.groups };
    // EncryptedExtensions and Finished have one record.
    let record = if carrier == Carrier::Tcp { PROTECTION } else { 0 };
    match own + groups + record {
        0 => Ok(None),
        bytes if (AROUND_ALPN + 1..=AROUND_ALPN + 255).contains(&bytes) => {
            Ok(Some((bytes - AROUND_ALPN) as usize))
        }
        bytes => Err(format!("groups: {groups} B, but rustls' extensions have no {bytes} B")),
    }
}

/// Returns the length of the server's certificate that makes its flight as long as the plan's.
fn certificate(
    client: &tls::Client,
    server: &tls::Server,
    carrier: Carrier,
    name: Option<usize>,
) -> Result<usize, String> {
    let mut full = Tls::new(*client, *server, false);
    let messages = full.messages([0; 2]);
    let content = match carrier {
        Carrier::Tcp => {
            let hello = RECORD + SESSION_ID + messages.server_hello as u32 + CHANGE_CIPHER_SPEC;
            let flight = full.answer(Flight::Hello).iter().map(|write| write.bytes).sum::<u32>();
            unsealed(flight - hello)
        }
        Carrier::Quic(_) => Some(messages.answer as u32 - NO_PARAMETERS),
    };
    let extensions = 6 + name.map_or(0, |bytes| AROUND_ALPN + bytes as u32);
    let others = extensions + AROUND_CERTIFICATE + 8 + ED25519 + 4 + server.hash;
    let least = others + certificate::SHORTEST as u32;
    match content {
        Some(content) if content >= least => Ok((content - others) as usize),
        Some(content) => {
            let least = server.certificate + least - content;
            Err(format!("certificate: {} B, but rustls needs {least} B", server.certificate))
        }
        None => Err(format!("certificate: no records of rustls have {} B", server.certificate)),
    }
}

/// Returns the filling of tickets (see [`PairConfigs`]), or the least length of a ticket.
fn filling(server: &tls::Server, tickets: u32, carrier: Carrier) -> Result<[u32; 2], u32> {
    if tickets == 0 {
        return Ok([0; 2]);
    }
    let each = TICKET + if server.early_data { EARLY_DATA } else { 0 };
    match carrier {
        Carrier::Tcp => {
            let more = (tickets * server.ticket).checked_sub(PROTECTION + tickets * each);
            let filling = more.and_then(|more| if more == 0 { Some(0) } else { unsealed(more) });
            // A record has at least a byte.
            let record = PROTECTION + PROTECTION + 1;
            filling.map(|bytes| [bytes, 0]).ok_or(each + record.div_ceil(tickets))
        }
        Carrier::Quic(more) => {
            let others = server.ticket.checked_sub(PROTECTION + each);
            let first = others.and_then(|bytes| bytes.checked_add_signed(more));
            let least = PROTECTION + each + EXTENSION + more.min(0).unsigned_abs();
            let possible = |bytes: &u32| *bytes == 0 || *bytes >= EXTENSION;
            let [first, others] = [first, others].map(|bytes| bytes.filter(possible));
            Ok([first.ok_or(least)?, others.ok_or(least)?])
        }
    }
}

/// Returns how many bytes become this many in records; `None`: none do.
fn unsealed(bytes: u32) -> Option<u32> {
    let records = bytes.div_ceil(PROTECTION + LONGEST_RECORD);
    let content = bytes.checked_sub(records * PROTECTION)?;
    (content > 0 && tls::sealed(content) == bytes).then_some(content)
}

/// Returns names of certificate authorities (4.2.4) that make a ClientHello this much longer;
/// `None`: none do.
fn authorities(bytes: u32) -> Option<Vec<DistinguishedName>> {
    if bytes == 0 {
        return Some(Vec::new());
    }
    // Extension and list have lengths, and so has each name, twice.
    let mut left = bytes.checked_sub(LEAST_AUTHORITIES)? + AROUND_NAME;
    let mut names = Vec::new();
    while left > 0 {
        // A short name has a length of one byte. The rest has to be a name, too.
        let most = AROUND_NAME + 0x7f;
        let this = if left > most { (left - AROUND_NAME - LEAST_CONTENT).min(most) } else { left };
        names.push(DistinguishedName::in_sequence(&common_name(this - AROUND_NAME)));
        left -= this;
    }
    Some(names)
}

/// Returns the content of a name with only a common name (X.501; RFC 5280, appendix A), in this many
/// bytes. If that needs more, the content has no meaning.
fn common_name(bytes: u32) -> Vec<u8> {
    let mut content = vec![0; bytes as usize];
    if let Some(text) = bytes.checked_sub(LEAST_CONTENT) {
        let [of_set, of_pair, of_text] = [text + 9, text + 7, text].map(|length| length as u8);
        let head = [0x31, of_set, 0x30, of_pair, 6, 3, 0x55, 4, 3, 0x0c, of_text];
        content[..head.len()].copy_from_slice(&head);
        content[head.len()..].fill(b'n');
    }
    content
}

/// Returns the length of a ClientHello without names of authorities, session and transport
/// parameters.
fn hello(config: &ClientConfig, carrier: Carrier) -> u32 {
    let mut bytes = Vec::new();
    let config = Arc::new(config.clone());
    // Neither can fail.
    match carrier {
        Carrier::Tcp => {
            let made = ClientConnection::new(config, name());
            let _ = made.map(|mut made| made.write_tls(&mut bytes));
            bytes.len() as u32
        }
        Carrier::Quic(_) => {
            let made = quic::ClientConnection::new(config, quic::Version::V1, name(), Vec::new());
            let _ = made.map(|mut made| made.write_hs(&mut bytes));
            bytes.len() as u32 - NO_PARAMETERS
        }
    }
}

/// Returns the group and the suite that settings name.
fn provider(client: &tls::Client, server: &tls::Server) -> Result<CryptoProvider, String> {
    let group = match client.key_share {
        32 => X25519,
        65 => SECP256R1,
        97 => SECP384R1,
        other => return Err(format!("key_share: {other} B, but rustls has 32, 65 and 97 B")),
    };
    let suite = match server.hash {
        32 => TLS13_AES_128_GCM_SHA256,
        48 => TLS13_AES_256_GCM_SHA384,
        other => return Err(format!("hash: {other} B, but rustls has 32 and 48 B")),
    };
    Ok(CryptoProvider {
        cipher_suites: vec![suite],
        kx_groups: vec![group],
        ..ring::default_provider()
    })
}

fn client_config(
    client: &tls::Client,
    provider: Arc<CryptoProvider>,
    protocols: &[Vec<u8>],
) -> ClientConfig {
    let verifier = Verifier::new(&provider, OWN_KEYS);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .expect("the provider has a suite of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = protocols.to_vec();
    config.enable_early_data = client.early_data;
    config.time_provider = Arc::new(Ticking::default());
    config
}

fn server_config(
    server: &tls::Server,
    provider: Arc<CryptoProvider>,
    protocols: &[Vec<u8>],
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.into()))?;
    config.session_storage = ServerSessionMemoryCache::new(MOST_SESSIONS);
    config.alpn_protocols = protocols.to_vec();
    config.time_provider = Arc::new(Ticking::default());
    if server.early_data {
        // QUIC allows no other limit (RFC 9001, 4.6.1).
        config.max_early_data_size = u32::MAX;
        config.send_half_rtt_data = true;
    }
    Ok(config)
}

/// A name under which clients keep their sessions. As an address, it is not in the ClientHello.
pub(crate) fn name() -> ServerName<'static> {
    ServerName::IpAddress(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST).into())
}

/// The sessions that a client may resume.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Vec<Tls13ClientSessionValue>>);

impl Sessions {
    fn is_empty(&self) -> bool {
        self.0.lock().expect("nobody panics").is_empty()
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(
        &self,
        _: ServerName<'static>,
        _: rustls::client::Tls12ClientSessionValue,
    ) {
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<rustls::client::Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.lock().expect("nobody panics").push(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().expect("nobody panics").pop()
    }
}

/// Accepts any certificate, and names authorities.
#[derive(Debug)]
struct Verifier {
    anybody: Anybody,
    /// The signatures that it understands.
    keys: &'static [SignatureScheme],
    /// Of a ClientHello without and with a session.
    names: [Vec<DistinguishedName>; 2],
    /// Whether the next ClientHello has a session.
    resumes: AtomicBool,
}

impl Verifier {
    fn new(provider: &Arc<CryptoProvider>, keys: &'static [SignatureScheme]) -> Self {
        let anybody = Anybody::new(provider.clone());
        Self { anybody, keys, names: Default::default(), resumes: AtomicBool::new(false) }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.anybody.verify_server_cert(certificate, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.anybody.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.anybody.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.keys.to_vec()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        let names = &self.names[usize::from(self.resumes.load(Relaxed))];
        (!names.is_empty()).then_some(names)
    }
}

/// A clock that nobody sets, so that no session is too old or too young.
#[derive(Debug)]
struct Ticking(Instant);

impl Default for Ticking {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl TimeProvider for Ticking {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(BEGINNING + self.0.elapsed()))
    }
}

/// A time at which the certificates are valid.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

const RECORD: u32 = 5;
const CHANGE_CIPHER_SPEC: u32 = RECORD + 1;
const LONGEST_RECORD: u32 = 1 << 14;
/// What a record adds to its content (5.2): header, type and authentication.
const PROTECTION: u32 = RECORD + 1 + 16;
/// The session ID in hellos over TCP (D.4).
const SESSION_ID: u32 = 32;
/// The extension for transport parameters when there are none (RFC 9001, 8.2).
const NO_PARAMETERS: u32 = 4;
/// The extension with one protocol, without its name (RFC 7301, 3.1).
const AROUND_ALPN: u32 = 4 + 2 + 1;
/// The extension with a name of an authority, and the name, without the name's content.
const AROUND_NAME: u32 = 2 + 2;
const LEAST_AUTHORITIES: u32 = 4 + 2 + AROUND_NAME;
/// A name that says something: a set with a pair of the type's identifier and a text.
const LEAST_CONTENT: u32 = 2 + 2 + 5 + 2;
/// The protocol's name in ALPN: DNS over TLS.
const DOT: &[u8] = b"dot";
/// The signatures of servers of ours, and those of servers with a key of ECDSA or RSA.
const OWN_KEYS: &[SignatureScheme] = &[SignatureScheme::ED25519];
const KEYS: &[SignatureScheme] = &[
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
];
/// The bytes of a Certificate message without its one certificate (4.4.2).
const AROUND_CERTIFICATE: u32 = 4 + 1 + 3 + 3 + 2;
const ED25519: u32 = 64;
/// rustls' ticket: header, lifetime, age, nonce, the session's number, extensions (4.6.1).
const TICKET: u32 = 4 + 4 + 4 + (1 + 32) + (2 + 32) + 2;
/// The extension that allows early data (4.2.10).
const EARLY_DATA: u32 = 8;
/// The header of an extension.
const EXTENSION: u32 = 4;
/// The extension that offers a session (4.2.11), without the binder's hash.
const PSK: u32 = 4 + 2 + 2 + 32 + 4 + 2 + 1;
/// The most sessions that a server remembers. The simulator's servers forget none.
const MOST_SESSIONS: usize = 1 << 20;
