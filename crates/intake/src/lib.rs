//! Measurements that others made, as tables: RIPE Atlas results, packet captures and dnstap.
//!
//! Every reader here takes foreign bytes. It never panics, it reads a file in one pass, and what it
//! cannot use it counts by kind ([`Skipped`]) instead of dropping it silently. Memory is bounded by
//! constants of the readers (a record, the connections that are open at a time, a chunk of rows),
//! not by the length of the file.

pub mod atlas;
pub mod capture;
mod columns;
mod input;
pub mod json;
mod skipped;

pub use columns::{Column, Columns, Names, Texts};
pub use input::{Counted, decompressed};
pub use skipped::{Skip, Skipped};
