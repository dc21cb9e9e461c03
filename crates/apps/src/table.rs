//! Results as tables: named columns of numbers or names.

use std::collections::BTreeMap;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name, such as `queries`.
    pub name: &'static str,
    /// Its columns, all of one length, in order.
    pub columns: Vec<(&'static str, Column)>,
}

/// A column.
#[derive(Clone, Debug)]
pub enum Column {
    /// Numbers; NaN stands for "none".
    F64(Vec<f64>),
    /// Counts.
    U64(Vec<u64>),
    /// Counts, and row numbers of other tables.
    U32(Vec<u32>),
    /// Small counts.
    U8(Vec<u8>),
    /// Yes or no.
    Bool(Vec<bool>),
    /// Names.
    Text(Texts),
}

/// A column of names. Each different one is held once, because rows often have the same.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    codes: Vec<u32>,
    numbers: BTreeMap<String, u32>,
    last: String,
}

impl Texts {
    fn with_capacity(rows: usize) -> Self {
        Self { codes: Vec::with_capacity(rows), ..Self::default() }
    }

    /// Returns the number of each row's text.
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Returns the different texts in the order of their numbers, which is that of their first rows.
    pub fn different(&self) -> Vec<&str> {
        let mut found = vec![""; self.numbers.len()];
        for (text, &number) in &self.numbers {
            found[number as usize] = text;
        }
        found
    }

    /// Returns each row's text.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let different = self.different();
        self.codes.iter().map(move |&code| different[code as usize])
    }

    fn push(&mut self, text: impl AsRef<str> + Into<String>) {
        let code = match self.codes.last() {
            // Neighbouring rows are often alike. For texts this short, a loop beats `memcmp`.
            Some(&code) if text.as_ref().bytes().eq(self.last.bytes()) => code,
            _ => {
                let new = self.numbers.len() as u32;
                self.last = text.into();
                *self.numbers.entry(self.last.clone()).or_insert(new)
            }
        };
        self.codes.push(code);
    }
}

impl<T: AsRef<str> + Into<String>> Extend<T> for Texts {
    fn extend<I: IntoIterator<Item = T>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push(text));
    }
}

impl<T: AsRef<str> + Into<String>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut column = Self::default();
        column.extend(texts);
        column
    }
}

impl<const N: usize> PartialEq<[&str; N]> for Texts {
    fn eq(&self, other: &[&str; N]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

impl Column {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text(values) => values.codes.len(),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    /// Adds the rows of a table with the same columns.
    ///
    /// # Panics
    ///
    /// Panics if its columns differ.
    pub fn append(&mut self, other: Self) {
        let counts = (self.columns.len(), other.columns.len());
        assert_eq!(counts.0, counts.1, "tables named {} have the same columns", self.name);
        for ((name, mine), (other_name, theirs)) in self.columns.iter_mut().zip(other.columns) {
            assert_eq!(*name, other_name, "tables of the same name have the same columns");
            match (mine, theirs) {
                (Column::F64(mine), Column::F64(theirs)) => mine.extend(theirs),
                (Column::U64(mine), Column::U64(theirs)) => mine.extend(theirs),
                (Column::U32(mine), Column::U32(theirs)) => mine.extend(theirs),
                (Column::U8(mine), Column::U8(theirs)) => mine.extend(theirs),
                (Column::Bool(mine), Column::Bool(theirs)) => mine.extend(theirs),
                (Column::Text(mine), Column::Text(theirs)) => mine.extend(theirs.iter()),
                _ => panic!("column {name} has two types"),
            }
        }
    }
}

/// The declaration of a table. Run folders and their documents follow it.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The table's name.
    pub name: &'static str,
    /// What a row represents, as text with Markdown.
    pub about: &'static str,
    /// Its columns, in order.
    pub columns: &'static [ColumnHead],
}

/// The declaration of a column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnHead {
    /// Its name.
    pub name: &'static str,
    /// The type of its values, as run folders name it.
    pub kind: &'static str,
    /// Their unit; empty for names, flags and row numbers.
    pub unit: &'static str,
    /// Its meaning, as text with Markdown.
    pub about: &'static str,
    /// `null` if a row of a run folder may have no value, and `added` if folders of earlier
    /// versions may lack the column.
    pub notes: &'static [&'static str],
}

