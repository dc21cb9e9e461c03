//! What an operator can set: one list of keys, which are the same in the TOML file and as flags.
//!
//! [`Config`] is the result, and [`table`] lists the keys with their names, kinds and help texts. A
//! file is read first, and flags override it. A key that is in neither keeps its default. Nothing
//! is ignored: an unknown key is an error that names the nearest one.

mod error;
mod read;
pub mod table;
mod validate;
mod value;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use narrows_units::{Bytes, Span};

use crate::user::proxied::Transport;

pub use error::ConfigError;
pub use read::{layered, parse_file, read_file, with_flags};

/// Server addresses at most (`SERVERS_MAX` of `bpf/types.h`).
pub const SERVERS_MAX: usize = 16;

/// All settings. [`table::KEYS`] describes each of them, and so does the reference in README.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The preset that supplies the values of keys that were not set.
    pub preset: Preset,
    /// The interface on which clients come in. If there are several, this is the first, and the
    /// gateway is named after it.
    pub interface: String,
    /// Further interfaces on which clients come in or replies leave.
    pub more_interfaces: Vec<String>,
    /// The server's addresses on this machine, at most [`SERVERS_MAX`].
    pub servers: Vec<IpAddr>,
    /// Which data path is used.
    pub mode: Mode,
    /// The DNS port; the paper's `port`.
    pub port: u16,
    /// Which clients are served; packets of others pass untouched. The paper's `active`.
    pub active: Active,
    /// How long the server may take to answer at all; the paper's `timeout`.
    pub timeout: Span,
    /// How long the server may take to answer over UDP. A query that comes again after that goes to
    /// it over TCP.
    pub patience: Span,
    /// How long a silent connection is kept before it is closed.
    pub idle: Span,
    /// Who closes a connection after the reply.
    pub close: Close,
    /// When a query is acknowledged.
    pub acknowledge: Acknowledge,
    /// Whether zone transfers go to the kernel's TCP. The paper's `axfr_detect`.
    pub axfr_detect: bool,
    /// Whether the gateway serves later queries of a connection, too.
    pub later_queries: bool,
    /// Whether the gateway also serves queries that come before the previous reply, if the programs
    /// can.
    pub several_queries: bool,
    /// What is logged: 0 nothing, 1 errors, 2 also what happens, 3 also debugging. The paper's
    /// `loglevel`.
    pub loglevel: u8,
    /// The EDNS payload size asked of the server for queries over TCP, in bytes.
    pub edns_size: u16,
    /// The most segments of one reply. The kernel's TCP sends longer replies.
    pub max_segments: u16,
    /// The longest UDP reply in bytes; longer ones are truncated, except those that the gateway
    /// asked for. 0: no reply is truncated.
    pub truncate_over: u16,
    /// The file with the secret for cookie keys; `None`: this machine makes its own.
    pub secret: Option<PathBuf>,
    /// How long a key makes cookies.
    pub rotation: Span,
    /// What happens to the attachments when the daemon ends.
    pub on_exit: OnExit,
    /// How long the daemon waits for open connections before it detaches at its end; zero: it
    /// detaches at once.
    pub drain_for: Span,
    /// Where Prometheus reads the metrics; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// How long the server may take to answer the first query at the start.
    pub server_wait: Span,
    /// How often `run` makes real connections to each server address; zero: never.
    pub check_every: Span,
    /// How many queries such a check sends at once.
    pub check_queries: u16,
    /// Where the bpf file system is mounted.
    pub bpffs: PathBuf,
    /// The SYN cache of the paper.
    pub syncache: SynCache,
    /// How much one source may use.
    pub limits: Limits,
    /// How much is stored.
    pub cache: Cache,
    /// The user-space data path.
    pub user: User,
}

/// Which clients are served: a share of them, by a hash of their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active(u16);

impl Active {
    /// All clients.
    pub const ALL: Self = Self(10_000);
    /// No client: everything passes, as if the gateway were not there.
    pub const NONE: Self = Self(0);

    /// Returns a share of this many in ten thousand; larger numbers mean all.
    pub fn of(in_ten_thousand: u16) -> Self {
        Self(in_ten_thousand.min(10_000))
    }

    /// Returns whether any client is served.
    pub fn any(self) -> bool {
        self != Self::NONE
    }

    /// Returns the share as a bound: clients whose hash is below it are served; `u32::MAX`: all.
    pub fn share(self) -> u32 {
        (u64::from(self.0) * u64::from(u32::MAX) / 10_000) as u32
    }

    /// Returns the share with this bound (see [`Active::share`]).
    pub fn of_share(share: u32) -> Self {
        // Rounded up, because the bound is rounded down.
        Self((u64::from(share) * 10_000).div_ceil(u64::from(u32::MAX)) as u16)
    }

    /// Returns the share in percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

/// The user-space data path, in mode `user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Where packets come from.
    pub link: UserLink,
    /// Where the server answers, over UDP and TCP: one for all server addresses, or one for each in
    /// their order.
    pub upstream: Vec<SocketAddr>,
    /// The most queries with the server at once. Further ones are dropped, and come again.
    pub queries: u32,
    /// The most connections at once that continue with TCP. Further ones are reset.
    pub relays: u32,
    /// Whether the PROXY protocol tells the server its client: over UDP and TCP, or only over UDP.
    pub proxy_protocol: Option<Transport>,
}

