//! The program: parts of a plan in network namespaces, which begin together, and what it refuses.
#![cfg(target_os = "linux")]

#[allow(dead_code, unused_imports, reason = "other tests use more of it")]
#[path = "../../sim/tests/common/mod.rs"]
mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::{client_and_server, profile};
use narrows_sim::plan::dns::client::Udp;
use narrows_sim::plan::dns::exchange::Sizes;
use narrows_sim::plan::ping::Ping;
use narrows_sim::plan::udp::Spacing;
use narrows_sim::plan::{self, Application, Kind, Plan, Stream};
use narrows_units::{Span, Time};
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("narrows-live-{name}-{}", std::process::id()));
        // Nobody else can enter it, and one that is there already is refused.
        fs::DirBuilder::new().mode(0o700).create(&path).expect("a folder for the test");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file for the test");
        path.to_str().expect("a readable path").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two groups of probes, each between two nodes of its own: `a` and `b`, `c` and `d`.
fn plan() -> Plan {
    let common::Dialogue { client, server } = common::Dialogue::new();
    let line = |name: &str, from, to| {
        common::link(name, from, to, 1000, Span::from_us(1), common::pfifo(1000))
    };
    let probes = |name: &str, there| {
        let stream = Stream {
            name: name.into(),
            there,
            back: there + 1,
            start: Time::ZERO + Span::from_ms(100),
            stop: None,
        };
        let ping = Ping {
            streams: vec![stream],
            packet_bytes: 84,
            interval: Span::from_ms(20),
            spacing: Spacing::Even,
            probes: Some(10),
        };
        Application { name: name.into(), kind: Kind::Ping(ping) }
    };
    let path = |from, to, link| plan::Path { from, to, links: vec![link] };
    Plan {
        nodes: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
        links: vec![line("ab", 0, 1), line("ba", 1, 0), line("cd", 2, 3), line("dc", 3, 2)],
        paths: vec![path(0, 1, 0), path(1, 0, 1), path(2, 3, 2), path(3, 2, 3)],
        tcp: vec![profile("linux-6")],
        applications: vec![probes("first", 0), probes("second", 2)],
        end_when_done: false,
        ..client_and_server(client, server, Span::from_us(1), Span::from_ms(500))
    }
}

fn start(folder: &Folder, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_narrows-live"))
        .args(arguments)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn end(child: Child) -> Output {
    child.wait_with_output().expect("the program ends")
}

/// Reads a column of a table from what the program has written.
fn column(path: &Path, table: &str, column: &str) -> Vec<u8> {
    let bytes = fs::read(path).expect("the program has written it");
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let state: Value = serde_json::from_slice(lines.next().expect("a line")).expect("JSON");
    assert!(["end", "dns-done"].contains(&state["stopped"].as_str().expect("a word")));
    let heads: Value = serde_json::from_slice(lines.next().expect("a line")).expect("JSON");
    let values = lines.next().expect("values");
    let mut at = 0;
    for head in heads["tables"].as_array().expect("tables") {
        for each in head["columns"].as_array().expect("columns") {
            let size = each["bytes"].as_u64().expect("a size") as usize;
            if head["name"] == table && each["name"] == column {
                return values[at..at + size].to_vec();
            }
            at += size;
        }
    }
    panic!("{table} has no {column}")
}

/// Two parts with the same start send at the same times.
#[test]
fn parts_begin_together() {
    let folder = Folder::new("parts");
    folder.write("plan.json", &serde_json::to_string(&plan()).expect("it can be written"));
    let address = |number: u8| json!({"address": format!("127.78.0.{number}")});
    let places = json!({"a": address(1), "b": address(2), "c": address(3), "d": address(4)});
    folder.write("places.json", &places.to_string());
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    let at = (std::time::Duration::from(now).as_secs_f64() + 1.0).to_string();
    let part = |nodes: [&str; 2], out: &str| {
        let [from, to] = nodes;
        let common = ["plan.json", "--places", "places.json", "--start", &at, "--out", out];
        start(&folder, &[&common[..], &["--play", from, "--play", to]].concat())
    };
    let mut parts = [part(["a", "b"], "first"), part(["c", "d"], "second")];
    for part in &mut parts {
        let mut line = String::new();
        let output = part.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, format!("{{\"ready\":\"{}\"}}\n", narrows_engine::version()));
    }
    let outputs = parts.map(end);
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    let sent = |name: &str| {
        let bytes = column(&folder.0.join(name), "pings", "sent_s");
        let value = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        bytes.chunks_exact(8).map(value).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..10).map(|probe| 0.1 + 0.02 * f64::from(probe)).collect();
    for name in ["first", "second"] {
        let sent = sent(name);
        assert_eq!(sent.len(), expected.len());
        let near = sent.iter().zip(&expected).all(|(sent, at)| (sent - at).abs() < 1e-9);
        assert!(near, "{sent:?}");
        let fates = column(&folder.0.join(name), "pings", "fate");
        let fates: Vec<String> = serde_json::from_slice(&fates).expect("names");
        assert_eq!(fates, vec!["answered"; 10]);
    }
}

