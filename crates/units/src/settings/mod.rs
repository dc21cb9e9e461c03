//! How a queue discipline, a transport or an application declares its settings, once for everybody
//! who needs them.
//!
//! `settings!` declares a table of settings: each key with its type, default, range and meaning. It
//! generates the struct, its `Default`, the check of the ranges, and a [`Table`] that describes the
//! same to other programs. From it, a program can read settings under their names, explain what is
//! wrong with them, and document them. `words!` declares the words that a key chooses from.
//!
//! Rules that a range cannot express (`min` below `max`) are in [`Settings::check_together`].

mod given;
mod setting;

pub use self::given::Given;
pub use self::setting::{Setting, Value, Words};
use crate::{ConfigError, Span};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

/// The description of a table of settings.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name if it has one, such as `Adaptive`.
    pub name: &'static str,
    /// Its meaning, as text with Markdown.
    pub about: &'static str,
    /// Its keys, in the order of their documentation.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, as text with Markdown.
    pub about: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Whether it may be left open: `None`.
    pub optional: bool,
    /// The rule for a single value.
    pub rule: Rule,
    /// Its default value.
    pub default: fn() -> Value,
}

/// The kind of a key's values.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// True or false.
    Switch,
    /// A duration.
    Span,
    /// A number of bytes.
    Size,
    /// A rate.
    Rate,
    /// A Differentiated Services code point (RFC 2474), which may be given by its name.
    Codepoint,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number of packets or of bytes; the key `unit` of the same table says which.
    WholeInUnit,
    /// A number of packets or of bytes that need not be whole; the key `unit` of the same table
    /// says which.
    NumberInUnit,
    /// This word, or a duration, which is serialised as a table with this key.
    WordOrSpan(&'static str, &'static str),
    /// One of these words, or a table with this key, which holds a duration.
    WordsOrSpan(&'static [&'static str], &'static str),
    /// A name.
    Name,
    /// A table. If the key is optional, a configuration may write `true` for its defaults.
    Table(&'static Table),
    /// A list of such values.
    List(&'static Kind),
    /// Successive values: always the same, listed, or drawn from a distribution.
    Drawn(&'static Kind),
    /// Two values.
    Pair(&'static Kind, &'static Kind),
    /// A choice with settings of its own, such as a queue discipline; some of their tables.
    Choice(&'static [Table]),
}

/// The rule for a single value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule {
    /// The kind of the value, if the type does not tell it.
    pub kind: Option<Kind>,
    /// The smallest value, or the least length of a list. Spans count in picoseconds.
    pub least: Option<f64>,
    /// The largest value, or the greatest length of a list.
    pub most: Option<f64>,
    /// Whether `least` itself is too small.
    pub above: bool,
    /// Whether `most` itself is too large.
    pub below: bool,
    /// Whether a configuration has to give it. Its default is then only an example for Rust code.
    pub required: bool,
}

/// Allows any value of the type.
pub const fn any() -> Rule {
    Rule { kind: None, least: None, most: None, above: false, below: false, required: false }
}

/// Allows a number from `least` to `most`.
pub const fn whole(least: u64, most: u64) -> Rule {
    Rule { kind: Some(Kind::Whole), least: Some(least as f64), most: Some(most as f64), ..any() }
}

/// Allows a number of bytes from `least` to `most`.
pub const fn size(least: u64, most: u64) -> Rule {
    Rule { kind: Some(Kind::Size), ..whole(least, most) }
}

/// Allows a number of packets or bytes above zero, as the key `unit` says.
pub const fn in_unit() -> Rule {
    Rule { kind: Some(Kind::WholeInUnit), ..whole(1, MOST_BYTES) }
}

/// Allows a number of packets or bytes above zero that need not be whole, as the key `unit` says.
pub const fn threshold() -> Rule {
    Rule { kind: Some(Kind::NumberInUnit), least: Some(0.0), above: true, ..in_unit() }
}

/// Allows a duration from `least` to `most`.
pub const fn span(least: Span, most: Span) -> Rule {
    Rule { least: Some(least.as_ps() as f64), most: Some(most.as_ps() as f64), ..any() }
}

/// Allows values above zero.
pub const fn positive() -> Rule {
    Rule { least: Some(0.0), above: true, ..any() }
}

/// Allows a number from `least` to `most` that need not be whole.
pub const fn number(least: f64, most: f64) -> Rule {
    Rule { least: Some(least), most: Some(most), ..any() }
}

/// Allows a share from 0 to 1.
pub const fn share() -> Rule {
    number(0.0, 1.0)
}

/// Allows a probability above 0 and at most 1.
pub const fn probability() -> Rule {
    Rule { most: Some(1.0), ..positive() }
}

/// Allows a number above 0 and below 1.
pub const fn fraction() -> Rule {
    Rule { below: true, ..probability() }
}

/// Allows a list of `least` to `most` entries.
pub const fn entries(least: u64, most: u64) -> Rule {
    Rule { kind: None, ..whole(least, most) }
}

/// Allows a Differentiated Services code point.
pub const fn codepoint() -> Rule {
    Rule { kind: Some(Kind::Codepoint), ..whole(0, 63) }
}

/// Allows one of these words.
pub const fn one_of(words: &'static [&'static str]) -> Rule {
    Rule { kind: Some(Kind::Words(words)), ..any() }
}

/// Allows a name.
pub const fn name() -> Rule {
    Rule { kind: Some(Kind::Name), ..any() }
}

impl Rule {
    /// Adds that a configuration has to give the value.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Checks whether a number keeps the rule.
    ///
    /// # Errors
    ///
    /// Returns how the number breaks it.
    pub fn check(&self, key: &str, value: f64) -> Result<(), ConfigError> {
        let refuse = |what: String| Err(ConfigError::new(key, what));
        if let Some(least) = self.least {
            let keeps = if self.above { value > least } else { value >= least };
            // NaN is not above zero either.
            match keeps {
                true => {}
                false if self.above || least == 1.0 && self.counts() => {
                    let least = if self.above { least } else { 0.0 };
                    let zero = if least == 0.0 { "zero".to_owned() } else { least.to_string() };
                    return refuse(format!("must be above {zero}"));
                }
                false => return refuse(format!("must be at least {least}")),
            }
        }
        if let Some(most) = self.most {
            match self.below {
                true if value >= most => return refuse(format!("must be below {most}")),
                false if value > most => return refuse(format!("must be at most {most}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks whether a list with this number of entries keeps the rule.
    ///
    /// # Errors
    ///
    /// Returns how it breaks the rule.
    pub fn check_entries(&self, key: &str, count: usize) -> Result<(), ConfigError> {
        let entries = |most: f64| if most == 1.0 { "entry" } else { "entries" };
        let what = match (self.least, self.most) {
            (Some(least), _) if (count as f64) < least => {
                format!("needs at least {least} {}", entries(least))
            }
            (_, Some(most)) if count as f64 > most => {
                format!("has {count} entries; at most {most} are possible")
            }
            _ => return Ok(()),
        };
        Err(ConfigError::new(key, what))
    }

    /// Returns whether its values are whole.
    const fn counts(&self) -> bool {
        matches!(self.kind, Some(Kind::Whole | Kind::Size | Kind::WholeInUnit))
    }
}

/// The most packets that a queue can be set to hold.
pub const MOST_PACKETS: u64 = 10_000_000;
/// The most bytes: Linux holds thresholds of RED and limits of FIFOs in 32 bits.
pub const MOST_BYTES: u64 = u32::MAX as u64;

/// The rules between the keys of a table.
pub trait Settings {
    /// Checks what a range cannot express.
    ///
    /// # Errors
    ///
    /// Returns the first key that contradicts others.
    fn check_together(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// Settings that `settings!` has declared.
pub trait Declared: Settings + Default {
    /// Their description.
    const TABLE: Table;
}

/// Declares a struct of settings.
///
/// ```
/// use narrows_units::settings;
/// use narrows_units::settings::{MOST_PACKETS, Settings, any, whole};
///
/// settings! {
///     /// What the table is.
///     pub struct Config {
///         /// What the key means.
///         limit: u32 = 1000, whole(1, MOST_PACKETS).required();
///         /// Marks packets of ECN-capable transports instead of dropping them.
///         ecn: bool = false, any();
///     }
/// }
///
/// impl Settings for Config {}
///
/// assert!(Config::default().check().is_ok());
/// assert!(Config { limit: 0, ecn: true }.check().is_err());
/// ```
///
/// If others call a key or the table by another name, that name follows `as`. Further traits to
/// derive come first, as in `#[derive(Copy, Eq)]`.
///
/// The struct can be serialised if the crate that declares it has a feature `serde`, and has a JSON
/// schema if that crate has a feature `schema`. Declare both, even if they stay empty: rustc warns of
/// unknown features.
#[macro_export]
macro_rules! settings {
    (
        $(#[derive($($more:ident),+)])?
        $(#[doc = $about:literal])+
        pub struct $name:ident $(as $shown:literal)? {
            $(
                $(#[doc = $means:literal])+
                $field:ident $(as $key:literal)?: $type:ty = $default:expr, $rule:expr;
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        $(#[derive($($more),+)])?
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(deny_unknown_fields)
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(
                $(#[doc = $means])+
                $(#[cfg_attr(feature = "serde", serde(rename = $key))])?
                pub $field: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::settings::Declared for $name {
            const TABLE: $crate::settings::Table = $crate::settings::Table {
                name: $crate::shown!($name $($shown)?),
                about: concat!($($about, "\n"),+),
                keys: &[$(
                    $crate::settings::Key::new::<$type>(
                        $crate::shown!($field $($key)?),
                        concat!($($means, "\n"),+),
                        $rule,
                        || $crate::settings::Setting::value(&{ let value: $type = $default; value }),
                    ),
                )+],
            };
        }

        impl $name {
            /// Checks whether these settings are possible.
            ///
            /// # Errors
            ///
            /// Returns the first setting that is out of range or contradicts others.
            pub fn check(&self) -> Result<(), $crate::ConfigError> {
                $(
                    $crate::settings::Setting::check(
                        &self.$field,
                        $crate::shown!($field $($key)?),
                        &const { $rule },
                    )?;
                )+
                $crate::settings::Settings::check_together(self)
            }
        }

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind =
                $crate::settings::Kind::Table(&<$name as $crate::settings::Declared>::TABLE);

            fn value(&self) -> $crate::settings::Value {
                $crate::settings::Value::Table
            }

            fn check(
                &self,
                key: &str,
                _rule: &$crate::settings::Rule,
            ) -> Result<(), $crate::ConfigError> {
                $name::check(self).map_err(|error| error.inside(key))
            }
        }
    };
}

/// `settings!` for keys that do not depend on each other.
#[macro_export]
macro_rules! keys {
    ($(#[$($meta:tt)*])* pub struct $name:ident $($rest:tt)*) => {
        $crate::settings! { $(#[$($meta)*])* pub struct $name $($rest)* }

        impl $crate::settings::Settings for $name {}
    };
}

/// Declares an enum for a key whose choices have settings of their own. The enum needs a function
/// `check` like the one that `settings!` generates. The tables of settings follow `with`.
#[macro_export]
macro_rules! choice {
    ($(#[$($meta:tt)*])* pub enum $name:ident $variants:tt with $($table:ty),+) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, PartialEq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(rename_all = "kebab-case", deny_unknown_fields)
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name $variants

        impl $crate::settings::Setting for $name {
            const KIND: $crate::settings::Kind = $crate::settings::Kind::Choice(&[
                $(<$table as $crate::settings::Declared>::TABLE),+
            ]);

            fn value(&self) -> $crate::settings::Value {
                $crate::settings::Value::Table
            }

            fn check(
                &self,
                key: &str,
                _rule: &$crate::settings::Rule,
            ) -> Result<(), $crate::ConfigError> {
                $name::check(self).map_err(|error| error.inside(key))
            }
        }
    };
}

/// A name, or the one that follows `as`.
#[doc(hidden)]
#[macro_export]
macro_rules! shown {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $shown:literal) => {
        $shown
    };
}

/// Declares an enum of choices for a key, with a word for each variant.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $(#[doc = $first_means:literal])+
            $first:ident = $first_word:literal,
            $(
                $(#[doc = $means:literal])+
                $variant:ident = $word:literal,
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $(#[doc = $first_means])+
            #[default]
            #[cfg_attr(feature = "serde", serde(rename = $first_word))]
            $first,
            $(
                $(#[doc = $means])+
                #[cfg_attr(feature = "serde", serde(rename = $word))]
                $variant,
            )*
        }

        impl $crate::settings::Words for $name {
            const WORDS: &'static [&'static str] = &[$first_word, $($word),*];

            fn word(&self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

pub use {choice, keys, settings, shown, words};

words! {
    /// What a queue is counted in.
    pub enum Unit {
        /// Packets.
        Packets = "packets",
        /// Bytes.
        Bytes = "bytes",
    }
}
