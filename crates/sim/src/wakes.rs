//! Timers that applications have set.

use crate::agenda::Event;

/// The application that a timer wakes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) application: u32,
    /// The application's own name for the timer.
    pub(crate) token: u32,
}

/// All timers that are set, each at an index of its own. Freed indices are used again.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    places: Vec<Wake>,
    free: Vec<u32>,
}

impl Wakes {
    /// Sets a timer and returns its index.
    pub(crate) fn put(&mut self, wake: Wake) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = wake;
                place
            }
            None => {
                let place = self.places.len() as u32;
                assert!(place <= Event::MAX_INDEX, "more timers at once than events can name");
                self.places.push(wake);
                place
            }
        }
    }

    /// Takes a timer that has expired.
    pub(crate) fn take(&mut self, place: u32) -> Wake {
        self.free.push(place);
        self.places[place as usize]
    }
}