/// A process plays nodes of several namespaces.
#[test]
fn nodes_have_namespaces() {
    let fates = fates_between_namespaces("x", &plan(), "link show");
    if let Some(fates) = fates {
        assert_eq!(fates, vec!["answered"; 10]);
    }
}

/// Nobody reports what was lost, but after five seconds nothing arrives any more.
#[test]
fn what_does_not_arrive_is_lost() {
    let mut plan = plan();
    plan.end = Time::ZERO + Span::from_ms(5_200);
    // The second node has no way back. The last five probes leave in the last five seconds.
    let fates = fates_between_namespaces("y", &plan, "route add blackhole 10.78.0.1/32");
    if let Some(fates) = fates {
        assert_eq!(fates, [["answer-lost"; 5], ["pending"; 5]].concat());
    }
}

/// Two processes, each with the ends of a node in a namespace of its own, give the client the rows
/// that it has if one process plays both ends.
#[test]
fn ends_in_two_processes_give_the_same_rows() {
    let mut dialogue = common::Dialogue::new();
    dialogue.client.queries = Some(6);
    dialogue.client.sizes = Sizes::fixed(40, 4000);
    dialogue.client.udp = Some(Udp {
        timeouts: vec![Span::from_secs(5)],
        payload: 1232,
        tcp_if_truncated: true,
        tcp_if_silent: false,
        new_port: false,
    });
    dialogue.asking().tcp = 0;
    dialogue.serving().tcp = 0;
    let common::Dialogue { client, server } = dialogue;
    let plan = Plan {
        tcp: vec![profile("linux-6")],
        ..client_and_server(client, server, Span::from_us(1), Span::from_secs(60))
    };
    let Some(spaces) = Spaces::new("z", "link show") else { return };
    let folder = Folder::new("split");
    folder.write("plan.json", &serde_json::to_string(&plan).expect("written"));
    folder.write("places.json", &spaces.places(["client", "server"]).to_string());
    let common = ["plan.json", "--places", "places.json", "--out"];
    let together = end(start(&folder, &[&common[..], &["together"]].concat()));
    assert!(together.status.success(), "{together:?}");
    let part = |role: &str, node: &str| {
        start(&folder, &[&common[..], &[role, "--role", role, "--play", node]].concat())
    };
    let mut serve = part("serve", "server");
    let mut line = String::new();
    let output = serve.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("it is ready");
    let resolve = end(part("resolve", "client"));
    assert!(resolve.status.success(), "{resolve:?}");
    kill(Pid::from_raw(serve.id() as i32), Signal::SIGTERM).expect("it runs");
    let serve = end(serve);
    assert!(serve.status.success(), "{serve:?}");
    let state = fs::read(folder.0.join("serve")).expect("the program has written it");
    assert!(state.starts_with(b"{\"now_s\":"));
    let of = |name: &str, table, wanted| column(&folder.0.join(name), table, wanted);
    for wanted in ["query", "attempt", "fate", "transport", "reused", "handshake_round_trips"] {
        let values = of("resolve", "attempts", wanted);
        assert_eq!(values, of("together", "attempts", wanted), "{wanted}");
    }
    for wanted in ["attempt", "attempts", "late_answers", "measured"] {
        assert_eq!(of("resolve", "queries", wanted), of("together", "queries", wanted), "{wanted}");
    }
    let fates: Vec<String> =
        serde_json::from_slice(&of("resolve", "attempts", "fate")).expect("names");
    assert_eq!(fates, ["truncated", "answered"].repeat(6));
}

/// Two namespaces with a cable between them, which end with the test.
struct Spaces([String; 2]);

impl Spaces {
    /// Runs `ip` in the second one, too. Returns `None` if there can be no namespaces.
    fn new(tag: &str, command: &str) -> Option<Self> {
        let number = std::process::id() % 10_000;
        let names = [format!("nrwl{number}{tag}a"), format!("nrwl{number}{tag}b")];
        let [a, b] = &names;
        let made = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("link add nrw0 netns {a} type veth peer name nrw0 netns {b}"),
            format!("-n {a} addr add 10.78.0.1/24 dev nrw0"),
            format!("-n {b} addr add 10.78.0.2/24 dev nrw0"),
            format!("-n {a} link set nrw0 up"),
            format!("-n {b} link set nrw0 up"),
            format!("-n {b} {command}"),
        ]
        .iter()
        .all(|arguments| ip(arguments));
        let found = Self(names);
        if !made {
            println!("SKIP: no network namespaces; hint: run as root, with iproute2");
        }
        made.then_some(found)
    }

    fn places(&self, nodes: [&str; 2]) -> Value {
        let place = |number: usize| {
            let namespace = format!("/run/netns/{}", self.0[number]);
            json!({"address": format!("10.78.0.{}", number + 1), "namespace": namespace})
        };
        json!({nodes[0]: place(0), nodes[1]: place(1)})
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&format!("netns del {name}"));
        }
    }
}

