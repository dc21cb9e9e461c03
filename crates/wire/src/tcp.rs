//! The TCP header (RFC 9293, section 3.1) and its options.
//!
//! Options are laid out as Linux does it (`tcp_options_write`, `net/ipv4/tcp_output.c`, 6.1), so
//! that header lengths agree with what a kernel sends:
//!
//! ```text
//! MSS                     02 04 mm mm                   RFC 9293, 3.2
//! SACK-permitted + TS     04 02 08 0a vvvv eeee         RFC 2018, 2; RFC 7323, 3
//! TS                      01 01 08 0a vvvv eeee
//! SACK-permitted          01 01 04 02
//! window scale            01 03 03 ss                   RFC 7323, 2
//! SACK                    01 01 05 ll (ssss eeee)...    RFC 2018, 3
//! Fast Open               22 ll cccc... 01 01           RFC 7413, 4.1.1
//! AccECN                  ac/ae ll ffffff... 01         RFC 9768, 3.2.3
//! ```
//!
//! Reading takes any layout. Options that we do not know are skipped (RFC 9293, 3.1: MUST-6); the
//! urgent pointer and the reserved bits are not kept.

use core::fmt;

/// A TCP header. Data offset and checksum follow from the rest of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control flags.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Options.
    pub options: Options,
}

impl Tcp {
    /// Returns the length of the header in bytes, with padded options.
    pub fn bytes(&self) -> usize {
        20 + self.options.bytes()
    }
}

/// TCP's control flags, as in the header's octet 13.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168, section 6.1).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168, section 6.1).
    pub const CWR: u8 = 0x80;

    /// Returns whether all of `flags` are set.
    pub const fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }
}

/// The options that narrows knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// The window scale, a shift count. Treat values above 14 as 14 (RFC 7323, section 2.3).
    pub window_scale: Option<u8>,
    /// Whether SACK may be used.
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// TCP Fast Open.
    pub fast_open: Option<Cookie>,
    /// Accurate ECN's counters of bytes.
    pub accurate_ecn: Option<AccurateEcn>,
}

impl Options {
    /// Returns the options' length in bytes, padded to a multiple of four.
    pub fn bytes(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let shared = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let sack = match self.sack.as_slice().len() {
            0 => 0,
            n => 4 + 8 * n,
        };
        let fast_open =
            self.fast_open.map_or(0, |cookie| (2 + cookie.as_slice().len()).div_ceil(4) * 4);
        let accurate_ecn =
            self.accurate_ecn.map_or(0, |option| (2 + 3 * option.as_slice().len()).div_ceil(4) * 4);
        mss + shared + scale + sack + fast_open + accurate_ecn
    }

