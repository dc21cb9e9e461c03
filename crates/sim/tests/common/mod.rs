//! Plans for tests.

use narrows_qdisc::fifo::PfifoConfig;
use narrows_qdisc::red;
use narrows_sim::plan::{
    Application, Connection, Distribution, Draw, Framing, Jitter, Kind, Link, Modes, Monitor,
    Opener, Path, Plan, Queue, Ring, bulk, dns, on_off,
};
use narrows_sim::table::{Column, Table};
use narrows_sim::{Simulation, tcp, tls};
use narrows_units::{Bytes, Rate, Span, Time};

/// Ethernet on the wire, and what Linux counts in queues.
pub(crate) const ETHERNET: Framing = Framing { overhead: 38, min: 84, queue_overhead: 14 };

pub(crate) fn link(
    name: &str,
    from: usize,
    to: usize,
    mbit: u64,
    delay: Span,
    queue: Queue,
) -> Link {
    Link {
        name: name.into(),
        from,
        to,
        rate: Rate::from_bps(mbit * 1_000_000).expect("not zero"),
        delay,
        jitter: None,
        loss: 0.0.into(),
        dns_exempt: false,
        opportunities_ms: None,
        framing: ETHERNET,
        queue,
        ring: None,
        mtu: 1500,
        middlebox: None,
    }
}

pub(crate) fn pfifo(limit: u32) -> Queue {
    Queue::Pfifo(PfifoConfig { limit })
}

pub(crate) fn profile(name: &str) -> tcp::Config {
    tcp::Config::profile(name).expect("the profile exists")
}

/// `pairs` senders and receivers around a bottleneck of `mbit` from R1 to R2, each with an access
/// link of its own; node 0 is R1, node 1 is R2. Link 0 is the bottleneck, link 1 its way back.
pub(crate) fn dumbbell(pairs: usize, mbit: u64, queue: Queue) -> Plan {
    let mut plan = Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(20),
        end_when_done: false,
        event_limit: 100_000_000,
        nodes: vec!["R1".into(), "R2".into()],
        links: vec![
            link("bottleneck.forward", 0, 1, mbit, Span::from_ms(20), queue),
            link("bottleneck.backward", 1, 0, mbit, Span::from_ms(20), pfifo(10_000)),
        ],
        tcp: vec![profile("linux-6")],
        paths: Vec::new(),
        applications: Vec::new(),
        queue_monitors: vec![Monitor { link: 0, interval: Span::from_ms(100) }],
        link_monitors: vec![Monitor { link: 0, interval: Span::from_ms(500) }],
        codepoints: Vec::new(),
        delay_monitors: Vec::new(),
        goodput_interval: Some(Span::from_ms(100)),
        flow_samples: Vec::new(),
        flow_monitor: None,
        one_way_monitor: None,
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes::default(),
    };
    for pair in 0..pairs {
        let (sender, receiver) = (plan.nodes.len(), plan.nodes.len() + 1);
        plan.nodes.extend([format!("s{pair}"), format!("d{pair}")]);
        let first = plan.links.len();
        let access = |name: &str, from, to| {
            link(&format!("{name}{pair}"), from, to, 100, Span::from_ms(5), pfifo(10_000))
        };
        let links = [
            access("in.forward", sender, 0),
            access("in.backward", 0, sender),
            access("out.forward", 1, receiver),
            access("out.backward", receiver, 1),
        ];
        plan.links.extend(links);
        let there = plan.paths.len();
        plan.paths.extend([
            Path { from: sender, to: receiver, links: vec![first, 0, first + 2] },
            Path { from: receiver, to: sender, links: vec![first + 3, 1, first + 1] },
        ]);
        let connection = Connection {
            name: format!("flow {pair}"),
            there,
            back: there + 1,
            tcp: 0,
            opener: Opener::Sender,
            start: Time::ZERO,
            stop: None,
        };
        let kind = Kind::Bulk(bulk::Bulk { connections: vec![connection] });
        plan.applications.push(Application { name: "flows".into(), kind });
    }
    plan
}

