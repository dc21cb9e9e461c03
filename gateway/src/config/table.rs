//! A key: the name in the file (and as a flag, with `-` for `.` and `_`), its kind and its meaning.

use super::Config;
pub use super::declare::{KEYS, TABLES};
pub use super::value::{Raw, Wrong};

/// A key.
#[derive(Debug)]
pub struct Key {
    /// Its name in the file: `timeout`, `syncache.hashsize`.
    pub name: &'static str,
    /// What stands for the value behind the flag: `SPAN`, `N`, ...
    pub placeholder: &'static str,
    /// Whether a running gateway takes a new value on SIGHUP.
    pub live: bool,
    /// Its meaning: one sentence, in lines.
    pub(super) about: &'static [&'static str],
    /// What the sample configuration sets it to, as TOML; empty: its default.
    pub(super) sample: &'static [&'static str],
    pub(super) set: fn(&mut Config, &Raw) -> Result<(), Wrong>,
    pub(super) show: fn(&Config) -> String,
    pub(super) copy: fn(&Config, &mut Config),
}

impl Key {
    /// Returns its flag, without the dashes in front.
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// Returns its meaning: one sentence.
    pub fn about(&self) -> String {
        self.about.concat().trim().into()
    }

    /// Returns its meaning in lower case, without a full stop.
    pub fn help(&self) -> String {
        let about = self.about();
        let mut letters = about.trim_end_matches('.').chars();
        let first = letters.next().unwrap_or_default();
        let rest = letters.as_str();
        // Not what is written in capitals, such as SYN.
        if rest.starts_with(char::is_uppercase) {
            format!("{first}{rest}")
        } else {
            format!("{}{rest}", first.to_lowercase())
        }
    }

    /// Returns what the sample configuration sets it to, as TOML; `None`: its default.
    pub fn sample(&self) -> Option<&'static str> {
        self.sample.first().copied()
    }

    /// Sets a value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value has another kind or is out of range.
    pub fn set(&self, config: &mut Config, value: &Raw) -> Result<(), Wrong> {
        (self.set)(config, value)
    }

    /// Returns its value in `config`, as TOML.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }

    /// Copies its value.
    pub fn copy(&self, from: &Config, to: &mut Config) {
        (self.copy)(from, to);
    }
}

/// Returns the key of this name.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

#[cfg(test)]
mod tests;
