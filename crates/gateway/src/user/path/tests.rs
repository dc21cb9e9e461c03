//! The whole path over a link in memory that loses, duplicates and reorders packets, with clients
//! of our own and a DNS server on this machine's loopback. The clock runs faster than real time, so
//! time-outs cost little.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{
    Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6Header,
};

use super::stream::Stream;
use super::*;

/// Seconds of the clock per second of real time.
const HASTE: u32 = 20;

/// The most that the clock advances between two readings, in real time. If other programs have the
/// processor for longer, that does not count as the clients' time.
const STEP: Duration = Duration::from_millis(5);

/// Packets in flight, and what happens to them.
#[derive(Debug)]
struct MemoryLink {
    to_gateway: VecDeque<Vec<u8>>,
    to_clients: VecDeque<Vec<u8>>,
    impairment: Impairment,
    state: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Impairment {
    seed: u64,
    loss_percent: u64,
    duplicate_percent: u64,
    reorder_percent: u64,
    /// The largest packet that a router on the way to the clients forwards; 0: any. It reports
    /// longer ones to the gateway.
    narrow: usize,
}

impl MemoryLink {
    fn new(impairment: Impairment) -> Self {
        let state = impairment.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { to_gateway: VecDeque::new(), to_clients: VecDeque::new(), impairment, state }
    }

    /// True in this many of a hundred cases (xorshift64*, Marsaglia 2003, Vigna 2016).
    fn chance(&mut self, percent: u64) -> bool {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 100 < percent
    }

    fn carry(&mut self, packet: &[u8], to_gateway: bool) {
        let Impairment { loss_percent, duplicate_percent, reorder_percent, .. } = self.impairment;
        let copies = 1 + usize::from(self.chance(duplicate_percent));
        for _ in 0..copies {
            if self.chance(loss_percent) {
                continue;
            }
            let first = self.chance(reorder_percent);
            let queue = if to_gateway { &mut self.to_gateway } else { &mut self.to_clients };
            if first { queue.push_front(packet.to_vec()) } else { queue.push_back(packet.to_vec()) }
        }
    }
}

impl Link for MemoryLink {
    fn receive(&mut self, _: usize, inbox: &mut Inbox) -> io::Result<bool> {
        inbox.fill(|buffer| {
            Ok(self.to_gateway.pop_front().map(|packet| {
                buffer[..packet.len()].copy_from_slice(&packet);
                (packet.len(), Peer::default())
            }))
        })
    }

    fn send(&mut self, packet: Vec<u8>, _: Peer) -> io::Result<()> {
        if (1..packet.len()).contains(&self.impairment.narrow) {
            self.to_gateway.push_back(too_big(&packet, self.impairment.narrow));
        } else {
            self.carry(&packet, false);
        }
        Ok(())
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn mtu(&self) -> u16 {
        1500
    }
}

/// A router's message about a packet that its next link does not carry. It quotes the headers (RFC
/// 1191, RFC 4443).
fn too_big(packet: &[u8], mtu: usize) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        let quoted = &packet[..28];
        let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu as u16 };
        let icmp = Icmpv4Header::with_checksum(Icmpv4Type::DestinationUnreachable(needed), quoted);
        let to = packet[12..16].try_into().expect("4 bytes");
        let ip = Ipv4Header::new(36, 64, IpNumber::ICMP, [203, 0, 113, 1], to).expect("short");
        [&ip.to_bytes()[..], &icmp.to_bytes(), quoted].concat()
    } else {
        let (quoted, kind) = (&packet[..60], Icmpv6Type::PacketTooBig { mtu: mtu as u32 });
        let destination = packet[8..24].try_into().expect("16 bytes");
        let ip = Ipv6Header {
            payload_length: 68,
            next_header: IpNumber::IPV6_ICMP,
            hop_limit: 64,
            source: [0x20; 16],
            destination,
            ..Ipv6Header::default()
        };
        let icmp = Icmpv6Header::with_checksum(kind, ip.source, destination, quoted);
        [&ip.to_bytes()[..], &icmp.expect("short").to_bytes(), quoted].concat()
    }
}

// The server. It answers a query for s<N>.c<ID> with N bytes, over UDP with TC if that is more than
// the client accepts, and s<N>.c<ID> AXFR with N messages of 16000 bytes.

const AXFR: u16 = 252;
const TXT: u16 = 16;

