//! An index or none, in four bytes.

/// An `Option<u32>` in the size of a `u32`. None lies beyond the end of every list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaybeIndex(u32);

impl MaybeIndex {
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Wraps an index, which must be below 2^32 - 1.
    #[inline(always)]
    pub(crate) const fn some(index: u32) -> Self {
        Self(index)
    }

    /// Returns the index, unless there is none.
    #[inline(always)]
    pub(crate) fn get(self) -> Option<u32> {
        (self != Self::NONE).then_some(self.0)
    }

    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Returns the index for a lookup: none is beyond the end of every list.
    #[inline(always)]
    pub(crate) const fn place(self) -> usize {
        self.0 as usize
    }

    /// Returns a number that is different for every index and for none.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_found_nowhere() {
        assert_eq!((MaybeIndex::some(7).get(), MaybeIndex::NONE.get()), (Some(7), None));
        assert_eq!([1, 2, 3].get(MaybeIndex::NONE.place()), None);
        assert_eq!([1, 2, 3].get(MaybeIndex::some(1).place()), Some(&2));
    }
}
