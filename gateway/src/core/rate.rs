//! Rates of sources by GCRA, a token bucket stored as one number (ITU-T I.371, annex A: virtual
//! scheduling).
//!
//! A source is an IPv4 address or the first 64 bits of an IPv6 address. That is the smallest
//! network that one subscriber gets (RFC 6177), so nobody has more than one bucket for each
//! network.

use std::net::IpAddr;

/// When the buckets of a source will be full again, in nanoseconds of the boot clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// For SYNs.
    pub syn_at: u64,
    /// For queries on new connections.
    pub query_at: u64,
    /// For long replies in the ring.
    pub ring_at: u64,
}

/// Returns whether one more packet conforms at `now`. If so, `at` advances by `interval`.
///
/// `burst` is how far `at` may be ahead of `now`. An `interval` of 0 means that there is no limit.
pub(super) fn conforms(at: &mut u64, now: u64, interval: u64, burst: u64) -> bool {
    if interval == 0 {
        return true;
    }
    if *at > now.saturating_add(burst) {
        return false;
    }
    *at = now.max(*at).saturating_add(interval);
    true
}

/// Returns the time between two packets at this rate per second, in nanoseconds; 0: no limit.
pub fn interval_ns(rate: u32) -> u64 {
    if rate == 0 { 0 } else { (1_000_000_000 / u64::from(rate)).max(1) }
}

/// Returns how far ahead of now a source may be for a burst of this many packets, in nanoseconds.
/// The first of a burst finds the source not ahead at all.
pub fn burst_ns(rate: u32, burst: u32) -> u64 {
    interval_ns(rate) * u64::from(burst.saturating_sub(1))
}

/// Returns the number of a source: an IPv4 address, or the first 64 bits of an IPv6 address.
pub(super) fn source(client: IpAddr) -> u64 {
    match client {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a million packets, one each microsecond, a rate of 1000/s with a burst of 50 lets 1000
    /// and the burst pass.
    #[test]
    fn over_a_second_the_rate_and_the_burst_pass() {
        let (interval, burst) = (1_000_000, 50_000_000);
        let mut at = 0;
        let start = 1_000_000_000;
        let passed = (0..1_000_000)
            .filter(|microsecond| conforms(&mut at, start + microsecond * 1000, interval, burst))
            .count();
        assert!((1050..=1052).contains(&passed), "{passed}");
    }

    #[test]
    fn a_quiet_source_gathers_no_more_than_the_burst() {
        let mut at = 0;
        let now = 3_600_000_000_000;
        let passed = (0..100).filter(|_| conforms(&mut at, now, 1_000, 5_000)).count();
        assert_eq!(passed, 6, "one, and five that are ahead");
    }

    #[test]
    fn an_interval_of_zero_is_no_limit() {
        let mut at = 0;
        assert!((0..1000).all(|_| conforms(&mut at, 5, 0, 0)));
        assert_eq!(at, 0);
    }

    #[test]
    fn a_network_of_64_bits_is_one_source() {
        let a = "2001:db8:1:2::1".parse().map(source);
        let b = "2001:db8:1:2:ffff::9".parse().map(source);
        let c = "2001:db8:1:3::1".parse().map(source);
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