fn query(id: u16, size: usize, kind: u16) -> Vec<u8> {
    let mut message = vec![0; 12];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message[5] = 1;
    for label in [format!("s{size}"), format!("c{id}")] {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// The server's message: `size` bytes with one record of random-like bytes after the question, and
/// an OPT record if the query has one.
fn answer(query: &[u8], size: usize, salt: u8, opt: bool) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&byte| byte == 0).expect("the root label") + 5;
    let mut message = query[..end].to_vec();
    (message[2], message[3]) = (0x84, 0);
    message[6..12].copy_from_slice(&[0, 1, 0, 0, 0, u8::from(opt)]);
    message.extend([0xc0, 12, 0, TXT as u8, 0, 1, 0, 0, 0, 60]);
    let data = size.saturating_sub(message.len() + 2).max(1);
    message.extend((data as u16).to_be_bytes());
    let name: usize = query[12..end].iter().map(|&byte| usize::from(byte) * 7).sum();
    message.extend((0..data).map(|i| (i * 31 + name + usize::from(salt)) as u8));
    if opt {
        message.extend([0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
    message
}

/// The server's answer to a query over TCP.
fn tcp_answers(query: &[u8]) -> Vec<u8> {
    let (size, kind, opt) = parts(query);
    let messages: Vec<_> = match kind {
        AXFR => (0..size).map(|n| answer(query, 16_000, n as u8, opt)).collect(),
        _ => vec![answer(query, size, 0, opt)],
    };
    messages
        .iter()
        .flat_map(|message| {
            (message.len() as u16).to_be_bytes().into_iter().chain(message.iter().copied())
        })
        .collect()
}

fn parts(query: &[u8]) -> (usize, u16, bool) {
    let length = usize::from(query[12]);
    let label = std::str::from_utf8(&query[14..13 + length]).expect("digits");
    let kind_at = 12 + query[12..].iter().position(|&byte| byte == 0).expect("the root label") + 1;
    let kind = u16::from_be_bytes([query[kind_at], query[kind_at + 1]]);
    (label.parse().expect("a size"), kind, query[11] == 1)
}

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    /// The accepted TCP connections.
    accepted: Arc<AtomicU32>,
}

impl Server {
    fn start(address: &str) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind(address).expect("a port");
            let own = udp.local_addr().expect("bound");
            if let Ok(tcp) = TcpListener::bind(own) {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().expect("bound");
        let accepted = Arc::new(AtomicU32::new(0));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                let query = &buffer[..length];
                let (size, _, opt) = parts(query);
                let most = usize::from(u16::from_be_bytes([query[length - 8], query[length - 7]]));
                let mut message = answer(query, size, 0, opt);
                if opt && message.len() > most {
                    message = answer(query, 0, 0, true);
                    message[2] |= 2;
                }
                let _ = udp.send_to(&message, from);
            }
        });
        let count = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || serve(stream));
            }
        });
        Self { address, accepted }
    }
}

fn serve(mut stream: TcpStream) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; u16::from_be_bytes(length).into()];
        if stream.read_exact(&mut query).is_err() || stream.write_all(&tcp_answers(&query)).is_err()
        {
            return;
        }
    }
}

/// What a client sends: pieces, each after it has received this many bytes.
#[derive(Clone, Debug, Default)]
struct Script {
    pieces: VecDeque<(usize, Vec<u8>)>,
    expected: Vec<u8>,
    /// The FIN follows the last piece at once, instead of the last received byte.
    half_close: bool,
}

impl Script {
    /// One query after another.
    fn in_turn(queries: &[Vec<u8>]) -> Self {
        let mut script = Self::default();
        for query in queries {
            script.pieces.push_back((script.expected.len(), framed(query)));
            script.expected.extend(tcp_answers(query));
        }
        script
    }

    /// All queries in one segment.
    fn pipelined(queries: &[Vec<u8>]) -> Self {
        let mut script = Self::in_turn(queries);
        let all = script.pieces.drain(..).flat_map(|(_, piece)| piece).collect();
        script.pieces.push_back((0, all));
        script
    }

    /// One query in pieces of `size` bytes.
    fn split(query: &[u8], size: usize) -> Self {
        let mut script = Self::in_turn(&[query.to_vec()]);
        script.pieces = framed(query).chunks(size).map(|piece| (0, piece.to_vec())).collect();
        script
    }
}

fn framed(query: &[u8]) -> Vec<u8> {
    [&(query.len() as u16).to_be_bytes(), query].concat()
}

