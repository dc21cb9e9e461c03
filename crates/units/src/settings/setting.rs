//! The types of settings.

use super::{Key, Kind, Rule};
use crate::{Bytes, ConfigError, Rate, Span, Time};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A type that a setting may have.
pub trait Setting {
    /// The kind of its values.
    const KIND: Kind;
    /// Whether a value may be left open.
    const OPTIONAL: bool = false;

    /// Returns the value's description.
    fn value(&self) -> Value;

    /// Checks a value by itself.
    ///
    /// # Errors
    ///
    /// Returns how it breaks the rule.
    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError>;
}

/// The description of a setting's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    Open,
    /// A whole number; picoseconds, bytes, bits per second.
    Whole(u64),
    /// A number.
    Number(f64),
    /// True or false.
    Switch(bool),
    /// A word.
    Word(&'static str),
    /// A name.
    Name(String),
    /// A table with its defaults.
    Table,
    /// An empty list.
    Empty,
    /// A choice of this name, with its defaults.
    Choice(String),
}

impl Key {
    /// Describes a key of type `T`, for `settings!`.
    pub const fn new<T: Setting>(
        name: &'static str,
        about: &'static str,
        rule: Rule,
        default: fn() -> Value,
    ) -> Self {
        let kind = match (T::KIND, rule.kind) {
            (drawn @ Kind::Drawn(_), _) => drawn,
            (_, Some(kind)) => kind,
            (usual, None) => usual,
        };
        Self { name, about, kind, optional: T::OPTIONAL, rule, default }
    }
}

macro_rules! numbers {
    ($($type:ty: $kind:ident, $value:ident => $of_value:expr, $number:expr;)+) => {$(
        impl Setting for $type {
            const KIND: Kind = Kind::$kind;

            fn value(&self) -> Value {
                let $value = *self;
                $of_value
            }

            fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
                let $value = *self;
                rule.check(key, $number)
            }
        }
    )+};
}

numbers! {
    u8: Whole, value => Value::Whole(value.into()), value.into();
    u16: Whole, value => Value::Whole(value.into()), value.into();
    u32: Whole, value => Value::Whole(value.into()), value.into();
    i32: Whole, value => Value::Number(value.into()), value.into();
    u64: Whole, value => Value::Whole(value), value as f64;
    usize: Whole, value => Value::Whole(value as u64), value as f64;
    f64: Number, value => Value::Number(value), value;
    Bytes: Size, value => Value::Whole(value.get()), value.get() as f64;
    Rate: Rate, value => Value::Whole(value.as_bps()), value.as_bps() as f64;
}

impl Setting for Span {
    const KIND: Kind = Kind::Span;

    fn value(&self) -> Value {
        Value::Whole(self.as_ps())
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        let in_words = |ps: f64| Self::from_ps(ps as u64).to_string();
        let value = self.as_ps() as f64;
        match (rule.least, rule.most) {
            (Some(1.0), _) if value < 1.0 => Err(ConfigError::new(key, "must be above zero")),
            (Some(least), _) if value < least => {
                Err(ConfigError::new(key, format!("must be at least {}", in_words(least))))
            }
            (_, Some(most)) if value > most => {
                Err(ConfigError::new(key, format!("must be at most {}", in_words(most))))
            }
            _ => rule.check(key, value),
        }
    }
}

impl Setting for Time {
    const KIND: Kind = Kind::Span;

    fn value(&self) -> Value {
        self.since(Self::ZERO).value()
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        self.since(Self::ZERO).check(key, rule)
    }
}

impl Setting for bool {
    const KIND: Kind = Kind::Switch;

    fn value(&self) -> Value {
        Value::Switch(*self)
    }

    fn check(&self, _key: &str, _rule: &Rule) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl Setting for String {
    const KIND: Kind = Kind::Name;

    fn value(&self) -> Value {
        Value::Name(self.clone())
    }

    fn check(&self, _key: &str, _rule: &Rule) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// An enum that `words!` has declared.
pub trait Words {
    /// All words.
    const WORDS: &'static [&'static str];

    /// Returns the word for a variant.
    fn word(&self) -> &'static str;
}

impl<T: Words> Setting for T {
    const KIND: Kind = Kind::Words(T::WORDS);

    fn value(&self) -> Value {
        Value::Word(self.word())
    }

    fn check(&self, _key: &str, _rule: &Rule) -> Result<(), ConfigError> {
        Ok(())
    }
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
    const OPTIONAL: bool = true;

    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Open, T::value)
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        self.as_ref().map_or(Ok(()), |value| value.check(key, rule))
    }
}

impl<A: Setting, B: Setting> Setting for (A, B) {
    const KIND: Kind = Kind::Pair(&A::KIND, &B::KIND);

    fn value(&self) -> Value {
        Value::Table
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        self.0.check(key, rule)?;
        self.1.check(key, rule)
    }
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);

    fn value(&self) -> Value {
        Value::Empty
    }

    fn check(&self, key: &str, rule: &Rule) -> Result<(), ConfigError> {
        rule.check_entries(key, self.len())?;
        self.iter()
            .enumerate()
            .try_for_each(|(index, entry)| entry.check(&format!("{key}[{index}]"), &super::any()))
    }
}
