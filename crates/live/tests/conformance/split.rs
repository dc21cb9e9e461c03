//! Ends in several processes: here in several threads, each of which plays a part and knows nothing of
//! the others. A client's rows are those of the simulator.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use narrows_live::{Clock, Live, Part, Place, Role, Split, Stopped};
use narrows_sim::plan::dns::exchange::{Choice, OverUdp, Sizes};
use narrows_sim::plan::dns::server::OnQuery;
use narrows_sim::plan::{Kind, Plan, bulk};
use narrows_sim::table::{Column, Table};
use narrows_sim::tls;
use narrows_units::{Span, Time};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};

use crate::common::Dialogue;
use crate::encrypted::{encrypted, on_one_connection, tls_client, tls_server};
use crate::{KEPT, PACKETS, compare_tables, connections, dialogue, plan_of, plan_with, simulate};

/// Returns the address of a node's machine.
fn address(number: u8, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 79, number, node as u8 + 1)
}

fn part(plan: &Plan, number: u8, (role, node): (Role, usize)) -> Part {
    let places = plan.nodes.iter().enumerate();
    let places = places.map(|(node, name)| (name.clone(), Place::at(address(number, node))));
    let split = Some(Split { role, node: plan.nodes[node].clone() });
    Part { places: places.collect(), split, prepared: true, ..Part::default() }
}

/// Plays parts of a plan beside each other. When the last one has ended, the others are interrupted.
fn play_parts(plan: &Plan, number: u8, parts: &[(Role, usize)]) -> Vec<Vec<Table>> {
    let ready = Barrier::new(parts.len());
    let clock = OnceLock::new();
    let (mut ends, stops): (Vec<_>, Vec<_>) =
        parts.iter().map(|_| UnixStream::pair().expect("two sockets")).unzip();
    thread::scope(|scope| {
        let playing: Vec<_> = parts
            .iter()
            .zip(stops)
            .map(|(&which, stop)| {
                let (ready, clock) = (&ready, &clock);
                scope.spawn(move || {
                    let part = part(plan, number, which);
                    let mut live = Live::new(plan.clone(), &part).expect("it can be played");
                    live.end_when_readable(&stop);
                    ready.wait();
                    // All have one clock.
                    let clock = *clock.get_or_init(Clock::starting_now);
                    let stopped = live.run(clock).expect("it can be played");
                    (stopped, live.tables())
                })
            })
            .collect();
        let mut found = Vec::new();
        for thread in playing.into_iter().rev() {
            found.push(thread.join().expect("it has ended"));
            for end in &mut ends {
                // It may have ended by itself.
                let _ = end.write_all(b"x");
            }
        }
        let (_, others) = found.split_first().expect("there are parts");
        if plan.end_when_done {
            assert!(others.iter().all(|(stopped, _)| *stopped == Stopped::Interrupted));
        }
        found.into_iter().rev().map(|(_, tables)| tables).collect()
    })
}

#[track_caller]
fn compare_split(plan: &Plan, number: u8, decided: &[&str]) {
    let [served, asked]: [Vec<Table>; 2] =
        play_parts(plan, number, &[(Role::Serve, 1), (Role::Resolve, 0)])
            .try_into()
            .expect("two parts");
    compare_tables(&asked, &simulate(plan.clone()), decided);
    let rows = served.iter().filter(|table| ["queries", "attempts"].contains(&table.name));
    assert!(rows.flat_map(|table| &table.columns).all(|(_, column)| column.is_empty()));
}

#[test]
fn dns_over_udp() {
    compare_split(&plan_of(dialogue()), 1, &[]);
    let mut dialogue = dialogue();
    dialogue.client.udp.as_mut().expect("it asks over UDP").new_port = true;
    compare_split(&plan_of(dialogue), 2, &[]);
}

