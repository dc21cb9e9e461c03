//! Reading ahead: with many connections, a simulator reads their state before the events that need
//! it, so that a processor waits for many reads at once.

/// Something that can be read before it is needed. `What` selects a part of it.
pub trait Prefetch<What = ()> {
    /// Reads what lies `step` references away and changes nothing. Returns a value that depends on
    /// what was read.
    fn prefetch(&self, what: What, step: Step) -> u32;
}

/// How many references away the data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// In the value itself.
    First,
    /// One reference away: in what the value refers to.
    Second,
    /// Two references away: in what that refers to.
    Third,
}
