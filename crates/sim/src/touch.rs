//! What the types implement that [`foresight`](crate::foresight) reads in advance.

/// Something that can be read before it is needed. `What` selects a part of it.
pub(crate) trait Touch<What = ()> {
    /// Reads what lies `step` references away and changes nothing. Returns a value that depends on
    /// what was read.
    fn touch(&self, what: What, step: Step) -> u32;
}

/// How many references away the data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// In the value itself.
    First,
    /// One reference away: in what the value refers to.
    Second,
    /// Two references away: in what that refers to.
    Third,
}