/// A type of the values of a column.
pub trait Cell: Sized {
    /// Its name in run folders.
    const KIND: &'static str;
    /// A column while it is filled.
    type Values;

    /// Returns an empty column with room for some rows.
    fn room(rows: usize) -> Self::Values;

    /// Adds a row.
    fn push(self, values: &mut Self::Values);

    /// Makes a column.
    fn column(values: Self::Values) -> Column;
}

macro_rules! cells {
    ($($type:ty: $variant:ident($values:ty) = $kind:literal;)+) => {$(
        impl Cell for $type {
            const KIND: &'static str = $kind;
            type Values = $values;

            fn room(rows: usize) -> $values {
                <$values>::with_capacity(rows)
            }

            #[inline]
            fn push(self, values: &mut $values) {
                values.push(self);
            }

            fn column(values: $values) -> Column {
                Column::$variant(values)
            }
        }
    )+};
}

cells! {
    f64: F64(Vec<f64>) = "f64";
    u64: U64(Vec<u64>) = "u64";
    u32: U32(Vec<u32>) = "u32";
    u8: U8(Vec<u8>) = "u8";
    bool: Bool(Vec<bool>) = "bool";
    String: Text(Texts) = "string";
    &'static str: Text(Texts) = "string";
}

/// Declares the rows of a table: each column with its meaning, name, type, unit and notes
/// ([`ColumnHead::notes`]). It generates the struct of a row, its `HEAD`, and a function `table`
/// that makes a [`Table`] of rows. NaN stands for "none".
#[doc(hidden)]
#[macro_export]
macro_rules! __rows {
    (
        $(#[doc = $about:literal])+
        $visible:vis struct $name:ident as $table:literal {
            $(
                $(#[doc = $means:literal])+
                $column:ident: $type:ty [$unit:literal $(, $note:ident)*];
            )+
        }
    ) => {
        $(#[doc = $about])+
        $visible struct $name {
            $($(#[doc = $means])+ $visible $column: $type,)+
        }

        impl $name {
            /// The table's declaration.
            $visible const HEAD: $crate::table::Head = $crate::table::Head {
                name: $table,
                about: concat!($($about, "\n"),+),
                columns: &[$($crate::table::ColumnHead {
                    name: stringify!($column),
                    kind: <$type as $crate::table::Cell>::KIND,
                    unit: $unit,
                    about: concat!($($means, "\n"),+),
                    notes: &[$(stringify!($note)),*],
                }),+],
            };

            /// Makes the table.
            $visible fn table(rows: impl Iterator<Item = Self>) -> $crate::table::Table {
                $(let mut $column = <$type as $crate::table::Cell>::room(rows.size_hint().0);)+
                for row in rows {
                    $($crate::table::Cell::push(row.$column, &mut $column);)+
                }
                let columns = vec![$((
                    stringify!($column),
                    <$type as $crate::table::Cell>::column($column),
                )),+];
                $crate::table::Table { name: $table, columns }
            }
        }
    };
}
pub use __rows as rows;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_held_once_and_numbered_by_its_first_row() {
        let mut texts: Texts = ["", "b", "b", "a", "", "ba"].into_iter().collect();
        assert_eq!(texts.codes(), [0, 1, 1, 2, 0, 3]);
        assert_eq!(texts.different(), ["", "b", "a", "ba"]);
        texts.extend(["a", "c"]);
        assert_eq!(texts, ["", "b", "b", "a", "", "ba", "a", "c"]);
        assert_eq!(texts.codes()[6..], [2, 4]);
    }
}
