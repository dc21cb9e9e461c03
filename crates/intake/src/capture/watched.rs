//! A capture or a dnstap file, distinguished by its first bytes.

use std::io::{Chain, Cursor, Read};

use super::dnstap::DnstapReader;
use super::file::FileError;
use super::reader::CaptureReader;
use super::remark::Remark;
use super::rows::CaptureChunk;
use super::tables::CaptureTables;
use crate::{Columns, Skipped};

/// A reader of a file of either kind.
pub enum Watched<R> {
    /// pcap or pcapng.
    Packets(Box<CaptureReader<Head<R>>>),
    /// dnstap in Frame Streams.
    Dnstap(Box<DnstapReader<Head<R>>>),
}

/// A file, preceded by those of its bytes that have already been read.
pub type Head<R> = Chain<Cursor<Vec<u8>>, R>;

impl<R: Read> Watched<R> {
    /// Looks at the first bytes of a file that is already decompressed.
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

    /// Returns the next rows, about `most`; `None` after the last.
    pub fn next_chunk(&mut self, most: usize) -> Option<CaptureChunk> {
        match self {
            Self::Packets(reader) => reader.next_chunk(most),
            Self::Dnstap(reader) => reader.next_chunk(most),
        }
    }

    /// Returns the next rows, about `most`, as columns of `exchanges` and of `connections`; `None`
    /// after the last. Long texts make the rows fewer. A result may be empty although more follow.
    pub fn next_tables(&mut self, most: usize) -> Option<(Columns, Columns)> {
        let mut tables = CaptureTables::default();
        let mut rows = CaptureChunk::default();
        let mut more = true;
        while more && tables.len() < most && tables.text_bytes() < TEXT_BYTES {
            rows.clear();
            more = match self {
                Self::Packets(reader) => reader.fill(&mut rows, BATCH),
                Self::Dnstap(reader) => reader.fill(&mut rows, BATCH),
            };
            tables.add(&rows);
            if rows.len() < BATCH {
                // Many packets gave few rows: let the caller show its progress.
                break;
            }
        }
        (more || !tables.is_empty()).then(|| tables.into_columns())
    }

    /// Returns the number of packets or frames so far.
    pub fn records(&self) -> u64 {
        match self {
            Self::Packets(reader) => reader.packets(),
            Self::Dnstap(reader) => reader.frames(),
        }
    }

    /// Returns what was skipped so far.
    pub fn skipped(&self) -> &Skipped {
        match self {
            Self::Packets(reader) => reader.skipped(),
            Self::Dnstap(reader) => reader.skipped(),
        }
    }

    /// Returns what was odd in data that still gave rows; `None` for a dnstap file.
    pub fn remarks(&self) -> Option<&Skipped<Remark>> {
        match self {
            Self::Packets(reader) => Some(reader.remarks()),
            Self::Dnstap(_) => None,
        }
    }

    /// Returns the busiest ports of the packets that were ignored.
    pub fn busiest_other_ports(&self) -> Vec<u16> {
        match self {
            Self::Packets(reader) => reader.busiest_other_ports(),
            Self::Dnstap(_) => Vec::new(),
        }
    }
}

/// Rows that stay in the processor's cache until they are in their columns.
const BATCH: usize = 256;
/// Names may have a thousand characters; most have twenty.
const TEXT_BYTES: usize = 32 << 20;
