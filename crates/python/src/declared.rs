//! Declarations of settings (`narrows_units::settings`) as JSON, for the scenario language.

use narrows_sim::heads;
use narrows_sim::plan::{self, Middlebox, Ring};
use narrows_sim::table::{ColumnHead, Head};
use narrows_units::ConfigError;
use narrows_units::settings::{Declared, Key, Kind, Table, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value as Json, json};

/// Adds the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(settings, module)?)?;
    module.add_function(wrap_pyfunction!(tables, module)?)?;
    module.add_function(wrap_pyfunction!(check_settings, module)?)
}

/// The key, what is wrong with it, and the remedy.
pub(crate) type Wrong = (String, String, String);

/// Returns the parts of an error.
pub(crate) fn parts(error: &ConfigError) -> Wrong {
    (error.key().to_owned(), error.what().to_owned(), error.hint().to_owned())
}

/// Returns all tables of settings, of links, transports and applications, by name as JSON: their
/// keys with kinds, ranges, defaults and meanings. TCP's defaults are those of the profile
/// `linux-6`.
#[pyfunction]
fn settings() -> String {
    let mut found = serde_json::Map::new();
    for table in plan::tables() {
        gather(table, &mut found);
    }
    Json::from(found).to_string()
}

/// Returns the declarations of a run's tables as JSON: their columns with types, units and
/// meanings.
#[pyfunction]
fn tables() -> String {
    let column = |column: &ColumnHead| {
        json!({
            "name": column.name,
            "type": column.kind,
            "unit": column.unit,
            "about": column.about,
            "notes": column.notes,
        })
    };
    let head = |head: Head| {
        json!({
            "name": head.name,
            "about": head.about,
            "columns": Json::from_iter(head.columns.iter().map(column)),
        })
    };
    Json::from_iter(heads().map(head)).to_string()
}

/// Declares the tables that `check_settings` knows: those whose keys may contradict each other.
macro_rules! checked {
    ($($settings:ty),+) => {
        /// Returns what is wrong with a table of settings, given as a plan has it.
        #[pyfunction]
        fn check_settings(table: &str, settings_json: &str) -> PyResult<Option<Wrong>> {
            $(if table == <$settings>::TABLE.name {
                let settings: $settings = serde_json::from_str(settings_json)
                    .map_err(|why| PyValueError::new_err(why.to_string()))?;
                return Ok(settings.check().err().as_ref().map(parts));
            })+
            Err(PyValueError::new_err(format!("no table {table} is checked")))
        }
    };
}

checked!(Middlebox, Ring);

/// Returns a table of settings with its keys: names, kinds, ranges, defaults and meanings.
pub(crate) fn table(table: &Table) -> Json {
    json!({
        "name": table.name,
        "about": table.about,
        "keys": Json::from_iter(table.keys.iter().map(key)),
    })
}

/// Adds a table and all tables in it, by name.
pub(crate) fn gather(found: &Table, tables: &mut Map<String, Json>) {
    let before = tables.insert(found.name.to_owned(), table(found));
    assert!(before.is_none_or(|before| before == table(found)), "two tables {}", found.name);
    for key in found.keys {
        let mut kind = key.kind;
        while let Kind::List(entry) = kind {
            kind = *entry;
        }
        match kind {
            Kind::Table(inner) => gather(inner, tables),
            Kind::Choice(choices) => choices.iter().for_each(|inner| gather(inner, tables)),
            _ => {}
        }
    }
}

fn key(key: &Key) -> Json {
    let rule = key.rule;
    let (kind, of) = kind(key.kind);
    json!({
        "name": key.name,
        "about": key.about,
        "kind": kind,
        "of": of,
        "optional": key.optional,
        "required": rule.required,
        "default": value((key.default)()),
        "least": rule.least,
        "most": rule.most,
        "above": rule.above,
        "below": rule.below,
    })
}

/// Returns the kind of values, and further facts about them.
fn kind(kind: Kind) -> (&'static str, Json) {
    match kind {
        Kind::Whole => ("whole", Json::Null),
        Kind::Number => ("number", Json::Null),
        Kind::Switch => ("switch", Json::Null),
        Kind::Span => ("span", Json::Null),
        Kind::Size => ("size", Json::Null),
        Kind::Rate => ("rate", Json::Null),
        Kind::Codepoint => ("codepoint", Json::Null),
        Kind::Words(words) => ("words", json!(words)),
        Kind::WholeInUnit => ("whole-in-unit", Json::Null),
        Kind::NumberInUnit => ("number-in-unit", Json::Null),
        Kind::WordOrSpan(word, tag) => ("word-or-span", json!([word, tag])),
        Kind::WordsOrSpan(words, tag) => ("words-or-span", json!([words, tag])),
        Kind::Name => ("name", Json::Null),
        Kind::Table(inner) => ("table", table(inner)),
        Kind::List(entry) => ("list", values(*entry)),
        Kind::Drawn(value) => ("drawn", values(*value)),
        Kind::Pair(one, other) => ("pair", json!([values(*one), values(*other)])),
        Kind::Choice(_) => ("choice", Json::Null),
    }
}

/// Returns the kind of values in a list, as a key has it.
fn values(entry: Kind) -> Json {
    let (kind, of) = kind(entry);
    json!({ "kind": kind, "of": of })
}

fn value(value: Value) -> Json {
    match value {
        Value::Open => Json::Null,
        Value::Whole(number) => json!(number),
        Value::Number(number) => json!(number),
        Value::Switch(on) => json!(on),
        Value::Word(word) => json!(word),
        Value::Name(name) => json!(name),
        Value::Table => json!({}),
        Value::Empty => json!([]),
        Value::Choice(name) => json!(name),
    }
}
