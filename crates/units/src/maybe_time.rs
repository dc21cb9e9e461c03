//! A time or none, in eight bytes.

use crate::Time;

/// An `Option<Time>` in the size of a [`Time`]. None compares as later than every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaybeTime(Time);

impl MaybeTime {
    /// No time.
    pub const NONE: Self = Self(Time::MAX);

    /// Returns the time, unless there is none.
    #[inline(always)]
    pub fn get(self) -> Option<Time> {
        (self != Self::NONE).then_some(self.0)
    }

    /// Returns the time if there is one and it is not after `until`, which must not be `Time::MAX`.
    #[inline(always)]
    pub fn by(self, until: Time) -> Option<Time> {
        debug_assert!(until < Time::MAX, "nothing happens at the end of time");
        (self.0 <= until).then_some(self.0)
    }

    /// Returns whether it is this time.
    #[inline(always)]
    pub fn is(self, at: Time) -> bool {
        self.0 == at
    }

    /// Returns whether it comes after `at`, or never.
    #[inline(always)]
    pub fn is_after(self, at: Time) -> bool {
        self.0 > at
    }
}

impl From<Time> for MaybeTime {
    #[inline(always)]
    fn from(at: Time) -> Self {
        Self(at)
    }
}

impl From<Option<Time>> for MaybeTime {
    #[inline(always)]
    fn from(at: Option<Time>) -> Self {
        at.map_or(Self::NONE, Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_later_than_every_moment() {
        let at = Time::from_ps(u64::MAX - 1);
        assert_eq!((MaybeTime::from(at).get(), MaybeTime::from(None).get()), (Some(at), None));
        assert_eq!((MaybeTime::from(at).by(at), MaybeTime::NONE.by(at)), (Some(at), None));
        assert!(MaybeTime::NONE.is_after(at) && !MaybeTime::from(at).is_after(at));
        assert!(MaybeTime::from(at) < MaybeTime::NONE);
    }
}
