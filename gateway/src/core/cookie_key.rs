//! The key of the cookie's hash.

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
