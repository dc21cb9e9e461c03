//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// Returns the sum of the 16-bit words of `bytes`, the last one padded with zero; not yet folded.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&byte| u64::from(byte) << 8);
    last + words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>()
}

/// Returns the sum over the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
pub(crate) fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> u64 {
    let address = |address| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    address(from) + address(to) + u64::from(protocol) + length as u64
}

/// Folds the sum to 16 bits in ones' complement arithmetic.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3.
    #[test]
    fn the_rfcs_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&bytes), 0x2ddf0);
        assert_eq!(fold(sum(&bytes)), 0xddf2);
    }

    #[test]
    fn an_odd_byte_is_padded() {
        assert_eq!(sum(&[1, 2, 3]), 0x0102 + 0x0300);
    }
}
