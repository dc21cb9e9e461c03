//! Floods of SYNs and of queries: closed forms of what the server holds, and what clients see.

use crate::common::{asking, fingerprint, link, listening, numbers, pfifo, profile, run, table};
use narrows_sim::plan::dns::client::{Client, Tcp};
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::dns::server::{self, Cookies, HalfOpenLimits, Server};
use narrows_sim::plan::flood::{Flood, Of, Queries};
use narrows_sim::plan::{Application, Kind, Modes, Path, Plan, udp::Spacing};
use narrows_sim::{Simulation, tcp};
use narrows_units::{Span, Time};

const QUERY: u16 = 40;

fn syns(per_second: u64) -> Flood {
    Flood {
        server: 1,
        there: 2,
        back: 3,
        of: Of::Syns,
        interval: Span::from_us(1_000_000 / per_second),
        spacing: Spacing::Even,
        addresses: 100,
        start: Time::ZERO,
        stop: None,
        period: Span::from_secs(1),
    }
}

/// A client 20 ms from a server with a queue of `backlog`, and a flood beside it.
fn plan(flood: Flood, backlog: u32, limits: HalfOpenLimits, seconds: u64) -> Plan {
    let near = Span::from_ms(20);
    let two_way = |name: &str, from, to| {
        [(from, to, "forward"), (to, from, "backward")].map(|(from, to, direction)| {
            link(&format!("{name}.{direction}"), from, to, 10_000, near, pfifo(100_000))
        })
    };
    let client = Client {
        server: 1,
        there: 0,
        back: 1,
        workers: 10,
        start: Time::ZERO + Span::from_secs(2),
        spread: Span::from_ms(100),
        warm_up: 0,
        queries: Some(20),
        arrivals: None,
        think_mean: Span::from_ms(100),
        sizes: Sizes::fixed(u32::from(QUERY), 300),
        gives_up: None,
        udp: None,
        tcp: Some(Tcp { answer_timeout: Some(Span::from_secs(30)), ..asking() }),
    };
    let server = Server {
        service: Span::ZERO,
        service_jitter_mean: Span::ZERO,
        udp_payload: 4096,
        tcp: Some(server::Tcp { tcp: 0, backlog, half_open: limits, ..listening() }),
    };
    let kinds = [
        ("dns", Kind::DnsClient(client)),
        ("dns", Kind::DnsServer(server)),
        ("flood", Kind::Flood(flood)),
    ];
    Plan {
        seed: 1,
        end: Time::ZERO + Span::from_secs(seconds),
        end_when_done: false,
        event_limit: 100_000_000,
        nodes: ["client", "server", "attacker"].map(str::to_owned).to_vec(),
        links: [two_way("client", 0, 1), two_way("attacker", 2, 1)].concat(),
        tcp: vec![tcp::Config { nagle: false, ..profile("linux-6") }],
        paths: vec![
            Path { from: 0, to: 1, links: vec![0] },
            Path { from: 1, to: 0, links: vec![1] },
            Path { from: 2, to: 1, links: vec![2] },
            Path { from: 1, to: 2, links: vec![3] },
        ],
        applications: kinds
            .map(|(name, kind)| Application { name: name.into(), kind })
            .into_iter()
            .collect(),
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

fn limits(cookies: Cookies) -> HalfOpenLimits {
    HalfOpenLimits { cookies, ..HalfOpenLimits::LINUX }
}

fn column(simulation: &Simulation, name: &str) -> Vec<f64> {
    numbers(&table(simulation, "floods"), name)
}

fn responses(simulation: &Simulation) -> Vec<f64> {
    numbers(&table(simulation, "queries"), "response_ms")
}

/// Little's law: an entry lives for 63 s (1 + 2 + 4 + 8 + 16 + 32), and 20 come a second. Each is
/// repeated five times.
#[test]
fn entries_are_as_many_as_come_in_their_lifetime() {
    let simulation = run(plan(syns(20), 4096, HalfOpenLimits::LINUX, 100));
    let entries = column(&simulation, "half_open");
    for held in &entries[70..] {
        assert!((held - 20.0 * 63.0).abs() <= 2.0, "{held}");
    }
    // Until the first ones are given up, all that came are there.
    assert!((entries[29] - 20.0 * 30.0).abs() <= 2.0, "{}", entries[29]);
    assert!((column(&simulation, "repeated")[90] - 5.0 * 20.0).abs() <= 5.0);
    assert_eq!(column(&simulation, "dropped").iter().sum::<f64>(), 0.0);
    assert_eq!(column(&simulation, "sent")[10], 20.0);
}

/// Without cookies, a full queue drops ordinary SYNs too, which are repeated after a second at the
/// earliest; with cookies, every query takes its two round trips.
#[test]
fn clients_wait_for_seconds_where_there_are_no_cookies() {
    let none = run(plan(syns(2000), 128, limits(Cookies::Never), 60));
    let some = run(plan(syns(2000), 128, limits(Cookies::WhenFull), 60));
    let all = run(plan(syns(2000), 128, limits(Cookies::Always), 60));
    for simulation in [&some, &all] {
        let responses = responses(simulation);
        assert_eq!(responses.len(), 200);
        assert!(responses.iter().all(|ms| (ms - 80.0).abs() < 1.0));
        assert!(column(simulation, "cookies")[30] > 1900.0);
        assert_eq!(column(simulation, "dropped").iter().sum::<f64>(), 0.0);
    }
    assert_eq!(column(&all, "half_open")[30], 0.0);
    let slow = responses(&none).into_iter().filter(|ms| ms.is_nan() || *ms > 1000.0).count();
    assert!(slow * 2 > responses(&none).len(), "{slow} of {}", responses(&none).len());
    for simulation in [&none, &some] {
        let most = column(simulation, "half_open").into_iter().fold(0.0, f64::max);
        // One more than the backlog.
        assert_eq!(most, 129.0);
    }
}

/// Each SYN is dropped, or gets a cookie or an entry; each entry is still there or was given up.
#[test]
fn every_syn_is_accounted_for() {
    for cookies in [Cookies::Never, Cookies::WhenFull] {
        let mut flood = syns(500);
        flood.spacing = Spacing::Poisson;
        flood.stop = Some(Time::ZERO + Span::from_secs(40));
        let mut plan = plan(flood, 300, limits(cookies), 200);
        // Only the flood sends SYNs.
        if let Kind::DnsClient(client) = &mut plan.applications[0].kind {
            client.start = Time::ZERO + Span::from_secs(1000);
        }
        let simulation = run(plan);
        let sum = |name: &str| column(&simulation, name).iter().sum::<f64>();
        assert_eq!(sum("sent"), sum("syns"));
        assert!((sum("sent") / (500.0 * 40.0) - 1.0).abs() < 0.04);
        assert_eq!(sum("syns"), sum("dropped") + sum("cookies") + sum("expired"));
        assert_eq!(column(&simulation, "half_open").last(), Some(&0.0));
    }
}

#[test]
fn a_million_syns_take_no_more_than_the_queue() {
    let mut flood = syns(100_000);
    flood.stop = Some(Time::ZERO + Span::from_secs(10));
    let simulation = run(plan(flood, 128, limits(Cookies::Never), 12));
    assert_eq!(column(&simulation, "sent").iter().sum::<f64>(), 1e6);
    assert!(column(&simulation, "half_open").iter().all(|&held| held <= 129.0));
    assert!(simulation.most_flows() < 200 + 100);
}

/// Each query of 68 bytes brings a reply of 1028; one of 2000 bytes does not fit, and comes
/// truncated, as long as its query.
#[test]
fn queries_bring_replies_to_others() {
    for (reply, expected) in [(1000, 1028.0), (2000, 68.0)] {
        let of = Of::Queries(Queries { query: QUERY, reply, payload: 1232 });
        let mut flood = Flood { of, ..syns(1000) };
        flood.stop = Some(Time::ZERO + Span::from_secs(5));
        let simulation = run(plan(flood, 128, HalfOpenLimits::LINUX, 10));
        let sum = |name: &str| column(&simulation, name).iter().sum::<f64>();
        assert_eq!((sum("sent"), sum("replies"), sum("lost")), (5000.0, 5000.0, 0.0));
        assert_eq!(sum("reply_bytes"), 5000.0 * expected);
        // These are the client's own SYNs, one for each query.
        assert_eq!(sum("syns"), 200.0);
    }
}

/// A flood above the rate of the server's link: what fits is answered, and the rest is lost there.
#[test]
fn a_link_that_is_flooded_loses_the_rest() {
    let of = Of::Queries(Queries { query: 32, reply: 32, payload: 1232 });
    let mut flood = Flood { of, ..syns(20_000) };
    flood.stop = Some(Time::ZERO + Span::from_secs(5));
    let mut plan = plan(flood, 128, HalfOpenLimits::LINUX, 10);
    plan.links[2] = link("attacker.forward", 2, 1, 1, Span::from_ms(20), pfifo(50));
    let simulation = run(plan);
    let sum = |name: &str| column(&simulation, name).iter().sum::<f64>();
    assert_eq!(sum("sent"), 100_000.0);
    assert_eq!(sum("replies") + sum("lost"), 100_000.0);
    // 1 Mbit/s in frames of 98 bytes: 60 of IP and 38 of framing.
    let fits = 1e6 / (8.0 * 98.0) * 5.0;
    assert!((sum("replies") / fits - 1.0).abs() < 0.02, "{} {fits}", sum("replies"));
}

#[test]
fn a_server_without_tcp_refuses_and_keeps_nothing() {
    let mut plan = plan(syns(100), 128, HalfOpenLimits::LINUX, 5);
    if let Kind::DnsServer(server) = &mut plan.applications[1].kind {
        server.tcp = None;
    }
    let simulation = run(plan);
    assert_eq!(column(&simulation, "half_open"), [0.0; 5]);
    assert_eq!(column(&simulation, "syns"), [0.0; 5]);
}

#[test]
fn results_do_not_depend_on_shortcuts() {
    let mut plan = plan(syns(500), 64, limits(Cookies::Never), 20);
    let with = fingerprint(&run(plan.clone()));
    plan.modes.collapse = false;
    assert_eq!(with, fingerprint(&run(plan)));
}

#[test]
fn floods_that_contradict_themselves_are_refused() {
    let refusal = |change: fn(&mut Flood)| {
        let mut flood = syns(100);
        change(&mut flood);
        let plan = plan(flood, 128, HalfOpenLimits::LINUX, 5);
        Simulation::new(plan).expect_err("the plan is not sound").to_string()
    };
    assert_eq!(refusal(|f| f.addresses = 0), "flood: addresses: must be above zero");
    assert_eq!(refusal(|f| f.interval = Span::ZERO), "flood: interval: must be above zero");
    assert_eq!(refusal(|f| f.stop = Some(Time::ZERO)), "flood: stop: must be after start");
    assert_eq!(
        refusal(|f| f.of = Of::Queries(Queries { query: 4, reply: 100, payload: 512 })),
        "flood: of.query: must be at least 12"
    );
}
