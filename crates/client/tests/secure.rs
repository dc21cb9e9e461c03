//! TLS and QUIC: servers by rustls and quinn-proto on loopback, and what the client reports.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{framed, reply, tcp};
use der::{Decode as _, Header, Reader as _, SliceReader};
use narrows_client::{Client, Outcome, Query, Server, Stage, Transport};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// common/certificate.txt says where they are from.
const CERTIFICATE: &[u8] = include_bytes!("common/certificate.der");
const KEY: &[u8] = include_bytes!("common/key.der");

fn query() -> Query {
    Query::new(".", "SOA").expect("a query")
}

fn client(address: SocketAddr, transport: Transport, reuse: bool) -> Client {
    let timeout = Duration::from_secs(2);
    Client::new(Server { timeout, reuse, ..Server::new(address, transport) }).expect("a client")
}

fn config(protocol: &[u8], versions: &[&'static rustls::SupportedProtocolVersion]) -> ServerConfig {
    let certificate = CertificateDer::from_slice(CERTIFICATE);
    let key = PrivateKeyDer::Pkcs8(KEY.into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate with its key");
    config.alpn_protocols = vec![protocol.to_vec()];
    config
}

/// Starts a DNS server over TLS that answers every query on a connection.
fn tls_server(versions: &[&'static rustls::SupportedProtocolVersion]) -> SocketAddr {
    serve_tls(config(b"dot", versions))
}

fn serve_tls(config: ServerConfig) -> SocketAddr {
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let secure = ServerConnection::new(config.clone()).expect("a connection");
            let mut stream = StreamOwned::new(secure, socket);
            let mut length = [0; 2];
            while stream.read_exact(&mut length).is_ok() {
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut query).expect("a query");
                stream.write_all(&framed(&reply(&query, 400))).expect("written");
                stream.flush().expect("sent");
            }
        }
    });
    address
}

#[test]
fn tls_has_a_handshake_of_its_own() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut client = client(tls_server(&[version]), Transport::Tls, false);
        let exchange = client.ask(&query());
        assert_eq!(exchange.outcome, Outcome::Answered, "{exchange:?}");
        assert_eq!(exchange.reply.as_ref().map(|reply| reply.bytes), Some(428));
        let times = exchange.times;
        let parts = [times.connect, times.secure, times.query].map(|part| part.expect("a time"));
        assert!(times.total.expect("a time") >= parts[1] + parts[2], "{times:?}");
        assert!(parts.iter().all(|part| *part > Duration::ZERO));
        assert_eq!(exchange.segments.count, None, "records do not show writes");
        assert!(client.take_connections()[0].secure.is_some());
    }
}

/// A certificate without its version and its extensions, as in version 1 (RFC 5280, section
/// 4.1.2.1).
fn version_1(certificate: &[u8]) -> der::Result<Vec<u8>> {
    let mut outer = SliceReader::new(certificate)?;
    Header::decode(&mut outer)?;
    let mut signed = SliceReader::new(outer.tlv_bytes()?)?;
    Header::decode(&mut signed)?;
    let mut fields = Vec::new();
    while !signed.is_finished() {
        let field = signed.tlv_bytes()?;
        if !matches!(field[0], 0xa0 | 0xa3) {
            fields.extend(field);
        }
    }
    let algorithm = outer.tlv_bytes()?;
    let signature = outer.tlv_bytes()?;
    Ok(sequence(&[&sequence(&fields)[..], algorithm, signature].concat()))
}

fn sequence(content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
    let header = match (high, low) {
        (0, 0..=127) => vec![0x30, low],
        (0, _) => vec![0x30, 0x81, low],
        _ => vec![0x30, 0x82, high, low],
    };
    [header, content.to_vec()].concat()
}

#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesServerCert for Always {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// BIND's `tls ephemeral` makes such certificates. `sign` is the key that the server signs with.
fn version_1_server(
    version: &'static rustls::SupportedProtocolVersion,
    sign: &'static [u8],
) -> SocketAddr {
    let certificate = version_1(CERTIFICATE).expect("DER").into();
    let key = PrivateKeyDer::Pkcs8(sign.into());
    let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("a key");
    let mut config = config(b"dot", &[version]);
    config.cert_resolver = Arc::new(Always(Arc::new(CertifiedKey::new(vec![certificate], key))));
    serve_tls(config)
}

#[test]
fn a_certificate_may_have_version_1_but_must_have_the_servers_key() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let server = version_1_server(version, KEY);
        let exchange = client(server, Transport::Tls, false).ask(&query());
        assert_eq!(exchange.outcome, Outcome::Answered, "{exchange:?}");
        let server = version_1_server(version, include_bytes!("common/other_key.der"));
        let exchange = client(server, Transport::Tls, false).ask(&query());
        assert_eq!(exchange.outcome, Outcome::HandshakeFailed, "{exchange:?}");
        assert!(exchange.detail.contains("badsignature"), "{exchange:?}");
    }
}

