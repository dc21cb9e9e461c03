//! What the core is told: the fields of `struct settings` (`bpf/types.h`) under the same names, then what
//! the in-kernel path keeps elsewhere (map sizes, the map of server addresses, the sweeper's time-out).

use std::net::IpAddr;
use std::time::Duration;

/// How many server addresses there may be (`SERVERS_MAX`).
pub const SERVERS_MAX: usize = 16;

/// A SipHash key, as the two words of its authors' reference code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieKey {
    /// The key's first eight bytes, little-endian.
    pub k0: u64,
    /// The other eight.
    pub k1: u64,
}

impl CookieKey {
    /// The key of these 16 bytes.
    pub fn new(bytes: [u8; 16]) -> Self {
        let whole = u128::from_le_bytes(bytes);
        Self { k0: whole as u64, k1: (whole >> 64) as u64 }
    }
}

/// The core's settings. [`Settings::default`] holds what PROTOCOL.md and the paper (section V.B) give,
/// but for the servers' addresses and the keys, which have no default that would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The first makes cookies; the second did before.
    pub keys: [CookieKey; 2],
    /// Until when, since 1970, the second is accepted.
    pub previous_until: Duration,
    /// Nanoseconds between two SYNs of one source, on average; 0: no limit.
    pub syn_interval_ns: u64,
    /// Nanoseconds of credit that a quiet source gathers for SYNs.
    pub syn_burst_ns: u64,
    /// The same as `syn_interval_ns` for queries on new connections.
    pub query_interval_ns: u64,
    /// The same as `syn_burst_ns` for queries on new connections.
    pub query_burst_ns: u64,
    /// For how many nanoseconds a name with a large reply is remembered.
    pub large_ns: u64,
    /// How many microseconds the server has to answer before a query that comes again is the kernel's.
    pub patience_us: u32,
    /// Clients whose hash is below are served; `u32::MAX`: all.
    pub share: u32,
    /// The servers' port.
    pub port: u16,
    /// The largest payload that we take in an IPv4 segment: the interface's MTU less 40.
    pub mss4: u16,
    /// The same for IPv6: the MTU less 60.
    pub mss6: u16,
    /// The EDNS payload size asked of the server for queries that came over TCP.
    pub edns_size: u16,
    /// Segments of one reply; longer ones are the kernel's.
    pub max_segments: u16,
    /// UDP replies of more bytes than this are truncated; 0: none.
    pub truncate_over: u16,
    /// Entries made by SYNs at once (the paper's cache limit).
    pub syncache_limit: u32,
    /// Of them in one bucket (the paper's bucket limit).
    pub syncache_bucket_limit: u32,
    /// Otherwise everything passes.
    pub active: bool,
    /// FIN on the last segment of a reply, as in the paper; otherwise connections are kept.
    pub close_fin: bool,
    /// A query is acknowledged before its reply, as in the paper; otherwise by the reply.
    pub at_once: bool,
    /// An entry for each SYN, as in the paper; otherwise cookies alone.
    pub syncache: bool,
    /// Zone transfers are left to the kernel's TCP.
    pub axfr_detect: bool,
    /// Queries after the first of a connection are served, one at a time; otherwise the kernel's TCP has them.
    pub later_queries: bool,

    /// The servers' addresses, at most [`SERVERS_MAX`].
    pub servers: Vec<IpAddr>,
    /// How long an entry waits for the query, the server, or the machine's own TCP.
    pub timeout: Duration,
    /// How long a connection is kept when its reply was acknowledged.
    pub idle: Duration,
    /// Connections at once; when there are more, the one that is longest unused goes.
    pub flows: usize,
    /// Sources whose rates are known at once.
    pub sources: usize,
    /// Names with large replies that are remembered at once.
    pub large: usize,
    /// Bytes of the ring of queries and replies; rounded up to a power of two.
    pub ring: usize,
    /// Buckets of the SYN cache (the paper's hash size).
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
