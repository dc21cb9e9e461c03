//! Two ends of quinn-proto over a bottleneck in virtual time: goodput and delay for a matrix of
//! rates, round-trip times and queues.
//!
//!     cargo run --release -p narrows-oracle --example quinn_over_link
//!
//! The client uploads for ten seconds. Only the bottleneck towards the server has a queue that
//! matters; the way back is a link of the same rate and delay with a FIFO.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_link::{Config, Counters, Link, Packet};
use narrows_qdisc::fifo::PfifoConfig;
use narrows_qdisc::{AnyConfig, Ecn, codel, fq_codel, pie};
use narrows_units::{Rate, Span, Time};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamId, TransportConfig,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// How long the upload runs.
const RUN: Span = Span::from_secs(10);
/// The headers of IPv4 and UDP.
const HEADERS: usize = 28;

/// A cell of the matrix.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The rate in Mbit/s.
    pub(crate) mbps: u64,
    /// The round-trip time without queues in milliseconds.
    pub(crate) rtt_ms: u64,
    /// The queue.
    pub(crate) queue: AnyConfig,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Payload that the server's application got, as a share of the rate.
    pub(crate) goodput: f64,
    /// The median of the packets' delay beyond the propagation delay in milliseconds.
    pub(crate) delay_p50_ms: f64,
    /// The 95th percentile of the same.
    pub(crate) delay_p95_ms: f64,
    /// What became of the packets.
    pub(crate) counters: Counters,
}

/// All cells.
pub(crate) fn matrix() -> Vec<Case> {
    let mut cases = Vec::new();
    for mbps in [2, 20] {
        for rtt_ms in [20, 100] {
            for queue in [
                PfifoConfig { limit: 200 }.into(),
                codel::Config { ecn: true, ..codel::Config::default() }.into(),
                pie::Config { ecn: true, ..pie::Config::default() }.into(),
                fq_codel::Config { ecn: true, ..fq_codel::Config::default() }.into(),
            ] {
                cases.push(Case { mbps, rtt_ms, queue });
            }
        }
    }
    cases
}

/// Runs an upload over one bottleneck.
pub(crate) fn measure(case: &Case) -> Row {
    let rate = Rate::from_bps(case.mbps * 1_000_000).expect("it is above zero");
    let delay = Span::from_ms(case.rtt_ms) / 2;
    let back = Config { rate, delay, ..Config::default() };
    let there = Config { queue: case.queue.clone(), ..back.clone() };
    let mut ends = Ends::new([
        Link::new(&there, &[], 1).expect("the settings are sound"),
        Link::new(&back, &[], 2).expect("the settings are sound"),
    ]);
    ends.run(Time::ZERO + RUN);
    let mut waits: Vec<Span> =
        ends.delays.iter().map(|passage| passage.saturating_sub(delay)).collect();
    waits.sort_unstable();
    let quantile = |percent: usize| waits[waits.len() * percent / 100].as_secs_f64() * 1e3;
    Row {
        goodput: ends.received as f64 * 8.0 / RUN.as_secs_f64() / rate.as_bps() as f64,
        delay_p50_ms: quantile(50),
        delay_p95_ms: quantile(95),
        counters: ends.links[0].counters(),
    }
}

#[allow(dead_code, reason = "the test of this example has its own")]
fn main() {
    println!("| rate | round trip | queue | goodput | delay p50 | delay p95 | marked | dropped |");
    println!("|---|---|---|---|---|---|---|---|");
    for case in matrix() {
        let Row { goodput, delay_p50_ms, delay_p95_ms, counters } = measure(&case);
        println!(
            "| {} Mbit/s | {} ms | {} | {:.0} % | {delay_p50_ms:.1} ms | {delay_p95_ms:.1} ms | {} | {} |",
            case.mbps,
            case.rtt_ms,
            case.queue.name(),
            goodput * 100.0,
            counters.marked,
            counters.dropped.iter().sum::<u64>(),
        );
    }
}

/// The client and the server, and the two directions between them.
struct Ends {
    /// The moment that is zero in virtual time.
    began: Instant,
    now: Time,
    endpoints: [Endpoint; 2],
    connections: [Option<(ConnectionHandle, Connection)>; 2],
    /// From the client to the server, and back.
    links: [Link<Vec<u8>>; 2],
    stream: Option<StreamId>,
    received: u64,
    /// How long each packet took from the client to the server.
    delays: Vec<Span>,
}