#[test]
fn a_kept_tls_connection_has_no_second_handshake() {
    let mut client = client(tls_server(&[&rustls::version::TLS13]), Transport::Tls, true);
    assert_eq!(client.ask(&query()).outcome, Outcome::Answered);
    let second = client.ask(&query());
    assert_eq!((second.outcome, second.reused), (Outcome::Answered, Some(true)));
    assert_eq!((second.times.connect, second.times.secure), (None, None));
}

#[test]
fn a_server_without_tls_is_told_apart_from_one_that_does_not_answer() {
    let plain = tcp(|mut connection| {
        let mut hello = [0; 64];
        let _ = connection.read(&mut hello);
        let _ = connection.write_all(b"this is no TLS record at all");
        thread::sleep(Duration::from_millis(50));
    });
    let exchange = client(plain, Transport::Tls, false).ask(&query());
    assert_eq!(exchange.outcome, Outcome::HandshakeFailed, "{exchange:?}");
    assert_eq!(exchange.stage, Some(Stage::Secure));
    assert!(exchange.times.connect.is_some(), "TCP's handshake was done");
    let closing = tcp(|mut connection| {
        let _ = connection.read(&mut [0; 4096]);
    });
    let exchange = client(closing, Transport::Tls, false).ask(&query());
    assert_eq!(exchange.outcome, Outcome::HandshakeFailed, "{exchange:?}");
}

/// Starts a DNS server over QUIC that takes one connection after the other.
fn quic_server() -> SocketAddr {
    let crypto = QuicServerConfig::try_from(config(b"doq", &[&rustls::version::TLS13]))
        .expect("TLS 1.3 with the first suite");
    let config = quinn_proto::ServerConfig::with_crypto(Arc::new(crypto));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || serve_quic(&socket, config));
    address
}

fn serve_quic(socket: &UdpSocket, config: quinn_proto::ServerConfig) {
    let settings = Arc::new(EndpointConfig::default());
    let mut endpoint = Endpoint::new(settings, Some(Arc::new(config)), true, None);
    let mut current: Option<(ConnectionHandle, Connection, SocketAddr)> = None;
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("set");
    let mut datagram = [0; 4096];
    loop {
        if let Ok((length, peer)) = socket.recv_from(&mut datagram) {
            let now = Instant::now();
            let mut out = Vec::new();
            let data = datagram[..length].into();
            match endpoint.handle(now, peer, None, None, data, &mut out) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let (handle, made) =
                        endpoint.accept(incoming, now, &mut out, None).expect("accepted");
                    current = Some((handle, made, peer));
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection, _)) = &mut current {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::Response(transmit)) => {
                    socket.send_to(&out[..transmit.size], peer).expect("sent");
                }
                None => {}
            }
        }
        let Some((handle, connection, peer)) = &mut current else { continue };
        connection.handle_timeout(Instant::now());
        while connection.poll().is_some() {}
        while let Some(stream) = connection.streams().accept(Dir::Bi) {
            let mut input = Vec::new();
            let mut receiving = connection.recv_stream(stream);
            let mut chunks = receiving.read(true).expect("readable");
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                input.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
            let mut sending = connection.send_stream(stream);
            sending.write(&framed(&reply(&input[2..], 400))).expect("written");
            sending.finish().expect("finished");
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut out = Vec::new();
        while let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut out) {
            socket.send_to(&out[..transmit.size], *peer).expect("sent");
            out.clear();
        }
    }
}

#[test]
fn quic_asks_on_a_stream_of_a_connection() {
    let mut client = client(quic_server(), Transport::Quic, true);
    let first = client.ask(&query());
    assert_eq!(first.outcome, Outcome::Answered, "{first:?}");
    assert_eq!(first.reply.as_ref().map(|reply| reply.bytes), Some(428));
    let connect = first.times.connect.expect("a handshake");
    assert!(first.times.total.expect("a time") >= connect);
    assert_eq!(first.times.secure, None, "QUIC's handshake is the connection's");
    let second = client.ask(&query());
    assert_eq!((second.outcome, second.reused), (Outcome::Answered, Some(true)), "{second:?}");
    assert_eq!(second.connection, Some(0));
    client.close();
    assert_eq!(client.take_connections()[0].exchanges, 2);
}

#[test]
fn no_quic_server_is_a_refusal_or_a_timeout() {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let exchange = client(gone, Transport::Quic, false).ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Refused, Some(Stage::Connect)));
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    let timeout = Duration::from_millis(200);
    let server = Server { timeout, ..Server::new(address, Transport::Quic) };
    let exchange = Client::new(server).expect("a client").ask(&query());
    assert_eq!((exchange.outcome, exchange.stage), (Outcome::Timeout, Some(Stage::Connect)));
}
