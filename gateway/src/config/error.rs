//! Why a configuration is refused.

use std::borrow::Cow;
use std::fmt;

/// Why a configuration is refused. Displays as one line that names the place, the key and what to
/// do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// Its path.
        path: String,
        /// The system's message.
        why: String,
        /// Whether it may pass by itself.
        passes: bool,
    },
    /// The file is not TOML.
    Syntax {
        /// File and line.
        place: String,
        /// The parser's message.
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
    /// A key's value has the wrong kind, is out of range, or does not fit another key's.
    Value {
        /// File and line, or the flag; empty if values from several places do not fit together.
        place: String,
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// A key without a default is not set.
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
            Self::Unreadable { path, why, .. } => {
                write!(f, "{path}: {why}; hint: name a file that can be read with --config")
            }
            Self::Syntax { place, what } => {
                write!(f, "{place}: {what}; hint: the file is TOML, with texts in double quotes")
            }
            Self::Unknown { place, key, nearest } => {
                let key = in_part(key);
                if key == *nearest {
                    return write!(
                        f,
                        "{place}: {key} is a table; hint: [{key}], and its keys below"
                    );
                }
                write!(f, "{place}: there is no key {key:?}; hint: the nearest is {nearest:?}")
            }
            Self::Value { place, key, what, hint } if place.is_empty() => {
                let what = in_part(what);
                write!(f, "{key}: {what}; hint: {hint}")
            }
            Self::Value { place, key, what, hint } => {
                let what = in_part(what);
                write!(f, "{place}: {key}: {what}; hint: {hint}")
            }
            Self::Missing { key, example } => {
                write!(f, "{key}: is not set; hint: {example}, or {key} in the file of --config")
            }
        }
    }
}

/// Foreign text shortened for one line: only the start and the end of a long text.
fn in_part(text: &str) -> Cow<'_, str> {
    let ends = (text.char_indices().nth(100), text.char_indices().nth_back(59));
    match ends {
        (Some((start, _)), Some((end, _))) if start < end => {
            format!("{}...{}", &text[..start], &text[end..]).into()
        }
        _ => text.into(),
    }
}

impl std::error::Error for ConfigError {}