impl Ends {
    fn new(links: [Link<Vec<u8>>; 2]) -> Self {
        let (client, server) = settings();
        let shared = Arc::new(EndpointConfig::default());
        let mut endpoints = [
            Endpoint::new(Arc::clone(&shared), None, false, Some([1; 32])),
            Endpoint::new(shared, Some(Arc::new(server)), false, Some([2; 32])),
        ];
        let began = Instant::now();
        let connection = endpoints[0].connect(began, client, address(1), "server.test");
        Self {
            began,
            now: Time::ZERO,
            endpoints,
            connections: [Some(connection.expect("it may connect")), None],
            links,
            stream: None,
            received: 0,
            delays: Vec::new(),
        }
    }

    /// The loop: whatever is due next, a packet or a timer.
    fn run(&mut self, end: Time) {
        self.flush(0);
        loop {
            let began = self.began;
            let timers = self.connections.iter_mut().flatten();
            let timers = timers.filter_map(|(_, connection)| connection.poll_timeout());
            let timers = timers.map(|due| {
                let span = due.saturating_duration_since(began);
                Time::ZERO + Span::from_ns(span.as_nanos() as u64)
            });
            let packets = self.links.iter().filter_map(Link::next_at);
            let Some(next) = timers.chain(packets).min().filter(|&next| next < end) else { return };
            self.now = self.now.max(next);
            for side in 0..2 {
                let towards = 1 - side;
                while let Some(out) = self.links[towards].pop(self.now) {
                    if side == 1 {
                        self.delays.push(out.at.since(out.pushed_at));
                    }
                    self.land(side, &out.packet);
                }
                let now = self.instant();
                if let Some((_, connection)) = &mut self.connections[side] {
                    connection.handle_timeout(now);
                }
                self.flush(side);
            }
        }
    }

    /// Time for quinn, which has no other type of its own.
    fn instant(&self) -> Instant {
        self.began + Duration::from_nanos(self.now.as_ps() / 1000)
    }

    fn land(&mut self, side: usize, packet: &Packet<Vec<u8>>) {
        let (now, mut out) = (self.instant(), Vec::new());
        let endpoint = &mut self.endpoints[side];
        let ecn = EcnCodepoint::from_bits(packet.ecn as u8);
        let data = packet.payload.as_slice().into();
        match endpoint.handle(now, address(1 - side), None, ecn, data, &mut out) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let made = endpoint.accept(incoming, now, &mut out, None).expect("accepted");
                self.connections[side] = Some(made);
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connections[side] {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Lets an end's application act, and sends what may be sent.
    fn flush(&mut self, side: usize) {
        let now = self.instant();
        let Some((handle, connection)) = &mut self.connections[side] else { return };
        while let Some(event) = connection.poll() {
            if side == 0 && matches!(event, Event::Connected) {
                self.stream = connection.streams().open(Dir::Uni);
            }
        }
        if side == 0 {
            if let Some(stream) = self.stream {
                while connection.send_stream(stream).write(&[0; 65_536]).is_ok() {}
            }
        } else {
            self.stream = self.stream.or_else(|| connection.streams().accept(Dir::Uni));
            if let Some(stream) = self.stream
                && let Ok(mut chunks) = connection.recv_stream(stream).read(true)
            {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    self.received += chunk.bytes.len() as u64;
                }
                let _ = chunks.finalize();
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoints[side].handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut out = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 10, &mut out) {
            let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            // Datagrams that are sent with one call reach the queue together.
            for datagram in
                out[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size))
            {
                let bytes = (datagram.len() + HEADERS) as u32;
                let payload = datagram.to_vec();
                let packet = Packet { bytes, flow: 1, ecn, payload, ..Packet::default() };
                self.links[side].push(self.now, packet).expect("it is a packet of IP");
            }
            out.clear();
        }
    }
}

fn address(side: usize) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, 1 + side as u8), 443).into()
}

/// The settings of the client and the server.
fn settings() -> (ClientConfig, ServerConfig) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate =
        CertificateDer::from_slice(include_bytes!("../../client/tests/common/certificate.der"));
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("../../client/tests/common/key.der")[..]);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("it is a certificate");
    let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("known")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("known")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("they belong together");
    let mut transport = TransportConfig::default();
    // There is nothing to find: the link takes every packet.
    transport.mtu_discovery_config(None);
    let transport = Arc::new(transport);
    let mut client =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).expect("TLS 1.3")));
    client.transport_config(Arc::clone(&transport));
    let mut server =
        ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).expect("TLS 1.3")));
    server.transport_config(transport);
    (client, server)
}
