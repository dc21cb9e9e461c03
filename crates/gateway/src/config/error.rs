//! Why a configuration is refused.

use std::fmt;

/// Why a configuration is refused. Displays as one line that names the place, the key and the mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// Its path.
        path: String,
        /// The system's words.
        why: String,
    },
    /// The file is no TOML.
    Syntax {
        /// File and line.
        place: String,
        /// The parser's words.
        what: String,
    },
    /// A key that does not exist.
    Unknown {
        /// File and line.
        place: String,
        /// The key as it stands there.
        key: String,
        /// The nearest key that exists.
        nearest: String,
    },
    /// A key's value is of another kind, out of its range, or does not fit another's.
    Value {
        /// File and line, or the flag; empty where values of several places do not fit.
        place: String,
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
        /// The mend.
        hint: String,
    },
    /// A key that has no default is named nowhere.
    Missing {
        /// The key.
        key: &'static str,
        /// How it could be given.
        example: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => {
                write!(f, "{path}: {why}; hint: name a file that can be read with --config")
            }
            Self::Syntax { place, what } => write!(f, "{place}: {what}; hint: the file is TOML"),
            Self::Unknown { place, key, nearest } => {
                write!(f, "{place}: there is no key {key:?}; hint: the nearest is {nearest:?}")
            }
            Self::Value { place, key, what, hint } if place.is_empty() => {
                write!(f, "{key}: {what}; hint: {hint}")
            }
            Self::Value { place, key, what, hint } => {
                write!(f, "{place}: {key}: {what}; hint: {hint}")
            }
            Self::Missing { key, example } => {
                write!(f, "{key}: is not set; hint: {example}, or {key} in the file of --config")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
