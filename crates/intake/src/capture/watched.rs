//! A capture or a dnstap file, told by its first bytes.

use std::io::{Chain, Cursor, Read};

use super::dnstap::DnstapReader;
use super::file::FileError;
use super::reader::CaptureReader;
use super::rows::CaptureChunk;
use crate::Skipped;

/// A reader of whatever the file is.
pub enum Watched<R> {
    /// pcap or pcapng.
    Packets(Box<CaptureReader<Head<R>>>),
    /// dnstap in Frame Streams.
    Dnstap(Box<DnstapReader<Head<R>>>),
}

/// A file behind the bytes of it that have been looked at.
pub type Head<R> = Chain<Cursor<Vec<u8>>, R>;

impl<R: Read> Watched<R> {
    /// Looks at the first bytes of a file that is decompressed already.
    pub fn open(mut file: R, ports: &[u16]) -> Result<Self, FileError> {
        let mut magic = Vec::with_capacity(4);
        let read = file.by_ref().take(4).read_to_end(&mut magic);
        read.map_err(|error| FileError::System(error.to_string()))?;
        let tap = magic == [0; 4];
        let whole = Cursor::new(magic).chain(file);
        if tap {
            return DnstapReader::new(whole).map(Box::new).map(Self::Dnstap);
        }
        CaptureReader::new(whole, ports).map(Box::new).map(Self::Packets)
    }

    /// The next rows, about `most`; `None` after the last.
    pub fn next_chunk(&mut self, most: usize) -> Option<CaptureChunk> {
        match self {
            Self::Packets(reader) => reader.next_chunk(most),
            Self::Dnstap(reader) => reader.next_chunk(most),
        }
    }

    /// Packets or frames so far.
    pub fn records(&self) -> u64 {
        match self {
            Self::Packets(reader) => reader.packets(),
            Self::Dnstap(reader) => reader.frames(),
        }
    }

    /// What was skipped so far.
    pub fn skipped(&self) -> &Skipped {
        match self {
            Self::Packets(reader) => reader.skipped(),
            Self::Dnstap(reader) => reader.skipped(),
        }
    }

    /// What was odd, although rows came of it; a dnstap file has nothing of the kind.
    pub fn remarks(&self) -> Option<&Skipped> {
        match self {
            Self::Packets(reader) => Some(reader.remarks()),
            Self::Dnstap(_) => None,
        }
    }

    /// The busiest ports of packets that were not looked at.
    pub fn busiest_other_ports(&self) -> Vec<u16> {
        match self {
            Self::Packets(reader) => reader.busiest_other_ports(),
            Self::Dnstap(_) => Vec::new(),
        }
    }
}
