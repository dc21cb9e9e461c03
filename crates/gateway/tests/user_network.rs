//! The user-space data path in a network of namespaces, before an unmodified NSD: what clients get through the gateway is
//! what the kernel's TCP gives them. Needs root, iproute2, util-linux and NSD.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

static COUNT: AtomicU32 = AtomicU32::new(0);

const SMALL: &str = "www.example.test";
/// Two segments at least.
const SEGMENTED: &str = "mid.example.test";
/// Beyond what NSD sends over UDP here.
const LARGE: &str = "big.example.test";
const TXT: u16 = 16;
const AXFR: u16 = 252;

/// Says SKIP where the machine cannot run this; with CI set that is a failure.
fn can_run() -> bool {
    let lacking = if !nix::unistd::geteuid().is_root() {
        Some("needs root: network namespaces; run as root: make test".to_owned())
    } else {
        let there = |tool: &&str| {
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                .iter()
                .any(|at| PathBuf::from(at).join(tool).exists())
        };
        let tools = ["ip", "nsd", "nsenter", "setpriv"];
        let gone = tools.iter().find(|tool| !there(tool));
        gone.map(|tool| {
            format!("{tool} is not installed; install it with: sh tools/install_test_tools.sh")
        })
    };
    if let Some(why) = &lacking {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("SKIP: {why}");
    }
    lacking.is_none()
}

/// A client's and a gateway's namespace with a link between them, and NSD in the latter. All goes with it.
struct Network {
    client: String,
    gateway: String,
    link: String,
    folder: PathBuf,
    nsd: Option<Child>,
}

impl Network {
    fn new() -> Self {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nrw-user-{}-{n}", std::process::id());
        let link = format!("nu{}-{n}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).expect("a folder");
        let mut network = Self {
            client: format!("{name}-c"),
            gateway: format!("{name}-g"),
            link,
            folder,
            nsd: None,
        };
        let (client, gateway, link) = (&network.client, &network.gateway, &network.link);
        ip(&format!("netns add {client}"));
        ip(&format!("netns add {gateway}"));
        ip(&format!("link add {link} netns {client} type veth peer name {link} netns {gateway}"));
        for (space, last) in [(client, 2), (gateway, 1)] {
            ip(&format!("-n {space} addr add 10.9.0.{last}/24 dev {link}"));
            ip(&format!("-n {space} addr add 2001:db8:9::{last}/64 dev {link} nodad"));
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} link set {link} up"));
        }
        network.start_nsd();
        network
    }

