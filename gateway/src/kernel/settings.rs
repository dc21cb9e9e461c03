//! Turns the configuration into the programs' `struct settings`, and plain structs into bytes and
//! back.

use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::KernelError;
use super::links::XdpMode;
use super::skeleton::types;
use crate::config::{Config, Settings};
use crate::core::CookieKey;
use crate::interface::Interface;
use crate::keys::{previous_until_s, unix_s, wall_offset_ns};

/// Structs that the programs share with us: plain old data without padding.
///
/// # Safety
///
/// Implementors are `repr(C)`, consist of integers and have no padding. So each value can be read
/// as its bytes, and any bytes are a value.
#[allow(unsafe_code, reason = "maps hold bytes")]
pub unsafe trait Plain: Copy + Default {
    /// Returns its bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: without padding, each of its bytes is initialised; it lives as long as the slice.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// Makes one from its bytes; `None` if their number is wrong.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: there are enough bytes, any bytes are a valid value, and they need not be
        // aligned.
        Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
    }
}

macro_rules! plain {
    ($($name:ident $size:tt)*) => {$(
        // The size is the sum of the fields' sizes, so there is no padding.
        const _: () = assert!(size_of::<types::$name>() == $size);
        // SAFETY: it is repr(C) with integers only (libbpf-cargo makes it from the programs' BTF),
        // and has no padding.
        #[allow(unsafe_code, reason = "see Plain")]
        unsafe impl Plain for types::$name {}
    )*};
}
/// See `bpf/types.h` and `build.rs`, which puts zeros where there would be padding.
const SETTINGS_SIZE: usize = 56 + Settings::SIZE;
plain! { settings SETTINGS_SIZE flow 64 flow_key 20 source 24 source_key 8 opens 1068 }

/// What else the kernel does in this network namespace, as far as the programs must know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Connection tracking is active: it must see a handshake for connections that the kernel takes
    /// over.
    pub tracking: bool,
    /// `tcp_syncookies` is 0: the kernel cannot take a connection over later, so it gets all new
    /// ones from their SYN on.
    pub no_syncookies: bool,
    /// `tcp_window_scaling` is 0: the kernel takes over no connection whose client scales its
    /// window (bpf_sk_assign_tcp_reqsk, net/core/filter.c of Linux 6.18), so none is agreed on.
    pub no_window_scaling: bool,
}

impl Around {
    /// Returns the present state. Once tracking was seen, it counts as active: a quiet machine may
    /// have nothing to track for a while.
    pub fn look(before: Self) -> Self {
        let number =
            |path: &str| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
        // A kernel that tracks anything also tracks each query's datagram, including those of the
        // server check.
        let followed = number("/proc/sys/net/netfilter/nf_conntrack_count");
        Self {
            tracking: before.tracking || followed.is_some_and(|n| n > 0),
            no_syncookies: number(SYNCOOKIES) == Some(0),
            no_window_scaling: number("/proc/sys/net/ipv4/tcp_window_scaling") == Some(0),
        }
    }
}

/// This file says whether the kernel uses SYN cookies. Without them, it takes no connection over.
pub const SYNCOOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";

/// Returns the programs' settings for a configuration and this mode of XDP.
pub fn of(
    config: &Config,
    interfaces: &[Interface],
    mode: XdpMode,
    keys: [CookieKey; 2],
    around: Around,
) -> types::settings {
    // A reply may leave through any of the interfaces.
    let least = |mss: fn(&Interface) -> u16| interfaces.iter().map(mss).min().unwrap_or(0);
    let settings = Settings {
        previous_until: Duration::from_secs(previous_until_s(unix_s(), config.rotation)),
        mss4: least(|interface| interface.mss().0),
        mss6: least(|interface| interface.mss().1),
        ..Settings::of(config, keys)
    };
    let settings = types::settings::from(&settings);
    types::settings {
        wall_offset_ns: wall_offset_ns(),
        share: if around.no_syncookies { 0 } else { settings.share },
        generic: (mode == XdpMode::Generic).into(),
        track: around.tracking.into(),
        window_scaling: (!around.no_window_scaling).into(),
        ..settings
    }
}

