//! What an operator can set: one list of keys, the same in the TOML file and as flags.
//!
//! [`Config`] is the result, [`table`] the list of keys with their names, kinds and words. A file is read
//! first and flags are laid over it; a key that neither names keeps its default. Nothing is ignored: a key
//! that does not exist is an error that names the nearest one.

mod error;
mod read;
pub mod table;
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

/// All settings. [`table::KEYS`] says each one's meaning, as the reference in README.md does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the values come from that nobody names.
    pub preset: Preset,
    /// The interface that clients are on; the first where there are several, by whose name the gateway goes.
    pub interface: String,
    /// Further interfaces that clients come in or are answered by.
    pub more_interfaces: Vec<String>,
    /// The server's addresses on this machine, at most [`SERVERS_MAX`].
    pub servers: Vec<IpAddr>,
    /// Which data path is used.
    pub mode: Mode,
    /// The DNS port; the paper's `port`.
    pub port: u16,
    /// Which clients are served; what others send passes untouched; the paper's `active`.
    pub active: Active,
    /// How long the server has to answer at all; the paper's `timeout`.
    pub timeout: Span,
    /// How long the server has to answer over UDP before a query that comes again goes to it over TCP.
    pub patience: Span,
    /// How long a connection without a word is kept before it is closed.
    pub idle: Span,
    /// Who closes a connection after the reply.
    pub close: Close,
    /// When a query is acknowledged.
    pub acknowledge: Acknowledge,
    /// True: zone transfers are left to the kernel's TCP; the paper's `axfr_detect`.
    pub axfr_detect: bool,
    /// True: queries after the first of a connection are served too.
    pub later_queries: bool,
    /// And those that come before the reply to the one before, where the programs serve.
    pub several_queries: bool,
    /// 0 nothing, 1 errors, 2 what happens, 3 for debugging; the paper's `loglevel`.
    pub loglevel: u8,
    /// The EDNS payload size that is asked of the server for queries that came over TCP, in bytes.
    pub edns_size: u16,
    /// Segments of one reply at most; longer replies are the kernel's.
    pub max_segments: u16,
    /// UDP replies to others that are longer than this many bytes are truncated; 0: none.
    pub truncate_over: u16,
    /// The file with the secret that cookie keys are made from; `None`: one of this machine's own.
    pub secret: Option<PathBuf>,
    /// How long a key makes cookies.
    pub rotation: Span,
    /// What happens to the attachments when the daemon is told to end.
    pub on_exit: OnExit,
    /// Where Prometheus reads metrics; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// How long the server may take to answer the first query at start.
    pub server_wait: Span,
    /// How often `run` makes real connections to each server address; zero: never.
    pub check_every: Span,
    /// Where the bpf file system is mounted.
    pub bpffs: PathBuf,
    /// The SYN cache of the paper.
    pub syncache: SynCache,
    /// What one source may do.
    pub limits: Limits,
    /// How much is kept.
    pub cache: Cache,
    /// The user-space data path.
    pub user: User,
}

/// Which clients are served: a share of them, by a hash of their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active(u16);

impl Active {
    /// All.
    pub const ALL: Self = Self(10_000);
    /// None: everything passes, as if the gateway were not there.
    pub const NONE: Self = Self(0);

    /// This many in ten thousand, or all where it is more.
    pub fn of(in_ten_thousand: u16) -> Self {
        Self(in_ten_thousand.min(10_000))
    }

    /// Whether any client is served.
    pub fn any(self) -> bool {
        self != Self::NONE
    }

    /// The bound of the hashes of those that are served, as the data paths have it; `u32::MAX`: all.
    pub fn share(self) -> u32 {
        (u64::from(self.0) * u64::from(u32::MAX) / 10_000) as u32
    }

    /// In percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

/// The user-space data path, in mode `user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Where packets come from.
    pub link: UserLink,
    /// Where the server answers, over UDP and TCP: one for all server addresses, or one for each in their order.
    pub upstream: Vec<SocketAddr>,
    /// Queries that are with the server at once; more are dropped, and come again.
    pub queries: u32,
    /// Connections that go on with TCP at once; more are reset.
    pub relays: u32,
    /// The server is told whose query or connection it gets, by the PROXY protocol: over UDP and TCP, or over UDP alone.
    pub proxy_protocol: Option<Transport>,
}

