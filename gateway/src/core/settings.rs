//! The core's settings: the fields of `struct settings` (`bpf/types.h`) under the same names,
//! followed by what the in-kernel path keeps elsewhere (map sizes, the map of server addresses, the
//! sweeper's timeouts).

use std::net::IpAddr;
use std::time::Duration;

/// The most server addresses (`SERVERS_MAX`).
pub const SERVERS_MAX: usize = 16;

/// A SipHash key, as the two words of its authors' reference code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieKey {
    /// The key's first eight bytes, little-endian.
    pub k0: u64,
    /// The key's other eight bytes, little-endian.
    pub k1: u64,
}

impl CookieKey {
    /// Creates the key from these 16 bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        let whole = u128::from_le_bytes(bytes);
        Self { k0: whole as u64, k1: (whole >> 64) as u64 }
    }
}

/// The core's settings. [`Settings::default`] has the values of PROTOCOL.md and of the paper
/// (section V.B). The servers' addresses and the keys have no sensible default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first key makes cookies; the second one did so before.
    pub keys: [CookieKey; 2],
    /// Until when the second key is accepted, as time since 1970.
    pub previous_until: Duration,
    /// Nanoseconds between two SYNs of one source, on average; 0: no limit.
    pub syn_interval_ns: u64,
    /// Nanoseconds of credit that a quiet source collects for SYNs.
    pub syn_burst_ns: u64,
    /// Nanoseconds between two queries of one source on new connections, on average; 0: no limit.
    pub query_interval_ns: u64,
    /// Nanoseconds of credit that a quiet source collects for queries on new connections.
    pub query_burst_ns: u64,
    /// How many nanoseconds a name with a large reply is remembered.
    pub large_ns: u64,
    /// How many microseconds the server may take. A query that comes again after that goes to the
    /// kernel.
    pub patience_us: u32,
    /// Clients whose hash is below this are served; `u32::MAX`: all.
    pub share: u32,
    /// The servers' port.
    pub port: u16,
    /// The largest payload of an IPv4 segment in either direction: the interface's MTU minus 40.
    pub mss4: u16,
    /// The largest payload of an IPv6 segment in either direction: the interface's MTU minus 60.
    pub mss6: u16,
    /// The EDNS payload size asked of the server for queries that came over TCP.
    pub edns_size: u16,
    /// The most segments of one reply; the kernel sends longer ones.
    pub max_segments: u16,
    /// UDP replies of more bytes than this are truncated; 0: none.
    pub truncate_over: u16,
    /// The most entries in state SYN at once (the paper's cache limit).
    pub syncache_limit: u32,
    /// The most of them in one bucket (the paper's bucket limit).
    pub syncache_bucket_limit: u32,
    /// Whether anything is served. Otherwise everything passes.
    pub active: bool,
    /// Whether the last segment of a reply has FIN, as in the paper. Otherwise connections are
    /// kept.
    pub close_fin: bool,
    /// Whether a query is acknowledged before its reply, as in the paper. Otherwise its reply
    /// acknowledges it.
    pub at_once: bool,
    /// Whether each SYN makes an entry, as in the paper. Otherwise there are only cookies.
    pub syncache: bool,
    /// Whether zone transfers are left to the kernel's TCP.
    pub axfr_detect: bool,
    /// Whether later queries of a connection are served, one at a time. Otherwise the kernel's TCP
    /// gets them.
    pub later_queries: bool,

    /// The servers' addresses, at most [`SERVERS_MAX`].
    pub servers: Vec<IpAddr>,
    /// How long an entry waits for the query, the server, or the machine's own TCP.
    pub timeout: Duration,
    /// How long a connection is kept after its reply was acknowledged.
    pub idle: Duration,
    /// The most connections at once. If there are more, the least recently used one is removed.
    pub flows: usize,
    /// The most sources whose rates are known at once.
    pub sources: usize,
    /// The most names with large replies that are remembered at once.
    pub large: usize,
    /// The bytes of the ring of queries and replies; rounded up to a power of two.
    pub ring: usize,
    /// The buckets of the SYN cache (the paper's hash size).
    pub hashsize: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: [CookieKey::default(); 2],
            previous_until: Duration::ZERO,
            syn_interval_ns: 0,
            syn_burst_ns: 0,
            query_interval_ns: 0,
            query_burst_ns: 0,
            large_ns: 60_000_000_000,
            patience_us: 500_000,
            share: u32::MAX,
            port: 53,
            mss4: 1460,
            mss6: 1440,
            edns_size: 65_500,
            max_segments: 10,
            truncate_over: 0,
            syncache_limit: 512 * 30,
            syncache_bucket_limit: 30,
            active: true,
            close_fin: false,
            at_once: false,
            syncache: false,
            axfr_detect: true,
            later_queries: true,
            servers: Vec::new(),
            timeout: Duration::from_secs(3),
            idle: Duration::from_secs(10),
            flows: 65_536,
            sources: 65_536,
            large: 4096,
            ring: 1 << 24,
            hashsize: 512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_two_little_endian_words() {
        let bytes: [u8; 16] = core::array::from_fn(|i| i as u8);
        let key = CookieKey::new(bytes);
        assert_eq!(key, CookieKey { k0: 0x0706_0504_0302_0100, k1: 0x0f0e_0d0c_0b0a_0908 });
    }
}