/// Changes settings so that open connections go on and no new ones begin. The kernel's TCP gets new
/// connections, and open ones with their next query, so that they need the programs no longer. It
/// gets them whatever the limit, as it would without the programs. Open connections stay here if
/// the kernel takes none over.
pub fn drain(settings: &mut types::settings, around: Around) {
    settings.active = 1;
    settings.share = 0;
    settings.adoptions = 0;
    if !around.no_syncookies {
        settings.later_queries = 0;
        settings.several_queries = 0;
    }
}

/// Writes the only element of the settings.
///
/// # Errors
///
/// Returns an error if the kernel refuses.
pub fn write(map: &MapHandle, settings: &types::settings) -> Result<(), KernelError> {
    map.update(&0u32.to_ne_bytes(), settings.bytes(), MapFlags::ANY)
        .map_err(|error| KernelError::refused("writing the settings", error))
}

/// Reads the only element of the settings.
///
/// # Errors
///
/// Returns an error if the kernel refuses, or the element belongs to another version.
pub fn read(map: &MapHandle) -> Result<types::settings, KernelError> {
    map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| KernelError::refused("reading the settings", error))?
        .and_then(|bytes| types::settings::from_bytes(&bytes))
        .ok_or_else(|| KernelError::pins("reading the settings", "they are another version's"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Active;
    use crate::core::{burst_ns, interval_ns};

    fn interface() -> Interface {
        Interface { name: "eth0".into(), index: 7, mtu: 1500, hardware: 1, up: true }
    }

    #[test]
    fn settings_are_the_configurations() {
        let settings = of(
            &Config::default(),
            &[interface()],
            XdpMode::Generic,
            [CookieKey { k0: 1, k1: 2 }, CookieKey { k0: 3, k1: 4 }],
            Around::default(),
        );
        assert_eq!((settings.port, settings.mss4, settings.mss6), (53, 1460, 1440));
        assert_eq!((settings.keys[0].k1, settings.keys[1].k0), (2, 3));
        assert_eq!(
            (settings.active, settings.axfr_detect, settings.syncache, settings.close_fin),
            (1, 1, 0, 0)
        );
        assert_eq!((settings.syn_interval_ns, settings.generic), (0, 1));
        assert_eq!((settings.query_interval_ns, settings.patience_us), (500_000, 500_000));
        assert_eq!((settings.share, settings.track), (u32::MAX, 0));
    }

    #[test]
    fn what_the_kernel_does_besides_is_told() {
        let of = |active, around| {
            let config = Config { active: Active::of(active), ..Config::default() };
            of(&config, &[interface()], XdpMode::Native, [CookieKey::default(); 2], around)
        };
        let off = Around { tracking: true, no_syncookies: true, no_window_scaling: true };
        let settings = of(10_000, off);
        assert_eq!((settings.share, settings.track, settings.window_scaling), (0, 1, 0));
        assert_eq!(of(10_000, Around::default()).window_scaling, 1);
        // A tenth of 2^32, minus one.
        assert_eq!(of(1_000, Around::default()).share, 429_496_729);
    }

    #[test]
    fn a_burst_lets_exactly_its_number_pass() {
        // GCRA as PROTOCOL.md describes it, at one instant.
        let (interval, burst) = (interval_ns(100), burst_ns(100, 5));
        let (mut at, mut passed) = (0u64, 0);
        for _ in 0..50 {
            if at <= burst {
                at += interval;
                passed += 1;
            }
        }
        assert_eq!(passed, 5);
        assert_eq!(interval_ns(0), 0);
    }

    #[test]
    fn bytes_and_back() {
        let settings = of(
            &Config::default(),
            &[interface()],
            XdpMode::Native,
            [CookieKey::default(); 2],
            Around::default(),
        );
        let back = types::settings::from_bytes(settings.bytes()).expect("the same size");
        assert_eq!(back.bytes(), settings.bytes());
        assert!(types::settings::from_bytes(&[0; 3]).is_none());
    }
}
