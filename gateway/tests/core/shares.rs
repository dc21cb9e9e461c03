//! A share of the clients is a sample of them: neighbours are in it independently of each other, so
//! no network and no resolver farm is in it as a whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_gateway::core::in_share;

/// Clients of each sequence: four times the 256 of a /24 or a /120.
const CLIENTS: u128 = 1024;
const NETWORK: usize = 256;
/// How far from its mean a count may be, in standard deviations: beyond that is one count in a
/// million.
const DEVIATIONS: f64 = 5.0;

/// The first address of each sequence, and the distance from one to the next.
const SEQUENCES: [(&str, u128); 11] = [
    ("10.77.0.0", 1),
    ("172.16.252.0", 1),
    ("192.0.2.0", 1),
    ("198.51.100.0", 1),
    ("2001:db8::", 1),
    ("2001:db8:7:1::f00", 1),
    ("fe80::53:0", 1),
    // The same host of consecutive networks: /24, /120, /64 and /48.
    ("10.0.0.53", 1 << 8),
    ("2001:db8::53", 1 << 8),
    ("2001:db8::53", 1 << 64),
    ("2001:db8::53", 1 << 80),
];

fn clients(first: &str, distance: u128) -> impl Iterator<Item = IpAddr> {
    let first: IpAddr = first.parse().expect("an address");
    (0..CLIENTS).map(move |i| match first {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + (i * distance) as u32).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + i * distance).into(),
    })
}

/// Checks a count of which the mean and the variance are known.
fn near(count: usize, mean: f64, variance: f64, what: &str) {
    let off = (count as f64 - mean).abs() / variance.sqrt();
    assert!(off < DEVIATIONS, "{what}: {count} instead of {mean:.0}, {off:.1} standard deviations");
}

#[test]
fn neighbours_are_in_a_share_independently() {
    for (first, distance) in SEQUENCES {
        for p in [0.1, 0.5] {
            let share = (p * f64::from(u32::MAX)) as u32;
            let served: Vec<bool> =
                clients(first, distance).map(|client| in_share(client, share)).collect();
            let what = format!("{p} of the clients from {first} on, {distance} apart");
            for network in served.chunks(NETWORK) {
                let count = network.iter().filter(|&&served| served).count();
                // Of a binomial distribution.
                near(count, NETWORK as f64 * p, NETWORK as f64 * p * (1.0 - p), &what);
            }
            // One of a pair of neighbours is in, the other is not. Two pairs with a client in
            // common are both such if it differs from both others: p (1 - p) of the time.
            let changes = served.windows(2).filter(|pair| pair[0] != pair[1]).count();
            let (pairs, q) = (CLIENTS as f64 - 1.0, 2.0 * p * (1.0 - p));
            let variance = pairs * q * (1.0 - q) + 2.0 * (pairs - 1.0) * (p * (1.0 - p) - q * q);
            near(changes, pairs * q, variance, &format!("changes, {what}"));
        }
    }
}

/// Whether a host is in the share says nothing about the same host of another network.
#[test]
fn networks_have_patterns_of_their_own() {
    for (first, distance) in SEQUENCES {
        let served: Vec<bool> =
            clients(first, distance).map(|client| in_share(client, u32::MAX / 2)).collect();
        for (i, one) in served.chunks(NETWORK).enumerate() {
            for other in served.chunks(NETWORK).skip(i + 1) {
                let alike = one.iter().zip(other).filter(|(a, b)| a == b).count();
                let mean = NETWORK as f64 / 2.0;
                near(alike, mean, mean / 2.0, &format!("hosts alike from {first} on"));
            }
        }
    }
}
