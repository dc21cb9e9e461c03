//! TCP and UDP headers, from payloads that the capture may have cut.

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tcp<'a> {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    /// The maximum segment size option.
    pub(super) mss: Option<u16>,
    pub(super) payload: &'a [u8],
    /// The payload's length on the wire.
    pub(super) length: usize,
}

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

impl<'a> Tcp<'a> {
    /// Reads a segment of `length` bytes on the wire (RFC 9293, section 3.1); `None` if it makes no
    /// sense or ends before its options. The capture may have cut the options.
    pub(super) fn read(bytes: &'a [u8], length: usize) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let header_bytes = usize::from(header[12] >> 4) * 4;
        let length = length.checked_sub(header_bytes)?;
        if header_bytes < 20 {
            return None;
        }
        let options = &bytes[20..header_bytes.min(bytes.len())];
        Some(Self {
            source: u16::from_be_bytes([header[0], header[1]]),
            destination: u16::from_be_bytes([header[2], header[3]]),
            seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            flags: header[13],
            mss: if header[13] & SYN != 0 { mss(options) } else { None },
            payload: bytes.get(header_bytes..).unwrap_or_default(),
            length,
        })
    }
}

fn mss(mut options: &[u8]) -> Option<u16> {
    loop {
        match *options {
            [] | [0, ..] => return None,
            [1, ref rest @ ..] => options = rest,
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([high, low])),
            [_, length, ..] if length >= 2 => options = options.get(usize::from(length)..)?,
            _ => return None,
        }
    }
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Udp<'a> {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) payload: &'a [u8],
    /// The payload's length on the wire.
    pub(super) length: usize,
}

impl<'a> Udp<'a> {
    /// Reads a datagram of `length` bytes on the wire (RFC 768).
    pub(super) fn read(bytes: &'a [u8], length: usize) -> Option<Self> {
        let header: &[u8; 8] = bytes.first_chunk()?;
        let said = usize::from(u16::from_be_bytes([header[4], header[5]]));
        // Zero comes from a jumbogram, or from a card that fills in the length later.
        let said = if said == 0 { length } else { said };
        let length = said.min(length).checked_sub(8)?;
        let rest = &bytes[8..];
        Some(Self {
            source: u16::from_be_bytes([header[0], header[1]]),
            destination: u16::from_be_bytes([header[2], header[3]]),
            payload: &rest[..rest.len().min(length)],
            length,
        })
    }
}
