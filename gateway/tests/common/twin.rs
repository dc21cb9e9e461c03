//! The eBPF programs beside the core: loaded but not attached, and run on single frames by
//! `bpf_prog_run`.

use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};
use narrows_gateway::core::{Counter, Flow, FlowKey, Now, Settings, State};
use narrows_gateway::kernel::types::{flow, flow_key, settings};
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket,
};

use super::programs::{Programs, boot_ns, mapped};

/// The programs, in a separate network namespace, with a socket that sees what else they send.
pub struct Twin {
    programs: Programs,
    line: std::os::fd::OwnedFd,
    wall_offset: Duration,
    ring: Ring,
}

impl Twin {
    /// Loads the programs with these settings. If this process may not do so, prints what is
    /// missing and returns `None`; with CI set it must be able to.
    pub fn load(name: &str, core: &Settings) -> Option<Self> {
        let programs = Programs::load_with(name, core)?;
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let line = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .expect("a line");
        // In the middle of a cookie's slot.
        let wall_offset = Duration::from_secs(1_700_000_016 / 32 * 32 + 10) - boot();
        programs.set(settings {
            wall_offset_ns: wall_offset.as_nanos() as u64,
            // The core serves one query of a connection at a time.
            ..settings::from(&Settings { several_queries: false, ..core.clone() })
        });
        let ring = Ring::map(&programs.skel.maps.ring, core.ring);
        Some(Self { programs, line, wall_offset, ring })
    }

    /// The time that the programs see.
    pub fn now(&self) -> Now {
        let boot = boot();
        Now { boot, wall: boot + self.wall_offset }
    }

    /// Runs the XDP program on a frame. Returns its verdict and the resulting frame.
    pub fn xdp(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.programs.xdp(frame)
    }

    /// Runs the egress program on a frame. Returns its verdict, the resulting frame, and the frames
    /// that it sent before.
    pub fn egress(&mut self, frame: &[u8]) -> (u32, Vec<u8>, Vec<Vec<u8>>) {
        let (verdict, after) = self.programs.egress(frame);
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
        (verdict as u32, after, sent)
    }

    /// Runs the tc ingress program on a frame. Returns its verdict and the resulting frame.
    pub fn adopt(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        let (verdict, after) = self.programs.adopt(frame);
        (verdict as u32, after)
    }

    /// All counts, in the order of [`Counter::ALL`].
    pub fn counts(&self) -> Vec<u64> {
        Counter::ALL.iter().map(|&counter| self.programs.count(counter)).collect()
    }

    /// How many replies were counted in the latency histogram.
    pub fn answers(&self) -> u64 {
        let map = &self.programs.skel.maps.latencies;
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
        self.programs.flow(&key).map(|flow| core_flow(&flow))
    }

    /// How many entries there are.
    pub fn flows(&self) -> usize {
        self.programs.skel.maps.flows.keys().count()
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
