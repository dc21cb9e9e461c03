//! IP packets (RFC 791, RFC 8200): addresses, protocol, payload. Fragments are put together again.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The content of an IP packet or of a reassembled datagram.
#[derive(Clone, Debug)]
pub(super) struct Datagram<'a> {
    /// The sender's address.
    pub(super) source: IpAddr,
    /// The receiver's address.
    pub(super) destination: IpAddr,
    /// 6 for TCP, 17 for UDP.
    pub(super) protocol: u8,
    /// As much of the payload as was captured.
    pub(super) payload: Cow<'a, [u8]>,
    /// The payload's length on the wire.
    pub(super) length: usize,
}

/// Why there is nothing to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoDatagram {
    /// The bytes end within the headers.
    Short,
    /// A header's length or version makes no sense.
    Malformed,
    /// A fragment; others of its datagram are still to come.
    Fragment,
}

/// Datagrams of which some fragments are still missing.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    open: HashMap<Key, Pieces>,
    order: VecDeque<Key>,
    bytes: usize,
    dropped: u64,
}

type Key = (IpAddr, IpAddr, u32, u8);

#[derive(Debug, Default)]
struct Pieces {
    /// In order of arrival.
    parts: Vec<Piece>,
    /// The length of the whole payload, known once the last fragment has arrived.
    whole: Option<usize>,
}

#[derive(Debug)]
struct Piece {
    offset: usize,
    /// Its length on the wire.
    length: usize,
    /// As much of it as was captured.
    bytes: Vec<u8>,
}