/// The server learns from the name what the client wants, and what is left out over UDP.
#[test]
fn dns_of_several_lengths() {
    let mut dialogue = dialogue();
    let choice = |query, reply, bytes, truncated| Choice {
        query,
        reply,
        over_udp: Some(OverUdp { bytes, truncated }),
        weight: 1.0,
    };
    let choices = vec![
        choice(42, 1964, 1001, false),
        choice(42, 1964, 1180, true),
        choice(300, 80, 80, true),
    ];
    dialogue.client.sizes = Sizes::Chosen(choices);
    dialogue.client.queries = Some(40);
    compare_split(&plan_of(dialogue), 3, &[]);
}

#[test]
fn dns_over_tcp_after_truncated_replies() {
    let mut dialogue = dialogue();
    dialogue.client.sizes = Sizes::fixed(40, 4000);
    dialogue.client.udp.as_mut().expect("it asks over UDP").tcp_if_truncated = true;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    compare_split(&plan_of(dialogue), 4, &PACKETS);
}

fn over_tcp() -> Dialogue {
    let mut dialogue = dialogue();
    dialogue.client.udp = None;
    dialogue.client.tcp = Dialogue::new().client.tcp;
    dialogue
}

#[test]
fn dns_over_tcp() {
    compare_split(&plan_of(over_tcp()), 5, &PACKETS);
    let mut kept = over_tcp();
    kept.asking().reuse = KEPT;
    compare_split(&plan_of(kept), 6, &PACKETS);
    for (number, on_query) in [(7, OnQuery::Reset), (8, OnQuery::Close)] {
        let mut ends = over_tcp();
        ends.serving().on_query = on_query;
        compare_split(&plan_of(ends), number, &PACKETS);
    }
    let mut without = over_tcp();
    without.server.tcp = None;
    compare_split(&plan_of(without), 9, &PACKETS);
}

/// Sessions that the server has given are resumed, although the client's end does not know of them.
#[test]
fn dns_over_tls() {
    let plan = encrypted(tls_client(0), tls_server(), |_, _| {});
    compare_split(&plan, 10, &PACKETS);
    let client = tls::Client { resume: false, ..tls_client(0) };
    compare_split(&encrypted(client, tls_server(), |_, _| {}), 11, &PACKETS);
    compare_split(&on_one_connection(plan), 12, &PACKETS);
}

/// Each end knows a part of a connection's row.
#[test]
fn endless_data() {
    let mut connections = connections();
    for connection in &mut connections {
        connection.stop = Some(Time::ZERO + Span::from_ms(200));
    }
    let plan = plan_with(vec![Kind::Bulk(bulk::Bulk { connections })], Span::from_secs(2));
    let parts = [(Role::Serve, 0), (Role::Serve, 1), (Role::Drive, 0), (Role::Drive, 1)];
    let tables = play_parts(&plan, 13, &parts);
    let [at_sender, at_receiver, by_sender, by_receiver] =
        tables.try_into().expect("as many as parts");
    // The sender opens the first connection, and the receiver the second one.
    for (row, sender, receiver, opener) in
        [(0, &by_sender, &at_receiver, &by_sender), (1, &at_sender, &by_receiver, &by_receiver)]
    {
        let sent = number(sender, "bytes_acked", row);
        assert!(sent > 1e6, "{sent}");
        assert_eq!(number(receiver, "bytes_received", row), sent);
        assert!(number(receiver, "end_s", row) >= 0.2);
        assert!(number(opener, "established_s", row) >= 0.01);
        assert!(number(sender, "min_rtt_ms", row) > 0.0);
    }
    for (table, row) in [(&at_receiver, 1), (&by_receiver, 0), (&at_sender, 0), (&by_sender, 1)] {
        assert!(number(table, "established_s", row).is_nan());
        assert_eq!(number(table, "bytes_received", row), 0.0);
    }
}

fn number(tables: &[Table], column: &str, row: usize) -> f64 {
    let table = tables.iter().find(|table| table.name == "flows").expect("it has connections");
    let found = table.columns.iter().find(|(name, _)| *name == column).expect("it exists");
    match &found.1 {
        Column::F64(values) => values[row],
        Column::U64(values) => values[row] as f64,
        _ => panic!("{column} is a number"),
    }
}

