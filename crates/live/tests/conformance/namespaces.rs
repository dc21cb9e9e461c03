//! What needs network namespaces: a path that loses packets, and floods.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use narrows_client::path::{Path, Rule};
use narrows_live::Place;
use narrows_sim::plan::flood::{Flood, Of, Queries};
use narrows_sim::plan::udp::Spacing;
use narrows_sim::plan::{Application, Kind, Plan};
use narrows_sim::table::{Column, Table};
use narrows_units::{Span, Time};

use crate::common::Dialogue;
use crate::encrypted::{
    encrypted, on_one_connection, over_https, over_quic, quic_server, tls_client, tls_server,
};
use crate::{PACKETS, compare_tables, dialogue, plan_of, play_at, simulate};

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
    let quic = || encrypted(tls_client(3), quic_server(), over_quic);
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
        link.loss = LOSS;
    }
    for application in &mut plan.applications {
        if let Kind::DnsClient(client) = &mut application.kind {
            client.queries = Some(30);
        }
    }
    plan
}

fn numbers(tables: &[Table], table: &str, column: &str) -> Vec<f64> {
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

/// Forged addresses need routes: one to them at the server, and one that discards at their node.
#[test]
fn floods() {
    let (Some(near), Some(far)) = (Namespace::new("fn"), Namespace::new("fs")) else { return };
    let (a, b) = (&near.0, &far.0);
    let made = [
        format!("link add nrwf netns {a} type veth peer name nrwf netns {b}"),
        format!("-n {a} addr add 10.77.32.1/24 dev nrwf"),
        format!("-n {b} addr add 10.77.32.2/24 dev nrwf"),
        format!("-n {a} link set nrwf up"),
        format!("-n {b} link set nrwf up"),
        format!("-n {a} route add blackhole {FORGED}/16"),
        format!("-n {b} route add {FORGED}/16 via 10.77.32.1"),
    ];
    assert!(made.iter().all(|arguments| ip(arguments)), "this is root");
    let place = |node: usize| Place {
        namespace: Some([&near, &far][node].path()),
        forged: [(2, FORGED)].into(),
        ..Place::at(Ipv4Addr::new(10, 77, 32, node as u8 + 1))
    };
    let queries = Of::Queries(Queries { query: 40, reply: 300, payload: 1232 });
    for (of, sent, replies) in [(Of::Syns, 38, 0), (queries, 38, 38)] {
        let mut plan = plan_of(Dialogue { client: dialogue().client, ..Dialogue::new() });
        plan.applications.push(Application { name: "flood".into(), kind: flood(of) });
        plan.end = Time::ZERO + Span::from_ms(950);
        plan.end_with_dns = false;
        let real = play_at(plan.clone(), place).expect("this is root");
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
