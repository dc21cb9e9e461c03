//! A result as it is in JSON: every key is optional, and types are taken as loosely as probes give
//! them (`fw` is a number or a text, depending on the firmware).

use core::fmt;
use core::marker::PhantomData;
use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A result, with a `resultset` of the type `S`. An element of a `resultset` has none itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>, 'de: 'a"))]
pub(super) struct Record<'a, S> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Text<'a>>,
    pub(super) fw: Option<Number>,
    pub(super) prb_id: Option<Number>,
    pub(super) p_probe_id: Option<Number>,
    pub(super) msm_id: Option<Number>,
    pub(super) timestamp: Option<Number>,
    pub(super) time: Option<Number>,
    pub(super) lts: Option<Number>,
    pub(super) af: Option<Number>,
    #[serde(borrow)]
    pub(super) proto: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) dst_addr: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) dst_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) dst_port: Option<Number>,
    #[serde(borrow)]
    pub(super) src_addr: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) sslvers: Option<Text<'a>>,
    pub(super) retry: Option<Number>,
    pub(super) subid: Option<Number>,
    #[serde(borrow)]
    pub(super) qbuf: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) result: Option<Object<Answer<'a>>>,
    /// Early results hold the reply's time beside the reply, not in it.
    #[serde(rename = "result-rt")]
    pub(super) result_rt: Option<Number>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
    pub(super) resultset: Option<S>,
}

/// The elements of a `resultset`: one for each resolver of a probe.
#[derive(Debug, Default)]
pub(super) struct Elements<'a>(pub(super) Vec<Object<Record<'a, IgnoredAny>>>);

/// More resolvers than any probe has. A longer list is refused, because a short text could fill the
/// memory with empty elements.
const MAX_ELEMENTS: usize = 64;

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfElements;
        impl<'de> Visitor<'de> for OfElements {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a resultset of at most {MAX_ELEMENTS} elements")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Elements<'de>, A::Error> {
                let mut found = Vec::new();
                while let Some(element) = seq.next_element()? {
                    if found.len() == MAX_ELEMENTS {
                        return Err(de::Error::invalid_length(MAX_ELEMENTS + 1, &self));
                    }
                    found.push(element);
                }
                Ok(Elements(found))
            }
        }
        from.deserialize_seq(OfElements)
    }
}

/// What came back: a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer<'a> {
    pub(super) rt: Option<Number>,
    pub(super) qt: Option<Number>,
    pub(super) size: Option<Number>,
    #[serde(rename = "ANCOUNT")]
    pub(super) ancount: Option<Number>,
    pub(super) retry: Option<Number>,
    #[serde(borrow)]
    pub(super) abuf: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) answers: Option<First<'a>>,
}

/// The first of the records that some probes decode themselves. Its data is its first text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct First<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) kind: Cow<'a, str>,
    pub(super) data: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Decoded<'a> {
            #[serde(rename = "NAME", borrow)]
            name: Option<Loose<'a>>,
            #[serde(rename = "TYPE", borrow)]
            kind: Option<Loose<'a>>,
            #[serde(rename = "RDATA", borrow)]
            data: Option<Loose<'a>>,
        }
        struct OfAnswers;
        impl<'de> Visitor<'de> for OfAnswers {
            type Value = First<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of records")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<First<'de>, A::Error> {
                let Some(Object(first)) = seq.next_element::<Object<Decoded<'de>>>()? else {
                    return Ok(First::default());
                };
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                let text = |loose: Option<Loose<'de>>| loose.map_or("".into(), |Loose(text)| text);
                let (name, kind) = (text(first.name), text(first.kind));
                Ok(First { name, kind, data: text(first.data) })
            }
        }
        from.deserialize_seq(OfAnswers)
    }
}

/// An object in JSON, not a list: serde would take a list's values for the keys in order.
#[derive(Debug, Default)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfObject<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Object)
            }
        }
        from.deserialize_map(OfObject(PhantomData))
    }
}

/// A number that may have been written as a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfNumber;
        impl Visitor<'_> for OfNumber {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Number, E> {
                let number = value.trim().parse().map(Number);
                number.map_err(|_| E::invalid_type(de::Unexpected::Str(shortened(value)), &self))
            }
        }
        from.deserialize_any(OfNumber)
    }
}

/// A text, or a number in the place of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfText;
        impl<'de> Visitor<'de> for OfText {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(value)))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(value.to_owned())))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(value.to_string())))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(value.to_string())))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(if value { "true" } else { "false" })))
            }
        }
        from.deserialize_any(OfText)
    }
}

/// An `error` object: its keys, and their values as texts. A text instead of an object is a key
/// without a value.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Failure<'a>(pub(super) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Failure<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfFailure;
        impl<'de> Visitor<'de> for OfFailure {
            type Value = Failure<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an error as an object or a text")
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Failure<'de>, E> {
                Ok(Failure(vec![(value.to_owned().into(), "".into())]))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Failure<'de>, A::Error> {
                let mut found = Vec::new();
                while let Some(Text(key)) = map.next_key()? {
                    let Loose(value) = map.next_value()?;
                    // An error has one or two keys. The rest of a hostile one is read and dropped.
                    if found.len() < 8 {
                        found.push((key, value));
                    }
                }
                Ok(Failure(found))
            }
        }
        from.deserialize_any(OfFailure)
    }
}

/// Any value as a text: an array gives its first element, an object gives nothing.
struct Loose<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OfAny;
        impl<'de> Visitor<'de> for OfAny {
            type Value = Loose<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Borrowed(value)))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Owned(value.to_owned())))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Owned(value.to_string())))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Owned(value.to_string())))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Owned(value.to_string())))
            }
            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Borrowed("")))
            }
            fn visit_unit<E: de::Error>(self) -> Result<Loose<'de>, E> {
                Ok(Loose(Cow::Borrowed("")))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose<'de>, A::Error> {
                let first = seq.next_element::<Loose<'de>>()?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(first.unwrap_or(Loose(Cow::Borrowed(""))))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Loose(Cow::Borrowed("")))
            }
        }
        from.deserialize_any(OfAny)
    }
}

/// The type of a result whose other keys make no sense as DNS.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Text<'a>>,
}

/// Returns at most 40 bytes of a text, for messages.
pub(super) fn shortened(text: &str) -> &str {
    let mut end = text.len().min(40);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
