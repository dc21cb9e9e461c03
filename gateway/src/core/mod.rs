//! The protocol of PROTOCOL.md without I/O: packets and the time go in, verdicts and packets come
//! out.
//!
//! The user-space data path runs [`Core`], and the tests hold the eBPF programs against it. Its
//! three entry points are those of the programs: [`Core::on_client`] is XDP, [`Core::on_reply`] is
//! tc egress, [`Core::adopt`] is tc ingress. It uses no clock, file or socket, and no packet makes
//! it panic.
//!
//! Differences from `bpf/`: a full map forgets exactly the least recently used entry (the kernel
//! only approximates that), and entries whose time is over go when [`Core::poll`] is called (there,
//! when the sweeper runs).
//!
//! ```
//! use narrows_gateway::core::{Core, Now, Settings, Verdict};
//! use std::time::Duration;
//!
//! let mut core = Core::new(Settings { servers: vec![[192, 0, 2, 53].into()], ..Settings::default() });
//! let now = Now { boot: Duration::from_secs(1), wall: Duration::from_secs(1_700_000_000) };
//! let mut out = Vec::new();
//! // Not for the server, so not ours.
//! assert_eq!(core.on_client(now, b"\x45", &mut out), Verdict::Pass);
//! assert!(out.is_empty());
//! ```

mod adopt;
pub(crate) mod checksum;
mod client;
mod cookie;
mod cookie_key;
mod counters;
mod dns;
mod entry;
mod flow;
mod frame;
mod latency;
mod lru;
pub(crate) mod packet;
mod pmtu;
mod rate;
mod reply;
mod ring;
pub(crate) mod segment;
mod send;
mod syn;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub use crate::config::{SERVERS_MAX, Settings};
pub use adopt::Adoption;
pub use cookie_key::CookieKey;
pub use counters::{Counter, Counters};
pub use flow::{Flow, FlowKey, State};
pub use latency::{BUCKETS, Latencies};
pub(crate) use pmtu::TooBig;
pub use rate::{Source, burst_ns, interval_ns};
pub use syn::in_share;

use lru::LruMap;
use ring::Ring;

/// The time, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Time since the machine started, including when it slept; never goes back.
    pub boot: Duration,
    /// Time since 1970. Machines that share a secret agree on it to within a few seconds.
    pub wall: Duration,
}

/// What happens to a client's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not ours: the packet goes on as it came.
    Pass,
    /// The packet is dropped, and nothing is sent.
    Drop,
    /// The IP packet that was put out goes to the client.
    Transmit,
    /// The IP packet that was put out, a UDP datagram, goes to the server.
    Query,
    /// The packet is for the machine's own TCP, which has to take the connection over: see
    /// [`Core::adopt`].
    HandOff(Reason),
}

/// Why a connection is left to the machine's own TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A zone transfer.
    Transfer,
    /// It asks how long the server keeps connections (RFC 7828), which the server says only over
    /// TCP.
    Keepalive,
    /// The first data is not one whole query.
    Unusual,
    /// A query after the first, which is not served here.
    Second,
    /// A second query before the reply to the first.
    Pipelined,
    /// The connection was left to the machine's own TCP before.
    Left,
    /// The name had a large reply.
    Large,
    /// The query is above the rate of its source.
    Rate,
    /// The reply was truncated, or too long for our segments.
    Reply,
    /// The server did not answer in time over UDP.
    Silent,
    /// The server went away after the handshake.
    Down,
}

/// What happens to a server's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyVerdict {
    /// The IP packets that were put out go to the client.
    Sent,
    /// The IP packet that was put out, a shorter datagram, goes to the client instead.
    Truncated,
    /// Not ours: the datagram goes on as it came.
    Pass,
    /// The datagram is dropped, and nothing is sent.
    Drop,
    /// The connection is for the machine's own TCP. The IP packet that was put out, the client's
    /// query, has to come in again as if from the client.
    HandOff,
}

/// What the machine's own sockets say about a connection and its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// The connection has no socket; the server is there.
    #[default]
    Server,
    /// Neither is there: nobody reads datagrams, or the listener cannot take connections over
    /// (MPTCP).
    NoServer,
    /// The machine's own TCP has the connection.
    Connection,
    /// It had the connection less than a minute ago.
    TimeWait,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The client.
    pub client: SocketAddr,
    /// The server.
    pub server: SocketAddr,
}

/// The gateway without its surroundings.
#[derive(Clone, Debug)]
pub struct Core {
    settings: Settings,
    flows: LruMap<FlowKey, Flow>,
    sources: LruMap<u64, Source>,
    /// Names with large replies, and until when, in nanoseconds of the boot clock.
    large: LruMap<u64, u64>,
    paths: LruMap<IpAddr, pmtu::Path>,
    ring: Ring,
    /// SYN-cache mode: the number of entries in each bucket, and in all of them.
    buckets: Vec<u32>,
    in_buckets: u32,
    counters: Counters,
    latencies: Latencies,
    gathering: Option<reply::Gathering>,
}