/// A client's TCP: the handshake, followed by a [`Stream`].
#[derive(Debug)]
struct Client {
    ends: Connection,
    options: Options,
    isn: u32,
    stream: Option<Stream>,
    script: Script,
    got: Vec<u8>,
    resend_at: Duration,
    reset: bool,
    /// How often a client begins anew if it is reset before it has received anything.
    attempts: u32,
    first: Script,
}

impl Client {
    fn new(n: u16, server: IpAddr, timestamps: bool, mss: u16, script: Script) -> Self {
        let client = match server {
            IpAddr::V4(_) => IpAddr::from([10, 0, (n >> 8) as u8, n as u8]),
            IpAddr::V6(_) => IpAddr::from([0x2001, 0xdb8, 1, n, 0, 0, 0, 9]),
        };
        let options = Options {
            mss: Some(mss),
            window_scale: timestamps.then_some(7),
            sack_permitted: timestamps,
            timestamps: timestamps.then_some((5000, 0)),
            ..Options::default()
        };
        let ends = Connection {
            client: SocketAddr::new(client, 20_000 + n),
            server: SocketAddr::new(server, 53),
        };
        Self {
            ends,
            options,
            isn: (u32::MAX - 10).wrapping_add(u32::from(n) * 7919),
            stream: None,
            first: script.clone(),
            script,
            got: Vec::new(),
            resend_at: Duration::ZERO,
            reset: false,
            attempts: 0,
        }
    }

    fn done(&self) -> bool {
        self.reset || self.stream.as_ref().is_some_and(Stream::is_closed)
    }

    fn handle(&mut self, segment: &Segment<'_>, now: Duration) {
        match &mut self.stream {
            Some(stream) => {
                stream.handle_segment(&plain(segment), now);
                if segment.has(Flags::RST) && stream.is_closed() {
                    self.on_reset();
                }
            }
            None if segment.has(Flags::SYN | Flags::ACK) => {
                if segment.ack != self.isn.wrapping_add(1) {
                    return; // left from an earlier attempt
                }
                let theirs = segment.options.timestamps.map(|(tsval, _)| tsval);
                let start = Start {
                    client_next: segment.seq.wrapping_add(1),
                    server_next: segment.ack,
                    window: segment.window.into(),
                    mss: segment.options.mss.expect("every SYN/ACK has one"),
                    scale: segment.options.window_scale,
                    timestamps: theirs.map(|tsval| (5000, tsval)),
                };
                self.stream = Some(Stream::adopt(&start, now));
            }
            None => {}
        }
    }

    fn on_reset(&mut self) {
        if self.attempts == 0 || !self.got.is_empty() {
            self.reset = true;
            return;
        }
        self.attempts -= 1;
        self.isn = self.isn.wrapping_add(1_000_000);
        self.stream = None;
        self.script = self.first.clone();
        self.resend_at = Duration::ZERO;
    }

    /// The segments that the client sends now.
    fn packets(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let ends = Connection { client: self.ends.server, server: self.ends.client };
        let Some(stream) = &mut self.stream else {
            if now < self.resend_at {
                return Vec::new();
            }
            self.resend_at = now + Duration::from_secs(1);
            let syn = Outgoing {
                from: self.ends.client,
                to: self.ends.server,
                seq: self.isn,
                ack: 0,
                flags: Flags::SYN,
                window: 64_000,
                options: self.options,
            };
            return vec![syn.packet(&[])];
        };
        let piece = stream.received().to_vec();
        stream.consume(piece.len());
        self.got.extend(piece);
        let mut packets = Vec::new();
        let mut out = |stream: &mut Stream| {
            stream.transmit(now, |segment| packets.push(outgoing(ends, segment)));
        };
        stream.handle_timeout(now);
        while self.script.pieces.front().is_some_and(|(after, _)| *after <= self.got.len()) {
            let (_, piece) = self.script.pieces.pop_front().expect("it was there");
            stream.write(&piece);
            let last = self.script.pieces.is_empty();
            if last && self.script.half_close {
                stream.finish();
            }
            out(stream); // each piece is a separate segment
        }
        if self.got.len() >= self.script.expected.len() {
            stream.finish();
        }
        out(stream);
        packets
    }
}

