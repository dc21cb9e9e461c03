//! Settings that no queue can have.

use core::fmt;

/// Why settings were refused: which key, what is wrong with it, and the mend where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    key: String,
    what: String,
    hint: String,
}

impl ConfigError {
    /// `what` is wrong with `key`, as in "must be above zero".
    pub fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into(), hint: String::new() }
    }

    /// The same with a mend.
    #[must_use]
    pub fn or(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// The same in a table below, such as `bands[0].queue`.
    #[must_use]
    pub fn inside(self, place: &str) -> Self {
        let key = if self.key.is_empty() { place.into() } else { format!("{place}.{}", self.key) };
        Self { key, ..self }
    }

    /// The key, or the path to it, such as `bands[0].queue.limit`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong with it.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The mend; empty where there is none to name.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; hint: {}", self.hint) }
    }
}

impl core::error::Error for ConfigError {}