/// Where the user-space data path gets its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserLink {
    /// A TUN device that the gateway makes, into which the server addresses are routed.
    Tun,
    /// Packet sockets on an interface that exists.
    Packet,
}

/// Which data path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first of the following modes that this kernel and interface support.
    Auto,
    /// XDP in the interface's driver.
    Native,
    /// XDP in the kernel's generic receive path: any interface, slower.
    Generic,
    /// The user-space data path.
    User,
}

/// Who closes a connection after the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The client, or the gateway once it is idle.
    Keep,
    /// The gateway, with FIN on the reply's last segment, as in the paper.
    Fin,
}

/// When a client's query is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// With its reply, so that a client that misses the reply sends its query again.
    WithReply,
    /// When it arrives, as in the paper.
    AtOnce,
}

/// The source of the default values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The gateway's own.
    Narrows,
    /// Those of Hayes, Rossi and Armitage 2010, section V.
    Hayes2010,
}

/// What happens to the attachments when a signal ends the daemon (SIGTERM, SIGINT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// They are removed; the machine is as it was.
    Detach,
    /// They stay and continue to serve; the next run takes them over.
    Keep,
}

/// The SYN cache of the paper, in place of cookies alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynCache {
    /// Whether a SYN makes an entry if there is room, and gets only a cookie otherwise.
    pub active: bool,
    /// Buckets; `net.inet.tcp.syncache.hashsize`.
    pub hashsize: u32,
    /// The most entries at once; `net.inet.tcp.syncache.cachelimit`.
    pub cachelimit: u32,
    /// The most entries in one bucket; `net.inet.tcp.syncache.bucketlimit`.
    pub bucketlimit: u32,
}

/// How much one source may use. A source is an IPv4 address, or the first 64 bits of an IPv6
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answered SYNs per second, on average; 0: no limit.
    pub syn_rate: u32,
    /// Answered SYNs at once after silence.
    pub syn_burst: u32,
    /// Queries per second on new connections, on average; 0: no limit.
    pub query_rate: u32,
    /// Queries at once after silence.
    pub query_burst: u32,
    /// The most connections at once that the kernel's TCP may have; 0: no limit.
    pub adoptions: u32,
}

/// The sizes of what is stored. Kernel maps have these sizes, so a change needs a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The most connections, counted from their query on. If there are more, the least recently
    /// used one is removed.
    pub connections: u32,
    /// The most sources whose rates are tracked.
    pub sources: u32,
    /// The most names with replies that were too long. The kernel's TCP gets their next queries at
    /// once.
    pub names: u32,
    /// How long such a name is remembered.
    pub names_for: Span,
    /// Bytes of queries and replies, kept until newer ones need the room; a power of two.
    pub ring: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            preset: Preset::Narrows,
            interface: String::new(),
            more_interfaces: Vec::new(),
            servers: Vec::new(),
            mode: Mode::Auto,
            port: 53,
            active: Active::ALL,
            timeout: Span::from_secs(3),
            patience: Span::from_ms(500),
            idle: Span::from_secs(30),
            close: Close::Keep,
            acknowledge: Acknowledge::WithReply,
            axfr_detect: true,
            later_queries: true,
            several_queries: true,
            loglevel: 1,
            edns_size: 4096,
            max_segments: 10,
            truncate_over: 0,
            secret: None,
            rotation: Span::from_secs(3600),
            on_exit: OnExit::Detach,
            drain_for: Span::from_secs(10),
            metrics: None,
            server_wait: Span::from_secs(3),
            check_every: Span::from_secs(300),
            check_queries: 100,
            bpffs: PathBuf::from("/sys/fs/bpf"),
            syncache: SynCache {
                active: false,
                hashsize: 512,
                cachelimit: 15_360,
                bucketlimit: 30,
            },
            limits: Limits {
                syn_rate: 0,
                syn_burst: 5000,
                query_rate: 2000,
                query_burst: 2000,
                adoptions: 64,
            },
            cache: Cache {
                connections: 262_144,
                sources: 65_536,
                names: 4096,
                names_for: Span::from_secs(600),
                ring: Bytes::new(16 << 20),
            },
            user: User {
                link: UserLink::Tun,
                upstream: Vec::new(),
                queries: 16_384,
                relays: 1024,
                proxy_protocol: None,
            },
        }
    }
}

impl Config {
    /// Returns the settings of a preset alone.
    pub fn of(preset: Preset) -> Self {
        let own = Self { preset, ..Self::default() };
        match preset {
            Preset::Narrows => own,
            // Section V.B; its other defaults are ours too.
            Preset::Hayes2010 => Self {
                active: Active::NONE,
                close: Close::Fin,
                acknowledge: Acknowledge::AtOnce,
                axfr_detect: false,
                syncache: SynCache { active: true, ..own.syncache },
                ..own
            },
        }
    }

    /// Returns all interfaces, the first one first.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.interface).chain(&self.more_interfaces).map(String::as_str)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::User => "user",
        })
    }
}