/// The connections of all applications, in order.
pub(crate) fn connections(plan: &mut Plan) -> Vec<&mut Connection> {
    plan.applications.iter_mut().flat_map(|application| of(&mut application.kind)).collect()
}

fn of(kind: &mut Kind) -> &mut [Connection] {
    match kind {
        Kind::Bulk(bulk) => &mut bulk.connections,
        Kind::OnOff(on_off) => &mut on_off.connections,
        _ => &mut [],
    }
}

/// The settings of the group that [`add_resolvers`] adds.
pub(crate) fn resolvers(plan: &mut Plan) -> &mut dns::client::Client {
    let client = plan.applications.iter_mut().find_map(|application| match &mut application.kind {
        Kind::DnsClient(client) => Some(client),
        _ => None,
    });
    client.expect("the plan has resolvers")
}

/// Adds resolver workers at pair 0's receiver, and the server at its sender: replies share the
/// bottleneck with the data.
pub(crate) fn add_resolvers(plan: &mut Plan, workers: u32, queries: u32) {
    let Connection { there, back, .. } = connections(plan)[0].clone();
    let client = dns::client::Client {
        server: plan.applications.len() + 1,
        there: back,
        back: there,
        workers,
        start: Time::ZERO + Span::from_secs(1),
        spread: Span::from_ms(500),
        warm_up: 2,
        queries: Some(queries),
        arrivals: None,
        think_mean: Span::ZERO,
        // IP packets of 70 and 100 bytes.
        sizes: dns::exchange::Sizes::fixed(42, 72),
        gives_up: None,
        udp: Some(udp()),
        tcp: None,
    };
    let server = dns::server::Server {
        service: Span::from_us(200),
        service_jitter_mean: Span::ZERO,
        udp_payload: 1232,
        tcp: None,
    };
    for kind in [Kind::DnsClient(client), Kind::DnsServer(server)] {
        plan.applications.push(Application { name: "dns".into(), kind });
    }
}

/// Returns how the first paper's resolvers ask.
pub(crate) fn udp() -> dns::client::Udp {
    dns::client::Udp {
        timeouts: [1, 2, 2, 4, 8].map(Span::from_secs).to_vec(),
        payload: 1232,
        tcp_if_truncated: false,
        tcp_if_silent: false,
        new_port: false,
    }
}

/// RED with ECN for 10 Mbit/s.
pub(crate) fn red_ecn() -> Queue {
    Queue::Red(red::linux::Config {
        limit: Bytes::new(375_000),
        min: Some(Bytes::new(30_000)),
        max: Some(Bytes::new(120_000)),
        avpkt: Bytes::new(1_400),
        burst: Some(43),
        probability: 0.1,
        bandwidth: Rate::from_bps(10_000_000),
        ecn: true,
        harddrop: false,
        nodrop: false,
        adaptive: false,
        idles: true,
    })
}

/// Makes every connection send bursts of `packets` full segments.
pub(crate) fn on_off(plan: &mut Plan, packets: u64) {
    let burst = Draw::Constant(Bytes::new(packets * 1460));
    send(plan, &burst, &Draw::Exponential { mean: Span::from_ms(500) }, None);
}

/// Makes every connection send bursts.
pub(crate) fn send(plan: &mut Plan, burst: &Draw<Bytes>, idle: &Draw<Span>, bursts: Option<u32>) {
    for application in &mut plan.applications {
        let connections = of(&mut application.kind).to_vec();
        if !connections.is_empty() {
            let (burst, idle) = (burst.clone(), idle.clone());
            application.kind = Kind::OnOff(on_off::OnOff { connections, burst, idle, bursts });
        }
    }
}

/// Makes connections send without end.
pub(crate) fn send_forever(application: &mut Application) {
    let connections = of(&mut application.kind).to_vec();
    application.kind = Kind::Bulk(bulk::Bulk { connections });
}

