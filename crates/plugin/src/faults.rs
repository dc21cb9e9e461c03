//! What queues and congestion controls from outside do wrong.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An error that a part from outside reports itself, such as an exception.
pub type FromOutside = Box<dyn Error + Send + Sync>;

/// A kind of parts from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A queue.
    Queue,
    /// A congestion control.
    Control,
}

/// Why a part from outside cannot go on.
#[derive(Debug)]
pub struct Fault {
    /// What it is.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// What was wrong.
    pub why: FromOutside,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

/// The place where all parts from outside of a run report; the first fault stays.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    reports: Arc<Reports>,
    place: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Reports {
    first: Mutex<Option<Fault>>,
    any: AtomicBool,
}

impl Faults {
    /// Returns the same for the parts at a place, such as a link, whose name then stands before
    /// theirs.
    pub fn at(&self, place: &str) -> Self {
        Self { reports: Arc::clone(&self.reports), place: Some(place.into()) }
    }

    /// Reports a fault.
    pub fn report(&self, part: Part, name: &str, why: impl Into<FromOutside>) {
        let name = match &self.place {
            Some(place) => format!("{place}: {name}"),
            None => name.to_owned(),
        };
        let mut first = self.reports.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| Fault { part, name, why: why.into() });
        self.reports.any.store(true, Ordering::Relaxed);
    }

    /// Returns whether there has been a fault. This costs as much as reading a variable.
    #[inline]
    pub fn any(&self) -> bool {
        self.reports.any.load(Ordering::Relaxed)
    }

    /// Takes the first fault, if there was one.
    pub fn take(&self) -> Option<Fault> {
        self.reports.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
