//! What an operator can set. `keys.rs` declares all of it, with the same names in the TOML file and
//! as flags; `declare.rs` says what is made of that.
//!
//! [`Config`] is the result, and [`table`] lists the keys. A file is read first, and flags override
//! it. A key that is in neither keeps its default. Nothing is ignored: an unknown key is an error
//! that names the nearest one.

mod declare;
mod error;
mod read;
pub mod table;
mod validate;
mod value;

use std::fmt;

use crate::user::proxied::Transport;

pub use declare::{Cache, Config, Limits, Settings, SynCache, User};
pub use error::ConfigError;
pub use read::{layered, parse_file, read_file, with_flags};
use table::Key;

/// Server addresses at most (`SERVERS_MAX` of `bpf/types.h`).
pub const SERVERS_MAX: usize = 16;

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

    /// Returns the first interface, after which the gateway is named; empty: none is set.
    pub fn interface(&self) -> &str {
        self.interfaces.first().map_or("", String::as_str)
    }
}

/// The words for the values of keys.
const PRESETS: [(&str, Preset); 2] =
    [("narrows", Preset::Narrows), ("hayes-2010", Preset::Hayes2010)];
const MODES: [(&str, Mode); 4] = [
    ("auto", Mode::Auto),
    ("native", Mode::Native),
    ("generic", Mode::Generic),
    ("user", Mode::User),
];
const ACKNOWLEDGE: [(&str, Acknowledge); 2] =
    [("with-reply", Acknowledge::WithReply), ("at-once", Acknowledge::AtOnce)];
const ON_EXIT: [(&str, OnExit); 2] = [("detach", OnExit::Detach), ("keep", OnExit::Keep)];
const PROXIED: [(&str, Option<Transport>); 3] =
    [("none", None), ("stream", Some(Transport::Stream)), ("datagram", Some(Transport::Datagram))];

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(value::word(&MODES, self))
    }
}
