//! Columns on their way to a table.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;

/// A column of a table.
#[derive(Clone, Debug)]
pub enum Column {
    /// Numbers; NaN where a row has none.
    F64(Vec<f64>),
    /// Unsigned integers.
    U32(Vec<u32>),
    /// Small unsigned integers.
    U8(Vec<u8>),
    /// Flags.
    Bool(Vec<bool>),
    /// Names, each stored once.
    Names(Names),
}

/// Columns of one length, by name, in order.
pub type Columns = Vec<(&'static str, Column)>;

/// A column of texts that repeat: a number for each row, and each text by its number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    codes: Vec<u32>,
    texts: Texts,
    /// The number of the text with this hash; the hash is seeded at random.
    known: HashMap<u64, u32, RandomState>,
    last: u32,
}

/// Texts by number, one after the other in one piece of memory.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    whole: String,
    ends: Vec<usize>,
}

impl Names {
    /// Appends a row.
    pub fn push(&mut self, text: &str) {
        // Neighbouring rows are often alike.
        if self.texts.get(self.last) != Some(text) {
            let hash = self.known.hasher().hash_one(text);
            // A column has fewer than 2^32 rows, so 32 bits number its texts.
            let new = self.texts.len() as u32;
            let code = *self.known.entry(hash).or_insert(new);
            // If two texts have the same hash, which no file can bring about, the second is stored
            // again each time.
            let again = self.texts.get(code) == Some(text);
            self.last = if again { code } else { self.texts.push(text) };
        }
        self.codes.push(self.last);
    }

    /// Appends a row with the text that has this number.
    pub fn repeat(&mut self, code: u32) {
        self.codes.push(code);
    }

    /// Returns the number of the last row's text, if there is a row.
    pub fn last(&self) -> Option<u32> {
        self.codes.last().copied()
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Returns the bytes that the texts take.
    pub fn text_bytes(&self) -> usize {
        self.texts.whole.len()
    }

    /// Returns a row's text.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.texts.get(*self.codes.get(row)?)
    }

    /// Returns the number of each row's text, and the texts.
    pub fn into_parts(self) -> (Vec<u32>, Texts) {
        (self.codes, self.texts)
    }
}

impl Texts {
    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text with this number.
    pub fn get(&self, code: u32) -> Option<&str> {
        let code = code as usize;
        let end = *self.ends.get(code)?;
        let start = code.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.whole[start..end])
    }

    /// Returns the texts in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.whole[std::mem::replace(&mut start, end)..end])
    }

    fn push(&mut self, text: &str) -> u32 {
        self.whole.push_str(text);
        self.ends.push(self.whole.len());
        (self.ends.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_stored_once() {
        let mut names = Names::default();
        for text in ["", "b", "", "c", "c", "b"] {
            names.push(text);
        }
        names.repeat(1);
        let rows: Vec<_> = (0..8).map(|row| names.get(row)).collect();
        let wanted = ["", "b", "", "c", "c", "b", "b"].map(Some);
        assert_eq!(rows[..7], wanted);
        assert_eq!((rows[7], names.text_bytes()), (None, 2));
        let (codes, texts) = names.into_parts();
        assert_eq!(codes, [0, 1, 0, 2, 2, 1, 1]);
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["", "b", "c"]);
    }
}
