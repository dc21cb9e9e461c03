//! The user-space data path in a network of namespaces, in front of an unmodified NSD: clients get
//! the same through the gateway as from the kernel's TCP. Needs root, iproute2, util-linux and NSD.

mod hardships;
mod place;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use place::{
    AXFR, LARGE, Network, SEGMENTED, SMALL, TXT, can_run, connect, inside, ip, query, receive,
    transfer,
};

/// The gateway gives the same results as the kernel's TCP.
fn compare(network: &Network, service: [IpAddr; 2]) {
    let direct: SocketAddr = "10.9.0.1:5354".parse().expect("an address");
    for address in service {
        let through = SocketAddr::new(address, 53);
        network.in_client(|| {
            for (name, kind, least) in
                [(SMALL, 1, 30), (SEGMENTED, TXT, 2000), (LARGE, TXT, 20_000)]
            {
                let [a, b] = [direct, through].map(|to| {
                    let mut stream = connect(to);
                    stream.write_all(&query(7, name, kind)).expect("sent");
                    receive(&mut stream)
                });
                assert!(a.len() >= least && a == b, "{name} at {address}");
            }
            // Pipelined, a second query on the same connection, in pieces.
            let [a, b] = [direct, through].map(|to| {
                let mut stream = connect(to);
                let mut all = Vec::new();
                stream.write_all(&query(1, SMALL, 1)).expect("sent");
                all.push(receive(&mut stream));
                stream
                    .write_all(&[query(2, SEGMENTED, TXT), query(3, SMALL, 1)].concat())
                    .expect("sent");
                all.extend([receive(&mut stream), receive(&mut stream)]);
                for byte in query(4, LARGE, TXT) {
                    stream.write_all(&[byte]).expect("sent");
                }
                all.push(receive(&mut stream));
                all.sort(); // a server may answer out of order (RFC 7766, 6.2.1.1)
                all
            });
            assert_eq!(a, b, "a connection with four queries at {address}");
            let [a, b] = [direct, through].map(transfer);
            assert!(
                a.len() > 1 && a == b,
                "the zone at {address}: {} and {} messages",
                a.len(),
                b.len()
            );
        });
    }
}

/// 1000 queries on as many connections, by eight clients at once.
fn thousand(network: &Network, service: [IpAddr; 2]) {
    let answered = network.in_client(|| {
        let home = format!("/run/netns/{}", network.client);
        thread::scope(|scope| {
            let ask = |worker: u16| {
                let space = fs::File::open(&home).expect("it is there");
                setns(space, CloneFlags::CLONE_NEWNET).expect("root may");
                (0..125)
                    .filter(|n| {
                        let id = worker * 125 + n;
                        let mut stream = connect(SocketAddr::new(service[usize::from(n % 2)], 53));
                        let name = format!("h{id}.example.test");
                        stream.write_all(&query(id, &name, 1)).expect("sent");
                        let reply = receive(&mut stream);
                        reply[2..4] == id.to_be_bytes() && reply[5] & 0xf == 0 && reply[9] == 1
                    })
                    .count()
            };
            let workers: Vec<_> = (0..8).map(|worker| scope.spawn(move || ask(worker))).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<usize>()
        })
    });
    assert_eq!(answered, 1000);
}

fn addresses(of: [&str; 2]) -> [IpAddr; 2] {
    of.map(|address| address.parse().expect("an address"))
}

#[test]
fn a_tun_device_serves_clients_elsewhere_and_goes_with_the_gateway() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    let service = addresses(["192.0.2.53", "2001:db8:53::53"]);
    network.forward();
    let words = "--interface nrwtun --server 192.0.2.53 --server 2001:db8:53::53";
    let gateway = network.start(words);
    compare(&network, service);
    thousand(&network, service);
    assert!(ip(&format!("-n {} -o link show nrwtun", network.gateway)).contains("qlen 4000"));
    let taken = network.not_now(&mut network.run(words));
    assert!(taken.contains("nrwtun") && taken.contains("serves"), "{taken}");
    let words_of_link = words.replace("nrwtun", &network.link);
    let taken = network.refused(&mut network.run(&words_of_link));
    assert!(taken.contains(&network.link) && taken.contains("exists"), "{taken}");
    gateway.end();
    let left = |network: &Network| {
        let routes = ip(&format!("-n {} route show 192.0.2.53", network.gateway));
        ip(&format!("-n {} -o link", network.gateway)).contains("nrwtun")
            || !routes.trim().is_empty()
    };
    assert!(!left(&network), "the machine is as it was");

    // If it is killed, it leaves nothing either, and the next one starts.
    drop(network.start(words));
    assert!(!left(&network), "after SIGKILL");
    network.start(words).end();
}

