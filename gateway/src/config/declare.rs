//! Makes from the declarations in `keys.rs`: [`Config`] and its parts; [`KEYS`], with which files
//! and flags are read and documents are written; and [`Settings`], what the protocol needs to know.
//! `build.rs` makes the programs' `struct settings` (`bpf/types.h`) from the same file.
//!
//! A declaration has one sentence, and below it
//!
//! ```text
//! name: type = default, kind, "PLACEHOLDER", live
//!     => /// What the programs make of it.
//!        field: type = |config| value;
//! ```
//!
//! - `as "key"` behind the name: the key's name, if it is another one. In a table such as
//!   `[limits: Limits]` it is `limits.name`.
//! - The kind (`value.rs`) reads and shows values.
//! - The placeholder stands for the value behind the flag.
//! - `live`: a running gateway takes a new value on SIGHUP; `fixed`: it needs a restart.
//! - `, sample "TOML"`: the sample configuration sets this value.
//! - `=>`, any number of times: a field of [`Settings`] and of the programs' `struct settings`.
//! - `, core` at the end: a field of [`Settings`] alone, because the in-kernel path has it
//!   elsewhere (in the sizes of maps, in the sweeper).
//!
//! `narrows_units::settings!` does not serve here: it knows no flags, and no programs in C.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use narrows_units::Span;

use super::value::{
    addresses, below_a_second, bytes, directory, file, loopback, no_power_of_two, one_of, share,
    sockets, span, texts, too_short_for_udp, truth, whole,
};
use super::{
    ACKNOWLEDGE, Acknowledge, Active, Close, Key, MODES, Mode, ON_EXIT, OnExit, PRESETS, PROXIED,
    Preset, UserLink,
};
use crate::core::{CookieKey, burst_ns, interval_ns};
#[cfg(feature = "ebpf")]
use crate::kernel::skeleton::types::{cookie_key, settings as Programs};
use crate::user::proxied::Transport;

const MINUTE: Span = Span::from_secs(60);
const HOUR: Span = Span::from_secs(3600);
const DAY: Span = Span::from_secs(86_400);

