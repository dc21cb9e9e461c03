//! Hardships of a gateway in user space: malformed packets, a server that dies, crowds, a full
//! link, a device that disappears, an early end.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use super::place::{AXFR, Gateway, Network, SMALL, can_run, connect, ip, query, receive};

const SERVICE: &str = "192.0.2.53:53";

fn service() -> SocketAddr {
    SERVICE.parse().expect("an address")
}

/// A network whose gateway serves through a TUN device.
fn with_tun() -> (Network, Gateway) {
    let network = Network::new();
    network.forward();
    let gateway = network.start("--interface nrwtun --server 192.0.2.53");
    (network, gateway)
}

/// The answer to a query, or why there was none in time.
fn ask(to: SocketAddr, wait: Duration) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&to, wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.write_all(&query(7, SMALL, 1))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message)?;
    Ok(message.len())
}

fn status(network: &Network, interface: &str) -> Value {
    let output = network.ask(&format!("status --interface {interface} --json --interval 0"));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn user(network: &Network, key: &str) -> u64 {
    status(network, "nrwtun")["user"][key].as_u64().expect("a number")
}

#[test]
fn a_server_that_dies_and_returns_is_used_again_at_once() {
    if !can_run() {
        return;
    }
    let (mut network, gateway) = with_tun();
    let second = Duration::from_secs(1);
    assert!(network.in_client(|| ask(service(), second)).is_ok());
    network.stop_nsd();
    network.in_client(|| {
        for _ in 0..20 {
            let mut stream = connect(service());
            stream.write_all(&query(7, SMALL, 1)).expect("sent");
        }
        assert!(ask(service(), second / 2).is_err(), "nobody answers");
        // A query that needs the server's TCP is refused, as by the kernel.
        let mut stream = connect(service());
        stream.write_all(&query(7, "example.test", AXFR)).expect("sent");
        let reset = stream.read(&mut [0; 9]).expect_err("no listener");
        assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    });
    network.start_nsd();
    network.in_client(|| {
        for _ in 0..50 {
            ask(service(), second).expect("an answer without waiting");
        }
    });
    gateway.end();
}

#[test]
fn hundreds_at_once_of_one_source_are_served_while_half_of_the_places_are_free() {
    if !can_run() {
        return;
    }
    let (network, gateway) = with_tun();
    // 250 of the 1024 connections with TCP.
    let (answered, reset, rest) = network.in_client(|| {
        let mut streams: Vec<TcpStream> = (0..500).map(|_| connect(service())).collect();
        for (n, stream) in streams.iter_mut().enumerate() {
            let (name, kind) = if n % 2 == 0 { ("example.test", AXFR) } else { (SMALL, 1) };
            let _ = stream.write_all(&query(n as u16, name, kind));
        }
        let mut counts = (0, 0);
        for stream in &mut streams {
            match stream.read(&mut [0; 2]) {
                Ok(2) => counts.0 += 1,
                _ => counts.1 += 1,
            }
        }
        let more = ask(service(), Duration::from_secs(5));
        (counts.0, counts.1, more)
    });
    assert_eq!((answered, reset), (500, 0));
    rest.expect("others are served meanwhile");
    assert_eq!(user(&network, "relays_refused"), 0);
    let until = Instant::now() + Duration::from_secs(10);
    while user(&network, "relays") > 0 {
        assert!(Instant::now() < until, "connections stay");
        thread::sleep(Duration::from_millis(50));
    }
    gateway.end();
}

/// Random bytes after a header that brings them to the gateway, and segments of every kind, cut and
/// changed anywhere.
#[test]
fn malformed_packets_change_nothing() {
    if !can_run() {
        return;
    }
    let (network, gateway) = with_tun();
    // A generator (xorshift64*, Marsaglia 2003, Vigna 2016), so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut chance = |n: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    };
    let mut packets = Vec::new();
    for _ in 0..20_000 {
        let length = chance(200) as usize;
        let mut tcp: Vec<u8> = (0..length).map(|_| chance(256) as u8).collect();
        if chance(4) > 0 && tcp.len() >= 20 {
            // To the port, with plausible flags and a header that may fit.
            tcp[2..4].copy_from_slice(&[0, 53]);
            tcp[12] = (chance(12) as u8 + 4) << 4;
            tcp[13] = [2, 16, 24, 17, 4, 20, 18, 1][chance(8) as usize];
        }
        packets.push(tcp);
    }
    network.in_client(|| {
        use nix::sys::socket::{
            AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
        };
        use std::os::fd::AsRawFd;
        // The kernel writes the IP header; the rest stays as it is.
        let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Tcp)
            .expect("root may");
        let to = SockaddrIn::new(192, 0, 2, 53, 0);
        for packet in &packets {
            let _ = sendto(raw.as_raw_fd(), packet, &to, MsgFlags::empty());
        }
        ask(service(), Duration::from_secs(2)).expect("an answer");
    });
    let status = status(&network, "nrwtun");
    assert!(status["counters"]["malformed"].as_u64() > Some(500), "{status}");
    assert!(status["counters"]["bad_checksum"].as_u64() > Some(500), "{status}");
    assert_eq!(status["counters"]["query"], 1, "{status}");
    gateway.end();
}

