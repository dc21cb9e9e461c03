//! Reads one chunk ahead of who asks for them, on a thread of its own.

use std::panic::resume_unwind;
use std::thread::{self, JoinHandle};

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
    Reads(JoinHandle<Step<R>>),
    Done,
}

/// The reader again, what it read, and what it knows then.
type Step<R> = (R, Option<<R as Rows>::Chunk>, Told);

impl<R: Rows> Ahead<R> {
    /// Reads nothing before it is asked.
    pub(crate) fn new(reader: R) -> Self {
        Self { state: State::Waits(reader), told: Told::default() }
    }

    /// The next rows, about `most`; `None` after the last. Whoever asks once is expected to ask
    /// again for as many.
    pub(crate) fn next(&mut self, most: usize) -> Option<R::Chunk> {
        let (reader, chunk, told) = match std::mem::replace(&mut self.state, State::Done) {
            State::Done => return None,
            State::Waits(reader) => step(reader, most),
            State::Reads(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        };
        self.told = told;
        if chunk.is_some() {
            self.state = State::Reads(thread::spawn(move || step(reader, most)));
        }
        chunk
    }
}

fn step<R: Rows>(mut reader: R, most: usize) -> Step<R> {
    let chunk = reader.next(most);
    let told = reader.told();
    (reader, chunk, told)
}
