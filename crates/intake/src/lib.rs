//! Measurements that others made, as tables: RIPE Atlas results, packet captures and dnstap.
//!
//! Every reader here takes foreign bytes. It never panics, and it reads a file in one pass. It
//! counts by kind what it cannot use ([`Skipped`]) instead of dropping it silently. Memory is
//! bounded by constants of the readers (for a record, for the connections open at a time, for a
//! chunk of rows), not by the length of the file.

pub mod atlas;
pub mod capture;
mod columns;
mod input;
pub mod json;
mod skipped;
mod target;

pub use columns::{Column, Columns, Names, Texts};
pub use input::{Counted, decompressed};
pub use skipped::{Skip, Skipped};
