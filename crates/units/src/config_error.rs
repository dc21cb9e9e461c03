//! Invalid settings.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Why settings were refused: which key, what is wrong with it, and the remedy if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    key: String,
    what: String,
    hint: String,
}

impl ConfigError {
    /// Creates an error: `what` is wrong with `key`, as in "must be above zero".
    pub fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into(), hint: String::new() }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn or(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Moves the key into a table, such as `bands[0].queue`.
    #[must_use]
    pub fn inside(self, place: &str) -> Self {
        let key = if self.key.is_empty() { place.into() } else { format!("{place}.{}", self.key) };
        Self { key, ..self }
    }

    /// Returns the key, or the path to it, such as `bands[0].queue.limit`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what is wrong with it.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the remedy; empty if there is none.
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
