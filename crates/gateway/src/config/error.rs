//! Why a configuration is refused.

use std::borrow::Cow;
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

/// Foreign text as a line can hold it: the start and the end of what is long.
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