#[test]
fn packet_sockets_serve_an_address_on_the_link() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    // These addresses belong to nobody: the gateway answers ARP and neighbour solicitations for
    // them.
    let service = addresses(["10.9.0.53", "2001:db8:9::53"]);
    let words = format!(
        "--user-link packet --interface {} --server 10.9.0.53 --server 2001:db8:9::53",
        network.link
    );
    let gateway = network.start(&words);
    compare(&network, service);
    thousand(&network, service);
    gateway.end();
}

#[test]
fn what_cannot_work_is_refused_with_the_mend() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    let refused = |words: &str| network.refused(&mut network.run(words));
    let not_now = |words: &str| network.not_now(&mut network.run(words));
    for link in ["tun", "packet"] {
        let line =
            refused(&format!("--user-link {link} --interface {} --server 10.9.0.1", network.link));
        assert!(line.contains("10.9.0.1") && line.contains("kernel's TCP"), "{line}");
    }
    let line = not_now("--user-link packet --interface nowhere0 --server 192.0.2.53");
    assert!(line.contains("nowhere0") && line.contains("does not exist"), "{line}");
    let line = not_now(
        "--interface nrwtun --server 192.0.2.53 --user-upstream 127.0.0.1:9 --server-wait 100ms",
    );
    assert!(line.contains("127.0.0.1:9") && line.contains("does not answer"), "{line}");
    let line = refused("--interface nrwtun --server 127.0.0.1");
    assert!(line.contains("user.upstream"), "{line}");

    for (link, capability) in [("tun", "net_admin"), ("packet", "net_raw")] {
        let mut command = inside(&network.gateway, "setpriv");
        command
            .arg(format!("--bounding-set=-{capability}"))
            .args([env!("CARGO_BIN_EXE_narrows-gateway"), "run", "--mode", "user"])
            .args([
                "--user-upstream",
                "127.0.0.1:5353",
                "--server",
                "192.0.2.53",
                "--user-link",
                link,
            ])
            .args(["--interface", if link == "tun" { "nrwtun" } else { &network.link }]);
        let line = network.refused(&mut command);
        assert!(line.contains(&format!("CAP_{}", capability.to_uppercase())), "{line}");
    }
    assert!(!ip(&format!("-n {} -o link", network.gateway)).contains("nrwtun"));
}

