//! The applications' timers that are set.

use crate::agenda::Event;

/// Whom a timer wakes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) application: u32,
    /// What the application calls it.
    pub(crate) token: u32,
}

/// All timers that are set, each at a place of its own; a place that is left is used again.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    places: Vec<Wake>,
    free: Vec<u32>,
}

impl Wakes {
    /// A timer is set; gives its place.
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

    /// A timer comes.
    pub(crate) fn take(&mut self, place: u32) -> Wake {
        self.free.push(place);
        self.places[place as usize]
    }
}
