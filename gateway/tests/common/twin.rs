//! The eBPF programs beside the core: loaded but not attached, and run on single frames by
//! `bpf_prog_run`.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject, ProgramInput, ProgramMut};
use narrows_gateway::core::{Counter, Flow, FlowKey, Now, Settings, State};
use narrows_gateway::kernel::settings::Plain;
use narrows_gateway::kernel::types::{cookie_key, flow, flow_key, settings};
use narrows_gateway::kernel::{GatewaySkel, GatewaySkelBuilder};
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket,
};

use super::programs::{boot_ns, mapped, may_run};

/// The programs, in a separate network namespace, with a socket that sees what else they send.
pub struct Twin {
    skel: GatewaySkel<'static>,
    line: std::os::fd::OwnedFd,
    /// The DNS server's socket, for which the programs look.
    _server: std::net::UdpSocket,
    wall_offset: Duration,
    ring: Ring,
}

impl Twin {
    /// Loads the programs with these settings. If this process may not do so, prints what is
    /// missing and returns `None`; with CI set it must be able to.
    pub fn load(name: &str, settings: &Settings) -> Option<Self> {
        if !may_run(name) {
            return None;
        }
        // The namespace belongs to this thread alone and disappears with it.
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a namespace");
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.expect("iproute2 is there").success());
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let line = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .expect("a line");

        let place: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open =
            GatewaySkelBuilder::default().open(place).expect("the object is well-formed");
        let rodata = open.maps.rodata_data.as_deref_mut().expect("read-only data");
        let margin = open.maps.ring.value_size() - rodata.RING_SIZE;
        rodata.RING_SIZE = settings.ring as u32;
        open.maps.ring.set_value_size(settings.ring as u32 + margin).expect("a size");
        // Copying it out of the kernel would take longer than everything else here.
        open.maps.ring.set_map_flags(libbpf_rs::libbpf_sys::BPF_F_MMAPABLE).expect("a flag");
        open.maps.syncache_buckets.set_max_entries(settings.hashsize).expect("a size");
        let skel = open.load().expect("the verifier accepts the programs");
        for (at, address) in (0u8..).zip(&settings.servers) {
            skel.maps.servers.update(&mapped(*address), &[at], MapFlags::ANY).expect("room");
        }
        // In the middle of a cookie's slot.
        let wall_offset = Duration::from_secs(1_700_000_016 / 32 * 32 + 10) - boot();
        let shared = shared(settings, wall_offset);
        let zero = 0u32.to_ne_bytes();
        skel.maps.settings.update(&zero, shared.bytes(), MapFlags::ANY).expect("room");
        let server = std::net::UdpSocket::bind(("::", 53)).expect("a namespace of its own");
        let ring = Ring::map(&skel.maps.ring, settings.ring);
        Some(Self { skel, line, _server: server, wall_offset, ring })
    }

    /// The time that the programs see.
    pub fn now(&self) -> Now {
        let boot = boot();
        Now { boot, wall: boot + self.wall_offset }
    }

    /// Runs the XDP program on a frame. Returns its verdict and the resulting frame.
    pub fn xdp(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        run(&self.skel.progs.gateway_xdp, frame)
    }

    /// Runs the egress program on a frame. Returns its verdict, the resulting frame, and the frames
    /// that it sent before.
    pub fn egress(&mut self, frame: &[u8]) -> (u32, Vec<u8>, Vec<Vec<u8>>) {
        let (verdict, after) = run(&self.skel.progs.gateway_egress, frame);
        let mut sent = Vec::new();
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, from)) =
            recvfrom::<LinkAddr>(std::os::fd::AsRawFd::as_raw_fd(&self.line), &mut bytes)
        {
            // The loopback device shows each frame twice: outgoing (PACKET_OUTGOING) and incoming.
            if from.is_some_and(|from| from.pkttype() == 4) {
                sent.push(bytes[..length].to_vec());
            }
        }
        (verdict, after, sent)
    }

    /// Runs the tc ingress program on a frame. Returns its verdict and the resulting frame.
    pub fn adopt(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        run(&self.skel.progs.gateway_adopt, frame)
    }

    /// All counts, in the order of [`Counter::ALL`].
    pub fn counts(&self) -> Vec<u64> {
        let count = |counter: &Counter| {
            let key = (*counter as u32).to_ne_bytes();
            let cpus = self.skel.maps.counters.lookup_percpu(&key, MapFlags::ANY);
            let cpus = cpus.expect("the map can be read").expect("a counter");
            cpus.iter().map(|cpu| u64::from_ne_bytes(cpu[..8].try_into().expect("8 bytes"))).sum()
        };
        Counter::ALL.iter().map(count).collect()
    }

    /// How many replies were counted in the latency histogram.
    pub fn answers(&self) -> u64 {
        let map = &self.skel.maps.latencies;
        let words = (0..narrows_gateway::core::BUCKETS as u32).flat_map(|at| {
            let cpus = map.lookup_percpu(&at.to_ne_bytes(), MapFlags::ANY);
            cpus.expect("the map can be read").expect("a bucket")
        });
        words.map(|word| u64::from_ne_bytes(word[..8].try_into().expect("8 bytes"))).sum()
    }

    /// A connection's entry in the core's form.
    pub fn flow(&self, key: &FlowKey) -> Option<Flow> {
        let key = flow_key {
            client: mapped(key.client),
            port: key.port.to_be(),
            server: key.server,
            ..flow_key::default()
        };
        let bytes = self.skel.maps.flows.lookup(key.bytes(), MapFlags::ANY);
        let flow = flow::from_bytes(&bytes.expect("the map can be read")?).expect("an entry");
        Some(core_flow(&flow))
    }

    /// How many entries there are.
    pub fn flows(&self) -> usize {
        self.skel.maps.flows.keys().count()
    }

    /// What the ring has of an entry: its query, or its reply once there is one.
    pub fn stored(&self, flow: &Flow) -> Vec<u8> {
        let length = if flow.reply_length > 0 { flow.reply_length } else { flow.query_length };
        self.ring.read(flow.stored as usize * 64 % self.ring.size, length.into())
    }
}

