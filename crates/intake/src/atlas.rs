//! Results of RIPE Atlas DNS measurements as rows.
//!
//! Source: RIPE's result-format documentation for firmware 4400 to 5000 and later, and the probe's
//! `evtdig.c` (ripe-atlas-software-probe). The reader takes three forms: what the API gives, what
//! the daily dumps hold, and what a probe itself prints (`RESULT { ... }`, with `time` for
//! `timestamp`). It ignores keys that it does not know, so it can read the results of future
//! firmware that keeps the present keys.
//!
//! A result with a `resultset` gives one row for each of its elements. Times are the probe's: over
//! TCP, `rt` includes the handshake and `qt` (since 2019) does not.

mod meaning;
mod record;
mod rows;

pub use rows::{AtlasChunk, AtlasReader};
