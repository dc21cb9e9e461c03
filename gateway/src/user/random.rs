//! Unpredictable numbers from the kernel's generator (random(7)).

use std::fs::File;
use std::io::{self, Read};

/// Reads numbers from `/dev/urandom`, many with each call.
#[derive(Debug)]
pub(super) struct Random {
    source: File,
    drawn: [u8; 4096],
    used: usize,
}

impl Random {
    /// Opens the generator.
    pub(super) fn new() -> io::Result<Self> {
        let mut random = Self { source: File::open("/dev/urandom")?, drawn: [0; 4096], used: 0 };
        random.source.read_exact(&mut random.drawn)?;
        Ok(random)
    }

    /// Returns the next number.
    pub(super) fn next(&mut self) -> u32 {
        if self.used == self.drawn.len() {
            // Linux, drivers/char/random.c: once open, it neither ends nor fails
            // (`urandom_read_iter`).
            self.source.read_exact(&mut self.drawn).expect("urandom never ends");
            self.used = 0;
        }
        let bytes = self.drawn[self.used..].first_chunk().expect("4096 is a multiple of 4");
        let number = u32::from_ne_bytes(*bytes);
        self.drawn[self.used..self.used + 4].fill(0);
        self.used += 4;
        number
    }
}
