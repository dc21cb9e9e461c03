//! Reads one chunk ahead of who asks for them, on a thread of its own.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Gives rows a chunk at a time.
pub(crate) trait Rows: Send + 'static {
    /// Some rows.
    type Chunk: Send + 'static;

    /// The next rows, about `most`; `None` after the last.
    fn next(&mut self, most: usize) -> Option<Self::Chunk>;

    /// What is known so far.
    fn told(&self) -> Told;
}

/// A kind of thing that was noted: how many, number of the first, and what was wrong with it.
pub(crate) type Listed = (&'static str, u64, u64, String);

/// What a reader knows after a chunk.
#[derive(Default)]
pub(crate) struct Told {
    /// How many records it has seen.
    pub(crate) records: u64,
    /// What it could not use.
    pub(crate) skipped: Vec<Listed>,
    /// What was odd.
    pub(crate) remarks: Vec<Listed>,
    /// Ports that it did not look at.
    pub(crate) other_ports: Vec<u16>,
}

/// A reader, and its next chunk under way.
pub(crate) struct Ahead<R: Rows> {
    state: State<R>,
    /// What the reader knew after the chunk that was given out last.
    pub(crate) told: Told,
}

enum State<R: Rows> {
    Waits(R),
    Reads(JoinHandle<()>, Receiver<Step<R>>),
    Done,
}

/// The reader again, what it read, and what it knows then.
type Step<R> = (R, Option<<R as Rows>::Chunk>, Told);

impl<R: Rows> Ahead<R> {
    /// Reads nothing before it is asked.
    pub(crate) fn new(reader: R) -> Self {
        Self { state: State::Waits(reader), told: Told::default() }
    }

    /// The next rows, about `most`; `None` after the last, and [`Late`] where they take longer
    /// than a tenth of a second: whoever asks may look for Ctrl-C, and asks again. A file can have
    /// gigabytes between two rows. Whoever asks once is expected to ask again for as many.
    pub(crate) fn next(&mut self, most: usize) -> Result<Option<R::Chunk>, Late> {
        let (thread, steps) = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return Ok(None),
            State::Waits(reader) => begin(reader, most),
            State::Reads(thread, steps) => (thread, steps),
        };
        let (reader, chunk, told) = match steps.recv_timeout(A_WHILE) {
            Ok(step) => step,
            Err(RecvTimeoutError::Timeout) => {
                self.state = State::Reads(thread, steps);
                return Err(Late);
            }
            // The thread has panicked: it ends in no other way without a step.
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => return Ok(None),
                Err(panic) => resume_unwind(panic),
            },
        };
        self.told = told;
        if chunk.is_some() {
            let (thread, steps) = begin(reader, most);
            self.state = State::Reads(thread, steps);
        }
        Ok(chunk)
    }
}

/// Nothing has come so far.
pub(crate) struct Late;

/// What `work` gives, on a thread of its own; `look` is asked ten times a second whether to go on
/// waiting. A pipe that nobody writes to opens and gives its first bytes never.
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
                // It ends in no other way without giving something.
                Ok(()) => unreachable!("the work is done and has given nothing"),
                Err(panic) => resume_unwind(panic),
            },
        }
    }
}

const A_WHILE: Duration = Duration::from_millis(100);

fn begin<R: Rows>(reader: R, most: usize) -> (JoinHandle<()>, Receiver<Step<R>>) {
    let (give, steps) = sync_channel(1);
    // Whoever asked may be gone.
    let thread = thread::spawn(move || drop(give.send(step(reader, most))));
    (thread, steps)
}

fn step<R: Rows>(mut reader: R, most: usize) -> Step<R> {
    let chunk = reader.next(most);
    let told = reader.told();
    (reader, chunk, told)
}