macro_rules! declare {
    (
        $(
            $(#[doc = $about:literal])+
            $field:ident $(as $name:literal)?: $type:ty = $default:expr, $kind:expr, $placeholder:literal,
            $when:ident $(, sample $sample:literal)?
            $(=> $(#[doc = $means:literal])* $map:ident: $map_type:ty = $of:expr)*
            $(, core $(#[doc = $core_means:literal])* $core:ident: $core_type:ty = $core_of:expr)?;
        )+
        $(
            [$table:ident: $Table:ident = $table_about:literal]
            $(
                $(#[doc = $in_about:literal])+
                $in_field:ident: $in_type:ty = $in_default:expr, $in_kind:expr, $in_placeholder:literal,
                $in_when:ident $(, sample $in_sample:literal)?
                $(=> $(#[doc = $in_means:literal])* $in_map:ident: $in_map_type:ty = $in_of:expr)*
                $(, core $(#[doc = $in_core_means:literal])*
                    $in_core:ident: $in_core_type:ty = $in_core_of:expr)?;
            )+
        )+
    ) => {
        /// All settings. [`KEYS`] describes each of them, and so does the reference in SETTINGS.md.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $about])+ pub $field: $type,)+
            $(#[doc = $table_about] pub $table: $Table,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)+ $($table: $Table::default(),)+ }
            }
        }

        $(
            #[doc = $table_about]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $Table {
                $($(#[doc = $in_about])+ pub $in_field: $in_type,)+
            }

            impl Default for $Table {
                fn default() -> Self {
                    Self { $($in_field: $in_default,)+ }
                }
            }
        )+

        /// All keys, in the order of the reference.
        pub static KEYS: &[Key] = &[
            $(key!(
                name!($field $($name)?), [$($about),+], $kind, $placeholder, $when,
                [$($sample)?], $field
            ),)+
            $($(key!(
                concat!(stringify!($table), ".", stringify!($in_field)), [$($in_about),+], $in_kind,
                $in_placeholder, $in_when, [$($in_sample)?], $table.$in_field
            ),)+)+
        ];

        /// What the tables of keys mean.
        pub static TABLES: &[(&str, &str)] = &[$((stringify!($table), $table_about)),+];

        /// The settings of the core: those of the programs under the same names, followed by what
        /// the in-kernel path has elsewhere. [`Settings::default`] is what an operator has without
        /// any setting. The keys have no sensible default.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            /// The first key makes cookies; the second one did so before.
            pub keys: [CookieKey; 2],
            /// Until when the second key is accepted, as time since 1970.
            pub previous_until: Duration,
            /// The largest payload of an IPv4 segment in either direction: the interface's MTU
            /// minus 40.
            pub mss4: u16,
            /// The largest payload of an IPv6 segment in either direction: the interface's MTU
            /// minus 60.
            pub mss6: u16,
            $($(
                $(#[doc = $means])*
                #[doc = concat!("From `", stringify!($field), "`.")]
                pub $map: $map_type,
            )*)+
            $($($(
                $(#[doc = $in_means])*
                #[doc = concat!("From `", stringify!($table.$in_field), "`.")]
                pub $in_map: $in_map_type,
            )*)+)+
            /// The servers' addresses, at most [`SERVERS_MAX`](super::SERVERS_MAX).
            pub servers: Vec<IpAddr>,
            $($($(#[doc = $core_means])* pub $core: $core_type,)?)+
            $($($($(#[doc = $in_core_means])* pub $in_core: $in_core_type,)?)+)+
        }

        impl Settings {
            /// The bytes of the fields of `struct settings` that are declared here, in whole words.
            #[cfg(feature = "ebpf")]
            pub(crate) const SIZE: usize = {
                let sum = 0 $($(+ size_of::<$map_type>())*)+ $($($(+ size_of::<$in_map_type>())*)+)+;
                sum.next_multiple_of(8)
            };

            /// Returns the settings for a configuration and these keys, with the segments of an
            /// Ethernet.
            pub fn of(config: &Config, keys: [CookieKey; 2]) -> Self {
                Self {
                    keys,
                    previous_until: Duration::ZERO,
                    mss4: 1460,
                    mss6: 1440,
                    $($($map: from(config, $of),)*)+
                    $($($($in_map: from(config, $in_of),)*)+)+
                    servers: config.servers.clone(),
                    $($($core: from(config, $core_of),)?)+
                    $($($($in_core: from(config, $in_core_of),)?)+)+
                }
            }
        }

        #[cfg(feature = "ebpf")]
        #[allow(clippy::useless_conversion, reason = "some are bool there, and numbers here")]
        impl From<&Settings> for Programs {
            fn from(settings: &Settings) -> Self {
                Self {
                    keys: settings.keys.map(|key| cookie_key { k0: key.k0, k1: key.k1 }),
                    previous_until_ns: settings.previous_until.as_nanos() as u64,
                    mss4: settings.mss4,
                    mss6: settings.mss6,
                    window_scaling: 1,
                    $($($map: settings.$map.into(),)*)+
                    $($($($in_map: settings.$in_map.into(),)*)+)+
                    ..Self::default()
                }
            }
        }
    };
}

macro_rules! key {
    (
        $name:expr, $about:tt, $kind:expr, $placeholder:literal, $when:ident, [$($sample:literal)?],
        $($field:ident).+
    ) => {
        Key {
            name: $name,
            placeholder: $placeholder,
            live: live!($when),
            about: &$about,
            sample: &[$($sample)?],
            set: |config, raw| {
                config.$($field).+ = $kind.read(raw)?;
                Ok(())
            },
            show: |config| $kind.show(&config.$($field).+),
            copy: |from, to| to.$($field).+ = from.$($field).+.clone(),
        }
    };
}

macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

macro_rules! live {
    (live) => {
        true
    };
    (fixed) => {
        false
    };
}

/// Tells the compiler the type of the closure's argument.
fn from<T>(config: &Config, of: impl Fn(&Config) -> T) -> T {
    of(config)
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1000)
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&Config::default(), [CookieKey::default(); 2])
    }
}

include!("keys.rs");