// Long: one gateway runs, and all commands look at it.
#[test]
fn status_top_and_metrics_show_a_gateway_that_runs_and_detach_names_it() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    network.forward();
    let words = "--interface nrwtun --server 192.0.2.53 --metrics 127.0.0.1:9919 --close fin";
    let gateway = network.start(words);
    network.in_client(|| {
        for n in 0..30 {
            let mut stream = connect("192.0.2.53:53".parse().expect("an address"));
            stream.write_all(&query(n, SMALL, 1)).expect("sent");
            receive(&mut stream);
        }
    });
    // A zone transfer continues with TCP, and stays while the client does not read it.
    let _transfer = network.in_client(|| {
        let mut stream = connect("192.0.2.53:53".parse().expect("an address"));
        stream.write_all(&query(7, "example.test", AXFR)).expect("sent");
        receive(&mut stream);
        stream
    });

    let output = network.ask("status --interface nrwtun --json --interval 100ms");
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&status["mode"], &status["user"]["link"]), (&"user".into(), &"tun".into()));
    assert_eq!(status["daemon"], gateway.0.id());
    assert_eq!(
        (&status["counters"]["query"], &status["counters"]["reply"]),
        (&30.into(), &30.into())
    );
    assert_eq!(status["user"]["relays"], 1);
    assert_eq!(status["user"]["upstream"][0], "127.0.0.1:5353");
    assert_eq!(
        (&status["settings"]["close"], &status["mss"]["ipv4"]),
        (&"fin".into(), &1460.into())
    );
    assert_eq!(status["per_second"]["query"], 0.0);
    let at_rest: u64 = status["entries"]
        .as_object()
        .expect("states")
        .values()
        .filter_map(serde_json::Value::as_u64)
        .sum();
    assert!(at_rest <= 30, "{status}");
    assert!(status.get("sources").is_none() && status.get("at_ns").is_none(), "{status}");

    let text =
        String::from_utf8_lossy(&network.ask("status --interface nrwtun").stdout).into_owned();
    for part in [
        "nrwtun: in user space with a TUN device",
        "closes after the reply",
        "query ",
        "1 of 1024 connections with TCP",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // Pictures of a time in which queries arrive.
    let top = inside(&network.gateway, env!("CARGO_BIN_EXE_narrows-gateway"))
        .args(["top", "--interface", "nrwtun", "--interval", "1s", "--times", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is built");
    network.in_client(|| {
        for n in 0..40 {
            let mut stream = connect("192.0.2.53:53".parse().expect("an address"));
            stream.write_all(&query(n, SMALL, 1)).expect("sent");
            receive(&mut stream);
            thread::sleep(Duration::from_millis(20));
        }
    });
    let top =
        String::from_utf8_lossy(&top.wait_with_output().expect("it ends").stdout).into_owned();
    let busiest: Vec<&str> = top.lines().filter(|line| line.starts_with("10.9.0.2 ")).collect();
    let rate =
        |line: &str| line.split_whitespace().nth(1).and_then(|rate| rate.parse::<f64>().ok());
    assert!(busiest.iter().any(|line| rate(line).is_some_and(|rate| rate > 1.0)), "{top}");

    // Metrics are at most a second old.
    let metrics = || {
        let mut reply = String::new();
        let space = fs::File::open(format!("/run/netns/{}", network.gateway)).expect("it is there");
        thread::scope(|scope| {
            scope.spawn(|| {
                setns(space, CloneFlags::CLONE_NEWNET).expect("root may");
                let mut stream = TcpStream::connect("127.0.0.1:9919").expect("it listens");
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
                stream.read_to_string(&mut reply).expect("an answer");
            });
        });
        reply
    };
    let until = Instant::now() + Duration::from_secs(10);
    let wanted = "narrows_gateway_query_total{interface=\"nrwtun\",mode=\"user\"} 70";
    while !metrics().contains(wanted) {
        assert!(Instant::now() < until, "{}", metrics());
        thread::sleep(Duration::from_millis(100));
    }

    // Nobody else is answered. The binary's directory may be closed to other users, so they get a
    // copy.
    let folder = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("a folder");
    let copy = folder.path().join("narrows-gateway");
    fs::copy(env!("CARGO_BIN_EXE_narrows-gateway"), &copy).expect("a copy");
    let output = inside(&network.gateway, "setpriv")
        .args(["--reuid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["status", "--interface", "nrwtun"])
        .output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("root alone"), "{said}");

    let detach = network.ask("detach --interface nrwtun");
    let said = String::from_utf8_lossy(&detach.stderr).into_owned();
    assert_eq!(detach.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("kill {}", gateway.0.id())), "{said}");

    drop(gateway); // it was killed: what it leaves must not look like a running gateway
    assert_eq!(network.ask("status --interface nrwtun").status.code(), Some(2));
    assert!(network.ask("detach --interface nrwtun").status.success());
    network.start(words).end();
}

#[test]
fn two_gateways_of_an_interface_do_not_get_in_each_others_way() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    let words =
        |last| format!("--user-link packet --interface {} --server 10.9.0.{last}", network.link);
    let gateway = network.start(&words(53));
    let line = network.not_now(&mut network.run(&words(54)));
    assert!(line.contains(&gateway.0.id().to_string()) && line.contains("serves"), "{line}");
    let ask = || {
        network.in_client(|| {
            let mut stream = connect("10.9.0.53:53".parse().expect("an address"));
            stream.write_all(&query(7, SMALL, 1)).expect("sent");
            receive(&mut stream).len()
        })
    };
    assert!(ask() > 30);
    gateway.end();

    // If another user has taken the name, the gateway still runs, and its log can still be
    // followed.
    let name = format!("narrows-gateway/{}", network.link);
    let squat = format!(
        r#"socket(S, AF_UNIX, SOCK_STREAM, 0) && bind(S, pack_sockaddr_un("\0{name}")) && listen(S, 5) or die; $| = 1; print "1"; sleep 60"#
    );
    let mut other = inside(&network.gateway, "setpriv")
        .args(["--reuid=65534", "--clear-groups", "perl", "-MSocket", "-e", &squat])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut byte = [0];
    other.stdout.as_mut().expect("a pipe").read_exact(&mut byte).expect("it has the name");
    let gateway = network.start(&words(53));
    assert!(ask() > 30);
    let said = network.ask(&format!("status --interface {}", network.link));
    assert_ne!(said.status.code(), Some(0));
    gateway.end();
    other.kill().expect("it runs");
    other.wait().expect("it ends");
}
