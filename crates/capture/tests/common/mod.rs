//! A small network, and what passed its bottleneck.

use narrows_qdisc::Ecn;
use narrows_qdisc::fifo::PfifoConfig;
use narrows_sim::captured::{Captured, Frame};
use narrows_sim::plan::{Connection, Framing, Link, Plan, Queue, Resolvers, Source};
use narrows_sim::tcp::{Flags, SackBlocks, Segment, Seq, SynOptions};
use narrows_units::{Rate, Span, Time};

/// The link from the router to the client, which the tests capture.
pub(crate) const DOWN: usize = 1;
/// The link from the client to the router.
pub(crate) const UP: usize = 2;

/// server -> router -> client, and back, with `connections` from server to client and two groups of
/// resolvers at the client: three workers, then two with other lengths of messages.
pub(crate) fn plan(connections: u32) -> Plan {
    let link = |name: &str, from, to| Link {
        name: name.to_owned(),
        from,
        to,
        rate: Rate::from_bps(10_000_000).expect("not zero"),
        delay: Span::from_ms(1),
        jitter: None,
        loss: 0.0,
        dns_exempt: false,
        framing: Framing { overhead: 38, min: 84, queue_overhead: 14 },
        queue: Queue::Pfifo(PfifoConfig { limit: 100 }),
        scheduled: false,
        ring: None,
    };
    let connection = |n| Connection {
        name: format!("bulk.{n}"),
        group: "bulk".to_owned(),
        sender: 0,
        receiver: 2,
        forward: vec![0, DOWN],
        backward: vec![UP, 3],
        opener: narrows_sim::plan::Opener::Sender,
        tcp: 0,
        start: Time::ZERO,
        stop: None,
        source: 0,
    };
    let resolvers = |name: &str, workers, query_bytes, reply_bytes| Resolvers {
        name: name.to_owned(),
        client: 2,
        server: 0,
        forward: vec![UP, 3],
        backward: vec![0, DOWN],
        workers,
        start: Time::ZERO,
        spread: Span::ZERO,
        warm_up: 10,
        queries: 100,
        think_mean: Span::ZERO,
        timeouts: vec![Span::from_secs(1); 3],
        service: Span::ZERO,
        service_jitter_mean: Span::ZERO,
        query_bytes,
        reply_bytes,
    };
    Plan {
        seed: 1,
        end: Time::ZERO,
        end_with_dns: false,
        event_limit: 0,
        nodes: ["server", "router", "client"].map(str::to_owned).to_vec(),
        links: vec![
            link("access.forward", 0, 1),
            link("bottleneck.forward", 1, 2),
            link("bottleneck.backward", 2, 1),
            link("access.backward", 1, 0),
        ],
        tcp: Vec::new(),
        sources: vec![Source::Bulk],
        connections: (0..connections).map(connection).collect(),
        resolvers: vec![resolvers("plain", 3, 70, 100), resolvers("padded", 2, 128, 468)],
        queue_monitors: Vec::new(),
        link_monitors: Vec::new(),
        captures: vec![DOWN, UP],
        changes: Vec::new(),
        collapse: false,
    }
}

/// Both ways of a connection from SYN to the last ACK, with a loss, a mark and its echo, and DNS
/// beside it: in the order of time, a millisecond and a bit apart.
pub(crate) fn exchange() -> Vec<Captured> {
    const START: u32 = u32::MAX - 2_000;
    let syn = |flags: Flags, ecr| Segment {
        flags,
        window: 64_240,
        timestamps: Some((1_000, ecr)),
        syn: Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true }),
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
        // Number 3 is lost before the link; numbers 5 and 7 too.
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
    let tcp = segments.map(|(from_sender, segment)| {
        (!from_sender, Frame::Tcp { connection: 0, from_sender, segment })
    });
    let dns = |resolvers, worker, query, attempt, reply, ce| {
        let ip_bytes = match (resolvers, reply) {
            (0, false) => 70,
            (0, true) => 100,
            (_, false) => 128,
            (_, true) => 468,
        };
        let frame = Frame::Dns { resolvers, worker, query, attempt, reply, ip_bytes, ce };
        (!reply, frame)
    };
    let dns = [
        dns(0, 0, 0, 1, false, false),
        dns(0, 2, 1, 1, false, false),
        dns(0, 0, 0, 1, true, false),
        dns(1, 1, 249, 1, false, false),
        dns(1, 1, 249, 2, false, false),
        dns(1, 1, 249, 2, true, true),
        dns(0, 2, 1, 1, true, false),
    ];
    let frames = tcp.into_iter().chain(dns).enumerate();
    frames
        .map(|(n, (up, frame))| Captured {
            at: Time::from_ps(1_000_000_123_999 + 1_000_000_001 * n as u64),
            link: if up { UP } else { DOWN } as u32,
            frame,
        })
        .collect()
}