impl Core {
    /// Creates a gateway without connections. Takes the first [`SERVERS_MAX`] of the servers'
    /// addresses.
    pub fn new(mut settings: Settings) -> Self {
        settings.servers.truncate(SERVERS_MAX);
        settings.hashsize = settings.hashsize.max(1);
        Self {
            flows: LruMap::new(settings.flows),
            sources: LruMap::new(settings.sources),
            large: LruMap::new(settings.large),
            paths: LruMap::new(pmtu::PATHS),
            ring: Ring::new(settings.ring),
            buckets: vec![0; settings.hashsize as usize],
            in_buckets: 0,
            counters: Counters::default(),
            latencies: Latencies::default(),
            gathering: None,
            settings,
        }
    }

    /// Applies new settings, except the servers' addresses and the sizes, which stay.
    pub fn reconfigure(&mut self, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        self.settings.servers = old.servers;
        self.settings.flows = old.flows;
        self.settings.sources = old.sources;
        self.settings.large = old.large;
        self.settings.ring = old.ring;
        self.settings.hashsize = old.hashsize;
    }

    /// Removes the entries whose time is over, and closes idle connections: the IP packets for
    /// their clients are appended to `out`. Calling it once a second is often enough.
    pub fn poll(&mut self, now: Now, out: &mut Vec<Vec<u8>>) {
        let over = |flow: &Flow| {
            let unused = milliseconds(now).wrapping_sub(flow.seen_ms);
            let time = match flow.state {
                State::Syn | State::Query | State::Kernel => self.settings.timeout,
                State::Replied | State::Idle => Duration::from_millis(self.settings.idle_ms.into()),
                State::Slow | State::Closing => cookie::LIFE,
            };
            u128::from(unused) >= time.as_millis()
        };
        let over: Vec<_> = self.flows.iter().filter(|(_, flow)| over(flow)).collect();
        for (key, mut flow) in over {
            let asks_again = !flow.at_once;
            if flow.state == State::Query && asks_again {
                flow.state = State::Slow;
                self.keep(now, key, flow);
            } else if matches!(flow.state, State::Query | State::Replied | State::Idle) {
                let client = SocketAddr::new(key.client, key.port);
                let server = self.settings.servers[usize::from(key.server)];
                let server = SocketAddr::new(server, self.settings.port);
                out.push(send::fin(Connection { client, server }, &flow));
                flow.state = State::Closing;
                self.keep(now, key, flow);
            } else {
                self.remove(&key);
                self.count(Counter::Expired);
            }
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the counts since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns how long the server took for the first reply to each query.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Returns the entry of a connection.
    pub fn flow(&self, key: &FlowKey) -> Option<Flow> {
        self.flows.get(key)
    }

    /// Returns what the ring has for an entry, with the two bytes of length: its query, or its
    /// reply once there is one. Returns `None` if newer data has taken its room.
    pub fn stored(&self, flow: &Flow) -> Option<&[u8]> {
        let replied = flow.reply_length > 0;
        let length = if replied { flow.reply_length } else { flow.query_length };
        self.ring.at(flow.stored, length.into())
    }

    /// Returns all entries, the least recently used first.
    pub fn flows(&self) -> impl Iterator<Item = (FlowKey, Flow)> + '_ {
        self.flows.iter()
    }

    pub(crate) fn count(&mut self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    /// Returns the index of this server address.
    fn server(&self, address: IpAddr) -> Option<u8> {
        self.settings.servers.iter().position(|&server| server == address).map(|at| at as u8)
    }

    /// Stores an entry as seen now.
    fn keep(&mut self, now: Now, key: FlowKey, mut flow: Flow) {
        flow.seen_ms = milliseconds(now);
        let before = self.flows.get(&key).filter(|before| before.state == State::Syn);
        let gone = self.flows.put(key, flow).filter(|(_, gone)| gone.state == State::Syn);
        if before.is_some() {
            self.leave_bucket(&key);
        }
        if let Some((gone, _)) = gone {
            self.leave_bucket(&gone);
        }
        if flow.state == State::Syn {
            let bucket = self.bucket(&key);
            self.buckets[bucket] += 1;
            self.in_buckets += 1;
        }
    }

    fn remove(&mut self, key: &FlowKey) {
        if self.flows.remove(key).is_some_and(|flow| flow.state == State::Syn) {
            self.leave_bucket(key);
        }
    }
}

/// Returns the boot clock in milliseconds, modulo 2^32.
fn milliseconds(now: Now) -> u32 {
    now.boot.as_millis() as u32
}

/// Returns the boot clock in microseconds, modulo 2^32.
fn microseconds(now: Now) -> u32 {
    now.boot.as_micros() as u32
}

/// Returns the boot clock in nanoseconds; 64 bits last for 584 years.
fn nanoseconds(now: Now) -> u64 {
    now.boot.as_nanos() as u64
}
