//! Sequence numbers modulo 2^32 (RFC 9293, section 3.4).

use core::ops::Add;

/// A sequence number. Not `Ord`: comparison is modulo 2^32 and holds only inside a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns whether this comes before `other`.
    #[inline]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns whether this comes after `other`.
    #[inline]
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// Returns the number of bytes from `earlier` to this one.
    #[inline]
    pub const fn distance(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns the later of the two.
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    #[inline]
    fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293, 3.4: comparisons are modulo 2^32.
    #[test]
    fn numbers_wrap_around() {
        for (one, other, before) in [
            (0, 1, true),
            (1, 0, false),
            (5, 5, false),
            (u32::MAX, 0, true),
            (0, u32::MAX, false),
            (0, 0x7fff_ffff, true),
            (0x7fff_ffff, 0, false),
        ] {
            let (one, other) = (Seq(one), Seq(other));
            assert_eq!((one.before(other), other.after(one)), (before, before));
            assert_eq!(one.max(other), if before { other } else { one });
        }
        assert_eq!((Seq(3).distance(Seq(u32::MAX)), Seq(u32::MAX) + 4), (4, Seq(3)));
    }
}
