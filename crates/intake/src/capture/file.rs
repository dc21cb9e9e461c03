//! Capture files: packets with their times, from pcap and pcapng.
//!
//! Sources: draft-ietf-opsawg-pcap-05 and draft-ietf-opsawg-pcapng-02. The reader takes both byte
//! orders, microseconds and nanoseconds, Kuznetsov's variant of pcap, several sections and
//! interfaces, and pcapng's enhanced and obsolete packet blocks. Simple packet blocks have no time;
//! they are only counted. Times stay integers.

use std::io::{self, Read};

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Captured<'a> {
    /// Nanoseconds since 1970; `None` if the block has no time.
    pub(super) time_ns: Option<i64>,
    /// The link type's number (tcpdump.org).
    pub(super) link: u16,
    /// The bytes that were kept.
    pub(super) data: &'a [u8],
}

/// Why a file cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// Its first bytes are not those of a capture.
    NoCapture,
    /// It ends within a packet.
    Cut,
    /// A length or a number in it makes no sense. Carries what.
    Damaged(&'static str),
    /// The system or the decompressor failed. Carries its reason.
    System(String),
}

impl core::fmt::Display for FileError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoCapture => write!(f, "is neither pcap, pcapng nor dnstap"),
            Self::Cut => write!(f, "ends within a packet"),
            Self::Damaged(what) => write!(f, "{what}"),
            Self::System(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for FileError {}

/// Reads the packets of a file.
#[derive(Debug)]
pub(super) struct Packets<R> {
    bytes: Buffered<R>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Pcap { big: bool, nanoseconds_per_unit: i64, link: u16, header_bytes: usize },
    Pcapng { big: bool, interfaces: Vec<Interface> },
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    /// Units per second.
    resolution: u64,
    offset_s: i64,
}

impl<R: Read> Packets<R> {
    /// Creates a reader at the start of a file that is already decompressed.
    pub(super) fn new(mut bytes: Buffered<R>) -> Result<Self, FileError> {
        let Some(magic) = bytes.peek(4)? else { return Err(FileError::NoCapture) };
        let magic: [u8; 4] = magic.try_into().expect("four bytes were asked for");
        if magic == SECTION {
            return Ok(Self { bytes, form: Form::Pcapng { big: false, interfaces: Vec::new() } });
        }
        let little = u32::from_le_bytes(magic);
        let big = u32::from_be_bytes(magic);
        let (is_big, nanoseconds_per_unit, header_bytes) = match (little, big) {
            (0xa1b2_c3d4, _) => (false, 1_000, 16),
            (_, 0xa1b2_c3d4) => (true, 1_000, 16),
            (0xa1b2_3c4d, _) => (false, 1, 16),
            (_, 0xa1b2_3c4d) => (true, 1, 16),
            (0xa1b2_cd34, _) => (false, 1_000, 24),
            (_, 0xa1b2_cd34) => (true, 1_000, 24),
            _ => return Err(FileError::NoCapture),
        };
        let header = bytes.take(24)?.ok_or(FileError::Cut)?;
        // The upper bits give the length of a frame check sequence.
        let link = word(&header[20..24], is_big) as u16;
        Ok(Self {
            bytes,
            form: Form::Pcap { big: is_big, nanoseconds_per_unit, link, header_bytes },
        })
    }

    /// Returns the next packet; `None` at the end of the file.
    pub(super) fn next_packet(&mut self) -> Result<Option<Captured<'_>>, FileError> {
        match &mut self.form {
            &mut Form::Pcap { big, nanoseconds_per_unit, link, header_bytes } => {
                let Some(header) = self.bytes.take(header_bytes)? else { return Ok(None) };
                let seconds = i64::from(word(&header[0..4], big));
                let units = i64::from(word(&header[4..8], big));
                let length = word(&header[8..12], big) as usize;
                if length > MAX_PACKET {
                    return Err(FileError::Damaged("a packet is longer than 16 MB"));
                }
                // At most 2^32 seconds, and 2^32 units of at most a microsecond.
                let time_ns = seconds * 1_000_000_000 + units * nanoseconds_per_unit;
                let data = self.bytes.take(length)?.ok_or(FileError::Cut)?;
                Ok(Some(Captured { time_ns: Some(time_ns), link, data }))
            }
            Form::Pcapng { big, interfaces } => loop {
                let Some(head) = self.bytes.peek(12)? else {
                    return if self.bytes.at_end()? { Ok(None) } else { Err(FileError::Cut) };
                };
                if head[..4] == SECTION {
                    *big = match u32::from_le_bytes([head[8], head[9], head[10], head[11]]) {
                        0x1a2b_3c4d => false,
                        0x4d3c_2b1a => true,
                        _ => return Err(FileError::Damaged("a section has no byte order")),
                    };
                    interfaces.clear();
                }
                let kind = word(&head[0..4], *big);
                let length = word(&head[4..8], *big) as usize;
                if !(12..=MAX_PACKET).contains(&length) || !length.is_multiple_of(4) {
                    return Err(FileError::Damaged("a block's length makes no sense"));
                }
                match kind {
                    INTERFACE => {
                        let block = self.bytes.take(length)?.ok_or(FileError::Cut)?;
                        if interfaces.len() == MAX_INTERFACES {
                            return Err(FileError::Damaged("it has more than 65536 interfaces"));
                        }
                        interfaces.push(interface(&block[8..length - 4], *big)?);
                    }
                    ENHANCED | PACKET => {
                        let block = self.bytes.take(length)?.ok_or(FileError::Cut)?;
                        return packet(kind, &block[8..length - 4], *big, interfaces).map(Some);
                    }
                    SIMPLE => {
                        let block = self.bytes.take(length)?.ok_or(FileError::Cut)?;
                        let link = interfaces.first().map_or(0, |first| first.link);
                        let data = block.get(12..length - 4).unwrap_or_default();
                        return Ok(Some(Captured { time_ns: None, link, data }));
                    }
                    _ => {
                        self.bytes.take(length)?.ok_or(FileError::Cut)?;
                    }
                }
            },
        }
    }
}

