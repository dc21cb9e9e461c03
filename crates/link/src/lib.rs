#![doc = include_str!("../README.md")]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod link;
mod settings;
pub mod trace;
pub mod transmitter;

pub use self::config::{Change, Config};
pub use self::link::{Counters, Fate, Link, Outcome, Packet, PushError};
pub use self::settings::{Distribution, Framing, GilbertElliott, Jitter, LinkState, Loss, Ring};

/// A digest of this crate's sources, which `build.rs` makes.
#[doc(hidden)]
pub const SOURCES: &str = env!("NARROWS_SOURCES");