/// Lets all clients talk until each is done, at most `patience` of the clock.
fn run(path: &mut DataPath<MemoryLink>, clients: &mut [Client], patience: Duration) {
    let (read_at, elapsed) = (Cell::new(Instant::now()), Cell::new(Duration::ZERO));
    let clock = || {
        let step = read_at.replace(Instant::now()).elapsed().min(STEP);
        elapsed.set(elapsed.get() + step);
        let boot = Duration::from_secs(1000) + elapsed.get() * HASTE;
        Now { boot, wall: Duration::from_secs(1_700_000_000) + boot }
    };
    let at = |address: SocketAddr| usize::from(address.port()) - 20_000;
    while clients.iter().any(|client| !client.done()) {
        let now = clock().boot;
        if now > Duration::from_secs(1000) + patience {
            break;
        }
        for client in clients.iter_mut().filter(|client| !client.done()) {
            for packet in client.packets(now) {
                path.link().carry(&packet, true);
            }
        }
        let idle = path.link().to_gateway.is_empty();
        path.turn(if idle { Duration::from_millis(1) } else { Duration::ZERO }, clock)
            .expect("memory");
        while let Some(packet) = path.link().to_clients.pop_front() {
            let segment = read(&packet).expect("the gateway sends TCP");
            assert!(segment.checksum_holds());
            assert!(packet.len() <= 1500);
            clients[at(segment.server())].handle(&segment, clock().boot);
        }
    }
}

fn path(
    impairment: Impairment,
    server: &Server,
    changes: impl FnOnce(&mut Settings),
) -> DataPath<MemoryLink> {
    let mut settings = Settings {
        servers: vec!["192.0.2.53".parse().expect("v4"), "2001:db8::53".parse().expect("v6")],
        // A busy machine is slow compared with the fast clock.
        timeout: Duration::from_secs(60),
        patience_us: 10_000_000,
        idle: Duration::from_secs(120),
        keys: [crate::core::CookieKey { k0: 1, k1: 2 }, crate::core::CookieKey { k0: 3, k1: 4 }],
        ..Settings::default()
    };
    changes(&mut settings);
    let path =
        PathSettings { upstream: vec![server.address], queries: 4096, relays: 1024, proxied: None };
    DataPath::new(MemoryLink::new(impairment), settings, path).expect("epoll")
}

fn check(clients: &[Client], path: &DataPath<MemoryLink>) {
    for (n, client) in clients.iter().enumerate() {
        let (got, expected) = (&client.got, &client.script.expected);
        assert!(
            got == expected,
            "client {n}: {} of {} bytes, first difference at {:?}, reset {}: {:?}\n{:?}\n{:?}",
            got.len(),
            expected.len(),
            got.iter().zip(expected).position(|(a, b)| a != b),
            client.reset,
            client.stream,
            path.core.counters().iter().filter(|(_, n)| *n > 0).collect::<Vec<_>>(),
            path.counters(),
        );
        assert!(client.done(), "client {n} is not closed: {:?}", client.stream);
    }
}

/// Every kind of conversation that clients have.
fn script(n: u16) -> Script {
    let small = query(n, 60 + usize::from(n) % 1300, TXT);
    match n % 10 {
        0 => Script::in_turn(&[query(n, 8000, TXT)]),
        1 => Script::in_turn(&[query(n, 40_000, TXT)]),
        2 => Script::in_turn(&[small, query(n + 1, 500, TXT), query(n + 2, 3000, TXT)]),
        3 => Script::pipelined(&[small, query(n + 1, 2500, TXT)]),
        4 => Script::split(&small, 1),
        5 => Script::split(&small, 2),
        6 if n % 50 == 6 => Script::in_turn(&[query(n, 12, AXFR)]),
        7 => Script { half_close: true, ..Script::in_turn(&[small]) },
        8 => Script { half_close: true, ..Script::in_turn(&[query(n, 5000, TXT)]) },
        _ => Script::in_turn(&[small]),
    }
}

fn clients(count: u16) -> Vec<Client> {
    let servers: [IpAddr; 2] =
        ["192.0.2.53".parse().expect("v4"), "2001:db8::53".parse().expect("v6")];
    let mss = [1460, 1220, 536, 8960];
    (0..count)
        .map(|n| {
            let server = servers[usize::from(n / 10) % 2];
            Client::new(n, server, n % 3 > 0, mss[usize::from(n / 20) % 4], script(n))
        })
        .collect()
}