/// The kernel's ring, mapped into this process.
struct Ring {
    at: *mut u8,
    /// The length of the part that is written from the start; a margin follows.
    size: usize,
    all: usize,
}

#[allow(unsafe_code, reason = "maps are the kernel's memory")]
impl Ring {
    fn map(map: &libbpf_rs::MapMut<'_>, size: usize) -> Self {
        let all = map.value_size() as usize;
        // SAFETY: a new mapping for the map's only element, which has this length; the map has
        // BPF_F_MMAPABLE.
        let at = unsafe {
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&map.as_fd());
            let (protection, how) = (nix::libc::PROT_READ, nix::libc::MAP_SHARED);
            nix::libc::mmap(std::ptr::null_mut(), all, protection, how, descriptor, 0)
        };
        assert_ne!(at, nix::libc::MAP_FAILED, "the ring can be mapped");
        Self { at: at.cast(), size, all }
    }

    fn read(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.all);
        // SAFETY: it lies within the mapping, which lasts until the end of `self`; programs only
        // write there while this thread runs one.
        unsafe { std::slice::from_raw_parts(self.at.add(at), length) }.to_vec()
    }
}

impl Drop for Ring {
    #[allow(unsafe_code, reason = "maps are the kernel's memory")]
    fn drop(&mut self) {
        // SAFETY: nobody has a reference to the mapping.
        unsafe { nix::libc::munmap(self.at.cast(), self.all) };
    }
}

fn run(program: &ProgramMut<'_>, frame: &[u8]) -> (u32, Vec<u8>) {
    let mut out = vec![0; 1 << 16];
    let input =
        ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..Default::default() };
    let output = program.test_run(input).expect("the program runs");
    (output.return_value, output.data.expect("a frame").to_vec())
}

/// The programs' settings.
fn shared(core: &Settings, wall_offset: Duration) -> settings {
    settings {
        keys: core.keys.map(|key| cookie_key { k0: key.k0, k1: key.k1 }),
        wall_offset_ns: wall_offset.as_nanos() as u64,
        previous_until_ns: core.previous_until.as_nanos() as u64,
        syn_interval_ns: core.syn_interval_ns,
        syn_burst_ns: core.syn_burst_ns,
        query_interval_ns: core.query_interval_ns,
        query_burst_ns: core.query_burst_ns,
        large_ns: core.large_ns,
        patience_us: core.patience_us,
        share: core.share,
        port: core.port,
        mss4: core.mss4,
        mss6: core.mss6,
        edns_size: core.edns_size,
        max_segments: core.max_segments,
        truncate_over: core.truncate_over,
        syncache_limit: core.syncache_limit,
        syncache_bucket_limit: core.syncache_bucket_limit,
        active: core.active.into(),
        close_fin: core.close_fin.into(),
        at_once: core.at_once.into(),
        syncache: core.syncache.into(),
        axfr_detect: core.axfr_detect.into(),
        later_queries: core.later_queries.into(),
        ..settings::default()
    }
}

/// `enum flow_state` and `enum flow_flag` of `bpf/types.h`.
fn core_flow(flow: &flow) -> Flow {
    let state = [
        State::Syn,
        State::Query,
        State::Replied,
        State::Idle,
        State::Closing,
        State::Slow,
        State::Kernel,
    ];
    Flow {
        seen_ms: flow.seen_ms,
        query_seq: flow.query_seq,
        client_next: flow.client_next,
        server_seq: flow.server_seq,
        acked: flow.acked,
        window: flow.window,
        tsval: flow.tsval,
        client_tsval: flow.client_tsval,
        stored: flow.stored,
        query_length: flow.query_length,
        reply_length: flow.reply_length,
        mss: flow.mss,
        dns_id: u16::from_be(flow.dns_id),
        state: state[usize::from(flow.state) - 1],
        timestamps: flow.flags & 1 != 0,
        sack: flow.flags & 2 != 0,
        edns_added: flow.flags & 4 != 0,
        client_fin: flow.flags & 8 != 0,
        query_unacked: flow.flags & 16 != 0,
        again: flow.flags & 32 != 0,
        at_once: flow.flags & 64 != 0,
        ack_due: flow.flags & 128 != 0,
        client_wscale: flow.client_wscale,
        repeats: flow.repeats,
        asked_us: flow.asked_us,
        question: flow.question,
        ahead: flow.ahead,
        ahead_length: flow.ahead_length,
        earlier: flow.earlier,
    }
}

/// The boot clock.
fn boot() -> Duration {
    Duration::from_nanos(boot_ns())
}