/// Everything at once: RED with ECN, a ring, DNS, jitter with reordering, loss, bursts.
pub(crate) fn busy_plan() -> Plan {
    let mut plan = dumbbell(12, 10, red_ecn());
    plan.links[0].ring = Some(Ring::bytes(20_000));
    for link in &mut plan.links[2..10] {
        link.jitter = Some(Jitter {
            deviation: Span::from_ms(4),
            correlation: 0.25,
            distribution: Distribution::Uniform,
            reorder: true,
        });
        link.dns_exempt = true;
    }
    plan.links[14].loss = 0.02.into();
    let mut with_ecn = plan.tcp[0].clone();
    with_ecn.ecn = true;
    plan.tcp.push(with_ecn);
    on_off(&mut plan, 40);
    for (index, connection) in connections(&mut plan).into_iter().enumerate() {
        connection.tcp = index % 2;
    }
    for application in plan.applications.iter_mut().step_by(3) {
        send_forever(application);
    }
    add_resolvers(&mut plan, 20, 20);
    plan
}

/// Runs a plan to its end.
pub(crate) fn run(plan: Plan) -> Simulation {
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    while !simulation.advance(1_000_000) {}
    simulation
}

/// Runs a plan to its end, reading ahead of time what events need.
pub(crate) fn run_foreseeing(plan: Plan) -> Simulation {
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    simulation.set_prefetching(true);
    while !simulation.advance(1_000_000) {}
    simulation
}

/// All tables as text, for comparing runs to the bit.
pub(crate) fn fingerprint(simulation: &Simulation) -> String {
    format!("{:#?}", simulation.tables())
}

pub(crate) fn table(simulation: &Simulation, name: &str) -> Table {
    simulation.tables().into_iter().find(|table| table.name == name).expect("the table exists")
}

/// A column of numbers.
pub(crate) fn numbers(table: &Table, name: &str) -> Vec<f64> {
    let (_, column) =
        table.columns.iter().find(|(column, _)| *column == name).expect("the column exists");
    match column {
        Column::F64(values) => values.clone(),
        Column::U64(values) => values.iter().map(|&v| v as f64).collect(),
        Column::U32(values) => values.iter().map(|&v| f64::from(v)).collect(),
        Column::U8(values) => values.iter().map(|&v| f64::from(v)).collect(),
        Column::Bool(values) => values.iter().map(|&v| f64::from(u8::from(v))).collect(),
        Column::Text(_) => panic!("{name} holds names"),
    }
}

/// A column of names.
pub(crate) fn texts<'a>(table: &'a Table, name: &str) -> Vec<&'a str> {
    match table.columns.iter().find(|(column, _)| *column == name) {
        Some((_, Column::Text(values))) => values.iter().collect(),
        found => panic!("{name} should hold names: {found:?}"),
    }
}

/// A server of TLS with two certificates, of 1010 and 1271 bytes.
pub(crate) const SERVER: tls::Server = tls::Server {
    certificate: 2299,
    signature: 256,
    hash: 48,
    groups: 26,
    alpn: true,
    ticket: 255,
    tickets: 2,
    tickets_resumed: 1,
    tickets_apart: true,
    early_data: true,
    write: None,
    close_notify: false,
    service: Span::ZERO,
};

/// A DNS client and a server, 20 ms apart on a fast link, over TCP.
#[derive(Clone)]
pub(crate) struct Dialogue {
    pub(crate) client: dns::client::Client,
    pub(crate) server: dns::server::Server,
}

/// The round trip of a [`Dialogue`]'s line.
pub(crate) const ROUND_TRIP_MS: f64 = 40.0;

/// A column of the table `attempts`.
pub(crate) fn attempts(simulation: &Simulation, column: &str) -> Vec<f64> {
    numbers(&table(simulation, "attempts"), column)
}

/// Response times as multiples of the round trip.
pub(crate) fn trips(simulation: &Simulation) -> Vec<f64> {
    let responses = numbers(&table(simulation, "queries"), "response_ms");
    responses.iter().map(|ms| ms / ROUND_TRIP_MS).collect()
}

#[track_caller]
pub(crate) fn assert_trips(simulation: &Simulation, expected: &[f64]) {
    let found = trips(simulation);
    assert_eq!(found.len(), expected.len());
    for (one, other) in found.iter().zip(expected) {
        assert!((one - other).abs() < 0.06, "{found:?}, not {expected:?}");
    }
}

