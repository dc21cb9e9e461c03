//! A small network, and the packets that passed its bottleneck.

use narrows_capture::message::Messages;
use narrows_qdisc::Ecn;
use narrows_qdisc::fifo::PfifoConfig;
use narrows_sim::captured::{Captured, Content, Frame};
use narrows_sim::plan::{Application, Capture, Framing, Kind, Link, Modes, Path, Plan, Queue, dns};
use narrows_sim::ports;
use narrows_sim::tcp::{Flags, SackBlocks, Segment, Seq, SynOptions};
use narrows_units::{Rate, Span, Time};

/// The link from the router to the client, which the tests capture.
pub(crate) const DOWN: usize = 1;
/// The link from the client to the router.
pub(crate) const UP: usize = 2;

/// The nodes at the ends.
const SERVER: u32 = 0;
const CLIENT: u32 = 2;

/// server -> router -> client, and back, with two groups of resolvers at the client: three workers,
/// then two with other lengths of messages.
// Long: a list of values.
pub(crate) fn plan() -> Plan {
    let link = |name: &str, from, to| Link {
        name: name.to_owned(),
        from,
        to,
        rate: Rate::from_bps(10_000_000).expect("not zero"),
        delay: Span::from_ms(1),
        jitter: None,
        loss: 0.0.into(),
        dns_exempt: false,
        opportunities_ms: None,
        framing: Framing { overhead: 38, min: 84, queue_overhead: 14 },
        queue: Queue::Pfifo(PfifoConfig { limit: 100 }),
        ring: None,
        mtu: 1500,
        middlebox: None,
    };
    let resolvers = |name: &str, workers, query_bytes: u32, reply_bytes: u32| Application {
        name: name.to_owned(),
        kind: Kind::DnsClient(dns::client::Client {
            server: 2,
            there: 1,
            back: 0,
            workers,
            start: Time::ZERO,
            spread: Span::ZERO,
            warm_up: 10,
            queries: Some(100),
            arrivals: None,
            think_mean: Span::ZERO,
            sizes: dns::exchange::Sizes::fixed(query_bytes - 28, reply_bytes - 28),
            gives_up: None,
            udp: Some(dns::client::Udp {
                timeouts: vec![Span::from_secs(1); 3],
                payload: 1232,
                tcp_if_truncated: false,
                tcp_if_silent: false,
                new_port: false,
            }),
            tcp: None,
        }),
    };
    let server = dns::server::Server {
        service: Span::ZERO,
        service_jitter_mean: Span::ZERO,
        udp_payload: 1232,
        tcp: None,
    };
    Plan {
        seed: 1,
        end: Time::ZERO,
        end_when_done: false,
        event_limit: 0,
        nodes: ["server", "router", "client"].map(str::to_owned).to_vec(),
        links: vec![
            link("access.forward", 0, 1),
            link("bottleneck.forward", 1, 2),
            link("bottleneck.backward", 2, 1),
            link("access.backward", 1, 0),
        ],
        tcp: Vec::new(),
        paths: vec![
            Path { from: 0, to: 2, links: vec![0, DOWN] },
            Path { from: 2, to: 0, links: vec![UP, 3] },
        ],
        applications: vec![
            resolvers("plain", 3, 70, 100),
            resolvers("padded", 2, 128, 468),
            Application { name: "server".to_owned(), kind: Kind::DnsServer(server) },
        ],
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: None,
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: vec![Capture::of(DOWN, "down"), Capture::of(UP, "up")],
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes { collapse: false, ..Modes::default() },
    }
}

