//! What segments say with Accurate ECN: ACE, a counter of marked packets in three flags, and the
//! AccECN option, counters of payload bytes by codepoint.
//!
//! Source: RFC 9768, 3.2.2 and 3.2.3. The option's counters have 24 bits. The option has two orders,
//! and each may end after any field:
//!
//! ```text
//! order 0 (kind 172)   length   EE0B   ECEB   EE1B
//! order 1 (kind 174)   length   EE1B   ECEB   EE0B
//! ```

use super::Flags;

/// The AccECN option, with zero to three fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccurateEcn {
    /// The fields as they follow each other.
    fields: [u32; 3],
    len: u8,
    order: Order,
}

/// Which counter an AccECN option begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// That of ECT(0): kind 172.
    Zero,
    /// That of ECT(1): kind 174.
    One,
}

/// Counts of payload bytes by codepoint, modulo 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnBytes {
    /// Bytes that arrived as ECT(0).
    pub ect0: u32,
    /// Bytes that arrived marked.
    pub ce: u32,
    /// Bytes that arrived as ECT(1).
    pub ect1: u32,
}

impl EcnBytes {
    /// The initial values (RFC 9768, 3.2.1): they differ from 0, so that a middlebox that clears
    /// the fields is noticed.
    pub const INITIAL: Self = Self { ect0: 1, ce: 0, ect1: 1 };
}

impl AccurateEcn {
    /// The option of a SYN-ACK.
    pub const INITIAL: Self = Self {
        fields: [EcnBytes::INITIAL.ect0, EcnBytes::INITIAL.ce, EcnBytes::INITIAL.ect1],
        len: 3,
        order: Order::Zero,
    };

    /// The largest number of fields.
    pub const MOST_FIELDS: usize = 3;

    /// Creates the option with the first `fields` counters of `order`.
    pub fn new(order: Order, bytes: EcnBytes, fields: usize) -> Self {
        let ordered = match order {
            Order::Zero => [bytes.ect0, bytes.ce, bytes.ect1],
            Order::One => [bytes.ect1, bytes.ce, bytes.ect0],
        };
        let len = fields.min(Self::MOST_FIELDS) as u8;
        let mut fields = ordered.map(|count| count & COUNTER);
        fields.iter_mut().skip(len.into()).for_each(|absent| *absent = 0);
        Self { fields, len, order }
    }

    /// Returns the order of the fields.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the fields in the order of the option.
    pub fn fields(&self) -> &[u32] {
        &self.fields[..usize::from(self.len)]
    }

    /// Returns the counters; those that the option omits are as in `known`.
    pub fn counters(&self, known: EcnBytes) -> EcnBytes {
        let [first, ce, third] = [0, 1, 2].map(|at| self.fields().get(at).copied());
        let (ect0, ect1) = match self.order {
            Order::Zero => (first, third),
            Order::One => (third, first),
        };
        EcnBytes {
            ect0: ect0.unwrap_or(known.ect0),
            ce: ce.unwrap_or(known.ce),
            ect1: ect1.unwrap_or(known.ect1),
        }
    }

    /// Returns the option's length in bytes, padded to a multiple of four.
    #[inline]
    pub fn padded_bytes(&self) -> u16 {
        (2 + 3 * u16::from(self.len)).div_ceil(4) * 4
    }
}

/// Writes a counter's lowest three bits as AE, CWR and ECE (RFC 9768, 3.2.2).
pub(super) fn ace_flags(packets: u32) -> Flags {
    let bit = |bit: u32, flag: Flags| if packets & bit != 0 { flag } else { Flags(0) };
    bit(4, Flags::AE).with(bit(2, Flags::CWR)).with(bit(1, Flags::ECE))
}

/// Reads the ACE field.
pub(super) fn ace_of(flags: Flags) -> u8 {
    let bit = |bit: u8, flag: Flags| if flags.contains(flag) { bit } else { 0 };
    bit(4, Flags::AE) | bit(2, Flags::CWR) | bit(1, Flags::ECE)
}

/// The initial value of r.cep and s.cep (RFC 9768, 3.2.1).
pub(super) const FIRST_PACKETS: u32 = 5;
/// The range of a counter: 24 bits.
pub(super) const COUNTER: u32 = (1 << 24) - 1;
/// The length of an option with all fields, padded.
pub(super) const WHOLE_OPTION: u16 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: EcnBytes = EcnBytes { ect0: 10, ce: 20, ect1: (1 << 24) + 30 };

    /// RFC 9768, 3.2.3: the lengths 11, 8, 5 and 2, the order of the fields, and 24 bits.
    #[test]
    fn an_option_ends_after_any_field() {
        for (order, fields, expected, bytes) in [
            (Order::Zero, 3, &[10, 20, 30][..], 12),
            (Order::One, 3, &[30, 20, 10], 12),
            (Order::Zero, 2, &[10, 20], 8),
            (Order::One, 1, &[30], 8),
            (Order::Zero, 0, &[], 4),
            (Order::One, 4, &[30, 20, 10], 12),
        ] {
            let option = AccurateEcn::new(order, BYTES, fields);
            assert_eq!((option.fields(), option.padded_bytes()), (expected, bytes));
            assert_eq!(option.order(), order);
        }
        assert_eq!(AccurateEcn::new(Order::One, BYTES, 3).padded_bytes(), WHOLE_OPTION);
    }

    #[test]
    fn an_omitted_counter_is_as_it_was() {
        let known = EcnBytes { ect0: 1, ce: 2, ect1: 3 };
        for (order, fields, expected) in [
            (Order::Zero, 0, (1, 2, 3)),
            (Order::Zero, 1, (10, 2, 3)),
            (Order::Zero, 2, (10, 20, 3)),
            (Order::Zero, 3, (10, 20, 30)),
            (Order::One, 1, (1, 2, 30)),
            (Order::One, 2, (1, 20, 30)),
        ] {
            let heard = AccurateEcn::new(order, BYTES, fields).counters(known);
            assert_eq!((heard.ect0, heard.ce, heard.ect1), expected);
        }
    }
}
