//! From the configuration to the programs' `struct settings`, and plain structs to bytes and back.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::links::XdpMode;
use super::{KernelError, types};
use crate::config::{Close, Config};
use crate::core::{burst_ns, interval_ns};
use crate::interface::Interface;
use crate::keys::{CookieKey, previous_until_s, unix_s, wall_offset_ns};

/// Structs that the programs share with us: plain old data without padding.
///
/// # Safety
///
/// Implementors are `repr(C)`, made of integers, and have no padding, so that each is as good as its bytes and
/// any bytes are one.
#[allow(unsafe_code, reason = "maps hold bytes")]
pub unsafe trait Plain: Copy + Default {
    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: there is no padding, so that each byte of it is initialised; it lives as long as the slice.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// From its bytes; `None` where there are not as many.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: there are enough bytes, any bytes are a value, and they need not be aligned.
        Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
    }
}

macro_rules! plain {
    ($($name:ident $size:literal)*) => {$(
        // The sum of the fields' sizes, so that there is no padding.
        const _: () = assert!(size_of::<types::$name>() == $size);
        // SAFETY: repr(C), integers only (libbpf-cargo makes it from the programs' BTF), and no padding.
        #[allow(unsafe_code, reason = "see Plain")]
        unsafe impl Plain for types::$name {}
    )*};
}
plain! { settings 128 flow 64 flow_key 20 source 16 }

/// The programs' settings for a configuration, where XDP runs in this mode.
pub fn of(
    config: &Config,
    interface: &Interface,
    mode: XdpMode,
    keys: [CookieKey; 2],
) -> types::settings {
    let limits = &config.limits;
    let (mss4, mss6) = interface.mss();
    types::settings {
        keys: keys.map(|key| types::cookie_key { k0: key.k0, k1: key.k1 }),
        wall_offset_ns: wall_offset_ns(),
        previous_until_ns: previous_until_s(unix_s(), config.rotation) * 1_000_000_000,
        syn_interval_ns: interval_ns(limits.syn_rate),
        syn_burst_ns: burst_ns(limits.syn_rate, limits.syn_burst),
        query_interval_ns: interval_ns(limits.query_rate),
        query_burst_ns: burst_ns(limits.query_rate, limits.query_burst),
        large_ns: config.cache.names_for.as_ps() / 1000,
        // A minute at most: see its key.
        patience_us: (config.patience.as_ps() / 1_000_000) as u32,
        interface: interface.index,
        port: config.port,
        mss4,
        mss6,
        edns_size: config.edns_size,
        max_segments: config.max_segments,
        truncate_over: config.truncate_over,
        syncache_limit: config.syncache.cachelimit,
        syncache_bucket_limit: config.syncache.bucketlimit,
        active: config.active.into(),
        close_fin: (config.close == Close::Fin).into(),
        syncache: config.syncache.active.into(),
        axfr_detect: config.axfr_detect.into(),
        loglevel: config.loglevel,
        generic: (mode == XdpMode::Generic).into(),
        ..types::settings::default()
    }
}

/// Writes the settings' one element.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn write(map: &MapHandle, settings: &types::settings) -> Result<(), KernelError> {
    map.update(&0u32.to_ne_bytes(), settings.bytes(), MapFlags::ANY)
        .map_err(|error| KernelError::refused("writing the settings", error))
}

/// Reads the settings' one element.
///
/// # Errors
///
/// Where the kernel refuses, or the element is of another version.
pub fn read(map: &MapHandle) -> Result<types::settings, KernelError> {
    map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| KernelError::refused("reading the settings", error))?
        .and_then(|bytes| types::settings::from_bytes(&bytes))
        .ok_or_else(|| KernelError::pins("reading the settings", "they are another version's"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface { name: "eth0".into(), index: 7, mtu: 1500, hardware: 1, up: true }
    }

    #[test]
    fn settings_are_the_configurations() {
        let settings = of(
            &Config::default(),
            &interface(),
            XdpMode::Generic,
            [CookieKey { k0: 1, k1: 2 }, CookieKey { k0: 3, k1: 4 }],
        );
        assert_eq!(
            (settings.interface, settings.port, settings.mss4, settings.mss6),
            (7, 53, 1460, 1440)
        );
        assert_eq!((settings.keys[0].k1, settings.keys[1].k0), (2, 3));
        assert_eq!(
            (settings.active, settings.axfr_detect, settings.syncache, settings.close_fin),
            (1, 1, 0, 0)
        );
        assert_eq!((settings.syn_interval_ns, settings.generic), (0, 1));
        assert_eq!((settings.query_interval_ns, settings.patience_us), (500_000, 500_000));
    }

    #[test]
    fn a_burst_lets_exactly_its_number_pass() {
        // GCRA as PROTOCOL.md says it, at one moment.
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
        let settings =
            of(&Config::default(), &interface(), XdpMode::Native, [CookieKey::default(); 2]);
        let back = types::settings::from_bytes(settings.bytes()).expect("the same size");
        assert_eq!(back.bytes(), settings.bytes());
        assert!(types::settings::from_bytes(&[0; 3]).is_none());
    }
}