/// A query for a reply of 0x48 bytes (RFC 1035, 4.1).
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x0448q1\0\0\x10\0\x01";

/// The server answers the machines of its clients alone, and nothing but queries.
#[test]
fn strangers_get_nothing() {
    let mut both = dialogue();
    both.client.tcp = Dialogue::new().client.tcp;
    let plan = plan_of(both);
    let [server, client, stranger] = [1, 0, 8].map(|node| address(14, node));
    let mut live =
        Live::new(plan.clone(), &part(&plan, 14, (Role::Serve, 1))).expect("it is sound");
    let (mut end, stop) = UnixStream::pair().expect("two sockets");
    live.end_when_readable(&stop);
    let asking = thread::spawn(move || {
        let over_udp = |from: Ipv4Addr, bytes: &[u8]| {
            let asking = UdpSocket::bind((from, 0)).expect("a socket");
            asking.send_to(bytes, (server, 53)).expect("it is sent");
            asking
        };
        let ignored = [over_udp(stranger, QUERY), over_udp(client, b"what?")];
        let mut reply = [0; 100];
        let asking = over_udp(client, QUERY);
        asking.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
        assert_eq!(asking.recv(&mut reply).expect("a reply"), 0x48);
        assert_eq!(reply[..3], [0x12, 0x34, 0x85]);
        for asking in ignored {
            asking.set_nonblocking(true).expect("it can be set");
            asking.recv(&mut reply).expect_err("it gets no reply");
        }
        let query = [&[0, QUERY.len() as u8], QUERY].concat();
        assert_eq!(over_tcp_from(client, server, &query).len(), 2 + 0x48);
        assert_eq!(over_tcp_from(stranger, server, &query).len(), 0);
        assert_eq!(over_tcp_from(client, server, b"GET / HTTP/1.1\r\n\r\n").len(), 0);
        end.write_all(b"x").expect("it is open");
    });
    live.run(Clock::starting_now()).expect("it can be played");
    asking.join().expect("the server answers as it should");
}

/// Returns what a server writes before it closes, or until its reply is complete.
fn over_tcp_from(from: Ipv4Addr, server: Ipv4Addr, bytes: &[u8]) -> Vec<u8> {
    let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None);
    let made = made.expect("a socket");
    use std::os::fd::AsRawFd as _;
    let at = |ip, port| SockaddrIn::from(SocketAddrV4::new(ip, port));
    bind(made.as_raw_fd(), &at(from, 0)).expect("a free port");
    connect(made.as_raw_fd(), &at(server, 53)).expect("it listens");
    let mut stream = TcpStream::from(made);
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
    let _ = stream.write_all(bytes);
    let mut found = Vec::new();
    let mut part = [0; 100];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        found.extend(&part[..count]);
        if found.len() >= 2 && found.len() >= 2 + usize::from(found[1]) {
            break;
        }
    }
    found
}

#[test]
fn plans_that_cannot_be_split_are_refused() {
    let says = |plan: &Plan, which| {
        let why = Live::new(plan.clone(), &part(plan, 15, which)).expect_err("it is refused");
        why.to_string()
    };
    let mut short = dialogue();
    short.client.sizes = Sizes::fixed(31, 100);
    let short = plan_of(short);
    assert_eq!(
        says(&short, (Role::Resolve, 0)),
        "dns: sizes: a query of 31 B cannot say what it asks for; it needs 32 B"
    );
    let early = tls::Client { early_data: true, ..tls_client(0) };
    let early = encrypted(early, tls_server(), |_, _| {});
    let why = says(&early, (Role::Resolve, 0));
    assert_eq!(why, "dns: tls: early_data: it needs both ends in one process");
    let https = crate::encrypted::over_https();
    let why = says(&https, (Role::Serve, 1));
    assert_eq!(why, "dns: HTTPS and QUIC need both ends in one process");
    let plan = plan_of(dialogue());
    let mut missing = part(&plan, 15, (Role::Serve, 1));
    missing.places.remove("server");
    let why = Live::new(plan, &missing).expect_err("it is refused").to_string();
    assert_eq!(why, "server: it has no place");
}
