//! Captures and dnstap files as one measurement.

use std::io::Read;

use super::merge::{Input, Merge, OpenError, Step};
use super::reader::{Out, PacketRows};
use super::remark::Remark;
use super::rows::CaptureChunk;
use super::tables::CaptureTables;
use super::taps::Taps;
use crate::{Columns, Skipped};

/// A reader of files of either kind, which together are one capture.
pub struct Watched<R> {
    files: Merge<R>,
    packets: PacketRows,
    taps: Taps,
    /// For each file.
    notes: Vec<Notes>,
    records: u64,
    last_file: usize,
    ended: bool,
}

/// What a file holds that gave no rows, or odd ones.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// What was skipped.
    pub skipped: Skipped,
    /// What was odd in data that still gave rows.
    pub remarks: Skipped<Remark>,
}

impl<R: Read> Watched<R> {
    /// Looks at the first record of a file that is already decompressed. DNS servers listen on
    /// `ports`.
    pub fn open(file: R, ports: &[u16]) -> Result<Self, OpenError> {
        Self::merge(vec![Input::Once(file)], ports).map_err(|(_, error)| error)
    }

    /// Looks at the first record of each file. Returns the number of a file that is no capture, and
    /// why.
    pub fn merge(inputs: Vec<Input<R>>, ports: &[u16]) -> Result<Self, (usize, OpenError)> {
        let notes = vec![Notes::default(); inputs.len().max(1)];
        Ok(Self {
            files: Merge::new(inputs)?,
            packets: PacketRows::new(ports),
            taps: Taps::default(),
            notes,
            records: 0,
            last_file: 0,
            ended: false,
        })
    }

    /// Returns the next rows, about `most`; `None` after the last.
    pub fn next_chunk(&mut self, most: usize) -> Option<CaptureChunk> {
        let mut rows = CaptureChunk::default();
        self.fill(&mut rows, most).then_some(rows)
    }

    /// Returns the next rows, about `most`, as columns of `exchanges` and of `connections`; `None`
    /// after the last. Long texts make the rows fewer. A result may be empty although more follow.
    pub fn next_tables(&mut self, most: usize) -> Option<(Columns, Columns)> {
        let mut tables = CaptureTables::default();
        let mut rows = CaptureChunk::default();
        let mut more = true;
        while more && tables.len() < most && tables.text_bytes() < TEXT_BYTES {
            rows.clear();
            more = self.fill(&mut rows, BATCH);
            tables.add(&rows);
            if rows.len() < BATCH {
                // Many packets gave few rows: let the caller show its progress.
                break;
            }
        }
        (more || !tables.is_empty()).then(|| tables.into_columns())
    }

    /// Returns the number of packets and frames so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns what was noted about each file so far.
    pub fn notes(&self) -> &[Notes] {
        &self.notes
    }

    /// Returns the busiest ports of the packets that were ignored.
    pub fn busiest_other_ports(&self) -> Vec<u16> {
        self.packets.busiest_other_ports()
    }

    /// Reads the rows of the next records, about `most`, into `rows`, which must be empty. Returns
    /// whether there may be more.
    ///
    /// If a file cannot be read further, it ends there and counts as damaged.
    fn fill(&mut self, rows: &mut CaptureChunk, most: usize) -> bool {
        // A file without rows also has to give the caller a turn now and then.
        let mut left = RECORDS;
        while !self.ended && rows.len() < most && left > 0 {
            left -= 1;
            match self.files.next() {
                Step::Record(record) => {
                    self.records += 1;
                    self.last_file = record.file;
                    let Notes { skipped, remarks } = &mut self.notes[record.file];
                    let mut out = Out { number: record.number, rows, skipped, remarks };
                    if record.behind_ns > 0 {
                        let kind = if record.late() { Remark::Late } else { Remark::OutOfOrder };
                        let ms = record.behind_ns as f64 * 1e-6;
                        out.remark(kind, || format!("record {}: by {ms} ms", record.number));
                    }
                    match (record.link, record.time_ns) {
                        (None, _) => self.taps.take(&record, &mut out),
                        (Some(link), Some(now_ns)) => {
                            self.packets.take(link, &record.data, now_ns, &mut out);
                        }
                        (Some(_), None) => {
                            out.skip(NO_TIME, || "its block has no time".to_owned());
                        }
                    }
                }
                Step::Failed(file, number, error) => {
                    self.notes[file].skipped.add(DAMAGED, number, || error.to_string());
                }
                Step::End => {
                    self.ended = true;
                    let Notes { skipped, remarks } = &mut self.notes[self.last_file];
                    self.packets.finish(&mut Out { number: self.records, rows, skipped, remarks });
                    self.taps.finish(rows);
                }
            }
        }
        !self.ended || !rows.is_empty()
    }
}

/// The most records that are read before the caller gets a turn.
const RECORDS: usize = 1_000_000;
/// Rows that stay in the processor's cache until they are in their columns.
const BATCH: usize = 256;
/// Names may have a thousand characters; most have twenty.
const TEXT_BYTES: usize = 32 << 20;

const DAMAGED: &str = "the file is damaged from there on";
const NO_TIME: &str = "a packet without time";
