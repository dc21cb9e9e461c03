//! The eBPF programs, loaded but not attached, and run on single frames by `bpf_prog_run`.

use std::mem::MaybeUninit;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Map, MapCore, MapFlags, OpenObject, ProgramInput};
use narrows_gateway::core::{Counter, Settings};
use narrows_gateway::kernel::settings::Plain;
use narrows_gateway::kernel::types::{flow, flow_key, opens, settings, source};
use narrows_gateway::kernel::{GatewaySkel, GatewaySkelBuilder};

pub use super::conversation::RING_SIZE;

pub const XDP_DROP: u32 = 1;
pub const XDP_PASS: u32 = 2;
pub const XDP_TX: u32 = 3;

pub const RING_UNIT: u32 = 64;

/// Loads the programs, or ends the test.
macro_rules! programs {
    ($name:literal) => {
        match $crate::common::programs::Programs::load($name) {
            Some(programs) => programs,
            None => return,
        }
    };
}
pub(crate) use programs;

/// Runs something and checks what it counted.
pub fn counted<T>(programs: &Programs, counters: &[Counter], run: impl FnOnce() -> T) -> T {
    let before: Vec<_> = Counter::ALL.iter().map(|&counter| programs.count(counter)).collect();
    let value = run();
    for (&counter, before) in Counter::ALL.iter().zip(before) {
        let expected = counters.iter().filter(|&&one| one == counter).count() as u64;
        assert_eq!(programs.count(counter) - before, expected, "{counter:?}");
    }
    value
}

/// The programs, with their own maps.
pub struct Programs {
    pub skel: GatewaySkel<'static>,
    server: std::cell::Cell<Option<UdpSocket>>,
}

impl Programs {
    /// Loads the XDP program with the settings of [`super::conversation::settings`], in a network
    /// namespace of the calling thread, with a server that reads datagrams. If this process may not
    /// do so, prints what is missing and returns `None`; with CI set it must be able to.
    pub fn load(name: &str) -> Option<Self> {
        Self::load_some(name, &super::conversation::settings(), true, false)
    }

    /// Loads the tc programs as [`Self::load`] loads the XDP program. What they send goes to the
    /// loopback interface.
    pub fn load_with_tc(name: &str) -> Option<Self> {
        Self::load_some(name, &super::conversation::settings(), false, true)
    }

    /// Loads all programs.
    pub fn load_all(name: &str) -> Option<Self> {
        Self::load_with(name, &super::conversation::settings())
    }

    /// Loads all programs, with the tables and servers of a core with these settings.
    pub fn load_with(name: &str, core: &Settings) -> Option<Self> {
        Self::load_some(name, core, true, true)
    }

