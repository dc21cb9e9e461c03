//! A queue and its settings as text: `fq-codel ecn=true target=5ms`.

use narrows_qdisc::AnyConfig;
use narrows_units::settings::{Key, Kind};
use narrows_units::{parse_bytes, parse_rate, parse_span};
use serde_json::{Map, Value, json};

/// Reads a queue. What follows from a rate is still open.
///
/// # Errors
///
/// Says which word is wrong.
pub(crate) fn read(text: &str) -> Result<AnyConfig, String> {
    let mut words = text.split_ascii_whitespace();
    let name = words.next().ok_or("queue: has no name")?;
    let listed = AnyConfig::LISTED.iter().find(|listed| listed.name == name);
    let listed = listed.ok_or_else(|| {
        let names: Vec<&str> = AnyConfig::LISTED.iter().map(|listed| listed.name).collect();
        format!("queue: there is no \"{name}\"; hint: one of {}", names.join(", "))
    })?;
    let mut settings = Map::new();
    for word in words {
        let (key, text) = word.split_once('=').ok_or_else(|| {
            format!("queue: \"{word}\" is no setting; hint: such as limit=100, without spaces")
        })?;
        let found = listed.table.keys.iter().find(|known| known.name == key);
        let found = found.ok_or_else(|| {
            let keys: Vec<&str> = listed.table.keys.iter().map(|known| known.name).collect();
            format!("queue: {name} has no {key}; hint: it has {}", keys.join(", "))
        })?;
        let value = value(&found.kind, text).map_err(|why| format!("queue.{key}: {why}"))?;
        if settings.insert(key.into(), value).is_some() {
            return Err(format!("queue.{key}: is there twice"));
        }
    }
    let missing = |known: &&Key| known.rule.required && !settings.contains_key(known.name);
    if let Some(missing) = listed.table.keys.iter().find(missing) {
        return Err(format!("queue.{}: is missing", missing.name));
    }
    let mut written = serde_json::to_value((listed.default)()).map_err(|why| why.to_string())?;
    if let Some(Value::Object(all)) = written.get_mut(name) {
        all.extend(settings);
    }
    serde_json::from_value(written).map_err(|why| format!("queue: {why}"))
}

/// A value in base units, as plans have it.
fn value(kind: &Kind, text: &str) -> Result<Value, String> {
    let wrong = |what: &str| Err(format!("\"{text}\" is not {what}"));
    Ok(match kind {
        Kind::Whole | Kind::Codepoint | Kind::WholeInUnit => match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => return wrong("a whole number"),
        },
        Kind::Number | Kind::NumberInUnit => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => number.into(),
            _ => return wrong("a number"),
        },
        Kind::Switch => match text {
            "true" => true.into(),
            "false" => false.into(),
            _ => return wrong("true or false"),
        },
        Kind::Span => parse_span(text).map_err(|why| why.to_string())?.as_ps().into(),
        Kind::Size => match text.parse::<u64>() {
            Ok(bytes) => bytes.into(),
            Err(_) => parse_bytes(text).map_err(|why| why.to_string())?.get().into(),
        },
        Kind::Rate => parse_rate(text).map_err(|why| why.to_string())?.as_bps().into(),
        Kind::Words(words) if words.contains(&text) => text.into(),
        Kind::Words(words) => return wrong(&format!("one of {}", words.join(", "))),
        Kind::WordOrSpan(word, _) if *word == text => text.into(),
        Kind::WordsOrSpan(words, _) if words.contains(&text) => text.into(),
        Kind::WordOrSpan(_, key) | Kind::WordsOrSpan(_, key) => {
            json!({ *key: parse_span(text).map_err(|why| why.to_string())?.as_ps() })
        }
        Kind::Table(_) if text == "true" => json!({}),
        Kind::Name
        | Kind::Table(_)
        | Kind::List(_)
        | Kind::Drawn(_)
        | Kind::Pair(..)
        | Kind::Choice(_) => return Err("cannot be given as text".into()),
    })
}

#[cfg(test)]
mod tests {
    use narrows_qdisc::{codel, fq_codel, red};
    use narrows_units::{Bytes, Span};

    use super::*;

    #[test]
    fn settings_have_their_units() {
        let read = read("fq-codel  target=7ms ecn=true\tlimit=50").expect("it is sound");
        let config = fq_codel::Config {
            target: Span::from_ms(7),
            ecn: true,
            limit: 50,
            ..fq_codel::Config::default()
        };
        assert_eq!(read, AnyConfig::from(config));
        let codel = super::read("codel").expect("it needs no settings");
        assert_eq!(codel, codel::Config::default().into());
    }

    #[test]
    fn every_queue_can_be_named_with_what_it_requires() {
        for listed in AnyConfig::LISTED {
            if let Err(why) = read(listed.name) {
                assert!(why.ends_with("is missing"), "{}: {why}", listed.name);
            }
        }
        let red = read("red limit=400000 min=30000 max=90kB avpkt=1000 burst=55").expect("sound");
        let AnyConfig::Red(red) = red else { panic!("{red:?}") };
        assert_eq!(red, red::linux::Config { max: Some(Bytes::new(90_000)), ..red });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("", "queue: has no name"),
            ("codle", "queue: there is no \"codle\"; hint: one of pfifo, "),
            ("codel limit", "queue: \"limit\" is no setting; hint: such as limit=100, without"),
            ("codel depth=1", "queue: codel has no depth; hint: it has "),
            ("codel limit=-1", "queue.limit: \"-1\" is not a whole number"),
            ("codel limit=99999999999999999999", "queue.limit: \"99999999999999999999\" is not a"),
            ("codel limit=5000000000", "queue: "),
            ("codel target=5", "queue.target: "),
            ("codel ecn=yes", "queue.ecn: \"yes\" is not true or false"),
            ("codel limit=1 limit=2", "queue.limit: is there twice"),
            ("blue increment=nan", "queue.increment: \"nan\" is not a number"),
            ("bfifo", "queue.limit: is missing"),
            ("prio bands=x", "queue.bands: cannot be given as text"),
        ];
        for (text, begins) in cases {
            let why = read(text).expect_err(text);
            assert!(why.starts_with(begins), "{text}: {why}");
        }
    }
}
