//! Two network namespaces joined by a veth pair, with a DNS server and gateways in one and a client
//! in the other.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libbpf_rs::libbpf_sys;
use narrows_gateway::kernel::links::{Hook, Link, XdpMode};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The server's address, on `g0`.
pub(crate) const SERVER: &str = "10.77.0.1";
/// The program.
pub(crate) const GATEWAY: &str = env!("CARGO_BIN_EXE_narrows-gateway");

/// The surroundings of a test. They are removed when this value is dropped, even by a panic.
pub(crate) struct Place {
    name: String,
    folder: PathBuf,
    passes: Option<Link>,
}

/// A gateway in the foreground.
pub(crate) struct Run {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Its first line.
    pub(crate) ready: Value,
}

/// Returns why these tests cannot run here; `None` if they can. In CI they must run.
pub(crate) fn skip() -> Option<&'static str> {
    let why = if !nix::unistd::geteuid().is_root() {
        "needs root"
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "needs a kernel with BTF"
    } else if ["ip", "bpftool"].iter().any(|tool| Command::new(tool).arg("-V").output().is_err()) {
        "needs ip and bpftool; apt-get install iproute2 bpftool"
    } else {
        return None;
    };
    eprintln!("SKIP: {why}");
    assert!(std::env::var_os("CI").is_none(), "CI must not skip: {why}");
    Some(why)
}

impl Place {
    /// Makes it. The server answers over TCP and UDP, but over UDP it never answers for names that
    /// begin with `s`.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("nrw-control-{}-{number}", std::process::id());
        let folder = tempfile::Builder::new()
            .prefix(&name)
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a folder")
            .keep();
        fs::create_dir(folder.join("bpf")).expect("a folder");
        let mut place = Self { name, folder, passes: None };
        let (server, client) = (place.name.clone(), place.client_name());
        for namespace in [&server, &client] {
            ip(&["netns", "add", namespace]);
            ip(&["-n", namespace, "link", "set", "lo", "up"]);
        }
        place.join();
        place.at_server(serve);
        place
    }

    /// Makes the veth pair.
    pub(crate) fn join(&mut self) {
        let (server, client) = (self.name.clone(), self.client_name());
        ip(&[
            "-n", &server, "link", "add", "g0", "type", "veth", "peer", "name", "c0", "netns",
            &client,
        ]);
        for (namespace, link, address) in
            [(&server, "g0", "10.77.0.1/24"), (&client, "c0", "10.77.0.2/24")]
        {
            ip(&["-n", namespace, "addr", "add", address, "dev", link]);
            ip(&["-n", namespace, "link", "set", link, "up"]);
        }
        // veth wakes its receiver for frames of XDP_TX only if the receiver has an XDP program,
        // too.
        self.passes = Some(self.at_client(|| {
            let index = nix::net::if_::if_nametoindex("c0").expect("c0");
            Link::create(pass_all(c"pass").as_fd(), index, Hook::Xdp(XdpMode::Native))
                .expect("root may")
        }));
    }

    /// Leaves the client's end without an XDP program, as most are.
    ///
    /// A process that another test starts may hold a copy of the link's descriptor for a moment, so
    /// closing ours would not take the program off at once.
    pub(crate) fn take_program_off_client(&mut self) {
        if let Some(link) = self.passes.take() {
            link.detach().expect("the client's program comes off");
        }
    }

    /// The directory with the only gateway's pins.
    pub(crate) fn pins(&self) -> PathBuf {
        let all = fs::read_dir(self.path("bpf/narrows-gateway")).expect("pins");
        all.flatten().next().expect("a gateway").path()
    }

    /// Runs something in the server's namespace.
    pub(crate) fn at_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.name, work)
    }

    /// Runs something in the client's namespace.
    pub(crate) fn at_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.client_name(), work)
    }

    /// A path in the test's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs a command of the program to its end in the server's namespace. `prefix` may change what
    /// it runs as.
    pub(crate) fn command(&self, prefix: &[&str], arguments: &[&str]) -> Output {
        self.prepare(prefix, arguments).stdin(Stdio::null()).output().expect("nsenter runs")
    }

    /// Starts `run` for this place's server, with more arguments, and waits for its first line. The
    /// mode is native if none is given.
    pub(crate) fn start(&self, arguments: &[&str]) -> Run {
        self.start_as(&[], arguments)
    }

    /// Starts `run` as [`Self::start`] does. `prefix` may change what it runs as.
    pub(crate) fn start_as(&self, prefix: &[&str], arguments: &[&str]) -> Run {
        self.try_start(prefix, arguments)
            .unwrap_or_else(|(code, said)| panic!("expected a ready line, not {code:?}: {said}"))
    }

    /// Starts `run` as [`Self::start_as`] does. If it ends before its first line, returns its exit
    /// code and everything that was logged.
    pub(crate) fn try_start(
        &self,
        prefix: &[&str],
        arguments: &[&str],
    ) -> Result<Run, (Option<i32>, String)> {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("a log");
        let mut all = [&["run", "--server", SERVER, "--check-every", "0 s"], arguments].concat();
        for default in [["--mode", "native"], ["--loglevel", "3"], ["--drain-for", "0 s"]] {
            if !arguments.contains(&default[0]) {
                all.extend(default);
            }
        }
        let mut child = self
            .prepare(prefix, &all)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("nsenter runs");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("a line");
        match serde_json::from_str(&line) {
            Ok(ready) => Ok(Run { child, out, ready }),
            Err(_) => Err((child.wait().expect("it ends").code(), self.log())),
        }
    }

    /// Everything that gateways logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// `status --json`.
    pub(crate) fn status(&self) -> Value {
        let output = self.command(&[], &["status", "--json", "--interval", "0"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// A counter of `status`.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.status()["counters"][name].as_u64().expect("a counter")
    }

    /// What a command must not change: the link with all its attributes, programs, pins, settings
    /// of the kernel.
    pub(crate) fn machine(&self) -> String {
        let link = self.at_server(|| run("ip", &["-d", "link", "show", "dev", "g0"]));
        let programs = self.at_server(|| run("bpftool", &["net"]));
        let pins: Vec<String> = list(&self.path("bpf"));
        format!("{link}{programs}{pins:?}")
    }

    /// A connection from the client.
    pub(crate) fn connect(&self) -> TcpStream {
        self.at_client(|| {
            let server: SocketAddr = format!("{SERVER}:53").parse().expect("an address");
            let stream =
                TcpStream::connect_timeout(&server, Duration::from_secs(5)).expect("it connects");
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
            stream
        })
    }

    fn client_name(&self) -> String {
        format!("{}c", self.name)
    }

    fn prepare(&self, prefix: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name))
            .args(prefix)
            .arg(GATEWAY)
            .args(arguments);
        if !arguments.contains(&"--interface") {
            command.args(["--interface", "g0"]);
        }
        if !arguments.contains(&"--bpffs") {
            command.arg("--bpffs").arg(self.path("bpf"));
        }
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        self.passes = None;
        for name in [&self.name, &self.client_name()] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
        // The last pins disappear with their file system.
        for mounted in ["bpf", "other"] {
            let _ = nix::mount::umount(&self.path(mounted));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Run {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.ready["pid"].as_u64().expect("a number") as u32
    }

    /// The next line that it prints on stdout.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).expect("it runs");
    }

    /// Sends it a signal that ends it; returns its exit code, or `None` if the signal itself ended
    /// it.
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.child.wait().expect("it ends").code()
    }

    /// Its exit code, after it ends by itself.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A failed test leaves the gateway running; otherwise it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks on a connection and returns the reply, after checking that it answers this name.