fn ip(arguments: &str) -> bool {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    done.is_ok_and(|done| done.status.success())
}

/// Plays two nodes in namespaces of their own, after `ip` has run in the second one. Returns the
/// fates of probes, or `None` if there can be no namespaces.
fn fates_between_namespaces(tag: &str, plan: &Plan, command: &str) -> Option<Vec<String>> {
    let spaces = Spaces::new(tag, command)?;
    let folder = Folder::new(tag);
    let path = folder.write("plan.json", &serde_json::to_string(plan).expect("written"));
    let places = folder.write("places.json", &spaces.places(["a", "b"]).to_string());
    let output = end(start(&folder, &[&path, "--places", &places, "--out", "out"]));
    assert!(output.status.success(), "{output:?}");
    let fates = column(&folder.0.join("out"), "pings", "fate");
    Some(serde_json::from_slice(&fates).expect("names"))
}

/// What is wrong is said in one line, and the exit code is 2.
#[test]
fn wrong_input_is_named() {
    let folder = Folder::new("wrong");
    let plan = folder.write("plan.json", &serde_json::to_string(&plan()).expect("written"));
    let broken = folder.write("broken.json", "{\"seed\": 1}");
    let places = folder.write("places.json", r#"{"a": {"address": "127.0.0.1"}}"#);
    let wrong = folder.write("wrong.json", r#"{"a": {"address": "127.0.0"}}"#);
    let cases: [(&[&str], &str); 12] = [
        (&[], "usage: narrows-live PLAN "),
        (&[&plan], "--places is missing; usage: "),
        (&["none.json", "--places", &places], "none.json: No such file or directory"),
        (&[&broken, "--places", &places], "broken.json: missing field `end`"),
        (&[&plan, "--places", &wrong], "wrong.json: invalid IPv4 address syntax"),
        (&[&plan, "--places", &places], "first: plays at a, and at b, which is not in this part"),
        (&[&plan, "--places", &places, "--play", "b"], "--play b: it has no place"),
        (&[&plan, "--places", &places, "--start", "soon"], "--start: \"soon\" is not a number"),
        (&[&plan, "--places"], "--places: its value is missing"),
        (&[&plan, "--places", &places, "--role", "x"], "--role: \"x\" is not serve, drive or"),
        (&[&plan, "--places", &places, "--role", "serve"], "--role: it needs one --play NODE"),
        (
            &[&plan, "--places", &places, "--role", "serve", "--play", "a"],
            "first: only bulk traffic and DNS can have ends in several processes",
        ),
    ];
    for (arguments, expected) in cases {
        let output = end(start(&folder, arguments));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said.starts_with("error: ") && said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(output.stdout.is_empty());
    }
}

/// What cannot be honoured is written, and nothing starts.
#[test]
fn a_plan_can_be_checked() {
    let folder = Folder::new("check");
    let mut short = plan();
    let Kind::Ping(ping) = &mut short.applications[1].kind else { panic!("it probes") };
    ping.packet_bytes = 39;
    let why = "second: packet_bytes: 39 B have no room for what they mean; it needs 40 B";
    for (plan, expected) in [(plan(), json!([])), (short, json!([why]))] {
        let plan = folder.write("plan.json", &serde_json::to_string(&plan).expect("written"));
        let output = end(start(&folder, &[&plan, "--check"]));
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(found, expected);
        assert!(output.status.success() && output.stderr.is_empty());
    }
}

/// Sockets are made before a part is ready, so a start in the past cannot be kept.
#[test]
fn a_start_in_the_past_is_refused() {
    let folder = Folder::new("late");
    let plan = folder.write("plan.json", &serde_json::to_string(&plan()).expect("written"));
    let places = json!({"a": {"address": "127.78.1.1"}, "b": {"address": "127.78.1.2"}});
    let places = folder.write("places.json", &places.to_string());
    let arguments = [&plan, "--places", &places, "--start", "0.5"];
    let output = end(start(&folder, &arguments));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: --start: this time has passed\n");
    assert_eq!(output.status.code(), Some(2));
}
