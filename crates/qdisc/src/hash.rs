//! A hash of flows, for queues and for whatever makes packets.

/// Returns a value that looks random and differs for each seed. Different keys have different
/// values, so it makes a [`Packet::flow_hash`](crate::Packet::flow_hash) of a flow's number.
///
/// It is the finaliser of MurmurHash3 with Stafford's constants (mix 13), as in SplitMix64 (Steele,
/// Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), with the seed mixed
/// in before it and after its first multiplication.
#[inline]
pub const fn mix(key: u64, seed: u64) -> u64 {
    let mut z = key ^ seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(seed);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