/// Where the user-space data path has its packets from.
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
    /// The first of the others that this kernel and interface can do.
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
    /// With its reply, so that a client that misses that sends its query again.
    WithReply,
    /// When it comes, as in the paper.
    AtOnce,
}

/// The values of settings that nobody names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The gateway's own.
    Narrows,
    /// Those of Hayes, Rossi and Armitage 2010, section V.
    Hayes2010,
}

/// What happens to the attachments when the daemon is told to end (SIGTERM, SIGINT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// They are removed; the machine is as it was.
    Detach,
    /// They stay and go on serving; the next run takes them over.
    Keep,
}

/// The SYN cache of the paper, in place of cookies alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynCache {
    /// True: a SYN makes an entry while there is room, and a cookie alone otherwise.
    pub active: bool,
    /// Buckets; `net.inet.tcp.syncache.hashsize`.
    pub hashsize: u32,
    /// Entries at once; `net.inet.tcp.syncache.cachelimit`.
    pub cachelimit: u32,
    /// Entries in one bucket; `net.inet.tcp.syncache.bucketlimit`.
    pub bucketlimit: u32,
}

/// What one source may do: an IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// SYNs a second that are answered, on average; 0: no limit.
    pub syn_rate: u32,
    /// SYNs that are answered at once after silence.
    pub syn_burst: u32,
    /// Queries on new connections a second, on average; 0: no limit.
    pub query_rate: u32,
    /// Queries at once after silence.
    pub query_burst: u32,
    /// Connections that the kernel's TCP has at once; 0: no limit.
    pub adoptions: u32,
}

