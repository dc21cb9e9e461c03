//! Columns on their way to a table.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
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

/// A column of texts that repeat: a number for each row, and the texts by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    codes: Vec<u32>,
    texts: Vec<String>,
    known: HashMap<String, u32, RandomState>,
    last: u32,
}

impl Names {
    /// Appends a row.
    pub fn push(&mut self, text: &str) {
        // Rows that stand together are often alike.
        if self.texts.get(self.last as usize).is_some_and(|last| last == text) {
            self.codes.push(self.last);
            return;
        }
        let code = match self.known.get(text) {
            Some(&code) => code,
            None => {
                // A column has fewer than 2^32 rows, so its texts have numbers.
                let code = self.texts.len() as u32;
                self.texts.push(text.to_owned());
                self.known.insert(text.to_owned(), code);
                code
            }
        };
        self.last = code;
        self.codes.push(code);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// A row's text.
    pub fn get(&self, row: usize) -> Option<&str> {
        let code = *self.codes.get(row)?;
        Some(&self.texts[code as usize])
    }

    /// The number of each row's text, and the texts.
    pub fn into_parts(self) -> (Vec<u32>, Vec<String>) {
        (self.codes, self.texts)
    }
}