    /// Appends the options, padded.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(mss) = self.mss {
            out.extend([MSS, 4]);
            out.extend(mss.to_be_bytes());
        }
        match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => out.extend([SACK_PERMITTED, 2]),
            (true, false) => out.extend([NOP, NOP, SACK_PERMITTED, 2]),
            (false, true) => out.extend([NOP, NOP]),
            (false, false) => {}
        }
        if let Some((value, echo)) = self.timestamps {
            out.extend([TIMESTAMPS, 10]);
            out.extend(value.to_be_bytes());
            out.extend(echo.to_be_bytes());
        }
        if let Some(scale) = self.window_scale {
            out.extend([NOP, WINDOW_SCALE, 3, scale]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            // At most four blocks, by construction.
            out.extend([NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                out.extend(start.to_be_bytes());
                out.extend(end.to_be_bytes());
            }
        }
        if let Some(cookie) = &self.fast_open {
            let length = 2 + cookie.len;
            out.extend([FAST_OPEN, length]);
            out.extend(cookie.as_slice());
            out.extend(&[NOP, NOP][..usize::from(length % 4)]);
        }
        if let Some(option) = &self.accurate_ecn {
            let length = 2 + 3 * option.len;
            out.extend([if option.order_1 { ACCURATE_ECN_1 } else { ACCURATE_ECN_0 }, length]);
            for counter in option.as_slice() {
                out.extend(&counter.to_be_bytes()[1..]);
            }
            out.extend(&[NOP; 3][..usize::from(length.next_multiple_of(4) - length)]);
        }
    }

    /// Reads an options field.
    pub(crate) fn read(mut field: &[u8]) -> Result<Self, OptionError> {
        let mut options = Self::default();
        loop {
            let (kind, length) = match *field {
                [] | [END, ..] => return Ok(options),
                [NOP, ref rest @ ..] => {
                    field = rest;
                    continue;
                }
                [kind, length, ..] => (kind, usize::from(length)),
                [kind] => return Err(OptionError { kind }),
            };
            // The length includes the octets of kind and length.
            if length < 2 || length > field.len() {
                return Err(OptionError { kind });
            }
            let (option, rest) = field.split_at(length);
            options.take(kind, &option[2..]).ok_or(OptionError { kind })?;
            field = rest;
        }
    }

    /// Reads an options field as Linux does (`tcp_parse_options`, `net/ipv4/tcp_input.c`, 6.1). An
    /// option that does not fit ends the reading. Options of a wrong length and an MSS of 0 are
    /// skipped.
    pub fn read_leniently(mut field: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            match *field {
                [NOP, ref rest @ ..] => field = rest,
                [kind, length, ..] if kind != END && (2..=field.len()).contains(&length.into()) => {
                    let (option, rest) = field.split_at(length.into());
                    if option != [MSS, 4, 0, 0] {
                        // `None` means a wrong length; only some SACK blocks may have been taken
                        // then.
                        let _ = options.take(kind, &option[2..]);
                    }
                    field = rest;
                }
                _ => return options,
            }
        }
    }

    /// Takes one option's value. Returns `None` if its length is wrong.
    fn take(&mut self, kind: u8, value: &[u8]) -> Option<()> {
        match kind {
            MSS => self.mss = Some(u16::from_be_bytes(value.try_into().ok()?)),
            WINDOW_SCALE => {
                let [scale] = value.try_into().ok()?;
                self.window_scale = Some(scale);
            }
            SACK_PERMITTED => {
                let [] = value.try_into().ok()?;
                self.sack_permitted = true;
            }
            TIMESTAMPS => self.timestamps = Some(two_words(value)?),
            SACK => {
                let mut sack = SackBlocks::default();
                if value.is_empty() {
                    return None;
                }
                for block in value.chunks(8) {
                    let (start, end) = two_words(block)?;
                    if !sack.push(start, end) {
                        return None;
                    }
                }
                self.sack = sack;
            }
            // RFC 9768, 3.2.3: other lengths are ignored.
            ACCURATE_ECN_0 | ACCURATE_ECN_1 => {
                let order_1 = kind == ACCURATE_ECN_1;
                self.accurate_ecn = AccurateEcn::read(order_1, value).or(self.accurate_ecn);
            }
            // A cookie of a wrong length counts as none (RFC 7413, 4.1.1).
            FAST_OPEN => self.fast_open = Cookie::new(value).or(self.fast_open),
            _ => {}
        }
        Some(())
    }
}

/// SACK blocks, at most four (RFC 2018, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    len: u8,
}

impl SackBlocks {
    /// Appends the block `[start, end)`. Returns false if there is no room.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = (start, end);
        self.len += 1;
        true
    }

    /// Returns the blocks in the order of the option.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// A Fast Open cookie: empty in a request for one, otherwise an even number of 4 to 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cookie {
    bytes: [u8; 16],
    len: u8,
}

impl Cookie {
    /// Creates a cookie. Returns `None` for an invalid length.
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let possible = cookie.is_empty() || (4..=16).contains(&cookie.len());
        if !possible || !cookie.len().is_multiple_of(2) {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..cookie.len()].copy_from_slice(cookie);
        Some(Self { bytes, len: cookie.len() as u8 })
    }

    /// Returns its bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Accurate ECN's counters of payload bytes (RFC 9768, 3.2.3), 24 bits each, zero to three of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccurateEcn {
    /// Whether the first counter is that of ECT(1) (kind 174), not that of ECT(0) (kind 172).
    pub order_1: bool,
    counters: [u32; 3],
    len: u8,
}

impl AccurateEcn {
    /// Creates the option. Returns `None` if there are more than three counters.
    pub fn new(order_1: bool, counters: &[u32]) -> Option<Self> {
        let mut option = Self { order_1, counters: [0; 3], len: counters.len() as u8 };
        let slots = option.counters.get_mut(..counters.len())?;
        for (slot, counter) in slots.iter_mut().zip(counters) {
            *slot = counter & 0xff_ffff;
        }
        Some(option)
    }

    fn read(order_1: bool, value: &[u8]) -> Option<Self> {
        if value.len() > 9 || !value.len().is_multiple_of(3) {
            return None;
        }
        let len = (value.len() / 3) as u8;
        let mut option = Self { order_1, counters: [0; 3], len };
        for (slot, field) in option.counters.iter_mut().zip(value.chunks_exact(3)) {
            *slot = field.iter().fold(0, |counter, &byte| counter << 8 | u32::from(byte));
        }
        Some(option)
    }