/// Both directions of a connection from SYN to the last ACK, with a loss, a mark and its echo, and
/// DNS beside it. In order of time, a millisecond and a bit apart.
// Long: a script of segments, in their order.
pub(crate) fn exchange() -> Vec<Captured> {
    const START: u32 = u32::MAX - 2_000;
    let syn = |flags: Flags, ecr| Segment {
        flags,
        window: 64_240,
        timestamps: Some((1_000, ecr)),
        syn: Some(SynOptions {
            mss: 1460,
            window_scale: Some(7),
            sack_permitted: true,
            ..SynOptions::default()
        }),
        ..Segment::default()
    };
    let data = |n: u32, ecn| Segment {
        seq: Seq(START) + (1 + 1448 * n),
        ack: Seq(1),
        window: 502,
        len: 1448,
        flags: Flags::ACK,
        ecn,
        timestamps: Some((1_010 + n, 1_001)),
        ..Segment::default()
    };
    let ack = |n: u32, flags: Flags, sack: &[u32]| {
        let mut blocks = SackBlocks::default();
        for &n in sack {
            assert!(blocks.push(Seq(START) + (1 + 1448 * n), Seq(START) + (1 + 1448 * (n + 1))));
        }
        Segment {
            seq: Seq(1),
            ack: Seq(START) + (1 + 1448 * n),
            window: 2_000,
            flags: Flags::ACK.with(flags),
            timestamps: Some((1_020, 1_010)),
            sack: blocks,
            ..Segment::default()
        }
    };
    let fin = |mut segment: Segment| {
        segment.flags = segment.flags.with(Flags::FIN);
        segment.len = 0;
        segment.ecn = Ecn::NotEct;
        segment
    };
    let ecn_setup = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    let segments = [
        (false, Segment { ..syn(ecn_setup, 0) }),
        (
            true,
            Segment {
                seq: Seq(START),
                ack: Seq(1),
                ..syn(Flags::SYN.with(Flags::ACK).with(Flags::ECE), 1_000)
            },
        ),
        (false, ack(0, Flags::default(), &[])),
        (true, data(0, Ecn::Ect0)),
        (true, data(1, Ecn::Ce)),
        (false, ack(2, Flags::ECE, &[])),
        (true, Segment { flags: Flags::ACK.with(Flags::CWR), ..data(2, Ecn::Ect0) }),
        // Numbers 3, 5 and 7 are lost before the link.
        (true, data(4, Ecn::Ect0)),
        (true, data(6, Ecn::Ect0)),
        (true, data(8, Ecn::Ect0)),
        (false, ack(3, Flags::default(), &[8, 6, 4])),
        (true, data(3, Ecn::NotEct)),
        (true, data(5, Ecn::NotEct)),
        (true, data(7, Ecn::NotEct)),
        (false, ack(9, Flags::default(), &[])),
        (true, fin(data(9, Ecn::NotEct))),
        (false, Segment { ack: Seq(START) + (2 + 1448 * 9), ..fin(ack(9, Flags::default(), &[])) }),
        (
            true,
            Segment {
                ack: Seq(2),
                seq: Seq(START) + (2 + 1448 * 9),
                ..ack(0, Flags::default(), &[])
            },
        ),
    ];
    let tcp = segments.map(|(from_sender, segment)| (!from_sender, (0, Frame::Tcp(segment))));
    // Sockets 0 to 2 are those of the first group.
    let dns = |socket: u32, query, attempt, reply, ce| {
        let (query_bytes, reply_bytes) = if socket < 3 { (70, 100) } else { (128, 468) };
        let ip_bytes = if reply { reply_bytes } else { query_bytes };
        let content = Some(Content { query, attempt, reply, truncated: false, query_bytes });
        (
            !reply,
            (socket, Frame::Udp { ip_bytes, ecn: if ce { 3 } else { 0 }, content, part: None }),
        )
    };
    let dns = [
        dns(0, 0, 1, false, false),
        dns(2, 1, 1, false, false),
        dns(0, 0, 1, true, false),
        dns(4, 249, 1, false, false),
        dns(4, 249, 2, false, false),
        dns(4, 249, 2, true, true),
        dns(2, 1, 1, true, false),
    ];
    let frames = tcp.into_iter().chain(dns).enumerate();
    frames
        .map(|(n, (up, (number, frame)))| {
            let at = Time::from_ps(1_000_000_123_999 + 1_000_000_001 * n as u64);
            captured(at, up, number, frame)
        })
        .collect()
}

/// A packet from the client (`up`) or to it, of a connection or of one of the client's sockets.
pub(crate) fn captured(at: Time, up: bool, number: u32, frame: Frame) -> Captured {
    let (server_port, client_port) = match frame {
        Frame::Tcp(_) => ports::tcp(number),
        Frame::Udp { .. } | Frame::TooBig { .. } | Frame::Arp { .. } => (53, ports::socket(number)),
    };
    let (link, from, to, ports) = if up {
        (UP, CLIENT, SERVER, (client_port, server_port))
    } else {
        (DOWN, SERVER, CLIENT, (server_port, client_port))
    };
    // One router lies before the link on the way down, none on the way up.
    let routers = u8::from(!up);
    Captured {
        at,
        inbound: false,
        link: link as u32,
        from,
        to,
        ports,
        dscp: 0,
        routers,
        frame,
        said: Vec::new(),
    }
}

/// The messages of the plan's queries.
pub(crate) fn messages() -> Messages {
    Messages::for_queries(plan().queries())
}