#[test]
fn an_end_in_the_middle_is_in_order() {
    if !can_run() {
        return;
    }
    let (network, gateway) = with_tun();
    let (stop, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    let home = format!("/run/netns/{}", network.client);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (stop, answered, home) = (&stop, &answered, &home);
            scope.spawn(move || {
                setns(std::fs::File::open(home).expect("it is there"), CloneFlags::CLONE_NEWNET)
                    .expect("root may");
                while !stop.load(Ordering::Relaxed) {
                    if ask(service(), Duration::from_millis(200)).is_ok() {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        gateway.end();
        stop.store(true, Ordering::Relaxed);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    });
    assert!(answered.load(Ordering::Relaxed) > 50);
    assert!(!ip(&format!("-n {} -o link", network.gateway)).contains("nrwtun"));
}

/// The link carries 200 kbit/s. Packets without room are counted, and nothing else suffers.
#[test]
fn a_full_link_loses_packets_and_no_more() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    let link = &network.link;
    let gateway =
        network.start(&format!("--user-link packet --interface {link} --server 10.9.0.53"));
    let at = format!("tc -n {} qdisc", network.gateway);
    let tc = |words: &str| Command::new("sh").arg("-c").arg(format!("{at} {words}")).status();
    let slow = format!("add dev {link} root tbf rate 200kbit burst 1600 limit 2000");
    if !tc(&slow).expect("iproute2").success() {
        assert!(std::env::var_os("CI").is_none(), "the kernel has no tbf");
        eprintln!("SKIP: needs the queueing discipline tbf; load it with: modprobe sch_tbf");
        return;
    }
    let to: SocketAddr = "10.9.0.53:53".parse().expect("an address");
    let home = format!("/run/netns/{}", network.client);
    thread::scope(|scope| {
        for _ in 0..20 {
            let home = &home;
            scope.spawn(move || {
                setns(std::fs::File::open(home).expect("it is there"), CloneFlags::CLONE_NEWNET)
                    .expect("root may");
                for _ in 0..10 {
                    let _ = ask(to, Duration::from_millis(300));
                }
            });
        }
    });
    let status = status(&network, link);
    assert!(status["user"]["unsent"].as_u64() > Some(0), "{status}");
    assert!(tc(&format!("del dev {link} root")).expect("iproute2").success());
    network.in_client(|| ask(to, Duration::from_secs(2)).expect("an answer"));
    gateway.end();
}

/// A daemon that no longer serves anything ends, so that its supervisor starts another.
#[test]
fn a_device_that_goes_ends_the_gateway_with_a_word() {
    if !can_run() {
        return;
    }
    for (tun, words, said) in [
        (true, "link set nrwtun down", "not routed into nrwtun any more"),
        (true, "link del nrwtun", "nrwtun is gone"),
        (false, "link del", "is gone"),
    ] {
        let network = Network::new();
        let link = &network.link;
        let (arguments, words) = if tun {
            ("--interface nrwtun --server 192.0.2.53".to_owned(), words.to_owned())
        } else {
            let packet = format!("--user-link packet --interface {link} --server 10.9.0.53");
            (packet, format!("{words} {link}"))
        };
        let (gateway, error) = network.start_listening(&arguments);
        ip(&format!("-n {} {words}", network.gateway));
        let (code, text) = gateway.ended(error);
        assert_eq!(code, Some(1), "{words}: {text}");
        assert!(text.contains(said) && text.contains("hint: "), "{words}: {text}");
    }
}

/// A client that ends its side early gets what it asked for, and its connection does not stay.
#[test]
fn clients_that_leave_early_leave_nothing_behind() {
    if !can_run() {
        return;
    }
    let (network, gateway) = with_tun();
    network.in_client(|| {
        for n in 0..50 {
            let mut stream = connect(service());
            let (name, kind) = if n % 2 == 0 { ("example.test", AXFR) } else { (SMALL, 1) };
            stream.write_all(&query(n, name, kind)).expect("sent");
            if n % 3 == 0 {
                stream.shutdown(Shutdown::Write).expect("half-closed");
                receive(&mut stream);
            }
        }
    });
    let until = Instant::now() + Duration::from_secs(10);
    while user(&network, "relays") + user(&network, "queries") > 0 {
        assert!(Instant::now() < until, "something stays");
        thread::sleep(Duration::from_millis(50));
    }
    gateway.end();
}
