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
    /// Counts and row numbers.
    U32(Vec<u32>),
    /// Small counts.
    U8(Vec<u8>),
    /// Yes or no.
    Bool(Vec<bool>),
    /// Names.
    Text(Vec<String>),
}

impl Column {
    /// The number of rows.
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

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Builds a table's columns from rows.
macro_rules! columns {
    ($rows:expr, $($name:literal: $kind:ident = |$row:pat_param| $value:expr),+ $(,)?) => {
        vec![$(($name, $crate::table::Column::$kind($rows.iter().map(|$row| $value).collect()))),+]
    };
}
pub(crate) use columns;
