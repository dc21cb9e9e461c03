//! What needs network namespaces: a path that loses packets, TCP Fast Open, and floods.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use narrows_client::path::{Path, Rule};
use narrows_live::{Part, Place};
use narrows_sim::plan::flood::{Flood, Of, Queries};
use narrows_sim::plan::udp::Spacing;
use narrows_sim::plan::{Application, Kind, Plan};
use narrows_sim::table::{Column, Table};
use narrows_units::{Span, Time};

use crate::common::Dialogue;
use crate::encrypted::{
    encrypted, on_one_connection, over_https, over_quic, tls_client, tls_server,
};
use crate::{PACKETS, compare_tables, dialogue, plan_of, play_at, play_part, simulate};

/// A namespace that is removed in the end.
struct Namespace(String);

impl Namespace {
    /// Creates one, or returns `None` if there can be none.
    fn new(tag: &str) -> Option<Self> {
        let name = format!("nrwc{}{tag}", std::process::id() % 10_000);
        let made = ip(&format!("netns add {name}"));
        if !made {
            println!("SKIP: no network namespaces; hint: run as root, with iproute2");
        }
        made.then_some(Self(name))
    }

    fn path(&self) -> PathBuf {
        ["/run/netns", &self.0].iter().collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

fn ip(arguments: &str) -> bool {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    done.is_ok_and(|done| done.status.success())
}

/// Losses cost time, but rows stay the same: whatever repairs them, all queries are answered.
#[test]
fn losses_are_repaired() {
    let (Some(near), Some(far)) = (Namespace::new("n"), Namespace::new("s")) else { return };
    let (left, right) = ("nrwcl", "nrwcr");
    let rule = Rule { delay: DELAY, loss: LOSS, ..Rule::default() };
    let path = match Path::new(left, right, vec![rule], 1) {
        Ok(path) => Arc::new(path),
        Err(why) => {
            println!("SKIP: no TUN devices: {why}");
            return;
        }
    };
    for (device, namespace, own, other) in [(left, &near, 1, 2), (right, &far, 2, 1)] {
        let name = &namespace.0;
        for command in [
            format!("link set {device} netns {name}"),
            format!("-n {name} addr add 10.77.31.{own} peer 10.77.31.{other} dev {device}"),
            format!("-n {name} link set {device} up"),
        ] {
            assert!(ip(&command), "{command}");
        }
    }
    let carrier = {
        let path = path.clone();
        thread::spawn(move || path.run())
    };
    let place = |node: usize| Place {
        namespace: Some([&near, &far][node].path()),
        ..Place::at(Ipv4Addr::new(10, 77, 31, node as u8 + 1))
    };
    let quic = || encrypted(tls_client(3), tls_server(), over_quic);
    let mut over_tcp = dialogue();
    over_tcp.client.udp = None;
    over_tcp.client.tcp = Dialogue::new().client.tcp;
    for (what, plan) in [
        ("tcp", plan_of(over_tcp)),
        ("tls", encrypted(tls_client(0), tls_server(), |_, _| {})),
        ("https", over_https()),
        ("quic", quic()),
        ("quic on a connection", on_one_connection(quic())),
    ] {
        let plan = lossy(plan);
        let lost = path.counts().1;
        let real = play_at(plan.clone(), place).expect("this is root");
        let simulated = simulate(plan);
        compare_tables(&real, &simulated, &PACKETS);
        assert!(path.counts().1 > lost, "{what} has lost something");
        for tables in [&real, &simulated] {
            let mut times = numbers(tables, "queries", "response_ms");
            times.sort_by(f64::total_cmp);
            // The slowest has waited for a repair.
            assert!(times[times.len() - 1] > times[0] + 20.0, "{what}: {times:?}");
        }
    }
    path.stop();
    carrier.join().expect("it does not panic").expect("the devices exist");
}

/// Thirty queries over a path that loses packets.
fn lossy(mut plan: Plan) -> Plan {
    plan.end = Time::ZERO + Span::from_secs(120);
    for link in &mut plan.links {
        link.delay = Span::from_ms(DELAY.as_millis() as u64);
        link.loss = LOSS.into();
    }
    for application in &mut plan.applications {
        if let Kind::DnsClient(client) = &mut application.kind {
            client.queries = Some(30);
        }
    }
    plan
}

pub(crate) fn numbers(tables: &[Table], table: &str, column: &str) -> Vec<f64> {
    let table = tables.iter().find(|one| one.name == table).expect("the table exists");
    let (_, values) =
        table.columns.iter().find(|(name, _)| *name == column).expect("the column exists");
    match values {
        Column::F64(values) => values.clone(),
        Column::U8(values) => values.iter().map(|&value| value.into()).collect(),
        other => panic!("{column}: {other:?}"),
    }
}

const DELAY: Duration = Duration::from_millis(5);
const LOSS: f64 = 0.05;

/// Creates two namespaces with a cable between them, and returns them with the place of each node.
fn joined(tag: &str) -> Option<([Namespace; 2], impl Fn(usize) -> Place)> {
    let both = [Namespace::new(&format!("{tag}n"))?, Namespace::new(&format!("{tag}s"))?];
    let [a, b] = [&both[0].0, &both[1].0];
    let made = [
        format!("link add nrw{tag} netns {a} type veth peer name nrw{tag} netns {b}"),
        format!("-n {a} addr add 10.77.32.1/24 dev nrw{tag}"),
        format!("-n {b} addr add 10.77.32.2/24 dev nrw{tag}"),
        format!("-n {a} link set nrw{tag} up"),
        format!("-n {b} link set nrw{tag} up"),
    ];
    assert!(made.iter().all(|arguments| ip(arguments)), "this is root");
    let paths = [both[0].path(), both[1].path()];
    let place = move |node: usize| Place {
        namespace: Some(paths[node].clone()),
        forged: [(2, FORGED)].into(),
        ..Place::at(Ipv4Addr::new(10, 77, 32, node as u8 + 1))
    };
    Some((both, place))
}

/// The first connection brings a cookie, and with it the SYNs of the others carry queries.
///
/// Linux keeps cookies by address for each namespace, so the test has namespaces of its own.
#[test]
fn fast_open() {
    let Some((both, place)) = joined("t") else { return };
    for one in &both {
        // Clients and servers may use it. Without, servers do not.
        assert!(ip(&format!("netns exec {} sysctl -qw net.ipv4.tcp_fastopen=3", one.0)));
    }
    for at_server in [true, false] {
        let mut dialogue = Dialogue { client: dialogue().client, ..Dialogue::new() };
        dialogue.client.udp = None;
        dialogue.client.tcp = Dialogue::new().client.tcp;
        let mut plan = plan_of(dialogue);
        plan.tcp.push(plan.tcp[0].clone());
        plan.tcp[0].fast_open = true;
        plan.tcp[1].fast_open = at_server;
        for application in &mut plan.applications {
            if let Kind::DnsServer(server) = &mut application.kind {
                server.tcp.iter_mut().for_each(|tcp| tcp.tcp = 1);
            }
        }
        // A server without it takes no data with a SYN, although the client has a cookie.
        if !at_server {
            forget_cookies(&both[0].0);
        }
        let places = plan.nodes.iter().enumerate().map(|(node, name)| (name.clone(), place(node)));
        let part = Part { places: places.collect(), prepared: true, ..Part::default() };
        let real = play_part(plan.clone(), &part).expect("this is root");
        compare_tables(&real, &simulate(plan), &PACKETS);
        let trips = numbers(&real, "attempts", "handshake_round_trips");
        assert_eq!(trips, if at_server { [1.0, 0.0, 0.0, 0.0, 0.0, 0.0] } else { [1.0; 6] });
    }
}

fn forget_cookies(namespace: &str) {
    assert!(ip(&format!("-n {namespace} tcp_metrics flush")));
}

/// Forged addresses need routes: one to them at the server, and one that discards at their node.
#[test]
fn floods() {
    let Some((both, place)) = joined("f") else { return };
    let [a, b] = [&both[0].0, &both[1].0];
    assert!(ip(&format!("-n {a} route add blackhole {FORGED}/16")));
    assert!(ip(&format!("-n {b} route add {FORGED}/16 via 10.77.32.1")));
    let queries = Of::Queries(Queries { query: 40, reply: 300, payload: 1232 });
    for (of, sent, replies) in [(Of::Syns, 38, 0), (queries, 38, 38)] {
        let mut plan = plan_of(Dialogue { client: dialogue().client, ..Dialogue::new() });
        plan.applications.push(Application { name: "flood".into(), kind: flood(of) });
        plan.end = Time::ZERO + Span::from_ms(950);
        plan.end_when_done = false;
        let real = play_at(plan.clone(), &place).expect("this is root");
        let simulated = simulate(plan);
        compare_tables(&real, &simulated, &PACKETS);
        let first = |column| count(&real, "floods", column)[0];
        assert_eq!((first("sent"), first("replies")), (sent, replies));
        assert_eq!(first("syns"), sent - replies);
    }
}

/// A packet every 5 ms, from ten addresses.
fn flood(of: Of) -> Kind {
    Kind::Flood(Flood {
        server: 1,
        there: 0,
        back: 1,
        of,
        interval: Span::from_ms(5),
        spacing: Spacing::Even,
        addresses: 10,
        start: Time::ZERO + Span::from_ms(10),
        stop: Some(Time::ZERO + Span::from_ms(200)),
        period: Span::from_ms(300),
    })
}

fn count(tables: &[Table], table: &str, column: &str) -> Vec<u64> {
    let table = tables.iter().find(|one| one.name == table).expect("the table exists");
    let (_, values) =
        table.columns.iter().find(|(name, _)| *name == column).expect("the column exists");
    let Column::U64(values) = values else { panic!("{column}: {values:?}") };
    values.clone()
}

const FORGED: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
