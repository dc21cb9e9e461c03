//! TLS within QUIC (RFC 9001): rustls behind the interface of quinn-proto, with the plan's lengths.
//!
//! Transport parameters (RFC 9000, 18) that change nothing here are left out, and a reserved one
//! (18.1) makes up the length. Tickets get an extension without a meaning (RFC 8446, 4.6.1).

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{self, Connection, KeyChange, Secrets, Suite, Version};

use super::initial;
use crate::secure::name;

/// How a client's sessions begin.
pub(super) struct Client {
    pub(super) tls: Arc<rustls::ClientConfig>,
    /// The bytes of its transport parameters.
    pub(super) parameters: u16,
    pub(super) has_keys: HasKeys,
}

/// How a server's sessions begin.
pub(super) struct Server {
    pub(super) tls: Arc<rustls::ServerConfig>,
    /// The bytes of its transport parameters.
    pub(super) parameters: u16,
    /// The bytes that its first ticket and its other tickets lack.
    pub(super) filling: [u32; 2],
    pub(super) has_keys: HasKeys,
    /// It makes the keys of Initial packets.
    pub(super) keys: QuicServerConfig,
}

/// Which keys an end has: none but those of Initial packets, those of the handshake, or all. A
/// server may not use the last ones before it has the client's Finished (RFC 9001, 5.7).
#[derive(Clone, Debug, Default)]
pub(super) struct HasKeys(Arc<AtomicU8>);

impl HasKeys {
    pub(super) fn of_handshake(&self) -> bool {
        self.0.load(Relaxed) >= OF_HANDSHAKE
    }

    pub(super) fn of_all(&self) -> bool {
        self.0.load(Relaxed) >= ALL
    }
}

/// The TLS of one end of a connection.
struct Session {
    tls: Connection,
    initial: Suite,
    filling: [u32; 2],
    next: Option<Secrets>,
    has_keys: HasKeys,
}

impl crypto::ClientConfig for Client {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let parameters = fitted(parameters, self.parameters.into(), &OF_CLIENT);
        let made = quic::ClientConnection::new(self.tls.clone(), Version::V1, name(), parameters);
        let made = made.map_err(|why| ConnectError::InvalidServerName(why.to_string()))?;
        Ok(Box::new(Session::new(Connection::Client(made), [0; 2], &self.has_keys)))
    }
}

impl crypto::ServerConfig for Server {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.keys.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.keys.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let parameters = fitted(parameters, self.parameters.into(), &OF_SERVER);
        let made = quic::ServerConnection::new(self.tls.clone(), Version::V1, parameters);
        let made = made.expect("its configuration is for TLS 1.3");
        Box::new(Session::new(Connection::Server(made), self.filling, &self.has_keys))
    }
}

impl Session {
    fn new(tls: Connection, filling: [u32; 2], has_keys: &HasKeys) -> Self {
        Self { tls, initial: initial(), filling, next: None, has_keys: has_keys.clone() }
    }

