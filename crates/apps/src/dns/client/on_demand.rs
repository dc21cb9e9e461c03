//! Queries that pages ask for: a resolver for applications at the same machine.
//!
//! Each caller gets a place, as an arrival does, and hears when its query is answered or given up.
//! There are as many places as the group has workers. A call that finds no free place leaves a row
//! without attempts, and fails at once.

use super::Workers;
use crate::Host;

/// Who has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caller {
    application: u32,
    /// The caller's own number for its call.
    ticket: u32,
}

/// What a caller hears of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// The caller's own number for its call.
    pub(crate) ticket: u32,
    /// The row of its query.
    pub(crate) query: u32,
    /// Whether there is an answer.
    pub(crate) is_answered: bool,
}

impl Resolved {
    fn notes(self) -> [u32; 2] {
        [self.ticket, 2 * self.query + u32::from(self.is_answered)]
    }

    /// Reads the notes of a resolver.
    pub(crate) fn of([ticket, query]: [u32; 2]) -> Self {
        Self { ticket, query: query / 2, is_answered: query % 2 == 1 }
    }
}

/// The calls of a group.
#[derive(Debug)]
pub(super) struct Calls {
    /// The calls so far.
    begun: u32,
    /// The places that no query holds; the last one is taken next.
    free: Vec<u32>,
    /// By place.
    callers: Vec<Caller>,
}

impl Calls {
    pub(super) fn new(places: u32) -> Self {
        let nobody = Caller { application: 0, ticket: 0 };
        Self { begun: 0, free: (0..places).rev().collect(), callers: vec![nobody; places as usize] }
    }

    /// Takes back the place of a query that is over, and tells its caller.
    pub(super) fn end(&mut self, host: &mut dyn Host, place: u32, query: u32, is_answered: bool) {
        self.free.push(place);
        let Caller { application, ticket } = self.callers[place as usize];
        host.notify(application, Resolved { ticket, query, is_answered }.notes());
    }
}

impl Workers {
    /// Begins a query for an application.
    pub(super) fn begin_call(&mut self, host: &mut dyn Host, application: u32, ticket: u32) {
        let Some(calls) = &mut self.calls else { return };
        let index = calls.begun;
        calls.begun += 1;
        if let Some(place) = calls.free.pop() {
            calls.callers[place as usize] = Caller { application, ticket };
            self.workers[place as usize].begun = index;
            self.begin_query(host, place);
        } else {
            let query = self.turn_away(host, index);
            let resolved = Resolved { ticket, query, is_answered: false };
            host.notify(application, resolved.notes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_read_what_they_are_told() {
        for (query, is_answered) in [(0, false), (50_000_000, true)] {
            let resolved = Resolved { ticket: 7, query, is_answered };
            assert_eq!(Resolved::of(resolved.notes()), resolved);
        }
    }
}