/// How much is kept. These are sizes of kernel maps: a change needs a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Connections from their query on; when there are more, the one that is longest unused goes.
    pub connections: u32,
    /// Sources whose rates are followed.
    pub sources: u32,
    /// Names whose replies were too long, whose next queries go to the kernel's TCP at once.
    pub names: u32,
    /// How long such a name is remembered.
    pub names_for: Span,
    /// Bytes of queries and replies, until newer ones take their room; a power of two.
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
            metrics: None,
            server_wait: Span::from_secs(3),
            check_every: Span::from_secs(300),
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
    /// The settings where nothing but a preset is named.
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

    /// Checks what no single key can: that an interface and a server are named, and that values fit each
    /// other. `run` and `check` need this; `status` and `detach` need the interface alone.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Missing`] and [`ConfigError::Value`].
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_interface()?;
        if self.servers.is_empty() {
            return Err(ConfigError::Missing { key: "server", example: "--server 192.0.2.53" });
        }
        let refuse = |key: &str, what: String, hint: &str| {
            Err(ConfigError::Value {
                place: String::new(),
                key: key.into(),
                what,
                hint: hint.into(),
            })
        };
        if self.servers.len() > SERVERS_MAX {
            let what = format!("{} addresses, and {SERVERS_MAX} is the most", self.servers.len());
            return refuse("server", what, "run a second gateway on another interface");
        }
        for (at, server) in self.servers.iter().enumerate() {
            if self.servers[..at].contains(server) {
                return refuse("server", format!("{server} stands there twice"), "leave one out");
            }
        }
        let upstream = &self.user.upstream;
        if self.mode == Mode::User && upstream.is_empty() {
            return Err(ConfigError::Missing {
                key: "user.upstream",
                example: "--user-upstream 127.0.0.1:5353, where the DNS server listens",
            });
        }
        if upstream.len() > 1 && upstream.len() != self.servers.len() {
            let what = format!("{} of them for {} servers", upstream.len(), self.servers.len());
            return refuse("user.upstream", what, "name one for all, or one for each");
        }
        if let Some(own) = upstream.iter().find(|to| self.servers.contains(&to.ip())) {
            let what = format!("{own} is the address that clients use");
            return refuse("user.upstream", what, "name one that the DNS server itself listens on");
        }
        if self.mode == Mode::User && self.active.any() && self.active != Active::ALL {
            let what = "a share, and in mode user nobody else serves the other clients".into();
            return refuse("active", what, "true or false, or the in-kernel data path");
        }
        if self.mode == Mode::User && self.truncate_over > 0 {
            let what = "set, and in mode user no UDP client comes by".into();
            return refuse("truncate_over", what, "leave it out, and set the server's own limit");
        }
        if self.mode != Mode::User && self.user.proxy_protocol.is_some() {
            let what =
                "set, and the in-kernel data path gives the server the clients' own addresses"
                    .into();
            return refuse("user.proxy_protocol", what, "leave it out, or mode = \"user\"");
        }
        if self.rotation < Span::from_secs(64) {
            // A cookie is accepted for up to 64 s, and only the present key and the one before are known.
            return refuse(
                "rotation",
                "shorter than the 64 s that a cookie lives".into(),
                "such as \"1 h\"",
            );
        }
        if self.syncache.bucketlimit > self.syncache.cachelimit {
            let what = format!("above syncache.cachelimit ({})", self.syncache.cachelimit);
            return refuse("syncache.bucketlimit", what, "lower it");
        }
        if self.syncache.active && self.syncache.cachelimit > self.cache.connections {
            let what =
                format!("above cache.connections ({}), which holds them", self.cache.connections);
            return refuse("syncache.cachelimit", what, "lower it, or raise cache.connections");
        }
        Ok(())
    }

    /// All interfaces, the first one first.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.interface).chain(&self.more_interfaces).map(String::as_str)
    }

    /// Checks that an interface is named, and could exist.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Missing`] and [`ConfigError::Value`].
    pub fn validate_interface(&self) -> Result<(), ConfigError> {
        if self.interface.is_empty() {
            return Err(ConfigError::Missing { key: "interface", example: "--interface eth0" });
        }
        // IFNAMSIZ is 16 with the terminating zero; dev_valid_name(), Linux net/core/dev.c.
        let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let refuse = |what: String, hint: &str| {
            let (place, key) = (String::new(), "interface".into());
            Err(ConfigError::Value { place, key, what, hint: hint.into() })
        };
        for (at, name) in self.interfaces().enumerate() {
            if name.is_empty()
                || name.len() > 15
                || name.contains(odd)
                || matches!(name, "." | "..")
            {
                return refuse(format!("{name:?} cannot be an interface's name"), "see ip link");
            }
            if self.interfaces().take(at).any(|other| other == name) {
                return refuse(format!("{name} is named twice"), "leave one out");
            }
        }
        if self.mode == Mode::User && !self.more_interfaces.is_empty() {
            return refuse(
                "mode user serves one interface".into(),
                "run a second gateway for the other",
            );
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn usable() -> Config {
        Config {
            interface: "eth0".into(),
            servers: vec!["192.0.2.53".parse().expect("an address")],
            ..Config::default()
        }
    }

    #[test]
    fn the_defaults_with_an_interface_and_a_server_are_valid() {
        assert_eq!(usable().validate(), Ok(()));
    }

    #[test]
    fn what_must_be_named_is_asked_for() {
        let missing = |config: &Config| match config.validate() {
            Err(ConfigError::Missing { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(&Config { interface: String::new(), ..usable() }), "interface");
        assert_eq!(missing(&Config { servers: vec![], ..usable() }), "server");
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let key = |config: &Config| match config.validate() {
            Err(ConfigError::Value { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        let server: IpAddr = "192.0.2.53".parse().expect("an address");
        assert_eq!(key(&Config { servers: vec![server; 2], ..usable() }), "server");
        assert_eq!(key(&Config { rotation: Span::from_secs(63), ..usable() }), "rotation");
        assert_eq!(key(&Config { interface: "a/b".into(), ..usable() }), "interface");
        assert_eq!(key(&Config { interface: "..".into(), ..usable() }), "interface");
        assert_eq!(key(&Config { interface: "a-name-of-sixtee".into(), ..usable() }), "interface");
        let mut config = usable();
        config.user.proxy_protocol = Some(Transport::Stream);
        assert_eq!(key(&config), "user.proxy_protocol");
        let mut config = usable();
        config.syncache.bucketlimit = config.syncache.cachelimit + 1;
        assert_eq!(key(&config), "syncache.bucketlimit");
    }

    #[test]
    fn one_source_cannot_fill_the_connections_with_the_defaults() {
        let config = Config::default();
        // Each silent from its reply on: PROTOCOL.md, "Time".
        let seconds = config.idle.as_ps() / 1_000_000_000_000 + 64;
        let limits = &config.limits;
        let most = u64::from(limits.query_burst) + u64::from(limits.query_rate) * seconds;
        assert!(most < u64::from(config.cache.connections), "{most}");
    }
}