/// A connection that the client never closes, with one query at a time.
pub(crate) fn kept() -> dns::client::Reuse {
    dns::client::Reuse::Persistent(dns::client::Persistent {
        idle_timeout: None,
        queries: None,
        pipelined: false,
        shared: false,
        after_silence: false,
    })
}

/// A client that opens a connection for each query, and waits forever.
pub(crate) fn asking() -> dns::client::Tcp {
    dns::client::Tcp {
        tcp: 0,
        reuse: dns::client::Reuse::Never,
        connect_timeout: None,
        answer_timeout: None,
        attempts: dns::client::Attempts::of(1),
        udp_between: false,
        refused_together: 1,
        length_apart: false,
        tls: None,
    }
}

/// A server that takes any number of connections over TCP.
pub(crate) fn listening() -> dns::server::Tcp {
    dns::server::Tcp {
        tcp: 1,
        backlog: 256,
        connections: None,
        connections_per_client: None,
        when_full: dns::server::WhenFull::Wait,
        idle_timeout: Span::from_secs(10),
        first_query_timeout: Span::from_secs(10),
        half_query_timeout: None,
        on_query: dns::server::OnQuery::Answer,
        busy_levels: Vec::new(),
        busy_counts_new: false,
        busy_stays: false,
        queries_per_connection: None,
        in_order: false,
        length_apart: false,
        extra_service: Span::ZERO,
        half_open: dns::server::HalfOpenLimits::LINUX,
        stateless: false,
        tls: None,
    }
}

impl Dialogue {
    /// A connection for each of three queries.
    pub(crate) fn new() -> Self {
        let client = dns::client::Client {
            server: 1,
            there: 0,
            back: 1,
            workers: 1,
            start: Time::ZERO,
            spread: Span::ZERO,
            warm_up: 0,
            queries: Some(3),
            arrivals: None,
            think_mean: Span::from_ms(200),
            sizes: dns::exchange::Sizes::fixed(40, 745),
            gives_up: None,
            udp: None,
            tcp: Some(asking()),
        };
        let server = dns::server::Server {
            service: Span::from_us(100),
            service_jitter_mean: Span::ZERO,
            udp_payload: 1232,
            tcp: Some(listening()),
        };
        Self { client, server }
    }

    /// Returns the client's TCP settings.
    pub(crate) fn asking(&mut self) -> &mut dns::client::Tcp {
        self.client.tcp.as_mut().expect("it asks over TCP")
    }

    /// Returns the server's TCP settings.
    pub(crate) fn serving(&mut self) -> &mut dns::server::Tcp {
        self.server.tcp.as_mut().expect("it serves TCP")
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut of_server = profile("linux-6");
        of_server.nagle = false;
        let (one_way, end) = (Span::from_ms(20), Span::from_secs(400));
        Plan {
            end_when_done: false,
            tcp: vec![profile("linux-6"), of_server],
            ..client_and_server(self.client.clone(), self.server.clone(), one_way, end)
        }
    }
}

/// A DNS client and its server, behind a link of 1 Gbit/s with this delay.
pub(crate) fn client_and_server(
    client: dns::client::Client,
    server: dns::server::Server,
    one_way: Span,
    end: Span,
) -> Plan {
    let link = |name: &str, from, to| link(name, from, to, 1000, one_way, pfifo(1000));
    Plan {
        seed: 1,
        end: Time::ZERO + end,
        end_when_done: true,
        event_limit: 10_000_000,
        nodes: ["client", "server"].map(str::to_owned).to_vec(),
        links: vec![link("wan.forward", 0, 1), link("wan.backward", 1, 0)],
        tcp: Vec::new(),
        paths: vec![
            Path { from: 0, to: 1, links: vec![0] },
            Path { from: 1, to: 0, links: vec![1] },
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
        captures: Vec::new(),
        changes: Vec::new(),
        neighbours: Vec::new(),
        modes: Modes::default(),
    }
}