    fn start_nsd(&mut self) {
        let folder = self.folder.display();
        let mut zone = String::from(
            "$ORIGIN example.test.\n@ 60 IN SOA ns hostmaster 1 3600 600 86400 60\n@ 60 IN NS ns\n\
             ns 60 IN A 192.0.2.53\nwww 60 IN A 192.0.2.80\n",
        );
        for (name, count) in [("mid", 12), ("big", 100)] {
            for n in 0..count {
                zone += &format!("{name} 60 IN TXT \"{}{n}\"\n", "x".repeat(200));
            }
        }
        for n in 0..3000 {
            zone += &format!("h{n} 60 IN A 192.0.2.1\n");
        }
        fs::write(self.folder.join("zone"), zone).expect("a file");
        let config = format!(
            "server:\n ip-address: 127.0.0.1@5353\n ip-address: 10.9.0.1@5354\n username: \"\"\n chroot: \"\"\n \
             pidfile: \"{folder}/pid\"\n database: \"\"\n zonesdir: \"{folder}\"\n xfrdfile: \"{folder}/xfrd\"\n \
             xfrdir: \"{folder}\"\n zonelistfile: \"{folder}/list\"\n server-count: 1\n tcp-count: 400\n \
             ipv4-edns-size: 4096\n minimal-responses: yes\n rrl-ratelimit: 0\nremote-control:\n control-enable: no\n\
             zone:\n name: example.test\n zonefile: \"{folder}/zone\"\n provide-xfr: 0.0.0.0/0 NOKEY\n"
        );
        fs::write(self.folder.join("nsd.conf"), config).expect("a file");
        let nsd = inside(&self.gateway, "nsd")
            .args(["-d", "-c"])
            .arg(self.folder.join("nsd.conf"))
            .stderr(Stdio::null())
            .spawn()
            .expect("nsd starts");
        self.nsd = Some(nsd);
        let until = Instant::now() + Duration::from_secs(20);
        while !self.in_client(|| TcpStream::connect("10.9.0.1:5354").is_ok()) {
            assert!(Instant::now() < until, "nsd does not listen");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs in a thread whose sockets are the client's.
    fn in_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let enter = || {
                let space =
                    fs::File::open(format!("/run/netns/{}", self.client)).expect("it is there");
                setns(space, CloneFlags::CLONE_NEWNET).expect("root may");
                work()
            };
            scope.spawn(enter).join().expect("no panic")
        })
    }

    fn run(&self, words: &str) -> Command {
        let mut command = inside(&self.gateway, env!("CARGO_BIN_EXE_narrows-gateway"));
        command.args(["run", "--mode", "user"]);
        if !words.contains("--user-upstream") {
            command.args(["--user-upstream", "127.0.0.1:5353"]);
        }
        command.args(["--limits-syn-rate", "0", "--limits-query-rate", "0"]);
        command.args(words.split_whitespace());
        command
    }

    /// The gateway, once it says that it is ready.
    fn start(&self, words: &str) -> Gateway {
        let mut process = self.run(words).stdout(Stdio::piped()).spawn().expect("it is built");
        let mut line = Vec::new();
        let mut out = process.stdout.take().expect("a pipe");
        let mut byte = [0];
        while !line.ends_with(b"\n") && out.read(&mut byte).expect("a pipe") == 1 {
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.contains("\"ready\"") && line.contains("\"user\""), "{line}");
        Gateway(process)
    }

    /// What another of the gateway's commands says.
    fn ask(&self, words: &str) -> Output {
        inside(&self.gateway, env!("CARGO_BIN_EXE_narrows-gateway"))
            .args(words.split_whitespace())
            .output()
            .expect("it is built")
    }

    /// What a refused run says.
    fn refused(&self, command: &mut Command) -> String {
        let Output { status, stderr, .. } = command.output().expect("it is built");
        let text = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(2), "{text}");
        let line = text.lines().last().unwrap_or_default().to_owned();
        assert!(line.starts_with("error: ") && line.contains("hint: "), "{text}");
        line
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(mut nsd) = self.nsd.take() {
            // Its child goes with it: it is told to end, not killed.
            let pid = nix::unistd::Pid::from_raw(nsd.id().cast_signed());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _ = nsd.wait();
        }
        for space in [&self.client, &self.gateway] {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Gateway(Child);

impl Gateway {
    fn end(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        assert!(self.0.wait().expect("it ends").success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).output().expect("iproute2");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A command inside a namespace, which becomes it: its process is the command's own.
fn inside(space: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{space}")).arg(program);
    command
}

fn query(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0; 14];
    message[2..4].copy_from_slice(&id.to_be_bytes());
    message[7] = 1;
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    let length = (message.len() - 2) as u16;
    message[..2].copy_from_slice(&length.to_be_bytes());
    message
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream =
        TcpStream::connect_timeout(&to, Duration::from_secs(10)).expect("an answer to a SYN");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// The next message, with its two bytes of length.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut message = vec![0; 2];
    stream.read_exact(&mut message).expect("a message");
    message.resize(2 + usize::from(u16::from_be_bytes([message[0], message[1]])), 0);
    stream.read_exact(&mut message[2..]).expect("a message");
    message
}

/// A zone transfer's messages, up to the second SOA: NSD ends each zone with one, whose bytes end a message.
fn transfer(to: SocketAddr) -> Vec<Vec<u8>> {
    let mut stream = connect(to);
    stream.write_all(&query(7, "example.test", AXFR)).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half-closed");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the server closes");
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let rest = bytes.split_off(2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]])));
        messages.push(std::mem::replace(&mut bytes, rest));
    }
    messages
}