fn interface(body: &[u8], big: bool) -> Result<Interface, FileError> {
    if body.len() < 8 {
        return Err(FileError::Damaged("an interface's block is too short"));
    }
    let mut found = Interface { link: half(&body[0..2], big), resolution: 1_000_000, offset_s: 0 };
    let mut options = &body[8..];
    while let [a, b, c, d, rest @ ..] = options {
        let (code, length) = (half(&[*a, *b], big), usize::from(half(&[*c, *d], big)));
        let padded = length.next_multiple_of(4);
        let Some(value) = rest.get(..length) else { break };
        match (code, value) {
            (0, _) => break,
            // if_tsresol: a power of ten, or of two if the highest bit is set.
            (9, [power, ..]) => {
                let base: u64 = if power & 0x80 == 0 { 10 } else { 2 };
                found.resolution = base
                    .checked_pow(u32::from(power & 0x7f))
                    .ok_or(FileError::Damaged("an interface's clock is too fine"))?;
            }
            (14, value) if value.len() >= 8 => {
                let (first, second) = (word(&value[0..4], big), word(&value[4..8], big));
                let (high, low) = if big { (first, second) } else { (second, first) };
                found.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
            }
            _ => {}
        }
        options = rest.get(padded..).unwrap_or_default();
    }
    Ok(found)
}

fn packet<'a>(
    kind: u32,
    body: &'a [u8],
    big: bool,
    interfaces: &[Interface],
) -> Result<Captured<'a>, FileError> {
    if body.len() < 20 {
        return Err(FileError::Damaged("a packet's block is too short"));
    }
    let number = match kind {
        ENHANCED => word(&body[0..4], big) as usize,
        _ => usize::from(half(&body[0..2], big)),
    };
    let Some(from) = interfaces.get(number) else {
        return Err(FileError::Damaged("a packet's interface is not described"));
    };
    let units = u128::from(word(&body[4..8], big)) << 32 | u128::from(word(&body[8..12], big));
    let length = word(&body[12..16], big) as usize;
    let Some(data) = body.get(20..).and_then(|rest| rest.get(..length)) else {
        return Err(FileError::Damaged("a packet is longer than its block"));
    };
    // At most 2^64 units, times 10^9: below 2^94.
    let since = units * 1_000_000_000 / u128::from(from.resolution);
    let time_ns = i64::try_from(since)
        .ok()
        .and_then(|ns| ns.checked_add(from.offset_s.checked_mul(1_000_000_000)?));
    Ok(Captured { time_ns, link: from.link, data })
}

fn word(bytes: &[u8], big: bool) -> u32 {
    let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn half(bytes: &[u8], big: bool) -> u16 {
    let bytes = [bytes[0], bytes[1]];
    if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

/// The bytes of a file, as many at a time as are asked for.
#[derive(Debug)]
pub(super) struct Buffered<R> {
    file: R,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl<R: Read> Buffered<R> {
    pub(super) fn new(file: R) -> Self {
        Self { file, buffer: vec![0; BUFFER], from: 0, to: 0 }
    }

    /// Returns the next `count` bytes without taking them; `None` if the file ends earlier.
    pub(super) fn peek(&mut self, count: usize) -> Result<Option<&[u8]>, FileError> {
        while self.to - self.from < count {
            if self.buffer.len() - self.from < count {
                self.buffer.copy_within(self.from..self.to, 0);
                self.to -= self.from;
                self.from = 0;
                if self.buffer.len() < count {
                    // The buffer grows with what is read, so that a length alone claims no memory.
                    let grown = (2 * self.buffer.len()).min(count.next_power_of_two());
                    self.buffer.resize(grown.max(self.to + BUFFER), 0);
                }
            }
            match self.file.read(&mut self.buffer[self.to..]) {
                Ok(0) => return Ok(None),
                Ok(read) => self.to += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::System(error.to_string())),
            }
        }
        Ok(Some(&self.buffer[self.from..self.from + count]))
    }

    /// Takes the next `count` bytes; `None` at the end of the file. Fewer bytes are
    /// [`FileError::Cut`].
    pub(super) fn take(&mut self, count: usize) -> Result<Option<&[u8]>, FileError> {
        if self.peek(count)?.is_none() {
            return if self.from == self.to { Ok(None) } else { Err(FileError::Cut) };
        }
        self.from += count;
        Ok(Some(&self.buffer[self.from - count..self.from]))
    }

    /// Returns whether all bytes have been taken.
    pub(super) fn at_end(&mut self) -> Result<bool, FileError> {
        Ok(self.peek(1)?.is_none())
    }
}

const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// Far more than any link carries. (Wireshark's limit is 256 kB for most links.)
const MAX_PACKET: usize = 16 << 20;
const MAX_INTERFACES: usize = 65_536;
const BUFFER: usize = 1 << 18;
