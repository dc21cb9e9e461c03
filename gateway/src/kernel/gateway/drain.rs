//! What happens to open connections when the gateway stops serving: they go on, and the kernel's TCP
//! gets the new ones.
//!
//! The programs must stay as long as a client may need them: while there are entries, and for
//! [`COOKIE`] after the last SYN that they answered, because a client with a cookie and without a
//! query has no entry.

use std::time::{Duration, Instant};

use super::super::KernelError;
use super::super::settings::{self, Around};
use super::super::skeleton::types;
use super::Gateway;
use crate::core::Counter;

/// How long a cookie may be valid: PROTOCOL.md, "The cookie".
const COOKIE: Duration = Duration::from_secs(64);

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// Clients are served.
    Serving,
    /// Nobody is served any more, since this time, except on open connections.
    Since(Instant),
    /// No connection is open.
    Over,
}

impl Drain {
    /// Changes the settings of a configuration that serves nobody, as long as connections are open.
    pub(super) fn shape(self, settings: &mut types::settings, around: Around) {
        if matches!(self, Self::Since(_)) {
            settings::drain(settings, around);
        }
    }
}

impl Gateway {
    /// Notes whether any client is to be served, and how far the end of the others is.
    pub(super) fn advance(&mut self, serves: bool) -> Result<(), KernelError> {
        let answered = self.total(Counter::Syn)?;
        if answered != self.syns.0 {
            self.syns = (answered, Some(Instant::now()));
        }
        self.drain = match self.drain {
            _ if serves => Drain::Serving,
            Drain::Serving => Drain::Since(Instant::now()),
            Drain::Since(_) if self.is_drained(COOKIE) => Drain::Over,
            same => same,
        };
        Ok(())
    }

    /// Returns how many connections the last sweep found.
    pub fn open(&self) -> u64 {
        self.swept.states.iter().skip(1).sum()
    }

    /// Returns whether nobody is served any more, and no connection is open. A client that has sent
    /// no query counts as open for this time after its SYN, or until its cookie has expired.
    pub fn is_drained(&self, handshakes: Duration) -> bool {
        match self.drain {
            Drain::Serving => false,
            Drain::Since(begun) => {
                self.swept_at.is_some_and(|at| at > begun)
                    && self.open() == 0
                    && self.syns.1.is_none_or(|at| at.elapsed() >= handshakes.min(COOKIE))
            }
            Drain::Over => true,
        }
    }
}
