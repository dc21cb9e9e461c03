//! The three pcapng blocks that a capture of simulated packets needs.
//!
//! Source: draft-ietf-opsawg-pcapng-02. Sections cited here are the draft's. Everything is written
//! in little-endian order, whatever the machine, so that files are the same everywhere. The crate
//! pcap-file could write them too, but brings ten more crates; the tests read the files with it.
//!
//! ```text
//! type (4) | total length (4) | body, padded to 32 bits | total length again (4)      (3.1)
//! option:  code (2) | length (2) | value, padded to 32 bits                           (3.5)
//! ```

use std::io::{self, Write};

/// Section Header Block (4.1): the start of a file, and who wrote it.
pub(crate) fn section_header(out: &mut impl Write, application: &str) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
    body.extend(1u16.to_le_bytes());
    body.extend(0u16.to_le_bytes());
    // Section length: not given.
    body.extend(u64::MAX.to_le_bytes());
    option(&mut body, SHB_USERAPPL, application.as_bytes());
    end_of_options(&mut body);
    block(out, SECTION_HEADER, &[&body])
}

/// Interface Description Block (4.2) of an Ethernet link: its name, its speed, and timestamps in
/// nanoseconds.
pub(crate) fn interface(
    out: &mut impl Write,
    name: &str,
    bits_per_s: u64,
    snaplen: u32,
) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend(LINKTYPE_ETHERNET.to_le_bytes());
    body.extend(0u16.to_le_bytes());
    // Zero: no limit.
    body.extend(snaplen.to_le_bytes());
    option(&mut body, IF_NAME, name.as_bytes());
    option(&mut body, IF_SPEED, &bits_per_s.to_le_bytes());
    option(&mut body, IF_TSRESOL, &[9]);
    end_of_options(&mut body);
    block(out, INTERFACE_DESCRIPTION, &[&body])
}

/// The fields of an Enhanced Packet Block that describe a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) interface: u32,
    pub(crate) at_ns: u64,
    /// The frame's length before it was cut.
    pub(crate) original: u32,
    /// Whether the frame came in at the interface. Otherwise it went out.
    pub(crate) inbound: bool,
}

/// Enhanced Packet Block (4.3): `frame` is the part of the frame that is kept.
pub(crate) fn packet(out: &mut impl Write, head: &Head, frame: &[u8]) -> io::Result<()> {
    let &Head { interface, at_ns, original, inbound } = head;
    let mut head = [0; 20];
    head[..4].copy_from_slice(&interface.to_le_bytes());
    // The upper half of the timestamp comes first, in either byte order.
    head[4..8].copy_from_slice(&((at_ns >> 32) as u32).to_le_bytes());
    head[8..12].copy_from_slice(&(at_ns as u32).to_le_bytes());
    head[12..16].copy_from_slice(&length(frame.len())?.to_le_bytes());
    head[16..].copy_from_slice(&original.to_le_bytes());
    // Bits 0 and 1 (4.3.1): 01 is inbound, 10 outbound.
    let flags: u32 = if inbound { 0b01 } else { 0b10 };
    let mut options = Vec::new();
    option(&mut options, EPB_FLAGS, &flags.to_le_bytes());
    end_of_options(&mut options);
    block(out, ENHANCED_PACKET, &[&head, frame, padding(frame.len()), &options])
}

fn block(out: &mut impl Write, kind: u32, body: &[&[u8]]) -> io::Result<()> {
    let bytes = body.iter().map(|part| part.len()).sum::<usize>();
    let total = length(12 + bytes.next_multiple_of(4))?.to_le_bytes();
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&total)?;
    for part in body {
        out.write_all(part)?;
    }
    out.write_all(padding(bytes))?;
    out.write_all(&total)
}

/// Appends an option; a value too long for the length field is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    let value = &value[..usize::from(length)];
    body.extend(code.to_le_bytes());
    body.extend(length.to_le_bytes());
    body.extend(value);
    body.extend(padding(value.len()));
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

/// Returns the zeros that pad `bytes` to a multiple of four.
fn padding(bytes: usize) -> &'static [u8] {
    &[0; 3][..bytes.next_multiple_of(4) - bytes]
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a block above 4 GiB"))
}

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const EPB_FLAGS: u16 = 2;
const IF_NAME: u16 = 2;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
