//! The records of several files in the order of their times, as if they were one file.
//!
//! `tcpdump -C`, `-G` and `-W` cut a capture into files, a tap may write a file for each direction,
//! and network cards with several queues hand packets over slightly out of order. So records wait
//! until every file that is being read is [`WINDOW_NS`] past them. A record that is found later than
//! that keeps its place in the file, and is counted. A file is opened when the others reach its
//! first record, so that a capture of a thousand files needs one or two at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read};

use super::dnstap::Frames;
use super::file::{FileError, Packets};

/// A file to read, decompressed.
pub enum Input<R> {
    /// A file that is open, and cannot be opened again, such as a pipe.
    Once(R),
    /// What opens a file at its start, as often as it is called.
    Again(Opener<R>),
}

/// Opens a file at its start.
pub type Opener<R> = Box<dyn FnMut() -> io::Result<R> + Send>;

/// Why a file cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The system or the decompressor refuses.
    System(io::Error),
    /// It is no capture.
    File(FileError),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// A packet or a dnstap frame.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The number of its file, from 0.
    pub(super) file: usize,
    /// Its number in the file, from 1.
    pub(super) number: u64,
    /// Nanoseconds since 1970; `None` if the file has no time for it.
    pub(super) time_ns: Option<i64>,
    /// The link type of a packet; `None` for a frame of dnstap.
    pub(super) link: Option<u16>,
    /// The bytes that were kept.
    pub(super) data: Vec<u8>,
    /// How far its file was past it when it was found, in nanoseconds; 0 if it came in order.
    pub(super) behind_ns: i64,
}

impl Record {
    /// Returns whether it came too late to be put into order.
    pub(super) fn late(&self) -> bool {
        self.behind_ns > WINDOW_NS
    }
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step {
    Record(Record),
    /// A file cannot be read further: its number, that of the record, and why.
    Failed(usize, u64, FileError),
    End,
}

/// Merges files.
pub(super) struct Merge<R> {
    /// Files that the others have not reached. The last is the next.
    closed: Vec<Closed<R>>,
    open: Vec<Open<R>>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    bytes: usize,
    serial: u64,
    /// What needs no order.
    ready: VecDeque<Step>,
}

struct Closed<R> {
    file: usize,
    start_ns: i64,
    state: State<R>,
}

enum State<R> {
    /// It is open; this is its first record.
    Kept(Source<R>, Record),
    Closed(Opener<R>),
}

struct Open<R> {
    file: usize,
    source: Source<R>,
    /// The latest time in it so far.
    reached_ns: i64,
    count: u64,
}

enum Source<R> {
    Packets(Packets<R>),
    Frames(Frames<R>),
}

impl<R: Read> Source<R> {
    fn open(file: R) -> Result<Self, FileError> {
        let mut bytes = super::file::Buffered::new(file);
        // The first frame of dnstap is a control frame, which begins with a length of 0.
        if bytes.peek(4)?.is_some_and(|start| start == [0; 4]) {
            Frames::new(bytes).map(Self::Frames)
        } else {
            Packets::new(bytes).map(Self::Packets)
        }
    }

    /// Returns the next record without its place; `None` at the end.
    fn next(&mut self) -> Result<Option<Record>, FileError> {
        Ok(match self {
            Self::Packets(packets) => packets.next_packet()?.map(|packet| Record {
                time_ns: packet.time_ns,
                link: Some(packet.link),
                data: packet.data.to_vec(),
                ..Record::default()
            }),
            Self::Frames(frames) => frames.next_frame()?.map(|frame| Record {
                time_ns: frame.time_ns,
                data: frame.data.to_vec(),
                ..Record::default()
            }),
        })
    }
}

/// A record that waits, first those with the smallest time, and then in the order of reading.
#[derive(Debug)]
struct Waiting {
    time_ns: i64,
    serial: u64,
    record: Record,
}

impl<R: Read> Merge<R> {
    /// Looks at the first record of each file. Returns the number of a file that is no capture, and
    /// why.
    pub(super) fn new(inputs: Vec<Input<R>>) -> Result<Self, (usize, OpenError)> {
        let mut merge = Self {
            closed: Vec::with_capacity(inputs.len()),
            open: Vec::new(),
            waiting: BinaryHeap::new(),
            bytes: 0,
            serial: 0,
            ready: VecDeque::new(),
        };
        let few = inputs.len() <= MAX_KEPT;
        for (file, input) in inputs.into_iter().enumerate() {
            let (opened, opener) = match input {
                Input::Once(opened) => (opened, None),
                Input::Again(mut opener) => {
                    (opener().map_err(|error| (file, OpenError::System(error)))?, Some(opener))
                }
            };
            let mut source =
                Source::open(opened).map_err(|error| (file, OpenError::File(error)))?;
            match source.next() {
                Ok(Some(mut first)) => {
                    (first.file, first.number) = (file, 1);
                    // Nothing is known about the order of records without times.
                    let start_ns = first.time_ns.unwrap_or(i64::MIN);
                    let state = match opener {
                        Some(opener) if !few => State::Closed(opener),
                        _ => State::Kept(source, first),
                    };
                    merge.closed.push(Closed { file, start_ns, state });
                }
                Ok(None) => {}
                Err(error) => merge.ready.push_back(Step::Failed(file, 1, error)),
            }
        }
        merge.closed.sort_by_key(|closed| Reverse((closed.start_ns, closed.file)));
        Ok(merge)
    }

