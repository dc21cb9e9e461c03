//! A client's and a gateway's network namespace, and NSD.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) const SMALL: &str = "www.example.test";
/// Two segments at least.
pub(crate) const SEGMENTED: &str = "mid.example.test";
/// More than NSD sends over UDP here.
pub(crate) const LARGE: &str = "big.example.test";
pub(crate) const TXT: u16 = 16;
pub(crate) const AXFR: u16 = 252;

/// Prints SKIP if the machine cannot run this; with CI set that is a failure.
pub(crate) fn can_run() -> bool {
    let lacking = if !nix::unistd::geteuid().is_root() {
        Some("needs root: network namespaces; run as root: make test-gateway".to_owned())
    } else {
        let there = |tool: &&str| {
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                .iter()
                .any(|at| PathBuf::from(at).join(tool).exists())
        };
        let tools = ["ip", "nsd", "nsenter", "perl", "setpriv", "tc"];
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

/// Namespaces for a client and a gateway with a link between them, and NSD in the latter. Dropping
/// it removes everything.
pub(crate) struct Network {
    pub(crate) client: String,
    pub(crate) gateway: String,
    pub(crate) link: String,
    pub(crate) folder: PathBuf,
    pub(crate) nsd: Option<Child>,
}

impl Network {
    pub(crate) fn new() -> Self {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nrw-user-{}-{n}", std::process::id());
        let link = format!("nu{}-{n}", std::process::id());
        let folder = tempfile::Builder::new()
            .prefix(&name)
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder")
            .keep();
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

    /// The gateway's machine routes the service address into a TUN device; the client sends packets
    /// for it there.
    pub(crate) fn forward(&self) {
        for (service, through) in [("192.0.2.53", "10.9.0.1"), ("2001:db8:53::53", "2001:db8:9::1")]
        {
            ip(&format!("-n {} route add {service} via {through}", self.client));
        }
        let settings = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
        let status = inside(&self.gateway, "sysctl").arg("-qw").args(settings).status();
        assert!(status.expect("it runs").success());
    }

    pub(crate) fn start_nsd(&mut self) {
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

    pub(crate) fn stop_nsd(&mut self) {
        if let Some(mut nsd) = self.nsd.take() {
            // SIGTERM, unlike SIGKILL, lets it end its child too.
            let pid = nix::unistd::Pid::from_raw(nsd.id().cast_signed());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _ = nsd.wait();
        }
    }

    /// Runs something in a thread whose sockets belong to the client's namespace.
    pub(crate) fn in_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
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

    pub(crate) fn run(&self, words: &str) -> Command {
        let mut command = inside(&self.gateway, env!("CARGO_BIN_EXE_narrows-gateway"));
        command.args(["run", "--mode", "user"]);
        if !words.contains("--user-upstream") {
            command.args(["--user-upstream", "127.0.0.1:5353"]);
        }
        command.args(["--limits-syn-rate", "0", "--limits-query-rate", "0"]);
        command.args(words.split_whitespace());
        command
    }

    /// Starts the gateway and waits until it says that it is ready.
    pub(crate) fn start(&self, words: &str) -> Gateway {
        self.start_command(&mut self.run(words))
    }

    /// Starts the gateway as [`Self::start`] does. Also returns its further output on stderr.
    pub(crate) fn start_listening(&self, words: &str) -> (Gateway, ChildStderr) {
        let mut gateway = self.start_command(self.run(words).stderr(Stdio::piped()));
        let error = gateway.0.stderr.take().expect("a pipe");
        (gateway, error)
    }

    fn start_command(&self, command: &mut Command) -> Gateway {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it is built");
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

    /// The output of another command of the gateway.
    pub(crate) fn ask(&self, words: &str) -> Output {
        inside(&self.gateway, env!("CARGO_BIN_EXE_narrows-gateway"))
            .args(words.split_whitespace())
            .output()
            .expect("it is built")
    }

    /// The error of a run that is refused until somebody changes something.
    pub(crate) fn refused(&self, command: &mut Command) -> String {
        self.ends(2, command)
    }

    /// The error of a run that does not start now, but may start later.
    pub(crate) fn not_now(&self, command: &mut Command) -> String {
        self.ends(1, command)
    }

    fn ends(&self, code: i32, command: &mut Command) -> String {
        let Output { status, stderr, .. } = command.output().expect("it is built");
        let text = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(code), "{text}");
        let line = text.lines().last().unwrap_or_default().to_owned();
        assert!(line.starts_with("error: ") && line.contains("hint: "), "{text}");
        line
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop_nsd();
        for space in [&self.client, &self.gateway] {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) struct Gateway(pub(crate) Child);

impl Gateway {
    /// The exit code of a gateway that ends by itself, and its output.
    pub(crate) fn ended(mut self, mut error: ChildStderr) -> (Option<i32>, String) {
        let until = Instant::now() + Duration::from_secs(10);
        let status = loop {
            match self.0.try_wait().expect("it is ours") {
                Some(status) => break status,
                None => assert!(Instant::now() < until, "it goes on"),
            }
            thread::sleep(Duration::from_millis(50));
        };
        let mut text = String::new();
        error.read_to_string(&mut text).expect("a pipe");
        (status.code(), text)
    }

    pub(crate) fn end(mut self) {
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

pub(crate) fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).output().expect("iproute2");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A command inside a namespace; its process is the command's own.
pub(crate) fn inside(space: &str, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{space}")).arg(program);
    command
}

pub(crate) fn query(id: u16, name: &str, kind: u16) -> Vec<u8> {
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

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream =
        TcpStream::connect_timeout(&to, Duration::from_secs(10)).expect("an answer to a SYN");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    stream
}

/// The next message, with its two bytes of length.
pub(crate) fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut message = vec![0; 2];
    stream.read_exact(&mut message).expect("a message");
    message.resize(2 + usize::from(u16::from_be_bytes([message[0], message[1]])), 0);
    stream.read_exact(&mut message[2..]).expect("a message");
    message
}

/// The messages of a zone transfer, up to the second SOA. NSD ends each zone with an SOA, at the
/// end of a message.
pub(crate) fn transfer(to: SocketAddr) -> Vec<Vec<u8>> {
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