impl Fragments {
    /// Returns how many datagrams were given up because too many were open or their fragments made
    /// no sense.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many datagrams are still open.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Reads a packet. The last fragment to arrive gives the whole datagram.
    pub(super) fn read<'a>(&mut self, packet: &'a [u8]) -> Result<Datagram<'a>, NoDatagram> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => self.read_v4(packet),
            Some(6) => self.read_v6(packet),
            Some(_) => Err(NoDatagram::Malformed),
            None => Err(NoDatagram::Short),
        }
    }

    fn read_v4<'a>(&mut self, packet: &'a [u8]) -> Result<Datagram<'a>, NoDatagram> {
        let header: &[u8; 20] = packet.first_chunk().ok_or(NoDatagram::Short)?;
        let header_bytes = usize::from(header[0] & 0xf) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // Network cards that segment for the sender leave this length 0 in captures.
        let total = if total == 0 { packet.len() } else { total };
        if header_bytes < 20 || total < header_bytes {
            return Err(NoDatagram::Malformed);
        }
        let length = total - header_bytes;
        let rest = packet.get(header_bytes..).ok_or(NoDatagram::Short)?;
        let payload = &rest[..rest.len().min(length)];
        let source = IpAddr::V4(Ipv4Addr::new(header[12], header[13], header[14], header[15]));
        let destination = IpAddr::V4(Ipv4Addr::new(header[16], header[17], header[18], header[19]));
        let flags = u16::from_be_bytes([header[6], header[7]]);
        let offset = usize::from(flags & 0x1fff) * 8;
        let more = flags & 0x2000 != 0;
        let protocol = header[9];
        if offset == 0 && !more {
            return Ok(Datagram { source, destination, protocol, payload: payload.into(), length });
        }
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        self.piece((source, destination, id, protocol), offset, more, payload, length)
    }

    fn read_v6<'a>(&mut self, packet: &'a [u8]) -> Result<Datagram<'a>, NoDatagram> {
        let header: &[u8; 40] = packet.first_chunk().ok_or(NoDatagram::Short)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let rest = &packet[40..];
        let length = if length == 0 { rest.len() } else { length };
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let (source, destination) = (address(8), address(24));
        let mut rest = &rest[..rest.len().min(length)];
        let mut left = length;
        let mut next = header[6];
        for _ in 0..MAX_EXTENSIONS {
            let bytes = match next {
                // Hop-by-hop, routing, destination options; AH counts in words.
                0 | 43 | 60 => rest.get(1).map(|words| (usize::from(*words) + 1) * 8),
                51 => rest.get(1).map(|words| (usize::from(*words) + 2) * 4),
                44 => Some(8),
                protocol => {
                    let payload = Cow::Borrowed(rest);
                    return Ok(Datagram { source, destination, protocol, payload, length: left });
                }
            };
            let bytes = bytes.ok_or(NoDatagram::Short)?;
            let extension = rest.get(..bytes).ok_or(NoDatagram::Short)?;
            left = left.checked_sub(bytes).ok_or(NoDatagram::Malformed)?;
            rest = &rest[bytes..];
            if next == 44 {
                let flags = u16::from_be_bytes([extension[2], extension[3]]);
                let (offset, more) = (usize::from(flags & 0xfff8), flags & 1 != 0);
                let id = [extension[4], extension[5], extension[6], extension[7]];
                if offset > 0 || more {
                    let key = (source, destination, u32::from_be_bytes(id), extension[0]);
                    return self.piece(key, offset, more, rest, left);
                }
            }
            next = extension[0];
        }
        Err(NoDatagram::Malformed)
    }

    /// Takes a fragment. The payload of the whole datagram ends at the first byte that the capture
    /// cut off.
    fn piece<'a>(
        &mut self,
        key: Key,
        offset: usize,
        more: bool,
        payload: &[u8],
        length: usize,
    ) -> Result<Datagram<'a>, NoDatagram> {
        let end = offset + length;
        if end > MAX_DATAGRAM {
            return Err(NoDatagram::Malformed);
        }
        while self.open.len() >= MAX_OPEN || self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            if self.close(&oldest).is_some() {
                self.dropped += 1;
            }
        }
        let pieces = self.open.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            Pieces::default()
        });
        if pieces.parts.len() >= MAX_PIECES {
            self.close(&key);
            self.dropped += 1;
            return Err(NoDatagram::Malformed);
        }
        let piece = Piece { offset, length, bytes: payload.to_vec() };
        self.bytes += piece.bytes.len() + PIECE_BYTES;
        pieces.parts.push(piece);
        if !more {
            pieces.whole = Some(end);
        }
        let Some(whole) = pieces.whole else { return Err(NoDatagram::Fragment) };
        pieces.parts.sort_by_key(|piece| piece.offset);
        let mut reached = 0;
        for piece in &pieces.parts {
            if piece.offset > reached {
                return Err(NoDatagram::Fragment);
            }
            reached = reached.max(piece.offset + piece.length);
        }
        if reached < whole {
            return Err(NoDatagram::Fragment);
        }
        let pieces = self.close(&key).unwrap_or_default();
        let mut payload = Vec::with_capacity(whole);
        for Piece { offset, bytes, .. } in pieces.parts {
            let end = (offset + bytes.len()).min(whole);
            if offset > payload.len() || offset >= end {
                continue;
            }
            payload.resize(payload.len().max(end), 0);
            payload[offset..end].copy_from_slice(&bytes[..end - offset]);
        }
        let (source, destination, _, protocol) = key;
        Ok(Datagram { source, destination, protocol, payload: payload.into(), length: whole })
    }

    fn close(&mut self, key: &Key) -> Option<Pieces> {
        let pieces = self.open.remove(key)?;
        self.bytes -=
            pieces.parts.iter().map(|piece| piece.bytes.len() + PIECE_BYTES).sum::<usize>();
        // Otherwise, the keys of closed datagrams would pile up in `order`.
        if self.order.len() > 4 * MAX_OPEN {
            self.order.retain(|key| self.open.contains_key(key));
        }
        Some(pieces)
    }
}

const MAX_EXTENSIONS: usize = 16;
const MAX_DATAGRAM: usize = 65_535;
const MAX_OPEN: usize = 4_096;
const MAX_PIECES: usize = 64;
const MAX_BYTES: usize = 32 << 20;
/// The memory that a piece takes besides its bytes.
const PIECE_BYTES: usize = 64;