    fn load_some(name: &str, core: &Settings, xdp: bool, tc: bool) -> Option<Self> {
        if !may_run(name) {
            return None;
        }
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("root may");
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.expect("ip is there").success());
        let place: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open =
            GatewaySkelBuilder::default().open(place).expect("the object is well-formed");
        open.progs.gateway_adopt.set_autoload(tc);
        open.progs.gateway_egress.set_autoload(tc);
        open.progs.gateway_xdp.set_autoload(xdp);
        let rodata = open.maps.rodata_data.as_deref_mut().expect("read-only data");
        let margin = open.maps.ring.value_size() - rodata.RING_SIZE;
        rodata.RING_SIZE = core.ring as u32;
        open.maps.ring.set_value_size(core.ring as u32 + margin).expect("a size");
        // For `twin.rs`: copying it out of the kernel would take longer than everything else there.
        open.maps.ring.set_map_flags(libbpf_rs::libbpf_sys::BPF_F_MMAPABLE).expect("a flag");
        open.maps.syncache_buckets.set_max_entries(core.hashsize).expect("a size");
        let skel = open.load().expect("the verifier accepts the program");
        let programs = Self { skel, server: std::cell::Cell::new(None) };
        programs.start_server();
        for (at, address) in (0u8..).zip(&core.servers) {
            programs.add_server(*address, at);
        }
        programs.set(Self::settings());
        Some(programs)
    }

    /// The DNS server, as far as the programs look for it.
    pub fn start_server(&self) {
        self.server.set(Some(UdpSocket::bind(("::", 53)).expect("a namespace of its own")));
    }

    /// Ends the server.
    pub fn stop_server(&self) {
        self.server.set(None);
    }

    /// The settings of the core's tests, in the middle of a cookie's slot.
    pub fn settings() -> settings {
        settings {
            wall_offset_ns: 1_700_000_000_000_000_000 - boot_ns(),
            previous_until_ns: u64::MAX,
            ..settings::from(&super::conversation::settings())
        }
    }

    pub fn set(&self, settings: settings) {
        put(&self.skel.maps.settings, &0u32.to_ne_bytes(), settings.bytes());
    }

    pub fn add_server(&self, address: IpAddr, number: u8) {
        put(&self.skel.maps.servers, &mapped(address), &[number]);
    }

    /// Runs the XDP program on a frame. Returns its verdict and the resulting frame.
    pub fn xdp(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        let mut out = vec![0; 1 << 16];
        let input =
            ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..Default::default() };
        let output = self.skel.progs.gateway_xdp.test_run(input).expect("the program runs");
        (output.return_value, output.data.expect("a frame").to_vec())
    }

    /// Runs the tc egress program on a frame. Returns its verdict and the resulting frame.
    pub fn egress(&self, frame: &[u8]) -> (i32, Vec<u8>) {
        tc(&self.skel.progs.gateway_egress, frame)
    }

    /// How long that takes.
    pub fn egress_time(&self, frame: &[u8]) -> Duration {
        let input = ProgramInput { data_in: Some(frame), ..Default::default() };
        self.skel.progs.gateway_egress.test_run(input).expect("the program runs").duration
    }

    /// Runs the tc ingress program on a frame. Returns its verdict and the resulting frame.
    pub fn adopt(&self, frame: &[u8]) -> (i32, Vec<u8>) {
        tc(&self.skel.progs.gateway_adopt, frame)
    }

    /// Names on the list of large replies, and until when.
    pub fn large(&self) -> Vec<(u64, u64)> {
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"));
        let map = &self.skel.maps.large;
        let until = |key: &[u8]| map.lookup(key, MapFlags::ANY).ok().flatten();
        map.keys().filter_map(|key| until(&key).map(|until| (word(&key), word(&until)))).collect()
    }

    /// How long the program takes for a frame: the mean of `repeat` runs in a row, each on the
    /// result of the one before.
    pub fn xdp_time(&self, frame: &[u8], repeat: u32) -> Duration {
        let input = ProgramInput { data_in: Some(frame), repeat, ..Default::default() };
        self.skel.progs.gateway_xdp.test_run(input).expect("the program runs").duration
    }

    /// The total over all CPUs.
    pub fn count(&self, counter: Counter) -> u64 {
        let key = (counter as u32).to_ne_bytes();
        let values = self.skel.maps.counters.lookup_percpu(&key, MapFlags::ANY);
        let values = values.expect("the map can be read").expect("a counter");
        values.iter().map(|value| u64::from_ne_bytes(value[..8].try_into().expect("8 bytes"))).sum()
    }

    /// All counters that are not zero.
    pub fn counts(&self) -> Vec<(Counter, u64)> {
        let all = Counter::ALL.iter().map(|&counter| (counter, self.count(counter)));
        all.filter(|&(_, count)| count > 0).collect()
    }

    pub fn flow(&self, key: &flow_key) -> Option<flow> {
        let value = self.skel.maps.flows.lookup(key.bytes(), MapFlags::ANY);
        value.expect("the map can be read").and_then(|bytes| flow::from_bytes(&bytes))
    }

    pub fn set_flow(&self, key: &flow_key, flow: &flow) {
        put(&self.skel.maps.flows, key.bytes(), flow.bytes());
    }

    /// The open queries of a connection.
    pub fn opens(&self, key: &flow_key) -> Option<opens> {
        let value = self.skel.maps.opens.lookup(key.bytes(), MapFlags::ANY);
        value.expect("the map can be read").and_then(|bytes| opens::from_bytes(&bytes))
    }

    pub fn set_opens(&self, key: &flow_key, opens: &opens) {
        put(&self.skel.maps.opens, key.bytes(), opens.bytes());
    }

    /// All entries.
    pub fn flows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let map = &self.skel.maps.flows;
        let value = |key: &[u8]| map.lookup(key, MapFlags::ANY).ok().flatten();
        map.keys().filter_map(|key| value(&key).map(|value| (key, value))).collect()
    }

    pub fn remove_flows(&self) {
        for (key, _) in self.flows() {
            self.skel.maps.flows.delete(&key).expect("it is there");
        }
    }

    /// Entries of the map of sources.
    pub fn sources(&self) -> Vec<source> {
        let map = &self.skel.maps.sources;
        let value = |key: Vec<u8>| map.lookup(&key, MapFlags::ANY).ok().flatten();
        map.keys().filter_map(value).filter_map(|bytes| source::from_bytes(&bytes)).collect()
    }

    pub fn remember_large(&self, hash: u64, until_ns: u64) {
        put(&self.skel.maps.large, &hash.to_ne_bytes(), &until_ns.to_ne_bytes());
    }

    /// SYN-cache mode: the number of entries in all buckets, and the total that the programs keep.
    pub fn syncache(&self) -> (Vec<u32>, u32) {
        let read = |map: &dyn Fn(u32) -> Vec<u8>, at| {
            u32::from_ne_bytes(map(at)[..4].try_into().expect("4 bytes"))
        };
        let buckets = |at: u32| get(&self.skel.maps.syncache_buckets, at);
        let entries = |at: u32| get(&self.skel.maps.syncache_entries, at);
        ((0..4).map(|at| read(&buckets, at)).collect(), read(&entries, 0))
    }

    /// Where the next bytes would be stored, in units.
    pub fn ring_head(&self) -> u32 {
        u32::from_ne_bytes(get(&self.skel.maps.ring_head, 0)[..4].try_into().expect("4 bytes"))
    }

    pub fn set_ring_head(&self, units: u32) {
        put(&self.skel.maps.ring_head, &0u32.to_ne_bytes(), &units.to_ne_bytes());
    }

    /// `length` bytes at a position of the ring.
    pub fn ring(&self, position: u32, length: usize) -> Vec<u8> {
        let at = ring_offset(position);
        get(&self.skel.maps.ring, 0)[at..at + length].to_vec()
    }

    /// Stores bytes as egress stores a reply. Returns their position.
    pub fn ring_store(&self, bytes: &[u8]) -> u32 {
        let position = self.ring_head();
        let mut ring = get(&self.skel.maps.ring, 0);
        let at = ring_offset(position);
        ring[at..at + bytes.len()].copy_from_slice(bytes);
        put(&self.skel.maps.ring, &0u32.to_ne_bytes(), &ring);
        self.set_ring_head(position.wrapping_add((bytes.len() as u32).div_ceil(RING_UNIT)));
        position
    }
}

