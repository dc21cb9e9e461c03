//! Reads a plan from JSON, with less code than serde_json needs for it.
//!
//! The code that serde derives reads a struct as an object, and once more as an array of its fields.
//! serde_json accepts both. This reader accepts objects alone, so that browsers do not load the rest.
//! Numbers with a fraction and escaped texts are left to serde_json, and so are the same.

use serde::de::{self, DeserializeSeed, Deserializer, Error as _, Visitor};
use serde_json::Error;

/// As deep as in serde_json.
const DEEPEST: u32 = 128;

/// Reads a value.
///
/// # Errors
///
/// Returns one line if the text is not one such value.
pub(crate) fn read<T: de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = T::deserialize(&mut reader)?;
    reader.peek();
    if reader.at == text.len() { Ok(value) } else { Err(reader.not("the end")) }
}

struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: u32,
}

impl<'de> Reader<'de> {
    /// The next byte that is no space; 0 at the end.
    fn peek(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn not(&self, what: &str) -> Error {
        Error::custom(format_args!("expected {what} at byte {}", self.at))
    }

    fn take(&mut self, byte: u8, what: &str) -> Result<(), Error> {
        if self.peek() != byte {
            return Err(self.not(what));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), Error> {
        self.peek();
        if !self.text[self.at..].starts_with(word) {
            return Err(self.not("a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn flag(&mut self) -> Result<bool, Error> {
        let yes = self.peek() == b't';
        self.word(if yes { "true" } else { "false" })?;
        Ok(yes)
    }

    /// The characters of a number.
    fn number(&mut self) -> Result<&'de str, Error> {
        self.peek();
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        // Rust reads `+1` and `01` as numbers, and JSON does not.
        let digits = rest[..length].trim_start_matches('-').as_bytes();
        if matches!(digits, [] | [b'+', ..] | [b'0', b'0'..=b'9', ..]) {
            return Err(self.not("a number"));
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.take(b'"', "a text")?;
        let begin = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        while *bytes.get(self.at).ok_or_else(|| self.not("a quote"))? != b'"' {
            let escape = bytes[self.at] == b'\\';
            escaped |= escape;
            self.at += 1 + usize::from(escape);
        }
        self.at += 1;
        if escaped {
            return visitor.visit_string(serde_json::from_str(&self.text[begin - 1..self.at])?);
        }
        visitor.visit_borrowed_str(&self.text[begin..self.at - 1])
    }

    /// Reads what is between brackets.
    fn inside<T>(
        &mut self,
        [open, close]: [u8; 2],
        what: &str,
        read: impl FnOnce(&mut Items<'_, 'de>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.take(open, what)?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.not("less depth"));
        }
        let value = read(&mut Items { reader: self, close, first: true })?;
        self.depth -= 1;
        self.take(close, "the end of a list")?;
        Ok(value)
    }
}

/// The entries of an array or an object.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    close: u8,
    first: bool,
}

impl Items<'_, '_> {
    /// Whether there is another one.
    fn more(&mut self) -> Result<bool, Error> {
        if self.reader.peek() == self.close {
            return Ok(false);
        }
        if !std::mem::take(&mut self.first) {
            self.reader.take(b',', "a comma")?;
        }
        Ok(true)
    }
}

impl<'de> de::SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.more()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

impl<'de> de::MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if self.more()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        self.reader.take(b':', "a colon")?;
        seed.deserialize(&mut *self.reader)
    }
}

/// A variant: a text, or the only key of an object, whose value has the variant's content.
impl<'de> de::EnumAccess<'de> for &mut Reader<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(&mut *self)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Reader<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.take(b':', "a colon")?;
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.take(b':', "a colon")?;
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.take(b':', "a colon")?;
        self.deserialize_map(visitor)
    }
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let text = self.number()?;
            if let Ok(value) = text.parse() {
                return visitor.visit_u64(value);
            }
            visitor.visit_i64(text.parse().map_err(|_| self.not("a whole number"))?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            b'{' => self.deserialize_map(visitor),
            b'[' => self.deserialize_seq(visitor),
            b'"' => self.string(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            b'n' => self.deserialize_unit(visitor),
            _ => {
                let rest = self.number()?;
                match rest.parse() {
                    Ok(value) => visitor.visit_u64(value),
                    Err(_) => visitor.visit_f64(serde_json::from_str(rest)?),
                }
            }
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(serde_json::from_str(self.number()?)?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.flag()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.string(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.string(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.word("null")?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != b'n' {
            return visitor.visit_some(self);
        }
        self.word("null")?;
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.inside(*b"[]", "an array", |items| visitor.visit_seq(items))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.inside(*b"{}", "an object", |items| visitor.visit_map(items))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.peek() == b'"' {
            return visitor.visit_enum(self);
        }
        self.inside(*b"{}", "a variant", |items| visitor.visit_enum(&mut *items.reader))
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit_struct tuple_struct ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        name: String,
        #[serde(default)]
        number: f64,
        #[serde(default)]
        count: Option<u64>,
        #[serde(default)]
        below: i32,
        #[serde(default)]
        kinds: Vec<Kind>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Plain,
        One(f64),
        Two(u8, bool),
        Named { of: Box<Thing> },
        Any(Any),
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(untagged)]
    enum Any {
        Whole(u64),
        Number(f64),
        Text(String),
        Flags(Vec<bool>),
        Nothing(()),
    }

    #[test]
    fn reads_what_serde_json_reads_to_the_last_bit() {
        for text in [
            r#"{"name":"a"}"#,
            " { \"name\" : \"\" ,\n\"number\"\t: -0.0 , \"count\": null }\r\n",
            r#"{"name":"\"\\\n\u00e9\ud83d\ude00/ü","count":18446744073709551615,"below":-2147483648}"#,
            r#"{"name":"n","number":0.30000000000000004}"#,
            r#"{"name":"n","number":123456789012345678901234567890}"#,
            r#"{"name":"n","number":1.7976931348623157e308}"#,
            r#"{"name":"n","number":4.9406564584124654e-324,"below":-7}"#,
            r#"{"name":"n","number":7}"#,
            r#"{"name":"k","kinds":["plain",{"one":2},{"two":[3,true]},{"named":{"of":{"name":"b"}}}]}"#,
            r#"{"name":"u","kinds":[{"any":1},{"any":-1},{"any":1e3},{"any":"t"},{"any":[true,false]},{"any":null}]}"#,
        ] {
            let ours: Thing = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let theirs: Thing = serde_json::from_str(text).expect("it is JSON of a thing");
            assert_eq!(ours, theirs, "{text}");
            assert_eq!(ours.number.to_bits(), theirs.number.to_bits(), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_json_of_the_type_in_one_line() {
        let deep = r#"{"name":"a","kinds":[{"named":{"of":"#.repeat(100_000);
        for text in [
            "",
            "{",
            "[\"a\"]",
            "null",
            r#"{"name":"a""#,
            r#"{"name":"a"}}"#,
            "{\"name\":\"a\"}\0more",
            r#"{"name":"a","count":+1}"#,
            r#"{"name":"a","count":007}"#,
            r#"{"name":"a","below":-01}"#,
            r#"{"name":"a",}"#,
            r#"{"name":"a" "count":1}"#,
            r#"{"name":"a","count" 1}"#,
            r#"{"name":"a","count":-1}"#,
            r#"{"name":"a","count":1.5}"#,
            r#"{"name":"a","count":18446744073709551616}"#,
            r#"{"name":"a","below":2147483648}"#,
            r#"{"name":"a","number":1e999}"#,
            r#"{"name":"a","number":tru}"#,
            r#"{"name":"a","more":1}"#,
            r#"{"name":"a\"}"#,
            r#"{"name":"\ü"}"#,
            r#"{"name":"a","kinds":["none"]}"#,
            r#"{"name":"a","kinds":[{"plain":1}]}"#,
            r#"{"name":"a","kinds":["one"]}"#,
            r#"{"name":"a","kinds":[{}]}"#,
            &deep,
        ] {
            let why = read::<Thing>(text).expect_err(text).to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "{text}: {why}");
        }
    }
}
