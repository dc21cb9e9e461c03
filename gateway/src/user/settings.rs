//! Turns the configuration into the core's settings, as `src/kernel/settings.rs` does for the
//! programs.

use std::time::Duration;

use narrows_units::Span;

use super::PathSettings;
use crate::config::{Acknowledge, Close, Config};
use crate::core::{CookieKey, Settings, burst_ns, interval_ns};
use crate::keys::{self, previous_until_s, unix_s};

/// Returns the core's settings for a configuration. The link determines the largest segments.
pub fn core_settings(config: &Config, keys: [keys::CookieKey; 2]) -> Settings {
    let limits = &config.limits;
    Settings {
        keys: core_keys(keys),
        previous_until: Duration::from_secs(previous_until_s(unix_s(), config.rotation)),
        syn_interval_ns: interval_ns(limits.syn_rate),
        syn_burst_ns: burst_ns(limits.syn_rate, limits.syn_burst),
        query_interval_ns: interval_ns(limits.query_rate),
        query_burst_ns: burst_ns(limits.query_rate, limits.query_burst),
        large_ns: config.cache.names_for.as_ps() / 1000,
        patience_us: (config.patience.as_ps() / 1_000_000) as u32,
        share: config.active.share(),
        port: config.port,
        mss4: u16::MAX,
        mss6: u16::MAX,
        edns_size: config.edns_size,
        max_segments: config.max_segments,
        truncate_over: config.truncate_over,
        syncache_limit: config.syncache.cachelimit,
        syncache_bucket_limit: config.syncache.bucketlimit,
        active: config.active.any(),
        close_fin: config.close == Close::Fin,
        at_once: config.acknowledge == Acknowledge::AtOnce,
        syncache: config.syncache.active,
        axfr_detect: config.axfr_detect,
        later_queries: config.later_queries,
        servers: config.servers.clone(),
        timeout: duration(config.timeout),
        idle: duration(config.idle),
        flows: config.cache.connections as usize,
        sources: config.cache.sources as usize,
        large: config.cache.names as usize,
        ring: config.cache.ring.get() as usize,
        hashsize: config.syncache.hashsize,
    }
}

/// Returns the path's settings beyond the core's.
pub fn path_settings(config: &Config) -> PathSettings {
    PathSettings {
        upstream: config.user.upstream.clone(),
        queries: config.user.queries as usize,
        relays: config.user.relays as usize,
        proxied: config.user.proxy_protocol,
    }
}

/// Returns the keys in the core's form.
pub fn core_keys(keys: [keys::CookieKey; 2]) -> [CookieKey; 2] {
    keys.map(|key| CookieKey { k0: key.k0, k1: key.k1 })
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_configurations() {
        let config = Config { close: Close::Fin, ..Config::default() };
        let keys = [keys::CookieKey { k0: 1, k1: 2 }, keys::CookieKey { k0: 3, k1: 4 }];
        let settings = core_settings(&config, keys);
        assert_eq!((settings.keys[0].k1, settings.keys[1].k0), (2, 3));
        assert_eq!(
            (settings.timeout, settings.idle),
            (Duration::from_secs(3), Duration::from_secs(30))
        );
        assert_eq!((settings.port, settings.edns_size, settings.ring), (53, 4096, 16 << 20));
        assert_eq!(settings.syn_interval_ns, 0);
        assert!(settings.close_fin && settings.active && !settings.syncache);
    }
}
