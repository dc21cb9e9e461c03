//! How a discipline says what it can be told, once for all who want to know.
//!
//! `settings!` declares a table of settings: each key with its type, its default, its range and
//! what it means. From that come the struct, its `Default`, the check of the ranges, and a [`Table`]
//! that says the same to others: the scenario language in Python makes its keys, its messages and
//! its reference of it. `words!` declares what a key chooses from.
//!
//! What a range cannot say (`min` below `max`) is in [`Settings::check_together`].

mod setting;

pub use self::setting::{Setting, Value, Words};
use crate::ConfigError;

/// A table of settings, as others see it.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name where tables have one, such as `Adaptive`.
    pub name: &'static str,
    /// What it is, as text with Markdown.
    pub about: &'static str,
    /// Its keys, in the order in which they are documented.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it means, as text with Markdown.
    pub about: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// It may be left open: `None`.
    pub optional: bool,
    /// What must hold for a value by itself.
    pub rule: Rule,
    /// The value that it has by default.
    pub default: fn() -> Value,
}

/// What values of a key are.
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
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number of packets or of bytes, as the key `unit` of the same table says.
    WholeInUnit,
    /// The same for a number that need not be whole.
    NumberInUnit,
    /// This word, or a duration, which a plan writes as a table with this key.
    WordOrSpan(&'static str, &'static str),
    /// A name.
    Name,
    /// A table. A scenario may write `true` for its defaults where the key is optional.
    Table(&'static Table),
    /// A list of tables.
    Tables(&'static Table),
    /// A queue discipline.
    Queue,
}

/// What must hold for a value by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rule {
    /// What the value is, where the type does not say it.
    pub kind: Option<Kind>,
    /// The smallest value, or length of a list; spans count in picoseconds.
    pub least: Option<f64>,
    /// The largest value, or length of a list.
    pub most: Option<f64>,
    /// `least` itself is too small.
    pub above: bool,
    /// `most` itself is too large.
    pub below: bool,
    /// A scenario has to say it: the default is that of the Rust type alone.
    pub required: bool,
}

/// Any value of the type.
pub const fn any() -> Rule {
    Rule { kind: None, least: None, most: None, above: false, below: false, required: false }
}

/// A number from `least` to `most`.
pub const fn whole(least: u64, most: u64) -> Rule {
    Rule { kind: Some(Kind::Whole), least: Some(least as f64), most: Some(most as f64), ..any() }
}

/// A number of bytes from `least` to `most`.
pub const fn size(least: u64, most: u64) -> Rule {
    Rule { kind: Some(Kind::Size), ..whole(least, most) }
}

/// A number of packets or bytes, above zero, as the key `unit` says.
pub const fn in_unit() -> Rule {
    Rule { kind: Some(Kind::WholeInUnit), ..whole(1, MOST_BYTES) }
}

/// The same where it need not be whole.
pub const fn threshold() -> Rule {
    Rule { kind: Some(Kind::NumberInUnit), least: Some(0.0), above: true, ..in_unit() }
}

/// Above zero.
pub const fn positive() -> Rule {
    Rule { least: Some(0.0), above: true, ..any() }
}

/// A probability above 0, at most 1.
pub const fn probability() -> Rule {
    Rule { most: Some(1.0), ..positive() }
}

/// Above 0 and below 1.
pub const fn fraction() -> Rule {
    Rule { below: true, ..probability() }
}

/// A list of so many entries.
pub const fn entries(least: u64, most: u64) -> Rule {
    Rule { kind: None, ..whole(least, most) }
}

/// One of these words.
pub const fn one_of(words: &'static [&'static str]) -> Rule {
    Rule { kind: Some(Kind::Words(words)), ..any() }
}

/// A name.
pub const fn name() -> Rule {
    Rule { kind: Some(Kind::Name), ..any() }
}

impl Rule {
    /// The same, and a scenario has to say it.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Whether a number keeps the rule.
    pub(crate) fn check(&self, key: &str, value: f64) -> Result<(), ConfigError> {
        let refuse = |what: String| Err(ConfigError::new(key, what));
        if let Some(least) = self.least {
            let keeps = if self.above { value > least } else { value >= least };
            // What is no number is not above zero either.
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

    /// Its values are whole.
    const fn counts(&self) -> bool {
        matches!(self.kind, Some(Kind::Whole | Kind::Size | Kind::WholeInUnit))
    }
}

/// Packets that a queue can be told to hold.
pub const MOST_PACKETS: u64 = 10_000_000;
/// Linux holds thresholds of RED and limits of FIFOs in 32 bits.
pub const MOST_BYTES: u64 = u32::MAX as u64;

/// What must hold between the keys of a table.
pub trait Settings {
    /// Checks what a range cannot say.
    ///
    /// # Errors
    ///
    /// The first key that contradicts others.
    fn check_together(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// Settings that `settings!` has declared.
pub trait Declared: Settings + Default {
    /// What they are.
    const TABLE: Table;
}

/// Declares a struct of settings; see the disciplines for examples.
///
/// ```ignore
/// settings! {
///     /// What the table is.
///     pub struct Config {
///         /// What the key means.
///         limit: u32 = 1000, whole(1, MOST_PACKETS).required();
///         /// Marks packets of ECN-capable transports instead of dropping them.
///         ecn: bool = false, any();
///     }
/// }
/// impl Settings for Config {}
/// ```
///
/// A key, or the table, that others call by another name has it behind `as`.
macro_rules! settings {
    (
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
                name: $crate::settings::shown!($name $($shown)?),
                about: concat!($($about, "\n"),+),
                keys: &[$(
                    $crate::settings::Key::new::<$type>(
                        $crate::settings::shown!($field $($key)?),
                        concat!($($means, "\n"),+),
                        $rule,
                        || $crate::settings::Setting::value(&{ let value: $type = $default; value }),
                    ),
                )+],
            };
        }

        impl $name {
            /// Whether the settings can be.
            ///
            /// # Errors
            ///
            /// The first that is out of range, or contradicts others.
            pub fn check(&self) -> Result<(), $crate::ConfigError> {
                $(
                    $crate::settings::Setting::check(
                        &self.$field,
                        $crate::settings::shown!($field $($key)?),
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

/// A name, or the one that stands behind `as`.
macro_rules! shown {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $shown:literal) => {
        $shown
    };
}

/// Declares what a key chooses from: an enum, and the word for each variant.
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

pub(crate) use {settings, shown, words};

words! {
    /// What a queue is counted in.
    pub enum Unit {
        /// Packets.
        Packets = "packets",
        /// Bytes.
        Bytes = "bytes",
    }
}
