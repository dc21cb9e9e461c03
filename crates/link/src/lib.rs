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
