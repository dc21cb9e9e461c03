//! Reads one chunk ahead of the caller, on a separate thread.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A source of rows in chunks.
pub(crate) trait Rows: Send + 'static {
    /// Some rows.
    type Chunk: Send + 'static;

    /// The form in which a kind of remark is handed on.
    type Remark: Clone + Send + 'static;

    /// Returns the next rows, about `most`, or `None` after the last.
    fn next(&mut self, most: usize) -> Option<Self::Chunk>;

    /// Returns what is known so far.
    fn report(&self) -> Report<Self::Remark>;
}

/// A kind of what was skipped or odd: its text, how many there were, the number of the first, and
/// what was wrong with it.
pub(crate) type Listed = (&'static str, u64, u64, String);

/// What a reader knows after a chunk.
pub(crate) struct Report<M> {
    /// The number of records seen.
    pub(crate) records: u64,
    /// What it was unable to use.
    pub(crate) skipped: Vec<Listed>,
    /// What was odd.
    pub(crate) remarks: Vec<M>,
    /// The ports that it ignored.
    pub(crate) other_ports: Vec<u16>,
}

impl<M> Default for Report<M> {
    fn default() -> Self {
        Self { records: 0, skipped: Vec::new(), remarks: Vec::new(), other_ports: Vec::new() }
    }
}

/// A reader whose next chunk is under way.
pub(crate) struct Ahead<R: Rows> {
    state: State<R>,
    /// What the reader knew after the last chunk returned.
    pub(crate) report: Report<R::Remark>,
}

enum State<R: Rows> {
    Waits(R),
    Reads(JoinHandle<()>, Receiver<Step<R>>),
    Done,
}

/// The reader, what it read, and what it knows then.
type Step<R> = (R, Option<<R as Rows>::Chunk>, Report<<R as Rows>::Remark>);

impl<R: Rows> Ahead<R> {
    /// Creates a reader that reads nothing before the first call.
    pub(crate) fn new(reader: R) -> Self {
        Self { state: State::Waits(reader), report: Report::default() }
    }

    /// Returns the next rows, about `most`, or `None` after the last. Returns [`Late`] if they take
    /// longer than a tenth of a second, so that the caller can check for Ctrl-C and call again; a
    /// file can have gigabytes between two rows. Starts to read the next chunk of the same size.
    pub(crate) fn next(&mut self, most: usize) -> Result<Option<R::Chunk>, Late> {
        let (thread, steps) = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return Ok(None),
            State::Waits(reader) => begin(reader, most),
            State::Reads(thread, steps) => (thread, steps),
        };
        let (reader, chunk, report) = match steps.recv_timeout(A_WHILE) {
            Ok(step) => step,
            Err(RecvTimeoutError::Timeout) => {
                self.state = State::Reads(thread, steps);
                return Err(Late);
            }
            // The thread has panicked: it never ends without a step otherwise.
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => return Ok(None),
                Err(panic) => resume_unwind(panic),
            },
        };
        self.report = report;
        if chunk.is_some() {
            let (thread, steps) = begin(reader, most);
            self.state = State::Reads(thread, steps);
        }
        Ok(chunk)
    }
}

/// Nothing has arrived so far.
pub(crate) struct Late;

/// Runs `work` on a separate thread and returns its result. Calls `look` ten times a second to ask
/// whether to go on waiting. A pipe that nobody writes to never opens or returns its first bytes.
pub(crate) fn waiting_for<T: Send + 'static, E>(
    work: impl FnOnce() -> T + Send + 'static,
    mut look: impl FnMut() -> Result<(), E>,
) -> Result<T, E> {
    let (give, given) = sync_channel(1);
    let thread = thread::spawn(move || drop(give.send(work())));
    loop {
        match given.recv_timeout(A_WHILE) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Timeout) => look()?,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                // The thread never ends without a result otherwise.
                Ok(()) => unreachable!("the work is done and has given nothing"),
                Err(panic) => resume_unwind(panic),
            },
        }
    }
}

const A_WHILE: Duration = Duration::from_millis(100);

fn begin<R: Rows>(reader: R, most: usize) -> (JoinHandle<()>, Receiver<Step<R>>) {
    let (give, steps) = sync_channel(1);
    // The caller may be gone.
    let thread = thread::spawn(move || drop(give.send(step(reader, most))));
    (thread, steps)
}

fn step<R: Rows>(mut reader: R, most: usize) -> Step<R> {
    let chunk = reader.next(most);
    let report = reader.report();
    (reader, chunk, report)
}
