//! Why an exchange was not answered.

use std::io::Error;

use crate::exchange::Outcome;

/// An outcome other than answered, with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) outcome: Outcome,
    pub(crate) detail: String,
}

impl Failed {
    pub(crate) fn new(outcome: Outcome, detail: &str) -> Self {
        Self { outcome, detail: detail.to_owned() }
    }

    pub(crate) fn timeout() -> Self {
        Self::new(Outcome::Timeout, "")
    }

    /// Classifies an error of the system (the errors of connect(2), send(2), recv(2), tcp(7),
    /// ip(7)).
    pub(crate) fn of_system(error: &Error) -> Self {
        let outcome = match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Outcome::Refused,
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => {
                Outcome::Unreachable
            }
            Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) => Outcome::Reset,
            Some(libc::ETIMEDOUT) => Outcome::Timeout,
            _ => Outcome::NotAsked,
        };
        let text = error.to_string();
        let words = text.split(" (os error").next().unwrap_or(&text);
        Self::new(outcome, &words.to_lowercase())
    }
}
