//! The ECN field of an IP header.

/// The ECN field (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: `00`.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1): `01`.
    Ect1 = 1,
    /// ECN-capable, ECT(0): `10`.
    Ect0 = 2,
    /// Congestion experienced: `11`.
    Ce = 3,
}

impl Ecn {
    /// Returns the field that the lower two bits of an octet hold.
    #[inline]
    pub const fn from_bits(octet: u8) -> Self {
        match octet & 0b11 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns its name in RFC 3168, in small letters: `not-ect`, `ect1`, `ect0` or `ce`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotEct => "not-ect",
            Self::Ect1 => "ect1",
            Self::Ect0 => "ect0",
            Self::Ce => "ce",
        }
    }

    /// Returns whether a queue may mark the packet instead of dropping it. Also true if it is
    /// already marked.
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}
