//! The simulator's stateless server sends what the core sends, segment by segment: without losses,
//! and with random losses of the SYN, the SYN-ACK, the query, the reply and what follows.
//!
//! The same client, the simulator's TCP, talks to both. What a run of the simulator lost is also
//! lost on the way to the core.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::conversation::settings;
use crate::common::packets::{Datagram, Segment as Bytes, query, reply};
use narrows_gateway::core::{Core, Now, Reason, ReplyVerdict, Verdict};
use narrows_qdisc::fifo::PfifoConfig;
use narrows_sim::Simulation;
use narrows_sim::captured::Frame;
use narrows_sim::plan::dns::client::{Attempts, Client, Reuse, Tcp};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server::{self, Server, WhenFull};
use narrows_sim::plan::transfer::{Secondary, Transfer};
use narrows_sim::plan::{Application, Capture, Framing, Kind, Link, Modes, Path, Plan, Queue};
use narrows_sim::tcp::{Config, Endpoint, Flags, Segment, Seq, SynOptions};
use narrows_units::{Rate, Span, Time};

/// A segment on the wire: whether the client sent it, its flags, and the lengths of payload and IP
/// packet.
type Sent = (bool, u8, u16, u16);

/// Which segments are lost, by number: the client's and the server's.
type Lost = [Vec<usize>; 2];

const SERVICE: Span = Span::from_us(100);
const ONE_WAY: Span = Span::from_ms(20);

