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

#[cfg(test)]
mod tests {
    use super::mix;

    /// The first numbers of SplitMix64 from the state 1234567, as Rosetta Code lists them for
    /// "Pseudo-random numbers/Splitmix64".
    #[test]
    fn without_a_seed_it_is_split_mix_64() {
        let numbers =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        let mut state = 1_234_567_u64;
        for number in numbers {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            assert_eq!(mix(state, 0), number);
        }
    }

    #[test]
    fn each_seed_gives_other_values() {
        // The formula, computed with integers that have no limit.
        assert_eq!(mix(1, 2), 11183873087017005581);
        assert_ne!(mix(1, 2), mix(2, 1));
    }
}
