//! Results as tables: named columns of numbers or names.

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
    Text(Vec<String>),
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
            Self::Text(values) => values.len(),
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
                (Column::Text(mine), Column::Text(theirs)) => mine.extend(theirs),
                _ => panic!("column {name} has two types"),
            }
        }
    }
}

/// Builds a table's columns from rows.
#[doc(hidden)]
#[macro_export]
macro_rules! __columns {
    ($rows:expr, $($name:literal: $kind:ident = |$row:pat_param| $value:expr),+ $(,)?) => {
        vec![$(($name, $crate::table::Column::$kind($rows.iter().map(|$row| $value).collect()))),+]
    };
}
pub use __columns as columns;