    /// Returns tickets that have the plan's lengths.
    fn filled(&mut self, mut tickets: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some((ticket, rest)) = first_message(tickets) {
            let [filling, next] = self.filling;
            self.filling = [next; 2];
            all.extend(longer(ticket, filling as usize));
            tickets = rest;
        }
        all
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        let side = if side.is_client() { rustls::Side::Client } else { rustls::Side::Server };
        keys(self.initial.keys(id, side, Version::V1))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(client) => Some(client.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let read = self.tls.read_hs(bytes);
        // Nobody asks for data of the handshake.
        read.map(|()| false).map_err(|why| TransportError {
            code: self.tls.alert().map_or(TransportErrorCode::PROTOCOL_VIOLATION, |alert| {
                TransportErrorCode::crypto(alert.into())
            }),
            frame: None,
            reason: why.to_string(),
        })
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let side = match self.tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        };
        let found = self.tls.quic_transport_parameters();
        let read = |bytes| TransportParameters::read(side, &mut Cursor::new(bytes));
        Ok(found.map(read).transpose()?)
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        let is_complete = !self.tls.is_handshaking();
        let before = bytes.len();
        let change = self.tls.write_hs(bytes);
        if let (true, Connection::Server(_)) = (is_complete, &self.tls) {
            let tickets = bytes.split_off(before);
            bytes.extend(self.filled(&tickets));
        }
        if is_complete {
            self.has_keys.0.store(ALL, Relaxed);
        } else if change.is_some() {
            self.has_keys.0.store(OF_HANDSHAKE, Relaxed);
        }
        Some(keys(match change? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        }))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Returns keys in the form of quinn-proto.
fn keys(keys: quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

/// Returns transport parameters in this many bytes: those with these numbers, in this order, as far
/// as there is room.
fn fitted(parameters: &TransportParameters, bytes: usize, numbers: &[u64]) -> Vec<u8> {
    let mut all = Vec::new();
    parameters.write(&mut all);
    let mut fitted = Vec::new();
    let mut has_beside = false;
    for number in numbers {
        if *number == DATA_BESIDE && !has_beside {
            continue;
        }
        let mut rest = &all[..];
        while let Some((found, parameter, after)) = first_parameter(rest) {
            // A reserved parameter needs two bytes.
            let left = bytes.checked_sub(fitted.len() + parameter.len());
            if found == *number && left.is_some_and(|left| left != 1) {
                fitted.extend(parameter);
                has_beside |= found == STREAMS_BESIDE;
            }
            rest = after;
        }
    }
    match bytes - fitted.len() {
        0 | 1 => {}
        2 => fitted.extend([RESERVED, 0]),
        // RFC 9000, 16: a length may have more bytes than it needs.
        left => {
            fitted.push(RESERVED);
            fitted.extend((TWO_BYTES | (left - 3) as u16).to_be_bytes());
            fitted.resize(bytes, 0);
        }
    }
    fitted
}

/// Splits the first of these transport parameters from the others, and returns its number.
fn first_parameter(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let mut rest = bytes;
    let number = integer(&mut rest)?;
    let length = integer(&mut rest)? as usize;
    let (parameter, rest) = bytes.split_at_checked(bytes.len() - rest.len() + length)?;
    Some((number, parameter, rest))
}

/// Reads an integer of variable length (RFC 9000, 16).
fn integer(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1 << (bytes.first()? >> 6);
    let (read, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let value = read.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Some(value & (u64::MAX >> (66 - 8 * length)))
}

/// Splits the first message of a handshake (RFC 8446, 4) from the others.
fn first_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let &[_, high, middle, low, ..] = bytes else { return None };
    bytes.split_at_checked(4 + u32::from_be_bytes([0, high, middle, low]) as usize)
}

/// Returns a ticket that is this much longer.
fn longer(ticket: &[u8], bytes: usize) -> Vec<u8> {
    let mut ticket = ticket.to_vec();
    if bytes == 0 {
        return ticket;
    }
    // Header, lifetime and age; nonce; ticket; then the list of extensions.
    let after_nonce = 13 + usize::from(ticket[12]);
    let length = |at: usize, of: &[u8]| usize::from(u16::from_be_bytes([of[at], of[at + 1]]));
    let list = after_nonce + 2 + length(after_nonce, &ticket);
    let extensions = (length(list, &ticket) + bytes) as u16;
    ticket[list..list + 2].copy_from_slice(&extensions.to_be_bytes());
    let message = (ticket.len() - 4 + bytes) as u32;
    ticket[1..4].copy_from_slice(&message.to_be_bytes()[1..]);
    ticket.extend(UNASSIGNED.to_be_bytes());
    ticket.extend((bytes as u16 - 4).to_be_bytes());
    ticket.resize(4 + message as usize, 0);
    ticket
}

const OF_HANDSHAKE: u8 = 1;
const ALL: u8 = 2;
/// The transport parameters that matter here (RFC 9000, 18.2). A client's: its ID, idle timeout,
/// limits for all data and for the replies on its streams.
const OF_CLIENT: [u64; 6] = [0x0f, 0x01, 0x04, 0x05, STREAMS_BESIDE, DATA_BESIDE];
/// A server's: both IDs, idle timeout, limits for all data, for the requests on its client's streams
/// and for these streams; if there is room, the token of a stateless reset.
const OF_SERVER: [u64; 9] = [0x00, 0x0f, 0x01, 0x04, 0x06, 0x08, STREAMS_BESIDE, DATA_BESIDE, 0x02];
/// The limits of both for streams that go one way, if there are any, and for the data on them.
const STREAMS_BESIDE: u64 = 0x09;
const DATA_BESIDE: u64 = 0x07;
/// The number of a reserved parameter (18.1).
const RESERVED: u8 = 27;
/// The first bits of an integer of two bytes.
const TWO_BYTES: u16 = 1 << 14;
/// The number of an extension for private use (RFC 8446, 11).
const UNASSIGNED: u16 = 0xff00;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Mutex;
    use std::time::Instant;

    use narrows_transport::quic::Config;
    use narrows_transport::tls;
    use quinn_proto::crypto::{ClientConfig as _, ServerConfig as _};
    use quinn_proto::{ClientConfig, Endpoint};

    use super::super::settings::{carrier, endpoint, transport};
    use super::*;
    use crate::secure::{Pair, Sessions};

    /// Keeps the transport parameters of a connection, and makes none.
    #[derive(Default)]
    struct Keeps(Mutex<Option<TransportParameters>>);

    impl crypto::ClientConfig for Keeps {
        fn start_session(
            self: Arc<Self>,
            _: u32,
            _: &str,
            parameters: &TransportParameters,
        ) -> Result<Box<dyn crypto::Session>, ConnectError> {
            *self.0.lock().expect("nobody panics") = Some(*parameters);
            Err(ConnectError::EndpointStopping)
        }
    }

    fn parameters(config: &Config, port: u16) -> TransportParameters {
        let keeps = Arc::new(Keeps::default());
        let mut settings = ClientConfig::new(keeps.clone());
        settings.transport_config(transport(config, port));
        let mut made = Endpoint::new(endpoint(config), None, true, None);
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 853));
        assert!(made.connect(Instant::now(), settings, to, "127.0.0.1").is_err());
        let found = keeps.0.lock().expect("nobody panics").take();
        found.expect("a connection was begun")
    }

    fn written(session: &mut dyn crypto::Session) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let keys = session.write_handshake(&mut bytes);
        (bytes, keys.is_some())
    }

    /// Compares the messages of a handshake with the plan's.
    fn compare(pair: &Pair, quic: &Config, sessions: &Arc<Sessions>) {
        let begun = pair.begin(sessions);
        let messages = begun.tls.messages([quic.parameters.into(); 2]);
        let [of_client, of_server] = <[HasKeys; 2]>::default();
        let keys = QuicServerConfig::with_initial(begun.server.clone(), initial());
        let client =
            Client { tls: begun.client, parameters: quic.parameters, has_keys: of_client.clone() };
        let server = Server {
            tls: begun.server,
            parameters: quic.parameters,
            filling: begun.filling,
            has_keys: of_server.clone(),
            keys: keys.expect("the suite is right"),
        };
        let parameters = parameters(quic, 853);
        let mut client = Arc::new(client).start_session(1, "", &parameters).expect("a client");
        let mut server = Arc::new(server).start_session(1, &parameters);
        let (hello, _) = written(&mut *client);
        assert_eq!(hello.len() as u64, messages.hello);
        assert_eq!(client.early_crypto().is_some(), messages.early_data);
        server.read_handshake(&hello).expect("a ClientHello");
        let (server_hello, has_keys) = written(&mut *server);
        assert_eq!(server_hello.len() as u64, messages.server_hello);
        assert!(has_keys && of_server.of_handshake() && !of_server.of_all());
        let (answer, _) = written(&mut *server);
        assert_eq!(answer.len() as u64, messages.answer);
        // It may not use these keys yet.
        assert!(!of_server.of_all() && !of_client.of_handshake());
        client.read_handshake(&server_hello).expect("a ServerHello");
        assert!(written(&mut *client).1 && of_client.of_handshake() && !of_client.of_all());
        client.read_handshake(&answer).expect("the server's flight");
        let (finished, _) = written(&mut *client);
        assert_eq!(finished.len() as u64, messages.finished);
        assert!(of_client.of_all());
        assert_eq!(client.early_data_accepted(), Some(messages.early_data));
        server.read_handshake(&finished).expect("Finished");
        let (tickets, _) = written(&mut *server);
        let id = if begun.tls.tickets() > 0 { 4 + 16 + u64::from(quic.id) } else { 0 };
        assert_eq!(tickets.len() as u64 + id, messages.tickets + u64::from(quic.extras));
        assert!(of_server.of_all());
        client.read_handshake(&tickets).expect("tickets");
        assert!(client.transport_parameters().expect("they are sound").is_some());
    }

    #[test]
    fn handshakes_have_the_lengths_of_the_plan() {
        let client = tls::Client { hello: 235, alpn: 3, resume: true, ..tls::Client::default() };
        let server = tls::Server::default();
        let early = tls::Client { early_data: true, ..client };
        let usual = Config::default();
        // kdig 3.2 and Knot DNS 3.2, as captured.
        let kdig = tls::Client { key_share: 65, hello: 383, pads_hello: false, ..early };
        let knot = tls::Server {
            hash: 32,
            groups: 0,
            ticket: 265,
            tickets: 1,
            early_data: true,
            signature: 256,
            ..server
        };
        let of_knot = Config { id: 18, parameters: 94, extras: 97, ..usual };
        for (client, server, quic) in [
            (client, server, usual),
            (early, tls::Server { early_data: true, ..server }, usual),
            (kdig, knot, of_knot),
            (kdig, server, usual),
            (client, tls::Server { tickets: 2, tickets_resumed: 0, ..server }, usual),
            (client, server, Config { id: 0, ..usual }),
            (client, server, Config { parameters: 1000, extras: 300, ..usual }),
        ] {
            let pair = Pair::new(client, server, carrier(&quic)).expect("it is possible");
            let sessions = Arc::new(Sessions::default());
            for _ in 0..5 {
                compare(&pair, &quic, &sessions);
            }
        }
    }

    #[test]
    fn transport_parameters_have_any_length() {
        let of_quic = (34..200).filter(|&bytes| bytes != 35).map(|bytes| (853, bytes, 4));
        // With limits for streams that go one way.
        let of_http3 = (45..200).map(|bytes| (443, bytes, 6));
        for (port, bytes, count) in of_quic.chain(of_http3) {
            let all = parameters(&Config::default(), port);
            let found = fitted(&all, bytes, &OF_CLIENT);
            assert_eq!(found.len(), bytes);
            let mut rest = &found[..];
            let mut numbers = Vec::new();
            while let Some((number, _, after)) = first_parameter(rest) {
                numbers.push(number);
                rest = after;
            }
            assert!(rest.is_empty() && numbers.starts_with(&OF_CLIENT[..count]), "{numbers:?}");
            assert!(TransportParameters::read(Side::Client, &mut Cursor::new(&found)).is_ok());
        }
    }
}
