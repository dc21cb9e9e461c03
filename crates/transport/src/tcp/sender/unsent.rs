//! What the application has written and the sender has not sent yet.

/// A number of bytes, or data without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsent(u64);

impl Unsent {
    /// More than any connection sends.
    const ENDLESS: u64 = u64::MAX;

    /// Adds bytes; `u64::MAX`: without end.
    pub(super) fn write(&mut self, bytes: u64) {
        self.0 = self.0.saturating_add(bytes);
    }

    /// Ends data without end.
    pub(super) fn end_forever(&mut self) {
        if self.0 == Self::ENDLESS {
            self.0 = 0;
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the bytes that fit into a segment of `mss`.
    #[inline(always)]
    pub(crate) fn up_to(self, mss: u16) -> u16 {
        self.0.min(mss.into()) as u16
    }

    /// Takes `bytes` away. There must be as many.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: u16) {
        if self.0 != Self::ENDLESS {
            self.0 -= u64::from(bytes);
        }
    }

    /// Returns the number of sequence numbers that these bytes take; 0 for data without end.
    pub(super) fn reach(self) -> u32 {
        if self.0 == Self::ENDLESS { 0 } else { self.0 as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_and_taken() {
        let mut unsent = Unsent::default();
        assert!(unsent.is_empty());
        unsent.write(100);
        unsent.write(50);
        assert_eq!((unsent.up_to(149), unsent.up_to(151), unsent.reach()), (149, 150, 150));
        unsent.end_forever();
        unsent.take(30);
        assert_eq!((unsent, unsent.is_empty()), (Unsent(120), false));
        unsent.write(u64::MAX);
        unsent.take(30);
        unsent.write(7);
        assert_eq!((unsent.up_to(1448), unsent.reach()), (1448, 0));
        unsent.end_forever();
        assert!(unsent.is_empty());
    }
}