/// Through the gateway everything is as with the kernel's TCP.
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
            // Pipelined, a second time on the same connection, in pieces.
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
    ip(&format!("-n {} route add 192.0.2.53 via 10.9.0.1", network.client));
    ip(&format!("-n {} route add 2001:db8:53::53 via 2001:db8:9::1", network.client));
    let forward = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
    assert!(
        inside(&network.gateway, "sysctl")
            .arg("-qw")
            .args(forward)
            .status()
            .expect("it runs")
            .success()
    );

    let words = "--interface nrwtun --server 192.0.2.53 --server 2001:db8:53::53";
    let gateway = network.start(words);
    compare(&network, service);
    thousand(&network, service);
    let taken = network.refused(&mut network.run(words));
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

    // Killed, it leaves nothing either, and the next one starts.
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
    // Nobody has these: the gateway answers ARP and neighbour solicitations for them.
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
    for link in ["tun", "packet"] {
        let line =
            refused(&format!("--user-link {link} --interface {} --server 10.9.0.1", network.link));
        assert!(line.contains("10.9.0.1") && line.contains("kernel's TCP"), "{line}");
    }
    let line = refused("--user-link packet --interface nowhere0 --server 192.0.2.53");
    assert!(line.contains("nowhere0") && line.contains("does not exist"), "{line}");
    let line = refused(
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

#[test]
fn status_top_and_metrics_show_a_gateway_that_runs_and_detach_names_it() {
    if !can_run() {
        return;
    }
    let network = Network::new();
    ip(&format!("-n {} route add 192.0.2.53 via 10.9.0.1", network.client));
    inside(&network.gateway, "sysctl")
        .args(["-qw", "net.ipv4.ip_forward=1"])
        .status()
        .expect("run");
    let words = "--interface nrwtun --server 192.0.2.53 --metrics 127.0.0.1:9919 --close fin";
    let gateway = network.start(words);
    network.in_client(|| {
        for n in 0..30 {
            let mut stream = connect("192.0.2.53:53".parse().expect("an address"));
            stream.write_all(&query(n, SMALL, 1)).expect("sent");
            receive(&mut stream);
        }
    });
    // A zone transfer goes on with TCP, and stays while the client does not read it.
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

    // Pictures of a moment in which queries come.
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

    // Metrics are those of a second ago at most.
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

    // Nobody else is told.
    let output = inside(&network.gateway, "setpriv")
        .args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_narrows-gateway")])
        .args(["status", "--interface", "nrwtun"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Where the binary lies may be closed to others, too.
    if !said.contains("ermission denied") {
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("root alone"), "{said}");
    }

    let detach = network.ask("detach --interface nrwtun");
    let said = String::from_utf8_lossy(&detach.stderr).into_owned();
    assert_eq!(detach.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("kill {}", gateway.0.id())), "{said}");

    drop(gateway); // killed: nothing of it is taken for a gateway that runs
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
    let line = network.refused(&mut network.run(&words(54)));
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

    // A name that another user took keeps the gateway neither from running nor from being watched by its log.
    let name = format!("narrows-gateway/{}", network.link);
    let squat = format!(
        r#"socket(S, AF_UNIX, SOCK_STREAM, 0) && bind(S, pack_sockaddr_un("\0{name}")) && listen(S, 5) or die; $| = 1; print "1"; sleep 60"#
    );
    let mut other = inside(&network.gateway, "setpriv")
        .args(["--reuid=65534", "--clear-groups", "/usr/bin/perl", "-MSocket", "-e", &squat])
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
