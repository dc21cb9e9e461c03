//! dnstap: what DNS software says about its own messages.
//!
//! Sources: dnstap.pb (dnstap.info, 2023), the Frame Streams format (fstrm's control.h), and the
//! wire format of Protocol Buffers.

use std::io::Read;
use std::net::IpAddr;

use super::file::{Buffered, FileError};

/// Reads the data frames of a file.
#[derive(Debug)]
pub(super) struct Frames<R> {
    bytes: Buffered<R>,
}

/// A data frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// When its message was sent or received, in nanoseconds since 1970; `None` if it does not say.
    pub(super) time_ns: Option<i64>,
    pub(super) data: &'a [u8],
}

/// A dnstap message, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct Tapped<'a> {
    /// A query's type is an odd number, and its response's type is the next one.
    pub(super) kind: u64,
    pub(super) protocol: u64,
    pub(super) addresses: [Option<IpAddr>; 2],
    pub(super) ports: [u16; 2],
    times: [Option<u64>; 2],
    fractions: [u32; 2],
    pub(super) messages: [Option<&'a [u8]>; 2],
    /// The program that wrote it.
    pub(super) version: &'a [u8],
}

impl Tapped<'_> {
    /// Returns when the query and the response passed, in nanoseconds since 1970.
    pub(super) fn times_ns(&self) -> [Option<i64>; 2] {
        [0, 1].map(|which| {
            let whole = i64::try_from(self.times[which]?).ok()?.checked_mul(1_000_000_000)?;
            whole.checked_add(i64::from(self.fractions[which]))
        })
    }

    /// Returns whether it is a response.
    pub(super) fn reply(&self) -> bool {
        self.kind.is_multiple_of(2)
    }
}

impl<R: Read> Frames<R> {
    /// Creates a reader at the start of a file that is already decompressed.
    pub(super) fn new(mut bytes: Buffered<R>) -> Result<Self, FileError> {
        match bytes.peek(8)? {
            Some(_) => Ok(Self { bytes }),
            None => Err(FileError::NoCapture),
        }
    }

    /// Returns the next data frame; `None` at the end.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FileError> {
        loop {
            let Some(length) = self.word()? else { return Ok(None) };
            if length == 0 {
                // A control frame: its length, and in it its type.
                let length = self.word()?.ok_or(FileError::Cut)?;
                if length < 4 {
                    return Err(FileError::Damaged("a control frame has no type"));
                }
                if length > MAX_CONTROL {
                    return Err(FileError::Damaged("a control frame is longer than 512 bytes"));
                }
                let frame = self.bytes.take(length)?.ok_or(FileError::Cut)?;
                // STOP and FINISH end the stream.
                if matches!(frame, [0, 0, 0, 3 | 5, ..]) {
                    return Ok(None);
                }
                continue;
            }
            if length > MAX_FRAME {
                return Err(FileError::Damaged("a frame is longer than 1 MB"));
            }
            let data = self.bytes.take(length)?.ok_or(FileError::Cut)?;
            let time_ns = tapped(data).and_then(|tapped| {
                let [asked, answered] = tapped.times_ns();
                if tapped.reply() { answered.or(asked) } else { asked }
            });
            return Ok(Some(Frame { time_ns, data }));
        }
    }

    fn word(&mut self) -> Result<Option<usize>, FileError> {
        let Some(bytes) = self.bytes.take(4)? else { return Ok(None) };
        Ok(Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize))
    }
}

/// Returns the message of a frame; `None` if it is not such a frame.
pub(super) fn tapped(frame: &[u8]) -> Option<Tapped<'_>> {
    let mut message = None;
    let mut found = Tapped::default();
    for field in Fields(frame) {
        match field? {
            (2, Value::Bytes(version)) => found.version = version,
            (14, Value::Bytes(bytes)) => message = Some(bytes),
            _ => {}
        }
    }
    for field in Fields(message?) {
        match field? {
            (1, Value::Number(kind)) => found.kind = kind,
            (3, Value::Number(protocol)) => found.protocol = protocol,
            (4, Value::Bytes(octets)) => found.addresses[0] = address(octets),
            (5, Value::Bytes(octets)) => found.addresses[1] = address(octets),
            (6, Value::Number(port)) => found.ports[0] = port as u16,
            (7, Value::Number(port)) => found.ports[1] = port as u16,
            (8, Value::Number(seconds)) => found.times[0] = Some(seconds),
            (9, Value::Fixed(fraction)) => found.fractions[0] = fraction,
            (10, Value::Bytes(bytes)) => found.messages[0] = Some(bytes),
            (12, Value::Number(seconds)) => found.times[1] = Some(seconds),
            (13, Value::Fixed(fraction)) => found.fractions[1] = fraction,
            (14, Value::Bytes(bytes)) => found.messages[1] = Some(bytes),
            _ => {}
        }
    }
    Some(found)
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(<[u8; 4]>::try_from(octets).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(octets).ok()?.into()),
        _ => None,
    }
}

/// The fields of a Protocol Buffers message. Gives `None` once if it is not such a message.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Fixed(u32),
    Bytes(&'a [u8]),
    Other,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => {
                self.bytes(8)?;
                Value::Other
            }
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => Value::Fixed(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

const MAX_CONTROL: usize = 512;
const MAX_FRAME: usize = 1 << 20;
