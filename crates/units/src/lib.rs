//! Physical quantities as types: instants ([`Time`]) and durations ([`Span`]) in integer
//! picoseconds, [`Rate`] in bits per second, [`Bytes`].
//!
//! Integers make a simulation reproducible to the bit. Picoseconds make the time to send any whole
//! number of bytes exact at the usual link rates (1 byte at 10 Gbit/s is 800 ps). Two instants
//! cannot be added, and a rate is not a number of bytes: such mistakes do not compile.
#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bytes;
mod config_error;
mod ecn;
mod maybe_time;
mod parse;
mod print;
mod rate;
pub mod settings;
mod time;

pub use bytes::Bytes;
pub use config_error::ConfigError;
pub use ecn::Ecn;
pub use maybe_time::MaybeTime;
pub use parse::{ParseError, parse_bytes, parse_rate, parse_span};
pub use rate::{Pace, Rate};
pub use time::{Span, Time};

/// A digest of this crate's sources, which `build.rs` makes.
#[doc(hidden)]
pub const SOURCES: &str = env!("NARROWS_SOURCES");