    /// Returns the counters in the order of the option.
    pub fn as_slice(&self) -> &[u32] {
        &self.counters[..usize::from(self.len)]
    }
}

/// A TCP option with an invalid length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option's kind.
    pub kind: u8,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCP option {} has a wrong length", self.kind)
    }
}

impl core::error::Error for OptionError {}

fn two_words(value: &[u8]) -> Option<(u32, u32)> {
    let value: [u8; 8] = value.try_into().ok()?;
    let [a, b, c, d, e, f, g, h] = value;
    Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
}

/// The longest options field; the data offset has four bits.
pub(crate) const MAX_OPTION_BYTES: usize = 40;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const FAST_OPEN: u8 = 34;
const ACCURATE_ECN_0: u8 = 172;
const ACCURATE_ECN_1: u8 = 174;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9768, 3.2.3: both orders, zero to three counters of 24 bits; other lengths are ignored.
    #[test]
    fn rfc9768_3_2_3_counters_survive() {
        for order_1 in [false, true] {
            for counters in [&[][..], &[1], &[1, 0xff_ffff], &[1, 2, 0x12_3456]] {
                let option = AccurateEcn::new(order_1, counters).expect("at most three");
                let options = Options { accurate_ecn: Some(option), ..Options::default() };
                let mut field = Vec::new();
                options.write(&mut field);
                assert_eq!(field.len(), options.bytes());
                assert_eq!(field[0], if order_1 { 174 } else { 172 });
                assert_eq!(usize::from(field[1]), 2 + 3 * counters.len());
                assert_eq!(Options::read(&field), Ok(options));
            }
        }
        assert_eq!(AccurateEcn::new(false, &[0; 4]), None);
        assert_eq!(Options::read(&[172, 4, 0, 0]), Ok(Options::default()));
    }

    #[test]
    fn unknown_options_are_skipped_by_their_length() {
        // User timeout (28, RFC 5482) before an MSS.
        let field = [28, 4, 1, 2, 2, 4, 0x05, 0xb4, 0, 0];
        assert_eq!(Options::read(&field), Ok(Options { mss: Some(1460), ..Options::default() }));
    }

    #[test]
    fn rfc7413_4_1_1_cookies_have_an_even_number_of_4_to_16_bytes() {
        for length in 0..20_usize {
            let mut field = vec![FAST_OPEN, length as u8 + 2];
            field.extend(vec![7; length]);
            let read = Options::read(&field).expect("a wrong length is no error here").fast_open;
            let possible = [0, 4, 6, 8, 10, 12, 14, 16].contains(&length);
            assert_eq!(read.is_some(), possible, "{length}");
            if let Some(cookie) = read {
                let options = Options { fast_open: Some(cookie), ..Options::default() };
                let mut written = Vec::new();
                options.write(&mut written);
                assert_eq!((written.len(), written.len() % 4), (options.bytes(), 0));
                assert_eq!(Options::read(&written), Ok(options));
            }
        }
    }

    #[test]
    fn nothing_is_read_after_the_end_of_the_list() {
        assert_eq!(Options::read(&[0, 2, 99, 1]), Ok(Options::default()));
    }

    #[test]
    fn lengths_that_are_wrong_are_errors() {
        for field in [
            &[2, 0, 0, 0][..],
            &[2, 1, 0, 0],
            &[2, 5, 0, 0, 0],
            &[3, 4, 1, 1],
            &[8, 10, 0, 0],
            &[5, 2, 1, 1],
            &[5, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[34],
            &[4, 3, 0],
        ] {
            assert_eq!(Options::read(field), Err(OptionError { kind: field[0] }), "{field:?}");
        }
    }

    #[test]
    fn a_lenient_reader_keeps_what_fits() {
        let mss = Options { mss: Some(1460), ..Options::default() };
        for (field, options) in [
            (&[2, 4, 0x05, 0xb4, 34][..], mss),
            (&[2, 4, 0x05, 0xb4, 3, 1, 7, 7], mss),
            (&[2, 4, 0x05, 0xb4, 3, 4, 7, 7, 4, 2], Options { sack_permitted: true, ..mss }),
            (&[1, 2, 4, 0x05, 0xb4, 0, 4, 2], mss),
            (&[2, 4, 0x05, 0xb4, 2, 4, 0, 0], mss),
            (&[8, 11, 0, 0], Options::default()),
        ] {
            assert_eq!(Options::read_leniently(field), options, "{field:?}");
        }
    }

    #[test]
    fn a_fifth_sack_block_is_an_error() {
        let mut field = [0; 42];
        field[0] = SACK;
        field[1] = 42;
        assert_eq!(Options::read(&field), Err(OptionError { kind: SACK }));
    }
}