/// client - near - far - server. Packets are lost between the routers, before they reach the next
/// one.
// Long: a list of values.
fn plan(seed: u64, loss: f64, bytes: (u32, u32)) -> Plan {
    let link = |name: &str, from, to, delay, loss: f64| Link {
        name: name.into(),
        from,
        to,
        rate: Rate::from_bps(1_000_000_000_000).expect("not zero"),
        opportunities_ms: None,
        delay,
        jitter: None,
        loss: loss.into(),
        dns_exempt: false,
        framing: Framing { overhead: 0, min: 0, queue_overhead: 0 },
        queue: Queue::Pfifo(PfifoConfig { limit: 1000 }),
        ring: None,
        mtu: 1500,
        middlebox: None,
    };
    let client = Client {
        server: 1,
        there: 0,
        back: 1,
        workers: 1,
        start: Time::ZERO,
        spread: Span::ZERO,
        warm_up: 0,
        queries: Some(1),
        arrivals: None,
        think_mean: Span::ZERO,
        sizes: Sizes::fixed(bytes.0, bytes.1),
        gives_up: None,
        udp: None,
        tcp: Some(Tcp {
            tcp: 0,
            reuse: Reuse::Never,
            connect_timeout: None,
            answer_timeout: None,
            attempts: Attempts::of(1),
            udp_between: false,
            refused_together: 1,
            length_apart: false,
            tls: None,
        }),
    };
    let server = Server {
        service: SERVICE,
        service_jitter_mean: Span::ZERO,
        udp_payload: 65_500,
        tcp: Some(server::Tcp {
            tcp: 0,
            backlog: 128,
            connections: None,
            connections_per_client: None,
            when_full: WhenFull::Wait,
            idle_timeout: Span::from_secs(10),
            first_query_timeout: Span::from_secs(10),
            half_query_timeout: None,
            on_query: server::OnQuery::Answer,
            busy_levels: Vec::new(),
            busy_counts_new: false,
            busy_stays: false,
            queries_per_connection: None,
            in_order: false,
            length_apart: false,
            extra_service: Span::ZERO,
            half_open: server::HalfOpenLimits::LINUX,
            stateless: true,
            tls: None,
        }),
    };
    Plan {
        seed,
        end: Time::ZERO + Span::from_secs(100),
        end_when_done: false,
        event_limit: 1_000_000,
        nodes: ["client", "near", "far", "server"].map(str::to_owned).to_vec(),
        links: vec![
            link("near.forward", 0, 1, Span::ZERO, loss),
            link("wan.forward", 1, 3, ONE_WAY, 0.0),
            link("far.backward", 3, 2, Span::ZERO, loss),
            link("wan.backward", 2, 0, ONE_WAY, 0.0),
        ],
        tcp: vec![config()],
        paths: vec![
            Path { from: 0, to: 3, links: vec![0, 1] },
            Path { from: 3, to: 0, links: vec![2, 3] },
        ],
        applications: vec![
            Application { name: "dns".into(), kind: Kind::DnsClient(client) },
            Application { name: "dns".into(), kind: Kind::DnsServer(server) },
        ],
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: None,
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: (0..4).map(|link| Capture::of(link, "")).collect(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes::default(),
    }
}

fn config() -> Config {
    Config::profile("linux-6").expect("the profile exists")
}

/// What both ends sent in the simulator, in order, and which of it was lost.
fn simulated(plan: Plan) -> (Vec<Sent>, Lost) {
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    while !simulation.advance(1_000_000) {}
    let captured = |link| simulation.captured(link);
    let tcp = |frame: &Frame| match frame {
        Frame::Tcp(segment) => *segment,
        other => panic!("no TCP: {other:?}"),
    };
    let mut sent = Vec::new();
    let lost = [(0, 1), (2, 3)].map(|(before, after)| {
        let mut passed = captured(after).into_iter().peekable();
        let mut lost = Vec::new();
        for (number, packet) in captured(before).iter().enumerate() {
            let segment = tcp(&packet.frame);
            // The links take almost no time: a packet arrives within a microsecond.
            let soon = packet.at + Span::from_us(1);
            if passed.next_if(|next| next.at <= soon && tcp(&next.frame) == segment).is_none() {
                lost.push(number);
            }
            sent.push((packet.at, row(before == 0, &segment)));
        }
        lost
    });
    sent.sort_by_key(|&(at, (from_client, ..))| (at, !from_client));
    (sent.into_iter().map(|(_, row)| row).collect(), lost)
}

fn row(from_client: bool, segment: &Segment) -> Sent {
    (from_client, segment.flags.0, segment.len, 20 + segment.header_bytes() + segment.len)
}

/// Runs the same client against the core. Returns `None` if the core left the connection to the
/// kernel.
fn real(lost: &Lost, bytes: (u32, u32)) -> Option<Vec<Sent>> {
    let question = query(1, "www.example.com", 1, Some(1232));
    assert_eq!(question.len() as u32, bytes.0 + 2, "the query's length");
    let (sent, left) = exchanged(lost, question, bytes.1);
    left.is_none().then_some(sent)
}

/// What a client and the core send each other and, if the core left the connection to the kernel,
/// the segment that caused it.
fn exchanged(lost: &Lost, question: Vec<u8>, reply_bytes: u32) -> (Vec<Sent>, Option<Verdict>) {
    let mut world = Wire {
        core: Core::new(settings()),
        client: "198.51.100.7:40000".parse().expect("an address"),
        server: "192.0.2.53:53".parse().expect("an address"),
        endpoint: Endpoint::client(config(), Seq(7)),
        question,
        reply_bytes,
        lost: lost.clone(),
        numbers: [0, 0],
        flying: Vec::new(),
        sent: Vec::new(),
        written: false,
        closed: false,
        left: None,
    };
    world.run();
    (world.sent, world.left)
}

/// Packets in flight.
enum Flying {
    ToServer(Bytes),
    ToClient(Segment),
    /// The server's answer to this datagram is ready.
    Answer(Datagram),
}

struct Wire {
    core: Core,
    client: SocketAddr,
    server: SocketAddr,
    endpoint: Endpoint,
    question: Vec<u8>,
    reply_bytes: u32,
    lost: Lost,
    numbers: [usize; 2],
    flying: Vec<(Time, Flying)>,
    sent: Vec<Sent>,
    written: bool,
    closed: bool,
    left: Option<Verdict>,
}

impl Wire {
    fn run(&mut self) {
        let mut now = Time::ZERO;
        self.endpoint.connect(now);
        self.client_sends(now);
        // The simulator has no TIME-WAIT: when the client is done, the connection is over.
        while self.left.is_none() && !self.endpoint.is_closed() {
            let next = self.flying.iter().map(|&(at, _)| at).min();
            let Some(due) = next.into_iter().chain(self.endpoint.next_timeout()).min() else {
                return;
            };
            if due > Time::ZERO + Span::from_secs(100) {
                return;
            }
            now = due.max(now);
            if let Some(place) = self.flying.iter().position(|&(at, _)| at <= now) {
                match self.flying.remove(place).1 {
                    Flying::ToServer(segment) => self.core_takes(now, &segment.packet()),
                    Flying::ToClient(segment) => {
                        self.endpoint.handle_segment(now, &segment);
                        self.client_sends(now);
                    }
                    Flying::Answer(datagram) => self.core_answers(now, &datagram.packet()),
                }
            } else {
                self.endpoint.handle_timeout(now);
                self.client_sends(now);
            }
        }
    }

    /// What its application does now, and what its TCP sends.
    fn client_sends(&mut self, now: Time) {
        self.flush(now);
        if self.endpoint.is_established() && !self.written {
            self.written = true;
            self.endpoint.write(now, self.question.len() as u64);
            self.flush(now);
        }
        if self.endpoint.bytes_received() == u64::from(self.reply_bytes) + 2 && !self.closed {
            self.closed = true;
            self.endpoint.close();
            self.flush(now);
        }
    }

    fn flush(&mut self, now: Time) {
        while let Some(segment) = self.endpoint.poll_transmit(now) {
            self.sent.push(row(true, &segment));
            let bytes = self.bytes(&segment);
            if self.passes(0) {
                self.flying.push((now + ONE_WAY, Flying::ToServer(bytes)));
            }
        }
    }

    fn passes(&mut self, side: usize) -> bool {
        let number = self.numbers[side];
        self.numbers[side] += 1;
        !self.lost[side].contains(&number)
    }

    fn now(at: Time) -> Now {
        let since = Duration::from_nanos(at.as_ps() / 1000);
        Now {
            boot: Duration::from_secs(100) + since,
            wall: Duration::from_secs(1_700_000_000) + since,
        }
    }

    fn core_takes(&mut self, now: Time, packet: &[u8]) {
        let mut out = Vec::new();
        match self.core.on_client(Self::now(now), packet, &mut out) {
            Verdict::Transmit => self.server_sends(now, &out),
            Verdict::Query => {
                let asked = Datagram::read(&out[0]);
                let message = reply(&asked.message, self.reply_bytes as usize, 0);
                assert_eq!(message.len() as u32, self.reply_bytes);
                let answer = Datagram { from: asked.to, to: asked.from, message };
                self.flying.push((now + SERVICE, Flying::Answer(answer)));
            }
            Verdict::Drop => {}
            verdict @ (Verdict::Pass | Verdict::HandOff(_)) => self.left = Some(verdict),
        }
    }

    fn core_answers(&mut self, now: Time, datagram: &[u8]) {
        let mut out = Vec::new();
        match self.core.on_reply(Self::now(now), datagram, &mut out) {
            ReplyVerdict::Sent => self.server_sends(now, &out),
            ReplyVerdict::Drop => {}
            other => panic!("{other:?}"),
        }
    }

    fn server_sends(&mut self, now: Time, packets: &[Vec<u8>]) {
        for packet in packets {
            let bytes = Bytes::read(packet);
            let segment = Segment {
                seq: Seq(bytes.seq),
                ack: Seq(bytes.ack),
                window: bytes.window,
                len: bytes.payload.len() as u16,
                flags: Flags(bytes.flags),
                timestamps: bytes.timestamps,
                syn: bytes.mss.map(|mss| SynOptions {
                    mss,
                    window_scale: bytes.wscale,
                    sack_permitted: bytes.sack,
                    fast_open: None,
                }),
                ..Segment::default()
            };
            let row = row(false, &segment);
            assert_eq!(
                usize::from(row.3),
                packet.len(),
                "the packet is as long as the core made it"
            );
            self.sent.push(row);
            if self.passes(1) {
                self.flying.push((now + ONE_WAY, Flying::ToClient(segment)));
            }
        }
    }

    /// A segment of the client with its part of the query.
    fn bytes(&self, segment: &Segment) -> Bytes {
        let place = segment.seq.distance(Seq(8)) as usize;
        let payload = match segment.len {
            0 => Vec::new(),
            len => self.question[place..place + usize::from(len)].to_vec(),
        };
        Bytes {
            from: self.client,
            to: self.server,
            seq: segment.seq.0,
            ack: segment.ack.0,
            flags: segment.flags.0,
            window: segment.window,
            mss: segment.syn.map(|syn| syn.mss),
            wscale: segment.syn.and_then(|syn| syn.window_scale),
            sack: segment.syn.is_some_and(|syn| syn.sack_permitted),
            timestamps: segment.timestamps,
            payload,
        }
    }
}

const QUERY: u32 = 44;

#[test]
fn without_losses_a_query_takes_two_round_trips_and_a_segment_each_way() {
    let bytes = (QUERY, 100);
    let (sent, lost) = simulated(plan(1, 0.0, bytes));
    assert!(lost.iter().all(Vec::is_empty));
    assert_eq!(real(&lost, bytes).as_ref(), Some(&sent));
    let (syn, ack) = (Flags::SYN.0, Flags::ACK.0);
    let (push, fin) = (Flags::PSH.0 | ack, Flags::FIN.0 | ack);
    let expected = [
        (true, syn, 0, 60),
        (false, syn | ack, 0, 60),
        (true, ack, 0, 52),
        (true, push, 46, 98),
        (false, push, 102, 154),
        (true, ack, 0, 52),
        (true, fin, 0, 52),
        (false, fin, 0, 52),
        (true, ack, 0, 52),
    ];
    assert_eq!(sent, expected);
}

/// Random losses, with replies of one and of several segments.
#[test]
fn whatever_is_lost_the_client_mends_it_in_the_same_segments() {
    for reply in [100, 1434, 1435, 4000, 12_000] {
        let bytes = (QUERY, reply);
        let (mut compared, mut left) = (0, 0);
        // Connections with a single loss, by the lost segment: SYN, SYN-ACK, query, reply.
        let mut alone = [false; 4];
        for seed in 1..=400 {
            let (sent, lost) = simulated(plan(seed, 0.07, bytes));
            let Some(real) = real(&lost, bytes) else {
                left += 1;
                continue;
            };
            assert_eq!(sent, real, "seed {seed}, {reply} B, lost {lost:?}");
            compared += 1;
            let [of_client, of_server] = &lost;
            match (&of_client[..], &of_server[..]) {
                ([0], []) => alone[0] = true,
                ([], [0]) => alone[1] = true,
                ([2], []) => alone[2] = true,
                ([], [1]) => alone[3] = true,
                _ => {}
            }
        }
        assert_eq!(alone, [true; 4], "{reply} B");
        assert!(compared > 350, "{reply} B: {compared} compared, {left} left to the kernel");
    }
}

/// Type AXFR (RFC 5936, 2.1).
const AXFR: u16 = 252;

/// A secondary that fetches a zone of 200 kB, with losses before the routers.
fn transfer(seed: u64, loss: f64, stateless: bool) -> Plan {
    let mut plan = plan(seed, loss, (QUERY, 100));
    plan.applications[0].kind = Kind::Transfer(Transfer {
        server: 1,
        secondaries: vec![Secondary { node: 0, there: 0, back: 1 }],
        tcp: 0,
        at: vec![Time::ZERO],
        spread: Span::ZERO,
        query: axfr().len() as u32 - 2,
        zone: 200_000,
        message: 16_000,
    });
    let Kind::DnsServer(Server { tcp: Some(tcp), .. }) = &mut plan.applications[1].kind else {
        panic!("the second application is the server");
    };
    tcp.stateless = stateless;
    plan
}

fn axfr() -> Vec<u8> {
    query(1, "example.com", AXFR, None)
}

/// The core hands a connection that asks for a zone to the kernel. The simulator does so at the
/// same segment, whatever was lost before.
#[test]
fn a_transfer_is_for_ordinary_tcp_from_the_same_segment_on() {
    // The one segment that was lost before the query arrived: none, SYN, SYN-ACK, query.
    let mut alone = [false; 4];
    for seed in 0..200 {
        let (sent, lost) = simulated(transfer(seed, if seed == 0 { 0.0 } else { 0.1 }, true));
        let (before, left) = exchanged(&lost, axfr(), 0);
        assert_eq!(left, Some(Verdict::HandOff(Reason::Transfer)), "seed {seed}");
        assert_eq!(sent[..before.len()], before, "seed {seed}, lost {lost:?}");
        // The last segment that the core got is the query.
        let asked = before.iter().rfind(|(from_client, ..)| *from_client).map(|row| row.2);
        assert_eq!(asked, Some(axfr().len() as u16), "seed {seed}");
        let first = |side: usize, before: usize| lost[side].first().filter(|&&at| at < before);
        match (first(0, 3), first(1, 1)) {
            (None, None) => alone[0] = true,
            (Some(0), None) => alone[1] = true,
            (None, Some(0)) => alone[2] = true,
            (Some(2), None) => alone[3] = true,
            _ => {}
        }
    }
    assert_eq!(alone, [true; 4]);
}

/// After that it is an ordinary connection.
#[test]
fn ordinary_tcp_sends_a_zone_in_the_segments_of_a_server_with_state() {
    let (stateless, _) = simulated(transfer(1, 0.0, true));
    let (ordinary, _) = simulated(transfer(1, 0.0, false));
    assert_eq!(stateless, ordinary);
    let data: u32 = ordinary.iter().filter(|row| !row.0).map(|row| u32::from(row.2)).sum();
    // Thirteen messages with their lengths, and the question once.
    assert_eq!(data, 200_000 + 13 * 2 + axfr().len() as u32 - 2 - 12);
}
