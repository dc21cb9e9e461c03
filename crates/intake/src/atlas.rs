//! Results of RIPE Atlas DNS measurements as rows.
//!
//! Source: RIPE's result-format documentation for firmware 4400 to 5000 and later, and the probe's
//! `evtdig.c` (ripe-atlas-software-probe). Three forms are read: what the API gives, what the
//! daily dumps hold, and what a probe itself prints (`RESULT { ... }`, with `time` for
//! `timestamp`). Keys that this reader does not know do not matter, so that firmware of the future
//! is read as far as it keeps to the past.
//!
//! A result with a `resultset` gives one row for each of its elements. Times are the probe's: `rt`
//! of TCP holds the handshake, `qt` (since 2019) does not.

mod meaning;
mod record;
mod rows;

pub use rows::{AtlasChunk, AtlasReader};