pub(crate) fn ask(stream: &mut TcpStream, name: &str) -> std::io::Result<Vec<u8>> {
    let message = query(name);
    let mut bytes = (message.len() as u16).to_be_bytes().to_vec();
    bytes.extend(&message);
    stream.write_all(&bytes)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut reply)?;
    assert_eq!(reply[2] & 0x80, 0x80, "QR");
    assert_eq!(reply[12..12 + name.len() + 1], message[12..12 + name.len() + 1]);
    Ok(reply)
}

fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8];
    message.extend(name.bytes());
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// A server that returns each query as its reply.
fn serve() {
    let udp = UdpSocket::bind((SERVER, 53)).expect("port 53");
    let tcp = TcpListener::bind((SERVER, 53)).expect("port 53");
    // Both threads end with the test's process. Until then their sockets keep the namespace, which
    // does no harm.
    std::thread::spawn(move || {
        let mut message = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut message) {
            if message[13] != b's' {
                message[2] |= 0x80;
                let _ = udp.send_to(&message[..length], from);
            }
        }
    });
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            std::thread::spawn(move || {
                let mut length = [0; 2];
                // As many queries as Go's miekg/dns takes on a connection (server.go,
                // maxTCPQueries).
                for _ in 0..128 {
                    if stream.read_exact(&mut length).is_err() {
                        return;
                    }
                    let mut message = vec![0; u16::from_be_bytes(length).into()];
                    if stream.read_exact(&mut message).is_err() {
                        return;
                    }
                    message[2] |= 0x80;
                    let _ = stream.write_all(&[&length[..], &message].concat());
                }
            });
        }
    });
}

/// Runs something in a thread inside a network namespace.
fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(Path::new("/run/netns").join(name)).expect("the namespace");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(&namespace, CloneFlags::CLONE_NEWNET).expect("root may");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// An XDP program of this name that passes everything: r0 = XDP_PASS, exit.
#[allow(unsafe_code, reason = "libbpf's C functions")]
pub(crate) fn pass_all(name: &CStr) -> OwnedFd {
    let instruction = |code, imm| libbpf_sys::bpf_insn { code, imm, ..Default::default() };
    let program = [instruction(0xb7, 2), instruction(0x95, 0)];
    // SAFETY: names that end in zero, and as many instructions as stated. All outlive the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_XDP,
            name.as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    assert!(fd >= 0, "the program loads: {fd}");
    // SAFETY: the descriptor is new, and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn ip(arguments: &[&str]) {
    run("ip", arguments);
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn list(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .map(|entries| entries.flatten().collect::<Vec<_>>())
        .unwrap_or_default();
    let mut all: Vec<String> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // These belong to the file system itself and exist after mounting.
    all.retain(|name| !name.ends_with(".debug"));
    all.sort();
    all
}
