//! Declarations of settings (`narrows_units::settings`) as JSON, for the scenario language.

use narrows_units::settings::{Key, Kind, Table, Value};
use serde_json::{Value as Json, json};

/// Returns a table of settings with its keys: names, kinds, ranges, defaults and meanings.
pub(crate) fn table(table: &Table) -> Json {
    json!({
        "name": table.name,
        "about": table.about,
        "keys": Json::from_iter(table.keys.iter().map(key)),
    })
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
        Kind::Words(words) => ("words", json!(words)),
        Kind::WholeInUnit => ("whole-in-unit", Json::Null),
        Kind::NumberInUnit => ("number-in-unit", Json::Null),
        Kind::WordOrSpan(word, tag) => ("word-or-span", json!([word, tag])),
        Kind::WordsOrSpan(words, tag) => ("words-or-span", json!([words, tag])),
        Kind::Name => ("name", Json::Null),
        Kind::Table(inner) => ("table", table(inner)),
        Kind::Tables(inner) => ("tables", table(inner)),
        Kind::Choice => ("choice", Json::Null),
    }
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