#[test]
fn a_thousand_clients_of_all_kinds_get_every_byte() {
    let server = Server::start("127.0.0.1:0");
    let mut path = path(Impairment::default(), &server, |_| {});
    let mut clients = clients(1000);
    run(&mut path, &mut clients, Duration::from_secs(300));
    check(&clients, &path);
    let counters = path.core.counters();
    let of = |counter| counters.get(counter);
    // So many at once fill the sockets of server and gateway on a busy machine. Lost queries are
    // then asked over TCP.
    assert!(of(Counter::Query) >= 600, "{counters:?}");
    assert!(of(Counter::Reply) >= 1 && of(Counter::ReplySegmented) >= 1, "{counters:?}");
    assert!(of(Counter::ToKernelTransfer) >= 20 && of(Counter::QueryLater) >= 1, "{counters:?}");
    assert!(of(Counter::ToKernelUnusual) >= 300 && of(Counter::ToKernelReply) >= 1, "{counters:?}");
    assert_eq!(of(Counter::AdoptFailed), 0);
    assert_eq!(u64::from(server.accepted.load(Ordering::Relaxed)), of(Counter::Adopted));
    assert_eq!(path.counters().relays, 0, "all are closed");
}

/// Connections that continued with TCP also obey what routers report.
#[test]
fn a_narrow_path_costs_nobody_a_byte() {
    let server = Server::start("127.0.0.1:0");
    let mut path = path(Impairment { narrow: 1280, ..Impairment::default() }, &server, |_| {});
    let mut clients = clients(150);
    run(&mut path, &mut clients, Duration::from_secs(100));
    check(&clients, &path);
    assert!(path.core.counters().get(Counter::PathMtu) >= 10);
}

/// Whoever closes last keeps no state, so a lost ACK of the last FIN leaves a relay waiting, as for
/// a client that is switched off.
fn under(impairment: Impairment) -> (Vec<Client>, DataPath<MemoryLink>) {
    let server = Server::start("[::1]:0");
    let mut path = path(impairment, &server, |_| {});
    let mut clients = clients(150);
    // If the first piece of a query is lost and the second arrives, nobody can recognise the
    // connection: RST.
    let in_pieces = |client: &&mut Client| client.script.pieces.len() > 3;
    clients.iter_mut().filter(in_pieces).for_each(|client| client.attempts = 100);
    run(&mut path, &mut clients, Duration::from_secs(900));
    (clients, path)
}

#[test]
fn loss_and_reordering_cost_nobody_a_byte() {
    for (seed, loss_percent) in [(1, 1), (2, 5), (3, 10)] {
        let (clients, path) = under(Impairment {
            seed,
            loss_percent,
            duplicate_percent: 2,
            reorder_percent: 2,
            narrow: 0,
        });
        check(&clients, &path);
    }
}

/// With this much loss, a client can be silent for longer than a cookie lives, and is then reset
/// (PROTOCOL.md), most often when it has everything and only its FIN is in flight. No client has a
/// wrong byte, and very few lack one.
#[test]
fn loss_of_a_quarter_each_way_corrupts_nothing() {
    let (clients, path) = under(Impairment {
        seed: 4,
        loss_percent: 25,
        duplicate_percent: 2,
        reorder_percent: 2,
        narrow: 0,
    });
    let short = |client: &Client| client.reset && client.got.len() < client.script.expected.len();
    let (short, whole): (Vec<_>, Vec<_>) = clients.into_iter().partition(short);
    check(&whole, &path);
    assert!(short.iter().all(|client| client.script.expected.starts_with(&client.got)));
    assert!(short.len() <= 1, "{} of 150 clients were reset", short.len());
}

/// The gateway closes idle connections, and its FIN reaches the client.
#[test]
fn an_idle_connection_is_closed_by_the_gateway() {
    let server = Server::start("127.0.0.1:0");
    let mut path = path(Impairment::default(), &server, |settings| {
        settings.idle = Duration::from_secs(5);
    });
    let mut script = Script::in_turn(&[query(1, 100, TXT)]);
    let all = script.expected.len();
    script.expected.push(0); // this never comes, so the client does not close
    let mut clients = vec![Client::new(0, [192, 0, 2, 53].into(), true, 1460, script)];
    run(&mut path, &mut clients, Duration::from_secs(20));
    let stream = clients[0].stream.as_ref().expect("it was connected");
    assert_eq!(clients[0].got.len(), all);
    assert!(stream.client_finished() && !clients[0].reset, "{stream:?}");
}