fn tc(program: &libbpf_rs::ProgramMut<'_>, frame: &[u8]) -> (i32, Vec<u8>) {
    let mut out = vec![0; 1 << 17];
    let input =
        ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..Default::default() };
    let output = program.test_run(input).expect("the program runs");
    (output.return_value as i32, output.data.expect("a frame").to_vec())
}

/// A listener of this protocol on the DNS port, for IPv4 and IPv6; `None` if the kernel does not
/// have the protocol.
pub fn listen(protocol: i32) -> Option<OwnedFd> {
    // SAFETY: socket(2) takes numbers, and returns a new descriptor or an error.
    #[allow(unsafe_code, reason = "nix has no number for MPTCP")]
    let socket = unsafe {
        let socket = nix::libc::socket(nix::libc::AF_INET6, nix::libc::SOCK_STREAM, protocol);
        (socket >= 0).then(|| OwnedFd::from_raw_fd(socket))?
    };
    let any = nix::sys::socket::SockaddrIn6::from(std::net::SocketAddrV6::new(
        std::net::Ipv6Addr::UNSPECIFIED,
        53,
        0,
        0,
    ));
    // The kernel closes an MPTCP listener in a worker (mptcp_worker, net/mptcp/protocol.c, Linux
    // 6.18), so its port is free only some time after close(2).
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        match nix::sys::socket::bind(socket.as_raw_fd(), &any) {
            Err(nix::errno::Errno::EADDRINUSE) if std::time::Instant::now() < deadline => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            bound => break bound.expect("a namespace of its own"),
        }
    }
    let backlog = nix::sys::socket::Backlog::new(8).expect("a number");
    nix::sys::socket::listen(&socket, backlog).expect("it is bound");
    Some(socket)
}

/// Whether this process may run programs. If not, prints what is missing; with CI set it must be
/// able to.
pub fn may_run(name: &str) -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    let hint = "hint: sudo -E cargo test -p narrows-gateway --features ebpf";
    assert!(std::env::var_os("CI").is_none(), "{name} must run in CI; {hint}");
    eprintln!("SKIP {name}: bpf_prog_run needs root; {hint}");
    false
}

/// The boot clock in nanoseconds.
pub fn boot_ns() -> u64 {
    let clock = nix::time::ClockId::CLOCK_BOOTTIME;
    let now = nix::time::clock_gettime(clock).expect("the clock is there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// An address as 16 bytes.
pub fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn ring_offset(position: u32) -> usize {
    (position.wrapping_mul(RING_UNIT) % RING_SIZE) as usize
}

fn get(map: &Map<'_>, at: u32) -> Vec<u8> {
    let value = map.lookup(&at.to_ne_bytes(), MapFlags::ANY);
    value.expect("the map can be read").expect("an element of an array")
}

fn put(map: &Map<'_>, key: &[u8], value: &[u8]) {
    map.update(key, value, MapFlags::ANY).expect("the map takes it");
}