    /// Returns the next record, or what else there is to say.
    pub(super) fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return step;
            }
            let behind = (0..self.open.len())
                .min_by_key(|&place| (self.open[place].reached_ns, self.open[place].file));
            let reached = behind.map(|place| self.open[place].reached_ns);
            let next = self.closed.last();
            if next.is_some_and(|next| reached.is_none_or(|reached| next.start_ns <= reached)) {
                self.open_next();
                continue;
            }
            if let Some(Reverse(first)) = self.waiting.peek() {
                let settled = |reached| first.time_ns.saturating_add(WINDOW_NS) <= reached;
                let full = self.waiting.len() >= MAX_WAITING || self.bytes >= MAX_BYTES;
                if full || reached.is_none_or(settled) {
                    return self.first();
                }
            }
            let Some(place) = behind else { return Step::End };
            self.read(place);
        }
    }

    fn open_next(&mut self) {
        let Some(Closed { file, start_ns, state }) = self.closed.pop() else { return };
        let (source, count) = match state {
            State::Kept(source, first) => {
                self.take(first);
                (Ok(source), 1)
            }
            State::Closed(mut opener) => {
                let opened = opener().map_err(|error| FileError::System(error.to_string()));
                (opened.and_then(Source::open), 0)
            }
        };
        match source {
            Ok(source) => self.open.push(Open { file, source, reached_ns: start_ns, count }),
            Err(error) => self.ready.push_back(Step::Failed(file, 1, error)),
        }
    }

    fn read(&mut self, place: usize) {
        let open = &mut self.open[place];
        match open.source.next() {
            Ok(Some(mut record)) => {
                open.count += 1;
                (record.file, record.number) = (open.file, open.count);
                if let Some(time_ns) = record.time_ns {
                    record.behind_ns = open.reached_ns.saturating_sub(time_ns).max(0);
                    open.reached_ns = open.reached_ns.max(time_ns);
                }
                self.take(record);
            }
            Ok(None) => {
                self.open.remove(place);
            }
            Err(error) => {
                self.ready.push_back(Step::Failed(open.file, open.count + 1, error));
                self.open.remove(place);
            }
        }
    }

    fn take(&mut self, record: Record) {
        match record.time_ns {
            Some(time_ns) => {
                self.serial += 1;
                self.bytes += record.data.len();
                self.waiting.push(Reverse(Waiting { time_ns, serial: self.serial, record }));
            }
            None => self.ready.push_back(Step::Record(record)),
        }
    }

    fn first(&mut self) -> Step {
        let Some(Reverse(Waiting { record, .. })) = self.waiting.pop() else { return Step::End };
        self.bytes -= record.data.len();
        Step::Record(record)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time_ns, self.serial).cmp(&(other.time_ns, other.serial))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// How far apart packets may be out of order. The queues of a network card, and tcpdump's buffer for
/// each of them, differ by less than this.
const WINDOW_NS: i64 = 1_000_000_000;
/// The most records that wait.
const MAX_WAITING: usize = 100_000;
/// The most bytes that wait.
const MAX_BYTES: usize = 32 << 20;
/// If there are more files than this, they are closed again until they are needed.
const MAX_KEPT: usize = 64;
